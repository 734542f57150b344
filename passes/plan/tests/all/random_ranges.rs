//! Plans of random modules with ranges: at every sampled point of the domain the planned module has the
//! types of the given module, keeps its bounds, and shares bytes of equal sizes only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::case;

use std::collections::BTreeMap;

use case::Case;
use memc_ir::{AliasKind, Dim, DimExpr, Domain, Module, Value, ValueType, text};
use memc_ops::Profile;
use memc_passes::{Options, Settings};
use proptest::prelude::*;

/// Symbols with their smallest and largest extent and their step.
const SYMBOLS: [(&str, u64, u64, u64); 4] =
    [("B", 1, 4, 1), ("S", 2, 32, 1), ("W", 16, 64, 16), ("P", 0, 3, 1)];

/// Writes a random module with shape arithmetic as exporters write it.
struct Writer {
    numbers: Vec<u64>,
    next: usize,
    constants: Vec<String>,
    lines: Vec<String>,
    /// Values with their extents.
    values: Vec<(String, Vec<String>)>,
    names: usize,
}

impl Writer {
    fn below(&mut self, limit: usize) -> usize {
        let number = self.numbers.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        (number % limit.max(1) as u64) as usize
    }
    fn pick(&mut self) -> (String, Vec<String>) {
        let at = self.values.len() - 1 - self.below(self.values.len().min(5));
        self.values[at].clone()
    }
    fn constant(&mut self, ty: &str, elements: &str) -> String {
        self.names += 1;
        self.constants.push(format!("const %k{} : {ty} = [{elements}]", self.names));
        format!("k{}", self.names)
    }
    fn ints(&mut self, numbers: &[i64]) -> String {
        let elements: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        self.constant(&format!("i64[{}]", numbers.len()), &elements.join(", "))
    }
    fn let_be(&mut self, right: &str) -> String {
        self.names += 1;
        self.lines.push(format!("%v{} = {right} : unknown", self.names));
        format!("v{}", self.names)
    }
    fn push(&mut self, right: &str, dims: Vec<String>) {
        let name = self.let_be(right);
        self.values.push((name, dims));
    }
    /// Returns a vector with the extents of a value from one axis to another.
    fn extents(&mut self, of: &str, from: usize, to: usize) -> String {
        let shape = self.let_be(&format!("Shape(%{of})"));
        let (from, to) = (self.ints(&[from as i64]), self.ints(&[to as i64]));
        self.let_be(&format!("Slice(%{shape}, %{from}, %{to})"))
    }

