"""`memc-emx` with the released emx-onnx-cgen and a C compiler: planned C gives the bits of C without a plan."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy
from models import waiting, wide
from onnx import TensorProto, checker, helper, numpy_helper, save

from memc import _emx_source as source
from memc import emx

CC = shutil.which("gcc")


def chains(kinds, every, element=TensorProto.FLOAT, opset=17):
    """Returns a model with a chain of unary nodes for each list of extents."""
    nodes, inputs, outputs = [], [], []
    for number, extents in enumerate(every):
        names = [f"c{number}v{i}" for i in range(len(kinds) + 1)]
        nodes += [helper.make_node(kind, [names[i]], [names[i + 1]]) for i, kind in enumerate(kinds)]
        inputs.append(helper.make_tensor_value_info(names[0], element, extents))
        outputs.append(helper.make_tensor_value_info(names[-1], element, extents))
    graph = helper.make_graph(nodes, "chain", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def chain(kinds, extents, element=TensorProto.FLOAT):
    """Returns a model of unary nodes, one after another."""
    return chains(kinds, [extents], element)


def joined(seed):
    """Returns a model with views of many kinds: parts of a Concat, halves of a Split, shapes at both ends; the names of
    two tensors become one identifier of C."""
    random = numpy.random.default_rng(seed)
    rows, columns = int(random.integers(1, 9)), int(random.integers(1, 65))
    node, value = helper.make_node, helper.make_tensor_value_info
    nodes = [
        node("Reshape", ["x", "shape"], ["r"]),
        node("Exp", ["r"], ["a.b"]),
        node("Neg", ["r"], ["a/b"]),
        node("Concat", ["a.b", "a/b"], ["c"], axis=0),
        node("Split", ["c"], ["p", "q"], axis=0),
        node("Mul", ["p", "q"], ["m"]),
        node("Relu", ["c"], ["d"]),
        node("ReduceMax", ["d"], ["k"], keepdims=0),
        node("Add", ["m", "k"], ["s"]),
        node("Reshape", ["s", "flat"], ["y"]),
    ]
    size = rows * columns
    ends = [value("x", TensorProto.FLOAT, [size])], [value("y", TensorProto.FLOAT, [size])]
    shapes = {"shape": [rows, columns], "flat": [size]}
    constants = [numpy_helper.from_array(numpy.array(shape, numpy.int64), name) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "joined", *ends, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)


@unittest.skipUnless(CC, "gcc is not installed")
class Emx(unittest.TestCase):
    """A test in a folder; `run` calls the command in a process of its own."""

    def setUp(self):
        self.assertTrue(importlib.util.find_spec("emx_onnx_cgen"), "`cargo xtask setup` installs emx-onnx-cgen")
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)

    def model(self, proto, name="model"):
        checker.check_model(proto)
        path = self.folder / f"{name}.onnx"
        save(proto, path)
        return path

    def run_on(self, model, *words, code=0, **variables):
        command = [sys.executable, "-m", "memc.emx", str(model), "-o", str(self.folder / "out"), *words]
        environment = {**os.environ, **variables}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def written(self, name="model"):
        out = self.folder / "out"
        layout = json.loads((out / f"{name}.layout.json").read_text())
        return (out / f"{name}.c").read_text(), layout


class Plans(Emx):
    def test_odd_extents_and_operator_sets(self):
        # Each run starts the generator twice or more, which takes seconds.
        for every, opset in [([[], [1], [0, 3]], 13), ([[7, 1, 5], [33]], 21)]:
            with self.subTest(extents=every, opset=opset):
                told = self.run_on(self.model(chains(["Relu", "Exp", "Neg"], every, opset=opset)), "--exact")
                self.assertIn("equal bits", told)
                code, layout = self.written()
                self.assertNotIn("malloc(sizeof", code)
                self.assertLessEqual(layout["arenas"][0]["size"], 4 * (64 + 35))

    def test_views_and_equal_names(self):
        told = self.run_on(self.model(joined(0)), "--exact", "--effort", "fast")
        self.assertIn("C without a plan: equal bits; C of the given model: equal bits", told)

    def test_dimensions_types_and_places(self):
        model = self.model(wide(("batch", 300)))
        self.assertIn("E0114", self.run_on(model, code=2))
        told = self.run_on(model, "--dim", "batch=3", "--io=arena", "--align", "16", "--runs", "1")
        self.assertIn("equal bits", told)
        code, layout = self.written()
        self.assertEqual(layout["arenas"][0]["alignment"], 16)
        self.assertTrue(all(row["offset"] % 16 == 0 for row in layout["tensors"] if row.get("offset") is not None and not row.get("alias")))
        # One arena holds the input too.
        self.assertEqual(len(re.findall(r"^unsigned char memc_arena_\w+\[", code, re.MULTILINE)), 1)
        self.run_on(self.model(chain(["Abs", "Neg"], [40], TensorProto.INT8)), "--io", "arena")

    def test_tensors_in_a_slow_bank(self):
        target = (
            'name = "board"\n[machine]\nbytes_per_second = 1e9\noverhead_ns = 100\n[machine.flops_per_second]\nfloat = 1e9\n'
            '[[spaces]]\nname = "near"\ncapacity = {}\n[[spaces]]\nname = "bank"\naccess_bytes_per_second = 1e8\n{}'
        )
        link = '[[links]]\nfrom = "{}"\nto = "{}"\nbytes_per_second = 1e9\nlatency_ns = 1\n'
        model = self.model(waiting(6, 256))
        for links in ["", link.format("near", "bank") + link.format("bank", "near")]:
            (self.folder / "board.toml").write_text(target.format(3072, links))
            told = self.run_on(model, "--target", "board.toml", "--exact", "--effort", "fast")
            self.assertIn("equal bits", told)
            code, layout = self.written()
            self.assertLessEqual(next(row["size"] for row in layout["arenas"] if row["space"] == "near"), 3072)
        # Without links, tensors can only live in the bank.
        (self.folder / "board.toml").write_text(target.format(2048, ""))
        self.run_on(model, "--target", "board.toml", "--exact", "--no-rewrite")
        code, layout = self.written()
        self.assertTrue(any(row.get("space") == "bank" for row in layout["tensors"]) or layout["cost"]["recomputed_nodes"])


class Refusals(Emx):
    def test_tools_and_uses(self):
        model = self.model(chain(["Exp", "Neg"], [8]))
        self.assertIn("no C compiler", self.run_on(model, "--cc", "no-such-compiler", code=1))
        self.run_on(model, "--no-bench", "--cc", "no-such-compiler")
        self.assertIn("--state", self.run_on(model, "--state", "a=b", code=2))
        self.assertIn("E0301", self.run_on(model, "--budget", "1", code=3))
        self.assertIn("`false ", self.run_on(model, "--cc", "false", code=1))

    def test_a_missing_generator_is_named(self):
        model = self.model(chain(["Exp", "Neg"], [8]))
        program = (
            "import importlib.util, sys\nfind = importlib.util.find_spec\n"
            "importlib.util.find_spec = lambda name: None if name == 'emx_onnx_cgen' else find(name)\n"
            "from memc import emx\nsys.exit(emx.main(sys.argv[1:]))\n"
        )
        command = [sys.executable, "-c", program, str(model), "-o", str(self.folder / "out")]
        done = subprocess.run(command, env={**os.environ, "PATH": "/nowhere"}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("pip install emx-onnx-cgen==", done.stderr)


C = """static void node0_relu(void) {
}
void net(const float x[4], float y[4]) {
    float *tmp0_a = malloc(sizeof(*tmp0_a) * 4);
    if (tmp0_a == NULL) {
            return;
        }
    float tmp1_b[4];
    node0_relu(x, tmp0_a);
    node1_exp(tmp0_a, tmp1_b);
    node2_neg(tmp1_b, y);
    free(tmp0_a);
}
"""
NODES = [(["x"], ["a"]), (["a"], ["b"]), (["b"], ["y"])]
LIVE = {"a": [[0, 2]], "b": [[1, 3]]}


class Sources(unittest.TestCase):
    """The C is read strictly: a form that is not known is refused, never guessed."""

    def test_a_known_form(self):
        read = source.Source(C, "net")
        self.assertEqual([(each.name, each.size) for each in read.temporaries], [("tmp0_a", 16), ("tmp1_b", 16)])
        tensors, missing = source.matched(read, NODES)
        self.assertEqual((tensors, missing), ({"tmp0_a": "a", "tmp1_b": "b"}, []))
        self.assertEqual(source.steps_of_calls(read, NODES, tensors, LIVE), [0, 1, 2])
        places = {"tmp0_a": source.Place("memc_arena_m + 0", 16), "tmp1_b": source.Place("memc_arena_m + 16", 16)}
        text = source.patched(read, places, {1}, "plan.h", ["M"])
        self.assertIn("float *tmp0_a = (void *)(memc_arena_m + 0);", text)
        self.assertNotIn("malloc", text)
        self.assertNotIn("free", text)
        self.assertNotIn("node1_exp(", text)

    def test_unknown_forms_are_refused(self):
        for old, new in [
            ("void net(", "int net("),
            ("float y[4]", "float y[n]"),
            ("free(tmp0_a);", "memset(tmp0_a, 0, 4); return;"),
            ("if (tmp0_a == NULL) {", "if (!tmp0_a) {"),
            ("float tmp1_b[4];", "custom_t tmp1_b[4];"),
        ]:
            self.assertRaises(source.Unreadable, source.Source, C.replace(old, new), "net")

    def test_another_order_is_refused(self):
        swapped = C.replace("node0_relu(x, tmp0_a);\n    node1_exp(tmp0_a, tmp1_b);", "node1_exp(tmp0_a, tmp1_b);\n    node0_relu(x, tmp0_a);")
        read = source.Source(swapped, "net")
        tensors, _ = source.matched(read, NODES)
        self.assertRaises(source.Unmatched, source.steps_of_calls, read, NODES, tensors, LIVE)
        read = source.Source(C, "net")
        self.assertRaises(source.Unmatched, source.steps_of_calls, read, NODES, tensors, {**LIVE, "a": [[0, 1]]})

    def test_names_without_a_result_are_told(self):
        read = source.Source(C.replace("tmp1_b", "tmp1_z"), "net")
        self.assertEqual(source.matched(read, NODES), ({"tmp0_a": "a"}, ["tmp1_z"]))

    def test_copies_onto_themselves(self):
        plain = {"bytes": 8, "alias": None}
        view = lambda of: {"bytes": 8, "alias": {"kind": "view", "of": of, "alias_offset": 0}}
        over = {"bytes": 8, "alias": {"kind": "in_place", "of": "a", "alias_offset": 0}}
        half = {"bytes": 8, "alias": {"kind": "view", "of": "c", "alias_offset": 8}}
        node = (["a"], ["b"])
        self.assertTrue(source.copies_onto_itself(node, {"a": plain, "b": view("a")}))
        self.assertFalse(source.copies_onto_itself(node, {"a": plain, "b": over}))
        self.assertFalse(source.copies_onto_itself(node, {"a": plain, "b": plain}))
        self.assertFalse(source.copies_onto_itself(node, {"a": plain, "b": view("z")}))
        join, whole = (["a", "b"], ["c"]), {"bytes": 16, "alias": None}
        self.assertTrue(source.copies_onto_itself(join, {"a": view("c"), "b": half, "c": whole}))
        self.assertFalse(source.copies_onto_itself(join, {"a": view("c"), "b": plain, "c": whole}))
        self.assertFalse(source.copies_onto_itself((["a", "a"], ["c"]), {"a": view("c"), "c": {**whole, "bytes": 24}}))


if __name__ == "__main__":
    unittest.main()
