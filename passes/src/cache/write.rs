//! Writes the model with caches in one buffer: the nodes that write new rows, hide rows that are not
//! valid, and compute places from the number of valid rows.

use std::collections::BTreeMap;

use memc_edit::{Attributes, ExtentForm, Maker, int};
use memc_ir::{Dim, DimExpr, ElementType, Module, NewNode, Node, Operator, TensorType, Value, ValueType};

use super::lengths::{Elements, Lengths, Number};
use super::pairs::{Cache, Caches};
use super::rows::Edit;
use super::{COUNT, INFO};
use crate::buffer::CacheError;

/// First operator set with ScatterND, and with Range.
const SCATTER: i64 = 11;
/// First operator set with TensorScatter.
const TENSOR_SCATTER: i64 = 24;

/// The written module.
pub(super) struct Written {
    pub module: Module,
    /// The graph input with the number of valid rows.
    pub count: Value,
    /// Number of edits.
    pub edits: u64,
}

/// Writes the module; returns it with the elements of its small tensors.
pub(super) fn write(
    lengths: &Lengths,
    caches: &Caches,
    edits: &[Edit],
) -> Result<(Written, Elements), CacheError> {
    let mut module = lengths.full.module.clone();
    let opset = module.opsets.get("").copied().unwrap_or(0);
    if opset < SCATTER {
        let why = format!(
            "operator set {opset} has no operator that writes rows: convert the model to {SCATTER} or later"
        );
        return Err(CacheError::Together { why });
    }
    for cache in &caches.all {
        let ty = module.ty(cache.new).clone();
        module.set_type(cache.old, ty);
    }
    let main = module.main();
    let first = module.graph(main).nodes.first().copied();
    let hints = ["cache_number", "cache_extents", "cache_extent"];
    let form = ExtentForm { hints, dims: &[], before: first, is_shared: false };
    let mut maker = Maker::new(&mut module, INFO.name).with_extents(form);
    let name = maker.fresh_name(COUNT);
    let scalar = ValueType::Tensor(TensorType::fixed(ElementType::Int64, &[]));
    let count = maker.input(main, &name, scalar);
    let mut writer = Writer {
        maker,
        lengths,
        caches,
        count,
        first,
        places: BTreeMap::new(),
        valid: BTreeMap::new(),
        hidden: BTreeMap::new(),
    };
    for cache in &caches.all {
        writer.cache(cache)?;
    }
    for edit in edits {
        writer.edit(edit)?;
    }
    let edits = writer.maker.finish();
    let inference = memc_ops::infer(&mut module);
    Ok((Written { module, count, edits }, inference.data))
}

pub(super) struct Writer<'a, 'm> {
    pub(super) maker: Maker<'m>,
    lengths: &'a Lengths,
    caches: &'a Caches,
    /// Number of valid rows before the run.
    count: Value,
    /// First node of the given model: nodes that depend on nothing but the number of rows precede it.
    pub(super) first: Option<Node>,
    /// Places of new rows, by extents of the cache and axis.
    places: BTreeMap<(Vec<DimExpr>, usize), Value>,
    /// Which rows are valid, by rank after the axis and number of rows.
    valid: BTreeMap<(usize, DimExpr), Value>,
    /// Values whose rows that are not valid are minus infinity or false.
    hidden: BTreeMap<(Value, usize), Value>,
}

impl Writer<'_, '_> {
    /// Replaces the node that appends rows by one that writes them.
    fn cache(&mut self, cache: &Cache) -> Result<(), CacheError> {
        let Some(dims) = self.dims(cache.new) else { return Ok(()) };
        if self.maker.version >= TENSOR_SCATTER && cache.axis > 0 {
            let place = self.place_of_batch(&dims[0])?;
            let operator = Operator::onnx("TensorScatter", self.maker.version);
            let operands = [cache.old, cache.added, place].map(Some).to_vec();
            self.maker.redefine(cache.node, operator, operands, int("axis", cache.axis as i64));
            return Ok(());
        }
        let places = self.places(&dims, cache.axis)?;
        let operator = Operator::onnx("ScatterND", self.maker.version);
        let operands = [cache.old, places, cache.added].map(Some).to_vec();
        self.maker.redefine(cache.node, operator, operands, Vec::new());
        Ok(())
    }

