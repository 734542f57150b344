//! Assembly of a step: loss, gradients, limits of gradients, optimizer, outputs.

use std::collections::BTreeSet;

use memc_ir::{
    Bytes, ConstData, ConstOrigin, ElementType, Module, Payload, TensorType, Value, ValueType, matches,
};

use crate::Known;
use crate::batch_norms::{self, BatchNorms};
use crate::emit::Emit;
use crate::error::{GradientError, Refusal};
use crate::loss::{self, Loss};
use crate::optimizer::{self, Clip, Optimizer, Updates};
use crate::recurrent;
use crate::trainable::Trainable;
use crate::walk::Paths;

/// Mode of normalizations with statistics of batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Norms {
    /// As each node states.
    #[default]
    AsGiven,
    /// Those with trainable parameters use the statistics of the batch and update running ones.
    Train,
    /// All use their running statistics.
    Eval,
}

/// What a step gives besides the loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Emitted {
    /// New parameters, state and statistics.
    #[default]
    Updates,
    /// Gradients, as `grad.NAME`, and new statistics.
    Gradients,
    /// Nothing: the outputs of the model stay, for an evaluation.
    Evaluation,
}

/// Options of a step.
#[derive(Clone, Debug)]
pub struct StepOptions {
    /// Loss.
    pub loss: Loss,
    /// Name of the graph input of the labels.
    pub labels: Option<String>,
    /// Optimizer.
    pub optimizer: Optimizer,
    /// Weight decay by pattern of names; the last pattern that fits counts.
    pub decay: Vec<(String, f64)>,
    /// Limit of gradients.
    pub clip: Option<Clip>,
    /// Whether gradients are computed with a factor, the input `loss_scale`.
    pub loss_scale: bool,
    /// Number of calls whose gradients make one update.
    pub accumulate: u64,
    /// Mode of normalizations.
    pub norms: Norms,
    /// Outputs.
    pub emitted: Emitted,
    /// File of zeros beside the model, by its name: large states of zeros are references into it. Without
    /// one, the model holds the zeros of every state.
    pub zeros: Option<String>,
}

/// Least bytes of a state whose zeros are in a file of their own.
const LARGE: u64 = 1 << 20;

impl StepOptions {
    /// Returns options with defaults for the rest.
    #[must_use]
    pub fn new(loss: Loss, optimizer: Optimizer) -> Self {
        let (labels, decay, clip) = (None, Vec::new(), None);
        let (norms, emitted) = (Norms::default(), Emitted::default());
        Self {
            loss,
            labels,
            optimizer,
            decay,
            clip,
            loss_scale: false,
            accumulate: 1,
            norms,
            emitted,
            zeros: None,
        }
    }

    fn decay_of(&self, name: &str) -> f64 {
        let stated =
            self.decay.iter().rev().find(|(pattern, _)| matches(pattern, name)).map(|(_, decay)| *decay);
        stated.unwrap_or_else(|| self.optimizer.decay())
    }
}

/// The interface of a step.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Names of graph inputs that the model does not have: parameters, state, `lr`, labels.
    pub added_inputs: Vec<String>,
    /// Names of the outputs of the step, besides those of the model that stay.
    pub added_outputs: Vec<String>,
    /// Whether the outputs of the model stay.
    pub keeps_outputs: bool,
    /// Names of outputs that are new values of inputs, with these inputs.
    pub state: Vec<(String, String)>,
    /// Names of trainable parameters that the loss does not depend on; they stay constants.
    pub unused: Vec<String>,
    /// Bytes of the file of zeros that states refer to; 0 if none does.
    pub zeros: Bytes,
}

