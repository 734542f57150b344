//! Transfers between memory spaces (domain `ai.memc`): each returns its operand, or some of its positions, in
//! another space.

use std::ops::Range;

use memc_ir::{Module, Node, Operator};

use super::contrib_rules::like_first;
use super::gather::gather;
use super::slicing::slice;
use crate::info::{OpInfo, Reads, Repeat, Work};
use crate::{Data, normalize_axis};

/// Domain of transfers.
pub const MEMORY: &str = "ai.memc";

const fn transfer(name: &'static str) -> OpInfo {
    // The plan determines the step of a transfer; a second run would need a second place for its bytes.
    OpInfo::of(MEMORY, name, like_first).work(Work::None).repeat(Repeat::Stateful)
}

/// The kind of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// Copies its operand to a farther space, which contains the result.
    Out,
    /// Copies its operand from a farther space to the near space.
    In,
    /// Copies its operand, a constant that stays in a farther space, or some positions of it, to the near
    /// space.
    Fetch,
    /// Copies rows of operand 0, a constant that stays in a farther space, to the near space. A run
    /// computes which rows, so that it waits for them.
    Rows,
}

/// An operator that fetches from a constant of a farther space, with the ONNX operator of equal operands,
/// attributes and result that stands for it in files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetching {
    /// Name in the domain of transfers.
    pub name: &'static str,
    /// Name of the ONNX operator.
    pub plain: &'static str,
    kind: Transfer,
}

/// All operators that fetch. Each has the attribute `from`, the name of the farther space, in addition to the
/// attributes of its ONNX operator.
pub const FETCHING: [Fetching; 3] = [
    Fetching { name: "Fetch", plain: "Identity", kind: Transfer::Fetch },
    Fetching { name: "FetchPart", plain: "Slice", kind: Transfer::Fetch },
    Fetching { name: "FetchRows", plain: "Gather", kind: Transfer::Rows },
];

/// Returns the entry of an operator that fetches; `None` for all other operators.
pub fn fetching(operator: &Operator) -> Option<Fetching> {
    FETCHING.into_iter().find(|fetching| &*operator.domain == MEMORY && &*operator.name == fetching.name)
}

/// Returns the operator that fetches what an ONNX operator copies from a constant; `None` if there is none.
pub fn fetched_by(plain: &Operator) -> Option<Operator> {
    let found =
        FETCHING.into_iter().find(|fetching| plain.domain.is_empty() && &*plain.name == fetching.plain)?;
    Some(Operator { domain: MEMORY.into(), name: found.name.into(), ..plain.clone() })
}

/// Returns the kind of transfer of an operator; `None` for all other operators.
pub fn transfer_of(operator: &Operator) -> Option<Transfer> {
    match (&*operator.domain, &*operator.name) {
        (MEMORY, "SwapOut") => Some(Transfer::Out),
        (MEMORY, "SwapIn") => Some(Transfer::In),
        _ => fetching(operator).map(|fetching| fetching.kind),
    }
}

/// Returns whether a link carries out an operator by itself, while nodes compute.
pub fn is_copied_aside(operator: &Operator) -> bool {
    transfer_of(operator).is_some_and(|kind| kind != Transfer::Rows)
}

/// Positions that a node cuts out of its operand 0: consecutive ones of one axis, all of the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The axis.
    pub axis: usize,
    /// Its positions.
    pub positions: Range<u64>,
}

