"""memc: a memory compiler for ONNX.

`optimize` plans a model, `report` tells its memory, `check` proves a plan from its files, and `verify` runs both
models and compares every output. `memc.ort` sets up ONNX Runtime sessions that keep a plan, and `memc.train` runs
training steps. `fit` finds the largest extent that a memory holds, and `generate` runs a decoder that fits.
"""

from memc import ort, train
from memc._errors import BudgetError, Error, UsageError
from memc._fit import Fitted, fit
from memc._generate import Generated, generate
from memc._memc import VERSION as __version__
from memc._plans import Diagnostic, Progress, Report, Result, Summary, optimize, report
from memc._proofs import Check, Verified, Violation, check, verify

__all__ = [
    "BudgetError",
    "Check",
    "Diagnostic",
    "Error",
    "Fitted",
    "Generated",
    "Progress",
    "Report",
    "Result",
    "Summary",
    "UsageError",
    "Verified",
    "Violation",
    "__version__",
    "check",
    "fit",
    "generate",
    "optimize",
    "ort",
    "report",
    "train",
    "verify",
]
