"""The examples of `examples/pipelines`, each run by the tool that it is written for. Bazel cannot be installed from
a package: the commands of its rules run in a shell."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from models import ROOT, shipped

EXAMPLES = ROOT / "examples/pipelines"
TOOLS = os.environ.get("MEMC_PIPELINES", "")
CPP = os.environ.get("MEMC_CPP", "")
PATH = os.pathsep.join([os.path.dirname(sys.executable), TOOLS, os.environ["PATH"]])


class Pipeline(unittest.TestCase):
    """A test in a folder with a model, with memc and the tools on the search path."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)
        shutil.copy(shipped("mlp_grad_tiny"), self.folder / "model.onnx")

    def run_in(self, *words, code=0, **variables):
        home = {"PATH": PATH, "HOME": str(self.folder), "PRE_COMMIT_HOME": str(self.folder / "cache")}
        environment = {**os.environ, **home, **variables}
        done = subprocess.run(
            [str(word) for word in words], cwd=self.folder, env=environment, capture_output=True, text=True
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr


class Gate(Pipeline):
    def test_every_model_is_compared(self):
        shutil.copy(shipped("ort_mlp_tiny"), self.folder / "a model.onnx")
        gate = EXAMPLES / "gate.sh"
        told = self.run_in(gate, "--max-arena=1MiB", "model.onnx", "a model.onnx", MEMC_SUMMARY="summary.md")
        self.assertEqual(sum(line.startswith("peak ") for line in told.splitlines()), 2)
        self.assertEqual((self.folder / "summary.md").read_text().count("### memc: "), 2)
        told = self.run_in(gate, "model.onnx", "a model.onnx", "--max-arena", "300000", code=3, MEMC_FORMAT="github")
        self.assertEqual(told.count("::error "), 1)
        self.assertIn("::notice file=a model.onnx", told)
        self.run_in(gate, "none.onnx", code=1)

    def test_the_action_passes_its_inputs(self):
        text = (ROOT / "action.yml").read_text()
        program = "\n".join(line[8:] for line in text.split("      run: |\n")[1].splitlines())
        names = {"MODELS", "MAX_ARENA", "MAX_WEIGHTS", "BASELINE", "ALLOW", "ARGUMENTS"}
        stated = {line.split(":")[0].strip() for line in text.splitlines() if "${{ inputs." in line and ":" in line}
        self.assertEqual(stated, names | {"PACKAGE"})
        given = dict.fromkeys(names, "")
        given.update(GITHUB_ACTION_PATH=str(ROOT), GITHUB_STEP_SUMMARY="summary.md", MEMC_FORMAT="github")
        self.run_in("sh", "-ec", program, **{**given, "MODELS": "model.onnx\n", "MAX_ARENA": "1MiB"})
        self.assertIn("| kept |", (self.folder / "summary.md").read_text())
        limits = {"MODELS": "model.onnx", "MAX_ARENA": "1KiB", "ARGUMENTS": "--planned\n--std-ops"}
        told = self.run_in("sh", "-ec", program, code=2, **{**given, **limits})
        self.assertIn("--std-ops", told)
        told = self.run_in("sh", "-ec", program, code=3, **{**given, **limits, "ARGUMENTS": "--planned\n--effort=fast"})
        self.assertIn("::error file=model.onnx", told)


class Hook(Pipeline):
    @unittest.skipUnless(TOOLS and shutil.which("git"), "needs pre-commit and git")
    def test_the_hook_runs(self):
        self.run_in("git", "init", "--quiet")
        self.run_in("git", "add", "model.onnx")
        # The hook of this tree, with its uncommitted changes.
        hook = self.folder / "hook"
        for name in [".pre-commit-hooks.yaml", "examples/pipelines/gate.sh"]:
            (hook / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, hook / name)
        person = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"]
        for words in [["init", "--quiet"], ["add", "."], [*person, "commit", "--quiet", "-m", "Add the hook"]]:
            self.run_in("git", "-C", hook, *words)
        revision = self.run_in("git", "-C", hook, "rev-parse", "HEAD").strip()
        for limit, code in [("1MiB", 0), ("1KiB", 1)]:
            (self.folder / ".pre-commit-config.yaml").write_text(
                f"repos:\n- repo: {hook}\n  rev: {revision}\n  hooks:\n"
                f"  - id: memc-report\n    args: [--max-arena={limit}]\n"
            )
            self.run_in("git", "add", ".pre-commit-config.yaml")
            told = self.run_in("pre-commit", "run", "--all-files", code=code)
            self.assertEqual("E0317" in told, code == 1, told)


class Builds(Pipeline):
    def sources(self, folder):
        for name in (EXAMPLES / folder).iterdir():
            shutil.copy(name, self.folder)

    def firmware(self, program):
        told = self.run_in(program)
        self.assertRegex(told, r"^[0-9]+ bytes for [0-9]+ inputs$")
        return int(told.split()[0])

    @unittest.skipUnless(shutil.which("make") and shutil.which("cc"), "needs make and a C compiler")
    def test_make(self):
        self.sources("make")
        shutil.copy(EXAMPLES / "firmware.c", self.folder)
        self.run_in("make", "firmware")
        whole = self.firmware("./firmware")
        self.assertIn("up to date", self.run_in("make", "firmware"))
        # A newer weight file plans again.
        weights = self.folder / "model.d"
        named = weights.read_text().replace("\\\n", " ").split(":")[1].split()
        self.assertIn("model.onnx", named)
        os.utime(self.folder / "model.onnx")
        self.assertIn("memc", self.run_in("make", "firmware"))
        self.assertEqual(self.firmware("./firmware"), whole)
        self.run_in("make", "limits", f"LIMIT={whole}")
        self.assertIn("E0317", self.run_in("make", "limits", f"LIMIT={whole - 1}", code=2))

    @unittest.skipUnless(TOOLS and shutil.which("make") and shutil.which("cc"), "needs cmake, make and a C compiler")
    def test_cmake(self):
        project = self.folder / "cmake"
        shutil.copytree(EXAMPLES / "cmake", project)
        shutil.copy(EXAMPLES / "firmware.c", self.folder)
        shutil.copy(self.folder / "model.onnx", project)
        configure = ["cmake", "-S", project, "-B", "build", "-G", "Unix Makefiles"]
        self.run_in(*configure, "-DLIMIT=1MiB")
        self.run_in("cmake", "--build", "build")
        whole = self.firmware("build/firmware")
        self.assertNotIn("Generating", self.run_in("cmake", "--build", "build"))
        os.utime(project / "model.onnx")
        self.assertIn("Generating", self.run_in("cmake", "--build", "build"))
        self.run_in("ctest", "--test-dir", "build")
        self.run_in(*configure, f"-DLIMIT={whole - 1}")
        self.assertIn("E0317", self.run_in("ctest", "--test-dir", "build", "--output-on-failure", code=8))

    @unittest.skipUnless(TOOLS and CPP and shutil.which("c++"), "needs cmake, a C++ compiler and headers")
    def test_cmake_builds_the_cpp_program(self):
        (self.folder / "mlp_grad_tiny.weights").write_bytes(bytes(1 << 20))
        self.run_in("memc", "model.onnx", "planned.onnx", "--runtime", "ort", "--anchors")
        configure = ["cmake", "-S", ROOT / "examples/cpp", "-B", "build", "-G", "Unix Makefiles"]
        self.run_in(*configure, f"-DCMAKE_PREFIX_PATH={CPP}")
        self.run_in("cmake", "--build", "build")
        told = self.run_in("build/arena", "planned.onnx", "planned.layout.json")
        self.assertRegex(told, r"^peak ([0-9]+) == arena \1\n")

    @unittest.skipUnless(shutil.which("cc"), "needs a C compiler")
    def test_the_commands_of_bazel_rules(self):
        shutil.copy(EXAMPLES / "firmware.c", self.folder)
        rules = []
        names = {"genrule": lambda **rule: rules.append(rule), "cc_binary": lambda **rule: rules.append(rule)}
        exec((EXAMPLES / "bazel/BUILD.bazel").read_text(), names)
        for rule in rules:
            for source in rule["srcs"]:
                self.assertTrue((self.folder / source).exists(), source)
            if "cmd" not in rule:
                self.run_in("cc", "-o", rule["name"], *[name for name in rule["srcs"] if name.endswith(".c")])
                continue
            program = rule["cmd"].replace("$@", rule["outs"][0])
            for name in [*rule["srcs"], *rule["outs"]]:
                program = program.replace(f"$(location {name})", name)
            self.assertNotIn("$", program)
            self.run_in("bash", "-c", program)
            for name in rule["outs"]:
                self.assertTrue((self.folder / name).exists(), name)
        self.firmware("./firmware")


if __name__ == "__main__":
    unittest.main()
