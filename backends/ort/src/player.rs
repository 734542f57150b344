//! Plays a plan: every kernel reads and writes at the offsets that the layout states.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use crate::arrays::Array;
use crate::content::Content;
use crate::engines::{self, Engines};
use crate::error::Error;
use crate::guards::Watch;
use crate::inputs::Inputs;
use crate::memory::{ArenaMemory, Foreign};
use crate::options::{Clocks, KernelTime, PlayOptions};
use crate::played::Played;
use crate::running::{Run, kernel, record, region};
use crate::stage::Stage;
use crate::step::{Kind, Step};
use crate::transfer::Transfers;

/// A plan that is ready to be played any number of times.
#[derive(Debug)]
pub struct Player<'r> {
    options: PlayOptions,
    // Fields are dropped in this order: threads that move bytes before the bytes, and sessions before
    // the values that they are bound to.
    transfers: Option<Transfers>,
    steps: Vec<Step<'r>>,
    stage: Stage<'r>,
    engines: Option<Engines>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    /// Last step that touches each slot.
    last_touch: Vec<usize>,
}

/// Other plans in the arenas of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    /// Whether there are other plans, whose bytes may lie over constants of this one between its runs.
    pub(crate) is_shared: bool,
    /// Graph inputs that are in their places already.
    pub(crate) ready: BTreeSet<String>,
    /// Bytes that are not poisoned before the run.
    pub(crate) kept: Vec<Foreign>,
    /// Bytes that the run must leave as they are.
    pub(crate) foreign: Vec<Foreign>,
}

/// Callback after each step; its last argument is the kernel's time, 0 without a clock.
type After<'a, 'r> = dyn FnMut(&Step<'r>, &Stage<'r>, KernelTime) -> Result<(), Error> + 'a;

impl<'r> Player<'r> {
    pub(crate) fn of(
        options: PlayOptions,
        (transfers, engines): (Option<Transfers>, Option<Engines>),
        steps: Vec<Step<'r>>,
        stage: Stage<'r>,
        inputs: Vec<String>,
        outputs: Vec<String>,
    ) -> Self {
        let last_touch = last_touches(&steps, &stage, &outputs);
        Self { options, transfers, steps, stage, engines, inputs, outputs, last_touch }
    }

    /// Fills the graph inputs at their places, and plays the plan once.
    ///
    /// # Errors
    /// An input is missing or has the wrong type or shape, a kernel fails, or a check finds the plan
    /// wrong.
    pub fn play(&mut self, inputs: &dyn Inputs) -> Result<Played, Error> {
        if self.engines.is_none() {
            return self.play_with(inputs, &mut |_, _, _| Ok(()));
        }
        let mut run = self.begin(inputs, &Beside::default())?;
        let Self { steps, engines, options, stage, .. } = self;
        let steps = engines
            .as_ref()
            .map_or(Ok(()), |engines| engines::play(steps, engines, options, stage, &mut run));
        self.end(run, steps)
    }

    /// Ends the player and returns its arenas.
    pub(crate) fn into_arenas(mut self) -> Vec<ArenaMemory> {
        std::mem::take(&mut self.stage.arenas)
    }

