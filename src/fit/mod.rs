//! The largest extent with which a model fits into a memory, together with its weights and with what its
//! caller holds.

mod decoder;

use memc_ir::Range;
use memc_onnx_import::ImportError;
use memc_onnx_proto::ModelFile;

use crate::error::Error;
use crate::fit_error::FitError;
use crate::need::Need;
use crate::plan::plan;
use crate::planned::Planned;
use crate::request::{Budget, Request};
use crate::size::Size;

/// Largest extent that is tried without a request for more.
const MOST: u64 = 65_536;
/// Most extents that are tried.
const TRIES: u32 = 32;
/// Most plans of one extent: without a budget, and within the room that the plan before left.
const ROOMS: u32 = 4;

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
}

/// An extent that was tried.
enum Tried {
    Fits(Box<Fitted>),
    Over { need: Need },
}

/// Finds the largest extent with which a model fits, and its plan. An extent whose plan is too large is
/// planned once more within the room that is left, by recomputation, parts and transfers. `tell` gets a
/// line for each extent.
///
/// # Errors
/// The smallest extent does not fit; several dimensions are open; and those of [`plan`].
pub fn fit(file: &ModelFile, request: &Request, fitting: &Fitting, tell: &mut dyn FnMut(&str)) -> Result<Fitted, Error> {
    let mut search = Search { file, request: request.clone(), ram: fitting.ram, growing: None, decoder: None, plans: 0, tell };
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
    tell: &'s mut dyn FnMut(&str),
}

impl Search<'_> {
    /// Doubles the steps until an extent does not fit, then halves the distance. Which extents are tried
    /// depends only on which ones fitted before, so a larger memory gives no smaller extent, even where an
    /// extent fits and a smaller one does not (one that parts divide, for instance).
    fn run(mut self) -> Result<Fitted, Error> {
        let steps = self.growing.as_ref().map_or(0, Growing::steps);
        let mut best = match self.at(0)? {
            Tried::Fits(fitted) => fitted,
            Tried::Over { need } => {
                return Err(FitError::Short { ram: self.ram, need, smallest: self.stated(0) }.into());
            }
        };
        let (mut low, mut high, mut beyond) = (0, steps.saturating_add(1), None);
        let mut tries = 1;
        while high - low > 1 && tries < TRIES {
            let next = if beyond.is_none() { (2 * low + 1).min(high - 1) } else { low + (high - low) / 2 };
            let why = match self.at(next) {
                Ok(Tried::Fits(fitted)) => {
                    (best, low) = (fitted, next);
                    None
                }
                Ok(Tried::Over { need }) => Some(format!("needs {} B", need.in_run())),
                // A model may end there, as one with a table of positions does.
                Err(error) if error.exit_code() == 70 => return Err(error),
                Err(error) => Some(format!("is refused: {error}")),
            };
            if let Some(why) = why {
                high = next;
                beyond = self.growing.as_ref().map(|growing| (growing.extent(next), why));
            }
            tries += 1;
        }
        best.beyond = beyond;
        best.plans = self.plans;
        Ok(*best)
    }

    /// The dimension with its extent after some steps, as a user states it.
    fn stated(&self, steps: u64) -> Option<String> {
        self.growing.as_ref().map(|growing| format!("{}={}", growing.name, growing.extent(steps)))
    }

    /// Plans one extent.
    fn at(&mut self, steps: u64) -> Result<Tried, Error> {
        let request = self.request_at(steps);
        let planned = self.plan(&request)?;
        let need = Need::of(&planned.layout);
        let label = self.stated(steps).unwrap_or_else(|| "the model".to_owned());
        (self.tell)(&format!("{label}: {} B, {} B of them the arena", need.in_run(), need.arena));
        let largest = self.growing.clone().map(|growing| {
            let extent = growing.extent(steps);
            (growing, extent)
        });
        let (mut planned, mut request, mut need) = (planned, request, need);
        // What lies beside the arena may grow if the arena shrinks, so the room is asked for again.
        for _ in 0..ROOMS {
            if need.in_run() <= self.ram {
                return Ok(Tried::Fits(Box::new(Fitted { planned, request, need, largest, beyond: None, plans: 0 })));
            }
            let room = self.ram.saturating_sub(need.beside_arena());
            if room == 0 {
                break;
            }
            request = self.request_at(steps).budget(Budget::from(Size::Bytes(room)));
            planned = match self.plan(&request) {
                Ok(planned) => planned,
                Err(error) => {
                    let arena = error.smallest().ok_or(error)?;
                    return Ok(Tried::Over { need: Need { arena, ..need } });
                }
            };
            need = Need::of(&planned.layout);
            (self.tell)(&format!("{label}: {} B within a budget", need.in_run()));
        }
        Ok(Tried::Over { need })
    }

    fn plan(&mut self, request: &Request) -> Result<Planned, Error> {
        self.plans += 1;
        plan(self.file, request)
    }

    /// The request with the extent after some steps.
    fn request_at(&self, steps: u64) -> Request {
        let mut request = self.request.clone();
        let Some(growing) = &self.growing else { return request };
        let extent = growing.extent(steps);
        let import = &mut request.import;
        if growing.is_range {
            import.ranges.insert(growing.name.clone(), Range { max: Some(extent), ..growing.extents });
        } else {
            import.dims.insert(growing.name.clone(), extent);
        }
        if let Some(decoder) = &self.decoder {
            decoder.bind(&mut request, extent);
        }
        request
    }
}
