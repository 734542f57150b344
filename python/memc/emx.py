"""The command `memc-emx`: C of emx-onnx-cgen whose temporaries lie in one arena, at the offsets of a plan.

It plans a model, compiles the planned model to C, and puts every temporary at its place. A test bench compares the
results with those of ONNX Runtime and, bit for bit, with the C that has a buffer for each temporary.
"""

import argparse
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from memc import _memc
from memc import _emx_bench as bench
from memc import _emx_source as c
from memc._errors import Error
from memc._plans import Diagnostic
from memc._proofs import check

# Release of emx-onnx-cgen whose C this module was tested with.
TESTED = "1.4.0"

# Largest difference from ONNX Runtime: 32-bit sums in another order differ by some units of 6e-8, and networks
# enlarge them. Results of 8-bit integers may round the other way.
SHARE = 1e-3
STEPS = 1

# Options that change the sizes of the model itself, so that the model without a plan gets them too.
_SIZES = ("--dim", "--dim-from", "--assume")

# Workspace of the kernels of emx-onnx-cgen: they compute in place of their results, with single numbers on the stack.
_SCRATCH = os.path.join(os.path.dirname(__file__), "emx.scratch.json")

# Domain of the nodes that copy a tensor to another space and back.
_TRANSFERS = "ai.memc"

# NumPy's names of element types.
_TYPES = {"float": "float32", "double": "float64", "float16": "float16", "bool": "bool"}


class EmxError(Exception):
    """A failure of the command; `help` is advice, `told` the output of a tool."""

    def __init__(self, message, help=None, told="", code=1):
        super().__init__(message)
        self.help, self.told, self.code = help, told, code


