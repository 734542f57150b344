//! Printing of numbers, payloads and constants.

use std::fmt::Write as _;

use super::super::MAX_INLINE_BYTES;
use super::super::escape::{write_hex, write_quoted};
use super::{Writer, types};
use crate::element::ElementType;
use crate::entity::ConstId;
use crate::module::{ConstOrigin, Payload};
use crate::types::{TensorType, ValueType};

/// Writes a binary32 number; parsing it gives equal bits.
pub(super) fn write_float(out: &mut String, value: f32) {
    if value.is_nan() {
        match value.to_bits() {
            0x7fc0_0000 => out.push_str("nan"),
            bits => _ = write!(out, "nan:{bits:#x}"),
        }
    } else {
        // Shortest digits that round back to the value. A point, an exponent or `inf` distinguishes
        // them from an integer.
        let _ = write!(out, "{value:?}");
    }
}

/// Writes a binary64 number; parsing it gives equal bits.
fn write_double(out: &mut String, value: f64) {
    if value.is_nan() {
        match value.to_bits() {
            0x7ff8_0000_0000_0000 => out.push_str("nan"),
            bits => _ = write!(out, "nan:{bits:#x}"),
        }
    } else {
        let _ = write!(out, "{value:?}");
    }
}

impl Writer<'_> {
    /// Writes a constant, with its type unless `shown` is exactly that type.
    pub(super) fn constant(&mut self, constant: ConstId, shown: Option<&ValueType>) {
        let Some(data) = self.module.constants.get(constant) else {
            let _ = write!(self.out, "<{constant}>");
            return;
        };
        if !shown.is_some_and(|ty| ty.tensor() == Some(&data.ty)) {
            self.out.push_str("tensor ");
            types::write_tensor_type(&mut self.out, &data.ty);
            self.out.push(' ');
        }
        self.payload(&data.payload, &data.ty);
        let _ = match data.origin {
            ConstOrigin::Initializer(index) => write!(self.out, " from(initializer {index})"),
            ConstOrigin::SparseInitializer(index) => write!(self.out, " from(sparse_initializer {index})"),
            ConstOrigin::Message { start, end } => write!(self.out, " from(message {start} {end})"),
            ConstOrigin::New => Ok(()),
        };
    }

    fn payload(&mut self, payload: &Payload, ty: &TensorType) {
        match payload {
            Payload::Raw(bytes) if bytes.len() <= MAX_INLINE_BYTES => {
                let start = self.out.len();
                if write_numbers(&mut self.out, bytes, ty).is_none() {
                    self.out.truncate(start);
                    self.out.push_str("hex ");
                    write_hex(&mut self.out, bytes);
                }
            }
            Payload::Raw(_) | Payload::Elided => {
                self.out.push_str("elided");
                // The length is that of the type, so it survives a parse.
                if let Some(size) = ty.size() {
                    let _ = write!(self.out, " {}", size.0);
                }
            }
            Payload::External { location, offset, length } => {
                self.out.push_str("external ");
                write_quoted(&mut self.out, location.as_bytes());
                let _ = write!(self.out, " offset {offset}");
                if let Some(length) = length {
                    let _ = write!(self.out, " length {length}");
                }
            }
        }
    }
}

/// Writes `[1, 2, 3]`; `None` if the element type has no readable numbers or the bytes do not fit the
/// type.
fn write_numbers(out: &mut String, bytes: &[u8], ty: &TensorType) -> Option<()> {
    let size = usize::try_from(ty.size()?.0).ok()?;
    if size != bytes.len() {
        return None;
    }
    use ElementType as E;
    match ty.element {
        E::Bool if bytes.iter().all(|byte| *byte <= 1) => {
            write_list(out, bytes, |out, [byte]| _ = write!(out, "{}", byte == 1))
        }
        E::Uint8 => write_list(out, bytes, |out, raw| _ = write!(out, "{}", u8::from_le_bytes(raw))),
        E::Int8 => write_list(out, bytes, |out, raw| _ = write!(out, "{}", i8::from_le_bytes(raw))),
        E::Uint16 => write_list(out, bytes, |out, raw| _ = write!(out, "{}", u16::from_le_bytes(raw))),
        E::Int16 => write_list(out, bytes, |out, raw| _ = write!(out, "{}", i16::from_le_bytes(raw))),
        E::Uint32 => write_list(out, bytes, |out, raw| _ = write!(out, "{}", u32::from_le_bytes(raw))),
        E::Int32 => write_list(out, bytes, |out, raw| _ = write!(out, "{}", i32::from_le_bytes(raw))),
        E::Uint64 => write_list(out, bytes, |out, raw| _ = write!(out, "{}", u64::from_le_bytes(raw))),
        E::Int64 => write_list(out, bytes, |out, raw| _ = write!(out, "{}", i64::from_le_bytes(raw))),
        E::Float => write_list(out, bytes, |out, raw| write_float(out, f32::from_le_bytes(raw))),
        E::Double => write_list(out, bytes, |out, raw| write_double(out, f64::from_le_bytes(raw))),
        _ => return None,
    }
    Some(())
}

fn write_list<const N: usize>(out: &mut String, bytes: &[u8], write: fn(&mut String, [u8; N])) {
    out.push('[');
    for (position, raw) in bytes.as_chunks::<N>().0.iter().enumerate() {
        if position > 0 {
            out.push_str(", ");
        }
        write(out, *raw);
    }
    out.push(']');
}
