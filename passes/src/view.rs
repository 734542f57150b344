//! `view`: makes results that have the bytes of an operand views of that operand.

use memc_ir::{Alias, AliasKind, Bytes, Module, Node, SecondaryMap, Stage, Value};
use memc_ops::Typed;

use crate::analysis::class::{StorageClass, classes};
use crate::options::Io;
use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "view",
    summary: "Makes results with the bytes of an operand views of it.",
    page: include_str!("../doc/view.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &[],
    run,
};

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let classes = classes(module);
    let mut has_output: SecondaryMap<Value, bool> = SecondaryMap::default();
    for value in &module.graph(module.main()).outputs {
        has_output.set(module.plan.owner(*value).0, true);
    }
    let mut edits = 0;
    for node in module.graph(module.main()).nodes.clone() {
        let Some((result, operand)) = reshape(module, node, ctx) else { continue };
        let of_caller = classes[result] == Some(StorageClass::Output) && ctx.options.io == Io::External;
        if module.plan.alias[result].is_some()
            || of_caller
            || !may_share(module, &classes, &has_output, result, operand)
        {
            continue;
        }
        module.plan.alias.set(result, Some(Alias { of: operand, kind: AliasKind::View, offset: Bytes(0) }));
        let owner = module.plan.owner(operand).0;
        if has_output[result] {
            has_output.set(owner, true);
        }
        edits += 1;
    }
    Ok(Changed::edits(edits))
}

/// Returns the result and the operand of a node whose result has the operand's bytes under the runtime's
/// profile.
fn reshape(module: &Module, node: Node, ctx: &PassContext<'_>) -> Option<(Value, Value)> {
    let position = ctx.options.profile.view_of(&Typed::of(module, node))?;
    let data = module.node(node);
    let (result, operand) = ((*data.outputs.first()?)?, (*data.inputs.get(position)?)?);
    let same = module.size(result).is_some() && module.size(result) == module.size(operand);
    same.then_some((result, operand))
}

/// Returns whether storage classes allow the view: a graph output needs an owner in the arena, and no
/// two outputs share an owner.
fn may_share(
    module: &Module,
    classes: &SecondaryMap<Value, Option<StorageClass>>,
    has_output: &SecondaryMap<Value, bool>,
    result: Value,
    operand: Value,
) -> bool {
    let owner = module.plan.owner(operand).0;
    if classes[result] != Some(StorageClass::Output) {
        return true;
    }
    classes[owner] == Some(StorageClass::Transient) && !has_output[owner]
}
