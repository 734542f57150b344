//! Safe types around ONNX Runtime: the library, sessions, values. Only this module calls its C
//! interface.
#![allow(unsafe_code)]

mod stock;
mod value;

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use memc_onnx_proto::onnx::TypeProto;
use ort::sys;

use crate::allocator::{CountingAllocator, Tally};
use crate::element::Element;
use crate::error::Error;
use crate::types;

pub use value::Value;

/// State of the process: the environment, and the allocator that all sessions share.
struct Core {
    api: &'static sys::OrtApi,
    env: *mut sys::OrtEnv,
    info: *mut sys::OrtMemoryInfo,
    allocator: &'static CountingAllocator,
}

// SAFETY: any thread may use the environment, several at once; the lock around the core admits one user
// of its counts at a time.
unsafe impl Send for Core {}
// SAFETY: as above; descriptions of memory are only read.
unsafe impl Sync for Core {}

static CORE: OnceLock<Mutex<Core>> = OnceLock::new();
static MAKING: Mutex<()> = Mutex::new(());

/// The loaded library, for one user at a time: otherwise the counts of its allocator would mix.
pub struct Runtime {
    core: MutexGuard<'static, Core>,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Runtime")
    }
}

/// Options for running a session's model. Every session runs sequentially, on one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionOptions {
    /// Whether all graph optimizations are on; otherwise none.
    pub optimize: bool,
    /// Whether kernels may keep a repacked second copy of constant operands.
    pub prepack: bool,
    /// Whether the runtime's own arena serves requests; otherwise each request is an allocation.
    pub arena: bool,
    /// Whether the runtime's memory pattern is on.
    pub pattern: bool,
}

impl SessionOptions {
    /// The reference: no optimization, exact allocations.
    pub const PLAIN: Self = Self { optimize: false, prepack: true, arena: false, pattern: false };
    /// Default options of users: all optimizations. The kind of allocation changes no result.
    pub const STOCK: Self = Self { optimize: true, ..Self::PLAIN };
}

/// Location of a model's bytes.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A file; external data is in its folder.
    File(&'a Path),
    /// Bytes, and the folder of their external data.
    Bytes(&'a [u8], Option<&'a Path>),
}

