//! Elements of constant tensors of any size, such as attention masks: computed from constants by the
//! operators that exporters make masks with.
//!
//! Inference follows small tensors only, because they determine shapes. A mask has as many elements as
//! an attention matrix, and its elements tell which products nobody needs.

use std::collections::BTreeMap;
use std::rc::Rc;

use memc_ir::{ConstData, ElementType, Module, Node, NodeData, TensorType, Value};

use crate::context::normalize_axis;
use crate::fact::{Data, Item};

/// Maximum number of elements of one table: a mask of 2,048 rows and columns.
const MAX_ELEMENTS: usize = 1 << 22;
/// Maximum number of elements of all tables of one collection. It bounds time and memory.
const MAX_TOTAL: usize = 1 << 25;
/// Maximum number of operators between a value and its constants.
const MAX_DEPTH: u32 = 64;
/// Largest integer that a table holds without rounding.
const MAX_INTEGER: f64 = 9_007_199_254_740_992.0;

/// Elements of a tensor in row-major order. Integers and booleans are numbers; an unknown element is
/// NaN.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Element type.
    pub element: ElementType,
    /// Extents.
    pub dims: Vec<usize>,
    /// Elements.
    pub items: Vec<f64>,
}

impl Table {
    /// Reads the bytes of a constant; `None` for element types other than booleans, integers, binary32
    /// and binary64, and for too many elements.
    pub fn of_bytes(ty: &TensorType, bytes: &[u8]) -> Option<Self> {
        let width = ty.element.bits()? as usize / 8;
        let dims = extents(ty)?;
        if width == 0 || dims.iter().product::<usize>() * width != bytes.len() {
            return None;
        }
        let items: Option<Vec<f64>> =
            bytes.chunks_exact(width).map(|chunk| number(ty.element, chunk)).collect();
        Some(Self {
            element: ty.element,
            dims,
            items: items?.into_iter().map(|item| kept(ty.element, item)).collect(),
        })
    }

    fn of_data(data: &Data) -> Option<Self> {
        let items = data.items.iter().map(|item| match item {
            Item::Int(value) => kept(data.element, *value as f64),
            Item::Float(value) => *value,
            _ => f64::NAN,
        });
        let dims: Option<Vec<usize>> = data.dims.iter().map(|extent| usize::try_from(*extent).ok()).collect();
        Some(Self { element: data.element, dims: dims?, items: items.collect() })
    }

    /// Returns the step from one position to the next along each axis of a larger tensor, to which this
    /// one is broadcast; `None` if it does not fit.
    fn steps(&self, dims: &[usize]) -> Option<Vec<usize>> {
        let missing = dims.len().checked_sub(self.dims.len())?;
        let mut steps = vec![0; dims.len()];
        let mut step = 1;
        for (axis, extent) in self.dims.iter().enumerate().rev() {
            match *extent {
                1 => {}
                extent if extent == dims[missing + axis] => steps[missing + axis] = step,
                _ => return None,
            }
            step *= extent;
        }
        Some(steps)
    }
}

/// Returns the known extents of a type with few enough elements.
fn extents(ty: &TensorType) -> Option<Vec<usize>> {
    let dims: Option<Vec<usize>> =
        ty.known_dims()?.iter().map(|extent| usize::try_from(*extent).ok()).collect();
    let count = dims.as_ref()?.iter().try_fold(1usize, |count, extent| count.checked_mul(*extent))?;
    dims.filter(|_| count <= MAX_ELEMENTS)
}

fn number(element: ElementType, chunk: &[u8]) -> Option<f64> {
    use ElementType::*;
    Some(match element {
        Bool => f64::from(u8::from(*chunk.first()? != 0)),
        Uint8 => f64::from(*chunk.first()?),
        Int8 => f64::from(*chunk.first()? as i8),
        Int32 => f64::from(i32::from_le_bytes(chunk.try_into().ok()?)),
        Int64 => i64::from_le_bytes(chunk.try_into().ok()?) as f64,
        Float => f64::from(f32::from_le_bytes(chunk.try_into().ok()?)),
        Double => f64::from_le_bytes(chunk.try_into().ok()?),
        _ => return None,
    })
}

