"""`memc-run-devices`: runs the sections of a divided model, a rank each, on an engine that moves the bytes.

    mpirun -n 2 memc-run-devices parts/manifest.json --inputs in.npz --outputs out.npz

Rank `n` runs the program of the manifest's device `n` with stock sessions of ONNX Runtime. An engine has six
functions: `send`, `recv`, `all_reduce`, `all_gather`, `reduce_scatter`, `barrier`. `Mpi` has them over mpi4py;
`Local` has them over threads of one process, for tests and for machines without MPI. Values between devices
are dense arrays; sends are buffered, and all receives follow the order of the manifest.
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

# Seconds between two looks for a message: waiting ranks leave the processor to the others.
_PAUSE = 0.0005

# Seconds after which a silent peer of the local engine is given up.
_PATIENCE = 600.0


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
        """Starts to send an array; returns a function that waits until it may change."""
        request = self._world.Isend(self._bytes(array), dest=to)
        return lambda: self._wait(request)

    def recv(self, array, source):
        """Fills an array with the next message of a rank."""
        self._wait(self._world.Irecv(self._bytes(array), source=source))

    def all_reduce(self, array):
        """Adds an array over all ranks, in place."""
        self._world.Allreduce(self._mpi.IN_PLACE, array)

    def all_gather(self, part, whole):
        """Fills `whole` with the parts of all ranks, in their order."""
        self._world.Allgather(self._bytes(part), self._bytes(whole))

    def reduce_scatter(self, whole, part):
        """Adds `whole` over all ranks and fills `part` with this rank's share."""
        self._world.Reduce_scatter_block(whole, part)

    def barrier(self):
        """Waits for all ranks."""
        self._world.Barrier()

    def gather(self, item):
        """Returns the items of all ranks on rank 0, None elsewhere."""
        return self._world.gather(item, root=0)

    def abort(self):
        """Ends all ranks: none may wait for one that failed."""
        self._world.Abort(1)

    @staticmethod
    def _bytes(array):
        return array.reshape(-1).view("uint8")

    @staticmethod
    def _wait(request):
        while not request.Test():
            time.sleep(_PAUSE)