/// Returns the part of a constant that a Slice or `FetchPart` copies; `None` for other operators and
/// operands, several axes, steps, positions that only a run knows, and parts of no positions.
pub fn part_of_constant(module: &Module, node: Node) -> Option<Part> {
    let data = module.node(node);
    let plain = fetching(&data.operator).map_or(&*data.operator.name, |fetching| fetching.plain);
    let is_own = data.operator.domain.is_empty() || &*data.operator.domain == MEMORY;
    let whole = data.inputs.first().copied().flatten()?;
    let is_it = is_own && plain == "Slice" && module.constant_of(whole).is_some() && data.inputs.len() <= 4;
    let (dims, result) = (module.ty(whole).tensor()?.known_dims()?, data.results().next().filter(|_| is_it)?);
    let number = |operand: usize, name: &str| {
        let numbers = match data.inputs.get(operand).copied().flatten() {
            Some(value) => Data::from_constant(module.constant(module.constant_of(value)?))?.known_ints()?,
            None => data.ints(name)?.to_vec(),
        };
        <[i64; 1]>::try_from(numbers).ok().map(|[number]| number)
    };
    let axis = normalize_axis(number(3, "axes")?, dims.len())?;
    let extent = i64::try_from(dims[axis]).ok()?;
    let clamped =
        |number: i64| u64::try_from(if number < 0 { number + extent } else { number }.clamp(0, extent)).ok();
    let positions = clamped(number(1, "starts")?)?..clamped(number(2, "ends")?)?;
    let made = module.ty(result).tensor()?.known_dims()?;
    let is_made = !positions.is_empty() && made.get(axis) == Some(&(positions.end - positions.start));
    is_made.then_some(Part { axis, positions })
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    transfer("Fetch"),
    OpInfo::of(MEMORY, "FetchPart", slice)
        .work(Work::None)
        .reads(Reads::Picked(&[0]))
        .repeat(Repeat::Stateful),
    OpInfo::of(MEMORY, "FetchRows", gather).work(Work::None).reads(Reads::Picked(&[0])),
    transfer("SwapIn"),
    transfer("SwapOut"),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use memc_ir::text::parse;

    use super::*;
    use crate::families::testing::Case;

    #[test]
    fn transfers_keep_type_and_shape() {
        for name in ["Fetch", "SwapIn", "SwapOut"] {
            assert_eq!(Case::of(MEMORY, name, 1).input("bf16[N,3]").show(), "bf16[N,3]");
        }
    }

    #[test]
    fn fetches_of_some_positions_have_the_types_of_their_plain_operators() {
        let part = Case::of(MEMORY, "FetchPart", 13)
            .input("f32[5,4]")
            .ints_data(&[1])
            .ints_data(&[3])
            .ints_data(&[0]);
        assert_eq!(part.show(), "f32[2,4]");
        let part = Case::of(MEMORY, "FetchPart", 9)
            .input("f32[5,4]")
            .ints("starts", &[1])
            .ints("ends", &[3])
            .ints("axes", &[1]);
        assert_eq!(part.show(), "f32[5,2]");
        assert_eq!(
            Case::of(MEMORY, "FetchRows", 13).input("f32[5,4]").input("i64[2,3]").show(),
            "f32[2,3,4]"
        );
        for fetching in FETCHING {
            let made = fetched_by(&Operator::onnx(fetching.plain, 13)).unwrap();
            assert_eq!((&*made.domain, &*made.name, made.version), (MEMORY, fetching.name, 13));
            assert!(fetched_by(&made).is_none());
        }
    }

    /// The part that a Slice with these operands after `%w : f32[6,4]` copies.
    fn part(operands: &str, result: &str) -> Option<(usize, Range<u64>)> {
        let text = format!(
            "opset \"\" 17\ngraph @g {{\n  input %x : i64[1]\n  const %w : f32[6,4] = [{}]\n  const %m2 : i64[1] = [-2]\n  \
             const %zero : i64[1] = [0]\n  const %one : i64[1] = [1]\n  const %two : i64[1] = [2]\n  const %far : i64[1] = [99]\n  \
             const %both : i64[2] = [0, 1]\n  %y = Slice({operands}) : {result}\n  return %y\n}}\n",
            vec!["1.0"; 24].join(", ")
        );
        let module = parse(&text).unwrap();
        let node = module.graph(module.main()).nodes[0];
        part_of_constant(&module, node).map(|part| (part.axis, part.positions))
    }

    #[test]
    fn parts_are_known_positions_of_one_axis_of_a_constant() {
        assert_eq!(part("%w, %one, %two, %zero", "f32[1,4]"), Some((0, 1..2)));
        assert_eq!(part("%w, %m2, %far, %one", "f32[6,2]"), Some((1, 2..4)));
        assert_eq!(part("%w, %two, %one, %zero", "f32[0,4]"), None, "no positions");
        assert_eq!(part("%w, %zero, %far, %zero, %two", "f32[3,4]"), None, "steps");
        assert_eq!(part("%w, %both, %both, %both", "f32[0,0]"), None, "two axes");
        assert_eq!(part("%w, %x, %two, %zero", "f32[?,4]"), None, "a run computes the first position");
        assert_eq!(part("%x, %zero, %one, %zero", "i64[1]"), None, "no constant");
    }
}
