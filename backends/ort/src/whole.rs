//! Runs whole models, each in one session: the reference that plans are compared with, and the measure
//! of stock options.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::tensor_proto::DataType;
use memc_onnx_proto::onnx::{ModelProto, ValueInfoProto};
use memc_ops::profile::SessionSettings;
use prost::Message as _;

use crate::allocator::Tally;
use crate::arrays::Array;
use crate::content::Content;
use crate::error::Error;
use crate::pinned::pin;
use crate::random;
use crate::runtime::{Runtime, Session, SessionOptions, Source, Value};
use crate::{nudge, stated, types};

/// Returns the path of the file with the bytes of a model. A model that was edited in memory has the path of
/// the file that it was read from, for its weights, and other bytes.
fn own_path(file: &ModelFile) -> Option<&Path> {
    let is_read =
        |path: &&Path| std::fs::metadata(path).is_ok_and(|found| found.len() == file.bytes().len() as u64);
    file.path().filter(is_read)
}

/// A whole model in a session.
#[derive(Debug)]
pub struct Whole<'r> {
    runtime: &'r Runtime,
    session: Session<'r>,
}

impl<'r> Whole<'r> {
    /// Loads a model. Nodes that draw random numbers without a seed get the seed that the player gives
    /// them.
    ///
    /// # Errors
    /// The runtime refuses the model.
    pub fn new(runtime: &'r Runtime, file: &ModelFile, options: SessionOptions) -> Result<Self, Error> {
        let folder = file.path().map(folder);
        let session = match (random::seeded(file.model()), own_path(file)) {
            (Some(model), _) => runtime.session(Source::Bytes(&model.encode_to_vec(), folder), options),
            (None, Some(path)) => runtime.session(Source::File(path), options),
            (None, None) => runtime.session(Source::Bytes(file.bytes(), folder), options),
        };
        Ok(Self { runtime, session: session.map_err(missing_kernel)? })
    }

