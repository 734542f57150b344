"""Holds gradients of each operator form to differences in binary64.

`gradients.py MEMC FOLDER [NAME]` makes a step of each case with `memc train --emit gradients`, runs it in ONNX
Runtime, and compares its gradients with central differences of the loss, which onnx's reference evaluator computes
in binary64. Prints the forms that differ, then the number of cases; exits with 1 if one differs.
"""
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from cases import all_cases

# Step of the differences: their error is about its square, and 1e-16 divided by it.
STEP = 1e-5


class Erf(OpRun):
    """The error function in the precision of its operand; the evaluator's own rounds to binary32."""

    def _run(self, x):
        return (np.vectorize(math.erf)(x).astype(x.dtype),)


class Gelu(OpRun):
    """Gelu in the precision of its operand."""

    def _run(self, x, approximate=None):
        if approximate == "tanh":
            inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
            return ((0.5 * x * (1 + np.tanh(inner))).astype(x.dtype),)
        return ((0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))).astype(x.dtype),)


class Pad(OpRun):
    """Padding with zeros; negative numbers crop, which the evaluator's own refuses."""

    def _run(self, data, pads, constant_value=None, axes=None, mode=None):
        rank = data.ndim
        padded = np.pad(data, [(max(pads[axis], 0), max(pads[axis + rank], 0)) for axis in range(rank)])
        ranges = [slice(max(-pads[axis], 0), padded.shape[axis] - max(-pads[axis + rank], 0)) for axis in range(rank)]
        return (padded[tuple(ranges)],)


class GroupNormalization(OpRun):
    """Normalization of groups of channels in the precision of its operand."""

    def _run(self, x, scale, bias, epsilon=None, num_groups=None, stash_type=None):
        groups = x.reshape(x.shape[0], num_groups, -1)
        centered = groups - groups.mean(-1, keepdims=True)
        normal = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + epsilon)
        shape = (1, -1) + (1,) * (x.ndim - 2)
        return (normal.reshape(x.shape) * scale.reshape(shape) + bias.reshape(shape),)


class MeanVarianceNormalization(OpRun):
    """Normalization over all axes but the channels."""

    def _run(self, x, axes=None):
        axes = tuple(axes or (0, 2, 3))
        centered = x - x.mean(axes, keepdims=True)
        return (centered / (np.sqrt((centered**2).mean(axes, keepdims=True)) + 1e-9),)


class BatchNormalization(OpRun):
    """Normalization of channels, with given statistics or those of the batch."""

    def _run(self, x, scale, bias, mean, variance, epsilon=None, momentum=None, training_mode=None):
        axes = tuple(axis for axis in range(x.ndim) if axis != 1)
        shape = (1, -1) + (1,) * (x.ndim - 2)
        own = (x.mean(axes), x.var(axes)) if training_mode else (mean, variance)
        centered = (x - own[0].reshape(shape)) / np.sqrt(own[1].reshape(shape) + epsilon)
        y = centered * scale.reshape(shape) + bias.reshape(shape)
        if not training_mode:
            return (y,)
        return (y, *(old * momentum + new * (1 - momentum) for old, new in zip((mean, variance), own)))


class LRN(OpRun):
    """Normalization over neighbouring channels."""

    def _run(self, x, alpha=None, beta=None, bias=None, size=None):
        before = (size - 1) // 2
        sums = np.zeros_like(x)
        for channel in range(x.shape[1]):
            first = max(channel - before, 0)
            sums[:, channel] = (x[:, first : channel - before + size] ** 2).sum(1)
        return (x / (bias + alpha / size * sums) ** beta,)


