//! Statements hold: `why`, `tree`, `plan apply` and `plan cluster-loss` over random fleets. A failing seed is
//! printed with the command that runs it again; `cargo xtask sim --foretold PROPERTY --seeds 1000` runs many.

use anyhow::{bail, ensure};
use ironclad_seam::Rng;
use ironclad_testkit::sim::foretold::{Met, Property};

/// Fixed seeds of each property.
const SEEDS: u64 = 20;
/// Further fixed seeds, which meet what is rare, or failed once.
const ALSO: [(&str, u64); 12] = [
    ("why", 31),
    ("why", 83),
    ("why", 13727330628157117671),
    ("why", 18211594892872081964),
    ("apply", 110),
    ("apply", 6730655898781674540),
    ("apply", 8978529468233287264),
    ("apply", 17306081793172284190),
    ("loss", 1050206841731285695),
    ("loss", 9951640273331444680),
    ("loss", 9960436512070187510),
    ("loss", 11218035632907655132),
];
/// Fresh seeds of each property.
const FRESH: u64 = 3;

fn run(property: Property, seeds: impl Iterator<Item = u64>) -> anyhow::Result<Met> {
    let (mut met, mut failed) = (Met::new(), Vec::new());
    for seed in seeds {
        match property.check(seed) {
            Ok(more) => met.extend(more),
            Err(error) => {
                println!("{error:?}\n");
                failed.push(error.to_string());
            }
        }
    }
    if failed.is_empty() { Ok(met) } else { bail!("{} seeds failed:\n{}", failed.len(), failed.join("\n")) }
}

/// Runs fixed seeds, which must meet all of these: a property that never meets what it is about proves nothing.
fn fixed(property: Property, wanted: &[&str]) -> anyhow::Result<()> {
    let also = ALSO.iter().filter(|(name, _)| *name == property.name()).map(|(_, seed)| *seed);
    let met = run(property, (0..SEEDS).chain(also))?;
    let missing: Vec<&&str> = wanted.iter().filter(|what| !met.contains(**what)).collect();
    ensure!(missing.is_empty(), "no fleet met {missing:?}: {met:?}");
    Ok(())
}

fn fresh(property: Property) -> anyhow::Result<()> {
    let root = Rng::from_system();
    let name = property.name();
    println!("cargo xtask sim --foretold {name} --root {:#x} --seeds {FRESH}", root.seed());
    let draws = root.stream("seeds");
    run(property, (0..FRESH).map(|_| draws.u64())).map(drop)
}

#[test]
fn why_and_tree_agree_with_the_next_ten_minutes() -> anyhow::Result<()> {
    fixed(
        Property::Why,
        &[
            "at rest",
            "in motion",
            "binding foretold",
            "placed later",
            "scheduled",
            "unschedulable",
            "withdrawn",
            "no binding",
            "waits",
            "broken",
            "in order",
            "all is ready",
            "all is ready, and no policy has it",
            "not all is ready",
        ],
    )
}

#[test]
#[ignore = "some fresh seeds fail: docs/plan.md"]
fn why_and_tree_agree_with_the_next_ten_minutes_of_fresh_fleets() -> anyhow::Result<()> {
    fresh(Property::Why)
}

#[test]
fn plan_apply_foretells_what_happens() -> anyhow::Result<()> {
    fixed(
        Property::Apply,
        &[
            "placement edited", "scaled", "image edited", "new workload", "cluster labelled", "new policy for all",
            "override", "new copy", "copy goes", "stays", "changes", "scales",
        ],
    )
}

#[test]
#[ignore = "some fresh seeds fail: docs/plan.md"]
fn plan_apply_foretells_what_happens_to_fresh_fleets() -> anyhow::Result<()> {
    fresh(Property::Apply)
}

#[test]
fn plan_cluster_loss_foretells_what_happens() -> anyhow::Result<()> {
    fixed(Property::Loss, &["lost", "tainted NoExecute", "tainted PreferNoExecute", "moved", "parked", "abandoned"])
}

#[test]
#[ignore = "some fresh seeds fail: docs/plan.md"]
fn plan_cluster_loss_foretells_what_happens_to_fresh_fleets() -> anyhow::Result<()> {
    fresh(Property::Loss)
}
