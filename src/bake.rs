//! Trained values written back into a forward model.

use std::collections::BTreeMap;

use memc_ir::{ConstData, ConstOrigin, ElementType, Payload, Rewriter, TensorType, Value, ValueType};
use memc_onnx_export::{ExportOptions, Exported};
use memc_onnx_import::{ImportOptions, Imported};
use memc_onnx_proto::ModelFile;

use crate::error::Error;
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

/// Replaces initializers of a forward model by trained values of the same names, types and extents. State of
/// optimizers (`m.NAME`, `v.NAME`, `momentum.NAME`, `acc.NAME`) is left out. All else keeps its bytes.
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
    let named: BTreeMap<String, Value> =
        module.graph(main).constants.iter().map(|value| (module.value(*value).name.clone(), *value)).collect();
    let mut rewriter = Rewriter::new(&mut module);
    let mut replaced = Vec::new();
    for (name, new) in values {
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

/// Name of an initializer that is replaced, until it is dropped.
const OLD: &str = "memc.replaced";

fn replace(rewriter: &mut Rewriter<'_>, old: Value, name: &str, ty: TensorType, new: &TrainedValue) {
    let main = rewriter.module().main();
    let fresh = rewriter.fresh_name(OLD);
    rewriter.rename(old, fresh);
    let constant = ConstData { ty, payload: Payload::Raw(new.bytes.clone().into()), origin: ConstOrigin::New };
    let value = rewriter.initializer(main, name, constant);
    rewriter.replace_uses(old, value);
}