class ConvTranspose(OpRun):
    """Transposed convolution of images with groups."""

    def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=1, kernel_shape=None, output_padding=None,
             output_shape=None, pads=None, strides=None):
        axes, kernel = x.ndim - 2, w.shape[2:]
        dilations, strides = dilations or [1] * axes, strides or [1] * axes
        pads, rest = pads or [0] * (2 * axes), output_padding or [0] * axes
        whole = [strides[k] * (x.shape[k + 2] - 1) + dilations[k] * (kernel[k] - 1) + 1 + rest[k] for k in range(axes)]
        y = np.zeros((x.shape[0], w.shape[1] * group, *whole), x.dtype)
        inputs, filters = x.shape[1] // group, w.shape[1]
        for part in range(group):
            for tap in np.ndindex(*kernel):
                at = tuple(slice(dilations[k] * tap[k], dilations[k] * tap[k] + strides[k] * (x.shape[k + 2] - 1) + 1, strides[k])
                           for k in range(axes))
                own = w[part * inputs : (part + 1) * inputs, :, *tap]
                add = np.einsum("nc...,cm->nm...", x[:, part * inputs : (part + 1) * inputs], own)
                y[:, part * filters : (part + 1) * filters, *at] += add
        ranges = tuple(slice(pads[k], whole[k] - pads[k + axes]) for k in range(axes))
        y = y[:, :, *ranges]
        return (y if b is None else y + b.reshape(1, -1, *[1] * axes),)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {"Sigmoid": sigmoid, "Tanh": np.tanh, "Relu": lambda x: np.maximum(x, 0)}


def recurrent(gates, usual, step):
    """A recurrent layer in all directions, from the function of a step."""

    def run(self, X, W, R, B=None, sequence_lens=None, initial_h=None, initial_c=None, P=None, activations=None, direction=None,
            hidden_size=None, layout=0, linear_before_reset=0, **others):
        x = X.transpose(1, 0, 2) if layout else X
        directions, hidden = R.shape[0], R.shape[2]
        names = list(activations or usual * directions)
        states, lasts = [], []
        for number in range(directions):
            own = [ACTIVATIONS[name] for name in names[number * len(usual) : (number + 1) * len(usual)]]
            bias = np.zeros(2 * gates * hidden, x.dtype) if B is None else B[number]
            given = [None if state is None else (state.transpose(1, 0, 2) if layout else state)[number] for state in (initial_h, initial_c)]
            now = [np.zeros((x.shape[1], hidden), x.dtype) if state is None else state for state in given]
            peephole = np.zeros(3 * hidden, x.dtype) if P is None else P[number]
            order = range(len(x))
            backward = number == 1 or direction == "reverse"
            parts = [np.split(whole, gates) for whole in (W[number], R[number], bias[: gates * hidden], bias[gates * hidden :])]
            peepholes = np.split(peephole, 3)
            shown = [None] * len(x)
            for at in reversed(order) if backward else order:
                now = step(x[at], now, parts, peepholes, own, linear_before_reset)
                shown[at] = now[0]
            states.append(np.stack(shown))
            lasts.append(now)
        results = [np.stack(states, 1), *(np.stack(last) for last in zip(*lasts))]
        if layout:
            results = [results[0].transpose(2, 0, 1, 3), *(last.transpose(1, 0, 2) for last in results[1:])]
        return tuple(results[: len(self.onnx_node.output)])

    return run


def lstm_step(x, now, parts, peephole, own, _):
    h, c = now
    w, r, wb, rb = parts
    i, o, f, g = (x @ w[k].T + h @ r[k].T + wb[k] + rb[k] for k in range(4))
    i, f, g = own[0](i + peephole[0] * c), own[0](f + peephole[2] * c), own[1](g)
    c = f * c + i * g
    return [own[0](o + peephole[1] * c) * own[2](c), c]


def gru_step(x, now, parts, _, own, late):
    h = now[0]
    w, r, wb, rb = parts
    z, reset = (own[0](x @ w[k].T + h @ r[k].T + wb[k] + rb[k]) for k in range(2))
    inner = reset * (h @ r[2].T + rb[2]) if late else (reset * h) @ r[2].T + rb[2]
    return [(1 - z) * own[1](x @ w[2].T + inner + wb[2]) + z * h]


def rnn_step(x, now, parts, _, own, __):
    w, r, wb, rb = (part[0] for part in parts)
    return [own[0](x @ w.T + now[0] @ r.T + wb + rb)]


class LSTM(OpRun):
    """Long short-term memory in all forms."""

    _run = recurrent(4, ["Sigmoid", "Tanh", "Tanh"], lstm_step)


class GRU(OpRun):
    """Gated recurrent units in all forms."""

    _run = recurrent(3, ["Sigmoid", "Tanh"], gru_step)


class RNN(OpRun):
    """Simple recurrent layers in all forms."""

    _run = recurrent(1, ["Tanh"], rnn_step)


