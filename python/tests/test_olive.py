"""The pass for Olive, run by the released package `olive-ai`. `MEMC_OLIVE` names the folder of its packages."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import memc
import numpy
import onnx
import onnxruntime
from models import ROOT, waiting, wide, with_weights

OLIVE = os.environ.get("MEMC_OLIVE", "")
# Olive reports its use over the network, except in pipelines.
QUIET = {"CI": "1", "OLIVE_DISABLE_TELEMETRY": "1"}


@unittest.skipUnless(OLIVE, "needs olive-ai")
class Olive(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)

    def python(self, *words):
        stubs = ROOT / "python/tests/olive_stubs"
        environment = {**os.environ, **QUIET, "PYTHONPATH": os.pathsep.join([str(stubs), OLIVE])}
        command = [sys.executable, *[str(word) for word in words]]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def workflow(self, passes, package=None, command=False):
        """Runs passes on `model.onnx`, by the command or the function. Returns the log, and the config of the result
        or None."""
        workflow = {
            "input_model": {"type": "OnnxModel", "model_path": "model.onnx"},
            "passes": passes,
            "output_dir": "out",
            "cache_dir": "cache",
        }
        (self.folder / "workflow.json").write_text(json.dumps(workflow))
        package = package or pathlib.Path(memc.__file__).with_name("olive.json")
        if command:
            log = self.python("-m", "olive", "run", "--config", "workflow.json", "--package-config", package)
        else:
            program = f"from olive.workflows import run; run('workflow.json', package_config={str(package)!r})"
            log = self.python("-c", program)
        config = self.folder / "out/model_config.json"
        return log, json.loads(config.read_text())["config"] if config.exists() else None

    def session(self, config):
        """Returns a session of a result with the options of its config, as Olive's evaluators create it."""
        stated = config["inference_settings"]["session_options"]
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel(stated["graph_optimization_level"])
        for key, value in stated.get("extra_session_config", {}).items():
            options.add_session_config_entry(key, value)
        path = self.folder / "out" / config["onnx_file_name"]
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def equal(self, given, config, **feeds):
        plain = onnxruntime.InferenceSession(str(given), providers=["CPUExecutionProvider"])
        for one, other in zip(plain.run(None, feeds), self.session(config).run(None, feeds)):
            self.assertEqual(one.tobytes(), other.tobytes())

    def test_a_workflow_plans_a_model_with_weights_beside_it(self):
        path = with_weights(self.folder, 3, 32, 32)
        path.rename(self.folder / "model.onnx")
        dims = {"batch": 4}
        passes = {"memory": {"type": "MemcMemoryPass", "dims": dims, "exact": True, "options": {"effort": "fast"}}}
        log, config = self.workflow(passes, command=True)
        self.assertIsNotNone(config, log)
        self.assertTrue(memc.check(self.folder / "model.onnx", self.folder / "out/model.onnx"))
        layout = json.loads((self.folder / "out/model.layout.json").read_text())
        planned = config["model_attributes"]["memc"]
        self.assertEqual(planned["arena"], layout["arenas"][0]["size"])
        self.assertEqual(layout["options"]["runtime"], "ort")
        self.assertEqual(layout["options"]["anchors"], "true")
        self.assertTrue((self.folder / "out/weights.bin").exists())
        self.assertEqual(config["inference_settings"]["session_options"]["graph_optimization_level"], 0)
        self.equal(self.folder / "model.onnx", config, h0=numpy.ones((4, 32), numpy.float32))

    def test_budgets_hold_and_are_refused(self):
        onnx.save(waiting(), self.folder / "model.onnx")
        budget = {"type": "MemcMemoryPass", "budget": "70%", "exact": True, "slowdown": 200, "recipe": "fast"}
        log, config = self.workflow({"memory": budget})
        self.assertIsNotNone(config, log)
        planned = config["model_attributes"]["memc"]
        self.assertLessEqual(planned["arena"], 0.7 * planned["before"])
        options = config["inference_settings"]["session_options"]
        # The session must not merge recomputed nodes: it has no optimizations, or not this one.
        level, without = options["graph_optimization_level"], json.dumps(options.get("extra_session_config", {}))
        self.assertTrue(level == 0 or "CommonSubexpressionElimination" in without, options)
        self.equal(self.folder / "model.onnx", config, h0=numpy.linspace(-1, 1, 65536, dtype=numpy.float32))
        (self.folder / "out/model_config.json").unlink()
        log, config = self.workflow({"memory": {**budget, "budget": 64}})
        self.assertIsNone(config)
        self.assertIn("E0301", log)
        log, config = self.workflow({"memory": {**budget, "recipe": "slow"}})
        self.assertIsNone(config)
        self.assertIn("Invalid config", log)

    def test_passes_of_olive_run_before_it(self):
        onnx.save(wide(("batch", 64)), self.folder / "model.onnx")
        self.python("-m", "memc.olive", "package.json")
        package = json.loads((self.folder / "package.json").read_text())["passes"]
        shipped = json.loads(pathlib.Path(memc.__file__).with_name("olive.json").read_text())["passes"]
        self.assertEqual(package["MemcMemoryPass"], shipped["MemcMemoryPass"])
        self.assertIn("OnnxQuantization", package)
        passes = {
            "fix": {"type": "DynamicToFixedShape", "dim_param": ["batch"], "dim_value": [2]},
            "memory": {"type": "MemcMemoryPass", "exact": True, "runtime": "arena"},
        }
        log, config = self.workflow(passes, "package.json")
        self.assertIsNotNone(config, log)
        self.assertIsNone(config["inference_settings"])
        layout = json.loads((self.folder / "out/model.layout.json").read_text())
        self.assertEqual(layout["options"]["runtime"], "arena")
        self.assertEqual([tensor["shape"] for tensor in layout["tensors"] if tensor["class"] == "input"], [[2, 64]])


if __name__ == "__main__":
    unittest.main()
