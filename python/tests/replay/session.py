"""Runs a planned model in a session whose memory a replay serves: `session.py PLANNED RUNS`, with the hooks preloaded.
Prints the numbers as JSON."""

import ctypes
import hashlib
import json
import sys

import memc
import numpy
import onnxruntime

hooks = ctypes.CDLL(None)
hooks.plain_take.restype = ctypes.c_void_p
hooks.plain_take.argtypes = [ctypes.c_size_t]
hooks.plain_free.argtypes = [ctypes.c_void_p]


def inputs(session, rows):
    """Returns equal inputs for equal rows."""
    generator = numpy.random.default_rng(rows)
    shapes = {
        value.name: [extent if isinstance(extent, int) else rows for extent in value.shape]
        for value in session.get_inputs()
    }
    return {name: generator.standard_normal(shape).astype(numpy.float32) for name, shape in shapes.items()}


replay = memc.ort.Replay(hooks.plain_take, hooks.plain_free, unit=64)
hooks.answer_by(*(ctypes.c_void_p(address) for address in replay.addresses()))
options = memc.ort.session_options(sys.argv[1])
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
runs = []
for rows in map(int, sys.argv[2].split(",")):
    given = inputs(session, rows)
    before = [value.copy() for value in session.run(None, given)]
    with replay.run(rows):
        hooks.set_open(1)
        outputs = session.run(None, given)
        hooks.set_open(0)
    same = all(one.tobytes() == other.tobytes() for one, other in zip(outputs, before))
    runs.append({"same": same, "misses": replay.misses, "block": replay.block})
    del outputs
print(json.dumps({"runs": runs, "peak": replay.peak}))
