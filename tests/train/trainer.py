"""Trains a character model on the pages of the book with `memc.train.Trainer`.

`trainer.py MEMC FOLDER PAGES TRAIN.py`: the loss on the last pages must be below that of the best model of pairs of
characters. Half of the way is trained from a checkpoint, which must go on as if it had not been interrupted; the
trained parameters are baked into the model, whose loss is that of the step.
"""
import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx

import gpt
from learn import memc, session

LENGTH, BATCH, CALLS = 32, 16, 220


def trainer_of(path):
    """The module `memc.train`, which needs nothing else of the wheel."""
    spec = importlib.util.spec_from_file_location("memc_train", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Trainer


def text_of(pages):
    text = "\n".join(page.read_text() for page in sorted(Path(pages).glob("*.md")))
    alphabet = sorted(set(text), key=lambda letter: (-text.count(letter), letter))[:63]
    index = {letter: number for number, letter in enumerate(alphabet)}
    return np.array([index.get(letter, 63) for letter in text], np.int64)


def pairs_loss(known, rest):
    """Loss of the frequencies of pairs of characters."""
    counts = np.full((64, 64), 0.1)
    np.add.at(counts, (known[:-1], known[1:]), 1)
    share = counts / counts.sum(1, keepdims=True)
    return -np.log(share[rest[:-1], rest[1:]]).mean()


def batch(text, rng):
    starts = rng.integers(0, len(text) - LENGTH - 1, BATCH)
    rows = np.stack([text[start : start + LENGTH + 1] for start in starts])
    return {"tokens": rows[:, :-1], "labels": rows[:, 1:]}


def main():
    program, folder, pages, module = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    trainer = trainer_of(module)
    text = text_of(pages)
    known, rest = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]
    given, step, evaluation = folder / "gpt.onnx", folder / "step.onnx", folder / "eval.onnx"
    onnx.save(gpt.model(batch=BATCH, length=LENGTH, width=64, heads=4, layers=2, vocabulary=64), given)
    memc(program, "train", given, "-o", step, "--eval", evaluation, "--loss", "cross-entropy", "--labels", "labels",
         "--optimizer", "adamw:beta2=0.98", "--weight-decay", "*weight=0.01", "--clip", "global=1")
    began = time.process_time()
    batches = [batch(known, np.random.default_rng(number)) for number in range(CALLS)]
    rate = lambda update: 6e-3 * min((update + 1) / 10, (CALLS - update) / CALLS)
    first = trainer(step)
    losses = first.fit(batches[: CALLS // 2], rate)
    first.save(folder / "half.npz")
    # The checkpoint goes on like the trainer itself.
    second = trainer(step)
    second.load(folder / "half.npz")
    ahead = first.fit(batches[CALLS // 2 : CALLS // 2 + 3], rate)
    again = second.fit(batches[CALLS // 2 : CALLS // 2 + 3], rate)
    assert ahead == again, (ahead, again)
    losses += again + second.fit(batches[CALLS // 2 + 3 :], rate)
    used = time.process_time() - began
    second.save(folder / "end.npz")
    # The baked model has the loss of the state.
    baked = folder / "baked.onnx"
    memc(program, "train", given, "--bake", folder / "end.npz", "-o", baked)
    onnx.checker.check_model(str(baked))
    memc(program, "train", baked, "--eval", folder / "after.onnx", "--loss", "cross-entropy", "--labels", "labels")
    after = session(folder / "after.onnx")
    held = [batch(rest, np.random.default_rng(number)) for number in range(8)]
    loss = np.mean([after.run(["loss"], feed)[0] for feed in held])
    given_loss = np.mean([session(evaluation).run(["loss"], feed)[0] for feed in held])
    pairs = pairs_loss(known, rest)
    print(f"loss on pages not seen: {given_loss:.3f} before, {loss:.3f} after; pairs {pairs:.3f}; {used:.1f} s of CPU")
    assert loss < pairs
    moved = next(iter(second.state))
    assert np.array_equal(second.state[moved], np.load(folder / "end.npz")[moved])


if __name__ == "__main__":
    main()
