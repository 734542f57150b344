"""Stock sessions of ONNX Runtime that keep a plan."""

from os import PathLike
from typing import Any, Mapping, Optional, Sequence, Union

_Path = Union[str, "PathLike[str]"]

def recipe(layout: object, recipe: str = "smallest") -> str: ...
def session_options(
    planned: object,
    recipe: str = "smallest",
    *,
    layout: Union[object, Mapping[str, Any], _Path, None] = None,
    ops_library: Optional[_Path] = None,
    count: bool = False,
) -> Any: ...
def session(
    planned: object,
    recipe: str = "fast",
    *,
    layout: Union[object, Mapping[str, Any], _Path, None] = None,
    providers: Sequence[Any] = ("CPUExecutionProvider",),
    ops_library: Optional[_Path] = None,
    count: bool = True,
    **arguments: Any,
) -> Any: ...
