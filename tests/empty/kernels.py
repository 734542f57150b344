"""Runs kernels of ONNX Runtime on operands without elements.

    kernels.py empty NAME ... | nothing NAME ...

`empty`: each operator runs with an axis of extent 0 that parts may divide; results must have no elements along it.
`nothing`: each operator sums over an axis of extent 0, into a buffer full of sevens; the sum must be zero, or what the
node adds it to. NAME is `domain:operator`. Prints the names that fail, with the reason, and on standard error each name before
it runs: a kernel may end the process.
"""
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import helper

OWN, BLOCKS = "com.microsoft", "com.microsoft.nchwc"
IMAGE, TOKENS, ROWS = (0, 16, 8, 8), (0, 5, 8), (0, 8)


def real(*dims):
    return np.ones(dims, np.float32)


def whole(*numbers):
    return np.array(numbers, np.int64)


def byte(*dims):
    return np.ones(dims, np.uint8)


ONE, ZERO = np.array(1, np.float32), np.array(0, np.uint8)
TWO = {"kernel_shape": [2, 2]}
# Operands and attributes; other operators take one operand of `ROWS`.
EMPTY = {
    "AveragePool": ([real(*IMAGE)], TWO), "MaxPool": ([real(*IMAGE)], TWO), "GlobalAveragePool": ([real(*IMAGE)], {}),
    "GlobalMaxPool": ([real(*IMAGE)], {}), "Conv": ([real(*IMAGE), real(16, 16, 3, 3), real(16)], {}),
    "ConvTranspose": ([real(*IMAGE), real(16, 4, 3, 3)], {}), "LRN": ([real(*IMAGE)], {"size": 3}),
    "BatchNormalization": ([real(*IMAGE), *[real(16)] * 4], {}), "InstanceNormalization": ([real(*IMAGE), *[real(16)] * 2], {}),
    "GroupNormalization": ([real(*IMAGE), real(16), real(16)], {"num_groups": 2}),
    "LayerNormalization": ([real(*TOKENS), real(8), real(8)], {}), "RMSNormalization": ([real(*TOKENS), real(8)], {}),
    "DepthToSpace": ([real(*IMAGE)], {"blocksize": 2}), "SpaceToDepth": ([real(*IMAGE)], {"blocksize": 2}),
    "Resize": ([real(*IMAGE), None, np.array([1, 1, 2, 2], np.float32)], {"mode": "linear"}),
    "MatMul": ([real(*TOKENS), real(8, 3)], {}), "Gemm": ([real(*ROWS), real(8, 3), real(3)], {}),
    "Transpose": ([real(*TOKENS)], {"perm": [1, 0, 2]}),
    "Reshape": ([real(*TOKENS), whole(-1, 5, 2, 4)], {}), "Flatten": ([real(*TOKENS)], {}),
    "Squeeze": ([real(0, 1, 8), whole(1)], {}), "Unsqueeze": ([real(*ROWS), whole(1)], {}),
    "Concat": ([real(*ROWS), real(*ROWS)], {"axis": 1}), "Split": ([real(*ROWS)], {"axis": 1, "num_outputs": 2, "results": 2}),
    "Slice": ([real(*ROWS), whole(1), whole(3), whole(1)], {}), "Expand": ([real(0, 1), whole(0, 8)], {}),
    "Pad": ([real(*ROWS), whole(0, 1, 0, 1)], {}), "Gather": ([real(9, 8), np.zeros((0, 5), np.int64)], {}),
    "GatherElements": ([real(*ROWS), np.zeros((0, 3), np.int64)], {"axis": 1}),
    "ScatterElements": ([real(*ROWS), np.zeros((0, 3), np.int64), real(0, 3)], {"axis": 1}),
    "Where": ([np.zeros(ROWS, bool), real(*ROWS), real(1, 8)], {}), "Clip": ([real(*ROWS), ONE, ONE], {}),
    "MaxUnpool": ([real(0, 4, 2, 2), np.zeros((0, 4, 2, 2), np.int64)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "PRelu": ([real(*ROWS), real(8)], {}), "QuantizeLinear": ([real(*ROWS), ONE, ZERO], {}),
    "DequantizeLinear": ([byte(*ROWS), ONE, ZERO], {}), "Not": ([np.zeros(ROWS, bool)], {}), "Cast": ([real(*ROWS)], {"to": 10}),
    "Mod": ([real(*ROWS), real(1, 8)], {"fmod": 1}),
    f"{OWN}:BiasGelu": ([real(*ROWS), real(8)], {}),
    f"{OWN}:FusedConv": ([real(*IMAGE), real(4, 16, 3, 3), real(4), real(0, 4, 6, 6)], {"activation": "Relu"}),
    f"{OWN}:FusedMatMul": ([real(*TOKENS), real(0, 3, 8)], {"transB": 1, "alpha": 0.5}),
    f"{OWN}:TransposeMatMul": ([real(*TOKENS), real(0, 3, 8)], {"transB": 1}),
    f"{OWN}:MultiHeadAttention": ([real(*TOKENS)] * 3, {"num_heads": 2}),
    f"{OWN}:SkipLayerNormalization": ([real(*TOKENS), real(*TOKENS), real(8), real(8), real(8)], {}),
    f"{OWN}:SkipSimplifiedLayerNormalization": ([real(*TOKENS), real(*TOKENS), real(8)], {}),
    "SimplifiedLayerNormalization": ([real(*TOKENS), real(8)], {}),
    f"{OWN}:Attention": ([real(*TOKENS), real(8, 24), real(24)], {"num_heads": 2}),
    f"{OWN}:RotaryEmbedding": ([real(*TOKENS), np.zeros((0, 5), np.int64), real(9, 2), real(9, 2)], {"num_heads": 2}),
    "ConvInteger": ([byte(*IMAGE), byte(4, 16, 3, 3), ZERO, ZERO], {}),
    "MatMulInteger": ([byte(*TOKENS), byte(8, 3), ZERO, ZERO], {}),
    "QLinearConv": ([byte(*IMAGE), ONE, ZERO, byte(4, 16, 3, 3), ONE, ZERO, ONE, ZERO], {}),
    "QLinearMatMul": ([byte(*TOKENS), ONE, ZERO, byte(8, 3), ONE, ZERO, ONE, ZERO], {}),
    f"{OWN}:QLinearAdd": ([byte(*ROWS), ONE, ZERO, byte(*ROWS), ONE, ZERO, ONE, ZERO], {}),
    f"{OWN}:QLinearMul": ([byte(*ROWS), ONE, ZERO, byte(*ROWS), ONE, ZERO, ONE, ZERO], {}),
    f"{OWN}:QLinearSigmoid": ([byte(*ROWS), ONE, ZERO, ONE, ZERO], {}),
    f"{OWN}:QLinearLeakyRelu": ([byte(*ROWS), ONE, ZERO, ONE, ZERO], {}),
    f"{OWN}:QLinearAveragePool": ([byte(*IMAGE), ONE, ZERO, ONE, ZERO], TWO),
    f"{OWN}:QLinearGlobalAveragePool": ([byte(*IMAGE), ONE, ZERO, ONE, ZERO], {}),
    f"{OWN}:QLinearConcat": ([ONE, ZERO, byte(*ROWS), ONE, ZERO, byte(*ROWS), ONE, ZERO], {"axis": 1}),
    f"{OWN}:QGemm": ([byte(*ROWS), ONE, ZERO, byte(8, 3), ONE, ZERO, None, ONE, ZERO], {}),
    f"{OWN}:MatMulIntegerToFloat": ([byte(*TOKENS), byte(8, 3), ONE, ONE, ZERO, ZERO], {}),
    f"{OWN}:DynamicQuantizeMatMul": ([real(*TOKENS), byte(8, 3), ONE, ZERO], {}),
    f"{BLOCKS}:AveragePool": ([real(*IMAGE)], TWO), f"{BLOCKS}:MaxPool": ([real(*IMAGE)], TWO),
    f"{BLOCKS}:Conv": ([real(*IMAGE), real(16, 16, 3, 3)], {"activation": "Relu"}),
    f"{BLOCKS}:GlobalAveragePool": ([real(*IMAGE)], {}), f"{BLOCKS}:GlobalMaxPool": ([real(*IMAGE)], {}),
    f"{BLOCKS}:ReorderInput": ([real(*IMAGE)], {}), f"{BLOCKS}:ReorderOutput": ([real(*IMAGE)], {"channels": 16}),
    f"{BLOCKS}:Upsample": ([real(*IMAGE)], {"scales": [1, 1, 2, 2], "mode": "nearest"}),
}
PAIRS = "Add Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mul Pow Sub Sum"
REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"
# The kernels leave the extents of axes counted from the end as they are: none is divided into parts that may be empty.
EMPTY |= {f"Reduce{name}": ([real(*TOKENS), whole(2)], {}) for name in REDUCTIONS.split()}
REDUCED = (0, 5, 1)
EMPTY |= {name: ([real(0, 5, 8), real(1, 5, 8)], {}) for name in PAIRS.split()}
EMPTY |= {name: ([np.zeros((0, 8), bool), np.zeros((1, 8), bool)], {}) for name in ("And", "Or", "Xor")}
# Operands, attributes, and the sum.
NOTHING = {
    "Gemm": ([real(0, 5), real(0, 3), real(3)], {"transA": 1}, real(5, 3)),
    "MatMul": ([real(2, 5, 0), real(2, 0, 3)], {}, 0 * real(2, 5, 3)),
    "ReduceSum": ([real(0, 8, 3), whole(0, 2)], {"keepdims": 0}, 0 * real(8)),
    "ReduceSumSquare": ([real(0, 8), whole(0)], {"keepdims": 0}, 0 * real(8)),
    "ScatterElements": ([real(5, 8), np.zeros((0, 8), np.int64), real(0, 8)], {"axis": 0, "reduction": "add"}, real(5, 8)),
    "ScatterND": ([real(5, 8), np.zeros((0, 1), np.int64), real(0, 8)], {"reduction": "add"}, real(5, 8)),
    f"{OWN}:FusedMatMul": ([real(0, 5), real(0, 3)], {"transA": 1}, 0 * real(5, 3)),
}


def session(name, operands, attributes):
    """Returns a session of one node, and the arrays of its inputs."""
    domain, operator = name.split(":") if ":" in name else ("", name)
    results = [f"y{at}" for at in range(attributes.pop("results", 1))]
    feeds = {f"x{at}": operand for at, operand in enumerate(operands) if operand is not None}
    names = ["" if operand is None else f"x{at}" for at, operand in enumerate(operands)]
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim)
              for name, array in feeds.items()]
    node = helper.make_node(operator, names, results, domain=domain, **attributes)
    graph = helper.make_graph([node], "one", inputs, [helper.make_empty_tensor_value_info(name) for name in results])
    opsets = [helper.make_opsetid(domain, version) for domain, version in (("", 23), (OWN, 1), (BLOCKS, 1))]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString(), options), feeds


