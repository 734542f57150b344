//! Detects nodes whose result equals one of their operands: additions of zero, reshapes to an equal
//! shape, casts to an equal type.

use memc_ir::{Dim, ElementType, Module, TensorType, Value};

use crate::algebra::{Algebra, Neutral};
use crate::fact::{Data, Item};
use crate::info::{OpInfo, Typed, View};
use crate::repeat::may_train;
use crate::table;

/// Looks up the known elements of a value; `None` if they are unknown.
pub type Elements<'a> = dyn Fn(Value) -> Option<&'a Data> + 'a;

/// Which zeros count as neutral. Adding positive zero turns negative zero into positive zero; adding
/// negative zero keeps all bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zero {
    /// Only the zero whose sign changes no bit of the sum.
    Exact,
    /// A zero of either sign.
    AnySign,
}

/// Whether a node returns its operand 0.
type Condition = fn(&Typed<'_>, &Elements<'_>) -> bool;

/// Operators that return operand 0 under a condition of their own, sorted by name.
const CONDITIONS: &[(&str, Condition)] = &[
    ("Cast", |typed, _| keeps_element(typed)),
    ("CastLike", |typed, _| keeps_element(typed)),
    // Without bounds it clamps infinities to the greatest finite numbers.
    ("Clip", |typed, _| {
        let data = typed.data();
        data.operator.version >= 11
            && data.operands().count() == 1
            && keeps_element(typed)
            && is_integral(typed)
    }),
    ("Dropout", |typed, _| !may_train(typed.module, typed.node)),
    ("Expand", |typed, _| keeps_type(typed, 0)),
    ("Identity", |_, _| true),
    ("Pad", |typed, elements| pads_nothing(typed, known(typed, elements, 1)) && keeps_type(typed, 0)),
    ("Slice", |typed, elements| {
        let is_one = |steps: &Data| all(steps, |item| *item == Item::Int(1));
        keeps_type(typed, 0)
            && (typed.data().inputs.len() < 5 || known(typed, elements, 4).is_some_and(is_one))
    }),
    ("Split", |typed, _| typed.data().outputs.len() == 1 && keeps_type(typed, 0)),
    ("Tile", |typed, _| keeps_type(typed, 0)),
    ("Transpose", |typed, _| stays_in_place(typed)),
];
/// Operator that returns one of two operands.
const CHOICE: &str = "Where";

fn condition(name: &str) -> Option<Condition> {
    CONDITIONS.iter().find(|(known, _)| *known == name).map(|(_, condition)| *condition)
}

/// Returns the known elements of an operand.
fn known<'e>(typed: &Typed<'_>, elements: &'e Elements<'_>, position: usize) -> Option<&'e Data> {
    typed.data().inputs.get(position).copied().flatten().and_then(elements)
}

/// Returns the operators of which a node may equal an operand, in order. Each is a fact that ONNX
/// Runtime's kernel is held to.
pub fn passing_on() -> impl Iterator<Item = &'static OpInfo> {
    let by_algebra = |algebra: Algebra| {
        algebra.keeps_single || algebra.neutral.is_some_and(|neutral| neutral != Neutral::AboutOne)
    };
    let passes = move |info: &&OpInfo| {
        let by_name = info.name == CHOICE || condition(info.name).is_some();
        info.domain.is_empty()
            && (by_name || info.view == View::Reshape || info.algebra.is_some_and(by_algebra))
    };
    table::all().iter().copied().filter(passes)
}

/// Returns the position of the operand that equals result 0 bit for bit, or up to the sign of zero if
/// `zero` says so. `None` if no operand does, or if the facts do not prove it. Signaling NaNs are not
/// distinguished from quiet NaNs.
///
/// The caller must check that no other result of the node is read. O(operands + elements of constants).
pub fn unchanged(typed: &Typed<'_>, elements: &Elements<'_>, zero: Zero) -> Option<usize> {
    let data = typed.data();
    let info = typed.info()?;
    if !data.operator.domain.is_empty() {
        return None;
    }
    let algebra = info.algebra.unwrap_or(Algebra::NONE);
    let holds = match condition(info.name) {
        Some(condition) => condition(typed, elements),
        None if info.name == CHOICE => return chosen(typed, known(typed, elements, 0)?, zero),
        None if info.view == View::Reshape => keeps_type(typed, 0),
        None if algebra.keeps_single => data.inputs.len() == 1,
        None => return neutral(typed, &algebra, elements, zero),
    };
    (holds && typed.input(0).is_some() == typed.output(0).is_some()).then_some(0)
}

