//! A tenant with all rights in one namespace reaches nothing outside of it.

use ironclad_testkit::tenant;

/// `IRONCLAD_TENANT_SEED` names another one.
const SEED: u64 = 15;
/// Writes of each field.
const PER_FIELD: usize = 3;

#[tokio::test(start_paused = true)]
async fn tenant_who_writes_every_field_reaches_nothing_outside_of_the_namespace() -> anyhow::Result<()> {
    let seed = match std::env::var("IRONCLAD_TENANT_SEED") {
        Ok(text) => text.parse()?,
        Err(_) => SEED,
    };
    let outcome = tenant::run(seed, PER_FIELD).await?;
    println!("seed {seed}: {outcome:#?}");
    assert!(outcome.forbidden > 1_000, "{}", outcome.forbidden);
    assert!(outcome.fields > 500, "{}", outcome.fields);
    for (kind, (writes, accepted)) in &outcome.writes {
        assert!(
            accepted * 10 >= *writes,
            "of {writes} writes of {kind} only {accepted} were accepted: they test nothing"
        );
    }
    Ok(())
}
