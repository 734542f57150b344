//! Einsum: sums of products over labeled axes.

use std::collections::BTreeMap;

use memc_ir::Dim;

use crate::context::{Infer, InferError, broadcast};
use crate::families::dims::agree;
use crate::info::{OpInfo, Typed, Work};

/// Axis labels of one operand or of the result.
#[derive(Debug, PartialEq, Eq)]
struct Term {
    /// Labels before the ellipsis, or all labels without an ellipsis.
    before: Vec<u8>,
    /// Labels after the ellipsis; `None` without an ellipsis.
    after: Option<Vec<u8>>,
}

impl Term {
    fn parse(text: &str) -> Result<Self, InferError> {
        let bad = |why: String| InferError::BadAttribute { name: "equation", why };
        let labels = |part: &str| -> Result<Vec<u8>, InferError> {
            match part.bytes().find(|label| !label.is_ascii_alphabetic()) {
                Some(label) => Err(bad(format!("`{}` is not a label", char::from(label)))),
                None => Ok(part.bytes().collect()),
            }
        };
        match text.split_once("...") {
            Some((before, after)) => Ok(Self { before: labels(before)?, after: Some(labels(after)?) }),
            None => Ok(Self { before: labels(text)?, after: None }),
        }
    }
    fn labels(&self) -> impl Iterator<Item = u8> + '_ {
        self.before.iter().chain(self.after.iter().flatten()).copied()
    }
    fn count(&self) -> usize {
        self.before.len() + self.after.as_ref().map_or(0, Vec::len)
    }
}

/// The terms of the operands and of the result.
struct Equation {
    operands: Vec<Term>,
    result: Term,
}

impl Equation {
    fn parse(text: &str) -> Result<Self, InferError> {
        let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (text.as_str(), None),
        };
        let operands: Vec<Term> = left.split(',').map(Term::parse).collect::<Result<_, _>>()?;
        let result = match right {
            Some(right) => Term::parse(right)?,
            None => implicit(&operands),
        };
        Ok(Self { operands, result })
    }
}

/// Returns the result term of an equation without `->`: the ellipsis, then the labels that occur once,
/// in order of their codes.
fn implicit(operands: &[Term]) -> Term {
    let mut counts: BTreeMap<u8, u32> = BTreeMap::new();
    for label in operands.iter().flat_map(Term::labels) {
        *counts.entry(label).or_default() += 1;
    }
    let once: Vec<u8> = counts.into_iter().filter(|(_, count)| *count == 1).map(|(label, _)| label).collect();
    match operands.iter().any(|term| term.after.is_some()) {
        true => Term { before: Vec::new(), after: Some(once) },
        false => Term { before: once, after: None },
    }
}

/// The extents of the labels, and the extents of the ellipsis (`None` if an operand with an ellipsis has
/// unknown rank).
struct Extents {
    labels: BTreeMap<u8, Dim>,
    ellipsis: Option<Vec<Dim>>,
}

/// Matches terms with shapes; a shape of `None` is an unknown rank.
fn extents(equation: &Equation, shapes: &[Option<&[Dim]>]) -> Result<Extents, InferError> {
    let mut found = Extents { labels: BTreeMap::new(), ellipsis: Some(Vec::new()) };
    for (operand, (term, shape)) in equation.operands.iter().zip(shapes).enumerate() {
        let Some(dims) = shape else {
            for label in term.labels() {
                found.labels.entry(label).or_insert(Dim::Unknown);
            }
            if term.after.is_some() {
                found.ellipsis = None;
            }
            continue;
        };
        let hidden =
            dims.len().checked_sub(term.count()).filter(|hidden| *hidden == 0 || term.after.is_some());
        let Some(hidden) = hidden else {
            let why = format!("rank {} does not fit {} labels", dims.len(), term.count());
            return Err(InferError::BadOperand { operand, why });
        };
        let (before, rest) = dims.split_at(term.before.len());
        let (ellipsis, after) = rest.split_at(hidden);
        found.ellipsis = match (found.ellipsis, term.after.is_some()) {
            (Some(known), true) => Some(broadcast(&known, ellipsis)?),
            (known, _) => known,
        };
        for (label, extent) in term.labels().zip(before.iter().chain(after)) {
            let known = found.labels.get(&label).cloned().unwrap_or(Dim::Unknown);
            // An extent of 1 broadcasts, as in NumPy.
            let joined = match (&known, extent) {
                (Dim::Known(1), _) => extent.clone(),
                (_, Dim::Known(1)) if known != Dim::Unknown => known,
                _ => agree("extents of a label", &known, extent)?,
            };
            found.labels.insert(label, joined);
        }
    }
    Ok(found)
}

