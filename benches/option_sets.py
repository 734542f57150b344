"""What option sets of stock ONNX Runtime sessions take for models as given and as planned: exact peaks of what the CPU allocator asks for.

    .deps/python/bin/python benches/option_sets.py [--memc target/release/memc] [--max-mb N] [--only NAME] FOLDER ...

One thread, second run of a session (a memory pattern is there only then), weights and inputs not counted.
"""
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile

from corpus import chosen, feeds, session_options, write_weights
from options import add_choice, name_of, parse, parser
from runtime import HERE

# Graph optimizations, arena, memory pattern, reuse of buffers, order.
DEFAULTS = [1, 1, 1, 1, 0]
NO_ARENA = [1, 0, 1, 1, 0]
BEST_STOCK = [1, 0, 0, 1, 0]
NO_REUSE = [1, 0, 0, 0, 0]
ANY_LANGUAGE = [0, 0, 0, 1, 0]
OURS = [0, 0, 0, 0, 1]
COLUMNS = [
    ("given, defaults", "given", DEFAULTS), ("given, arena off", "given", NO_ARENA), ("given, pattern off too", "given", BEST_STOCK),
    ("given, reuse off too", "given", NO_REUSE), ("planned, defaults", "ort", DEFAULTS), ("planned, arena and pattern off", "ort", BEST_STOCK),
    ("given, our options", "given", OURS), ("planned, our options", "ort", OURS), ("anchored, options of any language", "anchored", ANY_LANGUAGE),
]


def child(path, sets):
    import onnxruntime as ort
    counter = ctypes.CDLL(os.environ["LD_PRELOAD"])
    for name in ("held_bytes", "highest_bytes"):
        getattr(counter, name).restype = ctypes.c_size_t
    optimize, arena, pattern, reuse, priority = sets
    options = session_options("ORT_ENABLE_ALL" if optimize else "ORT_DISABLE_ALL")
    options.enable_cpu_mem_arena, options.enable_mem_pattern, options.enable_mem_reuse = bool(arena), bool(pattern), bool(reuse)
    if not optimize:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    if priority:
        options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = feeds(session, {})
    # What an arena keeps after the first run is the second run's too.
    first = counter.held_bytes()
    session.run(None, given)
    counter.restart_count()
    before = first if arena else counter.held_bytes()
    session.run(None, given)
    print(counter.highest_bytes() - before)


def one(path, options, library):
    name = name_of(path)
    with tempfile.TemporaryDirectory() as folder:
        write_weights(path, folder)
        files = {"given": os.path.join(folder, "given.onnx"), "ort": os.path.join(folder, "ort.onnx"), "anchored": os.path.join(folder, "anchored.onnx")}
        shutil.copy(path, files["given"])
        for which, flags in (("ort", []), ("anchored", ["--anchors"])):
            words = ["-q", "optimize", files["given"], "-o", files[which], "--runtime", "ort", *flags]
            subprocess.run([options["memc"], *words], check=True)
        with open(os.path.join(folder, "ort.layout.json"), encoding="utf-8") as file:
            promised = next(iter(json.load(file)["peak"].values()))["bytes"]
        cells = []
        for _, which, sets in COLUMNS:
            command = [sys.executable, os.path.abspath(__file__), "--child", files[which], json.dumps(sets)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ, LD_PRELOAD=library))
            cells.append(f"{int(done.stdout):,}" if done.returncode == 0 else "fails")
    return f"| {name} | {' | '.join(cells)} | {promised:,} |"


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], json.loads(sys.argv[3]))
    made = parser(__doc__)
    add_choice(made, max_mb=200.0)
    options = parse(made)
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "count.so")
        source = os.path.join(HERE, "count_allocations.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library, "-ldl", "-lpthread"], check=True)
        print(f"| model | {' | '.join(title for title, *_ in COLUMNS)} | promised |")
        print(f"|---{'|--:' * (len(COLUMNS) + 1)}|")
        for path in chosen(options):
            print(one(path, options, library), flush=True)
    return None


if __name__ == "__main__":
    main()
