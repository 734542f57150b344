"""The largest extent with which a model fits into a memory."""

import os
import sys

from memc._errors import Error
from memc._models import Files
from memc._options import words


class Fitted(dict):
    """A model that fits. The keys are those of `memc fit --json`, as attributes too: `largest`, `beyond`, `need`,
    `plans`, `far`, `command` ... `model` and `layout_path` are the paths of the files, `layout` the layout as a
    dictionary, and `text` the table of the command. `memc.generate` takes it."""

    def __init__(self, numbers, model, text):
        super().__init__(numbers)
        self.model, self.text = model, text

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def layout_path(self):
        """The path of the layout."""
        return os.path.splitext(self.model)[0] + ".layout.json"

    @property
    def layout(self):
        """The layout file as a dictionary."""
        import json

        with open(self.layout_path, encoding="utf-8") as file:
            return json.load(file)

    def __str__(self):
        return self.text


def fit(model, output, *, ram, context=None, largest=None, runtime="ort", **options):
    """Finds the largest batch, length or chunk with which a model fits into `ram`, and writes its plan to `output`.
    Returns `Fitted`. Works in a process of its own.

    - `ram`: memory for weights, caches, inputs, outputs and values: "8GB", or bytes.
    - `context`: rows of a decoder's caches, which stay in place.
    - `largest`: the dimension to make large: "batch=64", "seq=1..2048".
    - `runtime`: "ort" for stock sessions of ONNX Runtime, "arena" or "player" for runtimes that keep the layout.
    - `options`: all of `optimize`, such as `last_token`, `encode_weights`, `external_data`, `dims`.

    Raises `BudgetError` if the smallest extent does not fit; its message says what fills the memory.
    """
    import json
    import subprocess

    from memc._proofs import _failure

    output = os.fspath(output)
    with Files() as files:
        command = [sys.executable, "-m", "memc", "fit", "--json", f"--ram={ram}", "-o", output]
        command += [] if context is None else [f"--context={context}"]
        command += [] if largest is None else [f"--largest={largest}"]
        command += words({"runtime": runtime, **options}) + ["--", files.path(model, "given.onnx")]
        environment = {**os.environ, "MEMC_PYTHON": sys.executable}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise _failure(done)
    if not done.stdout.startswith("{"):
        raise Error(done.stderr.strip() or "the command ended without an answer")
    return Fitted(json.loads(done.stdout), output, done.stderr)
