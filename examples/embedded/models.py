"""Writes two int8 models of microcontroller size: `kws.onnx`, a keyword spotter of the size of DS-CNN, and
`person.onnx`, a person detector of the size of MobileNetV1 0.25 at 96x96. Weights are random; sizes and operators are
those of the trained networks, and memory depends on nothing else.

    python models.py FOLDER
"""

import pathlib
import sys

import numpy
from onnx import TensorProto, helper, numpy_helper, save


class Network:
    """A chain of quantized convolutions in int8."""

    def __init__(self, name, shape, seed):
        self.random = numpy.random.default_rng(seed)
        self.name, self.nodes, self.constants = name, [], []
        self.shape, self.value = shape, "input"
        self.given = helper.make_tensor_value_info("input", TensorProto.INT8, shape)
        self.scale = self.constant("scale", numpy.float32(0.05))
        self.zero = self.constant("zero", numpy.int8(0))
        # Numbers below the zero point do not exist: it acts as a rectifier.
        self.low = self.constant("low", numpy.int8(-128))

    def constant(self, name, array):
        self.constants.append(numpy_helper.from_array(numpy.asarray(array), name))
        return name

    def convolution(self, name, channels, kernel, strides=(1, 1), pads=(0, 0, 0, 0), group=1, weights=None, rectified=True):
        """Adds a convolution with weights and a bias of int8 and int32."""
        batch, inputs, height, width = self.shape
        fan = inputs // group * kernel[0] * kernel[1]
        if weights is None:
            # Sums of `fan` products keep about the spread of their operands.
            weights, scale = self.random.integers(-127, 128, (channels, inputs // group, *kernel)), 1.6 / (73 * fan**0.5)
        else:
            weights, scale = numpy.full((channels, inputs // group, *kernel), weights), 1 / fan
        below = self.zero if self.value == "input" else self.low
        operands = [self.value, self.scale, below]
        operands.append(self.constant(f"{name}.weight", weights.astype(numpy.int8)))
        operands.append(self.constant(f"{name}.weight_scale", numpy.float32(scale)))
        above = self.low if rectified else self.zero
        operands += [self.zero, self.scale, above]
        operands.append(self.constant(f"{name}.bias", self.random.integers(-50, 50, channels).astype(numpy.int32)))
        attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads, "group": group}
        self.nodes.append(helper.make_node("QLinearConv", operands, [name], name=name, **attributes))
        rows = (height + pads[0] + pads[2] - kernel[0]) // strides[0] + 1
        columns = (width + pads[1] + pads[3] - kernel[1]) // strides[1] + 1
        self.shape, self.value, self.above = [batch, channels, rows, columns], name, above

    def separable(self, name, channels, strides=(1, 1)):
        """Adds a depthwise and a pointwise convolution; a stride of 2 pads the end only, as TensorFlow does."""
        pads = (1, 1, 1, 1) if strides == (1, 1) else (0, 0, 1, 1)
        self.convolution(f"{name}.depthwise", self.shape[1], (3, 3), strides, pads, group=self.shape[1])
        self.convolution(f"{name}.pointwise", channels, (1, 1))

    def model(self, classes):
        """Adds the average over all pixels, a dense layer and a softmax, and returns the model."""
        # The average is a depthwise convolution with equal weights, so it stays in int8.
        self.convolution("average", self.shape[1], tuple(self.shape[2:]), group=self.shape[1], weights=1)
        self.convolution("dense", classes, (1, 1), rectified=False)
        self.constant("shape", numpy.array([1, classes], numpy.int64))
        self.nodes.append(helper.make_node("DequantizeLinear", ["dense", self.scale, self.zero], ["logits"]))
        self.nodes.append(helper.make_node("Reshape", ["logits", "shape"], ["row"]))
        self.nodes.append(helper.make_node("Softmax", ["row"], ["scores"], axis=1))
        scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, classes])
        graph = helper.make_graph(self.nodes, self.name, [self.given], [scores], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def keyword_spotting():
    """Returns a model of the size of DS-CNN (small): 49 frames of 10 coefficients, 12 words."""
    network = Network("kws", [1, 1, 49, 10], seed=1)
    network.convolution("first", 64, (10, 4), (2, 2), (4, 1, 5, 1))
    for block in range(4):
        network.separable(f"block{block}", 64)
    return network.model(12)


def person_detection():
    """Returns a model of the size of MobileNetV1 with a quarter of the channels, for grey images of 96x96."""
    network = Network("person", [1, 1, 96, 96], seed=2)
    network.convolution("first", 8, (3, 3), (2, 2), (0, 0, 1, 1))
    channels = [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1)]
    for block, (count, stride) in enumerate(channels):
        network.separable(f"block{block}", count, (stride, stride))
    return network.model(2)


def main(folder):
    """Writes both models."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save(keyword_spotting(), folder / "kws.onnx")
    save(person_detection(), folder / "person.onnx")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