/// Returns a result as its element type holds it; NaN if the type would hold another number than the
/// table.
fn kept(element: ElementType, number: f64) -> f64 {
    match element {
        ElementType::Float => f64::from(number as f32),
        ElementType::Double => number,
        ElementType::Bool => number,
        ElementType::Int64 | ElementType::Int32 if number.abs() < bound(element) => number,
        ElementType::Uint8 if (0.0..256.0).contains(&number) => number,
        ElementType::Int8 if (-128.0..128.0).contains(&number) => number,
        _ => f64::NAN,
    }
}

fn bound(element: ElementType) -> f64 {
    if element == ElementType::Int32 { 2_147_483_648.0 } else { MAX_INTEGER }
}

/// The tables of one module, each computed once.
pub struct Tables<'m> {
    module: &'m Module,
    /// Returns the elements that inference knows.
    data: &'m dyn Fn(Value) -> Option<Table>,
    /// Reads a constant.
    read: &'m dyn Fn(&ConstData) -> Option<Table>,
    known: BTreeMap<Value, Option<Rc<Table>>>,
    /// Number of elements that may still be computed.
    left: usize,
}

impl std::fmt::Debug for Tables<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables")
            .field("known", &self.known.len())
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// Returns the elements that inference follows as a table.
pub fn table_of(data: &Data) -> Option<Table> {
    Table::of_data(data)
}

impl<'m> Tables<'m> {
    /// Makes an empty collection.
    pub fn new(
        module: &'m Module,
        data: &'m dyn Fn(Value) -> Option<Table>,
        read: &'m dyn Fn(&ConstData) -> Option<Table>,
    ) -> Self {
        Self { module, data, read, known: BTreeMap::new(), left: MAX_TOTAL }
    }

    /// Returns the elements of a value that depends on readable constants alone; `None` for any other
    /// value, for operators without a rule here, and beyond the limits of size.
    pub fn table(&mut self, value: Value) -> Option<Rc<Table>> {
        self.find(value, MAX_DEPTH)
    }

    fn find(&mut self, value: Value, depth: u32) -> Option<Rc<Table>> {
        if let Some(known) = self.known.get(&value) {
            return known.clone();
        }
        let found = self.compute(value, depth.checked_sub(1)?).map(Rc::new);
        if let Some(table) = &found {
            self.left -= table.items.len().min(self.left);
        }
        self.known.insert(value, found.clone());
        found
    }

    fn compute(&mut self, value: Value, depth: u32) -> Option<Table> {
        let ty = self.module.ty(value).tensor()?;
        let dims = extents(ty)?;
        if dims.iter().product::<usize>() > self.left {
            return None;
        }
        if let Some(constant) = self.module.constant_of(value) {
            return (self.read)(self.module.constant(constant));
        }
        if let Some(table) = (self.data)(value) {
            return Some(table);
        }
        let node = self.module.producer(value)?;
        let data = self.module.node(node);
        let result = Table { element: ty.element, dims, items: Vec::new() };
        if !data.operator.domain.is_empty() || data.results().count() != 1 || data.bodies().next().is_some() {
            return None;
        }
        self.apply(node, data, result, depth)
    }

    fn operand(&mut self, node: Node, index: usize, depth: u32) -> Option<Rc<Table>> {
        let value = self.module.node(node).inputs.get(index).copied().flatten()?;
        self.find(value, depth)
    }

