"""Exceptions of memc, by code."""


class Error(Exception):
    """A request that memc refuses.

    `code` is the code that `memc explain` knows, `help` the advice, `notes` further lines, and `exit_code` the
    exit code of the command: 1 bad model or file, 2 wrong use, 3 limit exceeded, 70 a defect of memc.
    """

    def __init__(self, message, code="", help=None, notes=(), exit_code=1):
        super().__init__(message)
        self.message = message
        self.code = code
        self.help = help
        self.notes = list(notes)
        self.exit_code = exit_code

    def __str__(self):
        lines = [f"{self.message} [{self.code}]" if self.code else self.message]
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"help: {self.help}"] if self.help else []
        return "\n".join(lines)

    def __reduce__(self):
        return type(self)._again, (type(self), dict(self.__dict__))

    @staticmethod
    def _again(kind, state):
        made = kind.__new__(kind, state["message"])
        made.__dict__.update(state)
        return made


class UsageError(Error, ValueError):
    """Options that are unknown, contradict each other, or do not fit the model (exit code 2)."""


class BudgetError(Error):
    """A limit of bytes or time that no plan keeps (exit code 3).

    `smallest` is the smallest arena that was found, in bytes: a budget of this size is kept. It is None if the
    limit is that of the target's weights.
    """

    def __init__(self, message, code="", help=None, notes=(), exit_code=3, smallest=None):
        super().__init__(message, code, help, notes, exit_code)
        self.smallest = smallest


def error(code, message, help, notes, exit_code, smallest):
    """Returns the exception for a failure of the compiled part, in the words of Python."""
    # Imported late: options name exceptions of this module.
    from memc._words import spoken

    message, help, notes = spoken(message), spoken(help), [spoken(note) for note in notes]
    if exit_code == 3:
        return BudgetError(message, code, help, notes, exit_code, smallest)
    kind = UsageError if exit_code == 2 else Error
    return kind(message, code, help, notes, exit_code)
