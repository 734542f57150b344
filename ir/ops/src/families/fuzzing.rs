//! Fuzz tests of all operators with random nodes: shape functions never panic, and facts inferred from
//! less precise operands must hold for more precise operands.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use memc_ir::{Attribute, Dim, DimExpr, ElementType, TensorType, ValueType};

use crate::fact::{Data, Fact, Item};
use crate::families::broadcasting::item_count;
use crate::families::testing::{Case, show};
use crate::info::OpInfo;
use crate::table;

/// Number of nodes per operator; raise it for a longer search.
const CASES: u64 = 60;

/// xorshift64* (Vigna, 2016).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }
    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
    fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
    fn small(&mut self) -> i64 {
        match self.below(40) {
            0 => i64::MAX,
            1 => i64::MIN,
            2 => i64::from(i32::MAX),
            _ => self.below(8) as i64 - 3,
        }
    }
}

const ELEMENTS: [ElementType; 6] = [
    ElementType::Int64,
    ElementType::Float,
    ElementType::Bool,
    ElementType::Uint8,
    ElementType::Float16,
    ElementType::Int32,
];
const INTEGERS: [&str; 34] = [
    "axis",
    "keepdims",
    "to",
    "start",
    "end",
    "k",
    "allowzero",
    "noop_with_empty_axes",
    "num_outputs",
    "batch_dims",
    "exclusive",
    "reverse",
    "upper",
    "blocksize",
    "dtype",
    "select_last_index",
    "fmod",
    "largest",
    "group",
    "ceil_mode",
    "block_size",
    "N",
    "K",
    "bits",
    "num_heads",
    "kv_num_heads",
    "transA",
    "transB",
    "training_mode",
    "hidden_size",
    "stash_type",
    "input_forget",
    "new_axis",
    "q_num_heads",
];
const LISTS: [&str; 10] = [
    "axes",
    "perm",
    "pads",
    "split",
    "starts",
    "ends",
    "kernel_shape",
    "strides",
    "dilations",
    "output_padding",
];
const STRINGS: [(&str, &[&str]); 6] = [
    ("mode", &["constant", "edge", "linear", "DCR", "CRD", "circular"]),
    ("direction", &["LEFT", "RIGHT", "forward", "reverse", "bidirectional"]),
    ("reduction", &["none", "add", "mean", "sum"]),
    ("auto_pad", &["NOTSET", "SAME_UPPER", "VALID", "SAME_LOWER"]),
    ("equation", &["ij,jk->ik", "bij,bjk", "...i->...", "->", "i,i,i"]),
    ("nearest_mode", &["floor"]),
];

fn extents(random: &mut Random) -> Vec<u64> {
    (0..random.below(5)).map(|_| if random.chance(8) { 0 } else { 1 + random.below(4) }).collect()
}

fn items(random: &mut Random, element: ElementType, count: usize) -> Vec<Item> {
    let item = |random: &mut Random| match element {
        ElementType::Float => Item::Float(random.small() as f64 / 2.0),
        ElementType::Bool => Item::Int(random.below(2) as i64),
        ElementType::Uint8 => Item::Int(random.below(6) as i64),
        ElementType::Int32 => Item::Int(random.below(8) as i64 - 3),
        _ => Item::Int(random.small()),
    };
    (0..count).map(|_| item(random)).collect()
}

/// Returns a fully known operand, often with the extents of the operand before it, often a short vector
/// like shape operands.
fn operand(random: &mut Random, before: Option<&[u64]>) -> Fact {
    let element = *random.pick(&ELEMENTS);
    let dims = match before {
        Some(dims) if random.chance(40) => dims.to_vec(),
        Some(dims) if random.chance(50) => vec![dims.len() as u64],
        _ if random.chance(25) => vec![random.below(4)],
        _ => extents(random),
    };
    let count = item_count(&dims).unwrap();
    let ty = TensorType::fixed(element, &dims);
    match element {
        ElementType::Float16 => Fact::tensor(ty),
        _ => {
            Data::new(element, dims, items(random, element, count)).map_or(Fact::tensor(ty), Fact::with_data)
        }
    }
}