    /// Loads a model whose weights in other files are in `folder`.
    ///
    /// # Errors
    /// The runtime refuses the model.
    pub fn beside(
        runtime: &'r Runtime,
        file: &ModelFile,
        folder: &Path,
        options: SessionOptions,
    ) -> Result<Self, Error> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let seeded = random::seeded(file.model()).map(|model| model.encode_to_vec());
        let source = Source::Bytes(seeded.as_deref().unwrap_or(file.bytes()), Some(folder));
        Ok(Self { runtime, session: runtime.session(source, options).map_err(missing_kernel)? })
    }

    /// Loads a model into a session with the settings of a user.
    ///
    /// # Errors
    /// The runtime refuses the model or a setting.
    pub fn stock(runtime: &'r Runtime, file: &ModelFile, settings: &SessionSettings) -> Result<Self, Error> {
        let folder = file.path().map(folder);
        let session = match (random::seeded(file.model()), own_path(file)) {
            (Some(model), _) => {
                runtime.stock_session(Source::Bytes(&model.encode_to_vec(), folder), settings)
            }
            (None, Some(path)) => runtime.stock_session(Source::File(path), settings),
            (None, None) => runtime.stock_session(Source::Bytes(file.bytes(), folder), settings),
        };
        Ok(Self { runtime, session: session.map_err(missing_kernel)? })
    }

    /// Runs the model several times, and returns the most bytes of a run beyond the session at rest, without
    /// inputs: what kernels and values request, or with an arena what that takes from the system.
    ///
    /// # Errors
    /// As for [`Self::contents`], or the bytes of an arena are unknown.
    pub fn most_bytes(
        &self,
        inputs: &BTreeMap<String, Array>,
        settings: &SessionSettings,
        runs: u32,
    ) -> Result<u64, Error> {
        let rest = if settings.arena { self.session.arena_bytes()? } else { 0 };
        let mut most = 0;
        for _ in 0..runs.max(1) {
            // Results live until the run is counted, as a caller holds them.
            let (results, tally) = self.results(inputs)?;
            drop(results);
            most = most.max(tally.peak);
        }
        Ok(if settings.arena { self.session.arena_bytes()?.saturating_sub(rest) } else { most })
    }

    /// Loads a model so that every value is rounded to the type that the model states, as in a plan.
    ///
    /// # Errors
    /// The runtime refuses the model.
    pub fn as_stated(runtime: &'r Runtime, file: &ModelFile, options: SessionOptions) -> Result<Self, Error> {
        let model = Self::stated(runtime, file)?;
        match model == *file.model() {
            true => Self::new(runtime, file, options),
            false => Self::of(runtime, &model, file, options),
        }
    }

    /// Loads a model with stated roundings, and with 32-bit weights that are one rounding off; see
    /// [`nudge::nudge`].
    ///
    /// # Errors
    /// The runtime refuses the model.
    pub(crate) fn nudged(
        runtime: &'r Runtime,
        file: &ModelFile,
        options: SessionOptions,
    ) -> Result<Self, Error> {
        let mut model = Self::stated(runtime, file)?;
        nudge::nudge(&mut model);
        Self::of(runtime, &model, file, options)
    }

    fn of(
        runtime: &'r Runtime,
        model: &ModelProto,
        file: &ModelFile,
        options: SessionOptions,
    ) -> Result<Self, Error> {
        let source = model.encode_to_vec();
        let session = runtime
            .session(Source::Bytes(&source, file.path().map(folder)), options)
            .map_err(missing_kernel)?;
        Ok(Self { runtime, session })
    }

    /// Loads a model into a session that has the operators of a library.
    ///
    /// # Safety
    /// The library is loaded into this process, and its code runs.
    ///
    /// # Errors
    /// The runtime refuses the library or the model.
    pub unsafe fn with_operators(
        runtime: &'r Runtime,
        file: &ModelFile,
        options: SessionOptions,
        library: &Path,
    ) -> Result<Self, Error> {
        let source = match file.path() {
            Some(path) => Source::File(path),
            None => Source::Bytes(file.bytes(), None),
        };
        // SAFETY: the caller guarantees that the library may run.
        let session = unsafe { runtime.session_with_operators(source, options, library) };
        Ok(Self { runtime, session: session.map_err(missing_kernel)? })
    }

    /// Loads a model with stated roundings; a run also returns the values of the given names.
    ///
    /// # Errors
    /// The runtime refuses the model.
    pub(crate) fn traced(
        runtime: &'r Runtime,
        file: &ModelFile,
        names: &BTreeSet<&str>,
        options: SessionOptions,
    ) -> Result<Self, Error> {
        let mut model = Self::stated(runtime, file)?;
        give(&mut model, names);
        Self::of(runtime, &model, file, options)
    }

    /// Loads a model with stated roundings that takes pinned values as inputs; a run also returns the
    /// values of the given names. The second result maps the output name of each recomputed value to the
    /// name of its pinned value; see [`pin`].
    ///
    /// # Errors
    /// The runtime refuses the model.
    pub(crate) fn pinned(
        runtime: &'r Runtime,
        file: &ModelFile,
        names: &BTreeSet<&str>,
        pins: &BTreeMap<String, Array>,
        options: SessionOptions,
    ) -> Result<(Self, BTreeMap<String, String>), Error> {
        let mut model = Self::stated(runtime, file)?;
        give(&mut model, names);
        let own = pin(&mut model, pins);
        Ok((Self::of(runtime, &model, file, options)?, own))
    }

    /// Returns the model with seeds, and with barriers at values that a session would not round to the
    /// stated type.
    fn stated(runtime: &Runtime, file: &ModelFile) -> Result<ModelProto, Error> {
        let mut model = random::seeded(file.model()).unwrap_or_else(|| file.model().clone());
        let halves = Self::halves(runtime, file)?;
        stated::hold_types(&mut model, &halves);
        Ok(model)
    }

    /// Returns the half-precision results of the main graph's nodes, as the runtime derives types.
    ///
    /// # Errors
    /// The runtime refuses the model.
    pub(crate) fn halves(runtime: &Runtime, file: &ModelFile) -> Result<BTreeMap<String, DataType>, Error> {
        if !stated::may_hold_halves(file.model()) {
            return Ok(BTreeMap::new());
        }
        let mut model = file.model().clone();
        let nodes = &file.graph().node;
        give(&mut model, &nodes.iter().flat_map(|node| node.output.iter().map(String::as_str)).collect());
        let session =
            Whole::of(runtime, &model, file, SessionOptions { prepack: false, ..SessionOptions::PLAIN })?
                .session;
        let types = session.outputs().zip(session.result_types()?);
        let half =
            types.filter_map(|(name, ty)| Some((name.to_owned(), stated::half(types::element(&ty?)?)?)));
        Ok(half.collect())
    }

    /// Runs the model once and returns its outputs of any kind. The tally counts the allocations of the
    /// session.
    ///
    /// # Errors
    /// An input is missing or refused, or a kernel fails.
    pub fn contents(
        &self,
        inputs: &BTreeMap<String, Array>,
    ) -> Result<(BTreeMap<String, Content<'static>>, Tally), Error> {
        let (results, tally) = self.results(inputs)?;
        let mut outputs = BTreeMap::new();
        // Each result is freed as soon as it is copied.
        for (name, result) in self.session.outputs().zip(results) {
            outputs.insert(name.to_owned(), result.content()?.into_owned()?);
        }
        Ok((outputs, tally))
    }

    /// As [`Self::contents`], but returns only arrays.
    ///
    /// # Errors
    /// As for [`Self::contents`].
    pub fn run(&self, inputs: &BTreeMap<String, Array>) -> Result<(BTreeMap<String, Array>, Tally), Error> {
        let (results, tally) = self.results(inputs)?;
        let mut outputs = BTreeMap::new();
        // Each result is freed as soon as it is copied.
        for (name, result) in self.session.outputs().zip(results) {
            if let Some(view) = result.tensor()? {
                outputs.insert(name.to_owned(), Array::of(&view)?);
            }
        }
        Ok((outputs, tally))
    }

    /// Runs the model once and returns its outputs in order, as values of the runtime.
    ///
    /// # Errors
    /// As for [`Self::contents`].
    pub fn results(&self, inputs: &BTreeMap<String, Array>) -> Result<(Vec<Value<'r>>, Tally), Error> {
        let value = |array: &Array| {
            // SAFETY: the array outlives the value, and inputs are only read.
            unsafe { self.runtime.tensor(array.address(), array.bytes().len(), array.element, &array.shape) }
        };
        let mut values = Vec::new();
        for name in self.session.inputs() {
            let none = || Error::Input { input: name.to_owned(), reason: "is not given".to_owned() };
            values.push(value(inputs.get(name).ok_or_else(none)?)?);
        }
        let known: BTreeSet<&str> = self.session.inputs().collect();
        let mut more = Vec::new();
        for (name, array) in inputs.iter().filter(|(name, _)| !known.contains(name.as_str())) {
            more.push((name.as_str(), value(array)?));
        }
        let borrowed: Vec<(&str, &Value<'_>)> = more.iter().map(|(name, value)| (*name, value)).collect();
        let (results, tally) =
            self.runtime.counted(|| self.session.run(&values.iter().collect::<Vec<_>>(), &borrowed));
        Ok((results?, tally))
    }
}

