"""Compare models that memc wrote with their originals, by a decoder that shares no code with memc: that of the onnx package.

    losses.py CASES MADE < NAMES

A line of NAMES is the folder of a model below both folders. Prints each field of an original that its written model lost, and
fails if there is one. All fields that a message has are compared, unknown ones included, but for those that a function here
takes apart: it says how they may change.
"""
import os
import struct
import sys

import onnx
from google.protobuf import unknown_fields

# Prefix of memc's own metadata keys.
OWN = "memc."
# First `ir_version` in which initializers are no graph inputs; memc may remove them from the inputs of an older model.
FREE_INITIALIZERS_IR_VERSION = 4


class Losses:
    """Losses found so far, and the path to the field that is being compared."""

    def __init__(self):
        self.path, self.found, self.nodes = [], [], 0

    def at(self, name, compare, *arguments, **others):
        """Compare within a field or element."""
        self.path.append(str(name))
        compare(*arguments, losses=self, **others)
        self.path.pop()

    def lost(self, name):
        self.at(name, lambda losses: losses.add("lost"))

    def add(self, loss):
        self.found.append(f"{'.'.join(self.path) or 'model'}: {loss}")


def repeated(field):
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def show(value):
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def scalar(old, new, losses):
    """Floats are compared by their bits: a NaN equals itself, and 0 differs from -0."""
    key = (lambda value: struct.pack("<d", value)) if isinstance(old, float) else lambda value: value
    if key(old) != key(new):
        losses.add(f"{len(old)} bytes became {len(new)} others" if isinstance(old, bytes) else f"{show(old)} became {show(new)}")


def elements(old, new, compare, losses):
    if len(old) != len(new):
        losses.add(f"{len(old)} elements became {len(new)}")
    for index, pair in enumerate(zip(old, new)):
        losses.at(index, compare, *pair)


def value(field, old, new, losses):
    """Compare one field of two messages."""
    compare = message if field.message_type else scalar
    if repeated(field):
        elements(getattr(old, field.name), getattr(new, field.name), compare, losses)
    elif not field.message_type:
        scalar(getattr(old, field.name), getattr(new, field.name), losses)
    elif old.HasField(field.name) and new.HasField(field.name):
        message(getattr(old, field.name), getattr(new, field.name), losses)
    elif old.HasField(field.name) or new.HasField(field.name):
        losses.add("lost" if old.HasField(field.name) else "added")


def unknown(message):
    """Values of unknown fields by field number."""
    found = {}
    for field in unknown_fields.UnknownFieldSet(message):
        found.setdefault(field.field_number, []).append((field.wire_type, str(field.data)))
    return found


def message(old, new, losses, others=()):
    """Compare all fields of two messages but those of the given names."""
    for field in old.DESCRIPTOR.fields:
        if field.name not in others:
            losses.at(field.name, value, field, old, new)
    kept = unknown(new)
    for number, values in unknown(old).items():
        if kept.get(number) != values:
            losses.add(f"unknown field {number} lost")


def begins(old, new, losses):
    """A list begins with the elements of the original."""
    for index, element in enumerate(old):
        if index < len(new):
            losses.at(index, message, element, new[index])
        else:
            losses.lost(index)


def metadata(old, new, losses):
    """memc replaces its own entries and leaves all others in their order."""
    foreign = [[entry for entry in entries if not entry.key.startswith(OWN)] for entries in (old, new)]
    losses.at("metadata_props", elements, *foreign, message)


def losses_of(old, new):
    """Every field of a model that the written one lost."""
    losses = Losses()
    message(old, new, losses, ["ir_version", "opset_import", "functions", "metadata_props", "graph"])
    # The version may rise; operator sets and functions may be appended.
    if new.ir_version < old.ir_version:
        losses.at("ir_version", scalar, old.ir_version, new.ir_version)
    losses.at("opset_import", begins, old.opset_import, new.opset_import)
    losses.at("functions", begins, old.functions, new.functions)
    metadata(old.metadata_props, new.metadata_props, losses)
    # Training information may name each initializer.
    place = {"main": True, "ir_version": old.ir_version, "all": bool(old.training_info)}
    if old.HasField("graph"):
        if new.HasField("graph"):
            losses.at("graph", graph, old.graph, new.graph, place)
        else:
            losses.lost("graph")
    return losses


def graph(old, new, place, losses):
    message(old, new, losses, ["node", "initializer", "input", "output", "value_info"])
    initializers(old, new, place, losses)
    # Weights that an older model lists among its inputs may leave them; nothing else may leave or move.
    weights, stays = {tensor.name for tensor in old.initializer}, {info.name for info in new.input}
    freed = weights - stays if place["ir_version"] < FREE_INITIALIZERS_IR_VERSION else set()
    losses.at("input", interface, [info for info in old.input if info.name not in freed], new.input, place)
    losses.at("output", interface, old.output, new.output, place)
    losses.at("value_info", descriptions, old, new)
    losses.at("node", nodes, old, new, place)


def initializers(old, new, place, losses):
    """One that nothing names any more may go; others stay. The first of a name counts: memc takes only equal repetitions."""
    first, written = ({tensor.name: tensor for tensor in reversed(side.initializer)} for side in (old, new))
    # Without its value, an input would be the caller's to give.
    named = free_names(new) | {info.name for info in new.input}
    for name, tensor in sorted(first.items()):
        if name in written:
            losses.at(f"initializer.{name}", message, tensor, written[name])
        elif name in named or place["all"]:
            losses.lost(f"initializer.{name}")


