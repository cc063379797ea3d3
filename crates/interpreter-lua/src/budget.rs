//! Budget of one call of a script, and its use.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::RunningScripts;

/// Steps of one call: instructions, and characters that patterns inspect. Unlike time, they are the same on every
/// machine.
pub const STEPS_MAX: u64 = 10_000_000;
/// Memory of a state in bytes, including garbage of earlier calls.
pub const MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Time of one call by the host's clock. Most scripts run out of steps earlier; this limits those with expensive
/// steps.
pub const TIME_MAX: Duration = Duration::from_secs(1);
/// Lines of `print` output that are kept of one call.
pub const PRINTED_LINES_MAX: usize = 1_000;
/// Bytes of `print` output that are kept of one call: it is not part of the state's memory.
pub const PRINTED_BYTES_MAX: usize = 256 * 1024;
/// Instructions between two checks of the budget.
pub(crate) const STEPS_BETWEEN_CHECKS: u32 = 200;

/// Host functions that scripts may use: the time.
#[derive(Clone)]
pub struct Host {
    /// Wall clock in seconds, for `os.time` and `os.date`.
    pub wall_seconds: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// Monotonic time, for [`TIME_MAX`]. If it never advances, steps are the only limit.
    pub elapsed: Arc<dyn Fn() -> Duration + Send + Sync>,
    /// Record of the scripts that run, if the process keeps one.
    pub running: Option<Arc<RunningScripts>>,
}

impl Host {
    /// A host whose wall clock never changes.
    #[must_use]
    pub fn at(wall_seconds: i64) -> Self {
        let (wall_seconds, elapsed) = (Arc::new(move || wall_seconds), Arc::new(|| Duration::ZERO));
        Self { wall_seconds, elapsed, running: None }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Host")
    }
}

/// Budget of the call that runs in a state.
#[derive(Debug)]
pub(crate) struct Budget {
    host: Host,
    used: AtomicU64,
    max: AtomicU64,
    exhausted: AtomicU8,
    /// Line at which the budget was exhausted; 0 if unknown.
    line: AtomicU32,
    ends: Mutex<Duration>,
    printed: Mutex<Vec<String>>,
    /// Runs of each line, while the call is traced.
    lines: Mutex<BTreeMap<u32, u64>>,
}

/// Exhausted resource of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exhausted {
    Steps,
    Time,
}

impl Budget {
    pub(crate) fn new(host: Host) -> Self {
        Self {
            host,
            used: AtomicU64::new(0),
            max: AtomicU64::new(STEPS_MAX),
            exhausted: AtomicU8::new(0),
            line: AtomicU32::new(0),
            ends: Mutex::default(),
            printed: Mutex::default(),
            lines: Mutex::default(),
        }
    }

    /// Starts a call.
    pub(crate) fn begin(&self, steps: u64) {
        self.used.store(0, Relaxed);
        self.max.store(steps, Relaxed);
        self.exhausted.store(0, Relaxed);
        self.line.store(0, Relaxed);
        *self.ends.lock().unwrap_or_else(PoisonError::into_inner) = (self.host.elapsed)() + TIME_MAX;
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Counts steps; `Err` once steps or time are exhausted.
    pub(crate) fn step(&self, steps: u64) -> Result<(), Exhausted> {
        let used = self.used.fetch_add(steps, Relaxed) + steps;
        if used > self.max.load(Relaxed) {
            self.exhausted.store(1, Relaxed);
        } else if (self.host.elapsed)() > *self.ends.lock().unwrap_or_else(PoisonError::into_inner) {
            self.exhausted.store(2, Relaxed);
        }
        self.check()
    }

    /// `Err` if steps or time are exhausted.
    pub(crate) fn check(&self) -> Result<(), Exhausted> {
        match self.exhausted.load(Relaxed) {
            0 => Ok(()),
            1 => Err(Exhausted::Steps),
            _ => Err(Exhausted::Time),
        }
    }

    /// Records the line at which the budget was exhausted. Only the first record counts.
    pub(crate) fn exhausted_at(&self, line: Option<usize>) {
        let line = line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
        let _ = self.line.compare_exchange(0, line, Relaxed, Relaxed);
    }

    /// The line at which the budget was exhausted.
    pub(crate) fn line(&self) -> Option<u32> {
        Some(self.line.load(Relaxed)).filter(|line| *line > 0)
    }

    /// Counts a run of a line of the script.
    pub(crate) fn count_line(&self, line: Option<usize>) {
        if let Some(line) = line.and_then(|line| u32::try_from(line).ok()) {
            *self.lines.lock().unwrap_or_else(PoisonError::into_inner).entry(line).or_default() += 1;
        }
    }

    /// Takes the counts of runs per line since the last call of this function.
    pub(crate) fn lines(&self) -> BTreeMap<u32, u64> {
        std::mem::take(&mut self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Steps that are left.
    pub(crate) fn left(&self) -> u64 {
        self.max.load(Relaxed).saturating_sub(self.used.load(Relaxed))
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// The message for people.
    pub(crate) fn message(&self, exhausted: Exhausted) -> String {
        match exhausted {
            Exhausted::Steps => format!("it takes more than {} steps", self.max.load(Relaxed)),
            Exhausted::Time => format!("it takes longer than {} s", TIME_MAX.as_secs()),
        }
    }

    /// The record of running scripts, if there is one.
    pub(crate) fn running(&self) -> Option<&RunningScripts> {
        self.host.running.as_deref()
    }

    pub(crate) fn wall_seconds(&self) -> i64 {
        (self.host.wall_seconds)()
    }

    pub(crate) fn print(&self, line: String) {
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: usize = printed.iter().map(String::len).sum();
        if printed.len() < PRINTED_LINES_MAX && bytes + line.len() <= PRINTED_BYTES_MAX {
            printed.push(line);
        }
    }

    pub(crate) fn printed(&self) -> Vec<String> {
        std::mem::take(&mut self.printed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
