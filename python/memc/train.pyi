"""Training in stock sessions of ONNX Runtime."""

from os import PathLike
from typing import Any, Callable, Iterable, List, Mapping, Optional, Sequence, Union

_Path = Union[str, "PathLike[str]"]

class Trainer:
    session: Any
    state_names: List[str]
    output_names: List[str]
    accumulate: int
    updates: int
    calls: int
    loss_scale: float
    def __init__(
        self,
        step: _Path,
        *,
        accumulate: int = 1,
        options: Optional[Any] = None,
        providers: Sequence[Any] = ("CPUExecutionProvider",),
    ) -> None: ...
    def __call__(self, inputs: Mapping[str, Any], lr: float) -> Mapping[str, Any]: ...
    def fit(
        self,
        batches: Iterable[Mapping[str, Any]],
        lr: Union[float, Callable[[int], float]],
        progress: Optional[Callable[[int, float], None]] = None,
    ) -> List[float]: ...
    @property
    def state(self) -> Mapping[str, Any]: ...
    def save(self, path: _Path) -> None: ...
    def load(self, path: _Path) -> None: ...
