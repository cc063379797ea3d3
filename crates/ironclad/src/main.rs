//! The program. All of it is in the library of this package, so that it is compiled once for the program and its tests.

use std::process::ExitCode;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ironclad::main()
}
