//! Form of a node: its kernel, and all properties that determine the kernel's time and workspace.

use memc_ir::{Attribute, ElementType, Module, Node, Operator};
use memc_ops::{Typed, lookup};

/// Number of operands that determine the cost of a kernel that is also used with fused element-wise
/// work: data and weights. Biases and sums come after them.
const MAIN_OPERANDS: usize = 2;

/// Domain and name of the operator that a kernel was written for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kernel {
    domain: String,
    name: String,
}

impl Kernel {
    /// Returns the kernel that runs nodes of an operator.
    pub(crate) fn of(operator: &Operator) -> Self {
        match lookup(operator).and_then(|info| info.runs) {
            Some(name) => Self { domain: String::new(), name: name.to_owned() },
            None => Self { domain: operator.domain.to_string(), name: operator.name.to_string() },
        }
    }

    /// Returns whether nodes of other operators also run this kernel.
    fn is_fused(&self) -> bool {
        self.domain.is_empty() && memc_ops::all().iter().any(|info| info.runs == Some(&*self.name))
    }
}

/// Kernel, types of operands, extents of result 0, and attributes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Form {
    kernel: Kernel,
    operands: Vec<Option<(ElementType, Vec<u64>)>>,
    result: Vec<u64>,
    attributes: Vec<(String, String)>,
}

impl Form {
    /// Returns the form of a node; `None` if extents are unknown, or if the cost depends on bodies or on
    /// tensors in attributes.
    pub(crate) fn of(module: &Module, node: Node) -> Option<Self> {
        let data = module.node(node);
        let is_plain = |value: &Attribute| {
            !matches!(value, Attribute::Tensor(_) | Attribute::Tensors(_) | Attribute::Opaque { .. })
        };
        if data.bodies().next().is_some() || !data.attributes.iter().all(|(_, value)| is_plain(value)) {
            return None;
        }
        let typed = Typed::largest(module, node);
        let kernel = Kernel::of(&data.operator);
        let fused = kernel.is_fused();
        let count = if fused { data.inputs.len().min(MAIN_OPERANDS) } else { data.inputs.len() };
        let mut operands = Vec::with_capacity(count);
        for (index, value) in data.inputs.iter().take(count).enumerate() {
            operands.push(match value {
                Some(_) => Some((typed.input(index)?.element, typed.input_dims(index)?)),
                None => None,
            });
        }
        let decides = |(name, value): &&(String, Attribute)| !fused || shapes_a_kernel(name, value);
        let mut attributes: Vec<_> = data
            .attributes
            .iter()
            .filter(decides)
            .map(|(name, value)| (name.clone(), format!("{value:?}")))
            .collect();
        attributes.sort();
        Some(Self { kernel, operands, result: typed.output_dims(0)?, attributes })
    }
}

/// Returns whether an attribute affects the cost of a kernel that also runs fused: windows and flags do,
/// factors and activations do not.
fn shapes_a_kernel(name: &str, value: &Attribute) -> bool {
    let is_activation = name.starts_with("activation");
    !is_activation && !matches!(value, Attribute::Float(_) | Attribute::Floats(_) | Attribute::Int(0))
}