/// Adds results of a model's nodes to its outputs.
fn give(model: &mut ModelProto, names: &BTreeSet<&str>) {
    let Some(graph) = &mut model.graph else { return };
    let results = graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str));
    // An omitted result has an empty name.
    let results: BTreeSet<&str> = results.filter(|name| !name.is_empty()).collect();
    let known: BTreeSet<&str> = graph.output.iter().map(|output| output.name()).collect();
    let more = names.iter().filter(|name| results.contains(*name) && !known.contains(*name));
    let types = graph.value_info.iter().map(|info| (info.name(), info)).collect::<BTreeMap<_, _>>();
    let info = |name: &&str| match types.get(*name) {
        Some(info) => (*info).clone(),
        None => ValueInfoProto { name: Some((*name).to_owned()), ..ValueInfoProto::default() },
    };
    let more: Vec<ValueInfoProto> = more.map(info).collect();
    graph.output.extend(more);
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Converts the runtime's refusal for a missing kernel into an error that names the kernel.
fn missing_kernel(error: Error) -> Error {
    const BEFORE: [&str; 2] = ["Fatal error: ", "Could not find an implementation for "];
    let Error::Runtime { message, .. } = &error else { return error };
    for words in BEFORE {
        if let Some((_, rest)) = message.split_once(words) {
            let name = rest.split([' ', '(']).next().unwrap_or_default();
            return Error::MissingKernels { kernels: vec![name.replace(':', "::").replace("::::", "::")] };
        }
    }
    error
}
