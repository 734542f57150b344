"""Stock sessions of ONNX Runtime that keep a plan. `onnxruntime` is imported by the functions."""

import os
import warnings

from memc import _memc
from memc._models import contents, is_path
from memc._plans import layout_text, plan_of

# The library of memc's own operators, as the set-up names it: plans with transfers need it.
_LIBRARIES = ("libmemc_ort_ops.so", "libmemc_ort_ops.dylib", "memc_ort_ops.dll")


def recipe(layout, recipe="smallest"):
    """Returns the program that sets up session options for a plan, as `memc optimize --session python` prints it.

    `smallest` runs the nodes as planned, so the planned peak holds; `fast` keeps the session's optimizations.
    """
    return _memc.session_recipe(layout_text(layout), recipe)


def session_options(planned, recipe="smallest", *, layout=None, ops_library=None):
    """Returns `onnxruntime.SessionOptions` for a plan: a `Result`, or a planned model with its layout.

    Plan with `runtime="ort"`: another plan counts other buffers, and a warning says so. `ops_library` is the path
    of memc's operators, which plans with transfers need.
    """
    _, text = plan_of(planned, layout)
    return _options(text, recipe, ops_library)


def session(planned, recipe="smallest", *, layout=None, providers=("CPUExecutionProvider",), ops_library=None, **arguments):
    """Returns an `onnxruntime.InferenceSession` of a planned model in which the planned peak holds.

    `planned` is a `Result`, or a planned model with its layout. `arguments` go to `InferenceSession`.
    """
    import onnxruntime

    model, text = plan_of(planned, layout)
    options = _options(text, recipe, ops_library)
    source = os.fspath(model) if is_path(model) else contents(model)
    return onnxruntime.InferenceSession(source, options, providers=list(providers), **arguments)


def _options(text, recipe, ops_library):
    import json

    runtime = json.loads(text)["options"].get("runtime")
    if runtime != "ort":
        warnings.warn(
            f"the plan is for the runtime `{runtime}`: a session may take more; plan with `runtime=\"ort\"`",
            stacklevel=3,
        )
    program = _memc.session_recipe(text, recipe)
    for library in _LIBRARIES:
        if f'"{library}"' in program:
            if ops_library is None:
                raise ValueError("the plan moves tensors between spaces: name memc's operators with `ops_library=`")
            program = program.replace(f'"{library}"', repr(os.fspath(ops_library)))
    names = {}
    # The program is memc's own text; the plan selects among fixed lines.
    exec(compile(program, "<memc session recipe>", "exec"), names)
    return names["options"]
