"""Small models of all kinds, whose gradients another library computed: `reference.npz` has them."""
import numpy as np
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

ROWS = 4


def weights(seed, **shapes):
    """Random weights of about unit gain; vectors are near 0, scales near 1."""
    rng = np.random.default_rng(seed)
    made = {}
    for name, shape in shapes.items():
        size = int(np.prod(shape[1:])) if len(shape) > 1 else 10
        made[name] = rng.standard_normal(shape) / np.sqrt(size) + (1.0 if name.endswith("scale") else 0.0)
    return {name: array.astype(np.float32) for name, array in made.items()}


def build(nodes, inputs, outputs, own, constants=None):
    tensors = [nh.from_array(array, name) for name, array in {**own, **(constants or {})}.items()]
    graph = h.make_graph(nodes, "small", inputs, outputs, tensors)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 20)])
    model.ir_version = 9
    return model


def real(name, *dims):
    return h.make_tensor_value_info(name, T.FLOAT, dims)


def mlp():
    own = weights(1, w1=(8, 12), b1=(12,), w2=(12, 5), b2=(5,))
    nodes = [h.make_node("MatMul", ["x", "w1"], ["p"]), h.make_node("Add", ["p", "b1"], ["q"]), h.make_node("Tanh", ["q"], ["t"]),
             h.make_node("Gemm", ["t", "w2", "b2"], ["y"])]
    return build(nodes, [real("x", ROWS, 8)], [real("y", ROWS, 5)], own), own


def convolutional():
    own = weights(2, k1=(6, 2, 3, 3), c1=(6,), scale=(6,), shift=(6,), k2=(6, 1, 3, 3), k3=(4, 6, 2, 2), w=(4, 5), b=(5,))
    rng = np.random.default_rng(3)
    fixed = {"mean": rng.standard_normal(6).astype(np.float32) / 4, "variance": rng.uniform(0.5, 1.5, 6).astype(np.float32)}
    nodes = [
        h.make_node("Conv", ["x", "k1", "c1"], ["a"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        h.make_node("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["n"], epsilon=1e-5),
        h.make_node("Relu", ["n"], ["r"]),
        h.make_node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        h.make_node("Conv", ["m", "k2"], ["d"], pads=[1, 1, 1, 1], kernel_shape=[3, 3], group=6),
        h.make_node("Sigmoid", ["d"], ["s"]),
        h.make_node("Mul", ["d", "s"], ["e"]),
        h.make_node("Conv", ["e", "k3"], ["f"], kernel_shape=[2, 2], strides=[2, 2]),
        h.make_node("GlobalAveragePool", ["f"], ["g"]),
        h.make_node("Flatten", ["g"], ["v"]),
        h.make_node("Gemm", ["v", "w", "b"], ["y"]),
    ]
    return build(nodes, [real("x", ROWS, 2, 8, 8)], [real("y", ROWS, 5)], own, fixed), own


def transformer():
    """One block of two heads over six tokens; the scores of each token."""
    own = weights(4, table=(9, 8), scale=(8,), shift=(8,), qkv=(8, 24), out=(8, 8), b=(8,), w1=(8, 16), w2=(16, 8), head=(8, 9))
    mask = np.where(np.tril(np.ones((6, 6))), 0, -1e9).astype(np.float32)
    fixed = {"heads": np.array([0, 6, 2, 4]), "whole": np.array([0, 6, 8]), "root": np.float32(0.5), "mask": mask, "tokens": np.array([-1, 9])}
    split = [h.make_node("Reshape", [name, "heads"], [f"{name}h"]) for name in "qkv"]
    turned = [h.make_node("Transpose", [f"{name}h"], [f"{name}t"], perm=perm) for name, perm in zip("qkv", [[0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]])]
    nodes = [
        h.make_node("Gather", ["table", "x"], ["e"]),
        h.make_node("LayerNormalization", ["e", "scale", "shift"], ["n"], axis=-1, epsilon=1e-5),
        h.make_node("MatMul", ["n", "qkv"], ["all"]),
        h.make_node("Split", ["all"], ["q", "k", "v"], axis=2, num_outputs=3),
        *split, *turned,
        h.make_node("MatMul", ["qt", "kt"], ["raw"]),
        h.make_node("Mul", ["raw", "root"], ["scaled"]),
        h.make_node("Add", ["scaled", "mask"], ["masked"]),
        h.make_node("Softmax", ["masked"], ["shares"], axis=-1),
        h.make_node("MatMul", ["shares", "vt"], ["mixed"]),
        h.make_node("Transpose", ["mixed"], ["back"], perm=[0, 2, 1, 3]),
        h.make_node("Reshape", ["back", "whole"], ["joined"]),
        h.make_node("MatMul", ["joined", "out"], ["o"]),
        h.make_node("Add", ["o", "b"], ["ob"]),
        h.make_node("Add", ["e", "ob"], ["mid"]),
        h.make_node("MatMul", ["mid", "w1"], ["wide"]),
        h.make_node("Gelu", ["wide"], ["gelu"]),
        h.make_node("MatMul", ["gelu", "w2"], ["narrow"]),
        h.make_node("Add", ["mid", "narrow"], ["last"]),
        h.make_node("MatMul", ["last", "head"], ["scores"]),
        h.make_node("Reshape", ["scores", "tokens"], ["y"]),
    ]
    inputs = [h.make_tensor_value_info("x", T.INT64, [ROWS, 6])]
    return build(nodes, inputs, [real("y", ROWS * 6, 9)], own, fixed), own


def recurrent():
    own = weights(5, w=(1, 24, 4), r=(1, 24, 6), b=(1, 48), head=(6, 5))
    nodes = [h.make_node("LSTM", ["x", "w", "r", "b"], ["", "last"], hidden_size=6), h.make_node("Squeeze", ["last", "first"], ["s"]),
             h.make_node("MatMul", ["s", "head"], ["y"])]
    return build(nodes, [real("x", 7, ROWS, 4)], [real("y", ROWS, 5)], own, {"first": np.array([0])}), own


MODELS = {"mlp": mlp, "convolutional": convolutional, "transformer": transformer, "recurrent": recurrent}

STEPS, RATE = 5, 0.02

# Words of `--optimizer`, and weight decay.
OPTIMIZERS = {
    "sgd": ("sgd:momentum=0.9", 0.01),
    "nesterov": ("sgd:momentum=0.9,nesterov", 0.01),
    "adam": ("adam", 0.0),
    "adamw": ("adamw", 0.05),
    "lamb": ("lamb:eps=1e-6", 0.05),
    "lars": ("lars:momentum=0.9,trust=0.02", 0.0),
}


def batch(name, number):
    """Inputs and labels of a step."""
    rng = np.random.default_rng(100 + number)
    shapes = {"mlp": (ROWS, 8), "convolutional": (ROWS, 2, 8, 8), "recurrent": (7, ROWS, 4)}
    if name == "transformer":
        return rng.integers(0, 9, (ROWS, 6)), rng.integers(0, 9, ROWS * 6)
    return rng.standard_normal(shapes[name]).astype(np.float32), rng.integers(0, 5, ROWS)
