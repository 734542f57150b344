//! Sessions with the settings of users, of which some have no function in the C interface: the order of
//! nodes and the reuse of buffers. Also the bytes that a session's own arena holds.
//!
//! Both settings are found in the runtime's options by what documented functions change there: the mode
//! of execution is the first word and the order the second; the flag for reuse lies between those for
//! the memory pattern and the arena. If the words found differ from these, the settings are refused. A
//! small model then shows that the order has an effect. Measured with ONNX Runtime 1.31.1.

use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::OnceLock;

use memc_onnx_proto::onnx::tensor_shape_proto::{Dimension, dimension};
use memc_onnx_proto::onnx::type_proto::{Tensor, Value as Kind};
use memc_onnx_proto::onnx::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto, ValueInfoProto,
};
use memc_ops::profile::{Level, SessionSettings};
use ort::sys;
use prost::Message as _;

use super::{Runtime, Session, SessionOptions, Settings, Source, check, text};
use crate::arrays::Array;
use crate::element::Element;
use crate::error::Error;

/// File of the loaded library.
pub(super) static LIBRARY: OnceLock<PathBuf> = OnceLock::new();

/// Description of a refusal of settings.
const WORDS: &str =
    "sessions in file order or without reuse of buffers: this library keeps these settings elsewhere";

/// Positions in the runtime's options of settings without a function, in bytes.
#[derive(Clone, Copy)]
struct Positions {
    order: usize,
    reuse: usize,
}

impl Positions {
    /// Number of bytes at the start of the options that are searched. The options are larger.
    const SEARCHED: usize = 96;

    /// Finds the positions by the effects of functions on fresh options.
    ///
    /// # Errors
    /// The runtime refuses a call, or the effects are others than expected.
    fn find(api: &'static sys::OrtApi) -> Result<Self, Error> {
        let none = || Error::Unsupported { what: WORDS };
        if cfg!(not(all(target_pointer_width = "64", target_endian = "little"))) {
            return Err(none());
        }
        let mut made = Settings(ptr::null_mut(), api);
        let ok = |status| check(api, "set up a session", status);
        // SAFETY: options are made first and live until the end of the function.
        unsafe {
            ok((api.CreateSessionOptions)(&mut made.0))?;
            let fresh = made.bytes();
            ok((api.SetSessionExecutionMode)(made.0, sys::ExecutionMode::ORT_PARALLEL))?;
            let parallel = made.bytes();
            ok((api.SetSessionExecutionMode)(made.0, sys::ExecutionMode::ORT_SEQUENTIAL))?;
            ok((api.DisableMemPattern)(made.0))?;
            let no_pattern = made.bytes();
            ok((api.EnableMemPattern)(made.0))?;
            ok((api.DisableCpuMemArena)(made.0))?;
            let no_arena = made.bytes();
            let changed = |to: &[u8]| {
                (0..Self::SEARCHED).filter(|position| to[*position] != fresh[*position]).collect::<Vec<_>>()
            };
            let [pattern] = changed(&no_pattern)[..] else { return Err(none()) };
            let reuse = pattern + 1;
            let is_known = changed(&parallel) == [0]
                && fresh[..8] == [0; 8]
                && changed(&no_arena) == [reuse + 1]
                && fresh[pattern..pattern + 3] == [1; 3];
            if is_known { Ok(Self { order: 4, reuse }) } else { Err(none()) }
        }
    }
}

impl Settings {
    /// Returns the first bytes of the options.
    ///
    /// # Safety
    /// The options exist.
    unsafe fn bytes(&self) -> Vec<u8> {
        let start = self.0.cast::<u8>();
        // SAFETY: the runtime's options have more bytes than these.
        (0..Positions::SEARCHED).map(|position| unsafe { start.add(position).read_volatile() }).collect()
    }

