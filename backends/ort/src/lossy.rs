//! Error of results that a plan may change: the root of the sum of squared differences, as a share of that
//! of the squared expected numbers.

use std::collections::BTreeMap;

use crate::compare::{Difference, DifferenceKind, number};
use crate::content::Content;

/// Error of the floating-point results of one run, of each output and of all outputs together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LossyError {
    /// Relative error by name of the output, the largest first.
    pub outputs: Vec<(String, f64)>,
    /// Relative error of all outputs together.
    pub all: f64,
}

/// Sums of squares.
#[derive(Clone, Copy, Default)]
struct Squares {
    errors: f64,
    expected: f64,
}

impl Squares {
    fn add(&mut self, other: Self) {
        self.errors += other.errors;
        self.expected += other.expected;
    }

    /// Relative error: 0 without a difference, infinite if numbers are expected to be zero or if one side
    /// is not finite.
    fn relative(self) -> f64 {
        if self.errors == 0.0 { 0.0 } else { (self.errors / self.expected).sqrt() }
    }
}

/// Returns the error of results. Integers and other kinds of results do not count.
pub(crate) fn error(expected: &BTreeMap<String, Content<'_>>, found: &BTreeMap<String, Content<'_>>) -> LossyError {
    let (mut outputs, mut all) = (Vec::new(), Squares::default());
    for (name, expected) in expected {
        let Some(squares) = found.get(name).and_then(|found| squares(expected, found)) else { continue };
        all.add(squares);
        outputs.push((name.clone(), squares.relative()));
    }
    outputs.sort_by(|a, b| b.1.total_cmp(&a.1));
    LossyError { outputs, all: all.relative() }
}

/// Returns the sums of squares of floating-point arrays of one type and shape, or of sequences of them.
fn squares(expected: &Content<'_>, found: &Content<'_>) -> Option<Squares> {
    if let (Content::Sequence(expected), Content::Sequence(found)) = (expected, found) {
        let mut sum = Squares::default();
        expected.iter().zip(found).filter_map(|(expected, found)| squares(expected, found)).for_each(|part| sum.add(part));
        return Some(sum);
    }
    let (expected, found) = expected.tensor().zip(found.tensor())?;
    let ty = expected.element.data_type();
    (expected.element == found.element && expected.shape == found.shape && is_float(&expected)).then_some(())?;
    let mut sum = Squares::default();
    for (a, b) in expected.elements().zip(found.elements()) {
        let (a, b) = number(ty, a).zip(number(ty, b))?;
        // Equal infinities, and NaN on both sides, are no difference.
        if a == b || a.is_nan() && b.is_nan() {
            sum.expected += if a.is_finite() { a * a } else { 0.0 };
            continue;
        }
        let gap = a - b;
        sum.errors += if gap.is_finite() { gap * gap } else { f64::INFINITY };
        sum.expected += if a.is_finite() { a * a } else { 0.0 };
    }
    Some(sum)
}

fn is_float(view: &crate::arrays::TensorView<'_>) -> bool {
    use memc_onnx_proto::onnx::tensor_proto::DataType::{Bfloat16, Double, Float, Float16};
    matches!(view.element.data_type(), Float | Double | Float16 | Bfloat16)
}

/// Judges differences between floating-point numbers by the error of all results together.
pub(crate) fn judge(differences: &mut [Difference], found: &LossyError, bound: f64) {
    let holds = found.all <= bound;
    for difference in differences {
        let name = difference.output.split('[').next().unwrap_or_default();
        let is_counted = found.outputs.iter().any(|(counted, _)| counted == name);
        if let DifferenceKind::Elements { within, .. } = &mut difference.kind
            && is_counted
        {
            *within = holds;
        }
    }
}
