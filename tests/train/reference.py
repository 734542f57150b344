"""Holds gradients and optimizers to those of another library.

`reference.py MEMC FOLDER`: `reference.npz` has gradients of small models and their changes over five steps in
binary64, and the errors of that library's own binary32. A step of memc is allowed twice that error.
"""
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx

import small
from learn import session


def flat(parameters):
    return np.concatenate([np.asarray(parameters[name], np.float64).ravel() for name in sorted(parameters)])


def step(memc, folder, model, options):
    given, path = folder / "given.onnx", folder / "step.onnx"
    onnx.save(model, given)
    words = [memc, "train", given, "-o", path, "--loss", "cross-entropy", "--labels", "labels", "--quiet", *options]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return session(path)


def run(made, feed, state):
    # Parameters and moments have defaults, so they are not listed among the inputs.
    inputs = {value.name for value in made.get_inputs()}
    feed = {**{name: np.asarray(array) for name, array in feed.items() if name in inputs}, **state}
    return dict(zip((output.name for output in made.get_outputs()), made.run(None, feed)))


def hold(what, found, expected, allowed):
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    print(f"{what}: error {error:.1e}, allowed {allowed:.1e}")
    assert error <= allowed, what


def main():
    memc, folder = sys.argv[1], Path(sys.argv[2])
    known = np.load(Path(__file__).with_name("reference.npz"))
    for name, make in small.MODELS.items():
        model, own = make()
        names = [word for parameter in own for word in ("--trainable", parameter)]
        made = step(memc, folder, model, ["--emit", "gradients", *names])
        x, labels = small.batch(name, 0)
        found = run(made, {"x": x, "labels": labels}, {})
        assert abs(found["loss"] - known[f"{name}.loss"]) <= 1e-6 * known[f"{name}.loss"]
        gradients = flat({parameter: found[f"grad.{parameter}"] for parameter in own})
        hold(name, gradients, known[f"{name}.gradients"], 2 * known[f"{name}.error"])
    model, own = small.mlp()
    for name, (words, decay) in small.OPTIMIZERS.items():
        made = step(memc, folder, model, ["--optimizer", words, "--weight-decay", str(decay)])
        state = {}
        for number in range(small.STEPS):
            x, labels = small.batch("mlp", number)
            feed = {"x": x, "labels": labels, "lr": np.float32(small.RATE), "step": np.int64(number + 1)}
            found = run(made, feed, state)
            state = {name[4:]: array for name, array in found.items() if name.startswith("new.")}
        change = flat({parameter: state[parameter] for parameter in own}) - flat(own)
        hold(name, change, known[f"{name}.change"], 2 * known[f"{name}.error"])


if __name__ == "__main__":
    main()
