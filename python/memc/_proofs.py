"""Proofs of plans: from the files, and by running both models."""

import os
import sys

from memc import _memc
from memc._errors import Error, error
from memc._models import Files, source
from memc._plans import plan_of


class Violation:
    """A rule that a plan breaks: `code`, `kind`, `message`, `help`, `notes`, `tensor`, `step`."""

    __slots__ = ("code", "kind", "message", "help", "notes", "tensor", "step")

    def __init__(self, code, kind, message, help, notes, tensor, step):
        self.code = code
        self.kind = kind
        self.message = message
        self.help = help
        self.notes = list(notes)
        self.tensor = tensor
        self.step = step

    def __repr__(self):
        return f"error[{self.code}]: {self.message}"


class Check:
    """The answer of `check`: true if the plan holds; `violations` lists the rules that it breaks."""

    def __init__(self, violations):
        self.violations = violations

    def __bool__(self):
        return not self.violations

    def __repr__(self):
        return "<memc.Check: nothing wrong>" if self else f"<memc.Check: {len(self.violations)} violations>"


def check(given, planned, layout=None):
    """Verifies a plan from its files alone, by code that shares nothing with the planner. Returns a `Check`.

    `given` is the model before planning; `planned` is a `Result`, or the planned model with its `layout`.
    """
    model, text = plan_of(planned, layout)
    rows = _memc.check(source(given), source(model), text)
    return Check([Violation(*row) for row in rows])


class Verified(dict):
    """The answer of `verify`: true if all outputs are equal within the tolerance. The keys are those of
    `memc verify --json`, as attributes too: `identical`, `outputs`, `differences`, `played` ... `messages` are the
    lines that the command prints."""

    def __init__(self, numbers, messages):
        super().__init__(numbers)
        self.messages = messages

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __bool__(self):
        return bool(self["ok"])


def verify(given, planned, layout=None, *, rounds=3, seed=0, inputs=None, rtol=None, atol=None, at=None, points=None):
    """Runs both models and the plan on equal inputs in a process of its own, and compares all outputs. Returns
    `Verified`. Needs `onnxruntime`.

    `inputs` is the path of a file of `numpy.savez`; by default `rounds` sets of random numbers are used. A plan for
    ranges runs at several points, at most `points`; `at` names others, [{"seq": 7, "batch": 2}].
    """
    import json
    import subprocess

    model, text = plan_of(planned, layout)
    with Files() as files:
        command = [sys.executable, "-m", "memc", "verify", "--json", f"--rounds={rounds}", f"--seed={seed}"]
        command += ["--layout", files.written(text, "layout.json")]
        for option, value in [("inputs", inputs), ("rtol", rtol), ("atol", atol), ("points", points)]:
            command += [] if value is None else [f"--{option}={value}"]
        for point in at or []:
            command.append("--at=" + ",".join(f"{name}={extent}" for name, extent in point.items()))
        command += ["--", files.path(given, "given.onnx"), files.path(model, "planned.onnx")]
        environment = {**os.environ, "MEMC_PYTHON": sys.executable}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.stdout.startswith("{"):
        return Verified(json.loads(done.stdout), done.stderr.splitlines())
    raise _failure(done)


def _failure(done):
    """Returns the exception for a command that ended without an answer."""
    lines = done.stderr.splitlines()
    first = next((line for line in lines if line.startswith("error[")), None)
    if first is None:
        return Error(done.stderr.strip() or "the command ended without an answer", exit_code=done.returncode)
    code, message = first[len("error[") :].split("]: ", 1)
    told = [line.strip().split(": ", 1) for line in lines if line.startswith("  = ") and ": " in line]
    notes = [text for kind, text in told if kind == "= note"]
    help = next((text for kind, text in told if kind == "= help"), None)
    return error(code, message, help, notes, done.returncode, None)
