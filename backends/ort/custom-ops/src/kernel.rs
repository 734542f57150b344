//! The two kernels, and their registration through ONNX Runtime's C interface of custom operators
//! (`onnxruntime_c_api.h`, `OrtCustomOp`).

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use ort_sys as sys;

use crate::INTERFACE;
use crate::store::{self, Kept};

/// Number of elements of a token: at least [`TOKEN_BYTES`] for every element type, down to four bits.
const TOKEN: i64 = 32;
/// Length of the used part of a token, in bytes: the mark, and the number.
const TOKEN_BYTES: usize = 16;
/// Mark that distinguishes a token from a tensor of equal shape.
const MARK: [u8; 8] = [0x6d, 0x65, 0x6d, 0x63, 0xa7, 0x1e, 0x5b, 0xf3];

/// An operator. The interface is its first member, so that both have one address.
#[repr(C)]
pub(crate) struct Operator {
    interface: sys::OrtCustomOp,
    name: &'static CStr,
    takes_away: bool,
}

/// Moves its operand out of the session and returns a token.
pub(crate) static SWAP_OUT: Operator = Operator::new(c"SwapOut", true);
/// Brings back the tensor of a token.
pub(crate) static SWAP_IN: Operator = Operator::new(c"SwapIn", false);

impl Operator {
    const fn new(name: &'static CStr, takes_away: bool) -> Self {
        let interface = sys::OrtCustomOp {
            version: INTERFACE,
            CreateKernel: None,
            GetName: Some(name_of),
            GetExecutionProviderType: Some(provider),
            GetInputType: Some(any_type),
            GetInputTypeCount: Some(one),
            GetOutputType: Some(any_type),
            GetOutputTypeCount: Some(one),
            KernelCompute: None,
            KernelDestroy: Some(destroy),
            GetInputCharacteristic: Some(required),
            GetOutputCharacteristic: Some(required),
            GetInputMemoryType: Some(memory),
            GetVariadicInputMinArity: Some(arity),
            GetVariadicInputHomogeneity: Some(arity),
            GetVariadicOutputMinArity: Some(arity),
            GetVariadicOutputHomogeneity: Some(arity),
            CreateKernelV2: Some(create),
            KernelComputeV2: Some(compute),
            InferOutputShapeFn: None,
            GetStartVersion: Some(first_version),
            GetEndVersion: Some(last_version),
        };
        Self { interface, name, takes_away }
    }

    pub(crate) fn interface(&'static self) -> *const sys::OrtCustomOp {
        ptr::from_ref(self).cast()
    }

    /// Returns the operator of an interface.
    ///
    /// # Safety
    /// `op` must come from [`Self::interface`].
    unsafe fn of<'a>(op: *const sys::OrtCustomOp) -> &'a Self {
        // SAFETY: the interface is the first member of a `repr(C)` static.
        unsafe { &*op.cast() }
    }
}

unsafe extern "system" fn name_of(op: *const sys::OrtCustomOp) -> *const c_char {
    // SAFETY: the runtime passes the registered operator.
    unsafe { Operator::of(op) }.name.as_ptr()
}

unsafe extern "system" fn provider(_: *const sys::OrtCustomOp) -> *const c_char {
    c"CPUExecutionProvider".as_ptr()
}

unsafe extern "system" fn any_type(_: *const sys::OrtCustomOp, _: usize) -> sys::ONNXTensorElementDataType {
    sys::ONNXTensorElementDataType::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED
}

unsafe extern "system" fn one(_: *const sys::OrtCustomOp) -> usize {
    1
}

unsafe extern "system" fn required(
    _: *const sys::OrtCustomOp,
    _: usize,
) -> sys::OrtCustomOpInputOutputCharacteristic {
    sys::OrtCustomOpInputOutputCharacteristic::INPUT_OUTPUT_REQUIRED
}

unsafe extern "system" fn memory(_: *const sys::OrtCustomOp, _: usize) -> sys::OrtMemType {
    sys::OrtMemType::OrtMemTypeDefault
}

unsafe extern "system" fn arity(_: *const sys::OrtCustomOp) -> c_int {
    1
}

unsafe extern "system" fn first_version(_: *const sys::OrtCustomOp) -> c_int {
    1
}

unsafe extern "system" fn last_version(_: *const sys::OrtCustomOp) -> c_int {
    c_int::MAX
}

/// The kernel of a node.
struct Kernel {
    api: &'static sys::OrtApi,
    takes_away: bool,
    /// Numbers of the tensors that this node moved away and still keeps.
    kept: Mutex<Vec<u64>>,
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let kept = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
        kept.drain(..).for_each(store::forget);
    }
}

