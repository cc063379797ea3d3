//! Autoscalers of both designs among faults: from fixed seeds, from seeds that found bugs, and from fresh ones, whose
//! root is printed.

use anyhow::ensure;
use ironclad_seam::Rng;
use ironclad_testkit::sim::{
    nightly,
    script::autoscalers::{Modes, check},
};

/// Seeds of each test in a nightly run: a second each.
const SEEDS: u64 = 6;
/// Seeds that found bugs or find planted decisions (docs/development/simulation.md).
const FOUND: [u64; 1] = [1_183_820_258_255_807_308];

fn run(modes: Modes, seeds: impl Iterator<Item = u64>) -> anyhow::Result<()> {
    let with = if modes == Modes::Mixed { " --pull" } else { "" };
    let (mut changes, mut descheduled) = (0, 0);
    let mut failed = Vec::new();
    for seed in seeds {
        match check(seed, modes) {
            Ok(outcome) => {
                changes += outcome.changes;
                descheduled += outcome.descheduled;
            }
            Err(error) => failed.push(format!("cargo xtask sim --autoscalers{with} --seed {seed}: {error:#}")),
        }
    }
    println!("{changes} changes of replicas, descheduled {descheduled} times");
    ensure!(failed.is_empty(), "{} seeds failed:\n{}", failed.len(), failed.join("\n"));
    ensure!(changes > 0, "nothing was ever scaled");
    Ok(())
}

#[test]
fn fixed_seeds() -> anyhow::Result<()> {
    run(Modes::Push, (0..nightly::half(SEEDS)).chain(FOUND))
}

#[test]
fn pull_members() -> anyhow::Result<()> {
    run(Modes::Mixed, 0..nightly::half(SEEDS))
}

#[test]
fn fresh_seeds() -> anyhow::Result<()> {
    let root = Rng::from_system();
    let (seed, seeds) = (root.seed(), nightly::half(SEEDS));
    println!("fresh seeds from root {seed:#x}: cargo xtask sim --autoscalers --root {seed:#x} --seeds {seeds}");
    let draws = root.stream("seeds");
    run(Modes::Push, (0..seeds).map(|_| draws.u64()))
}