    /// Returns the first new row for each item of the batch.
    fn place_of_batch(&mut self, batch: &DimExpr) -> Result<Value, CacheError> {
        if let Some(found) = self.places.get(&(vec![batch.clone()], 0)) {
            return Ok(*found);
        }
        let extents = self.vector("cache_batch", std::slice::from_ref(batch))?;
        let made = self.early("Expand", [self.count, extents], Vec::new(), "cache_place");
        self.places.insert((vec![batch.clone()], 0), made);
        Ok(made)
    }

    /// Returns the indices of all new rows: a place on each axis up to that of the rows.
    fn places(&mut self, dims: &[DimExpr], axis: usize) -> Result<Value, CacheError> {
        let mut key = dims[..=axis].to_vec();
        key[axis] = self.caches.rows.clone();
        if let Some(found) = self.places.get(&(key.clone(), axis)) {
            return Ok(*found);
        }
        let known: Option<Vec<u64>> =
            key.iter().map(|extent| u64::try_from(extent.as_constant()?).ok()).collect();
        let made = match known {
            Some(known) => self.fixed_places(known, axis)?,
            None => self.free_places(&key, axis)?,
        };
        self.places.insert((key, axis), made);
        Ok(made)
    }

    /// Returns the indices of new rows if an extent is free: on each axis a range, repeated along the others.
    fn free_places(&mut self, key: &[DimExpr], axis: usize) -> Result<Value, CacheError> {
        let mut whole = key.to_vec();
        whole.push(DimExpr::constant(1));
        let whole = self.vector("cache_shape", &whole)?;
        let mut parts = Vec::new();
        for (own, extent) in key.iter().enumerate() {
            let mut row = self.range(extent)?;
            if own == axis {
                row = self.early("Add", [row, self.count], Vec::new(), "cache_place");
            }
            let mut shape = vec![1i64; key.len() + 1];
            shape[own] = -1;
            let shape = self.maker.integer_tensor("cache_shape", &[shape.len() as u64], &shape);
            let column = self.early("Reshape", [row, shape], Vec::new(), "cache_place");
            parts.push(Some(self.early("Expand", [column, whole], Vec::new(), "cache_place")));
        }
        Ok(self.early("Concat", parts, int("axis", key.len() as i64), "cache_rows"))
    }

    /// Returns the indices of new rows if all extents are known.
    fn fixed_places(&mut self, key: Vec<u64>, axis: usize) -> Result<Value, CacheError> {
        /// Largest number of indices: 32 MiB.
        const MAX_INDICES: u64 = 4 << 20;
        let depth = axis as u64 + 1;
        let count = key
            .iter()
            .try_fold(depth, |count, extent| count.checked_mul(*extent))
            .filter(|count| *count <= MAX_INDICES);
        let Some(count) = count else {
            let why = "a run would write more rows than memc makes indices for: make the rows the first axes, or use operator set 24";
            return Err(CacheError::Together { why: why.to_owned() });
        };
        let mut items = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        let mut at = vec![0u64; key.len()];
        for _ in 0..count / depth {
            items.extend(at.iter().map(|place| *place as i64));
            for place in (0..key.len()).rev() {
                at[place] += 1;
                if at[place] < key[place] {
                    break;
                }
                at[place] = 0;
            }
        }
        let mut shape = key.clone();
        shape.push(depth);
        let base = self.maker.integer_tensor("cache_places", &shape, &items);
        let mut unit = vec![0i64; key.len()];
        unit[axis] = 1;
        let unit = self.maker.integer_tensor("cache_axis", &[depth], &unit);
        let moved = self.early("Mul", [self.count, unit], Vec::new(), "cache_moved");
        Ok(self.early("Add", [base, moved], Vec::new(), "cache_rows"))
    }

