"""Options as words of `memc optimize`, so that the command and the module read one set of options."""

import difflib
import os

from memc import _memc
from memc._errors import UsageError

# Options that make the command print or write for a person; results have attributes instead.
_OF_THE_COMMAND = {"dump_dir", "json", "log_plans", "print_ir_after", "quiet", "session", "time_passes"}
# Options whose keywords have other names.
NAMES = {"dim": "dims"}
_BY_KEYWORD = {keyword: option for option, keyword in NAMES.items()}


def words(options):
    """Returns the words that state options: None and False state nothing, True a word without a value, lists and
    dictionaries a word for each item."""
    found = []
    for name, value in options.items():
        if name in _OF_THE_COMMAND:
            raise TypeError(f"`{name}` is an option of the command only")
        option = "--" + _BY_KEYWORD.get(name, name).replace("_", "-")
        if option[2:] not in _memc.OPTIONS:
            raise _unknown(name)
        found += [option if text is None else f"{option}={text}" for text in _values(name, value)]
    return found


def _unknown(name):
    """Returns the exception for a keyword that no option has, with the nearest one."""
    known = [NAMES.get(option, option.replace("-", "_")) for option in _memc.OPTIONS]
    near = difflib.get_close_matches(name, [keyword for keyword in known if keyword not in _OF_THE_COMMAND], 1)
    help = f"did you mean `{near[0]}`?" if near else "`memc optimize --help` lists all options: keywords have underscores"
    return UsageError(f"there is no keyword `{name}`", "E0306", help, exit_code=2)


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
