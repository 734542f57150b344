//! Regions found at the largest extents of a module's symbols, then proven for all extents of its domain.

use memc_ir::{Dim, DimExpr, Module, Node, SecondaryMap, Value};
use memc_ops::{Pieces, Typed};

use super::growth::{Kind, found, is_known, pairs};
use super::region::Region;
use memc_passes::Options;
use memc_passes::parts::{Divided, Probes, Shares, Spans, Unrounded, are_multiples, takes_nothing};

/// Returns a copy of a module at the largest extents of its domain; `None` if its extents are known.
pub(super) fn at_largest(module: &Module) -> Option<Module> {
    let has_symbols = || module.values().keys().any(|value| has_symbol(module, value));
    let point = module
        .domain()
        .probes()
        .into_iter()
        .next()
        .filter(|_| !module.domain().is_empty() && has_symbols())?;
    Some(module.at(&point))
}

fn has_symbol(module: &Module, value: Value) -> bool {
    dims(module, value).iter().any(|dim| matches!(dim, Dim::Symbolic(_)))
}

fn dims(module: &Module, value: Value) -> &[Dim] {
    module.ty(value).tensor().and_then(|tensor| tensor.shape.as_deref()).unwrap_or_default()
}

/// Smallest extents of the axes of a module with symbols: where kernels do not take empty tensors, parts must
/// not be more than positions.
#[derive(Debug, Default)]
pub(super) struct Least {
    /// By value: the smallest extent of each axis with symbols; `None` for other axes.
    axes: SecondaryMap<Value, Vec<Option<u64>>>,
}

impl Least {
    /// Finds the smallest extents. Linear in the values with symbols.
    pub(super) fn of(module: &Module) -> Self {
        let ranges = &module.domain().ranges;
        let least = |dim: &Dim| match dim {
            Dim::Known(_) => None,
            Dim::Symbolic(expr) => {
                Some(expr.lower_bound(ranges).and_then(|least| u64::try_from(least).ok()).unwrap_or(0))
            }
            Dim::AtMost(_) | Dim::Within(_) | Dim::Unknown => Some(0),
        };
        let mut axes: SecondaryMap<Value, Vec<Option<u64>>> = SecondaryMap::default();
        for value in module.values().keys() {
            let found: Vec<Option<u64>> = dims(module, value).iter().map(least).collect();
            if found.iter().any(Option::is_some) {
                axes.set(value, found);
            }
        }
        Self { axes }
    }

    /// Returns whether an axis has at least this many positions for all extents; `None` asks for an axis
    /// without symbols.
    pub(super) fn allows(&self, value: Value, axis: usize, parts: Option<u64>) -> bool {
        let least = self.axes[value].get(axis).copied().flatten();
        least.is_none_or(|least| parts.is_some_and(|parts| least >= parts))
    }
}

/// Proofs that regions of a module at its largest extents hold for all extents.
pub(super) struct Prover<'m> {
    module: &'m Module,
    options: &'m Options,
    probes: Probes,
    unrounded: Unrounded,
}

impl<'m> Prover<'m> {
    /// Collects the facts of the module with symbols. Linear in values and nodes.
    pub(super) fn of(module: &'m Module, options: &'m Options) -> Self {
        Self {
            module,
            options,
            probes: Probes::of(module),
            unrounded: Unrounded::of(module, options.profile),
        }
    }

    /// Returns the region with positions that hold for all extents, in fewer parts if the image is too small
    /// at some extents, or if there are more than `most`; `None` if it is not provable. Parts of known
    /// extents stay as they are.
    pub(super) fn proven(&self, region: &Region, most: u64) -> Option<Region> {
        self.along(region, most).or_else(|| self.of_multiples(region, most))
    }

    /// Returns the region along axes of equal extents.
    fn along(&self, region: &Region, most: u64) -> Option<Region> {
        let nodes: Vec<Node> = region.nodes.values().copied().collect();
        let is_fixed = nodes
            .iter()
            .all(|node| region.divided.nodes.get(node).is_some_and(|pieces| self.is_fixed(*node, pieces)));
        let (kind, is_moving) = match (&region.divided.spans, &region.divided.shares) {
            (None, Shares::Even(parts)) if is_fixed => (Kind::Equal(*parts), false),
            (None, Shares::Between(borders)) if is_fixed => (Kind::Of(*borders.last()?), false),
            (_, Shares::Even(_)) => (Kind::Overlapping, true),
            (_, Shares::Between(_) | Shares::Of { .. }) => return None,
        };
        let mut divided = Divided::among(region.divided.shares.clone());
        for node in &nodes {
            let pieces = self.agreed(*node, region.divided.nodes.get(node)?, kind)?;
            (!is_moving || self.has_equal_axes(*node, &pieces)).then_some(())?;
            divided.nodes.insert(*node, pieces);
        }
        divided.values.clone_from(&region.divided.values);
        if !self.unrounded.torn(&divided.nodes).is_empty() {
            return None;
        }
        if is_moving {
            let all: Vec<(Node, &Pieces)> =
                nodes.iter().filter_map(|node| Some((*node, divided.nodes.get(node)?))).collect();
            let needed = |value: Value| region.made.get(&value) == Some(&true);
            let profile = self.options.profile;
            let spans = |parts: u64| {
                Some((parts, Spans::of(self.module, profile, &all, &Shares::Even(parts), needed)?))
            };
            let (parts, spans) = (2..=region.parts.min(most)).rev().find_map(spans)?;
            (divided.shares, divided.spans) = (Shares::Even(parts), Some(spans));
        }
        Some(Region { parts: divided.shares.count(), divided, ..region.clone() })
    }

