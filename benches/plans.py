"""Plan every model under a table of options and write one row a model and option set: bytes, bounds, modelled time, CPU seconds.

    .deps/python/bin/python benches/plans.py [--memc target/release/memc] [--commit NAME] [--csv benches/results/plans.csv] [--seconds 120]
        [--dim MODEL:NAME=N] [--only NAME] FOLDER|MODEL ...

Weights are not needed, except by `--nchwc`, which lays filters out anew: missing ones are made (seeded) in the folder for temporary files.
Every column except `cpu_seconds` depends only on the model and on memc. Columns: `before`, `arena`, `bound`, `budget`, `smallest` in bytes;
`bound` is the lower bound of the peak over all orders of the planned nodes; `optimal` says that order and placement are both proven;
`time_percent` is the change of the modelled time, and `time_bound_percent` the least change that the budget allows without splitting;
`refused` is the error code or `timeout`, and `smallest` the smallest arena that the refusal names.
"""
import csv
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile

import onnx

from corpus import extents, place
from options import add_dims, name_of, parse, parser

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results", "plans.csv")
BLOCKED = "--runtime ort --nchwc 16"
OPTION_SETS = ["", "--budget 75%", "--budget 50%", "--runtime ort", "--slowdown 1%", BLOCKED]
COLUMNS = ["model", "options", "budget", "before", "arena", "bound", "optimal", "time_percent", "time_bound_percent", "nodes",
           "cpu_seconds", "refused", "smallest", "version"]
# Networks with fewer convolutions are transformers with a convolution in front (1 or 2 in the corpus); the smallest AlexNet has 5.
MIN_CONVOLUTIONS = 5


def is_convolutional(path):
    """Whether a model is an inference network of convolutions; a training step returns at least one gradient a convolution."""
    graph = onnx.load(path, load_external_data=False).graph
    count = sum(node.op_type == "Conv" for node in graph.node)
    return count >= MIN_CONVOLUTIONS and len(graph.output) < count


def run(command, limit):
    """Exit code, lines of stderr, CPU seconds; the limit is in CPU seconds, so that other work on the machine changes no row."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1)))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.returncode, done.stderr.splitlines(), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def number(pattern, text):
    """Bytes that a message names, without separators; empty if it names none."""
    found = re.search(pattern, text)
    return int(found[1].replace(",", "")) if found else ""


def refusal(code, told):
    """Columns of a row without a plan."""
    message = told[0] if told else ""
    found = re.match(r"error\[(\w+)\]", message)
    return {"refused": "timeout" if code == -signal.SIGXCPU else found[1] if found else f"exit {code}",
            "budget": number(r"budget of ([\d,]+) B", message),
            "smallest": number(r"smallest plan found(?:, which splits some,)? needs ([\d,]+) B", message)}


def percent(part):
    return f"{100 * part:.2f}"


def planned(layout):
    """Columns of a row with a plan; the first space is the one that is planned."""
    space = layout["target"]["spaces"][0]["name"]
    cost, bound = layout["cost"], layout["lower_bound"].get(space, {})
    least = cost["overhead_lower_bound"]
    return {"budget": (layout.get("budget") or {}).get(space, ""),
            "before": layout["baseline"]["own_peak"].get(space, 0),
            "arena": next((arena["size"] for arena in layout["arenas"] if arena["space"] == space), 0),
            "bound": bound.get("order", ""),
            "optimal": "yes" if bound.get("order_proved") and bound.get("placement_proved") else "no",
            "time_percent": percent(cost["modelled_ns_after"] / cost["modelled_ns_before"] - 1),
            "time_bound_percent": "" if least is None else percent(least),
            "nodes": cost["nodes_after"]}


def row(options, path, option_set, version):
    """Plan one model under one option set; returns the row."""
    name = name_of(path)
    dims = [word for extent in extents(path, [dim for model, dim in options["dims"] if model == name]).items()
            for word in ("--dim", f"{extent[0]}={extent[1]}")]
    with tempfile.TemporaryDirectory() as folder:
        given = place(path, folder, f"{name}.onnx") if option_set == BLOCKED else path
        out = os.path.join(folder, "out")
        words = [*option_set.split(), *dims, *options["extra"]]
        code, told, seconds = run([options["memc"], "-q", "optimize", given, "-o", out + ".onnx", *words], options["seconds"])
        found = {"model": name, "options": option_set or "default", "cpu_seconds": f"{seconds:.2f}", "version": version}
        if code != 0:
            return {**found, **refusal(code, told)}
        with open(out + ".layout.json", encoding="utf-8") as file:
            return {**found, **planned(json.load(file))}


def write(rows, path):
    """Write the table, sorted by model and options."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: (row["model"], row["options"])))


def main():
    made = parser(__doc__)
    add_dims(made)
    made.add_argument("--only", action="append", default=[], metavar="NAME", help="only the models of these names")
    made.add_argument("--csv", default=RESULTS, metavar="FILE", help="where the table goes")
    made.add_argument("--commit", default="", metavar="NAME", help="commit that the binary was built from, for the column `version`")
    made.add_argument("--seconds", type=int, default=120, metavar="N", help="limit of a row, in CPU seconds")
    options = parse(made)
    told = subprocess.run([options["memc"], "--version"], capture_output=True, text=True, check=True).stdout.split()
    version = " ".join([told[-1], options["commit"]]).strip()
    rows = []
    for path in options["models"]:
        if options["only"] and name_of(path) not in options["only"]:
            continue
        for option_set in OPTION_SETS if is_convolutional(path) else [set for set in OPTION_SETS if set != BLOCKED]:
            rows.append(row(options, path, option_set, version))
            print(" ".join(f"{column}={rows[-1].get(column, '')}" for column in COLUMNS[:-1]), file=sys.stderr, flush=True)
            write(rows, options["csv"])


if __name__ == "__main__":
    main()
