"""Holds a step with a free batch to steps with fixed ones.

`ranges.py MEMC FOLDER`: a small image network is trained with `--dim batch=1..16` and with each batch by itself; losses
and gradients agree at 11 sizes, the last label being left out of the mean.
"""
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

from learn import session

SIZES = [1, 2, 3, 4, 5, 7, 8, 11, 12, 15, 16]


def network():
    rng = np.random.default_rng(2)
    normal = lambda name, *shape: nh.from_array((0.3 * rng.standard_normal(shape)).astype(np.float32), name)
    ones = lambda name, size: nh.from_array(np.ones(size, np.float32), name)
    nodes = [
        h.make_node("Conv", ["images", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        h.make_node("BatchNormalization", ["c1", "s1", "h1", "m1", "v1"], ["n1"]),
        h.make_node("Relu", ["n1"], ["r1"]),
        h.make_node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        h.make_node("Conv", ["p1", "w2"], ["c2"], strides=[2, 2], pads=[1, 1, 1, 1]),
        h.make_node("Gelu", ["c2"], ["r2"]),
        h.make_node("AveragePool", ["r2"], ["p2"], kernel_shape=[2, 2]),
        h.make_node("Flatten", ["p2"], ["f"]),
        h.make_node("Gemm", ["f", "w3", "b3"], ["scores"]),
    ]
    tensors = [normal("w1", 12, 3, 3, 3), normal("b1", 12), ones("s1", 12), normal("h1", 12), normal("m1", 12), ones("v1", 12),
               normal("w2", 10, 12, 3, 3), normal("w3", 10, 5), normal("b3", 5)]
    inputs = [h.make_tensor_value_info("images", T.FLOAT, ["batch", 3, 8, 8])]
    graph = h.make_graph(nodes, "network", inputs, [h.make_tensor_value_info("scores", T.FLOAT, ["batch", 5])], tensors)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 20)])
    model.ir_version = 9
    return model


def step(memc, folder, batch, norms):
    path = folder / f"step{batch.replace('.', '_')}.onnx"
    words = [memc, "train", folder / "network.onnx", "-o", path, "--loss", "cross-entropy:smoothing=0.1", "--labels", "labels",
             "--emit", "gradients", "--norms", norms, "--dim", f"batch={batch}", "--quiet"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(str(path))
    return session(path)


def main():
    memc, folder = sys.argv[1], Path(sys.argv[2])
    onnx.save(network(), folder / "network.onnx")
    for norms in ["eval", "train"]:
        free = step(memc, folder, "1..16", norms)
        names = [output.name for output in free.get_outputs()]
        for size in SIZES:
            rng = np.random.default_rng(size)
            labels = rng.integers(0, 5, size)
            labels[-1] = -100 if size > 1 else 2
            feed = {"images": rng.standard_normal((size, 3, 8, 8)).astype(np.float32), "labels": labels}
            found = dict(zip(names, free.run(None, feed)))
            fixed = step(memc, folder, str(size), norms)
            expected = dict(zip([output.name for output in fixed.get_outputs()], fixed.run(None, feed)))
            assert found.keys() == expected.keys()
            # A bias before a normalization has the gradient zero: errors count against all gradients.
            scale = max(np.abs(array).max() for array in expected.values())
            for name, array in expected.items():
                error = np.abs(found[name] - array).max() / scale
                assert error <= 2e-6, f"{norms} {size} {name}: {error:.1e}"
    print(f"a free batch gives the results of fixed ones at {len(SIZES)} sizes")


if __name__ == "__main__":
    main()
