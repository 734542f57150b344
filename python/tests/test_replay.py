"""Replays: runs whose allocations one block serves."""

import ctypes
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import memc
import numpy
import onnx
from models import wide
from memc._cuda import Device
from memc.ort import Replay, Replayed

HERE = pathlib.Path(__file__).parent / "replay"


def built(folder, source):
    """Compiles a library. Returns its path."""
    path = pathlib.Path(folder) / f"lib{source.stem}.so"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", path, source, "-ldl", "-lpthread"], check=True)
    return path


def images(seed):
    """Returns a random network of convolutions, activations and sums, with branches that live long."""
    helper, numbers, generator = onnx.helper, numpy.random.default_rng(seed), random.Random(seed)
    nodes, weights, made = [], [], [("x", 3)]
    for layer in range(24):
        last, before = made[-1] if generator.random() < 0.7 else generator.choice(made)
        equal = [name for name, channels in made if channels == before and name != last]
        if equal and generator.random() < 0.4:
            nodes.append(helper.make_node("Add", [last, generator.choice(equal)], [f"v{layer}"]))
            made.append((f"v{layer}", before))
            continue
        channels = generator.choice([2, 5, 9, 16, 31])
        kernel = numbers.standard_normal((channels, before, 3, 3)).astype(numpy.float32) / 8
        weights.append(onnx.numpy_helper.from_array(kernel, f"k{layer}"))
        nodes.append(helper.make_node("Conv", [last, f"k{layer}"], [f"c{layer}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node(generator.choice(["Relu", "Exp", "Sigmoid"]), [f"c{layer}"], [f"v{layer}"]))
        made.append((f"v{layer}", channels))
    read = {name for node in nodes for name in node.input}
    results = [(name, channels) for name, channels in made if name not in read]
    values = [helper.make_tensor_value_info(name, 1, [1, channels, 30, 30]) for name, channels in [("x", 3), *results]]
    graph = helper.make_graph(nodes, "images", values[:1], values[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Memory:
    """Memory of malloc, and the ranges in use. What is given back is not freed, so that no address comes twice."""

    def __init__(self):
        self._library = ctypes.CDLL(None)
        self._library.malloc.restype = ctypes.c_void_p
        self._library.malloc.argtypes = [ctypes.c_size_t]
        self.held = {}

    def take(self, bytes):
        address = self._library.malloc(bytes)
        self.held[address] = bytes
        return address

    def give_back(self, address):
        del self.held[address]


def trace(seed, count):
    """Returns random requests in an order: ("take", number, bytes) and ("end", number). All of them end."""
    generator, events, open = random.Random(seed), [], []
    for number in range(count):
        events.append(("take", number, generator.choice([1, 64, 1000, 4096, 70000]) * generator.randint(1, 3)))
        open.append(number)
        while open and generator.random() < 0.55:
            events.append(("end", open.pop(generator.randrange(len(open)))))
    return events + [("end", number) for number in open]


class Requests:
    """Makes requests of a replay through its C functions, and holds that no two values in use share a byte."""

    def __init__(self, replay):
        allocate, free = replay.addresses()
        self._allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(allocate)
        self._free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(free)
        self.used = {}

    def take(self, number, bytes):
        address = self._allocate(bytes)
        for start, size in self.used.values():
            if address < start + size and start < address + bytes:
                raise AssertionError("two values in use share bytes")
        self.used[number] = (address, bytes)
        return address

    def end(self, number):
        self._free(self.used.pop(number)[0])

    def follow(self, events):
        return [self.take(*event[1:]) for event in events if event[0] == "take" or self.end(event[1])]


class Replays(unittest.TestCase):
    def test_equal_runs_get_equal_places_in_one_block(self):
        for seed in range(20):
            memory = Memory()
            replay = Replay(memory.take, memory.give_back)
            requests, events = Requests(replay), trace(seed, 60)
            with replay.run():
                requests.follow(events)
            self.assertEqual((replay.block, memory.held), (0, {}))
            seen = []
            for _ in range(3):
                with replay.run():
                    seen.append(requests.follow(events))
            self.assertEqual((replay.misses, len(memory.held)), (0, 1), seed)
            (base,) = memory.held
            self.assertEqual(seen[0], seen[2])
            self.assertTrue(all(base <= address < base + replay.block for address in seen[0]), seed)
            # Every place begins at a multiple of the unit, and the block is hardly larger than what is in use at once.
            self.assertTrue(all((address - base) % 256 == 0 for address in seen[0]), seed)
            self.assertTrue(replay.peak <= replay.block <= 1.1 * replay.peak + 60 * 256, (seed, replay.peak, replay.block))
            replay.close()
            self.assertEqual(memory.held, {})

    def test_runs_that_differ_are_served_beside_the_block(self):
        for seed in range(20):
            memory = Memory()
            replay = Replay(memory.take, memory.give_back)
            requests = Requests(replay)
            for other in [0, 0, 1, 2, 0, 0, 3, 0, 0]:
                with replay.run():
                    requests.follow(trace(100 * seed + other, 40 + other))
            self.assertGreater(replay.misses, 0)
            replay.close()
            self.assertEqual(memory.held, {})

    def test_a_run_that_differs_once_is_recorded_anew(self):
        memory = Memory()
        replay = Replay(memory.take, memory.give_back)
        requests, events = Requests(replay), trace(5, 30)
        # The first run tries an algorithm, with a workspace of its own.
        for first in [True, False, False, False]:
            before = replay.misses
            with replay.run():
                if first:
                    requests.take("trial", 123456)
                    requests.end("trial")
                requests.follow(events)
        self.assertGreater(replay.misses, 0)
        self.assertEqual(replay.misses, before)

    def test_results_that_outlive_a_run_have_memory_of_their_own(self):
        memory = Memory()
        replay = Replay(memory.take, memory.give_back)
        requests, events = Requests(replay), trace(7, 20)
        for run in range(4):
            with replay.run():
                requests.follow(events)
                requests.take(f"result {run}", 5000)
            self.assertEqual(sum(bytes == 5000 for bytes in memory.held.values()), run + 1)
        self.assertEqual(replay.misses, 0)

    def test_values_that_stay_in_the_block_are_not_written_over(self):
        memory = Memory()
        replay = Replay(memory.take, memory.give_back)
        requests = Requests(replay)
        with replay.run():
            requests.follow([("take", 0, 4000), ("take", 1, 500), ("end", 1), ("end", 0)])
        with replay.run():
            requests.follow([("take", "kept", 4000)])
        with replay.run():
            requests.follow([("take", 0, 4000), ("take", 1, 500), ("end", 1), ("end", 0)])
        self.assertEqual(replay.misses, 1)
        # Runs that need a larger block do not get it as long as a value is there.
        (block,) = memory.held
        for _ in range(2):
            with replay.run("larger"):
                requests.follow([("take", 0, 90_000), ("end", 0)])
        self.assertEqual((replay.misses, list(memory.held)), (2, [block]))
        requests.end("kept")
        with replay.run("larger"):
            requests.follow([("take", 0, 90_000), ("end", 0)])
        with replay.run("larger"):
            requests.follow([("take", 0, 90_000), ("end", 0)])
        self.assertEqual((replay.misses, replay.block), (2, 90_112))

    def test_runs_with_other_extents_share_the_block(self):
        memory = Memory()
        replay = Replay(memory.take, memory.give_back)
        requests = Requests(replay)
        for rows in [1, 1, 8, 8, 1, 4, 4]:
            with replay.run(rows):
                requests.follow([(event[0], event[1], *(rows * bytes for bytes in event[2:])) for event in trace(3, 30)])
        self.assertEqual((replay.misses, len(memory.held)), (0, 1))

    def test_one_run_at_a_time(self):
        replay = Replay(lambda bytes: None, lambda address: None)
        with self.assertRaisesRegex(RuntimeError, "one run at a time"), replay.run():
            with replay.run():
                pass
        # A run that fails is not recorded.
        with self.assertRaises(ZeroDivisionError), replay.run():
            1 / 0
        self.assertEqual(replay.peak, 0)

    def test_a_replayed_session_tells_runs_apart_by_their_extents(self):
        memory = Memory()
        replay = Replay(memory.take, memory.give_back)
        requests = Requests(replay)

        class Session:
            def run(self, names, inputs, options):
                requests.follow([("take", 0, inputs["x"].nbytes), ("end", 0)])
                return [inputs["x"] + 1]

        with Replayed(Session(), replay) as session:
            for rows in [3, 3, 5, 5, 3]:
                (found,) = session.run(None, {"x": numpy.zeros((rows, 100), numpy.float32)})
                self.assertEqual(found.shape, (rows, 100))
            self.assertEqual((session.misses, session.peak, session.block), (0, 2000, 2048))
        self.assertEqual(memory.held, {})


@unittest.skipUnless(sys.platform == "linux", "the libraries of these tests are Linux's")
class Devices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls.library = built(cls._folder.name, HERE / "cudart.c")
        cls.hooks = built(cls._folder.name, HERE / "hooks.c")
        cls.counter = built(cls._folder.name, HERE.parents[2] / "benches/count_allocations.c")
        cls.driver = ctypes.CDLL(cls.library)
        cls.driver.set_limit.argtypes = [ctypes.c_size_t]
        cls.driver.highest_bytes.restype = ctypes.c_size_t

    @classmethod
    def tearDownClass(cls):
        cls._folder.cleanup()

    def test_a_device_serves_a_replay_within_its_memory(self):
        device = Device(library=self.library)
        events = [("take", 0, 300_000), ("take", 1, 300_000), ("end", 0), ("take", 2, 300_000), ("end", 1), ("end", 2)]
        self.driver.set_limit(601_000)
        replay = Replay(device.take, device.give_back)
        requests = Requests(replay)
        for _ in range(4):
            with replay.run():
                requests.follow(events)
        self.assertEqual((replay.misses, replay.block, device.used()), (0, 600_064, 600_064))
        self.assertEqual(self.driver.highest_bytes(), 600_064)
        replay.close()
        self.assertEqual(device.used(), 0)

    def test_a_block_that_does_not_fit_says_what_to_do(self):
        device = Device(library=self.library)
        self.driver.set_limit(10_000)
        replay = Replay(device.take, device.give_back)
        requests = Requests(replay)
        with replay.run():
            requests.follow([("take", 0, 9_000), ("end", 0)])
        self.driver.set_limit(8_000)
        with self.assertRaisesRegex(MemoryError, "a block of 9216 bytes: plan with a smaller budget"):
            with replay.run():
                pass
        self.assertIsNone(replay.allocate(9_000))

    def test_what_is_missing_is_named(self):
        with self.assertRaisesRegex(RuntimeError, "no CUDA device 3"):
            Device(3, self.library)
        with self.assertRaisesRegex(OSError, "none.so is not CUDA's runtime library"):
            Device(0, "/none.so")
        result = memc.optimize(wide((2, 64)), runtime="ort")
        with self.assertRaisesRegex(RuntimeError, "install onnxruntime-gpu"):
            memc.ort.replay(result)

    def run_beside(self, program, words, preloaded):
        """Runs a program of the tests with a library preloaded. Returns what it prints."""
        environment = {**os.environ, "LD_PRELOAD": str(preloaded)}
        command = [sys.executable, HERE / program, *map(str, words)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def run_session(self, options, runs):
        """Plans a model, and runs it in a session whose memory a replay serves."""
        with tempfile.TemporaryDirectory() as folder:
            given, out = pathlib.Path(folder) / "in.onnx", pathlib.Path(folder) / "out.onnx"
            given.write_bytes(wide(("batch", 64)).SerializeToString())
            result = memc.optimize(given, out, runtime="ort", **options)
            return result.summary, self.run_beside("session.py", [out, runs], self.hooks)

    def test_a_session_runs_in_the_planned_bytes(self):
        summary, found = self.run_session({"dims": {"batch": 16}}, "16,16,16")
        self.assertEqual(found["peak"], summary.arena)
        self.assertTrue(all(run["same"] for run in found["runs"]), found)
        self.assertEqual([run["misses"] for run in found["runs"]], [0, 0, 0])
        # Results outlive the run.
        self.assertTrue(0 < found["runs"][-1]["block"] <= summary.arena, (summary.arena, found))

    def test_a_session_runs_at_all_extents_of_a_range(self):
        summary, found = self.run_session({"dims": {"batch": "1..16"}}, "16,16,3,3,16,1,1,3")
        self.assertTrue(all(run["same"] for run in found["runs"]), found)
        self.assertEqual({run["misses"] for run in found["runs"]}, {0})
        self.assertTrue(0 < found["runs"][-1]["block"] <= summary.arena, (summary.arena, found))


    def test_an_arena_reserves_what_was_predicted(self):
        for name, model, options in [
            ("small", wide((16, 64)), {}),
            ("large", wide((2048, 64)), {}),
            ("in parts", wide((2048, 64)), {"budget": "60%"}),
            *((f"images {seed}", images(seed), {}) for seed in range(6)),
        ]:
            with tempfile.TemporaryDirectory() as folder:
                given, out = pathlib.Path(folder) / "in.onnx", pathlib.Path(folder) / "out.onnx"
                given.write_bytes(model.SerializeToString())
                result = memc.optimize(given, out, runtime="ort", **options)
                for doubling in [False, True]:
                    counted = self.run_beside("arena.py", [out, doubling], self.counter)
                    self.assertEqual(memc.ort.reserve(result, doubling=doubling), counted, (name, doubling))
                    self.assertGreaterEqual(counted, result.summary.arena)


if __name__ == "__main__":
    unittest.main()
