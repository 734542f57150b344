//! Targets of plans: the machine, its memory spaces, and the links between them.

mod error;
mod parse;
mod write;

pub use error::TargetError;
pub use write::calibrated;

use memc_ir::{Bytes, Nanos};

use crate::line::Lines;
use crate::machine::{ArithmeticRates, Cache, Machine};

/// A target description, as a file of `targets/` states it.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// Name in options and in the layout file.
    pub name: String,
    /// One-line description.
    pub summary: String,
    /// Rates of the machine.
    pub machine: Machine,
    /// Memory needs of the machine's kernels.
    pub kernels: Kernels,
    /// Memory spaces. Never empty; all nodes compute in the first space.
    pub spaces: Vec<Space>,
    /// Links between spaces, one direction each.
    pub links: Vec<Link>,
}

/// A memory space of a target.
#[derive(Clone, PartialEq, Debug)]
pub struct Space {
    /// Name, such as `device` or `sram`.
    pub name: String,
    /// Capacity in bytes; `None` for no limit.
    pub capacity: Option<Bytes>,
    /// Power of two that divides every offset; `None` leaves the alignment to the runtime.
    pub alignment: Option<u64>,
    /// Whether the space stores constants, which are read in place. Without a statement in the file,
    /// this is true if no link leads to the space, since then nothing else can be written there. False
    /// for a space added by a requested link.
    pub constants: bool,
    /// Bytes per second at which nodes read and write tensors that live in the space, above 0; `None` if
    /// nodes cannot. `None` for the first space, whose rate is that of the machine.
    pub access: Option<f64>,
}

/// Memory needs of the machine's kernels, for runtimes that obey the layout. The needs of ONNX Runtime's
/// kernels are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kernels {
    /// Whether kernels need the workspace of the operator table, which is that of ONNX Runtime's
    /// kernels.
    pub workspace: bool,
}

/// A link that copies bytes from one space to another, on its own engine, in parallel with the
/// processor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Index of the space that is read.
    pub from: usize,
    /// Index of the space that is written.
    pub to: usize,
    /// Bandwidth in bytes per second, above 0.
    pub bytes_per_second: f64,
    /// Time before the first byte arrives.
    pub latency: Nanos,
}

impl Link {
    /// Returns the time to copy these bytes.
    pub fn time(&self, bytes: Bytes) -> Nanos {
        Nanos(self.latency.0 + bytes.0 as f64 / self.bytes_per_second * 1e9)
    }
}

/// Target files that come with memc: name and text, sorted by name.
pub const BUILT_IN: [(&str, &str); 4] = [
    ("cpu", include_str!("../../targets/cpu.toml")),
    ("esp32-s3", include_str!("../../targets/esp32-s3.toml")),
    ("h100-sxm", include_str!("../../targets/h100-sxm.toml")),
    ("ryzen-7950x", include_str!("../../targets/ryzen-7950x.toml")),
];

/// Returns the text of a target that comes with memc; `None` for an unknown name.
pub fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

impl Default for Target {
    /// Returns the target `cpu`: one core of a server processor. `targets/cpu.toml` gives the reasons
    /// for its figures.
    fn default() -> Self {
        let machine = Machine {
            flops_per_second: ArithmeticRates::uniform(50e9),
            bytes_per_second: 10e9,
            cache: Some(Cache { capacity: Bytes(33_554_432), bytes_per_second: 40e9 }),
            overhead: Nanos(1_500.0),
            sustained: 1.0,
            lines: Lines::default(),
        };
        let space = Space {
            name: "device".to_owned(),
            capacity: None,
            alignment: None,
            constants: false,
            access: None,
        };
        let summary = "one core of a current server processor".to_owned();
        Self {
            name: "cpu".to_owned(),
            summary,
            machine,
            kernels: Kernels::default(),
            spaces: vec![space],
            links: Vec::new(),
        }
    }
}

impl Default for Kernels {
    fn default() -> Self {
        Self { workspace: true }
    }
}

impl Target {
    /// Returns the names of the spaces that store constants and their total capacity; `None` if the
    /// target has no space for constants.
    ///
    /// The capacity is `None` if one of them has no limit.
    pub fn constants(&self) -> Option<(Vec<&str>, Option<Bytes>)> {
        let spaces: Vec<&Space> = self.spaces.iter().filter(|space| space.constants).collect();
        let all = spaces.iter().try_fold(Bytes(0), |sum, space| Some(sum.saturating_add(space.capacity?)));
        (!spaces.is_empty()).then(|| (spaces.iter().map(|space| space.name.as_str()).collect(), all))
    }

    /// Reads a target file (TOML).
    ///
    /// # Errors
    /// The first error in the file, with its line.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        parse::parse(text)
    }

    /// Returns the index of the space of that name.
    pub fn space(&self, name: &str) -> Option<usize> {
        self.spaces.iter().position(|space| space.name == name)
    }

    /// Returns the link from one space to another.
    pub fn link(&self, from: usize, to: usize) -> Option<&Link> {
        self.links.iter().find(|link| (link.from, link.to) == (from, to))
    }

    /// Links the first space with another space in both directions, replacing existing links between
    /// them. An unknown space is added without a limit.
    pub fn connect(&mut self, name: &str, bytes_per_second: f64, latency: Nanos) {
        let far = self.space(name).unwrap_or_else(|| {
            self.spaces.push(Space {
                name: name.to_owned(),
                capacity: None,
                alignment: None,
                constants: false,
                access: None,
            });
            self.spaces.len() - 1
        });
        self.links.retain(|link| {
            !matches!((link.from, link.to), (0, to) if to == far) && (link.from, link.to) != (far, 0)
        });
        self.links.push(Link { from: 0, to: far, bytes_per_second, latency });
        self.links.push(Link { from: far, to: 0, bytes_per_second, latency });
    }
}
