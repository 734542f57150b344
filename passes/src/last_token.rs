//! `last-token`: leaves only the last row of outputs that have a row for each token.

use memc_edit::Maker;
use memc_ir::{Bytes, Diagnostic, Dim, ElementType, Module, Severity, Stage, Value, ValueType};

use crate::claims::{Claim, LastRow, NoRows};
use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "last-token",
    summary: "Leaves only the last row of outputs that have a row for each token.",
    page: include_str!("../doc/last-token.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &[],
    run,
};

/// First version of ONNX's operator set in which the positions of a Slice are operands.
const POSITIONS_ARE_OPERANDS: i64 = 10;

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let state: Vec<&str> = ctx.options.state.iter().map(|pair| pair.new.as_str()).collect();
    let mut edits = 0;
    for (value, axis) in of_tokens(module, &state)? {
        let before = module.largest(value).and_then(|ty| ty.size()).unwrap_or_default();
        let output = module.value(value).name.clone();
        let Some((whole, made)) = cut(module, &output, None, axis) else { continue };
        edits += made;
        ctx.said.remarks.push(remark(&output, before));
        ctx.said.claims.push(Claim::LastRow(LastRow { output, whole, axis }));
    }
    if edits > 0 {
        ctx.data = memc_ops::infer(module).data;
    }
    Ok(Changed::edits(edits))
}

/// Remarks on an output with another shape.
fn remark(output: &str, before: Bytes) -> Diagnostic {
    let message =
        format!("output `{output}` has the last row only, by `--last-token`: all rows are {before}");
    Diagnostic::new("W0364", Severity::Remark, message)
        .with_help("read the row at position 0: it is the row of the last token of the run")
}

/// Returns the outputs with a row for each token, and the axis of the rows: an input of integers has the
/// extents of the output before its last axis.
fn of_tokens(module: &Module, state: &[&str]) -> Result<Vec<(Value, usize)>, NoRows> {
    let main = module.graph(module.main());
    let ranges = &module.domain().ranges;
    let dims = |value: Value| -> Option<Vec<Dim>> {
        let shape = module.ty(value).tensor()?.shape.as_ref()?;
        Some(shape.iter().map(|dim| dim.simplified(ranges)).collect())
    };
    let is_ids = |value: &Value| {
        let element = module.ty(*value).tensor().map(|ty| ty.element);
        element.is_some_and(ElementType::is_integral) && dims(*value).is_some_and(|dims| !dims.is_empty())
    };
    let ids: Vec<Vec<Dim>> = main.inputs.iter().copied().filter(is_ids).filter_map(dims).collect();
    if ids.is_empty() {
        return Err(NoRows { why: "no input has the integers of tokens".to_owned() });
    }
    let axis = |value: Value| {
        let (dims, is_state) = (dims(value)?, state.contains(&module.value(value).name.as_str()));
        let rank = dims.len().checked_sub(1).filter(|rank| *rank > 0 && !is_state)?;
        let is_like =
            |ids: &&Vec<Dim>| ids.len() == rank && ids.iter().zip(&dims).all(|(own, other)| own.same(other));
        let is_made = module.producer(value).is_some();
        ids.iter().find(is_like).filter(|_| is_made).map(|_| (value, rank - 1))
    };
    let found: Vec<(Value, usize)> = main.outputs.iter().copied().filter_map(axis).collect();
    if found.is_empty() {
        return Err(NoRows {
            why: "none has the extents of an input of integers, and one axis more".to_owned(),
        });
    }
    if module.opsets.get("").copied().unwrap_or_default() < POSITIONS_ARE_OPERANDS {
        return Err(NoRows {
            why: format!(
                "the operator set is older than {POSITIONS_ARE_OPERANDS}, and Slice has no operands"
            ),
        });
    }
    Ok(found)
}

/// Cuts the last position along an axis out of an output, which keeps its name. The whole value is renamed,
/// to `whole` if it is given. Returns its new name and the number of edits; `None` if no node makes the
/// output. Types are open until inference runs again.
pub fn cut(module: &mut Module, output: &str, whole: Option<&str>, axis: usize) -> Option<(String, u64)> {
    let main = module.main();
    let mut outputs = module.graph(main).outputs.clone();
    let at = outputs.iter().position(|value| module.value(*value).name == output)?;
    let value = outputs[at];
    module.producer(value)?;
    let axis = i64::try_from(axis).ok()?;
    let mut maker = Maker::new(module, INFO.name);
    let whole = whole.map_or_else(|| maker.name_after(value, "all"), str::to_owned);
    maker.rename(value, whole.clone());
    let positions = [-1, i64::MAX, axis].map(|number| maker.integers(&[number]));
    let operands: Vec<Value> = [value].into_iter().chain(positions).collect();
    let slice = maker.onnx("Slice", operands, Vec::new());
    let node = maker.insert(None, slice, &[Some((output.to_owned(), ValueType::Unknown))]);
    outputs[at] = maker.result(node)?;
    maker.set_outputs(main, outputs);
    Some((whole, maker.finish()))
}
