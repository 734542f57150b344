"""Runs models and the forms that a rule made of them, without optimizations, on random inputs.

    compare.py FOLDER CASES

FOLDER/RULE/same CLASS N holds a model (given.onnx) and forms that must compute the same; FOLDER/RULE/other CLASS N holds forms that must
not: they differ for some input, the runtime refuses them, or it ends. Class `exact` means the same bits (any NaN is any other), on special
numbers too; class `bits` means that for integers as well, and in sessions with all optimizations; models without a kernel do not count if
another of the folder runs. Else a form must be about as close as the model to an evaluation in binary64. Where all operators are functions of a field (field.py), forms must also give
the same numbers modulo a prime, but for rules whose cases (CASES/RULE.mem) say `// no rational function: REASON`: those must not. Prints what is
wrong, and `nothing wrong` if nothing is.
"""
import json
import os
import pathlib
import sys
import warnings
import zlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import field

ROUNDS = 12
FIELD_ROUNDS = 4
TYPES = {
    1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64,
    12: np.uint32, 13: np.uint64,
}
# Halves, which lie between two integers, and the ends of the range in which numbers have halves.
TIES = [0.5, 1.5, 2.5, 3.5]


def special(kind):
    """Numbers of a type that rules of arithmetic forget: zeros, the smallest and the largest, ties; of both signs. And NaN."""
    kind = np.dtype(kind)
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind != "f":
        limits = np.iinfo(kind)
        return np.array([0, 1, 2, 3, limits.max, limits.max - 1, limits.min, limits.min + 1], kind)
    limits = np.finfo(kind)
    sizes = [0.0, np.inf, limits.smallest_subnormal, limits.smallest_normal, limits.max, limits.eps, 1.0, 2.0, 3.0, 1 / limits.eps, *TIES]
    return np.array([*sizes, *(-size for size in sizes), np.nan], kind)