def main(arguments=None):
    """Runs the command; returns its exit code: 0, 1 for a failure, 2 for wrong use, 3 for a limit exceeded."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        options, planning = _parsed(words)
        _Job(options, planning).run()
        return 0
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except EmxError as error:
        for line in error.told.splitlines()[-12:]:
            print(f"  | {line}", file=sys.stderr)
        print(f"error: {error}", file=sys.stderr)
        if error.help:
            print(f"  = help: {error.help}", file=sys.stderr)
        return error.code


def _parsed(words):
    """Returns the options of this command, and the words for `memc optimize`."""
    parser = argparse.ArgumentParser(
        prog="memc-emx",
        usage="memc-emx MODEL.onnx -o FOLDER [options] [options of memc optimize]",
        description=__doc__.split("\n\n")[0],
        epilog="All other options are those of `memc optimize`, for example --dim, --budget, --slowdown, --exact, --io.",
        allow_abbrev=False,
    )
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="folder for the C, the header and the layout")
    parser.add_argument("--name", help="name of the C function and of the files [default: the model's]")
    parser.add_argument("--align", type=int, metavar="BYTES", help="alignment of the arena and of all offsets, a power of two")
    parser.add_argument("--no-bench", action="store_true", help="write the C, and neither build nor compare it")
    parser.add_argument("--runs", type=int, default=2, metavar="N", help="number of random inputs to compare [default: 2]")
    parser.add_argument("--cc", default=os.environ.get("CC", "gcc"), help="C compiler of the test bench [default: $CC, or gcc]")
    parser.add_argument("--cflags", default="", help="further options for the compiler")
    parser.add_argument("--weights-file", action="store_true", help="keep large weights in a file that the C loads, for big models")
    parser.add_argument("--keep-unplaced", action="store_true", help="leave temporaries without a place to the compiler")
    if words and not words[0].startswith("-"):
        model, words = words[0], words[1:]
    elif {"-h", "--help"} & set(words):
        model = None
    else:
        parser.error("the model comes first: memc-emx MODEL.onnx -o FOLDER")
    options, planning = parser.parse_known_args(words)
    options.model = model
    return options, planning


def _tool():
    """Returns the words that start emx-onnx-cgen."""
    if importlib.util.find_spec("emx_onnx_cgen"):
        return [sys.executable, "-m", "emx_onnx_cgen"]
    found = shutil.which("emx-onnx-cgen")
    if found is None:
        raise EmxError("emx-onnx-cgen is not installed", f"install it beside memc: `pip install emx-onnx-cgen=={TESTED}`")
    return [found]


def _identifier(text):
    """Returns a C identifier for the name of a file."""
    made = re.sub(r"\W", "_", text, flags=re.ASCII).strip("_") or "model"
    return f"m_{made}" if made[0].isdigit() else made


def _states(words, names):
    """Whether the words state one of the options."""
    return any(word.split("=")[0] in names for word in words)


def _kept(words, names):
    """Returns the words of these options, each of which takes a value."""
    kept, take = [], False
    for word in words:
        if take or word.split("=")[0] in names:
            kept.append(word)
            take = not take and word in names
        else:
            take = False
    return kept


def build(model, folder, *words):
    """Does the work of the command with further words, and returns the numbers: `arenas` by space, `temporaries` of the
    planned C without a plan and `given` of that of the given model, in bytes; with a bench also `equal`, whether the
    bits are those of the C without a plan, `same`, whether they are those of the given model's C, and `apart`, the
    difference from ONNX Runtime in steps of integers and as a share of the largest number.

    Raises `EmxError`, and the errors of `memc.optimize`."""
    options, planning = _parsed([str(model), "-o", str(folder), *words])
    return _Job(options, planning).run()


class _Job:
    """One run of the command."""

    def __init__(self, options, planning):
        self.options, self.planning = options, planning
        self.tool = _tool()
        self.compiler = shlex.split(options.cc)
        if not options.no_bench and not (self.compiler and shutil.which(self.compiler[0])):
            raise EmxError(f"there is no C compiler `{options.cc}`", "name one with `--cc`, or write the C only: `--no-bench`")
        if _states(planning, ["--alias-state", "--state", "--output", "-o", "--anchors"]):
            raise EmxError("memc-emx does not take --alias-state, --state and --anchors", code=2)
        self.folder = options.output
        self.name = _identifier(options.name or os.path.splitext(os.path.basename(options.model))[0])

    def path(self, suffix):
        return os.path.join(self.folder, self.name + suffix)

    def run(self):
        os.makedirs(self.folder, exist_ok=True)
        self._plan()
        self._load()
        with tempfile.TemporaryDirectory(prefix="memc-emx-") as scratch:
            source = self._compile(self._with_copies(scratch), self.folder, self.name)
        places = self._places(source)
        header = f"{self.name}_plan.h"
        written = c.patched(source, places, self.dropped, header, self.arenas)
        with open(self.path(".c"), "w", encoding="utf-8") as file:
            file.write(written)
        with open(self.path(".h"), "w", encoding="utf-8") as file:
            file.write(self._declarations(source, header))
        placed = sum(place is not None for place in places.values())
        whole = f"{source.bytes_of_temporaries():,} B without a plan"
        print(f"{self.path('.c')}: {placed} of {len(places)} temporaries in {self._sizes()}; {whole}")
        sizes = {row["space"]: row["size"] for row in self.layout["arenas"]}
        self.numbers = {"arenas": sizes, "temporaries": source.bytes_of_temporaries()}
        if not self.options.no_bench:
            self._bench(source)
        return self.numbers

    def _sizes(self):
        arenas = [f"{row['size']:,} B of {row['space']}" for row in self.layout["arenas"]]
        return " and ".join(arenas) or "no arena"

    def _plan(self):
        """Plans the model, and writes the planned model, the layout and its header."""
        self.model = self.path(".onnx")
        words = ["-o", self.model, "--layout", self.path(".layout.json"), "--layout", self.path("_plan.h"), "--std-ops"]
        # The entry function of the C takes pointers to inputs and outputs.
        words += [] if _states(self.planning, ["--io"]) else ["--io", "external"]
        words += [] if _states(self.planning, ["--scratch"]) else ["--scratch", _SCRATCH]
        words += [] if self.options.align is None else ["--align", str(self.options.align)]
        planned = _memc.plan([*words, *self.planning, "--", self.options.model], None, None)
        for said in planned.diagnostics:
            print(Diagnostic(*said), file=sys.stderr)
        import json

        self.text = planned.render("layout", "")
        self.layout = json.loads(self.text)
        print(planned.render("line", ""))
        proof = check(self.options.model, self.model, self.path(".layout.json"))
        if not proof:
            raise EmxError(f"the plan does not hold: {proof.violations[0]!r}", "this is a defect of memc: report it")
        if self.layout["unplanned"]:
            first = self.layout["unplanned"][0]
            raise EmxError(f"`{first['name']}` has no size: {first['reason']}", "bind dimensions with --dim, or sizes with --assume")
        self.tensors = {row["name"]: row for row in self.layout["tensors"]}

    def _compile(self, model, folder, name):
        """Compiles a model to C. Returns the C."""
        words = ["compile", model, os.path.join(folder, f"{name}.c"), "--model-name", name, "--no-restrict-arrays", "--color", "never"]
        # Everything of more than one byte in a form of its own; weights in the C, or in a file.
        words += ["--large-temp-threshold", "1", "--emit-data-file"]
        words += [] if self.options.weights_file else ["--large-weight-threshold", "0"]
        done = subprocess.run([*self.tool, *words], capture_output=True, text=True)
        if done.returncode:
            raise EmxError(f"emx-onnx-cgen cannot compile `{model}`", told=done.stdout + done.stderr)
        with open(os.path.join(folder, f"{name}.c"), encoding="utf-8") as file:
            text = file.read()
        try:
            return c.Source(text, name)
        except c.Unreadable as error:
            help = f"the releases of emx-onnx-cgen differ: memc-emx was tested with {TESTED}"
            raise EmxError(f"the C of emx-onnx-cgen has an unknown form: {error}", help) from None

    def _load(self):
        """Reads the nodes and ends of the planned model, without its weights."""
        try:
            import onnx
        except ImportError:
            raise EmxError("memc-emx needs the package onnx", "install it beside memc: `pip install onnx`") from None

        self.graph = onnx.load(self.model, load_external_data=False).graph
        self.nodes = [(list(node.input), list(node.output)) for node in self.graph.node]

    def _with_copies(self, folder):
        """Returns the path of the planned model, with an Identity for each transfer between two spaces: its operand and
        its result have their places in these spaces, so the kernel copies from one to the other."""
        if all(node.domain != _TRANSFERS for node in self.graph.node):
            return self.model
        import onnx

        model = onnx.load(self.model)
        for node in model.graph.node:
            if node.domain == _TRANSFERS:
                node.op_type, node.domain = "Identity", ""
                del node.attribute[:]
        kept = [function for function in model.functions if function.domain != _TRANSFERS]
        del model.functions[:]
        model.functions.extend(kept)
        path = os.path.join(folder, "copies.onnx")
        onnx.save(model, path)
        return path

    def _places(self, source):
        """Returns the place of each temporary by its name in C."""
        spaces, identifiers = _memc.identifiers(self.text)
        self.arenas = spaces
        space = {row["space"]: name for row, name in zip(self.layout["arenas"], spaces)}
        identifier = {row["name"]: name for row, name in zip(self.layout["tensors"], identifiers)}
        self.space, self.identifier = space, identifier
        help = "`--keep-unplaced` leaves these to the compiler, in addition to the arena"
        tensors, unplaced = c.matched(source, self.nodes)
        try:
            live = {row["name"]: row["live"] for row in self.layout["tensors"]}
            steps = c.steps_of_calls(source, self.nodes, tensors, live)
        except c.Unmatched as error:
            raise EmxError(f"the C does not follow the plan: {error}", f"memc-emx was tested with emx-onnx-cgen {TESTED}") from None
        self.dropped = {k for k, step in enumerate(steps) if c.copies_onto_itself(self.nodes[step], self.tensors)}
        ends = [end.name for kind in ("input", "output") for end in self._ends(kind)]
        if len(ends) != len(source.parameters):
            raise EmxError(f"the C takes {len(source.parameters)} pointers for {len(ends)} inputs and outputs")
        parameters = dict(zip(ends, source.parameters))
        places = dict.fromkeys(unplaced)
        for name, tensor in tensors.items():
            places[name] = self._place(tensor, parameters)
            # Tensors without elements need no place.
            if places[name] is None and self.tensors.get(tensor, {}).get("bytes") != 0:
                unplaced.append(name)
        if unplaced and not self.options.keep_unplaced:
            raise EmxError(f"the layout has no place for {', '.join(unplaced[:8])} ({len(unplaced)} temporaries)", help)
        return places

    def _place(self, tensor, parameters):
        """Returns the place of a tensor: in an arena, or inside an input or output of the caller; None without one."""
        row = self.tensors.get(tensor)
        if not row or not row["bytes"]:
            return None
        if row.get("space") in self.space:
            arena = f"memc_arena_{self.space[row['space']].lower()}"
            return c.Place(f"{arena} + MEMC_TENSOR_{self.identifier[tensor]}_OFFSET", row["bytes"])
        owner, offset = row, 0
        while owner.get("alias") and owner["name"] not in parameters:
            offset += owner["alias"]["alias_offset"]
            owner = self.tensors[owner["alias"]["of"]]
        name = parameters.get(owner["name"])
        return None if name is None else c.Place(f"(unsigned char *){name} + {offset}", row["bytes"])

    def _declarations(self, source, header):
        """Returns the header of the written C."""
        lines = [f"/* {self.name}: compiled by emx-onnx-cgen, at the offsets of a plan of memc. */"]
        lines += [f"#ifndef MEMC_EMX_{self.name.upper()}_H", f"#define MEMC_EMX_{self.name.upper()}_H", ""]
        lines += ["#include <stdint.h>", "#include <stdbool.h>", f'#include "{header}"', ""]
        lines += [f"extern unsigned char memc_arena_{space.lower()}[];" for space in self.arenas]
        if self.options.weights_file:
            lines.append(f"_Bool {self.name}_load(const char *path);")
        return "\n".join([*lines, source.signature + ";", "", "#endif", ""])

    def _ends(self, kind):
        """Returns the graph's inputs or outputs, with their places in the arena."""
        constant = {tensor.name for tensor in self.graph.initializer}
        ends = []
        for value in self.graph.input if kind == "input" else self.graph.output:
            if value.name in constant:
                continue
            row, place = self.tensors[value.name], None
            if row.get("space") in self.space:
                place = f"memc_arena_{self.space[row['space']].lower()} + MEMC_TENSOR_{self.identifier[value.name]}_OFFSET"
            ends.append(bench.End(value.name, _TYPES.get(row["dtype"], row["dtype"]), row["shape"], row["bytes"], place))
        return ends

    def _bench(self, source):
        """Builds the C with the plan, without it, and that of the given model; compares their results."""
        try:
            import numpy  # noqa: F401
        except ImportError:
            raise EmxError("the test bench needs NumPy", "install it, or write the C only: `--no-bench`") from None
        inputs, outputs = self._ends("input"), self._ends("output")
        try:
            with tempfile.TemporaryDirectory(prefix="memc-emx-") as scratch:
                self._compare(source, inputs, outputs, scratch)
        except bench.BenchError as error:
            raise EmxError(str(error), told=error.told) from None

    def _compare(self, source, inputs, outputs, scratch):
        weights = f"{self.name}.bin" if os.path.exists(self.path(".bin")) else None
        main = bench.main_of(source, inputs, outputs, f"{self.name}_plan.h", self.arenas, weights)
        self._write(f"{self.name}_bench.c", main)
        self._build(self.folder, f"{self.name}_bench", self.name)
        # The model in its given order, without rewriting and without a plan.
        model = os.path.join(scratch, "given.onnx")
        given = ["-o", model, "--passes", _memc.FILE_ORDER, "--io", "external", *_kept(self.planning, _SIZES)]
        _memc.plan([*given, "--", self.options.model], None, None)
        programs = {"the planned model": self._plain(scratch, self._with_copies(scratch), "own", inputs, outputs)}
        try:
            programs["the given model"] = self._plain(scratch, model, "given", inputs, outputs)
        except EmxError as error:
            print(f"remark: no comparison with C of the given model: {error}", file=sys.stderr)
        equal = dict.fromkeys(programs, True)
        apart, runs = (0, 0.0), range(max(self.options.runs, 1))
        for seed in runs:
            arrays = bench.random_inputs(inputs, seed)
            data = b"".join(array.tobytes() for array in arrays)
            made = bench.run(self.folder, f"{self.name}_bench", data)
            for title, (folder, program) in programs.items():
                equal[title] &= bench.run(folder, program, data) == made
            apart = self._worse(apart, self._from_onnxruntime(inputs, outputs, arrays, made))
        self._tell(equal, apart, len(runs))

    def _write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def _build(self, folder, program, name):
        sources = [f"{program}.c", f"{name}.c", f"{name}_data.c"]
        sources = [path for path in sources if os.path.exists(os.path.join(folder, path))]
        bench.build(self.compiler, shlex.split(self.options.cflags), folder, program, sources)

    def _plain(self, scratch, model, name, inputs, outputs):
        """Builds C without a plan. Returns its folder and program."""
        folder = os.path.join(scratch, name)
        os.makedirs(folder)
        source = self._compile(model, folder, name)
        weights = f"{name}.bin" if os.path.exists(os.path.join(folder, f"{name}.bin")) else None
        callers = [[bench.End(end.name, end.dtype, end.shape, end.size) for end in ends] for ends in (inputs, outputs)]
        with open(os.path.join(folder, f"{name}_bench.c"), "w", encoding="utf-8") as file:
            file.write(bench.main_of(source, *callers, weights=weights))
        self._build(folder, f"{name}_bench", name)
        self.numbers["temporaries" if name == "own" else "given"] = source.bytes_of_temporaries()
        return folder, f"{name}_bench"

    def _from_onnxruntime(self, inputs, outputs, arrays, made):
        """Returns the difference from ONNX Runtime on the given model, or None without ONNX Runtime."""
        try:
            import onnxruntime
        except ImportError:
            return None
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(self.options.model, options, providers=["CPUExecutionProvider"])
        feed = {end.name: array for end, array in zip(inputs, arrays)}
        wanted = {value.name for value in session.get_inputs()}
        told = session.run([end.name for end in outputs], {name: array for name, array in feed.items() if name in wanted})
        return bench.difference(bench.arrays(outputs, made), told)

    @staticmethod
    def _worse(one, other):
        return None if one is None or other is None else (max(one[0], other[0]), max(one[1], other[1]))

    def _tell(self, equal, apart, runs):
        """Prints the comparison; raises an error if the C with the plan is wrong."""
        own, given = equal["the planned model"], equal.get("the given model")
        self.numbers.update(equal=own, same=given, apart=apart)
        words = {True: "equal bits", False: "other rounding", None: "not compiled"}
        print(f"{runs} runs. C without a plan: {'equal' if own else 'other'} bits; C of the given model: {words[given]}")
        if apart is None:
            print("remark: not compared with ONNX Runtime: it is not installed", file=sys.stderr)
        else:
            print(f"ONNX Runtime: {apart[0]} steps of integers, {apart[1]:.1e} of the largest number")
        if not own:
            raise EmxError("the C with the plan gives other bits than the C without it", "a kernel may not write in place: report it")
        if given is False and _states(self.planning, ["--exact"]):
            raise EmxError("with --exact the bits must be those of the given model", "report it")
        if apart is not None and (apart[0] > STEPS or apart[1] > SHARE):
            raise EmxError(f"results differ from ONNX Runtime by {apart[0]} steps or {apart[1]:.1e}")


if __name__ == "__main__":
    sys.exit(main())
