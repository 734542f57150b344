"""Plans and reports."""

import os

from memc import _memc
from memc._models import alike, is_path, source
from memc._options import words
from memc._words import spoken


class Diagnostic:
    """A warning or remark: `code`, `severity`, `message`, `help`, `notes`."""

    __slots__ = ("code", "severity", "message", "help", "notes")

    def __init__(self, code, severity, message, help=None, notes=()):
        self.code = code
        self.severity = severity
        self.message = spoken(message)
        self.help = spoken(help)
        self.notes = [spoken(note) for note in notes]

    def __repr__(self):
        return f"{self.severity}[{self.code}]: {self.message}"


class Progress:
    """A step of the search: `strategy`, `candidate`, `bytes`, `nanoseconds`, `verdict`.

    The verdict `searching` announces a strategy; the others judge a candidate, for example `best so far`.
    """

    __slots__ = ("strategy", "candidate", "bytes", "nanoseconds", "verdict")

    def __init__(self, strategy, candidate, bytes, nanoseconds, verdict):
        self.strategy = strategy
        self.candidate = candidate
        self.bytes = bytes
        self.nanoseconds = nanoseconds
        self.verdict = verdict

    def __repr__(self):
        size = "" if self.bytes is None else f", {self.bytes} B"
        return f"{self.strategy} {self.candidate}: {self.verdict}{size}"


class Summary(dict):
    """The numbers of a plan, as `memc optimize --json` prints them, with the keys as attributes too: `arena`,
    `peak`, `before`, `bound`, `offsets_optimal`, `weights` ... `str()` is the line that ends the command's output."""

    def __init__(self, numbers, line):
        super().__init__(numbers)
        self.line = line

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __str__(self):
        return self.line


def _parsed(text):
    # Imported late: the command does not need it.
    import json

    return json.loads(text)


class Report:
    """The memory of a model or of a plan.

    `summary` has the numbers, `layout` the layout file as a dictionary; `text`, `html(title)` and `trace` are the
    reports of the command.
    """

    def __init__(self, render, diagnostics):
        self._render = render
        self._kept = {}
        self.diagnostics = [Diagnostic(*said) for said in diagnostics]

    def _once(self, key, make):
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    @property
    def layout_text(self):
        """The layout file, `memc.layout/1`, as text."""
        return self._once("layout_text", lambda: self._render("layout", ""))

    @property
    def layout(self):
        """The layout file as a dictionary."""
        return self._once("layout", lambda: _parsed(self.layout_text))

    @property
    def summary(self):
        """The numbers of the plan."""
        return self._once("summary", lambda: Summary(_parsed(self._render("json", "")), self._render("line", "")))

    @property
    def text(self):
        """The report as one screen of text."""
        return self._render("text", "")

    @property
    def trace(self):
        """The plan as a trace for Perfetto, as text."""
        return self._render("trace", "")

    def markdown(self, title=""):
        """Returns the sizes and the largest tensors as a table for comments."""
        return self._render("markdown", title)

    def html(self, title=""):
        """Returns the report as a page without network access."""
        return self._render("html", title)

    def _repr_html_(self):
        """The sizes as a table, which notebooks show; `html()` is the whole report."""
        import html

        def size(bytes):
            return "?" if bytes is None else f"{bytes:,} B"

        cells = []
        for space in self.summary["spaces"]:
            bound = (space["bound"] or {}).get("placement")
            cells.append([space["space"], *map(size, (space["before"], space["peak"]["bytes"], space["arena"], bound))])
        head = "".join(f"<th>{title}</th>" for title in ("space", "peak before", "peak", "arena", "lower bound"))
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in cells)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table><p>{html.escape(self.summary.line)}</p>"

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"<{type(self).__module__.split('.')[0]}.{type(self).__name__} {self._render('line', '')}>"


class Result(Report):
    """A planned model.

    `model` has the form of the given model: a path, bytes, or a message. `layout_path` is the path of the layout
    if it was written. `passes` is the pipeline that makes the plan: `passes=` repeats it without a search.
    A result unpacks to `model, layout, summary`.
    """

    def __init__(self, model, planned, layout_path):
        super().__init__(planned.render, planned.diagnostics)
        self.model = model
        self.layout_path = layout_path
        self.passes = planned.passes

    def __iter__(self):
        return iter((self.model, self.layout, self.summary))


def _beside(path, suffix):
    return os.path.splitext(path)[0] + suffix


