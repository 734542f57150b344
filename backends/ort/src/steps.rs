//! Verifies plans with caches step by step: the given model with caches that grow, and the written model
//! with caches in buffers, on equal inputs.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Dim, DimExpr};
use memc_layout::{Cache, Layout};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::tensor_proto::DataType;
use memc_onnx_proto::onnx::tensor_shape_proto::dimension::Value as Extent;
use memc_onnx_proto::onnx::type_proto::Value as Kind;

use crate::arrays::{Array, TensorView};
use crate::compare::{Tolerances, compare};
use crate::content::Content;
use crate::error::Error;
use crate::inputs;
use crate::loss::Loss;
use crate::options::{PlayOptions, reference};
use crate::player::Player;
use crate::point::{self, Point};
use crate::runtime::Runtime;
use crate::verified::{Stock, Subject, Verified, VerifyOptions};
use crate::whole::Whole;

/// Steps from an empty buffer, and steps up to a full one.
const STEPS: u64 = 4;

/// Arrays by name.
type Arrays = BTreeMap<String, Array>;

/// Both models, the plan, and the number of rows of its caches.
pub(crate) struct Steps<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) given: &'a ModelFile,
    pub(crate) out: &'a ModelFile,
    pub(crate) layout: &'a Layout,
    pub(crate) options: &'a VerifyOptions,
    pub(crate) tolerances: &'a Tolerances,
    pub(crate) is_lossy: bool,
}

impl<'a> Steps<'a> {
    /// Runs steps of both models and of the plan, and compares all outputs; of a buffer, the valid rows.
    /// With `real` there is one step on these inputs of the written model. With points, each one has
    /// steps: new rows as at the point into an empty buffer and into a nearly full one, then few rows at a
    /// time.
    pub(crate) fn compare(
        &self,
        real: Option<&Arrays>,
        points: &[Point],
        mut found: Verified,
    ) -> Result<Verified, Error> {
        let Some(first) = self.layout.caches.first() else { return Ok(found) };
        let given = Whole::as_stated(self.runtime, self.given, reference(self.layout))?;
        let out = Whole::as_stated(self.runtime, self.out, reference(self.layout))?;
        let loss = self.is_lossy.then(|| Loss::new(self.options.lossy_bound));
        let mut run = Run { steps: self, count: &first.count, given, out, loss };
        match points {
            [] => {
                let mut phase = self.phase(self.layout.clone())?;
                let past = phase.past();
                match real {
                    Some(real) => {
                        run.sequence(
                            0,
                            real_count(real, first).unwrap_or(past),
                            1,
                            Some(real),
                            &mut [&mut phase],
                            &mut found,
                        )?;
                    }
                    None => {
                        let starts = self.starts(past, phase.rows());
                        for (round, start) in (0..self.options.rounds.max(1))
                            .flat_map(|round| starts.iter().map(move |at| (round, *at)))
                        {
                            run.sequence(round, start, STEPS, None, &mut [&mut phase], &mut found)?;
                        }
                    }
                }
            }
            _ => {
                for (round, point) in (0u64..).zip(points) {
                    let mut many = self.phase(point::at(self.layout, point)?)?;
                    let past = many.past();
                    if let Some(real) = real {
                        let start = real_count(real, first).unwrap_or(past);
                        run.sequence(round, start, 1, Some(real), &mut [&mut many], &mut found)?;
                        continue;
                    }
                    let narrow = self.narrow(point).filter(|narrow| narrow != point);
                    let mut few =
                        narrow.map(|narrow| self.phase(point::at(self.layout, &narrow)?)).transpose()?;
                    let least = few.as_ref().map_or(many.rows(), Phase::rows);
                    let mut phases: Vec<&mut Phase<'_>> =
                        std::iter::once(&mut many).chain(few.as_mut()).collect();
                    let last = past.saturating_sub(least.saturating_mul(STEPS - 1));
                    let starts = if past == 0 {
                        vec![0]
                    } else if last == 0 {
                        vec![0, past]
                    } else {
                        vec![0, last, past]
                    };
                    for start in starts {
                        run.sequence(round, start, STEPS, None, &mut phases, &mut found)?;
                    }
                }
                found.points = points.to_vec();
            }
        }
        found.loss = run.loss;
        found.stock =
            Stock { differences: Vec::new(), refused: Some("caches were compared step by step".to_owned()) };
        Ok(found)
    }

