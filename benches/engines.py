"""Plan models for one engine and for several: arenas, modelled times, waits.

    python3 benches/engines.py [--memc target/release/memc] [--engines N] [--csv FILE] MODEL...
"""
import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile


def planned(memc, model, engines, folder):
    """Plans a model; returns the row of the table."""
    out = pathlib.Path(folder) / "out.onnx"
    command = [memc, "--quiet", "optimize", model, "-o", out, "--force", "--weights-in-place", "--engines", engines]
    subprocess.run([str(word) for word in command], check=True)
    layout = json.loads(out.with_suffix(".layout.json").read_text())
    time = round(layout["cost"]["modelled_ns_after"])
    return [pathlib.Path(model).stem, engines, layout["arenas"][0]["size"], time, len(layout.get("sync", []))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--memc", default="target/release/memc")
    parser.add_argument("--engines", type=int, default=2)
    parser.add_argument("--csv")
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open(options.csv or "/dev/stdout", "w", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["model", "engines", "arena", "modelled_ns", "waits"])
        for model in options.models:
            for engines in (1, options.engines):
                table.writerow(planned(options.memc, model, engines, folder))
                file.flush()


if __name__ == "__main__":
    sys.exit(main())
