"""Training in stock sessions of ONNX Runtime: runs a step of `memc train`, with its state in bound buffers.

`onnxruntime` and `numpy` are imported by the functions.
"""

import os

# Factor of gradients at the start, and the number of steps without overflow after which it doubles.
_FIRST_SCALE = 2.0**16
_GROWTH_STEPS = 2000


class Trainer:
    """Runs a training step again and again.

    `step` is the path of a model that `memc train` wrote, or of its plan. Parameters and moments stay in buffers of
    the session, two for each: one call reads one and writes the other. The numbers `lr`, `step`, `apply` and
    `loss_scale` are given by the trainer where the step has them. `accumulate` is the number of calls that make one
    update, as in `memc train --accumulate`.
    """

    def __init__(self, step, *, accumulate=1, options=None, providers=("CPUExecutionProvider",)):
        import onnxruntime

        self._ort = onnxruntime
        if options is None:
            options = onnxruntime.SessionOptions()
            # Parameters are inputs with defaults on purpose; the session warns about each of them.
            options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(os.fspath(step), options, providers=list(providers))
        self._inputs = {value.name: value for value in self.session.get_inputs()}
        self._defaults = {value.name: value for value in self.session.get_overridable_initializers()}
        outputs = [value.name for value in self.session.get_outputs()]
        self.state_names = [name[4:] for name in outputs if name.startswith("new.") and name[4:] in self._defaults]
        self.output_names = [name for name in outputs if name[4:] not in self.state_names or not name.startswith("new.")]
        if "loss" not in outputs:
            raise ValueError("the model has no output `loss`: make it with `memc train`")
        self.accumulate = accumulate
        if accumulate > 1 and "apply" not in self._inputs:
            raise ValueError("the step applies every call: make it with `memc train --accumulate`")
        self.updates = 0
        self.calls = 0
        self.loss_scale = _FIRST_SCALE
        self._good = 0
        # Values of the state after the last call; empty before the first, which reads the defaults.
        self._state = {}
        self._spare = {}

    def __call__(self, inputs, lr):
        """Runs the step on arrays by name; returns its other outputs by name, the loss among them."""
        import numpy

        self.calls += 1
        applies = self.calls % self.accumulate == 0
        numbers = {
            "lr": numpy.asarray(lr, numpy.float32),
            "step": numpy.asarray(self.updates + 1, numpy.int64),
            "apply": numpy.asarray(applies, numpy.bool_),
            "loss_scale": numpy.asarray(self.loss_scale, numpy.float32),
        }
        feed = {**{name: number for name, number in numbers.items() if name in self._inputs}, **inputs}
        missing = [name for name in self._inputs if name not in feed]
        if missing:
            raise ValueError(f"the step also reads {', '.join(missing)}")
        binding = self.session.io_binding()
        for name, array in feed.items():
            binding.bind_cpu_input(name, numpy.ascontiguousarray(array))
        for name, value in self._state.items():
            binding.bind_ortvalue_input(name, value)
        for name in self.output_names:
            binding.bind_output(name)
        for name in self.state_names:
            binding.bind_ortvalue_output(f"new.{name}", self._buffer(name))
        self.session.run_with_iobinding(binding)
        # The buffers just written are the state; the ones just read are free.
        new = {name: self._spare.pop(name) for name in self.state_names}
        self._state, self._spare = new, self._state
        values = {name: value.numpy() for name, value in zip(self.output_names, binding.get_outputs())}
        self._settle(values, applies)
        return values

    def _buffer(self, name):
        """A buffer for the new value of a state."""
        if name not in self._spare:
            value = self._defaults[name]
            shape = list(value.shape)
            self._spare[name] = self._ort.OrtValue.ortvalue_from_shape_and_type(shape, _kind(value.type))
        return self._spare[name]

    def _settle(self, values, applies):
        """Counts an update, and adapts the factor of gradients to overflows."""
        if not bool(values.get("overflow", False)):
            self.updates += int(applies)
            self._good += 1
            if self._good % _GROWTH_STEPS == 0:
                self.loss_scale *= 2
        else:
            self._good = 0
            self.loss_scale = max(self.loss_scale / 2, 1.0)

    def fit(self, batches, lr, progress=None):
        """Runs the step on each batch, arrays by name. `lr` is a number, or a function of the number of updates.

        Calls `progress(calls, loss)` after each call. Returns the losses.
        """
        losses = []
        for batch in batches:
            rate = lr(self.updates) if callable(lr) else lr
            losses.append(float(self(batch, rate)["loss"]))
            if progress is not None:
                progress(self.calls, losses[-1])
        return losses

    @property
    def state(self):
        """Parameters and moments as arrays by name; empty before the first call."""
        return {name: value.numpy() for name, value in self._state.items()}

    def save(self, path):
        """Writes state and counters as a checkpoint, which `memc train --bake` reads: a file of numpy.savez."""
        import numpy

        if not self._state:
            raise ValueError("there is no state before the first call")
        counters = {"memc.updates": self.updates, "memc.calls": self.calls, "memc.loss_scale": self.loss_scale}
        part = f"{os.fspath(path)}.partial"
        with open(part, "wb") as file:
            numpy.savez(file, **self.state, **counters)
        os.replace(part, path)

    def load(self, path):
        """Goes on from a checkpoint."""
        import numpy

        with numpy.load(path) as saved:
            names = set(saved.files)
            missing = [name for name in self.state_names if name not in names]
            if missing:
                raise ValueError(f"the checkpoint lacks {', '.join(missing)}")
            self._state = {name: self._ort.OrtValue.ortvalue_from_numpy(saved[name]) for name in self.state_names}
            self.updates, self.calls = int(saved["memc.updates"]), int(saved["memc.calls"])
            self.loss_scale = float(saved["memc.loss_scale"])


def _kind(name):
    """Element type of numpy by the name of ONNX Runtime."""
    import numpy

    kinds = {"tensor(float)": numpy.float32, "tensor(double)": numpy.float64, "tensor(float16)": numpy.float16}
    if name not in kinds:
        raise ValueError(f"state of type {name} has no buffer")
    return kinds[name]
