"""Holds gradient rules to the passes that know their forms.

`forms.py MEMC FOLDER`: a pass must find what it looks for in the gradients of a pool, of masked attention, and of
products over a batch.
"""
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

import gpt
from learn import memc


def pooled():
    """A convolution, a Relu, a pool, and a product behind a Reshape."""
    rng = np.random.default_rng(0)
    normal = lambda name, *shape: nh.from_array((0.2 * rng.standard_normal(shape)).astype(np.float32), name)
    nodes = [
        h.make_node("Conv", ["x", "w1"], ["c"], pads=[1, 1, 1, 1]),
        h.make_node("Relu", ["c"], ["r"]),
        h.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        h.make_node("Flatten", ["p"], ["f"]),
        h.make_node("Gemm", ["f", "w2"], ["y"]),
    ]
    inputs, outputs = [h.make_tensor_value_info("x", T.FLOAT, [4, 3, 16, 16])], [h.make_tensor_value_info("y", T.FLOAT, [4, 5])]
    graph = h.make_graph(nodes, "pooled", inputs, outputs, [normal("w1", 16, 3, 3, 3), normal("w2", 1024, 5)])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def step(program, folder, name, model):
    onnx.save(model, folder / f"{name}.onnx")
    memc(program, "train", folder / f"{name}.onnx", "-o", folder / f"{name}.step.onnx", "--loss", "cross-entropy", "--labels", "labels")
    return folder / f"{name}.step.onnx"


def pool(program, folder):
    """`canonicalize` masks the pooled gradient, so the Relu's result need not be kept."""
    graph = onnx.load(step(program, folder, "pool", pooled())).graph
    readers = lambda name: {node.op_type for node in graph.node if name in node.input}
    assert readers("r") == {"MaxPool"}, readers("r")
    assert "Greater" in readers("p"), readers("p")


def attention(program, folder):
    """`mask-blocks` divides the core of masked attention forward and backward."""
    path = step(program, folder, "gpt", gpt.model(batch=1, length=128, width=32, heads=2, layers=1))
    passes = "canonicalize,fold,mask-blocks,dce,schedule,view,in-place,place"
    memc(program, "optimize", path, "-o", folder / "blocks.onnx", "--passes", passes)
    memc(program, "check", path, folder / "blocks.onnx", folder / "blocks.layout.json")
    extents = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in onnx.load(folder / "blocks.onnx").graph.value_info}
    whole = [name for name, dims in extents.items() if len(dims) == 4 and dims[-2:] == [128, 128]]
    # Scores, probabilities and their gradients exist in blocks of 64 rows only.
    assert not whole, whole
    blocks = [name for name, dims in extents.items() if len(dims) == 4 and dims[-2:] == [64, 64]]
    assert any("grad" in name for name in blocks), blocks


def batch(program, folder, perceptron):
    """`micro-batch` divides products over the rows of a batch, and adds up gradients."""
    planned = folder / "parts.onnx"
    words = [program, "train", perceptron, "-o", planned, "--loss", "cross-entropy", "--labels", "labels", "--micro-batches", "2"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0 and "W0303" not in done.stderr, done.stderr
    layout = json.loads((folder / "parts.layout.json").read_text())
    names = {row["name"] for row in layout["tensors"]}
    assert {"r_grad_part0", "r_grad_part1", "scores_part1"} <= names, sorted(names)


def main():
    program, folder, perceptron = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    pool(program, folder)
    attention(program, folder)
    batch(program, folder, perceptron)
    print("passes find the forms of gradients")


if __name__ == "__main__":
    main()
