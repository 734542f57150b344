"""Rewritten models side by side: memc's, and those of other optimizers, all planned by memc's own scheduler and placer.

    .deps/python/bin/python benches/rewrite.py [--memc target/release/memc] [--dim MODEL:NAME=N] [--max-mb N] [--runtime ort|arena]
        [--rounds N] [--memc-option OPTION] FOLDER ...

Nodes, arena in bytes and modelled microseconds of: the model as given, memc's, ONNX Runtime's own offline optimization (extended, all), and of
onnxsim, onnxslim, onnxoptimizer and onnxscript where they can be imported. With --rounds, also the latency of the given model with all of
ONNX Runtime's optimizations and of memc's with none: one thread, medians of N runs that alternate in one process, and their ratio.
External weights that are missing are made (seeded). The last line counts where memc's arena is the smallest.
"""
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

from runtime import external_bytes, write_weights

# What plans a model without rewriting it; both ways are tried, and the smaller arena is taken.
PLANNED = {
    "ort": ["fold,dce,cse,dce,view,schedule,in-place,place", "fold,dce,view,schedule,in-place,place"],
    "arena": ["fold,dce,cse,dce,view,window,schedule,in-place,place", "fold,dce,view,schedule,in-place,place"],
}
KINDS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64, "tensor(int64)": np.int64,
         "tensor(int32)": np.int32, "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8}


def session_options(level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return options


def by_runtime(level):
    def optimize(source, target):
        options = session_options(level)
        options.optimized_model_filepath = target
        onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return optimize


def by_onnxsim(source, target):
    import onnxsim
    onnx.save(onnxsim.simplify(onnx.load(source))[0], target)


def by_onnxslim(source, target):
    import onnxslim
    onnx.save(onnxslim.slim(onnx.load(source)), target)


def by_onnxoptimizer(source, target):
    import onnxoptimizer
    onnx.save(onnxoptimizer.optimize(onnx.load(source), onnxoptimizer.get_fuse_and_elimination_passes()), target)


def by_onnxscript(source, target):
    from onnxscript import optimizer
    onnx.save(optimizer.optimize(onnx.load(source)), target)


TOOLS = {
    "ORT extended": by_runtime(onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED),
    "ORT all": by_runtime(onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL),
    "onnxsim": by_onnxsim,
    "onnxslim": by_onnxslim,
    "onnxoptimizer": by_onnxoptimizer,
    "onnxscript": by_onnxscript,
}


def alone(name, source, target):
    """Run one tool in a process of its own: some of them end theirs."""
    command = [sys.executable, os.path.abspath(__file__), "--tool", name, source, target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0 and os.path.exists(target)


def plan(options, path, out, dims, extra):
    """Plan with memc; returns nodes, arena and modelled time, or nothing where it refuses."""
    words = [word for dim in dims for word in ("--dim", dim)]
    command = [options["memc"], "optimize", path, "-o", out, "--quiet", "--runtime", options["runtime"], *words, *extra]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    with open(out[: -len(".onnx")] + ".layout.json", encoding="utf-8") as file:
        layout = json.load(file)
    arena = max((arena["size"] for arena in layout["arenas"]), default=0)
    return len(layout["schedule"]), arena, layout["cost"]["modelled_ns_after"] / 1000


def best(options, path, folder, dims):
    plans = [plan(options, path, os.path.join(folder, "planned.onnx"), dims, ["--passes", passes]) for passes in PLANNED[options["runtime"]]]
    return min((found for found in plans if found), key=lambda found: found[1], default=None)


def feeds(session, dims):
    sizes = {dim.split("=")[0]: int(dim.split("=")[1]) for dim in dims}
    hints = json.loads(session.get_modelmeta().custom_metadata_map.get("corpus.inputs", "{}"))
    made = {}
    for value in session.get_inputs():
        shape = [dim if isinstance(dim, int) else sizes[dim] for dim in value.shape]
        random, kind = np.random.default_rng([3, *value.name.encode()]), KINDS[value.type]
        what, low, high = hints.get(value.name) or (["normal", 0, 1] if np.issubdtype(kind, np.floating) else ["int", 0, 2])
        array = np.full(shape, low) if what == "const" else random.integers(low, high, shape) if what == "int" else None
        made[value.name] = (low + high * random.standard_normal(shape) if array is None else array).astype(kind)
    return made


def latency(given, ours, dims, rounds):
    """Median seconds of both, one run of each in turn, and the largest difference relative to the largest number of an output."""
    levels = onnxruntime.GraphOptimizationLevel
    sessions = [onnxruntime.InferenceSession(path, session_options(level), providers=["CPUExecutionProvider"])
                for path, level in ((given, levels.ORT_ENABLE_ALL), (ours, levels.ORT_DISABLE_ALL))]
    plain = onnxruntime.InferenceSession(given, session_options(levels.ORT_DISABLE_ALL), providers=["CPUExecutionProvider"])
    inputs = feeds(plain, dims)
    error = 0.0
    for a, b in zip(plain.run(None, inputs), sessions[1].run(None, inputs)):
        if a.dtype.kind == "f" and a.size:
            a, b = a.astype(np.float64), b.astype(np.float64)
            error = max(error, float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-300)))
    del plain
    times = ([], [])
    for number in range(rounds + 1):
        for session, list_of in zip(sessions, times):
            begin = time.perf_counter()
            session.run(None, inputs)
            if number:
                list_of.append(time.perf_counter() - begin)
    return *(statistics.median(list_of) for list_of in times), error


