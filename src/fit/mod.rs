//! The largest extent with which a model fits into a memory, together with its weights and with what its
//! caller holds.

mod bracket;
mod buffered;
mod decoder;

use memc_ir::{Nanos, Range};
use memc_onnx_import::ImportError;
use memc_onnx_proto::ModelFile;

use crate::error::Error;
use crate::fit_error::FitError;
use crate::link::LinkOption;
use crate::need::Need;
use crate::plan::plan;
use crate::planned::Planned;
use crate::request::{Budget, Request, Runtime};
use crate::size::Size;
use bracket::Bracket;

/// Largest extent that is tried without a request for more.
const MOST: u64 = 65_536;
/// Most extents that are tried.
const TRIES: u32 = 32;
/// Most extents that are tried with weights in a farther space: each plan takes long.
const FAR_TRIES: u32 = 5;
/// Most plans of one extent: without a budget, and within the room that the plan before left.
const ROOMS: u32 = 4;
/// The farther space for weights that do not fit, if the caller names none.
const DISK: &str = "disk";
/// Rate of that space in bytes per second, and its latency in nanoseconds: a solid-state disk.
const DISK_RATE: (f64, f64) = (2e9, 100_000.0);

/// A memory that a model has to fit into.
#[derive(Clone, Debug)]
pub struct Fitting {
    /// Size of the memory in bytes.
    pub ram: u64,
    /// Dimension to make as large as possible; `None` for the only one that is left open.
    pub largest: Option<Growing>,
    /// Rows of a decoder's caches, which are kept in place.
    pub context: Option<u64>,
}

/// A dimension to make as large as possible.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Growing {
    /// Name of the dimension.
    pub name: String,
    /// Extents that may be planned; without a largest one, up to 65,536.
    pub extents: Range,
    /// Whether the plan holds for all extents from the smallest on, rather than for the largest alone.
    pub is_range: bool,
}

impl Growing {
    /// Number of steps from the smallest extent to the largest one.
    fn steps(&self) -> u64 {
        self.extents.max.unwrap_or(MOST).saturating_sub(self.extents.min) / self.extents.step.max(1)
    }

    /// The extent after some steps.
    fn extent(&self, steps: u64) -> u64 {
        self.extents.min.saturating_add(steps.saturating_mul(self.extents.step.max(1)))
    }
}

/// A model that fits.
#[derive(Debug)]
pub struct Fitted {
    /// The plan.
    pub planned: Planned,
    /// The request that gives the plan by itself.
    pub request: Request,
    /// Its bytes.
    pub need: Need,
    /// The dimension that was made large, with its extent; `None` if all were bound.
    pub largest: Option<(Growing, u64)>,
    /// The next extent that was tried, and why it does not fit; `None` if there is none.
    pub beyond: Option<(u64, String)>,
    /// Number of plans that were made.
    pub plans: u32,
    /// Weights in a farther space; `None` if all are in memory.
    pub far: Option<Far>,
}

/// Weights that a plan fetches from a farther space, because the memory does not hold them.
#[derive(Clone, PartialEq, Debug)]
pub struct Far {
    /// Name of the space.
    pub space: String,
    /// Bytes of the weights that stay there.
    pub weights: u64,
    /// Bytes that a run fetches.
    pub fetched: u64,
    /// Modelled time of a run.
    pub time: Nanos,
    /// Modelled time of a run of the smallest extent with all weights in memory, and with these.
    pub smallest: [Nanos; 2],
}

/// An extent that was tried.
enum Tried {
    Fits(Box<Fitted>),
    Over { need: Need },
}

/// Finds the largest extent with which a model fits, and its plan. Bytes of extents that were planned tell
/// which extent to plan next. An extent whose plan is too large is planned within the room that is left, by
/// recomputation, parts and transfers. The largest extent is found within 1/64, or 1/16 within a budget. If
/// the smallest extent does not fit, weights may stay on a disk. `tell` gets a line for each extent.
///
/// # Errors
/// The smallest extent does not fit; several dimensions are open; and those of [`plan`].
pub fn fit(
    file: &ModelFile,
    request: &Request,
    fitting: &Fitting,
    tell: &mut dyn FnMut(&str),
) -> Result<Fitted, Error> {
    let mut search = Search {
        file,
        request: request.clone(),
        ram: fitting.ram,
        growing: None,
        decoder: None,
        plans: 0,
        last: None,
        far: None,
        tell,
    };
    if let Some(context) = fitting.context {
        search.decoder = Some(decoder::Decoder::of(file, &mut search.request, context)?);
    }
    search.growing = match (&fitting.largest, &search.decoder) {
        (Some(growing), _) => Some(growing.clone()),
        (None, Some(decoder)) => Some(Growing {
            name: decoder.new.clone(),
            extents: Range { min: 1, max: Some(decoder.most()), step: 1 },
            is_range: true,
        }),
        (None, None) => open(file, request)?,
    };
    search.run()
}

