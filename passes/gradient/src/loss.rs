//! Losses: one number of a model's output and labels, and its gradient, written with few values of the
//! output's size.

use std::str::FromStr;

use memc_edit::{Attributes, int};
use memc_ir::{Attribute, Dim, ElementType, TensorType, Value, ValueType};
use memc_ops::normalize_axis;

use crate::emit::Emit;
use crate::error::{GradientError, Refusal};

/// Label that is left out of the mean by default, as in PyTorch.
const IGNORED: i64 = -100;

/// Kind of a loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// Cross-entropy of scores (logits) with integer labels: the mean over all labels that count.
    CrossEntropy,
    /// Mean of squared differences.
    Mse,
    /// Mean of absolute differences.
    L1,
    /// Mean of the binary cross-entropy of scores (logits) with labels between 0 and 1.
    Bce,
    /// The output of this name is the loss.
    Output(String),
}

/// A loss with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// Kind.
    pub kind: LossKind,
    /// Output that the loss is computed from; the first output of real numbers without one.
    pub of: Option<String>,
    /// Axis of the classes; without one, the last for up to three axes, else 1.
    pub axis: Option<i64>,
    /// Label that is left out of the mean.
    pub ignore: Option<i64>,
    /// Share of each label that is spread over all classes, from 0 to 1.
    pub smoothing: f64,
}

impl Loss {
    /// Returns a loss with default parameters.
    #[must_use]
    pub fn new(kind: LossKind) -> Self {
        Self { kind, of: None, axis: None, ignore: Some(IGNORED), smoothing: 0.0 }
    }

    /// Name of the kind, as options state it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.kind {
            LossKind::CrossEntropy => "cross-entropy",
            LossKind::Mse => "mse",
            LossKind::L1 => "l1",
            LossKind::Bce => "bce",
            LossKind::Output(_) => "output",
        }
    }
}

/// Reads `cross-entropy`, `mse`, `l1`, `bce` or `output:NAME`, with parameters after a colon:
/// `cross-entropy:ignore=-1,smoothing=0.1,axis=1,of=logits`.
impl FromStr for Loss {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let kind = match name {
            "cross-entropy" => LossKind::CrossEntropy,
            "mse" => LossKind::Mse,
            "l1" => LossKind::L1,
            "bce" => LossKind::Bce,
            "output" if !rest.is_empty() => return Ok(Self::new(LossKind::Output(rest.to_owned()))),
            _ => return Err(format!("`{text}` is not cross-entropy, mse, l1, bce or output:NAME")),
        };
        let mut loss = Self::new(kind);
        for part in rest.split(',').filter(|part| !part.is_empty()) {
            let wrong = || format!("`{part}` is not ignore=N|none, smoothing=SHARE, axis=N or of=NAME");
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            match key {
                "of" => loss.of = Some(value.to_owned()),
                "axis" => loss.axis = Some(value.parse().map_err(|_| wrong())?),
                "ignore" if loss.kind == LossKind::CrossEntropy => {
                    loss.ignore =
                        if value == "none" { None } else { Some(value.parse().map_err(|_| wrong())?) };
                }
                "smoothing" if loss.kind == LossKind::CrossEntropy => {
                    let share: f64 = value.parse().map_err(|_| wrong())?;
                    loss.smoothing =
                        Some(share).filter(|share| (0.0..1.0).contains(share)).ok_or_else(wrong)?;
                }
                _ => return Err(wrong()),
            }
        }
        Ok(loss)
    }
}

/// A loss in the module.
pub(crate) struct Built {
    /// The loss, a scalar.
    pub(crate) loss: Value,
    /// Value that gradients start from.
    pub(crate) source: Value,
    /// Its gradient.
    pub(crate) seed: Value,
    /// Whether the labels are a new graph input.
    pub(crate) adds_labels: bool,
}

