//! Recurrent layers: those whose steps are known are unrolled before gradients are made, so a rule meets only
//! the others, and says why.

use super::{CodeRule, Gradients, Site};
use crate::emit::Emit;
use crate::error::Refusal;
use crate::recurrent::refused;

pub(super) const RULES: &[CodeRule] =
    &[CodeRule::of("GRU", rule), CodeRule::of("LSTM", rule), CodeRule::of("RNN", rule)];

fn rule(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    refused(emit, &site.data)?;
    Err(Refusal::form("it is not unrolled"))
}
