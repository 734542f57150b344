"""Divided models: all ranks as threads, the six functions of the engine, failures, and two ranks over MPI."""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy
import onnxruntime
from memc import devices
from models import layers

PROGRAM = pathlib.Path(sys.executable).with_name("memc")

# Folder with mpirun and with a Python that has mpi4py and onnxruntime.
MPI = pathlib.Path(os.environ.get("MEMC_MPI", pathlib.Path(sys.executable).parent))


def split(folder, count, runs=1):
    """Divides a small model; returns the path of the model and of the manifest."""
    given = pathlib.Path(folder) / "in.onnx"
    given.write_bytes(layers().SerializeToString())
    words = ["split", given, "-o", given.parent / "parts", f"--devices={count}", f"--micro-batches={runs}", "-q"]
    subprocess.run([PROGRAM, *words], check=True)
    return given, given.parent / "parts/manifest.json"


def train(folder):
    """Makes a training step of a small model; returns its path."""
    given, step = pathlib.Path(folder) / "in.onnx", pathlib.Path(folder) / "step.onnx"
    given.write_bytes(layers().SerializeToString())
    words = ["train", given, "-o", step, "--loss", "mse", "--labels", "t", "--optimizer", "adam", "-q"]
    subprocess.run([PROGRAM, *words], check=True)
    return step