    /// Returns the numbers of valid rows from which steps begin.
    fn starts(&self, past: u64, rows: u64) -> Vec<u64> {
        let last = past.saturating_sub(rows.saturating_mul(STEPS - 1));
        let grows = self.layout.caches.first().is_some_and(|first| !first.grows.is_empty());
        match (grows, last) {
            (false, _) => vec![past],
            (true, 0) => vec![0],
            (true, last) => vec![0, last],
        }
    }

    /// Returns a point with as few new rows as the ranges allow, and at least one.
    fn narrow(&self, point: &Point) -> Option<Point> {
        let first = self.layout.caches.first()?;
        let rows = DimExpr::parse_quoted(first.rows_expr.as_ref()?)?;
        let symbols: BTreeSet<String> = rows.symbols().iter().map(ToString::to_string).collect();
        let mut narrow = point.clone();
        for (name, extent) in narrow.0.iter_mut().filter(|(name, _)| symbols.contains(*name)) {
            let range = self.layout.model.ranges.get(name)?;
            *extent = if range.min == 0 { range.step.min(range.max) } else { range.min };
        }
        point::keeps(self.layout, &narrow).is_ok().then_some(narrow)
    }

    /// Prepares the plan at fixed extents.
    fn phase(&self, layout: Layout) -> Result<Phase<'a>, Error> {
        let options = PlayOptions {
            poison_check: self.options.poison_check,
            swap_folder: self.options.swap_folder.clone(),
            ..PlayOptions::default()
        };
        let player = Player::new(self.runtime, self.out, &layout, options)?;
        Ok(Phase { layout, player })
    }

    /// Returns the extents of an input of the given model with `rows` rows in its caches.
    fn extents(&self, layout: &Layout, name: &str, rows: u64) -> Option<Vec<u64>> {
        let first = layout.caches.first()?;
        let missing = first.capacity.saturating_sub(first.rows).saturating_sub(rows);
        let mut dims = layout.model.dims.clone();
        for (name, extent) in &first.grows {
            dims.insert(name.clone(), extent.saturating_sub(missing));
        }
        let info = self.given.graph().input.iter().find(|info| info.name() == name)?;
        let Some(Kind::TensorType(tensor)) = info.r#type.as_ref()?.value.as_ref() else { return None };
        let extent = |(axis, value): (usize, &Option<Extent>)| match value {
            Some(Extent::DimValue(extent)) if *extent >= 0 => u64::try_from(*extent).ok(),
            Some(Extent::DimParam(text)) if !text.is_empty() && text != "?" => {
                Dim::from_name(text).bind(&dims).known()
            }
            _ => Dim::from_expr(DimExpr::symbol(&format!("{name}.{axis}"))).bind(&dims).known(),
        };
        tensor.shape.as_ref()?.dim.iter().map(|dim| &dim.value).enumerate().map(extent).collect()
    }
}

/// The plan at fixed extents.
struct Phase<'r> {
    layout: Layout,
    player: Player<'r>,
}

impl Phase<'_> {
    /// Number of rows that a run appends.
    fn rows(&self) -> u64 {
        self.layout.caches.first().map_or(0, |first| first.rows)
    }

    /// Largest number of rows before a run.
    fn past(&self) -> u64 {
        self.layout.caches.first().map_or(0, |first| first.capacity.saturating_sub(first.rows))
    }
}

/// Returns the number of valid rows that given inputs state.
fn real_count(real: &Arrays, row: &Cache) -> Option<u64> {
    let bytes = real.get(&row.count)?.bytes().try_into().ok()?;
    u64::try_from(i64::from_le_bytes(bytes)).ok()
}

/// Sessions of both models.
struct Run<'a, 'r> {
    steps: &'a Steps<'r>,
    /// Name of the input with the number of valid rows.
    count: &'a str,
    given: Whole<'r>,
    out: Whole<'r>,
    loss: Option<Loss>,
}

