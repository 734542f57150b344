"""Holds gradients of many convolutions to the convolution itself.

`convolutions.py MEMC FOLDER COUNT`: a convolution is linear in its image and in its weights, so the gradients dX and dW
of a loss with the gradient g of the result satisfy <dX, v> = <g, conv(v, W)> and <dW, u> = <g, conv(X, u)> for any
v and u. Prints the forms that differ and the largest relative error.
"""
import itertools
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

from learn import session

BOUND = 1e-5


def forms():
    """All forms of convolutions, then of transposed ones, in a fixed random order."""
    whole = []
    for size, kernel, stride, dilation, pads, group in itertools.product(
        [(5, 6), (7, 7), (8, 5)], [(1, 1), (2, 2), (3, 3), (3, 1)], [(1, 1), (2, 2), (3, 2), (2, 1)], [(1, 1), (2, 2)],
        [(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 2, 1)], [(3, 4, 1), (4, 6, 2), (3, 6, 3), (10, 5, 1), (12, 12, 1)]
    ):
        reach = [dilation[k] * (kernel[k] - 1) + 1 for k in range(2)]
        fits = all(size[k] + pads[k] + pads[k + 2] >= reach[k] for k in range(2))
        if fits:
            whole.append(("Conv", size, kernel, stride, dilation, pads, group))
        if fits and all(pads[k] + pads[k + 2] < reach[k] + stride[k] * (size[k] - 1) for k in range(2)) and group[0] < 10:
            whole.append(("ConvTranspose", size, kernel, stride, dilation, pads, group))
    random.Random(3).shuffle(whole)
    return whole


def model(form, weights):
    name, size, _, stride, dilation, pads, (channels, _, group) = form
    node = h.make_node(name, ["x", "w"], ["y"], strides=stride, dilations=dilation, pads=pads, group=group)
    shape = [2, channels, *size]
    tensors = [nh.from_array(weights, "w")]
    graph = h.make_graph([node], "conv", [], [h.make_tensor_value_info("y", T.FLOAT, None)], tensors)
    return graph, shape


def written(graph, path):
    made = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])
    made.ir_version = 8
    onnx.save(made, path)
    return path


def check(memc, folder, form):
    rng = np.random.default_rng(1)
    _, _, kernel, *_, (channels, filters, group) = form
    shape = (filters, channels // group) if form[0] == "Conv" else (channels, filters // group)
    normal = lambda *dims: rng.standard_normal(dims).astype(np.float32)
    weights, other = normal(*shape, *kernel), normal(*shape, *kernel)
    graph, dims = model(form, weights)
    image, probe = normal(*dims), normal(*dims)
    # The operator itself, with image and weights as inputs.
    plain = onnx.GraphProto()
    plain.CopyFrom(graph)
    del plain.initializer[:]
    plain.input.extend([h.make_tensor_value_info("x", T.FLOAT, dims), h.make_tensor_value_info("w", T.FLOAT, weights.shape)])
    forward = session(written(plain, folder / "plain.onnx"))
    run = lambda x, w: forward.run(None, {"x": x, "w": w})[0].astype(np.float64)
    y = run(image, weights)
    labels = rng.standard_normal(y.shape).astype(np.float32)
    graph.initializer.append(nh.from_array(image, "x"))
    written(graph, folder / "given.onnx")
    step = folder / "step.onnx"
    step.unlink(missing_ok=True)
    words = [memc, "train", folder / "given.onnx", "-o", step, "--loss", "mse", "--labels", "labels", "--emit", "gradients",
             "--trainable", "x", "--trainable", "w", "--quiet"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        return 1.0, done.stderr
    trained = session(step)
    found = dict(zip([output.name for output in trained.get_outputs()], trained.run(None, {"labels": labels})))
    gradient = 2 * (y - labels) / y.size
    worst = 0.0
    for made, v, back in [(found["grad.x"], probe, run(probe, weights)), (found["grad.w"], other, run(image, other))]:
        left, right = np.sum(made.astype(np.float64) * v), np.sum(gradient * back)
        scale = np.linalg.norm(made) * np.linalg.norm(v)
        worst = max(worst, abs(left - right) / scale)
    return worst, ""


def main():
    memc, folder, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    worst, wrong = 0.0, 0
    chosen = forms()[:count]
    for form in chosen:
        error, why = check(memc, folder, form)
        worst = max(worst, error)
        if not error <= BOUND:
            wrong += 1
            print(form, error, why)
    print(f"{len(chosen)} convolutions, {wrong} wrong, worst {worst:.1e}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
