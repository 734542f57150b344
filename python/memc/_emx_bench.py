"""Test benches of generated C: builds them, runs them on inputs, and compares results."""

import os
import subprocess

# The arena holds values of several types in one array of bytes.
FLAGS = ["-O2", "-std=gnu99", "-fno-strict-aliasing", "-Wno-unknown-pragmas"]

_MAIN = """/* Test bench of {name}: reads all inputs from the first file, runs the model, writes all outputs to the second. */
#include <stdint.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
{declared}
{signature};

static unsigned char *place(size_t size) {{
    unsigned char *made = malloc(size ? size : 1);
    if (!made) exit(2);
    memset(made, 0, size);
    return made;
}}

int main(int count, char **words) {{
    FILE *file = count > 2 ? fopen(words[1], "rb") : NULL;
    if (!file) return 3;
{buffers}
{reads}
    fclose(file);
{load}
    {name}({arguments});
    file = fopen(words[2], "wb");
    if (!file) return 3;
{writes}
    fclose(file);
    return 0;
}}
"""


class BenchError(Exception):
    """A test bench that cannot be built, or that fails; `told` is its output."""

    def __init__(self, message, told=""):
        super().__init__(message)
        self.told = told


class End:
    """A graph input or output: `name`, NumPy's name of its type, shape, bytes, and its place in an arena as an expression of
    C, or None for memory of the caller."""

    __slots__ = ("name", "dtype", "shape", "size", "place")

    def __init__(self, name, dtype, shape, size, place=None):
        self.name, self.dtype, self.shape, self.size, self.place = name, dtype, shape, size, place


def main_of(source, inputs, outputs, header=None, arenas=(), weights=None):
    """Returns the C of a test bench for the entry function of a source."""
    declared = [f'#include "{header}"'] if header else []
    declared += [f"extern unsigned char memc_arena_{space.lower()}[];" for space in arenas]
    buffers, reads, writes, arguments = [], [], [], []
    for kind, ends, lines, act in (("input", inputs, reads, "fread"), ("output", outputs, writes, "fwrite")):
        for number, end in enumerate(ends):
            name = f"{kind}{number}"
            buffers.append(f"    unsigned char *{name} = {end.place or f'place({end.size})'};")
            if end.size:
                lines.append(f"    if ({act}({name}, 1, {end.size}, file) != {end.size}) return 4;")
            arguments.append(f"(void *){name}")
    load = ""
    if weights:
        declared.append("_Bool " + f"{source.name}_load(const char *path);")
        load = f'    if (!{source.name}_load("{weights}")) return 5;'
    return _MAIN.format(
        name=source.name,
        declared="\n".join(declared),
        signature=source.signature,
        buffers="\n".join(buffers),
        reads="\n".join(reads),
        load=load,
        writes="\n".join(writes),
        arguments=", ".join(arguments),
    )


def build(compiler, flags, folder, program, sources):
    """Compiles a program in a folder."""
    words = [*compiler, *FLAGS, *flags, "-o", program, *sources, "-lm"]
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    except OSError as error:
        raise BenchError(f"`{compiler[0]}` does not run: {error.strerror}") from None
    if done.returncode:
        raise BenchError(f"`{' '.join(words)}` fails in `{folder}`", done.stderr)


def run(folder, program, data):
    """Runs a program on the bytes of all inputs. Returns the bytes of all outputs."""
    given, made = os.path.join(folder, "inputs.bin"), os.path.join(folder, "outputs.bin")
    with open(given, "wb") as file:
        file.write(data)
    done = subprocess.run([os.path.join(os.path.abspath(folder), program), "inputs.bin", "outputs.bin"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"`{program}` ends with code {done.returncode}", done.stdout + done.stderr)
    with open(made, "rb") as file:
        return file.read()


def random_inputs(inputs, seed):
    """Returns random arrays for graph inputs: numbers of a normal distribution, integers of one byte over their whole
    range, and wider integers of 0 or 1, which are valid positions."""
    import numpy

    generator = numpy.random.default_rng(seed)
    made = []
    for end in inputs:
        kind = numpy.dtype(end.dtype)
        if kind.kind == "f":
            made.append(generator.standard_normal(end.shape).astype(kind))
        elif kind.kind in "iu" and kind.itemsize == 1:
            limits = numpy.iinfo(kind)
            made.append(generator.integers(limits.min, limits.max + 1, end.shape).astype(kind))
        else:
            made.append(generator.integers(0, 2, end.shape).astype(kind))
    return made


def arrays(outputs, data):
    """Returns the outputs that a test bench wrote as arrays."""
    import numpy

    made, position = [], 0
    for end in outputs:
        part = data[position : position + end.size]
        made.append(numpy.frombuffer(part, numpy.dtype(end.dtype)).reshape(end.shape))
        position += end.size
    return made


def difference(one, other):
    """Returns the largest difference of two lists of arrays: of integers in steps, of other numbers as a share of the
    largest number of their array."""
    import numpy

    steps, share = 0, 0.0
    for left, right in zip(one, other):
        if left.size == 0:
            continue
        if left.dtype.kind in "iub":
            steps = max(steps, int(numpy.max(numpy.abs(left.astype(object) - right.astype(object)))))
            continue
        wide, given = left.astype(float), right.astype(float)
        if not numpy.array_equal(numpy.isfinite(wide), numpy.isfinite(given)):
            return steps, float("inf")
        finite = numpy.isfinite(given)
        if finite.any():
            apart = float(numpy.max(numpy.abs(wide[finite] - given[finite])))
            share = max(share, apart / max(float(numpy.max(numpy.abs(given[finite]))), 1e-30) if apart else 0.0)
    return steps, share
