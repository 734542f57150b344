"""The module without other packages: plans, reports, checks and errors of models that ship with memc."""

import ast
import copy
import inspect
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import memc
from models import ROOT, shipped

SLOW = shipped("unet_grad_tiny")
MIDDLE = shipped("mlp_step")
SMALL = shipped("ort_mlp_tiny")


def command(*words, **arguments):
    """Runs the installed command."""
    program = pathlib.Path(sys.executable).with_name("memc")
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, **arguments)


class InFolder(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)

    def copied(self, path, name="in.onnx"):
        copy = self.folder / name
        copy.write_bytes(path.read_bytes())
        return copy


class Kinds(InFolder):
    def test_a_path_gives_a_path_and_files_beside_it(self):
        given = self.copied(SMALL)
        result = memc.optimize(given)
        self.assertEqual(result.model, self.folder / "in.planned.onnx")
        self.assertIsInstance(result.model, type(given))
        self.assertEqual(sorted(os.listdir(self.folder)), ["in.onnx", "in.planned.layout.json", "in.planned.onnx"])
        self.assertEqual(pathlib.Path(result.layout_path).read_text(), result.layout_text)
        named = memc.optimize(str(given), self.folder / "out.onnx", layout=[self.folder / "l.h", self.folder / "l.json"])
        self.assertEqual(named.model, str(self.folder / "out.onnx"))
        self.assertEqual(named.layout_path, str(self.folder / "l.json"))
        self.assertIn("#define", (self.folder / "l.h").read_text())

    def test_bytes_give_bytes_equal_to_the_file(self):
        given = self.copied(SMALL)
        by_path = memc.optimize(given, budget=300000)
        for data in [given.read_bytes(), bytearray(given.read_bytes()), memoryview(given.read_bytes())]:
            by_bytes = memc.optimize(data, budget=300000)
            self.assertIsInstance(by_bytes.model, bytes)
            self.assertEqual(by_bytes.model, by_path.model.read_bytes())
            self.assertEqual(by_bytes.layout_text, by_path.layout_text)
        self.assertEqual(len(os.listdir(self.folder)), 3)

    def test_the_command_makes_equal_files(self):
        for name, words, options in [
            ("ort_mlp_tiny", ["--runtime", "ort"], {}),
            ("ort_mlp_tiny", [], {"runtime": "arena"}),
            ("mlp_grad_tiny", ["--runtime", "ort", "--slowdown", "1%"], {"runtime": "ort", "slowdown": 1}),
            ("mlp_step", ["--runtime", "ort", "--budget", "80%", "--alias-state"], {"budget": "80%", "alias_state": True}),
            ("control_flow_loop_if", ["--effort", "40000"], {"runtime": "arena", "effort": 40000}),
            (
                "bert_base_dynamic",
                ["--dim", "batch=2", "--dim", "seq=8", "--no-rewrite"],
                {"runtime": "arena", "dims": {"batch": 2, "seq": 8}, "no_rewrite": True},
            ),
        ]:
            with self.subTest(name):
                given = self.copied(shipped(name), f"{name}.onnx")
                made = command(given, self.folder / "c.onnx", *words)
                self.assertEqual(made.returncode, 0, made.stderr)
                result = memc.optimize(given, **options)
                self.assertEqual(result.model.read_bytes(), (self.folder / "c.onnx").read_bytes())
                self.assertEqual(result.layout_text, (self.folder / "c.layout.json").read_text())
                self.assertIn(result.summary.line.splitlines()[-1], made.stderr)

    def test_other_kinds_are_refused(self):
        for model in [None, 3, ["in.onnx"]]:
            with self.assertRaises(TypeError):
                memc.optimize(model)

    def test_no_other_package_is_imported(self):
        program = f"import sys, memc; memc.optimize({SMALL.read_bytes()!r}); print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        foreign = {"onnx", "onnxruntime", "numpy"} & {name.split(".")[0] for name in done.stdout.split()}
        self.assertEqual(foreign, set())


