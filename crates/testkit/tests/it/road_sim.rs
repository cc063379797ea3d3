//! The road in virtual time: one seed has one history, and no single fault at any write changes where it ends.

use std::process::Command;

use anyhow::{Context as _, ensure};
use ironclad_seam::Rng;
use ironclad_testkit::sim::{
    Fault, WorldOptions,
    road::{self, Disturbance},
};

const MATRIX: WorldOptions = WorldOptions { seed: 0x1c1ad, members: 2 };

fn digest_in_a_process(seed: u64) -> anyhow::Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(["--seed", &seed.to_string(), "--digest"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn the_same_seed_has_the_same_history_in_two_processes() -> anyhow::Result<()> {
    for seed in [1, 42, 0x5eed] {
        let (a, b) = (digest_in_a_process(seed)?, digest_in_a_process(seed)?);
        assert_eq!(a, b, "seed {seed}");
    }
    assert_ne!(digest_in_a_process(1)?, digest_in_a_process(2)?, "the digest must depend on the seed");
    Ok(())
}

/// Every write of the scenario is disturbed once in each way; the world must come to the very states of the undisturbed run.
#[test]
fn no_fault_at_any_write_changes_where_the_road_ends() -> anyhow::Result<()> {
    let undisturbed = road::run(MATRIX, None)?;
    ensure!(undisturbed.writes > 20, "the scenario wrote next to nothing: {}", undisturbed.writes);
    let mut struck = 0;
    for fault in [Fault::Conflict, Fault::KillAfterAnswer, Fault::KillBeforeAnswer, Fault::LoseAnswer] {
        for write in 1..=undisturbed.writes {
            let disturbance = Disturbance { write, fault };
            let outcome = road::run(MATRIX, Some(disturbance))?;
            struck += u64::from(outcome.struck);
            for (at, (is, want)) in outcome.states.iter().zip(&undisturbed.states).enumerate() {
                let differs = is.lines().zip(want.lines()).find(|(is, want)| is != want);
                ensure!(is == want, "{disturbance:?}: at rest {at} the world differs, first here: {differs:#?}");
            }
        }
    }
    println!("crash matrix: {} writes, {struck} faults struck", undisturbed.writes);
    ensure!(struck >= 4 * undisturbed.writes - 4, "only {struck} faults struck");
    Ok(())
}

#[test]
fn fresh_seeds_with_a_fault_each_come_to_rest() -> anyhow::Result<()> {
    let root = Rng::from_system();
    println!("fresh seeds from root {:#x}", root.seed());
    let draws = root.stream("seeds");
    let faults = [Fault::Conflict, Fault::KillAfterAnswer, Fault::KillBeforeAnswer, Fault::LoseAnswer];
    for _ in 0..20 {
        let options = WorldOptions { seed: draws.u64(), members: 1 + draws.below(4) as usize };
        let disturbance =
            Disturbance { write: 1 + draws.below(50), fault: faults[draws.below(faults.len() as u64) as usize] };
        road::run(options, Some(disturbance)).with_context(|| format!("{options:?} {disturbance:?}"))?;
    }
    Ok(())
}