fn attributes(random: &mut Random) -> Vec<(&'static str, Attribute)> {
    let mut all = Vec::new();
    for _ in 0..random.below(4) {
        all.push((*random.pick(&INTEGERS), Attribute::Int(random.small())));
    }
    // Try the most common attributes more often.
    for name in ["axis", "keepdims", "to"] {
        if random.chance(40) {
            all.push((name, Attribute::Int(random.below(5) as i64 - 1)));
        }
    }
    for _ in 0..random.below(2) {
        let list = (0..random.below(5)).map(|_| random.small()).collect();
        all.push((*random.pick(&LISTS), Attribute::Ints(list)));
    }
    if random.chance(30) {
        let (name, values) = random.pick(&STRINGS);
        all.push((*name, Attribute::String(random.pick(values).as_bytes().to_vec().into())));
    }
    if random.chance(5) {
        all.push(("value", Attribute::Float(1.0)));
    }
    all
}

/// Returns the symbol that replaces an extent of this size; equal extents get equal symbols.
fn symbol(extent: u64) -> DimExpr {
    DimExpr::symbol(&format!("s{extent}"))
}

/// Returns a rounded quotient of a larger symbol, with the value of `extent`.
fn quotient(random: &mut Random, extent: u64) -> Option<DimExpr> {
    let by = 2 + random.below(3);
    let larger = extent.checked_mul(by)?.checked_add(random.below(by)).filter(|larger| *larger < 100)?;
    symbol(larger).floor_div(&DimExpr::constant(by as i64))
}

fn weaker_dim(random: &mut Random, extent: u64) -> Dim {
    match random.below(8) {
        0 | 1 => Dim::Symbolic(symbol(extent)),
        6 => quotient(random, extent).map_or(Dim::Unknown, Dim::from_expr),
        7 => Dim::within(Some(symbol(extent + random.below(3)))),
        2 => Dim::Unknown,
        3 => Dim::AtMost(extent.saturating_add(random.below(3))),
        _ => Dim::Known(extent),
    }
}

fn weaker_item(random: &mut Random, item: &Item) -> Item {
    match (random.below(8), item) {
        (6, Item::Int(value)) if (1..100).contains(value) => {
            quotient(random, *value as u64).map_or(Item::Unknown, Item::from_expr)
        }
        (7, Item::Int(value)) if (0..50).contains(value) => {
            Item::within(Some(symbol(*value as u64 + random.below(3))))
        }
        // An extent of zero in a shape operand may have another meaning than an extent.
        (0, Item::Int(value)) if (1..100).contains(value) => Item::Symbolic(symbol(*value as u64)),
        (1, _) => Item::Unknown,
        (2, Item::Int(value)) if *value >= 0 => Item::AtMost(value.saturating_add(random.below(3) as i64)),
        _ => item.clone(),
    }
}

/// Makes the fact of an operand less precise.
fn weaker(random: &mut Random, fact: &Fact) -> Fact {
    let ty = fact.ty.tensor().unwrap();
    let dims = ty.known_dims().unwrap();
    let data = fact.data.as_deref();
    match (random.below(4), data) {
        (0 | 1, Some(data)) => {
            let holds_symbols = matches!(data.element, ElementType::Int64 | ElementType::Int32);
            let weak = |item: &Item| if holds_symbols { weaker_item(random, item) } else { item.clone() };
            let items = data.items.iter().map(weak).collect();
            Fact::with_data(Data { items, ..data.clone() })
        }
        (2, _) if random.chance(20) => Fact::of(ValueType::Tensor(TensorType::unranked(ty.element))),
        (2, _) => Fact::tensor(TensorType::new(
            ty.element,
            dims.iter().map(|dim| weaker_dim(random, *dim)).collect(),
        )),
        _ => fact.clone(),
    }
}