impl Runtime {
    /// Loads the library once a process, and waits until no other user has it.
    ///
    /// # Errors
    /// The file is not an ONNX Runtime library or is too old, or the runtime refuses to make an
    /// environment.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        if CORE.get().is_none() {
            // The returned builder would configure an environment of the crate's own; only the loaded
            // library is needed.
            let _ =
                ort::init_from(path).map_err(|source| Error::Library { path: path.to_owned(), source })?;
            let _ = stock::LIBRARY.set(path.to_owned());
            let core = Core::new()?;
            let _ = CORE.set(Mutex::new(core));
        }
        drop(making);
        let core =
            CORE.get().ok_or(Error::Unsupported { what: "plans on a library that does not initialize" })?;
        Ok(Self { core: core.lock().unwrap_or_else(PoisonError::into_inner) })
    }

    fn api(&self) -> &'static sys::OrtApi {
        self.core.api
    }

    /// Returns version and build of the library, as it states them.
    pub fn version(&self) -> String {
        // SAFETY: the function returns a static string.
        unsafe { CStr::from_ptr((self.api().GetBuildInfoString)()) }.to_string_lossy().into_owned()
    }

    fn check(&self, what: &'static str, status: sys::OrtStatusPtr) -> Result<(), Error> {
        check(self.api(), what, status)
    }

    /// Makes a session.
    ///
    /// # Errors
    /// The runtime refuses the model.
    pub fn session(&self, source: Source<'_>, options: SessionOptions) -> Result<Session<'_>, Error> {
        // SAFETY: the list of weights is empty.
        unsafe { self.session_with(source, options, &[]) }
    }

    /// Makes a session that has the operators of a library. The library stays loaded while the session
    /// lives.
    ///
    /// # Safety
    /// The library is loaded into this process, and its code runs.
    ///
    /// # Errors
    /// The library cannot be loaded or has no operators, or as for [`Self::session`].
    pub unsafe fn session_with_operators(
        &self,
        source: Source<'_>,
        options: SessionOptions,
        library: &Path,
    ) -> Result<Session<'_>, Error> {
        let settings = Settings::new(self, source, options)?;
        #[cfg(not(windows))]
        let name = text("load operators", &library.to_string_lossy())?;
        #[cfg(windows)]
        let name: Vec<u16> =
            std::os::windows::ffi::OsStrExt::encode_wide(library.as_os_str()).chain([0]).collect();
        // SAFETY: the name lives through the call.
        let status = unsafe { (self.api().RegisterCustomOpsLibrary_V2)(settings.0, name.as_ptr()) };
        self.check("load operators", status)?;
        self.finish(source, &settings)
    }

    /// Makes a session of a model whose external initializers are passed in `weights`.
    ///
    /// # Safety
    /// The bytes of the weights must stay valid while the session is in use.
    ///
    /// # Errors
    /// As for [`Self::session`].
    pub(crate) unsafe fn session_with(
        &self,
        source: Source<'_>,
        options: SessionOptions,
        weights: &[(String, &Value<'_>)],
    ) -> Result<Session<'_>, Error> {
        let api = self.api();
        let settings = Settings::new(self, source, options)?;
        if !weights.is_empty() {
            let owned =
                weights.iter().map(|(name, _)| text("name a weight", name)).collect::<Result<Vec<_>, _>>()?;
            let names: Vec<*const c_char> = owned.iter().map(|name| name.as_ptr()).collect::<Vec<_>>();
            let values: Vec<*const sys::OrtValue> =
                weights.iter().map(|(_, value)| value.pointer.as_ptr().cast_const()).collect();
            // SAFETY: names and values live through the call; the options keep references to the values.
            let status = unsafe {
                (api.AddExternalInitializers)(settings.0, names.as_ptr(), values.as_ptr(), names.len())
            };
            self.check("give weights", status)?;
        }
        self.finish(source, &settings)
    }

    /// Reads a description of a type, and releases it. Follows sequences and optionals to their element
    /// types.
    ///
    /// # Safety
    /// If `get` succeeds, the caller owns the returned description and may release it.
    unsafe fn read_type(
        &self,
        depth: usize,
        get: &dyn Fn(*mut *mut sys::OrtTypeInfo) -> sys::OrtStatusPtr,
    ) -> Result<Option<TypeProto>, Error> {
        const WHAT: &str = "describe a type";
        let (api, mut info) = (self.api(), ptr::null_mut());
        let (mut tensor, mut sequence, mut optional, mut number) =
            (ptr::null(), ptr::null(), ptr::null(), 0i32);
        self.check(WHAT, get(&raw mut info))?;
        // SAFETY: the description lives until it is released below. A cast to a kind that does not match
        // returns null. The number is read through an integer, so that an unknown number does not become
        // an invalid enumeration.
        unsafe {
            let mut read = || {
                self.check(WHAT, (api.CastTypeInfoToTensorInfo)(info, &mut tensor))?;
                self.check(WHAT, (api.CastTypeInfoToSequenceTypeInfo)(info, &mut sequence))?;
                self.check(WHAT, (api.CastTypeInfoToOptionalTypeInfo)(info, &mut optional))?;
                if !tensor.is_null() {
                    self.check(WHAT, (api.GetTensorElementType)(tensor, (&raw mut number).cast()))?;
                    return Ok(Some(types::tensor(number)));
                }
                let inner = match (sequence.is_null(), optional.is_null()) {
                    _ if depth >= types::MAX_DEPTH => None,
                    (false, _) => {
                        self.read_type(depth + 1, &|inner| (api.GetSequenceElementType)(sequence, inner))?
                    }
                    (_, false) => self
                        .read_type(depth + 1, &|inner| (api.GetOptionalContainedTypeInfo)(optional, inner))?,
                    _ => None,
                };
                Ok(inner.map(if sequence.is_null() { types::optional } else { types::sequence }))
            };
            let found = read();
            (api.ReleaseTypeInfo)(info);
            found
        }
    }

    fn finish(&self, source: Source<'_>, settings: &Settings) -> Result<Session<'_>, Error> {
        let api = self.api();
        let mut session = ptr::null_mut();
        // SAFETY: all pointers live through the calls; the runtime copies all data that it keeps.
        let status = unsafe {
            match source {
                Source::File(path) => {
                    let name = text("open the model", &path.to_string_lossy())?;
                    (api.CreateSession)(self.core.env, name.as_ptr(), settings.0, &mut session)
                }
                Source::Bytes(bytes, _) => (api.CreateSessionFromArray)(
                    self.core.env,
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    settings.0,
                    &mut session,
                ),
            }
        };
        self.check("make a session", status)?;
        let pointer = NonNull::new(session).ok_or_else(|| nothing("make a session"))?;
        let mut made = Session { runtime: self, pointer, inputs: Vec::new(), outputs: Vec::new() };
        made.inputs = made.names(api.SessionGetInputCount, api.SessionGetInputName)?;
        made.outputs = made.names(api.SessionGetOutputCount, api.SessionGetOutputName)?;
        Ok(made)
    }

    /// Makes a tensor over borrowed bytes.
    ///
    /// # Safety
    /// The bytes must stay valid and in place while the value is in use, and their number must match
    /// shape and type. They must be writable if a kernel gets the value as a result.
    ///
    /// # Errors
    /// Shape and size do not agree.
    pub unsafe fn tensor(
        &self,
        address: *mut u8,
        bytes: usize,
        element: Element,
        shape: &[u64],
    ) -> Result<Value<'_>, Error> {
        let dims: Vec<i64> = shape.iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect();
        let mut value = ptr::null_mut();
        // SAFETY: the caller guarantees the bytes; the runtime compares shape and size.
        let status = unsafe {
            (self.api().CreateTensorWithDataAsOrtValue)(
                self.core.info,
                address.cast(),
                bytes,
                dims.as_ptr(),
                dims.len(),
                element.runtime(),
                &mut value,
            )
        };
        self.check("make a tensor", status)?;
        Ok(Value { runtime: self, pointer: NonNull::new(value).ok_or_else(|| nothing("make a tensor"))? })
    }

    /// Starts a count of the sessions' allocations. `region` is the planned workspace, if there is one.
    ///
    /// # Safety
    /// No other code may use the workspace until [`Self::end_count`].
    pub(crate) unsafe fn begin_count(&self, region: Option<(*mut u8, usize)>) {
        // SAFETY: the caller's promise.
        unsafe { self.core.allocator.begin(region) };
    }

    /// Ends the count and returns it.
    pub(crate) fn end_count(&self) -> Tally {
        self.core.allocator.end()
    }

    /// Runs `work` with a count of its own for the calling thread.
    pub(crate) fn apart<T>(&self, work: impl FnOnce() -> T) -> T {
        self.core.allocator.part();
        let result = work();
        self.core.allocator.join();
        result
    }

    /// Runs `work` and counts the allocations of its sessions; requests that fit are served from the
    /// planned workspace.
    ///
    /// # Safety
    /// As for [`Self::begin_count`].
    pub(crate) unsafe fn counting<T>(
        &self,
        region: Option<(*mut u8, usize)>,
        work: impl FnOnce() -> T,
    ) -> (T, Tally) {
        // SAFETY: the caller's promise.
        unsafe { self.begin_count(region) };
        let result = work();
        (result, self.end_count())
    }

    /// Runs `work` and counts the sessions' allocations meanwhile.
    pub fn counted<T>(&self, work: impl FnOnce() -> T) -> (T, Tally) {
        // SAFETY: there is no workspace.
        unsafe { self.counting(None, work) }
    }
}

