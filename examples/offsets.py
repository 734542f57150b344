"""Computes sizes and offsets of a plan for ranges of dimensions, from its layout alone.

Usage: python3 offsets.py LAYOUT.json batch=1 seq=128 [--fixed]

By default offsets follow the extents by the key `formula`; with `--fixed` they are those of the smallest
entry of `layouts` that holds the extents, or the offsets of `tensors`. Prints one JSON object.
"""

import json
import re
import sys

TOKEN = re.compile(r'\s*(?:(\d+)|([A-Za-z_][A-Za-z0-9_.:]*)|"((?:[^"\\]|\\.)*)"|([-+*/(),]))')


class Reader:
    """Evaluates an expression while it reads it."""

    def __init__(self, text, extents):
        self.tokens, self.at, self.extents = [], 0, extents
        place = 0
        while text[place:].strip():
            found = TOKEN.match(text, place)
            if not found:
                raise ValueError(f"cannot read {text!r}")
            self.tokens.append(found)
            place = found.end()

    def eat(self, mark):
        found = self.at < len(self.tokens) and self.tokens[self.at].group(4) == mark
        self.at += found
        return found

    def sum(self):
        value = -self.product() if self.eat("-") else self.product()
        while True:
            if self.eat("+"):
                value += self.product()
            elif self.eat("-"):
                value -= self.product()
            else:
                return value

    def product(self):
        value = self.operand()
        while self.eat("*"):
            value *= self.operand()
        return value

    def operand(self):
        if self.eat("("):
            value = self.sum()
            self.close()
            return value
        number, word, quoted, _ = self.tokens[self.at].groups()
        self.at += 1
        if number is not None:
            return int(number)
        if quoted is not None:
            return self.extents[re.sub(r"\\(.)", r"\1", quoted)]
        if not self.eat("("):
            return self.extents[word]
        values = [self.sum()]
        if word == "floor":
            # A divisor below 1 counts as 1.
            value = values[0] // max(1, self.operand()) if self.eat("/") else None
            self.close()
            return value
        while self.eat(","):
            values.append(self.sum())
        self.close()
        return {"min": min, "max": max}[word](values)

    def close(self):
        if not self.eat(")"):
            raise ValueError("a parenthesis is open")


def value(text, extents):
    """Returns the value of an expression; a negative one counts as 0."""
    reader = Reader(text, extents)
    result = reader.sum()
    if reader.at != len(reader.tokens):
        raise ValueError(f"cannot read {text!r}")
    return max(0, result)


def check(model, extents):
    """Refuses extents that the plan is not made for."""
    for name, extent in model.get("ranges", {}).items():
        given = extents[name]
        is_inside = extent["min"] <= given <= extent["max"]
        if not is_inside or (given - extent["min"]) % extent["step"]:
            raise SystemExit(f"the plan is not made for {name}={given}")
    for limit in model.get("limits", []):
        if value(limit["of"], extents) > limit["most"]:
            raise SystemExit(f"the plan is made for {limit['of']} up to {limit['most']}")


def place(layout, extents, fixed=False):
    """Returns sizes, offsets and arenas at these extents, by name."""
    check(layout["model"], extents)
    tensors = {tensor["name"]: tensor for tensor in layout["tensors"]}
    sizes = {
        name: value(tensor["bytes_expr"], extents) if "bytes_expr" in tensor else tensor["bytes"]
        for name, tensor in tensors.items()
    }
    offsets = {}
    if fixed:
        holds = lambda entry: all(extents[name] <= most for name, most in entry["dims"].items())
        entry = next(filter(holds, layout.get("layouts", [])), None)
        arenas = {row["space"]: row["size"] for row in (entry or layout)["arenas"]}
        for name, tensor in tensors.items():
            if tensor["offset"] is not None and "alias" not in tensor:
                offsets[name] = entry["offsets"][name] if entry else tensor["offset"]
    else:
        arenas = {}
        for arena in layout["arenas"]:
            size, step = 0, arena["alignment"]
            for row in layout["formula"].get(arena["space"], []):
                name = row["tensor"]
                top = max((offsets[below] + sizes[below] for below in row.get("above", [])), default=0)
                offsets[name] = -(-top // step) * step
                if sizes[name]:
                    size = max(size, offsets[name] + sizes[name])
            arenas[arena["space"]] = size

    def offset(tensor):
        """Returns the offset of a tensor: an alias begins in its owner."""
        if "alias" not in tensor:
            return offsets[tensor["name"]]
        alias = tensor["alias"]
        within = value(alias["alias_offset_expr"], extents) if "alias_offset_expr" in alias else alias["alias_offset"]
        return offset(tensors[alias["of"]]) + within

    placed = [tensor for tensor in tensors.values() if tensor["offset"] is not None]
    return {"arenas": arenas, "bytes": sizes, "offsets": {tensor["name"]: offset(tensor) for tensor in placed}}


def main(arguments):
    fixed = "--fixed" in arguments
    path, *given = [argument for argument in arguments if argument != "--fixed"]
    extents = {name: int(extent) for name, extent in (pair.rsplit("=", 1) for pair in given)}
    with open(path, encoding="utf-8") as file:
        print(json.dumps(place(json.load(file), extents, fixed), indent=1, sort_keys=True))


if __name__ == "__main__":
    main(sys.argv[1:])
