"""What starting and playing a plan take beside a whole session without optimization, one row a model, and the geometric mean.

    cargo build --release -p memc-ort --example pace
    .deps/python/bin/python benches/pace.py [--memc target/release/memc] [--pace target/release/examples/pace] [--dim MODEL:NAME=N] [--repeat N]
        [--max-mb N] [--only NAME] FOLDER ...

Plans are for `--runtime player --exact`. Processor times of all threads, and times that pass, in turns in one process.
"""
import math
import os
import subprocess
import tempfile

from corpus import chosen, place
from options import add_choice, add_dims, name_of, parse, parser


def row(path, options):
    """The cells of a model's row, or why there is none."""
    name = name_of(path)
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
    made = parser(__doc__)
    add_dims(made)
    add_choice(made, max_mb=1000.0)
    made.add_argument("--pace", default="target/release/examples/pace", help="the example that measures")
    made.add_argument("--repeat", default="3", metavar="N")
    options = parse(made)
    print(subprocess.run([options["pace"], "-"], capture_output=True, text=True, check=True).stdout, end="")
    ready, waited, runs = [], [], []
    for path in chosen(options):
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
