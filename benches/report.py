"""Write BENCHMARKS.md from the tables in `benches/results/` and from nothing else.

    python3 benches/report.py [--check]

With --check, writes nothing and exits with 1 if BENCHMARKS.md is not the text that the tables give.
"""
import csv
import difflib
import math
import os
import statistics
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.path.join(os.path.dirname(HERE), "BENCHMARKS.md")
OPTION_SETS = ["default", "--runtime ort", "--runtime ort --nchwc 16", "--slowdown 1%", "--budget 75%", "--budget 50%"]
TOOLS = ["memc", "ORT extended", "ORT all", "onnxsim", "onnxslim", "onnxoptimizer", "onnxscript"]
# Rows of the table of single models, so that the page stays short; summaries count all models.
MAX_MODELS = 15


def read(name):
    """Rows of a table."""
    with open(os.path.join(HERE, "results", name), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def size(count):
    """Bytes in the largest unit of which there is at least one."""
    count = float(count)
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def change(percent, digits):
    """A change in per cent with its sign; what rounds to zero has none."""
    shown = f"{percent:+.{digits}f}"
    return f"{shown if float(shown) else shown[1:]} %"


def geometric(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def table(heads, rows):
    """A Markdown table; columns after the first are aligned right."""
    return ["| " + " | ".join(heads) + " |", "|---" + "|--:" * (len(heads) - 1) + "|",
            *("| " + " | ".join(cells) + " |" for cells in rows), ""]


def sessions():
    rows = [row for row in read("sessions.csv") if not row["budget"] and row["plain_bytes"]]
    share = lambda row, name: int(row[f"{name}_bytes"]) / int(row["plain_bytes"])
    timed = [row for row in rows if row["fast_time"]]
    ways = ["settings", "planned", "fast", "smallest"]
    shown = lambda text: size(text) if text else "-"
    time = lambda text: f"{float(text):.2f}" if text else "-"
    cells = [[row["model"], size(row["plain_bytes"]), *(shown(row[f"{way}_bytes"]) for way in ways),
              *(shown(row[f"{way}_rest"]) for way in ("plain", "smallest")), *(time(row[f"{way}_time"]) for way in ways)]
             for row in sorted(rows, key=lambda row: -int(row["plain_bytes"]))[:MAX_MODELS]]
    mean = ["geometric mean, share of plain", "1.00", *(f"{geometric(share(row, way) for row in rows):.2f}" for way in ways),
            "1.00", f"{geometric(int(row['smallest_rest']) / int(row['plain_rest']) for row in rows):.2f}",
            *(f"{geometric(float(row[f'{way}_time']) for row in timed):.2f}" for way in ways)]
    return ["## Memory and time in a stock ONNX Runtime session", "",
            f"{len(rows)} models that Python packages ship. *plain*: the given model, default options. *settings*: the given model, the best of "
            "the options that users can set without memc. *planned*, *fast*, *smallest*: memc's model for `--session plain`, `fast` and "
            "`smallest`, in a session as `memc optimize` prints it. Bytes: most that the CPU allocator asks for in runs, beyond a session at "
            "rest; *at rest*: what the session holds before, weights included. Time: processor time of one thread, as a share of plain "
            f"({len(timed)} models). The {MAX_MODELS} models of most bytes (`sessions.csv` has all), and the mean of all:", "",
            *table(["model", "plain", *ways, "at rest, plain", "at rest, smallest", *(f"time, {way}" for way in ways)], [*cells, mean])]


def counts(differences):
    """How many differences are below, at and above zero."""
    signs = [(difference > 0) - (difference < 0) for difference in differences]
    return " / ".join(str(signs.count(sign)) for sign in (-1, 0, 1))


def rewriters(others):
    """One row a tool: what its model takes when memc plans it without rewriting."""
    found = {}
    for row in others:
        if row["topic"] == "rewriters":
            found.setdefault((row["subject"], row["setting"]), {})[row["tool"]] = row
    rows = []
    for tool in TOOLS:
        cells = [tool if tool == "memc" else next(row["source"] for row in others if row["tool"] == tool).split("; ")[-1]]
        if tool.startswith("ORT"):
            cells[0] += f", {tool.split()[1]}"
        for runtime in ("ort", "arena"):
            pairs = [row for (_, setting), row in found.items() if setting == runtime and tool in row]
            bytes_of = lambda row, name: int(row[name]["bytes"])
            cells.append(f"{geometric(bytes_of(row, tool) / bytes_of(row, 'given') for row in pairs):.2f}")
            if tool == "memc":
                cells.append("-")
            else:
                cells.append(counts(bytes_of(row, "memc") - bytes_of(row, tool) for row in pairs))
            if runtime == "ort":
                time = geometric(float(row[tool]["milliseconds"]) / float(row["given"]["milliseconds"]) for row in pairs)
        rows.append([*cells, f"{time:.3f}", str(len(pairs))])
    best = []
    for runtime in ("ort", "arena"):
        rest = [row for (_, setting), row in found.items() if setting == runtime]
        best += ["-", counts(int(row["memc"]["bytes"]) - min(int(row[tool]["bytes"]) for tool in TOOLS[1:] if tool in row) for row in rest)]
    rows.append(["best of these tools for each model", *best, "-", str(len(rest))])
    return table(["model written by", "arena, `ort`", "memc smaller / equal / larger", "arena, `arena`", "memc smaller / equal / larger",
                  "modelled time", "models"], rows)


def session_times(others):
    rows = []
    for setting, tool, told in (("any processor", "ORT extended", "`extended` optimizations, plan for any processor"),
                                ("any processor", "ORT all", "all optimizations, plan for any processor"),
                                ("--nchwc 16", "ORT all", "all optimizations, plan with `--nchwc 16` (AVX-512)")):
        ratios = sorted((float(row["ratio"]), row["subject"]) for row in others
                        if (row["topic"], row["setting"], row["tool"]) == ("sessions", setting, tool))
        rows.append([told, str(len(ratios)), f"{geometric(ratio for ratio, _ in ratios):.3f}", f"{ratios[0][0]:.3f} ({ratios[0][1]})",
                     f"{ratios[-1][0]:.3f} ({ratios[-1][1]})"])
    return table(["the given model in a session with", "models", "geometric mean", "least", "most"], rows)


def published(others):
    """One row a figure of another solver, beside memc's on the same problem."""
    value = lambda row: f"{float(row['milliseconds']) / 1000:.1f} s" if row["milliseconds"] else f"{float(row['percent']):.2f} % more time"
    own = {(row["subject"], row["setting"]): value(row) for row in others if row["tool"] == "memc"
           and row["topic"] in ("placement", "recompute")}
    rows = [[f"{row['subject']}, {row['setting']}", own[row["subject"], row["setting"]], row["tool"], value(row), row["source"]]
            for row in others if row["topic"] in ("placement", "recompute") and row["tool"] != "memc"]
    return table(["problem", "memc", "other solver", "its result", "source"], rows)


def beside_others():
    others = read("others.csv")
    return ["## Beside other tools", "",
            "Models that other optimizers write, planned by memc without rewriting, as shares of the given model (geometric means):", "",
            *rewriters(others),
            "Processor time of memc's model in a session without optimizations, over the given model's with them (one thread):", "",
            *session_times(others),
            "Solvers on problems that others published:", "", *published(others)]


def kept(rows):
    return [row for row in rows if not row["refused"]]


def share(row):
    return int(row["arena"]) / int(row["before"])


def summary(plans):
    """One row an option set."""
    rows = []
    for options in OPTION_SETS:
        every = [row for row in plans if row["options"] == options]
        good = kept(every)
        seconds = [float(row["cpu_seconds"]) for row in every]
        rows.append([f"`{options}`" if options != "default" else options, str(len(every)), str(len(every) - len(good)),
                     f"{geometric(share(row) for row in good if int(row['before'])):.2f}",
                     change(statistics.mean(float(row["time_percent"]) for row in good), 2),
                     f"{sum(row['optimal'] == 'yes' for row in good)}", f"{statistics.median(seconds):.2f}", f"{max(seconds):.1f}",
                     f"{sum(seconds):.0f}"])
    return table(["options", "models", "refused", "arena / before", "time", "proven", "CPU s, median", "most", "in all"], rows)


def with_budget(row):
    """Change of time of a plan, or the smallest arena of a refusal."""
    if not row["refused"]:
        return change(float(row["time_percent"]), 1)
    return f"needs {size(row['smallest'])}" if row["smallest"] else row["refused"]


def models(plans):
    """One row a model, of those that need the most before."""
    found = {}
    for row in plans:
        found.setdefault(row["model"], {})[row["options"]] = row
    planned = {name: sets for name, sets in found.items() if not sets["default"]["refused"]}
    largest = sorted(planned, key=lambda name: (-int(planned[name]["default"]["before"]), name))[:MAX_MODELS]
    rows = []
    for name in largest:
        sets, plain = planned[name], planned[name]["default"]
        arena = lambda options, sets=sets: sets[options]["refused"] or size(sets[options]["arena"])
        rows.append([name, size(plain["before"]), size(plain["arena"]), change(100 * (share(plain) - 1), 0), arena("--runtime ort"),
                     arena("--slowdown 1%"), with_budget(sets["--budget 75%"]), with_budget(sets["--budget 50%"]), plain["nodes"],
                     plain["cpu_seconds"]])
    return table(["model", "before", "arena", "change", "arena, `ort`", "arena, 1 % slower", "75 %: time", "50 %: time", "nodes", "CPU s"], rows)


def quality(plans):
    """Distances to what is proven."""
    plain = {row["model"]: row for row in kept(plans) if row["options"] == "default"}
    gaps = sorted((int(row["arena"]) / int(row["bound"]) - 1, name) for name, row in plain.items()
                  if row["optimal"] != "yes" and row["bound"])
    unknown = sum(not row["bound"] for row in plain.values())
    time = lambda row: 1 + float(row["time_percent"]) / 100
    bounded = [row for row in kept(plans) if row["time_bound_percent"] and row["model"] in plain]
    extra = [100 * (time(row) / time(plain[row["model"]]) - 1) - float(row["time_bound_percent"]) for row in bounded]
    wide = [f"`{name}` {100 * gap:.1f} %" for gap, name in reversed(gaps) if gap >= 0.001]
    told = ", ".join([*wide, f"less than 0.1 % ({len(gaps) - len(wide)} models)"])
    proven = sum(row["optimal"] == "yes" for row in plain.values())
    told += f". {unknown} has no bound" if unknown == 1 else f". {unknown} have no bound" if unknown else ""
    return [f"Order and placement of {proven} of {len(plain)} default plans are proven optimal for the planned nodes. Arenas of "
            f"the others are above their lower bounds by: {told}.", "",
            f"Extra time of {len(bounded)} plans within a budget for which a lower bound is known (recomputation, nothing split), against the "
            f"default plan: {statistics.median(extra):.2f} percentage points above the bound in the median, {max(extra):.2f} at most.", ""]


def ranges():
    """One row a model: plans for ranges, by default."""
    rows = [row for row in read("ranges.csv") if row["setting"] == "default"]
    exact = [row for row in read("ranges.csv") if row["setting"] == "--exact"]
    cells = [[row["subject"], ", ".join(part.split("=")[-1] for part in row["ranges"].split() if ".." in part), size(row["arena"]),
              size(row["bound_arena"]), row["formula_most"], row["formula_at"], row["seconds_ratio"], row["points"], row["apart"]]
             for row in rows if not row["refused"]]
    equal = sum(row["equal_bits"] == "yes" for row in exact)
    return ["## Plans for ranges of dimensions", "",
            "One plan for all extents of the ranges, and a model that runs at all of them. *arena*: at the largest extents; *single*: of a plan "
            "for the largest extents alone. *formula*: the largest ratio, over five points, of the arena by the layout's formula to the arena of "
            "a plan for these extents alone. *CPU*: planning time over that of the single plan. *points*: drawn extents at which the written model "
            f"ran beside the given one. *apart*: the largest difference, as a share of the output's largest number. With `--exact` {equal} of "
            f"{len(exact)} written models give equal bits at all points.", "",
            *table(["model", "ranges", "arena", "single", "formula", "at", "CPU", "points", "apart"], cells)]


def planning(plans):
    """CPU seconds of plans."""
    seconds = {row["model"]: float(row["cpu_seconds"]) for row in plans if row["options"] == "default"}
    slowest = max(seconds, key=seconds.get)
    nodes = sum(int(row["nodes"]) for row in kept(plans) if row["options"] == "default")
    large = "; ".join(f"{row['case']}: {float(row['cpu_seconds']):.2f} CPU s and {float(row['anonymous_mib']):.1f} MiB of anonymous memory"
                      for row in read("scale.csv"))
    return [f"Default plans take {statistics.median(seconds.values()):.2f} CPU s in the median, {seconds[slowest]:.1f} at most (`{slowest}`) and "
            f"{sum(seconds.values()):.0f} together, for {len(seconds)} models with {nodes:,} planned nodes. Models that are large in one way "
            f"take: {large}.", ""]


def text():
    plans = read("plans.csv")
    versions = ", ".join(sorted({row["version"] for row in plans}))
    lines = ["# Benchmarks", "",
             "Generated by `benches/report.py` from the tables in `benches/results/`; `benches/README.md` names the script that measures each "
             "one. Times are of a shared two-core x86-64 machine (AMD EPYC); bytes do not depend on the machine.", "",
             *sessions(), *beside_others(),
             "## Plans of the corpus", "",
             f"memc {versions}, target `cpu`, no weights except for `--nchwc`. *before*: file order, views aliased, nothing in place; budgets are "
             "shares of it. *arena / before*: geometric mean. *time*: change of the modelled time, mean. *proven*: order and placement are "
             "both proven optimal.", "",
             *summary(plans),
             f"The {MAX_MODELS} largest models (`plans.csv` has all). Where no plan keeps the budget, the smallest arena found:", "",
             *models(plans), *ranges(),
             "## Proofs and planning time", "", *quality(plans), *planning(plans)]
    return "\n".join(part for line in lines for part in wrapped(line)).rstrip() + "\n"


def wrapped(line):
    """A line in parts of at most 110 columns; tables stay as they are."""
    whole = not line or line.startswith("|")
    return [line] if whole else textwrap.wrap(line, 110, break_long_words=False, break_on_hyphens=False)


def main():
    made = text()
    if "--check" not in sys.argv[1:]:
        with open(TARGET, "w", encoding="utf-8") as file:
            file.write(made)
        return 0
    with open(TARGET, encoding="utf-8") as file:
        there = file.read()
    sys.stdout.writelines(difflib.unified_diff(there.splitlines(True), made.splitlines(True), "BENCHMARKS.md", "benches/report.py"))
    return int(there != made)


if __name__ == "__main__":
    sys.exit(main())
