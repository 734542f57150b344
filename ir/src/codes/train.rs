//! Codes of training steps: E033x errors, W033x warnings.

use super::{CodeInfo, Fault};

/// Errors of training steps.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0330",
        title: "no parameter is trainable",
        fault: Fault::Request,
        meaning: "No tensor of real numbers in the main graph fits the patterns of `--trainable` and `--freeze`, or the model has no \
            weights. No file was written.",
        example: "memc train model.onnx -o step.onnx --loss mse --labels y --freeze '*'",
        action: "Name tensors as `memc print` lists them, or leave out `--trainable` for the usual choice.",
    },
    CodeInfo {
        code: "E0331",
        title: "the loss does not depend on a trainable parameter",
        fault: Fault::Request,
        meaning: "No path of real numbers leads from a named parameter, or from any trainable parameter, to the loss. Notes name the nodes at \
            which gradients stop: casts to integers, comparisons, roundings. No file was written.",
        example: "a model whose only weights are read behind ArgMax",
        action: "Compute the loss from another output (`--loss mse:of=NAME`), or name other parameters.",
    },
    CodeInfo {
        code: "E0332",
        title: "an operator on the way to the loss has no gradient",
        fault: Fault::Model,
        meaning: "The notes list all nodes without a gradient rule, or in a form that their rule does not cover, each with the path from the \
            loss. No file was written.",
        example: "a Loop between a weight and the loss",
        action: "Freeze the parameters before the nodes, or export the model with other operators. `memc ops NAME` tells whether an operator \
            has a gradient.",
    },
    CodeInfo {
        code: "E0333",
        title: "the operator set is too old for gradients",
        fault: Fault::Model,
        meaning: "Gradients need operators of set 17, to which sets from 9 on are raised. Before set 13, Softmax over several \
            axes means something else; the message names the node. No file was written.",
        example: "a model of operator set 8",
        action: "Convert the model with ONNX's version converter.",
    },
    CodeInfo {
        code: "E0334",
        title: "the loss cannot be computed",
        fault: Fault::Request,
        meaning: "The output that the loss is computed from does not exist, is no tensor of real numbers, has unknown extents, or the labels \
            do not fit. No file was written.",
        example: "memc train model.onnx -o step.onnx --loss cross-entropy",
        action: "Name the output with `of=NAME` after the loss, its labels with `--labels`, and dimensions with `--dim`.",
    },
    CodeInfo {
        code: "E0335",
        title: "a name of the step is taken",
        fault: Fault::Model,
        meaning: "A step has inputs `lr`, `step`, `loss_scale`, `apply` and outputs `loss`, `new.NAME`, `grad.NAME`. The model has an input or \
            output of such a name, or a body reads a value of it. No file was written.",
        example: "a model with an input `lr`",
        action: "Rename it in the model.",
    },
    CodeInfo {
        code: "E0336",
        title: "a trained value does not fit the model",
        fault: Fault::Request,
        meaning: "The file of `--bake` has a value whose name, type or extents are not those of an initializer of the model. State of \
            optimizers is left out by its names. No file was written.",
        example: "memc train other.onnx --bake state.npz -o trained.onnx",
        action: "Bake the state of a step into the forward model that the step was made of.",
    },
];

/// Warnings and remarks of training steps.
pub(super) const WARNINGS: &[CodeInfo] = &[
    CodeInfo {
        code: "W0333",
        title: "no statistics of batches to train",
        fault: Fault::Nobody,
        meaning: "The model has convolutions with biases, or `--norms train` was given, and it has no normalization: exports for inference fold \
        BatchNormalization into convolutions. The step is exact; it trains the folded weights.",
        example: "memc train resnet50.onnx -o step.onnx --loss cross-entropy --labels y --norms train",
        action: "Export the model in training mode, or leave out the option.",
    },
    CodeInfo {
        code: "W0334",
        title: "parameters that may be merged",
        fault: Fault::Nobody,
        meaning: "Several nodes read one tensor as their parameter, and all its elements are equal. Networks that were never trained have \
            many such parameters (scales of one, biases of zero), and exporters for inference keep one tensor of those that are equal. The \
            step trains it as one parameter, as the file has it.",
        example: "memc train untrained.onnx -o step.onnx --loss mse --labels y",
        action: "Export the model in training mode, or with `torch.onnx.export(..., optimize=False)`. If the network shares the parameter, nothing is wrong.",
    },
];
