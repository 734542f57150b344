//! `cse`: merges nodes that compute equal results.

use std::collections::HashMap;
use std::fmt::Write as _;

use memc_ir::{Attribute, ConstId, Definition, Module, Node, Payload, Rewriter, SecondaryMap, Stage, Value};
use memc_ops::Item;

use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "cse",
    summary: "Merges nodes that compute equal results.",
    page: include_str!("../doc/cse.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &[],
    run,
};

/// Constants up to this size, in bytes, are compared by content; larger constants only by identity.
const MAX_COMPARED_BYTES: usize = 1024;

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let nodes = module.graph(module.main()).nodes.clone();
    let mut rewriter = Rewriter::new(module);
    let mut numbers = Numbers::of_constants(rewriter.module());
    let mut first: HashMap<String, Node> = HashMap::new();
    for node in nodes {
        let Some(key) = key(rewriter.module(), node, &numbers) else { continue };
        let elements = elements_key(rewriter.module(), node, ctx);
        let known = first.get(&key).or_else(|| first.get(elements.as_ref()?)).copied();
        match known {
            Some(original) => merge(&mut rewriter, node, original, &mut numbers),
            None => {
                first.insert(key, node);
                first.extend(elements.map(|elements| (elements, node)));
            }
        }
    }
    Ok(Changed::edits(rewriter.finish()))
}

/// Value numbers: for each value, the first value known to be equal.
#[derive(Default)]
struct Numbers {
    representative: SecondaryMap<Value, Option<Value>>,
}

impl Numbers {
    /// Groups the main graph's constants: small constants of equal type and bytes get one
    /// representative.
    fn of_constants(module: &Module) -> Self {
        let mut numbers = Self::default();
        let mut first: HashMap<String, Value> = HashMap::new();
        for value in &module.graph(module.main()).constants {
            if let Definition::Constant(_, constant) = module.value(*value).definition {
                let key = constant_key(module, constant);
                let original = *first.entry(key).or_insert(*value);
                numbers.representative.set(*value, Some(original));
            }
        }
        numbers
    }
    fn get(&self, value: Value) -> Value {
        self.representative[value].unwrap_or(value)
    }
}

fn constant_key(module: &Module, constant: ConstId) -> String {
    let data = module.constant(constant);
    match &data.payload {
        Payload::Raw(bytes) if bytes.len() <= MAX_COMPARED_BYTES => format!("{} {bytes:?}", data.ty),
        _ => format!("{constant}"),
    }
}

/// Returns a key of a node: equal keys compute equal results. `None` for a node that must not be merged.
fn key(module: &Module, node: Node, numbers: &Numbers) -> Option<String> {
    let data = module.node(node);
    if data.recompute_of.is_some() || data.bodies().next().is_some() || !memc_ops::repeatable(module, node) {
        return None;
    }
    let mut key = format!("{:?} {}", data.operator, data.outputs.len());
    for operand in &data.inputs {
        match operand {
            Some(value) => write!(key, " {}", numbers.get(*value)).ok()?,
            None => key.push_str(" _"),
        }
    }
    let mut attributes: Vec<&(String, Attribute)> = data.attributes.iter().collect();
    attributes.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, value) in attributes {
        match value {
            Attribute::Tensor(constant) => {
                write!(key, " {name:?}={}", constant_key(module, *constant)).ok()?
            }
            Attribute::Tensors(_) => return None,
            // Floats are compared by their bits, so that the key is exact.
            Attribute::Float(number) => write!(key, " {name:?}={:08x}", number.to_bits()).ok()?,
            Attribute::Floats(numbers) => {
                let bits: Vec<u32> = numbers.iter().map(|number| number.to_bits()).collect();
                write!(key, " {name:?}={bits:x?}").ok()?;
            }
            other => write!(key, " {name:?}={other:?}").ok()?,
        }
    }
    Some(key)
}

/// Returns a key of the elements of a node's only result, if inference knows them over symbols: nodes
/// with equal keys compute equal shapes, in any way. `None` for elements without symbols, which `fold`
/// makes constants, and for nodes with several results.
fn elements_key(module: &Module, node: Node, ctx: &PassContext<'_>) -> Option<String> {
    let [Some(result)] = module.node(node).outputs.as_slice() else { return None };
    let data = ctx.data[*result].as_deref()?;
    let is_symbolic = |item: &Item| matches!(item, Item::Symbolic(_));
    let is_exact = |item: &Item| matches!(item, Item::Int(_) | Item::Symbolic(_));
    let is_known = data.items.iter().any(is_symbolic) && data.items.iter().all(is_exact);
    is_known.then(|| format!("elements {} {:?} {:?}", data.element, data.dims, data.items))
}

/// Makes the readers of `node` read the results of `original`, and erases `node`. Does nothing if a
/// result of `node` must keep its name.
fn merge(rewriter: &mut Rewriter<'_>, node: Node, original: Node, numbers: &mut Numbers) {
    let pairs: Vec<(Option<Value>, Option<Value>)> = {
        let module = rewriter.module();
        module.node(node).outputs.iter().copied().zip(module.node(original).outputs.iter().copied()).collect()
    };
    let mergeable = pairs.iter().all(|pair| match pair {
        (Some(value), Some(_)) => !rewriter.is_pinned(*value),
        (Some(value), None) => rewriter.uses(*value).is_empty(),
        (None, _) => true,
    });
    if !mergeable {
        return;
    }
    for (value, kept) in pairs {
        if let (Some(value), Some(kept)) = (value, kept) {
            rewriter.replace_uses(value, kept);
            numbers.representative.set(value, Some(kept));
        }
    }
    rewriter.erase(node);
}
