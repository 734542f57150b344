"""Plan every model below some folders and print a table: what the file's own order needs, what the plan needs, what is proven.

    python3 benches/models.py [--memc target/release/memc] [--dim MODEL:NAME=N] [--out FOLDER] FOLDER ... [-- OPTIONS OF memc optimize]

Time is CPU seconds of the whole process; memory its largest resident set.
"""
import json
import os
import resource
import subprocess
import tempfile

from options import add_dims, name_of, parse, parser


def plan(options, path, folder):
    """Run memc on one model; returns its layout and the CPU seconds that it took."""
    name = name_of(path)
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
    made = parser(__doc__)
    add_dims(made)
    made.add_argument("--out", metavar="FOLDER", help="where plans are kept")
    options = parse(made)
    print("| model | steps | file order, bytes | peak | arena | saved | order | placement | CPU s |")
    print("|---|--:|--:|--:|--:|--:|---|---|--:|")
    with tempfile.TemporaryDirectory() as scratch:
        for path in options["models"]:
            name, layout, seconds = plan(options, path, options["out"] or scratch)
            print(row(name, layout, seconds) if layout else f"| {name} | refused: {seconds} |", flush=True)


if __name__ == "__main__":
    main()
