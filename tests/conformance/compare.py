"""Compare what memc made of the conformance models with what the onnx package expects.

    compare.py CASES DERIVED

CASES is the folder that generate.py wrote; DERIVED holds, per case, KIND/NAME/model.onnx (the exported model) and types.txt
(the types that memc derived, a line `NAME<TAB>TYPE` a graph output). Prints one JSON object: counts, and lists of what is wrong.
"""
import json
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

NAMES = {1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 8: "string", 9: "bool", 10: "f16", 11: "f64",
         12: "u32", 13: "u64", 14: "c64", 15: "c128", 16: "bf16", 17: "f8e4m3fn", 18: "f8e4m3fnuz", 19: "f8e5m2",
         20: "f8e5m2fnuz", 21: "u4", 22: "i4", 23: "f4e2m1", 24: "f8e8m0", 25: "u2", 26: "i2"}


def load(path, info):
    """One stored value, in the form that ONNX Runtime takes."""
    with open(path, "rb") as file:
        data = file.read()
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    if kind == "map_type":
        return numpy_helper.to_dict(onnx.MapProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


LEVELS = [ort.GraphOptimizationLevel.ORT_ENABLE_BASIC, ort.GraphOptimizationLevel.ORT_ENABLE_ALL]


def session(path, level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = level
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def flat(value):
    """All arrays in a result, however nested, as bytes with type and shape."""
    if isinstance(value, (list, tuple)):
        return [part for item in value for part in flat(item)]
    if isinstance(value, dict):
        return [part for key in sorted(value) for part in [key, *flat(value[key])]]
    if value is None:
        return [None]
    array = np.asarray(value)
    return [(str(array.dtype), array.shape, array.tolist() if array.dtype == object else array.tobytes())]


def shapes(folder, model, types, found):
    """Compare derived types of the graph outputs with the stored outputs."""
    for index, info in enumerate(model.graph.output):
        path = os.path.join(folder, f"output_{index}.pb")
        if info.type.WhichOneof("value") != "tensor_type" or not os.path.exists(path):
            continue
        with open(path, "rb") as file:
            tensor = onnx.TensorProto.FromString(file.read())
        want = f"{NAMES.get(tensor.data_type, '?')}[{','.join(map(str, tensor.dims))}]"
        got = types.get(info.name, "missing")
        if got == want:
            found["shapes_right"] += 1
        elif "?" in got or "*" in got or got == "unknown":
            found["shapes_open"].append(f"{os.path.basename(folder)}: {info.name} {got}, really {want}")
        else:
            found["shapes_wrong"].append(f"{os.path.basename(folder)}: {info.name} {got}, really {want}")


def outputs(folder, made, model, random, found):
    """Run the original and the exported model on the stored inputs and compare bit for bit."""
    name = os.path.basename(folder)
    try:
        feeds = {info.name: load(os.path.join(folder, f"input_{index}.pb"), info) for index, info in enumerate(model.graph.input)
                 if os.path.exists(os.path.join(folder, f"input_{index}.pb"))}
        expected = session(os.path.join(folder, "model.onnx")).run(None, feeds)
    except Exception:  # the runtime does not know the operator, version or type: nothing to compare with
        found["not_runnable"] += 1
        return
    try:
        actual = session(os.path.join(made, "model.onnx")).run(None, feeds)
    except Exception as error:
        found["broken"].append(f"{name}: {error}"[:300])
        return
    if flat(expected) == flat(actual) or random:
        found["same"] += 1
    else:
        found["different"].append(name)
    for level in LEVELS:
        optimized(folder, made, feeds, random, level, found)


def optimized(folder, made, feeds, random, level, found):
    """Load both models with a session's optimizations, and compare results for inputs of both signs."""
    name = os.path.basename(folder)
    try:
        given = session(os.path.join(folder, "model.onnx"), level)
    except Exception:  # the session breaks the original, too
        return
    try:
        written = session(os.path.join(made, "model.onnx"), level)
    except Exception as error:
        found["broken"].append(f"{name} at {level}: {error}"[:300])
        return
    for sign in (1, -1):
        signed = {key: negated(value) if sign < 0 else value for key, value in feeds.items()}
        try:
            expected = given.run(None, signed)
        except Exception:  # the operator takes no numbers of this sign
            continue
        try:
            actual = written.run(None, signed)
        except Exception as error:
            found["broken"].append(f"{name} at {level}: {error}"[:300])
            return
        if not random and not all(map(near, flat(expected), flat(actual))):
            found["different"].append(f"{name} at {level}, sign {sign}")


def negated(value):
    return -value if isinstance(value, np.ndarray) and value.dtype in (np.float16, np.float32, np.float64) else value


def near(one, other):
    """Whether two parts of results differ by rounding at most: sessions may fuse them in different ways."""
    if one == other or not isinstance(one, tuple) or not one[0].startswith("float"):
        return one == other
    values = [np.frombuffer(part[2], part[0]) for part in (one, other) if part[:2] == one[:2]]
    tolerance = 1e-2 if one[0] == "float16" else 1e-4
    return len(values) == 2 and np.allclose(*values, rtol=tolerance, atol=tolerance, equal_nan=True)


def is_random(model):
    graphs, names = [model.graph], set()
    while graphs:
        for node in graphs.pop().node:
            names.add(node.op_type)
            graphs += [a.g for a in node.attribute if a.HasField("g")]
    return bool(names & {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Dropout"})


def main():
    cases, derived = sys.argv[1:3]
    found = {"shapes_right": 0, "shapes_open": [], "shapes_wrong": [], "same": 0, "not_runnable": 0, "broken": [], "different": []}
    for kind in sorted(os.listdir(cases)):
        for name in sorted(os.listdir(os.path.join(cases, kind))):
            folder, made = os.path.join(cases, kind, name), os.path.join(derived, kind, name)
            if not os.path.exists(os.path.join(made, "model.onnx")):
                continue
            model = onnx.load(os.path.join(folder, "model.onnx"), load_external_data=False)
            with open(os.path.join(made, "types.txt"), encoding="utf-8") as file:
                types = dict(line.rstrip("\n").split("\t") for line in file)
            shapes(folder, model, types, found)
            outputs(folder, made, model, is_random(model), found)
    print(json.dumps(found, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
