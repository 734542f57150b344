//! The `memc` command.

fn main() -> memc::cli::ExitCode {
    memc::cli::main()
}
