"""Evaluates models over the integers modulo a prime: two that agree for random operands are equal as rational functions.

Sums, products and quotients are those of the field; a constant is the fraction that it is; functions of one number that are no rational
function (Exp, Sqrt, Sigmoid, Relu) are free: random, and the same for the same operand. So nothing rounds, and equal forms give equal
numbers. Forms that differ as rational functions of degree d give equal ones with a chance of at most d in 2^61 a trial (Schwartz 1980, Zippel
1979). Integers that say shapes and positions are computed as they are.
"""
import hashlib
from fractions import Fraction

import numpy as np
from onnx import helper, numpy_helper

PRIME = 2**61 - 1
FREE = {"Abs", "Cast", "Erf", "Exp", "Gelu", "Log", "Relu", "Sigmoid", "Sqrt", "Tanh"}


class Outside(Exception):
    """What is no function of a field: an order of numbers, an operator that is not known here, a division by zero."""


def number(value):
    """The element that a finite float is."""
    if not np.isfinite(value):
        raise Outside("a constant that is not finite")
    exact = Fraction(float(value))
    return exact.numerator * pow(exact.denominator, -1, PRIME) % PRIME


def elements(array):
    """A tensor of floats as elements of the field; others as they are."""
    array = np.asarray(array)
    if array.dtype.kind != "f":
        return array
    found = np.empty(array.shape, object)
    for index in np.ndindex(*array.shape):
        found[index] = number(array[index])
    return found


def is_field(array):
    return array.dtype == object


def reduced(array):
    return np.asarray(np.asarray(array, object) % PRIME, object) if is_field(np.asarray(array)) else array


def inverse(array):
    def one(value):
        if value % PRIME == 0:
            raise Outside("a division by zero")
        return pow(int(value), -1, PRIME)
    return np.asarray(np.frompyfunc(one, 1, 1)(array), object)


def quotient(x, y):
    """Of integers, which ONNX rounds toward zero."""
    if not np.all(y):
        raise Outside("a division by zero")
    return np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))


def free(name, array):
    """A function of which nothing is known."""
    def one(value):
        return int.from_bytes(hashlib.sha256(f"{name} {value % PRIME}".encode()).digest()[:8], "little") % PRIME
    return np.asarray(np.frompyfunc(one, 1, 1)(array), object)


def matmul(a, b):
    return reduced(np.matmul(a, b) if min(a.size, b.size) else np.zeros(np.matmul(np.zeros(a.shape), np.zeros(b.shape)).shape, object))


def swapped(array):
    return np.swapaxes(array, -1, -2) if array.ndim > 1 else array


def fused_product(a, b, attributes):
    # The first axis of batches stands before the rows.
    a = np.moveaxis(a, 0, -2) if attributes.get("transBatchA", 0) else a
    b = np.moveaxis(b, 0, -2) if attributes.get("transBatchB", 0) else b
    a, b = swapped(a) if attributes.get("transA", 0) else a, swapped(b) if attributes.get("transB", 0) else b
    return reduced(matmul(a, b) * number(attributes.get("alpha", 1.0)))


def mean(array, axes, keep):
    count = int(np.prod([array.shape[axis] for axis in axes], dtype=np.int64))
    if not count:
        raise Outside("a mean of nothing")
    total = np.asarray(np.sum(array, axis=tuple(axes), keepdims=bool(keep), dtype=object), object)
    return reduced(total * inverse(np.array(count, object)))


def reduce_mean(attributes, array, axes=None):
    axes = attributes.get("axes", None if axes is None else list(axes))
    if axes is None and attributes.get("noop_with_empty_axes", 0):
        return array
    return mean(array, list(axes) if axes is not None and len(axes) else list(range(array.ndim)), attributes.get("keepdims", 1))


def normalized(attributes, array, scale, shift=None, centred=True):
    axis = attributes.get("axis", -1) % max(array.ndim, 1)
    axes = list(range(axis, array.ndim))
    array = reduced(array - mean(array, axes, True)) if centred else array
    root = free("Sqrt", reduced(mean(reduced(array * array), axes, True) + number(np.float32(attributes.get("epsilon", 1e-5)))))
    found = reduced(reduced(array * inverse(root)) * scale)
    return found if shift is None else reduced(found + shift)


