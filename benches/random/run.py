"""Random models through `memc optimize`, `check` and `verify` under fifteen option sets: no crash, no false success, no peak above the file's order.

    .deps/python/bin/python benches/random/run.py [--memc target/release/memc] [--models 2000 [--first 0] | --seeds 518,602] [--jobs 2]
        [--sets "default,exact"] [--keep FOLDER] [-o FILE.csv]

Prints findings, a line each, then a row an option set; exit code 1 where anything went wrong. `--keep` leaves the models that went wrong in a folder.
A false claim of a file that `verify` finds (`claims`) is no fault: the generator makes some, and the written model is not compared then.
"""
import argparse
import csv
import glob
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import generate

# Options, and whether one of them asks by name for what may raise the peak.
SETS = {
    "default": ([], False),
    "exact": (["--exact"], False),
    "ort": (["--runtime", "ort"], False),
    "player": (["--runtime", "player"], False),
    "io arena": (["--io", "arena"], False),
    "io external": (["--io", "external", "--runtime", "ort", "--std-ops"], False),
    "integer kernels": (["--integer-kernels"], False),
    "blocks of channels": (["--nchwc", "native", "--runtime", "ort"], True),
    "two micro-batches": (["--micro-batches", "2"], True),
    "slowdown 5 %": (["--slowdown", "5%"], False),
    "budget 70 %": (["--budget", "70%", "--link", "host=16GB/s"], False),
    "range": ([], False),
    "range with ort": (["--runtime", "ort"], False),
    "range within budget 70 %": (["--budget", "70%"], False),
    "drawn": ([], True),
}
# Options of the set "drawn", with the share of models that get one of a row.
DRAWN = (
    (0.6, ("--runtime ort", "--runtime player")),
    (0.3, ("--exact",)),
    (0.5, ("--budget 60%", "--budget 85%", "--budget 60% --link host=16GB/s", "--budget 50% --link host=8GB/s --weights host", "--slo 1ms")),
    (0.3, ("--slowdown 5%", "--slowdown 50%")),
    (0.3, ("--io arena", "--io external")),
    (0.2, ("--engines 2", "--engines 3")),
    (0.2, ("--align 1", "--align 16", "--align 4096")),
    (0.2, ("--integer-kernels", "--nchwc native", "--micro-batches 2")),
    (0.2, ("--lossy f16", "--lossy int8", "--lossy inverse", "--encode off", "--encode-weights int8")),
    (0.2, ("--no-rewrite", "--std-ops", "--max-fold-bytes 0", "--max-value 1KiB", "--effort fast", "--anchors")),
)
# Exit codes of refusals: options that exclude each other, and plans that do not exist.
REFUSALS = (2, 3)
# Sets of this name leave free dimensions free, up to this extent; models without one are left out of them.
RANGE, MOST = "range", 5
# How many of the sets are played: each run makes a session for every node.
PLAYED = 3
SECONDS = 120
COLUMNS = ("models", "planned", "refused", "claims", "crashed", "unchecked", "different", "worse")
# Kinds of findings that are no faults.
SOUND = ("planned", "refused", "claims")


def drawn(seed, extents):
    """Options of a model for the set "drawn", and whether its free dimensions stay free."""
    draw = random.Random(seed)
    words = [draw.choice(row) for share, row in DRAWN if draw.random() < share]
    return " ".join(words).split(), bool(extents) and draw.random() < 0.5


def library():
    """The ONNX Runtime library of this Python, which the player loads."""
    folder = importlib.util.find_spec("onnxruntime").submodule_search_locations[0]
    return next(iter(glob.glob(os.path.join(folder, "capi", "libonnxruntime.so.*"))), "")


def call(memc, *words):
    try:
        done = subprocess.run([memc, *words], capture_output=True, text=True, check=False, timeout=SECONDS, errors="replace")
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return "timeout", ""


def first(said):
    """The line that says what is wrong."""
    lines = said.strip().split("\n")
    return next((line for line in lines if line.startswith("error")), lines[0])[:200]


def loads(path):
    """Whether ONNX Runtime loads a model: what it refuses is no fair question."""
    code = "import onnxruntime as o,sys;o.set_default_logger_severity(4);o.InferenceSession(sys.argv[1],providers=['CPUExecutionProvider'])"
    return subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=False).returncode == 0


