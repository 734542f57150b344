"""Stock sessions of ONNX Runtime that keep a plan. `onnxruntime` is imported by the functions."""

import os
import sys
import warnings

from memc import _memc
from memc._models import Files, contents, is_path
from memc._plans import layout_text, plan_of
from memc._replay import Replay
from memc._reserve import reserved

__all__ = ["Replay", "Replayed", "recipe", "replay", "reserve", "session", "session_options"]

# The library of memc's own operators, as the set-up names it: plans with transfers need it.
_LIBRARIES = ("libmemc_ort_ops.so", "libmemc_ort_ops.dylib", "memc_ort_ops.dll")


def recipe(layout, recipe="smallest"):
    """Returns the program that sets up session options for a plan, without counting sessions.

    `smallest` runs the nodes as planned, so the planned peak holds; `fast` keeps the session's optimizations unless
    the plan has a budget; `plain` sets nothing. `memc optimize --session python` counts sessions where `onnxruntime`
    is installed, and may choose other settings.
    """
    return _memc.session_recipe(layout_text(layout), recipe)


def session_options(planned, recipe="smallest", *, layout=None, ops_library=None, count=False):
    """Returns `onnxruntime.SessionOptions` for a plan: a `Result`, or a planned model with its layout.

    Plan with `runtime="ort"`: another plan counts other buffers, and a warning says so. `ops_library` is the path
    of memc's operators, which plans with transfers need. With `count`, the settings are those that take the least
    bytes, as sessions in processes of their own count them.
    """
    model, text = plan_of(planned, layout)
    return _options(model, text, recipe, ops_library, count)


def session(
    planned, recipe="fast", *, layout=None, providers=("CPUExecutionProvider",), ops_library=None, count=True, **arguments
):
    """Returns an `onnxruntime.InferenceSession` of a planned model.

    `fast` takes the least bytes that cost no time, within the budget of the plan; `smallest` the least bytes. Sessions
    in processes of their own count them, which takes a few runs of the model; without `count`, the settings follow
    from the plan. `planned` is a `Result`, or a planned model with its layout. `arguments` go to `InferenceSession`.
    """
    import onnxruntime

    model, text = plan_of(planned, layout)
    options = _options(model, text, recipe, ops_library, count)
    source = os.fspath(model) if is_path(model) else contents(model)
    return onnxruntime.InferenceSession(source, options, providers=list(providers), **arguments)


class Replayed:
    """A session whose runs are served from one block of memory: `replay` is the `Replay` and `session` the session.

    The first run with inputs of some extents is recorded, later ones are replayed. `block`, `peak` and `misses` are
    those of the `Replay`. `close()` or the end of a `with` frees session and block.
    """

    def __init__(self, session, replay):
        self.session = session
        self.replay = replay

    def run(self, names, inputs, options=None):
        """Runs the session as `InferenceSession.run` does."""
        key = tuple((name, tuple(value.shape), str(value.dtype)) for name, value in sorted(inputs.items()))
        with self.replay.run(key):
            return self.session.run(names, inputs, options)

    @property
    def block(self):
        return self.replay.block

    @property
    def peak(self):
        return self.replay.peak

    @property
    def misses(self):
        return self.replay.misses

    def close(self):
        self.session = None
        self.replay.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def replay(planned, *, layout=None, recipe="smallest", device=0, library=None, options=None, **arguments):
    """Returns a `Replayed` session of a planned model on a CUDA device. Plan with `runtime="cuda"`.

    The session takes all its memory from memc instead of its arena. The first run with inputs of some extents is
    recorded: each value and each workspace of a kernel with its lifetime. They are placed in one block, from which the
    n-th request of every later run gets the n-th place. So the block is what the plan promises, plus workspaces, without
    the rounding and the fragments of an arena.

    `library` is the path of CUDA's runtime library, `options` are further options of the provider, and `arguments` go
    to `InferenceSession`. Needs the package onnxruntime-gpu. Runs one at a time; the session has one stream.
    """
    import onnxruntime

    from memc._cuda import Device

    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        raise RuntimeError("this onnxruntime has no CUDA: install onnxruntime-gpu")
    memory = Device(device, library)
    block = Replay(memory.take, memory.give_back)
    allocate, free = block.addresses()
    # Algorithms of convolutions are chosen without trials, by the least workspace.
    chosen = {
        "cudnn_conv_algo_search": "HEURISTIC",
        "cudnn_conv_use_max_workspace": "0",
        **(options or {}),
        "device_id": str(device),
        "gpu_external_alloc": str(allocate),
        "gpu_external_free": str(free),
    }
    providers = [("CUDAExecutionProvider", chosen), "CPUExecutionProvider"]
    made = session(planned, recipe, layout=layout, providers=providers, count=False, **arguments)
    return Replayed(made, block)


def reserve(planned, *, layout=None, doubling=True):
    """Returns the bytes that the arena of a stock session reserves for a plan, without running it.

    Holds for the settings of `smallest` with an arena: nodes in the order of the plan, no reuse of buffers, and no
    memory pattern. With `doubling`, as by default, regions are powers of two (`kNextPowerOfTwo`); without, they are as
    large as requests (`kSameAsRequested`). On a CUDA device the copies of inputs count, and workspace that the device
    chooses does not. `memc.ort.replay` takes one block instead.
    """
    import json

    _, text = plan_of(planned, layout)
    return reserved(json.loads(text), doubling)


def _counted(model, text, recipe):
    """Returns the settings of a recipe and their bytes as sessions count them; nothing where none runs."""
    import json
    import subprocess

    with Files() as files:
        path = files.path(model, "model.onnx")
        if not is_path(model):
            files.written(text, "model.layout.json")
        command = [sys.executable, "-m", "memc", "-q", "profile", path, "--session", recipe]
        environment = {**os.environ, "MEMC_PYTHON": sys.executable}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    found = json.loads(done.stdout) if done.returncode == 0 else {}
    return [found[key] for key in ("settings", "bytes") if key in found]


def _options(model, text, recipe, ops_library, count):
    import json

    plan = json.loads(text)
    runtime = plan["options"].get("runtime")
    if runtime not in ("ort", "cuda"):
        warnings.warn(
            f"the plan is for the runtime `{runtime}`: a session may take more; plan with `runtime=\"ort\"`",
            stacklevel=3,
        )
    settings = _counted(model, text, recipe) if count and not plan["transfers"] else []
    program = _memc.session_recipe(text, recipe, *settings)
    for library in _LIBRARIES:
        if f'"{library}"' in program:
            if ops_library is None:
                raise ValueError("the plan moves tensors between spaces: name memc's operators with `ops_library=`")
            program = program.replace(f'"{library}"', repr(os.fspath(ops_library)))
    names = {}
    # The program is memc's own text; the plan selects among fixed lines.
    exec(compile(program, "<memc session recipe>", "exec"), names)
    return names["options"]
