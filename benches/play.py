"""Play the plans of models on ONNX Runtime's kernels: compare the bits, and say what the player took.

    .deps/python/bin/python benches/play.py [--memc target/release/memc] [--dim MODEL:NAME=N] [--max-mb N] [--only NAME] [--repeat N] FOLDER ...

Plans are for `--runtime player --exact`. External weights that do not lie beside a model are made (seeded), in the folder for temporary files.
*Caller*: inputs and outputs that no arena holds, each once. *Beside*: the most anonymous memory of the process from its start to its end, looked at
every two milliseconds from outside, less weights and arena (workspace is in it); and less what is the caller's.
"""
import json
import os
import subprocess
import tempfile
import time

from corpus import chosen, place
from options import add_choice, add_dims, name_of, parse, parser


def memc(options, *words):
    done = subprocess.run([options["memc"], *words], capture_output=True, text=True, check=False, env=dict(os.environ))
    return done.returncode, done.stdout, done.stderr.strip()


def anonymous(process):
    """Bytes of a process that no file backs; 0 once it is gone."""
    try:
        with open(f"/proc/{process}/status", encoding="utf-8") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon:")), 0)
    except OSError:
        return 0


def watched(options, *words):
    """What a run prints, and the most anonymous memory that it was seen with."""
    with tempfile.TemporaryFile("w+") as out, subprocess.Popen([options["memc"], *words], stdout=out, stderr=subprocess.DEVNULL) as run:
        most = 0
        while run.poll() is None:
            most = max(most, anonymous(run.pid))
            time.sleep(0.002)
        out.seek(0)
        return run.returncode, out.read(), most


def one(path, options):
    name = name_of(path)
    dims = [word for model, dim in options["dims"] if model == name for word in ("--dim", dim)]
    with tempfile.TemporaryDirectory() as folder:
        given, out = place(path, folder), os.path.join(folder, "out.onnx")
        layout = os.path.join(folder, "out.layout.json")
        code, _, told = memc(options, "-q", "optimize", given, "-o", out, "--runtime", "player", "--exact", *dims)
        if code:
            return f"| {name} | not planned: {told.splitlines()[0]} | | | | | | | |"
        code, _, told = memc(options, "verify", given, out, "-n", "1")
        words = told.splitlines()
        bits = "same bits" if code == 0 and "bit for bit" in words[-1] else next((w for w in words if w.startswith("error")), words[-1])
        code, text, most = watched(options, "-q", "run", out, "--layout", layout, "--json", "--repeat", options["repeat"])
        if code:
            return f"| {name} | {bits} | | | | | | | |"
        played = json.loads(text)
        with open(layout, encoding="utf-8") as file:
            plan = json.load(file)
    planned, used = (sum(arena[key] for arena in played["arenas"]) for key in ("planned", "used"))
    scratch = [tensor["bytes"] for tensor in plan["tensors"] if tensor["class"] == "scratch"]
    taken = [row["planned"] + row["beyond"] for row in played["workspace"]]
    caller = played["caller_bytes"]
    beside = most - planned - plan["weights"]
    cells = [name, bits, f"{planned:,}", "all" if planned == used else f"{used:,}", f"{played['bytes_outside']:,}"]
    cells += [f"{max(scratch, default=0):,}", f"{max(taken, default=0):,}", f"{played['workspace_beyond']:,}"]
    cells += [f"{size / 2**20:.0f}" for size in (caller, beside, beside - caller)]
    return f"| {' | '.join(cells)} |"


def main():
    made = parser(__doc__)
    add_dims(made)
    add_choice(made, max_mb=1000.0)
    made.add_argument("--repeat", default="3", metavar="N")
    options = parse(made)
    print("| model | outputs | arena, bytes | used | outside | workspace planned, most | taken, most | beyond | caller, MiB | beside, MiB | without the caller's |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for path in chosen(options):
        print(one(path, options), flush=True)


if __name__ == "__main__":
    main()
