"""Random single nodes for `workspace.py`: one generator an operator, each a function from a `random.Random` to a `Case`.

Extents are drawn log-uniformly, so that small and large ones meet; a generator may return `None` for extents that make no sense together.
"""
from dataclasses import dataclass, field

import numpy as np

F32, F16, F64, U8, I8, I32, I64, BOOL = "float32", "float16", "float64", "uint8", "int8", "int32", "int64", "bool"
MICROSOFT = "com.microsoft"
BIG = 1 << 21
GENERATORS = {}


@dataclass
class Given:
    """An operand: type, extents, and values where they matter; `const` makes it an initializer."""
    dtype: str
    shape: list
    values: object = None
    const: bool = False
    high: int = 2


@dataclass
class Case:
    """One node."""
    op: str
    inputs: list
    outputs: list
    domain: str = ""
    opset: int = 0
    attributes: dict = field(default_factory=dict)


def t(dtype, *shape, **more):
    return Given(dtype, list(shape), **more)


def ints(*values, dtype=I64):
    return Given(dtype, [len(values)], np.array(values, dtype), True)


def scalar(dtype, value):
    return Given(dtype, [], np.array(value, dtype), True)


def of(name, domain=""):
    """Registers a generator under the operator's name, with its domain's last word before it."""
    def add(made):
        key = f"{domain}:{name}" if domain else name
        GENERATORS[key] = made
        return made
    return add


def extent(r, low, high):
    return int(round(low * (high / low) ** r.random()))


def extents(r, rank, low, high):
    return [extent(r, low, high) for _ in range(rank)]


def some(r, *values):
    return r.choice(values)


def size(shape):
    return int(np.prod(shape, dtype=np.int64))


# Convolutions.

