"""Holds losses, optimizers, limits, loss scaling and accumulation to formulas in binary64.

`optimizers.py MEMC FOLDER`: the model is `y = x W + b`, whose gradients are known.
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

ROWS, INPUTS, CLASSES, STEPS, RATE = 6, 5, 4, 5, 0.05
RNG = np.random.default_rng(11)
WEIGHTS = {"w.weight": RNG.standard_normal((INPUTS, CLASSES)).astype(np.float32), "w.bias": RNG.standard_normal(CLASSES).astype(np.float32)}


def linear():
    nodes = [h.make_node("MatMul", ["x", "w.weight"], ["p"]), h.make_node("Add", ["p", "w.bias"], ["y"])]
    inputs = [h.make_tensor_value_info("x", T.FLOAT, [ROWS, INPUTS])]
    outputs = [h.make_tensor_value_info("y", T.FLOAT, [ROWS, CLASSES])]
    graph = h.make_graph(nodes, "linear", inputs, outputs, [nh.from_array(array, name) for name, array in WEIGHTS.items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def softmax(y):
    e = np.exp(y - y.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def loss_of(name, y, labels):
    """Loss and its gradient at `y`."""
    if name == "mse":
        return np.mean((y - labels) ** 2), 2 * (y - labels) / y.size
    if name == "l1":
        return np.mean(np.abs(y - labels)), np.sign(y - labels) / y.size
    if name == "bce":
        return np.mean(np.log1p(np.exp(y)) - y * labels), (1 / (1 + np.exp(-y)) - labels) / y.size
    smoothing = 0.2 if "smoothing" in name else 0.0
    counts = labels != (1 if "ignore=1" in name else -100)
    if "none" in name:
        counts = np.ones_like(labels, bool)
    share = softmax(y)
    wanted = np.full(y.shape, smoothing / y.shape[1])
    wanted[np.arange(len(y)), np.where(counts, labels, 0)] += 1 - smoothing
    terms = -(wanted * np.log(share)).sum(-1)
    return (terms * counts).sum() / counts.sum(), (share - wanted) * counts[:, None] / counts.sum()


def gradients(x, gradient):
    return {"w.weight": x.T @ gradient, "w.bias": gradient.sum(0)}


def limited(kind, limit, found):
    norm = lambda array: np.sqrt((array**2).sum())
    if kind == "value":
        return {name: np.clip(array, -limit, limit) for name, array in found.items()}
    if kind == "tensor":
        return {name: array * min(1, limit / (norm(array) + 1e-6)) for name, array in found.items()}
    whole = np.sqrt(sum((array**2).sum() for array in found.values()))
    return {name: array * min(1, limit / (whole + 1e-6)) for name, array in found.items()}


class Reference:
    """An optimizer in binary64."""

    def __init__(self, kind, decay=0.0, momentum=0.0, nesterov=False, betas=(0.9, 0.999), eps=1e-8, trust=0.001):
        self.kind, self.decay, self.momentum, self.nesterov = kind, decay, momentum, nesterov
        self.betas, self.eps, self.trust, self.state, self.number = betas, eps, trust, {}, 0

    def update(self, weights, found):
        self.number += 1
        for name, g in found.items():
            p = weights[name]
            decay = self.decay(name) if callable(self.decay) else self.decay
            if self.kind in ("sgd", "adam"):
                g = g + decay * p
            m, v = self.state.get(name, (np.zeros_like(p), np.zeros_like(p)))
            if self.kind == "sgd":
                m = self.momentum * m + g
                change = RATE * (g + self.momentum * m if self.nesterov else m)
            elif self.kind == "lars":
                size, slope = np.linalg.norm(p), np.linalg.norm(g)
                local = self.trust * size / (slope + decay * size)
                m = self.momentum * m + RATE * local * (g + decay * p)
                change = m
            else:
                m = self.betas[0] * m + (1 - self.betas[0]) * g
                v = self.betas[1] * v + (1 - self.betas[1]) * g * g
                first, second = (1 - beta**self.number for beta in self.betas)
                change = m / first / (np.sqrt(v / second) + self.eps)
                if self.kind == "adamw":
                    p = p * (1 - RATE * decay)
                if self.kind == "lamb":
                    change = change + decay * p
                    change = change * np.linalg.norm(p) / np.linalg.norm(change)
                change = RATE * change
            self.state[name] = (m, v)
            weights[name] = p - change


class Step:
    """A step in a session, with its state."""

    def __init__(self, memc, folder, options):
        given, path = folder / "linear.onnx", folder / "step.onnx"
        onnx.save(linear(), given)
        words = [memc, "train", given, "-o", path, "--labels", "labels", "--quiet", *options]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        onnx.checker.check_model(str(path))
        self.session, self.state = session(path), {}
        self.inputs = {value.name for value in self.session.get_inputs()}

    def run(self, **feed):
        feed = {name: np.asarray(array) for name, array in feed.items() if name in self.inputs}
        names = [output.name for output in self.session.get_outputs()]
        found = dict(zip(names, self.session.run(None, {**feed, **self.state})))
        self.state = {name[4:]: array for name, array in found.items() if name.startswith("new.")}
        return found


def close(what, found, expected, bound):
    error = np.abs(np.asarray(found, np.float64) - expected).max() / max(np.abs(expected).max(), 1e-12)
    assert error <= bound, f"{what}: relative error {error:.1e}"
    return error


def batches(loss):
    for number in range(STEPS):
        rng = np.random.default_rng(number)
        x = rng.standard_normal((ROWS, INPUTS)).astype(np.float32)
        if loss.startswith("cross"):
            labels = rng.integers(0, CLASSES, ROWS)
            labels[number % ROWS] = -100
            if "ignore=1" in loss or "none" in loss:
                labels[number % ROWS] = 2
        else:
            labels = rng.uniform(0, 1, (ROWS, CLASSES)).astype(np.float32)
        yield x, labels


def main():
    memc, folder = sys.argv[1], Path(sys.argv[2])
    # Losses, by their gradients.
    losses = ["mse", "l1", "bce", "cross-entropy", "cross-entropy:smoothing=0.2", "cross-entropy:ignore=1", "cross-entropy:ignore=none,of=y"]
    for loss in losses:
        step = Step(memc, folder, ["--loss", loss, "--emit", "gradients"])
        for x, labels in batches(loss):
            y = x.astype(np.float64) @ WEIGHTS["w.weight"] + WEIGHTS["w.bias"]
            value, slope = loss_of(loss, y, labels)
            found = step.run(x=x, labels=labels)
            close(loss, found["loss"], value, 2e-6)
            for name, expected in gradients(x, slope).items():
                close(f"{loss} {name}", found[f"grad.{name}"], expected, 5e-6)
    # Optimizers, by the change of parameters over five steps.
    by_name = lambda name: 0.1 if name.endswith("weight") else 0.0
    forms = [
        (["sgd"], Reference("sgd")),
        (["sgd:momentum=0.9"], Reference("sgd", momentum=0.9)),
        (["sgd:momentum=0.9,nesterov", "--weight-decay", "0.01"], Reference("sgd", 0.01, 0.9, True)),
        (["adam", "--weight-decay", "0.1"], Reference("adam", 0.1)),
        (["adamw"], Reference("adamw", 0.01)),
        (["adamw:beta1=0.8,beta2=0.95,eps=1e-6", "--weight-decay", "0", "--weight-decay", "*weight=0.1"], Reference("adamw", by_name, betas=(0.8, 0.95), eps=1e-6)),
        (["lamb", "--weight-decay", "0.01"], Reference("lamb", 0.01, eps=1e-6)),
        (["lars:momentum=0.9,trust=0.02", "--weight-decay", "0.01"], Reference("lars", 0.01, 0.9, trust=0.02)),
    ]
    for words, reference in forms:
        for clip in [None, ("value", 0.05), ("tensor", 0.1), ("global", 0.1)] if words == ["sgd"] else [None]:
            extra = ["--clip", f"{clip[0]}={clip[1]}"] if clip else []
            step = Step(memc, folder, ["--loss", "mse", "--optimizer", *words, *extra])
            weights = {name: array.astype(np.float64) for name, array in WEIGHTS.items()}
            for number, (x, labels) in enumerate(batches("mse"), 1):
                y = x.astype(np.float64) @ weights["w.weight"] + weights["w.bias"]
                found = gradients(x, loss_of("mse", y, labels)[1])
                reference.update(weights, limited(*clip, found) if clip else found)
                step.run(x=x, labels=labels, lr=np.float32(RATE), step=np.int64(number))
            for name, array in weights.items():
                close(f"{words} {clip} {name}", step.state[name] - WEIGHTS[name], array - WEIGHTS[name], 5e-5)
    # Loss scaling: the same step, and no change after an overflow.
    step = Step(memc, folder, ["--loss", "mse", "--optimizer", "sgd:momentum=0.9", "--loss-scale"])
    plain = Step(memc, folder, ["--loss", "mse", "--optimizer", "sgd:momentum=0.9"])
    for number, (x, labels) in enumerate(batches("mse"), 1):
        scale = np.float32(np.inf if number == 3 else 1024)
        found = step.run(x=x, labels=labels, lr=np.float32(RATE), loss_scale=scale)
        assert bool(found["overflow"]) == (number == 3)
        if number != 3:
            plain.run(x=x, labels=labels, lr=np.float32(RATE))
    for name in step.state:
        close(f"loss scale {name}", step.state[name], plain.state[name], 1e-6)
    # Accumulation: three calls make one update with the mean of their gradients.
    step = Step(memc, folder, ["--loss", "mse", "--optimizer", "sgd:momentum=0.9", "--accumulate", "3"])
    reference = Reference("sgd", momentum=0.9)
    weights = {name: array.astype(np.float64) for name, array in WEIGHTS.items()}
    for update in range(2):
        sums = {name: np.zeros_like(array) for name, array in weights.items()}
        for call, (x, labels) in zip(range(3), batches("mse")):
            y = x.astype(np.float64) @ weights["w.weight"] + weights["w.bias"]
            for name, found in gradients(x, loss_of("mse", y, labels)[1]).items():
                sums[name] += found / 3
            step.run(x=x, labels=labels, lr=np.float32(RATE), apply=np.bool_(call == 2))
            if call != 2:
                close("before an update", step.state["w.bias"], weights["w.bias"], 1e-6)
        reference.update(weights, sums)
        for name, array in weights.items():
            close(f"accumulated {name}", step.state[name] - WEIGHTS[name], array - WEIGHTS[name], 1e-5)
            assert not step.state[f"acc.{name}"].any()
    print("losses, optimizers, limits, loss scaling and accumulation agree")


if __name__ == "__main__":
    main()
