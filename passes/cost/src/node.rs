//! Arithmetic, traffic and time of one node.

use memc_ir::{Definition, Dim, ElementType, Module, Nanos, Node, TensorType, Value};
use memc_ops::{Gathers, KernelKind, Reads, Scalar, Typed, View, Work, lookup};

use crate::line::{Amounts, Line};
use crate::machine::{Machine, Traffic, VECTOR};

/// Time of a node with unknown extents, in nanoseconds: one millisecond, far above most kernels.
pub const UNKNOWN_NANOS: f64 = 1e6;

/// Cost of gathering an element, in operations. Measured with convolutions of 1 to 512 channels whose
/// filters were divided among 1 to 16 calls: five elements per nanosecond at 50 operations per
/// nanosecond.
const GATHERED: u64 = 10;

/// Maximum nesting of bodies; deeper bodies count as unknown.
const MAX_DEPTH: usize = 64;

/// Returns the arithmetic operations of a node, with its bodies run once; `None` if extents are unknown.
///
/// An operator that is not in the table is charged ten operations per element of its operands and
/// results.
pub fn flops(module: &Module, node: Node) -> Option<u64> {
    flops_within(module, node, 0)
}

fn flops_within(module: &Module, node: Node, depth: usize) -> Option<u64> {
    let typed = Typed::largest(module, node);
    let Some(info) = typed.info() else {
        return traffic(module, node)
            .map(|bytes| bytes.made.saturating_add(bytes.constant).saturating_mul(10) / 4);
    };
    match info.work {
        Work::None => Some(0),
        Work::PerElement(each) => typed.output_elements().map(|count| count.saturating_mul(u64::from(each))),
        Work::PerInputElement(each) => {
            typed.input(0).and_then(|ty| ty.elements()).map(|count| count.saturating_mul(u64::from(each)))
        }
        Work::Flops(formula) => formula(&typed),
        Work::Bodies if depth >= MAX_DEPTH => None,
        Work::Bodies => module
            .node(node)
            .bodies()
            .flat_map(|(_, body)| &module.graph(body).nodes)
            .try_fold(0u64, |sum, inner| Some(sum.saturating_add(flops_within(module, *inner, depth + 1)?))),
    }
}

/// Returns the number of scalar steps of a node's kernel, one element at a time; `None` if extents are
/// unknown.
pub fn scalar_steps(module: &Module, node: Node) -> Option<u64> {
    let typed = Typed::largest(module, node);
    match lookup(&module.node(node).operator).map_or(Scalar::None, |info| info.scalar) {
        Scalar::None => Some(0),
        Scalar::PerElement(each) => {
            typed.output_elements().map(|count| count.saturating_mul(u64::from(each)))
        }
        Scalar::Count(formula) => formula(&typed),
    }
}

/// Returns the number of elements that a node's kernel gathers before it multiplies; `None` if extents
/// are unknown.
pub fn gathered(module: &Module, node: Node) -> Option<u64> {
    match lookup(&module.node(node).operator).map_or(Gathers::None, |info| info.gathers) {
        Gathers::None => Some(0),
        Gathers::Elements(formula) => formula(&Typed::largest(module, node)),
    }
}

/// Returns the traffic of a node; `None` if a size is unknown. Reshape-like nodes move nothing, and a
/// lookup in a table counts only the entries found.
pub fn traffic(module: &Module, node: Node) -> Option<Traffic> {
    let mut traffic = Traffic::default();
    accesses(module, node, |value, bytes| {
        let is_constant = matches!(module.value(value).definition, Definition::Constant(..));
        let sum = if is_constant { &mut traffic.constant } else { &mut traffic.made };
        *sum = sum.saturating_add(bytes);
    })?;
    Some(traffic)
}

