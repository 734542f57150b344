"""Random models with If and Loop nodes: conditions and trips that are known, follow from sizes, or are given.

A branch that never runs may be impossible: a session refuses it once all sizes are known, so a planned model must not keep it.
"""
import random

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ROWS, COLUMNS = 3, 4


class Maker:
    """One model; `take` draws, names are unique unless a branch reuses them on purpose."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.nodes, self.weights, self.count = [], [], 0

    def take(self, *choices):
        return self.rng.choice(choices)

    def name(self, hint):
        self.count += 1
        return f"{hint}{self.count}"

    def add(self, op, inputs, nodes=None, outputs=1, **attributes):
        names = [self.name(op.lower()) for _ in range(outputs)]
        (self.nodes if nodes is None else nodes).append(helper.make_node(op, inputs, names, name=self.name("n"), **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, array, nodes=None, weights=None):
        array = np.asarray(array)
        if weights is not None and self.take(True, False):
            weights.append(numpy_helper.from_array(array, self.name("w")))
            return weights[-1].name
        return self.add("Constant", [], nodes, value=numpy_helper.from_array(array, self.name("v")))

    def size(self, nodes=None):
        """Number of columns, as a scalar or as a tensor of one element."""
        shape = self.add("Shape", ["x"], nodes)
        index = self.constant(np.array(1, np.int64) if self.take(True, False) else np.array([1], np.int64), nodes)
        return self.add("Gather", [shape, index], nodes, axis=0)

    def condition(self, nodes=None):
        """A condition, and its truth; `None` if only the caller knows it."""
        kind = self.take("constant", "size", "size", "less", "not", "given")
        if kind == "constant":
            truth = self.take(True, False)
            return self.constant(np.array(truth), nodes), truth
        if kind == "size":
            other = self.take(COLUMNS, COLUMNS + 1)
            return self.add("Equal", [self.size(nodes), self.constant(np.int64(other), nodes)], nodes), other == COLUMNS
        if kind == "less":
            other = self.take(COLUMNS, COLUMNS + 1)
            return self.add("Less", [self.size(nodes), self.constant(np.int64(other), nodes)], nodes), COLUMNS < other
        if kind == "not":
            inner, truth = self.condition(nodes)
            return self.add("Not", [inner], nodes), None if truth is None else not truth
        return "flag", None

    def work(self, value, nodes, weights, depth):
        """A few nodes on a value of the shape of x."""
        for _ in range(self.take(0, 1, 1, 2)):
            op = self.take("Relu", "Exp", "Add", "Mul", "If", "Loop", "capture")
            if op in ("If", "Loop") and depth < 3:
                value = self.either(value, nodes, depth + 1) if op == "If" else self.loop(value, nodes, depth + 1)
            elif op == "capture":
                value = self.add("Sub", [value, "x"], nodes)
            elif op in ("Add", "Mul"):
                value = self.add(op, [value, self.constant(np.float32(self.rng.uniform(-2, 2)), nodes, weights)], nodes)
            else:
                value = self.add("Tanh" if op == "Exp" else "Relu", [value], nodes)
        return value

    def impossible(self, value, nodes):
        """A value that cannot be computed once all sizes are known."""
        kind = self.take("squeeze", "reshape", "product", "rank")
        if kind == "squeeze":
            return self.add("Squeeze", [value, self.constant(np.array([1], np.int64), nodes)], nodes)
        if kind == "reshape":
            return self.add("Reshape", [value, self.constant(np.array([7, 5], np.int64), nodes)], nodes)
        if kind == "product":
            return self.add("MatMul", [value, value], nodes)
        return self.add("Transpose", [self.add("Unsqueeze", [value, self.constant(np.array([0], np.int64), nodes)], nodes)], nodes,
                        perm=[0, 2, 1])

    def branch(self, value, depth, dead):
        nodes, weights = [], []
        outputs = [self.impossible(value, nodes) if dead else self.work(value, nodes, weights, depth)]
        outputs.append(self.take(value, "x", outputs[0]))
        if outputs[0] == outputs[1] or not any(outputs[0] in node.output for node in nodes):
            outputs = [self.add("Identity", [output], nodes) for output in outputs]
        elif outputs[1] in (value, "x"):
            outputs[1] = self.add("Identity", [outputs[1]], nodes)
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        return helper.make_graph(nodes, self.name("branch"), [], infos, weights)

    def either(self, value, nodes, depth=0):
        condition, truth = self.condition(nodes if self.take(True, False) else None if depth == 0 else nodes)
        dead = self.take(True, False) and truth is not None
        yes = self.branch(value, depth, dead and not truth)
        no = self.branch(value, depth, dead and truth)
        first, second = self.add("If", [condition], nodes, 2, then_branch=yes, else_branch=no)
        return self.add("Add", [first, second], nodes) if self.take(True, False) else self.take(first, second)

    def loop(self, value, nodes, depth=0):
        nodes_in, weights = [], []
        trips = self.take(None, 0, 1, 1, 2, "size")
        starts = self.take(None, True, True, False)
        ends = trips is None or self.take(True, False, False)
        count, flag, carried = self.name("count"), self.name("flag"), self.name("carried")
        inner = self.work(carried, nodes_in, weights, depth)
        if self.take(True, False):
            step = self.add("Cast", [count], nodes_in, to=TensorProto.FLOAT)
            inner = self.add("Add", [inner, step], nodes_in)
        inner = self.add("Identity", [inner], nodes_in)
        goes_on = self.constant(np.array(not ends), nodes_in) if ends or self.take(True, False) else self.add("Identity", [flag], nodes_in)
        outputs = [(goes_on, TensorProto.BOOL), (inner, TensorProto.FLOAT)]
        collects = self.take(True, False)
        if collects:
            outputs.append((self.add("ReduceSum", [inner], nodes_in, keepdims=0), TensorProto.FLOAT))
        body = helper.make_graph(
            nodes_in, self.name("body"),
            [helper.make_tensor_value_info(count, TensorProto.INT64, []), helper.make_tensor_value_info(flag, TensorProto.BOOL, []),
             helper.make_tensor_value_info(carried, TensorProto.FLOAT, None)],
            [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs], weights)
        limit = "" if trips is None else self.add("Reshape", [self.size(nodes), self.constant(np.zeros(0, np.int64), nodes)], nodes) \
            if trips == "size" else self.constant(np.int64(trips), nodes)
        start = "" if starts is None else self.constant(np.array(starts), nodes)
        results = self.add("Loop", [limit, start, value], nodes, 1 + collects, body=body)
        if collects:
            return self.add("Add", [results[0], self.add("ReduceSum", [results[1]], nodes, keepdims=0)], nodes)
        return results


def make(seed):
    """A model, its inputs with both signs, and the extents of its dimensions."""
    maker = Maker(seed)
    value = "x"
    for _ in range(maker.take(1, 2, 3)):
        value = maker.either(value, maker.nodes) if maker.take(True, False) else maker.loop(value, maker.nodes)
        value = maker.work(value, maker.nodes, maker.weights, 1)
    # A result of a body may be a result of the graph.
    outputs = [value] if value != "x" else [maker.add("Identity", [value])]
    outputs += [name for name in maker.nodes[-1].output if name not in outputs]
    columns = maker.take(COLUMNS, "columns")
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, columns]),
              helper.make_tensor_value_info("flag", TensorProto.BOOL, [])]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(maker.nodes, f"bodies{seed}", inputs, infos, maker.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", maker.take(13, 17, 21))])
    model.ir_version = 8
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    return model, [x, np.array(maker.take(True, False))], {"columns": COLUMNS} if columns == "columns" else {}
