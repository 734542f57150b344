"""Models of a folder with their weights, symbolic extents and random inputs, as all benches that run models take them."""
import json
import os
import shutil

import numpy as np
import onnx

from options import name_of

FLOATS = {1: np.float32, 10: np.float16, 11: np.float64}
KINDS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64, "tensor(int64)": np.int64,
         "tensor(int32)": np.int32, "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8}


def all_tensors(graph):
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_tensors(attribute.g)


def external_tensors(path):
    """Tensors outside a model's file, each with its file and offset."""
    for tensor in all_tensors(onnx.load(path, load_external_data=False).graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            place = {entry.key: entry.value for entry in tensor.external_data}
            yield tensor, place["location"], int(place.get("offset", 0))


def external_bytes(path):
    return sum(int(np.prod(tensor.dims, dtype=np.int64)) * 4 for tensor, _, _ in external_tensors(path))


def chosen(options):
    """The models that are asked for and have few enough weights outside their files."""
    for path in options["models"]:
        if (not options["only"] or name_of(path) in options["only"]) and external_bytes(path) <= options["max_mb"] * 1e6:
            yield path


def weights(path):
    """Initializers of the main graph by name, those outside the file mapped."""
    model = onnx.load(path, load_external_data=False)
    outside = {tensor.name: (location, offset) for tensor, location, offset in external_tensors(path)}
    for tensor in model.graph.initializer:
        if tensor.name in outside:
            location, offset = outside[tensor.name]
            kind, folder = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type), os.path.dirname(os.path.abspath(path))
            yield tensor.name, np.memmap(os.path.join(folder, location), kind, "r", offset, tuple(tensor.dims))
        else:
            yield tensor.name, onnx.numpy_helper.to_array(tensor)


def random_weights(tensor):
    random = np.random.default_rng([7, *tensor.name.encode()])
    count = int(np.prod(tensor.dims, dtype=np.int64))
    kind = FLOATS.get(tensor.data_type)
    if kind is None:
        return random.integers(0, 2, count).astype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
    if len(tensor.dims) == 1:
        # A vector may hold variances, whose roots are taken.
        return (random.random(count, np.float32) + 0.5).astype(kind)
    fan_in = max(int(np.prod(tensor.dims[1:], dtype=np.int64)), 1)
    return (random.standard_normal(count, np.float32) / fan_in**0.5).astype(kind)


def write_weights(path, folder):
    """Make the external files of a model in a folder; returns their size."""
    files, total = {}, 0
    for tensor, location, offset in external_tensors(path):
        if location not in files:
            files[location] = open(os.path.join(folder, location), "wb")
        values = random_weights(tensor)
        files[location].seek(offset)
        files[location].write(values.tobytes())
        total += values.nbytes
    for file in files.values():
        file.close()
    return total


def place(path, folder, name="given.onnx", is_linked=True):
    """Put a model into a folder with its weights: those beside it, linked where that can be and may, else made (seeded)."""
    shutil.copy(path, os.path.join(folder, name))
    own = os.path.dirname(os.path.abspath(path))
    locations = {location for _, location, _ in external_tensors(path)}
    if not all(os.path.exists(os.path.join(own, location)) for location in locations):
        write_weights(path, folder)
    else:
        for location in locations:
            source, target = os.path.join(own, location), os.path.join(folder, location)
            try:
                if is_linked:
                    os.link(source, target)
                    continue
            except OSError:
                pass
            shutil.copy(source, target)
    return os.path.join(folder, name)


def extents(path, given):
    """Values of symbolic extents: what the model itself states, and over it what is given as `NAME=N`."""
    stated = {entry.key: entry.value for entry in onnx.load(path, load_external_data=False).metadata_props}
    found = json.loads(stated.get("corpus.dims", "{}"))
    found.update((text.split("=")[0], int(text.split("=")[1])) for text in given)
    return found


def feeds(session, sizes, seed=3, filled=None, below=None):
    """Random inputs as the model's own hints ask for; those in `filled` are one number throughout, and those in `below` integers
    below a number."""
    hints = json.loads(session.get_modelmeta().custom_metadata_map.get("corpus.inputs", "{}"))
    made = {}
    for value in session.get_inputs():
        shape = [dim if isinstance(dim, int) else sizes[f"{value.name}.{axis}" if f"{value.name}.{axis}" in sizes else dim]
                 for axis, dim in enumerate(value.shape)]
        random, kind = np.random.default_rng([seed, *value.name.encode()]), KINDS[value.type]
        what, low, high = hints.get(value.name) or (["normal", 0, 1] if np.issubdtype(kind, np.floating) else ["int", 0, 2])
        if value.name in (below or {}):
            low, high = 0, below[value.name]
        if value.name in (filled or {}):
            array = np.full(shape, filled[value.name])
        elif what == "const":
            array = np.full(shape, low)
        else:
            array = random.integers(low, high, shape) if what == "int" else low + high * random.standard_normal(shape)
        made[value.name] = array.astype(kind)
    return made


def session_options(level="ORT_DISABLE_ALL"):
    """One thread, quiet, graph optimizations of a level."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return options
