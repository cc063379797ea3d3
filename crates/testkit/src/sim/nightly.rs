//! Extent of seeds and matrices: a push runs half of what a nightly run does.

/// Variable; `1` asks for all of it (`cargo xtask sim --nightly`).
const NIGHTLY: &str = "IRONCLAD_NIGHTLY";

/// Half of these, rounded up; all of them in a nightly run.
pub fn half(all: u64) -> u64 {
    if std::env::var(NIGHTLY).is_ok_and(|value| value == "1") { all } else { all.div_ceil(2) }
}
