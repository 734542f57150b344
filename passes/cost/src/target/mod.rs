//! What a plan is made for: the machine, its memory spaces, and the links between them.

mod error;
mod parse;

pub use error::TargetError;

use memc_ir::{Bytes, Nanos};

use crate::machine::{ArithmeticRates, Cache, Machine};

/// A target description, as a file of `targets/` says it.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// Name in options and in the layout file.
    pub name: String,
    /// One line on what it is.
    pub summary: String,
    /// What computes.
    pub machine: Machine,
    /// What its kernels do with memory.
    pub kernels: Kernels,
    /// Where bytes may live. Never empty; everything is computed in the first.
    pub spaces: Vec<Space>,
    /// Ways between spaces, one direction each.
    pub links: Vec<Link>,
}

/// A memory space of a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Space {
    /// Name, as `device` or `sram`.
    pub name: String,
    /// How much it holds; `None` for no limit.
    pub capacity: Option<Bytes>,
    /// Every offset is a multiple of this power of two; `None` leaves it to the runtime.
    pub alignment: Option<u64>,
    /// Whether constants lie there, and are read where they lie: what the file says, else whether no link leads to it, as nothing else
    /// can then be put there. False for a space that a link is asked for.
    pub constants: bool,
}

/// What kernels of the machine do with memory, where the runtime obeys the layout; ONNX Runtime's are known and not asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kernels {
    /// Whether they take the workspace that the operator table states, which is what ONNX Runtime's take.
    pub workspace: bool,
}

/// A way to copy bytes from one space to another, an engine of its own beside the processor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Index of the space that is read.
    pub from: usize,
    /// Index of the space that is written.
    pub to: usize,
    /// Bandwidth, above 0.
    pub bytes_per_second: f64,
    /// Time before the first byte arrives.
    pub latency: Nanos,
}

impl Link {
    /// Time to copy so many bytes.
    pub fn time(&self, bytes: Bytes) -> Nanos {
        Nanos(self.latency.0 + bytes.0 as f64 / self.bytes_per_second * 1e9)
    }
}

/// The files that come with memc: name and text, sorted by name.
pub const BUILT_IN: [(&str, &str); 4] = [
    ("cpu", include_str!("../../../../targets/cpu.toml")),
    ("esp32-s3", include_str!("../../../../targets/esp32-s3.toml")),
    ("h100-sxm", include_str!("../../../../targets/h100-sxm.toml")),
    ("ryzen-7950x", include_str!("../../../../targets/ryzen-7950x.toml")),
];

/// The text of a target that comes with memc.
pub fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

impl Default for Target {
    /// The target `cpu`: one core of a server processor, as `targets/cpu.toml` describes it, with the reasons for its figures.
    fn default() -> Self {
        let machine = Machine {
            flops_per_second: ArithmeticRates::uniform(50e9),
            bytes_per_second: 10e9,
            cache: Some(Cache { capacity: Bytes(33_554_432), bytes_per_second: 40e9 }),
            overhead: Nanos(1_500.0),
            sustained: 1.0,
        };
        let space = Space { name: "device".to_owned(), capacity: None, alignment: None, constants: false };
        let summary = "one core of a current server processor".to_owned();
        Self { name: "cpu".to_owned(), summary, machine, kernels: Kernels::default(), spaces: vec![space], links: Vec::new() }
    }
}

impl Default for Kernels {
    fn default() -> Self {
        Self { workspace: true }
    }
}

impl Target {
    /// What the spaces in which constants lie hold together, with their names; `None` where no space is known to be one of them.
    /// The capacity is `None` where one of them has no limit.
    pub fn constants(&self) -> Option<(Vec<&str>, Option<Bytes>)> {
        let spaces: Vec<&Space> = self.spaces.iter().filter(|space| space.constants).collect();
        let all = spaces.iter().try_fold(Bytes(0), |sum, space| Some(sum.saturating_add(space.capacity?)));
        (!spaces.is_empty()).then(|| (spaces.iter().map(|space| space.name.as_str()).collect(), all))
    }

    /// Reads a target file (TOML).
    ///
    /// # Errors
    /// The first thing in the file that is wrong, with its line.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        parse::parse(text)
    }

    /// Index of the space of that name.
    pub fn space(&self, name: &str) -> Option<usize> {
        self.spaces.iter().position(|space| space.name == name)
    }

    /// The link from one space to another.
    pub fn link(&self, from: usize, to: usize) -> Option<&Link> {
        self.links.iter().find(|link| (link.from, link.to) == (from, to))
    }

    /// Links the first space with another one in both directions, in place of links that were there; a space that is not there yet is
    /// added, without a limit.
    pub fn connect(&mut self, name: &str, bytes_per_second: f64, latency: Nanos) {
        let far = self.space(name).unwrap_or_else(|| {
            self.spaces.push(Space { name: name.to_owned(), capacity: None, alignment: None, constants: false });
            self.spaces.len() - 1
        });
        self.links.retain(|link| !matches!((link.from, link.to), (0, to) if to == far) && (link.from, link.to) != (far, 0));
        self.links.push(Link { from: 0, to: far, bytes_per_second, latency });
        self.links.push(Link { from: far, to: 0, bytes_per_second, latency });
    }
}
