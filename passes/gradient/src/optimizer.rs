//! Optimizers: new parameters and state from gradients, in standard operators.
//!
//! Formulas and defaults are those of PyTorch's `torch.optim`; LAMB follows You et al., "Large Batch
//! Optimization for Deep Learning" (2020), and LARS You et al., "Large Batch Training of Convolutional
//! Networks" (2017). Numbers that depend on the step alone are computed in binary64: `1 - beta^step` of the
//! first steps would lose 3 of 7 digits.

use std::str::FromStr;

use memc_ir::{ElementType, Value};

use crate::emit::Emit;
use crate::error::Refusal;

/// An optimizer with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Optimizer {
    /// Stochastic gradient descent.
    Sgd {
        /// Share of the last change that is repeated.
        momentum: f64,
        /// Whether the momentum is looked ahead.
        nesterov: bool,
    },
    /// Adam; decay is added to gradients.
    Adam(Moments),
    /// Adam with decay of the parameters themselves.
    AdamW(Moments),
    /// Adam with a trust ratio for each tensor.
    Lamb(Moments),
    /// Stochastic gradient descent with a trust ratio for each tensor.
    Lars {
        /// Share of the last change that is repeated.
        momentum: f64,
        /// Factor of the trust ratio.
        trust: f64,
    },
}

/// Parameters of optimizers with two moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Share of the mean of gradients that stays.
    pub beta1: f64,
    /// Share of the mean of squared gradients that stays.
    pub beta2: f64,
    /// Number added to the root of the second moment.
    pub epsilon: f64,
}

impl Optimizer {
    /// Name, as options state it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sgd { .. } => "sgd",
            Self::Adam(_) => "adam",
            Self::AdamW(_) => "adamw",
            Self::Lamb(_) => "lamb",
            Self::Lars { .. } => "lars",
        }
    }

    /// Weight decay without a request: 0.01 for AdamW, as in PyTorch, else none.
    #[must_use]
    pub fn decay(&self) -> f64 {
        if matches!(self, Self::AdamW(_)) { 0.01 } else { 0.0 }
    }

    /// Prefixes of the names of the state that each parameter has.
    #[must_use]
    pub fn state(&self) -> &'static [&'static str] {
        match self {
            Self::Sgd { momentum, .. } if *momentum == 0.0 => &[],
            Self::Sgd { .. } | Self::Lars { .. } => &["momentum"],
            Self::Adam(_) | Self::AdamW(_) | Self::Lamb(_) => &["m", "v"],
        }
    }

    /// Whether updates depend on the number of the step.
    #[must_use]
    pub fn reads_step(&self) -> bool {
        matches!(self, Self::Adam(_) | Self::AdamW(_) | Self::Lamb(_))
    }
}

/// Reads `sgd`, `adam`, `adamw`, `lamb` or `lars`, with parameters after a colon:
/// `sgd:momentum=0.9,nesterov`, `adamw:beta1=0.9,beta2=0.95,eps=1e-8`, `lars:momentum=0.9,trust=0.001`.
impl FromStr for Optimizer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let (mut momentum, mut nesterov, mut trust) = (if name == "lars" { 0.9 } else { 0.0 }, false, 0.001);
        let mut moments =
            Moments { beta1: 0.9, beta2: 0.999, epsilon: if name == "lamb" { 1e-6 } else { 1e-8 } };
        let has_moments = ["adam", "adamw", "lamb"].contains(&name);
        for part in rest.split(',').filter(|part| !part.is_empty()) {
            let wrong = || format!("`{part}` is no parameter of `{name}`");
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let number = || {
                value
                    .parse::<f64>()
                    .ok()
                    .filter(|number| number.is_finite() && *number >= 0.0)
                    .ok_or_else(wrong)
            };
            let share = || number().ok().filter(|number| *number < 1.0).ok_or_else(wrong);
            match (name, key) {
                ("sgd" | "lars", "momentum") => momentum = share()?,
                ("sgd", "nesterov") if value.is_empty() => nesterov = true,
                ("lars", "trust") => trust = number()?,
                (_, "beta1") if has_moments => moments.beta1 = share()?,
                (_, "beta2") if has_moments => moments.beta2 = share()?,
                (_, "eps") if has_moments => moments.epsilon = number()?,
                _ => return Err(wrong()),
            }
        }
        if nesterov && momentum == 0.0 {
            return Err("`nesterov` needs a momentum: sgd:momentum=0.9,nesterov".to_owned());
        }
        match name {
            "sgd" => Ok(Self::Sgd { momentum, nesterov }),
            "adam" => Ok(Self::Adam(moments)),
            "adamw" => Ok(Self::AdamW(moments)),
            "lamb" => Ok(Self::Lamb(moments)),
            "lars" => Ok(Self::Lars { momentum, trust }),
            _ => Err(format!("`{text}` is not sgd, adam, adamw, lamb or lars")),
        }
    }
}