fn einsum(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let text = ctx.string("equation").ok_or(InferError::MissingAttribute { name: "equation" })?;
    let equation = Equation::parse(text)?;
    if equation.operands.len() != ctx.input_count() {
        let why = format!("{} terms for {} operands", equation.operands.len(), ctx.input_count());
        return Err(InferError::BadAttribute { name: "equation", why });
    }
    ctx.required(0)?;
    let shapes: Vec<Option<&[Dim]>> = (0..ctx.input_count()).map(|operand| ctx.dims(operand)).collect();
    let found = extents(&equation, &shapes)?;
    let label = |label: &u8| {
        let why = || format!("label `{}` of the result is in no operand", char::from(*label));
        found
            .labels
            .get(label)
            .cloned()
            .ok_or_else(|| InferError::BadAttribute { name: "equation", why: why() })
    };
    let result = &equation.result;
    let mut dims: Vec<Dim> = result.before.iter().map(label).collect::<Result<_, _>>()?;
    let after: Vec<Dim> = result.after.iter().flatten().map(label).collect::<Result<_, _>>()?;
    let shape = match (&found.ellipsis, &result.after) {
        (None, Some(_)) => None,
        (Some(ellipsis), Some(_)) => {
            dims.extend(ellipsis.iter().cloned());
            dims.extend(after);
            Some(dims)
        }
        (_, None) => Some(dims),
    };
    ctx.set_tensor(0, ctx.element(0), shape);
    Ok(())
}

/// Counts one operation per operand for each combination of labels: the sum as written, without
/// factoring.
fn flops(node: &Typed<'_>) -> Option<u64> {
    let equation = Equation::parse(node.data().string("equation")?).ok()?;
    let count = node.data().inputs.len();
    let shapes: Vec<Option<&[Dim]>> =
        (0..count).map(|operand| node.input(operand)?.shape.as_deref()).collect();
    if shapes.len() != equation.operands.len() {
        return None;
    }
    let found = extents(&equation, &shapes).ok()?;
    let combinations = found
        .labels
        .values()
        .chain(found.ellipsis.as_ref()?)
        .try_fold(1u64, |product, extent| product.checked_mul(extent.known()?))?;
    combinations.checked_mul(u64::try_from(count).ok()?)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[OpInfo::onnx("Einsum", einsum).work(Work::Flops(flops))];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    fn einsum(equation: &str, operands: &[&str]) -> Case {
        operands
            .iter()
            .fold(Case::new("Einsum", 12).string("equation", equation), |case, operand| case.input(operand))
    }

    #[test]
    fn equations() {
        let cases: [(&str, &[&str], &str); 9] = [
            ("ij,jk->ik", &["f32[2,3]", "f32[3,N]"], "f32[2,N]"),
            ("ij,jk", &["f32[2,3]", "f32[3,4]"], "f32[2,4]"),
            ("bA , Ba", &["f32[2,3]", "f32[4,5]"], "f32[3,4,5,2]"),
            ("...ii->...i", &["f32[N,M,3,3]"], "f32[N,M,3]"),
            ("...ij,jk", &["f32[5,1,2,3]", "f32[3,4]"], "f32[5,1,2,4]"),
            ("i...j,...j->...i", &["f32[2,7,3]", "f32[1,3]"], "f32[7,2]"),
            ("i->", &["f32[3]"], "f32[]"),
            ("...i->...", &["f32[*]"], "f32[*]"),
            ("ij,j->i", &["f32[*]", "f32[3]"], "f32[?]"),
        ];
        for (equation, operands, result) in cases {
            assert_eq!(einsum(equation, operands).show(), result, "{equation}");
        }
        for (equation, operands) in [
            ("ij,jk->ik", &["f32[2,3]"][..]),
            ("ij->k", &["f32[2,3]"]),
            ("ij->i", &["f32[2]"]),
            ("i1->i", &["f32[2,3]"]),
        ] {
            assert!(einsum(equation, operands).show().starts_with("error"), "{equation}");
        }
    }

    #[test]
    fn arithmetic_counts_all_combinations_of_labels() {
        assert_eq!(einsum("bij,bjk->bik", &["f32[5,2,3]", "f32[5,3,4]"]).costs().0, Some(2 * 5 * 2 * 3 * 4));
        assert_eq!(einsum("bij,bjk->bik", &["f32[5,2,N]", "f32[5,3,4]"]).costs().0, Some(2 * 5 * 2 * 3 * 4));
        assert_eq!(einsum("...i->...", &["f32[*]"]).costs().0, None);
    }
}