def run_empty(name):
    operands, attributes = EMPTY.get(name, ([real(*ROWS)], {}))
    made, feeds = session(name, operands, dict(attributes))
    results = made.run(None, feeds)
    assert all(0 in result.shape for result in results), "the result has elements"
    assert not name.startswith("Reduce") or results[0].shape == REDUCED, f"the result has extents {results[0].shape}"


def run_nothing(name):
    operands, attributes, wanted = NOTHING[name]
    made, feeds = session(name, operands, dict(attributes))
    binding, filled = made.io_binding(), onnxruntime.OrtValue.ortvalue_from_numpy(np.full(wanted.shape, 7, np.float32))
    for own, array in feeds.items():
        binding.bind_cpu_input(own, array)
    binding.bind_ortvalue_output("y0", filled)
    made.run_with_iobinding(binding)
    found = filled.numpy().copy()
    assert np.array_equal(found, wanted), f"the sum is {found.ravel()[0]}"


def main():
    which, *names = sys.argv[1:]
    for name in names:
        print(name, file=sys.stderr, flush=True)
        try:
            {"empty": run_empty, "nothing": run_nothing}[which](name)
        except Exception as error:  # noqa: BLE001: any reason is a finding
            print(name, str(error).splitlines()[0])


if __name__ == "__main__":
    main()