/// How gradients are limited before the update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clip {
    /// Each element to at most this absolute value.
    Value(f64),
    /// The Euclidean norm of each tensor.
    Tensor(f64),
    /// The Euclidean norm over all tensors. All gradients are kept until it is known.
    Global(f64),
}

/// Reads `value=X`, `tensor=X` or `global=X`.
impl FromStr for Clip {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not value=X, tensor=X or global=X with a positive X");
        let (kind, limit) = text.split_once('=').ok_or_else(wrong)?;
        let limit =
            limit.parse().ok().filter(|limit: &f64| limit.is_finite() && *limit > 0.0).ok_or_else(wrong)?;
        match kind {
            "value" => Ok(Self::Value(limit)),
            "tensor" => Ok(Self::Tensor(limit)),
            "global" => Ok(Self::Global(limit)),
            _ => Err(wrong()),
        }
    }
}

/// Added to norms before a limit is divided by them.
const NORM_EPSILON: f64 = 1e-6;

/// Returns all axes of a value.
fn axes(emit: &Emit<'_>, value: Value) -> Result<Vec<usize>, Refusal> {
    Ok((0..emit.rank(value)?).collect())
}

/// Returns the sum of the squares of all elements.
pub(crate) fn sum_of_squares(emit: &mut Emit<'_>, value: Value) -> Result<Value, Refusal> {
    let all = axes(emit, value)?;
    if all.is_empty() {
        return Ok(emit.op("Mul", &[value, value]));
    }
    Ok(emit.reduce("ReduceSumSquare", value, &all, false))
}

fn norm(emit: &mut Emit<'_>, value: Value) -> Result<Value, Refusal> {
    let squares = sum_of_squares(emit, value)?;
    Ok(emit.op("Sqrt", &[squares]))
}

/// Returns `min(1, limit / (norm + epsilon))`.
fn share(emit: &mut Emit<'_>, norm: Value, limit: f64) -> Value {
    let (limit, epsilon, one) =
        (emit.number(limit, norm), emit.number(NORM_EPSILON, norm), emit.number(1.0, norm));
    let padded = emit.op("Add", &[norm, epsilon]);
    let ratio = emit.op("Div", &[limit, padded]);
    emit.op("Min", &[ratio, one])
}

/// Limits gradients. `squares` is the sum of the squares of all gradients, if it is known already.
pub(crate) fn clip(
    emit: &mut Emit<'_>,
    clip: Clip,
    gradients: &mut [Value],
    squares: Option<Value>,
) -> Result<(), Refusal> {
    let global = match (clip, squares) {
        (Clip::Global(limit), Some(squares)) => {
            let norm = emit.op("Sqrt", &[squares]);
            Some(share(emit, norm, limit))
        }
        _ => None,
    };
    for gradient in gradients {
        *gradient = match clip {
            Clip::Value(limit) => {
                let (low, high) = (emit.number(-limit, *gradient), emit.number(limit, *gradient));
                emit.op("Clip", &[*gradient, low, high])
            }
            Clip::Tensor(limit) => {
                let norm = norm(emit, *gradient)?;
                let share = share(emit, norm, limit);
                emit.op("Mul", &[*gradient, share])
            }
            Clip::Global(_) => {
                let Some(share) = global else { continue };
                let share = emit.cast(share, emit.element(*gradient));
                emit.op("Mul", &[*gradient, share])
            }
        };
    }
    Ok(())
}

/// Values that all updates of a step share.
pub(crate) struct Updates {
    pub(crate) optimizer: Optimizer,
    /// Learning rate.
    rate: Value,
    /// `1 - beta1^step` and the root of `1 - beta2^step`, for optimizers with moments.
    corrections: Option<(Value, Value)>,
}

