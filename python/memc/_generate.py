"""Greedy generation with a decoder in a stock session of ONNX Runtime. `onnxruntime` and `numpy` are imported by the
functions."""

import json
import os

# Names by which exporters call the inputs that are no caches.
_POSITIONS, _MASKS, _IDS = ("position",), ("mask", "seen"), ("ids", "token")
# Operators whose kernels unpack a whole weight in each run unless the session packs it at load.
_PACKED = ("MatMulNBits",)
# Patterns of names of new and old caches.
_CACHES = (("present", "past"), ("present", "past_key_values"))


class Generated(list):
    """The new tokens. `runs` has the number of tokens of each run: chunks of the prompt first, then one each."""

    def __init__(self, tokens, runs):
        super().__init__(tokens)
        self.runs = runs


def generate(model, tokens, count=16, *, layout=None, end=None, chunk=None, session=None, feeds=None):
    """Generates up to `count` tokens after the prompt `tokens`, each the one with the largest logit.

    `model` is what `memc.fit` returns, or the path of a decoder with caches: a planned one with `layout`, or one as it
    was exported. A fitted decoder reads the prompt in chunks of as many tokens as its plan has room for, at most
    `chunk`, and keeps its caches in place. `end` ends the text; `feeds` has arrays for inputs that are neither tokens,
    positions, a mask nor caches; `session` is an `onnxruntime.InferenceSession` in place of a new one. One sequence at
    a time.

    Raises `ValueError` if there are more tokens than the caches have rows, or for an input without a meaning.
    """
    tokens = [int(token) for token in tokens]
    if not tokens or count < 1:
        raise ValueError("a prompt of at least one token, and at least one new token, are needed")
    path, layout = _opened(model, layout)
    session = session or open_session(path, layout)
    is_in_place = layout and (layout.get("caches") or layout.get("state"))
    loop = _InPlace(session, layout, feeds) if is_in_place else _Growing(session, feeds)
    if loop.capacity is not None and len(tokens) + count - 1 > loop.capacity:
        raise ValueError(
            f"{len(tokens)} tokens and {count} new ones need caches of {len(tokens) + count - 1} rows; these have {loop.capacity}"
        )
    most = min(filter(None, [chunk, loop.chunk]), default=len(tokens))
    new, runs, logits = [], [], None
    for start in range(0, len(tokens), most):
        part = tokens[start : start + most]
        logits = loop.run(part)
        runs.append(len(part))
    while True:
        new.append(int(logits.argmax()))
        if len(new) == count or new[-1] == end:
            return Generated(new, runs)
        logits = loop.run(new[-1:])
        runs.append(1)


