//! Autoscalers of both designs among faults: from fixed seeds, from seeds that found bugs, and from fresh ones, whose
//! root is printed.

use anyhow::ensure;
use ironclad_seam::Rng;
use ironclad_testkit::sim::{nightly, script::autoscalers::check};

/// Seeds of each test in a nightly run: a second each.
const SEEDS: u64 = 6;
/// Seeds that found bugs or find planted decisions (docs/development/simulation.md).
const FOUND: [u64; 1] = [1_183_820_258_255_807_308];

fn run(seeds: impl Iterator<Item = u64>) -> anyhow::Result<()> {
    let (mut changes, mut descheduled) = (0, 0);
    let mut failed = Vec::new();
    for seed in seeds {
        match check(seed) {
            Ok(outcome) => {
                changes += outcome.changes;
                descheduled += outcome.descheduled;
            }
            Err(error) => failed.push(format!("cargo xtask sim --autoscalers --seed {seed}: {error:#}")),
        }
    }
    println!("{changes} changes of replicas, descheduled {descheduled} times");
    ensure!(failed.is_empty(), "{} seeds failed:\n{}", failed.len(), failed.join("\n"));
    ensure!(changes > 0, "nothing was ever scaled");
    Ok(())
}

#[test]
fn fixed_seeds() -> anyhow::Result<()> {
    run((0..nightly::half(SEEDS)).chain(FOUND))
}

#[test]
fn fresh_seeds() -> anyhow::Result<()> {
    let root = Rng::from_system();
    let (seed, seeds) = (root.seed(), nightly::half(SEEDS));
    println!("fresh seeds from root {seed:#x}: cargo xtask sim --autoscalers --root {seed:#x} --seeds {seeds}");
    let draws = root.stream("seeds");
    run((0..seeds).map(|_| draws.u64()))
}
