"""Compare choices of a plan: by modelled times alone, by `memc tune`, and by measuring every candidate.

    python3 benches/tune.py [--memc target/release/memc] [--csv FILE] MODEL...
"""
import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

# A time that every plan keeps: `memc tune` then measures all candidates and drops none.
ANY_TIME = "100s"


def tuned(memc, model, folder, *options):
    """Runs `memc tune`; returns its table."""
    out = pathlib.Path(folder) / "out.onnx"
    command = [memc, "--quiet", "tune", model, "-o", out, "--force", "--runtime", "ort", *options]
    subprocess.run([str(word) for word in command], check=True)
    return json.loads(out.with_suffix(".tune.json").read_text())


def compared(memc, model, folder):
    """Returns the row of a model: how much longer than the fastest measured candidate each choice takes."""
    whole, raced = tuned(memc, model, folder, "--slo", ANY_TIME), tuned(memc, model, folder)
    rows = [row for row in whole["candidates"] if row["cpu_ns"]]
    nanos = {row["output_sha256"]: row["cpu_ns"]["median"] for row in rows}
    least = min(nanos.values())
    fastest = min(rows, key=lambda row: (row["modelled_ns"], row["arena"]))
    chosen = next(row for row in raced["candidates"] if row["state"] == "chosen")
    ratio = {name: f"{nanos[row['output_sha256']] / least:.3f}" for name, row in (("model", fastest), ("tune", chosen))}
    return [pathlib.Path(model).stem, len(rows), round(least), ratio["model"], ratio["tune"], whole["runs"], raced["runs"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--memc", default="target/release/memc")
    parser.add_argument("--csv")
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open(options.csv or "/dev/stdout", "w", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["model", "candidates", "fastest_cpu_ns", "modelled_choice", "tune_choice", "runs_of_all", "runs_of_tune"])
        for model in options.models:
            table.writerow(compared(options.memc, model, folder))
            file.flush()


if __name__ == "__main__":
    sys.exit(main())
