//! `cargo xtask fuzz lua`: the script engine under AddressSanitizer.

use std::path::Path;

use anyhow::bail;

use crate::cargo;

/// Arguments of the fuzzer.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask fuzz lua                     twenty thousand scripts
  cargo xtask fuzz lua --cases 1000000     as many as there is time for")]
pub(crate) struct Args {
    /// Part that is fuzzed.
    target: Target,
    /// Scripts to run.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    cases: u32,
}

/// Parts that are fuzzed.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Target {
    /// The script engine, which is C: every function of scripts with extreme arguments, and generated scripts.
    Lua,
}

/// Flags of the C compiler. The engine is optimised as in a release: an optimiser may drop a check that overflows.
const C_FLAGS: &str = "-O2 -g -fwrapv -fsanitize=address -fno-omit-frame-pointer";

/// Builds the tests of the script engine with AddressSanitizer, in C and in Rust, and runs them.
///
/// # Errors
/// If the build fails, or a script breaks a rule. The last script that ran is in the file that is printed.
pub(crate) fn run(root: &Path, args: &Args) -> anyhow::Result<()> {
    let Target::Lua = args.target;
    if !cfg!(target_os = "linux") {
        bail!("AddressSanitizer is set up for Linux only");
    }
    let target = cargo::target_directory(root).join("asan");
    let last = target.join("last-script.lua");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut command = cargo::cargo(root);
    command.args(["test", "--package", "ironclad-interpreter-lua", "--lib", "--target", &triple, "extremes"]);
    // The sanitizer is an unstable flag of the compiler; the pinned toolchain has its runtime.
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address").env("CFLAGS", C_FLAGS);
    // The engine's state is not freed by scripts that end with a panic of a test.
    command.env("ASAN_OPTIONS", "detect_leaks=0").env("CARGO_TARGET_DIR", &target);
    command.env("PROPTEST_CASES", args.cases.to_string()).env("IRONCLAD_FUZZ_KEEP", &last);
    println!("the last script is kept in {}", last.display());
    cargo::run(&mut command)
}