def one(path, options, scratch):
    name = os.path.basename(path)[: -len(".onnx")]
    dims = [dim for model, dim in options["dims"] if model == name]
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        given = os.path.join(folder, "given.onnx")
        shutil.copy(path, given)
        write_weights(given, folder)
        ours = os.path.join(folder, "ours.onnx")
        found = {"given": best(options, given, folder, dims), "memc": plan(options, given, ours, dims, options["extra"])}
        for tool in TOOLS:
            target = os.path.join(folder, "tool.onnx")
            found[tool] = best(options, target, folder, dims) if alone(tool, given, target) else None
            if os.path.exists(target):
                os.remove(target)
        times = latency(given, ours, dims, options["rounds"]) if options["rounds"] and found["memc"] else None
    cells = ["/".join((f"{f[0]}", f"{f[1]:,}", f"{f[2]:,.0f}")) if f else "-" for f in found.values()]
    if options["rounds"]:
        cells += [f"{times[1] * 1e3:.2f} / {times[0] * 1e3:.2f} = {times[1] / times[0]:.3f}", f"{times[2]:.1e}"] if times else ["-", "-"]
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    return found, times


def parse(arguments):
    options = {"memc": "target/release/memc", "dims": [], "folders": [], "extra": [], "runtime": "ort", "rounds": 0, "max_mb": 1500.0}
    arguments = list(arguments)
    while arguments:
        word = arguments.pop(0)
        if word in ("--memc", "--runtime"):
            options[word[2:]] = arguments.pop(0)
        elif word == "--rounds":
            options["rounds"] = int(arguments.pop(0))
        elif word == "--max-mb":
            options["max_mb"] = float(arguments.pop(0))
        elif word == "--dim":
            options["dims"].append(arguments.pop(0).split(":", 1))
        elif word == "--memc-option":
            options["extra"].append(arguments.pop(0))
        else:
            options["folders"].append(word)
    return options


def main():
    if sys.argv[1:2] == ["--tool"]:
        return TOOLS[sys.argv[2]](*sys.argv[3:5])
    options = parse(sys.argv[1:])
    models = sorted(os.path.join(root, file) for folder in options["folders"] for root, _, files in os.walk(folder)
                    for file in files if file.endswith(".onnx")) + [path for path in options["folders"] if path.endswith(".onnx")]
    heads = ["model", "given", "memc", *TOOLS, *(["latency ms: memc, none / given, all", "error"] if options["rounds"] else [])]
    print("| " + " | ".join(heads) + " |\n|---" + "|--:" * (len(heads) - 1) + "|", flush=True)
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for path in models:
            if external_bytes(path) <= options["max_mb"] * 1e6:
                results.append(one(path, options, scratch))
    wins, equal, compared = 0, 0, 0
    for found, _ in results:
        others = [found[tool][1] for tool in TOOLS if found[tool]]
        if found["memc"] and others:
            compared += 1
            wins += found["memc"][1] < min(others)
            equal += found["memc"][1] == min(others)
    print(f"\ncells: nodes/arena/modelled us. memc's arena is below that of every tool on {wins} of {compared} models, equal on {equal}")
    ratios = [times[1] / times[0] for _, times in results if times]
    if ratios:
        print(f"latency ratio, geometric mean of {len(ratios)}: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}")


if __name__ == "__main__":
    main()
