"""`memc-run-devices`: runs the sections of a divided model, a rank each, on an engine that moves the bytes.

    mpirun -n 2 memc-run-devices parts/manifest.json --inputs in.npz --outputs out.npz

Rank `n` runs the program of the manifest's device `n` with stock sessions of ONNX Runtime. `Mpi` is an engine over
mpi4py; `Local` is one over threads of this process, for tests and for machines without MPI. Engines have six
functions: `send` starts, and returns a function that waits until the array may change; `recv` fills an array with the
next message of a rank; `all_reduce` adds an array over all ranks, in place; `all_gather` fills `whole` with the parts
of all ranks, by rank; `reduce_scatter` adds `whole` over all ranks and fills `part` with this rank's share; `barrier`
waits for all. Beside these, `gather` returns the items of all ranks on rank 0, and `abort` ends all ranks. Values are
dense arrays; sends are buffered, and all receives follow the order of the manifest.
"""

import argparse
import hashlib
import json
import pathlib
import queue
import re
import sys
import threading
import time
import zlib
from concurrent import futures

import numpy

# Seconds between two looks for a message, which leave the processor to others, and until a silent rank is given up.
_PAUSE, _PATIENCE = 0.0005, 600.0


class ManifestError(ValueError):
    """The manifest, its files or the inputs cannot be used."""


class Mpi:
    """The engine over mpi4py: `mpirun` starts a process for each rank."""

    def __init__(self):
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise ManifestError("mpi4py is missing: pip install memc[mpi], or use --engine local") from error
        self._mpi, self._world = MPI, MPI.COMM_WORLD
        self.rank, self.size = self._world.Get_rank(), self._world.Get_size()

    def send(self, array, to):
        request = self._world.Isend(_bytes(array), dest=to)
        return lambda: self._wait(request)

    def recv(self, array, source):
        self._wait(self._world.Irecv(_bytes(array), source=source))

    def all_reduce(self, array):
        self._world.Allreduce(self._mpi.IN_PLACE, array)

    def all_gather(self, part, whole):
        self._world.Allgather(_bytes(part), _bytes(whole))

    def reduce_scatter(self, whole, part):
        self._world.Reduce_scatter_block(whole, part)

    def barrier(self):
        self._world.Barrier()

    def gather(self, item):
        return self._world.gather(item, root=0)

    def abort(self):
        self._world.Abort(1)

    def _wait(self, request):
        while not request.Test():
            time.sleep(_PAUSE)


class Local:
    """The engine over threads of one process: `Local.ranks(n)` returns one for each rank."""

    def __init__(self, rank, mail, items, gate):
        self.rank, self.size = rank, len(items)
        self._mail, self._items, self._gate = mail, items, gate

    @classmethod
    def ranks(cls, size):
        mail = [[queue.Queue() for _ in range(size)] for _ in range(size)]
        items, gate = [None] * size, threading.Barrier(size)
        return [cls(rank, mail, items, gate) for rank in range(size)]

    def send(self, array, to):
        self._mail[self.rank][to].put(array.copy())
        return lambda: None

    def recv(self, array, source):
        found = self._mail[source][self.rank].get(timeout=_PATIENCE)
        if found is None:
            raise ManifestError(f"rank {source} sends no more")
        array[...] = found

    def all_reduce(self, array):
        parts = self._exchange(array.copy())
        array[...] = sum(parts[1:], parts[0])

    def all_gather(self, part, whole):
        whole.reshape(self.size, -1)[...] = [item.reshape(-1) for item in self._exchange(part.copy())]

    def reduce_scatter(self, whole, part):
        total = whole.copy()
        self.all_reduce(total)
        part.reshape(-1)[...] = total.reshape(self.size, -1)[self.rank]

    def barrier(self):
        self._gate.wait(timeout=_PATIENCE)

    def gather(self, item):
        items = self._exchange(item)
        return items if self.rank == 0 else None

    def abort(self):
        for box in (box for boxes in self._mail for box in boxes):
            box.put(None)
        self._gate.abort()

    def _exchange(self, item):
        self._items[self.rank] = item
        self.barrier()
        items = list(self._items)
        self.barrier()
        return items


