"""What plain and set-up sessions of stock ONNX Runtime take for models as given and as planned: bytes, counted, and time, in ratios. Fails where memc
loses.

    .deps/python/bin/python benches/sessions.py [--memc target/release/memc] [--dim MODEL:NAME=N] [--fill MODEL:INPUT=N] [--budget MODEL:SIZE]
        [--threads N] [--seconds N] [--csv FILE] FOLDER|MODEL ... [-- options of memc optimize]

*plain*: the given model, default options. *settings*: the given model, the best of the options that users can set without memc. *planned*, *fast*,
*smallest*: what memc writes for `--session plain`, `fast` and `smallest`, in a session as it prints it. *promised*: the peak of the plan for `smallest`.
Bytes are the most that the CPU allocator asked for beyond the session at rest, over twelve runs, each session in a process of its own, with a rest of its
own, on one thread, whose workspace plans count; weights and inputs are not in them, what an arena keeps is. Times are processor times of sessions of
one thread (idle threads spin, and other work on the machine would count) in one process, in turns: the median, over the turns, of each one's time over
that of the plain one. `--budget` adds a row for a model within a budget.

Ends with exit code 1 and a list if a law is broken by more than a hundredth: smallest takes what is promised (or less, by the session's own fusions),
smallest <= fast <= settings, planned <= plain, and each recipe keeps the budget; or if, over ten models or more, the mean of planned is above
0.55.
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
EXACT = PLAIN + "options.enable_mem_pattern = False\noptions.enable_cpu_mem_arena = False\n"
NO_REUSE = EXACT + "options.enable_mem_reuse = False\n"
# The options that users can set without memc; all optimizations stay on.
SETTINGS = [EXACT, NO_REUSE, NO_REUSE + "options.execution_order = ort.ExecutionOrder.PRIORITY_BASED\n"]
COLUMNS = ["plain", "settings", "planned", "fast", "smallest"]
# What counts of one model may differ by, as a share: the runtime rounds values to 64 bytes, and workspace depends on the number of threads.
MARGIN = 0.01
# Largest mean of what planned models take in plain sessions, as a share of the given models, and the least number of models that have a mean.
PLANNED_MEAN, HAVE_MEAN = 0.55, 10


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


def count_here(path, recipe, sizes, filled, threads=0):
    """In a process with the counter preloaded: prints the peak of twelve runs beyond the session at rest, pages that the last six found anew, and a
    digest of the outputs."""
    counter = ctypes.CDLL(os.environ["LD_PRELOAD"])
    for name in ("held_bytes", "highest_bytes"):
        getattr(counter, name).restype = ctypes.c_size_t
    session = session_of(path, recipe, threads)
    given = feeds(session, sizes, filled=filled)
    at_rest = counter.held_bytes()
    counter.restart_count()
    faults = [resource.getrusage(resource.RUSAGE_SELF).ru_minflt]
    for _ in range(12):
        outputs = session.run(None, given)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(o).tobytes() for o in outputs if isinstance(o, np.ndarray))).hexdigest()
        del outputs
    print(json.dumps({"bytes": counter.highest_bytes() - at_rest, "rest": at_rest, "faults": faults[12] - faults[6], "digest": digest}))


def count(path, recipe, sizes, filled, library, threads=0):
    """Peak of a session in a process of its own, and its bytes at rest; None where it does not run."""
    command = [sys.executable, os.path.abspath(__file__), "--count", path, recipe, json.dumps(sizes), json.dumps(filled), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ, LD_PRELOAD=library))
    found = json.loads(done.stdout) if done.returncode == 0 else {"bytes": None, "rest": None}
    return found["bytes"], found["rest"]


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


def with_runtime():
    """The environment in which memc counts its candidates in the runtime of this interpreter."""
    import onnxruntime
    capi = os.path.join(os.path.dirname(onnxruntime.__file__), "capi")
    found = sorted(name for name in os.listdir(capi) if name.startswith("libonnxruntime.so"))
    return {"ORT_DYLIB_PATH": os.path.join(capi, found[0]), **os.environ} if found else dict(os.environ)


def planned_by(options, given, folder, recipe, dims, budget):
    """Runs memc for a recipe: the model that it writes, the printed session, and the promised peak; None where it refuses the budget."""
    written = os.path.join(folder, f"{recipe}.onnx")
    words = [options["memc"], "-q", "optimize", given, "-o", written, "--runtime", "ort", "--session", recipe]
    words += [word for dim in dims for word in ("--dim", dim)] + (["--budget", budget] if budget else []) + options["extra"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=with_runtime())
    if done.returncode == 3 and budget:
        return None
    if done.returncode:
        raise SystemExit(done.stderr)
    with open(written.replace(".onnx", ".layout.json"), encoding="utf-8") as file:
        layout = json.load(file)
    space = layout["target"]["spaces"][0]["name"]
    return written, done.stdout, layout["peak"][space]["bytes"], layout["budget"].get(space)


def one(path, options, library, budget=None):
    """The model's cells by column, with what memc promised."""
    name = name_of(path)
    dims = [dim for model, dim in options["dims"] if model == name]
    filled = {text.split("=")[0]: int(text.split("=")[1]) for model, text in options["filled"] if model == name}
    with tempfile.TemporaryDirectory() as folder:
        given = place(path, folder)
        sizes = extents(path, dims)
        counted = lambda file, recipe: count(file, recipe, sizes, filled, library, options["threads"])
        pairs, held = {"plain": (given, PLAIN)}, {"plain": counted(given, PLAIN)}
        bests = {recipe: counted(given, recipe) for recipe in SETTINGS}
        best = min((recipe for recipe in SETTINGS if bests[recipe][0] is not None), key=lambda recipe: bests[recipe][0], default=EXACT)
        pairs["settings"], held["settings"] = (given, best), bests[best]
        row = {"model": name, "budget": budget or "", "budget_bytes": None, "promised_bytes": None, "as_written": False}
        for column, recipe in (("planned", "plain"), ("fast", "fast"), ("smallest", "smallest")):
            made = planned_by(options, given, folder, recipe, dims, budget)
            held[column] = (None, None) if made is None else counted(made[0], made[1])
            if made:
                pairs[column] = made[:2]
                row["budget_bytes"] = made[3]
            if made and column == "smallest":
                row["promised_bytes"], row["as_written"] = made[2], "ORT_DISABLE_ALL" in made[1]
        times = {}
        if options["seconds"] and all(held[column][0] is not None for column in pairs):
            times = dict(zip(pairs, ratios(list(pairs.values()), sizes, filled, options["seconds"])))
    for column in COLUMNS:
        row[f"{column}_bytes"], row[f"{column}_rest"] = held[column]
        row[f"{column}_time"] = times.get(column)
    return row


