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
import sys
import threading
import time
import zlib

# Seconds between two looks for a message: waiting ranks leave the processor to the others.
_PAUSE = 0.0005

# Seconds after which a silent peer of the local engine is given up.
_PATIENCE = 600.0

_TYPES = {
    "float": "float32", "double": "float64", "float16": "float16", "int8": "int8", "int16": "int16", "int32": "int32",
    "int64": "int64", "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "bool": "bool",
}


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
        self._world.Allgather(part, whole)

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
    """The engine over threads of one process: `Local.ranks(n)` returns one for each."""

    def __init__(self, rank, shared):
        self.rank, self.size, self._shared = rank, shared["size"], shared

    @classmethod
    def ranks(cls, size):
        """Returns an engine for each rank."""
        pairs = {(one, other): queue.Queue() for one in range(size) for other in range(size)}
        shared = {"size": size, "pairs": pairs, "items": [None] * size}
        shared.update(failed=threading.Event(), gate=threading.Barrier(size))
        return [cls(rank, shared) for rank in range(size)]

    def send(self, array, to):
        """Sends a copy; the array may change at once."""
        self._shared["pairs"][self.rank, to].put(array.copy())
        return lambda: None

    def recv(self, array, source):
        """Fills an array with the next message of a rank."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                found = self._shared["pairs"][source, self.rank].get(timeout=0.05)
                break
            except queue.Empty:
                if self._shared["failed"].is_set() or time.monotonic() > end:
                    raise ManifestError(f"rank {source} sends no more") from None
        if found.shape != array.shape or found.dtype != array.dtype:
            raise ManifestError(f"rank {source} sends {found.dtype}{found.shape}, not {array.dtype}{array.shape}")
        array[...] = found

    def all_reduce(self, array):
        """Adds an array over all ranks, in the order of ranks, in place."""
        parts = self._exchange(array)
        array[...] = sum(parts[1:], parts[0])

    def all_gather(self, part, whole):
        """Fills `whole` with the parts of all ranks, in their order."""
        whole.reshape(self.size, -1)[...] = [item.reshape(-1) for item in self._exchange(part)]

    def reduce_scatter(self, whole, part):
        """Adds `whole` over all ranks and fills `part` with this rank's share."""
        parts = self._exchange(whole)
        part.reshape(-1)[...] = sum(parts[1:], parts[0]).reshape(self.size, -1)[self.rank]

    def barrier(self):
        """Waits for all ranks."""
        try:
            self._shared["gate"].wait(timeout=_PATIENCE)
        except threading.BrokenBarrierError:
            raise ManifestError("another rank failed") from None

    def gather(self, item):
        """Returns the items of all ranks on rank 0, None elsewhere."""
        items = self._exchange(item)
        return items if self.rank == 0 else None

    def abort(self):
        """Ends all ranks: none may wait for one that failed."""
        self._shared["failed"].set()
        self._shared["gate"].abort()

    def _exchange(self, item):
        self._shared["items"][self.rank] = item.copy() if hasattr(item, "copy") else item
        self.barrier()
        items = list(self._shared["items"])
        self.barrier()
        return items


class Section:
    """A section of a device: its session, and how it reads the values of a run."""

    def __init__(self, path, manifest, stated, optimize):
        import onnxruntime

        if pathlib.PurePath(stated["model"]).name != stated["model"]:
            raise ManifestError(f"{stated['model']} is not in the folder of the manifest")
        model = path.parent / stated["model"]
        if _sha256(model) != stated["model_sha256"]:
            raise ManifestError(f"{model} is not the file of this manifest: divide the model again")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        if not optimize:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.name = stated.get("name") or stated["device"]
        self.once = _step(manifest) is not None and stated.get("phase") in ("prepare", "update")
        values = {value["name"] for value in manifest["values"]}
        self.inputs = [value.name for value in self.session.get_inputs() if value.name in values]
        self.outputs = [value.name for value in self.session.get_outputs()]