def convolution(r, rank=None):
    rank = rank or some(r, 1, 2, 2, 2, 3)
    groups = some(r, 1, 1, 2, 4, 8)
    channels, filters = extent(r, 1, 24), extent(r, 1, 48)
    if r.random() < 0.2:
        groups, channels, filters = extent(r, 2, 32), 1, some(r, 1, 1, 2)
    image = extents(r, rank, 3, {1: 1000, 2: 64, 3: 16, 4: 8}[rank])
    window = [min(extent(r, 1, 9), side) for side in image]
    if r.random() < 0.25:
        window = [1] * rank
    if r.random() < 0.1:
        window[-1] = image[-1]
    attributes = {"group": groups}
    if r.random() < 0.5:
        attributes["pads"] = [w // 2 for w in window] * 2
    elif r.random() < 0.3:
        attributes["auto_pad"] = some(r, "SAME_UPPER", "SAME_LOWER", "VALID")
    if r.random() < 0.3:
        attributes["strides"] = [some(r, 1, 2, 3) for _ in window]
    if r.random() < 0.25 and "auto_pad" not in attributes:
        attributes["dilations"] = [some(r, 1, 2) for _ in window]
    dilated = [(w - 1) * d + 1 for w, d in zip(window, attributes.get("dilations", [1] * rank))]
    pad = attributes.get("pads", [0] * rank)
    if any(side + 2 * p < w for side, p, w in zip(image, pad, dilated)):
        return None
    batch = some(r, 1, 1, 2, 5)
    work = batch * filters * groups * channels * size(window) * size(image)
    if work > 3e8:
        return None
    return [batch, groups * channels, *image], [groups * filters, channels, *window], attributes


@of("Conv")
def conv(r):
    made = convolution(r, some(r, 1, 2, 2, 2, 3, 4))
    dtype = some(r, F32, F32, F32, F16)
    return made and Case("Conv", [t(dtype, *made[0]), t(dtype, *made[1], const=r.random() < 0.5)], [dtype], opset=17, attributes=made[2])


@of("FusedConv", MICROSOFT)
def fused_conv(r):
    made = convolution(r)
    if not made:
        return None
    inputs = [t(F32, *made[0]), t(F32, *made[1]), t(F32, made[1][0])]
    return Case("FusedConv", inputs, [F32], MICROSOFT, attributes={**made[2], "activation": some(r, "Relu", "Sigmoid")})


@of("ConvTranspose")
def conv_transpose(r):
    made = convolution(r, some(r, 1, 2, 2, 3))
    if not made or "auto_pad" in made[2]:
        return None
    data, weight, attributes = made
    weight = [data[1], extent(r, 1, 32), *weight[2:]]
    if size(weight) * size(data[2:]) * data[0] > 2e8:
        return None
    dtype = some(r, F32, F32, F16)
    return Case("ConvTranspose", [t(dtype, *data), t(dtype, *weight, const=r.random() < 0.5)], [dtype], opset=17, attributes=attributes)


@of("ConvInteger")
def conv_integer(r):
    made = convolution(r)
    if not made:
        return None
    inputs = [t(U8, *made[0], high=255), t(some(r, U8, U8, I8), *made[1], const=r.random() < 0.5)]
    return Case("ConvInteger", inputs, [I32], opset=17, attributes=made[2])


@of("QLinearConv")
def qlinear_conv(r):
    made = convolution(r)
    if not made:
        return None
    data, weight, attributes = made
    if r.random() < 0.5:
        weight[0] = weight[0] // attributes["group"] // 8 * 8 * attributes["group"] or weight[0]
    kind, const = some(r, U8, I8), r.random() < 0.7
    inputs = [t(U8, *data, high=255), scalar(F32, 0.1), scalar(U8, 0), t(kind, *weight, const=const), scalar(F32, 0.1), scalar(kind, 0),
              scalar(F32, 0.1), scalar(U8, 0)]
    return Case("QLinearConv", inputs, [U8], opset=17, attributes=attributes)


@of("QLinearConv.last", MICROSOFT)
def qlinear_conv_last(r):
    made = convolution(r)
    if not made:
        return None
    data, weight, attributes = made
    inputs = [t(U8, data[0], *data[2:], data[1], high=255), scalar(F32, 0.1), scalar(U8, 0), t(I8, *weight, const=True), scalar(F32, 0.1),
              scalar(I8, 0), scalar(F32, 0.1), scalar(U8, 0)]
    return Case("QLinearConv", inputs, [U8], MICROSOFT, attributes={**attributes, "channels_last": 1})


@of("DeformConv")
def deform_conv(r):
    groups, offset_groups = some(r, 1, 1, 2), some(r, 1, 1, 2)
    channels, filters = 2 * extent(r, 1, 8), extent(r, 1, 16)
    height, width = extents(r, 2, 5, 40)
    kh, kw = extents(r, 2, 1, 4)
    batch = some(r, 1, 2)
    out = [height - kh + 1, width - kw + 1]
    inputs = [t(F32, batch, channels, height, width), t(F32, filters * groups, channels // groups, kh, kw),
              t(F32, batch, offset_groups * kh * kw * 2, *out)]
    return Case("DeformConv", inputs, [F32], opset=19, attributes={"group": groups, "offset_group": offset_groups})


# Products.

def product_sizes(r):
    return extent(r, 1, 256), extent(r, 1, 512), extent(r, 1, 256)


@of("MatMul")
def matmul(r):
    m, k, n = product_sizes(r)
    batch = extents(r, some(r, 0, 0, 1, 2), 1, 6)
    dtype = some(r, F32, F32, F16)
    right = t(dtype, *(batch if r.random() < 0.5 else []), k, n, const=r.random() < 0.5)
    return Case("MatMul", [t(dtype, *batch, m, k), right], [dtype], opset=17)


@of("Gemm")
def gemm(r):
    m, k, n = product_sizes(r)
    a, b = r.random() < 0.3, r.random() < 0.3
    bias = some(r, [n], [m, n], [1], [m, 1], [])
    dtype = some(r, F32, F32, F16)
    inputs = [t(dtype, *((k, m) if a else (m, k))), t(dtype, *((n, k) if b else (k, n)), const=r.random() < 0.5), t(dtype, *bias)]
    return Case("Gemm", inputs, [dtype], opset=17, attributes={"transA": int(a), "transB": int(b), "beta": some(r, 1.0, 0.5)})


@of("FusedMatMul", MICROSOFT)
def fused_matmul(r):
    m, k, n = product_sizes(r)
    a, b = int(r.random() < 0.4), int(r.random() < 0.4)
    batch = extents(r, some(r, 0, 1, 2), 1, 6)
    left, right = ([k, m] if a else [m, k]), ([n, k] if b else [k, n])
    attributes = {"transA": a, "transB": b, "alpha": some(r, 1.0, 0.5)}
    if batch and r.random() < 0.4:
        # Batches behind the rows.
        attributes["transBatchA"] = 1
        left = [left[0], *batch, left[1]]
        batched = left
    else:
        batched = [*batch, *left]
    return Case("FusedMatMul", [t(F32, *batched), t(F32, *batch, *right)], [F32], MICROSOFT, attributes=attributes)


@of("FusedGemm", MICROSOFT)
def fused_gemm(r):
    m, k, n = product_sizes(r)
    return Case("FusedGemm", [t(F32, m, k), t(F32, k, n, const=r.random() < 0.5), t(F32, n)], [F32], MICROSOFT, attributes={"activation": "Relu"})


@of("MatMulInteger")
def matmul_integer(r):
    m, k, n = product_sizes(r)
    batch = extents(r, some(r, 0, 1), 1, 6)
    inputs = [t(U8, *batch, m, k, high=255), t(some(r, U8, I8), *batch[: some(r, 0, 1)], k, n, const=r.random() < 0.5)]
    return Case("MatMulInteger", inputs, [I32], opset=17)


@of("QLinearMatMul")
def qlinear_matmul(r):
    m, k, n = product_sizes(r)
    batch = extents(r, some(r, 0, 1), 1, 6)
    kind = some(r, U8, I8)
    inputs = [t(U8, *batch, m, k, high=255), scalar(F32, 0.1), scalar(U8, 0), t(kind, *batch[: some(r, 0, 1)], k, n, const=r.random() < 0.5),
              scalar(F32, 0.1), scalar(kind, 0), scalar(F32, 0.1), scalar(U8, 0)]
    return Case("QLinearMatMul", inputs, [U8], opset=17)


@of("QGemm", MICROSOFT)
def qgemm(r):
    m, k, n = product_sizes(r)
    wide = r.random() < 0.3
    b = r.random() < 0.3
    inputs = [t(U8, m, k, high=255), scalar(F32, 0.1), scalar(U8, 0), t(U8, *((n, k) if b else (k, n)), const=r.random() < 0.5), scalar(F32, 0.1),
              scalar(U8, 0), t(I32, n, const=True) if r.random() < 0.5 else None]
    inputs += [] if wide else [scalar(F32, 0.1), scalar(U8, 0)]
    return Case("QGemm", inputs, [F32 if wide else U8], MICROSOFT, attributes={"transB": int(b)})


@of("MatMulIntegerToFloat", MICROSOFT)
def matmul_integer_to_float(r):
    m, k, n = product_sizes(r)
    inputs = [t(U8, m, k, high=255), t(some(r, U8, I8), k, n, const=r.random() < 0.5), scalar(F32, 0.1), scalar(F32, 0.1)]
    return Case("MatMulIntegerToFloat", inputs, [F32], MICROSOFT)


@of("DynamicQuantizeMatMul", MICROSOFT)
def dynamic_quantize_matmul(r):
    m, k, n = product_sizes(r)
    kind = some(r, U8, I8)
    inputs = [t(F32, m, k), t(kind, k, n, const=r.random() < 0.5), scalar(F32, 0.1), scalar(kind, 0)]
    return Case("DynamicQuantizeMatMul", inputs, [F32], MICROSOFT)


@of("MatMulNBits", MICROSOFT)
def matmul_nbits(r):
    m, n = some(r, 1, extent(r, 2, 256)), 16 * extent(r, 1, 32)
    block = some(r, 16, 32, 64)
    k = block * extent(r, 1, 24)
    blocks = k // block
    inputs = [t(F32, m, k), t(U8, n, blocks, block // 2, const=True, high=255), t(F32, n * blocks, const=True)]
    return Case("MatMulNBits", inputs, [F32], MICROSOFT, attributes={"K": k, "N": n, "bits": 4, "block_size": block, "accuracy_level": some(r, 0, 1, 4)})


@of("Einsum")
def einsum(r):
    sizes = {label: extent(r, 2, 40) for label in "abcdij"}
    equation = some(r, "ij,jd->id", "bij,bjd->bid", "bij,jd->bid", "abij,abjd->abid", "ij->ji", "ij->i", "bij,bij->b",
                    "bid,bjd->bij", "abid,abjd->abij", "i,j->ij", "bij,bj->bi", "ij,jd,da->ia", "aibj,bjd->aid", "abij->baji")
    terms = equation.split("->")[0].split(",")
    return Case("Einsum", [t(F32, *(sizes[label] for label in term)) for term in terms], [F32], opset=17, attributes={"equation": equation})


# Attention.

@of("Attention")
def attention(r):
    batch, heads, head = some(r, 1, 2), some(r, 1, 2, 4, 8), 8 * extent(r, 1, 10)
    kv = heads // some(r, 1, 1, 2) or 1
    rows, keys = extents(r, 2, 1, 300)
    dtype = some(r, F32, F32, F16)
    value = head if r.random() < 0.7 else 8 * extent(r, 1, 10)
    past = extent(r, 1, 200) if r.random() < 0.3 else 0
    shape3 = r.random() < 0.3
    if shape3:
        inputs = [t(dtype, batch, rows, heads * head), t(dtype, batch, keys, kv * head), t(dtype, batch, keys, kv * value)]
    else:
        inputs = [t(dtype, batch, heads, rows, head), t(dtype, batch, kv, keys, head), t(dtype, batch, kv, keys, value)]
    attributes = {"is_causal": some(r, 0, 1)}
    if shape3:
        attributes.update(q_num_heads=heads, kv_num_heads=kv)
    if r.random() < 0.2:
        attributes["softcap"] = 5.0
    mask = some(r, None, None, BOOL, dtype)
    inputs.append(t(mask, *some(r, [rows, keys + past], [1, 1, rows, keys + past], [batch, heads, rows, keys + past])) if mask else None)
    if past:
        inputs += [t(dtype, batch, kv, past, head), t(dtype, batch, kv, past, value)]
        return Case("Attention", inputs, [dtype, dtype, dtype], opset=23, attributes=attributes)
    wanted = [dtype, None, None, dtype] if r.random() < 0.2 else [dtype]
    return Case("Attention", inputs, wanted, opset=23, attributes=attributes)


@of("Attention", MICROSOFT)
def projected_attention(r):
    batch, heads, head, rows = some(r, 1, 2), some(r, 1, 2, 4), 8 * extent(r, 1, 8), extent(r, 1, 300)
    hidden = heads * head
    inputs = [t(F32, batch, rows, hidden), t(F32, hidden, 3 * hidden, const=r.random() < 0.7), t(F32, 3 * hidden)]
    wanted = [F32]
    past = extent(r, 1, 100) if r.random() < 0.3 else 0
    if past:
        inputs += [None, t(F32, 2, batch, heads, past, head)]
        wanted = [F32, F32]
    elif r.random() < 0.3:
        inputs += [Given(I32, [batch, rows], np.ones([batch, rows], np.int32))]
    return Case("Attention", inputs, wanted, MICROSOFT, attributes={"num_heads": heads, "unidirectional": some(r, 0, 1)})


@of("MultiHeadAttention", MICROSOFT)
def multi_head_attention(r):
    batch, heads, head = some(r, 1, 2), some(r, 1, 2, 4), 8 * extent(r, 1, 10)
    rows, keys = extents(r, 2, 1, 600)
    hidden = heads * head
    kind = some(r, "flat", "flat", "heads", "self", "past")
    if kind == "self":
        keys = rows
    inputs = [t(F32, batch, rows, hidden)]
    inputs += [t(F32, batch, heads, keys, head)] * 2 if kind == "heads" else [t(F32, batch, keys, hidden)] * 2
    inputs.append(t(F32, 3 * hidden) if kind != "heads" and r.random() < 0.4 else None)
    past = extent(r, 1, 100) if kind == "past" else 0
    inputs += [None, t(F32, 1, heads, rows, keys + past) if r.random() < 0.3 else None]
    wanted = [F32]
    if past:
        inputs += [t(F32, batch, heads, past, head)] * 2
        wanted = [F32] * 3
    return Case("MultiHeadAttention", inputs, wanted, MICROSOFT, attributes={"num_heads": heads, "unidirectional": some(r, 0, 0, 1)})


@of("GroupQueryAttention", MICROSOFT)
def group_query_attention(r):
    batch, kv, head, rows = some(r, 1, 2), some(r, 1, 2, 4), 16 * extent(r, 1, 5), extent(r, 1, 300)
    heads = kv * some(r, 1, 2, 4)
    past = some(r, 0, 0, extent(r, 1, 200))
    if past and rows > 1 and batch > 1:
        rows = 1
    total = rows + past
    rotary = some(r, 0, 1)
    if r.random() < 0.3:
        inputs = [t(F32, batch, rows, (heads + 2 * kv) * head), None, None]
    else:
        inputs = [t(F32, batch, rows, heads * head), t(F32, batch, rows, kv * head), t(F32, batch, rows, kv * head)]
    inputs += [t(F32, batch, kv, past, head)] * 2
    inputs += [Given(I32, [batch], np.full([batch], total - 1, np.int32)), Given(I32, [], np.array(total, np.int32), True)]
    if rotary:
        inputs += [t(F32, total, head // 2)] * 2
    attributes = {"num_heads": heads, "kv_num_heads": kv, "do_rotary": rotary}
    if r.random() < 0.2:
        attributes["softcap"] = 5.0
    return Case("GroupQueryAttention", inputs, [F32, F32, F32], MICROSOFT, attributes=attributes)


# Normalizations and softmaxes.

def cube(r, low=1, high=64, rank=None):
    return extents(r, rank or some(r, 2, 3, 4), low, high)


@of("LRN")
def lrn(r):
    shape = extents(r, 4, 1, 32)
    return Case("LRN", [t(F32, *shape)], [F32], opset=17, attributes={"size": some(r, 1, 3, 5, 9)})


def over_axis(name):
    def made(r):
        shape = cube(r)
        if size(shape) > BIG:
            return None
        dtype = some(r, F32, F32, F16) if name != "Hardmax" else F32
        return Case(name, [t(dtype, *shape)], [dtype], opset=some(r, 11, 13, 17), attributes={"axis": r.randrange(len(shape))})
    GENERATORS[name] = made


for softmax in ("Softmax", "LogSoftmax", "Hardmax"):
    over_axis(softmax)


@of("LayerNormalization")
def layer_normalization(r):
    shape, dtype = cube(r), some(r, F32, F16)
    axis = r.randrange(len(shape))
    operands = [t(dtype, *shape), t(dtype, *shape[axis:], const=r.random() < 0.5), t(dtype, *shape[axis:], const=r.random() < 0.5)]
    return Case("LayerNormalization", operands, [dtype] + ([F32, F32] if r.random() < 0.3 else []), opset=17, attributes={"axis": axis})


@of("RMSNormalization")
def rms_normalization(r):
    shape, dtype = cube(r), some(r, F32, F16)
    axis = r.randrange(len(shape))
    return Case("RMSNormalization", [t(dtype, *shape), t(dtype, *shape[axis:], const=r.random() < 0.5)], [dtype], opset=23, attributes={"axis": axis})


@of("SkipLayerNormalization", MICROSOFT)
def skip_layer_normalization(r):
    batch, rows, hidden = some(r, 1, 2), extent(r, 1, 100), extent(r, 1, 500)
    dtype = some(r, F32, F16)
    const = r.random() < 0.5
    inputs = [t(dtype, batch, rows, hidden), t(dtype, *some(r, [batch, rows, hidden], [rows, hidden])), t(dtype, hidden, const=const),
              t(dtype, hidden, const=const), t(dtype, hidden, const=const)]
    return Case("SkipLayerNormalization", inputs, [dtype] + ([None, None, dtype] if r.random() < 0.3 else []), MICROSOFT)


@of("SkipSimplifiedLayerNormalization", MICROSOFT)
def skip_simplified(r):
    batch, rows, hidden = some(r, 1, 2), extent(r, 1, 100), extent(r, 1, 500)
    dtype = some(r, F32, F16)
    inputs = [t(dtype, batch, rows, hidden), t(dtype, batch, rows, hidden), t(dtype, hidden, const=r.random() < 0.5)]
    return Case("SkipSimplifiedLayerNormalization", inputs, [dtype], MICROSOFT)


@of("SimplifiedLayerNormalization")
def simplified(r):
    shape, dtype = cube(r, rank=3), some(r, F32, F16)
    return Case("SimplifiedLayerNormalization", [t(dtype, *shape), t(dtype, shape[-1], const=r.random() < 0.5)], [dtype], opset=17)


@of("GroupNormalization")
def group_normalization(r):
    groups = some(r, 1, 2, 4)
    channels = groups * extent(r, 1, 16)
    opset = some(r, 18, 21)
    of_groups = groups if opset == 18 else channels
    shape = [some(r, 1, 2, 4), channels, *extents(r, 2, 2, 48)]
    dtype = some(r, F32, F32, F16)
    return Case("GroupNormalization", [t(dtype, *shape), t(dtype, of_groups), t(dtype, of_groups)], [dtype], opset=opset, attributes={"num_groups": groups})


@of("InstanceNormalization")
def instance_normalization(r):
    shape, dtype = extents(r, 4, 1, 32), some(r, F32, F16)
    return Case("InstanceNormalization", [t(dtype, *shape), t(dtype, shape[1]), t(dtype, shape[1])], [dtype], opset=17)


@of("BatchNormalization")
def batch_normalization(r):
    shape, dtype = extents(r, 4, 1, 32), some(r, F32, F16)
    training = some(r, 0, 1) if dtype == F32 else 0
    return Case("BatchNormalization", [t(dtype, *shape)] + [t(dtype, shape[1])] * 4, [dtype] * (3 if training else 1), opset=17,
                attributes={"training_mode": training})


@of("MeanVarianceNormalization")
def mean_variance(r):
    shape, dtype = extents(r, 4, 1, 32), some(r, F32, F16)
    return Case("MeanVarianceNormalization", [t(dtype, *shape)], [dtype], opset=17, attributes={"axes": some(r, [0, 2, 3], [1], [2, 3], [0, 1, 2, 3])})


@of("LpNormalization")
def lp_normalization(r):
    shape = cube(r)
    return size(shape) <= BIG and Case("LpNormalization", [t(F32, *shape)], [F32], opset=17, attributes={"axis": r.randrange(len(shape)), "p": some(r, 1, 2)})


# Element by element.

def unary(name, opset, kinds=(F32, F16), domain="", result=None, **attributes):
    def made(r):
        shape, dtype = cube(r), some(r, *kinds)
        return size(shape) <= BIG and Case(name, [t(dtype, *shape)], [result or dtype], domain, opset, dict(attributes))
    GENERATORS[f"{domain}:{name}" if domain else name] = made


unary("Celu", 18, (F32,))
for operator in ("Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Abs", "Neg", "Erf", "Floor", "Ceil", "Round", "Sign", "Reciprocal", "Sin", "Cos", "Elu",
                 "LeakyRelu", "Softplus", "Softsign", "HardSigmoid", "HardSwish", "Selu", "ThresholdedRelu", "Mish", "Atan", "Sinh", "Acosh", "Identity"):
    unary(operator, 22 if operator in ("Mish",) else 18)
unary("Gelu", 20, approximate="none")
unary("Swish", 24, (F32, F16))
unary("Shrink", 18)
unary("Clip", 18)
unary("IsNaN", 18, result=BOOL)
unary("IsInf", 20, (F32, F16), result=BOOL)
unary("Not", 18, (BOOL,))
unary("Gelu", 1, (F32,), MICROSOFT)
unary("QuickGelu", 1, (F32,), MICROSOFT)
unary("NonZero", 17, (F32, BOOL), result=I64)
unary("Shape", 17, (F32,), result=I64)
unary("Size", 17, (F32,), result=I64)


@of("Gelu.tanh")
def gelu_tanh(r):
    shape, dtype = cube(r), some(r, F32, F16)
    return size(shape) <= BIG and Case("Gelu", [t(dtype, *shape)], [dtype], opset=20, attributes={"approximate": "tanh"})


def broadcast(r, shape):
    return [extent if r.random() < 0.7 else 1 for extent in shape][r.randrange(len(shape)):]


def binary(name, opset, kinds=(F32, F16, I32), result=None):
    def made(r):
        shape, dtype = cube(r), some(r, *kinds)
        pair = [t(dtype, *shape), t(dtype, *(shape if r.random() < 0.4 else broadcast(r, shape)))]
        r.shuffle(pair)
        return size(shape) <= BIG and Case(name, pair, [result or dtype], "", opset, {})
    GENERATORS[name] = made


for operator in ("Add", "Sub", "Mul", "Pow", "PRelu"):
    binary(operator, 17)
binary("Div", 17, (F32, F16))
for operator in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"):
    binary(operator, 17, result=BOOL)
for operator in ("And", "Or", "Xor"):
    binary(operator, 17, (BOOL,))
for operator in ("BitwiseAnd", "BitwiseOr"):
    binary(operator, 18, (I32,))


def variadic(name, kinds):
    def made(r):
        shape, dtype = cube(r), some(r, *kinds)
        count = some(r, 1, 2, 3, 4)
        operands = [t(dtype, *(shape if index == 0 or r.random() < 0.6 else broadcast(r, shape))) for index in range(count)]
        r.shuffle(operands)
        return size(shape) <= BIG and Case(name, operands, [dtype], "", 17, {})
    GENERATORS[name] = made


for operator in ("Max", "Min"):
    variadic(operator, (F32, F16, I32))
for operator in ("Sum", "Mean"):
    variadic(operator, (F32, F16))


@of("Where")
def where(r):
    shape, dtype = cube(r), some(r, F32, I64, F16, U8)
    operand = lambda kind: t(kind, *(shape if r.random() < 0.5 else broadcast(r, shape)))
    return size(shape) <= BIG and Case("Where", [operand(BOOL), operand(dtype), operand(dtype)], [dtype], opset=17)


@of("BiasGelu", MICROSOFT)
def bias_gelu(r):
    shape = cube(r)
    return size(shape) <= BIG and Case("BiasGelu", [t(F32, *shape), t(F32, shape[-1])], [F32], MICROSOFT)


@of("FastGelu", MICROSOFT)
def fast_gelu(r):
    shape = cube(r)
    return size(shape) <= BIG and Case("FastGelu", [t(F32, *shape)] + ([t(F32, shape[-1])] if r.random() < 0.6 else []), [F32], MICROSOFT)


@of("Cast")
def cast(r):
    shape, dtype, to = cube(r), some(r, F32, F16, I64, U8), some(r, F32, F16, I64, F64)
    code = {F32: 1, F16: 10, I64: 7, F64: 11}[to]
    return size(shape) <= BIG and Case("Cast", [t(dtype, *shape)], [to], opset=17, attributes={"to": code})


@of("CastLike")
def cast_like(r):
    shape, dtype, to = cube(r), some(r, F32, F16, I64), some(r, F32, F16, I64, F64)
    return size(shape) <= BIG and Case("CastLike", [t(dtype, *shape), t(to, 1)], [to], opset=17)


@of("Dropout")
def dropout(r):
    shape, dtype = cube(r), some(r, F32, F16)
    training = r.random() < 0.5
    return size(shape) <= BIG and Case("Dropout", [t(dtype, *shape), scalar(dtype, 0.5), scalar(BOOL, training)], [dtype] + ([BOOL] if r.random() < 0.5 else []), opset=17)


# Quantization.

@of("DynamicQuantizeLinear")
def dynamic_quantize(r):
    shape = cube(r)
    return size(shape) <= BIG and Case("DynamicQuantizeLinear", [t(F32, *shape)], [U8, F32, U8], opset=17)


@of("QuantizeLinear")
def quantize(r):
    shape = cube(r)
    axis = r.randrange(len(shape))
    many = r.random() < 0.5
    scale = Given(F32, [shape[axis]], np.full([shape[axis]], 0.1, np.float32), True) if many else scalar(F32, 0.1)
    return size(shape) <= BIG and Case("QuantizeLinear", [t(F32, *shape), scale], [U8], opset=17, attributes={"axis": axis})


@of("DequantizeLinear")
def dequantize(r):
    shape = cube(r)
    axis = r.randrange(len(shape))
    many = r.random() < 0.5
    scale = Given(F32, [shape[axis]], np.full([shape[axis]], 0.1, np.float32), True) if many else scalar(F32, 0.1)
    return size(shape) <= BIG and Case("DequantizeLinear", [t(some(r, U8, I8, I32), *shape), scale], [F32], opset=17, attributes={"axis": axis})


def quantized(name, operands):
    def made(r):
        shape = cube(r, rank=4)
        inputs = []
        for _ in range(operands):
            inputs += [t(U8, *shape, high=255), scalar(F32, 0.1), scalar(U8, 0)]
        return size(shape) <= BIG and Case(name, inputs + [scalar(F32, 0.1), scalar(U8, 0)], [U8], MICROSOFT)
    GENERATORS[f"{MICROSOFT}:{name}"] = made


for operator in ("QLinearAdd", "QLinearMul"):
    quantized(operator, 2)
for operator in ("QLinearSigmoid", "QLinearLeakyRelu"):
    quantized(operator, 1)


@of("QLinearConcat", MICROSOFT)
def qlinear_concat(r):
    shape = cube(r, rank=4)
    inputs = [scalar(F32, 0.1), scalar(U8, 0)] + [t(U8, *shape, high=255), scalar(F32, some(r, 0.1, 0.2)), scalar(U8, 0)] * 2
    return size(shape) <= BIG and Case("QLinearConcat", inputs, [U8], MICROSOFT, attributes={"axis": some(r, 0, 1, 3)})


@of("QLinearSoftmax", MICROSOFT)
def qlinear_softmax(r):
    shape = cube(r)
    inputs = [t(U8, *shape, high=255), scalar(F32, 0.1), scalar(U8, 0), scalar(F32, 1 / 256), scalar(U8, 0)]
    return size(shape) <= BIG and Case("QLinearSoftmax", inputs, [U8], MICROSOFT, attributes={"axis": r.randrange(len(shape)), "opset": 13})


@of("QLinearWhere", MICROSOFT)
def qlinear_where(r):
    shape = cube(r)
    inputs = [t(BOOL, *shape), t(U8, *shape, high=255), scalar(F32, 0.1), scalar(U8, 0), t(U8, *(shape if r.random() < 0.5 else [1]), high=255),
              scalar(F32, 0.1), scalar(U8, 0), scalar(F32, 0.1), scalar(U8, 0)]
    return size(shape) <= BIG and Case("QLinearWhere", inputs, [U8], MICROSOFT)


@of("QLinearAveragePool", MICROSOFT)
def qlinear_average_pool(r):
    shape = [some(r, 1, 2), extent(r, 1, 32), *extents(r, 2, 4, 40)]
    last = some(r, 0, 1)
    shape = [shape[0], *shape[2:], shape[1]] if last else shape
    inputs = [t(U8, *shape, high=255), scalar(F32, 0.1), scalar(U8, 0), scalar(F32, 0.1), scalar(U8, 0)]
    return Case("QLinearAveragePool", inputs, [U8], MICROSOFT, attributes={"kernel_shape": extents(r, 2, 1, 4), "channels_last": last})


@of("QLinearGlobalAveragePool", MICROSOFT)
def qlinear_global_average_pool(r):
    shape, last = [some(r, 1, 2), *extents(r, 3, 1, 40)], some(r, 0, 1)
    inputs = [t(U8, *shape, high=255), scalar(F32, 0.1), scalar(U8, 0), scalar(F32, 0.1), scalar(U8, 0)]
    return Case("QLinearGlobalAveragePool", inputs, [U8], MICROSOFT, attributes={"channels_last": last})


@of("NhwcMaxPool", MICROSOFT)
def nhwc_max_pool(r):
    shape = [some(r, 1, 2, 4), *extents(r, 2, 4, 40), extent(r, 1, 32)]
    return Case("NhwcMaxPool", [t(U8, *shape, high=255)], [U8], MICROSOFT, attributes={"kernel_shape": extents(r, 2, 1, 4), "strides": [some(r, 1, 2)] * 2})


# Recurrent layers.

def recurrent(name, gates):
    def made(r):
        steps, batch, width, hidden = extent(r, 1, 40), extent(r, 1, 12), extent(r, 1, 128), extent(r, 1, 160)
        direction = some(r, "forward", "reverse", "bidirectional")
        d = 2 if direction == "bidirectional" else 1
        const = r.random() < 0.5
        inputs = [t(F32, steps, batch, width), t(F32, d, gates * hidden, width, const=const), t(F32, d, gates * hidden, hidden, const=const)]
        if r.random() < 0.6:
            inputs += [t(F32, d, 2 * gates * hidden)]
            if r.random() < 0.5:
                lengths = Given(I32, [batch], np.array([r.randint(1, steps) for _ in range(batch)], np.int32)) if r.random() < 0.5 else None
                inputs += [lengths, t(F32, d, batch, hidden)] + ([t(F32, d, batch, hidden)] if name == "LSTM" else [])
                if name == "LSTM" and r.random() < 0.3:
                    inputs += [t(F32, d, 3 * hidden)]
        wanted = [F32 if r.random() < 0.7 else None, F32]
        if name == "LSTM":
            wanted.append(some(r, F32, None))
        while wanted and wanted[-1] is None:
            wanted.pop()
        attributes = {"hidden_size": hidden, "direction": direction}
        if name == "GRU":
            attributes["linear_before_reset"] = some(r, 0, 1)
        return Case(name, inputs, wanted, opset=17, attributes=attributes)
    GENERATORS[name] = made


for layer, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    recurrent(layer, gates)


@of("DynamicQuantizeLSTM", MICROSOFT)
def quantized_lstm(r):
    steps, batch, width, hidden = extent(r, 1, 24), extent(r, 1, 8), extent(r, 1, 64), extent(r, 1, 96)
    direction = some(r, "forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    none = [None] * 5
    inputs = [t(F32, steps, batch, width), t(U8, d, width, 4 * hidden, const=True, high=255), t(U8, d, hidden, 4 * hidden, const=True, high=255), *none,
              Given(F32, [d], np.full([d], 0.1, np.float32), True), Given(U8, [d], np.zeros([d], np.uint8), True),
              Given(F32, [d], np.full([d], 0.1, np.float32), True), Given(U8, [d], np.zeros([d], np.uint8), True)]
    return Case("DynamicQuantizeLSTM", inputs, [F32, F32, F32], MICROSOFT, attributes={"hidden_size": hidden, "direction": direction})


# Pooling, resizing, sampling.

def global_pooling(name, kinds):
    def made(r):
        shape, dtype = cube(r, rank=some(r, 3, 4)), some(r, *kinds)
        return size(shape) <= BIG and Case(name, [t(dtype, *shape)], [dtype], opset=17)
    GENERATORS[name] = made


for pool, kinds in (("GlobalAveragePool", (F32, F16)), ("GlobalMaxPool", (F32, F16)), ("GlobalLpPool", (F32,))):
    global_pooling(pool, kinds)


def pooling(name, **attributes):
    def made(r):
        rank = some(r, 1, 2, 2, 3)
        shape = [some(r, 1, 2), extent(r, 1, 16), *extents(r, rank, 4, {1: 400, 2: 48, 3: 14}[rank])]
        dtype = some(r, F32, F32, F16)
        return Case(name, [t(dtype, *shape)], [dtype], opset=17, attributes={"kernel_shape": extents(r, rank, 1, 4), "strides": [some(r, 1, 2)] * rank, **attributes})
    GENERATORS[name] = made


for pool in ("MaxPool", "AveragePool", "LpPool"):
    pooling(pool)


@of("Resize")
def resize(r):
    shape = [some(r, 1, 2), extent(r, 1, 16), *extents(r, 2, 4, 100)]
    to = [*shape[:2], *extents(r, 2, 4, 100)]
    dtype = some(r, F32, F32, F16, U8)
    mode = some(r, "nearest", "linear", "linear", "cubic")
    antialias = some(r, 0, 1) if mode != "nearest" else 0
    if r.random() < 0.15 and mode == "linear":
        shape, to = [shape[0], shape[1], 8, *shape[2:]], [to[0], to[1], 12, *to[2:]]
        if size(shape) > 1e6 or size(to) > 1e6:
            return None
    return Case("Resize", [t(dtype, *shape), None, None, ints(*to)], [dtype], opset=19, attributes={"mode": mode, "antialias": antialias})


@of("Upsample")
def upsample(r):
    shape = [some(r, 1, 2), extent(r, 1, 16), *extents(r, 2, 4, 40)]
    return Case("Upsample", [t(F32, *shape), Given(F32, [4], np.array([1, 1, 2, 2], np.float32), True)], [F32], opset=9, attributes={"mode": some(r, "nearest", "linear")})


@of("GridSample")
def grid_sample(r):
    batch, channels = some(r, 1, 2), extent(r, 1, 16)
    shape, grid = extents(r, 2, 2, 60), extents(r, 2, 2, 60)
    return Case("GridSample", [t(F32, batch, channels, *shape), t(F32, batch, *grid, 2)], [F32], opset=20, attributes={"mode": some(r, "linear", "nearest", "cubic")})


@of("RoiAlign")
def roi_align(r):
    count, batch, channels = extent(r, 1, 40), 2, extent(r, 1, 16)
    rois = Given(F32, [count, 4], np.tile(np.array([0, 0, 9, 9], np.float32), [count, 1]))
    inputs = [t(F32, batch, channels, 20, 20), rois, Given(I64, [count], np.zeros([count], np.int64))]
    return Case("RoiAlign", inputs, [F32], opset=17, attributes={"output_height": extent(r, 1, 14), "output_width": extent(r, 1, 14), "sampling_ratio": some(r, 0, 2)})


@of("AffineGrid")
def affine_grid(r):
    batch = some(r, 1, 2, 4)
    return Case("AffineGrid", [t(F32, batch, 2, 3), ints(batch, 3, *extents(r, 2, 2, 100))], [F32], opset=20)


@of("Col2Im")
def col2im(r):
    height, width = extents(r, 2, 4, 40)
    channels, kh, kw = extent(r, 1, 8), *extents(r, 2, 1, 4)
    return Case("Col2Im", [t(F32, 1, channels * kh * kw, (height - kh + 1) * (width - kw + 1)), ints(height, width), ints(kh, kw)], [F32], opset=18)


# Moving and choosing.

@of("Transpose")
def transpose(r):
    shape, dtype = cube(r), some(r, F32, F16, U8)
    axes = list(range(len(shape)))
    r.shuffle(axes)
    return size(shape) <= BIG and Case("Transpose", [t(dtype, *shape)], [dtype], opset=17, attributes={"perm": axes})


@of("Concat")
def concat(r):
    shape, dtype = cube(r), some(r, F32, F16)
    return size(shape) <= BIG and Case("Concat", [t(dtype, *shape)] * 3, [dtype], opset=17, attributes={"axis": r.randrange(len(shape))})


@of("Split")
def split(r):
    shape = cube(r)
    axis = r.randrange(len(shape))
    shape[axis] *= 2
    return size(shape) <= BIG and Case("Split", [t(F32, *shape)], [F32, F32], opset=17, attributes={"axis": axis})


@of("Slice")
def slices(r):
    shape = cube(r, 2)
    return size(shape) <= BIG and Case("Slice", [t(F32, *shape), ints(0), ints(1), ints(r.randrange(len(shape)))], [F32], opset=17)


@of("Pad")
def pad(r):
    shape, dtype = cube(r, 2, 40), some(r, F32, F16)
    mode = some(r, "constant", "reflect", "edge")
    return size(shape) <= BIG and Case("Pad", [t(dtype, *shape), ints(*([1] * 2 * len(shape)))], [dtype], opset=18, attributes={"mode": mode})


@of("Tile")
def tile(r):
    shape = cube(r, 1, 30)
    return Case("Tile", [t(F32, *shape), ints(*(some(r, 1, 2) for _ in shape))], [F32], opset=17)


@of("Expand")
def expand(r):
    shape, dtype = cube(r), some(r, F32, F16)
    return size(shape) <= BIG and Case("Expand", [t(dtype, *broadcast(r, shape)), ints(*shape)], [dtype], opset=17)


@of("Gather")
def gather(r):
    shape, dtype = cube(r), some(r, F32, F16)
    return size(shape) <= BIG and Case("Gather", [t(dtype, *shape), t(I64, extent(r, 1, 40), high=1)], [dtype], opset=17, attributes={"axis": r.randrange(len(shape))})


@of("GatherElements")
def gather_elements(r):
    shape = cube(r)
    return size(shape) <= BIG and Case("GatherElements", [t(F32, *shape), t(I64, *shape, high=1)], [F32], opset=17, attributes={"axis": r.randrange(len(shape))})


@of("GatherND")
def gather_nd(r):
    shape = cube(r)
    return size(shape) <= BIG and Case("GatherND", [t(F32, *shape), t(I64, extent(r, 1, 900), some(r, 1, 2), high=1)], [F32], opset=17)


@of("ScatterElements")
def scatter_elements(r):
    shape = cube(r)
    return size(shape) <= BIG and Case("ScatterElements", [t(F32, *shape), t(I64, *shape, high=1), t(F32, *shape)], [F32], opset=18,
                                       attributes={"axis": r.randrange(len(shape)), "reduction": some(r, "none", "add")})


@of("ScatterND")
def scatter_nd(r):
    shape, count = cube(r), extent(r, 1, 900)
    return size(shape) <= BIG and Case("ScatterND", [t(F32, *shape), t(I64, count, 1, high=1), t(F32, count, *shape[1:])], [F32], opset=18)


@of("OneHot")
def one_hot(r):
    shape = cube(r, 1, 12)
    return Case("OneHot", [t(I64, *shape), scalar(I64, extent(r, 1, 100)), t(F32, 2)], [F32], opset=17, attributes={"axis": some(r, -1, 0)})


@of("TopK")
def top_k(r):
    shape, axis = cube(r, 4), 0
    axis = r.randrange(len(shape))
    return size(shape) <= BIG and Case("TopK", [t(F32, *shape), ints(r.randint(1, shape[axis]))], [F32, I64], opset=17, attributes={"axis": axis, "sorted": some(r, 0, 1)})


def arg(name):
    def made(r):
        shape = cube(r)
        return size(shape) <= BIG and Case(name, [t(F32, *shape)], [I64], opset=17, attributes={"axis": r.randrange(len(shape)), "keepdims": some(r, 0, 1)})
    GENERATORS[name] = made


def reduction(name):
    def made(r):
        shape, dtype = cube(r), some(r, F32, F32, F16)
        axes = sorted(r.sample(range(len(shape)), r.randint(1, len(shape))))
        return size(shape) <= BIG and Case(name, [t(dtype, *shape), ints(*axes)], [dtype], opset=18, attributes={"keepdims": some(r, 0, 1)})
    GENERATORS[name] = made


for operator in ("ArgMax", "ArgMin"):
    arg(operator)
for operator in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"):
    reduction(operator)


@of("CumSum")
def cum_sum(r):
    shape = cube(r)
    return size(shape) <= BIG and Case("CumSum", [t(F32, *shape), scalar(I64, r.randrange(len(shape)))], [F32], opset=17)


@of("Trilu")
def trilu(r):
    shape = cube(r)
    return size(shape) <= BIG and Case("Trilu", [t(F32, *shape)], [F32], opset=17)


@of("Det")
def det(r):
    side = extent(r, 1, 60)
    return Case("Det", [t(F32, extent(r, 1, 10), side, side)], [F32], opset=17)


@of("DepthToSpace")
def depth_to_space(r):
    return Case("DepthToSpace", [t(F32, some(r, 1, 2), 4 * extent(r, 1, 8), *extents(r, 2, 1, 40))], [F32], opset=17, attributes={"blocksize": 2, "mode": some(r, "DCR", "CRD")})


@of("SpaceToDepth")
def space_to_depth(r):
    return Case("SpaceToDepth", [t(F32, some(r, 1, 2), extent(r, 1, 8), 2 * extent(r, 1, 20), 2 * extent(r, 1, 20))], [F32], opset=17, attributes={"blocksize": 2})


@of("ReverseSequence")
def reverse_sequence(r):
    steps, batch = extents(r, 2, 1, 60)
    return Case("ReverseSequence", [t(F32, steps, batch, extent(r, 1, 40)), Given(I64, [batch], np.full([batch], steps, np.int64))], [F32], opset=17)


@of("Compress")
def compress(r):
    shape = cube(r)
    return size(shape) <= BIG and Case("Compress", [t(F32, *shape), Given(BOOL, [shape[0]], np.ones([shape[0]], np.bool_), True)], [F32], opset=17, attributes={"axis": 0})


@of("Unique")
def unique(r):
    return Case("Unique", [t(F32, extent(r, 1, 4000))], [F32, I64, I64, I64], opset=17)


@of("NonMaxSuppression")
def non_max_suppression(r):
    batch, boxes, classes = some(r, 1, 2), extent(r, 1, 1000), extent(r, 1, 8)
    return Case("NonMaxSuppression", [t(F32, batch, boxes, 4), t(F32, batch, classes, boxes), scalar(I64, 10)], [I64], opset=17)


@of("CenterCropPad")
def center_crop_pad(r):
    shape = cube(r, 2, 40, 3)
    dtype = some(r, F32, F16)
    return Case("CenterCropPad", [t(dtype, *shape), ints(*extents(r, 3, 2, 40))], [dtype], opset=18)


@of("DFT")
def dft(r):
    batch, length = extent(r, 1, 12), some(r, extent(r, 2, 1000), 2 ** r.randint(1, 10))
    width = some(r, 1, 2)
    inverse = some(r, 0, 1) if width == 2 else 0
    return Case("DFT", [t(F32, batch, length, width)], [F32], opset=17, attributes={"axis": 1, "inverse": inverse, "onesided": 0 if width == 2 else some(r, 0, 1)})


@of("STFT")
def stft(r):
    frame = some(r, 2 ** r.randint(3, 9), extent(r, 8, 500))
    signal = frame + extent(r, 1, 3000)
    return Case("STFT", [t(F32, some(r, 1, 2), signal, 1), scalar(I64, max(frame // 4, 1)), t(F32, frame), scalar(I64, frame)], [F32], opset=17)


# Losses.

@of("NegativeLogLikelihoodLoss")
def likelihood(r):
    batch, classes = extent(r, 1, 200), extent(r, 2, 200)
    rest = extents(r, some(r, 0, 2), 1, 20)
    weighted = [t(F32, classes)] if r.random() < 0.3 else []
    return batch * classes * size(rest) <= BIG and Case("NegativeLogLikelihoodLoss", [t(F32, batch, classes, *rest), t(I64, batch, *rest), *weighted], [F32], opset=17,
                                                        attributes={"reduction": some(r, "mean", "sum", "none")})


@of("SoftmaxCrossEntropyLoss")
def cross_entropy(r):
    batch, classes = extent(r, 1, 200), extent(r, 2, 200)
    rest = extents(r, some(r, 0, 2), 1, 20)
    weighted = [t(F32, classes)] if r.random() < 0.3 else []
    wanted = [F32, F32] if r.random() < 0.4 else [F32]
    return batch * classes * size(rest) <= BIG and Case("SoftmaxCrossEntropyLoss", [t(F32, batch, classes, *rest), t(I64, batch, *rest), *weighted], wanted, opset=17,
                                                        attributes={"reduction": some(r, "mean", "sum", "none")})


@of("RotaryEmbedding")
def rotary(r):
    batch, heads, rows, head = some(r, 1, 2), some(r, 1, 4), extent(r, 1, 100), 2 * extent(r, 1, 40)
    return Case("RotaryEmbedding", [t(F32, batch, heads, rows, head), t(F32, rows, head // 2), t(F32, rows, head // 2), t(I64, batch, rows, high=1)], [F32], opset=23)

