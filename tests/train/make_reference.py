"""Writes `reference.npz` anew: gradients and five steps of each optimizer, in binary64, and the errors of binary32.

`make_reference.py` needs numpy, onnx, jax and optax, which the tests do not. It computes the small models with
operators of jax, differentiates them there, and takes the optimizers of optax. Both run in binary64 and in binary32;
the file keeps the first, and how far the second is from it.
"""
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from onnx import helper as h
from onnx import numpy_helper as nh

import small

jax.config.update("jax_enable_x64", True)


# Batches whose errors in binary32 are measured.
BATCHES = 5


def lstm(x, w, r, b):
    w, r, (wb, rb) = w[0], r[0], jnp.split(b[0], 2)
    state = cell = jnp.zeros((x.shape[1], r.shape[1]), x.dtype)
    for at in range(x.shape[0]):
        i, o, f, g = jnp.split(x[at] @ w.T + state @ r.T + wb + rb, 4, axis=1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        state = jax.nn.sigmoid(o) * jnp.tanh(cell)
    return None, state[None]


def convolution(x, k, bias=None, pads=(0, 0, 0, 0), strides=(1, 1), group=1, kernel_shape=None):
    around = [(pads[0], pads[2]), (pads[1], pads[3])]
    y = jax.lax.conv_general_dilated(x, k, strides, around, feature_group_count=group)
    return y if bias is None else y + bias.reshape(1, -1, 1, 1)


def normalized(x, scale, shift, axis, epsilon):
    centered = x - x.mean(axis, keepdims=True)
    return centered / jnp.sqrt((centered**2).mean(axis, keepdims=True) + epsilon) * scale + shift


def batch_normalized(x, scale, shift, mean, variance, epsilon):
    wide = lambda vector: vector.reshape(1, -1, 1, 1)
    return (x - wide(mean)) / jnp.sqrt(wide(variance) + epsilon) * wide(scale) + wide(shift)


def pooled(x, kernel_shape, strides):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, *kernel_shape), (1, 1, *strides), "VALID")


OPERATORS = {
    "MatMul": lambda a, b: a @ b,
    "Add": lambda a, b: a + b,
    "Mul": lambda a, b: a * b,
    "Gemm": lambda a, b, c: a @ b + c,
    "Tanh": jnp.tanh,
    "Sigmoid": jax.nn.sigmoid,
    "Relu": lambda x: jnp.where(x > 0, x, 0),
    "Gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "Softmax": lambda x, axis: jax.nn.softmax(x, axis),
    "Conv": convolution,
    "BatchNormalization": batch_normalized,
    "LayerNormalization": normalized,
    "MaxPool": pooled,
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdims=True),
    "Flatten": lambda x: x.reshape(x.shape[0], -1),
    "Gather": lambda table, at: table[at],
    "Split": lambda x, axis, num_outputs: jnp.split(x, num_outputs, axis),
    "Reshape": lambda x, dims: x.reshape([x.shape[at] if dim == 0 else int(dim) for at, dim in enumerate(np.asarray(dims))]),
    "Transpose": lambda x, perm: x.transpose(perm),
    "Squeeze": lambda x, axes: x.squeeze(tuple(int(axis) for axis in np.asarray(axes))),
    "LSTM": lambda x, w, r, b, hidden_size: lstm(x, w, r, b),
}


def forward(model, parameters, x, kind):
    values = {"x": x.astype(kind) if x.dtype == np.float32 else x}
    for tensor in model.graph.initializer:
        array = nh.to_array(tensor)
        values[tensor.name] = array.astype(kind) if array.dtype == np.float32 else array
    values.update(parameters)
    for node in model.graph.node:
        attributes = {attribute.name: h.get_attribute_value(attribute) for attribute in node.attribute}
        made = OPERATORS[node.op_type](*(values[name] for name in node.input), **attributes)
        made = made if isinstance(made, (list, tuple)) else [made]
        values.update(zip(node.output, made))
    return values["y"]


def loss(parameters, model, x, labels, kind):
    logits = jax.nn.log_softmax(forward(model, parameters, x, kind))
    return -logits[jnp.arange(len(labels)), labels].mean()


def flat(parameters):
    return np.concatenate([np.asarray(parameters[name], np.float64).ravel() for name in sorted(parameters)])


def optimizer(name):
    words, decay = small.OPTIMIZERS[name]
    rate = small.RATE
    if name in ("sgd", "nesterov"):
        return optax.chain(optax.add_decayed_weights(decay), optax.sgd(rate, 0.9, nesterov=name == "nesterov"))
    if name == "adam":
        return optax.adam(rate)
    if name == "adamw":
        return optax.adamw(rate, weight_decay=decay)
    if name == "lamb":
        return optax.lamb(rate, eps=1e-6, weight_decay=decay)
    return optax.lars(rate, weight_decay=decay, trust_coefficient=0.02, momentum=0.9)


def trained(name, kind, own, model, first):
    parameters = {name: jnp.asarray(array.astype(kind)) for name, array in own.items()}
    transform = optimizer(name)
    state = transform.init(parameters)
    for number in range(small.STEPS):
        x, labels = small.batch("mlp", first + number)
        gradients = jax.grad(loss)(parameters, model, x, labels, kind)
        changes, state = transform.update(gradients, state, parameters)
        parameters = optax.apply_updates(parameters, changes)
    return flat(parameters) - flat(own)


def main():
    found = {}
    for name, make in small.MODELS.items():
        model, own = make()
        errors = []
        # The error of one batch is a matter of luck: the largest of several counts.
        for number in reversed(range(BATCHES)):
            x, labels = small.batch(name, number)
            both = []
            for kind in (np.float64, np.float32):
                parameters = {name: jnp.asarray(array.astype(kind)) for name, array in own.items()}
                value, gradients = jax.value_and_grad(loss)(parameters, model, x, labels, kind)
                assert value.dtype == kind and all(gradient.dtype == kind for gradient in gradients.values())
                both.append((float(value), flat(gradients)))
            (value, wide), (_, narrow) = both
            errors.append(np.linalg.norm(narrow - wide) / np.linalg.norm(wide))
        error = max(errors)
        found.update({f"{name}.loss": value, f"{name}.gradients": wide, f"{name}.error": error})
        print(f"{name}: {wide.size} numbers, loss {value:.6f}, error of binary32 {error:.1e}")
    model, own = small.mlp()
    for name in small.OPTIMIZERS:
        errors = []
        for first in reversed(range(BATCHES)):
            wide, narrow = (trained(name, kind, own, model, first) for kind in (np.float64, np.float32))
            errors.append(np.linalg.norm(narrow - wide) / np.linalg.norm(wide))
        error = max(errors)
        found.update({f"{name}.change": wide, f"{name}.error": error})
        print(f"{name}: error of binary32 {error:.1e}")
    np.savez_compressed(Path(__file__).with_name("reference.npz"), **found)


if __name__ == "__main__":
    main()