/// Calls `found` with each value that a node reads or writes, and the number of bytes: an operand once
/// for each position, then the results. `None` if a size is unknown; calls until then have been made.
pub fn accesses(module: &Module, node: Node, mut found: impl FnMut(Value, u64)) -> Option<()> {
    let data = module.node(node);
    let info = lookup(&data.operator);
    if info.is_some_and(|info| info.view == View::Reshape) {
        return Some(());
    }
    let reads = info.map_or(Reads::All, |info| info.reads);
    let size = |value: Value| module.largest(value).and_then(TensorType::size).map(|bytes| bytes.0);
    let picked = || size(data.outputs.first().copied().flatten()?);
    for (position, operand) in data.inputs.iter().enumerate() {
        let Some(operand) = *operand else { continue };
        let bytes = match reads {
            Reads::Extents if position == 0 => 0,
            Reads::Picked(tables) if tables.contains(&position) => {
                size(operand).unwrap_or(u64::MAX).min(picked()?)
            }
            Reads::All | Reads::Picked(_) | Reads::Extents => size(operand)?,
        };
        found(operand, bytes);
    }
    for value in data.results() {
        found(value, size(value)?);
    }
    Some(())
}

/// Returns whether a node makes no elements: its kernel then reads nothing. Parts of an axis with fewer
/// positions than parts have such nodes.
pub fn makes_nothing(module: &Module, node: Node) -> bool {
    let dims = |value: Value| {
        module.ty(value).tensor().and_then(|tensor| tensor.shape.as_deref()).unwrap_or_default()
    };
    let mut results = module.node(node).results().peekable();
    results.peek().is_some() && results.all(|value| dims(value).contains(&Dim::Known(0)))
}

/// Returns the modelled time of a Scan: that of its body for each position that it reads, and one call more;
/// `None` for other nodes, and if extents are unknown.
fn scan_nanos(module: &Module, node: Node, machine: &Machine, depth: usize) -> Option<Nanos> {
    let data = module.node(node);
    if *data.operator.name != *"Scan" || !data.operator.domain.is_empty() || depth >= MAX_DEPTH {
        return None;
    }
    let (_, body) = data.bodies().next()?;
    let read = usize::try_from(data.int("num_scan_inputs", 0)).ok().filter(|read| *read > 0)?;
    let first = data.inputs.get(data.inputs.len().checked_sub(read)?).copied().flatten()?;
    let axis = data.ints("scan_input_axes").and_then(|axes| axes.first()).copied().unwrap_or(0);
    let trips = module.largest(first)?.known_dims()?.get(usize::try_from(axis).ok()?).copied()?;
    let nodes = module.graph(body).nodes.iter();
    let once: f64 = nodes.map(|inner| nanos_within(module, *inner, machine, depth + 1).0).sum();
    Some(Nanos(machine.overhead.0 + trips as f64 * once))
}

/// Returns the modelled time of a node that several element-wise kernels compute one after the other; `None`
/// for other nodes, and if extents are unknown.
fn kernels_nanos(module: &Module, node: Node, machine: &Machine) -> Option<Nanos> {
    let kernels = lookup(&module.node(node).operator)?.kernels;
    let elements = Typed::largest(module, node).output_elements()?;
    let size = module.largest(module.node(node).results().next()?)?.size()?.0;
    let time = |(operations, operands): &(u32, u32)| {
        let flops = elements.saturating_mul(u64::from(*operations));
        let made = size.saturating_mul(u64::from(*operands) + 1);
        let traffic = Traffic { made, ..Traffic::default() };
        match line(module, node, machine) {
            Some(line) => {
                let flops = flops as f64 * width(module, node, machine);
                line.time(&Amounts { flops, ..machine.moved(traffic) })
            }
            None => machine.time(flops, traffic, arithmetic(module, node)).0,
        }
    };
    (!kernels.is_empty()).then(|| Nanos(kernels.iter().map(time).sum()))
}

/// Returns the modelled time of a node on a machine; [`UNKNOWN_NANOS`] if extents are unknown.
pub fn nanos(module: &Module, node: Node, machine: &Machine) -> Nanos {
    nanos_within(module, node, machine, 0)
}