    /// Computes the elements of a node's only result, whose type is in `result`.
    fn apply(&mut self, node: Node, data: &NodeData, result: Table, depth: u32) -> Option<Table> {
        let element = result.element;
        let first = self.operand(node, 0, depth)?;
        match &*data.operator.name {
            "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten" => {
                let fits = first.items.len() == result.dims.iter().product::<usize>();
                fits.then(|| Table { items: first.items.clone(), ..result })
            }
            "Cast" => map(result, &[&first], |item| cast(element, item[0])),
            "Not" => map(result, &[&first], |item| 1.0 - item[0]),
            "Neg" => map(result, &[&first], |item| kept(element, -item[0])),
            "Expand" => map(result, &[&first], |item| item[0]),
            "Where" => {
                let (yes, no) = (self.operand(node, 1, depth)?, self.operand(node, 2, depth)?);
                map(result, &[&first, &yes, &no], |item| chosen(item[0], item[1], item[2]))
            }
            "Slice" => self.slice(node, data, &first, result, depth),
            "Transpose" => transposed(data, &first, result),
            "Trilu" => self.trilu(node, data, &first, result, depth),
            name => {
                let rule = binary(name, element)?;
                let second = self.operand(node, 1, depth).filter(|_| data.inputs.len() == 2)?;
                map(result, &[&first, &second], |item| kept(element, rule(item[0], item[1])))
            }
        }
    }

    fn integers(&mut self, node: Node, index: usize, depth: u32) -> Option<Vec<i64>> {
        let table = self.operand(node, index, depth)?;
        table.items.iter().map(|item| item.is_finite().then_some(*item as i64)).collect()
    }

    fn slice(
        &mut self,
        node: Node,
        data: &NodeData,
        first: &Table,
        result: Table,
        depth: u32,
    ) -> Option<Table> {
        let rank = first.dims.len();
        let is_given = |index: usize| data.inputs.get(index).copied().flatten().is_some();
        let (starts, axes, steps) = if data.inputs.len() == 1 {
            (data.ints("starts")?.to_vec(), data.ints("axes").map(<[i64]>::to_vec), None)
        } else {
            let axes = if is_given(3) { Some(self.integers(node, 3, depth)?) } else { None };
            let steps = if is_given(4) { Some(self.integers(node, 4, depth)?) } else { None };
            (self.integers(node, 1, depth)?, axes, steps)
        };
        if steps.is_some_and(|steps| steps.iter().any(|step| *step != 1)) || result.dims.len() != rank {
            return None;
        }
        let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let mut begins = vec![0; rank];
        for (axis, start) in axes.into_iter().zip(starts) {
            let axis = normalize_axis(axis, rank)?;
            let extent = first.dims[axis] as i64;
            let start = if start < 0 { start.saturating_add(extent) } else { start };
            begins[axis] = usize::try_from(start.clamp(0, extent)).ok()?;
        }
        let fits = (0..rank).all(|axis| begins[axis] + result.dims[axis] <= first.dims[axis]);
        let steps = steps_of(&first.dims);
        let start = begins.iter().zip(&steps).map(|(begin, step)| begin * step).sum();
        fits.then(|| gather(result, first, start, &steps))
    }

    fn trilu(
        &mut self,
        node: Node,
        data: &NodeData,
        first: &Table,
        result: Table,
        depth: u32,
    ) -> Option<Table> {
        let diagonal = match data.inputs.get(1).copied().flatten() {
            Some(_) => *self.integers(node, 1, depth)?.first()?,
            None => 0,
        };
        let is_upper = data.int("upper", 1) != 0;
        let [.., rows, columns] = first.dims[..] else { return None };
        if rows == 0 || columns == 0 || result.dims != first.dims {
            return None;
        }
        let items = first.items.iter().enumerate().map(|(at, item)| {
            let distance = (at % columns) as i64 - (at / columns % rows) as i64;
            let stays = if is_upper { distance >= diagonal } else { distance <= diagonal };
            if stays { *item } else { 0.0 }
        });
        Some(Table { items: items.collect(), ..result })
    }
}

fn steps_of(dims: &[usize]) -> Vec<usize> {
    let mut steps = vec![1; dims.len()];
    for axis in (1..dims.len()).rev() {
        steps[axis - 1] = steps[axis] * dims[axis];
    }
    steps
}

