//! The embedded server refuses what a real kube-apiserver refuses, with the same words.

use ironclad_testkit::differential::authorization;

/// Requests of a run; specification/apiserver.md 20 is wide, so many are drawn.
const REQUESTS: usize = 6_000;
/// `IRONCLAD_AUTHORIZATION_SEED` names another one.
const SEED: u64 = 20;
/// Differences that a failure prints.
const PRINTED: usize = 40;

#[tokio::test]
async fn generated_requests_are_refused_as_by_a_real_server() -> anyhow::Result<()> {
    let seed = match std::env::var("IRONCLAD_AUTHORIZATION_SEED") {
        Ok(text) => text.parse()?,
        Err(_) => SEED,
    };
    let Some(outcome) = authorization::run(seed, REQUESTS).await? else { return Ok(()) };
    println!("seed {seed}: {} requests, {} refused", outcome.requests, outcome.refused);
    let share = outcome.refused * 100 / outcome.requests;
    assert!((20..=90).contains(&share), "{share} % of the requests are refused: the draws are one-sided");
    let all = &outcome.differences;
    let shown: Vec<&str> = all.iter().take(PRINTED).map(String::as_str).collect();
    assert!(all.is_empty(), "seed {seed}: {} of {} differ:\n{}", all.len(), outcome.requests, shown.join("\n"));
    Ok(())
}
