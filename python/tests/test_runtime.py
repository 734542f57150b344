"""The module beside the packages `onnx` and `onnxruntime`: messages, sessions that keep a plan, verification, and
models with weights of gigabytes."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

import memc
import numpy
import onnx
import onnxruntime
from models import waiting, wide, with_weights


def feeds(session, seed, bind=2):
    """Returns random inputs of a session; open extents are `bind`."""
    generator = numpy.random.default_rng(seed)
    made = {}
    for value in session.get_inputs():
        shape = [extent if isinstance(extent, int) else bind for extent in value.shape]
        if "int" in value.type:
            made[value.name] = generator.integers(0, 2, shape).astype(numpy.int64 if "64" in value.type else numpy.int32)
        else:
            made[value.name] = generator.standard_normal(shape).astype(numpy.float32)
    return made


class Messages(unittest.TestCase):
    def test_a_message_gives_a_message(self):
        for opset in [13, 15, 17, 20, 21]:
            for extents in [("batch", 64), (1, 1), ("batch",), (2, 3, 0), ()]:
                with self.subTest(opset=opset, extents=extents):
                    model = wide(extents, opset)
                    dims = {"batch": 2} if "batch" in extents else None
                    result = memc.optimize(model, dims=dims, exact=True)
                    self.assertIsInstance(result.model, onnx.ModelProto)
                    self.assertTrue(memc.check(model, result))
                    onnx.checker.check_model(result.model)
                    same = memc.optimize(model.SerializeToString(), dims=dims, exact=True)
                    same.layout["model"].pop("output_sha256"), result.layout["model"].pop("output_sha256")
                    self.assertEqual(same.layout, result.layout)

    def test_results_are_bit_equal_to_the_given_model(self):
        for seed in [0, 1, 2]:
            model = wide(("batch", 64 + seed))
            result = memc.optimize(model, dims={"batch": 2}, exact=True, runtime="ort")
            plain = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            session = memc.ort.session(result)
            given = feeds(plain, seed)
            for one, other in zip(plain.run(None, given), session.run(None, given)):
                self.assertEqual(one.tobytes(), other.tobytes())

    def test_plans_for_ranges_run_at_all_extents(self):
        model = wide(("batch", 64))
        result = memc.optimize(model, dims={"batch": "0..9"}, exact=True, runtime="ort")
        self.assertTrue(memc.check(model, result))
        found = memc.verify(model, result, points=4)
        self.assertTrue(found and found.identical)
        self.assertEqual([point["batch"] for point in found.points[:2]], [9, 0])
        self.assertEqual(len(found.points), 4)
        found = memc.verify(model, result, at=[{"batch": 7}, {"batch": 1}])
        self.assertEqual(found.points, [{"batch": 7}, {"batch": 1}])
        with self.assertRaises(memc.Error) as raised:
            memc.verify(model, result, at=[{"batch": 10}])
        self.assertEqual(raised.exception.code, "E0715")
        session = memc.ort.session(result)
        plain = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for batch in [0, 1, 9]:
            given = {"x": numpy.linspace(-3, 3, batch * 64, dtype=numpy.float32).reshape(batch, 64)}
            for one, other in zip(plain.run(None, given), session.run(None, given)):
                self.assertEqual(one.tobytes(), other.tobytes())


class Sessions(unittest.TestCase):
    def test_a_session_has_the_options_of_the_recipe(self):
        result = memc.optimize(wide((2, 64)), runtime="ort")
        options = memc.ort.session_options(result)
        self.assertFalse(options.enable_mem_pattern or options.enable_cpu_mem_arena or options.enable_mem_reuse)
        self.assertEqual(options.graph_optimization_level, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
        self.assertEqual(options.execution_order, onnxruntime.ExecutionOrder.PRIORITY_BASED)
        fast = memc.ort.session_options(result, "fast")
        self.assertEqual(fast.graph_optimization_level, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
        self.assertIn("Recipe fast", memc.ort.recipe(result, "fast"))

    def test_counted_settings_keep_the_budget(self):
        result = memc.optimize(wide((2, 64)), runtime="ort", budget="100%")
        # Without counting, a plan with a budget runs as written.
        options = memc.ort.session_options(result, "fast")
        self.assertEqual(options.graph_optimization_level, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
        self.assertIn("planned", memc.ort.recipe(result, "fast"))
        counted = memc.ort.session_options(result, "fast", count=True)
        self.assertFalse(counted.enable_mem_pattern or counted.enable_cpu_mem_arena or counted.enable_mem_reuse)
        self.assertTrue(memc.ort.session_options(result, "plain", count=True).enable_cpu_mem_arena)

    def test_plans_for_other_runtimes_are_warned_of(self):
        result = memc.optimize(wide((2, 64)), runtime="arena")
        with self.assertWarnsRegex(UserWarning, 'runtime="ort"'):
            memc.ort.session_options(result)

    def test_a_session_of_a_path_reads_the_layout_beside_it(self):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("error")
            given, out = pathlib.Path(folder) / "in.onnx", pathlib.Path(folder) / "out.onnx"
            given.write_bytes(wide((2, 64)).SerializeToString())
            memc.optimize(given, out, runtime="ort")
            session = memc.ort.session(out)
            self.assertTrue(session.run(None, feeds(session, 0, 1)))
            out.with_suffix(".layout.json").unlink()
            with self.assertRaises(OSError):
                memc.ort.session(out)

    def test_transfers_need_the_operators(self):
        result = memc.optimize(waiting(), runtime="ort", budget="60%", link=["host=100000GB/s,0ns"])
        self.assertTrue(result.layout["transfers"])
        with self.assertRaisesRegex(ValueError, "ops_library="):
            memc.ort.session_options(result)
        with self.assertRaisesRegex(Exception, "no-such-library"):
            memc.ort.session_options(result, ops_library="no-such-library.so")

    def test_the_recipe_is_that_of_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            given = pathlib.Path(folder) / "in.onnx"
            given.write_bytes(waiting().SerializeToString())
            for options in [["--budget=60%"], ["--anchors"], []]:
                for recipe in ["smallest", "fast"]:
                    words = ["optimize", given, "--runtime=ort", f"--session=python={recipe}", "--layout", given.with_suffix(".json")]
                    program = pathlib.Path(sys.executable).with_name("memc")
                    # Without a library the command counts no sessions.
                    environment = {**os.environ, "ORT_DYLIB_PATH": os.path.join(folder, "none.so")}
                    done = subprocess.run([program, *words, *options], env=environment, capture_output=True, text=True, check=True)
                    self.assertEqual(memc.ort.recipe(given.with_suffix(".json"), recipe), done.stdout)


class Verification(unittest.TestCase):
    def test_plans_are_verified_in_every_form(self):
        given = wide((2, 64)).SerializeToString()
        result = memc.optimize(given)
        verified = memc.verify(given, result, rounds=1)
        self.assertTrue(verified and verified.ok and verified.outputs > 0, verified.messages)
        model = wide((2, 64))
        self.assertTrue(memc.verify(model, memc.optimize(model), rounds=1, seed=7))

    def test_a_wrong_model_is_found(self):
        model = wide((2, 64))
        result = memc.optimize(model, exact=True)
        for node in result.model.graph.node:
            node.op_type = "Cos" if node.op_type == "Tanh" else node.op_type
        failed = None
        try:
            failed = memc.verify(model, result, rounds=1)
        except memc.Error as error:
            self.assertTrue(error.code)
        self.assertFalse(failed)

    def test_the_command_finds_the_runtime_of_its_environment(self):
        environment = {name: value for name, value in os.environ.items() if name not in ("MEMC_PYTHON", "ORT_DYLIB_PATH")}
        # No interpreter is on the search path.
        environment["PATH"] = "/nowhere"
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(sys.executable).with_name("memc")
            given, out = pathlib.Path(folder) / "in.onnx", pathlib.Path(folder) / "out.onnx"
            given.write_bytes(wide((2, 64)).SerializeToString())
            memc.optimize(given, out)
            words = [program, "verify", given, out, "-n", "1"]
            done = subprocess.run(words, env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)


# Measures a plan of a model by path in a process of its own: seconds, and bytes of memory at most. The weights are
# zeros, which only exact plans keep.
MEASURE = """
import json, resource, sys, time
import memc
began = time.perf_counter()
result = memc.optimize(sys.argv[1], dims={"batch": 1}, exact=True)
seconds = time.perf_counter() - began
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, result.summary.weights]))
"""


class Gigabytes(unittest.TestCase):
    def test_weights_of_two_gigabytes_are_not_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = with_weights(folder, 32, 4096, 4096)
            done = subprocess.run([sys.executable, "-c", MEASURE, path], capture_output=True, text=True, check=True)
            seconds, peak, weights = json.loads(done.stdout)
            self.assertEqual(weights, 2 << 30)
            self.assertLess(peak, 100e6)
            # A loaded machine and unoptimized code take longer; a read of the weights takes many seconds.
            self.assertLess(seconds, float(os.environ.get("MEMC_SECONDS", 10)))
            self.assertEqual(sorted(os.listdir(folder)), ["chain.onnx", "chain.planned.layout.json", "chain.planned.onnx", "weights.bin"])


if __name__ == "__main__":
    unittest.main()
