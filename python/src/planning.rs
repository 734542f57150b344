//! Plans on a thread of their own, while the caller's thread answers signals and reports progress.

use std::ffi::OsString;
use std::io::Write as _;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use memc::cli::{Failure, Options};
use memc::memc_passes::Silent;
use memc::{Entry, Error, Model, Request, Stop, memc_layout};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{Said, raised, said};
use crate::{Source, report};

/// Time between two looks at pending signals: Ctrl-C is answered at once for a person.
const POLL: Duration = Duration::from_millis(50);

/// Time that an interrupted call waits for the planner: a person would press the keys again.
const PATIENCE: Duration = Duration::from_secs(1);

/// Stack of the planning thread, in bytes: that of a main thread on Linux, as the command has.
const STACK: usize = 8 << 20;

/// A judged candidate, or a strategy that starts: strategy, candidate, bytes, nanoseconds, verdict.
type Event = (&'static str, String, Option<u64>, Option<u64>, &'static str);

/// A planned model.
#[pyclass]
pub struct Planned {
    planned: memc::Planned,
    missed: Option<Said>,
}

#[pymethods]
impl Planned {
    /// Returns the bytes of the written model.
    fn model<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let length = usize::try_from(self.planned.model.len())
            .map_err(|error| PyOSError::new_err(error.to_string()))?;
        PyBytes::new_with(py, length, |mut room| {
            self.planned
                .model
                .write_to(&mut room)
                .and_then(|()| room.flush())
                .map_err(|error| PyOSError::new_err(error.to_string()))
        })
    }

    /// States in the layout that the written model has these bytes: another encoding of the model.
    fn encoded_as(&mut self, data: &[u8]) {
        self.planned.layout.model.output_sha256 = memc::sha256(data);
    }

    /// Returns the layout or a report: `layout`, `line`, `text`, `json`, `markdown`, `html` or
    /// `trace`.
    fn render(&self, format: &str, title: &str) -> PyResult<String> {
        rendered(&self.planned.layout, format, title)
    }

    /// Warnings and remarks on the model and the plan.
    #[getter]
    fn diagnostics(&self) -> Vec<Said> {
        self.planned.diagnostics.iter().map(said).chain(self.missed.clone()).collect()
    }

    /// The pipeline that makes this plan.
    #[getter]
    fn passes(&self) -> &str {
        &self.planned.trace
    }
}

/// Returns a layout as text in a format.
pub fn rendered(layout: &memc_layout::Layout, format: &str, title: &str) -> PyResult<String> {
    let unknown = || {
        PyValueError::new_err(format!(
            "`{format}` is not one of layout, line, text, json, markdown, html, trace"
        ))
    };
    match format {
        "layout" => memc_layout::to_json(layout).map_err(|error| PyValueError::new_err(error.to_string())),
        _ => report(layout, format, title).ok_or_else(unknown),
    }
}

/// Plans a model by the words of `memc optimize`, which name a model and files to write. `data`
/// replaces the named model. `tell` receives each event.
#[pyfunction]
#[pyo3(signature = (words, data=None, tell=None))]
pub fn plan(
    py: Python<'_>,
    words: Vec<OsString>,
    data: Option<Source>,
    tell: Option<Py<PyAny>>,
) -> PyResult<Planned> {
    let refused = |failure: Failure| raised(py, &failure, None);
    let options = Options::read(words).map_err(refused)?;
    let mut request = options.request().map_err(refused)?;
    request.stop = Stop::on_interrupt();
    let source = data.unwrap_or_else(|| Source::Path(options.input().to_owned()));
    let model = Arc::new(py.detach(|| source.open()).map_err(|error| refuse(py, error))?);
    let planned = watched(py, &model, request, tell.as_ref())?;
    let missed = py.detach(|| options.write(&model, &planned)).map_err(refused)?;
    Ok(Planned { planned, missed: missed.as_ref().map(said) })
}

/// Returns the exception for an error of planning.
fn refuse(py: Python<'_>, error: Error) -> PyErr {
    let smallest = error.smallest();
    raised(py, &error.into(), smallest)
}

/// Plans without the interpreter's lock. An exception of `tell` or of a signal ends the searches.
fn watched(
    py: Python<'_>,
    model: &Arc<Model>,
    request: Request,
    tell: Option<&Py<PyAny>>,
) -> PyResult<memc::Planned> {
    let (sender, events) = mpsc::channel();
    let stop = request.stop.clone();
    let model = Arc::clone(model);
    let work = move || {
        memc::plan_watched(&model, &request, &mut Silent, &mut |entry| {
            // A caller that left no longer listens.
            let _ = sender.send(event(entry));
        })
    };
    let worker = thread::Builder::new().name("memc".to_owned()).stack_size(STACK).spawn(work);
    let worker = worker.map_err(|error| PyOSError::new_err(error.to_string()))?;
    let events = Mutex::new(events);
    py.detach(|| {
        let events = events.into_inner().unwrap_or_else(PoisonError::into_inner);
        match attend(&events, tell) {
            None => Ok(worker.join()),
            Some(exception) => {
                stop.request();
                leave(&events);
                Err(exception)
            }
        }
    })?
    // A panic of the planner is a panic of this call.
    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    .map_err(|error| refuse(py, error))
}

/// Reports events and answers signals until the planner ends, or until one of them raises an exception,
/// which it returns.
fn attend(events: &Receiver<Event>, tell: Option<&Py<PyAny>>) -> Option<PyErr> {
    loop {
        let next = match events.recv_timeout(POLL) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return None,
        };
        let answered = Python::attach(|py| {
            py.check_signals()?;
            match (next, tell) {
                (Some(event), Some(tell)) => tell.call1(py, event).map(drop),
                _ => Ok(()),
            }
        });
        if let Err(exception) = answered {
            return Some(exception);
        }
    }
}

/// Waits for a planner that was asked to stop, but not longer than `PATIENCE`: a solver that ignores
/// the request ends on its own, and the searches after it see the request.
fn leave(events: &Receiver<Event>) {
    let asked = Instant::now();
    while let Some(rest) = PATIENCE.checked_sub(asked.elapsed()) {
        if matches!(events.recv_timeout(rest), Err(RecvTimeoutError::Disconnected)) {
            return;
        }
    }
}

/// Returns the parts of an entry of the log.
fn event(entry: &Entry) -> Event {
    (
        entry.strategy,
        entry.candidate.clone(),
        entry.bytes.map(|bytes| bytes.0),
        entry.nanos,
        entry.verdict.words(),
    )
}
