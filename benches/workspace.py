"""Compare the workspace that memc models for kernels of ONNX Runtime with what the runtime allocates, over random single nodes.

    .deps/python/bin/python benches/workspace.py [--memc target/release/memc] [--cases N] [--seed N] [--only OPERATOR] [--show N] [--csv FILE]

Counted: the most bytes that one run of a session of the node holds beside its outputs, in the second run, with one thread and without optimizations;
operands are the caller's. Modelled: the node's scratch in a layout for `--runtime ort`. One line an operator: cases, exact ones (within 64 bytes), the
largest ratio of modelled to counted bytes with the excess there, and the largest lack; `--show` prints the worst cases of each operator.
"""
import argparse
import csv
import ctypes
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper

from corpus import session_options
from workspace_cases import BOOL, F16, GENERATORS

HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDING = 64
SMALL = 4096


def code(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def filled(given, index):
    """Values of an operand, the same in every process."""
    if given.values is not None:
        return np.asarray(given.values, given.dtype).reshape(given.shape)
    noise = np.random.default_rng(index)
    if given.dtype.startswith("float"):
        return noise.random(given.shape, np.float32).astype(given.dtype)
    return noise.integers(0, 2 if given.dtype == BOOL else given.high, given.shape).astype(given.dtype)


def parts(case, name):
    """Node, inputs, initializers and outputs of a case."""
    inputs, constants, operands = [], [], []
    for index, given in enumerate(case.inputs):
        operands.append("" if given is None else f"{name}_x{index}")
        if given is None:
            continue
        if given.const:
            constants.append(onnx.numpy_helper.from_array(filled(given, index), operands[-1]))
        else:
            inputs.append(helper.make_tensor_value_info(operands[-1], code(given.dtype), given.shape))
    results = ["" if dtype is None else f"{name}_y{index}" for index, dtype in enumerate(case.outputs)]
    outputs = [helper.make_tensor_value_info(result, code(dtype), None) for result, dtype in zip(results, case.outputs) if dtype]
    node = helper.make_node(case.op, operands, results, name, domain=case.domain, **case.attributes)
    return [node], inputs, outputs, constants


def model(cases, names):
    """One graph of the given nodes side by side; all are of one operator set."""
    nodes, inputs, outputs, constants = [], [], [], []
    for case, name in zip(cases, names):
        for whole, part in zip((nodes, inputs, outputs, constants), parts(case, name)):
            whole += part
    graph = helper.make_graph(nodes, "cases", inputs, outputs, constants)
    sets = [helper.make_opsetid("", max(case.opset for case in cases) or 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10)


def count(path):
    """In a process with the counter preloaded: prints the workspace of each case, or why there is none."""
    import onnxruntime as ort
    counter = ctypes.CDLL(os.environ["LD_PRELOAD"])
    for name in ("held_bytes", "highest_bytes"):
        getattr(counter, name).restype = ctypes.c_size_t
    ort.set_default_logger_severity(4)
    options = session_options()
    options.enable_cpu_mem_arena = options.enable_mem_pattern = options.enable_mem_reuse = False
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    options.intra_op_num_threads = int(os.environ.get("WORKSPACE_THREADS", "1"))
    options.log_severity_level = 4
    with open(path, "rb") as file:
        cases = pickle.load(file)
    for case in cases:
        try:
            session = ort.InferenceSession(model([case], ["c"]).SerializeToString(), options, providers=["CPUExecutionProvider"])
            given = {f"c_x{index}": filled(operand, index) for index, operand in enumerate(case.inputs) if operand is not None and not operand.const}
            for _ in range(2):
                counter.restart_count()
                before = counter.held_bytes()
                outputs = session.run(None, given)
                taken = counter.highest_bytes() - before
                taken -= sum(-(-output.nbytes // ROUNDING) * ROUNDING for output in outputs)
                del outputs
            print(json.dumps(taken), flush=True)
            del session
        except Exception as error:  # pylint: disable=broad-exception-caught
            print(json.dumps(str(error)[:200]), flush=True)


def counted(cases, library, folder):
    path = os.path.join(folder, "cases.pickle")
    with open(path, "wb") as file:
        pickle.dump(cases, file)
    command = [sys.executable, os.path.abspath(__file__), "--count", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ, LD_PRELOAD=library))
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return found + [f"the process ended with {done.returncode}: {done.stderr[-100:]}"] * (len(cases) - len(found))


def modelled(cases, memc, folder):
    """Scratch of each case by memc, all in one model an operator set."""
    found = [None] * len(cases)
    for version in sorted({case.opset for case in cases}):
        chosen = [index for index, case in enumerate(cases) if case.opset == version]
        given, out = os.path.join(folder, "given.onnx"), os.path.join(folder, "out.onnx")
        onnx.save(model([cases[index] for index in chosen], [f"c{index}" for index in chosen]), given)
        command = [memc, "-q", "optimize", given, "-o", out, "--runtime", "ort", "--passes", "view,in-place,place", "--allow-unbound"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"  memc: {done.stderr.strip()[:300]}", file=sys.stderr)
            continue
        with open(os.path.join(folder, "out.layout.json"), encoding="utf-8") as file:
            layout = json.load(file)
        steps = {row["step"]: int(row["node"][1:]) for row in layout["schedule"]}
        for index in chosen:
            found[index] = 0
        for tensor in layout["tensors"]:
            if tensor["class"] == "scratch":
                found[steps[tensor["step"]]] += tensor["bytes"]
    return found


def describe(case):
    operands = [f"{given.dtype}{given.shape}{' const' if given.const else ''}" if given else "-" for given in case.inputs]
    return f"{' '.join(operands)} {case.attributes} outputs {case.outputs} opset {case.opset}"


def drawn(name, options):
    """The cases of an operator: the same for the same seed, whatever others are drawn."""
    source = random.Random(f"{options.seed} {name}")
    cases = []
    for _ in range(options.cases * 20):
        case = GENERATORS[name](source)
        if case and len(cases) < options.cases:
            cases.append(case)
    return cases


def is_half(case):
    return any(given and given.dtype == F16 for given in case.inputs)


def summary(name, pairs, show):
    """Prints the line of an operator with its worst cases, and gives the line's cells."""
    for _, real, case in pairs:
        if isinstance(real, str) and show:
            print(f"    fails: {real}: {describe(case)}")
    pairs = [pair for pair in pairs if pair[0] is not None and not isinstance(pair[1], str)]
    if not pairs:
        row = [name, 0, 0, "-", 0, 0, 0]
    else:
        exact = sum(abs(model - real) <= ROUNDING for model, real, _ in pairs)
        # Tables of a few KiB are no excess worth a line.
        over = max(pairs, key=lambda pair: (pair[0] + SMALL) / (max(pair[1], 0) + SMALL))
        lack = max(pairs, key=lambda pair: pair[1] - pair[0])
        ratio = over[0] / max(over[1], ROUNDING)
        row = [name, len(pairs), exact, f"{ratio:.2f}", over[0] - over[1], max(lack[1] - lack[0], 0), lack[1]]
    print("{:<50} {:>5} {:>5} {:>9} {:>10,} {:>10,} {:>10,}".format(*row), flush=True)
    worst = sorted(pairs, key=lambda pair: abs(pair[0] - pair[1]), reverse=True)[:show]
    for model, real, case in worst:
        if abs(model - real) > ROUNDING:
            print(f"    modelled {model:,} counted {real:,}: {describe(case)}")
    return row


def main():
    if sys.argv[1:2] == ["--count"]:
        return count(sys.argv[2])
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--memc", default="target/release/memc", help="the binary")
    made.add_argument("--cases", type=int, default=60, help="random nodes an operator")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--only", action="append", default=[], metavar="OPERATOR")
    made.add_argument("--show", type=int, default=0, metavar="N", help="print the N worst cases of each operator")
    made.add_argument("--csv", help="also write the lines there")
    options = made.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "count.so")
        source = os.path.join(HERE, "count_allocations.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", library, "-ldl", "-lpthread"], check=True)
        print(f"{'operator':<50} {'cases':>5} {'exact':>5} {'most over':>9} {'bytes':>10} {'lacks':>10} {'counted':>10}")
        for name in sorted(options.only or GENERATORS):
            cases = drawn(name, options)
            pairs = list(zip(modelled(cases, options.memc, folder), counted(cases, library, folder), cases))
            for kind in ("", " (half)"):
                of_kind = [pair for pair in pairs if is_half(pair[2]) == bool(kind)]
                rows += [summary(name + kind, of_kind, options.show)] if of_kind else []
    if options.csv:
        os.makedirs(os.path.dirname(options.csv) or ".", exist_ok=True)
        with open(options.csv, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["operator", "cases", "exact", "most_over", "bytes_over", "bytes_lacking", "counted_where_lacking"])
            writer.writerows(rows)
    return None


if __name__ == "__main__":
    main()
