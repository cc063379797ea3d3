//! Makes a failing programme as short as it fails: first it leaves out halves of its actions, then ever smaller parts.

use std::collections::BTreeSet;

use super::{Programme, run};

/// So many runs are spent on it.
const RUNS_MAX: usize = 60;

/// A shorter programme that fails, too.
#[derive(Debug)]
pub struct Shrunk {
    /// It.
    pub programme: Programme,
    /// How it fails.
    pub error: anyhow::Error,
    /// How often it was tried.
    pub runs: usize,
}

/// Shrinks a programme that failed in this way. Whatever else fails is taken for the same bug.
#[must_use]
pub fn shrink(programme: &Programme, error: anyhow::Error) -> Shrunk {
    shrink_by(programme, error, |candidate| run(candidate).err())
}

fn shrink_by(
    programme: &Programme,
    error: anyhow::Error,
    mut fails: impl FnMut(&Programme) -> Option<anyhow::Error>,
) -> Shrunk {
    let mut best = Shrunk { programme: programme.clone(), error, runs: 0 };
    let mut part = best.programme.kept.len().div_ceil(2);
    while part > 0 && best.runs < RUNS_MAX {
        let kept = best.programme.kept.clone();
        let mut shorter = false;
        for left_out in kept.chunks(part) {
            if best.runs >= RUNS_MAX {
                break;
            }
            let places: BTreeSet<usize> =
                best.programme.kept.iter().filter(|p| !left_out.contains(p)).copied().collect();
            let candidate = best.programme.keeping(&places);
            best.runs += 1;
            if let Some(error) = fails(&candidate) {
                best = Shrunk { programme: candidate, error, runs: best.runs };
                shorter = true;
            }
        }
        part = if shorter { part.min(best.programme.kept.len()) } else { part / 2 };
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_needed_for_the_failure_is_left_out() {
        let long = |seed: &u64| Programme::from_seed(*seed).steps.len() > 8;
        let programme = Programme::from_seed((0..).find(long).unwrap());
        let whole: std::time::Duration = programme.steps[..=5].iter().map(|s| s.after).sum();
        let fails = |p: &Programme| [2, 5].iter().all(|n| p.kept.contains(n)).then(|| anyhow::anyhow!("it does"));
        let shrunk = shrink_by(&programme, anyhow::anyhow!("it does"), fails);
        assert_eq!(shrunk.programme.kept, [2, 5]);
        assert_eq!(
            shrunk.programme.steps.iter().map(|s| s.after).sum::<std::time::Duration>(),
            whole,
            "waits are kept"
        );
        assert!(shrunk.programme.again().ends_with(&format!("--seed {} --keep 2,5", programme.seed)));
    }

    #[test]
    fn a_programme_follows_from_its_seed() {
        for seed in 0..200 {
            let programme = Programme::from_seed(seed);
            assert_eq!(programme, Programme::from_seed(seed));
            assert_eq!(programme.keeping(&programme.kept.iter().copied().collect()), programme);
        }
    }
}
