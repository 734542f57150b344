//! Reads and writes NumPy's `.npz`: a ZIP archive of `.npy` files, stored without compression.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use bytes::Bytes;
use memc_onnx_proto::onnx::tensor_proto::DataType;

use crate::arrays::{Array, TensorView};
use crate::content::Content;
use crate::element::Element;
use crate::error::Error;
use crate::inputs::Inputs;

const LOCAL: &[u8] = b"PK\x03\x04";
const CENTRAL: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
const MAGIC: &[u8] = b"\x93NUMPY";

/// Element types that NumPy has, with its codes for little-endian machines.
const CODES: [(DataType, &str); 13] = [
    (DataType::Float, "<f4"),
    (DataType::Double, "<f8"),
    (DataType::Float16, "<f2"),
    (DataType::Int8, "|i1"),
    (DataType::Int16, "<i2"),
    (DataType::Int32, "<i4"),
    (DataType::Int64, "<i8"),
    (DataType::Uint8, "|u1"),
    (DataType::Uint16, "<u2"),
    (DataType::Uint32, "<u4"),
    (DataType::Uint64, "<u8"),
    (DataType::Bool, "|b1"),
    (DataType::Complex64, "<c8"),
];

/// An archive whose elements stay in its file until they are read.
#[derive(Debug)]
pub struct Archive {
    bytes: Bytes,
    members: BTreeMap<String, Member>,
}

/// An array of an archive.
#[derive(Debug)]
struct Member {
    element: Element,
    shape: Vec<u64>,
    /// Position of its elements in the file.
    elements: Range<usize>,
}

impl Archive {
    /// Opens a file and reads the list of its arrays.
    ///
    /// # Errors
    /// The file cannot be read, is not an archive of arrays, is compressed (`numpy.savez` does not
    /// compress), or holds unsupported types.
    #[allow(unsafe_code)]
    pub fn open(path: &Path) -> Result<Self, Error> {
        let told = |source| Error::File { what: "read", path: path.to_owned(), source };
        let file = std::fs::File::open(path).map_err(told)?;
        // Some systems cannot map an empty file.
        let bytes = match file.metadata().map_err(told)?.len() {
            0 => Bytes::new(),
            // SAFETY: the map is read-only, and no code in this program writes to input files.
            _ => Bytes::from_owner(unsafe { memmap2::Mmap::map(&file) }.map_err(told)?),
        };
        Self::of(bytes, path)
    }

    /// Reads the list of arrays from the bytes of a file; the path appears in errors only.
    ///
    /// # Errors
    /// The bytes are not an archive of arrays, are compressed, or hold unsupported types.
    pub fn of(bytes: Bytes, path: &Path) -> Result<Self, Error> {
        let members = members(&bytes, &|reason| Error::ArrayFile { path: path.to_owned(), reason: reason.to_owned() })?;
        Ok(Self { bytes, members })
    }

    /// Returns copies of all arrays, by name.
    ///
    /// # Errors
    /// The system has no memory for the copies.
    pub fn arrays(&self) -> Result<BTreeMap<String, Array>, Error> {
        let mut arrays = BTreeMap::new();
        for (name, member) in &self.members {
            let array = Array::new(member.element, member.shape.clone(), &self.bytes[member.elements.clone()])?;
            arrays.extend(array.map(|array| (name.clone(), array)));
        }
        Ok(arrays)
    }
}

impl Inputs for Archive {
    fn names(&self) -> Vec<&str> {
        self.members.keys().map(String::as_str).collect()
    }

    fn kind(&self, input: &str) -> Option<(Element, &[u64])> {
        self.members.get(input).map(|member| (member.element, member.shape.as_slice()))
    }

    fn fill(&self, input: &str, place: &mut [u8]) -> Result<(), Error> {
        if let Some(member) = self.members.get(input) {
            place.copy_from_slice(&self.bytes[member.elements.clone()]);
        }
        Ok(())
    }
}