/// The only dimension that a request leaves open.
fn open(file: &ModelFile, request: &Request) -> Result<Option<Growing>, Error> {
    match memc_onnx_import::import(file, &request.import) {
        Ok(_) => Ok(None),
        Err(ImportError::Unbound { names, .. }) if names.len() == 1 => {
            let extents = Range { min: 1, max: None, step: 1 };
            Ok(names.into_iter().next().map(|name| Growing { name, extents, is_range: false }))
        }
        Err(ImportError::Unbound { names, .. }) => Err(FitError::Open { names }.into()),
        Err(error) => Err(error.into()),
    }
}

struct Search<'s> {
    file: &'s ModelFile,
    request: Request,
    ram: u64,
    growing: Option<Growing>,
    decoder: Option<decoder::Decoder>,
    plans: u32,
    /// Steps and bytes of the last plan.
    last: Option<(u64, Need)>,
    /// Modelled times of the smallest extent with all weights in memory, and with far weights.
    far: Option<[Nanos; 2]>,
    tell: &'s mut dyn FnMut(&str),
}

impl Search<'_> {
    /// Plans the extent that the bytes of others suggest, until the next one does not fit.
    fn run(mut self) -> Result<Fitted, Error> {
        let most = self.growing.as_ref().map_or(0, Growing::steps);
        let mut best = self.smallest()?;
        let own = self.request.budgets.len();
        let mut bracket = Bracket::new(self.extents(), most, best.need, best.request.budgets.len() > own);
        let mut beyond = None;
        let tries = if best.far.is_some() { FAR_TRIES } else { TRIES };
        for _ in 1..tries {
            let Some(next) = bracket.next(self.ram) else { break };
            let why = match self.at(next, bracket.is_over(next, self.ram)) {
                Ok(Tried::Fits(fitted)) => {
                    bracket.fits(next, fitted.need, fitted.request.budgets.len() > own);
                    best = fitted;
                    continue;
                }
                Ok(Tried::Over { need }) => {
                    bracket.is_too_large(next, need.in_run());
                    (next, format!("needs {} B", need.in_run()))
                }
                Err(error) if error.exit_code() == 70 => return Err(error),
                // A model may end there, as one with a table of positions does.
                Err(error) => {
                    let (first, error) = self.first_refused(bracket.low(), next, error);
                    bracket.is_refused(first);
                    (first, format!("is refused: {error}"))
                }
            };
            beyond = self.growing.as_ref().map(|growing| (growing.extent(why.0), why.1));
        }
        best.beyond = beyond;
        best.plans = self.plans;
        Ok(*best)
    }

    /// Plans the smallest extent; if its weights are most of what does not fit, with weights in a farther
    /// space.
    fn smallest(&mut self) -> Result<Box<Fitted>, Error> {
        let need = match self.at(0, false)? {
            Tried::Fits(fitted) => return Ok(fitted),
            Tried::Over { need } => need,
        };
        let short = |need, search: &Self| {
            Error::from(FitError::Short { ram: search.ram, need, smallest: search.stated(0) })
        };
        let may_move =
            self.request.weights.is_none() && !matches!(self.request.runtime, Runtime::Ort | Runtime::Cuda);
        if !may_move || need.weights <= self.ram / 2 {
            return Err(short(need, self));
        }
        if self.request.links.is_empty() {
            let (bytes_per_second, latency) = (DISK_RATE.0, Nanos(DISK_RATE.1));
            self.request.links.push(LinkOption { space: DISK.to_owned(), bytes_per_second, latency });
        }
        self.request.weights = self.request.links.first().map(|link| link.space.clone());
        let near = self.far.take().map(|[near, _]| near).unwrap_or_default();
        match self.at(0, true)? {
            Tried::Fits(mut fitted) => {
                let time = Nanos(fitted.planned.layout.cost.modelled_ns_after);
                self.far = Some([near, time]);
                fitted.far = self.far_of(&fitted.planned);
                Ok(fitted)
            }
            Tried::Over { need } => Err(short(need, self)),
        }
    }

    /// The weights that a plan fetches; `None` if all weights are in memory.
    fn far_of(&self, planned: &Planned) -> Option<Far> {
        let layout = &planned.layout;
        let space = self.request.weights.clone().filter(|_| !layout.fetches.is_empty())?;
        let weights = layout.far_constants().into_values().fold(0u64, u64::saturating_add);
        let fetched = layout.fetches.iter().fold(0u64, |sum, row| sum.saturating_add(row.bytes));
        Some(Far { space, weights, fetched, time: Nanos(layout.cost.modelled_ns_after), smallest: self.far? })
    }

    /// Smallest extent and distance of extents.
    fn extents(&self) -> [u64; 2] {
        self.growing.as_ref().map_or([1, 1], |growing| [growing.extents.min, growing.extents.step.max(1)])
    }

    /// The first number of steps that the model refuses, by its import alone, if `steps` is refused with an
    /// error, and `low` is not.
    fn first_refused(&self, mut low: u64, mut steps: u64, mut error: Error) -> (u64, Error) {
        let refusal = |steps: u64| memc_onnx_import::import(self.file, &self.request_at(steps).import).err();
        if refusal(steps).is_none() {
            return (steps, error);
        }
        while steps - low > 1 {
            let middle = low + (steps - low) / 2;
            match refusal(middle) {
                Some(other) => (steps, error) = (middle, other.into()),
                None => low = middle,
            }
        }
        (steps, error)
    }

    /// The dimension with its extent after some steps, as a user states it.
    fn stated(&self, steps: u64) -> Option<String> {
        self.growing.as_ref().map(|growing| format!("{}={}", growing.name, growing.extent(steps)))
    }

    /// Plans one extent: at once within the room that there is, if it `is_over` without a budget, as others
    /// suggest.
    fn at(&mut self, steps: u64, is_over: bool) -> Result<Tried, Error> {
        let label = self.stated(steps).unwrap_or_else(|| "the model".to_owned());
        let largest = self.growing.clone().map(|growing| {
            let extent = growing.extent(steps);
            (growing, extent)
        });
        let mut known = self.last.filter(|_| is_over).map(|(of, need)| self.grown(need, of, steps));
        // What lies beside the arena may grow if the arena shrinks, so the room is asked for again.
        for _ in 0..=ROOMS {
            let mut request = self.request_at(steps);
            if let Some(need) = known {
                let room = self.room(need);
                if room == 0 {
                    break;
                }
                request = request.budget(Budget::from(Size::Bytes(room)));
            }
            let planned = match plan(self.file, &request) {
                Ok(planned) => planned,
                Err(error) => {
                    let Some((need, smallest)) = known.zip(error.smallest()) else { return Err(error) };
                    self.plans += 1;
                    (self.tell)(&format!("{label}: does not fit, the smallest arena found has {smallest} B"));
                    // Weights that stay in memory are part of it, if others are far.
                    let weights = need.weights - self.counted(need);
                    return Ok(Tried::Over { need: Need { weights, arena: smallest, workspace: 0, ..need } });
                }
            };
            self.plans += 1;
            let need = Need::of(&planned.layout);
            let how = if known.is_some() { "within a budget" } else { "without a budget" };
            (self.tell)(&format!("{label}: {} B {how}, {} B of them the arena", need.in_run(), need.arena));
            self.last = Some((steps, need));
            self.far = self.far.or(Some([Nanos(planned.layout.cost.modelled_ns_after); 2]));
            if need.in_run() <= self.ram {
                let far = self.far_of(&planned);
                return Ok(Tried::Fits(Box::new(Fitted {
                    planned,
                    request,
                    need,
                    largest,
                    beyond: None,
                    plans: 0,
                    far,
                })));
            }
            known = Some(need);
        }
        Ok(Tried::Over { need: known.unwrap_or_default() })
    }

    /// The bytes of a plan with another extent, by the share of its extent: inputs and outputs grow with it.
    fn grown(&self, need: Need, of: u64, steps: u64) -> Need {
        let [least, step] = self.extents();
        let extent = |steps: u64| u128::from(least.saturating_add(steps.saturating_mul(step)).max(1));
        let interface = u128::from(need.interface).saturating_mul(extent(steps)) / extent(of);
        Need { interface: u64::try_from(interface).unwrap_or(u64::MAX), ..need }
    }

    /// Weights that a budget counts: those in memory, if others are far.
    fn counted(&self, need: Need) -> u64 {
        if self.request.weights.is_some() { need.weights } else { 0 }
    }

    /// Bytes that are left for the arena, and for weights that the budget counts.
    fn room(&self, need: Need) -> u64 {
        self.ram.saturating_sub(need.beside_arena() - self.counted(need))
    }

    /// The request with the extent after some steps.
    fn request_at(&self, steps: u64) -> Request {
        let mut request = self.request.clone();
        let Some(growing) = &self.growing else { return request };
        let extent = growing.extent(steps);
        let import = &mut request.import;
        // One extent is no range: passes see it as a number.
        if growing.is_range && extent > growing.extents.min {
            import.ranges.insert(growing.name.clone(), Range { max: Some(extent), ..growing.extents });
        } else {
            import.dims.insert(growing.name.clone(), extent);
        }
        if let Some(decoder) = &self.decoder {
            decoder.bind(&mut request, extent, growing.is_range);
        }
        request
    }
}