class Rank:
    """One device of a manifest: its sections, its program and the values that it holds."""

    def __init__(self, path, manifest, rank, engine, optimize=True):
        self.engine = engine
        self.ranks = {device["name"]: number for number, device in enumerate(manifest["devices"])}
        self.device = manifest["devices"][rank]
        self.values = {value["name"]: value for value in manifest["values"]}
        self.events = manifest["program"].get(self.device["name"], [])
        self.held, self.sending, self.outputs = {}, {}, {}
        self.bytes = self.most = 0
        self.step = _step(manifest)
        own = [section for section in manifest["sections"] if section["device"] == self.device["name"]]
        self.sections = [Section(path, manifest, section, optimize) for section in own]
        names = {section.name for section in self.sections}
        # New values in the storage of old ones, which is counted already.
        self.stored = {row["result"] for row in manifest.get("state", []) if row["section"] in names}

    def run(self, feed):
        """Does all events; `feed(value, shape, run)` returns a graph input."""
        for event in self.events:
            (kind, what), = event.items()
            getattr(self, "_" + kind)(what, feed)

    def _feed(self, what, feed):
        value, run = self.values[what["value"]], what["micro_batch"]
        # Parts of a batch are shares of one input.
        joined = value.get("joined")
        shape = joined["shape"] if joined else value["shape"]
        array = feed(value, shape, run if self.step is None else 0)
        if str(array.dtype) != _dtype(value) or not _fits(value, array.shape, shape):
            raise ManifestError(f"`{value['name']}` is {array.dtype}{array.shape}, not {_dtype(value)}{tuple(shape)}")
        self._hold(what, self._share_of(value, array, run) if joined and run < self.step else array)

    def _share(self, what, _):
        value = self.values[what["value"]]
        whole = self._held(value["name"], self.step)
        self._hold(what, self._share_of(value, whole, what["micro_batch"]))

    def _share_of(self, value, whole, run):
        axis, count = value["joined"]["axis"], self.step
        extent = whole.shape[axis] // count
        return whole[(slice(None),) * axis + (slice(run * extent, (run + 1) * extent),)].copy()

    def _join(self, what, _):
        import numpy

        value, run = self.values[what["value"]], what["micro_batch"]
        part, joined = self._held(value["name"], run), value["joined"]
        if run == 0:
            whole = numpy.empty(joined["shape"], part.dtype)
            self._hold({"value": value["name"], "micro_batch": self.step}, whole)
        whole = self._held(value["name"], self.step)
        if joined["by"] == "concat":
            extent = part.shape[joined["axis"]]
            whole[(slice(None),) * joined["axis"] + (slice(run * extent, (run + 1) * extent),)] = part
            return
        whole[...] = part if run == 0 else whole + part
        if joined["by"] == "mean" and run + 1 == self.step:
            whole *= part.dtype.type(1 / self.step)

    def _recv(self, what, _):
        import numpy

        value = self.values[what["value"]]
        is_whole = "joined" in value and what["micro_batch"] == self.step
        shape = value["joined"]["shape"] if is_whole else value["shape"]
        if "shape_expr" in value:
            # Free extents go ahead of the value.
            own = numpy.empty(len(shape), "int64")
            self.engine.recv(own, self.ranks[what["from"]])
            if not _fits(value, own, shape):
                raise ManifestError(f"{what['from']} sends `{value['name']}` with the extents {own}, more than {shape}")
            shape = own
        array = numpy.empty(shape, _dtype(value))
        self.engine.recv(array, self.ranks[what["from"]])
        self._hold(what, array)

    def _run(self, what, _):
        run, name = what["micro_batch"], what.get("section")
        section = next((section for section in self.sections if name in (None, section.name)), None)
        if section is None:
            raise ManifestError(f"{self.device['name']} has no section `{name}`: memc check names the broken rule")
        fed = {name: self._held(name, self._run_of(section, name, run)) for name in section.inputs}
        for name, array in zip(section.outputs, section.session.run(section.outputs, fed)):
            self._hold({"value": name, "micro_batch": run}, array)

    def _run_of(self, section, name, run):
        is_whole = self.step is not None and (section.once or self.values[name].get("once", False))
        return self.step if is_whole else run

    def _send(self, what, _):
        import numpy

        key = what["value"], what["micro_batch"]
        array = numpy.asarray(self._held(*key), order="C")
        if "shape_expr" in self.values[what["value"]]:
            shape = numpy.array(array.shape, "int64")
            self.sending.setdefault(key, []).append((shape, self.engine.send(shape, self.ranks[what["to"]])))
        self.sending.setdefault(key, []).append((array, self.engine.send(array, self.ranks[what["to"]])))

    def _give(self, what, _):
        self.outputs[what["value"], what["micro_batch"]] = self._held(what["value"], what["micro_batch"])

    def _free(self, what, _):
        key = what["value"], what["micro_batch"]
        for _, wait in self.sending.pop(key, []):
            wait()
        self.bytes -= self._bytes(what["value"], self._held(*key))
        del self.held[key]

    def _hold(self, what, array):
        self.held[what["value"], what["micro_batch"]] = array
        self.bytes += self._bytes(what["value"], array)
        self.most = max(self.most, self.bytes)

    def _bytes(self, name, array):
        return 0 if name in self.stored else array.nbytes

    def _held(self, name, run):
        if (name, run) not in self.held:
            raise ManifestError(f"`{name}` of run {run} is not held here: memc check names the broken rule")
        return self.held[name, run]


