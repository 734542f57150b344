"""Replay: the allocations of a session's run, recorded once, placed, and served from one block in later runs."""

import ctypes
import threading
from bisect import bisect_left, insort
from contextlib import contextmanager

from memc import _memc

_ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

# Number of times that the runs of one key are recorded: the first run of a kernel may try algorithms, and results
# whose extents depend on values differ from run to run.
_RECORDINGS = 3


class Allocation:
    """One request of a recorded run: `bytes`, the events at which it came and was given back, and its `offset` in the
    block; `end` and `offset` are None if it outlived the run."""

    __slots__ = ("bytes", "start", "end", "offset")

    def __init__(self, bytes, start):
        self.bytes = bytes
        self.start = start
        self.end = None
        self.offset = None


class Recording:
    """The allocations of one run, in the order of the requests. `peak` is the largest number of bytes in use at once,
    `block` the size of the block that serves them."""

    def __init__(self):
        self.allocations = []
        self.peak = 0
        self.block = 0
        self._events = 0
        self._held = 0
        self._open = {}

    def add(self, address, bytes):
        self._events += 1
        allocation = Allocation(bytes, self._events)
        self.allocations.append(allocation)
        self._open[address] = allocation
        self._held += bytes
        self.peak = max(self.peak, self._held)

    def end(self, address):
        allocation = self._open.pop(address, None)
        if allocation is not None:
            self._events += 1
            allocation.end = self._events
            self._held -= allocation.bytes

    def place(self, unit):
        """Gives an offset to each allocation that ended within the run."""
        inside = [allocation for allocation in self.allocations if allocation.end is not None]
        buffers = [(one.start, one.end, -(-one.bytes // unit) * unit) for one in inside]
        offsets, self.block = _memc.place(buffers, unit)
        for allocation, offset in zip(inside, offsets):
            allocation.offset = offset


class Replay:
    """Serves the allocations of repeated runs from one block, by the number of the request.

    `take(bytes)` returns the address of new memory, or None; `give_back(address)` frees it. `unit` is the alignment of
    offsets and the granularity of sizes, in bytes. The first run of each key is recorded; its values and workspaces are
    then placed in one block, and later runs get block + offset. A request that the recording does not know, or whose
    place is in use, is a miss: it gets memory of its own, so that a run that differs is correct all the same. A
    request that outlives its run, as a result that the caller keeps, gets memory of its own and is no miss.

    `block` is the size of the block and `peak` the largest number of bytes in use at once in a recorded run; `misses`
    counts misses. Not for runs at the same time.
    """

    def __init__(self, take, give_back, unit=256):
        self.block = 0
        self.misses = 0
        self._take = take
        self._give_back = give_back
        self._unit = unit
        self._base = None
        self._recordings = {}
        self._counts = {}
        # The run under way: its recording, or the allocations that it repeats and the number of the next one.
        self._recording = None
        self._repeated = None
        self._next = 0
        # Ranges of the block in use, sorted by address, and the end of each one.
        self._starts = []
        self._ends = {}
        self._lock = threading.RLock()
        # Sessions keep the addresses of these functions, so that they must live as long as the sessions.
        self._functions = _ALLOCATE(self.allocate), _FREE(self.free)

    @property
    def peak(self):
        """Largest number of bytes in use at once in a recorded run."""
        return max((recording.peak for recording in self._recordings.values()), default=0)

    def addresses(self):
        """Returns the addresses of two C functions, `void *allocate(size_t)` and `void free(void *)`."""
        return tuple(ctypes.cast(function, ctypes.c_void_p).value for function in self._functions)

    @contextmanager
    def run(self, key=None):
        """A run: everything that is allocated within. Runs of equal keys make equal requests."""
        with self._lock:
            if self._recording is not None or self._repeated is not None:
                raise RuntimeError("another run of this replay is under way: one block serves one run at a time")
            known = self._recordings.get(key)
            if known is None:
                self._recording = Recording()
            else:
                self._reserve(known.block)
                self._repeated, self._next = known.allocations, 0
            missed = self.misses
        whole = False
        try:
            yield self
            whole = True
        finally:
            with self._lock:
                made, self._recording, self._repeated = self._recording, None, None
                if made is not None and whole:
                    made.place(self._unit)
                    self._recordings[key] = made
                    self._counts[key] = self._counts.get(key, 0) + 1
                elif self.misses > missed and self._counts[key] < _RECORDINGS:
                    del self._recordings[key]

    def allocate(self, bytes):
        """Returns the address of memory, or None if there is none."""
        with self._lock:
            address = None if self._repeated is None else self._repeat(bytes)
            if address is None:
                address = self._take(bytes)
            if self._recording is not None and address:
                self._recording.add(address, bytes)
            return address

    def free(self, address):
        """Takes memory back."""
        with self._lock:
            if not address:
                return
            if self._ends.pop(address, None) is not None:
                del self._starts[bisect_left(self._starts, address)]
                return
            if self._recording is not None:
                self._recording.end(address)
            self._give_back(address)

    def close(self):
        """Gives the block back. No session may use it any more."""
        with self._lock:
            if self._base is not None:
                self._give_back(self._base)
            self._base, self.block = None, 0
            self._starts, self._ends = [], {}

    def _reserve(self, bytes):
        """Makes the block large enough, unless a value of an earlier run is still in it."""
        if bytes <= self.block or self._starts:
            return
        if self._base is not None:
            self._give_back(self._base)
        self._base, self.block = self._take(bytes), bytes
        if not self._base:
            self._base, self.block = None, 0
            raise MemoryError(
                f"no memory for a block of {bytes} bytes: plan with a smaller budget, or run fewer rows at once"
            )

    def _repeat(self, bytes):
        """Returns the place of the next request in the block; None if it has none there."""
        number, self._next = self._next, self._next + 1
        known = self._repeated[number] if number < len(self._repeated) else None
        if known is not None and known.bytes == bytes and known.end is None:
            return None
        if known is not None and known.bytes == bytes and known.offset + bytes <= self.block:
            start, end = self._base + known.offset, self._base + known.offset + max(bytes, 1)
            at = bisect_left(self._starts, start)
            before = self._ends[self._starts[at - 1]] if at > 0 else start
            after = self._starts[at] if at < len(self._starts) else end
            if before <= start and end <= after:
                insort(self._starts, start)
                self._ends[start] = end
                return start
        self.misses += 1
        return None
