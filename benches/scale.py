"""Make models that are large in one way, and plan them.

    .deps/python/bin/python benches/scale.py [--memc target/release/memc] [--csv benches/results/scale.csv] MODEL.onnx NODES ...

Chains copies of MODEL's blocks (from its input to its last value of the input's type) until each chain has its number of nodes; the last model
holds 1 GiB of weights in its file. Prints and writes CPU seconds, and the most anonymous memory that memc held.
"""
import argparse
import csv
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import helper, numpy_helper

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results", "scale.csv")


def repeat(source, target, count):
    model = onnx.load(source, load_external_data=False)
    graph = model.graph
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {value.name: value.type for value in inferred.graph.value_info}
    constants = {tensor.name for tensor in graph.initializer}
    entry = next(value for value in graph.input if value.name not in constants)
    last = [name for node in graph.node for name in node.output if types.get(name) == entry.type][-1]
    needed, block = {last}, []
    for node in reversed(graph.node):
        if needed & set(node.output):
            block.insert(0, node)
            needed |= set(node.input)
    made, current = {name for node in block for name in node.output}, entry.name
    nodes = []
    for copy in range(count // len(block) + 1):
        for node in block:
            twin = onnx.NodeProto()
            twin.CopyFrom(node)
            twin.name = f"{node.name}_{copy}"
            twin.input[:] = [current if name == entry.name else f"{name}_{copy}" if name in made else name for name in node.input]
            twin.output[:] = [f"{name}_{copy}" for name in node.output]
            nodes.append(twin)
        current = f"{last}_{copy}"
    del graph.node[:], graph.value_info[:], graph.output[:]
    graph.node.extend(nodes)
    output = graph.output.add()
    output.name = current
    output.type.CopyFrom(entry.type)
    onnx.save(model, target)
    return len(nodes)


def weights(target):
    layers, nodes, current = [], [], "x"
    for layer in range(16):
        layers.append(numpy_helper.from_array(np.full((4096, 4096), layer, np.float32), f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [current, f"w{layer}"], [f"y{layer}"], name=f"n{layer}"))
        current = f"y{layer}"
    ends = [helper.make_tensor_value_info(name, 1, [1, 4096]) for name in ("x", current)]
    graph = helper.make_graph(nodes, "weights", ends[:1], ends[1:], layers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), target)


def anonymous_kib(process):
    try:
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            return next((int(line.split()[1]) for line in status if line.startswith("RssAnon")), 0)
    except OSError:
        return 0


def plan(memc, model, folder):
    """CPU seconds of memc, and the most anonymous memory in MiB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen([memc, "optimize", model, "-o", os.path.join(folder, "out.onnx"), "--quiet"])
    most = 0
    while process.poll() is None:
        most = max(most, anonymous_kib(process))
        # Each look holds the process up: looking every two milliseconds took it a third more time.
        time.sleep(0.05)
    if process.returncode:
        sys.exit(f"memc ended with {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, most / 1024


def main():
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--memc", default="target/release/memc", help="the binary")
    made.add_argument("--csv", default=RESULTS, metavar="FILE", help="where the table goes")
    made.add_argument("model")
    made.add_argument("nodes", type=int, nargs="+")
    options = made.parse_args()
    rows = []
    for count in [*options.nodes, None]:
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "in.onnx")
            if count:
                name = os.path.basename(options.model)[: -len(".onnx")]
                case = f"{repeat(options.model, model, count):,} nodes, copies of the blocks of {name}"
            else:
                weights(model)
                case = "1 GiB of weights inside the file"
            seconds, memory = plan(options.memc, model, folder)
        rows.append({"case": case, "cpu_seconds": f"{seconds:.2f}", "anonymous_mib": f"{memory:.1f}"})
        print(" ".join(rows[-1].values()), flush=True)
    with open(options.csv, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