/// Returns the position of the operand whose partner is a neutral element.
fn neutral(typed: &Typed<'_>, algebra: &Algebra, elements: &Elements<'_>, zero: Zero) -> Option<usize> {
    let data = typed.data();
    let neutral = algebra.neutral?;
    if neutral == Neutral::AboutOne && zero == Zero::Exact {
        return None;
    }
    let predicate = |item: &Item| match neutral {
        Neutral::NegativeZero => is_zero(item, zero, true),
        Neutral::PositiveZero => is_zero(item, zero, false),
        Neutral::One | Neutral::AboutOne => is_one(item),
        Neutral::False => *item == Item::Int(0),
    };
    // Before operator set 7, broadcasting followed other rules.
    if data.operator.version < 7 || data.inputs.len() != 2 {
        return None;
    }
    let is_neutral = |position: usize| {
        let value = data.inputs.get(position).copied().flatten()?;
        elements(value).filter(|data| all(data, predicate))
    };
    let kept = |kept: usize, partner: usize| {
        let partner = is_neutral(partner)?;
        (keeps_element_of(typed, kept) && (keeps_type(typed, kept) || broadcasts_into(typed, kept, partner)))
            .then_some(kept)
    };
    kept(0, 1).or_else(|| if algebra.commutes { kept(1, 0) } else { None })
}

fn is_zero(item: &Item, zero: Zero, negative: bool) -> bool {
    match item {
        Item::Int(value) => *value == 0,
        Item::Float(value) => {
            *value == 0.0 && (zero == Zero::AnySign || value.is_sign_negative() == negative)
        }
        _ => false,
    }
}

fn is_one(item: &Item) -> bool {
    matches!(item, Item::Int(1)) || matches!(item, Item::Float(value) if *value == 1.0)
}

fn all(data: &Data, predicate: impl Fn(&Item) -> bool) -> bool {
    data.items.iter().all(predicate)
}

/// Whether broadcasting a single-element partner keeps the shape of the operand, even if extents are
/// unknown.
fn broadcasts_into(typed: &Typed<'_>, position: usize, partner: &Data) -> bool {
    let rank = typed.input(position).and_then(TensorType::rank);
    rank.is_some_and(|rank| partner.dims.len() <= rank) && partner.dims.iter().all(|extent| *extent == 1)
}

/// Returns the position of the branch that a constant condition selects, if the result has the type of
/// this branch. The runtime's kernel adds what it selects to zeros, which loses the sign of a zero.
fn chosen(typed: &Typed<'_>, condition: &Data, zero: Zero) -> Option<usize> {
    if zero == Zero::Exact && !typed.output(0).is_some_and(|ty| ty.element.is_integral()) {
        return None;
    }
    let position = match condition.items.first()? {
        Item::Int(0) => 2,
        Item::Int(_) => 1,
        _ => return None,
    };
    (all(condition, |item| Some(item) == condition.items.first()) && keeps_type(typed, position))
        .then_some(position)
}

/// Whether all pads are zero. Pads are an operand, or an attribute before operator set 11.
fn pads_nothing(typed: &Typed<'_>, pads: Option<&Data>) -> bool {
    match pads {
        Some(pads) => all(pads, |item| *item == Item::Int(0)),
        None => typed.data().ints("pads").is_some_and(|pads| pads.iter().all(|pad| *pad == 0)),
    }
}

/// Whether a transposition is the identity permutation.
fn stays_in_place(typed: &Typed<'_>) -> bool {
    match typed.data().ints("perm") {
        Some(axes) => axes.iter().enumerate().all(|(position, axis)| usize::try_from(*axis) == Ok(position)),
        None => typed.input(0).and_then(TensorType::rank).is_some_and(|rank| rank < 2),
    }
}

fn is_integral(typed: &Typed<'_>) -> bool {
    typed.input(0).is_some_and(|ty| ty.element.is_integral())
}

fn keeps_element(typed: &Typed<'_>) -> bool {
    keeps_element_of(typed, 0)
}

fn keeps_element_of(typed: &Typed<'_>, position: usize) -> bool {
    let pair = typed.input(position).zip(typed.output(0));
    pair.is_some_and(|(from, to)| from.element == to.element && from.element != ElementType::Undefined)
}

/// Whether an operand and result 0 provably have equal element types and extents.
fn keeps_type(typed: &Typed<'_>, position: usize) -> bool {
    typed.input(position).zip(typed.output(0)).is_some_and(|(from, to)| same_type(from, to))
}

/// Whether two tensor types are provably equal in element type, rank and every extent.
pub fn same_type(left: &TensorType, right: &TensorType) -> bool {
    let extents = left.shape.as_ref().zip(right.shape.as_ref());
    left.element == right.element
        && left.element != ElementType::Undefined
        && extents
            .is_some_and(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b): (&Dim, &Dim)| a.same(b)))
}

