"""Run models as given and as planned in stock ONNX Runtime: compare the bits, and measure the exact peak of what it allocates.

    .deps/python/bin/python benches/runtime.py [--memc target/release/memc] [--dim MODEL:NAME=N] [--max-mb N] FOLDER ...

Optimizations disabled, one thread, arena, memory pattern and buffer reuse off. External weights that are missing are made (seeded).
`file`, `default`: the given model in file order and in the runtime's default order. `planned`: memc's model for `--runtime ort` in file order.
"""
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx

from corpus import chosen, feeds, session_options, write_weights
from options import add_choice, add_dims, name_of, parse, parser

HERE = os.path.dirname(os.path.abspath(__file__))


def child(path, order, dims):
    """In a process with the counter preloaded: one session, two runs; prints peak and a digest of the outputs."""
    import hashlib

    import onnxruntime as ort
    counter = ctypes.CDLL(os.environ["LD_PRELOAD"])
    for name in ("held_bytes", "highest_bytes"):
        getattr(counter, name).restype = ctypes.c_size_t
    options = session_options()
    options.enable_cpu_mem_arena = options.enable_mem_pattern = options.enable_mem_reuse = False
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    if order == "file":
        options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = feeds(session, dims)
    peak = 0
    for _ in range(2):
        counter.restart_count()
        before = counter.held_bytes()
        outputs = session.run(None, given)
        peak = max(peak, counter.highest_bytes() - before)
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(o).tobytes() for o in outputs if isinstance(o, np.ndarray))).hexdigest()
        del outputs
    print(json.dumps({"peak": peak, "digest": digest}))


def measure(path, order, dims, library):
    command = [sys.executable, os.path.abspath(__file__), "--child", path, order, json.dumps(dims)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ, LD_PRELOAD=library))
    return json.loads(done.stdout) if done.returncode == 0 else {"peak": None, "digest": None, "error": done.stderr[-200:]}


def one(path, options, library):
    name = name_of(path)
    dims = [dim for model, dim in options["dims"] if model == name]
    sizes = {dim.split("=")[0]: int(dim.split("=")[1]) for dim in dims}
    with tempfile.TemporaryDirectory() as folder:
        write_weights(path, folder)
        given = os.path.join(folder, "given.onnx")
        shutil.copy(path, given)
        plans = {}
        for runtime in ("ort", "arena"):
            flags = [word for dim in dims for word in ("--dim", dim)]
            plans[runtime] = os.path.join(folder, f"{runtime}.onnx")
            subprocess.run([options["memc"], "optimize", given, "-o", plans[runtime], "--runtime", runtime, "--quiet", *flags], check=True)
        with open(os.path.join(folder, "ort.layout.json"), encoding="utf-8") as file:
            layout = json.load(file)
        promised = next(iter(layout["peak"].values()))["bytes"]
        file_order, default = measure(given, "file", sizes, library), measure(given, "default", sizes, library)
        planned, arena = measure(plans["ort"], "file", sizes, library), measure(plans["arena"], "file", sizes, library)
    if file_order["peak"] is None:
        return f"| {name} | does not run here | | | | |"
    same = "same" if file_order["digest"] == planned["digest"] == arena["digest"] else "DIFFERENT"
    if any(node.op_type.startswith("Random") for node in onnx.load(path, load_external_data=False).graph.node):
        same = "random"
    shown = [f"{value:,}" if value is not None else "-" for value in (file_order["peak"], default["peak"], planned["peak"], promised)]
    return f"| {name} | {' | '.join(shown)} | {same} |"


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
    made = parser(__doc__)
    add_dims(made)
    add_choice(made, max_mb=200.0)
    options = parse(made)
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "count.so")
        source = os.path.join(HERE, "count_allocations.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library, "-ldl", "-lpthread"], check=True)
        print("| model | file | default | planned | promised | outputs |")
        print("|---|--:|--:|--:|--:|---|")
        for path in chosen(options):
            print(one(path, options, library), flush=True)
    return None


if __name__ == "__main__":
    main()