    fn edit(&mut self, edit: &Edit) -> Result<(), CacheError> {
        match edit {
            Edit::Count { node, position, number } => {
                if let Some(value) = self.maker.operand(*node, *position) {
                    let made = self.number(value, number)?;
                    self.maker.set_operand(*node, *position as u32, made);
                }
            }
            Edit::Hide { node, position, axis } => {
                if let Some(value) = self.maker.operand(*node, *position) {
                    let made = self.hide(*node, value, *axis)?;
                    self.maker.set_operand(*node, *position as u32, made);
                }
            }
            Edit::Mask { node, position, queries, rows } => self.mask(*node, *position, [queries, rows])?,
            Edit::Window { node, axis, number, rows } => self.window(*node, *axis, number, rows)?,
            Edit::FromEnd { node, extent } => self.count_from_end(*node, extent)?,
            Edit::Offset { node, start, distance, step } => self.offset(*node, start, distance, *step)?,
            Edit::Extents { node } => self.extents_before(*node)?,
        }
        Ok(())
    }

    /// Returns a value that is computed from the number of valid rows, of the type of another value.
    fn number(&mut self, like: Value, number: &Number) -> Result<Value, CacheError> {
        let ty = self.module().ty(like).tensor().cloned();
        let (Some(ty), Some(dims)) = (ty, self.known_dims(like)) else { return Ok(like) };
        let rest = self.tensor("cache_rest", &dims, &number.rest)?;
        let moved = match number.slope.iter().all(|slope| *slope == 1) {
            true => self.count,
            false => {
                let slope = self.maker.integer_tensor("cache_slope", &dims, &number.slope);
                self.early("Mul", [self.count, slope], Vec::new(), "cache_moved")
            }
        };
        let made = self.early("Add", [moved, rest], Vec::new(), "cache_number");
        Ok(self.cast(made, ty.element, "cache_number"))
    }

    /// Returns a value whose rows that are not valid are minus infinity, or false, computed before a node.
    fn hide(&mut self, node: Node, value: Value, axis: usize) -> Result<Value, CacheError> {
        if let Some(found) = self.hidden.get(&(value, axis)) {
            return Ok(*found);
        }
        let element = self.module().ty(value).tensor().map(|ty| ty.element);
        if element == Some(ElementType::Bool) {
            let Some(dims) = self.dims(value) else { return Ok(value) };
            let valid = self.valid(dims.len() - axis - 1, &dims[axis])?;
            let made =
                self.made(Some(node), self.maker.onnx("And", [valid, value], Vec::new()), "cache_valid");
            self.hidden.insert((value, axis), made);
            return Ok(made);
        }
        let Some(lowest) = element.and_then(minus_infinity) else {
            return Err(CacheError::Together { why: format!("Softmax of {element:?} is not followed") });
        };
        let Some(dims) = self.dims(value) else { return Ok(value) };
        let valid = self.valid(dims.len() - axis - 1, &dims[axis])?;
        let ty = TensorType::fixed(element.unwrap_or(ElementType::Float), &[]);
        let lowest = self.maker.tensor("cache_hidden", ty, lowest);
        let made = self.made(
            Some(node),
            self.maker.onnx("Where", [valid, value, lowest], Vec::new()),
            "cache_valid",
        );
        // Computed before the first reader, so later readers can use it.
        self.hidden.insert((value, axis), made);
        Ok(made)
    }

    /// Adds a mask of valid rows for all queries as an operand.
    fn mask(&mut self, node: Node, position: usize, extents: [&DimExpr; 2]) -> Result<(), CacheError> {
        let valid = self.valid(0, extents[1])?;
        let shape = self.vector("cache_shape", &extents.map(DimExpr::clone))?;
        let made = self.early("Expand", [valid, shape], Vec::new(), "cache_mask");
        let mut operands = self.module().node(node).inputs.clone();
        operands.resize(operands.len().max(position + 1), None);
        operands[position] = Some(made);
        self.maker.set_operands(node, operands);
        Ok(())
    }

