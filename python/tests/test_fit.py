"""A decoder that fits, and its tokens in a stock session."""

import pathlib
import tempfile
import unittest

import memc
from models import decoder, grouped_decoder


class Fitting(unittest.TestCase):
    def test_a_fitted_decoder_gives_equal_tokens(self):
        with tempfile.TemporaryDirectory() as folder:
            path, out = pathlib.Path(folder) / "in.onnx", pathlib.Path(folder) / "out.onnx"
            path.write_bytes(decoder())
            fitted = memc.fit(path, out, ram="1MB", context=24, last_token=True)
            self.assertEqual(fitted.largest["name"], "seq")
            self.assertLessEqual(fitted.need["in_run"], 10**6)
            self.assertIn("caches", str(fitted))
            prompt = [3, 1, 4, 1, 5, 9, 2, 6]
            given = memc.generate(path, prompt, 6)
            self.assertEqual(memc.generate(fitted, prompt, 6), given)
            few = memc.generate(fitted, prompt, 6, chunk=3)
            self.assertEqual((few, few.runs), (given, [3, 3, 2, 1, 1, 1, 1, 1]))

    def test_a_kernel_that_keeps_its_caches_has_full_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            path, out = pathlib.Path(folder) / "in.onnx", pathlib.Path(folder) / "out.onnx"
            path.write_bytes(grouped_decoder())
            fitted = memc.fit(path, out, ram="1MB", context=24, last_token=True)
            self.assertEqual(fitted.largest["name"], "sequence_length")
            prompt = [3, 1, 4, 1, 5, 9, 2, 6]
            given = memc.generate(path, prompt, 16)
            self.assertEqual(memc.generate(fitted, prompt, 16), given)
            few = memc.generate(fitted, prompt, 6, chunk=3)
            self.assertEqual((few, few.runs), (given[:6], [3, 3, 2, 1, 1, 1, 1, 1]))
            with self.assertRaisesRegex(ValueError, "25 rows; these have 24"):
                memc.generate(fitted, prompt, 18)

    def test_rows_that_follow_from_an_extent_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "in.onnx"
            path.write_bytes(grouped_decoder(valid="extent"))
            with self.assertRaises(memc.Error) as caught:
                memc.fit(path, pathlib.Path(folder) / "out.onnx", ram="1MB", context=24)
            self.assertEqual(caught.exception.code, "E0366")

    def test_a_context_beyond_the_rotations_of_the_kernel_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "in.onnx"
            path.write_bytes(grouped_decoder())
            with self.assertRaises(memc.Error) as caught:
                memc.fit(path, pathlib.Path(folder) / "out.onnx", ram="1MB", context=65)
            self.assertEqual(caught.exception.code, "E0368")
            self.assertIn("64 positions", str(caught.exception))

    def test_a_memory_that_is_too_small_says_what_fills_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path, out = pathlib.Path(folder) / "in.onnx", pathlib.Path(folder) / "out.onnx"
            path.write_bytes(decoder())
            with self.assertRaises(memc.BudgetError) as caught:
                memc.fit(path, out, ram=1000, context=24)
            self.assertEqual(caught.exception.code, "E0365")
            self.assertIn("weights", str(caught.exception))
            self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
