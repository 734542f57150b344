"""Plan training steps within part of what they need freely, by computing again and by moving, and run the plans: same bits, measured time.

    .deps/python/bin/python benches/steps.py [--memc target/release/memc] [--part 50] [--link host=16GB/s] MODEL.onnx ...

The whole is the arena of the plan without a budget; where the part is out of reach, the smallest budget that memc names is taken. Random operators get
seeds. *Bits*: of `memc verify` (player) and of an ONNX Runtime session without optimization, file order, against the model as given. *Measured*: processor
time of kernels and waits in `memc run`, against the plan without a budget in nine pairs, of each the median; models this small are mostly overhead.
"""
import json
import os
import re
import statistics
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from corpus import write_weights
from options import name_of, parse, parser

PAIRS = 9


def memc(options, folder, *words):
    """Runs memc in the folder; exit code and all that it said."""
    command = [os.path.abspath(options["memc"]), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def seeded(path, out):
    """A copy whose random operators have seeds."""
    model = onnx.load(path, load_external_data=False)
    for number, node in enumerate(node for node in model.graph.node if node.op_type.startswith("Random")):
        node.attribute.append(onnx.helper.make_attribute("seed", float(number + 1)))
    onnx.save(model, out)


def session(path):
    """A session that runs the nodes as the file lists them."""
    wanted = ort.SessionOptions()
    wanted.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    wanted.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    wanted.intra_op_num_threads, wanted.log_severity_level = 1, 3
    wanted.enable_mem_pattern = wanted.enable_mem_reuse = wanted.enable_cpu_mem_arena = False
    return ort.InferenceSession(path, wanted, providers=["CPUExecutionProvider"])


def outputs(path, model):
    """What a session gives for inputs made from the model's own hints."""
    hints = {prop.key: prop.value for prop in model.metadata_props}
    hints = json.loads(hints.get("corpus.inputs", "{}"))
    defaults = {tensor.name for tensor in model.graph.initializer}
    random = np.random.default_rng(0)
    feed = {}
    for item in model.graph.input:
        if item.name in defaults:
            continue
        shape = [dim.dim_value for dim in item.type.tensor_type.shape.dim]
        kind = onnx.helper.tensor_dtype_to_np_dtype(item.type.tensor_type.elem_type)
        law, low, high = hints.get(item.name, ["normal", 0, 1])
        drawn = random.integers(low, high, shape) if law == "int" else random.normal(low, high, shape)
        feed[item.name] = drawn.astype(kind)
    return session(path).run(None, feed)


def layout(folder, name):
    with open(os.path.join(folder, name + ".layout.json"), encoding="utf-8") as file:
        return json.load(file)


def plan(options, folder, name, *words):
    """Plans; a budget that is out of reach is replaced by the smallest one that memc names. Gives the layout, or why there is none."""
    words = ["optimize", "in.onnx", "-o", name + ".onnx", "--quiet", "--runtime", "player", "--exact", *words]
    code, _, told = memc(options, folder, *words)
    least = re.search(r"`--budget (\d+)` is enough", told)
    if code == 3 and least:
        words[words.index("--budget") + 1] = least.group(1)
        code, _, told = memc(options, folder, *words)
    return (layout(folder, name), "") if code == 0 else (None, told.splitlines()[0])


def milliseconds(options, folder, name):
    """Median time of a run in the player."""
    _, text, _ = memc(options, folder, "-q", "run", name + ".onnx", "--layout", name + ".layout.json", "--json", "--repeat", "9")
    return json.loads(text)["run_ms"]


def slower(options, folder, name):
    """How much longer a plan takes than the one without a budget, in percent: the median of pairs that run in turn, as machines change their speed."""
    pairs = [(milliseconds(options, folder, "free"), milliseconds(options, folder, name)) for _ in range(PAIRS)]
    return 100 * (statistics.median(own / base for base, own in pairs) - 1)


def one(options, path, folder):
    seeded(path, os.path.join(folder, "in.onnx"))
    write_weights(path, folder)
    model = onnx.load(os.path.join(folder, "in.onnx"), load_external_data=False)
    try:
        expected = outputs(os.path.join(folder, "in.onnx"), model)
    except Fail as error:
        yield f"not run: {str(error).split(': ')[-1]}"
        return
    free, why = plan(options, folder, "free")
    if free is None:
        yield f"not planned: {why}"
        return
    budget = free["arenas"][0]["size"] * options["part"] // 100
    for way, words in (("again", []), ("moved", ["--link", options["link"]])):
        found, why = plan(options, folder, way, "--budget", str(budget), *words)
        if found is None:
            yield f"{way} | {why}"
            continue
        whole, cost = free["arenas"][0]["size"], found["cost"]
        modelled = 100 * (cost["modelled_ns_after"] / free["cost"]["modelled_ns_after"] - 1)
        measured = slower(options, folder, way)
        code, _, told = memc(options, folder, "verify", "in.onnx", way + ".onnx", "-n", "1")
        player = "same" if code == 0 and "bit for bit" in told else "DIFFERENT"
        given = outputs(os.path.join(folder, way + ".onnx"), model)
        stock = "same" if all(a.tobytes() == b.tobytes() for a, b in zip(expected, given, strict=True)) else "DIFFERENT"
        arena = found["arenas"][0]["size"]
        limit = next(iter(found["budget"].values()))
        yield (f"{way} | {100 * limit / whole:.0f} % | {arena:,} | {cost['recomputed_nodes']} | {len(found['transfers'])} | "
               f"{modelled:+.1f} % | {measured:+.1f} % | {player} | {stock}")


def main():
    made = parser(__doc__)
    made.add_argument("--part", type=int, default=50, metavar="N", help="budget in percent of the arena of the plan without one")
    made.add_argument("--link", default="host=16GB/s")
    options = parse(made)
    print("| model | way | budget | arena, bytes | run again | moved | extra, modelled | extra, measured | bits, player | bits, session |")
    print("|---|---|--:|--:|--:|--:|--:|--:|---|---|")
    for path in options["models"]:
        with tempfile.TemporaryDirectory() as folder:
            for row in one(options, path, folder):
                print(f"| {name_of(path)} | {row} |", flush=True)


if __name__ == "__main__":
    main()
