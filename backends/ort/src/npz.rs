//! Reads NumPy's files: `.npy`, one array, and `.npz`, a ZIP archive of such files, compressed or not.
//! Writes archives without compression.

use std::collections::BTreeMap;
use std::io::{Cursor, Read as _, Write};
use std::path::Path;

use bytes::Bytes;
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::tensor_proto::DataType;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::arrays::{Array, TensorView};
use crate::content::Content;
use crate::element::Element;
use crate::error::Error;
use crate::inputs::Inputs;
use crate::memory::require;

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

/// Arrays by name. Elements that are not compressed stay in their file until they are read.
#[derive(Debug)]
pub struct Archive {
    members: BTreeMap<String, Member>,
    /// Whether it is a single array, named by its file.
    is_single: bool,
}

/// An array of an archive.
#[derive(Debug)]
struct Member {
    element: Element,
    shape: Vec<u64>,
    /// Its elements: part of the mapped file, or decompressed.
    elements: Bytes,
}

impl Archive {
    /// Opens a file and reads the list of its arrays.
    ///
    /// # Errors
    /// The file cannot be read, holds no arrays, or holds unsupported types.
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

    /// Reads the arrays from the bytes of a file. The path appears in errors, and names the array of a
    /// `.npy` file.
    ///
    /// # Errors
    /// The bytes hold no arrays, or unsupported types.
    pub fn of(bytes: Bytes, path: &Path) -> Result<Self, Error> {
        let wrong = |reason: &str| Error::ArrayFile { path: path.to_owned(), reason: reason.to_owned() };
        if bytes.starts_with(MAGIC) {
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            return Ok(Self { members: BTreeMap::from([(name, member(&bytes, &wrong)?)]), is_single: true });
        }
        Ok(Self { members: members(&bytes, &wrong)?, is_single: false })
    }

    /// Gives a single array to the only input of a model, whatever its file is called.
    #[must_use]
    pub fn for_model(mut self, model: &ModelFile) -> Self {
        let graph = model.graph();
        let is_open = |name: &str| graph.initializer.iter().all(|tensor| tensor.name() != name);
        let mut inputs = graph.input.iter().map(|input| input.name()).filter(|name| is_open(name));
        if let (Some(input), None, true) = (inputs.next(), inputs.next(), self.is_single) {
            self.members = self.members.into_values().map(|member| (input.to_owned(), member)).collect();
        }
        self
    }

    /// Returns copies of all arrays, by name.
    ///
    /// # Errors
    /// The system has no memory for the copies.
    pub fn arrays(&self) -> Result<BTreeMap<String, Array>, Error> {
        let mut arrays = BTreeMap::new();
        for (name, member) in &self.members {
            let array = Array::new(member.element, member.shape.clone(), &member.elements)?;
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
            place.copy_from_slice(&member.elements);
        }
        Ok(())
    }
}

/// Returns the arrays of an archive.
fn members(bytes: &Bytes, wrong: &dyn Fn(&str) -> Error) -> Result<BTreeMap<String, Member>, Error> {
    let damaged = |error: &dyn std::fmt::Display| {
        wrong(&format!("it is no archive of arrays, as numpy.savez writes it: {error}"))
    };
    let mut archive = ZipArchive::new(Cursor::new(bytes.clone())).map_err(|error| damaged(&error))?;
    let mut members = BTreeMap::new();
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).map_err(|error| damaged(&error))?;
        let name = file.name().trim_end_matches(".npy").to_owned();
        let size = usize::try_from(file.size()).map_err(|error| damaged(&error))?;
        let data = if file.compression() == CompressionMethod::Stored {
            let start = file.data_start().and_then(|start| usize::try_from(start).ok());
            let range = start
                .and_then(|start| Some(start..start.checked_add(size)?))
                .filter(|range| range.end <= bytes.len());
            bytes.slice(range.ok_or_else(|| wrong("it is incomplete"))?)
        } else {
            require(size as u64)?;
            let mut data = Vec::new();
            // A member may hold more than it states.
            file.by_ref().take(size as u64).read_to_end(&mut data).map_err(|error| damaged(&error))?;
            Bytes::from(data)
        };
        let array = member(&data, &|reason| wrong(&format!("array `{name}`: {reason}")))?;
        members.insert(name, array);
    }
    Ok(members)
}

