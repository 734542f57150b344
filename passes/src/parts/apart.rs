//! Joined values that only cuts read: the parts read the joined shares directly, and the whole value is
//! never made.

use memc_edit::{Maker, is_made_by};
use memc_ir::{Dim, Module, Node, Use, Value};
use memc_ops::{Data, Item, Stretch, normalize_axis};

use crate::analysis::windows::KnownData;

/// Removes joined values that are only read through cuts along the joined axis, made by the pass of this
/// name. The cuts read the joined shares instead.
///
/// Returns the number of edits. Linear in nodes times shares.
pub fn read_apart(module: &mut Module, pass: &'static str) -> u64 {
    let nodes = module.graph(module.main()).nodes.clone();
    let computed = computed_positions(module, &nodes, pass);
    let mut apart = Apart { maker: Maker::new(module, pass), pass, computed };
    for node in nodes {
        if let Some(joined) = apart.joined(node) {
            for (cut, pieces) in joined.cuts {
                apart.take(cut, joined.axis, &pieces);
            }
            apart.maker.erase(node);
        }
    }
    apart.maker.drop_unused_constants();
    apart.maker.finish()
}

/// Returns the elements of positions that the cuts of a pass compute, over the symbols that they depend on.
fn computed_positions(module: &Module, nodes: &[Node], pass: &'static str) -> KnownData {
    if module.domain().is_empty() {
        return KnownData::default();
    }
    let cuts = nodes.iter().filter(|node| is_made_by(module, **node, pass));
    let positions = cuts.flat_map(|node| module.node(*node).operands().skip(1));
    memc_ops::elements_of(module, positions.filter(|value| module.constant_of(*value).is_none()))
}

/// A joined value whose only readers cut it apart again.
struct Joined {
    axis: usize,
    /// The nodes that cut this value, with the pieces of shares that they cut out.
    cuts: Vec<(Node, Vec<PieceOf>)>,
}

/// A share, or positions of it.
struct PieceOf {
    share: Value,
    /// Positions counted from the first one of the share; `None` for all.
    positions: Option<Stretch>,
}

struct Apart<'m> {
    maker: Maker<'m>,
    pass: &'static str,
    /// Elements of small tensors, as expressions over symbols.
    computed: KnownData,
}

