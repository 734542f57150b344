"""Models for the tests: those that ship with memc, and small ones made with the package `onnx`."""

import os
import pathlib

ROOT = pathlib.Path(os.environ.get("MEMC_ROOT", pathlib.Path(__file__).resolve().parents[2]))


def shipped(name):
    """Returns the path of a model that ships with memc."""
    folder = "tests/models" if (ROOT / "tests/models" / f"{name}.onnx").exists() else "examples/models"
    return ROOT / folder / f"{name}.onnx"


def wide(extents=("batch", 64), opset=17, nodes=6):
    """Returns a model of element-wise nodes in two branches over an input of these extents."""
    from onnx import TensorProto, helper

    kinds = ["Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Exp"]
    made = [helper.make_node(kinds[i % len(kinds)], ["x"], [f"b{i}"]) for i in range(nodes)]
    sums = [helper.make_node("Add", [f"s{i}" if i else "b0", f"b{i + 1}"], [f"s{i + 1}"]) for i in range(nodes - 1)]
    value = helper.make_tensor_value_info
    ends = [value("x", TensorProto.FLOAT, list(extents))], [value(f"s{nodes - 1}", TensorProto.FLOAT, list(extents))]
    graph = helper.make_graph(made + sums, "wide", *ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def waiting(count=8, extent=65536):
    """Returns a chain of sines and the products of their operands, in reverse: each value waits for its product."""
    from onnx import TensorProto, helper

    nodes, last = [helper.make_node("Sin", [f"h{i}"], [f"h{i + 1}"]) for i in range(count)], f"h{count}"
    for i in reversed(range(count)):
        nodes.append(helper.make_node("Mul", [last, f"h{i}"], [f"g{i}"]))
        last = f"g{i}"
    value = helper.make_tensor_value_info
    ends = [value("h0", TensorProto.FLOAT, [extent])], [value("g0", TensorProto.FLOAT, [extent])]
    graph = helper.make_graph(nodes, "waiting", *ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def with_weights(folder, count, rows, columns):
    """Writes a chain of matrix products whose weights lie in a file beside it, of zeros that the disk does not
    hold. Returns the path."""
    from onnx import TensorProto, helper

    size = rows * columns * 4
    nodes, weights = [], []
    for i in range(count):
        tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[rows, columns])
        tensor.data_location = TensorProto.EXTERNAL
        for key, text in [("location", "weights.bin"), ("offset", str(i * size)), ("length", str(size))]:
            tensor.external_data.add(key=key, value=text)
        weights.append(tensor)
        nodes.append(helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Relu", [f"m{i}"], [f"h{i + 1}"]))
    value = helper.make_tensor_value_info
    ends = [value("h0", TensorProto.FLOAT, ["batch", rows])], [value(f"h{count}", TensorProto.FLOAT, ["batch", columns])]
    graph = helper.make_graph(nodes, "chain", *ends, initializer=weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = pathlib.Path(folder) / "chain.onnx"
    path.write_bytes(model.SerializeToString())
    with open(path.with_name("weights.bin"), "wb") as file:
        file.truncate(count * size)
    return path


def layers(count=6, extent=64):
    """Returns a chain of matrix products with weights inside the model: `x` of 4 rows to `y`."""
    import numpy
    from onnx import TensorProto, helper, numpy_helper

    generator = numpy.random.default_rng(1)
    nodes, weights, last = [], [], "x"
    for i in range(count):
        matrix = (generator.standard_normal((extent, extent)) / extent**0.5).astype("float32")
        weights.append(numpy_helper.from_array(matrix, f"w{i}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"], name=f"product{i}"))
        last = "y" if i == count - 1 else f"h{i}"
        nodes.append(helper.make_node("Relu", [f"m{i}"], [last], name=f"relu{i}"))
    value = helper.make_tensor_value_info
    ends = [value("x", TensorProto.FLOAT, [4, extent])], [value("y", TensorProto.FLOAT, [4, extent])]
    graph = helper.make_graph(nodes, "layers", *ends, initializer=weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def decoder(layers=2, heads=2, width=8, words=13):
    """Returns a decoder with caches over free rows, as bytes: random weights, and positions from the caches."""
    import numpy
    from onnx import TensorProto, helper, numpy_helper

    generator, hidden = numpy.random.default_rng(5), heads * width
    constants, nodes, inputs, outputs = [], [], [], []

    def constant(name, array):
        constants.append(numpy_helper.from_array(numpy.asarray(array), name))
        return name

    def weight(name, *shape):
        return constant(name, (0.5 * generator.standard_normal(shape)).astype(numpy.float32))

    def node(op, operands, result, **attributes):
        nodes.append(helper.make_node(op, operands, [result], **attributes))
        return result

    zero, one = constant("zero", numpy.int64(0)), constant("one", numpy.int64(1))
    first, second = constant("first", numpy.array([0])), constant("second", numpy.array([1]))
    inputs.append(helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "seq"]))
    before = node("Gather", [node("Shape", ["past_0_key"], "extents"), constant("axis", numpy.int64(2))], "before")
    count = node("Gather", [node("Shape", ["input_ids"], "ids"), one], "count")
    after = node("Add", [before, count], "after")
    own, every = node("Range", [before, after, one], "own"), node("Range", [zero, after, one], "every")
    seen = node("LessOrEqual", [every, node("Unsqueeze", [own, second], "column")], "seen")
    low = constant("low", numpy.float32(-1e9))
    bias = node("Where", [seen, constant("none", numpy.float32(0)), low], "bias")
    places = node("Gather", [weight("places", 40, hidden), node("Unsqueeze", [own, first], "position")], "place")
    x = node("Add", [node("Gather", [weight("words", words, hidden), "input_ids"], "token"), places], "x")
    split = constant("split", numpy.array([0, 0, heads, width]))
    joined = constant("joined", numpy.array([0, 0, hidden]))
    for layer in range(layers):
        rows = {}
        for kind in ("q", "key", "value"):
            made = node("MatMul", [x, weight(f"w_{kind}_{layer}", hidden, hidden)], f"{kind}_flat_{layer}")
            made = node("Reshape", [made, split], f"{kind}_split_{layer}")
            rows[kind] = node("Transpose", [made], f"{kind}_{layer}", perm=[0, 2, 1, 3])
        for kind in ("key", "value"):
            past, present = f"past_{layer}_{kind}", f"present_{layer}_{kind}"
            for values, name, extent in ((inputs, past, "past"), (outputs, present, "total")):
                values.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, heads, extent, width]))
            rows[kind] = node("Concat", [past, rows[kind]], present, axis=2)
        turned = node("Transpose", [rows["key"]], f"turned_{layer}", perm=[0, 1, 3, 2])
        scores = node("Add", [node("MatMul", [rows["q"], turned], f"scores_{layer}"), bias], f"biased_{layer}")
        shares = node("Softmax", [scores], f"shares_{layer}", axis=-1)
        mixed = node("MatMul", [shares, rows["value"]], f"mixed_{layer}")
        flat = node("Reshape", [node("Transpose", [mixed], f"back_{layer}", perm=[0, 2, 1, 3]), joined], f"flat_{layer}")
        x = node("Add", [x, node("MatMul", [flat, weight(f"w_o_{layer}", hidden, hidden)], f"out_{layer}")], f"x_{layer}")
    node("MatMul", [x, weight("head", hidden, words)], "logits")
    outputs.insert(0, helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "seq", words]))
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def grouped_decoder(layers=2, heads=4, groups=2, width=16, words=13, valid="mask"):
    """Returns a decoder whose attention kernel keeps the caches in its buffers, as bytes. The kernel learns the number
    of valid rows from the sum of the mask, or from its extent."""
    import numpy
    from onnx import TensorProto, helper, numpy_helper

    generator, hidden, runtime = numpy.random.default_rng(5), heads * width, "com.microsoft"
    constants, nodes, caches = [], [], ([], [])

    def constant(name, array):
        constants.append(numpy_helper.from_array(numpy.asarray(array), name))
        return name

    def weight(name, *shape):
        return constant(name, (0.5 * generator.standard_normal(shape)).astype(numpy.float32))

    def node(op, operands, *results, **attributes):
        nodes.append(helper.make_node(op, operands, list(results), **attributes))
        return results[0]

    value, one = helper.make_tensor_value_info, constant("one", numpy.array([1]))
    extents = node("Shape", ["attention_mask"], "extents")
    total = node("Gather", [extents, constant("second", numpy.int64(1))], "total")
    counted = node("ReduceSum", ["attention_mask", one], "counted", keepdims=0)
    if valid == "extent":
        counted = node("Unsqueeze", [total, constant("first", numpy.array([0]))], "counted_extent")
    last = node("Cast", [node("Sub", [counted, one], "last64")], "last", to=TensorProto.INT32)
    total = node("Cast", [total], "total32", to=TensorProto.INT32)
    angle = numpy.arange(64)[:, None] * 0.3 ** numpy.arange(width // 2)[None]
    turns = [constant(name, of(angle).astype(numpy.float32)) for name, of in (("cosines", numpy.cos), ("sines", numpy.sin))]
    x = node("Gather", [weight("words", words, hidden), "input_ids"], "x")
    for layer in range(layers):
        heads_of = {"q": heads, "key": groups, "value": groups}
        rows = [node("MatMul", [x, weight(f"w_{kind}_{layer}", hidden, width * count)], f"{kind}_{layer}") for kind, count in heads_of.items()]
        names = [[f"{time}.{layer}.{kind}" for kind in ("key", "value")] for time in ("past_key_values", "present")]
        for values, some, extent in zip(caches, names, ("past_sequence_length", "total_sequence_length")):
            values += [value(name, TensorProto.FLOAT, ["batch_size", groups, extent, width]) for name in some]
        operands = [*rows, *names[0], last, total, *turns]
        sizes = {"num_heads": heads, "kv_num_heads": groups, "do_rotary": 1}
        mixed = node("GroupQueryAttention", operands, f"mixed_{layer}", *names[1], domain=runtime, **sizes)
        x = node("Add", [x, node("MatMul", [mixed, weight(f"w_o_{layer}", hidden, hidden)], f"out_{layer}")], f"x_{layer}")
    node("MatMul", [x, weight("head", hidden, words)], "logits")
    ids = value("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"])
    mask = value("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"])
    logits = value("logits", TensorProto.FLOAT, ["batch_size", "sequence_length", words])
    graph = helper.make_graph(nodes, "decoder", [ids, mask, *caches[0]], [logits, *caches[1]], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(runtime, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