class Local:
    """The functions of `Mpi` over threads of one process: `Local.ranks(n)` returns an engine for each rank."""

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
        try:
            found = self._mail[source][self.rank].get(timeout=_PATIENCE)
        except queue.Empty:
            found = None
        if found is None:
            raise ManifestError(f"rank {source} sends no more")
        if found.shape != array.shape or found.dtype != array.dtype:
            raise ManifestError(f"rank {source} sends {found.dtype}{found.shape}, not {array.dtype}{array.shape}")
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
        try:
            self._gate.wait(timeout=_PATIENCE)
        except threading.BrokenBarrierError:
            raise ManifestError("another rank failed") from None

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
        # The number of the run of a whole step; None without a pipeline of several parts.
        count = self.manifest["micro_batches"]
        self.step = count if "pipeline" in self.manifest and count > 1 else None
        own = {one.get("name") or self.device: one for one in self.manifest["sections"] if one["device"] == self.device}
        self.sections = {name: _session(path.parent / one["model"], one, optimize) for name, one in own.items()}
        self.once = {name for name, one in own.items() if one.get("phase") in ("prepare", "update")}
        # New values in the storage of old ones, which is counted already.
        self.stored = {row["result"] for row in self.manifest.get("state", []) if row["section"] in own}

    def run(self):
        """Does all events."""
        for event in self.manifest["program"].get(self.device, []):
            (kind, what), = event.items()
            getattr(self, "_" + kind)(what, self.values.get(what.get("value")), what["micro_batch"])

    def _feed(self, what, value, run):
        # Parts of a batch are shares of one input.
        joined = value.get("joined")
        shape = joined["shape"] if joined else value["shape"]
        array = self._input(value["name"], shape, _dtype(value), run if self.step is None else 0)
        if str(array.dtype) != _dtype(value) or not _fits(value, array.shape, shape):
            raise ManifestError(f"`{value['name']}` is {array.dtype}{array.shape}, not {_dtype(value)}{tuple(shape)}")
        self._hold(what, self._part(value, array, run).copy() if joined and run < self.step else array)

    def _input(self, name, shape, kind, run):
        if self.given is None:
            generator = numpy.random.default_rng([self.seed + run, zlib.crc32(name.encode())])
            drawn = generator.standard_normal(shape) if kind.startswith("float") else generator.integers(0, 2, shape)
            return drawn.astype(kind)
        # `NAME@RUN` is the input of one run, `NAME` that of all.
        found = self.given.get(f"{name}@{run}", self.given.get(name))
        if found is None:
            raise ManifestError(f"the given inputs have no `{name}`")
        return found

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

    def _recv(self, what, value, run):
        source, shape = self.ranks[what["from"]], value["shape"]
        if "joined" in value and run == self.step:
            shape = value["joined"]["shape"]
        if "shape_expr" in value:
            # Free extents go ahead of the value.
            own = numpy.empty(len(shape), "int64")
            self.engine.recv(own, source)
            if not _fits(value, own, shape):
                raise ManifestError(f"{what['from']} sends `{value['name']}` with the extents {own}, more than {shape}")
            shape = own
        array = numpy.empty(shape, _dtype(value))
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
        names = [value.name for value in session.get_outputs()]
        for name, array in zip(names, session.run(names, fed)):
            self._hold({"value": name, "micro_batch": run}, array)

    def _send(self, what, value, run):
        arrays = [numpy.asarray(self._held(value["name"], run), order="C")]
        if "shape_expr" in value:
            arrays.insert(0, numpy.array(arrays[0].shape, "int64"))
        sent = [(array, self.engine.send(array, self.ranks[what["to"]])) for array in arrays]
        self.sending.setdefault((value["name"], run), []).extend(sent)

    def _give(self, _what, value, run):
        self.outputs[value["name"], run] = self._held(value["name"], run)

    def _free(self, _what, value, run):
        for _, wait in self.sending.pop((value["name"], run), []):
            wait()
        self._held(value["name"], run)
        del self.held[value["name"], run]

    def _hold(self, what, array):
        self.held[what["value"], what["micro_batch"]] = array
        counted = sum(array.nbytes for (name, _), array in self.held.items() if name not in self.stored)
        self.most = max(self.most, counted)

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


def read(path):
    """Returns a manifest."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ManifestError(f"{path} is not a manifest: {error}") from error
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if not re.match(r"memc\.devices/1(\.|$)", str(schema)):
        raise ManifestError(f"{path} is not a manifest of the schema memc.devices/1")
    return manifest


def _fits(value, found, stated):
    """Whether extents are those that a value has: at most the stated ones where they are free."""
    free = [not text.isdigit() for text in value.get("shape_expr", [])] or [False] * len(stated)
    return len(found) == len(stated) and all(own == most or own < most and of for own, most, of in zip(found, stated, free))


def run_rank(path, engine, inputs=None, seed=0, optimize=True):
    """Runs one rank of a manifest; returns all graph outputs on rank 0, by name and run, and None elsewhere."""
    rank = Rank(path, engine, inputs, seed, optimize)
    rank.run()
    planned = rank.manifest["devices"][engine.rank]["peak"]
    memory = {"device": rank.device, "held": rank.most, "planned": planned, "anonymous": _anonymous()}
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
    about = "Run the sections of a model that `memc split` divided."
    parser = argparse.ArgumentParser(prog="memc-run-devices", description=about)
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
        print(f"memc-run-devices: {where}{error}", file=sys.stderr, flush=True)
        if engine and engine.size > 1:
            engine.abort()
        return 1


def _tell(outputs, memory, path):
    for row in memory:
        anonymous = "" if row["anonymous"] is None else f", {row['anonymous']:,} B anonymous in its process"
        held = f"{row['device']}: {row['held']:,} B of values held, {row['planned']:,} B planned"
        print(f"{held}{anonymous}", file=sys.stderr)
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


def _anonymous():
    """Bytes of this process that no file backs; None where the system does not tell."""
    try:
        found = re.search(r"RssAnon:\s*(\d+) kB", pathlib.Path("/proc/self/status").read_text(encoding="ascii"))
    except OSError:
        found = None
    return int(found[1]) * 1024 if found else None


if __name__ == "__main__":
    sys.exit(main())
