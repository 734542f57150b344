"""Trains a perceptron and a language model in stock sessions.

`learn.py MEMC FOLDER PERCEPTRON.onnx` makes a step of each with `memc train`, plans it with `memc optimize
--alias-state`, runs both in ONNX Runtime with the outputs of one call as the inputs of the next, and holds that both
learn, and alike.
"""
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

import gpt


def memc(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def session(path):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def train(path, batches, rate):
    """Losses of a step over batches."""
    step = session(path)
    outputs = [output.name for output in step.get_outputs()]
    inputs = {value.name for value in step.get_inputs()}
    state, losses = {}, []
    for number, batch in enumerate(batches, 1):
        feed = {**batch, "lr": np.float32(rate), "step": np.int64(number)}
        feed = {name: np.asarray(array) for name, array in feed.items() if name in inputs}
        found = dict(zip(outputs, step.run(None, {**feed, **state})))
        state = {name[4:]: array for name, array in found.items() if name.startswith("new.")}
        losses.append(float(found["loss"]))
    return losses


def learns(program, folder, given, name, options, batches, rate, share):
    step, planned = folder / f"{name}.step.onnx", folder / f"{name}.planned.onnx"
    memc(program, "train", given, "-o", step, *options)
    onnx.checker.check_model(str(step))
    memc(program, "optimize", step, "-o", planned, "--alias-state", "--effort", "fast", "--runtime", "ort")
    losses, again = train(step, batches, rate), train(planned, batches, rate)
    print(f"{name}: loss {losses[0]:.4f} -> {losses[-1]:.4f} in {len(losses)} steps; planned {again[-1]:.4f}")
    assert losses[-1] < share * losses[0], losses
    assert np.allclose(losses, again, rtol=2e-3), (losses, again)


def main():
    program, folder, perceptron = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    rng = np.random.default_rng(5)
    # Ten classes of noisy pixels.
    centers = rng.standard_normal((10, 64)).astype(np.float32)
    batches = []
    for _ in range(60):
        labels = rng.integers(0, 10, 32)
        pixels = centers[labels] + 0.5 * rng.standard_normal((32, 64)).astype(np.float32)
        batches.append({"pixels": pixels, "labels": labels})
    options = ["--loss", "cross-entropy", "--labels", "labels", "--optimizer", "sgd:momentum=0.9"]
    learns(program, folder, perceptron, "perceptron", options, batches, 0.05, 0.1)
    # Sequences that count in steps of one or two.
    onnx.save(gpt.model(), folder / "gpt.onnx")
    batches = []
    for _ in range(60):
        starts, strides = rng.integers(0, 40, (4, 1)), rng.integers(1, 3, (4, 1))
        tokens = (starts + strides * np.arange(17)) % 40
        batches.append({"tokens": tokens[:, :-1], "labels": tokens[:, 1:]})
    options = ["--loss", "cross-entropy", "--labels", "labels", "--optimizer", "adamw", "--clip", "global=1"]
    learns(program, folder, folder / "gpt.onnx", "gpt", options, batches, 0.01, 0.5)


if __name__ == "__main__":
    main()
