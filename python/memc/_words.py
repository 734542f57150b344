"""Messages of the command in the words of Python: `--dim batch=8` is `dims={"batch": 8}`."""

import re

from memc._options import NAMES

# A span of code that states options, and an option with its value.
_SPAN = re.compile(r"`(--[a-z][^`]*)`")
_OPTION = re.compile(r"--(?P<name>[a-z][a-z-]*[a-z])(?:[ =](?P<value>[^\s-][^\s]*))?")
# Options whose values are pairs: dictionaries in Python.
_PAIRS = {"assume", "dim", "state"}


def spoken(text):
    """Returns a message with keywords in place of options, in spans of code."""
    return None if text is None else _SPAN.sub(lambda span: f"`{_keywords(span[1])}`", text)


def _keywords(options):
    """Returns the keywords of a call for a line of options; the line itself if it has other words."""
    found, position = {}, 0
    for option in _OPTION.finditer(options):
        if options[position : option.start()].strip():
            return options
        found.setdefault(option["name"], []).append(option["value"])
        position = option.end()
    if options[position:].strip() or not found:
        return options
    return ", ".join(_keyword(name, values) for name, values in found.items())


def _keyword(name, values):
    keyword = NAMES.get(name, name.replace("-", "_"))
    # Quotes are the shell's.
    values = [value and value.strip("'\"") for value in values]
    pairs = [value.rsplit("=", 1) for value in values if value]
    if name in _PAIRS and len(pairs) == len(values) and all(len(pair) == 2 for pair in pairs):
        return keyword + "={" + ", ".join(f'"{of}": {_literal(value)}' for of, value in pairs) + "}"
    if name in _PAIRS and pairs:
        # A name alone.
        return keyword + "={" + ", ".join(f'"{pair[0]}": ...' for pair in pairs) + "}"
    if values == [None]:
        return keyword
    return f"{keyword}={_literal(values[0])}" if len(values) == 1 else f"{keyword}=[{', '.join(map(_literal, values))}]"


def _literal(value):
    # Words in capitals stand for values.
    return value if re.fullmatch(r"\d+|[A-Z]+", value) else '"' + value + '"'
