//! Custom operators for stock ONNX Runtime sessions: `ai.memc::SwapOut` moves a tensor out of the
//! session's memory, `SwapIn` brings it back.
//!
//! In a session that registers this library, these kernels replace the model's own functions of equal
//! names, which only pass their operand on. `SwapOut` returns a token of a few bytes. The tensor waits
//! in a file in the folder that the environment variable `MEMC_SWAP_DIR` names, or in memory of this
//! library if the variable is not set. `SwapIn` copies an operand that is not a token.
//!
//! ```python
//! options.register_custom_ops_library("libmemc_ort_ops.so")
//! ```
//!
//! A tensor that was brought back is forgotten when its `SwapOut` runs again or when its session is
//! released. Concurrent runs of one session are allowed if every `SwapOut` has one `SwapIn`.
#![allow(unsafe_code)]

mod kernel;
mod store;

use ort_sys as sys;

/// Version of the C interface that the library uses; every later runtime still offers it.
pub(crate) const INTERFACE: u32 = 17;

/// Entry point that a session calls when it registers the library.
///
/// # Safety
/// ONNX Runtime must call it, with live options and its own table of functions.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "system" fn RegisterCustomOps(
    options: *mut sys::OrtSessionOptions,
    base: *const sys::OrtApiBase,
) -> sys::OrtStatusPtr {
    // SAFETY: the runtime guarantees its arguments; the options own the domain after it is added.
    unsafe {
        let Some(api) = base.as_ref().and_then(|base| (base.GetApi)(INTERFACE).as_ref()) else {
            // Without the table of functions no error can be reported; the model's own functions then
            // run.
            return sys::OrtStatusPtr::default();
        };
        let mut domain = std::ptr::null_mut();
        let status = (api.CreateCustomOpDomain)(c"ai.memc".as_ptr(), &mut domain);
        if !status.0.is_null() {
            return status;
        }
        for operator in [&kernel::SWAP_OUT, &kernel::SWAP_IN] {
            let status = (api.CustomOpDomain_Add)(domain, operator.interface());
            if !status.0.is_null() {
                return status;
            }
        }
        (api.AddCustomOpDomain)(options, domain)
    }
}