/// Turns a module into a training step, with nodes for the loss, all gradients and the updates. `trainable`
/// are graph inputs with defaults. Returns the interface of the step.
///
/// O(nodes + emitted nodes).
///
/// # Errors
/// See [`GradientError`]. The module is then only good for messages.
pub fn make_step(
    module: &mut Module,
    data: &mut Known,
    trainable: &[Trainable],
    named: bool,
    options: &StepOptions,
) -> Result<Step, GradientError> {
    let anchor = trainable.first().map(|parameter| parameter.value);
    let anchor =
        anchor.ok_or_else(|| GradientError::NoTrainable { why: "the model has no weights".to_owned() })?;
    let emit = Emit::new(module, std::mem::take(data), anchor);
    let mut assembly = Assembly { emit, options, step: Step::default(), outputs: Vec::new() };
    assembly.run(trainable, named)?;
    let Assembly { emit, step, .. } = assembly;
    *data = emit.finish()?;
    Ok(step)
}

/// A step under construction.
struct Assembly<'m, 'o> {
    emit: Emit<'m>,
    options: &'o StepOptions,
    step: Step,
    /// Outputs of the step, with their names.
    outputs: Vec<(String, Value)>,
}

/// Converts a refusal outside of rules, which is a defect or an unknown extent.
fn refused(what: &str) -> impl Fn(Refusal) -> GradientError + '_ {
    move |refusal| GradientError::Defect { node: what.to_owned(), why: refusal.to_string() }
}

impl Assembly<'_, '_> {
    fn run(&mut self, trainable: &[Trainable], named: bool) -> Result<(), GradientError> {
        let values: Vec<Value> = trainable.iter().map(|parameter| parameter.value).collect();
        let is_evaluation = self.options.emitted == Emitted::Evaluation;
        let norms = if is_evaluation { Norms::Eval } else { self.options.norms };
        let batch = batch_norms::expand(&mut self.emit, norms, &values)?;
        if !is_evaluation {
            recurrent::expand(&mut self.emit, &values)?;
        }
        let scale = self.scale()?;
        let labels = self.options.labels.as_deref();
        let built = loss::build(&mut self.emit, &self.options.loss, labels, scale)?;
        if let (true, Some(labels)) = (built.adds_labels, labels) {
            self.step.added_inputs.push(labels.to_owned());
        }
        self.output("loss", built.loss)?;
        if is_evaluation {
            self.step.keeps_outputs = true;
            self.step.unused = trainable.iter().map(|parameter| parameter.name.clone()).collect();
            return self.finish(trainable);
        }
        let paths = Paths::find(self.emit.module(), &values, built.source, &batch.statistics);
        self.require_some(trainable, named, &paths, |parameter| paths.reaches(parameter.value))?;
        paths.check(self.emit.module())?;
        let gradients = paths.gradients(&mut self.emit, (built.source, built.seed), &batch.nodes)?;
        // Tensors without elements pass no gradient on, so fewer parameters have one than the loss reads.
        self.step.unused =
            self.require_some(trainable, named, &paths, |parameter| gradients[parameter.value].is_some())?;
        let mut reached: Vec<(&Trainable, Value)> =
            trainable.iter().filter_map(|parameter| Some((parameter, gradients[parameter.value]?))).collect();
        self.emit.set_place("update".to_owned(), "the update".to_owned());
        let is_finite = self.limit(&mut reached, scale)?;
        for (parameter, _) in reached.iter().filter(|(parameter, _)| !parameter.is_input) {
            self.step.added_inputs.push(parameter.name.clone());
        }
        match self.options.emitted {
            Emitted::Gradients => {
                for (parameter, gradient) in &reached {
                    self.output(&format!("grad.{}", parameter.name), *gradient)?;
                }
            }
            _ => self.update(&reached, is_finite)?,
        }
        self.running(&batch)?;
        self.finish(trainable)
    }

    /// Returns the names of the parameters that are not reached.
    ///
    /// # Errors
    /// The loss depends on none of them, or not on one that the user named.
    fn require_some(
        &self,
        trainable: &[Trainable],
        named: bool,
        paths: &Paths,
        is_reached: impl Fn(&Trainable) -> bool,
    ) -> Result<Vec<String>, GradientError> {
        let unused = trainable.iter().filter(|parameter| !is_reached(parameter));
        let unused: Vec<String> = unused.map(|parameter| parameter.name.clone()).collect();
        if unused.len() < trainable.len() && (unused.is_empty() || !named) {
            return Ok(unused);
        }
        let names = if named { unused } else { Vec::new() };
        Err(GradientError::Independent { names, stops: paths.stops(self.emit.module()) })
    }

