"""C of emx-onnx-cgen: reads its entry function, and puts its temporaries into the arenas of a plan."""

import re

# Names of C: emx-onnx-cgen replaces every other character of a tensor's name.
_OTHER = re.compile(r"[^A-Za-z0-9_]")
_ENTRY = r"^void {name}\((?P<parameters>[^{{]*)\) \{{\n(?P<body>.*?)^\}}\n"
_HEAP = re.compile(r"^\s*(?P<type>\w+) (?:\*(?P<flat>\w+)|\(\*(?P<name>\w+)\)(?P<inner>(?:\[\d+\])+)) = malloc\(sizeof\(\*\w+\) \* (?P<first>\d+)\);$")
_STACK = re.compile(r"^\s*(?:static )?(?P<type>\w+) (?P<name>\w+)(?P<extents>(?:\[\d+\])+);$")
_NULL = re.compile(r"^\s*if \(\w+ == NULL\) \{$")
_FREE = re.compile(r"^\s*free\(\w+\);$")
_CALL = re.compile(r"^\s*\w+\((?P<arguments>.*)\);$")
_NUMBERED = re.compile(r"^tmp\d+_(?P<name>.*)$")
_PARAMETER = re.compile(r"^(?:const )?(?P<type>\w+) (?P<name>\w+)(?P<extents>(?:\[\d+\])+)$")
# Bytes of the types whose names do not tell their bits.
_WIDTHS = {"float": 4, "double": 8, "bool": 1, "_Bool": 1}


class Unreadable(Exception):
    """C whose form this module does not know."""


class Unmatched(Exception):
    """C that does not compute the nodes of the planned model in their order."""


class Temporary:
    """A buffer of the entry function: `name`, element `type`, `extents` in brackets, and `size` in bytes."""

    __slots__ = ("name", "type", "extents", "size")

    def __init__(self, name, type, extents):
        width = _WIDTHS.get(type) or int("".join(filter(str.isdigit, type)) or 0) // 8
        if not width:
            raise Unreadable(f"type `{type}` of `{name}` is unknown")
        self.name, self.type, self.extents = name, type, extents
        self.size = width
        for extent in re.findall(r"\d+", extents):
            self.size *= int(extent)


class Call:
    """A call of a kernel: its line, and the names that are its arguments."""

    __slots__ = ("line", "arguments")

    def __init__(self, line, arguments):
        self.line, self.arguments = line, arguments


class Source:
    """The C of a model, with the parts of its entry function."""

    def __init__(self, text, name):
        found = re.search(_ENTRY.format(name=re.escape(name)), text, re.MULTILINE | re.DOTALL)
        if found is None:
            raise Unreadable(f"there is no function `{name}`")
        self.name = name
        self.head, self.tail = text[: found.start()], text[found.end() :]
        self.signature = f"void {name}({found['parameters']})"
        self.parameters = []
        for part in found["parameters"].split(","):
            parameter = _PARAMETER.match(part.strip())
            if parameter is None:
                raise Unreadable(f"`{part.strip()}` is no array of fixed extents")
            self.parameters.append(parameter["name"])
        self.temporaries, self.calls = [], []
        lines = iter(found["body"].splitlines())
        for line in lines:
            self._read(line, lines)

    def _read(self, line, lines):
        """Reads a line of the entry function, and those that belong to it."""
        if made := _HEAP.match(line):
            name = made["flat"] or made["name"]
            extents = f"[{made['first']}]{made['inner'] or ''}"
            self.temporaries.append(Temporary(name, made["type"], extents))
            if not (_NULL.match(next(lines, "")) and "return;" in next(lines, "") and next(lines, "").strip() == "}"):
                raise Unreadable(f"the test after `{line.strip()}` is unknown")
        elif made := _STACK.match(line):
            self.temporaries.append(Temporary(made["name"], made["type"], made["extents"]))
        elif made := _CALL.match(line):
            if not _FREE.match(line):
                self.calls.append(Call(line.strip(), [part.strip() for part in made["arguments"].split(",")]))
        elif line.strip():
            raise Unreadable(f"line `{line.strip()}` is unknown")

    def bytes_of_temporaries(self):
        """Returns the sum of the sizes of all temporaries, in bytes."""
        return sum(each.size for each in self.temporaries)