impl Apart<'_> {
    fn module(&self) -> &Module {
        self.maker.module()
    }

    /// Returns whether a node has this operator of ONNX's own domain.
    fn is(&self, node: Node, operator: &str) -> bool {
        let data = self.module().node(node);
        data.operator.domain.is_empty() && &*data.operator.name == operator
    }

    /// Returns the value that a Concat joins, if all readers cut it along the joined axis, and the shares
    /// in which these cuts begin and end are known for all extents.
    fn joined(&self, node: Node) -> Option<Joined> {
        let data = self.module().node(node);
        let joined = data.results().next().filter(|_| self.is(node, "Concat"))?;
        let axis = normalize_axis(data.int("axis", 1), self.module().ty(joined).tensor()?.rank()?)?;
        let (mut shares, mut start) = (Vec::new(), Dim::Known(0));
        for share in data.operands() {
            let end = start.add(self.module().ty(share).tensor()?.shape.as_ref()?.get(axis)?);
            let end = Some(end.simplified(&self.module().domain().ranges)).filter(|end| !end.is_open())?;
            shares.push((share, Stretch { start, end: end.clone() }));
            start = end;
        }
        let cut = |site: &Use| match site {
            Use::Operand(node, 0) => Some((*node, self.pieces(&shares, &self.positions(*node, axis)?)?)),
            _ => None,
        };
        let cuts: Option<Vec<(Node, Vec<PieceOf>)>> = self.maker.uses(joined).iter().map(cut).collect();
        Some(Joined { axis, cuts: cuts.filter(|cuts| !cuts.is_empty())? })
    }

    /// Returns the pieces of shares that together hold these positions; `None` if they depend on extents.
    fn pieces(&self, shares: &[(Value, Stretch)], positions: &Stretch) -> Option<Vec<PieceOf>> {
        let ranges = &self.module().domain().ranges;
        let mut pieces = Vec::new();
        for (share, held) in shares {
            let Some(own) = held.common(positions, ranges)? else { continue };
            let is_whole = own == *held;
            pieces.push(PieceOf {
                share: *share,
                positions: (!is_whole).then(|| own.counted_from(&held.start)),
            });
        }
        Some(pieces).filter(|pieces| !pieces.is_empty())
    }

    /// Returns the positions that a Slice of this pass cuts out along an axis; `None` for other nodes.
    fn positions(&self, node: Node, axis: usize) -> Option<Stretch> {
        let data = self.module().node(node);
        if !self.is(node, "Slice") || !is_made_by(self.module(), node, self.pass) || data.inputs.len() > 4 {
            return None;
        }
        let number = |operand: usize, attribute: &str| match data.inputs.get(operand).copied().flatten() {
            Some(value) => self.element(value),
            None => match data.ints(attribute)? {
                [number] => u64::try_from(*number).ok().map(Dim::Known),
                _ => None,
            },
        };
        let stretch = Stretch { start: number(1, "starts")?, end: number(2, "ends")? };
        let is_it = number(3, "axes")? == Dim::Known(axis as u64);
        is_it.then_some(stretch)
    }

    /// Returns the only element of a vector of integers.
    fn element(&self, value: Value) -> Option<Dim> {
        if let Some(constant) = self.module().constant_of(value) {
            let numbers = Data::from_constant(self.module().constant(constant))?.known_ints()?;
            return numbers
                .first()
                .filter(|_| numbers.len() == 1)
                .and_then(|number| u64::try_from(*number).ok())
                .map(Dim::Known);
        }
        match self.computed[value].as_ref()?.items.as_slice() {
            [Item::Int(number)] => u64::try_from(*number).ok().map(Dim::Known),
            [Item::Symbolic(expr)] => Some(Dim::from_expr(expr.clone())).filter(|dim| !dim.is_open()),
            _ => None,
        }
    }

    /// Replaces a cut's result by a share, or by the join of the shares that contain its positions.
    fn take(&mut self, cut: Node, axis: usize, pieces: &[PieceOf]) {
        let Some(result) = self.module().node(cut).results().next() else { return };
        let mut taken = Vec::new();
        for PieceOf { share, positions } in pieces {
            let Some(positions) = positions else {
                taken.push(*share);
                continue;
            };
            let name = self.module().value(*share).name.clone();
            let name = self.maker.fresh_name(&name);
            let made = self.maker.slice(Some(cut), *share, axis, positions, name);
            taken.extend(self.module().node(made).results());
        }
        match taken.as_slice() {
            [one] => self.maker.replace_uses(result, *one),
            _ => {
                let joined = self.maker.concat(Some(cut), taken, axis);
                self.maker.move_result(result, joined, 0);
            }
        }
        self.maker.erase(cut);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use memc_ir::text::{parse, print};

    use super::*;

    /// Prints a module after `read_apart`: three shares of four rows, cut into `ranges`; `more` names
    /// further outputs.
    fn read(ranges: &[(i64, i64)], more: &str) -> String {
        read_joined("origin(pass \"split\")", ranges, more)
    }

    /// Prints the module with the attribute text `by` on the joining node.
    fn read_joined(by: &str, ranges: &[(i64, i64)], more: &str) -> String {
        let own = "origin(pass \"split\")";
        let mut text = String::from(
            "opset \"\" 21\ngraph @g {\n  input %a : f32[1,2,4,3]\n  input %b : f32[1,2,4,3]\n  input %c : f32[1,2,4,3]\n  const %two : i64[1] = [2]\n",
        );
        for (index, (start, end)) in ranges.iter().enumerate() {
            text +=
                &format!("  const %s{index} : i64[1] = [{start}]\n  const %e{index} : i64[1] = [{end}]\n");
        }
        text += &format!("  %j = Concat(%a, %b, %c) {{axis = 2}} : f32[1,2,12,3] {by}\n");
        let mut results = Vec::new();
        for (index, (start, end)) in ranges.iter().enumerate() {
            let rows = end - start;
            text +=
                &format!("  %p{index} = Slice(%j, %s{index}, %e{index}, %two) : f32[1,2,{rows},3] {own}\n");
            text += &format!("  %r{index} = Relu(%p{index}) : f32[1,2,{rows},3]\n");
            results.push(format!("%r{index}"));
        }
        text += &format!("  return {}{more}\n}}\n", results.join(", "));
        let mut module = parse(&text).unwrap();
        read_apart(&mut module, "split");
        print(&module)
    }

    #[test]
    fn a_part_reads_the_shares_that_hold_its_rows() {
        let text = read(&[(0, 4), (3, 9)], "");
        assert!(!text.contains("%j "), "{text}");
        assert!(text.contains("%r0 = Relu(%a)"), "{text}");
        // The cut needs row 3 of the first share, all rows of the second, and row 0 of the third.
        assert!(text.contains("%a_1 = Slice(%a, ") && text.contains("%c_1 = Slice(%c, "), "{text}");
        assert!(text.contains("%p1 = Concat(%a_1, %b, %c_1) {axis = 2} : f32[1,2,6,3]"), "{text}");
        assert!(
            text.contains("i64[1] = [3]") && text.contains("i64[1] = [4]") && text.contains("i64[1] = [1]"),
            "{text}"
        );
    }

    #[test]
    fn joined_values_are_taken_apart_at_their_borders() {
        let text = read_joined("", &[(0, 4), (4, 12)], "");
        assert!(!text.contains("%j ") && !text.contains("Slice"), "{text}");
        assert!(text.contains("%r0 = Relu(%a)"), "{text}");
        assert!(text.contains("%p1 = Concat(%b, %c) {axis = 2} : f32[1,2,8,3]"), "{text}");
    }

    #[test]
    fn joined_values_read_whole_stay_joined() {
        let text = read(&[(0, 4), (3, 9)], ", %j");
        assert!(text.contains("%j = Concat(%a, %b, %c)") && text.contains("%p0 = Slice(%j, "), "{text}");
    }
}