    fn node(&mut self) {
        let (x, dims) = self.pick();
        let rank = dims.len();
        match self.below(10) {
            0 => {
                let operator = ["Relu", "Tanh", "Exp"][self.below(3)];
                self.push(&format!("{operator}(%{x})"), dims);
            }
            1 => {
                let y = self.let_be(&format!("Sigmoid(%{x})"));
                self.push(&format!("Mul(%{x}, %{y})"), dims);
            }
            2 | 3 if rank >= 2 => self.join(&x, &dims),
            4 => self.split(&x, &dims),
            5 => {
                let turn = self.below(rank);
                let axes: Vec<usize> = (0..rank).map(|axis| (axis + turn) % rank).collect();
                let dims = axes.iter().map(|axis| dims[*axis].clone()).collect();
                self.push(&format!("Transpose(%{x}) {{perm = {axes:?}}}"), dims);
            }
            6 if rank < 5 => {
                let (axis, count) = (self.ints(&[0]), self.ints(&[2]));
                let y = self.let_be(&format!("Unsqueeze(%{x}, %{axis})"));
                let own = self.extents(&x, 0, rank);
                let to = self.let_be(&format!("Concat(%{count}, %{own}) {{axis = 0}}"));
                self.push(
                    &format!("Expand(%{y}, %{to})"),
                    ["2".to_owned()].into_iter().chain(dims).collect(),
                );
            }
            7 => {
                let axis = self.below(rank);
                let y = self.let_be(&format!("Neg(%{x})"));
                let mut dims = dims;
                dims[axis] = format!("2*({})", dims[axis]);
                self.push(&format!("Concat(%{x}, %{y}) {{axis = {axis}}}"), dims);
            }
            8 => {
                let (zero, one, axis) = (self.ints(&[0]), self.ints(&[i64::MAX]), self.below(rank));
                let axis = self.ints(&[axis as i64]);
                let y = self.let_be(&format!("Slice(%{x}, %{zero}, %{one}, %{axis})"));
                self.push(&format!("Add(%{y}, %{x})"), dims);
            }
            _ => {
                let known = dims.last().and_then(|last| last.parse::<u64>().ok());
                let Some(last) = known.filter(|last| (1..64).contains(last)) else {
                    return self.push(&format!("Abs(%{x})"), dims);
                };
                let (w, b) = (self.weights(&format!("{last},8")), self.weights("8"));
                let y = self.let_be(&format!("MatMul(%{x}, %{w})"));
                let mut dims = dims;
                dims[rank - 1] = "8".to_owned();
                self.push(&format!("Add(%{y}, %{b})"), dims);
            }
        }
    }
    fn weights(&mut self, dims: &str) -> String {
        let count: u64 = dims.split(',').map(|extent| extent.parse::<u64>().unwrap()).product();
        self.constant(&format!("f32[{dims}]"), &vec!["0.5"; count as usize].join(", "))
    }
    /// Joins two neighboring axes, with a computed target.
    fn join(&mut self, x: &str, dims: &[String]) {
        let at = self.below(dims.len() - 1);
        let (before, after) = (self.extents(x, 0, at), self.extents(x, at + 2, dims.len()));
        let (left, right) = (self.extents(x, at, at + 1), self.extents(x, at + 1, at + 2));
        let both = self.let_be(&format!("Mul(%{left}, %{right})"));
        let to = self.let_be(&format!("Concat(%{before}, %{both}, %{after}) {{axis = 0}}"));
        let joined = format!("({})*({})", dims[at], dims[at + 1]);
        let dims = dims[..at].iter().cloned().chain([joined]).chain(dims[at + 2..].iter().cloned()).collect();
        self.push(&format!("Reshape(%{x}, %{to}) {{allowzero = 1}}"), dims);
    }
    /// Takes an even axis apart, with a computed target.
    fn split(&mut self, x: &str, dims: &[String]) {
        let Some(at) = dims
            .iter()
            .position(|extent| extent.parse::<u64>().is_ok_and(|extent| extent > 0 && extent % 2 == 0))
        else {
            return self.push(&format!("Abs(%{x})"), dims.to_vec());
        };
        let half = dims[at].parse::<i64>().unwrap() / 2;
        let (before, after) = (self.extents(x, 0, at), self.extents(x, at + 1, dims.len()));
        let parts = self.ints(&[2, half]);
        let to = self.let_be(&format!("Concat(%{before}, %{parts}, %{after}) {{axis = 0}}"));
        let parts = ["2".to_owned(), half.to_string()];
        let dims: Vec<String> =
            dims[..at].iter().cloned().chain(parts).chain(dims[at + 1..].iter().cloned()).collect();
        self.push(&format!("Reshape(%{x}, %{to}) {{allowzero = 1}}"), dims);
    }
}

fn module_text(numbers: Vec<u64>, nodes: usize) -> String {
    let input =
        |name: &str, dims: &[&str]| (name.to_owned(), dims.iter().map(|dim| (*dim).to_owned()).collect());
    let values =
        vec![input("x", &["B", "S", "16"]), input("p", &["P", "12", "S"]), input("w", &["1", "B", "W"])];
    let mut writer = Writer { numbers, next: 0, constants: Vec::new(), lines: Vec::new(), values, names: 0 };
    (0..nodes).for_each(|_| writer.node());
    let ranges =
        SYMBOLS.map(|(name, min, max, step)| format!("range \"{name}\" from {min} to {max} step {step}\n"));
    let returned: Vec<String> = writer.values.iter().rev().take(2).map(|(name, _)| name.clone()).collect();
    let outputs: Vec<String> = (0..returned.len()).map(|at| format!("%y{at}")).collect();
    let made: Vec<String> = returned
        .iter()
        .zip(&outputs)
        .map(|(name, output)| format!("{output} = Tanh(%{name}) : unknown"))
        .collect();
    format!(
        "mem 1\nir_version 10\nopset \"\" 17\n{}\ngraph @g {{\ninput %x : f32[B,S,16]\ninput %p : f32[P,12,S]\ninput %w : f32[1,B,W]\n{}\n{}\n{}\nreturn {}\n}}\n",
        ranges.join(""),
        writer.constants.join("\n"),
        writer.lines.join("\n"),
        made.join("\n"),
        outputs.join(", ")
    )
}

fn case(text: &str, exact: bool) -> Case {
    let mut options = Options { effort: 200, ..Options::for_profile(&Profile::ARENA) };
    options.rewrite.exact = exact;
    let (pipeline, settings, expected) = (String::new(), Settings::default(), String::new());
    Case {
        name: format!("exact {exact}:\n{text}"),
        pipeline,
        options,
        settings,
        input: text.to_owned(),
        expected,
    }
}