/// Emits a loss and the gradient of its source, times `scale`. `labels` names the graph input of the labels,
/// which is added unless the model has it.
pub(crate) fn build(
    emit: &mut Emit<'_>,
    loss: &Loss,
    labels: Option<&str>,
    scale: Option<Value>,
) -> Result<Built, GradientError> {
    emit.set_place("loss_part".to_owned(), format!("the loss `{}`", loss.name()));
    let fail = |why: String| GradientError::Loss { loss: loss.name(), why };
    let source = source(emit, loss)?;
    let unknown = |refusal: Refusal| fail(format!("{refusal}; bind dimensions with `--dim NAME=N`"));
    if !emit.is_float(source) {
        return Err(fail(format!("`{}` is no tensor of real numbers", emit.name(source))));
    }
    let dims = emit.dims(source).map_err(unknown)?;
    if let LossKind::Output(name) = &loss.kind {
        if dims.iter().any(|dim| dim.known() != Some(1)) {
            return Err(fail(format!("the output `{name}` has more than one element")));
        }
        let one = emit.number(1.0, source);
        let seed = match scale {
            Some(scale) => emit.cast(scale, emit.element(source)),
            None => one,
        };
        let (seed, loss) = (emit.reshape(seed, &dims), emit.reshape(source, &[]));
        return Ok(Built { loss, source, seed, adds_labels: false });
    }
    let labels = labels
        .ok_or_else(|| fail("it needs labels: name their graph input with `--labels NAME`".to_owned()))?;
    // Sums over many elements need the precision of binary32.
    let element = emit.element(source);
    let wide = if element == ElementType::Double { element } else { ElementType::Float };
    let x = emit.cast(source, wide);
    let of_class = loss.kind == LossKind::CrossEntropy;
    let axis = if of_class { Some(class_axis(loss, &dims).map_err(fail)?) } else { None };
    let mut label_dims = dims.clone();
    axis.map(|axis| label_dims.remove(axis));
    let (t, adds_labels) =
        label_input(emit, labels, if of_class { ElementType::Int64 } else { wide }, &label_dims)
            .map_err(fail)?;
    let (loss, seed) = match (&loss.kind, axis) {
        (LossKind::CrossEntropy, Some(axis)) => cross_entropy(emit, loss, x, t, axis, scale),
        (kind, _) => differences(emit, kind, x, t, scale),
    }
    .map_err(unknown)?;
    Ok(Built { loss, source, seed: emit.cast(seed, element), adds_labels })
}

/// Returns the output that a loss is computed from.
fn source(emit: &Emit<'_>, loss: &Loss) -> Result<Value, GradientError> {
    let module = emit.module();
    let outputs = &module.graph(module.main()).outputs;
    let wanted = if let LossKind::Output(name) = &loss.kind { Some(name) } else { loss.of.as_ref() };
    let found = match wanted {
        Some(name) => outputs.iter().find(|value| emit.name(**value) == name),
        None => outputs.iter().find(|value| emit.is_float(**value)),
    };
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = outputs.iter().map(|value| emit.name(*value)).collect();
        let why = match wanted {
            Some(name) => format!("the model has no output `{name}`; it has {}", names.join(", ")),
            None => "the model has no output of real numbers".to_owned(),
        };
        GradientError::Loss { loss: loss.name(), why }
    })
}

fn class_axis(loss: &Loss, dims: &[Dim]) -> Result<usize, String> {
    let default = if dims.len() <= 3 { -1 } else { 1 };
    let axis = normalize_axis(loss.axis.unwrap_or(default), dims.len());
    let axis = axis.ok_or_else(|| format!("scores with {} axes have no axis of classes", dims.len()))?;
    if dims[axis].known().is_none() { Err("the number of classes is not known".to_owned()) } else { Ok(axis) }
}

/// Returns the graph input of the labels, and whether it is new.
fn label_input(
    emit: &mut Emit<'_>,
    name: &str,
    element: ElementType,
    dims: &[Dim],
) -> Result<(Value, bool), String> {
    let module = emit.module();
    let main = module.main();
    let wanted = TensorType::new(element, dims.to_vec());
    let Some(found) =
        module.graph(main).inputs.iter().copied().find(|value| module.value(*value).name == name)
    else {
        if module.values().iter().any(|(_, data)| data.name == name) {
            return Err(format!(
                "`{name}` is a value inside of the model, and cannot be an input: choose another name"
            ));
        }
        return Ok((emit.maker.input(main, name, ValueType::Tensor(wanted)), true));
    };
    let Some(own) = emit.tensor(found).cloned() else {
        return Err(format!("the input `{name}` is no tensor"));
    };
    let agree = |own: &[Dim]| {
        own.len() == dims.len() && own.iter().zip(dims).all(|(a, b)| a.same(b) || a.known().is_none())
    };
    if !own.shape.as_deref().is_some_and(agree) || own.element.is_float() != element.is_float() {
        return Err(format!(
            "the input `{name}` is {}, and the labels must be {}",
            ValueType::Tensor(own),
            ValueType::Tensor(wanted)
        ));
    }
    Ok((emit.cast(found, element), false))
}

