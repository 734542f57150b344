"""Trains a convolutional net on handwritten digits with `memc.train.Trainer`.

`digits.py MEMC FOLDER TRAIN.py`: the net has two convolutions and a free batch. At most ten passes over the images must
give at least 96 % of right answers on images not seen, by the trained values baked into the model.
"""
import gzip
import sys
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from learn import memc, session
from trainer import trainer_of

BATCH, PASSES, TESTED = 32, 8, 360
RIGHT, SECONDS = 0.96, 10


def model(rng):
    """Two convolutions with pooling, and a product."""
    normal = lambda scale, *extents: (scale * rng.standard_normal(extents)).astype(np.float32)
    weights = {"conv1.weight": normal(0.3, 16, 1, 3, 3), "conv1.bias": normal(0, 16),
               "conv2.weight": normal(0.12, 32, 16, 3, 3), "conv2.bias": normal(0, 32),
               "fc.weight": normal(0.1, 128, 10), "fc.bias": normal(0, 10)}
    nodes, value = [], "image"
    for layer in ("conv1", "conv2"):
        nodes.append(helper.make_node("Conv", [value, f"{layer}.weight", f"{layer}.bias"], [layer], pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [layer], [f"{layer}.relu"]))
        nodes.append(helper.make_node("MaxPool", [f"{layer}.relu"], [f"{layer}.pool"], kernel_shape=[2, 2], strides=[2, 2]))
        value = f"{layer}.pool"
    nodes.append(helper.make_node("Flatten", [value], ["features"]))
    nodes.append(helper.make_node("Gemm", ["features", "fc.weight", "fc.bias"], ["scores"]))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "digits", [info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
                              [info("scores", TensorProto.FLOAT, ["batch", 10])],
                              [numpy_helper.from_array(array, name) for name, array in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main():
    program, folder, module = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    text = gzip.decompress(Path(__file__).with_name("digits.csv.gz").read_bytes()).decode()
    rows = np.array([line.split(",") for line in text.split()], np.float32)
    rng = np.random.default_rng(11)
    rng.shuffle(rows)
    images, labels = rows[:, :64].reshape(-1, 1, 8, 8) / 16, rows[:, 64].astype(np.int64)
    given, step, trained = folder / "digits.onnx", folder / "step.onnx", folder / "trained.onnx"
    onnx.save(model(rng), given)
    memc(program, "train", given, "-o", step, "--loss", "cross-entropy", "--labels", "labels", "--optimizer", "adamw",
         "--weight-decay", "*.weight=0.01")
    began = time.process_time()
    trainer = trainer_of(module)(step)
    order = np.concatenate([TESTED + rng.permutation(len(rows) - TESTED) for _ in range(PASSES)])
    picks = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    losses = trainer.fit([{"image": images[pick], "labels": labels[pick]} for pick in picks], lambda update: 2e-3)
    used = time.process_time() - began
    trainer.save(folder / "state.npz")
    memc(program, "train", given, "--bake", folder / "state.npz", "-o", trained)
    count = lambda path: np.mean(session(path).run(None, {"image": images[:TESTED]})[0].argmax(1) == labels[:TESTED])
    before, after = count(given), count(trained)
    print(f"right answers {before:.3f} -> {after:.3f}, loss {losses[0]:.3f} -> {losses[-1]:.3f}, {used:.1f} s of CPU")
    assert after >= RIGHT and before < 0.5, (before, after)
    assert used <= SECONDS, used


if __name__ == "__main__":
    main()
