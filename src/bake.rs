//! Trained values written back into a forward model.

use std::collections::BTreeMap;

use memc_gradient::LORA_ENDINGS;
use memc_ir::{ConstData, ConstOrigin, ElementType, Module, Payload, Rewriter, TensorType, Value, ValueType};
use memc_onnx_export::{ExportOptions, Exported};
use memc_onnx_import::{ImportOptions, Imported};
use memc_onnx_proto::ModelFile;
use memc_passes::ExternalData as _;

use crate::error::Error;
use crate::external::ExternalFiles;
use crate::panics::caught;

/// Prefixes of values that belong to an optimizer or a trainer rather than to the model.
const FOREIGN: &[&str] = &["m.", "v.", "momentum.", "acc.", "memc."];

/// Elements of a trained value.
#[derive(Clone, Debug)]
pub struct TrainedValue {
    /// Element type.
    pub element: ElementType,
    /// Extents.
    pub dims: Vec<u64>,
    /// Little-endian elements in row-major order.
    pub bytes: Vec<u8>,
}

/// A forward model with trained values.
#[derive(Debug)]
pub struct Baked {
    /// The model to write.
    pub model: Exported,
    /// Names of the replaced values.
    pub replaced: Vec<String>,
}

/// Replaces initializers of a forward model by trained values of the same names, types and extents. Adapters
/// are added to their matrices. State of optimizers (`m.NAME`, `v.NAME`, `momentum.NAME`, `acc.NAME`) is left
/// out. All else keeps its bytes.
///
/// # Errors
/// A value has no initializer of its name, type and extents, or no value is left.
pub fn bake(file: &ModelFile, values: &BTreeMap<String, TrainedValue>) -> Result<Baked, Error> {
    caught(|| baked(file, values))?
}

fn baked(file: &ModelFile, values: &BTreeMap<String, TrainedValue>) -> Result<Baked, Error> {
    let options = ImportOptions { allow_unbound: true, ..ImportOptions::default() };
    let Imported { mut module, .. } = memc_onnx_import::import(file, &options)?;
    let main = module.main();
    let named: BTreeMap<String, Value> = module
        .graph(main)
        .constants
        .iter()
        .map(|value| (module.value(*value).name.clone(), *value))
        .collect();
    let merged = merged(file, &module, &named, values)?;
    let mut rewriter = Rewriter::new(&mut module);
    let mut replaced = Vec::new();
    let is_adapter =
        |name: &String| LORA_ENDINGS.iter().any(|ending| name.ends_with(ending)) && !named.contains_key(name);
    for (name, new) in values.iter().filter(|(name, _)| !is_adapter(name)).chain(&merged) {
        let Some(old) = named.get(name).copied() else {
            if FOREIGN.iter().any(|prefix| name.starts_with(prefix)) {
                continue;
            }
            let why = match memc_ir::nearest(name, named.keys().map(String::as_str)) {
                Some(near) => format!("the model has no initializer of this name; did you mean `{near}`?"),
                None => "the model has no initializer of this name".to_owned(),
            };
            return Err(Error::Bake { name: name.clone(), why });
        };
        let ty = TensorType::fixed(new.element, &new.dims);
        let own = rewriter.module().ty(old).clone();
        if own.tensor() != Some(&ty) {
            return Err(Error::Bake {
                name: name.clone(),
                why: format!("it is {}, and the model has {own}", ValueType::Tensor(ty)),
            });
        }
        replace(&mut rewriter, old, name, ty, new);
        replaced.push(name.clone());
    }
    rewriter.drop_unused_constants();
    rewriter.finish();
    if replaced.is_empty() {
        let why = "none of them is an initializer of the model".to_owned();
        return Err(Error::Bake { name: "the trained values".to_owned(), why });
    }
    let export = ExportOptions { metadata: false, value_info: false, ..ExportOptions::default() };
    let model = memc_onnx_export::export(file, &module, &export)?;
    Ok(Baked { model, replaced })
}

/// Returns the matrices to which adapters belong, with the product of each adapter added.
fn merged(
    file: &ModelFile,
    module: &Module,
    named: &BTreeMap<String, Value>,
    values: &BTreeMap<String, TrainedValue>,
) -> Result<BTreeMap<String, TrainedValue>, Error> {
    let external = ExternalFiles::beside(file.path());
    let mut merged = BTreeMap::new();
    for (name, first) in values {
        let Some(matrix) = name.strip_suffix(LORA_ENDINGS[0]).filter(|_| !named.contains_key(name)) else {
            continue;
        };
        if FOREIGN.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let refuse = |why: &str| Error::Bake { name: name.clone(), why: why.to_owned() };
        let second = values
            .get(&format!("{matrix}{}", LORA_ENDINGS[1]))
            .ok_or_else(|| refuse("its second matrix is missing"))?;
        let value = named.get(matrix).ok_or_else(|| refuse("the model has no matrix of this name"))?;
        let constant = module.constant_of(*value).map(|constant| module.constant(constant));
        let bytes = constant.and_then(|constant| match &constant.payload {
            Payload::Raw(bytes) => Some(bytes.clone()),
            Payload::External { location, offset, .. } => {
                external.bytes(location, *offset, constant.ty.size()?.0)
            }
            Payload::Elided => None,
        });
        let bytes = bytes.ok_or_else(|| refuse("the bytes of its matrix cannot be read"))?;
        let ([rows, rank], [inner, columns]) = (&first.dims[..], &second.dims[..]) else {
            return Err(refuse("it is no matrix"));
        };
        let own = numbers(&bytes);
        let all_float = [first, second].iter().all(|value| value.element == ElementType::Float);
        if rank != inner || Some(own.len() as u64) != rows.checked_mul(*columns) || !all_float {
            return Err(refuse("its matrices do not fit the matrix of the model"));
        }
        let sum =
            sum(&own, &numbers(&first.bytes), &numbers(&second.bytes), *rank as usize, *columns as usize);
        let bytes = sum.into_iter().flat_map(f32::to_le_bytes).collect();
        merged.insert(
            matrix.to_owned(),
            TrainedValue { element: ElementType::Float, dims: vec![*rows, *columns], bytes },
        );
    }
    Ok(merged)
}

/// Reads binary32 numbers.
fn numbers(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|raw| f32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]])).collect()
}

/// Returns a matrix plus the product of two others, with sums in binary64.
fn sum(own: &[f32], left: &[f32], right: &[f32], rank: usize, columns: usize) -> Vec<f32> {
    let element = |at: usize| {
        let (row, column) = (at / columns.max(1), at % columns.max(1));
        let terms = (0..rank)
            .map(|inner| f64::from(left[row * rank + inner]) * f64::from(right[inner * columns + column]));
        (f64::from(own[at]) + terms.sum::<f64>()) as f32
    };
    (0..own.len()).map(element).collect()
}

/// Name of an initializer that is replaced, until it is dropped.
const OLD: &str = "memc.replaced";

fn replace(rewriter: &mut Rewriter<'_>, old: Value, name: &str, ty: TensorType, new: &TrainedValue) {
    let main = rewriter.module().main();
    let fresh = rewriter.fresh_name(OLD);
    rewriter.rename(old, fresh);
    let constant =
        ConstData { ty, payload: Payload::Raw(new.bytes.clone().into()), origin: ConstOrigin::New };
    let value = rewriter.initializer(main, name, constant);
    rewriter.replace_uses(old, value);
}
