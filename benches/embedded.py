"""Arenas of generated C: public models compiled by emx-onnx-cgen with memc's plan, without one, and by onnx2c's rule.

The models come in packages of PyPI, which the script downloads into a folder. Run it with a Python that has memc with
the extra `emx`: `pip install memc[emx]`.

    python benches/embedded.py --csv benches/results/embedded.csv
"""
import argparse
import csv
import json
import os
import tempfile

from memc import _memc, emx
from onnx import load

from packages import fetched

# Subject, package, file in it, and the extents of its inputs.
MODELS = [
    ("PP-OCR cls 1x3x48x192", "rapidocr_onnxruntime==1.4.4", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x.0": 1, "x.2": 48, "x.3": 192}),
    ("YOLOv8n 1x3x160x160", "nudenet==3.4.2", "320n.onnx", {"batch": 1, "height": 160, "width": 160}),
]
# Setting and the words of memc-emx.
SETTINGS = [
    ("exact", ["--exact"]),
    ("exact, workspace of ONNX Runtime", ["--exact", "--scratch", "table.json"]),
    ("default", []),
    ("slowdown 5 %", ["--slowdown", "5"]),
    ("slowdown 5 %, workspace of ONNX Runtime", ["--slowdown", "5", "--scratch", "table.json"]),
    ("esp32-s3, exact", ["--exact", "--target", "esp32-s3"]),
]
COLUMNS = ["subject", "setting", "tool", "bytes", "bank_bytes", "equal_bits", "bits_of_given", "from_ort", "source"]


def whole_slots(model, layout):
    """Returns bytes and number of the unions that onnx2c would make: each tensor takes the first free slot, and a slot is
    as large as its largest tensor. Every result has bytes of its own; outputs are the caller's."""
    size = {row["name"]: row["bytes"] for row in layout["tensors"] if row["class"] == "transient"}
    nodes = load(model, load_external_data=False).graph.node
    last = {name: step for step, node in enumerate(nodes) for name in node.input if name in size}
    slots, held = [], {}
    for step, node in enumerate(nodes):
        for name in node.output:
            if name in size:
                free = next((k for k in range(len(slots)) if k not in held.values()), None)
                if free is None:
                    slots.append(0)
                    free = len(slots) - 1
                slots[free] = max(slots[free], size[name])
                held[name] = free
        held = {name: slot for name, slot in held.items() if last.get(name, step) > step}
    return sum(slots), len(slots)


def rows_of(subject, package, name, dims, folder):
    """Yields the rows of a model."""
    model = fetched(package, name, folder)
    words = [word for item in dims.items() for word in ("--dim", "=".join(map(str, item)))]
    given = os.path.join(folder, "given.onnx")
    planned = _memc.plan(["-o", given, "--passes", _memc.FILE_ORDER, "--io", "external", *words, "--", model], None, None)
    layout = json.loads(planned.render("layout", ""))
    total, count = whole_slots(given, layout)
    yield {"subject": subject, "tool": "onnx2c's rule", "bytes": total, "source": f"{package}; {count} slots; replayed, not compiled"}
    # A scratch file without rows leaves the workspace to the operator table.
    table = os.path.join(folder, "table.json")
    with open(table, "w", encoding="utf-8") as file:
        file.write('{"schema": "memc.scratch/1"}')
    for setting, more in SETTINGS:
        more = [table if word == "table.json" else word for word in more]
        out = os.path.join(folder, "out")
        told = emx.build(model, out, "--weights-file", "--runs", "2", *words, *more)
        sizes = list(told["arenas"].values())
        row = {"subject": subject, "setting": setting, "tool": "memc", "bytes": sizes[0], "bank_bytes": sum(sizes[1:]) or ""}
        apart = "" if told["apart"] is None else f"{told['apart'][1]:.1e}"
        yield {**row, "equal_bits": told["equal"], "bits_of_given": told["same"], "from_ort": apart, "source": package}
    yield {"subject": subject, "tool": "emx-onnx-cgen", "bytes": told["given"], "source": f"{package}; emx-onnx-cgen {emx.TESTED}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", help="table to write")
    arguments = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            found += rows_of(*model, folder)
    for row in found:
        print(*(row.get(column, "") for column in COLUMNS), sep=", ")
    if arguments.csv:
        with open(arguments.csv, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n", restval="")
            writer.writeheader()
            writer.writerows(found)


if __name__ == "__main__":
    main()