unsafe extern "system" fn create(
    op: *const sys::OrtCustomOp,
    api: *const sys::OrtApi,
    _: *const sys::OrtKernelInfo,
    kernel: *mut *mut c_void,
) -> sys::OrtStatusPtr {
    // SAFETY: the runtime's table lives as long as its library, and the out pointer is valid.
    unsafe {
        let made = Kernel { api: &*api, takes_away: Operator::of(op).takes_away, kept: Mutex::default() };
        *kernel = Box::into_raw(Box::new(made)).cast();
    }
    sys::OrtStatusPtr::default()
}

unsafe extern "system" fn destroy(kernel: *mut c_void) {
    if !kernel.is_null() {
        // SAFETY: made by `create`, destroyed once.
        drop(unsafe { Box::from_raw(kernel.cast::<Kernel>()) });
    }
}

unsafe extern "system" fn compute(
    kernel: *mut c_void,
    context: *mut sys::OrtKernelContext,
) -> sys::OrtStatusPtr {
    // SAFETY: `create` made the kernel; the context lives through the call.
    let outcome = unsafe {
        let kernel = &*kernel.cast::<Kernel>();
        match kernel.takes_away {
            true => kernel.take_away(context),
            false => kernel.bring_back(context),
        }
        .map_err(|failure| (kernel.api, failure))
    };
    match outcome {
        Ok(()) => sys::OrtStatusPtr::default(),
        Err((_, Failure::Status(status))) => status,
        Err((api, Failure::Text(text))) => {
            let text = CString::new(text).unwrap_or_default();
            // SAFETY: the runtime copies the text.
            unsafe { (api.CreateStatus)(sys::OrtErrorCode::ORT_FAIL, text.as_ptr()) }
        }
    }
}

/// Reason for a failure of a kernel.
enum Failure {
    /// A status of the runtime.
    Status(sys::OrtStatusPtr),
    /// A message of this library.
    Text(String),
}

fn check(status: sys::OrtStatusPtr) -> Result<(), Failure> {
    if status.0.is_null() { Ok(()) } else { Err(Failure::Status(status)) }
}

/// A tensor of the session.
struct Tensor {
    shape: Vec<i64>,
    start: *mut u8,
    bytes: usize,
}

impl Kernel {
    /// Keeps a copy of the operand and returns a token for it. Forgets this node's earlier tensors that
    /// were brought back.
    ///
    /// # Safety
    /// `context` must belong to a running call.
    unsafe fn take_away(&self, context: *mut sys::OrtKernelContext) -> Result<(), Failure> {
        // SAFETY: the caller guarantees the context; the operand lives through the call.
        let (operand, bytes) = unsafe {
            let operand = self.operand(context)?;
            let bytes: &[u8] = if operand.bytes == 0 {
                &[]
            } else {
                std::slice::from_raw_parts(operand.start, operand.bytes)
            };
            (Kept::new(bytes, operand.shape.clone()), bytes.len())
        };
        let kept =
            operand.map_err(|error| Failure::Text(format!("{bytes} bytes cannot be stored: {error}")))?;
        let number = store::keep(kept);
        // Forget earlier tensors of this node that were brought back.
        let mut own = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        own.retain(|earlier| {
            let stays = store::find(*earlier).is_some_and(|kept| !kept.is_loaded.load(Ordering::Acquire));
            if !stays {
                store::forget(*earlier);
            }
            stays
        });
        own.push(number);
        drop(own);
        // SAFETY: the size of the result matches its shape.
        unsafe {
            let token = self.result(context, &[TOKEN])?;
            let target = std::slice::from_raw_parts_mut(token.start, token.bytes);
            target.fill(0);
            let content = MARK.iter().chain(&number.to_le_bytes()).copied().collect::<Vec<u8>>();
            let Some(head) = target.get_mut(..TOKEN_BYTES) else {
                return Err(Failure::Text("the result is too small for the token".to_owned()));
            };
            head.copy_from_slice(&content);
        }
        Ok(())
    }

    /// Writes the tensor of a token to the result; copies an operand that is not a token.
    ///
    /// # Safety
    /// `context` must belong to a running call.
    unsafe fn bring_back(&self, context: *mut sys::OrtKernelContext) -> Result<(), Failure> {
        // SAFETY: the caller guarantees the context; operand and result live through the call and do not
        // overlap.
        unsafe {
            let operand = self.operand(context)?;
            let bytes: &[u8] = if operand.bytes == 0 {
                &[]
            } else {
                std::slice::from_raw_parts(operand.start, operand.bytes)
            };
            let Some(number) = number(&operand.shape, bytes) else {
                let target = self.result(context, &operand.shape)?;
                ptr::copy_nonoverlapping(operand.start, target.start, operand.bytes.min(target.bytes));
                return Ok(());
            };
            let kept = store::find(number).ok_or_else(|| {
                Failure::Text("the token is unknown: its tensor was loaded before or never stored".to_owned())
            })?;
            let target = self.result(context, &kept.shape)?;
            let target: &mut [u8] = match target.bytes {
                0 => &mut [],
                bytes => std::slice::from_raw_parts_mut(target.start, bytes),
            };
            let size = kept.size();
            kept.load(target)
                .map_err(|error| Failure::Text(format!("{size} bytes cannot be loaded: {error}")))
        }
    }