fn nanos_within(module: &Module, node: Node, machine: &Machine, depth: usize) -> Nanos {
    let of_parts = scan_nanos(module, node, machine, depth).or_else(|| kernels_nanos(module, node, machine));
    if let Some(time) = of_parts {
        return time;
    }
    if let Some(line) = line(module, node, machine) {
        let known = if makes_nothing(module, node) {
            Some(Amounts::default())
        } else {
            amounts(module, node, machine)
        };
        return Nanos(known.map_or(UNKNOWN_NANOS, |amounts| line.time(&amounts)));
    }
    if makes_nothing(module, node) {
        return machine.time(0, Traffic::default(), arithmetic(module, node));
    }
    let vectors = flops(module, node).zip(gathered(module, node));
    let known = vectors.zip(scalar_steps(module, node)).zip(traffic(module, node));
    known.map_or(Nanos(UNKNOWN_NANOS), |(((flops, gathered), scalar), traffic)| {
        let rate = lookup(&module.node(node).operator).map_or(100, |info| u64::from(info.rate));
        let vectors = flops.saturating_add(gathered.saturating_mul(GATHERED)).saturating_mul(100) / rate;
        let time = machine.time(vectors, traffic, arithmetic(module, node));
        // A kernel alternates between vector work and scalar steps, and its traffic runs in parallel
        // with both.
        Nanos(time.0.max(machine.scalar_time(scalar).0))
    })
}

/// Returns the line of a node's kind; `None` if the machine has none.
fn line<'m>(module: &Module, node: Node, machine: &'m Machine) -> Option<&'m Line> {
    if machine.lines.is_empty() {
        return None;
    }
    machine.lines.of(KernelKind::of(module, node))
}

/// Returns how many operations on binary32 take as long as one of a node: a line weighs these.
fn width(module: &Module, node: Node, machine: &Machine) -> f64 {
    let rates = &machine.flops_per_second;
    rates.float / rates.of(arithmetic(module, node))
}

/// Returns the amounts that a line weighs; `None` if extents are unknown.
pub fn amounts(module: &Module, node: Node, machine: &Machine) -> Option<Amounts> {
    let rate = lookup(&module.node(node).operator).map_or(100, |info| u64::from(info.rate));
    let flops = flops(module, node)? as f64 * 100.0 / rate as f64 * width(module, node, machine)
        + scalar_steps(module, node)? as f64 * VECTOR;
    Some(Amounts { flops, gathered: gathered(module, node)? as f64, ..machine.moved(traffic(module, node)?) })
}

/// Returns the time that a node spends on gathering; zero if extents are unknown.
pub(crate) fn gathering(module: &Module, node: Node, machine: &Machine) -> Nanos {
    if let Some(line) = line(module, node, machine) {
        let gathered = Amounts { gathered: gathered(module, node).unwrap_or(0) as f64, ..Amounts::default() };
        return Nanos(line.time(&gathered) - line.time(&Amounts::default()));
    }
    let operations = gathered(module, node).unwrap_or(0).saturating_mul(GATHERED);
    let time = machine.time(operations, Traffic::default(), arithmetic(module, node));
    Nanos(time.0 - machine.overhead.0)
}

/// Returns the element type of a node's arithmetic: that of its first operand, or of its first result if
/// it reads nothing.
fn arithmetic(module: &Module, node: Node) -> ElementType {
    let data = module.node(node);
    let first = data.operands().chain(data.results()).next();
    first.and_then(|value| module.ty(value).tensor()).map_or(ElementType::Float, |ty| ty.element)
}

/// Returns the arithmetic operations of the main graph; nodes with unknown extents are left out.
pub fn total_flops(module: &Module) -> u64 {
    let nodes = &module.graph(module.main()).nodes;
    nodes.iter().filter_map(|node| flops(module, *node)).fold(0, u64::saturating_add)
}