fn transposed(data: &NodeData, first: &Table, result: Table) -> Option<Table> {
    let rank = first.dims.len();
    let order: Vec<usize> = match data.ints("perm") {
        Some(order) => order.iter().map(|axis| normalize_axis(*axis, rank)).collect::<Option<_>>()?,
        None => (0..rank).rev().collect(),
    };
    let steps = steps_of(&first.dims);
    let turned: Option<Vec<usize>> = order.iter().map(|axis| steps.get(*axis).copied()).collect();
    let fits = order.len() == rank
        && order.iter().zip(&result.dims).all(|(axis, extent)| first.dims[*axis] == *extent);
    Some(gather(result, first, 0, &turned.filter(|_| fits)?))
}

/// Fills a table with elements of another one, from a first position on, with a step for each axis.
fn gather(result: Table, from: &Table, start: usize, steps: &[usize]) -> Table {
    let mut items = Vec::with_capacity(result.dims.iter().product());
    positions(&result.dims, &[steps.to_vec()], |at| {
        items.push(from.items.get(start + at[0]).copied().unwrap_or(f64::NAN))
    });
    Table { items, ..result }
}

/// Applies a function to the elements of operands that are broadcast to the result.
fn map(result: Table, operands: &[&Rc<Table>], rule: impl Fn(&[f64; 3]) -> f64) -> Option<Table> {
    let steps: Option<Vec<Vec<usize>>> = operands.iter().map(|table| table.steps(&result.dims)).collect();
    let mut items = Vec::with_capacity(result.dims.iter().product());
    let mut taken = [0.0; 3];
    positions(&result.dims, &steps?, |at| {
        for (item, (table, at)) in taken.iter_mut().zip(operands.iter().zip(at)) {
            *item = table.items.get(*at).copied().unwrap_or(f64::NAN);
        }
        items.push(rule(&taken));
    });
    Some(Table { items, ..result })
}

/// Visits all positions of a tensor in row-major order, with the offset of each operand.
fn positions(dims: &[usize], steps: &[Vec<usize>], mut visit: impl FnMut(&[usize])) {
    if dims.contains(&0) {
        return;
    }
    let mut index = vec![0; dims.len()];
    let mut at = vec![0; steps.len()];
    loop {
        visit(&at);
        let mut axis = dims.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            if index[axis] < dims[axis] {
                at.iter_mut().zip(steps).for_each(|(at, steps)| *at += steps[axis]);
                break;
            }
            at.iter_mut().zip(steps).for_each(|(at, steps)| *at -= steps[axis] * (dims[axis] - 1));
            index[axis] = 0;
        }
    }
}

fn cast(element: ElementType, item: f64) -> f64 {
    match element {
        ElementType::Bool if item.is_nan() => item,
        ElementType::Bool => f64::from(u8::from(item != 0.0)),
        ElementType::Float | ElementType::Double => kept(element, item),
        _ => kept(element, item.trunc()),
    }
}

fn chosen(condition: f64, yes: f64, no: f64) -> f64 {
    match condition {
        1.0 => yes,
        0.0 => no,
        _ => f64::NAN,
    }
}

