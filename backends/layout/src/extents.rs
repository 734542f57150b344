//! The plan as numbers and expressions for programs that compute sizes and offsets at the extents of a run.

use std::collections::BTreeMap;

use crate::expr::Expr;
use crate::identifiers::Identifiers;
use crate::ranges::{Extents, FormulaRow};
use crate::types::Layout;

/// A number of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Amount {
    /// A number.
    Number(u64),
    /// The expression at this position; a negative value counts as 0.
    Expr(usize),
}

/// A free dimension.
pub(crate) struct Dimension {
    pub(crate) name: String,
    /// Name of a field: `dim_` and the name in lower case.
    pub(crate) field: String,
    pub(crate) extents: Extents,
}

/// Largest extents with fixed offsets.
pub(crate) struct FixedOffsets {
    /// Largest extent of some dimensions, by position; empty for the main offsets.
    pub(crate) most: Vec<(usize, u64)>,
    /// Size of each arena.
    pub(crate) arenas: Vec<u64>,
    /// Offset of each tensor that owns bytes in an arena; 0 for all other tensors.
    pub(crate) offsets: Vec<u64>,
}

/// A plan for ranges of dimensions. Tensors are positions in the layout.
pub(crate) struct ExtentPlan {
    pub(crate) dimensions: Vec<Dimension>,
    /// Distinct expressions.
    pub(crate) exprs: Vec<Expr>,
    /// Limits: expression and its largest value.
    pub(crate) limits: Vec<(usize, u64)>,
    /// Size of each tensor.
    pub(crate) sizes: Vec<Amount>,
    /// Placed aliases with owner and first byte in it, owners first.
    pub(crate) aliases: Vec<(usize, usize, Amount)>,
    /// Rows of the formula of each arena: a tensor and those that it lies on.
    pub(crate) rows: Vec<Vec<(usize, Vec<usize>)>>,
    /// Buckets in ascending order, and last the main offsets.
    pub(crate) fixed: Vec<FixedOffsets>,
}

impl ExtentPlan {
    /// Reads the plan; `None` if no dimension is free, or if the layout contradicts itself.
    pub(crate) fn of(layout: &Layout) -> Option<Self> {
        let ranges = &layout.model.ranges;
        if ranges.is_empty() {
            return None;
        }
        let mut names = Identifiers::default();
        let dimension = |(name, extents): (&String, &Extents)| {
            let field = format!("dim_{}", names.upper(name).to_ascii_lowercase());
            Dimension { name: name.clone(), field, extents: *extents }
        };
        let dimensions = ranges.iter().map(dimension).collect();
        let mut texts = Texts::default();
        let of_name: BTreeMap<&str, usize> =
            layout.tensors.iter().enumerate().map(|(index, tensor)| (tensor.name.as_str(), index)).collect();
        let find = |name: &String| of_name.get(name.as_str()).copied();
        let limits = layout.model.limits.iter().map(|limit| Some((texts.position(&limit.of)?, limit.most)));
        let limits = limits.collect::<Option<_>>()?;
        let sizes =
            layout.tensors.iter().map(|tensor| texts.amount(tensor.bytes_expr.as_ref(), tensor.bytes));
        let sizes = sizes.collect::<Option<_>>()?;
        let aliases = aliases(layout, &find, &mut texts)?;
        let row = |row: &FormulaRow| {
            Some((find(&row.tensor)?, row.above.iter().map(find).collect::<Option<Vec<_>>>()?))
        };
        let rows = |space: &String| {
            layout.formula.get(space).into_iter().flatten().map(row).collect::<Option<Vec<_>>>()
        };
        let rows = layout.arenas.iter().map(|arena| rows(&arena.space)).collect::<Option<_>>()?;
        Some(Self { dimensions, limits, sizes, aliases, rows, fixed: fixed(layout)?, exprs: texts.exprs })
    }
}

/// Distinct expressions by text.
#[derive(Default)]
struct Texts {
    exprs: Vec<Expr>,
    known: BTreeMap<String, usize>,
}

impl Texts {
    fn position(&mut self, text: &str) -> Option<usize> {
        if let Some(known) = self.known.get(text) {
            return Some(*known);
        }
        self.exprs.push(Expr::parse(text)?);
        self.known.insert(text.to_owned(), self.exprs.len() - 1);
        Some(self.exprs.len() - 1)
    }
    fn amount(&mut self, text: Option<&String>, number: u64) -> Option<Amount> {
        match text {
            Some(text) => self.position(text).map(Amount::Expr),
            None => Some(Amount::Number(number)),
        }
    }
}

/// Returns the placed aliases, each after its owner.
fn aliases(
    layout: &Layout,
    find: &dyn Fn(&String) -> Option<usize>,
    texts: &mut Texts,
) -> Option<Vec<(usize, usize, Amount)>> {
    let mut open: Vec<(usize, usize, Amount)> = Vec::new();
    for (index, tensor) in layout.tensors.iter().enumerate().filter(|(_, tensor)| tensor.offset.is_some()) {
        if let Some(alias) = &tensor.alias {
            open.push((
                index,
                find(&alias.of)?,
                texts.amount(alias.alias_offset_expr.as_ref(), alias.alias_offset)?,
            ));
        }
    }
    let mut waits: Vec<bool> = vec![false; layout.tensors.len()];
    open.iter().for_each(|(index, ..)| waits[*index] = true);
    let mut sorted = Vec::with_capacity(open.len());
    // Chains of aliases are short: most rounds after the first find nothing.
    while !open.is_empty() {
        let (ready, rest): (Vec<_>, Vec<_>) = open.iter().copied().partition(|(_, of, _)| !waits[*of]);
        if ready.is_empty() {
            return None;
        }
        ready.iter().for_each(|row: &(usize, usize, Amount)| waits[row.0] = false);
        sorted.extend(ready);
        open = rest;
    }
    Some(sorted)
}

/// Returns the fixed offsets of all buckets, and last the main ones.
fn fixed(layout: &Layout) -> Option<Vec<FixedOffsets>> {
    let dims: Vec<&String> = layout.model.ranges.keys().collect();
    let mut all = Vec::new();
    for bucket in &layout.layouts {
        let most =
            bucket.dims.iter().map(|(name, most)| Some((dims.iter().position(|dim| *dim == name)?, *most)));
        let size = |space: &String| {
            bucket.arenas.iter().find(|arena| arena.space == *space).map_or(0, |arena| arena.size)
        };
        all.push(FixedOffsets {
            most: most.collect::<Option<_>>()?,
            arenas: layout.arenas.iter().map(|arena| size(&arena.space)).collect(),
            offsets: layout
                .tensors
                .iter()
                .map(|tensor| bucket.offsets.get(&tensor.name).copied().unwrap_or(0))
                .collect(),
        });
    }
    let own =
        |tensor: &crate::types::Tensor| if tensor.alias.is_none() { tensor.offset.unwrap_or(0) } else { 0 };
    all.push(FixedOffsets {
        most: Vec::new(),
        arenas: layout.arenas.iter().map(|arena| arena.size).collect(),
        offsets: layout.tensors.iter().map(own).collect(),
    });
    Some(all)
}
