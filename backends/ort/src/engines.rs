//! Plays a plan on several engines: a thread for each one runs its steps in their order, and waits only
//! where the layout says so.
#![allow(unsafe_code)]

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use memc_layout::Layout;

use crate::error::Error;
use crate::options::PlayOptions;
use crate::played::EngineUse;
use crate::running::{Run, kernel, record, region};
use crate::stage::Stage;
use crate::step::{Kind, Step};

/// Steps of each engine, and the steps that each step waits for.
#[derive(Debug)]
pub(crate) struct Engines {
    steps: Vec<Vec<usize>>,
    waits: Vec<Vec<usize>>,
}

/// Largest number of engines: each is a thread.
const MAX_ENGINES: u64 = 64;

impl Engines {
    /// Reads the engines of a layout; `None` if it has one engine.
    ///
    /// # Errors
    /// A step has no engine, or a wait does not lead from an earlier step to a later one.
    pub(crate) fn of(layout: &Layout) -> Result<Option<Self>, Error> {
        let count = layout.engines();
        if count == 1 && layout.sync.is_empty() {
            return Ok(None);
        }
        if count > MAX_ENGINES {
            return Err(Error::Engines {
                reason: format!("it has {count} engines, more than {MAX_ENGINES}"),
            });
        }
        if !layout.transfers.is_empty() || !layout.fetches.is_empty() {
            return Err(Error::Engines {
                reason: "it has transfers, which one engine must start".to_owned(),
            });
        }
        let total = layout.schedule.len();
        let (mut steps, mut waits) = (vec![Vec::new(); count as usize], vec![Vec::new(); total]);
        for (position, row) in layout.schedule.iter().enumerate() {
            let none = || Error::Engines { reason: format!("`{}` has none", row.node) };
            let engine = row.engine.ok_or_else(none)?;
            steps[engine as usize].push(position);
        }
        for row in &layout.sync {
            let wrong =
                || Error::Engines { reason: format!("step {} cannot wait for step {}", row.step, row.after) };
            let pair = usize::try_from(row.step).ok().zip(usize::try_from(row.after).ok());
            let (step, after) =
                pair.filter(|(step, after)| after < step && *step < total).ok_or_else(wrong)?;
            waits[step].push(after);
        }
        Ok(Some(Self { steps, waits }))
    }
}

/// What all engines share.
struct Table<'p, 'r> {
    steps: &'p [Step<'r>],
    engines: &'p Engines,
    options: &'p PlayOptions,
    state: Mutex<State<'p, 'r>>,
    /// Signals that a step has ended, or that the run has failed.
    changed: Condvar,
}

// SAFETY: threads read steps, and each step's bound values are used by the one thread that runs it; ONNX
// Runtime runs sessions on several threads at once (`OrtApi::Run`). A lock guards the stage and the run.
unsafe impl Sync for Table<'_, '_> {}

/// What one engine changes at a time.
struct State<'p, 'r> {
    stage: &'p mut Stage<'r>,
    run: &'p mut Run,
    has_ended: Vec<bool>,
    /// First failure; all engines then stop.
    failure: Option<Error>,
}

