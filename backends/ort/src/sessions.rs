//! Sessions of a plan's steps: one for all nodes that are equal except for names, made on several
//! threads, and bound to the values of a stage.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memc_onnx_proto::onnx::{NodeProto, TypeProto};
use memc_ops::profile::ort_kernel;

use crate::cut::{Cut, Cutter};
use crate::error::Error;
use crate::memory::{require, trim};
use crate::random;
use crate::runtime::{Session, SessionOptions, Source, Value};
use crate::stage::Stage;
use crate::step::{Kind, Step};
use crate::types;

/// Size of packed operands after which freed memory is returned to the system, in bytes: making a
/// session frees about this number.
const TRIM_AFTER: u64 = 64 << 20;

/// Most threads that make sessions. Packing is bound by memory bandwidth, which few threads exhaust, and
/// each thread holds one more operand meanwhile.
const MAX_THREADS: usize = 4;

/// A session to make.
struct Job {
    model: Vec<u8>,
    /// Initializers for the session: name in its model, slot.
    given: Vec<(String, usize)>,
    /// Size of the operands that its kernel may repack, in bytes.
    packed: u64,
    /// First step that runs the session.
    position: usize,
}

/// Makes the sessions of all steps that run a kernel. If neither layout nor model states the type of an
/// operand, the reader waits for the session that makes the operand and knows its type.
///
/// # Errors
/// Kernels are missing, the runtime refuses a node for another reason, or packed operands exceed the
/// free memory.
pub(crate) fn make_sessions<'r>(
    stage: &Stage<'r>,
    steps: &mut [Step<'r>],
    cutter: &Cutter<'_>,
    nodes: &[&NodeProto],
    folder: &Path,
    options: SessionOptions,
) -> Result<(), Error> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut bench =
        Bench { stage, cutter, nodes, types: BTreeMap::new(), known: BTreeMap::new(), made: Vec::new() };
    let kernels = |position: &usize| !matches!(steps[*position].kind, Kind::Skip | Kind::Transfer);
    let mut open: Vec<usize> = (0..nodes.len()).filter(kernels).collect();
    while !open.is_empty() {
        let (jobs, users);
        (jobs, users, open) = bench.jobs(steps, &open);
        require(jobs.iter().map(|job| job.packed).fold(0, u64::saturating_add))?;
        bench.make(&jobs, folder, options)?;
        for (position, job) in users {
            let session = bench.made[job].clone();
            bench.learn(nodes[position], &session)?;
            steps[position].session = Some(session);
        }
    }
    Ok(())
}

/// Materials for sessions, and the sessions made from them.
struct Bench<'a, 'r> {
    stage: &'a Stage<'r>,
    cutter: &'a Cutter<'a>,
    nodes: &'a [&'a NodeProto],
    /// Types that neither layout nor model states, as sessions derived them.
    types: BTreeMap<String, TypeProto>,
    /// Position of each session in `made`, by the bytes of its model.
    known: BTreeMap<Vec<u8>, usize>,
    made: Vec<Rc<Session<'r>>>,
}

/// Pairs of a step and the position of its session.
type Users = Vec<(usize, usize)>;