/// Cross-entropy as `log(sum(exp(x))) - x[label]`, with one value of the size of `x`: its softmax, in which
/// the labels' places are lowered.
fn cross_entropy(
    emit: &mut Emit<'_>,
    loss: &Loss,
    x: Value,
    labels: Value,
    axis: usize,
    scale: Option<Value>,
) -> Result<(Value, Value), Refusal> {
    let (dims, label_dims) = (emit.dims(x)?, emit.dims(labels)?);
    let (zero, one) = (emit.number(0.0, x), emit.number(1.0, x));
    // Labels that do not count read class 0, with weight 0.
    let (safe, weight) = match loss.ignore {
        Some(ignored) => {
            let (ignored, none) =
                (emit.scalar(ignored as f64, ElementType::Int64), emit.scalar(0.0, ElementType::Int64));
            let mask = emit.op("Equal", &[labels, ignored]);
            (emit.op("Where", &[mask, none, labels]), Some(emit.op("Where", &[mask, zero, one])))
        }
        None => (labels, None),
    };
    let places = emit.unsqueeze(safe, &[axis]);
    let along = int("axis", axis as i64);
    let normalizer = emit.reduce("ReduceLogSumExp", x, &[axis], true);
    let mut picked = emit.op_with("GatherElements", &[x, places], along.clone());
    if loss.smoothing != 0.0 {
        let (own, spread) = (emit.number(1.0 - loss.smoothing, x), emit.number(loss.smoothing, x));
        let mean = emit.reduce("ReduceMean", x, &[axis], true);
        let (a, b) = (emit.op("Mul", &[picked, own]), emit.op("Mul", &[mean, spread]));
        picked = emit.op("Add", &[a, b]);
    }
    let mut terms = emit.op("Sub", &[normalizer, picked]);
    let (weight, count) = match weight {
        Some(weight) => {
            let all: Vec<usize> = (0..label_dims.len()).collect();
            let sum = emit.sum(weight, &all, false);
            (Some(emit.unsqueeze(weight, &[axis])), emit.op("Max", &[sum, one]))
        }
        None => (None, emit.count(&label_dims, x)?),
    };
    if let Some(weight) = weight {
        terms = emit.op("Mul", &[terms, weight]);
    }
    let all: Vec<usize> = (0..dims.len()).collect();
    let total = emit.sum(terms, &all, false);
    let value = emit.op("Div", &[total, count]);
    // The gradient: softmax, less 1 at the label, times the weight of the label.
    let share = emit.op_with("Softmax", &[x], along.clone());
    let lowered = emit.number(loss.smoothing - 1.0, x);
    let lowered = emit.expand(lowered, &emit.dims(places)?);
    let mut attributes: Attributes = along;
    attributes.push(("reduction".to_owned(), Attribute::String("add".into())));
    let mut gradient = emit.op_with("ScatterElements", &[share, places, lowered], attributes);
    if let (true, Some(classes)) = (loss.smoothing != 0.0, dims[axis].known()) {
        let level = emit.number(loss.smoothing / classes as f64, x);
        gradient = emit.op("Sub", &[gradient, level]);
    }
    let unit = scaled(emit, one, scale);
    let unit = emit.op("Div", &[unit, count]);
    let factor = weight.map_or(unit, |weight| emit.op("Mul", &[weight, unit]));
    Ok((value, emit.op("Mul", &[gradient, factor])))
}

fn scaled(emit: &mut Emit<'_>, one: Value, scale: Option<Value>) -> Value {
    scale.map_or(one, |scale| emit.cast(scale, emit.element(one)))
}

/// Means over differences of all elements.
fn differences(
    emit: &mut Emit<'_>,
    kind: &LossKind,
    x: Value,
    t: Value,
    scale: Option<Value>,
) -> Result<(Value, Value), Refusal> {
    let dims = emit.dims(x)?;
    let axes: Vec<usize> = (0..dims.len()).collect();
    let (terms, slope) = match kind {
        LossKind::Mse => {
            let difference = emit.op("Sub", &[x, t]);
            let two = emit.number(2.0, x);
            (emit.op("Mul", &[difference, difference]), emit.op("Mul", &[difference, two]))
        }
        LossKind::L1 => {
            let difference = emit.op("Sub", &[x, t]);
            (emit.op("Abs", &[difference]), emit.op("Sign", &[difference]))
        }
        // log(1 + exp(x)) - x t
        _ => {
            let normalizer = emit.op("Softplus", &[x]);
            let picked = emit.op("Mul", &[x, t]);
            let terms = emit.op("Sub", &[normalizer, picked]);
            let share = emit.op("Sigmoid", &[x]);
            (terms, emit.op("Sub", &[share, t]))
        }
    };
    let count = emit.count(&dims, x)?;
    let total = emit.sum(terms, &axes, false);
    let value = emit.op("Div", &[total, count]);
    let one = emit.number(1.0, x);
    let unit = scaled(emit, one, scale);
    let unit = emit.op("Div", &[unit, count]);
    Ok((value, emit.op("Mul", &[slope, unit])))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn losses_are_read_with_their_parameters() {
        let loss: Loss = "cross-entropy:ignore=-1,smoothing=0.1,axis=1,of=logits".parse().unwrap();
        assert_eq!(
            (loss.ignore, loss.smoothing, loss.axis, loss.of.as_deref()),
            (Some(-1), 0.1, Some(1), Some("logits"))
        );
        assert_eq!("cross-entropy".parse::<Loss>().unwrap().ignore, Some(IGNORED));
        assert_eq!("cross-entropy:ignore=none".parse::<Loss>().unwrap().ignore, None);
        assert_eq!("output:a:b".parse::<Loss>().unwrap().kind, LossKind::Output("a:b".to_owned()));
        for wrong in
            ["", "crossentropy", "output:", "mse:smoothing=0.1", "cross-entropy:smoothing=2", "l1:axis=x"]
        {
            assert!(wrong.parse::<Loss>().is_err(), "{wrong}");
        }
    }
}
