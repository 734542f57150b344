"""Runs a planned model in a session with an arena, and prints the bytes that the arena reserved: `arena.py PLANNED
DOUBLING`, with the counter of `benches/count_allocations.c` preloaded."""

import ctypes
import sys

import memc
import numpy
import onnxruntime

counter = ctypes.CDLL(None)
counter.held_bytes.restype = ctypes.c_size_t
options = memc.ort.session_options(sys.argv[1])
options.intra_op_num_threads = 1
# Repacked weights would take chunks of the arena, too.
options.add_session_config_entry("session.disable_prepacking", "1")
options.add_session_config_entry("session.use_env_allocators", "1")
arena = onnxruntime.OrtArenaCfg({"arena_extend_strategy": 0 if sys.argv[2] == "True" else 1, "max_mem": 0})
kind = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
onnxruntime.create_and_register_allocator(onnxruntime.OrtMemoryInfo("Cpu", kind, 0, onnxruntime.OrtMemType.DEFAULT), arena)
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
inputs = {value.name: numpy.ones(value.shape, numpy.float32) for value in session.get_inputs()}
before = counter.held_bytes()
for _ in range(3):
    session.run(None, inputs)
print(counter.held_bytes() - before)