    /// Returns the factor of the loss's gradient, if it is not 1.
    fn scale(&mut self) -> Result<Option<Value>, GradientError> {
        let options = self.options;
        if options.emitted == Emitted::Evaluation {
            return Ok(None);
        }
        let scale =
            if options.loss_scale { Some(self.input("loss_scale", ElementType::Float)?) } else { None };
        if options.accumulate <= 1 {
            return Ok(scale);
        }
        let share = self.emit.scalar(1.0 / options.accumulate as f64, ElementType::Float);
        Ok(Some(scale.map_or(share, |scale| self.emit.op("Mul", &[scale, share]))))
    }

    /// Adds a scalar graph input.
    fn input(&mut self, name: &str, element: ElementType) -> Result<Value, GradientError> {
        self.claim(name, "an input")?;
        let main = self.emit.module().main();
        self.step.added_inputs.push(name.to_owned());
        Ok(self.emit.maker.input(main, name, ValueType::Tensor(TensorType::fixed(element, &[]))))
    }

    /// Adds a graph input of zeros with the extents of a parameter.
    fn state(&mut self, prefix: &str, parameter: &Trainable) -> Result<Value, GradientError> {
        let name = format!("{prefix}.{}", parameter.name);
        self.claim(&name, "an input")?;
        let main = self.emit.module().main();
        let zeros = self.zeros(parameter);
        self.step.added_inputs.push(name.clone());
        Ok(self.emit.maker.input_with_default(main, &name, zeros))
    }

    /// Returns zeros of the type of a parameter. States of a large model would exceed the limit of a model
    /// file, and all of them can share one file of zeros.
    fn zeros(&mut self, parameter: &Trainable) -> ConstData {
        let length = parameter.bytes.0;
        match &self.options.zeros {
            Some(location) if length >= LARGE => {
                self.step.zeros = self.step.zeros.max(parameter.bytes);
                let payload =
                    Payload::External { location: location.clone(), offset: 0, length: Some(length) };
                ConstData { ty: parameter.ty.clone(), payload, origin: ConstOrigin::New }
            }
            _ => memc_edit::constant(
                parameter.ty.clone(),
                vec![0; usize::try_from(length).unwrap_or(usize::MAX)],
            ),
        }
    }

    /// Renames a value inside of the model that has a name of the step's interface.
    fn claim(&mut self, name: &str, what: &'static str) -> Result<(), GradientError> {
        let module = self.emit.module();
        let main = module.graph(module.main());
        let taken = || GradientError::Taken { what, name: name.to_owned() };
        let named = |value: &&Value| module.value(**value).name == name;
        if main.inputs.iter().any(|value| named(&value))
            || self.step.added_outputs.iter().any(|other| other == name)
        {
            return Err(taken());
        }
        let results = main.nodes.iter().flat_map(|node| module.node(*node).results());
        let Some(found) = results.chain(main.constants.iter().copied()).find(|value| named(&value)) else {
            return Ok(());
        };
        let stays = self.options.emitted == Emitted::Evaluation && main.outputs.contains(&found);
        let is_captured = module.nodes().keys().any(|node| {
            module.node(node).graph != module.main()
                && module.node(node).operands().any(|operand| operand == found)
        });
        if is_captured || stays {
            return Err(taken());
        }
        let fresh = self.emit.maker.fresh_name(&format!("{name}_given"));
        self.emit.maker.rename(found, fresh);
        Ok(())
    }