/// Returns the rule of an operator with two operands; an unknown operand gives an unknown result unless
/// the other one decides.
fn binary(name: &str, element: ElementType) -> Option<fn(f64, f64) -> f64> {
    fn truth(a: f64, b: f64, holds: bool) -> f64 {
        if a.is_nan() || b.is_nan() { f64::NAN } else { f64::from(u8::from(holds)) }
    }
    Some(match name {
        "And" => |a, b| if a == 0.0 || b == 0.0 { 0.0 } else { a * b },
        "Or" => |a, b| if a == 1.0 || b == 1.0 { 1.0 } else { a + b },
        "Equal" => |a, b| truth(a, b, a == b),
        "Less" => |a, b| truth(a, b, a < b),
        "LessOrEqual" => |a, b| truth(a, b, a <= b),
        "Greater" => |a, b| truth(a, b, a > b),
        "GreaterOrEqual" => |a, b| truth(a, b, a >= b),
        "Add" => |a, b| a + b,
        "Sub" => |a, b| a - b,
        "Mul" => |a, b| a * b,
        "Div" if matches!(element, ElementType::Float | ElementType::Double) => |a, b| a / b,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use memc_ir::text;

    /// Returns the elements of the graph's first output.
    fn elements(body: &str) -> Option<Vec<f64>> {
        let mut module =
            text::parse(&format!("mem 1\nir_version 10\nopset \"\" 20\ngraph @g {{\n{body}\n}}\n")).unwrap();
        crate::infer(&mut module);
        let output = module.graph(module.main()).outputs[0];
        let read = |constant: &ConstData| match &constant.payload {
            memc_ir::Payload::Raw(bytes) => Table::of_bytes(&constant.ty, bytes),
            _ => None,
        };
        let found = Tables::new(&module, &|_| None, &read).table(output);
        found.map(|table| table.items.clone())
    }

    #[test]
    fn comparisons_of_positions_make_a_causal_mask() {
        let found = elements(
            "const %r : i64[3,1] = [0, 1, 2]\n const %c : i64[1,3] = [0, 1, 2]\n const %z : f32[] = [0.0]\n\
             const %m : f32[] = [-1e30]\n %l = LessOrEqual(%c, %r) : bool[3,3]\n %w = Where(%l, %z, %m) : f32[3,3]\n return %w",
        );
        let masked = f64::from(-1e30f32);
        assert_eq!(found.unwrap(), [0.0, masked, masked, 0.0, 0.0, masked, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn triangles_slices_and_transposes_keep_their_places() {
        let six = "const %x : f32[2,3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n";
        let lower = elements(&format!("{six} %y = Trilu(%x) {{upper = 0}} : f32[2,3]\n return %y")).unwrap();
        assert_eq!(lower, [1.0, 0.0, 0.0, 4.0, 5.0, 0.0]);
        let diagonal = "const %k : i64[] = [1]\n";
        let upper = elements(&format!("{six}{diagonal} %y = Trilu(%x, %k) : f32[2,3]\n return %y")).unwrap();
        assert_eq!(upper, [0.0, 2.0, 3.0, 0.0, 0.0, 6.0]);
        let turned = elements(&format!("{six} %y = Transpose(%x) : f32[3,2]\n return %y")).unwrap();
        assert_eq!(turned, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let ranges = "const %a : i64[1] = [-2]\n const %b : i64[1] = [3]\n const %d : i64[1] = [1]\n";
        let cut =
            elements(&format!("{six}{ranges} %y = Slice(%x, %a, %b, %d) : f32[2,2]\n return %y")).unwrap();
        assert_eq!(cut, [2.0, 3.0, 5.0, 6.0]);
    }

    #[test]
    fn values_of_the_caller_and_of_other_operators_are_unknown() {
        assert_eq!(elements("input %x : f32[2]\n %y = Neg(%x) : f32[2]\n return %y"), None);
        assert_eq!(elements("const %x : f32[2] = [1.0, 2.0]\n %y = Sin(%x) : f32[2]\n return %y"), None);
    }

    #[test]
    fn operands_without_elements_give_a_table_without_elements() {
        let found = elements("const %x : f32[0,3] = []\n %y = Neg(%x) : f32[0,3]\n return %y");
        assert_eq!(found.unwrap(), [0.0; 0]);
    }

    #[test]
    fn integers_beyond_a_table_are_unknown() {
        let found =
            elements("const %x : i64[2] = [9223372036854775807, 1]\n %y = Neg(%x) : i64[2]\n return %y")
                .unwrap();
        assert!(found[0].is_nan());
        assert_eq!(found[1], -1.0);
    }
}