def open_session(path, layout=None, threads=None):
    """Returns a session that runs the nodes as planned, and does not copy weights: they are used where the file is
    mapped, without copies in forms of the kernels (prepacking), unless the layout has a kernel that would unpack a
    whole weight in each run. An arena keeps the memory of a run for the next one: without it, the C library may hold
    several times as much."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    options.enable_mem_pattern = False
    options.enable_mem_reuse = False
    if layout and not any(row["op"] in _PACKED for row in layout["schedule"]):
        options.add_session_config_entry("session.disable_prepacking", "1")
    options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
    if threads is not None:
        options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])


def _opened(model, layout):
    """Returns the path of a model, and its layout as a dictionary if there is one."""
    if hasattr(model, "model") and hasattr(model, "layout"):
        return model.model, model.layout
    if isinstance(layout, (str, os.PathLike)):
        with open(layout, encoding="utf-8") as file:
            layout = json.load(file)
    return model, layout


class _Loop:
    """Inputs of a decoder by their meaning, and its logits."""

    capacity = None
    chunk = None

    def __init__(self, session, pairs, count, feeds):
        self.session, self.count, self.rows = session, count, 0
        self.pairs = pairs
        self.feeds = dict(feeds or {})
        self.ids = self.mask = self.positions = None
        known = {old for _, old in pairs} | {count} | set(self.feeds)
        for value in session.get_inputs():
            name = value.name.lower()
            if value.name in known:
                continue
            if any(word in name for word in _POSITIONS) and self.positions is None:
                self.positions = value
            elif any(word in name for word in _MASKS) and self.mask is None:
                self.mask = value
            elif any(word in name for word in _IDS) and self.ids is None:
                self.ids = value
            else:
                raise ValueError(f"the input `{value.name}` is no cache, no tokens, positions or mask: pass it in `feeds`")
        if self.ids is None:
            raise ValueError("no input has the tokens: its name has neither `ids` nor `token`")
        news = {new for new, _ in pairs}
        outputs = [output.name for output in session.get_outputs() if output.name not in news]
        named = [name for name in outputs if "logits" in name.lower()]
        if not outputs:
            raise ValueError("no output has the logits: all are caches")
        self.logits = (named or outputs)[0]

    def own(self, tokens, length):
        """Returns the inputs that are no caches, for new tokens after `rows` ones and a mask of `length` rows."""
        import numpy

        kinds = {"tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32, "tensor(bool)": numpy.bool_, "tensor(float)": numpy.float32}
        after = self.rows + len(tokens)
        arrays = dict(self.feeds)
        arrays[self.ids.name] = numpy.array([tokens], kinds[self.ids.type])
        if self.positions is not None:
            arrays[self.positions.name] = numpy.arange(self.rows, after).astype(kinds[self.positions.type])[None]
        if self.mask is not None:
            arrays[self.mask.name] = (numpy.arange(length) < after).astype(kinds[self.mask.type])[None]
        return arrays


class _InPlace(_Loop):
    """Runs a decoder whose caches have one buffer each, which is input and output of a run. An input counts the valid
    rows, or the mask has zeros for the others."""

    def __init__(self, session, layout, feeds):
        import numpy
        import onnxruntime

        rows = layout.get("caches")
        if rows:
            super().__init__(session, [(row["output"], row["input"]) for row in rows], rows[0]["count"], feeds)
            self.capacity, self.chunk = rows[0]["capacity"], rows[0]["rows"]
        else:
            super().__init__(session, [(row["result"], row["tensor"]) for row in layout["state"]], None, feeds)
            self.capacity = self.mask.shape[-1] if self.mask is not None else None
            if not isinstance(self.capacity, int):
                raise ValueError("no input is a mask with a number of rows, which tells how many rows of the caches are valid")
            largest = {row["name"]: row["shape"] for row in layout["tensors"]}
            self.chunk = largest[self.ids.name][-1]
        kinds = {"tensor(float)": numpy.float32, "tensor(float16)": numpy.float16}
        inputs = {value.name: value for value in session.get_inputs()}
        if self.count is not None:
            self.number = {"tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32}[inputs[self.count].type]
        self.buffers = {}
        for _, old in self.pairs:
            shape = [extent if isinstance(extent, int) else 1 for extent in inputs[old].shape]
            zeros = numpy.zeros(shape, kinds[inputs[old].type])
            self.buffers[old] = onnxruntime.OrtValue.ortvalue_from_numpy(zeros)

    def run(self, tokens):
        """Appends tokens to the caches; returns the logits of the last one."""
        import numpy

        binding = self.session.io_binding()
        arrays = self.own(tokens, self.capacity)
        if self.count is not None:
            arrays[self.count] = numpy.array(self.rows, self.number)
        for name, array in arrays.items():
            binding.bind_cpu_input(name, array)
        for new, old in self.pairs:
            binding.bind_ortvalue_input(old, self.buffers[old])
            binding.bind_ortvalue_output(new, self.buffers[old])
        binding.bind_output(self.logits)
        self.session.run_with_iobinding(binding)
        self.rows += len(tokens)
        logits = binding.get_outputs()[len(self.pairs)].numpy()
        return logits.reshape(-1, logits.shape[-1])[-1]


class _Growing(_Loop):
    """Runs a decoder as it was exported: each run returns longer caches."""

    def __init__(self, session, feeds):
        import numpy

        outputs = {value.name for value in session.get_outputs()}
        inputs = {value.name: value for value in session.get_inputs()}
        pairs = next((found for new, old in _CACHES if (found := _paired(outputs, inputs, new, old))), [])
        if not pairs:
            raise ValueError("the model has no caches: no outputs `present...` with inputs `past...`")
        super().__init__(session, pairs, None, feeds)
        kinds = {"tensor(float)": numpy.float32, "tensor(float16)": numpy.float16}
        self.caches = {}
        for _, old in pairs:
            # The batch is the first axis, and the rows another axis without a number.
            shape = [extent if isinstance(extent, int) else 0 for extent in inputs[old].shape]
            shape[0] = shape[0] or 1
            self.caches[old] = numpy.zeros(shape, kinds[inputs[old].type])

    def run(self, tokens):
        """Appends tokens to the caches; returns the logits of the last one."""
        arrays = {**self.own(tokens, self.rows + len(tokens)), **self.caches}
        names = [self.logits, *(new for new, _ in self.pairs)]
        logits, *caches = self.session.run(names, arrays)
        self.caches = {old: cache for (_, old), cache in zip(self.pairs, caches)}
        self.rows += len(tokens)
        return logits.reshape(-1, logits.shape[-1])[-1]


def _paired(outputs, inputs, new, old):
    """Returns the outputs and inputs whose names differ in these beginnings alone."""
    pairs = [(name, old + name[len(new) :]) for name in sorted(outputs) if name.startswith(new)]
    return [pair for pair in pairs if pair[1] in inputs]