/// Returns, per value of the main graph, whether its type or elements may rest on the default of a graph
/// input, which a caller may override.
pub fn rests_on_defaults(module: &Module) -> memc_ir::SecondaryMap<Value, bool> {
    let mut rests = memc_ir::SecondaryMap::default();
    let main = module.graph(module.main());
    // Below IR version 4 every initializer had to be listed as an input, and no caller could override
    // it.
    let overridable = |value: &Value| module.ir_version >= 4 && module.value(*value).default.is_some();
    let steering = |value: &Value| module.ty(*value).tensor().is_some_and(|ty| ty.element.is_integral());
    let inputs: Vec<Value> =
        main.inputs.iter().copied().filter(|value| overridable(value) && steering(value)).collect();
    if inputs.is_empty() {
        return rests;
    }
    for value in inputs {
        rests.set(value, true);
    }
    for node in &main.nodes {
        if module.reads(*node).into_iter().any(|value| rests[value]) {
            for result in module.node(*node).results() {
                rests.set(result, true);
            }
        }
    }
    rests
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use memc_ir::{
        Attribute, ConstData, ConstOrigin, ModuleBuilder, NewNode, Node, Operator, Origin, Payload, ValueType,
    };

    use super::*;

    /// Builds a node on `x` and a single-number constant, which is the second operand if `behind`, and
    /// calls `unchanged`.
    fn with_number(name: &str, number: f32, behind: bool, zero: Zero) -> Option<usize> {
        let mut builder = ModuleBuilder::new();
        let main = builder.module().main();
        let ty = ValueType::Tensor(TensorType::fixed(ElementType::Float, &[2, 3]));
        let x = builder.input(main, "x", ty.clone(), None);
        let payload = Payload::Raw(number.to_le_bytes().to_vec().into());
        let scalar = TensorType::fixed(ElementType::Float, &[1]);
        let constant = builder.constant(ConstData { ty: scalar, payload, origin: ConstOrigin::New });
        let k = builder.initializer(main, "k", constant);
        let inputs = if behind { vec![Some(x), Some(k)] } else { vec![Some(k), Some(x)] };
        let node = node(&mut builder, Operator::onnx(name, 21), inputs, vec![], ty);
        let module = builder.finish();
        let data = Data::from_constant(module.constant(constant)).unwrap();
        unchanged(&Typed::of(&module, node), &|value| (value == k).then_some(&data), zero)
    }

    fn node(
        builder: &mut ModuleBuilder,
        operator: Operator,
        inputs: Vec<Option<Value>>,
        attributes: Vec<(String, Attribute)>,
        ty: ValueType,
    ) -> Node {
        let main = builder.module().main();
        let new = NewNode::new(operator, inputs, attributes, Origin::Text);
        builder.node(main, new, &[Some(("y".into(), ty))])
    }

    #[test]
    fn neutral_elements_have_a_side_and_zero_a_sign() {
        let exact = [
            ("Add", -0.0, true, Some(0)),
            ("Add", -0.0, false, Some(1)),
            ("Add", 0.0, true, None),
            ("Sub", 0.0, true, Some(0)),
            ("Sub", -0.0, true, None),
            ("Sub", 0.0, false, None),
            ("Mul", 1.0, true, Some(0)),
            ("Mul", 1.0, false, Some(1)),
            ("Mul", -1.0, true, None),
            ("Div", 1.0, true, Some(0)),
            ("Div", 1.0, false, None),
            ("Pow", 1.0, true, None),
            ("Max", 1.0, true, None),
        ];
        for (name, number, behind, expected) in exact {
            assert_eq!(with_number(name, number, behind, Zero::Exact), expected, "{name} {number} {behind}");
        }
        for (name, number, expected) in
            [("Add", 0.0, Some(0)), ("Sub", -0.0, Some(0)), ("Pow", 1.0, Some(0)), ("Pow", 0.0, None)]
        {
            assert_eq!(with_number(name, number, true, Zero::AnySign), expected, "{name} {number}");
        }
    }

    /// Builds a node with one operand of type `from` and a result of type `to`, and calls `unchanged`.
    fn with_types(
        name: &str,
        version: i64,
        from: &str,
        to: &str,
        attributes: Vec<(String, Attribute)>,
    ) -> Option<usize> {
        let mut builder = ModuleBuilder::new();
        let main = builder.module().main();
        let ty = |text: &str| {
            let dims = text
                .split_terminator(',')
                .map(|dim| if dim == "?" { Dim::Unknown } else { Dim::from_name(dim) });
            ValueType::Tensor(TensorType::new(ElementType::Float, dims.collect()))
        };
        let x = builder.input(main, "x", ty(from), None);
        let node = node(&mut builder, Operator::onnx(name, version), vec![Some(x)], attributes, ty(to));
        unchanged(&Typed::of(&builder.finish(), node), &|_| None, Zero::Exact)
    }

    #[test]
    fn operand_and_result_types_must_provably_be_equal() {
        let rows = [
            ("Flatten", "2,N", "2,N", Some(0)),
            ("Flatten", "2,?", "2,?", None),
            ("Flatten", "2,N", "2,M", None),
            ("Flatten", "6", "1,6", None),
            ("Identity", "2,?", "2,?", Some(0)),
            ("Concat", "2,?", "2,?", Some(0)),
            ("Expand", "1", "1", Some(0)),
            ("Expand", "1", "2", None),
            ("Relu", "2", "2", None),
            ("Pad", "2", "2", None),
            ("Slice", "2", "2", Some(0)),
            ("Split", "2", "2", Some(0)),
        ];
        for (name, from, to, expected) in rows {
            assert_eq!(with_types(name, 21, from, to, vec![]), expected, "{name} {from} {to}");
        }
        let axes = |axes: &[i64]| vec![("perm".to_owned(), Attribute::Ints(axes.to_vec()))];
        assert_eq!(with_types("Transpose", 21, "2,2", "2,2", axes(&[0, 1])), Some(0));
        assert_eq!(with_types("Transpose", 21, "2,2", "2,2", axes(&[1, 0])), None);
        assert_eq!(with_types("Transpose", 21, "2,2", "2,2", vec![]), None);
        assert_eq!(with_types("Transpose", 21, "2", "2", vec![]), Some(0));
        let pads = |pads: &[i64]| vec![("pads".to_owned(), Attribute::Ints(pads.to_vec()))];
        assert_eq!(with_types("Pad", 2, "2", "2", pads(&[0, 0])), Some(0));
        // Crops at the front and pads at the end: the shape stays, the elements change.
        assert_eq!(with_types("Pad", 2, "2", "2", pads(&[-1, 1])), None);
    }

    #[test]
    fn conditions_stand_in_order_and_name_operators() {
        assert!(CONDITIONS.is_sorted_by_key(|(name, _)| *name));
        assert!(CONDITIONS.iter().all(|(name, _)| table::find("", name).is_some()));
        let names: Vec<&str> = passing_on().map(|info| info.name).collect();
        assert!(
            ["Add", "Concat", "Reshape", "Where"].iter().all(|name| names.contains(name))
                && !names.contains(&"Pow")
        );
    }

    #[test]
    fn clips_and_choices_keep_integers_only() {
        let kept = |name: &str, ty: &str, operands: &[&str]| {
            let text = format!(
                "mem 1\nir_version 8\nopset \"\" 17\ngraph @g {{\n  input %x : {ty}[3]\n  const %c : bool[] = [true]\n  \
                %y = {name}({}) : {ty}[3]\n  return %y\n}}\n",
                operands.join(", ")
            );
            let mut module = memc_ir::text::parse(&text).unwrap();
            let data = crate::infer(&mut module).data;
            let node = module.graph(module.main()).nodes[0];
            let found = |zero| unchanged(&Typed::of(&module, node), &|value| data[value].as_deref(), zero);
            [found(Zero::Exact), found(Zero::AnySign)]
        };
        assert_eq!(kept("Clip", "f32", &["%x"]), [None, None], "infinities become finite");
        assert_eq!(kept("Clip", "i32", &["%x"]), [Some(0), Some(0)]);
        assert_eq!(kept("Where", "f32", &["%c", "%x", "%x"]), [None, Some(1)], "-0 becomes 0");
        assert_eq!(kept("Where", "i64", &["%c", "%x", "%x"]), [Some(1), Some(1)]);
    }

    #[test]
    fn values_computed_from_default_inputs_are_marked() {
        let mut builder = ModuleBuilder::new();
        builder.module_mut().ir_version = 8;
        let main = builder.module().main();
        let ty = TensorType::fixed(ElementType::Int64, &[1]);
        let payload = Payload::Raw(vec![0; 8].into());
        let constant = builder.constant(ConstData { ty: ty.clone(), payload, origin: ConstOrigin::New });
        let shape = builder.input(main, "shape", ValueType::Tensor(ty.clone()), Some(constant));
        let first =
            node(&mut builder, Operator::onnx("Neg", 21), vec![Some(shape)], vec![], ValueType::Tensor(ty));
        let result = builder.module().node(first).outputs[0].unwrap();
        let other =
            node(&mut builder, Operator::onnx("Neg", 21), vec![Some(result)], vec![], ValueType::Unknown);
        let last = builder.module().node(other).outputs[0].unwrap();
        let rests = rests_on_defaults(builder.module());
        assert!(rests[shape] && rests[result] && rests[last]);
        builder.module_mut().ir_version = 3;
        assert!(!rests_on_defaults(builder.module())[last], "no caller could override it");
    }
}