    /// Applies settings of users to options that are exact and unoptimized.
    fn apply(&mut self, settings: &SessionSettings) -> Result<(), Error> {
        let (api, what) = (self.1, "set up a session");
        let ok = |status| check(api, what, status);
        let level = match settings.level {
            Level::None => sys::GraphOptimizationLevel::ORT_DISABLE_ALL,
            Level::Basic => sys::GraphOptimizationLevel::ORT_ENABLE_BASIC,
            Level::Extended => sys::GraphOptimizationLevel::ORT_ENABLE_EXTENDED,
            Level::All => sys::GraphOptimizationLevel::ORT_ENABLE_ALL,
        };
        // SAFETY: strings live through the calls.
        unsafe {
            ok((api.SetSessionGraphOptimizationLevel)(self.0, level))?;
            let mut entries = Vec::new();
            if !settings.without.is_empty() {
                entries.push((
                    c"optimization.disable_specified_optimizers",
                    text(what, &settings.without.join(";"))?,
                ));
            }
            if settings.keeps_pairs {
                entries.push((c"session.disable_quant_qdq", text(what, "1")?));
            }
            for (key, value) in entries {
                ok((api.AddSessionConfigEntry)(self.0, key.as_ptr(), value.as_ptr()))?;
            }
        }
        if settings.file_order || !settings.reuse {
            let positions = Positions::find(api)?;
            let start = self.0.cast::<u8>();
            // SAFETY: both positions are inside the options, and hold these settings in these widths.
            unsafe {
                if settings.file_order {
                    start.add(positions.order).write(1);
                }
                if !settings.reuse {
                    start.add(positions.reuse).write(0);
                }
            }
        }
        Ok(())
    }
}

/// Extents of the values of the model that shows the order.
const SHOWN: i64 = 4096;

/// Makes a model of four branches, all first nodes before all second ones: in file order its run holds
/// four large values at once, in the runtime's own order fewer.
fn branches() -> ModelProto {
    let (tensor, scalar) = (info("x", &[SHOWN]), info("y", &[]));
    let node = |operator: &str, inputs: &[String], output: String| NodeProto {
        op_type: Some(operator.to_owned()),
        input: inputs.to_vec(),
        output: vec![output],
        ..NodeProto::default()
    };
    let numbers = 0..4;
    let mut nodes: Vec<NodeProto> =
        numbers.clone().map(|number| node("Sin", &["x".to_owned()], format!("s{number}"))).collect();
    nodes.extend(
        numbers.clone().map(|number| node("ReduceMax", &[format!("s{number}")], format!("r{number}"))),
    );
    nodes.push(node("Max", &numbers.map(|number| format!("r{number}")).collect::<Vec<_>>(), "m".to_owned()));
    nodes.push(node("Squeeze", &["m".to_owned()], "y".to_owned()));
    let graph = GraphProto {
        name: Some("order".to_owned()),
        node: nodes,
        input: vec![tensor],
        output: vec![scalar],
        ..GraphProto::default()
    };
    let opset = OperatorSetIdProto { domain: None, version: Some(13) };
    ModelProto { ir_version: Some(7), opset_import: vec![opset], graph: Some(graph), ..ModelProto::default() }
}

fn info(name: &str, extents: &[i64]) -> ValueInfoProto {
    let dim = extents
        .iter()
        .map(|extent| Dimension { value: Some(dimension::Value::DimValue(*extent)), ..Dimension::default() });
    let tensor = Tensor { elem_type: Some(1), shape: Some(TensorShapeProto { dim: dim.collect() }) };
    let ty = TypeProto { value: Some(Kind::TensorType(tensor)), ..TypeProto::default() };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(ty), ..ValueInfoProto::default() }
}

impl Runtime {
    /// Makes a session with the settings of a user, on one thread.
    ///
    /// # Errors
    /// The runtime refuses the model, or has no place that is known for a setting.
    pub fn stock_session(
        &self,
        source: Source<'_>,
        settings: &SessionSettings,
    ) -> Result<Session<'_>, Error> {
        if settings.file_order {
            self.shows_order()?;
        }
        self.set_up(source, settings)
    }

    fn set_up(&self, source: Source<'_>, settings: &SessionSettings) -> Result<Session<'_>, Error> {
        let options = SessionOptions {
            optimize: false,
            prepack: true,
            arena: settings.arena,
            pattern: settings.pattern,
        };
        let mut made = Settings::new(self, source, options)?;
        made.apply(settings)?;
        self.finish(source, &made)
    }

    /// Checks that the setting of the order has an effect.
    fn shows_order(&self) -> Result<(), Error> {
        let model = branches().encode_to_vec();
        let none = || Error::Unsupported { what: WORDS };
        let element = Element::from_name("float").ok_or_else(none)?;
        let array = Array::filled(element, vec![SHOWN.unsigned_abs()], |_| Ok(()))?.ok_or_else(none)?;
        let peak = |file_order| {
            let settings = SessionSettings {
                level: Level::None,
                file_order,
                reuse: false,
                arena: false,
                pattern: false,
                ..SessionSettings::PLAIN
            };
            let session = self.set_up(Source::Bytes(&model, None), &settings)?;
            // SAFETY: the array outlives the value, and inputs are only read.
            let value =
                unsafe { self.tensor(array.address(), array.bytes().len(), array.element, &array.shape)? };
            let (results, tally) = self.counted(|| session.run(&[&value], &[]));
            results.map(|_| tally.peak)
        };
        let bytes = SHOWN.unsigned_abs() * 4;
        match (peak(true)?, peak(false)?) {
            (file, own) if file >= 4 * bytes && own < 4 * bytes => Ok(()),
            _ => Err(none()),
        }
    }
}