    /// Returns which of `extent` rows are valid after the run, with `after` further axes.
    fn valid(&mut self, after: usize, extent: &DimExpr) -> Result<Value, CacheError> {
        if let Some(found) = self.valid.get(&(after, extent.clone())) {
            return Ok(*found);
        }
        let rows = self.range(extent)?;
        let end = self.end(extent)?;
        let mut made = self.early("Less", [rows, end], Vec::new(), "cache_is_valid");
        if after > 0 {
            let mut shape = vec![DimExpr::constant(1); after + 1];
            shape[0] = extent.clone();
            let shape = self.vector("cache_shape", &shape)?;
            made = self.early("Reshape", [made, shape], Vec::new(), "cache_is_valid");
        }
        self.valid.insert((after, extent.clone()), made);
        Ok(made)
    }

    /// Returns the number of valid rows of a value that has `extent` rows with full buffers.
    fn end(&mut self, extent: &DimExpr) -> Result<Value, CacheError> {
        let beyond = extent.sub(&self.caches.past).ok_or_else(too_large)?;
        let rest = self.scalar(&beyond)?;
        Ok(self.early("Add", [self.count, rest], Vec::new(), "cache_end"))
    }

    /// Adds the number of valid rows to negative indices of a Gather.
    fn count_from_end(&mut self, node: Node, extent: &DimExpr) -> Result<(), CacheError> {
        let Some(indices) = self.maker.operand(node, 1) else { return Ok(()) };
        let element = self.module().ty(indices).tensor().map_or(ElementType::Int64, |ty| ty.element);
        let (end, zero) = (self.end(extent)?, self.maker.integer_tensor("cache_number", &[], &[0]));
        let [end, zero] = [end, zero].map(|value| self.cast(value, element, "cache_end"));
        let is_from_end =
            self.made(Some(node), self.maker.onnx("Less", [indices, zero], Vec::new()), "cache_from_end");
        let moved =
            self.made(Some(node), self.maker.onnx("Add", [indices, end], Vec::new()), "cache_from_end");
        let made = self.made(
            Some(node),
            self.maker.onnx("Where", [is_from_end, moved, indices], Vec::new()),
            "cache_from_end",
        );
        self.maker.set_operand(node, 1, made);
        Ok(())
    }

    /// Replaces the moving limits of Slice along an axis by a lookup of these rows.
    fn window(&mut self, node: Node, axis: usize, number: &Number, rows: &DimExpr) -> Result<(), CacheError> {
        let Some(whole) = self.maker.operand(node, 0) else { return Ok(()) };
        let rest = number.rest.first().cloned().unwrap_or_else(|| DimExpr::constant(0));
        let offsets = match (rows.as_constant(), rest.as_constant()) {
            (Some(rows), Some(rest)) => {
                let items: Vec<i64> = (0..rows).map(|row| row.saturating_add(rest)).collect();
                self.maker.integer_tensor("cache_offsets", &[rows.max(0) as u64], &items)
            }
            _ => {
                let (range, rest) = (self.range(rows)?, self.scalar(&rest)?);
                self.early("Add", [range, rest], Vec::new(), "cache_offsets")
            }
        };
        let indices = self.early("Add", [self.count, offsets], Vec::new(), "cache_window");
        let attributes = int("axis", axis as i64);
        let taken =
            self.made(Some(node), self.maker.onnx("Gather", [whole, indices], attributes), "cache_window");
        // Slice keeps all rows of the window, and its other limits.
        let read = |writer: &Self, position: usize| {
            writer.maker.operand(node, position).and_then(|value| writer.lengths.exprs(value))
        };
        let (Some(mut starts), Some(mut ends)) = (read(self, 1), read(self, 2)) else { return Ok(()) };
        let rank = self.dims(whole).map_or(0, |dims| dims.len());
        let axes = self.maker.operand(node, 3).and_then(|value| self.lengths.integers(value));
        let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
        for (index, own) in axes.iter().enumerate() {
            if memc_ops::normalize_axis(*own, rank) == Some(axis) {
                (starts[index], ends[index]) = (DimExpr::constant(0), rows.clone());
            }
        }
        let starts = self.vector("cache_starts", &starts)?;
        let ends = self.vector("cache_ends", &ends)?;
        for (position, value) in [(0, taken), (1, starts), (2, ends)] {
            self.maker.set_operand(node, position, value);
        }
        Ok(())
    }

