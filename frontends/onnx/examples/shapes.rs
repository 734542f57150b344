//! Prints the inferred type of every value of the main graph: `shapes MODEL.onnx [NAME=N …]`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use memc_onnx_import::{ImportOptions, import};
use memc_onnx_proto::ModelFile;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("usage: shapes MODEL.onnx [NAME=N …]");
        return ExitCode::from(2);
    };
    let dims = arguments
        .filter_map(|text| Some((text.split_once('=')?.0.to_owned(), text.split_once('=')?.1.parse().ok()?)));
    let options = ImportOptions { dims: dims.collect(), allow_unbound: true, ..ImportOptions::default() };
    let imported = ModelFile::open(&path).map_err(Into::into).and_then(|file| import(&file, &options));
    match imported {
        Err(error) => {
            eprintln!("{}", error.diagnostic());
            ExitCode::from(1)
        }
        Ok(imported) => {
            for diagnostic in &imported.diagnostics {
                eprintln!("{diagnostic}");
            }
            for (_, value) in imported.module.values().iter() {
                println!("{}\t{}", value.name, value.ty);
            }
            ExitCode::SUCCESS
        }
    }
}
