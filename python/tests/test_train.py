"""The trainer: a step of the command in a stock session, with its state in buffers."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import memc
import numpy
from models import shipped


def step(folder, *options):
    """Makes a step of the perceptron with the command of this package."""
    path = pathlib.Path(folder) / "step.onnx"
    words = ["train", shipped("perceptron"), "-o", path, "--loss", "cross-entropy", "--labels", "labels", *options]
    subprocess.run([sys.executable, "-m", "memc", "--quiet", *map(str, words)], check=True)
    return path


def batches(count):
    """Returns noisy pixels of ten classes."""
    generator = numpy.random.default_rng(3)
    centers = generator.standard_normal((10, 64)).astype(numpy.float32)
    for _ in range(count):
        labels = generator.integers(0, 10, 32)
        noise = 0.3 * generator.standard_normal((32, 64)).astype(numpy.float32)
        yield {"pixels": centers[labels] + noise, "labels": labels}


class Training(unittest.TestCase):
    def test_a_step_learns_and_goes_on_from_a_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            path = step(folder, "--optimizer", "adamw")
            every = list(batches(40))
            trainer = memc.train.Trainer(path)
            seen = []
            losses = trainer.fit(every[:20], 0.01, progress=lambda calls, loss: seen.append(calls))
            self.assertEqual(seen, list(range(1, 21)))
            trainer.save(pathlib.Path(folder) / "state.npz")
            again = memc.train.Trainer(path)
            again.load(pathlib.Path(folder) / "state.npz")
            self.assertEqual(trainer.fit(every[20:], 0.01), again.fit(every[20:], 0.01))
            self.assertLess(trainer(every[-1], 0.0)["loss"], 0.2 * losses[0])
            self.assertEqual((trainer.updates, again.updates), (41, 40))

    def test_accumulated_calls_make_one_update(self):
        with tempfile.TemporaryDirectory() as folder:
            trainer = memc.train.Trainer(step(folder, "--optimizer", "sgd", "--accumulate", "2"), accumulate=2)
            first, second = batches(2)
            trainer(first, 0.1)
            before = trainer.state["fc2.bias"].copy()
            trainer(second, 0.1)
            self.assertEqual((trainer.calls, trainer.updates), (2, 1))
            self.assertTrue((trainer.state["fc2.bias"] != before).any())

    def test_an_overflow_lowers_the_factor_and_changes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            trainer = memc.train.Trainer(step(folder, "--optimizer", "sgd", "--loss-scale"))
            (batch,) = batches(1)
            trainer(batch, 0.1)
            before, trainer.loss_scale = trainer.state["fc2.bias"].copy(), float("inf")
            self.assertTrue(trainer(batch, 0.1)["overflow"])
            self.assertTrue((trainer.state["fc2.bias"] == before).all())
            self.assertEqual(trainer.updates, 1)

    def test_what_is_missing_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            trainer = memc.train.Trainer(step(folder))
            with self.assertRaisesRegex(ValueError, "labels"):
                trainer({"pixels": numpy.zeros((32, 64), numpy.float32)}, 0.1)
            with self.assertRaisesRegex(ValueError, "before the first call"):
                trainer.save(pathlib.Path(folder) / "state.npz")
            with self.assertRaisesRegex(ValueError, "--accumulate"):
                memc.train.Trainer(step(folder), accumulate=4)
            with self.assertRaisesRegex(ValueError, "memc train"):
                memc.train.Trainer(shipped("perceptron"))


if __name__ == "__main__":
    unittest.main()
