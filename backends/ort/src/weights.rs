//! Initializers as bytes that kernels can read: in place in the model or its mapped external files if
//! their alignment allows it.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::TensorProto;
use memc_onnx_proto::onnx::tensor_proto::{DataLocation, DataType};

use crate::element::Element;
use crate::error::Error;
use crate::memory::Block;
use crate::sparse;

/// One initializer.
#[derive(Debug)]
pub(crate) struct Weight {
    /// Element type.
    pub(crate) element: Element,
    /// Dimensions.
    pub(crate) shape: Vec<u64>,
    data: Data,
    /// Whether its file is in the model's folder after links are followed; the runtime reads from no
    /// other folder.
    in_folder: bool,
}

#[derive(Debug)]
enum Data {
    /// A part of a mapped file.
    Mapped(Bytes),
    /// A copy, for elements that the file does not store with the layout and alignment that kernels
    /// need.
    Copied(Block),
}

impl Weight {
    /// Whether the runtime can read the elements from their file itself, which saves a copy.
    pub(crate) fn is_in_folder(&self) -> bool {
        self.in_folder
    }

    /// Returns the elements.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Mapped(bytes) => bytes,
            Data::Copied(block) => block.bytes(),
        }
    }
}

/// All initializers of a main graph except strings, which nodes get as part of their model.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    /// Initializers by name.
    pub(crate) tensors: BTreeMap<String, Weight>,
    /// Names and types of the initializers that are sparse in the model.
    pub(crate) sparse: Vec<TensorProto>,
}

impl Weights {
    /// Reads the initializers of a model whose external data is in a folder.
    ///
    /// # Errors
    /// External data is missing or too short, or a tensor's data contradicts its shape.
    pub(crate) fn read(file: &ModelFile, folder: &Path) -> Result<Self, Error> {
        let mut mapped: BTreeMap<PathBuf, Bytes> = BTreeMap::new();
        let mut weights = Self::default();
        for tensor in &file.graph().initializer {
            if tensor.data_type() == DataType::String as i32 {
                continue;
            }
            weights.tensors.insert(tensor.name().to_owned(), read(tensor, folder, &mut mapped)?);
        }
        for thin in &file.graph().sparse_initializer {
            let described = sparse::described(thin);
            let (values, indices) = sparse::parts(thin)?;
            let (values, indices) = (read(values, folder, &mut mapped)?, read(indices, folder, &mut mapped)?);
            let (shape, block) =
                sparse::dense(thin, values.element, values.bytes(), (&indices.shape, indices.bytes()))?;
            let weight =
                Weight { element: values.element, shape, data: Data::Copied(block), in_folder: false };
            weights.tensors.insert(described.name().to_owned(), weight);
            weights.sparse.push(described);
        }
        Ok(weights)
    }
}

fn is_external(tensor: &TensorProto) -> bool {
    tensor.data_location() == DataLocation::External
}

fn read(tensor: &TensorProto, folder: &Path, mapped: &mut BTreeMap<PathBuf, Bytes>) -> Result<Weight, Error> {
    let wrong = |reason| Error::Initializer { tensor: tensor.name().to_owned(), reason };
    let element = Element::from_onnx(tensor.data_type())
        .ok_or_else(|| wrong("kernels do not know its element type"))?;
    let shape = tensor.dims.iter().map(|extent| u64::try_from(*extent)).collect::<Result<Vec<_>, _>>();
    let shape = shape.map_err(|_| wrong("a dimension is negative"))?;
    let bytes = element.bytes(&shape).ok_or_else(|| wrong("its size is impossible"))?;
    let in_folder = is_external(tensor) && lies_in(folder, &external(tensor, bytes)?.0);
    let data = if is_external(tensor) {
        aligned(map(tensor, folder, bytes, mapped)?)?
    } else if let Some(raw) = &tensor.raw_data {
        aligned(raw.clone())?
    } else {
        Data::Copied(Block::copy_of(&typed(tensor, element))?)
    };
    let weight = Weight { element, shape, data, in_folder };
    if weight.bytes().len() as u64 != bytes {
        return Err(wrong("the length of its data does not match its shape"));
    }
    Ok(weight)
}