    /// Adds an output of the step. A value that has a name of its own is passed on by a node.
    fn output(&mut self, name: &str, value: Value) -> Result<(), GradientError> {
        let module = self.emit.module();
        let is_free =
            module.producer(value).is_some() && self.outputs.iter().all(|(_, other)| *other != value);
        let value = if is_free { value } else { self.emit.op("Identity", &[value]) };
        if self.emit.name(value) != name {
            self.claim(name, "an output")?;
            self.emit.maker.rename(value, name.to_owned());
        }
        self.step.added_outputs.push(name.to_owned());
        self.outputs.push((name.to_owned(), value));
        Ok(())
    }

    /// Adds the new value of a graph input as an output.
    fn renewed(&mut self, name: &str, value: Value) -> Result<(), GradientError> {
        let new = format!("new.{name}");
        self.output(&new, value)?;
        self.step.state.push((new, name.to_owned()));
        Ok(())
    }

    /// Removes the factor from gradients and limits them. Returns whether all gradients are finite numbers,
    /// if a factor may have made them too large.
    fn limit(
        &mut self,
        reached: &mut [(&Trainable, Value)],
        scale: Option<Value>,
    ) -> Result<Option<Value>, GradientError> {
        let (emit, options) = (&mut self.emit, self.options);
        let wrong = refused("the gradients");
        if let (true, Some(scale)) = (options.loss_scale, scale) {
            let share = emit.scalar(1.0 / options.accumulate.max(1) as f64, ElementType::Float);
            let inverse = emit.op("Div", &[share, scale]);
            for (_, gradient) in reached.iter_mut() {
                let inverse = emit.cast(inverse, emit.element(*gradient));
                *gradient = emit.op("Mul", &[*gradient, inverse]);
            }
        }
        let is_global = matches!(options.clip, Some(Clip::Global(_))) && options.accumulate <= 1;
        let mut squares: Option<Value> = None;
        if is_global || options.loss_scale {
            for (_, gradient) in reached.iter() {
                let own = optimizer::sum_of_squares(emit, *gradient).map_err(&wrong)?;
                let own = emit.cast(own, ElementType::Float);
                squares = Some(squares.map_or(own, |sum| emit.op("Add", &[sum, own])));
            }
        }
        let is_finite = squares.filter(|_| options.loss_scale).map(|squares| {
            let (infinite, none) = (emit.op("IsInf", &[squares]), emit.op("IsNaN", &[squares]));
            let either = emit.op("Or", &[infinite, none]);
            emit.op("Not", &[either])
        });
        if let Some(clip) = options.clip.filter(|_| options.accumulate <= 1) {
            let mut all: Vec<Value> = reached.iter().map(|(_, gradient)| *gradient).collect();
            optimizer::clip(emit, clip, &mut all, squares).map_err(&wrong)?;
            reached.iter_mut().zip(all).for_each(|((_, gradient), limited)| *gradient = limited);
        }
        Ok(is_finite)
    }

    /// Emits new parameters and state.
    fn update(
        &mut self,
        reached: &[(&Trainable, Value)],
        is_finite: Option<Value>,
    ) -> Result<(), GradientError> {
        let options = self.options;
        let rate = self.input("lr", ElementType::Float)?;
        let step =
            if options.optimizer.reads_step() { Some(self.input("step", ElementType::Int64)?) } else { None };
        let applies =
            if options.accumulate > 1 { Some(self.input("apply", ElementType::Bool)?) } else { None };
        let (gradients, sums) = self.accumulate(reached, applies, is_finite)?;
        // A step that is not applied, or whose gradients overflowed, changes nothing.
        let goes = match (applies, is_finite) {
            (Some(applies), Some(is_finite)) => Some(self.emit.op("And", &[applies, is_finite])),
            (applies, is_finite) => applies.or(is_finite),
        };
        let updates = Updates::new(&mut self.emit, options.optimizer, rate, step);
        let mut new = Vec::new();
        for ((parameter, _), gradient) in reached.iter().zip(gradients) {
            let mut state = Vec::new();
            for prefix in options.optimizer.state() {
                state.push(self.state(prefix, parameter)?);
            }
            self.emit.set_place(
                format!("{}_update", parameter.name),
                format!("the update of `{}`", parameter.name),
            );
            let decay = options.decay_of(&parameter.name);
            let updated = updates.update(&mut self.emit, parameter.value, gradient, &state, decay);
            let (value, states) = updated.map_err(refused("the update"))?;
            new.push((parameter.name.clone(), parameter.value, value));
            let names = options.optimizer.state().iter().map(|prefix| format!("{prefix}.{}", parameter.name));
            new.extend(names.zip(state).zip(states).map(|((name, old), new)| (name, old, new)));
        }
        for (name, old, value) in new {
            let value = goes.map_or(value, |goes| self.emit.op("Where", &[goes, value, old]));
            self.renewed(&name, value)?;
        }
        for (name, value) in sums {
            self.renewed(&name, value)?;
        }
        if let Some(is_finite) = is_finite {
            let overflow = self.emit.op("Not", &[is_finite]);
            self.output("overflow", overflow)?;
        }
        Ok(())
    }

