//! The `memc` command.

/// Plans make and drop many small lists.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> memc::cli::ExitCode {
    memc::cli::main()
}