fn number(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    let field = bytes.get(at..at.checked_add(width)?)?;
    Some(field.iter().rev().fold(0, |value, byte| (value << 8) | usize::from(*byte)))
}

/// Parses one `.npy` file. Its header is a Python literal with the keys descr, fortran_order and shape.
fn member(bytes: &Bytes, wrong: &dyn Fn(&str) -> Error) -> Result<Member, Error> {
    if !bytes.starts_with(MAGIC) {
        return Err(wrong("a member is not a .npy file"));
    }
    let width = if bytes.get(6) == Some(&1) { 2 } else { 4 };
    let length = number(bytes, 8, width).ok_or_else(|| wrong("its header is damaged"))?;
    let start = 8 + width;
    let data = start.checked_add(length).ok_or_else(|| wrong("its header is damaged"))?;
    let header =
        bytes.get(start..data).map(String::from_utf8_lossy).ok_or_else(|| wrong("its header is damaged"))?;
    let after = |key: &str| header.split_once(key).map(|(_, rest)| rest.trim_start_matches([' ', ':']));
    let code = after("'descr'")
        .and_then(|rest| rest.split('\'').nth(1))
        .ok_or_else(|| wrong("its header has no type"))?;
    let code = code.replace('=', "<");
    let element = CODES.iter().find(|row| row.1 == code).and_then(|row| Element::from_onnx(row.0 as i32));
    let element = element.ok_or_else(|| {
        wrong(&format!("its type {code} is not a type of numbers that kernels accept, in this byte order"))
    })?;
    let is_by_columns = after("'fortran_order'").is_some_and(|rest| rest.starts_with("True"));
    let shape = after("'shape'")
        .and_then(|rest| rest.split(['(', ')']).nth(1))
        .ok_or_else(|| wrong("its header has no shape"))?;
    let shape: Result<Vec<u64>, _> =
        shape.split(',').map(str::trim).filter(|text| !text.is_empty()).map(str::parse).collect();
    let shape = shape.map_err(|_| wrong("its header's shape is damaged"))?;
    let elements = bytes.slice(data..);
    if element.bytes(&shape) != Some(elements.len() as u64) {
        return Err(wrong("its length does not match its shape"));
    }
    let elements =
        if is_by_columns && shape.len() > 1 { by_rows(&elements, &shape).into() } else { elements };
    Ok(Member { element, shape, elements })
}

/// Returns elements of which the first index varies fastest (Fortran order) in the order of the format, in
/// which the last index does. Linear.
fn by_rows(elements: &[u8], shape: &[u64]) -> Vec<u8> {
    let count = shape.iter().product::<u64>().max(1) as usize;
    let width = elements.len() / count;
    // Index of the element to write, and the place of each of its indices among the elements by columns.
    let mut index = vec![0; shape.len()];
    let places: Vec<u64> =
        shape.iter().scan(1, |place, extent| Some(std::mem::replace(place, *place * extent))).collect();
    let mut rows = Vec::with_capacity(elements.len());
    while rows.len() < elements.len() {
        let at = index.iter().zip(&places).map(|(index, place)| index * place).sum::<u64>() as usize;
        rows.extend_from_slice(&elements[at * width..][..width]);
        for (index, extent) in index.iter_mut().zip(shape).rev() {
            *index += 1;
            if *index < *extent {
                break;
            }
            *index = 0;
        }
    }
    rows
}

