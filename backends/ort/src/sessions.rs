//! Sessions of a plan's steps: one for all nodes that are equal but for names, made on several threads, and bound to the values of a stage.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memc_onnx_proto::onnx::{NodeProto, TypeProto};
use memc_ops::profile::player::reads_again;

use crate::cut::{Cut, Cutter, tensor_type};
use crate::error::Error;
use crate::memory::{require, trim};
use crate::places::Places;
use crate::random;
use crate::runtime::{Session, SessionOptions, Source, Value};
use crate::stage::Stage;
use crate::step::{Kind, Step};

/// Bytes of operands for kernels to keep, after which freed memory goes back to the system: making a session frees about as many.
const TRIM_AFTER: u64 = 64 << 20;

/// Most threads that make sessions. Packing is bound by memory, which few threads use up; each holds an operand more on the way.
const MOST_THREADS: usize = 4;

/// A session that is to be made.
struct Job {
    model: Vec<u8>,
    /// Initializers that it is given: name in its model, slot.
    given: Vec<(String, usize)>,
    /// Bytes of operands that its kernel may keep in a form of its own.
    packed: u64,
    /// The first step that runs it.
    position: usize,
}

/// Makes the sessions of all steps that run a kernel.
///
/// # Errors
/// Kernels are missing, or the runtime refuses a node otherwise; packed operands do not fit the memory that is free.
pub(crate) fn make_sessions<'r>(
    stage: &Stage<'r>,
    steps: &mut [Step<'r>],
    cutter: &Cutter<'_>,
    nodes: &[&NodeProto],
    folder: &Path,
    options: SessionOptions,
) -> Result<(), Error> {
    let (jobs, users) = jobs(stage, steps, cutter, nodes);
    require(jobs.iter().map(|job| job.packed).fold(0, u64::saturating_add))?;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut made = Vec::with_capacity(jobs.len());
    let mut missing: Vec<String> = Vec::new();
    for (job, outcome) in jobs.iter().zip(make_all(stage, &jobs, folder, options)) {
        match outcome {
            Ok(session) => made.push(Rc::new(session)),
            Err(error) => missing.push(lacking(error, job.position, nodes[job.position])?),
        }
    }
    if !missing.is_empty() {
        missing.sort();
        missing.dedup();
        return Err(Error::MissingKernels { kernels: missing });
    }
    for (position, job) in users {
        steps[position].session = Some(made[job].clone());
    }
    Ok(())
}

/// Cuts the nodes of steps that run a kernel; gives the sessions that they need, and which step needs which.
fn jobs(stage: &Stage<'_>, steps: &mut [Step<'_>], cutter: &Cutter<'_>, nodes: &[&NodeProto]) -> (Vec<Job>, Vec<(usize, usize)>) {
    let places = &stage.places;
    let slots = |names: &[String]| names.iter().filter_map(|name| places.by_name.get(name).copied()).collect();
    let mut jobs: Vec<Job> = Vec::new();
    let mut known: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let mut users = Vec::new();
    for (position, node) in nodes.iter().enumerate() {
        if matches!(steps[position].kind, Kind::Skip | Kind::Transfer) {
            continue;
        }
        let type_of = |name: &str| type_of(places, cutter, name);
        let Cut { bytes, operands, results, weights, packed } = cutter.cut(node, random::draws(node), &type_of);
        (steps[position].inputs, steps[position].outputs) = (slots(&operands), slots(&results));
        let job = *known.entry(bytes).or_insert_with_key(|bytes| {
            let given = weights.into_iter().filter_map(|(inner, outer)| Some((inner, *places.by_name.get(&outer)?)));
            jobs.push(Job { model: bytes.clone(), given: given.collect(), packed, position });
            jobs.len() - 1
        });
        users.push((position, job));
    }
    (jobs, users)
}

fn type_of(places: &Places, cutter: &Cutter<'_>, name: &str) -> Option<TypeProto> {
    let slot = places.by_name.get(name).map(|slot| &places.slots[*slot]);
    match slot.and_then(|slot| slot.ty.as_ref()) {
        Some((element, _)) => Some(tensor_type(*element)),
        None => cutter.described(name).cloned(),
    }
}

/// Makes sessions, in the order of the jobs; which thread makes which changes nothing in them.
fn make_all<'r>(stage: &Stage<'r>, jobs: &[Job], folder: &Path, options: SessionOptions) -> Vec<Result<Session<'r>, Error>> {
    // The longest first, so that all threads end at about the same time.
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
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS).min(jobs.len());
    let mut made = std::thread::scope(|scope| {
        // Where the system gives no more threads, this one does the rest.
        let others: Vec<_> = (1..threads).map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
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

fn make<'r>(stage: &Stage<'r>, job: &Job, folder: &Path, options: SessionOptions) -> Result<Session<'r>, Error> {
    let value = |(name, slot): &'_ (String, usize)| Some((name.clone(), stage.values[*slot].as_ref()?));
    let given: Vec<(String, &Value<'_>)> = job.given.iter().filter_map(value).collect();
    let source = Source::Bytes(&job.model, Some(folder));
    // SAFETY: weights live as long as the stage, which outlives the sessions.
    unsafe { stage.runtime.session_with(source, options, &given) }
}

/// Runs what depends on nothing but initializers, once.
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

/// Fixes operands and results of steps for which all are known now.
///
/// # Errors
/// The runtime refuses a value.
pub(crate) fn bind<'r>(stage: &Stage<'r>, steps: &mut [Step<'r>]) -> Result<(), Error> {
    for step in steps.iter_mut().filter(|step| step.kind == Kind::Run) {
        let find = |slots: &[usize]| slots.iter().map(|slot| stage.values[*slot].as_ref()).collect::<Option<Vec<_>>>();
        let (Some(inputs), Some(outputs)) = (find(&step.inputs), find(&step.outputs)) else { continue };
        let Some(session) = &step.session else { continue };
        let meets = |result: &usize| step.inputs.iter().any(|operand| stage.meet(*operand, *result));
        step.is_apart = reads_again(&step.domain, &step.op) && step.outputs.iter().any(meets);
        if step.is_apart {
            continue;
        }
        // SAFETY: the values live as long as the stage. Which bytes results share with operands is what the plan says: a wrong plan gives
        // wrong numbers, inside the arena.
        step.bound = Some(unsafe { Session::bind(session, &inputs, &outputs)? });
    }
    Ok(())
}

/// The operator that the library does not have, when that is why it refused the node.
fn lacking(error: Error, position: usize, node: &NodeProto) -> Result<String, Error> {
    let Error::Runtime { message, .. } = &error else { return Err(error) };
    let absent =
        ["is not a registered function/op", "Could not find an implementation", "No Op registered for", "is not registered"];
    let domain = if node.domain().is_empty() { "ai.onnx" } else { node.domain() };
    if absent.iter().any(|words| message.contains(words)) {
        return Ok(format!("{domain}::{}", node.op_type()));
    }
    let message = message.clone();
    Err(Error::Kernel { step: position as u64, node: node.name().to_owned(), op: node.op_type().to_owned(), message })
}