impl Core {
    fn new() -> Result<Self, Error> {
        let api = ort::api();
        let (mut env, mut info) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: out pointers are valid; the names are static.
        unsafe {
            let level = sys::OrtLoggingLevel::ORT_LOGGING_LEVEL_FATAL;
            check(api, "make an environment", (api.CreateEnv)(level, c"memc".as_ptr(), &mut env))?;
            let (kind, place) =
                (sys::OrtAllocatorType::OrtDeviceAllocator, sys::OrtMemType::OrtMemTypeDefault);
            check(
                api,
                "describe memory",
                (api.CreateMemoryInfo)(c"Cpu".as_ptr(), kind, 0, place, &mut info),
            )?;
            // Both are leaked on purpose: the environment keeps their addresses until the process ends.
            let allocator: &'static CountingAllocator = Box::leak(Box::new(CountingAllocator::new(info)));
            check(api, "register an allocator", (api.RegisterAllocator)(env, allocator.as_interface()))?;
            Ok(Self { api, env, info, allocator })
        }
    }
}

fn check(api: &sys::OrtApi, what: &'static str, status: sys::OrtStatusPtr) -> Result<(), Error> {
    if status.0.is_null() {
        return Ok(());
    }
    // SAFETY: a status that is not null belongs to the caller, who reads and releases it.
    unsafe {
        let message = CStr::from_ptr((api.GetErrorMessage)(status.0)).to_string_lossy().trim_end().to_owned();
        let code = (api.GetErrorCode)(status.0) as i32;
        (api.ReleaseStatus)(status.0);
        Err(Error::Runtime { what, code, message })
    }
}

