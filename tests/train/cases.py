"""Small models, one for each form of an operator that has a gradient rule."""
import numpy as np
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

OPSET = 20


class Case:
    """A model whose real-number initializers are all trainable."""

    def __init__(self, name, nodes, weights, opset=OPSET, constants=None, bound=2e-5, present=None):
        self.name, self.nodes, self.weights, self.opset = name, nodes, weights, opset
        self.constants, self.bound = constants or {}, bound
        # The case that means the same in a present operator set, if this one is of an old set.
        self.present = present

    def model(self, kind=np.float32, weights=None):
        """The model with its numbers in one precision."""
        weights = weights or self.weights
        cast = lambda array: array.astype(kind) if array.dtype == np.float32 or array.dtype == np.float64 else array
        tensors = [nh.from_array(cast(array), name) for name, array in {**weights, **self.constants}.items()]
        real = T.FLOAT if kind == np.float32 else T.DOUBLE
        graph = h.make_graph(self.nodes, "case", [], [h.make_tensor_value_info("y", real, None)], tensors)
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", self.opset)])
        model.ir_version = 8 if self.opset <= 18 else 9
        return model


def numbers(seed, *shape, low=0.2, high=1.5, signs=True):
    """Numbers away from kinks: distances between them are at least about 1e-3."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape, dtype=int))
    steps = rng.permutation(count) + rng.uniform(0.2, 0.8, count)
    values = low + (high - low) * steps / max(count, 1)
    if signs:
        values = values * rng.choice([-1.0, 1.0], count)
    return values.reshape(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def unary():
    free = ["Abs", "Neg", "Exp", "Erf", "Sin", "Cos", "Atan", "Sinh", "Cosh", "Asinh", "Tanh", "Sigmoid", "Relu", "Softplus",
            "Softsign", "HardSwish", "Mish", "Identity", "LeakyRelu", "Elu", "Celu", "Selu", "HardSigmoid", "ThresholdedRelu"]
    for name in free:
        yield Case(name, [h.make_node(name, ["x"], ["y"])], {"x": numbers(1, 2, 5)})
    for name, attributes in [("LeakyRelu", {"alpha": 0.3}), ("Elu", {"alpha": 0.7}), ("Celu", {"alpha": 0.6}),
                             ("Selu", {"alpha": 1.5, "gamma": 1.2}), ("HardSigmoid", {"alpha": 0.4, "beta": 0.45}),
                             ("ThresholdedRelu", {"alpha": 0.5}), ("Gelu", {}), ("Gelu", {"approximate": "tanh"}),
                             ("Gelu", {"approximate": "none"})]:
        yield Case(f"{name} {attributes}", [h.make_node(name, ["x"], ["y"], **attributes)], {"x": numbers(2, 2, 5)})
    for name in ["Reciprocal", "Sqrt", "Log", "Tan"]:
        yield Case(name, [h.make_node(name, ["x"], ["y"])], {"x": numbers(3, 2, 5, high=1.2, signs=False)})
    for name in ["Asin", "Acos", "Atanh"]:
        yield Case(name, [h.make_node(name, ["x"], ["y"])], {"x": numbers(4, 2, 4, high=0.8)})
    yield Case("Acosh", [h.make_node("Acosh", ["x"], ["y"])], {"x": numbers(4, 2, 4, low=1.3, high=2.5, signs=False)})
    yield Case("Cast", [h.make_node("Cast", ["x"], ["d"], to=T.DOUBLE), h.make_node("Mul", ["d", "d"], ["e"]),
                        h.make_node("Cast", ["e"], ["y"], to=T.FLOAT)], {"x": numbers(5, 3)}, bound=1e-4)


def binary():
    shapes = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1, 3), (4, 1)), ((1, 3), (2, 3)), ((2, 3), ())]
    for name in ["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu"]:
        for a, b in shapes:
            if name == "PRelu" and (len(b) > len(a) or a == (2, 1, 3) or a == (1, 3)):
                continue
            left = numbers(6, *a, signs=name != "Pow")
            right = numbers(7, *b, low=0.31, high=1.71, signs=name != "Pow")
            yield Case(f"{name} {a} {b}", [h.make_node(name, ["a", "b"], ["y"])], {"a": left, "b": right})
    for power in [1.0, 2.0, 3.0, 0.5, -1.5]:
        weights = {"a": numbers(8, 2, 3, signs=power in (1.0, 2.0, 3.0))}
        yield Case(f"Pow by {power}", [h.make_node("Pow", ["a", "b"], ["y"])], weights,
                   constants={"b": np.array(power, np.float32)})
    yield Case("Pow by an integer", [h.make_node("Pow", ["a", "b"], ["y"])], {"a": numbers(8, 2, 3)}, constants={"b": ints(2)})
    for name in ["Sum", "Mean", "Max", "Min"]:
        weights = {"a": numbers(9, 2, 3), "b": numbers(10, 3, low=0.33, high=1.53), "c": numbers(11, 2, 1, low=0.41, high=1.37)}
        yield Case(f"{name} of three", [h.make_node(name, ["a", "b", "c"], ["y"])], weights)
    mask = np.array([[True, False, True], [False, False, True]])
    yield Case("Where", [h.make_node("Where", ["m", "a", "b"], ["y"])], {"a": numbers(12, 2, 3), "b": numbers(13, 3)}, constants={"m": mask})
    yield Case("Clip", [h.make_node("Clip", ["x", "low", "high"], ["y"])], {"x": numbers(14, 2, 5)},
               constants={"low": np.array(-0.6, np.float32), "high": np.array(0.9, np.float32)})
    yield Case("Clip below", [h.make_node("Clip", ["x", "low"], ["y"])], {"x": numbers(14, 2, 5)}, constants={"low": np.array(-0.6, np.float32)})
    yield Case("one value twice", [h.make_node("Mul", ["x", "x"], ["s"]), h.make_node("Add", ["s", "x"], ["y"])], {"x": numbers(15, 3)})


def products():
    for a, b in [((3, 4), (4, 2)), ((2, 3, 4), (4, 2)), ((2, 3, 4), (2, 4, 2)), ((3, 4), (2, 4, 2)), ((2, 1, 3, 4), (5, 4, 2)),
                 ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,))]:
        yield Case(f"MatMul {a} {b}", [h.make_node("MatMul", ["a", "b"], ["y"])], {"a": numbers(20, *a), "b": numbers(21, *b)})
    for turn_a in (0, 1):
        for turn_b in (0, 1):
            for c in [(2,), (3, 1), (3, 2), ()]:
                a, b = ((4, 3) if turn_a else (3, 4)), ((2, 4) if turn_b else (4, 2))
                weights = {"a": numbers(22, *a), "b": numbers(23, *b), "c": numbers(24, *c)}
                node = h.make_node("Gemm", ["a", "b", "c"], ["y"], transA=turn_a, transB=turn_b, alpha=0.7, beta=1.3)
                yield Case(f"Gemm {turn_a}{turn_b} {c}", [node], weights)
    for equation, shapes in [("ij,jk->ik", [(2, 3), (3, 4)]), ("bhqd,bhkd->bhqk", [(1, 2, 3, 4), (1, 2, 5, 4)]), ("ij->i", [(2, 3)]),
                             ("ij,kl->il", [(2, 3), (4, 2)]), ("i,j,k->ijk", [(2,), (3,), (2,)]), ("ij,jk", [(2, 3), (3, 4)])]:
        names = "abc"[: len(shapes)]
        weights = {name: numbers(25 + at, *shape) for at, (name, shape) in enumerate(zip(names, shapes))}
        yield Case(f"Einsum {equation}", [h.make_node("Einsum", list(names), ["y"], equation=equation)], weights)


def reductions():
    for name in ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]:
        x = numbers(30, 2, 3, 4, signs=name not in ("LogSum",))
        for axes, keeps in [((1,), 1), ((0, 2), 0), ((-1,), 0), (None, 1)]:
            op = f"Reduce{name}"
            constants = {} if axes is None else {"axes": ints(*axes)}
            inputs = ["x"] if axes is None else ["x", "axes"]
            yield Case(f"{op} {axes} {keeps}", [h.make_node(op, inputs, ["y"], keepdims=keeps)], {"x": x}, constants=constants)
        attributes = {} if name == "Sum" else {"axes": [1]}
        if name != "Sum":
            yield Case(f"Reduce{name} in set 17", [h.make_node(f"Reduce{name}", ["x"], ["y"], **attributes)], {"x": x}, opset=17)
    zero = numbers(31, 2, 3)
    zero[0, 1] = 0.0
    yield Case("ReduceProd with a zero", [h.make_node("ReduceProd", ["x", "axes"], ["y"])], {"x": zero}, constants={"axes": ints(1)})
    yield Case("ReduceSum of nothing", [h.make_node("ReduceSum", ["x", "axes"], ["y"], noop_with_empty_axes=1)], {"x": zero},
               constants={"axes": ints()})


def softmaxes():
    for name in ["Softmax", "LogSoftmax"]:
        for axis in (-1, 1, 0):
            yield Case(f"{name} {axis}", [h.make_node(name, ["x"], ["y"], axis=axis)], {"x": numbers(35, 2, 3, 4)})


def losses():
    for shape in [(3, 4), (2, 4, 3)]:
        labels = np.random.default_rng(3).integers(0, 4, (shape[0], *shape[2:]))
        for name in ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"]:
            for attributes in [{}, {"reduction": "sum"}, {"reduction": "none"}, {"ignore_index": 2}]:
                node = h.make_node(name, ["x", "l"], ["y"], **attributes)
                yield Case(f"{name} {shape} {attributes}", [node], {"x": numbers(36, *shape)}, constants={"l": labels.astype(np.int64)})


def shapes():
    x = {"x": numbers(40, 2, 3, 4)}
    yield Case("Reshape", [h.make_node("Reshape", ["x", "s"], ["y"])], x, constants={"s": ints(4, -1)})
    yield Case("Flatten", [h.make_node("Flatten", ["x"], ["y"], axis=2)], x)
    yield Case("Squeeze", [h.make_node("Squeeze", ["x", "s"], ["y"])], {"x": numbers(40, 2, 1, 4)}, constants={"s": ints(1)})
    yield Case("Unsqueeze", [h.make_node("Unsqueeze", ["x", "s"], ["y"])], x, constants={"s": ints(1, -1)})
    yield Case("Transpose", [h.make_node("Transpose", ["x"], ["y"], perm=[2, 0, 1])], x)
    yield Case("Transpose reversed", [h.make_node("Transpose", ["x"], ["y"])], x)
    yield Case("Expand", [h.make_node("Expand", ["x", "s"], ["y"])], {"x": numbers(40, 3, 1)}, constants={"s": ints(2, 1, 4)})
    yield Case("Tile", [h.make_node("Tile", ["x", "s"], ["y"])], {"x": numbers(40, 2, 3)}, constants={"s": ints(2, 3)})
    # Repeats that only the run knows.
    repeats = [h.make_node("Unique", ["s"], ["r"], sorted=1), h.make_node("Tile", ["x", "r"], ["t"])]
    repeats.append(h.make_node("Reshape", ["t", "e"], ["y"]))
    yield Case("Tile", repeats, {"x": numbers(40, 2, 3)}, constants={"s": ints(3, 2), "e": ints(4, 9)})
    yield Case("Trilu", [h.make_node("Trilu", ["x", "k"], ["y"], upper=0)], {"x": numbers(40, 3, 4)}, constants={"k": np.array(1, np.int64)})
    for exclusive in (0, 1):
        for reverse in (0, 1):
            yield Case(f"CumSum {exclusive}{reverse}", [h.make_node("CumSum", ["x", "a"], ["y"], exclusive=exclusive, reverse=reverse)], x,
                       constants={"a": np.array(1, np.int64)})
    for parts, extents in ((1, (2, 5, 3)), (2, (2, 6, 3))):
        signal = {"x": numbers(45 + parts, *extents, parts)}
        for version, axis in ((17, 1), (20, 2)):
            for inverse, onesided in ((0, 0), (1, 0), (0, 1)):
                if onesided and parts == 2:
                    continue
                inputs, stated = (["x"], {"axis": axis}) if version < 20 else (["x", "", "a"], {})
                yield Case(f"DFT {parts} {version} {inverse}{onesided}", [h.make_node("DFT", inputs, ["y"], inverse=inverse, onesided=onesided, **stated)],
                           signal, opset=version, constants={"a": np.array(axis, np.int64)} if version >= 20 else None)
    image = {"x": numbers(41, 1, 8, 2, 3)}
    for mode in ("DCR", "CRD"):
        yield Case(f"DepthToSpace {mode}", [h.make_node("DepthToSpace", ["x"], ["y"], blocksize=2, mode=mode)], image)
    yield Case("SpaceToDepth", [h.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2)], {"x": numbers(42, 1, 2, 4, 2)})
    a, b = numbers(43, 2, 3), numbers(44, 2, 2)
    yield Case("Concat", [h.make_node("Concat", ["a", "b"], ["y"], axis=1)], {"a": a, "b": b})
    split = [h.make_node("Split", ["x", "s"], ["p", "q"], axis=1), h.make_node("Mul", ["p", "p"], ["y"])]
    yield Case("Split with an unread result", split, {"x": numbers(45, 2, 5)}, constants={"s": ints(2, 3)})
    split = [h.make_node("Split", ["x", "s"], ["p", "q"], axis=-1), h.make_node("ReduceSum", ["q"], ["r"]), h.make_node("Mul", ["p", "r"], ["y"])]
    yield Case("Split", split, {"x": numbers(45, 2, 5)}, constants={"s": ints(2, 3)})
    for starts, ends, axes, steps in [([1], [3], [1], [1]), ([0], [-1], [2], [1]), ([-2], [100], [1], [1]), ([3], [-100], [2], [-1]),
                                      ([0], [4], [2], [2]), ([1], [5], [2], [3]), ([-1], [-100], [1], [-2]), ([0, 1], [1, 3], [0, 1], [1, 1])]:
        constants = {"s": ints(*starts), "e": ints(*ends), "a": ints(*axes), "t": ints(*steps)}
        yield Case(f"Slice {starts} {ends} {axes} {steps}", [h.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"])],
                   {"x": numbers(46, 2, 3, 5)}, constants=constants)
    yield Case("Pad", [h.make_node("Pad", ["x", "p"], ["y"])], {"x": numbers(47, 2, 3)}, constants={"p": ints(1, 0, 2, 1)})
    yield Case("Pad and crop", [h.make_node("Pad", ["x", "p"], ["y"])], {"x": numbers(47, 3, 4)}, constants={"p": ints(-1, 2, 0, -1)})


def indexing():
    x = {"x": numbers(50, 4, 3)}
    for axis in (0, 1):
        for name, indices in [("vector", ints(0, 2, 2)), ("matrix", np.array([[0, 1], [2, 0]])), ("scalar", np.array(1)), ("negative", ints(-1, 0))]:
            yield Case(f"Gather {axis} {name}", [h.make_node("Gather", ["x", "i"], ["y"], axis=axis)], x, constants={"i": indices.astype(np.int64)})
    yield Case("Gather int32", [h.make_node("Gather", ["x", "i"], ["y"])], x, constants={"i": np.array([3, 0, 3], np.int32)})
    at = np.array([[0, 2, 2], [1, 0, 1]], np.int64)
    yield Case("GatherElements", [h.make_node("GatherElements", ["x", "i"], ["y"], axis=0)], x, constants={"i": at})
    yield Case("GatherND", [h.make_node("GatherND", ["x", "i"], ["y"])], x, constants={"i": np.array([[0], [2], [2]], np.int64)})
    for reduction in ("none", "add"):
        weights = {"x": numbers(51, 4, 3), "u": numbers(52, 2, 3)}
        unique = np.array([[0, 2, 1], [1, 0, 3]], np.int64)
        yield Case(f"ScatterElements {reduction}", [h.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=0, reduction=reduction)], weights,
                   constants={"i": unique})
        yield Case(f"ScatterND {reduction}", [h.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction)], weights,
                   constants={"i": np.array([[3], [1]], np.int64)})
    yield Case("TopK with positions", [h.make_node("TopK", ["x", "k"], ["y", "at"], axis=0, largest=0)], {"x": numbers(53, 3, 5)}, constants={"k": ints(2)})


def convolutions():
    forms = [
        # image, weights, attributes
        ((2, 3, 5, 6), (4, 3, 3, 3), {}),
        ((2, 3, 5, 6), (4, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 3, 7, 6), (2, 3, 3, 2), {"strides": [2, 2], "pads": [1, 0, 0, 1]}),
        ((2, 3, 8, 8), (2, 3, 2, 2), {"strides": [3, 3]}),
        ((2, 3, 7, 7), (2, 3, 3, 3), {"dilations": [2, 2], "pads": [2, 2, 2, 2]}),
        ((1, 2, 9, 8), (3, 2, 3, 3), {"dilations": [2, 1], "strides": [2, 3], "pads": [1, 2, 0, 1]}),
        ((2, 4, 5, 5), (6, 2, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
        ((2, 4, 6, 5), (4, 1, 3, 3), {"group": 4, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((2, 3, 4, 4), (6, 1, 3, 3), {"group": 3, "pads": [1, 1, 1, 1]}),
        ((2, 9, 4, 4), (3, 9, 1, 1), {}),
        ((2, 9, 5, 5), (3, 9, 1, 1), {"strides": [2, 2]}),
        ((2, 9, 5, 5), (10, 9, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((2, 9, 4, 5), (3, 9, 2, 3), {"strides": [2, 1], "pads": [0, 1, 1, 1]}),
        ((2, 12, 3, 3), (12, 12, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((2, 10, 2, 2), (12, 10, 1, 1), {}),
        ((2, 3, 9), (4, 3, 3), {"strides": [2], "pads": [1, 1]}),
        ((2, 9, 7), (4, 9, 3), {"pads": [1, 1]}),
        ((1, 2, 4, 4, 3), (2, 2, 2, 2, 2), {"pads": [1, 0, 0, 0, 1, 0]}),
        ((1, 2, 5, 5), (2, 2, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ((1, 2, 6, 6), (2, 2, 3, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        ((1, 2, 5, 5), (2, 2, 3, 3), {"auto_pad": "VALID"}),
        ((1, 2, 3, 3), (2, 2, 2, 2), {"pads": [2, 2, 2, 2]}),
    ]
    for image, kernel, attributes in forms:
        weights = {"x": numbers(60, *image), "w": numbers(61, *kernel), "b": numbers(62, kernel[0])}
        yield Case(f"Conv {image} {kernel} {attributes}", [h.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)], weights)
    for image, kernel, attributes in [
        ((2, 3, 4, 3), (3, 2, 3, 3), {}),
        ((2, 3, 4, 3), (3, 2, 2, 2), {"strides": [2, 2]}),
        ((1, 3, 3, 3), (3, 2, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
        ((1, 4, 3, 3), (4, 1, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
        ((1, 3, 4), (3, 9, 3), {"strides": [2], "dilations": [2]}),
    ]:
        group = attributes.get("group", 1)
        weights = {"x": numbers(63, *image), "w": numbers(64, *kernel), "b": numbers(65, kernel[1] * group)}
        yield Case(f"ConvTranspose {image} {kernel} {attributes}", [h.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)], weights)


def pools():
    for attributes in [{"kernel_shape": [2, 2], "strides": [2, 2]}, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
                       {"kernel_shape": [3, 2]}, {"kernel_shape": [2, 2], "strides": [3, 3]}, {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}]:
        yield Case(f"MaxPool {attributes}", [h.make_node("MaxPool", ["x"], ["y"], **attributes)], {"x": numbers(70, 2, 2, 5, 5)})
        for counts in (0, 1):
            if attributes.get("ceil_mode") and counts:
                continue
            node = h.make_node("AveragePool", ["x"], ["y"], count_include_pad=counts, **attributes)
            yield Case(f"AveragePool {counts} {attributes}", [node], {"x": numbers(71, 2, 2, 5, 5)})
    yield Case("AveragePool SAME_UPPER", [h.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")],
               {"x": numbers(71, 1, 2, 6, 5)})
    yield Case("MaxPool of a row", [h.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[2])], {"x": numbers(70, 2, 2, 6)})
    for name in ["GlobalAveragePool", "GlobalMaxPool"]:
        yield Case(name, [h.make_node(name, ["x"], ["y"])], {"x": numbers(72, 2, 3, 3, 2)})


def normalizations():
    x = numbers(80, 2, 4, 3, 2)
    scale, bias = numbers(81, 4), numbers(82, 4)
    mean, variance = numbers(83, 4), numbers(84, 4, signs=False)
    yield Case("BatchNormalization", [h.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])], {"x": x, "s": scale, "b": bias},
               constants={"m": mean, "v": variance})
    batch = h.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "", ""], training_mode=1, epsilon=0.1)
    batch.output[1:] = ["new_mean", "new_variance"]
    yield Case("BatchNormalization of the batch", [batch], {"x": x, "s": scale, "b": bias}, constants={"m": mean, "v": variance})
    yield Case("InstanceNormalization", [h.make_node("InstanceNormalization", ["x", "s", "b"], ["y"], epsilon=0.1)], {"x": x, "s": scale, "b": bias})
    yield Case("GroupNormalization", [h.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2, epsilon=0.1)],
               {"x": x, "s": scale, "b": bias}, opset=21)
    for axis, shape in [(-1, (4,)), (1, (3, 4)), (-2, (3, 4))]:
        weights = {"x": numbers(85, 2, 3, 4), "s": numbers(86, *shape), "b": numbers(87, *shape)}
        yield Case(f"LayerNormalization {axis}", [h.make_node("LayerNormalization", ["x", "s", "b"], ["y"], axis=axis, epsilon=0.1)], weights, opset=17)
    yield Case("LayerNormalization without bias", [h.make_node("LayerNormalization", ["x", "s"], ["y"])], {"x": numbers(85, 2, 4), "s": numbers(86, 4)}, opset=17)
    for size in (3, 5):
        node = h.make_node("LRN", ["x"], ["y"], size=size, alpha=0.4, beta=0.6, bias=1.2)
        yield Case(f"LRN {size}", [node], {"x": numbers(88, 2, 5, 2, 2)})
    yield Case("LpNormalization", [h.make_node("LpNormalization", ["x"], ["y"], axis=1)], {"x": numbers(89, 2, 4)})
    yield Case("MeanVarianceNormalization", [h.make_node("MeanVarianceNormalization", ["x"], ["y"])], {"x": x})


def resizes():
    x = {"x": numbers(90, 1, 2, 4, 3)}
    for mode, coordinates in [("nearest", "asymmetric"), ("nearest", "half_pixel"), ("linear", "half_pixel"), ("linear", "align_corners"),
                              ("linear", "asymmetric"), ("linear", "pytorch_half_pixel"), ("cubic", "half_pixel")]:
        for sizes in [(1, 2, 8, 6), (1, 2, 7, 2)]:
            extra = {"nearest_mode": "floor"} if mode == "nearest" else {}
            node = h.make_node("Resize", ["x", "", "", "z"], ["y"], mode=mode, coordinate_transformation_mode=coordinates, **extra)
            yield Case(f"Resize {mode} {coordinates} {sizes}", [node], x, constants={"z": ints(*sizes)})
    scaled = h.make_node("Resize", ["x", "", "f"], ["y"], mode="linear", coordinate_transformation_mode="half_pixel")
    scales = np.array([1, 1, 1.5, 2.5], np.float32)
    yield Case("Resize by scales", [scaled], x, constants={"f": scales})


def recurrent():
    for name, gates in [("LSTM", 4), ("GRU", 3), ("RNN", 1)]:
        forms = [({}, ""), ({"direction": "reverse"}, ""), ({"direction": "bidirectional"}, "bh"), ({"layout": 1}, "bh")]
        if name == "LSTM":
            forms += [({}, "bhp"), ({"activations": ["Sigmoid", "Sigmoid", "Tanh"]}, "b")]
        if name == "GRU":
            forms += [({"linear_before_reset": 1}, "bh"), ({"linear_before_reset": 1, "direction": "bidirectional"}, "")]
        if name == "RNN":
            forms += [({"activations": ["Sigmoid"]}, "b")]
        for attributes, parts in forms:
            for results in (["s", "", ""], ["", "h", ""], ["s", "h", "c"]):
                results = results if name == "LSTM" else results[:2]
                steps, batch, inputs, hidden = 3, 2, 4, 3
                directions = 2 if attributes.get("direction") == "bidirectional" else 1
                turned = attributes.get("layout") == 1
                x = (batch, steps, inputs) if turned else (steps, batch, inputs)
                state = (batch, directions, hidden) if turned else (directions, batch, hidden)
                weights = {"x": numbers(90, *x), "w": numbers(91, directions, gates * hidden, inputs, high=0.8),
                           "r": numbers(92, directions, gates * hidden, hidden, high=0.8)}
                if "b" in parts:
                    weights["b"] = numbers(93, directions, 2 * gates * hidden)
                operands = ["x", "w", "r", "b" if "b" in parts else "", ""]
                for letter, operand in [("h", "h0"), ("h", "c0")][: 2 if name == "LSTM" else 1]:
                    if letter in parts:
                        weights[operand] = numbers(94, *state)
                    operands.append(operand if letter in parts else "")
                if "p" in parts:
                    weights["p"] = numbers(95, directions, 3 * hidden)
                    operands.append("p")
                while not operands[-1]:
                    operands.pop()
                named = [result for result in results if result]
                while not results[-1]:
                    results = results[:-1]
                layer = h.make_node(name, operands, results, hidden_size=hidden, **attributes)
                flat = [h.make_node("Reshape", [result, "flat"], [f"{result}_flat"]) for result in named]
                joined = h.make_node("Concat", [f"{result}_flat" for result in named], ["y"], axis=0)
                yield Case(f"{name} {attributes} {parts} {named}", [layer, *flat, joined], weights, constants={"flat": ints(-1)})


def old_sets():
    """Forms that operators had before set 13, each with its present form."""
    x, image = numbers(201, 3, 5), numbers(202, 1, 2, 3, 3)

    def old(opset, name, operands, weights, attributes, present, now, constants, shared=None):
        shared = shared or {}
        before = h.make_node(name, ["x", *operands], ["y"], **attributes)
        after = Case(name, [h.make_node(present, ["x", *now], ["y"], **constants.pop("attributes", {}))], weights, constants={**shared, **constants})
        return Case(f"{name} of set {opset} {attributes}", [before], weights, opset=opset, constants=shared, present=after)

    number = lambda value: np.array(value, np.float32)
    bounds = {"starts": [1, -3], "ends": [3, 9], "axes": [0, 1]}
    yield old(9, "Slice", [], {"x": x}, bounds, "Slice", ["s", "e", "a"], {"s": ints(1, -3), "e": ints(3, 9), "a": ints(0, 1)})
    yield old(9, "Slice", [], {"x": x}, {"starts": [1], "ends": [2]}, "Slice", ["s", "e"], {"s": ints(1), "e": ints(2)})
    yield old(9, "Pad", [], {"x": x}, {"pads": [1, 0, 2, 1]}, "Pad", ["p"], {"p": ints(1, 0, 2, 1)})
    yield old(9, "Clip", [], {"x": x}, {"min": -0.6, "max": 0.7}, "Clip", ["l", "m"], {"l": number(-0.6), "m": number(0.7)})
    yield old(9, "Clip", [], {"x": x}, {"max": 0.7}, "Clip", ["", "m"], {"m": number(0.7)})
    yield old(11, "Clip", ["l", "m"], {"x": x}, {}, "Clip", ["l", "m"], {}, {"l": number(-0.6), "m": number(0.7)})
    yield old(11, "Slice", ["s", "e"], {"x": x}, {}, "Slice", ["s", "e"], {}, {"s": ints(1), "e": ints(2)})
    yield old(9, "Scatter", ["i", "u"], {"x": x}, {"axis": 1}, "ScatterElements", ["i", "u"], {"attributes": {"axis": 1}},
              {"i": np.array([[0, 2], [1, 4]], np.int64), "u": numbers(203, 2, 2)})
    yield old(9, "Squeeze", [], {"x": numbers(204, 3, 1, 2)}, {"axes": [1]}, "Squeeze", ["a"], {"a": ints(1)})
    yield old(11, "ReduceSum", [], {"x": x}, {"axes": [1], "keepdims": 0}, "ReduceSum", ["a"], {"a": ints(1), "attributes": {"keepdims": 0}})
    for opset, name in [(9, "Upsample"), (10, "Resize")]:
        for mode in ["nearest", "linear"]:
            form = {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
            yield old(opset, name, ["f"], {"x": image}, {"mode": mode}, "Resize", ["", "f"], {"attributes": form},
                      {"f": np.array([1, 1, 2, 3], np.float32)})
    # Values and indices.
    for opset, node, constants in [(9, h.make_node("TopK", ["x"], ["y", "i"], k=2), {}), (10, h.make_node("TopK", ["x", "k"], ["y", "i"]), {"k": ints(2)})]:
        present = Case("TopK", [h.make_node("TopK", ["x", "k"], ["y", "i"])], {"x": x}, constants={"k": ints(2)})
        yield Case(f"TopK of set {opset}", [node], {"x": x}, opset=opset, constants=constants, present=present)
    # A body of an old set beside the path to the loss.
    info = lambda name: h.make_tensor_value_info(name, T.FLOAT, [3, 5])
    constants = {"zero": number(0), "d": numbers(205, 3, 5)}

    def choice(**ratio):
        body = lambda name, node: h.make_graph([node], name, [], [info(f"{name}_y")])
        bodies = {"then_branch": body("then", h.make_node("Dropout", ["d"], ["then_y"], **ratio)), "else_branch": body("else", h.make_node("Abs", ["d"], ["else_y"]))}
        chosen = [h.make_node("ReduceMax", ["x"], ["m"], keepdims=0), h.make_node("Greater", ["m", "zero"], ["c"])]
        return [*chosen, h.make_node("If", ["c"], ["b"], **bodies), h.make_node("Mul", ["x", "b"], ["y"])]

    present = Case("If", choice(), {"x": x}, constants=constants)
    yield Case("If of set 9", choice(ratio=0.3), {"x": x}, opset=9, constants=constants, present=present)


def all_cases():
    for family in [old_sets, recurrent, unary, binary, products, reductions, softmaxes, losses, shapes, indexing, convolutions, pools, normalizations, resizes]:
        yield from family()