impl Updates {
    /// Emits the numbers that depend on the step alone. `step` counts from 1.
    pub(crate) fn new(emit: &mut Emit<'_>, optimizer: Optimizer, rate: Value, step: Option<Value>) -> Self {
        let moments = match optimizer {
            Optimizer::Adam(moments) | Optimizer::AdamW(moments) | Optimizer::Lamb(moments) => Some(moments),
            _ => None,
        };
        let corrections = moments.zip(step).map(|(moments, step)| {
            let step = emit.cast(step, ElementType::Double);
            let mut correction = |beta: f64| {
                let (beta, one) =
                    (emit.scalar(beta, ElementType::Double), emit.scalar(1.0, ElementType::Double));
                let power = emit.op("Pow", &[beta, step]);
                emit.op("Sub", &[one, power])
            };
            let (first, second) = (correction(moments.beta1), correction(moments.beta2));
            let root = emit.op("Sqrt", &[second]);
            (emit.cast(first, ElementType::Float), emit.cast(root, ElementType::Float))
        });
        Self { optimizer, rate, corrections }
    }

    /// Emits the new value of a parameter, and of its state in the order of [`Optimizer::state`].
    pub(crate) fn update(
        &self,
        emit: &mut Emit<'_>,
        parameter: Value,
        gradient: Value,
        state: &[Value],
        decay: f64,
    ) -> Result<(Value, Vec<Value>), Refusal> {
        let element = emit.element(parameter);
        let rate = emit.cast(self.rate, element);
        match self.optimizer {
            Optimizer::Sgd { momentum, nesterov } => {
                let mut change = decayed(emit, parameter, gradient, decay);
                let mut new = Vec::new();
                if let [old] = state {
                    let momentum = emit.number(momentum, *old);
                    let kept = emit.op("Mul", &[*old, momentum]);
                    let sum = emit.op("Add", &[kept, change]);
                    new.push(sum);
                    change = if nesterov {
                        let ahead = emit.op("Mul", &[sum, momentum]);
                        emit.op("Add", &[change, ahead])
                    } else {
                        sum
                    };
                }
                let change = emit.op("Mul", &[change, rate]);
                Ok((emit.op("Sub", &[parameter, change]), new))
            }
            Optimizer::Lars { momentum, trust } => {
                let (weight, slope) = (norm(emit, parameter)?, norm(emit, gradient)?);
                let (trust, rest) = (emit.number(trust, weight), emit.number(decay, weight));
                let own = emit.op("Mul", &[weight, rest]);
                let whole = emit.op("Add", &[slope, own]);
                let scaled = emit.op("Mul", &[weight, trust]);
                let ratio = ratio(emit, scaled, whole, [weight, whole]);
                let step = emit.op("Mul", &[ratio, rate]);
                let change = decayed(emit, parameter, gradient, decay);
                let mut change = emit.op("Mul", &[change, step]);
                if let [old] = state {
                    let momentum = emit.number(momentum, *old);
                    let kept = emit.op("Mul", &[*old, momentum]);
                    change = emit.op("Add", &[kept, change]);
                }
                Ok((emit.op("Sub", &[parameter, change]), vec![change; state.len()]))
            }
            Optimizer::Adam(moments) => {
                let gradient = decayed(emit, parameter, gradient, decay);
                let (direction, new) = self.direction(emit, moments, gradient, state)?;
                let change = emit.op("Mul", &[direction, rate]);
                Ok((emit.op("Sub", &[parameter, change]), new))
            }
            Optimizer::AdamW(moments) => {
                let (direction, new) = self.direction(emit, moments, gradient, state)?;
                let mut parameter = parameter;
                if decay != 0.0 {
                    let (decay, one) = (emit.number(decay, rate), emit.number(1.0, rate));
                    let share = emit.op("Mul", &[rate, decay]);
                    let kept = emit.op("Sub", &[one, share]);
                    parameter = emit.op("Mul", &[parameter, kept]);
                }
                let change = emit.op("Mul", &[direction, rate]);
                Ok((emit.op("Sub", &[parameter, change]), new))
            }
            Optimizer::Lamb(moments) => {
                let (direction, new) = self.direction(emit, moments, gradient, state)?;
                let direction = decayed(emit, parameter, direction, decay);
                let (weight, length) = (norm(emit, parameter)?, norm(emit, direction)?);
                let ratio = ratio(emit, weight, length, [weight, length]);
                let step = emit.op("Mul", &[ratio, rate]);
                let change = emit.op("Mul", &[direction, step]);
                Ok((emit.op("Sub", &[parameter, change]), new))
            }
        }
    }

