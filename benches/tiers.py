"""Plan models whose weights lie in a farther space, and training steps whose state is updated in place; print a table of each.

    .deps/python/bin/python benches/tiers.py [--memc target/release/memc] [--near 30MiB] [--link host=4GB/s] [--state] MODEL.onnx ...

Without `--state`: weights in the link's space, the near one limited; the plan is played and compared. With it: the arena and what the caller holds beside it,
before and after. Plans are for `--runtime player --exact`.
"""
import json
import os
import subprocess
import tempfile

from corpus import place
from options import name_of, parse, parser


def memc(options, *words):
    done = subprocess.run([options["memc"], *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def plan(options, given, out, *words):
    """The layout, or why there is none."""
    code, _, told = memc(options, "optimize", given, "-o", out, "--quiet", "--runtime", "player", "--exact", *words)
    if code:
        return None, told.splitlines()[0]
    with open(out[:-5] + ".layout.json", encoding="utf-8") as file:
        return json.load(file), ""


def fetched(options, given, out):
    space = options["link"].split("=")[0]
    found, why = plan(options, given, out, "--link", options["link"], "--weights", space, "--budget", options["near"])
    if found is None:
        return why
    moved = sum(row["bytes"] for row in found["fetches"])
    far = sum({row["tensor"]: row["bytes"] for row in found["fetches"]}.values())
    arena, cost = found["arenas"][0]["size"], found["cost"]
    extra = 100 * (cost["modelled_ns_after"] / cost["modelled_ns_before"] - 1)
    code, _, told = memc(options, "verify", given, out, "-n", "1")
    bits = "same" if code == 0 and "bit for bit" in told else "DIFFERENT"
    code, text, _ = memc(options, "-q", "run", out, "--layout", out[:-5] + ".layout.json", "--json")
    used = json.loads(text)["arenas"][0]["used"] if code == 0 else "?"
    return (f"{found['weights']:,} | {found['weights'] - far:,} | {arena:,} | {used:,} | {moved:,} in {len(found['fetches'])} | "
            f"{extra:+.1f} % | {bits}")


def shared(options, given, out):
    rows = []
    for words in ([], ["--alias-state"]):
        found, why = plan(options, given, out, *words)
        if found is None:
            return why
        updates = {row["result"] for row in found.get("state", [])}
        held = [t for t in found["tensors"] if t["offset"] is None and "alias" not in t and t["class"] != "transient"]
        caller = sum(t["bytes"] for t in held if t["name"] not in updates)
        rows.append((found["arenas"][0]["size"], caller, len(updates)))
    (before, held, _), (after, rest, pairs) = rows
    code, _, told = memc(options, "verify", given, out, "-n", "1")
    bits = "same" if code == 0 and "bit for bit" in told else "not run" if "E07" in told and "differ" not in told else "DIFFERENT"
    saved = 100 * (1 - (after + rest) / (before + held))
    return f"{pairs} | {before:,} | {held:,} | {after:,} | {rest:,} | {saved:.0f} % | {bits}"


def main():
    made = parser(__doc__)
    made.add_argument("--near", default="30MiB", metavar="SIZE")
    made.add_argument("--link", default="host=4GB/s")
    made.add_argument("--state", action="store_true", help="what sharing of state saves, instead")
    options = parse(made)
    if options["state"]:
        print("| model | values | arena | caller's | arena, shared | caller's, shared | less in all | bits |")
        print("|---|--:|--:|--:|--:|--:|--:|---|")
    else:
        print("| model | weights | near | arena | used | fetched | time | bits |")
        print("|---|--:|--:|--:|--:|--:|--:|---|")
    for path in options["models"]:
        with tempfile.TemporaryDirectory() as folder:
            given, out = place(path, folder), os.path.join(folder, "out.onnx")
            row = shared(options, given, out) if options["state"] else fetched(options, given, out)
        print(f"| {name_of(path)} | {row} |", flush=True)


if __name__ == "__main__":
    main()
