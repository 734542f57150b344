"""The table of figures of other tools, `results/others.csv`, and how benches put rows into it.

`source` cites each figure: the script and version that measured it, or the publication. `milliseconds` are modelled for the topic
`rewriters`, processor time of a run for `sessions` and of the solver for `placement`; `ratio` is memc's time over the row's; `percent` is
the extra time of a plan within the budget.
"""
import csv
import importlib.metadata
import os

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results", "others.csv")
KEY = ["topic", "subject", "setting", "tool"]
COLUMNS = [*KEY, "nodes", "bytes", "milliseconds", "ratio", "percent", "source"]


def replace(rows, path=PATH):
    """Put rows into the table, in the places of those with the same key."""
    found = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8", newline="") as file:
            found = {tuple(row[column] for column in KEY): row for row in csv.DictReader(file)}
    found.update((tuple(row[column] for column in KEY), row) for row in rows)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found[key] for key in sorted(found))


def version(package):
    """A package and its version, as `source` names it."""
    return f"{package} {importlib.metadata.version(package)}"