/// Returns all corners of the domain, and points between.
fn points() -> Vec<BTreeMap<String, u64>> {
    let between = |at: usize, (name, min, max, step): (&str, u64, u64, u64)| {
        let count = (max - min) / step + 1;
        (name.to_owned(), min + (at as u64 * 7 + 1) % count * step)
    };
    let corner = |bits: usize, at: usize, (name, min, max, _): (&str, u64, u64, u64)| {
        (name.to_owned(), if bits >> at & 1 == 1 { max } else { min })
    };
    let corners =
        (0..16).map(|bits| SYMBOLS.iter().enumerate().map(|(at, row)| corner(bits, at, *row)).collect());
    let inner = (0..6).map(|at| SYMBOLS.iter().map(|row| between(at, *row)).collect());
    corners.chain(inner).collect()
}

/// Binds the inputs to extents and infers all other types again. Returns the module, or the reason why a
/// node does not fit.
fn bound(module: &Module, point: &BTreeMap<String, u64>) -> Result<Module, String> {
    let mut bound = module.clone();
    bound.set_domain(Domain::default());
    let values: Vec<Value> = bound.values().keys().collect();
    for value in values {
        let is_input = bound.graph(bound.main()).inputs.contains(&value);
        let ty = if is_input { bound.ty(value).bind(point) } else { ValueType::Unknown };
        if bound.constant_of(value).is_none() {
            bound.set_type(value, ty);
        }
    }
    let inference = memc_ops::infer(&mut bound);
    inference.refused.into_values().next().map_or(Ok(bound), Err)
}

fn extents(module: &Module, value: Value) -> Option<Vec<u64>> {
    module.ty(value).tensor()?.known_dims()
}

/// Returns the first fault of a planned module at a point; `None` if there is none.
fn fault(given: &Module, planned: &Module, point: &BTreeMap<String, u64>) -> Option<String> {
    let of_given =
        bound(given, point).unwrap_or_else(|why| panic!("the given module is wrong at {point:?}: {why}"));
    let of_planned = match bound(planned, point) {
        Ok(module) => module,
        Err(why) => return Some(why),
    };
    let outputs = |module: &Module| -> Vec<_> {
        module
            .graph(module.main())
            .outputs
            .iter()
            .map(|value| (module.value(*value).name.clone(), extents(module, *value)))
            .collect()
    };
    if outputs(&of_given) != outputs(&of_planned) {
        return Some(format!("outputs are {:?} instead of {:?}", outputs(&of_planned), outputs(&of_given)));
    }
    let main = planned.graph(planned.main());
    for value in main.nodes.iter().flat_map(|node| planned.node(*node).results()) {
        let name = &planned.value(value).name;
        let (Some(size), Some(most)) = (of_planned.size(value), planned.size(value)) else {
            return Some(format!("{name} has no size"));
        };
        if size > most {
            return Some(format!("{name} needs {size}, more than {most}"));
        }
        let stated = planned.ty(value).tensor()?.shape.as_ref()?;
        let of_stated: Vec<Option<u64>> = stated.iter().map(|dim| at(dim, point)).collect();
        let of_bound: Vec<Option<u64>> = extents(&of_planned, value)?.into_iter().map(Some).collect();
        if of_stated != of_bound {
            return Some(format!("{name} is stated as {} and has {of_bound:?}", planned.ty(value)));
        }
        if let Some(alias) = planned.plan.alias[value] {
            let of = of_planned.size(alias.of)?;
            let is_whole =
                alias.kind == AliasKind::InPlace || alias.offset.0 == 0 && planned.same_size(value, alias.of);
            if size > of || is_whole && size != of {
                return Some(format!("{name} of {size} shares {of} of {}", planned.value(alias.of).name));
            }
        }
    }
    None
}

fn at(dim: &Dim, point: &BTreeMap<String, u64>) -> Option<u64> {
    let value = dim.expr().as_ref().and_then(|expr| DimExpr::bind(expr, point))?.as_constant()?;
    u64::try_from(value).ok()
}

proptest! {
    #![proptest_config(crate::few(20))]

    #[test]
    fn plans_hold_at_every_point(numbers in prop::collection::vec(any::<u64>(), 10..90), nodes in 1usize..14) {
        let text = module_text(numbers, nodes);
        for exact in [true, false] {
            let case = case(&text, exact);
            let (given, _) = case.module();
            let planned = case.plan();
            let planned = planned.unwrap_or_else(|error| panic!("{error}, {}", case.name)).planned.module;
            case.verify(&planned);
            for point in points() {
                let found = fault(&given, &planned, &point);
                prop_assert!(found.is_none(), "{} at {point:?}, {}\n{}", found.unwrap(), case.name, text::print(&planned));
            }
        }
    }
}
