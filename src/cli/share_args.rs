//! The command line of `memc share`.

use std::path::PathBuf;

use clap::Args;
use memc::HandoffNames;

use super::args::heading;
use super::solve_args::effort;

/// `memc share`.
#[derive(Args, Debug)]
pub struct Share {
    /// Layouts that `memc optimize` wrote, each beside its planned model: PATH, or NAME=PATH
    #[arg(value_name = "[NAME=]LAYOUT.json", required_unless_present = "nested")]
    pub members: Vec<String>,
    /// Run the members one after another, in their order: the arena is the largest of them
    #[arg(long, conflicts_with_all = ["nested", "phased"], help_heading = heading::USUAL)]
    pub serial: bool,
    /// Run two members at once, each again and again, with the waits that keep their bytes apart
    #[arg(long, conflicts_with = "nested", help_heading = heading::USUAL)]
    pub phased: bool,
    /// Run guests between two steps of a host, in bytes that are free there: host=A.layout.json
    /// guest=B.layout.json, or the names of members
    #[arg(long, value_name = "host=A guest=B", num_args = 2.., help_heading = heading::USUAL)]
    pub nested: Vec<String>,
    /// Joint file to write
    #[arg(short, long, value_name = "JOINT.json", help_heading = heading::USUAL)]
    pub output: Option<PathBuf>,
    /// C header to write beside it: joint arenas, first bytes of members, boundaries, waits
    #[arg(long, value_name = "JOINT.h", requires = "output", help_heading = heading::OUTPUT)]
    pub header: Option<PathBuf>,
    /// An output of one member is an input of a later one, without a copy (repeatable)
    #[arg(long = "handoff", value_name = "A.OUT=B.IN", requires = "serial", help_heading = heading::USUAL)]
    pub handoffs: Vec<HandoffNames>,
    /// A member that may run several times before the next one: what is handed over to it stays until then
    /// (repeatable)
    #[arg(long = "repeat", value_name = "NAME", requires = "serial", help_heading = heading::CHANGES)]
    pub repeats: Vec<String>,
    /// Move members as a whole only, and leave a host as it is
    #[arg(long, help_heading = heading::CHANGES)]
    pub keep_offsets: bool,
    /// Model that a member was planned from [default: the file beside the layout with the hash in it]
    /// (repeatable)
    #[arg(long = "given", value_name = "NAME=MODEL.onnx", value_parser = given, requires = "output", help_heading = heading::INPUT)]
    pub given: Vec<(String, PathBuf)>,
    /// Search effort of placements: fast, default, max, or a number of search nodes
    #[arg(long, value_name = "fast|default|max|N", default_value = "default", value_parser = effort, help_heading = heading::MACHINE)]
    pub effort: u64,
    /// Print JSON on stdout
    #[arg(long, help_heading = heading::OUTPUT)]
    pub json: bool,
}

/// Parses `NAME=PATH`.
fn given(text: &str) -> Result<(String, PathBuf), String> {
    let parts = text.split_once('=').filter(|(name, path)| !name.is_empty() && !path.is_empty());
    parts
        .map(|(name, path)| (name.to_owned(), path.into()))
        .ok_or_else(|| format!("`{text}` is not NAME=MODEL.onnx"))
}