def session(path, level=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def allowed(model, name):
    """Extents of a symbol that a run binds in turn: within its range, if the model has one."""
    ranges = {prop.key: tuple(map(int, prop.value.split())) for prop in model.metadata_props}
    if f"range:{name}" not in ranges:
        return (3, 1, 0, 5)
    least, most, step = ranges[f"range:{name}"]
    between = [extent for extent in (3, 1, 0, 5) if least < extent < most and (extent - least) % step == 0]
    return (most, least, *between)


def inputs(model, generator, number, specials, integers=False):
    """Random inputs; symbols are bound anew each time, to 0 and 1 too. Integers are small, as extents are, unless they may be special."""
    extents, values = {}, {}
    for info in model.graph.input:
        tensor = info.type.tensor_type

        def symbol(dim):
            choices = allowed(model, dim.dim_param)
            return extents.setdefault(dim.dim_param, choices[number % len(choices)])

        shape = [dim.dim_value if dim.HasField("dim_value") else symbol(dim) for dim in tensor.shape.dim]
        kind = TYPES[tensor.elem_type]
        if kind is np.bool_ or integers and np.issubdtype(kind, np.integer):
            values[info.name] = generator.choice(special(kind), shape)
            continue
        if np.issubdtype(kind, np.integer):
            values[info.name] = np.asarray(generator.integers(-1, 9, shape), kind)
            continue
        scale = (1.0, 8.0, 0.01)[number % 3]
        value = np.asarray(scale * generator.standard_normal(shape), kind)
        if specials and number % 2:
            chosen = generator.random(shape) < (0.3, 0.6, 1.0)[number // 2 % 3]
            value = np.where(chosen, generator.choice(special(kind), shape), value).astype(kind)
        values[info.name] = value
    return values


def widened(model):
    """The same model over binary64, or nothing where it holds operators that only the runtime knows."""
    if any(node.domain for node in model.graph.node):
        return None
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for tensor in wide.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for info in [*wide.graph.input, *wide.graph.output]:
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    try:
        return ReferenceEvaluator(wide)
    except Exception:
        return None


def truth(evaluator, values):
    if evaluator is None:
        return None
    wide = {name: value.astype(np.float64) if value.dtype == np.float32 else value for name, value in values.items()}
    try:
        return evaluator.run(None, wide)
    except Exception:
        return None


def equal_bits(a, b):
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind != "f":
        return bool((a == b).all())
    nan = np.isnan(a)
    return bool((nan == np.isnan(b)).all() and a[~nan].tobytes() == b[~nan].tobytes())


def close(a, b, exact):
    """Whether `b` may stand for `a`: as near to the exact result as `a`, or within a few roundings of it."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    a, b = a.astype(np.float64), b.astype(np.float64)
    reference = a if exact is None else exact
    finite = np.isfinite(reference) & np.isfinite(a)
    if not np.isfinite(b[finite]).all():
        return False
    size = np.abs(reference[finite]).max(initial=0.0)
    own = np.abs(a - reference)[finite].max(initial=0.0)
    return bool(np.abs(b - reference)[finite].max(initial=0.0) <= 16 * own + 4e-6 * size + 1e-30)


def levels(kind):
    level = onnxruntime.GraphOptimizationLevel
    return (level.ORT_DISABLE_ALL, level.ORT_ENABLE_ALL) if kind == "bits" else (level.ORT_DISABLE_ALL,)


def differs(folder, kind, same):
    """What is wrong with the first form that differs, at any level; nothing if all agree wherever the model runs. And the number of runs."""
    found = [differs_at(folder, kind, level) for level in levels(kind)]
    return next((why for why, _ in found if why), ""), sum(ran for _, ran in found)


def differs_at(folder, kind, level):
    try:
        given = session(folder / "given.onnx", level)
    except Exception:
        if kind == "bits":
            return "", 0
        raise
    is_exact = kind in ("exact", "bits")
    model = onnx.load(folder / "given.onnx")
    evaluator = widened(model)
    forms = sorted(folder.glob("form*.onnx"))
    ran = 0
    for path in forms:
        try:
            form = session(path, level)
        except Exception as error:
            return f"{path.name} is refused: {error}", 1
        generator = np.random.default_rng(zlib.crc32(folder.as_posix().rpartition("/rules/")[2].encode()))
        integers = any(info.type.tensor_type.elem_type in (6, 7) for info in model.graph.input)
        for number in range(ROUNDS * (40 if integers and kind != "bits" else 1)):
            values = inputs(model, generator, number, is_exact, kind == "bits")
            try:
                expected = given.run(None, values)
            except Exception:
                continue
            ran += 1
            try:
                found = form.run(None, values)
            except Exception as error:
                return f"{path.name} does not run: {error}", ran
            exact = None if is_exact else truth(evaluator, values)
            for position, (a, b) in enumerate(zip(expected, found)):
                agree = equal_bits(a, b) if is_exact else close(a, b, exact and exact[position])
                if not agree:
                    gap = np.abs(a.astype(np.float64) - b.astype(np.float64)).max() if a.shape == b.shape else "shape"
                    return f"{path.name}, round {number}, result {position} differs by {gap}", ran
    return "", ran


def ended(folder, kind, same):
    """As `differs`, in a process of its own: a form that is no good may end it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(writer, "w") as file:
            json.dump(differs(folder, kind, same), file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return json.loads(said) if code == 0 else (f"ends the process with {code}", 1)


def in_field(folder):
    """Whether all forms give the model's numbers modulo a prime: the trials, or nothing where they leave the field; and what differs."""
    given, ran = onnx.load(folder / "given.onnx"), 0
    for path in sorted(folder.glob("form*.onnx")):
        form, generator = onnx.load(path), np.random.default_rng(zlib.crc32(folder.name.encode()))
        for number in range(FIELD_ROUNDS):
            try:
                values = field.draw(inputs(given, generator, number, False), generator)
                expected = field.evaluate(given, values)
                found = field.evaluate(form, values)
            except field.Outside:
                return 0, ""
            except (ValueError, IndexError):
                # Shapes that the model itself refuses.
                continue
            ran += 1
            for position, (a, b) in enumerate(zip(expected, found)):
                if a.shape != b.shape or not (np.asarray(a) == np.asarray(b)).all():
                    return ran, f"{path.name}, round {number}, result {position} is another number modulo {field.PRIME}"
    return ran, ""


def irrational(cases, rule):
    """Why a rule's forms are not equal as rational functions, if its cases say so."""
    path = cases / f"{rule}.mem"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next((line.split(": ", 1)[1] for line in lines if line.startswith("// no rational function: ")), "")


def exactly(root, cases):
    """What is wrong with rules in exact arithmetic, and how many of them hold there."""
    wrong, held = [], 0
    for rule in sorted(path.name for path in root.iterdir()):
        reason = irrational(cases, rule)
        folders = [folder for folder in sorted((root / rule).glob("same*")) if folder.name.split()[1] != "bits"]
        checked = [(folder, *in_field(folder)) for folder in folders]
        differing = [f"{rule}/{folder.name}: {why}" for folder, _, why in checked if why]
        if not reason:
            wrong += [f"{why}; if the rule rests on more than arithmetic, its cases say `// no rational function: REASON`" for why in differing]
        elif not differing:
            wrong.append(f"{rule}: said to be no rational function, but nothing differs modulo a prime")
        held += not differing and any(ran for _, ran, _ in checked)
    return wrong, held


def main():
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    wrong = pairs = runs = 0
    without = {}
    for folder in sorted(pathlib.Path(sys.argv[1]).glob("*/*")):
        word, kind, _ = folder.name.split()
        why, ran = (differs if word == "same" else ended)(folder, kind, word == "same")
        pairs, runs = pairs + 1, runs + ran
        if kind == "bits" and not ran:
            without.setdefault(folder.parent.name, True)
            continue
        without[folder.parent.name] = False
        if bool(why) == (word == "same") or not ran:
            wrong += 1
            print(f"{folder.parent.name}/{folder.name}: {why or 'the forms agree, and should not' if ran else 'never ran'}")
    silent = [name for name, is_silent in without.items() if is_silent]
    wrong += len(silent)
    print("".join(f"{name}: no model runs\n" for name in silent), end="")
    unequal, held = exactly(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    wrong += len(unequal)
    print("".join(f"{why}\n" for why in unequal), end="")
    print(f"{pairs} models with their forms, {runs} runs; {held} rules hold modulo a prime")
    print("nothing wrong" if not wrong else f"{wrong} wrong")


if __name__ == "__main__":
    main()
