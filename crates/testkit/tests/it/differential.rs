//! The embedded server answers as a real kube-apiserver does.

use std::path::Path;

use ironclad_testkit::differential;

/// Minimum numbers of scenarios and steps.
const SCENARIOS_MIN: usize = 100;
const STEPS_MIN: usize = 1_000;

#[tokio::test]
async fn the_embedded_server_answers_like_a_real_one() -> anyhow::Result<()> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential");
    let Some(outcome) = differential::run(&directory).await? else { return Ok(()) };
    let mut reported: Vec<String> = outcome.unknown.iter().map(ToString::to_string).collect();
    reported.extend(outcome.stale.iter().map(|name| format!("known.yaml: {name} no longer occurs")));
    println!("{} scenarios, {} steps, {} differences", outcome.scenarios, outcome.steps, reported.len());
    assert!(reported.is_empty(), "{} differences:\n{}", reported.len(), reported.join("\n"));
    Ok(())
}

#[test]
fn there_are_enough_scenarios() -> anyhow::Result<()> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential");
    let scenarios = differential::scenarios(&directory)?;
    let steps: usize = scenarios.iter().map(|s| s.steps.len()).sum();
    assert!(scenarios.len() >= SCENARIOS_MIN && steps >= STEPS_MIN, "{} with {steps} steps", scenarios.len());
    Ok(())
}
