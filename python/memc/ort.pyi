"""Stock sessions of ONNX Runtime that keep a plan."""

from os import PathLike
from contextlib import AbstractContextManager
from typing import Any, Callable, Hashable, List, Mapping, Optional, Sequence, Tuple, Union

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

class Replay:
    block: int
    misses: int
    def __init__(
        self, take: Callable[[int], Optional[int]], give_back: Callable[[int], object], unit: int = 256
    ) -> None: ...
    @property
    def peak(self) -> int: ...
    def addresses(self) -> Tuple[int, int]: ...
    def run(self, key: Hashable = None) -> AbstractContextManager[Replay]: ...
    def allocate(self, bytes: int) -> Optional[int]: ...
    def free(self, address: Optional[int]) -> None: ...
    def close(self) -> None: ...

class Replayed:
    session: Any
    replay: Replay
    def __init__(self, session: Any, replay: Replay) -> None: ...
    def run(self, names: Optional[Sequence[str]], inputs: Mapping[str, Any], options: Any = None) -> List[Any]: ...
    @property
    def block(self) -> int: ...
    @property
    def peak(self) -> int: ...
    @property
    def misses(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Replayed: ...
    def __exit__(self, *_: object) -> None: ...

def replay(
    planned: object,
    *,
    layout: Union[object, Mapping[str, Any], _Path, None] = None,
    recipe: str = "smallest",
    device: int = 0,
    library: Optional[_Path] = None,
    options: Optional[Mapping[str, str]] = None,
    **arguments: Any,
) -> Replayed: ...
def reserve(
    planned: object, *, layout: Union[object, Mapping[str, Any], _Path, None] = None, doubling: bool = True
) -> int: ...