/// Returns the arrays that an archive lists. The end record is in the last 64 KiB, because a comment may
/// follow it.
fn members(bytes: &[u8], wrong: &dyn Fn(&str) -> Error) -> Result<BTreeMap<String, Member>, Error> {
    let end = bytes.len().checked_sub(22).and_then(|last| {
        let first = last.saturating_sub(1 << 16);
        (first..=last).rev().find(|at| bytes[*at..].starts_with(END))
    });
    let end =
        end.ok_or_else(|| wrong("it is not a ZIP archive (numpy.savez writes archives, numpy.save writes single arrays)"))?;
    let cut = || wrong("it is incomplete");
    let count = number(bytes, end + 10, 2).ok_or_else(cut)?;
    let mut at = number(bytes, end + 16, 4).ok_or_else(cut)?;
    let mut members = BTreeMap::new();
    // Follow the list of members; each entry points to its local header.
    for _ in 0..count {
        if !bytes.get(at..).is_some_and(|rest| rest.starts_with(CENTRAL)) {
            return Err(wrong("its list of members is damaged"));
        }
        let field = |offset: usize, width: usize| number(bytes, at + offset, width).ok_or_else(cut);
        let (method, size, name_size) = (field(10, 2)?, field(24, 4)?, field(28, 2)?);
        let (extra, comment, local) = (field(30, 2)?, field(32, 2)?, field(42, 4)?);
        let name = bytes.get(at + 46..at + 46 + name_size).ok_or_else(cut)?;
        let name = String::from_utf8_lossy(name).trim_end_matches(".npy").to_owned();
        if method != 0 {
            return Err(wrong("it is compressed: write it with numpy.savez, not numpy.savez_compressed"));
        }
        if !bytes.get(local..).is_some_and(|rest| rest.starts_with(LOCAL)) {
            return Err(wrong("a member is missing at its listed position"));
        }
        let start = local + 30 + number(bytes, local + 26, 2).ok_or_else(cut)? + number(bytes, local + 28, 2).ok_or_else(cut)?;
        // NumPy writes archives beyond 4 GiB with 64-bit sizes.
        if size == u32::MAX as usize {
            return Err(wrong("it is larger than 4 GiB"));
        }
        let stretch =
            start.checked_add(size).map(|end| start..end).filter(|stretch| stretch.end <= bytes.len()).ok_or_else(cut)?;
        let array = member(bytes, stretch, &|reason| wrong(&format!("array `{name}`: {reason}")))?;
        members.insert(name, array);
        at += 46 + name_size + extra + comment;
    }
    Ok(members)
}

fn number(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    let field = bytes.get(at..at.checked_add(width)?)?;
    Some(field.iter().rev().fold(0, |value, byte| (value << 8) | usize::from(*byte)))
}

/// Parses one `.npy` member. Its header is a Python literal with the keys descr, fortran_order and
/// shape.
fn member(file: &[u8], stretch: Range<usize>, wrong: &dyn Fn(&str) -> Error) -> Result<Member, Error> {
    let bytes = &file[stretch.clone()];
    if !bytes.starts_with(MAGIC) {
        return Err(wrong("a member is not a .npy file"));
    }
    let width = if bytes.get(6) == Some(&1) { 2 } else { 4 };
    let length = number(bytes, 8, width).ok_or_else(|| wrong("its header is damaged"))?;
    let start = 8 + width;
    let data = start.checked_add(length).ok_or_else(|| wrong("its header is damaged"))?;
    let header = bytes.get(start..data).map(String::from_utf8_lossy).ok_or_else(|| wrong("its header is damaged"))?;
    let after = |key: &str| header.split_once(key).map(|(_, rest)| rest.trim_start_matches([' ', ':']));
    let code = after("'descr'").and_then(|rest| rest.split('\'').nth(1)).ok_or_else(|| wrong("its header has no type"))?;
    let code = code.replace('=', "<");
    let element = CODES.iter().find(|row| row.1 == code).and_then(|row| Element::from_onnx(row.0 as i32));
    let element = element
        .ok_or_else(|| wrong(&format!("its type {code} is not a type of numbers that kernels accept, in this byte order")))?;
    if after("'fortran_order'").is_some_and(|rest| rest.starts_with("True")) {
        return Err(wrong("it is in Fortran order; use numpy.ascontiguousarray"));
    }
    let shape =
        after("'shape'").and_then(|rest| rest.split(['(', ')']).nth(1)).ok_or_else(|| wrong("its header has no shape"))?;
    let shape: Result<Vec<u64>, _> = shape.split(',').map(str::trim).filter(|text| !text.is_empty()).map(str::parse).collect();
    let shape = shape.map_err(|_| wrong("its header's shape is damaged"))?;
    let elements = stretch.start + data..stretch.end;
    if element.bytes(&shape) != Some(elements.len() as u64) {
        return Err(wrong("its length does not match its shape"));
    }
    Ok(Member { element, shape, elements })
}

