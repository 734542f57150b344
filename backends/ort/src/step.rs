//! A node at its position in the schedule, and the run of its kernel if an operand or a result has no
//! place of its own.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::rc::Rc;

use memc_layout::Layout;
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::NodeProto;

use crate::cut::{Cutter, has_bodies};
use crate::error::Error;
use crate::places::{Place, Places};
use crate::runtime::{Bound, Session, Value};
use crate::stage::Stage;

/// Domain of the transfer operators.
const TRANSFERS: &str = "ai.memc";

/// Kind of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Runs a kernel.
    Run,
    /// Does nothing: its results are in the places of its operands.
    Skip,
    /// Ran once, before the plan: its results are constants.
    Constant,
    /// Moves bytes from one space to another, concurrently with the kernels.
    Transfer,
}

/// A node at its position in the schedule.
#[derive(Debug)]
pub(crate) struct Step<'r> {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) op: String,
    pub(crate) domain: String,
    /// Slots of operands; once the session exists, the slots of its inputs.
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    pub(crate) session: Option<Rc<Session<'r>>>,
    /// Fixed operands and results, if all have their places before the run.
    pub(crate) bound: Option<Bound<'r>>,
    /// Whether the plan writes a result over an operand that the kernel reads again. The result is then
    /// made outside the arena and copied into it.
    pub(crate) is_apart: bool,
    pub(crate) has_bodies: bool,
    pub(crate) is_transfer: bool,
}

impl<'r> Step<'r> {
    /// Makes a step that runs its node's kernel; values without a slot get one.
    pub(crate) fn of(node: &NodeProto, cutter: &Cutter<'_>, places: &mut Places) -> Self {
        let outputs = node.output.iter().filter(|name| !name.is_empty());
        Self {
            kind: Kind::Run,
            name: node.name().to_owned(),
            op: node.op_type().to_owned(),
            domain: node.domain().to_owned(),
            inputs: cutter.operands(node).iter().map(|name| places.slot(name)).collect(),
            outputs: outputs.map(|name| places.slot(name)).collect(),
            session: None,
            bound: None,
            is_apart: false,
            has_bodies: has_bodies(node),
            is_transfer: is_transfer(node),
        }
    }

    /// Runs the kernel over the values of a stage; the runtime allocates results that have no place.
    ///
    /// # Errors
    /// An operand has no value yet, or the kernel fails.
    pub(crate) fn run_loose(&self, position: usize, stage: &mut Stage<'r>) -> Result<(), Error> {
        let Some(session) = &self.session else { return Ok(()) };
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for slot in &self.inputs {
            let none = || Error::NoValue {
                step: position as u64,
                node: self.name.clone(),
                tensor: stage.places.slots[*slot].name.clone(),
            };
            inputs.push(stage.values[*slot].as_ref().ok_or_else(none)?);
        }
        let has_place = |slot: &usize| !self.is_apart && stage.places.slots[*slot].place != Place::Runtime;
        let place = |slot: &usize| stage.values[*slot].as_ref().filter(|_| has_place(slot));
        let outputs: Vec<Option<&Value<'_>>> = self.outputs.iter().map(place).collect();
        // SAFETY: all values live; the plan decides which of them share bytes.
        let fresh = unsafe { session.run_into(&inputs, &outputs) }
            .map_err(|error| self.blame(position, stage, error))?;
        for (slot, value) in self.outputs.iter().zip(fresh) {
            match value {
                Some(value) if self.is_apart => stage.put(*slot, &value)?,
                Some(value) => stage.values[*slot] = Some(value),
                None => {}
            }
        }
        Ok(())
    }

    /// Turns an error of the runtime into an error of this step's kernel. If the cause is a result whose
    /// extents differ from the plan's, returns that error instead.
    pub(crate) fn blame(&self, position: usize, stage: &Stage<'r>, error: Error) -> Error {
        let Error::Runtime { message, .. } = error else { return error };
        let (step, node, op) = (position as u64, self.name.clone(), self.op.clone());
        self.other_extents(position, stage).unwrap_or(Error::Kernel { step, node, op, message })
    }

    /// Runs the kernel again without places for its results, and returns an error for the first result
    /// whose extents differ from the plan's; `None` if there is none.
    fn other_extents(&self, position: usize, stage: &Stage<'r>) -> Option<Error> {
        let session = self.session.as_ref()?;
        let inputs =
            self.inputs.iter().map(|slot| stage.values[*slot].as_ref()).collect::<Option<Vec<_>>>()?;
        // SAFETY: all values live, and results get memory of their own.
        let fresh = unsafe { session.run_into(&inputs, &vec![None; self.outputs.len()]) }.ok()?;
        self.outputs.iter().zip(&fresh).find_map(|(slot, value)| {
            let slot = &stage.places.slots[*slot];
            let (claimed, found) = (&slot.ty.as_ref()?.1, value.as_ref()?.tensor().ok()??.shape);
            (*claimed != found).then(|| Error::Claimed {
                step: position as u64,
                node: self.name.clone(),
                op: self.op.clone(),
                tensor: slot.name.clone(),
                claimed: claimed.as_slice().into(),
                found: found.into(),
            })
        })
    }
}

fn is_transfer(node: &NodeProto) -> bool {
    let is_one = node.input.len() == 1 && node.output.len() == 1;
    node.domain() == TRANSFERS && matches!(node.op_type(), "SwapOut" | "SwapIn") && is_one
}

/// Returns the nodes in the order of the schedule.
///
/// # Errors
/// The schedule names a node that the model does not have, or has more than once.
pub(crate) fn scheduled<'m>(model: &'m ModelFile, layout: &Layout) -> Result<Vec<&'m NodeProto>, Error> {
    let mut by_name: BTreeMap<&str, Vec<&NodeProto>> = BTreeMap::new();
    for node in &model.graph().node {
        by_name.entry(node.name()).or_default().push(node);
    }
    let mut nodes = Vec::with_capacity(layout.schedule.len());
    for row in &layout.schedule {
        match by_name.get(row.node.as_str()).map(Vec::as_slice) {
            Some([node]) => nodes.push(*node),
            found => {
                let count = found.map_or(0, <[_]>::len);
                return Err(Error::Schedule { step: row.step, node: row.node.clone(), count });
            }
        }
    }
    Ok(nodes)
}