    /// Returns the graph outputs of the last run by name, arrays without copying.
    ///
    /// # Errors
    /// The runtime cannot describe an output.
    pub fn outputs(&self) -> Result<BTreeMap<String, Content<'_>>, Error> {
        let mut found = BTreeMap::new();
        for name in &self.outputs {
            if let Some(content) = self.stage.content(name)? {
                found.insert(name.clone(), content);
            }
        }
        Ok(found)
    }

    /// Plays the plan and names the first node with a result that differs from the expected one. Skips
    /// values without an expectation.
    ///
    /// # Errors
    /// As for [`Self::play`].
    pub(crate) fn play_against(
        &mut self,
        inputs: &dyn Inputs,
        expected: &BTreeMap<String, Array>,
    ) -> Result<Option<String>, Error> {
        let mut first = None;
        let mut look = |step: &Step<'r>, stage: &Stage<'r>, _: KernelTime| {
            for slot in step.outputs.iter().filter(|slot| first.is_none() && stage.values[**slot].is_some()) {
                let array = expected.get(&stage.places.slots[*slot].name);
                if let Some(array) = array
                    && !stage.holds(*slot, array)?
                {
                    first = Some(format!("{} ({})", step.name, step.op));
                    break;
                }
            }
            Ok(())
        };
        self.play_with(inputs, &mut look)?;
        Ok(first)
    }

    /// Plays the plan on one engine and calls `after` for each step when its kernel has run.
    ///
    /// # Errors
    /// As for [`Self::play`], and those of `after`.
    pub(crate) fn play_with(
        &mut self,
        inputs: &dyn Inputs,
        after: &mut After<'_, 'r>,
    ) -> Result<Played, Error> {
        let mut run = self.begin(inputs, &Beside::default())?;
        let steps = (0..self.steps.len()).try_for_each(|position| self.step(position, &mut run, after));
        self.end(run, steps)
    }

    /// Begins a run: fills the graph inputs at their places. [`Self::end`] must follow, also after a failure.
    ///
    /// # Errors
    /// An input is missing or has the wrong type or shape.
    pub(crate) fn begin(&mut self, inputs: &dyn Inputs, beside: &Beside) -> Result<Run, Error> {
        self.stage.forget();
        if self.options.poison_check {
            self.stage.poison(&beside.kept);
        } else if beside.is_shared {
            self.stage.fill_constants();
        }
        let given: Vec<String> =
            self.inputs.iter().filter(|name| !beside.ready.contains(*name)).cloned().collect();
        self.stage.give(&given, inputs)?;
        let mut played =
            Played { arenas: self.stage.uses(), caller: self.stage.held_bytes(), ..Played::default() };
        if let Some(transfers) = &self.transfers {
            played.links = transfers.begin();
        }
        let before = self.options.now();
        let watches = self.options.poison_check;
        let mut watch = watches.then(|| Watch::new(&self.stage.places, self.steps.len(), &beside.foreign));
        if let Some(watch) = &mut watch {
            let placed = self.inputs.iter().filter_map(|name| self.stage.places.by_name.get(name));
            placed.for_each(|slot| watch.wrote(*slot, None, &self.stage.places, &self.stage.arenas));
        }
        Ok(Run { played, watch, before })
    }

    /// Plays a step: checks its operands, waits for transfers, runs its kernel, and checks its results.
    ///
    /// # Errors
    /// A kernel fails, or a check finds the plan wrong.
    pub(crate) fn step(
        &mut self,
        position: usize,
        run: &mut Run,
        after: &mut After<'_, 'r>,
    ) -> Result<(), Error> {
        let Run { played, watch, .. } = run;
        if self.steps[position].kind == Kind::Constant {
            played.constant += 1;
            return Ok(());
        }
        if let Some(watch) = &watch {
            watch.before(position, &self.steps[position], &self.stage.places, &self.stage.arenas)?;
        }
        if let Some(transfers) = &self.transfers {
            transfers.move_before(position, &mut played.links)?;
        }
        let mut time = KernelTime::default();
        match self.steps[position].kind {
            Kind::Run => time = self.run(position, played)?,
            Kind::Transfer => played.moved += 1,
            Kind::Skip | Kind::Constant => played.skipped += 1,
        }
        after(&self.steps[position], &self.stage, time)?;
        if let Some(watch) = watch {
            watch.after(position, &self.steps[position], &self.stage.places, &mut self.stage.arenas)?;
        }
        Ok(())
    }

    /// Ends a run: finishes the transfers, then checks the outputs and the guard zones. `steps` is the
    /// outcome of all steps.
    ///
    /// # Errors
    /// That of the steps, a copy failed, or a check finds the plan wrong.
    pub(crate) fn end(&mut self, run: Run, steps: Result<(), Error>) -> Result<Played, Error> {
        let Run { mut played, watch, before } = run;
        let outcome = steps.and_then(|()| self.finish(&mut played, watch.as_ref()));
        if let Some(transfers) = &self.transfers {
            transfers.stop();
        }
        played.nanoseconds = self.options.now().saturating_sub(before);
        outcome.map(|()| played)
    }

    /// Waits for the transfers, then checks the outputs and the guard zones.
    fn finish(&self, played: &mut Played, watch: Option<&Watch>) -> Result<(), Error> {
        if let Some(transfers) = &self.transfers {
            transfers.end(&mut played.links)?;
        }
        if let Some(watch) = watch {
            watch.at_end(&self.outputs, &self.stage.places, &self.stage.arenas)?;
        }
        match self.stage.broken_guard() {
            Some(space) => Err(Error::ArenaGuard { space: space.to_owned() }),
            None => Ok(()),
        }
    }

    /// Runs the kernel of a step on this thread and records its memory use. Returns the kernel's time.
    fn run(&mut self, position: usize, played: &mut Played) -> Result<KernelTime, Error> {
        let (step, stage) = (&self.steps[position], &mut self.stage);
        let (runtime, region) = (stage.runtime, region(step, position, stage));
        let timed = || {
            let before = self.options.times(true);
            let outcome = kernel(step, position, stage);
            let after = self.options.times(false);
            let time = KernelTime {
                wall: after.wall.saturating_sub(before.wall),
                processor: after.processor.saturating_sub(before.processor),
            };
            (outcome, time)
        };
        // SAFETY: `Places` checked that the workspace is inside its arena; the plan gives it to this
        // step alone.
        let ((outcome, time), tally) = unsafe { runtime.counting(region, timed) };
        outcome?;
        record(step, position, stage, tally, played)?;
        if step.bound.is_none() {
            // Free the results of the runtime that no later step touches.
            let dead =
                step.inputs.iter().chain(&step.outputs).filter(|slot| self.last_touch[**slot] == position);
            dead.for_each(|slot| stage.drop_loose(*slot));
        }
        Ok(time)
    }

    /// Returns the arenas, in the order of the layout.
    pub(crate) fn arenas_mut(&mut self) -> &mut [ArenaMemory] {
        &mut self.stage.arenas
    }

    /// Returns the steps, in the order of the schedule.
    pub(crate) fn steps(&self) -> &[Step<'r>] {
        &self.steps
    }

    /// Sets the clocks that measure the time of kernels, links and runs.
    pub(crate) fn measure(&mut self, clocks: Clocks) {
        (self.options.clock, self.options.processor) = (Some(clocks.wall), Some(clocks.processor));
    }
}

/// Returns the last step that touches each slot; for outputs, a step after all others.
fn last_touches(steps: &[Step<'_>], stage: &Stage<'_>, outputs: &[String]) -> Vec<usize> {
    let mut last = vec![0; stage.places.slots.len()];
    for (position, step) in steps.iter().enumerate() {
        for slot in step.inputs.iter().chain(&step.outputs) {
            last[*slot] = position;
        }
    }
    for slot in outputs.iter().filter_map(|name| stage.places.by_name.get(name)) {
        last[*slot] = steps.len();
    }
    last
}