    /// Adds gradients to the sums of earlier calls. Returns the gradients to apply, and the new sums by name.
    /// Limits hold for sums.
    #[allow(clippy::type_complexity)]
    fn accumulate(
        &mut self,
        reached: &[(&Trainable, Value)],
        applies: Option<Value>,
        is_finite: Option<Value>,
    ) -> Result<(Vec<Value>, Vec<(String, Value)>), GradientError> {
        let mut gradients: Vec<Value> = reached.iter().map(|(_, gradient)| *gradient).collect();
        let Some(applies) = applies else { return Ok((gradients, Vec::new())) };
        let mut sums = Vec::new();
        for ((parameter, _), gradient) in reached.iter().zip(&mut gradients) {
            let old = self.state("acc", parameter)?;
            let emit = &mut self.emit;
            let sum = emit.op("Add", &[old, *gradient]);
            let sum = is_finite.map_or(sum, |is_finite| emit.op("Where", &[is_finite, sum, old]));
            let zero = emit.number(0.0, sum);
            sums.push((format!("acc.{}", parameter.name), emit.op("Where", &[applies, zero, sum])));
            *gradient = sum;
        }
        if let Some(clip) = self.options.clip {
            let wrong = refused("the gradients");
            let mut squares: Option<Value> = None;
            if matches!(clip, Clip::Global(_)) {
                for gradient in &gradients {
                    let own = optimizer::sum_of_squares(&mut self.emit, *gradient).map_err(&wrong)?;
                    let own = self.emit.cast(own, ElementType::Float);
                    squares = Some(squares.map_or(own, |sum| self.emit.op("Add", &[sum, own])));
                }
            }
            optimizer::clip(&mut self.emit, clip, &mut gradients, squares).map_err(&wrong)?;
        }
        Ok((gradients, sums))
    }

    /// Makes running statistics inputs with defaults and their new values outputs.
    fn running(&mut self, batch: &BatchNorms) -> Result<(), GradientError> {
        for (old, new) in &batch.running {
            let name = self.emit.name(*old).to_owned();
            if self.emit.module().constant_of(*old).is_some() {
                self.emit.maker.make_input(*old);
                self.step.added_inputs.push(name.clone());
            }
            self.renewed(&name, *new)?;
        }
        Ok(())
    }

    /// Sets the outputs of the step, and turns unused parameters back into constants.
    fn finish(&mut self, trainable: &[Trainable]) -> Result<(), GradientError> {
        let main = self.emit.module().main();
        let mut outputs =
            if self.step.keeps_outputs { self.emit.module().graph(main).outputs.clone() } else { Vec::new() };
        outputs.extend(self.outputs.iter().map(|(_, value)| *value));
        self.emit.maker.set_outputs(main, outputs);
        let unused: BTreeSet<&str> = self.step.unused.iter().map(String::as_str).collect();
        for parameter in trainable
            .iter()
            .filter(|parameter| !parameter.is_input && unused.contains(parameter.name.as_str()))
        {
            self.emit.maker.make_constant(parameter.value);
        }
        Ok(())
    }
}
