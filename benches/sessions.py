"""What plain and set-up sessions of stock ONNX Runtime take for models as given and as planned: bytes, counted, and time, in ratios.

    .deps/python/bin/python benches/sessions.py [--memc target/release/memc] [--dim MODEL:NAME=N] [--fill MODEL:INPUT=N] [--seconds N]
        [--csv FILE] FOLDER|MODEL ... [-- options of memc optimize]

*plain*: default options. *settings*: the given model under the options that memc prints as recipe `fast`. *planned*, *fast*, *smallest*: memc's model
in a plain session and by the two recipes of `--session python`. Bytes are the most that the CPU allocator asked for beyond a session at rest, over
twelve runs, each session in a process of its own with the threads that it makes by default; weights and inputs are not in them, what an arena keeps is.
Times are processor times of sessions of one thread (idle threads spin, and other work on the machine would count) in one process, in turns: the median,
over the turns, of each one's time over that of the plain one.
"""
import csv
import ctypes
import hashlib
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

from corpus import chosen, extents, feeds, place
from options import add_choice, add_dims, name_of, parse, parser

HERE = os.path.dirname(os.path.abspath(__file__))
PLAIN = "import onnxruntime as ort\noptions = ort.SessionOptions()\n"
COLUMNS = ["plain", "settings", "planned", "fast", "smallest"]


def options_of(recipe):
    """The session options that a recipe makes, quiet."""
    scope = {}
    exec(recipe, scope)
    scope["options"].log_severity_level = 4
    return scope["options"]


def session_of(path, recipe, threads=0):
    """A session; 0 threads: as many as by default."""
    import onnxruntime
    options = options_of(recipe)
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def counter_library(folder):
    """Builds the counter of allocations, to be preloaded."""
    library = os.path.join(folder, "count.so")
    source = os.path.join(HERE, "count_allocations.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library, "-ldl", "-lpthread"], check=True)
    return library


def count_here(path, recipe, sizes, filled):
    """In a process with the counter preloaded: prints the peak of twelve runs beyond the session at rest, pages that the last six found anew, and a
    digest of the outputs."""
    counter = ctypes.CDLL(os.environ["LD_PRELOAD"])
    for name in ("held_bytes", "highest_bytes"):
        getattr(counter, name).restype = ctypes.c_size_t
    session = session_of(path, recipe)
    given = feeds(session, sizes, filled=filled)
    at_rest = counter.held_bytes()
    counter.restart_count()
    faults = [resource.getrusage(resource.RUSAGE_SELF).ru_minflt]
    for _ in range(12):
        outputs = session.run(None, given)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(o).tobytes() for o in outputs if isinstance(o, np.ndarray))).hexdigest()
        del outputs
    print(json.dumps({"bytes": counter.highest_bytes() - at_rest, "faults": faults[12] - faults[6], "digest": digest}))


def count(path, recipe, sizes, filled, library):
    """Peak of a session in a process of its own; None where it does not run."""
    command = [sys.executable, os.path.abspath(__file__), "--count", path, recipe, json.dumps(sizes), json.dumps(filled)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ, LD_PRELOAD=library))
    return json.loads(done.stdout)["bytes"] if done.returncode == 0 else None


def ratios(pairs, sizes, filled, seconds):
    """Processor times of sessions of one thread, in turns, each over the first one's."""
    sessions = [session_of(path, recipe, threads=1) for path, recipe in pairs]
    given = [feeds(session, sizes, filled=filled) for session in sessions]
    taken = [[] for _ in sessions]
    end, turn = time.monotonic() + seconds, 0
    while turn < 3 or (time.monotonic() < end and turn < 1000):
        for i in np.roll(np.arange(len(sessions)), turn):
            start = time.process_time()
            sessions[i].run(None, given[i])
            taken[i].append(time.process_time() - start)
        turn += 1
    of_turns = np.array(taken)[:, 1:]
    return [float(value) for value in np.median(of_turns / of_turns[0], axis=1)]


def one(path, options, library):
    """The model's cells: bytes of each column, then time of each column."""
    name = name_of(path)
    dims = [dim for model, dim in options["dims"] if model == name]
    filled = {text.split("=")[0]: int(text.split("=")[1]) for model, text in options["filled"] if model == name}
    with tempfile.TemporaryDirectory() as folder:
        given, planned = place(path, folder), os.path.join(folder, "planned.onnx")
        sizes = extents(path, dims)
        words = [options["memc"], "-q", "optimize", given, "-o", planned, "--runtime", "ort", *[word for dim in dims for word in ("--dim", dim)]]
        done = subprocess.run([*words, "--session", "python", *options["extra"]], capture_output=True, text=True, check=True)
        recipes = {recipe: f"{done.stdout}options = {recipe}\n" for recipe in ("fast", "smallest")}
        pairs = [(given, PLAIN), (given, recipes["fast"]), (planned, PLAIN), (planned, recipes["fast"]), (planned, recipes["smallest"])]
        held = [count(file, recipe, sizes, filled, library) for file, recipe in pairs]
        times = ratios(pairs, sizes, filled, options["seconds"]) if options["seconds"] and None not in held else [None] * len(pairs)
    return [name, *held, *times]


def mean(values):
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def main():
    if sys.argv[1:2] == ["--count"]:
        return count_here(sys.argv[2], sys.argv[3], *(json.loads(text) for text in sys.argv[4:6]))
    made = parser(__doc__)
    add_dims(made)
    add_choice(made, max_mb=200.0)
    made.add_argument("--fill", dest="filled", action="append", default=[], metavar="MODEL:INPUT=N", type=lambda text: text.split(":", 1),
                      help="an integer input of one model that is one number throughout")
    made.add_argument("--seconds", type=float, default=20.0, help="how long a model's sessions are timed; 0: not at all")
    made.add_argument("--csv", help="where the table goes as well")
    options = parse(made)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        library = counter_library(folder)
        print("| model | plain, bytes |" + "".join(f" {column} |" for column in COLUMNS[1:]) + " time: " + " | ".join(COLUMNS[1:]) + " |")
        print("|---|" + "--:|" * (2 * len(COLUMNS) - 1))
        for path in chosen(options):
            row = one(path, options, library)
            rows.append(row)
            held, times = row[1:6], row[6:]
            shares = [f"{value / held[0]:.2f}" if value is not None and held[0] else "-" for value in held[1:]]
            shown = [f"{value:.2f}" if value is not None else "-" for value in times[1:]]
            print(f"| {row[0]} | {held[0] or 0:,} | {' | '.join(shares + shown)} |", flush=True)
    whole = [row for row in rows if None not in row[1:6]]
    timed = [row for row in whole if None not in row]
    means = [mean([row[at] / row[1] for row in whole]) for at in range(2, 6)] + [mean([row[at] for row in timed]) for at in range(7, 11)]
    print(f"| geometric mean of {len(whole)} | | {' | '.join(f'{value:.3f}' for value in means)} |")
    if options["csv"]:
        with open(options["csv"], "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["model", *[f"{column}_bytes" for column in COLUMNS], *[f"{column}_time" for column in COLUMNS]])
            writer.writerows([[f"{cell:.4f}" if isinstance(cell, float) else cell for cell in row] for row in rows])
    return None


if __name__ == "__main__":
    main()
