"""Time of memc's models in stock ONNX Runtime without optimizations beside that of the given ones with them.

    .deps/python/bin/python benches/latency.py [--memc target/release/memc] [--dim MODEL:NAME=N] [--max-mb N] [--rounds N]
        [--level extended|all ...] [--operators] [--csv] FOLDER|MODEL ... [-- OPTIONS OF memc optimize]

`memc optimize --runtime ort`, with the options given; one thread, all sessions in one process, a run of each in turn: processor milliseconds (medians), the median of
the ratios of memc's runs to neighbouring ones of the given model at each level, and the quartiles of the ratios. `extended` is all that does
not depend on the processor; `all` (the default) is that and kernels in blocks of channels, laid out for the processor at hand. The last lines
are geometric means of the medians. With --operators, also the time by operator, against the last level. External weights that are missing
are made (seeded). With --csv, rows of `results/others.csv` are replaced.
"""
import collections
import json
import math
import os
import statistics
import subprocess
import tempfile
import time

import others
from corpus import chosen, extents, feeds, place, session_options
from options import add_choice, add_dims, name_of, parse, parser

LEVELS = {"basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL"}


def open_session(path, level, folder=None):
    import onnxruntime
    options = session_options(level)
    if folder:
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(folder, level)
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def timed(session, inputs):
    begin = time.process_time()
    session.run(None, inputs)
    return time.process_time() - begin


def compare(given, ours, levels, sizes, rounds):
    """Processor seconds of memc's model and of the given one at each level, in each round; the first round is not counted."""
    sessions = [open_session(ours, "ORT_DISABLE_ALL"), *(open_session(given, LEVELS[level]) for level in levels)]
    inputs = feeds(sessions[0], sizes)
    times = []
    for number in range(rounds + 1):
        # Each goes first as often as the others.
        order = [(number + place) % len(sessions) for place in range(len(sessions))]
        found = {which: timed(sessions[which], inputs) for which in order}
        if number:
            times.append([found[which] for which in range(len(sessions))])
    return times


def by_operator(path, level, sizes, rounds, folder):
    """Milliseconds of a run by operator, as the runtime's own profile says."""
    session = open_session(path, level, folder)
    inputs = feeds(session, sizes)
    for _ in range(rounds):
        session.run(None, inputs)
    with open(session.end_profiling(), encoding="utf-8") as file:
        events = json.load(file)
    found = collections.defaultdict(lambda: [0, 0.0])
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            entry = found[event["args"]["op_name"]]
            entry[0] += 1
            entry[1] += event["dur"] / 1000
    return {name: (count // rounds, total / rounds) for name, (count, total) in found.items()}


def table(given, ours, level, sizes, rounds, folder):
    left, right = by_operator(given, LEVELS[level], sizes, rounds, folder), by_operator(ours, "ORT_DISABLE_ALL", sizes, rounds, folder)
    none = (0, 0.0)
    gap = lambda name: right.get(name, none)[1] - left.get(name, none)[1]
    for name in sorted({*left, *right}, key=lambda name: -abs(gap(name)))[:12]:
        a, b = left.get(name, none), right.get(name, none)
        print(f"    {name}: given {a[0]} in {a[1]:.2f} ms, memc {b[0]} in {b[1]:.2f} ms, {gap(name):+.2f} ms")


def table_rows(name, times, options):
    """Rows of `results/others.csv` of one model: memc's, and one a level of the given model."""
    found = {"topic": "sessions", "subject": name, "setting": " ".join(options["extra"]) or "any processor"}
    median = lambda values: statistics.median(list(values))
    yield {**found, "tool": "memc", "milliseconds": f"{1000 * median(row[0] for row in times):.2f}", "source": "benches/latency.py; memc"}
    for number, level in enumerate(options["levels"], 1):
        yield {**found, "tool": f"ORT {level}", "milliseconds": f"{1000 * median(row[number] for row in times):.2f}",
               "ratio": f"{median(row[0] / row[number] for row in times):.3f}",
               "source": f"benches/latency.py; {others.version('onnxruntime')}"}


def one(path, options, scratch):
    name = name_of(path)
    sizes = extents(path, [dim for model, dim in options["dims"] if model == name])
    beside = os.path.dirname(os.path.abspath(path))
    with tempfile.TemporaryDirectory(dir=beside if os.access(beside, os.W_OK) else scratch) as folder:
        given, ours = place(path, folder), os.path.join(folder, "ours.onnx")
        words = [word for dim, size in sorted(sizes.items()) for word in ("--dim", f"{dim}={size}")]
        subprocess.run([options["memc"], "-q", "optimize", given, "-o", ours, "--runtime", "ort", *words, *options["extra"]], check=True)
        times = compare(given, ours, options["levels"], sizes, options["rounds"])
        medians, cells = [], [name, f"{statistics.median(row[0] for row in times) * 1000:.2f}"]
        for level in range(1, len(times[0])):
            ratios = [row[0] / row[level] for row in times]
            low, middle, high = statistics.quantiles(ratios, n=4)
            medians.append(middle)
            cells += [f"{statistics.median(row[level] for row in times) * 1000:.2f}", f"{middle:.3f}", f"{low:.3f} to {high:.3f}"]
        print(f"| {' | '.join(cells)} |", flush=True)
        if options["csv"]:
            others.replace(table_rows(name, times, options))
        if options["operators"]:
            table(given, ours, options["levels"][-1], sizes, min(options["rounds"], 5), folder)
    return medians


def main():
    made = parser(__doc__)
    add_dims(made)
    add_choice(made, max_mb=1300.0)
    made.add_argument("--rounds", type=int, default=11, metavar="N")
    made.add_argument("--level", dest="levels", action="append", default=[], help="of the session that runs the given model")
    made.add_argument("--operators", action="store_true", help="time by operator, too")
    made.add_argument("--csv", action="store_true", help="replace rows of results/others.csv")
    options = parse(made)
    options["levels"] = options["levels"] or ["all"]
    heads = "".join(f" given, {level}, ms | ratio | quartiles |" for level in options["levels"])
    print(f"| model | memc, ms |{heads}\n|---|--:|" + "--:|--:|--:|" * len(options["levels"]), flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        rows = [one(path, options, scratch) for path in chosen(options)]
    for level, ratios in zip(options["levels"], zip(*rows)):
        print(f"\n{level}: geometric mean of {len(ratios)}: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}")


if __name__ == "__main__":
    main()