def read(path):
    """Returns a manifest."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ManifestError(f"{path} is not a manifest: {error}") from error
    schema = manifest.get("schema", "") if isinstance(manifest, dict) else ""
    if str(schema).split("/")[0] != "memc.devices" or str(schema)[13:].split(".")[0] != "1":
        raise ManifestError(f"{path} is not a manifest of the schema memc.devices/1")
    return manifest


def _step(manifest):
    """The number of the run of a whole step; None without a pipeline of several parts."""
    count = manifest["micro_batches"]
    return count if "pipeline" in manifest and count > 1 else None


def _fits(value, found, stated):
    """Whether extents are those that a value has: at most the stated ones where they are free."""
    free = value.get("shape_expr", [])
    rows = zip(found, stated, [not text.isdigit() for text in free] or [False] * len(stated))
    return len(found) == len(stated) and all(own == most or is_free and own <= most for own, most, is_free in rows)


def feeder(inputs, seed):
    """Returns a function from a value, a shape and a run to a graph input: of a file, or random numbers."""
    import numpy

    arrays = dict(numpy.load(inputs)) if inputs else None

    def feed(value, shape, run):
        name = value["name"]
        if arrays is not None:
            # `NAME@RUN` is the input of one run, `NAME` that of all.
            found = arrays.get(f"{name}@{run}", arrays.get(name))
            if found is None:
                raise ManifestError(f"{inputs} has no `{name}`")
            return found
        generator = numpy.random.default_rng([seed + run, zlib.crc32(name.encode())])
        kind = _dtype(value)
        if kind.startswith("float"):
            return generator.standard_normal(shape).astype(kind)
        return generator.integers(0, 2, shape).astype(kind)

    return feed


def run_rank(path, engine, inputs=None, seed=0, optimize=True):
    """Runs one rank of a manifest; returns all graph outputs on rank 0, by name and run, and None elsewhere."""
    path = pathlib.Path(path)
    manifest = read(path)
    if engine.size != len(manifest["devices"]):
        raise ManifestError(f"the manifest has {len(manifest['devices'])} devices, and {engine.size} ranks were started")
    rank = Rank(path, manifest, engine.rank, engine, optimize)
    rank.run(feeder(inputs, seed))
    memory = {"device": rank.device["name"], "held": rank.most, "planned": rank.device["peak"], "anonymous": _anonymous()}
    found = engine.gather((rank.outputs, memory))
    if found is None:
        return None
    outputs = {key: array for part, _ in found for key, array in part.items()}
    runs = 1 if _step(manifest) else manifest["micro_batches"]
    named = {name if runs == 1 else f"{name}@{run}": array for (name, run), array in sorted(outputs.items())}
    return named, [memory for _, memory in found]


def run_local(path, inputs=None, seed=0, optimize=True):
    """Runs all ranks as threads of this process; returns the graph outputs by name, and memory by device."""
    engines = Local.ranks(len(read(pathlib.Path(path))["devices"]))
    results, failures = [None] * len(engines), []

    def work(engine):
        try:
            results[engine.rank] = run_rank(path, engine, inputs, seed, optimize)
        except Exception as error:  # Any failure must end the other ranks.
            failures.append(error)
            engine.abort()

    threads = [threading.Thread(target=work, args=[engine]) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results[0]


def main(words=None):
    """Runs the command; returns its exit code."""
    about = "Run the sections of a model that `memc split` divided."
    parser = argparse.ArgumentParser(prog="memc-run-devices", description=about)
    parser.add_argument("manifest", type=pathlib.Path, help="manifest.json of `memc split`")
    engines = "mpi: a process for each rank, started by mpirun; local: threads"
    parser.add_argument("--engine", choices=["mpi", "local"], default="mpi", help=engines)
    given = "graph inputs as numpy.savez writes them; NAME@RUN for one run [default: random]"
    parser.add_argument("--inputs", type=pathlib.Path, help=given)
    parser.add_argument("--outputs", type=pathlib.Path, help="graph outputs to write; NAME@RUN if there are several runs")
    parser.add_argument("--seed", type=int, default=0, help="seed of random inputs")
    parser.add_argument("--optimizations", choices=["on", "off"], default="on", help="graph optimizations of the sessions")
    chosen = parser.parse_args(words)
    engine = None
    try:
        optimize = chosen.optimizations == "on"
        if chosen.engine == "local":
            found = run_local(chosen.manifest, chosen.inputs, chosen.seed, optimize)
        else:
            engine = Mpi()
            found = run_rank(chosen.manifest, engine, chosen.inputs, chosen.seed, optimize)
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
    import numpy

    for row in memory:
        anonymous = "" if row["anonymous"] is None else f", {row['anonymous']:,} B anonymous in its process"
        print(f"{row['device']}: {row['held']:,} B of values held, {row['planned']:,} B planned{anonymous}", file=sys.stderr)
    if path:
        with open(path, "wb") as out:
            numpy.savez(out, **outputs)
    digest = hashlib.sha256()
    for name, array in sorted(outputs.items()):
        digest.update(name.encode() + str(array.dtype).encode() + repr(array.shape).encode() + array.tobytes())
    print(digest.hexdigest())


def _dtype(value):
    if value["dtype"] not in _TYPES:
        raise ManifestError(f"`{value['name']}` has the type {value['dtype']}, which numpy lacks")
    return _TYPES[value["dtype"]]


def _sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()


def _anonymous():
    """Bytes of this process that no file backs; None where the system does not tell."""
    try:
        lines = pathlib.Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    row = next((line for line in lines if line.startswith("RssAnon:")), None)
    return int(row.split()[1]) * 1024 if row else None


if __name__ == "__main__":
    sys.exit(main())