    /// Replaces Range by one from 0, with its start added: its number of elements does not depend on the
    /// number of valid rows.
    fn offset(
        &mut self,
        node: Node,
        start: &Number,
        distance: &DimExpr,
        step: i64,
    ) -> Result<(), CacheError> {
        let (Some(result), Some(like)) =
            (self.module().node(node).results().next(), self.maker.operand(node, 0))
        else {
            return Ok(());
        };
        let [zero, step] = [0, step].map(|number| self.maker.integer_tensor("cache_number", &[], &[number]));
        let limit = self.scalar(distance)?;
        let rows = self.early("Range", [zero, limit, step], Vec::new(), "cache_row");
        let element = self.module().ty(like).tensor().map_or(ElementType::Int64, |ty| ty.element);
        let rows = self.cast(rows, element, "cache_row");
        let start = self.number(like, start)?;
        let made = self.early("Add", [rows, start], Vec::new(), "cache_row");
        self.maker.replace_uses(result, made);
        self.maker.erase(node);
        Ok(())
    }

    /// Replaces Shape of a cache by the extents before the run, as the given model reads them.
    fn extents_before(&mut self, node: Node) -> Result<(), CacheError> {
        let Some(result) = self.module().node(node).results().next() else { return Ok(()) };
        let Some(items) = self.lengths.exprs(result) else { return Ok(()) };
        let made = self.vector("cache_extents", &items)?;
        self.maker.replace_uses(result, made);
        self.maker.erase(node);
        Ok(())
    }

    pub(super) fn module(&self) -> &Module {
        self.maker.module()
    }

    /// Returns the extents of a value of the given model, or of one that was made here.
    fn dims(&self, value: Value) -> Option<Vec<DimExpr>> {
        self.module().ty(value).tensor()?.shape.as_ref()?.iter().map(Dim::expr).collect()
    }

    fn known_dims(&self, value: Value) -> Option<Vec<u64>> {
        self.module().ty(value).tensor()?.known_dims()
    }

    /// Inserts a node that depends on nothing but the number of rows; returns its result.
    pub(super) fn early(
        &mut self,
        operator: &str,
        inputs: impl IntoIterator<Item: Into<Option<Value>>>,
        attributes: Attributes,
        hint: &str,
    ) -> Value {
        self.made(self.first, self.maker.onnx(operator, inputs, attributes), hint)
    }

    /// Inserts a node; returns its result.
    fn made(&mut self, before: Option<Node>, new: NewNode, hint: &str) -> Value {
        self.maker.compute(before, new, hint, ValueType::Unknown).unwrap_or(self.count)
    }

    /// Returns integers as another type.
    fn cast(&mut self, value: Value, element: ElementType, hint: &str) -> Value {
        match element {
            ElementType::Int64 => value,
            other => self.early("Cast", [value], int("to", i64::from(other.to_onnx())), hint),
        }
    }
}

/// Returns the bytes of minus infinity.
fn minus_infinity(element: ElementType) -> Option<Vec<u8>> {
    Some(match element {
        ElementType::Float => f32::NEG_INFINITY.to_le_bytes().to_vec(),
        ElementType::Double => f64::NEG_INFINITY.to_le_bytes().to_vec(),
        ElementType::Float16 => 0xfc00u16.to_le_bytes().to_vec(),
        ElementType::Bfloat16 => 0xff80u16.to_le_bytes().to_vec(),
        _ => return None,
    })
}

/// Refuses expressions with too many terms.
fn too_large() -> CacheError {
    CacheError::Together { why: "an extent is an expression with too many terms".to_owned() }
}
