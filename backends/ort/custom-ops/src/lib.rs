//! Custom operators for stock ONNX Runtime sessions: `ai.memc::SwapOut` takes a tensor out of the session's memory, `SwapIn` brings it back.
//!
//! A session that registers this library runs these kernels in place of the model's own functions of the same names, which only pass their
//! operand on. `SwapOut` gives a token of a few bytes; the tensor waits in a file under the folder that the environment variable
//! `MEMC_SWAP_DIR` names, or else in memory of this library. An operand of `SwapIn` that is no token is copied.
//!
//! ```python
//! options.register_custom_ops_library("libmemc_ort_ops.so")
//! ```
//!
//! A tensor that was brought back is forgotten when its `SwapOut` runs again or when its session is released; concurrent runs of one session
//! are admitted where every `SwapOut` has one `SwapIn`.
#![allow(unsafe_code)]

mod kernel;
mod store;

use ort_sys as sys;

/// Version of the C interface that the library speaks; every later runtime still offers it.
pub(crate) const INTERFACE: u32 = 17;

/// What a session calls when it registers the library.
///
/// # Safety
/// Called by ONNX Runtime with options that live and its own table of functions.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "system" fn RegisterCustomOps(
    options: *mut sys::OrtSessionOptions,
    base: *const sys::OrtApiBase,
) -> sys::OrtStatusPtr {
    // SAFETY: the runtime's promise; the domain is released by the options that it is added to.
    unsafe {
        let Some(api) = base.as_ref().and_then(|base| (base.GetApi)(INTERFACE).as_ref()) else {
            // Without functions there is no way to say what is wrong; the model's own functions serve.
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