class Rank:
    """One device of a manifest: its sections, its program and the values that it holds."""

    def __init__(self, path, engine, inputs=None, seed=0, optimize=True):
        path = pathlib.Path(path)
        self.manifest, self.engine, self.seed = read(path), engine, seed
        devices = [device["name"] for device in self.manifest["devices"]]
        if engine.size != len(devices):
            raise ManifestError(f"the manifest has {len(devices)} devices, and {engine.size} ranks were started")
        self.device, self.ranks = devices[engine.rank], {name: rank for rank, name in enumerate(devices)}
        self.values = {value["name"]: value for value in self.manifest["values"]}
        self.given = dict(numpy.load(inputs)) if inputs else None
        self.held, self.sending, self.outputs, self.most = {}, {}, {}, 0
        # The number of the run of a whole step; None without a step of several parts.
        self.step = self.manifest["micro_batches"] if "pipeline" in self.manifest else None
        self.step = None if self.step == 1 else self.step
        self.collectives = {row["value"]: row for row in self.manifest.get("collectives", [])}
        runs = [one for one in self.manifest["sections"] if self.device in one.get("devices", [one["device"]])]
        own = {one.get("name") or self.device: one for one in runs}
        self.sections = {name: _session(path.parent / one["model"], one, optimize) for name, one in own.items()}
        self.once = {name for name, one in own.items() if one.get("phase") in ("prepare", "update")}
        # New values in the storage of old ones, which is counted already.
        self.stored = {row["result"] for row in self.manifest.get("state", []) if row["section"] in own}

    def _feed(self, what, value, run):
        array = self.fed(value, run)
        self._hold(what, self._part(value, array, run).copy() if value.get("joined") and run < self.step else array)

    def fed(self, value, run):
        """The whole array that the caller feeds for a run."""
        # Parts of a batch are shares of one input. `NAME@RUN` is the input of one run, `NAME` that of all.
        name, kind, joined, of = value["name"], _dtype(value), value.get("joined"), run if self.step is None else 0
        shape = joined["shape"] if joined else value["shape"]
        if self.given is None:
            generator = numpy.random.default_rng([self.seed + of, zlib.crc32(name.encode())])
            drawn = generator.standard_normal(shape) if kind.startswith("float") else generator.integers(0, 2, shape)
            array = drawn.astype(kind)
        else:
            array = self.given.get(f"{name}@{of}", self.given.get(name))
        if array is None or str(array.dtype) != kind or not _fits(value, array.shape, shape):
            found = "missing" if array is None else f"{array.dtype}{array.shape}"
            raise ManifestError(f"`{name}` is {found}, not {kind}{tuple(shape)}")
        return array

    def _share(self, what, value, run):
        self._hold(what, self._part(value, self._held(value["name"], self.step), run).copy())

    def _part(self, value, whole, run):
        return numpy.split(whole, self.step, value["joined"]["axis"])[run]

    def _join(self, what, value, run):
        part, joined = self._held(value["name"], run), value["joined"]
        if run == 0:
            self._hold({**what, "micro_batch": self.step}, numpy.empty(joined["shape"], part.dtype))
        whole = self._held(value["name"], self.step)
        if joined["by"] == "concat":
            self._part(value, whole, run)[...] = part
        else:
            whole[...] = part if run == 0 else whole + part
        if joined["by"] == "mean" and run + 1 == self.step:
            whole *= part.dtype.type(1 / self.step)

    def _collect(self, what, value, run):
        row, engine, own = self.collectives[value["name"]], self.engine, self.engine.rank
        root, by = self.ranks.get(row.get("root")), value.get("joined", {}).get("by")
        is_sent, source = row["kind"] == "broadcast", engine.size - 1 if row["kind"] != "broadcast" else root
        to = [rank for rank in range(engine.size) if rank != source and (is_sent or root in (None, rank))]
        is_empty = is_sent and own != root
        part = self._empty(value, run) if is_empty else self._held(value["name"], run if is_sent else own)
        whole = numpy.array(part, order="C")
        if is_sent:
            self._spread(whole, source, to)
        elif by == "concat":
            parts = numpy.empty((engine.size, *whole.shape), whole.dtype)
            engine.all_gather(whole, parts)
            whole = numpy.concatenate(parts, value["joined"]["axis"])
        elif row["order"] == "engine":
            engine.all_reduce(whole)
        else:
            # The sum goes from rank to rank, so that parts are added in this order; the last one sends it back.
            if own > 0:
                engine.recv(whole, own - 1)
                numpy.add(whole, part, out=whole)
            if own < source:
                engine.send(whole, own + 1)()
            self._spread(whole, source, to)
        if is_empty or not is_sent and root in (None, own):
            self._hold(what, whole * whole.dtype.type(1 / self.step) if by == "mean" else whole)

    _offer = _collect

    def _spread(self, array, source, to):
        sent = [self.engine.send(numpy.asarray(array, order="C"), rank) for rank in to if self.engine.rank == source]
        if self.engine.rank in to:
            self.engine.recv(array, source)
        for wait in sent:
            wait()

    def _empty(self, value, run):
        is_whole = "joined" in value and run == self.step
        return numpy.empty(value["joined"]["shape"] if is_whole else value["shape"], _dtype(value))

    def _recv(self, what, value, run):
        source, array = self.ranks[what["from"]], self._empty(value, run)
        if "shape_expr" in value:
            # Free extents go ahead of the value.
            own = numpy.empty(array.ndim, "int64")
            self.engine.recv(own, source)
            if not _fits(value, own, array.shape):
                raise ManifestError(f"`{value['name']}` comes with the extents {own}, more than {array.shape}")
            array = numpy.empty(own, array.dtype)
        self.engine.recv(array, source)
        self._hold(what, array)

    def _run(self, what, _value, run):
        name = what.get("section") or next(iter(self.sections), None)
        if name not in self.sections:
            raise ManifestError(f"{self.device} has no section `{name}`: memc check names the broken rule")
        session, once = self.sections[name], name in self.once
        fed = [value.name for value in session.get_inputs() if value.name in self.values]
        is_whole = {name: self.step is not None and self.values[name].get("once", once) for name in fed}
        fed = {name: self._held(name, self.step if is_whole[name] else run) for name in fed}
        for value, array in zip(session.get_outputs(), session.run(None, fed)):
            self._hold({"value": value.name, "micro_batch": run}, array)

    def _send(self, what, value, run):
        arrays = [numpy.asarray(self._held(value["name"], run), order="C")]
        if "shape_expr" in value:
            arrays.insert(0, numpy.array(arrays[0].shape, "int64"))
        sent = [(array, self.engine.send(array, self.ranks[what["to"]])) for array in arrays]
        self.sending.setdefault((value["name"], run), []).extend(sent)

    def _give(self, _what, value, run):
        self.outputs[value["name"], run] = self._held(value["name"], run)

    def return_inputs(self):
        """Gives the caller the graph inputs that are graph outputs as well."""
        runs = range(self.manifest["micro_batches"]) if self.step is None else [self.step]
        for value in self.values.values():
            if value["output"] and value["from"] is None:
                self.outputs.update({(value["name"], run): self.fed(value, run) for run in runs})

    def _free(self, _what, value, run):
        for _, wait in self.sending.pop((value["name"], run), []):
            wait()
        self._held(value["name"], run)
        del self.held[value["name"], run]

    def _hold(self, what, array):
        self.held[what["value"], what["micro_batch"]] = array
        self.most = max(self.most, sum(array.nbytes for key, array in self.held.items() if key[0] not in self.stored))

    def _held(self, name, run):
        if (name, run) not in self.held:
            raise ManifestError(f"`{name}` of run {run} is not held here: memc check names the broken rule")
        return self.held[name, run]