impl Session<'_> {
    /// Returns the bytes that the arena of the session has taken from the system.
    ///
    /// # Errors
    /// The library is older than 1.23 or its version is unknown, or the session has no arena.
    pub fn arena_bytes(&self) -> Result<u64, Error> {
        type Stats =
            unsafe extern "system" fn(*const sys::OrtAllocator, *mut *mut c_void) -> sys::OrtStatusPtr;
        type Get =
            unsafe extern "system" fn(*const c_void, *const std::ffi::c_char) -> *const std::ffi::c_char;
        type Release = unsafe extern "system" fn(*mut c_void);
        // Positions of functions of version 1.23 in the interface, which only grows at its end.
        const GET_VALUE: usize = 297;
        const RELEASE_PAIRS: usize = 300;
        const GET_STATS: usize = 319;
        const NEEDS: u32 = 23;
        const _: () = assert!(std::mem::offset_of!(sys::OrtApi, ReleaseEnv) / size_of::<usize>() == 92);
        let none = || Error::Unsupported {
            what: "sessions with an arena: their bytes are known from version 1.23 on",
        };
        let table = interface(NEEDS).ok_or_else(none)?;
        let (api, what) = (self.runtime.api(), "count the arena");
        let (mut allocator, mut pairs) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the interface has these functions at these positions; all pointers are released below.
        unsafe {
            let (stats, get, release): (Stats, Get, Release) = (
                std::mem::transmute::<*const c_void, Stats>(*table.add(GET_STATS)),
                std::mem::transmute::<*const c_void, Get>(*table.add(GET_VALUE)),
                std::mem::transmute::<*const c_void, Release>(*table.add(RELEASE_PAIRS)),
            );
            self.runtime.check(
                what,
                (api.CreateAllocator)(self.pointer.as_ptr(), self.runtime.core.info, &mut allocator),
            )?;
            let mut read = || {
                self.runtime.check(what, stats(allocator, &mut pairs))?;
                let value = get(pairs, c"TotalAllocated".as_ptr());
                let bytes = if value.is_null() {
                    None
                } else {
                    CStr::from_ptr(value).to_str().ok().and_then(|text| text.parse().ok())
                };
                release(pairs);
                bytes.ok_or_else(none)
            };
            let found = read();
            (api.ReleaseAllocator)(allocator);
            found
        }
    }
}

/// Returns the functions of the loaded library's interface if it has this version.
fn interface(version: u32) -> Option<*const *const c_void> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        /// Resolves symbols when they are used, and only finds libraries that are loaded.
        const LAZY: std::ffi::c_int = 1;
        const LOADED: std::ffi::c_int = if cfg!(target_vendor = "apple") { 0x10 } else { 4 };
        unsafe extern "C" {
            fn dlopen(path: *const std::ffi::c_char, flags: std::ffi::c_int) -> *mut c_void;
            fn dlsym(library: *mut c_void, name: *const std::ffi::c_char) -> *mut c_void;
        }
        let path = std::ffi::CString::new(LIBRARY.get()?.as_os_str().as_bytes()).ok()?;
        // SAFETY: the library stays loaded until the process ends; the symbol has this type.
        unsafe {
            let library = dlopen(path.as_ptr(), LAZY | LOADED);
            let symbol =
                if library.is_null() { ptr::null_mut() } else { dlsym(library, c"OrtGetApiBase".as_ptr()) };
            if symbol.is_null() {
                return None;
            }
            let base = std::mem::transmute::<
                *mut c_void,
                unsafe extern "system" fn() -> *const sys::OrtApiBase,
            >(symbol);
            let table = ((*base()).GetApi)(version).cast::<*const c_void>();
            (!table.is_null()).then_some(table)
        }
    }
    #[cfg(not(unix))]
    {
        let _ = version;
        None
    }
}