def broken(row):
    """The laws that a row breaks, as text."""
    found = []
    bytes_of = lambda column: row[f"{column}_bytes"]

    def holds(law, left, right):
        if left is not None and right is not None and left > right * (1 + MARGIN):
            found.append(f"{row['model']} {row['budget']}: {law}: {left:,} > {right:,}")
    holds("smallest <= promised", bytes_of("smallest"), row["promised_bytes"])
    if row["as_written"]:
        holds("promised <= smallest", row["promised_bytes"], bytes_of("smallest"))
    holds("smallest <= fast", bytes_of("smallest"), bytes_of("fast"))
    if not row["budget"]:
        holds("fast <= settings", bytes_of("fast"), bytes_of("settings"))
        holds("planned <= plain", bytes_of("planned"), bytes_of("plain"))
    for column in ("planned", "fast", "smallest"):
        holds(f"{column} <= budget", bytes_of(column), row["budget_bytes"])
    return found


def mean(values):
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def main():
    if sys.argv[1:2] == ["--count"]:
        return count_here(sys.argv[2], sys.argv[3], *(json.loads(text) for text in sys.argv[4:7]))
    made = parser(__doc__)
    add_dims(made)
    add_choice(made, max_mb=200.0)
    made.add_argument("--fill", dest="filled", action="append", default=[], metavar="MODEL:INPUT=N", type=lambda text: text.split(":", 1),
                      help="an integer input of one model that is one number throughout")
    made.add_argument("--budget", dest="budgets", action="append", default=[], metavar="MODEL:SIZE", type=lambda text: text.split(":", 1),
                      help="one more row of a model, within a budget")
    made.add_argument("--seconds", type=float, default=20.0, help="how long a model's sessions are timed; 0: not at all")
    made.add_argument("--threads", type=int, default=1, help="threads of counted sessions, 0 for as many as by default; plans count the workspace of one")
    made.add_argument("--csv", help="where the table goes as well")
    options = parse(made)
    rows, laws = [], []
    with tempfile.TemporaryDirectory() as folder:
        library = counter_library(folder)
        print("| model | budget | promised | plain, bytes |" + "".join(f" {column} |" for column in COLUMNS[1:]) + " time: " + " | ".join(COLUMNS[1:]) + " |")
        print("|---|" + "--:|" * (2 * len(COLUMNS) + 1))
        for path in chosen(options):
            for budget in [None, *[size for model, size in options["budgets"] if model == name_of(path)]]:
                row = one(path, options, library, budget)
                rows.append(row)
                laws += broken(row)
                plain = row["plain_bytes"]
                cells = [row[f"{column}_bytes"] for column in COLUMNS[1:]]
                shares = [f"{value / plain:.2f}" if value is not None and plain else "-" for value in cells]
                shown = [f"{row[f'{column}_time']:.2f}" if row[f"{column}_time"] else "-" for column in COLUMNS[1:]]
                head = [row["model"], row["budget"], f"{row['promised_bytes'] or 0:,}", f"{plain or 0:,}"]
                print(f"| {' | '.join(head + shares + shown)} |", flush=True)
    whole = [row for row in rows if not row["budget"] and all(row[f"{column}_bytes"] for column in COLUMNS)]
    timed = [row for row in whole if row["fast_time"]]
    means = [mean([row[f"{column}_bytes"] / row["plain_bytes"] for row in whole]) for column in COLUMNS[1:]]
    if len(whole) >= HAVE_MEAN and means[1] > PLANNED_MEAN:
        laws.append(f"mean of planned over plain: {means[1]:.3f} > {PLANNED_MEAN}")
    means += [mean([row[f"{column}_time"] for row in timed]) for column in COLUMNS[1:]]
    print(f"| geometric mean of {len(whole)} | | | | {' | '.join(f'{value:.3f}' for value in means)} |")
    if options["csv"]:
        names = ["model", "budget", "budget_bytes", "promised_bytes", *[f"{column}_{kind}" for kind in ("bytes", "rest", "time") for column in COLUMNS]]
        with open(options["csv"], "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows({name: f"{cell:.4f}" if isinstance(cell, float) else cell for name, cell in row.items()} for row in rows)
    for law in laws:
        print(f"broken: {law}", file=sys.stderr)
    return 1 if laws else 0


if __name__ == "__main__":
    sys.exit(main())
