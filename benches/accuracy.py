"""How far the results of memc's models are from those of the given ones, and whether `--exact` keeps every bit.

    .deps/python/bin/python benches/accuracy.py [--memc target/release/memc] [--dim MODEL:NAME=N] [--max-mb N] [--only NAME] [--runtime ort|arena]
        [--seeds N] FOLDER|MODEL ...

Both run in ONNX Runtime with optimizations disabled, one thread, on the same seeded inputs; weights that are missing are made (seeded). Nodes
that draw random numbers without a seed get one that follows from the name of their result, the same in both. Of all outputs and seeds, the
worst: *absolute* difference, difference *relative* to the largest number of its output, *root mean square* of the difference relative to
that of the output, and elements *beyond* the tolerance of `memc verify` (0.0001 + 0.001 |a|) of how many. Where there are any, or the relative
difference is above 0.001, *nudged* says how far the given model gets from itself when its floating inputs, and weights that a caller may give, change in their last bit: the same
relative difference, root mean square and elements. *Exact*: the outputs of `memc optimize --exact`, bit for bit.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx

from corpus import chosen, extents, feeds, place, session_options, weights
from options import add_choice, add_dims, name_of, parse, parser

RELATIVE, ABSOLUTE = 1e-3, 1e-4
DRAWING = {"RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike", "Bernoulli", "Multinomial"}
# Elements that are compared at a time.
CHUNK = 1 << 22


def seed_draws(path):
    """Give nodes that draw a seed by the name of their result, as other nodes around them do not change it."""
    model = onnx.load(path, load_external_data=False)
    drawing = [node for node in model.graph.node if node.op_type in DRAWING and all(item.name != "seed" for item in node.attribute)]
    for node in drawing:
        node.attribute.append(onnx.helper.make_attribute("seed", float(sum(node.output[0].encode()) + len(node.output[0]))))
    if drawing:
        onnx.save(model, path)


def nudged(values, path, names):
    """Floating inputs and replaceable weights with some last bits changed."""
    values = {**values, **{name: value for name, value in weights(path) if name in names}}
    random = np.random.default_rng(5)
    for name, value in values.items():
        if value.dtype.kind == "f":
            toward = np.where(random.random(value.shape) < 0.5, -np.inf, np.inf).astype(value.dtype)
            values[name] = np.where(np.isfinite(value), np.nextafter(value, toward), value)
    return values


def child(path, sizes, seed, folder, nudge):
    """In a process of its own: run a model once and leave each output in a file."""
    import onnxruntime
    options = session_options()
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    inputs = feeds(session, sizes, seed)
    if nudge:
        inputs = nudged(inputs, path, [item.name for item in session.get_overridable_initializers()])
    outputs = session.run(None, inputs)
    for number, output in enumerate(outputs):
        np.save(os.path.join(folder, f"{number}.npy"), np.asarray(output))


def run(path, sizes, seed, folder, nudge=False):
    os.makedirs(folder)
    command = [sys.executable, os.path.abspath(__file__), "--child", path, json.dumps(sizes), str(seed), folder, "nudged" if nudge else ""]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["killed"])[-1]


class Worst:
    """The largest differences of all outputs so far."""

    def __init__(self):
        self.absolute = self.relative = self.square = 0.0
        self.beyond = self.of = self.differing = 0

    def add(self, a, b):
        """One output of both; files are mapped, so that large ones need no memory."""
        if a.shape != b.shape or a.dtype != b.dtype:
            self.absolute = self.relative = self.square = float("inf")
            return
        a, b = a.reshape(-1), b.reshape(-1)
        largest = gap = own = other = 0.0
        for start in range(0, a.size, CHUNK):
            x, y = a[start:start + CHUNK], b[start:start + CHUNK]
            self.of += x.size
            if x.tobytes() == y.tobytes():
                x = x.astype(np.float64)
                largest, own = max(largest, np.abs(x[np.isfinite(x)]).max(initial=0.0)), own + np.square(x[np.isfinite(x)]).sum()
                continue
            x, y = x.astype(np.float64), y.astype(np.float64)
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            self.differing += int((~same).sum())
            far = np.where(same, 0.0, np.abs(x - y))
            self.beyond += int((~(far <= ABSOLUTE + RELATIVE * np.abs(x))).sum())
            far = np.where(np.isfinite(far), far, np.inf)
            finite = np.isfinite(x)
            largest, own = max(largest, np.abs(x[finite]).max(initial=0.0)), own + np.square(x[finite]).sum()
            gap, other = max(gap, far.max(initial=0.0)), other + np.square(far).sum()
        self.absolute = max(self.absolute, gap)
        if gap:
            self.relative = max(self.relative, gap / max(largest, 1e-300))
            self.square = max(self.square, (other / max(own, 1e-300)) ** 0.5)

    def same(self):
        return not self.differing and not self.absolute

    def is_far(self):
        return self.beyond > 0 or self.relative > RELATIVE

    def cells(self):
        if self.same():
            return ["same bits", "", "", ""]
        return [f"{self.absolute:.1e}", f"{self.relative:.1e}", f"{self.square:.1e}", f"{self.beyond:,} of {self.of:,}"]

    def read(self, left, right):
        names = sorted(os.listdir(left))
        for name in names:
            self.add(*(np.load(os.path.join(folder, name), mmap_mode="r", allow_pickle=False) for folder in (left, right)))
        return len(names)


def optimize(options, given, out, sizes, *more):
    """Plan; returns the number of nodes, or what memc says instead."""
    words = [word for name, size in sorted(sizes.items()) for word in ("--dim", f"{name}={size}")]
    command = [options["memc"], "-q", "optimize", given, "-o", out, "--runtime", options["runtime"], *words, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[0]


def empty(folder):
    for name in os.listdir(folder):
        os.remove(os.path.join(folder, name))
    os.rmdir(folder)


def one(path, options, scratch):
    name = name_of(path)
    sizes = extents(path, [dim for model, dim in options["dims"] if model == name])
    beside = os.path.dirname(os.path.abspath(path))
    with tempfile.TemporaryDirectory(dir=beside if os.access(beside, os.W_OK) else scratch) as folder:
        given = place(path, folder)
        seed_draws(given)
        worst, exact, own, outputs = Worst(), Worst(), Worst(), 0
        models = {word: os.path.join(folder, f"{word}.onnx") for word in ("free", "exact")}
        for word, model in models.items():
            refusal = optimize(options, given, model, sizes, *(["--exact"] if word == "exact" else []))
            if refusal:
                return f"| {name} | not planned: {refusal} | | | | | | | | |"
        nodes = [len(onnx.load(model, load_external_data=False).graph.node) for model in (given, *models.values())]
        for seed in range(options["seeds"]):
            results = {word: os.path.join(folder, f"{word}.out") for word in ("given", *models)}
            for word, into in results.items():
                failure = run(models.get(word, given), sizes, seed, into)
                if failure:
                    return f"| {name} | {word} does not run: {failure[:120]} | | | | | | | | |"
                if word != "given":
                    outputs = (worst if word == "free" else exact).read(results["given"], into)
                    empty(into)
            if worst.is_far():
                again = os.path.join(folder, "again.out")
                run(given, sizes, seed, again, nudge=True)
                own.read(results["given"], again)
                empty(again)
            empty(results["given"])
    cells = [name, str(outputs), f"{nodes[0]} / {nodes[1]} / {nodes[2]}", *worst.cells()]
    cells.append(" / ".join(own.cells()[1:]) if worst.is_far() else "")
    cells.append("same bits" if exact.same() else f"{exact.differing:,} differ, {exact.relative:.1e}")
    return f"| {' | '.join(cells)} |"


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4]), sys.argv[5], bool(sys.argv[6]))
    made = parser(__doc__)
    add_dims(made)
    add_choice(made, max_mb=1e6)
    made.add_argument("--runtime", default="ort", choices=["ort", "arena"])
    made.add_argument("--seeds", type=int, default=1, metavar="N", help="inputs to compare on")
    options = parse(made)
    print("| model | outputs | nodes: given / free / exact | absolute | relative | root mean square | beyond | nudged | exact |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|---|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for path in chosen(options):
            print(one(path, options, scratch), flush=True)
    return None


if __name__ == "__main__":
    main()