    /// Returns the corrected first moment over the root of the corrected second moment, and both moments.
    fn direction(
        &self,
        emit: &mut Emit<'_>,
        moments: Moments,
        gradient: Value,
        state: &[Value],
    ) -> Result<(Value, Vec<Value>), Refusal> {
        let ([m, v], Some((first, root))) = (state, self.corrections) else {
            return Err(Refusal::form("the optimizer has no state"));
        };
        let element = emit.element(gradient);
        let (first, root) = (emit.cast(first, element), emit.cast(root, element));
        let m = averaged(emit, *m, gradient, moments.beta1);
        let squares = emit.op("Mul", &[gradient, gradient]);
        let v = averaged(emit, *v, squares, moments.beta2);
        let deviation = emit.op("Sqrt", &[v]);
        let corrected = emit.op("Div", &[deviation, root]);
        let epsilon = emit.number(moments.epsilon, gradient);
        let divisor = emit.op("Add", &[corrected, epsilon]);
        let mean = emit.op("Div", &[m, first]);
        Ok((emit.op("Div", &[mean, divisor]), vec![m, v]))
    }
}

/// Returns `beta * old + (1 - beta) * new`.
fn averaged(emit: &mut Emit<'_>, old: Value, new: Value, beta: f64) -> Value {
    let (stays, comes) = (emit.number(beta, old), emit.number(1.0 - beta, old));
    let (kept, added) = (emit.op("Mul", &[old, stays]), emit.op("Mul", &[new, comes]));
    emit.op("Add", &[kept, added])
}

/// Returns `gradient + decay * parameter`.
fn decayed(emit: &mut Emit<'_>, parameter: Value, gradient: Value, decay: f64) -> Value {
    if decay == 0.0 {
        return gradient;
    }
    let decay = emit.number(decay, parameter);
    let share = emit.op("Mul", &[parameter, decay]);
    emit.op("Add", &[gradient, share])
}

/// Returns a quotient, or 1 if one of the norms is zero.
fn ratio(emit: &mut Emit<'_>, dividend: Value, divisor: Value, norms: [Value; 2]) -> Value {
    let (zero, one) = (emit.number(0.0, dividend), emit.number(1.0, dividend));
    let [a, b] = norms.map(|norm| emit.op("Greater", &[norm, zero]));
    let both = emit.op("And", &[a, b]);
    let safe = emit.op("Where", &[both, divisor, one]);
    let quotient = emit.op("Div", &[dividend, safe]);
    emit.op("Where", &[both, quotient, one])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn optimizers_are_read_with_their_parameters() {
        let sgd: Optimizer = "sgd:momentum=0.9,nesterov".parse().unwrap();
        assert_eq!(sgd, Optimizer::Sgd { momentum: 0.9, nesterov: true });
        assert_eq!(sgd.state(), ["momentum"]);
        assert!("sgd".parse::<Optimizer>().unwrap().state().is_empty());
        let adamw: Optimizer = "adamw:beta2=0.95,eps=1e-6".parse().unwrap();
        assert_eq!(adamw, Optimizer::AdamW(Moments { beta1: 0.9, beta2: 0.95, epsilon: 1e-6 }));
        for wrong in [
            "",
            "adagrad",
            "sgd:beta1=0.9",
            "sgd:nesterov",
            "adam:beta1=1.5",
            "adam:momentum=0.9",
            "lars:trust=x",
        ] {
            assert!(wrong.parse::<Optimizer>().is_err(), "{wrong}");
        }
        assert_eq!("global=1".parse::<Clip>(), Ok(Clip::Global(1.0)));
        for wrong in ["", "1", "global=0", "global=-1", "norm=1", "value=x"] {
            assert!(wrong.parse::<Clip>().is_err(), "{wrong}");
        }
    }
}