def matched(source, nodes):
    """Returns the tensor of each temporary by its name in C, and the temporaries that have the name of no result.

    `nodes` are the model's nodes in order, each a pair of operands and results by name. The C lists its temporaries in
    the order of the nodes too, so names that become equal in C are told apart."""
    results = [name for _, made in nodes for name in made if name]
    tensors, position, missing = {}, 0, []
    for temporary in source.temporaries:
        numbered = _NUMBERED.match(temporary.name)
        at = next((k for k in range(position, len(results)) if numbered and _is_name(numbered["name"], results[k])), None)
        if at is None:
            missing.append(temporary.name)
            continue
        tensors[temporary.name] = results[at]
        position = at + 1
    return tensors, missing


def _is_name(identifier, name):
    """Whether an identifier stands for a tensor, with or without the number that makes it unique."""
    plain = _OTHER.sub("_", name) or "v"
    plain = f"v_{plain}" if plain[0].isdigit() else plain
    return identifier == plain or re.fullmatch(re.escape(plain) + r"_?\d+", identifier) is not None


def steps_of_calls(source, nodes, tensors, live):
    """Returns the step of each call: that of the next node whose operands and results the call has.

    Raises `Unmatched` if the calls have another order than the schedule, or a call uses a tensor at a step at which
    the layout does not keep it. `live` has the ranges of steps of each tensor."""
    steps, step = [], 0
    for call in source.calls:
        used = {tensors[name] for name in call.arguments if name in tensors}
        made = [set(results) & set(tensors.values()) for _, results in nodes[step:]]
        fits = (k for k, (reads, results) in enumerate(nodes[step:], step) if used <= set(reads) | set(results) and made[k - step] <= used)
        found = next(fits, None)
        if found is None:
            raise Unmatched(f"`{call.line}` is not the next node of the schedule")
        for name in used:
            if not any(start <= found < end for start, end in live[name]):
                raise Unmatched(f"`{call.line}` uses `{name}` at step {found}, at which the layout does not keep it")
        steps.append(found)
        step = found + 1
    return steps


class Place:
    """The place of a tensor: its address as an expression of C, and its size in bytes."""

    __slots__ = ("address", "size")

    def __init__(self, address, size):
        self.address, self.size = address, size


def copies_onto_itself(node, rows):
    """Whether a node's kernel would copy bytes onto themselves, so that no call is needed: all results are views of its
    operands, or all operands are views of its result. `rows` are the rows of the layout by name."""
    operands, results = [[name for name in names if name in rows] for names in node]
    aliases = [rows[name].get("alias") or {} for name in results]
    if results and all(alias.get("kind") == "view" and alias["of"] in operands for alias in aliases):
        return True
    aliases = [rows[name].get("alias") or {} for name in operands]
    is_whole = len(results) == 1 and sum(rows[name]["bytes"] for name in operands) == rows[results[0]]["bytes"]
    return bool(operands) and is_whole and all(alias.get("kind") == "view" and alias["of"] == results[0] for alias in aliases)


def patched(source, places, dropped, header, arenas):
    """Returns the C with every temporary at its place. `places` has the place of each temporary by its name in C, or
    None to leave it to the compiler; `dropped` are the numbers of calls that are not needed; `arenas` are the
    identifiers of all spaces with an arena."""
    sizes, lines = [], []
    for temporary in source.temporaries:
        place = places[temporary.name]
        if place is None:
            lines.append(f"    {temporary.type} {temporary.name}{temporary.extents};")
            continue
        inner = temporary.extents[temporary.extents.index("]") + 1 :]
        declared = f"(*{temporary.name}){inner}" if inner else f"*{temporary.name}"
        lines.append(f"    {temporary.type} {declared} = (void *)({place.address});")
        sizes.append(f"MEMC_ASSERT({temporary.name}, sizeof({temporary.type}{temporary.extents}) == {place.size}UL);")
    lines += [f"    {call.line}" for number, call in enumerate(source.calls) if number not in dropped]
    # A copy of a view onto itself: memcpy does not allow it.
    head = source.head.replace("memcpy(", "memmove(")
    made = [_arena(space) for space in arenas]
    parts = [f'#include "{header}"', "", *made, *sizes, "", source.signature + " {", *lines, "}", ""]
    return head + "\n".join(parts) + source.tail.replace("memcpy(", "memmove(")


def _arena(space):
    """Returns the definition of an arena. A board puts it into a section by a macro."""
    return f"""#ifndef MEMC_ARENA_{space}_ATTRIBUTES
#define MEMC_ARENA_{space}_ATTRIBUTES
#endif
MEMC_ARENA_{space}_ATTRIBUTES __attribute__((aligned(MEMC_ARENA_{space}_ALIGNMENT)))
unsigned char memc_arena_{space.lower()}[MEMC_ARENA_{space}_SIZE + (MEMC_ARENA_{space}_SIZE == 0)];
"""
