//! Writes the model with caches in one buffer: the nodes that write new rows, hide rows that are not
//! valid, and compute places from the number of valid rows.

use std::collections::BTreeMap;

use memc_ir::{
    Attribute, ConstData, ConstOrigin, ElementType, Module, NewNode, Node, Operator, Origin, Payload, Rewriter, TensorType,
    Value, ValueType,
};

use super::COUNT;
use super::lengths::{Elements, Lengths, Number};
use super::pairs::{Cache, Caches};
use super::rows::Edit;
use crate::buffer::CacheError;

/// Origin of the new nodes.
const ORIGIN: Origin = Origin::Pass { pass: std::borrow::Cow::Borrowed("cache") };
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
pub(super) fn write(lengths: &Lengths, caches: &Caches, edits: &[Edit]) -> Result<(Written, Elements), CacheError> {
    let mut module = lengths.full.module.clone();
    let opset = module.opsets.get("").copied().unwrap_or(0);
    if opset < SCATTER {
        let why = format!("operator set {opset} has no operator that writes rows: convert the model to {SCATTER} or later");
        return Err(CacheError::Together { why });
    }
    for cache in &caches.all {
        let ty = module.ty(cache.new).clone();
        module.set_type(cache.old, ty);
    }
    let main = module.main();
    let first = module.graph(main).nodes.first().copied();
    let mut rewriter = Rewriter::new(&mut module);
    let name = rewriter.fresh_name(COUNT);
    let scalar = ValueType::Tensor(TensorType::fixed(ElementType::Int64, &[]));
    let count = rewriter.input(main, &name, scalar);
    let mut writer = Writer {
        rewriter,
        lengths,
        caches,
        opset,
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
    let edits = writer.rewriter.finish();
    let inference = memc_ops::infer(&mut module);
    Ok((Written { module, count, edits }, inference.data))
}

struct Writer<'a, 'm> {
    rewriter: Rewriter<'m>,
    lengths: &'a Lengths,
    caches: &'a Caches,
    opset: i64,
    /// Number of valid rows before the run.
    count: Value,
    /// First node of the given model: nodes that depend on nothing but the number of rows precede it.
    first: Option<Node>,
    /// Places of new rows, by extents of the cache and axis.
    places: BTreeMap<(Vec<u64>, usize), Value>,
    /// Which rows are valid, by rank after the axis, number of rows, and rows beyond the count.
    valid: BTreeMap<(usize, u64, i64), Value>,
    /// Values whose rows that are not valid are minus infinity or false.
    hidden: BTreeMap<(Value, usize), Value>,
}

impl Writer<'_, '_> {
    /// Replaces the node that appends rows by one that writes them.
    fn cache(&mut self, cache: &Cache) -> Result<(), CacheError> {
        let Some(dims) = self.dims(cache.new) else { return Ok(()) };
        if self.opset >= TENSOR_SCATTER && cache.axis > 0 {
            let place = self.place_of_batch(dims[0]);
            let operator = Operator::onnx("TensorScatter", self.opset);
            let operands = vec![Some(cache.old), Some(cache.added), Some(place)];
            self.rewriter.redefine(cache.node, operator, operands, vec![("axis".to_owned(), Attribute::Int(cache.axis as i64))]);
            return Ok(());
        }
        let places = self.places(&dims, cache.axis)?;
        let operator = Operator::onnx("ScatterND", self.opset);
        let operands = vec![Some(cache.old), Some(places), Some(cache.added)];
        self.rewriter.redefine(cache.node, operator, operands, Vec::new());
        Ok(())
    }

    /// Returns the first new row for each item of the batch.
    fn place_of_batch(&mut self, batch: u64) -> Value {
        if let Some(found) = self.places.get(&(vec![batch], 0)) {
            return *found;
        }
        let extents = self.integers("cache_batch", &[1], &[batch as i64]);
        let made = self.node("Expand", vec![Some(self.count), Some(extents)], Vec::new(), self.first, "cache_place");
        self.places.insert((vec![batch], 0), made);
        made
    }

    /// Returns the indices of all new rows: a place on each axis up to that of the rows.
    fn places(&mut self, dims: &[u64], axis: usize) -> Result<Value, CacheError> {
        /// Largest number of indices: 32 MiB.
        const MAX_INDICES: u64 = 4 << 20;
        let mut key = dims[..=axis].to_vec();
        key[axis] = self.caches.rows;
        if let Some(found) = self.places.get(&(key.clone(), axis)) {
            return Ok(*found);
        }
        let depth = axis as u64 + 1;
        let count = key.iter().try_fold(depth, |count, extent| count.checked_mul(*extent)).filter(|count| *count <= MAX_INDICES);
        let Some(count) = count else {
            let why =
                "a run would write more rows than memc makes indices for: make the rows the first axes, or use operator set 24";
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
        let base = self.integers("cache_places", &shape, &items);
        let mut unit = vec![0i64; key.len()];
        unit[axis] = 1;
        let unit = self.integers("cache_axis", &[depth], &unit);
        let moved = self.node("Mul", vec![Some(self.count), Some(unit)], Vec::new(), self.first, "cache_moved");
        let made = self.node("Add", vec![Some(base), Some(moved)], Vec::new(), self.first, "cache_rows");
        self.places.insert((key, axis), made);
        Ok(made)
    }

    fn edit(&mut self, edit: &Edit) -> Result<(), CacheError> {
        match edit {
            Edit::Count { node, position, number } => {
                if let Some(value) = self.operand(*node, *position) {
                    let made = self.number(value, number)?;
                    self.rewriter.set_operand(*node, *position as u32, made);
                }
            }
            Edit::Hide { node, position, axis } => {
                if let Some(value) = self.operand(*node, *position) {
                    let made = self.hide(*node, value, *axis)?;
                    self.rewriter.set_operand(*node, *position as u32, made);
                }
            }
            Edit::Mask { node, position, queries, rows } => self.mask(*node, *position, [*queries, *rows]),
            Edit::Window { node, axis, number, rows } => self.window(*node, *axis, number, *rows),
            Edit::Extents { node } => self.extents(*node),
        }
        Ok(())
    }

    /// Returns a value that is computed from the number of valid rows, of the type of another value.
    fn number(&mut self, like: Value, number: &Number) -> Result<Value, CacheError> {
        let ty = self.module().ty(like).tensor().cloned();
        let (Some(ty), Some(dims)) = (ty, self.dims(like)) else { return Ok(like) };
        let rest = self.integers("cache_rest", &dims, &number.rest);
        let moved = match number.slope.iter().all(|slope| *slope == 1) {
            true => self.count,
            false => {
                let slope = self.integers("cache_slope", &dims, &number.slope);
                self.node("Mul", vec![Some(self.count), Some(slope)], Vec::new(), self.first, "cache_moved")
            }
        };
        let made = self.node("Add", vec![Some(moved), Some(rest)], Vec::new(), self.first, "cache_number");
        match ty.element {
            ElementType::Int64 => Ok(made),
            other => {
                let to = vec![("to".to_owned(), Attribute::Int(i64::from(other.to_onnx())))];
                Ok(self.node("Cast", vec![Some(made)], to, self.first, "cache_number"))
            }
        }
    }

    /// Returns a value whose rows that are not valid are minus infinity, or false, computed before a node.
    fn hide(&mut self, node: Node, value: Value, axis: usize) -> Result<Value, CacheError> {
        if let Some(found) = self.hidden.get(&(value, axis)) {
            return Ok(*found);
        }
        let element = self.module().ty(value).tensor().map(|ty| ty.element);
        if element == Some(ElementType::Bool) {
            let Some(dims) = self.dims(value) else { return Ok(value) };
            let valid = self.valid(dims.len() - axis - 1, dims[axis]);
            let made = self.node("And", vec![Some(valid), Some(value)], Vec::new(), Some(node), "cache_valid");
            self.hidden.insert((value, axis), made);
            return Ok(made);
        }
        let Some(lowest) = element.and_then(minus_infinity) else {
            return Err(CacheError::Together { why: format!("Softmax of {element:?} is not followed") });
        };
        let Some(dims) = self.dims(value) else { return Ok(value) };
        let valid = self.valid(dims.len() - axis - 1, dims[axis]);
        let ty = TensorType::fixed(element.unwrap_or(ElementType::Float), &[]);
        let lowest = self.constant("cache_hidden", ty, lowest);
        let made = self.node("Where", vec![Some(valid), Some(value), Some(lowest)], Vec::new(), Some(node), "cache_valid");
        // Computed before the first reader, so later readers can use it.
        self.hidden.insert((value, axis), made);
        Ok(made)
    }

    /// Adds a mask of valid rows for all queries as an operand.
    fn mask(&mut self, node: Node, position: usize, extents: [u64; 2]) {
        let valid = self.valid(0, extents[1]);
        let shape = self.integers("cache_shape", &[2], &extents.map(|extent| extent as i64));
        let made = self.node("Expand", vec![Some(valid), Some(shape)], Vec::new(), self.first, "cache_mask");
        let mut operands = self.module().node(node).inputs.clone();
        operands.resize(operands.len().max(position + 1), None);
        operands[position] = Some(made);
        self.rewriter.set_operands(node, operands);
    }

    /// Returns which of `extent` rows are valid after the run, with `after` further axes.
    fn valid(&mut self, after: usize, extent: u64) -> Value {
        let capacity = self.caches.past + self.caches.rows;
        let beyond = self.caches.rows as i64 + extent as i64 - capacity as i64;
        if let Some(found) = self.valid.get(&(after, extent, beyond)) {
            return *found;
        }
        let [zero, one, limit, rest] = [0, 1, extent as i64, beyond].map(|number| self.integers("cache_number", &[], &[number]));
        let rows = self.node("Range", vec![Some(zero), Some(limit), Some(one)], Vec::new(), self.first, "cache_row");
        let end = self.node("Add", vec![Some(self.count), Some(rest)], Vec::new(), self.first, "cache_end");
        let mut made = self.node("Less", vec![Some(rows), Some(end)], Vec::new(), self.first, "cache_is_valid");
        if after > 0 {
            let mut shape = vec![1i64; after + 1];
            shape[0] = extent as i64;
            let shape = self.integers("cache_shape", &[after as u64 + 1], &shape);
            made = self.node("Reshape", vec![Some(made), Some(shape)], Vec::new(), self.first, "cache_is_valid");
        }
        self.valid.insert((after, extent, beyond), made);
        made
    }

    /// Replaces the moving limits of Slice along an axis by a lookup of these rows.
    fn window(&mut self, node: Node, axis: usize, number: &Number, rows: u64) {
        let Some(whole) = self.operand(node, 0) else { return };
        let items: Vec<i64> = (0..rows as i64).map(|row| row.saturating_add(number.rest[0])).collect();
        let offsets = self.integers("cache_offsets", &[rows], &items);
        let indices = self.node("Add", vec![Some(self.count), Some(offsets)], Vec::new(), self.first, "cache_window");
        let attributes = vec![("axis".to_owned(), Attribute::Int(axis as i64))];
        let taken = self.node("Gather", vec![Some(whole), Some(indices)], attributes, Some(node), "cache_window");
        // Slice keeps all rows of the window, and its other limits.
        let read =
            |writer: &Self, position: usize| writer.operand(node, position).and_then(|value| writer.lengths.integers(value));
        let (Some(mut starts), Some(mut ends)) = (read(self, 1), read(self, 2)) else { return };
        let rank = self.dims(whole).map_or(0, |dims| dims.len());
        let axes = read(self, 3).unwrap_or_else(|| (0..starts.len() as i64).collect());
        for (index, own) in axes.iter().enumerate() {
            if memc_ops::normalize_axis(*own, rank) == Some(axis) {
                (starts[index], ends[index]) = (0, rows as i64);
            }
        }
        let count = starts.len() as u64;
        let starts = self.integers("cache_starts", &[count], &starts);
        let ends = self.integers("cache_ends", &[count], &ends);
        for (position, value) in [(0, taken), (1, starts), (2, ends)] {
            self.rewriter.set_operand(node, position, value);
        }
    }

    /// Replaces Shape of a cache by the extents before the run, as the given model reads them.
    fn extents(&mut self, node: Node) {
        let Some(result) = self.module().node(node).results().next() else { return };
        let Some(items) = self.lengths.integers(result) else { return };
        let made = self.integers("cache_extents", &[items.len() as u64], &items);
        self.rewriter.replace_uses(result, made);
        self.rewriter.erase(node);
    }

    fn module(&self) -> &Module {
        self.rewriter.module()
    }

    fn operand(&self, node: Node, position: usize) -> Option<Value> {
        self.module().node(node).inputs.get(position).copied().flatten()
    }

    /// Returns the extents of a value of the given model, or of one that was made here.
    fn dims(&self, value: Value) -> Option<Vec<u64>> {
        self.module().ty(value).tensor()?.known_dims()
    }

    fn node(
        &mut self,
        name: &str,
        inputs: Vec<Option<Value>>,
        attributes: Vec<(String, Attribute)>,
        before: Option<Node>,
        hint: &str,
    ) -> Value {
        let operator = Operator::onnx(name, self.opset);
        let result = self.rewriter.fresh_name(hint);
        let new = NewNode { operator, name: String::new(), inputs, attributes, origin: ORIGIN };
        let main = self.module().main();
        let node = self.rewriter.insert(main, before, new, &[Some((result, ValueType::Unknown))]);
        self.module().node(node).outputs.first().copied().flatten().unwrap_or(self.count)
    }

    fn integers(&mut self, hint: &str, dims: &[u64], items: &[i64]) -> Value {
        let raw: Vec<u8> = items.iter().flat_map(|item| item.to_le_bytes()).collect();
        self.constant(hint, TensorType::fixed(ElementType::Int64, dims), raw)
    }

    fn constant(&mut self, hint: &str, ty: TensorType, raw: Vec<u8>) -> Value {
        let main = self.module().main();
        let name = self.rewriter.fresh_name(hint);
        self.rewriter.initializer(main, &name, ConstData { ty, payload: Payload::Raw(raw.into()), origin: ConstOrigin::New })
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
