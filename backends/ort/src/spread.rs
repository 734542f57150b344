//! How far the given model's own results lie apart when its kernels round otherwise: in a session with all
//! optimizations, with the rows of a batch run one at a time, and with weights that are one rounding off.

use std::collections::BTreeMap;

use memc_layout::Layout;
use memc_onnx_proto::ModelFile;

use crate::arrays::{Array, TensorView};
use crate::compare::{DifferenceKind, Tolerance, difference, number};
use crate::content::Content;
use crate::error::Error;
use crate::options::reference;
use crate::runtime::{Runtime, SessionOptions};
use crate::whole::Whole;

/// Most rows that run one at a time.
const MAX_ROWS: u64 = 8;
/// Largest spread, as a share of the largest finite number of a result. What lies further apart is no matter
/// of rounding: such a model mixes its rows, and says nothing about their sums.
const MAX_SHARE: f64 = 1e-2;

/// Returns, for each floating-point output that differs between runs of the given model itself, the largest
/// difference. Runs that the model refuses are left out.
///
/// # Errors
/// The model does not load or run as it is, or there is no memory for its inputs.
pub(crate) fn spread(
    runtime: &Runtime,
    given: &ModelFile,
    layout: &Layout,
    set: &BTreeMap<String, Array>,
) -> Result<BTreeMap<String, f64>, Error> {
    let whole = Whole::as_stated(runtime, given, reference(layout))?;
    let expected = whole.contents(set)?.0;
    let mut found = BTreeMap::new();
    let stock = Whole::new(runtime, given, SessionOptions::STOCK);
    let nudged = Whole::nudged(runtime, given, reference(layout));
    let others = [stock, nudged].map(|session| session.and_then(|session| Ok(session.contents(set)?.0)));
    for (name, content) in others.into_iter().flat_map(Result::unwrap_or_default) {
        let pair = expected.get(&name).and_then(Content::tensor).zip(content.tensor());
        widen(&mut found, name, pair.and_then(|(expected, other)| between(&expected, &other)));
    }
    rows_apart(&whole, set, &expected, &mut found)?;
    let range =
        |name: &String| expected.get(name).and_then(Content::tensor).map_or(0.0, |view| largest(&view));
    found.retain(|name, apart| *apart > 0.0 && *apart <= MAX_SHARE * range(name));
    Ok(found)
}

/// Widens the spread by the differences of rows that run one at a time.
fn rows_apart(
    whole: &Whole<'_>,
    set: &BTreeMap<String, Array>,
    expected: &BTreeMap<String, Content<'_>>,
    found: &mut BTreeMap<String, f64>,
) -> Result<(), Error> {
    let Some(rows) = rows(expected) else { return Ok(()) };
    for row in 0..rows.min(MAX_ROWS) {
        let Some(apart) = inputs_of_row(set, row, rows)? else { break };
        let Ok((results, _)) = whole.contents(&apart) else { break };
        for (name, content) in results {
            let one = expected.get(&name).and_then(Content::tensor);
            let pair = one.as_ref().and_then(|one| row_of(one, row, rows)).zip(content.tensor());
            widen(found, name, pair.and_then(|(expected, other)| between(&expected, &other)));
        }
    }
    Ok(())
}

/// Records a difference of an output. One that cannot be measured rules the output out.
fn widen(found: &mut BTreeMap<String, f64>, name: String, apart: Option<f64>) {
    let apart = apart.unwrap_or(f64::INFINITY);
    found.entry(name).and_modify(|most| *most = most.max(apart)).or_insert(apart);
}

/// Returns the number of rows: the first extent that all outputs have; `None` below two.
fn rows(outputs: &BTreeMap<String, Content<'_>>) -> Option<u64> {
    let mut extents = outputs.values().map(|content| content.tensor()?.shape.first().copied());
    let first = extents.next()??;
    (first > 1 && extents.all(|extent| extent == Some(first))).then_some(first)
}

/// Returns the inputs of one row: those with an extent of `rows` at their first axis are cut; `None` if there
/// are none.
fn inputs_of_row(
    set: &BTreeMap<String, Array>,
    row: u64,
    rows: u64,
) -> Result<Option<BTreeMap<String, Array>>, Error> {
    let mut cut = false;
    let mut apart = BTreeMap::new();
    for (name, array) in set {
        let view = array.view();
        let own = row_of(&view, row, rows);
        cut |= own.is_some();
        apart.insert(name.clone(), Array::of(&own.unwrap_or(view))?);
    }
    Ok(cut.then_some(apart))
}

/// Returns one of `rows` rows of an array; `None` if the array's first extent is another, or if several
/// elements share a byte.
fn row_of<'v>(view: &TensorView<'v>, row: u64, rows: u64) -> Option<TensorView<'v>> {
    let others = view.shape.split_first().filter(|(first, _)| **first == rows)?.1;
    let shape: Vec<u64> = std::iter::once(1).chain(others.iter().copied()).collect();
    let bytes = usize::try_from(view.element.bytes(&shape)?).ok()?;
    let at = usize::try_from(row).ok()?.checked_mul(bytes)?;
    let is_whole = view.element.packed_bits().is_none();
    Some(TensorView { element: view.element, shape, bytes: view.bytes.get(at..at.checked_add(bytes)?)? })
        .filter(|_| is_whole)
}

/// Returns the largest difference of two arrays; `None` if they are no arrays of equal type and shape, or
/// differ by more than a finite number.
fn between(expected: &TensorView<'_>, found: &TensorView<'_>) -> Option<f64> {
    match difference(expected, found, Tolerance::default()) {
        None => Some(0.0),
        Some(DifferenceKind::Elements { absolute, .. }) => Some(absolute).filter(|apart| apart.is_finite()),
        Some(_) => None,
    }
}

/// Returns the largest finite magnitude of an array.
fn largest(view: &TensorView<'_>) -> f64 {
    let ty = view.element.data_type();
    let sizes = view.elements().filter_map(|bytes| number(ty, bytes)).map(f64::abs);
    sizes.filter(|size| size.is_finite()).fold(0.0, f64::max)
}