def together(size, work):
    """Runs `work` with each engine on a thread of its own; returns the results by rank."""
    results = [None] * size

    def one(engine):
        results[engine.rank] = work(engine)

    threads = [threading.Thread(target=one, args=[engine]) for engine in devices.Local.ranks(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class Programs(unittest.TestCase):
    def test_parts_of_a_training_step_have_the_bits_of_one_device(self):
        with tempfile.TemporaryDirectory() as folder:
            step, found = train(folder), {}
            for count, schedule, runs in [(1, "gpipe", 2), (2, "gpipe", 2), (3, "1f1b", 2), (2, "1f1b", 1)]:
                parts = pathlib.Path(folder) / f"{count}{schedule}{runs}"
                words = ["split", step, "-o", parts, f"--devices={count}", f"--micro-batches={runs}", "--schedule", schedule, "-q"]
                subprocess.run([PROGRAM, *words], check=True)
                outputs, memory = devices.run_local(parts / "manifest.json", seed=2)
                self.assertTrue(all(0 < row["held"] <= row["planned"] for row in memory))
                bits = {name: array.tobytes() for name, array in outputs.items()}
                if runs > 1:
                    self.assertEqual(found.setdefault("bits", bits), bits)
                    found["loss"] = outputs["loss"]
                else:
                    numpy.testing.assert_allclose(outputs["loss"], found["loss"], rtol=1e-5)

    def test_parts_on_ranks_have_the_bits_of_one_device(self):
        with tempfile.TemporaryDirectory() as folder:
            step = train(folder)
            ways = [["--devices=1", "--schedule=gpipe", "--micro-batches=4"]]
            ways += [["--devices=4", "--schedule=data", *more] for more in ([], ["--shard-state"], ["--sums=engine"])]
            bits = []
            for number, words in enumerate(ways):
                parts = pathlib.Path(folder) / str(number)
                subprocess.run([PROGRAM, "split", step, "-o", parts, *words, "-q"], check=True)
                outputs, memory = devices.run_local(parts / "manifest.json", seed=2)
                self.assertTrue(all(0 < row["held"] <= row["planned"] for row in memory))
                bits.append({name: array.tobytes() for name, array in outputs.items()})
            # The local engine adds by rank, whatever the manifest allows.
            self.assertEqual(bits, [bits[0]] * 4)

    def test_results_have_the_bits_of_the_whole_model(self):
        with tempfile.TemporaryDirectory() as folder:
            given, manifest = split(folder, 3, runs=2)
            runs = {f"x@{run}": numpy.linspace(-2, 1 + run, 256, dtype="float32").reshape(4, 64) for run in range(2)}
            numpy.savez(given.with_suffix(".npz"), **runs)
            outputs, memory = devices.run_local(manifest, given.with_suffix(".npz"))
            session = onnxruntime.InferenceSession(str(given), providers=["CPUExecutionProvider"])
            for run in range(2):
                expected, = session.run(None, {"x": runs[f"x@{run}"]})
                self.assertEqual(outputs[f"y@{run}"].tobytes(), expected.tobytes())
            self.assertEqual([row["device"] for row in memory], ["d0", "d1", "d2"])
            self.assertTrue(all(0 < row["held"] <= row["planned"] for row in memory))

    def test_inputs_that_are_outputs_return_to_the_caller(self):
        with tempfile.TemporaryDirectory() as folder:
            given, model = pathlib.Path(folder) / "in.onnx", layers()
            model.graph.output.append(model.graph.input[0])
            given.write_bytes(model.SerializeToString())
            parts = given.parent / "parts"
            subprocess.run([PROGRAM, "split", given, "-o", parts, "--devices=2", "--micro-batches=2", "-q"], check=True)
            runs = {f"x@{run}": numpy.full((4, 64), run, "float32") for run in range(2)}
            numpy.savez(given.with_suffix(".npz"), **runs)
            outputs, _ = devices.run_local(parts / "manifest.json", given.with_suffix(".npz"))
            self.assertEqual(sorted(outputs), ["x@0", "x@1", "y@0", "y@1"])
            for name, array in runs.items():
                self.assertEqual(outputs[name].tobytes(), array.tobytes())

    def test_free_extents_go_ahead_of_values(self):
        with tempfile.TemporaryDirectory() as folder:
            given = pathlib.Path(folder) / "in.onnx"
            model = layers()
            for value in [*model.graph.input, *model.graph.output]:
                value.type.tensor_type.shape.dim[0].dim_param = "n"
            given.write_bytes(model.SerializeToString())
            parts = given.parent / "parts"
            subprocess.run([PROGRAM, "split", given, "-o", parts, "--devices=3", "--dim", "n=1..6", "-q"], check=True)
            session = onnxruntime.InferenceSession(str(given), providers=["CPUExecutionProvider"])
            for rows in (1, 5, 6):
                x = numpy.linspace(-2, 2, 64 * rows, dtype="float32").reshape(rows, 64)
                numpy.savez(given.with_suffix(".npz"), x=x)
                outputs, memory = devices.run_local(parts / "manifest.json", given.with_suffix(".npz"))
                self.assertEqual(outputs["y"].tobytes(), session.run(None, {"x": x})[0].tobytes())
                self.assertTrue(all(0 < row["held"] <= row["planned"] for row in memory))
            numpy.savez(given.with_suffix(".npz"), x=numpy.zeros((7, 64), "float32"))
            with self.assertRaisesRegex(devices.ManifestError, "`x` is float32"):
                devices.run_local(parts / "manifest.json", given.with_suffix(".npz"))

    def test_wrong_files_and_inputs_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            given, manifest = split(folder, 2)
            numpy.savez(given.with_suffix(".npz"), x=numpy.zeros(3, "float32"))
            with self.assertRaisesRegex(devices.ManifestError, "`x` is float32"):
                devices.run_local(manifest, given.with_suffix(".npz"))
            with self.assertRaisesRegex(devices.ManifestError, "not a manifest"):
                devices.run_local(manifest.with_name("d0.layout.json"))
            with self.assertRaisesRegex(devices.ManifestError, "2 devices, and 3 ranks"):
                devices.run_rank(manifest, devices.Local.ranks(3)[0])
            with open(manifest.with_name("d1.onnx"), "ab") as file:
                file.write(b"\0\0")
            with self.assertRaisesRegex(devices.ManifestError, "divide the model again"):
                devices.run_local(manifest)

    def test_a_rank_that_fails_ends_the_others(self):
        with tempfile.TemporaryDirectory() as folder:
            _, manifest = split(folder, 2)
            text = manifest.read_text()
            # The first rank has no section that sends.
            manifest.write_text(text.replace('"run"', '"runs"', 1))
            before = time.monotonic()
            with self.assertRaises(Exception):
                devices.run_local(manifest)
            self.assertLess(time.monotonic() - before, 30)


class Engine(unittest.TestCase):
    def test_the_six_functions(self):
        def work(engine):
            one = numpy.full(4, engine.rank + 1.0)
            total = one.copy()
            engine.all_reduce(total)
            whole = numpy.empty(12)
            engine.all_gather(one, whole)
            part = numpy.empty(2)
            engine.reduce_scatter(numpy.arange(6.0) + engine.rank, part)
            engine.barrier()
            wait = engine.send(one, (engine.rank + 1) % engine.size)
            before = numpy.empty(4)
            engine.recv(before, (engine.rank - 1) % engine.size)
            wait()
            return total.tolist(), whole.tolist(), part.tolist(), before.tolist()

        results = together(3, work)
        for rank, (total, whole, part, before) in enumerate(results):
            self.assertEqual(total, [6.0] * 4)
            self.assertEqual(whole, [1.0] * 4 + [2.0] * 4 + [3.0] * 4)
            self.assertEqual(part, [3.0 * value + 3 for value in (2 * rank, 2 * rank + 1)])
            self.assertEqual(before, [(rank - 1) % 3 + 1.0] * 4)

    @unittest.skipUnless((MPI / "mpirun").exists(), "no mpirun")
    def test_two_ranks_over_mpi(self):
        with tempfile.TemporaryDirectory() as folder:
            given, manifest = split(folder, 2, runs=3)
            environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            mpi = [MPI / "mpirun", "--oversubscribe", "-n", "2", MPI / "python", "-I", devices.__file__, manifest]
            ran = subprocess.run(mpi, capture_output=True, text=True, timeout=120, env=environment)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            local = subprocess.run([*mpi[4:], "--engine=local"], capture_output=True, text=True, check=True)
            self.assertEqual(ran.stdout, local.stdout)
            # Collectives: sums by rank and as the engine likes, and parameters that return to both ranks.
            step, bits = train(folder), set()
            for order in ("index", "engine"):
                words = ["--devices=2", "--schedule=data", "--shard-state", "--sums", order, "-q"]
                subprocess.run([PROGRAM, "split", step, "-o", step.with_name(order), *words], check=True)
                data = [*mpi[:-1], step.with_name(order) / "manifest.json"]
                ran = subprocess.run(data, capture_output=True, text=True, timeout=120, env=environment)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                bits.add(ran.stdout)
            local = subprocess.run([*data[4:], "--engine=local"], capture_output=True, text=True, check=True)
            # A sum of two has one order.
            self.assertEqual(bits, {local.stdout})
            manifest.with_name("d1.onnx").write_bytes(b"")
            ran = subprocess.run(mpi, capture_output=True, text=True, timeout=120, env=environment)
            self.assertNotEqual(ran.returncode, 0)
            self.assertIn("memc-run-devices: rank 1: ", ran.stderr)


if __name__ == "__main__":
    unittest.main()