impl Run<'_, '_> {
    /// Runs up to `count` steps from `start` valid rows on: the first in the first phase, others in the
    /// last one.
    fn sequence(
        &mut self,
        round: u64,
        start: u64,
        count: u64,
        real: Option<&Arrays>,
        phases: &mut [&mut Phase<'_>],
        found: &mut Verified,
    ) -> Result<(), Error> {
        let steps = self.steps;
        let mut rows = start;
        let (mut pasts, mut buffers): (Arrays, Arrays) = Default::default();
        for step in 0..count {
            // A nearly full buffer may have no room for the rows of the first phase.
            let at = if step == 0 && phases.first().is_some_and(|phase| rows <= phase.past()) {
                0
            } else {
                phases.len() - 1
            };
            let Some(phase) = phases.get_mut(at).filter(|phase| rows <= phase.past()) else { break };
            let seed = steps.options.seed.wrapping_add(round).wrapping_add(step << 32);
            let mut written = match real {
                Some(real) => real
                    .iter()
                    .map(|(name, array)| Ok((name.clone(), Array::of(&array.view())?)))
                    .collect::<Result<_, _>>()?,
                None => inputs::make(steps.out, &phase.layout, seed)?,
            };
            written.extend(std::mem::take(&mut buffers));
            let number = i64::try_from(rows).unwrap_or(i64::MAX).to_le_bytes();
            if let Some(element) = written.get(self.count).map(|array| array.element)
                && let Some(array) = Array::new(element, Vec::new(), &number)?
            {
                written.insert(self.count.to_owned(), array);
            }
            let mut given = self.given_inputs(&phase.layout, &written, rows, std::mem::take(&mut pasts))?;
            (pasts, buffers) = match self.step(round, rows, [&given, &written], phase, found) {
                // Random positions may lie beyond the rows that the given model has at this step.
                Err(Error::Given { .. }) if real.is_none() => {
                    let valid = rows.saturating_add(phase.rows());
                    for (name, array) in given.iter_mut().chain(&mut written) {
                        if name != self.count {
                            reduce(array, valid)?;
                        }
                    }
                    self.step(round, rows, [&given, &written], phase, found)?
                }
                outcome => outcome?,
            };
            rows = rows.saturating_add(phase.rows());
            found.steps += 1;
        }
        Ok(())
    }

    /// Returns the inputs of the given model: the valid part of the inputs of the written model.
    fn given_inputs(
        &self,
        layout: &Layout,
        written: &Arrays,
        rows: u64,
        mut pasts: Arrays,
    ) -> Result<Arrays, Error> {
        let steps = self.steps;
        let mut inputs = Arrays::new();
        for (name, array) in written.iter().filter(|(name, _)| *name != self.count) {
            let part = match pasts.remove(name) {
                Some(past) => past,
                None => {
                    let extents = steps.extents(layout, name, rows).unwrap_or_else(|| array.shape.clone());
                    cut(&array.view(), &extents)?.ok_or_else(|| Error::Input {
                        input: name.clone(),
                        reason: format!(
                            "has {:?} in the plan, and {extents:?} in the given model",
                            array.shape
                        ),
                    })?
                }
            };
            inputs.insert(name.clone(), part);
        }
        Ok(inputs)
    }

    /// Runs one step of both models and of the plan, and notes all differences. Returns the caches of the
    /// given model and the buffers of the plan, by the names of their inputs.
    fn step(
        &mut self,
        round: u64,
        rows: u64,
        inputs: [&Arrays; 2],
        phase: &mut Phase<'_>,
        found: &mut Verified,
    ) -> Result<(Arrays, Arrays), Error> {
        let (steps, valid) = (self.steps, rows.saturating_add(phase.rows()));
        let expected = self.given.contents(inputs[0]).map_err(|error| match error {
            Error::Runtime { message, .. } => Error::Given { message },
            error => error,
        })?;
        let expected = expected.0;
        let results = self.valid(self.out.contents(inputs[1])?.0, valid)?;
        found.outputs = expected.len();
        let mut note = |subject: Subject, differences: Vec<crate::compare::Difference>| {
            found.differences.extend(differences.into_iter().map(|mut difference| {
                difference.output = format!("{} at {rows} rows", difference.output);
                (round, subject, difference)
            }));
        };
        match &mut self.loss {
            Some(loss) => note(Subject::Model, loss.add(&expected, &results, steps.tolerances)),
            None => note(Subject::Model, compare(&expected, &results, steps.tolerances)),
        }
        let played = phase.player.play(inputs[1])?;
        let whole: BTreeMap<String, Content<'static>> = phase
            .player
            .outputs()?
            .into_iter()
            .map(|(name, content)| Ok((name, content.into_owned()?)))
            .collect::<Result<_, Error>>()?;
        let mut buffers = Arrays::new();
        for row in &steps.layout.caches {
            if let Some(view) = whole.get(&row.output).and_then(Content::tensor) {
                buffers.insert(row.input.clone(), Array::of(&view)?);
            }
        }
        let parts = self.valid(whole, valid)?;
        note(
            Subject::Plan,
            compare(if self.loss.is_some() { &results } else { &expected }, &parts, steps.tolerances),
        );
        found.played = Some(played);
        let mut pasts = Arrays::new();
        for row in &steps.layout.caches {
            if let Some(view) = expected.get(&row.output).and_then(Content::tensor) {
                pasts.insert(row.input.clone(), Array::of(&view)?);
            }
        }
        Ok((pasts, buffers))
    }

    /// Cuts buffers to their valid rows.
    fn valid(
        &self,
        mut outputs: BTreeMap<String, Content<'static>>,
        rows: u64,
    ) -> Result<BTreeMap<String, Content<'static>>, Error> {
        for row in &self.steps.layout.caches {
            let Some(view) = outputs.get(&row.output).and_then(Content::tensor) else { continue };
            let mut extents = view.shape.clone();
            if let Some(extent) = usize::try_from(row.axis).ok().and_then(|axis| extents.get_mut(axis)) {
                *extent = rows;
            }
            if let Some(part) = cut(&view, &extents)? {
                outputs.insert(row.output.clone(), Content::Array(part));
            }
        }
        Ok(outputs)
    }
}

