//! Stages: pieces of work whose seconds are printed, and a table of them at the end.

use std::{fmt, time::Duration};

/// The stages of one run, in the order in which they were run.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    done: Vec<(String, Duration)>,
}

impl Stages {
    /// Runs one stage and prints how long it took, also if it failed.
    pub(crate) fn run<T>(&mut self, name: &str, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        eprintln!("==> {name}");
        let (result, took) = timed(work);
        let ended = if result.is_ok() { "done" } else { "failed" };
        eprintln!("<== {name} {ended} in {:.1} s", took.as_secs_f64());
        self.done.push((name.to_owned(), took));
        result
    }
}

impl fmt::Display for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.done.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, took) in &self.done {
            writeln!(f, "{name:<width$}  {:>7.1} s", took.as_secs_f64())?;
        }
        Ok(())
    }
}

#[allow(clippy::disallowed_methods, reason = "people read how long a stage really took; nothing is decided by it")]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = std::time::Instant::now();
    let result = work();
    (result, start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_shows_a_failed_stage() {
        let mut stages = Stages { done: vec![("build".into(), Duration::from_millis(61_250))] };
        let failed = stages.run::<()>("documentation", || anyhow::bail!("no"));
        assert!(failed.is_err());
        stages.done[1].1 = Duration::from_millis(500);
        assert_eq!(stages.to_string(), "build             61.2 s\ndocumentation      0.5 s\n");
    }
}