fn nothing(what: &'static str) -> Error {
    Error::Runtime { what, code: 0, message: "it returned no result".to_owned() }
}

fn text(what: &'static str, name: &str) -> Result<CString, Error> {
    CString::new(name).map_err(|_| Error::Runtime {
        what,
        code: 0,
        message: "a name holds a zero byte".to_owned(),
    })
}

/// Options of a session, released when dropped.
struct Settings(*mut sys::OrtSessionOptions, &'static sys::OrtApi);

impl Settings {
    fn new(runtime: &Runtime, source: Source<'_>, options: SessionOptions) -> Result<Self, Error> {
        let api = runtime.api();
        let mut settings = Self(ptr::null_mut(), api);
        let what = "set up a session";
        let ok = |status| check(api, what, status);
        let flag = |value: bool| if value { c"1" } else { c"0" };
        // SAFETY: the options are made first; strings live through the calls.
        unsafe {
            ok((api.CreateSessionOptions)(&mut settings.0))?;
            let level = match options.optimize {
                true => sys::GraphOptimizationLevel::ORT_ENABLE_ALL,
                false => sys::GraphOptimizationLevel::ORT_DISABLE_ALL,
            };
            ok((api.SetSessionGraphOptimizationLevel)(settings.0, level))?;
            ok((api.SetIntraOpNumThreads)(settings.0, 1))?;
            ok((api.SetInterOpNumThreads)(settings.0, 1))?;
            if !options.pattern {
                ok((api.DisableMemPattern)(settings.0))?;
            }
            if !options.arena {
                ok((api.DisableCpuMemArena)(settings.0))?;
            }
            let entry = |key: &CStr, value: &CStr| {
                ok((api.AddSessionConfigEntry)(settings.0, key.as_ptr(), value.as_ptr()))
            };
            // If the runtime uses its own arena, our allocator sees none of its allocations.
            entry(c"session.use_env_allocators", flag(!options.arena))?;
            entry(c"session.disable_prepacking", flag(!options.prepack))?;
            if let Source::Bytes(_, Some(folder)) = source {
                let folder = text(what, &folder.to_string_lossy())?;
                entry(c"session.model_external_initializers_file_folder_path", &folder)?;
            }
        }
        Ok(settings)
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // SAFETY: the runtime made these options, and no code uses them any more.
        unsafe { (self.1.ReleaseSessionOptions)(self.0) };
    }
}

type CountOf = unsafe extern "system" fn(*const sys::OrtSession, *mut usize) -> sys::OrtStatusPtr;
type NameOf = unsafe extern "system" fn(
    *const sys::OrtSession,
    usize,
    *mut sys::OrtAllocator,
    *mut *mut c_char,
) -> sys::OrtStatusPtr;

/// A model that is ready to run.
#[derive(Debug)]
pub struct Session<'r> {
    runtime: &'r Runtime,
    pointer: NonNull<sys::OrtSession>,
    inputs: Vec<CString>,
    outputs: Vec<CString>,
}

