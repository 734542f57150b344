"""Plan models within parts of what they need freely and print a table: is the budget kept, at which time, how far from the bound.

    python3 benches/budget.py [--memc target/release/memc] [--parts 50,25] [--whole order|free] MODEL.onnx|FOLDER ... [-- OPTIONS OF memc optimize]

The whole is the arena of the plan that has no budget and changes nothing but the order (`--no-rewrite`), or with `--whole free` of the one that may
rewrite, too. Extra time is modelled, against the plan that may rewrite; the bound is the least extra time of any plan that the search could prove.
Time is CPU seconds of the whole process.
"""
import json
import os
import resource
import subprocess
import tempfile

from options import name_of, parse, parser


def plan(options, path, folder, *limit):
    """Run memc; returns the layout or the first line of the refusal, and the CPU seconds."""
    out = os.path.join(folder, "out")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [options["memc"], "optimize", path, "-o", out + ".onnx", "--quiet", *limit, *options["extra"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode != 0:
        return None, (done.stderr.splitlines() or [str(done.returncode)])[0], seconds
    with open(out + ".layout.json", encoding="utf-8") as file:
        return json.load(file), "", seconds


def main():
    made = parser(__doc__)
    made.add_argument("--parts", default=[50, 25], metavar="50,25", type=lambda text: [int(part) for part in text.split(",")])
    made.add_argument("--whole", default="order", choices=["order", "free"])
    options = parse(made)
    print("| model | budget | part | kept | arena | copies | extra time | bound | CPU s |")
    print("|---|--:|--:|---|--:|--:|--:|--:|--:|")
    extras = {part: [] for part in options["parts"]}
    refused = {part: 0 for part in options["parts"]}
    with tempfile.TemporaryDirectory() as folder:
        for path in options["models"]:
            name = name_of(path)
            free, why, _ = plan(options, path, folder)
            ordered = plan(options, path, folder, "--no-rewrite")[0] if options["whole"] == "order" else free
            if free is None or ordered is None:
                print(f"| {name} | refused: {why} |", flush=True)
                continue
            whole, time = ordered["arenas"][0]["size"], free["cost"]["modelled_ns_after"]
            for part in options["parts"]:
                budget = whole * part // 100
                found, why, seconds = plan(options, path, folder, "--budget", str(budget))
                if found is None:
                    whole_only = " with its nodes whole" if "without splitting operators" in why else ""
                    verdict = "impossible" + whole_only if "is too small" in why else "not found"
                    refused[part] += 1
                    print(f"| {name} | {budget:,} | {part} % | {verdict}: "
                          f"{why.split(': ', 2)[-1]} | - | - | - | - | {seconds:.1f} |", flush=True)
                    continue
                cost = found["cost"]
                extra = 100 * (cost["modelled_ns_after"] / time - 1)
                bound = cost["overhead_lower_bound"]
                extras[part].append(extra)
                print(f"| {name} | {budget:,} | {part} % | yes | {found['arenas'][0]['size']:,} | {cost['recomputed_nodes']} | "
                      f"{extra:.2f} % | {'-' if bound is None else f'{100 * bound:.2f} %'} | {seconds:.1f} |", flush=True)
    for part, all_extra in extras.items():
        mean = sum(all_extra) / len(all_extra) if all_extra else 0.0
        print(f"\n{part} %: {len(all_extra)} kept at a mean of {mean:.2f} % extra time, {refused[part]} refused")


if __name__ == "__main__":
    main()
