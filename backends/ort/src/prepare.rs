//! Prepares a plan for playing: memory, steps, transfers, sessions, in this order.

use std::collections::BTreeSet;
use std::path::Path;

use memc_layout::Layout;
use memc_onnx_proto::ModelFile;
use sha2::{Digest as _, Sha256};

use crate::arrays::hex;
use crate::audit::audit;
use crate::cut::Cutter;
use crate::engines::Engines;
use crate::error::Error;
use crate::memory::ArenaMemory;
use crate::options::{PlayOptions, reference};
use crate::places::Places;
use crate::player::Player;
use crate::runtime::Runtime;
use crate::sessions::{bind, make_sessions, run_constants};
use crate::skips::find_skips;
use crate::stage::Stage;
use crate::step::{Step, scheduled};
use crate::transfer::Transfers;
use crate::weights::{Weight, Weights};

impl<'r> Player<'r> {
    /// Prepares a plan. Takes about a twentieth of a millisecond a kind of node, and longer if kernels
    /// pack constant operands.
    ///
    /// # Errors
    /// The layout belongs to another model or contradicts itself, weights or kernels are missing, or
    /// memory is short.
    pub fn new(
        runtime: &'r Runtime,
        model: &ModelFile,
        layout: &Layout,
        options: PlayOptions,
    ) -> Result<Self, Error> {
        Self::beside(Vec::new(), runtime, model, layout, options)
    }

    /// As [`Self::new`], in the arenas of an earlier player, if they have the sizes of this plan's.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn after(
        earlier: Self,
        runtime: &'r Runtime,
        model: &ModelFile,
        layout: &Layout,
        options: PlayOptions,
    ) -> Result<Self, Error> {
        Self::beside(earlier.into_arenas(), runtime, model, layout, options)
    }

    /// As [`Self::new`], in arenas that other plans use too, if they have the sizes of this plan's.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub(crate) fn beside(
        arenas: Vec<ArenaMemory>,
        runtime: &'r Runtime,
        model: &ModelFile,
        layout: &Layout,
        options: PlayOptions,
    ) -> Result<Self, Error> {
        let folder = model.path().and_then(Path::parent).map(Path::to_owned).unwrap_or_default();
        Self::prepare(runtime, model, layout, options, &folder, arenas)
    }

    /// As [`Self::new`], for a model whose external data is in another folder than the model.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn with_weights_in(
        runtime: &'r Runtime,
        model: &ModelFile,
        layout: &Layout,
        options: PlayOptions,
        folder: &Path,
    ) -> Result<Self, Error> {
        Self::prepare(runtime, model, layout, options, folder, Vec::new())
    }

    fn prepare(
        runtime: &'r Runtime,
        model: &ModelFile,
        layout: &Layout,
        options: PlayOptions,
        folder: &Path,
        kept: Vec<ArenaMemory>,
    ) -> Result<Self, Error> {
        if !options.any_model {
            is_of(layout, model)?;
        }
        // Read the weights, the places of all values, and the steps.
        let mut weights = Weights::read(model, folder)?;
        let sparse = std::mem::take(&mut weights.sparse);
        let mut places =
            Places::new(layout, &|name| weights.tensors.contains_key(name), &|space| options.is_file(space))?;
        let nodes = scheduled(model, layout)?;
        let in_folder = |(name, weight): (&String, &Weight)| weight.is_in_folder().then(|| name.clone());
        let in_folder: BTreeSet<String> = weights.tensors.iter().filter_map(in_folder).collect();
        let cutter = Cutter::new(model.model(), model.graph(), &sparse, &|name| in_folder.contains(name));
        let mut steps: Vec<Step<'r>> =
            nodes.iter().map(|node| Step::of(node, &cutter, &mut places)).collect();
        for name in weights.tensors.keys() {
            places.slot(name);
        }
        let outputs: Vec<String> =
            model.graph().output.iter().map(|output| output.name().to_owned()).collect();
        let inputs = model.graph().input.iter().map(|input| input.name().to_owned()).collect();
        // Allocate the memory, and check the plan before any kernel runs.
        let mut stage = Stage::new(runtime, layout, weights, places, &options, kept)?;
        stage.fill_constants();
        find_skips(&stage, &mut steps);
        if !options.any_model {
            audit(&stage.places, &steps, &outputs)?;
        }
        let engines = Engines::of(layout)?;
        // Start the links, make the sessions, and bind them to the values.
        let transfers = Transfers::new(&stage, &mut steps, layout, &options)?;
        make_sessions(&stage, &mut steps, &cutter, &nodes, folder, reference(layout))?;
        run_constants(&mut stage, &steps)?;
        bind(&stage, &mut steps)?;
        Ok(Self::of(options, (transfers, engines), steps, stage, inputs, outputs))
    }
}

/// Checks that the hash in the layout is the model's.
fn is_of(layout: &Layout, model: &ModelFile) -> Result<(), Error> {
    let found = hex(&Sha256::digest(model.bytes()));
    if found == layout.model.output_sha256 {
        return Ok(());
    }
    Err(Error::OtherModel { expected: layout.model.output_sha256.clone(), found })
}
