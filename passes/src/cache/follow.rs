//! Follows the nodes of a model in order, and compares the rows of each result with the extents that grow.

use memc_ir::{ElementType, Node, Value};

use super::flow::Flow;
use super::lengths::{Kind, Lengths};
use super::pairs::Caches;
use super::rows::{Edit, Fill, Pad};
use super::rules;
use crate::buffer::CacheError;

/// Returns the changes that keep every valid element.
pub(super) fn follow(lengths: &Lengths, caches: &Caches) -> Result<Vec<Edit>, CacheError> {
    let mut flow = Flow::new(lengths, caches);
    let module = flow.module();
    let main = module.graph(module.main());
    for input in main.inputs.iter().filter(|input| caches.of_old(**input).is_none()) {
        flow.input(*input)?;
    }
    for node in &main.nodes {
        flow.node(*node)?;
    }
    for output in &main.outputs {
        let is_cache = caches.all.iter().any(|cache| cache.new == *output);
        let grows =
            flow.pads[*output].is_some() || matches!(lengths.kind(*output, &caches.past), Kind::Linear(_));
        if grows && !is_cache {
            let value = module.value(*output).name.clone();
            let why = "it is a graph output: name its pair, too, or do not return it".to_owned();
            return Err(CacheError::Exact { node: value.clone(), operator: "output".to_owned(), value, why });
        }
    }
    Ok(flow.edits)
}

impl Flow<'_> {
    /// Pads a graph input that grows: the caller passes full extents.
    fn input(&mut self, input: Value) -> Result<(), CacheError> {
        match self.lengths.growing_axes(input).as_deref() {
            Some([]) => Ok(()),
            Some([axis]) if self.lengths.growth(input, *axis) == Some(1) => {
                self.pads.set(input, Some(Pad { axis: *axis, fill: Fill::Any }));
                Ok(())
            }
            _ => {
                let value = self.module().value(input).name.clone();
                let why = "more than one axis grows with the rows, or not by one".to_owned();
                Err(CacheError::Exact { node: value.clone(), operator: "input".to_owned(), value, why })
            }
        }
    }

    fn node(&mut self, node: Node) -> Result<(), CacheError> {
        let module = self.module();
        let data = module.node(node);
        if let Some(cache) = self.caches.of_node(node) {
            self.pads.set(cache.new, Some(Pad { axis: cache.axis, fill: Fill::Finite }));
            return Ok(());
        }
        let reads = module.reads(node);
        if let Some(old) = reads.iter().copied().find(|value| self.caches.of_old(*value).is_some()) {
            if !data.operator.domain.is_empty() || &*data.operator.name != "Shape" {
                return self.refuse(node, Some(old), "it reads the cache before the new rows are written");
            }
            self.edits.push(Edit::Extents { node });
            return Ok(());
        }
        // Extents do not depend on elements.
        let reads_extents =
            data.operator.domain.is_empty() && matches!(&*data.operator.name, "Shape" | "Size");
        if !reads_extents && reads.iter().any(|value| self.moved[*value]) {
            data.results().for_each(|result| self.moved.set(result, true));
        }
        let is_touched = |value: Value| {
            self.pads[value].is_some()
                || matches!(self.lengths.kind(value, &self.caches.past), Kind::Linear(_))
        };
        let grows = |value: Value| self.lengths.growing_axes(value).is_none_or(|axes| !axes.is_empty());
        if !reads.iter().any(|value| is_touched(*value))
            && !data.results().any(|value| is_touched(value) || grows(value))
        {
            return Ok(());
        }
        if data.bodies().next().is_some() {
            let value = reads.iter().copied().find(|value| is_touched(*value));
            return self.refuse(node, value, "bodies of control flow are not followed");
        }
        if data.results().all(|result| self.is_known(result) && !self.moved[result]) {
            return Ok(());
        }
        let count = self.edits.len();
        let results = rules::apply(self, node)?;
        let moves =
            |edit: &Edit| matches!(edit, Edit::Count { .. } | Edit::Window { .. } | Edit::Offset { .. });
        if self.edits[count..].iter().any(moves) {
            data.results().for_each(|result| self.moved.set(result, true));
        }
        for (position, result) in data.outputs.iter().enumerate() {
            let Some(result) = *result else { continue };
            let pad = results.get(position).copied().flatten().map(|pad| self.at_any_count(result, pad));
            self.audit(node, result, pad)?;
            self.pads.set(result, pad);
        }
        Ok(())
    }

    /// Elements that a run computes from the number of valid rows are those of the given model only at
    /// valid rows.
    fn at_any_count(&self, result: Value, pad: Pad) -> Pad {
        let element = self.module().ty(result).tensor().map(|ty| ty.element);
        let fill = match (pad.fill, self.moved[result]) {
            (Fill::Full, true) if element.is_some_and(is_whole) => Fill::Finite,
            (Fill::Full, true) => Fill::Any,
            (fill, _) => fill,
        };
        Pad { fill, ..pad }
    }

    /// Whether inference knows all elements of a value as integers that depend on nothing but extents, so
    /// that every reader can compute them.
    fn is_known(&self, value: Value) -> bool {
        let is_fixed = self.lengths.growing_axes(value).is_some_and(|axes| axes.is_empty());
        let known = match self.lengths.kind(value, &self.caches.past) {
            Kind::Linear(_) => true,
            Kind::Fixed => self.lengths.is_constant(value),
            Kind::Other => false,
        };
        is_fixed && known
    }

    /// Compares the rows of a result with the extents that grow.
    fn audit(&self, node: Node, result: Value, pad: Option<Pad>) -> Result<(), CacheError> {
        if self.lengths.less.is_none() {
            return Ok(());
        }
        match (self.lengths.growing_axes(result).as_deref(), pad) {
            (Some([]), None) => Ok(()),
            (Some([axis]), Some(pad))
                if *axis == pad.axis && self.lengths.growth(result, *axis) == Some(1) =>
            {
                Ok(())
            }
            _ => self.refuse(
                node,
                Some(result),
                "the extents of its result grow in a way that is not followed",
            ),
        }
    }
}

/// Whether all numbers of a type are finite.
fn is_whole(element: ElementType) -> bool {
    use ElementType::{Bool, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64};
    matches!(element, Bool | Int8 | Int16 | Int32 | Int64 | Uint8 | Uint16 | Uint32 | Uint64)
}
