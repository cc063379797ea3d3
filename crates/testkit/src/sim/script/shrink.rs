//! Shrinks a failing script to a shorter one that fails in the same way: removes halves of its actions, then ever
//! smaller parts.

use std::collections::BTreeSet;

use super::{Script, run};

/// Maximum number of runs.
const RUNS_MAX: usize = 60;

/// A shorter script that fails in the same way.
#[derive(Debug)]
pub struct Shrunk {
    pub script: Script,
    pub error: anyhow::Error,
    pub runs: usize,
}

/// Shrinks a script that failed with this error. Scripts that fail differently are ignored: that is another bug.
pub fn shrink(script: &Script, error: anyhow::Error) -> Shrunk {
    shrink_by(script, error, |candidate| run(candidate).err())
}

fn shrink_by(script: &Script, error: anyhow::Error, mut fails: impl FnMut(&Script) -> Option<anyhow::Error>) -> Shrunk {
    let way = way(&error);
    let mut best = Shrunk { script: script.clone(), error, runs: 0 };
    let mut part = best.script.kept.len().div_ceil(2);
    while part > 0 && best.runs < RUNS_MAX {
        let kept = best.script.kept.clone();
        let mut shorter = false;
        for left_out in kept.chunks(part) {
            if best.runs >= RUNS_MAX {
                break;
            }
            let places: BTreeSet<usize> = best.script.kept.iter().filter(|p| !left_out.contains(p)).copied().collect();
            let candidate = best.script.keeping(&places);
            best.runs += 1;
            if let Some(error) = fails(&candidate).filter(|error| self::way(error) == way) {
                best = Shrunk { script: candidate, error, runs: best.runs };
                shorter = true;
            }
        }
        part = if shorter { part.min(best.script.kept.len()) } else { part / 2 };
    }
    best
}

/// Classifies an error: the first broken invariant by its numbers, or the condition that was not reached, without
/// names, numbers and times.
fn way(error: &anyhow::Error) -> String {
    let root = error.root_cause().to_string();
    let first = root.split("; ").next().unwrap_or_default();
    if first.starts_with("invariant") {
        return first.split(':').next().unwrap_or_default().to_owned();
    }
    let is_word = |word: &&str| !word.contains(|c: char| c.is_ascii_digit() || "{[(\"/".contains(c));
    first.split_whitespace().filter(is_word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_a_start_are_reported() {
        let way = |text: &str| super::way(&anyhow::anyhow!(text.to_owned()).context("seed 3: 2 members"));
        for (text, same, want) in [
            (
                "invariant 16: the last copy of x went, in m1",
                "invariant 16: the last copy of y went, in m2; more",
                true,
            ),
            ("invariant 16: the last copy of x went, in m1", "invariant 17: the task of n/b is cleared", false),
            ("invariants 6, 12, 36: n/b is evicted", "invariant 6: n/b is evicted", false),
            ("invariant 2: a; invariant 16: b", "invariant 16: b; invariant 2: a", false),
            ("app1 is where it should be: not so after 600s", "app3 is where it should be: not so after 600s", true),
            ("app1 is where it should be: not so after 600s", "all clusters are Ready: not so after 600s", false),
            ("never quiet: 12 writes so far", "never quiet: 90 writes so far", true),
        ] {
            assert_eq!(way(text) == way(same), want, "{text} / {same}");
        }
    }

    #[test]
    fn shrinking_ignores_other_failures() {
        let long = |seed: &u64| Script::from_seed(*seed).steps.len() > 8;
        let script = Script::from_seed((0..).find(long).unwrap());
        // Without action 5 another invariant breaks.
        let fails = |p: &Script| match (p.kept.contains(&2), p.kept.contains(&5)) {
            (true, true) => Some(anyhow::anyhow!("invariant 16: it went")),
            (true, false) => Some(anyhow::anyhow!("invariant 1: too fast")),
            (false, _) => None,
        };
        let shrunk = shrink_by(&script, anyhow::anyhow!("invariant 16: it went"), fails);
        assert_eq!(shrunk.script.kept, [2, 5]);
        assert_eq!(shrunk.error.to_string(), "invariant 16: it went");
    }

    #[test]
    fn shrinking_drops_what_the_failure_does_not_need() {
        let long = |seed: &u64| Script::from_seed(*seed).steps.len() > 8;
        let script = Script::from_seed((0..).find(long).unwrap());
        let whole: std::time::Duration = script.steps[..=5].iter().map(|s| s.after).sum();
        let fails = |p: &Script| [2, 5].iter().all(|n| p.kept.contains(n)).then(|| anyhow::anyhow!("it does"));
        let shrunk = shrink_by(&script, anyhow::anyhow!("it does"), fails);
        assert_eq!(shrunk.script.kept, [2, 5]);
        assert_eq!(shrunk.script.steps.iter().map(|s| s.after).sum::<std::time::Duration>(), whole, "waits are kept");
        assert!(shrunk.script.again().ends_with(&format!("--seed {} --keep 2,5", script.seed)));
    }

    #[test]
    fn a_seed_determines_its_script() {
        for seed in 0..200 {
            let script = Script::from_seed(seed);
            assert_eq!(script, Script::from_seed(seed));
            assert_eq!(script.keeping(&script.kept.iter().copied().collect()), script);
        }
    }
}
