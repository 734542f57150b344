"""Compare two tables of plans.py row by row: improvement, equal, traded (better in one of bytes and time, worse in the other) or worse.

    python3 benches/compare.py OLD.csv NEW.csv

Rows with a budget: bytes beyond the budget decide, then time, then bytes. Other rows: bytes and time together. Differences up to 0.5 %
count as equal. Prints every row that is not equal, and a count of each kind; exit code 1 if a row is worse or missing in NEW.csv.
"""
import csv
import math
import sys

# Smallest difference that counts, as a share: half of what `--slowdown 1%` may spend, and above the rounding of `time_percent` (0.01 %).
TOLERANCE = 0.005
KINDS = ["improvement", "equal", "traded", "worse", "new", "missing"]


def verdict(old, new):
    """-1, 0 or 1: whether `new` is smaller, equal or larger than `old`, up to the tolerance."""
    if old == new:
        return 0
    if not old or math.isinf(old) or math.isinf(new):
        return -1 if new < old else 1
    change = new / old - 1
    return 0 if abs(change) <= TOLERANCE else -1 if change < 0 else 1


def time_of(row):
    """Modelled time as a share of the given model's."""
    return 1 + float(row["time_percent"]) / 100


def needed(row):
    """Bytes of the plan, or of the smallest one that a refusal names; infinite if it names none."""
    return float(row["arena"] or row["smallest"] or "inf")


def with_budget(old, new):
    """Kind of a row with a budget; the share beyond the budget is 1 for every plan that keeps it."""
    beyond = [1.0 if not row["refused"] else max(needed(row) / float(row["budget"]) if row["budget"] else math.inf, 1.0) for row in (old, new)]
    if bool(old["refused"]) != bool(new["refused"]):
        return "worse" if new["refused"] else "improvement"
    found = verdict(*beyond)
    if not found and not new["refused"]:
        found = verdict(time_of(old), time_of(new)) or verdict(needed(old), needed(new))
    return {-1: "improvement", 0: "equal", 1: "worse"}[found]


def without_budget(old, new):
    """Kind of a row without a budget."""
    if bool(old["refused"]) != bool(new["refused"]):
        return "worse" if new["refused"] else "improvement"
    if new["refused"]:
        return "equal"
    found = {verdict(needed(old), needed(new)), verdict(time_of(old), time_of(new))}
    if {-1, 1} <= found:
        return "traded"
    return "improvement" if -1 in found else "worse" if 1 in found else "equal"


def kind(old, new):
    """Kind of a row; `old` or `new` is None where the table has no such row."""
    if old is None or new is None:
        return "new" if old is None else "missing"
    return with_budget(old, new) if "--budget" in new["options"] else without_budget(old, new)


def shown(row):
    """A row in a few words."""
    if row is None:
        return "-"
    if row["refused"]:
        return f"{row['refused']}, smallest {row['smallest'] or 'unknown'}"
    return f"{int(row['arena']):,} B, {float(row['time_percent']):+.2f} %"


def read(path):
    """Rows by model and options."""
    with open(path, encoding="utf-8", newline="") as file:
        return {(row["model"], row["options"]): row for row in csv.DictReader(file)}


def seconds(rows):
    return sum(float(row["cpu_seconds"]) for row in rows)


def compare(old, new, say):
    """Say each row that is not equal, then the counts; returns the counts."""
    counts = dict.fromkeys(KINDS, 0)
    for key in sorted({*old, *new}):
        found = kind(old.get(key), new.get(key))
        counts[found] += 1
        if found != "equal":
            say(f"{found:<11}  {' '.join(key)}: {shown(old.get(key))} -> {shown(new.get(key))}")
    say(", ".join(f"{count} {name}" for name, count in counts.items()))
    both = old.keys() & new.keys()
    say(f"planning, CPU seconds of the rows in both: {seconds(old[key] for key in both):.1f} -> {seconds(new[key] for key in both):.1f}")
    return counts


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    counts = compare(read(sys.argv[1]), read(sys.argv[2]), print)
    sys.exit(1 if counts["worse"] or counts["missing"] else 0)


if __name__ == "__main__":
    main()