// SAFETY: a session belongs to no thread: any thread may run or release it (ONNX Runtime,
// `OrtApi::Run`).
unsafe impl Send for Session<'_> {}

impl<'r> Session<'r> {
    fn names(&self, count: CountOf, name: NameOf) -> Result<Vec<CString>, Error> {
        let runtime = self.runtime;
        let allocator = runtime.core.allocator.as_interface();
        let mut total = 0;
        // SAFETY: the session lives; each name is ours to release, with the allocator that made it.
        unsafe {
            runtime.check("count operands", count(self.pointer.as_ptr(), &mut total))?;
            let mut names = Vec::with_capacity(total);
            for position in 0..total {
                let mut text = ptr::null_mut();
                runtime
                    .check("name operands", name(self.pointer.as_ptr(), position, allocator, &mut text))?;
                names.push(CStr::from_ptr(text).to_owned());
                runtime.check("release a name", (runtime.api().AllocatorFree)(allocator, text.cast()))?;
            }
            Ok(names)
        }
    }

    /// Iterates over the names of the inputs that have no default, in order.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(|name| name.to_str().unwrap_or_default())
    }

    /// Iterates over the names of the outputs, in order.
    pub fn outputs(&self) -> impl Iterator<Item = &str> {
        self.outputs.iter().map(|name| name.to_str().unwrap_or_default())
    }

    /// Returns the types of the outputs as the runtime derives them, without shapes; `None` for kinds
    /// other than tensors, sequences and optionals.
    ///
    /// # Errors
    /// The runtime cannot describe an output.
    pub(crate) fn result_types(&self) -> Result<Vec<Option<TypeProto>>, Error> {
        let api = self.runtime.api();
        // SAFETY: the session lives; `read_type` releases the description.
        let describe = |position| unsafe {
            self.runtime
                .read_type(0, &|info| (api.SessionGetOutputTypeInfo)(self.pointer.as_ptr(), position, info))
        };
        (0..self.outputs.len()).map(describe).collect()
    }

    /// Runs the model; the runtime allocates all outputs. `more` has values for initializers that inputs
    /// override.
    ///
    /// # Errors
    /// A kernel fails, or a value has the wrong type or shape.
    pub fn run(&self, inputs: &[&Value<'_>], more: &[(&str, &Value<'_>)]) -> Result<Vec<Value<'r>>, Error> {
        let more_names = more.iter().map(|(name, _)| text("run", name)).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<*const c_char> =
            self.inputs.iter().chain(&more_names).map(|name| name.as_ptr()).collect();
        let given: Vec<&Value<'_>> =
            inputs.iter().copied().chain(more.iter().map(|(_, value)| *value)).collect();
        let mut results = vec![ptr::null_mut(); self.outputs.len()];
        if names.len() != given.len() {
            return Err(nothing("run with this number of operands"));
        }
        self.call(&names, &given, &mut results)?;
        results
            .into_iter()
            .map(|value| {
                Ok(Value {
                    runtime: self.runtime,
                    pointer: NonNull::new(value).ok_or_else(|| nothing("run"))?,
                })
            })
            .collect()
    }

    /// Runs the model with these operands, each at the position of its name. Leaves out empty optionals:
    /// a session treats a missing optional input as empty, but follows a null pointer if it gets an
    /// empty one.
    fn call(
        &self,
        names: &[*const c_char],
        given: &[&Value<'_>],
        results: &mut [*mut sys::OrtValue],
    ) -> Result<(), Error> {
        let mut operands = (Vec::with_capacity(names.len()), Vec::with_capacity(names.len()));
        for (name, value) in names.iter().zip(given) {
            if value.is_present()? {
                operands.0.push(*name);
                operands.1.push(value.pointer.as_ptr().cast_const());
            }
        }
        let (names, given) = operands;
        let outputs: Vec<*const c_char> = self.outputs.iter().map(|name| name.as_ptr()).collect();
        // SAFETY: names and values are equal in number; all live through the call.
        let status = unsafe {
            (self.runtime.api().Run)(
                self.pointer.as_ptr(),
                ptr::null(),
                names.as_ptr(),
                given.as_ptr(),
                names.len(),
                outputs.as_ptr(),
                outputs.len(),
                results.as_mut_ptr(),
            )
        };
        self.runtime.check("run", status)
    }

    /// Fixes operands and results for later calls of [`Bound::run`].
    ///
    /// # Safety
    /// The values must stay valid while the returned binding is in use. Kernels may read and write them
    /// in any order, so a result may share bytes only with operands that the operator may overwrite.
    ///
    /// # Errors
    /// The number of values differs from the session's, or the runtime refuses a value.
    pub(crate) unsafe fn bind(
        session: &Rc<Self>,
        inputs: &[&Value<'_>],
        outputs: &[&Value<'_>],
    ) -> Result<Bound<'r>, Error> {
        if inputs.len() != session.inputs.len() || outputs.len() != session.outputs.len() {
            return Err(nothing("bind this number of operands"));
        }
        let (runtime, api) = (session.runtime, session.runtime.api());
        let mut binding = ptr::null_mut();
        // SAFETY: the session lives as long as the binding; the caller guarantees the values.
        unsafe {
            runtime.check("bind", (api.CreateIoBinding)(session.pointer.as_ptr(), &mut binding))?;
            let bound = Bound {
                session: session.clone(),
                pointer: NonNull::new(binding).ok_or_else(|| nothing("bind"))?,
            };
            for (name, value) in session.inputs.iter().zip(inputs) {
                runtime.check(
                    "bind an operand",
                    (api.BindInput)(binding, name.as_ptr(), value.pointer.as_ptr()),
                )?;
            }
            for (name, value) in session.outputs.iter().zip(outputs) {
                runtime.check(
                    "bind a result",
                    (api.BindOutput)(binding, name.as_ptr(), value.pointer.as_ptr()),
                )?;
            }
            Ok(bound)
        }
    }

    /// Runs the model with some results in given places. The runtime allocates the other results (`None`
    /// in `outputs`) and returns them.
    ///
    /// # Safety
    /// As for [`Self::bind`].
    ///
    /// # Errors
    /// As for [`Self::run`].
    pub(crate) unsafe fn run_into(
        &self,
        inputs: &[&Value<'_>],
        outputs: &[Option<&Value<'_>>],
    ) -> Result<Vec<Option<Value<'r>>>, Error> {
        if inputs.len() != self.inputs.len() || outputs.len() != self.outputs.len() {
            return Err(nothing("run with this number of operands"));
        }
        let names: Vec<*const c_char> = self.inputs.iter().map(|name| name.as_ptr()).collect();
        let mut results: Vec<*mut sys::OrtValue> = outputs
            .iter()
            .map(|value| value.map_or(ptr::null_mut(), |value| value.pointer.as_ptr()))
            .collect();
        self.call(&names, inputs, &mut results)?;
        let fresh = results.into_iter().zip(outputs).map(|(pointer, place)| {
            let pointer = NonNull::new(pointer).filter(|_| place.is_none());
            pointer.map(|pointer| Value { runtime: self.runtime, pointer })
        });
        Ok(fresh.collect())
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: the runtime made the session, and all borrowers are gone.
        unsafe { (self.runtime.api().ReleaseSession)(self.pointer.as_ptr()) };
    }
}

/// A session with fixed operands and results.
#[derive(Debug)]
pub(crate) struct Bound<'r> {
    session: Rc<Session<'r>>,
    pointer: NonNull<sys::OrtIoBinding>,
}

impl Bound<'_> {
    /// Runs the session over the bound values.
    ///
    /// # Errors
    /// A kernel fails, or its result has another shape than the bound value.
    pub(crate) fn run(&self) -> Result<(), Error> {
        let runtime = self.session.runtime;
        // SAFETY: session and binding live; the caller of `bind` guarantees the values.
        let status = unsafe {
            (runtime.api().RunWithBinding)(self.session.pointer.as_ptr(), ptr::null(), self.pointer.as_ptr())
        };
        runtime.check("run", status)
    }
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        // SAFETY: the runtime made the binding.
        unsafe { (self.session.runtime.api().ReleaseIoBinding)(self.pointer.as_ptr()) };
    }
}