class Results(InFolder):
    def test_results_unpack_and_have_numbers(self):
        result = memc.optimize(SMALL.read_bytes())
        model, layout, summary = result
        self.assertEqual((model, layout["schema"]), (result.model, "memc.layout/1"))
        self.assertEqual(summary.arena, layout["arenas"][0]["size"])
        self.assertLessEqual(summary["bound"], summary.arena)
        self.assertTrue(str(summary).startswith("peak ") and str(summary) in repr(result))
        with self.assertRaises(AttributeError):
            summary.nothing
        self.assertIn("memc.Result", repr(result))
        again = memc.optimize(SMALL.read_bytes(), passes=result.passes)
        self.assertEqual(again.model, result.model)
        self.assertEqual(copy.copy(summary), summary)

    def test_reports_have_the_forms_of_the_command(self):
        own = memc.report(SMALL)
        self.assertEqual(own.text, command("report", SMALL, "--runtime", "ort").stdout)
        self.assertTrue(own.markdown("T").startswith("### memc: `T`"))
        self.assertTrue(own.html("T").startswith("<!") and "traceEvents" in own.trace)
        result = memc.optimize(SMALL.read_bytes())
        for layout in [result, result.layout, self.written(result)]:
            self.assertEqual(memc.report(SMALL, layout).text, result.text)
        self.assertEqual(memc.report(SMALL, planned=True).text, result.text)
        self.assertEqual(memc.report(SMALL.read_bytes()).text, own.text)

    def test_notebooks_show_a_table(self):
        result = memc.optimize(SMALL.read_bytes())
        shown = result._repr_html_()
        self.assertTrue(shown.startswith("<table>") and f"{result.summary.arena:,} B" in shown, shown)
        self.assertIn(f"{result.summary.before:,} B", shown)
        self.assertNotIn("->", shown)

    def written(self, result):
        path = self.folder / "l.json"
        path.write_text(result.layout_text)
        return path

    def test_checks_find_a_changed_layout(self):
        result = memc.optimize(SMALL.read_bytes())
        self.assertTrue(memc.check(SMALL, result))
        layout = copy.deepcopy(result.layout)
        layout["arenas"][0]["size"] -= 64
        broken = memc.check(SMALL, result.model, layout)
        self.assertFalse(broken)
        self.assertTrue(broken.violations[0].code.startswith("E05"), broken.violations)
        by_path = memc.optimize(self.copied(SMALL))
        self.assertTrue(memc.check(self.folder / "in.onnx", by_path.model))
        with self.assertRaises(TypeError):
            memc.check(SMALL, result.model)

    def test_options_pass_through_in_every_form(self):
        result = memc.optimize(
            shipped("mlp_step").read_bytes(),
            budget={"device": "90%"},
            link=["host=16GB/s"],
            std_ops=True,
            max_fold_bytes=4096,
            time_limit=30.0,
            no_rewrite=None,
        )
        options = result.layout["options"]
        self.assertEqual(options["budget"], "device=90%")
        self.assertEqual((options["std_ops"], options["max_fold_bytes"], options["time_limit"]), ("true", "4096", "30"))
        self.assertTrue(options["link"].startswith("host="))


