"""A small language model in the form of GPT-2: tied embeddings, causal attention, two layers."""
import numpy as np
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh


def model(batch=4, length=16, width=32, heads=4, layers=2, vocabulary=40, opset=20):
    rng = np.random.default_rng(3)
    nodes, tensors = [], []

    def tensor(name, array):
        tensors.append(nh.from_array(array, name))
        return name

    def weight(name, *shape, scale=0.1):
        return tensor(name, (scale * rng.standard_normal(shape)).astype(np.float32))

    def ones(name, *shape):
        return tensor(name, np.ones(shape, np.float32))

    def zeros(name, *shape):
        return tensor(name, np.zeros(shape, np.float32))

    def op(name, inputs, output, **attributes):
        nodes.append(h.make_node(name, inputs, [output] if isinstance(output, str) else output, **attributes))
        return output

    def norm(x, name):
        return op("LayerNormalization", [x, ones(f"{name}.weight", width), zeros(f"{name}.bias", width)], f"{name}.out", axis=-1)

    def linear(x, name, fan_in, fan_out):
        product = op("MatMul", [x, weight(f"{name}.weight", fan_in, fan_out)], f"{name}.product")
        return op("Add", [product, zeros(f"{name}.bias", fan_out)], f"{name}.out")

    op("Gather", [weight("wte.weight", vocabulary, width), "tokens"], "wte.out")
    op("Add", ["wte.out", weight("wpe.weight", length, width)], "h0")
    tensor("causal", np.tril(np.ones((1, 1, length, length), bool)))
    tensor("lowest", np.array(np.finfo(np.float32).min, np.float32))
    tensor("scale", np.array((width // heads) ** -0.5, np.float32))
    tensor("apart", np.array([0, 0, heads, width // heads], np.int64))
    tensor("joined", np.array([0, 0, width], np.int64))
    x = "h0"
    for layer in range(layers):
        name = f"h.{layer}"
        op("Split", [linear(norm(x, f"{name}.ln_1"), f"{name}.attn.c_attn", width, 3 * width)],
           [f"{name}.{part}" for part in "qkv"], axis=-1, num_outputs=3)
        for part in "qkv":
            op("Reshape", [f"{name}.{part}", "apart"], f"{name}.{part}4")
            op("Transpose", [f"{name}.{part}4"], f"{name}.{part}t", perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3])
        op("MatMul", [f"{name}.qt", f"{name}.kt"], f"{name}.scores")
        op("Mul", [f"{name}.scores", "scale"], f"{name}.scaled")
        op("Where", ["causal", f"{name}.scaled", "lowest"], f"{name}.masked")
        op("Softmax", [f"{name}.masked"], f"{name}.share", axis=-1)
        op("MatMul", [f"{name}.share", f"{name}.vt"], f"{name}.mixed")
        op("Transpose", [f"{name}.mixed"], f"{name}.turned", perm=[0, 2, 1, 3])
        op("Reshape", [f"{name}.turned", "joined"], f"{name}.heads")
        x = op("Add", [x, linear(f"{name}.heads", f"{name}.attn.c_proj", width, width)], f"{name}.attended")
        inner = op("Gelu", [linear(norm(x, f"{name}.ln_2"), f"{name}.mlp.c_fc", width, 4 * width)], f"{name}.gelu", approximate="tanh")
        x = op("Add", [x, linear(inner, f"{name}.mlp.c_proj", 4 * width, width)], f"{name}.end")
    op("Transpose", ["wte.weight"], "head", perm=[1, 0])
    op("MatMul", [norm(x, "ln_f"), "head"], "logits")
    graph = h.make_graph(nodes, "gpt", [h.make_tensor_value_info("tokens", T.INT64, [batch, length])],
                         [h.make_tensor_value_info("logits", T.FLOAT, [batch, length, vocabulary])], tensors)
    made = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)])
    made.ir_version = 9
    return made