/// Writes arrays, including arrays inside sequences and maps, as an archive that `numpy.load` reads.
/// Leaves out strings. Equal arrays give equal files.
///
/// # Errors
/// The writer fails.
pub fn write(contents: &BTreeMap<String, Content<'_>>, out: impl Write) -> std::io::Result<()> {
    let arrays: BTreeMap<String, TensorView<'_>> =
        contents.iter().flat_map(|(name, content)| content.arrays(name)).collect();
    let mut archive = ZipWriter::new_stream(out);
    for (name, array) in &arrays {
        let code = CODES.iter().find(|row| row.0 == array.element.data_type()).map(|row| row.1);
        // NumPy has no name for the other types; their bits are written as unsigned integers.
        let code = code.unwrap_or(if array.element.bytes(&[1]) == Some(2) { "<u2" } else { "|u1" });
        let header = header(code, &array.shape);
        let is_large = header.len().saturating_add(array.bytes.len()) >= u32::MAX as usize;
        let options =
            SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(is_large);
        archive.start_file(format!("{name}.npy"), options)?;
        archive.write_all(&header)?;
        archive.write_all(array.bytes)?;
    }
    archive.finish()?;
    Ok(())
}

fn header(code: &str, shape: &[u64]) -> Vec<u8> {
    let dims: Vec<String> = shape.iter().map(u64::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let mut text =
        format!("{{'descr': '{code}', 'fortran_order': False, 'shape': ({}{comma}), }}", dims.join(", "));
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
                .map(|(name, array)| {
                    (name.clone(), array.element, array.shape.clone(), array.bytes().to_vec())
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(view(&read), view(&arrays()));
    }

    #[test]
    fn arrays_by_columns_are_read_by_rows() {
        let numbers =
            |numbers: &[u16]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
        let by_columns = |shape: &[u64]| {
            let text = String::from_utf8_lossy(&header("<u2", shape)[10..]).replace("False", "True ");
            [MAGIC, &[1, 0], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat()
        };
        // The elements of numpy.arange(24).reshape(shape) by columns.
        let cases: [(&[u64], Vec<u16>); 3] = [
            (
                &[2, 3, 4],
                (0..4)
                    .flat_map(|c| (0..3).flat_map(move |b| (0..2).map(move |a| a * 12 + b * 4 + c)))
                    .collect(),
            ),
            (&[24, 1], (0..24).collect()),
            (&[24], (0..24).collect()),
        ];
        for (shape, columns) in cases {
            let file = [by_columns(shape), numbers(&columns)].concat();
            let read = Archive::of(file.into(), Path::new("x.npy")).unwrap().arrays().unwrap();
            assert_eq!(read["x"].bytes(), numbers(&(0..24).collect::<Vec<u16>>()), "{shape:?}");
        }
        let file = [by_columns(&[0, 3]), Vec::new()].concat();
        assert_eq!(
            Archive::of(file.into(), Path::new("x.npy")).unwrap().arrays().unwrap()["x"].shape,
            [0, 3]
        );
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
    fn compressed_archives_and_single_arrays_are_read() {
        let elements: Vec<u8> = (0..64).flat_map(|number| (number as f32).to_le_bytes()).collect();
        let array = [header("<f4", &[4, 16]), elements.clone()].concat();
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        archive.start_file("x.npy", options).unwrap();
        archive.write_all(&array).unwrap();
        let packed = archive.finish().unwrap().into_inner();
        assert!(packed.len() < array.len());
        for (name, bytes) in [("in.npz", packed.clone()), ("x.npy", array.clone())] {
            let read = Archive::of(bytes.into(), Path::new(name)).unwrap().arrays().unwrap();
            let [(name, found)] = Vec::from_iter(&read)[..] else { panic!("{name}") };
            assert_eq!(
                (name.as_str(), found.shape.as_slice(), found.bytes()),
                ("x", &[4, 16][..], elements.as_slice())
            );
        }
        for cut in [array.len() - 1, 20, 7] {
            assert!(Archive::of(array[..cut].to_vec().into(), Path::new("x.npy")).is_err(), "{cut}");
        }
        for at in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x55;
            let _ = Archive::of(damaged.into(), Path::new("in.npz"));
        }
    }
}
