"""What a session's arena reserves for a plan: its best-fit allocator, simulated over the planned values.

Follows `core/framework/bfc_arena.cc` of ONNX Runtime.
"""

from bisect import bisect_left, insort

# Smallest chunk, first region, and bytes from which the rest of a chunk is split off in any case.
_UNIT = 256
_FIRST_REGION = 1 << 20
_MOST_WASTE = 128 << 20
_BINS = 21


def _rounded(bytes):
    return -(-bytes // _UNIT) * _UNIT


def _bin(bytes):
    """Number of the bin of free chunks of a size: bins begin at 256 times a power of two."""
    return min((bytes // _UNIT).bit_length() - 1, _BINS - 1)


class _Chunk:
    __slots__ = ("address", "bytes", "is_free", "before", "after")

    def __init__(self, address, bytes, before=None, after=None):
        self.address = address
        self.bytes = bytes
        self.is_free = True
        self.before = before
        self.after = after


class Arena:
    """An arena that takes the smallest free chunk that fits, splits it, and joins free neighbors.

    With `doubling`, sizes of regions are powers of two that grow; otherwise a region is as large as the request that
    needs it. `reserved` counts the bytes of all regions.
    """

    def __init__(self, doubling):
        self.reserved = 0
        self._doubling = doubling
        self._region = _FIRST_REGION
        self._bins = [[] for _ in range(_BINS)]
        self._used = {}
        # Regions are apart, so that no chunk joins one of another region.
        self._next = 0

    def take(self, key, bytes):
        if bytes == 0:
            return
        bytes = _rounded(bytes)
        chunk = self._fitting(bytes) or self._extended(bytes)
        if chunk.bytes >= 2 * bytes or chunk.bytes - bytes >= _MOST_WASTE:
            rest = _Chunk(chunk.address + bytes, chunk.bytes - bytes, chunk, chunk.after)
            if chunk.after is not None:
                chunk.after.before = rest
            chunk.after, chunk.bytes = rest, bytes
            self._insert(rest)
        chunk.is_free = False
        self._used[key] = chunk

    def end(self, key):
        chunk = self._used.pop(key, None)
        if chunk is None:
            return
        chunk.is_free = True
        if chunk.after is not None and chunk.after.is_free:
            self._remove(chunk.after)
            chunk = self._joined(chunk, chunk.after)
        if chunk.before is not None and chunk.before.is_free:
            self._remove(chunk.before)
            chunk = self._joined(chunk.before, chunk)
        self._insert(chunk)

    def _fitting(self, bytes):
        for chunks in self._bins[_bin(bytes) :]:
            at = bisect_left(chunks, (bytes, -1))
            if at < len(chunks):
                return chunks.pop(at)[2]
        return None

    def _extended(self, bytes):
        size = bytes
        if self._doubling:
            grown = False
            while bytes > self._region:
                self._region *= 2
                grown = True
            size = self._region
            if not grown:
                self._region *= 2
        self.reserved += size
        chunk = _Chunk(self._next, size)
        self._next += size + _UNIT
        return chunk

    def _insert(self, chunk):
        insort(self._bins[_bin(chunk.bytes)], (chunk.bytes, chunk.address, chunk))

    def _remove(self, chunk):
        self._bins[_bin(chunk.bytes)].remove((chunk.bytes, chunk.address, chunk))

    @staticmethod
    def _joined(first, second):
        first.bytes += second.bytes
        first.after = second.after
        if second.after is not None:
            second.after.before = first
        return first


def _events(layout):
    """Requests of one run in their order: ("take", name, bytes) and ("end", name)."""
    by_name = {tensor["name"]: tensor for tensor in layout["tensors"]}

    def owner(tensor):
        while tensor.get("alias"):
            tensor = by_name[tensor["alias"]["of"]]
        return tensor

    owners = {}
    for tensor in layout["tensors"]:
        own = owner(tensor)
        if own["class"] in ("constant", "input") or not tensor["live"]:
            continue
        first, last = tensor["live"][0][0], tensor["live"][-1][1]
        found = owners.setdefault(own["name"], [own["class"], first, last, 0])
        found[1], found[2] = min(found[1], first), max(found[2], last)
        found[3] = max(found[3], tensor["bytes"])
        if tensor["class"] == "output":
            found[0] = "output"
    steps = len(layout["schedule"])
    starts = [[] for _ in range(steps + 1)]
    ends = [[] for _ in range(steps + 1)]
    for name, (kind, first, last, bytes) in owners.items():
        # Workspace is taken after results, and given back before operands are.
        starts[first].append((kind == "scratch", name, bytes))
        ends[steps if kind == "output" else min(last, steps)].append((kind != "scratch", name))
    for step in range(steps + 1):
        for _, name in sorted(ends[step]):
            yield ("end", name)
        for _, name, bytes in sorted(starts[step]):
            yield ("take", name, bytes)


def reserved(layout, doubling, runs=3):
    """Returns the bytes that an arena reserves for runs of a plan, workspace that the plan knows included."""
    arena = Arena(doubling)
    events = list(_events(layout))
    # Inputs are copied to a device; on the CPU they stay where the caller holds them.
    on_device = layout["options"].get("runtime") == "cuda"
    inputs = [tensor for tensor in layout["tensors"] if tensor["class"] == "input" and on_device]
    for _ in range(runs):
        for tensor in inputs:
            arena.take(("input", tensor["name"]), tensor["bytes"])
        for event in events:
            if event[0] == "take":
                arena.take(*event[1:])
            else:
                arena.end(event[1])
        for tensor in inputs:
            arena.end(("input", tensor["name"]))
    return arena.reserved
