//! Casts: integers whose range fits fewer bits, and floating-point numbers of fewer bits.

use memc_ir::{ElementType, Module, TensorType, Value};
use memc_ops::{Typed, lookup};

use super::{Form, Operand, Recipe, cast};

/// First operator set in which `Cast` knows the type BFLOAT16.
const BFLOAT: i64 = 13;

/// Returns the recipe for indices: the shortest integers that hold their range. `None` if the range is
/// unknown or needs all bits.
pub(super) fn narrow(module: &Module, value: Value) -> Option<Recipe> {
    let ty = module.ty(value).tensor()?;
    let node = module.producer(value)?;
    let result = module.node(node).outputs.iter().position(|output| *output == Some(value))?;
    let range = lookup(&module.node(node).operator)?.indices?(&Typed::of(module, node), result)?;
    let last = range.saturating_sub(1);
    let choices =
        [(ElementType::Uint8, 0xff), (ElementType::Uint16, 0xffff), (ElementType::Int32, 0x7fff_ffff)];
    let (element, _) = choices.into_iter().find(|(_, most)| last <= *most)?;
    let is_shorter = element.bits() < ty.element.bits() && ty.element.is_integral();
    is_shorter.then(|| there_and_back(ty, Form::Narrow(element), element))?
}

/// Returns the recipe for numbers of type FLOAT; `None` for other types.
pub(super) fn float(ty: &TensorType, element: ElementType, version: i64) -> Option<Recipe> {
    let is_known = element != ElementType::Bfloat16 || version >= BFLOAT;
    (ty.element == ElementType::Float && is_known)
        .then(|| there_and_back(ty, Form::Float(element), element))?
}

fn there_and_back(ty: &TensorType, form: Form, element: ElementType) -> Option<Recipe> {
    let dims = ty.known_dims()?;
    let (encode, decode) = (cast(Operand::Value, element, &dims), cast(Operand::Code(0), ty.element, &dims));
    Some(Recipe {
        form,
        constants: Vec::new(),
        encode: vec![encode],
        decode: vec![decode],
        codes: vec![0],
        others: Vec::new(),
    })
}