/// Copies bytes that are not aligned for scalars. Vector loads of kernels take any address, but scalars
/// must be at multiples of their size.
fn aligned(bytes: Bytes) -> Result<Data, Error> {
    const SCALAR: usize = 16;
    if bytes.as_ptr().addr().is_multiple_of(SCALAR) {
        Ok(Data::Mapped(bytes))
    } else {
        Ok(Data::Copied(Block::copy_of(&bytes)?))
    }
}

fn lies_in(folder: &Path, location: &Path) -> bool {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let pair = folder.join(location).canonicalize().ok().zip(folder.canonicalize().ok());
    pair.is_some_and(|(file, folder)| file.starts_with(folder))
}

/// Returns location, offset and length of external data, in bytes; the length defaults to `bytes`, the
/// size of the shape.
fn external(tensor: &TensorProto, bytes: u64) -> Result<(PathBuf, u64, u64), Error> {
    let wrong = |reason| Error::Initializer { tensor: tensor.name().to_owned(), reason };
    let entry =
        |key: &str| tensor.external_data.iter().find(|entry| entry.key() == key).map(|entry| entry.value());
    let number = |key: &str, default: u64| match entry(key) {
        None => Ok(default),
        Some(text) => {
            text.parse::<u64>().map_err(|_| wrong("its position in the external file is not a number"))
        }
    };
    let location =
        PathBuf::from(entry("location").ok_or_else(|| wrong("its external data has no location"))?);
    // A model must not make memc read files outside of its folder.
    if !location.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(wrong("its external data lies outside the model's folder"));
    }
    Ok((location, number("offset", 0)?, number("length", bytes)?))
}

fn map(
    tensor: &TensorProto,
    folder: &Path,
    bytes: u64,
    mapped: &mut BTreeMap<PathBuf, Bytes>,
) -> Result<Bytes, Error> {
    let (location, offset, length) = external(tensor, bytes)?;
    let path = folder.join(location);
    let end = offset.saturating_add(length);
    let missing =
        |source| Error::Weights { tensor: tensor.name().to_owned(), path: path.clone(), offset, end, source };
    let whole = match mapped.get(&path) {
        Some(bytes) => bytes.clone(),
        None => {
            let file = File::open(&path).map_err(|error| missing(Some(error)))?;
            // SAFETY: the map is read-only, and no code in this program writes to weight files.
            let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|error| missing(Some(error)))?;
            let bytes = Bytes::from_owner(map);
            mapped.insert(path.clone(), bytes.clone());
            bytes
        }
    };
    let (Ok(from), Ok(to)) = (usize::try_from(offset), usize::try_from(end)) else {
        return Err(missing(None));
    };
    if to > whole.len() || from > to {
        return Err(missing(None));
    }
    Ok(whole.slice(from..to))
}

/// Converts elements from the message's typed fields to bytes as stored in memory (ONNX's specification,
/// `TensorProto`).
fn typed(tensor: &TensorProto, element: Element) -> Vec<u8> {
    let narrow = |bytes: usize| {
        tensor.int32_data.iter().flat_map(move |value| value.to_le_bytes().into_iter().take(bytes)).collect()
    };
    match element.data_type() {
        DataType::Float | DataType::Complex64 => {
            tensor.float_data.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        DataType::Double | DataType::Complex128 => {
            tensor.double_data.iter().flat_map(|value| value.to_le_bytes()).collect()
        }
        DataType::Int64 => tensor.int64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        DataType::Uint64 => tensor.uint64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        // The message stores them as 64-bit numbers whose upper half is empty.
        DataType::Uint32 => {
            tensor.uint64_data.iter().flat_map(|value| value.to_le_bytes().into_iter().take(4)).collect()
        }
        DataType::Int32 => narrow(4),
        DataType::Int16 | DataType::Uint16 | DataType::Float16 | DataType::Bfloat16 => narrow(2),
        _ => narrow(1),
    }
}