def is_raised(layout):
    """Whether a plan needs more than the file's own order does."""
    before = layout["baseline"]["own_peak"]
    return any(peak["bytes"] > before[space] for space, peak in layout["peak"].items() if space in before)


def verdict(code, said):
    """The kind of finding that a failure of `verify` is."""
    # A model that runs at its own extents may fail at others.
    if first(said).startswith("error[E0706]"):
        return "claims"
    if code != 1:
        return "crashed"
    return "claims" if first(said).startswith("error[E0712]") else "different"


def one(memc, sets, seed, keep):
    """What went wrong with one model: rows of (set, kind, words)."""
    model, extents = generate.model(seed)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "given.onnx")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        if not loads(path):
            return None
        played = set(random.Random(seed).sample(sorted(sets), min(PLAYED, len(sets))))
        for name in sets:
            is_range = name.startswith(RANGE)
            if is_range and not extents:
                continue
            options, is_named = SETS[name]
            if name == "drawn":
                options, is_range = drawn(seed, extents)
            extent = (lambda own: f"1..{MOST}") if is_range else str
            dims = [word for symbol, own in extents.items() for word in ("--dim", f"{symbol}={extent(own)}")]
            out, plan = os.path.join(folder, "out.onnx"), os.path.join(folder, "out.layout.json")
            code, said = call(memc, "optimize", path, "-o", out, *dims, *options)
            if code != 0:
                is_refused = code == 3 and "budget" in name or is_range and "E0123" in said or name == "drawn" and code in REFUSALS
                kind = "refused" if is_refused else "crashed"
                found.append((name, kind, f"{' '.join(options)}: {first(said)}"))
                continue
            found.append((name, "planned", ""))
            with open(plan, encoding="utf-8") as file:
                layout = json.load(file)
            if is_raised(layout) and not (is_named and "raises the peak" in said):
                found.append((name, "worse", f"{layout['baseline']['own_peak']} -> {layout['peak']}"))
            code, said = call(memc, "check", path, out, plan)
            # 4: nothing is wrong, but not all is proven; the comparison of runs follows.
            if code not in (0, 4):
                found.append((name, "unchecked", first(said)))
            if name in played or is_range or name == "drawn":
                code, said = call(memc, "verify", path, out, "--layout", plan)
                if code != 0:
                    found.append((name, verdict(code, said), first(said)))
        if keep and any(kind not in SOUND for _, kind, _ in found):
            os.makedirs(keep, exist_ok=True)
            os.replace(path, os.path.join(keep, f"{seed}.onnx"))
    return found


def judged(options, pool):
    """Seeds with their findings: the seeds that are named, else as many of those from the first on as are asked for and load."""
    def findings(seeds):
        pairs = zip(seeds, pool.map(lambda seed: one(options.memc, options.sets, seed, options.keep), seeds))
        return ((seed, found) for seed, found in pairs if found is not None)

    if options.seeds:
        yield from findings(options.seeds)
        return
    done, first = 0, options.first
    while done < options.models:
        seeds = range(first, first + options.models - done)
        for pair in findings(seeds):
            done += 1
            yield pair
        first = seeds.stop


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memc", default="target/release/memc")
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")])
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(SETS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep")
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    os.environ.setdefault("ORT_DYLIB_PATH", library())
    rows = {name: Counter() for name in options.sets}
    with ThreadPoolExecutor(options.jobs) as pool:
        for number, found in judged(options, pool):
            for name in rows:
                rows[name]["models"] += 1
            for name, kind, said in found:
                rows[name][kind] += 1
                if kind not in ("planned", "refused"):
                    print(f"{number}, {name}: {kind}: {said}", flush=True)
    table = [("options", *COLUMNS)] + [(name, *(row[column] for column in COLUMNS)) for name, row in rows.items()]
    for row in table:
        print(",".join(str(cell) for cell in row))
    if options.output:
        with open(options.output, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(table)
    return 1 if any(row[kind] for row in rows.values() for kind in COLUMNS if kind not in ("models", *SOUND)) else 0


if __name__ == "__main__":
    sys.exit(main())