def skipped(attributes, x, skip, scale, *others, centred):
    shift = others[0] if centred and others else None
    biases = [other for other in others[1 if centred else 0:] if other is not None]
    total = reduced(sum(biases, x + skip))
    return [normalized({**attributes, "axis": -1}, total, scale, shift, centred), None, None, total]


def softmax(array, axis):
    powers = free("Exp", array)
    return reduced(powers * inverse(reduced(np.sum(powers, axis=axis, keepdims=True, dtype=object))))


def convolution(attributes, x, w, bias=None, other=None):
    spatial = x.ndim - 2
    if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", "NOTSET"):
        raise Outside("padding that extents decide")
    strides, dilations = attributes.get("strides", [1] * spatial), attributes.get("dilations", [1] * spatial)
    pads, group = attributes.get("pads", [0] * 2 * spatial), attributes.get("group", 1)
    # Zeros of Python, which do not overflow.
    padded = np.full((*x.shape[:2], *(pads[at] + x.shape[2 + at] + pads[spatial + at] for at in range(spatial))), 0, object)
    padded[(slice(None), slice(None), *(slice(pads[at], pads[at] + x.shape[2 + at]) for at in range(spatial)))] = x
    x = padded
    reach = [dilation * (extent - 1) + 1 for dilation, extent in zip(dilations, w.shape[2:])]
    extents = [(extent - span) // stride + 1 for extent, span, stride in zip(x.shape[2:], reach, strides)]
    found = np.full((x.shape[0], w.shape[0], *extents), 0, object)
    share, each = x.shape[1] // group, w.shape[0] // group
    for index in np.ndindex(*found.shape):
        first = index[1] // each * share
        window = tuple(slice(at * stride, at * stride + span, dilation)
                       for at, stride, span, dilation in zip(index[2:], strides, reach, dilations))
        found[index] = int(np.sum(x[(index[0], slice(first, first + share), *window)] * w[index[1]])) % PRIME
    if bias is not None:
        found = found + bias.reshape(-1, *[1] * spatial)
    found = reduced(found if other is None else found + other)
    activation = attributes.get("activation", "")
    activation = activation.decode() if isinstance(activation, bytes) else activation
    parameters = list(attributes.get("activation_params", []))
    if activation in FREE:
        return free(activation, found)
    if activation in BENT:
        return BENT[activation](dict(zip(("alpha", "beta"), parameters)), found)
    if activation:
        raise Outside(activation)
    return found


def hard_sigmoid(attributes, x):
    """Free, as its bounds are no arithmetic."""
    slope, shift = (np.float32(attributes.get(name, usual)) for name, usual in (("alpha", 0.2), ("beta", 0.5)))
    return free(f"HardSigmoid {slope} {shift}", x)


BENT = {
    "HardSigmoid": hard_sigmoid,
    "LeakyRelu": lambda a, x: free(f"LeakyRelu {np.float32(a.get('alpha', 0.01))}", x),
}


def attention(attributes, query, key, value, bias=None, mask=None, added=None, *more):
    if mask is not None or any(item is not None for item in more) or attributes.get("unidirectional", 0):
        raise Outside("attention with a past or a mask of padding")
    heads, width = attributes["num_heads"], query.shape[-1]
    if bias is not None:
        query, key, value = (reduced(item + part) for item, part in zip((query, key, value), np.split(bias, 3)))
    def split(item):
        return item if item.ndim == 4 else item.reshape(*item.shape[:2], heads, -1).transpose(0, 2, 1, 3)
    query, key, value = split(query), split(key), split(value)
    # Left out, it is a root of the width of a head.
    scale = number(attributes["scale"]) if attributes.get("scale") else int(free("scale", np.array(query.shape[-1], object)))
    scores = reduced(matmul(query, swapped(key)) * scale)
    scores = scores if added is None else reduced(scores + added)
    found = matmul(softmax(scores, -1), value).transpose(0, 2, 1, 3)
    return found.reshape(*found.shape[:2], width)


def rotated(array, positions, cosines, sines):
    rows = array.ndim - 2
    if array.ndim == 3:
        heads = array.reshape(*array.shape[:2], -1, 2 * cosines.shape[1]).transpose(0, 2, 1, 3)
        return rotated(heads, positions, cosines, sines).transpose(0, 2, 1, 3).reshape(array.shape)
    if np.asarray(positions).size != 1:
        raise Outside("positions of their own for each row")
    first = int(np.asarray(positions).reshape(-1)[0])
    cosines, sines = (table[first:first + array.shape[rows]] for table in (cosines, sines))
    x, y = np.split(array, 2, -1)
    return reduced(np.concatenate([x * cosines - y * sines, y * cosines + x * sines], -1))


def split(attributes, array, sizes=None, results=2):
    axis = attributes.get("axis", 0)
    sizes = attributes.get("split") if sizes is None else list(sizes)
    if sizes is None:
        each = -(-array.shape[axis] // results)
        sizes = [max(0, min(each, array.shape[axis] - each * number)) for number in range(results)]
    return np.split(array, np.cumsum(sizes)[:-1], axis)


def sliced(array, starts, ends, axes=None, steps=None):
    window = [slice(None)] * array.ndim
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for axis, start, end, step in zip(axes, starts, ends, steps):
        if step < 0:
            raise Outside("a slice that goes backwards")
        window[axis] = slice(int(start), int(end), int(step))
    return array[tuple(window)]


def expanded(array, shape):
    return np.broadcast_to(array, np.broadcast_shapes(array.shape, tuple(int(extent) for extent in shape)))


def reshaped(attributes, array, shape):
    shape = [array.shape[at] if extent == 0 and not attributes.get("allowzero", 0) else int(extent) for at, extent in enumerate(shape)]
    return array.reshape(shape)


def sum_of(attributes, array, axes=None):
    """The sum over axes, which are an operand."""
    if axes is None and attributes.get("noop_with_empty_axes", 0):
        return array
    axes = tuple(int(axis) for axis in axes) if axes is not None and len(axes) else None
    return reduced(np.asarray(np.sum(array, axis=axes, keepdims=bool(attributes.get("keepdims", 1)), dtype=object), object))


def written(attributes, array, places):
    """A copy of a tensor of the field into which values are written at places, in order."""
    found = np.array(array)
    reduction = attributes.get("reduction", b"none")
    if reduction not in (b"none", b"add"):
        raise Outside("a reduction that is no sum")
    for place, update in places:
        found[place] = (found[place] + update) % PRIME if reduction == b"add" else update
    return found


def scattered_elements(attributes, array, indices, updates):
    axis = attributes.get("axis", 0) % array.ndim
    places = ((at[:axis] + (int(indices[at]),) + at[axis + 1:], updates[at]) for at in np.ndindex(*indices.shape))
    return written(attributes, array, places)


def scattered_slices(attributes, array, indices, updates):
    places = ((tuple(int(index) for index in indices[at]), updates[at]) for at in np.ndindex(*indices.shape[:-1]))
    return written(attributes, array, places)


def zeros(attributes, shape):
    if "value" in attributes:
        raise Outside("zeros of another kind")
    return np.full(tuple(int(extent) for extent in shape), 0, object)


def padded(attributes, array, pads, value=None):
    if attributes.get("mode", b"constant") != b"constant" or min(pads, default=0) < 0:
        raise Outside("a border of something else than a number")
    borders = [(int(pads[axis]), int(pads[array.ndim + axis])) for axis in range(array.ndim)]
    found = np.full(tuple(low + extent + high for extent, (low, high) in zip(array.shape, borders)), 0 if value is None else value, object)
    found[tuple(slice(low, low + extent) for extent, (low, _) in zip(array.shape, borders))] = array
    return found


def gemm(attributes, a, b, c=None):
    a, b = swapped(a) if attributes.get("transA", 0) else a, swapped(b) if attributes.get("transB", 0) else b
    product = reduced(matmul(a, b) * number(attributes.get("alpha", 1.0)))
    return product if c is None else reduced(product + c * number(attributes.get("beta", 1.0)))


def power(array, exponent):
    whole = {number(float(candidate)): candidate for candidate in range(5)}
    exponents = {int(item) for item in np.asarray(exponent, object).reshape(-1)}
    if len(exponents) != 1 or (found := whole.get(exponents.pop())) is None:
        raise Outside("a power that is no small whole number")
    return np.asarray(np.frompyfunc(lambda value: pow(int(value), found, PRIME), 1, 1)(array), object)


OPERATORS = {
    "Add": lambda a, x, y: reduced(x + y),
    "Sub": lambda a, x, y: reduced(x - y),
    "Mul": lambda a, x, y: reduced(x * y),
    "Div": lambda a, x, y: reduced(x * inverse(y)) if is_field(x) else quotient(x, y),
    "Sum": lambda a, *xs: reduced(sum(xs[1:], xs[0])),
    "Neg": lambda a, x: reduced(-x),
    "Reciprocal": lambda a, x: inverse(x),
    "Pow": lambda a, x, y: power(x, y),
    "Identity": lambda a, x: x,
    "Shape": lambda a, x: np.array(x.shape[a.get("start", 0):a.get("end", x.ndim)], np.int64),
    "Expand": lambda a, x, s: expanded(x, s),
    "Pad": padded,
    "Reshape": lambda a, x, s: reshaped(a, x, s),
    "Transpose": lambda a, x: np.transpose(x, a.get("perm")),
    "Concat": lambda a, *xs: np.concatenate(xs, a["axis"]),
    "Slice": lambda a, *xs: sliced(*xs),
    "ReduceMean": reduce_mean,
    "ReduceSum": sum_of,
    "ConstantOfShape": zeros,
    "ScatterElements": scattered_elements,
    "ScatterND": scattered_slices,
    "Gemm": gemm,
    "MatMul": lambda a, x, y: matmul(x, y),
    "FusedMatMul": lambda a, x, y: fused_product(x, y, a),
    "Softmax": lambda a, x: softmax(x, a.get("axis", -1)),
    **BENT,
    "Conv": convolution,
    "FusedConv": convolution,
    "LayerNormalization": normalized,
    "SimplifiedLayerNormalization": lambda a, x, g: normalized(a, x, g, centred=False),
    "RMSNormalization": lambda a, x, g: normalized(a, x, g, centred=False),
    "SkipLayerNormalization": lambda a, *xs: skipped({"epsilon": 1e-12, **a}, *xs, centred=True),
    "SkipSimplifiedLayerNormalization": lambda a, *xs: skipped({"epsilon": 1e-12, **a}, *xs, centred=False),
    "QuickGelu": lambda a, x: reduced(x * free("Sigmoid", reduced(x * number(a.get("alpha", 1.702))))),
    "BiasGelu": lambda a, x, b: free("Gelu", reduced(x + b)),
    "MultiHeadAttention": attention,
    "RotaryEmbedding": lambda a, x, p, c, s: rotated(x, p, c, s),
}


def evaluate(model, values):
    """Outputs of a model; `values` are elements of the field and integers by name."""
    known = {**{tensor.name: elements(numpy_helper.to_array(tensor)) for tensor in model.graph.initializer}, **values, "": None}
    for node in model.graph.node:
        attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
        operands = [known[name] for name in node.input]
        if node.op_type in FREE:
            kind = str(attributes.get("to", "")) + str(attributes.get("approximate", ""))
            results = free(node.op_type + kind, operands[0])
        elif node.op_type == "Split":
            results = split(attributes, *operands, results=len(node.output))
        elif node.op_type in OPERATORS:
            results = OPERATORS[node.op_type](attributes, *operands)
        else:
            raise Outside(node.op_type)
        results = list(results) if isinstance(results, list) else [results]
        known.update(zip(node.output, results))
    return [known[info.name] for info in model.graph.output]


def draw(values, generator):
    """Random elements in the place of floats; integers stay."""
    def one(value):
        if value.dtype.kind != "f":
            return value
        found = np.empty(value.shape, object)
        for index in np.ndindex(*value.shape):
            found[index] = int(generator.integers(1, PRIME))
        return found
    return {name: one(value) for name, value in values.items()}