/// Takes the remainders of 64-bit integers by a number of rows.
fn reduce(array: &mut Array, rows: u64) -> Result<(), Error> {
    let by = i64::try_from(rows.max(1)).unwrap_or(i64::MAX);
    if array.element.data_type() != DataType::Int64 {
        return Ok(());
    }
    let remainder = |item: &[u8]| {
        item.try_into().map(i64::from_le_bytes).map_or(0, |item| item.rem_euclid(by)).to_le_bytes()
    };
    let bytes: Vec<u8> = array.bytes().chunks_exact(8).flat_map(remainder).collect();
    if let Some(reduced) = Array::new(array.element, array.shape.clone(), &bytes)? {
        *array = reduced;
    }
    Ok(())
}

/// Returns the first elements of each axis; `None` if the array is smaller.
fn cut(view: &TensorView<'_>, extents: &[u64]) -> Result<Option<Array>, Error> {
    if view.shape == extents {
        return Array::of(view).map(Some);
    }
    let width = view.element.bytes(&[1]).and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(1);
    let fits = view.shape.len() == extents.len()
        && view.shape.iter().zip(extents).all(|(whole, part)| part <= whole);
    if !fits || view.element.packed_bits().is_some() {
        return Ok(None);
    }
    // Rows of the last axis are contiguous in both arrays.
    let run = extents.last().map_or(1, |extent| usize::try_from(*extent).unwrap_or(0)) * width;
    let outer = &extents[..extents.len().saturating_sub(1)];
    let mut place = vec![0u64; outer.len()];
    let copy = |bytes: &mut [u8]| {
        for part in bytes.chunks_exact_mut(run.max(1)) {
            let mut at = 0u64;
            for (axis, extent) in view.shape.iter().enumerate() {
                at = at * extent + place.get(axis).copied().unwrap_or(0);
            }
            let start = usize::try_from(at).unwrap_or(usize::MAX).saturating_mul(width);
            if let Some(from) = view.bytes.get(start..start.saturating_add(run)) {
                part.copy_from_slice(from);
            }
            for axis in (0..outer.len()).rev() {
                place[axis] += 1;
                if place[axis] < outer[axis] {
                    break;
                }
                place[axis] = 0;
            }
        }
        Ok(())
    };
    Array::filled(view.element, extents.to_vec(), copy)
}