def _session(model, stated, optimize):
    import onnxruntime

    if model.name != stated["model"]:
        raise ManifestError(f"{stated['model']} is not in the folder of the manifest")
    if hashlib.sha256(numpy.memmap(model, mode="r")).hexdigest() != stated["model_sha256"]:
        raise ManifestError(f"{model} is not the file of this manifest: divide the model again")
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _bytes(array):
    return array.reshape(-1).view("uint8")


def read(path):
    """Returns a manifest."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        is_known = re.match(r"memc\.devices/1(\.|$)", manifest["schema"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ManifestError(f"{path} is not a manifest: {error}") from error
    if not is_known:
        raise ManifestError(f"{path} is not a manifest of the schema memc.devices/1")
    return manifest


def _fits(value, found, stated):
    """Whether extents are those that a value has: at most the stated ones where they are free."""
    free = [not text.isdigit() for text in value.get("shape_expr", [])] or [False] * len(stated)
    rows = zip(found, stated, free)
    return len(found) == len(stated) and all(own == most or own < most and is_free for own, most, is_free in rows)


def run_rank(path, engine, inputs=None, seed=0, optimize=True):
    """Runs one rank of a manifest; returns all graph outputs on rank 0, by name and run, and None elsewhere."""
    rank = Rank(path, engine, inputs, seed, optimize)
    for event in rank.manifest["program"].get(rank.device, []):
        (kind, what), = event.items()
        getattr(rank, "_" + kind)(what, rank.values.get(what.get("value")), what["micro_batch"])
    if engine.rank == 0:
        rank.return_inputs()
    # Bytes of this process that no file backs, where the system tells them.
    status = pathlib.Path("/proc/self/status")
    found = re.search(r"RssAnon:\s*(\d+)", status.read_text(encoding="ascii") if status.exists() else "")
    planned, anonymous = rank.manifest["devices"][engine.rank]["peak"], int(found[1]) * 1024 if found else None
    memory = {"device": rank.device, "held": rank.most, "planned": planned, "anonymous": anonymous}
    found = engine.gather((rank.outputs, memory))
    if found is None:
        return None
    is_one = rank.manifest["micro_batches"] == 1 or rank.step is not None
    outputs = {key: array for part, _ in found for key, array in part.items()}
    named = {name if is_one else f"{name}@{run}": outputs[name, run] for name, run in sorted(outputs)}
    return named, [memory for _, memory in found]


def run_local(path, inputs=None, seed=0, optimize=True):
    """Runs all ranks as threads of this process; returns the graph outputs by name, and memory by device."""
    engines, failures = Local.ranks(len(read(pathlib.Path(path))["devices"])), []

    def work(engine):
        try:
            return run_rank(path, engine, inputs, seed, optimize)
        except Exception as error:  # Any failure must end the other ranks.
            failures.append(error)
            engine.abort()

    with futures.ThreadPoolExecutor(len(engines)) as pool:
        results = list(pool.map(work, engines))
    if failures:
        raise failures[0]
    return results[0]


def main(words=None):
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="memc-run-devices", description="Run a model that `memc split` divided.")
    add = parser.add_argument
    add("manifest", type=pathlib.Path, help="manifest.json of `memc split`")
    add("--engine", choices=["mpi", "local"], default="mpi", help="mpi: a process a rank, by mpirun; local: threads")
    add("--inputs", type=pathlib.Path, help="graph inputs of numpy.savez; NAME@RUN for one run [default: random]")
    add("--outputs", type=pathlib.Path, help="graph outputs to write; NAME@RUN if there are several runs")
    add("--seed", type=int, default=0, help="seed of random inputs")
    add("--optimizations", choices=["on", "off"], default="on", help="graph optimizations of the sessions")
    chosen = parser.parse_args(words)
    options, engine = (chosen.inputs, chosen.seed, chosen.optimizations == "on"), None
    try:
        engine = Mpi() if chosen.engine == "mpi" else None
        found = run_rank(chosen.manifest, engine, *options) if engine else run_local(chosen.manifest, *options)
        if found is not None:
            _tell(*found, chosen.outputs)
        return 0
    except Exception as error:  # A rank that fails must not leave the others waiting.
        where = f"rank {engine.rank}: " if engine else ""
        print(f"memc-run-devices: {where}{str(error) or repr(error)}", file=sys.stderr, flush=True)
        if engine and engine.size > 1:
            engine.abort()
        return 1


def _tell(outputs, memory, path):
    for row in memory:
        anonymous = "" if row["anonymous"] is None else f", {row['anonymous']:,} B anonymous in its process"
        print(f"{row['device']}: {row['held']:,} B of values held, {row['planned']:,} B planned" + anonymous, file=sys.stderr)
    if path:
        with open(path, "wb") as out:
            numpy.savez(out, **outputs)
    digest = hashlib.sha256()
    for name, array in sorted(outputs.items()):
        digest.update(name.encode() + str(array.dtype).encode() + repr(array.shape).encode() + array.tobytes())
    print(digest.hexdigest())


def _dtype(value):
    try:
        return str(numpy.dtype({"float": "float32", "double": "float64"}.get(value["dtype"], value["dtype"])))
    except TypeError as error:
        raise ManifestError(f"`{value['name']}` has the type {value['dtype']}, which numpy lacks") from error


if __name__ == "__main__":
    sys.exit(main())
