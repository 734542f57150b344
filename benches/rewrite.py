"""Rewritten models side by side: memc's, and those of other optimizers, all planned by memc's own scheduler and placer.

    .deps/python/bin/python benches/rewrite.py [--memc target/release/memc] [--dim MODEL:NAME=N] [--max-mb N] [--runtime ort|arena ...]
        [--csv] FOLDER|MODEL ... [-- OPTIONS OF memc optimize]

Nodes, arena in bytes and modelled microseconds of: the model as given, memc's, ONNX Runtime's own offline optimization (extended, all), and of
onnxsim, onnxslim, onnxoptimizer and onnxscript where they can be imported. All but memc's are planned by `memc optimize --no-rewrite`. External
weights that are missing are made (seeded). The last line counts where memc's arena is the smallest. With --csv, rows of
`results/others.csv` are replaced.
"""
import json
import os
import subprocess
import sys
import tempfile

import onnx

import others
from corpus import chosen, extents, place, session_options
from options import add_choice, add_dims, name_of, parse, parser

# Files above this size do not fit one protobuf message: tools' results are written with their weights beside them.
WHOLE_MB = 1800


def save(model, target):
    outside = sum(tensor.ByteSize() for tensor in model.graph.initializer) > WHOLE_MB * 1e6
    onnx.save(model, target, save_as_external_data=outside, location=os.path.basename(target) + ".weights")


def by_runtime(level):
    def optimize(source, target):
        import onnxruntime
        options = session_options(level)
        options.optimized_model_filepath = target
        onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return optimize


def by_onnxsim(source, target):
    import onnxsim
    save(onnxsim.simplify(onnx.load(source))[0], target)


def by_onnxslim(source, target):
    import onnxslim
    save(onnxslim.slim(onnx.load(source)), target)


def by_onnxoptimizer(source, target):
    import onnxoptimizer
    save(onnxoptimizer.optimize(onnx.load(source), onnxoptimizer.get_fuse_and_elimination_passes()), target)


def by_onnxscript(source, target):
    from onnxscript import optimizer
    save(optimizer.optimize(onnx.load(source)), target)


TOOLS = {
    "ORT extended": by_runtime("ORT_ENABLE_EXTENDED"),
    "ORT all": by_runtime("ORT_ENABLE_ALL"),
    "onnxsim": by_onnxsim,
    "onnxslim": by_onnxslim,
    "onnxoptimizer": by_onnxoptimizer,
    "onnxscript": by_onnxscript,
}


PACKAGES = {"ORT extended": "onnxruntime", "ORT all": "onnxruntime"}


def table_rows(name, found):
    """Rows of `results/others.csv` of one model."""
    for runtime, columns in found.items():
        for tool, plan_of in columns.items():
            if plan_of:
                package = others.version(PACKAGES.get(tool, tool)) if tool in TOOLS else "memc"
                yield {"topic": "rewriters", "subject": name, "setting": runtime, "tool": tool, "nodes": plan_of[0], "bytes": plan_of[1],
                       "milliseconds": f"{plan_of[2] / 1000:.3f}", "source": f"benches/rewrite.py; {package}"}


def alone(name, source, target):
    """Run one tool in a process of its own: some of them end theirs."""
    command = [sys.executable, os.path.abspath(__file__), "--tool", name, source, target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0 and os.path.exists(target)


def plan(options, runtime, path, out, dims, extra):
    """Plan with memc; returns nodes, arena and modelled time, or nothing where it refuses."""
    words = [word for dim in dims for word in ("--dim", dim)]
    command = [options["memc"], "optimize", path, "-o", out, "--quiet", "--runtime", runtime, *words, *extra]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    with open(out[: -len(".onnx")] + ".layout.json", encoding="utf-8") as file:
        layout = json.load(file)
    arena = max((arena["size"] for arena in layout["arenas"]), default=0)
    return len(layout["schedule"]), arena, layout["cost"]["modelled_ns_after"] / 1000


def one(path, options, scratch):
    name = name_of(path)
    dims = [f"{dim}={size}" for dim, size in sorted(extents(path, [dim for model, dim in options["dims"] if model == name]).items())]
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        given, target = place(path, folder, is_linked=False), os.path.join(folder, "tool.onnx")
        runtimes = options["runtimes"] or ["ort"]
        found = {runtime: {} for runtime in runtimes}
        def note(column, source, extra):
            for runtime in runtimes:
                out = os.path.join(folder, "planned.onnx")
                found[runtime][column] = plan(options, runtime, source, out, dims, extra) if source else None
        note("given", given, ["--no-rewrite"])
        note("memc", given, options["extra"])
        for tool in TOOLS:
            note(tool, target if alone(tool, given, target) else None, ["--no-rewrite"])
            for left in (target, target + ".weights"):
                if os.path.exists(left):
                    os.remove(left)
    for runtime, columns in found.items():
        cells = ["/".join((f"{f[0]}", f"{f[1]:,}", f"{f[2]:,.0f}")) if f else "-" for f in columns.values()]
        print(f"| {name} | {runtime} | " + " | ".join(cells) + " |", flush=True)
    if options["csv"]:
        others.replace(table_rows(name, found))
    return found


def main():
    if sys.argv[1:2] == ["--tool"]:
        return TOOLS[sys.argv[2]](*sys.argv[3:5])
    made = parser(__doc__)
    add_dims(made)
    add_choice(made, max_mb=1500.0)
    made.add_argument("--runtime", dest="runtimes", action="append", default=[], choices=["ort", "arena"])
    made.add_argument("--csv", action="store_true", help="replace rows of results/others.csv")
    options = parse(made)
    heads = ["model", "runtime", "given", "memc", *TOOLS]
    print("| " + " | ".join(heads) + " |\n|---" + "|--:" * (len(heads) - 1) + "|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        results = [one(path, options, scratch) for path in chosen(options)]
    print("\ncells: nodes/arena/modelled us")
    for runtime in options["runtimes"] or ["ort"]:
        rows = [found[runtime] for found in results]
        pairs = [(row["memc"][1], min(row[tool][1] for tool in TOOLS if row[tool])) for row in rows if row["memc"] and any(map(row.get, TOOLS))]
        below, same = (sum(test(*pair) for pair in pairs) for test in (lambda a, b: a < b, lambda a, b: a == b))
        print(f"{runtime}: memc's arena is below that of every tool on {below} of {len(pairs)} models, equal to the smallest on {same}")
    return None


if __name__ == "__main__":
    main()