/// Writes arrays, including arrays inside sequences and maps, as an archive that `numpy.load` reads.
/// Leaves out strings.
///
/// # Errors
/// The writer fails, or the archive exceeds 4 GiB, the limit of this archive format.
pub fn write(contents: &BTreeMap<String, Content<'_>>, mut out: impl Write) -> std::io::Result<()> {
    let arrays: BTreeMap<String, TensorView<'_>> = contents.iter().flat_map(|(name, content)| content.arrays(name)).collect();
    let large = || std::io::Error::new(std::io::ErrorKind::FileTooLarge, "archives of arrays hold at most 4 GiB");
    let narrow = |value: usize| u32::try_from(value).map(u32::to_le_bytes).map_err(|_| large());
    let mut central = Vec::new();
    let mut at = 0usize;
    for (name, array) in &arrays {
        let code = CODES.iter().find(|row| row.0 == array.element.data_type()).map(|row| row.1);
        // NumPy has no name for the other types; their bits are written as unsigned integers.
        let code = code.unwrap_or(if array.element.bytes(&[1]) == Some(2) { "<u2" } else { "|u1" });
        let mut member = header(code, &array.shape);
        let header_size = member.len();
        // Checksum and sizes come before the data, in both the local header and the central list.
        let size = narrow(header_size.checked_add(array.bytes.len()).ok_or_else(large)?)?;
        let sum = !crc(crc(u32::MAX, &member), array.bytes);
        let name = format!("{name}.npy");
        let name_size = u16::try_from(name.len()).map_err(|_| large())?;
        // Version 2.0, names in UTF-8 (bit 11), stored; the date is 1980-01-01, so that equal arrays
        // give equal files.
        let mut fields = vec![20, 0, 0, 8, 0, 0, 0, 0, 0x21, 0];
        fields.extend(sum.to_le_bytes());
        fields.extend(size);
        fields.extend(size);
        fields.extend(name_size.to_le_bytes());
        fields.extend([0, 0]);
        central.extend(CENTRAL);
        central.extend([20, 0]);
        central.extend(&fields);
        central.extend([0; 10]);
        central.extend(narrow(at)?);
        central.extend(name.as_bytes());
        let mut local = LOCAL.to_vec();
        local.extend(&fields);
        local.extend(name.as_bytes());
        local.append(&mut member);
        out.write_all(&local)?;
        out.write_all(array.bytes)?;
        at = at.checked_add(local.len()).and_then(|at| at.checked_add(array.bytes.len())).ok_or_else(large)?;
    }
    // The central list and the end record close the archive.
    let count = u16::try_from(arrays.len()).map_err(|_| large())?.to_le_bytes();
    out.write_all(&central)?;
    out.write_all(END)?;
    out.write_all(&[0; 4])?;
    out.write_all(&count)?;
    out.write_all(&count)?;
    out.write_all(&narrow(central.len())?)?;
    out.write_all(&narrow(at)?)?;
    out.write_all(&[0; 2])
}

fn header(code: &str, shape: &[u64]) -> Vec<u8> {
    let dims: Vec<String> = shape.iter().map(u64::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let mut text = format!("{{'descr': '{code}', 'fortran_order': False, 'shape': ({}{comma}), }}", dims.join(", "));
    // The data starts at a multiple of 64 bytes.
    while !(10 + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// CRC-32 of ZIP (polynomial 0xEDB88320, reflected), without the final inversion.
fn crc(start: u32, bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    bytes.iter().fold(start, |sum, byte| (sum >> 8) ^ TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize])
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::content::views;

    fn arrays() -> BTreeMap<String, Array> {
        let make = |name: &str, shape: Vec<u64>, bytes: &[u8]| {
            Array::new(Element::from_name(name).unwrap(), shape, bytes).unwrap().unwrap()
        };
        BTreeMap::from([
            ("a/b".to_owned(), make("float", vec![2, 1], &[1, 2, 3, 4, 5, 6, 7, 8])),
            ("scalar".to_owned(), make("int64", vec![], &[9; 8])),
            ("none".to_owned(), make("bool", vec![0], &[])),
        ])
    }

    fn file(bytes: &[u8], name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("memc-{}-{name}.npz", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn written_arrays_read_back_unchanged() {
        let mut bytes = Vec::new();
        write(&views(&arrays()), &mut bytes).unwrap();
        let path = file(&bytes, "round");
        let read = Archive::open(&path).unwrap().arrays().unwrap();
        std::fs::remove_file(path).unwrap();
        let view = |arrays: &BTreeMap<String, Array>| {
            arrays
                .iter()
                .map(|(name, array)| (name.clone(), array.element, array.shape.clone(), array.bytes().to_vec()))
                .collect::<Vec<_>>()
        };
        assert_eq!(view(&read), view(&arrays()));
    }

    #[test]
    fn damaged_archives_never_panic() {
        let mut bytes = Vec::new();
        write(&views(&arrays()), &mut bytes).unwrap();
        let path = file(&bytes, "damage");
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0xff;
            std::fs::write(&path, &damaged).unwrap();
            let _ = Archive::open(&path);
            std::fs::write(&path, &bytes[..position]).unwrap();
            assert!(Archive::open(&path).is_err(), "cut at {position}");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_checksum_is_the_crc_of_zip() {
        assert_eq!(!crc(u32::MAX, b"123456789"), 0xcbf4_3926);
    }
}