/// Plays all steps on their engines.
///
/// # Errors
/// A kernel fails, a check finds the plan wrong, or the system cannot start a thread.
pub(crate) fn play<'r>(
    steps: &[Step<'r>],
    engines: &Engines,
    options: &PlayOptions,
    stage: &mut Stage<'r>,
    run: &mut Run,
) -> Result<(), Error> {
    if let Some(watch) = &mut run.watch {
        watch.follow(steps);
    }
    let has_ended = vec![false; steps.len()];
    let state = Mutex::new(State { stage, run, has_ended, failure: None });
    let table = Table { steps, engines, options, state, changed: Condvar::new() };
    let uses = std::thread::scope(|scope| {
        let shared = &table;
        let work = |engine: usize| move || shared.engine(engine);
        let mut others = Vec::new();
        for engine in 1..engines.steps.len() {
            match std::thread::Builder::new().spawn_scoped(scope, work(engine)) {
                Ok(other) => others.push(other),
                Err(source) => shared.fail(Error::NoThread { source }),
            }
        }
        let mut uses = vec![shared.engine(0)];
        for other in others {
            match other.join() {
                Ok(more) => uses.push(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        uses
    });
    let state = table.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.run.played.engines = uses;
    state.failure.map_or(Ok(()), Err)
}

impl<'p, 'r> Table<'p, 'r> {
    fn lock(&self) -> MutexGuard<'_, State<'p, 'r>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: Error) {
        self.lock().failure.get_or_insert(error);
        self.changed.notify_all();
    }

    /// Runs the steps of an engine.
    fn engine(&self, engine: usize) -> EngineUse {
        let mut uses = EngineUse::default();
        for step in &self.engines.steps[engine] {
            let before = self.options.now();
            let Some(state) = self.wait(*step) else { break };
            uses.waited += self.options.now().saturating_sub(before);
            match self.step(*step, state, &mut uses) {
                Ok(()) => self.changed.notify_all(),
                Err(error) => {
                    self.fail(error);
                    break;
                }
            }
        }
        uses
    }

    /// Waits until a step may start; `None` if the run has failed.
    fn wait(&self, step: usize) -> Option<MutexGuard<'_, State<'p, 'r>>> {
        let is_open = |state: &mut State<'_, '_>| {
            let waits = self.engines.waits[step].iter().any(|after| !state.has_ended[*after]);
            state.failure.is_none() && waits
        };
        let state = self.changed.wait_while(self.lock(), is_open).unwrap_or_else(PoisonError::into_inner);
        state.failure.is_none().then_some(state)
    }

    /// Checks the operands of a step, runs its kernel without the lock, and checks its results.
    fn step<'t>(
        &'t self,
        position: usize,
        mut state: MutexGuard<'t, State<'p, 'r>>,
        uses: &mut EngineUse,
    ) -> Result<(), Error> {
        let step = &self.steps[position];
        uses.steps += 1;
        if step.kind == Kind::Constant {
            state.run.played.constant += 1;
            state.has_ended[position] = true;
            return Ok(());
        }
        let State { stage, run, .. } = &mut *state;
        if let Some(watch) = &mut run.watch {
            watch.begin(position);
            watch.before(position, step, &stage.places, &stage.arenas)?;
        }
        if step.kind == Kind::Run {
            state = self.kernel(position, state, uses)?;
        } else {
            run.played.skipped += 1;
        }
        let State { stage, run, .. } = &mut *state;
        if let Some(watch) = &mut run.watch {
            watch.after(position, step, &stage.places, &mut stage.arenas)?;
        }
        state.has_ended[position] = true;
        Ok(())
    }

    /// Runs the kernel of a step. A kernel without bound values changes the stage, so it keeps the lock.
    fn kernel<'t>(
        &'t self,
        position: usize,
        mut state: MutexGuard<'t, State<'p, 'r>>,
        uses: &mut EngineUse,
    ) -> Result<MutexGuard<'t, State<'p, 'r>>, Error> {
        let step = &self.steps[position];
        let runtime = state.stage.runtime;
        let region = region(step, position, state.stage);
        let (outcome, tally);
        match &step.bound {
            Some(bound) => {
                drop(state);
                if let Some(delay) = self.options.delay {
                    delay(position);
                }
                let before = self.options.now();
                // SAFETY: `Places` checked that the workspace is inside its arena; the plan gives it to
                // this step alone.
                (outcome, tally) = runtime.apart(|| unsafe { runtime.counting(region, || bound.run()) });
                uses.busy += self.options.now().saturating_sub(before);
                state = self.lock();
            }
            None => {
                let before = self.options.now();
                let State { stage, .. } = &mut *state;
                // SAFETY: as above.
                (outcome, tally) =
                    runtime.apart(|| unsafe { runtime.counting(region, || kernel(step, position, stage)) });
                uses.busy += self.options.now().saturating_sub(before);
            }
        }
        let State { stage, run, .. } = &mut *state;
        outcome.map_err(|error| step.blame(position, stage, error))?;
        record(step, position, stage, tally, &mut run.played)?;
        Ok(state)
    }
}
