"""Measures a Python wheel in a fresh environment: size, installation, planning of 2 GiB of weights by path, and the
processor time of the module beside the command's. Example:

    python3 benches/wheel.py --packages .deps/python/bin/python target/wheel/built/memc-*.whl examples/models/*.onnx
"""

import argparse
import csv
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

# The tests have the model with weights of gigabytes.
TESTS = pathlib.Path(__file__).resolve().parents[1] / "python/tests"

PLAN = """
import json, resource, sys, time
import memc
began = time.perf_counter()
memc.optimize(sys.argv[1], sys.argv[2], **json.loads(sys.argv[3]))
print(json.dumps([time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
"""

MADE = "import sys; sys.path.insert(0, sys.argv[1]); from models import with_weights; with_weights(sys.argv[2], 32, 4096, 4096)"


def timed(command):
    """Runs a command. Returns the seconds that it took, and its output."""
    began = time.perf_counter()
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    return time.perf_counter() - began, done.stdout


def processor(command):
    """Runs a command. Returns the processor time that it took, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    timed(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("models", nargs="*", type=pathlib.Path, help="models whose planning is timed")
    parser.add_argument("--packages", default=sys.executable, help="Python with the package onnx")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--csv", type=pathlib.Path)
    options = parser.parse_args()
    rows = [("wheel, bytes", options.wheel.stat().st_size)]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        subprocess.run([sys.executable, "-m", "venv", folder / "fresh"], check=True)
        python, memc = folder / "fresh/bin/python", folder / "fresh/bin/memc"
        rows.append(("installation, s", timed([python, "-m", "pip", "install", "--quiet", options.wheel])[0]))
        rows.append(("installed, bytes", sum(f.stat().st_size for f in folder.glob("fresh/lib/*/site-packages/memc/**/*") if f.is_file())))
        subprocess.run([options.packages, "-c", MADE, TESTS, folder], check=True)
        dims = json.dumps({"dims": {"batch": 8}, "exact": True})
        runs = [json.loads(timed([python, "-c", PLAN, folder / "chain.onnx", folder / "out.onnx", dims])[1]) for _ in range(3)]
        rows.append(("2 GiB of weights: memc.optimize, s", min(seconds for seconds, _ in runs)))
        rows.append(("2 GiB of weights: peak memory of the process, bytes", max(peak for _, peak in runs)))
        for model in options.models:
            target = folder / "out.onnx"
            words = [memc, "-q", "optimize", model, "-o", target], [python, "-c", PLAN, model, target, "{}"]
            # In turn, and the least of all rounds: other processes only add time.
            rounds = [[processor(command) for command in words] for _ in range(options.rounds)]
            command, module = (min(times) for times in zip(*rounds))
            rows += [(f"{model.stem}: command, processor s", command), (f"{model.stem}: module, processor s", module)]
            rows.append((f"{model.stem}: module over command", module / command))
    rows = [(name, value if isinstance(value, int) else round(value, 3)) for name, value in rows]
    for name, value in rows:
        print(f"{value:>14,}  {name}")
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator=os.linesep).writerows([("measure", "value"), *rows])


if __name__ == "__main__":
    main()