    /// Returns a region of equal shares along axes whose extents are multiples of one of them, as images in
    /// one node and their rows in another.
    fn of_multiples(&self, region: &Region, most: u64) -> Option<Region> {
        let Shares::Even(parts) = region.divided.shares else { return None };
        let (parts, ranges) = (parts.min(most), &self.module.domain().ranges);
        let all: Vec<DimExpr> = self.divided_extents(region).iter().map(Dim::expr).collect::<Option<_>>()?;
        let divides_all = |extent: &&DimExpr| all.iter().all(|other| other.div_exact(extent).is_some());
        let extent = all.iter().find(divides_all).filter(|extent| extent.as_constant().is_none())?;
        let is_long = extent.lower_bound(ranges).is_some_and(|least| least >= i128::from(parts));
        let shares = Shares::Of { extent: extent.clone(), parts };
        (parts > 1 && region.divided.spans.is_none()).then_some(())?;
        let mut divided = Divided { values: region.divided.values.clone(), ..Divided::among(shares) };
        for node in region.nodes.values() {
            let known = region.divided.nodes.get(node)?;
            let agreed = |adders: Option<&Options>| {
                let rule =
                    |typed: Typed<'_>, count| found(typed, &known.operands, Kind::Equal(count), adders);
                let pieces = self.probes.agreed_of(self.module, *node, extent, rule)?;
                let is_it = pieces.results == known.results
                    && pieces.operands == known.operands
                    && are_multiples(&pieces);
                (is_it && (is_long || takes_nothing(self.module, self.options.profile, *node, &pieces)))
                    .then_some(pieces)
            };
            divided.nodes.insert(*node, [None, Some(self.options)].into_iter().find_map(agreed)?);
        }
        self.unrounded.torn(&divided.nodes).is_empty().then(|| Region { parts, divided, ..region.clone() })
    }

    /// Returns the extents of all axes that a region divides.
    fn divided_extents(&self, region: &Region) -> Vec<Dim> {
        let mut extents = Vec::new();
        for (node, pieces) in &region.divided.nodes {
            let data = self.module.node(*node);
            for (value, piece) in
                pairs(&data.inputs, &pieces.operands).chain(pairs(&data.outputs, &pieces.results))
            {
                extents.extend(
                    piece
                        .axis()
                        .map(|axis| dims(self.module, value).get(axis).cloned().unwrap_or(Dim::Unknown)),
                );
            }
        }
        extents
    }

    /// Returns the pieces of a node if they are equal for all extents, and divide its values along the axes
    /// of `known`, its pieces at the largest extents.
    fn agreed(&self, node: Node, known: &Pieces, kind: Kind) -> Option<Pieces> {
        let adders = [None, Some(self.options)];
        adders.into_iter().find_map(|adders| {
            let rule = |typed: Typed<'_>| found(typed, &known.operands, kind, adders);
            let pieces = self.probes.agreed(self.module, node, rule)?;
            (pieces.results == known.results && pieces.operands == known.operands).then_some(pieces)
        })
    }

    /// Returns whether the divided axes of a node have known extents.
    fn is_fixed(&self, node: Node, pieces: &Pieces) -> bool {
        let data = self.module.node(node);
        let mut all = pairs(&data.inputs, &pieces.operands).chain(pairs(&data.outputs, &pieces.results));
        all.all(|(value, piece)| piece.axis().is_none_or(|axis| is_known(self.module, value, axis)))
    }

    /// Returns whether the divided axes of a node have equal extents, except the axis over which windows
    /// slide.
    fn has_equal_axes(&self, node: Node, pieces: &Pieces) -> bool {
        let data = self.module.node(node);
        let sliding = usize::from(pieces.reach.is_some());
        let reads = data.inputs.iter().zip(&pieces.operands).skip(sliding);
        let makes = data.outputs.iter().zip(&pieces.results);
        let all: Vec<&Dim> = makes
            .chain(reads)
            .filter_map(|(value, piece)| value.zip(piece.axis()))
            .filter_map(|(value, axis)| dims(self.module, value).get(axis))
            .collect();
        all.windows(2).all(|pair| pair[0].same(pair[1]))
    }
}