    unsafe fn operand(&self, context: *mut sys::OrtKernelContext) -> Result<Tensor, Failure> {
        let mut value = ptr::null();
        // SAFETY: the caller guarantees the context.
        unsafe {
            check((self.api.KernelContext_GetInput)(context, 0, &mut value))?;
            self.tensor(value.cast_mut())
        }
    }

    unsafe fn result(&self, context: *mut sys::OrtKernelContext, shape: &[i64]) -> Result<Tensor, Failure> {
        let mut value = ptr::null_mut();
        // SAFETY: the caller guarantees the context.
        unsafe {
            check((self.api.KernelContext_GetOutput)(context, 0, shape.as_ptr(), shape.len(), &mut value))?;
            self.tensor(value)
        }
    }

    unsafe fn tensor(&self, value: *mut sys::OrtValue) -> Result<Tensor, Failure> {
        if value.is_null() {
            return Err(Failure::Text("an operand is absent".to_owned()));
        }
        let api = self.api;
        let mut info = ptr::null_mut();
        let mut data = ptr::null_mut();
        let (mut element, mut rank) = (0i32, 0usize);
        // SAFETY: the value lives; the element type is read through an integer, so that an unknown type
        // does not become an invalid enumeration.
        unsafe {
            check((api.GetTensorTypeAndShape)(value, &mut info))?;
            let mut described = check((api.GetTensorElementType)(info, (&raw mut element).cast()));
            described = described.and_then(|()| check((api.GetDimensionsCount)(info, &mut rank)));
            let mut shape = vec![0i64; rank];
            described = described.and_then(|()| check((api.GetDimensions)(info, shape.as_mut_ptr(), rank)));
            (api.ReleaseTensorTypeAndShapeInfo)(info);
            described?;
            check((api.GetTensorMutableData)(value, &mut data))?;
            let bytes = bytes(element, &shape)
                .ok_or_else(|| Failure::Text(format!("element type {element} has no fixed size")))?;
            Ok(Tensor { shape, start: data.cast(), bytes })
        }
    }
}

/// Returns the number in a token; `None` for any other tensor.
fn number(shape: &[i64], bytes: &[u8]) -> Option<u64> {
    let content =
        bytes.get(..TOKEN_BYTES).filter(|content| shape == [TOKEN] && content.starts_with(&MARK))?;
    let digits: [u8; 8] = content.get(MARK.len()..)?.try_into().ok()?;
    Some(u64::from_le_bytes(digits))
}

/// Returns the size of a tensor, in bytes, by the number of ONNX's `TensorProto.DataType`; `None` for
/// types without a fixed size, such as strings.
fn bytes(element: i32, shape: &[i64]) -> Option<usize> {
    let bits = match element {
        2 | 3 | 9 | 17..=20 | 24 => 8usize,
        4 | 5 | 10 | 16 => 16,
        1 | 6 | 12 => 32,
        7 | 11 | 13 | 14 => 64,
        15 => 128,
        21..=23 => 4,
        _ => return None,
    };
    let elements = shape
        .iter()
        .try_fold(1usize, |product, extent| product.checked_mul(usize::try_from(*extent).ok()?))?;
    Some(elements.checked_mul(bits)?.div_ceil(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_element_type() {
        assert_eq!(bytes(1, &[2, 3]), Some(24));
        assert_eq!(bytes(9, &[]), Some(1));
        assert_eq!(bytes(22, &[3]), Some(2));
        assert_eq!(bytes(8, &[3]), None);
        assert_eq!(bytes(1, &[-1]), None);
        assert_eq!(bytes(1, &[i64::MAX, i64::MAX]), None);
    }

    #[test]
    fn only_tokens_have_a_number() {
        let token: Vec<u8> = MARK.iter().copied().chain(7u64.to_le_bytes()).chain([0; 16]).collect();
        assert_eq!(number(&[TOKEN], &token), Some(7));
        assert_eq!(number(&[TOKEN, 1], &token), None);
        assert_eq!(number(&[TOKEN], &token[1..]), None);
        assert_eq!(number(&[TOKEN], &[]), None);
    }
}