# Operators that onnx's evaluator does not compute in binary64, or not in all forms.
OWN = [LSTM, GRU, RNN, Erf, Gelu, Pad, GroupNormalization, MeanVarianceNormalization, BatchNormalization, LRN, ConvTranspose]


def differences(case, labels):
    """Results, loss and gradients of mean((y - labels)^2) in binary64."""
    weights = {name: array.astype(np.float64) for name, array in case.weights.items()}
    case = case.present or case
    constants = list(case.constants)

    model = case.model(np.float64, weights)
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == onnx.TensorProto.FLOAT:
                attribute.i = onnx.TensorProto.DOUBLE
    evaluator = ReferenceEvaluator(model, new_ops=OWN)
    assert weights.keys() <= evaluator.rt_inits_.keys()
    # The evaluator reads these arrays in each run, so that a change of an element needs no new one.
    evaluator.rt_inits_.update(weights)

    def loss():
        (y,) = evaluator.run(None, {})
        return np.mean((y - labels) ** 2)

    gradients = {}
    for name, array in weights.items():
        gradient = np.zeros(array.shape)
        for at in np.ndindex(array.shape):
            kept = array[at]
            array[at] = kept + STEP
            high = loss()
            array[at] = kept - STEP
            low = loss()
            array[at] = kept
            gradient[at] = (high - low) / (2 * STEP)
        gradients[name] = gradient
    assert constants == list(case.constants)
    return evaluator.run(None, {})[0], loss(), gradients


def quiet():
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return options


def check(memc, folder, case):
    """Why the gradients of a case are wrong; None if they are right."""
    given, step = folder / "given.onnx", folder / "step.onnx"
    onnx.save(case.model(), given)
    try:
        plain = ort.InferenceSession(str(given), quiet(), providers=["CPUExecutionProvider"]).run(None, {})[0]
    except ort.capi.onnxruntime_pybind11_state.Fail:
        # The runtime has no recurrent kernels with the batch first; steps need none.
        plain = ReferenceEvaluator(case.model(), new_ops=OWN).run(None, {})[0]
    labels = np.random.default_rng(7).uniform(-1, 1, plain.shape).astype(np.float32)
    step.unlink(missing_ok=True)
    names = [word for name in case.weights for word in ("--trainable", name)]
    words = [memc, "train", given, "-o", step, "--loss", "mse", "--labels", "labels", "--emit", "gradients", "--quiet", *names]
    made = subprocess.run(words, capture_output=True, text=True)
    if made.returncode != 0:
        return made.stderr.strip()
    session = ort.InferenceSession(str(step), quiet(), providers=["CPUExecutionProvider"])
    outputs = [output.name for output in session.get_outputs()]
    found = dict(zip(outputs, session.run(None, {"labels": labels})))
    y, loss, expected = differences(case, labels.astype(np.float64))
    if not np.allclose(plain, y, rtol=1e-4, atol=1e-5):
        return "the runtime computes another value than the evaluator"
    if not abs(found["loss"] - loss) <= 1e-5 * max(abs(loss), 1e-3):
        return f"loss {found['loss']} instead of {loss}"
    scale = np.sqrt(sum(np.sum(gradient**2) for gradient in expected.values()))
    for name, gradient in expected.items():
        own = found[f"grad.{name}"]
        if own.shape != gradient.shape:
            return f"{name}: shape {own.shape} instead of {gradient.shape}"
        error = np.sqrt(np.sum((own - gradient) ** 2)) / scale
        if not error <= case.bound:
            return f"{name}: relative error {error:.1e}\n{own.ravel()[:6]}\n{gradient.ravel()[:6]}"
    return None


def main():
    memc, folder = sys.argv[1], Path(sys.argv[2])
    wanted = sys.argv[3] if len(sys.argv) > 3 else ""
    wrong, count, operators = [], 0, set()
    for case in all_cases():
        operators |= {node.op_type for node in case.nodes}
        if not case.name.startswith(wanted):
            continue
        count += 1
        try:
            why = check(memc, folder, case)
        except Exception as error:  # A case that nobody can compute is a wrong case.
            why = f"{type(error).__name__}: {error}"
        if why is not None:
            wrong.append(case.name)
            print(f"{case.name}: {why}")
    print(f"{count} cases, {len(wrong)} wrong")
    print("operators:", " ".join(sorted(operators)))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