class Errors(InFolder):
    def test_errors_have_code_help_and_notes(self):
        with self.assertRaises(memc.Error) as caught:
            memc.optimize(self.folder / "none.onnx")
        error = caught.exception
        self.assertEqual((error.code, error.exit_code, type(error)), ("E0116", 1, memc.Error))
        self.assertIn("[E0116]", str(error))
        with self.assertRaises(memc.UsageError) as caught:
            memc.optimize(shipped("bert_base_dynamic"))
        self.assertEqual(caught.exception.code, "E0114")
        self.assertIn('`dims={"batch": N, "seq": N}`', caught.exception.help)
        self.assertNotIn("--dim ", str(caught.exception))
        self.assertIsInstance(caught.exception, ValueError)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_refused_budget_names_the_smallest(self):
        with self.assertRaises(memc.BudgetError) as caught:
            memc.optimize(SMALL.read_bytes(), budget=1024)
        error = caught.exception
        self.assertEqual((error.code, error.exit_code), ("E0301", 3))
        self.assertTrue(error.notes)
        kept = memc.optimize(SMALL.read_bytes(), budget=error.smallest)
        self.assertLessEqual(kept.summary.arena, error.smallest)

    def test_wrong_options_are_refused(self):
        for options, code in [
            ({"effort": "much"}, "E0306"),
            ({"nonsense": 1}, "E0306"),
            ({"exact": True, "integer_kernels": True}, "E0306"),
            ({"target": "none"}, "E0306"),
            ({"dims": {"nothing": 3}}, "E0117"),
            ({"passes": "fold,nothing"}, "E0303"),
        ]:
            with self.subTest(options), self.assertRaises(memc.UsageError) as caught:
                memc.optimize(SMALL.read_bytes(), **options)
            self.assertEqual(caught.exception.code, code)
            self.assertTrue(caught.exception.help)
        for options in [{"json": True}, {"session": "python"}, {"budget": [True]}]:
            with self.subTest(options), self.assertRaises(TypeError):
                memc.optimize(SMALL.read_bytes(), **options)
        with self.assertRaises(ValueError):
            memc.ort.recipe(memc.optimize(SMALL.read_bytes()), "medium")

    def test_a_mistyped_keyword_gets_the_nearest_one(self):
        for given, nearest in [("budgett", "budget"), ("dim_s", "dims"), ("microbatches", "micro_batches")]:
            with self.subTest(given), self.assertRaises(memc.UsageError) as caught:
                memc.optimize(SMALL.read_bytes(), **{given: 1})
            self.assertEqual(caught.exception.help, f"did you mean `{nearest}`?")

    def test_messages_name_keywords(self):
        from memc._words import spoken

        for text, words in [
            ("use `--budget 4096` or `--slowdown 2.5%`", 'use `budget=4096` or `slowdown="2.5%"`'),
            ("as in `--dim b.0=8 --dim c=8`", 'as in `dims={"b.0": 8, "c": 8}`'),
            ("as in `--dim n=0..8`", 'as in `dims={"n": "0..8"}`'),
            ("`--dim '?=1..8'`", '`dims={"?": "1..8"}`'),
            ("`--alias-state` writes", "`alias_state` writes"),
            ("`--state NEW=OLD` names", '`state={"NEW": OLD}` names'),
            ("`memc verify a b --rounds 1` runs", "`memc verify a b --rounds 1` runs"),
            ("no option", "no option"),
        ]:
            self.assertEqual(spoken(text), words)
        with self.assertRaises(memc.UsageError) as caught:
            memc.optimize(SMALL.read_bytes(), budget=0.5)
        self.assertIn("`50%`", str(caught.exception))

    def test_bytes_that_are_no_model_are_refused(self):
        for data in [b"", b"\xff" * 100, b"hello"]:
            with self.assertRaises(memc.Error):
                memc.optimize(data)

    def test_errors_are_pickled(self):
        error = memc.BudgetError("too small", "E0301", "more", ["a note"], 3, 4096)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), again.smallest, str(again)), (memc.BudgetError, 4096, str(error)))


class WhilePlanning(unittest.TestCase):
    def test_progress_is_told_and_its_exceptions_end_the_call(self):
        told = []
        memc.optimize(MIDDLE.read_bytes(), progress=told.append)
        verdicts = {event.verdict for event in told}
        self.assertIn("best so far", verdicts)
        self.assertTrue(any(event.bytes for event in told) and all(event.strategy for event in told), told)

        def refuse(event):
            raise KeyError("enough")

        with self.assertRaises(KeyError):
            memc.optimize(MIDDLE.read_bytes(), progress=refuse)

    def test_other_threads_run_meanwhile(self):
        turns, done = 0, threading.Event()

        def turn():
            nonlocal turns
            while not done.wait(0.002):
                turns += 1

        other = threading.Thread(target=turn)
        other.start()
        memc.optimize(SLOW.read_bytes(), effort="max", time_limit=0.5)
        done.set()
        other.join()
        self.assertGreater(turns, 20)

    def test_ctrl_c_ends_the_call(self):
        # A test run in the background of a shell ignores interrupts, and so would its children.
        program = (
            "import memc, signal\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "print('ready', flush=True)\n"
            f"memc.optimize({os.fspath(SLOW)!r}, {os.devnull!r}, layout=[], budget='45%', effort=10**9)\n"
        )
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(child.stdout.readline(), "ready\n")
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, stderr = child.communicate(timeout=60)
        self.assertIn("KeyboardInterrupt", stderr)
        self.assertLess(time.monotonic() - began, 20)


