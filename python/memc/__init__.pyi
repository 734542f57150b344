"""memc: a memory compiler for ONNX."""

from os import PathLike
from typing import Any, Callable, Dict, Generic, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from memc import ort as ort
from memc import train as train

__version__: str

_Path = Union[str, "PathLike[str]"]
_Size = Union[int, str]
_Model = TypeVar("_Model")
_Layout = Union["Report", Mapping[str, Any], _Path]

class Error(Exception):
    message: str
    code: str
    help: Optional[str]
    notes: List[str]
    exit_code: int
    def __init__(
        self, message: str, code: str = "", help: Optional[str] = None, notes: Sequence[str] = (), exit_code: int = 1
    ) -> None: ...

class UsageError(Error, ValueError): ...

class BudgetError(Error):
    smallest: Optional[int]
    def __init__(
        self,
        message: str,
        code: str = "",
        help: Optional[str] = None,
        notes: Sequence[str] = (),
        exit_code: int = 3,
        smallest: Optional[int] = None,
    ) -> None: ...

class Diagnostic:
    code: str
    severity: str
    message: str
    help: Optional[str]
    notes: List[str]
    def __init__(
        self, code: str, severity: str, message: str, help: Optional[str] = None, notes: Sequence[str] = ()
    ) -> None: ...

class Progress:
    strategy: str
    candidate: str
    bytes: Optional[int]
    nanoseconds: Optional[int]
    verdict: str
    def __init__(
        self, strategy: str, candidate: str, bytes: Optional[int], nanoseconds: Optional[int], verdict: str
    ) -> None: ...

class Summary(Dict[str, Any]):
    line: str
    arena: Optional[int]
    peak: Optional[int]
    before: Optional[int]
    bound: Optional[int]
    order_optimal: bool
    offsets_optimal: bool
    weights: int
    spaces: List[Dict[str, Any]]
    def __init__(self, numbers: Mapping[str, Any], line: str) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class Report:
    diagnostics: List[Diagnostic]
    @property
    def layout_text(self) -> str: ...
    @property
    def layout(self) -> Dict[str, Any]: ...
    @property
    def summary(self) -> Summary: ...
    @property
    def text(self) -> str: ...
    @property
    def trace(self) -> str: ...
    def markdown(self, title: str = "") -> str: ...
    def html(self, title: str = "") -> str: ...
    def _repr_html_(self) -> str: ...

class Result(Report, Generic[_Model]):
    model: _Model
    layout_path: Optional[str]
    passes: str
    def __iter__(self) -> Iterator[Any]: ...

class Violation:
    code: str
    kind: str
    message: str
    help: Optional[str]
    notes: List[str]
    tensor: Optional[str]
    step: Optional[int]

class Check:
    violations: List[Violation]
    def __bool__(self) -> bool: ...

class Verified(Dict[str, Any]):
    messages: List[str]
    ok: bool
    identical: bool
    outputs: int
    def __getattr__(self, name: str) -> Any: ...
    def __bool__(self) -> bool: ...

class Fitted(Dict[str, Any]):
    model: str
    text: str
    need: Dict[str, int]
    plans: int
    command: str
    def __init__(self, numbers: Mapping[str, Any], model: str, text: str) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    @property
    def layout_path(self) -> str: ...
    @property
    def layout(self) -> Dict[str, Any]: ...

class Generated(List[int]):
    runs: List[int]
    def __init__(self, tokens: Sequence[int], runs: Sequence[int]) -> None: ...

def fit(
    model: object,
    output: _Path,
    *,
    ram: _Size,
    context: Optional[int] = None,
    largest: Optional[str] = None,
    runtime: str = "ort",
    **options: Any,
) -> Fitted: ...
def generate(
    model: object,
    tokens: Sequence[int],
    count: int = 16,
    *,
    layout: Union[Mapping[str, Any], _Path, None] = None,
    end: Optional[int] = None,
    chunk: Optional[int] = None,
    session: Optional[Any] = None,
    feeds: Optional[Mapping[str, Any]] = None,
) -> Generated: ...
def optimize(
    model: _Model,
    output: Optional[_Path] = None,
    *,
    budget: Union[_Size, Sequence[_Size], Mapping[str, _Size], None] = None,
    dims: Optional[Mapping[str, Union[int, str]]] = None,
    runtime: str = "ort",
    exact: bool = False,
    slowdown: Union[float, str, None] = None,
    target: Optional[_Path] = None,
    effort: Union[int, str, None] = None,
    micro_batches: Optional[int] = None,
    io: Optional[str] = None,
    state: Union[Mapping[str, str], Sequence[Tuple[str, str]], None] = None,
    alias_state: bool = False,
    progress: Optional[Callable[[Progress], object]] = None,
    **options: object,
) -> Result[_Model]: ...
def report(
    model: object,
    layout: Optional[_Layout] = None,
    *,
    dims: Optional[Mapping[str, Union[int, str]]] = None,
    runtime: str = "ort",
    target: Optional[_Path] = None,
    planned: bool = False,
    **options: object,
) -> Report: ...
def check(given: object, planned: object, layout: Optional[_Layout] = None) -> Check: ...
def verify(
    given: object,
    planned: object,
    layout: Optional[_Layout] = None,
    *,
    rounds: int = 3,
    seed: int = 0,
    inputs: Optional[_Path] = None,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    at: Optional[Sequence[Mapping[str, int]]] = None,
    points: Optional[int] = None,
) -> Verified: ...