def optimize(
    model,
    output=None,
    *,
    budget=None,
    dims=None,
    runtime="ort",
    exact=False,
    slowdown=None,
    target=None,
    effort=None,
    micro_batches=None,
    io=None,
    state=None,
    alias_state=False,
    progress=None,
    **options,
):
    """Plans a model so that it runs in less memory, and returns a `Result` with the model in the given form.

    `model` is a path, bytes, or a `ModelProto`. The planned model of a path goes to `output`, by default to
    `NAME.planned.onnx` beside the given one, and its layout beside it. Weights are never loaded.

    - `budget`: upper limit of the arena: 524288, "512KiB", "60%" of the peak in file order, or a dictionary by
      space. A limit that no plan keeps raises `BudgetError`.
    - `dims`: extents of symbolic dimensions by name: one, a range or an expression, {"batch": 1, "seq": "1..512"}.
    - `runtime`: "ort" for a stock session of ONNX Runtime, "cuda" for `memc.ort.replay` on a CUDA device, "arena" for
      a runtime that obeys the layout, "player" for `memc run`.
    - `exact`: allow only rewrites that keep every bit of the results.
    - `slowdown`: extra time allowed for less memory, in percent.
    - `target`: name of a target that comes with memc, or the path of a file.
    - `effort`: "fast", "default", "max", or a number of search nodes.
    - `micro_batches`: number of equal parts of the batch.
    - `io`: graph tensors in the arena: "outputs", "arena" (inputs too) or "external" (neither).
    - `alias_state`, `state`: write new values of state over the old ones; `state` maps outputs to inputs.
    - `progress`: a function that receives a `Progress` for each step of the search. Its exceptions end the call.
    - `options`: every other option of `memc optimize`, with underscores: `time_limit=10`, `std_ops=True`,
      `link=["host=16GB/s"]`, `weights="host"`, `report="plan.html"`, `layout=["plan.json", "plan.h"]` ...

    Other threads run meanwhile, and Ctrl-C ends the call.
    """
    given = dict(
        budget=budget,
        dims=dims,
        runtime=runtime,
        exact=exact,
        slowdown=slowdown,
        target=target,
        effort=effort,
        micro_batches=micro_batches,
        io=io,
        state=state,
        alias_state=alias_state,
        **options,
    )
    tell = None if progress is None else lambda *event: progress(Progress(*event))
    if not is_path(model):
        if output is not None:
            given["output"] = output
        planned = _memc.plan(["-", *words(given)], source(model), tell)
        return Result(alike(model, planned), planned, _written(given))
    path = os.fspath(model)
    given["output"] = _beside(path, ".planned.onnx") if output is None else os.fspath(output)
    planned = _memc.plan([*words(given), "--", path], None, tell)
    written = given["output"]
    return Result(written if isinstance(model, str) else type(model)(written), planned, _written(given))


def _written(given):
    """Returns the path of the JSON layout that the command writes for these options."""
    named = given.get("layout")
    if named is None:
        output = given.get("output")
        return None if output is None else _beside(output, ".layout.json")
    paths = [os.fspath(path) for path in ([named] if is_path(named) else named)]
    return next((path for path in paths if path.endswith(".json")), None)


def report(model, layout=None, *, dims=None, runtime="ort", target=None, planned=False, **options):
    """Tells the memory of a model in its own order, under a layout, or, with `planned`, under the plan that
    `optimize` makes; nothing is written. Returns a `Report`. The other options are those of `optimize`."""
    if layout is not None:
        text = layout_text(layout)
        return Report(lambda format, title: _memc.render(text, format, title), [])
    given = dict(dims=dims, runtime=runtime, target=target, **options)
    if not planned:
        given.setdefault("passes", _memc.FILE_ORDER)
    plan = _memc.plan(["-", *words(given)], source(model), None)
    return Report(plan.render, plan.diagnostics)


def layout_text(layout):
    """Returns the text of a layout: of a result, a dictionary, or a path."""
    if isinstance(layout, Report):
        return layout.layout_text
    if isinstance(layout, dict):
        import json

        return json.dumps(layout)
    if not is_path(layout):
        raise TypeError(f"a layout is a Result, a dictionary or a path, not {type(layout).__name__}")
    with open(layout, encoding="utf-8") as file:
        return file.read()


def plan_of(planned, layout):
    """Returns the model and the layout text of a plan: a `Result`, or a model with a layout. The layout of a path
    is the file beside it by default."""
    if isinstance(planned, Result):
        return planned.model, planned.layout_text if layout is None else layout_text(layout)
    if layout is not None:
        return planned, layout_text(layout)
    if not is_path(planned):
        raise TypeError("name the layout of a model that is no path: `layout=`")
    return planned, layout_text(_beside(os.fspath(planned), ".layout.json"))
