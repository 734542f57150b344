"""Plan every model below some folders and print a table: what the file's own order needs, what the plan needs, what is proven.

    python3 benches/models.py [--memc target/release/memc] [--dim MODEL:NAME=N] [--out FOLDER] FOLDER ... [-- OPTIONS OF memc optimize]

Time is CPU seconds of the whole process; memory its largest resident set.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile


def parse(arguments):
    options = {"memc": "target/release/memc", "dims": [], "folders": [], "extra": [], "out": None}
    arguments = list(arguments)
    while arguments:
        word = arguments.pop(0)
        if word == "--memc":
            options["memc"] = arguments.pop(0)
        elif word == "--out":
            options["out"] = arguments.pop(0)
        elif word == "--dim":
            options["dims"].append(arguments.pop(0).split(":", 1))
        elif word == "--":
            options["extra"], arguments = arguments, []
        else:
            options["folders"].append(word)
    return options


def plan(options, path, folder):
    """Run memc on one model; returns its layout and the CPU seconds that it took."""
    name = os.path.basename(path)[: -len(".onnx")]
    out = os.path.join(folder, name)
    dims = [word for model, dim in options["dims"] if model == name for word in ("--dim", dim)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [options["memc"], "optimize", path, "-o", out + ".onnx", "--quiet", *dims, *options["extra"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode != 0:
        return name, None, done.stderr.splitlines()[0] if done.stderr else str(done.returncode)
    with open(out + ".layout.json", encoding="utf-8") as file:
        return name, json.load(file), seconds


def row(name, layout, seconds):
    space = layout["arenas"][0]["space"] if layout["arenas"] else None
    if space is None:
        return f"| {name} | {len(layout['schedule'])} | - | - | - | - | - | - | {seconds:.2f} |"
    bound, peak = layout["lower_bound"][space], layout["peak"][space]["bytes"]
    arena, before = layout["arenas"][0]["size"], layout["baseline"]["own_peak"][space]
    order = "proven" if bound["order_proved"] else f"{peak / bound['order']:.3f} x bound" if bound["order"] else "-"
    place = "proven" if bound["placement_proved"] else f"{arena / bound['placement']:.4f} x bound"
    share = f"{100 * (1 - arena / before):.1f} %" if before else "-"
    return (f"| {name} | {len(layout['schedule'])} | {before:,} | {peak:,} | {arena:,} | {share} | {order} | {place} | {seconds:.2f} |")


def main():
    options = parse(sys.argv[1:])
    models = sorted(os.path.join(root, file) for folder in options["folders"] for root, _, files in os.walk(folder)
                    for file in files if file.endswith(".onnx"))
    print("| model | steps | file order, bytes | peak | arena | saved | order | placement | CPU s |")
    print("|---|--:|--:|--:|--:|--:|---|---|--:|")
    with tempfile.TemporaryDirectory() as scratch:
        for path in models:
            name, layout, seconds = plan(options, path, options["out"] or scratch)
            print(row(name, layout, seconds) if layout else f"| {name} | refused: {seconds} |", flush=True)


if __name__ == "__main__":
    main()
