"""Random ONNX models that ONNX Runtime loads: all kinds of values, bodies, versions and claims, made from a seed.

`model(seed)` returns the model and the values of its free dimensions. Shapes are followed while the graph grows, so nearly every node fits; what does
not load all the same is for the caller to skip.
"""
import random

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOATS = ("float32", "float16")
NUMBERS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "int64": TensorProto.INT64, "int32": TensorProto.INT32, "bool": TensorProto.BOOL,
           "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "string": TensorProto.STRING}
UNARY = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Exp", "Sqrt", "Erf", "Identity", "Softplus", "LeakyRelu", "HardSigmoid", "Floor")
BINARY = ("Add", "Sub", "Mul", "Max", "Min")


class Value:
    """A name with element type and shape; `shape` is None where only a run tells it."""

    def __init__(self, name, kind, shape):
        self.name, self.kind, self.shape = name, kind, None if shape is None else tuple(shape)

    def elements(self):
        return int(np.prod(self.shape, dtype=np.int64))


class Generator:
    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.opset = self.draw.choice((9, 11, 13, 13, 17, 18, 21))
        self.ir = self.draw.choice((3, 7, 8, 10)) if self.opset < 15 else self.draw.choice((8, 10))
        self.nodes, self.weights, self.infos, self.values, self.outputs = [], [], [], [], []
        self.count = 0
        self.batch = self.draw.choice((1, 1, 2, 4, 3))
        self.is_symbolic = self.draw.random() < 0.25
        self.kind = "float16" if self.draw.random() < 0.2 else "float32"

    def name(self, stem="v"):
        self.count += 1
        return f"{stem}{self.count}"

    def chance(self, part):
        return self.draw.random() < part

    def weight(self, array, stem="w"):
        name = self.name(stem)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def floats(self, shape, kind=None):
        return self.weight((self.numbers.standard_normal(shape) * 0.3).astype(kind or self.kind))

    def ints(self, values):
        return self.weight(np.array(values, dtype=np.int64), "k")

    def add(self, op, inputs, kind, shape, outputs=1, **attributes):
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, [i.name if isinstance(i, Value) else i for i in inputs], names, name=self.name("n") if self.chance(0.7) else "", **attributes))
        made = [Value(name, kind, shape) for name in names]
        self.values += made
        return made[0]

    def pick(self, test=lambda value: True):
        fits = [value for value in self.values if value.shape is not None and value.kind in FLOATS and test(value)]
        if not fits:
            return None
        # Mostly what is new, so that graphs get deep.
        return fits[-1 - min(int(self.draw.expovariate(0.5)), len(fits) - 1)]

    # Kinds of nodes: each adds one or several, or nothing where no operand fits.

    def unary(self):
        x = self.pick()
        op = self.draw.choice(UNARY)
        if x.kind == "float16" and op in ("Erf", "Softplus", "HardSigmoid"):
            op = "Tanh"
        self.add(op, [x], x.kind, x.shape)

    def binary(self):
        x = self.pick()
        others = [v for v in self.values if v.shape == x.shape and v.kind == x.kind]
        if self.chance(0.3):
            shape = [extent if self.chance(0.5) else 1 for extent in x.shape]
            other = self.floats(shape, x.kind)
        else:
            other = self.draw.choice(others)
        self.add(self.draw.choice(BINARY), [x, other], x.kind, x.shape)

    def product(self):
        x = self.pick(lambda v: len(v.shape) >= 2 and v.elements() < 40_000)
        if x is None:
            return
        wide = self.draw.choice((1, 4, 8, 32, 64))
        self.add("MatMul", [x, self.floats((x.shape[-1], wide), x.kind)], x.kind, x.shape[:-1] + (wide,))

    def gemm(self):
        x = self.pick(lambda v: len(v.shape) == 2 and v.kind == "float32")
        if x is None:
            return
        wide, turned = self.draw.choice((3, 8, 16)), self.chance(0.5)
        w = self.floats((wide, x.shape[1]) if turned else (x.shape[1], wide), x.kind)
        self.add("Gemm", [x, w] + ([self.floats((wide,), x.kind)] if self.chance(0.6) or self.opset < 11 else []), x.kind, (x.shape[0], wide), transB=int(turned))

    def conv(self):
        x = self.pick(lambda v: len(v.shape) in (3, 4) and v.shape[1] >= 1 and min(v.shape[2:]) >= 3 and v.kind == "float32")
        if x is None:
            return
        rank, depthwise = len(x.shape) - 2, self.chance(0.3)
        group = x.shape[1] if depthwise else 2 if x.shape[1] % 2 == 0 and self.chance(0.3) else 1
        wide = group * self.draw.choice((1, 2, 4))
        window, stride = self.draw.choice((1, 3)), self.draw.choice((1, 1, 2))
        pad = window // 2
        shape = tuple((extent + 2 * pad - window) // stride + 1 for extent in x.shape[2:])
        w = self.floats((wide, x.shape[1] // group) + (window,) * rank, x.kind)
        y = self.add("Conv", [x, w] + ([self.floats((wide,), x.kind)] if self.chance(0.5) else []), x.kind, (x.shape[0], wide) + shape, group=group,
                     kernel_shape=[window] * rank, strides=[stride] * rank, pads=[pad] * (2 * rank))
        if self.chance(0.5):
            self.add("Relu", [y], y.kind, y.shape)

    def pool(self):
        # Kernels of pools take no image without channels.
        x = self.pick(lambda v: len(v.shape) == 4 and v.shape[1] >= 1 and min(v.shape[2:]) >= 2 and v.kind == "float32")
        if x is None:
            return
        op, window = self.draw.choice(("MaxPool", "AveragePool")), self.draw.choice((2, 2, 3))
        if min(x.shape[2:]) < window:
            window = 2
        shape = tuple((extent - window) // 2 + 1 for extent in x.shape[2:])
        self.add(op, [x], x.kind, x.shape[:2] + shape, kernel_shape=[window, window], strides=[2, 2])

    def soften(self):
        x = self.pick(lambda v: len(v.shape) >= 1 and v.elements() > 0)
        if x is not None:
            self.add("Softmax", [x], x.kind, x.shape, axis=len(x.shape) - 1)

    def norm(self):
        x = self.pick(lambda v: len(v.shape) >= 2 and v.elements() > 0 and v.kind == "float32")
        if x is None or self.opset < 17:
            return
        self.add("LayerNormalization", [x, self.floats(x.shape[-1:], x.kind), self.floats(x.shape[-1:], x.kind)], x.kind, x.shape, axis=-1)

    def reduce(self):
        x = self.pick(lambda v: len(v.shape) >= 1 and v.elements() > 0 and v.kind == "float32")
        if x is None:
            return
        axis, keep = self.draw.randrange(len(x.shape)), self.chance(0.6)
        shape = x.shape[:axis] + ((1,) if keep else ()) + x.shape[axis + 1:]
        if self.opset >= 18:
            self.add("ReduceMean", [x, self.ints([axis])], x.kind, shape, keepdims=int(keep))
        else:
            self.add("ReduceMean", [x], x.kind, shape, axes=[axis], keepdims=int(keep))

    def transpose(self):
        x = self.pick(lambda v: len(v.shape) >= 1)
        if x is None:
            return
        order = list(range(len(x.shape)))
        self.draw.shuffle(order)
        self.add("Transpose", [x], x.kind, [x.shape[axis] for axis in order], perm=order)

    def reshape(self):
        x = self.pick(lambda v: v.elements() > 0)
        if x is None:
            return
        shape = [x.elements()]
        if self.chance(0.7):
            shape = next(([part, x.elements() // part] for part in self.draw.sample(range(2, 9), 7) if x.elements() % part == 0), shape)
        if x.shape and self.chance(0.2) and self.opset >= 13:
            # The target comes from the shape of a value, as exporters write it.
            extents = self.add("Shape", [x], "int64", (len(x.shape),))
            self.add("Reshape", [x, extents], x.kind, x.shape)
        else:
            self.add("Reshape", [x, self.ints(shape)], x.kind, shape)

    def concat(self):
        x = self.pick(lambda v: len(v.shape) >= 1 and v.elements() < 40_000)
        if x is None:
            return
        axis = self.draw.randrange(len(x.shape))
        fits = [v for v in self.values if v.kind == x.kind and v.shape is not None and len(v.shape) == len(x.shape)
                and all(a == b for k, (a, b) in enumerate(zip(v.shape, x.shape)) if k != axis)]
        parts = [x] + [self.draw.choice(fits) for _ in range(self.draw.choice((1, 1, 2)))]
        shape = list(x.shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        self.add("Concat", parts, x.kind, shape, axis=axis)

    def split(self):
        x = self.pick(lambda v: any(extent % 2 == 0 and extent > 0 for extent in v.shape))
        if x is None:
            return
        axis = self.draw.choice([k for k, extent in enumerate(x.shape) if extent % 2 == 0 and extent > 0])
        shape = list(x.shape)
        shape[axis] //= 2
        more = {"num_outputs": 2} if self.opset >= 18 else {}
        self.add("Split", [x], x.kind, shape, outputs=2, axis=axis, **more)

    def cut(self):
        x = self.pick(lambda v: any(extent > 1 for extent in v.shape))
        if x is None:
            return
        axis = self.draw.choice([k for k, extent in enumerate(x.shape) if extent > 1])
        start = self.draw.randrange(x.shape[axis])
        # Now and then nothing is left.
        end = start if self.chance(0.08) else self.draw.randrange(start + 1, x.shape[axis] + 1)
        shape = list(x.shape)
        shape[axis] = end - start
        if self.opset >= 10:
            self.add("Slice", [x, self.ints([start]), self.ints([end]), self.ints([axis])], x.kind, shape)
        else:
            self.add("Slice", [x], x.kind, shape, starts=[start], ends=[end], axes=[axis])

    def gather(self):
        x = self.pick(lambda v: len(v.shape) >= 1 and v.shape[0] > 0)
        if x is None:
            return
        picks = [self.draw.randrange(x.shape[0]) for _ in range(self.draw.choice((1, 2, 5)))]
        self.add("Gather", [x, self.ints(picks)], x.kind, (len(picks),) + x.shape[1:], axis=0)

    def cast(self):
        x = self.pick()
        kind = "float32" if x.kind == "float16" else self.draw.choice(("float16", "float32", "int32", "bool"))
        y = self.add("Cast", [x], kind, x.shape, to=NUMBERS[kind])
        if kind in ("int32", "bool"):
            self.add("Cast", [y], x.kind, x.shape, to=NUMBERS[x.kind])

    def where(self):
        x = self.pick(lambda v: v.kind == "float32")
        if x is None:
            return
        zero = self.weight(np.zeros((), dtype=x.kind))
        is_more = self.add("Greater", [x, zero], "bool", x.shape)
        self.add("Where", [is_more, x, zero], x.kind, x.shape)

    def pad(self):
        x = self.pick(lambda v: len(v.shape) >= 1 and v.kind == "float32" and v.elements() < 40_000)
        if x is None or self.opset < 11:
            return
        before, after = [self.draw.choice((0, 0, 1)) for _ in x.shape], [self.draw.choice((0, 1)) for _ in x.shape]
        self.add("Pad", [x, self.ints(before + after)], x.kind, [a + b + c for a, b, c in zip(x.shape, before, after)])

    def expand(self):
        x = self.pick(lambda v: len(v.shape) >= 1 and 1 in v.shape and v.elements() < 5_000)
        if x is None:
            return
        shape = [self.draw.choice((1, 3, 16)) if extent == 1 else extent for extent in x.shape]
        self.add("Expand", [x, self.ints(shape)], x.kind, shape)

    def drop(self):
        x = self.pick(lambda v: v.kind == "float32")
        if x is not None:
            self.add("Dropout", [x], x.kind, x.shape)

    def again(self):
        """Equal nodes, and results that nobody reads."""
        x = self.pick(lambda v: v.kind == "float32")
        if x is not None:
            for _ in range(2):
                self.add("Tanh", [x], x.kind, x.shape)

    def quantize(self):
        x = self.pick(lambda v: v.kind == "float32" and len(v.shape) == 2 and v.elements() > 0)
        if x is None or self.opset < 13:
            return
        scale, zero = self.weight(np.array(0.05, dtype=np.float32)), self.weight(np.array(128, dtype=np.uint8))
        q = self.add("QuantizeLinear", [x, scale, zero], "uint8", x.shape)
        y = self.add("DequantizeLinear", [q, scale, zero], "float32", x.shape)
        if self.chance(0.6):
            wide = self.draw.choice((4, 8, 24))
            # Two products of larger weights and integers of 8 bits saturate the 16 bits in which ONNX Runtime's kernels add them up on x86-64
            # processors without VNNI.
            w = self.weight(self.numbers.integers(-64, 65, (wide, x.shape[1])).astype(np.int8))
            by, none = self.weight(np.array(0.01, dtype=np.float32)), self.weight(np.array(0, dtype=np.int8))
            d = self.add("DequantizeLinear", [w, by, none], "float32", (wide, x.shape[1]))
            g = self.add("Gemm", [y, d], "float32", (x.shape[0], wide), transB=1)
            q = self.add("QuantizeLinear", [g, scale, zero], "uint8", g.shape)
            self.add("DequantizeLinear", [q, scale, zero], "float32", g.shape)

    def found(self):
        """Values whose size depends on data; now and then the file claims one."""
        x = self.pick(lambda v: v.kind == "float32" and v.elements() > 0 and len(v.shape) >= 1)
        if x is None:
            return
        zero = self.weight(np.zeros((), dtype=np.float32))
        is_more = self.add("Greater", [x, zero], "bool", x.shape)
        where = self.add("NonZero", [is_more], "int64", None)
        if self.chance(0.3):
            self.infos.append(helper.make_tensor_value_info(where.name, TensorProto.INT64, [len(x.shape), self.draw.choice((1, 2, "found"))]))
        turned = self.add("Transpose", [where], "int64", None)
        if self.opset >= 11:
            picked = self.add("GatherND", [x, turned], x.kind, None)
            self.add("Exp", [picked], x.kind, None)
            if self.chance(0.5):
                self.outputs.append(picked)

    def best(self):
        x = self.pick(lambda v: v.kind == "float32" and len(v.shape) >= 1 and v.shape[-1] > 1 and v.elements() > 0)
        if x is None or self.opset < 11:
            return
        count = self.draw.randrange(1, x.shape[-1])
        names = [self.name(), self.name()]
        self.nodes.append(helper.make_node("TopK", [x.name, self.ints([count])], names))
        self.values += [Value(names[0], x.kind, x.shape[:-1] + (count,)), Value(names[1], "int64", x.shape[:-1] + (count,))]

    def sequence(self):
        x = self.pick(lambda v: v.kind == "float32" and len(v.shape) >= 1)
        if x is None or self.opset < 11:
            return
        made = self.name("s")
        y = self.add("Neg", [x], x.kind, x.shape)
        self.nodes.append(helper.make_node("SequenceConstruct", [x.name, y.name], [made]))
        held = Value(made, "sequence", None)
        if self.chance(0.4):
            self.outputs.append(held)
        if self.chance(0.6):
            self.add("SequenceAt", [held, self.weight(np.array(1, dtype=np.int64))], x.kind, None)
        else:
            self.add("ConcatFromSequence", [held], x.kind, None, axis=0)

    def optional(self):
        x = self.pick(lambda v: v.kind == "float32")
        if x is None or self.opset < 17:
            return
        made = self.name("o")
        if self.chance(0.3):
            self.nodes.append(helper.make_node("Optional", [], [made], type=helper.make_tensor_type_proto(TensorProto.FLOAT, x.shape)))
        else:
            self.nodes.append(helper.make_node("Optional", [x.name], [made]))
        there = self.add("OptionalHasElement", [made], "bool", ())
        self.outputs.append(there)
        if self.chance(0.3):
            self.outputs.append(Value(made, "optional", None))

    def branch(self):
        x = self.pick(lambda v: v.kind == "float32" and v.elements() > 0)
        if x is None:
            return
        result = self.name()
        total = self.add("ReduceSum", [x], "float32", (1,) * len(x.shape))
        flat = self.add("Reshape", [total, self.ints([1])], "float32", (1,))
        asked = self.add("Greater", [flat, self.weight(np.zeros(1, dtype=np.float32))], "bool", (1,))
        # Bodies often call their result as the node does.
        shared = result if self.chance(0.5) else None
        bodies = {}
        for which, op in (("then_branch", "Relu"), ("else_branch", "Tanh")):
            out, inner = shared or self.name(), self.name()
            nodes = [helper.make_node("Neg", [x.name], [inner]), helper.make_node(op, [inner], [out])]
            bodies[which] = helper.make_graph(nodes, which, [], [helper.make_tensor_value_info(out, TensorProto.FLOAT, x.shape)])
        self.nodes.append(helper.make_node("If", [asked.name], [result], **bodies))
        self.values.append(Value(result, x.kind, x.shape))

    def loop(self):
        x = self.pick(lambda v: v.kind == "float32" and v.elements() > 0)
        if x is None or self.opset < 11:
            return
        result = self.name()
        carried, step, go, still = (self.name() for _ in range(4))
        out = result if self.chance(0.4) else self.name()
        nodes = [helper.make_node("Tanh", [carried], [out]), helper.make_node("Identity", [go], [still])]
        info = helper.make_tensor_value_info
        body = helper.make_graph(nodes, "body", [info(step, TensorProto.INT64, []), info(go, TensorProto.BOOL, []), info(carried, TensorProto.FLOAT, x.shape)],
                                 [info(still, TensorProto.BOOL, []), info(out, TensorProto.FLOAT, x.shape)])
        trips = self.weight(np.array(self.draw.choice((0, 1, 3)), dtype=np.int64))
        self.nodes.append(helper.make_node("Loop", [trips, "", x.name], [result], body=body))
        self.values.append(Value(result, x.kind, x.shape))

    def known_text(self):
        if self.opset < 13:
            return
        made = self.name("t")
        self.nodes.append(helper.make_node("Constant", [], [made], value=helper.make_tensor("", TensorProto.STRING, [2], [b"a", b""])))
        copy = self.name("t")
        self.nodes.append(helper.make_node("Identity", [made], [copy]))
        self.outputs.append(Value(copy, "string", (2,)))

    KINDS = [(unary, 10), (binary, 10), (product, 6), (gemm, 3), (conv, 9), (pool, 3), (soften, 3), (norm, 2), (reduce, 3), (transpose, 4), (reshape, 5),
             (concat, 5), (split, 4), (cut, 4), (gather, 2), (cast, 2), (where, 2), (pad, 2), (expand, 2), (drop, 1), (again, 2), (quantize, 2), (found, 1),
             (best, 1), (sequence, 1), (optional, 1), (branch, 1), (loop, 1), (known_text, 0.3)]

    def input_shape(self):
        batch = 0 if self.chance(0.03) else self.batch
        return self.draw.choice(((batch, 8, 12, 12), (batch, 4, 16, 9), (batch, 16), (batch, 6, 20), (batch, 3, 8, 8), (batch, 2, 10, 10), (batch, 33)))

    def model(self):
        inputs = []
        for _ in range(self.draw.choice((1, 1, 2))):
            shape, name = self.input_shape(), self.name("x")
            self.values.append(Value(name, self.kind, shape))
            stated = ("n",) + shape[1:] if self.is_symbolic else shape
            inputs.append(helper.make_tensor_value_info(name, NUMBERS[self.kind], stated))
        if self.is_symbolic:
            # All inputs share the extent.
            self.batch = self.values[0].shape[0]
            for value in self.values:
                value.shape = (self.batch,) + value.shape[1:]
        kinds, shares = zip(*self.KINDS)
        for _ in range(self.draw.choice((3, 6, 10, 20, 40))):
            self.draw.choices(kinds, shares)[0](self)
        read = {name for node in self.nodes for name in node.input}
        made = [value for value in self.values if value.name.startswith("v") and value.name not in read and value.shape is not None]
        # Some results stay unread.
        outputs = [value for value in made if self.chance(0.8)][-6:] or self.values[-1:]
        if self.chance(0.1):
            outputs.append(self.values[0])
        for value in self.outputs:
            outputs.append(value)
        named, infos = set(), []
        for value in outputs:
            if value.name not in named:
                named.add(value.name)
                infos.append(self.info(value))
        if self.ir == 3:
            inputs += [helper.make_tensor_value_info(w.name, w.data_type, list(w.dims)) for w in self.weights]
        graph = helper.make_graph(self.nodes, "random", inputs, infos, self.weights, value_info=self.infos)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=self.ir)
        return model, {"n": self.batch} if self.is_symbolic else {}

    def info(self, value):
        if value.kind == "sequence":
            return helper.make_tensor_sequence_value_info(value.name, TensorProto.FLOAT, None)
        if value.kind == "optional":
            kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
            return helper.make_value_info(value.name, kind)
        return helper.make_tensor_value_info(value.name, NUMBERS[value.kind], None if self.is_symbolic else value.shape)


def model(seed):
    """A model of this seed, and the extents that its free dimensions take."""
    return Generator(seed).model()
