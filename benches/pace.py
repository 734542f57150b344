"""What starting and playing a plan take beside a whole session without optimization, one row a model, and the geometric mean.

    cargo build --release -p memc-ort --example pace
    .deps/python/bin/python benches/pace.py [--memc target/release/memc] [--pace target/release/examples/pace] [--dim MODEL:NAME=N] [--repeat N]
        [--max-mb N] [--only NAME] FOLDER ...

Plans are for `--runtime player --exact`. Processor times of all threads, and times that pass, in turns in one process.
"""
import math
import os
import subprocess
import sys
import tempfile

from corpus import external_bytes, model_files, place


def row(path, options):
    """The cells of a model's row, or why there is none."""
    name = os.path.basename(path)[: -len(".onnx")]
    dims = [word for model, dim in options["dims"] if model == name for word in ("--dim", dim)]
    with tempfile.TemporaryDirectory() as folder:
        given, out = place(path, folder, f"{name}.onnx"), os.path.join(folder, "out.onnx")
        for command in ([options["memc"], "-q", "optimize", given, "-o", out, "--runtime", "player", "--exact", *dims],
                        [options["pace"], given, out, os.path.join(folder, "out.layout.json"), options["repeat"]]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                return name, (done.stderr.splitlines() or ["killed"])[0]
    return name, done.stdout.strip()


def main():
    options = {"memc": "target/release/memc", "pace": "target/release/examples/pace", "repeat": "3", "dims": [], "mb": 1000.0, "only": []}
    folders, arguments = [], sys.argv[1:]
    while arguments:
        word = arguments.pop(0)
        if word in ("--memc", "--pace", "--repeat"):
            options[word[2:]] = arguments.pop(0)
        elif word == "--dim":
            options["dims"].append(arguments.pop(0).split(":", 1))
        elif word == "--max-mb":
            options["mb"] = float(arguments.pop(0))
        elif word == "--only":
            options["only"].append(arguments.pop(0))
        else:
            folders.append(word)
    print(subprocess.run([options["pace"], "-"], capture_output=True, text=True, check=True).stdout, end="")
    ready, waited, runs = [], [], []
    for path in model_files(folders):
        if options["only"] and os.path.basename(path)[: -len(".onnx")] not in options["only"] or external_bytes(path) > options["mb"] * 1e6:
            continue
        name, text = row(path, options)
        print(text if text.startswith("|") else f"| {name} | {text} | | | | | | | | | | |", flush=True)
        if text.startswith("|"):
            cells = text.strip("| ").split(" | ")
            for column, list_of in ((4, ready), (7, waited), (11, runs)):
                list_of.append(float(cells[column]))
    mean = lambda ratios: math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))
    means = f"ready {mean(ready):.3f} (processor), {mean(waited):.3f} (elapsed), run {mean(runs):.3f}"
    print(f"geometric means of player / session over {len(runs)} models: {means}")


if __name__ == "__main__":
    main()