fn holds(weak: &Fact, strong: &Fact, bindings: &BTreeMap<String, u64>) -> bool {
    let (Some(weak_ty), Some(strong_ty)) = (weak.ty.tensor(), strong.ty.tensor()) else { return true };
    let dims_hold = match (&weak_ty.bind(bindings).shape, &strong_ty.shape) {
        (Some(weak), Some(strong)) => {
            let agree = |(weak, strong): (&Dim, &Dim)| match (weak, strong.upper()) {
                (Dim::AtMost(most), Some(upper)) => upper <= *most,
                (_, upper) => {
                    *weak == Dim::Unknown
                        || upper.is_none()
                        || weak == strong
                        || strong.is_open() && weak.is_open()
                }
            };
            weak.len() == strong.len() && weak.iter().zip(strong).all(agree)
        }
        _ => true,
    };
    let value = |item: &Item| match item {
        Item::Symbolic(expr) => {
            expr.bind(bindings).and_then(|expr| expr.as_constant()).map_or(Item::Unknown, Item::Int)
        }
        Item::Within(upper) => Item::within(upper.bind(bindings)),
        other => other.clone(),
    };
    let items_hold = match (&weak.data, &strong.data) {
        (Some(weak), Some(strong)) => weak.items.iter().zip(&strong.items).all(|(weak, strong)| {
            let (weak, strong) = (value(weak), value(strong));
            let bounded =
                matches!(weak, Item::AtMost(most) if strong.upper().is_some_and(|upper| upper <= most));
            bounded
                || weak == Item::Unknown
                || strong == Item::Unknown
                || weak == strong
                || format!("{weak:?}") == format!("{strong:?}")
        }),
        _ => true,
    };
    weak_ty.element == strong_ty.element && dims_hold && items_hold
}

struct Node {
    version: i64,
    operands: Vec<Option<Fact>>,
    attributes: Vec<(&'static str, Attribute)>,
    results: usize,
}

fn node(random: &mut Random) -> Node {
    let mut operands: Vec<Option<Fact>> = Vec::new();
    for _ in 0..random.below(6) {
        let before =
            operands.first().and_then(Option::as_ref).and_then(|fact| fact.ty.tensor()?.known_dims());
        operands.push((!random.chance(5)).then(|| operand(random, before.as_deref())));
    }
    let version = *random.pick(&[7, 9, 10, 11, 13, 18, 21, 28]);
    Node { version, operands, attributes: attributes(random), results: 1 + random.below(4) as usize }
}

fn case(domain: &str, name: &str, node: &Node, operands: &[Option<Fact>]) -> Case {
    let start = Case::of(domain, name, node.version).outputs(node.results);
    let with_attributes =
        node.attributes.iter().fold(start, |case, (name, attribute)| case.attribute(name, attribute.clone()));
    operands.iter().fold(with_attributes, |case, fact| case.fact(fact.clone()))
}

fn printed(operands: &[Option<Fact>]) -> String {
    operands.iter().map(|fact| fact.as_ref().map_or("-".to_owned(), show)).collect::<Vec<_>>().join(" | ")
}

/// Tries one random node: returns the error as `Err`, or `Ok(false)` if the shape function rejects the
/// fully known node.
fn try_node(info: &OpInfo, random: &mut Random, bindings: &BTreeMap<String, u64>) -> Result<bool, String> {
    let node = node(random);
    let weak: Vec<Option<Fact>> =
        node.operands.iter().map(|fact| fact.as_ref().map(|fact| weaker(random, fact))).collect();
    let context = || {
        let (full, less) = (printed(&node.operands), printed(&weak));
        format!("{} {} {:?}\n  full: {full}\n  less: {less}", info.name, node.version, node.attributes)
    };
    let run = |operands: &[Option<Fact>]| {
        let case = case(info.domain, info.name, &node, operands);
        catch_unwind(AssertUnwindSafe(|| case.run())).map_err(|_| format!("{}\n  panicked", context()))
    };
    let (strong, weak_result) = (run(&node.operands)?, run(&weak)?);
    let Ok(strong) = strong else { return Ok(false) };
    let weak_facts = weak_result.map_err(|error| format!("{}\n  refused: {error}", context()))?;
    match strong.iter().zip(&weak_facts).find(|(strong, weak)| !holds(weak, strong, bindings)) {
        Some((strong, weak)) => {
            Err(format!("{}\n  full: {}\n  less: {}", context(), show(strong), show(weak)))
        }
        None => Ok(true),
    }
}

#[test]
fn inference_with_fewer_facts_never_contradicts_inference_with_more() {
    let bindings: BTreeMap<String, u64> = (0..100).map(|extent| (format!("s{extent}"), extent)).collect();
    let mut accepted = 0;
    let mut wrong = Vec::new();
    for info in table::all() {
        // Each operator has its own seed, so a new operator does not change the cases of the others.
        let seed = info
            .name
            .bytes()
            .fold(0x9E37_79B9u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let mut random = Random(seed | 1);
        for _ in 0..CASES {
            match try_node(info, &mut random, &bindings) {
                Ok(true) => accepted += 1,
                Ok(false) => {}
                Err(what) => {
                    wrong.push(what);
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(accepted > 1500, "only {accepted} nodes were accepted");
}
