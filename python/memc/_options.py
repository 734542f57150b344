"""Options as words of `memc optimize`, so that the command and the module read one set of options."""

import os

# Options that make the command print or write for a person; results have attributes instead.
_OF_THE_COMMAND = {"dump_dir", "json", "log_plans", "print_ir_after", "quiet", "session", "time_passes"}
# Keywords that are not the names of their options.
_NAMES = {"dims": "dim"}


def words(options):
    """Returns the words that state options: None and False state nothing, True a word without a value, lists and
    dictionaries a word for each item."""
    found = []
    for name, value in options.items():
        if name in _OF_THE_COMMAND:
            raise TypeError(f"`{name}` is an option of the command only")
        option = "--" + _NAMES.get(name, name).replace("_", "-")
        found += [option if text is None else f"{option}={text}" for text in _values(name, value)]
    return found


def _values(name, value):
    if value is None or value is False:
        return []
    if value is True:
        return [None]
    if hasattr(value, "items"):
        return [f"{key}={_text(name, item)}" for key, item in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        # A pair of a new and an old value of state is one item.
        return ["=".join(item) if isinstance(item, tuple) else _text(name, item) for item in value]
    return [_text(name, value)]


def _text(name, value):
    if isinstance(value, bool) or value is None:
        raise TypeError(f"`{name}` does not take {value}")
    if isinstance(value, (list, tuple)):
        # A shape.
        return "x".join(str(extent) for extent in value)
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    return str(value)
