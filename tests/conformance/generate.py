"""Write the conformance models that the onnx package ships, with inputs and expected outputs, into a folder.

    generate.py FOLDER

Each case becomes FOLDER/KIND/NAME/model.onnx with input_I.pb and output_I.pb of its first data set. Node cases are made
by the package's own generators; simple and pytorch cases lie in the package; models with bodies are random.
"""
import os
import shutil
import sys
import warnings

import onnx
from google.protobuf.message import Message
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.model import collect_testcases as model_cases
from onnx.backend.test.case.node import collect_testcases as node_cases

import bodies

warnings.filterwarnings("ignore")


def encode(value, info):
    """One input or output in the form that its declared type asks for."""
    if isinstance(value, TensorProto):
        return value.SerializeToString()
    kind = info.type.WhichOneof("value")
    if kind == "map_type":
        return numpy_helper.from_dict(value, info.name).SerializeToString()
    if kind == "sequence_type":
        return numpy_helper.from_list(value, info.name).SerializeToString()
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name).SerializeToString()
    return numpy_helper.from_array(value, info.name).SerializeToString()


# Number of random models with bodies.
BODIES = 60

# A field that no version of ONNX has, as a number (far above all that are taken), a wire type and a text of seven letters.
UNKNOWN = b"\xfa\x7d\x07unknown"


def mark(message):
    """Add an unknown field to a message and to all messages in it: a written model must keep them."""
    for field, value in message.ListFields():
        if field.message_type:
            for item in [value] if isinstance(value, Message) else value:
                mark(item)
    message.MergeFromString(UNKNOWN)


def write_model(folder, model):
    mark(model)
    with open(os.path.join(folder, "model.onnx"), "wb") as file:
        file.write(model.SerializeToString())


def write_case(folder, case):
    os.makedirs(folder, exist_ok=True)
    write_model(folder, case.model)
    inputs, outputs = case.data_sets[0]
    graph = case.model.graph
    for prefix, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
        for index, (value, info) in enumerate(zip(values, infos)):
            with open(os.path.join(folder, f"{prefix}_{index}.pb"), "wb") as file:
                file.write(encode(value, info))


def copy_case(folder, source):
    os.makedirs(folder, exist_ok=True)
    write_model(folder, onnx.load(os.path.join(source, "model.onnx"), load_external_data=False))
    data = os.path.join(source, "test_data_set_0")
    for name in os.listdir(data) if os.path.isdir(data) else []:
        shutil.copy(os.path.join(data, name), folder)


def write_bodies(folder, seed):
    """A random model with bodies; its dimensions are bound to the extents in dims.txt."""
    model, inputs, dims = bodies.make(seed)
    os.makedirs(folder)
    write_model(folder, model)
    for index, (value, info) in enumerate(zip(inputs, model.graph.input)):
        with open(os.path.join(folder, f"input_{index}.pb"), "wb") as file:
            file.write(encode(value, info))
    with open(os.path.join(folder, "dims.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{name}={extent}\n" for name, extent in dims.items())


def main():
    target = sys.argv[1]
    shutil.rmtree(target, ignore_errors=True)
    seen = 0
    for case in [*node_cases(None), *model_cases()]:
        if case.model is not None and case.data_sets:
            write_case(os.path.join(target, case.kind, case.name), case)
            seen += 1
    package = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")
    for kind in ("simple", "pytorch-converted", "pytorch-operator", "light"):
        root = os.path.join(package, kind)
        for name in sorted(os.listdir(root)) if os.path.isdir(root) else []:
            source = os.path.join(root, name)
            if os.path.exists(os.path.join(source, "model.onnx")):
                copy_case(os.path.join(target, kind, name), source)
                seen += 1
    for seed in range(BODIES):
        write_bodies(os.path.join(target, "bodies", f"bodies_{seed}"), seed)
    print(f"{seen + BODIES} cases")


if __name__ == "__main__":
    main()