def free_names(graph):
    """Names that a graph reads and does not define by itself, other than as an initializer."""
    names = {info.name for info in graph.output}
    for node in graph.node:
        names.update(node.input)
        for attribute in node.attribute:
            for body in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                names |= free_names(body) - {tensor.name for tensor in body.initializer}
    names.update(entry.value for annotation in graph.quantization_annotation for entry in annotation.quant_parameter_tensor_names)
    defined = {result for node in graph.node for result in node.output} | {info.name for info in graph.input}
    return names - defined - {sparse.values.name for sparse in graph.sparse_initializer}


def interface(old, new, place, losses):
    """Inputs or outputs of a graph stay in their order; open extents of the model's own may become known."""
    if len(old) != len(new):
        losses.add(f"{len(old)} entries became {len(new)}")
    for one, other in zip(old, new):
        losses.at(one.name, entry, one, other, place)


def entry(old, new, place, losses):
    message(old, new, losses, ["type", "metadata_props"])
    metadata(old.metadata_props, new.metadata_props, losses)
    if place["main"] and old.type.HasField("tensor_type") and new.type.HasField("tensor_type"):
        losses.at("type", bound, old.type, new.type)
    else:
        losses.at("type", value, old.DESCRIPTOR.fields_by_name["type"], old, new)


def bound(old, new, losses):
    message(old, new, losses, ["tensor_type"])
    one, other = old.tensor_type, new.tensor_type
    losses.at("tensor_type", message, one, other, others=["shape"])
    if one.HasField("shape") and not other.HasField("shape"):
        losses.lost("tensor_type.shape")
    elif one.HasField("shape"):
        losses.at("tensor_type.shape", extents, one.shape, other.shape)


def extents(old, new, losses):
    """An open extent may become known, no other may change. A negative one is open: an exporter did not know it."""
    message(old, new, losses, ["dim"])
    if len(old.dim) != len(new.dim):
        losses.add(f"rank {len(old.dim)} became {len(new.dim)}")
    for index, (one, other) in enumerate(zip(old.dim, new.dim)):
        is_open = one.WhichOneof("value") != "dim_value" or one.dim_value < 0
        is_bound = is_open and other.WhichOneof("value") == "dim_value"
        losses.at(f"dim.{index}", message, one, other, others=["dim_value", "dim_param"] if is_bound else [])


def descriptions(old, new, losses):
    """That of a result may go with the result; one whose type memc knows better has the old text and metadata."""
    written = {info.name: info for info in new.value_info}
    before, after = ({result for node in side.node for result in node.output} for side in (old, new))
    for name, info in sorted({info.name: info for info in old.value_info}.items()):
        if name in written:
            losses.at(name, description, info, written[name])
        elif name not in before or name in after:
            losses.lost(name)


def description(old, new, losses):
    message(old, new, losses, ["type", "metadata_props"])
    metadata(old.metadata_props, new.metadata_props, losses)
    known = [type(old)(type=side.type) for side in (old, new)]
    for side in known:
        side.DiscardUnknownFields()
    if known[0] == known[1]:
        losses.at("type", message, old.type, new.type)


def nodes(old, new, place, losses):
    """A node survives in the node under its name or with its first result, and with its operator."""
    names = [node.name for node in old.node]
    named = {node.name: node for node in reversed(new.node)}
    makers = {result: node for node in new.node for result in node.output}
    for index, node in enumerate(old.node):
        has_name = node.name != "" and names.count(node.name) == 1
        found = [named.get(node.name)] if has_name else []
        found += [makers.get(next(filter(None, node.output), None))]
        same = [other for other in found if other is not None and (other.op_type, other.domain) == (node.op_type, node.domain)]
        if same:
            losses.nodes += 1
            losses.at(node.name or index, survivor, node, same[0], has_name, place)


def survivor(old, new, has_name, place, losses):
    """Operands and results of a node that survived may be others: memc decides about them."""
    others = ["input", "output", "op_type", "domain", "attribute", "metadata_props"]
    message(old, new, losses, others + ([] if has_name else ["name"]))
    metadata(old.metadata_props, new.metadata_props, losses)
    written = {attribute.name: attribute for attribute in reversed(new.attribute)}
    for one in old.attribute:
        if one.name in written:
            losses.at(f"attribute.{one.name}", attribute, one, written[one.name], place)
        else:
            losses.lost(f"attribute.{one.name}")


def attribute(old, new, place, losses):
    """An attribute is kept exactly, but for the graph in it."""
    has_graphs = old.HasField("g") and new.HasField("g")
    message(old, new, losses, ["g"] if has_graphs else [])
    if has_graphs:
        losses.at("g", graph, old.g, new.g, {**place, "main": False, "all": False})


def main():
    cases, made = sys.argv[1:3]
    pairs = nodes = lost = 0
    for name in sys.stdin.read().splitlines():
        models = [onnx.load(os.path.join(root, name, "model.onnx"), load_external_data=False) for root in (cases, made)]
        losses = losses_of(*models)
        pairs, nodes, lost = pairs + 1, nodes + losses.nodes, lost + len(losses.found)
        for loss in losses.found:
            print(f"{name}: {loss}")
    print(f"{pairs} pairs, {nodes} nodes compared, {lost} losses")
    sys.exit(lost > 0)


if __name__ == "__main__":
    main()
