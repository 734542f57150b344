"""Losses are found and reported with their paths; changes that memc may make are none."""
import unittest

from onnx import FunctionProto, ModelProto, TensorProto, helper

from losses import losses_of

# A number that no version of ONNX uses for a field.
UNKNOWN = 2015


def info(name, *dims):
    value = helper.make_tensor_value_info(name, TensorProto.FLOAT, list(dims), doc_string=f"about {name}")
    for dim in value.type.tensor_type.shape.dim:
        dim.denotation = "BATCH"
    return value


def entries(message, **values):
    for key, value in values.items():
        message.metadata_props.add(key=key.replace("_", "."), value=value)


def vendor(message):
    """Give a message an unknown field: a number."""
    message.MergeFromString(bytes([0x80 | (UNKNOWN << 3 & 0x7f), UNKNOWN >> 4, 5]))


def original():
    """A model with a weight, an attribute, a body, metadata of others and of memc, and unknown fields."""
    product = helper.make_node("Gemm", ["x", "w"], ["p"], "product", alpha=float("nan"), transB=1)
    entries(product, owner="someone", memc_step="7")
    vendor(product)
    inner = helper.make_node("Cast", ["p"], ["t"], to=1)
    body = helper.make_graph([inner], "", [], [info("t")])
    looped = helper.make_node("Loop", ["", "", "p"], ["y"], body=body)
    weight = TensorProto(name="w", dims=[2], data_type=1, raw_data=bytes([7] * 8))
    unread = TensorProto(name="unread", dims=[2], data_type=1, raw_data=bytes([7] * 8))
    graph = helper.make_graph([product, looped], "graph", [info("x", "N"), info("w")], [info("y", -1)], [weight, unread])
    graph.value_info.append(info("p"))
    model = ModelProto(ir_version=3, producer_name="someone", graph=graph)
    model.functions.append(FunctionProto(name="f", doc_string="about f"))
    model.opset_import.add(version=21)
    vendor(model)
    return model


def after(change):
    """The losses after a change of the written model."""
    written = original()
    change(written)
    return losses_of(original(), ModelProto.FromString(written.SerializeToString())).found


def forget(message):
    """Remove unknown fields of a message, not of those in it."""
    known = message.__class__()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    message.CopyFrom(known)


def without_vendor(model):
    """The bytes of a model without its own unknown field, which stands last."""
    return model.SerializeToString()[:-3]


class Losses(unittest.TestCase):
    def test_an_identical_copy_has_none(self):
        self.assertEqual(after(lambda model: None), [])

    def test_a_lost_unknown_field_attribute_and_initializer_are_reported(self):
        def change(model):
            forget(model.graph.node[0])
            del model.graph.node[0].attribute[1]
            del model.graph.initializer[0]

        self.assertEqual(after(change), ["graph.initializer.w: lost", "graph.node.product: unknown field 2015 lost",
                                         "graph.node.product.attribute.transB: lost"])

    def test_every_loss_has_its_path(self):
        def cut(model):
            tensor = model.graph.initializer[0]
            tensor.raw_data = tensor.raw_data[:3] + b"\0" + tensor.raw_data[4:]

        cases = [
            (lambda model: model.ParseFromString(without_vendor(model)), "model: unknown field 2015 lost"),
            (lambda model: setattr(model, "ir_version", 2), "ir_version: 3 became 2"),
            (lambda model: model.ClearField("producer_name"), 'producer_name: "someone" became ""'),
            (lambda model: setattr(model.opset_import[0], "version", 20), "opset_import.0.version: 21 became 20"),
            (lambda model: model.ClearField("functions"), "functions.0: lost"),
            (lambda model: model.functions[0].ClearField("doc_string"), 'functions.0.doc_string: "about f" became ""'),
            (lambda model: model.ClearField("graph"), "graph: lost"),
            (lambda model: model.graph.ClearField("name"), 'graph.name: "graph" became ""'),
            (cut, "graph.initializer.w.raw_data: 8 bytes became 8 others"),
            (lambda model: model.graph.input.pop(0), "graph.input: 2 entries became 1"),
            (lambda model: model.graph.output[0].ClearField("doc_string"), 'graph.output.y.doc_string: "about y" became ""'),
            (lambda model: model.graph.ClearField("value_info"), "graph.value_info.p: lost"),
            (lambda model: setattr(model.graph.node[0].attribute[0], "f", 0.5), "graph.node.product.attribute.alpha.f: nan became 0.5"),
            (lambda model: setattr(model.graph.node[0], "name", "other"), 'graph.node.product.name: "product" became "other"'),
            (lambda model: model.graph.node[0].metadata_props.pop(0), "graph.node.product.metadata_props: 1 elements became 0"),
            (lambda model: setattr(model.graph.node[1].attribute[0].g.node[0].attribute[0], "i", 7),
             "graph.node.1.attribute.body.g.node.0.attribute.to.i: 1 became 7"),
            (lambda model: model.graph.input[0].type.tensor_type.shape.dim[0].ClearField("denotation"),
             'graph.input.x.type.tensor_type.shape.dim.0.denotation: "BATCH" became ""'),
            (lambda model: model.graph.input[0].type.tensor_type.ClearField("shape"), "graph.input.x.type.tensor_type.shape: lost"),
            (lambda model: setattr(model.graph.input[0].type.tensor_type, "elem_type", 7),
             "graph.input.x.type.tensor_type.elem_type: 1 became 7"),
        ]
        for change, expected in cases:
            with self.subTest(expected):
                self.assertEqual(after(change)[:1], [expected])

    def test_changes_that_memc_may_make_are_none(self):
        def change(model):
            model.ir_version = 10
            model.opset_import.add(domain="memc", version=1)
            model.functions.append(FunctionProto(name="g"))
            entries(model, memc_version="1")
            graph = model.graph
            # A weight leaves the inputs, another the model, and dimensions are bound.
            graph.input.pop()
            graph.initializer.pop()
            for value in [*graph.input, *graph.output]:
                value.type.tensor_type.shape.dim[0].dim_value = 4
                entries(value, memc_offset="0")
            # The first node writes another value, whose type is known; the second is gone with its result.
            graph.node[0].output[0] = "y"
            graph.node[0].metadata_props[1].value = "0"
            graph.node.pop()
            graph.ClearField("value_info")

        self.assertEqual(after(change), [])


if __name__ == "__main__":
    unittest.main()
