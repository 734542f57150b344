"""Measure the memory of a device that a model takes in sessions on CUDA: as given and as planned in the session's arena, and as planned in one replayed block.

    python benches/cuda.py [--dim MODEL:NAME=N] [--limit BYTES] [--memc target/release/memc] MODEL.onnx ...

Needs a CUDA device, and the packages memc[ort], onnxruntime-gpu and numpy. `--limit` bounds the session's arena (`gpu_mem_limit`), and is the budget of the
plan. Prints a line of JSON for each row: `at_rest` is what session and weights took, `grown` what runs took beyond it, both of the whole device, so use one that
nothing else uses; `promised` is the arena of the plan, `reserve` what a session's arena was predicted to take, `block` and `live` are the replayed block and what it holds at once. `difference` is the largest one from
the given model's results, over the largest result. No row is in `results`: none was measured yet.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy
import onnxruntime
from options import add_dims, name_of, parse, parser

import memc
from memc._cuda import Device

RUNS = 5
TYPES = {"tensor(float)": numpy.float32, "tensor(float16)": numpy.float16, "tensor(double)": numpy.float64,
         "tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32, "tensor(bool)": numpy.bool_, "tensor(uint8)": numpy.uint8}


def inputs(session, dims):
    """Random inputs; integers are 0 or 1, which are valid indices too."""
    generator, made = numpy.random.default_rng(0), {}
    for value in session.get_inputs():
        shape = [extent if isinstance(extent, int) else dims.get(extent, 1) for extent in value.shape]
        kind = TYPES[value.type]
        made[value.name] = (generator.standard_normal(shape) if "float" in value.type or "double" in value.type
                            else generator.integers(0, 2, shape)).astype(kind)
    return made


def stock(path, limit):
    """A session as users create it."""
    options = {"arena_extend_strategy": "kSameAsRequested", **({"gpu_mem_limit": str(limit)} if limit else {})}
    return onnxruntime.InferenceSession(path, providers=[("CUDAExecutionProvider", options), "CPUExecutionProvider"])


def row(device, name, make, dims, expected):
    """Runs a session, and measures the device around it. Returns the row and the results."""
    before = device.used()
    try:
        session = make()
        rest = device.used()
        given = inputs(getattr(session, "session", session), dims)
        session.run(None, given)
        session.run(None, given)
        started = time.perf_counter()
        for _ in range(RUNS):
            results = session.run(None, given)
        milliseconds = (time.perf_counter() - started) / RUNS * 1e3
    except Exception as error:  # a session that runs out of memory raises errors of its own
        return {"row": name, "failed": str(error).splitlines()[0][:160]}, None
    found = {"row": name, "at_rest": rest - before, "grown": device.used() - rest, "milliseconds": round(milliseconds, 3)}
    if isinstance(session, memc.ort.Replayed):
        found.update(block=session.block, live=session.peak, misses=session.misses)
        session.close()
    if expected is not None:
        pairs = [(one.astype(float), other.astype(float)) for one, other in zip(results, expected)]
        found["difference"] = max((float(abs(a - b).max() / max(abs(b).max(), 1e-30)) for a, b in pairs if a.size), default=0.0)
    return found, results


def measure(options, path, device):
    named = (text.split("=") for model, text in options["dims"] if model == name_of(path))
    dims = {name: int(extent) for name, extent in named}
    with tempfile.TemporaryDirectory() as folder:
        planned = os.path.join(folder, "planned.onnx")
        words = [word for name, extent in dims.items() for word in ("--dim", f"{name}={extent}")]
        words += ["--budget", str(options["limit"])] if options["limit"] else []
        done = subprocess.run([options["memc"], "optimize", path, "-o", planned, "--quiet", "--runtime", "cuda", *words],
                              capture_output=True, text=True, check=False)
        rows = [("given, stock arena", lambda: stock(path, options["limit"]))]
        if done.returncode == 0:
            rows += [("planned, stock arena", lambda: stock(planned, options["limit"])),
                     ("planned, replayed", lambda: memc.ort.replay(planned))]
        expected = None
        for name, make in rows:
            found, results = row(device, name, make, dims, expected)
            expected = results if expected is None else expected
            if name != "given, stock arena":
                with open(planned[:-5] + ".layout.json", encoding="utf-8") as file:
                    found["promised"] = json.load(file)["arenas"][0]["size"]
                found["reserve"] = memc.ort.reserve(planned, doubling=False)
            print(json.dumps({"model": os.path.basename(path), **found}), flush=True)
        if done.returncode:
            print(json.dumps({"model": os.path.basename(path), "row": "planned", "failed": done.stderr.splitlines()[0]}), flush=True)


def main():
    given = parser(__doc__)
    add_dims(given)
    given.add_argument("--limit", type=int, default=0, help="bytes of the session's arena, and the budget of the plan")
    options, models = parse(given)
    try:
        device = Device()
    except (OSError, RuntimeError) as error:
        sys.exit(f"cuda.py: {error}")
    for path in models:
        measure(options, path, device)


if __name__ == "__main__":
    main()