impl<'r> Bench<'_, 'r> {
    /// Cuts the nodes of the steps whose operands have known types. Returns the missing sessions, the
    /// pairs of steps and sessions, and the waiting steps.
    fn jobs(&mut self, steps: &mut [Step<'_>], open: &[usize]) -> (Vec<Job>, Users, Vec<usize>) {
        let places = &self.stage.places;
        let slots =
            |names: &[String]| names.iter().filter_map(|name| places.by_name.get(name).copied()).collect();
        let (ready, waiting) = self.ready(open);
        let (mut jobs, mut users) = (Vec::new(), Vec::new());
        for position in ready {
            let node = self.nodes[position];
            let Cut { bytes, operands, results, weights, packed } =
                self.cutter.cut(node, random::draws(node), &|name| self.type_of(name));
            (steps[position].inputs, steps[position].outputs) = (slots(&operands), slots(&results));
            let next = self.made.len() + jobs.len();
            let job = *self.known.entry(bytes).or_insert_with_key(|bytes| {
                let given = weights
                    .into_iter()
                    .filter_map(|(inner, outer)| Some((inner, *places.by_name.get(&outer)?)));
                jobs.push(Job { model: bytes.clone(), given: given.collect(), packed, position });
                next
            });
            users.push((position, job));
        }
        (jobs, users, waiting)
    }

    /// Splits the steps without a session into steps that are ready and steps that wait. A step waits if
    /// another step of the list makes an operand of unknown type. If all wait for each other, all count
    /// as ready.
    fn ready(&self, open: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let results =
            open.iter().flat_map(|position| self.nodes[*position].output.iter().map(String::as_str));
        let unknown: BTreeSet<&str> =
            results.filter(|name| !name.is_empty() && self.type_of(name).is_none()).collect();
        let is_ready = |position: &usize| {
            self.cutter.operands(self.nodes[*position]).iter().all(|name| !unknown.contains(name.as_str()))
        };
        let (ready, waiting): (Vec<usize>, Vec<usize>) = open.iter().copied().partition(is_ready);
        if ready.is_empty() { (waiting, ready) } else { (ready, waiting) }
    }

    fn type_of(&self, name: &str) -> Option<TypeProto> {
        let places = &self.stage.places;
        let slot = places.by_name.get(name).map(|slot| &places.slots[*slot]);
        match slot.and_then(|slot| slot.ty.as_ref()) {
            Some((element, _)) => Some(types::tensor(element.onnx())),
            None => self.cutter.described(name).or_else(|| self.types.get(name)).cloned(),
        }
    }

    /// Makes the sessions of `jobs` and appends them to `made`.
    fn make(&mut self, jobs: &[Job], folder: &Path, options: SessionOptions) -> Result<(), Error> {
        let mut missing: Vec<String> = Vec::new();
        for (job, outcome) in jobs.iter().zip(make_all(self.stage, jobs, folder, options)) {
            match outcome {
                Ok(session) => self.made.push(Rc::new(session)),
                Err(error) => missing.push(lacking(error, job.position, self.nodes[job.position])?),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        missing.sort();
        missing.dedup();
        Err(Error::MissingKernels { kernels: missing })
    }

    /// Asks a node's session for the types of results that neither layout nor model states.
    fn learn(&mut self, node: &NodeProto, session: &Session<'_>) -> Result<(), Error> {
        let results: Vec<&String> = node.output.iter().filter(|name| !name.is_empty()).collect();
        if results.iter().all(|name| self.type_of(name).is_some()) {
            return Ok(());
        }
        for (name, ty) in results.into_iter().zip(session.result_types()?) {
            if let Some(ty) = ty.filter(|_| self.type_of(name).is_none()) {
                self.types.insert(name.clone(), ty);
            }
        }
        Ok(())
    }
}

/// Makes sessions on several threads and returns them in the order of the jobs; the thread that makes a
/// session does not affect it.
fn make_all<'r>(
    stage: &Stage<'r>,
    jobs: &[Job],
    folder: &Path,
    options: SessionOptions,
) -> Vec<Result<Session<'r>, Error>> {
    // Start with the longest jobs, so that all threads end at about one time.
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|job| (std::cmp::Reverse(jobs[*job].packed), *job));
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut made, mut packed) = (Vec::new(), 0);
        while let Some(job) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            made.push((*job, make(stage, &jobs[*job], folder, options)));
            packed += jobs[*job].packed;
            if packed > TRIM_AFTER {
                packed = 0;
                trim();
            }
        }
        made
    };
    let threads =
        std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(jobs.len());
    let mut made = std::thread::scope(|scope| {
        // If the system cannot start more threads, this thread does the remaining jobs.
        let others: Vec<_> =
            (1..threads).map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        let mut made = work();
        for other in others {
            match other.join() {
                Ok(more) => made.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        made
    });
    trim();
    made.sort_by_key(|(job, _)| *job);
    made.into_iter().map(|(_, outcome)| outcome).collect()
}

fn make<'r>(
    stage: &Stage<'r>,
    job: &Job,
    folder: &Path,
    options: SessionOptions,
) -> Result<Session<'r>, Error> {
    let value = |(name, slot): &'_ (String, usize)| Some((name.clone(), stage.values[*slot].as_ref()?));
    let given: Vec<(String, &Value<'_>)> = job.given.iter().filter_map(value).collect();
    let source = Source::Bytes(&job.model, Some(folder));
    // SAFETY: weights live as long as the stage, which outlives the sessions.
    unsafe { stage.runtime.session_with(source, options, &given) }
}

/// Runs all steps whose results are constants, once.
///
/// # Errors
/// A kernel fails.
pub(crate) fn run_constants<'r>(stage: &mut Stage<'r>, steps: &[Step<'r>]) -> Result<(), Error> {
    for (position, step) in steps.iter().enumerate().filter(|(_, step)| step.kind == Kind::Constant) {
        step.run_loose(position, stage)?;
        step.outputs.iter().try_for_each(|slot| stage.keep(*slot))?;
    }
    Ok(())
}

/// Binds steps whose operands and results all have values before the run.
///
/// # Errors
/// The runtime refuses a value.
pub(crate) fn bind<'r>(stage: &Stage<'r>, steps: &mut [Step<'r>]) -> Result<(), Error> {
    for step in steps.iter_mut().filter(|step| step.kind == Kind::Run) {
        let find = |slots: &[usize]| {
            slots.iter().map(|slot| stage.values[*slot].as_ref()).collect::<Option<Vec<_>>>()
        };
        let (Some(inputs), Some(outputs)) = (find(&step.inputs), find(&step.outputs)) else { continue };
        let Some(session) = &step.session else { continue };
        let meets = |result: &usize| step.inputs.iter().any(|operand| stage.meet(*operand, *result));
        let reads_again = ort_kernel(&step.domain, &step.op).is_some_and(|kernel| kernel.reads_again);
        step.is_apart = reads_again && step.outputs.iter().any(meets);
        if step.is_apart {
            continue;
        }
        // SAFETY: the values live as long as the stage. The plan decides which bytes results share with
        // operands: a wrong plan gives wrong numbers, but inside the arena.
        step.bound = Some(unsafe { Session::bind(session, &inputs, &outputs)? });
    }
    Ok(())
}

/// Returns the operator that the library does not have, if the library refused the node for this reason;
/// otherwise an error.
fn lacking(error: Error, position: usize, node: &NodeProto) -> Result<String, Error> {
    let Error::Runtime { message, .. } = &error else { return Err(error) };
    let absent = [
        "is not a registered function/op",
        "Could not find an implementation",
        "No Op registered for",
        "is not registered",
    ];
    let domain = if node.domain().is_empty() { "ai.onnx" } else { node.domain() };
    if absent.iter().any(|words| message.contains(words)) {
        return Ok(format!("{domain}::{}", node.op_type()));
    }
    let message = message.clone();
    Err(Error::Kernel {
        step: position as u64,
        node: node.name().to_owned(),
        op: node.op_type().to_owned(),
        message,
    })
}