class Command(InFolder):
    def test_the_command_and_the_module_are_one(self):
        told = command("--version").stdout
        self.assertEqual(told, f"memc {memc.__version__}\n")
        again = subprocess.run([sys.executable, "-m", "memc", "--version"], capture_output=True, text=True)
        self.assertEqual(again.stdout, told)

    def test_exit_codes_are_those_of_the_command(self):
        self.assertEqual(command(SMALL, "--budget", "1KiB").returncode, 3)
        self.assertEqual(command("optimize", "--nonsense").returncode, 2)
        self.assertEqual(command(self.folder / "none.onnx").returncode, 1)
        self.assertEqual(command("explain", "E0301").returncode, 0)

    def test_a_closed_pipe_is_no_failure(self):
        program = pathlib.Path(sys.executable).with_name("memc")
        done = subprocess.run(f"{program} ops | head -1", shell=True, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_ctrl_c_ends_the_command(self):
        program = pathlib.Path(sys.executable).with_name("memc")
        child = subprocess.Popen([program, SLOW, "--budget", "45%", "--effort", "1000000000"], stderr=subprocess.DEVNULL)
        self.addCleanup(child.kill)
        # In the background of a shell an interrupt is ignored until the command answers signals.
        for _ in range(40):
            time.sleep(0.7)
            child.send_signal(signal.SIGINT)
            if child.poll() is not None:
                break
        self.assertEqual(child.wait(timeout=20), -signal.SIGINT)


class Stubs(unittest.TestCase):
    def test_stubs_have_the_names_and_parameters_of_the_module(self):
        for module in [memc, memc.ort]:
            stub = pathlib.Path(module.__file__).with_suffix(".pyi")
            found = {node.name: node for node in ast.parse(stub.read_text()).body if hasattr(node, "name")}
            names = [name for name in module.__all__ if name not in ("ort", "train", "__version__")]
            self.assertEqual(sorted(found), sorted(names))
            for name in names:
                if inspect.isfunction(getattr(module, name)):
                    real = list(inspect.signature(getattr(module, name)).parameters)
                    given = found[name].args
                    parts = [*given.args, *given.kwonlyargs, *([given.kwarg] if given.kwarg else [])]
                    self.assertEqual([part.arg for part in parts], real, name)
        self.assertTrue((pathlib.Path(memc.__file__).parent / "py.typed").exists())

    def test_everything_public_is_described(self):
        for module in [memc, memc.ort]:
            for name in module.__all__:
                self.assertTrue(inspect.getdoc(getattr(module, name)), name)

    def test_every_option_of_the_command_is_known(self):
        text = command("optimize", "--help").stdout
        options = set(re.findall(r"^ {2,6}(?:-\w, )?--([a-z-]+)", text, re.M)) - {"help", "output", "quiet"}
        self.assertGreater(len(options), 30)
        from memc._options import NAMES, _OF_THE_COMMAND, words

        self.assertLessEqual({name.replace("_", "-") for name in _OF_THE_COMMAND | set(NAMES)} - {"quiet"}, options)
        keywords = [name.replace("-", "_") for name in options if name.replace("-", "_") not in _OF_THE_COMMAND]
        self.assertEqual(len(words({name: "x" for name in keywords})), len(keywords))


if __name__ == "__main__":
    unittest.main()
