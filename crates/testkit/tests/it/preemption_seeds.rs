//! Random fleets in which capacity is scarce, with priorities, preemption and quotas: from fixed seeds, from fresh
//! ones, and those that found bugs (docs/development/simulation.md).

use ironclad_seam::Rng;
use ironclad_testkit::sim::script::Script;

use crate::failover_seeds::run_all;

/// Runs of one test.
const SEEDS: u64 = 10;

#[test]
fn fixed_seeds_with_scarce_capacity() -> anyhow::Result<()> {
    run_all((0..SEEDS).map(Script::scarce))
}

#[test]
fn fresh_seeds_with_scarce_capacity() -> anyhow::Result<()> {
    let root = Rng::from_system();
    println!(
        "fresh seeds from root {:#x}: cargo xtask sim --scarce --root {:#x} --seeds {SEEDS}",
        root.seed(),
        root.seed()
    );
    let draws = root.stream("seeds");
    run_all((0..SEEDS).map(|_| Script::scarce(draws.u64())))
}

/// Seeds that found bugs, in Ironclad or in the checker.
const FOUND: [u64; 4] =
    [1_932_317_183_741_707_398, 6_398_698_355_475_773_862, 4_621_281_244_028_488_093, 15_309_202_846_922_240_478];

#[test]
fn seeds_with_scarce_capacity_that_found_bugs() -> anyhow::Result<()> {
    run_all(FOUND.into_iter().map(Script::scarce))
}
