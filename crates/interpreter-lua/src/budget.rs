//! What one call of a script may use, and what it used.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Steps of one call: instructions, and characters looked at by patterns. The same on every machine, unlike time.
pub const STEPS_MAX: u64 = 10_000_000;
/// Memory of a state, bytes, with what earlier calls left for the collector.
pub const MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long one call may take by the host's clock. Steps end a script before; this is for the few that cost more.
pub const TIME_MAX: Duration = Duration::from_secs(1);
/// Lines that `print` keeps of one call.
pub const PRINTED_LINES_MAX: usize = 1_000;
/// Instructions between two looks at the budget.
pub(crate) const STEPS_BETWEEN_LOOKS: u32 = 200;

/// What of the world scripts may see: the time.
#[derive(Clone)]
pub struct Host {
    /// The time of day in seconds, for `os.time` and `os.date`.
    pub wall_seconds: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// Time that only goes on, for [`TIME_MAX`]. One that stands still leaves the steps as the only bound.
    pub elapsed: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl Host {
    /// A world in which it is always this second.
    #[must_use]
    pub fn at(wall_seconds: i64) -> Self {
        Self { wall_seconds: Arc::new(move || wall_seconds), elapsed: Arc::new(|| Duration::ZERO) }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Host")
    }
}

/// The budget of the call that runs in a state.
#[derive(Debug)]
pub(crate) struct Budget {
    host: Host,
    used: AtomicU64,
    max: AtomicU64,
    spent: AtomicU8,
    /// Where it was spent; 0 if nobody knows.
    line: AtomicU32,
    ends: Mutex<Duration>,
    printed: Mutex<Vec<String>>,
    /// How often each line ran, while somebody looks.
    lines: Mutex<BTreeMap<u32, u64>>,
}

/// What a call ran out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spent {
    Steps,
    Time,
}

impl Budget {
    pub(crate) fn new(host: Host) -> Self {
        Self {
            host,
            used: AtomicU64::new(0),
            max: AtomicU64::new(STEPS_MAX),
            spent: AtomicU8::new(0),
            line: AtomicU32::new(0),
            ends: Mutex::default(),
            printed: Mutex::default(),
            lines: Mutex::default(),
        }
    }

    /// Begins a call.
    pub(crate) fn begin(&self, steps: u64) {
        self.used.store(0, Relaxed);
        self.max.store(steps, Relaxed);
        self.spent.store(0, Relaxed);
        self.line.store(0, Relaxed);
        *self.ends.lock().unwrap_or_else(PoisonError::into_inner) = (self.host.elapsed)() + TIME_MAX;
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Counts steps; `Err` once they or the time are spent.
    pub(crate) fn step(&self, steps: u64) -> Result<(), Spent> {
        let used = self.used.fetch_add(steps, Relaxed) + steps;
        if used > self.max.load(Relaxed) {
            self.spent.store(1, Relaxed);
        } else if (self.host.elapsed)() > *self.ends.lock().unwrap_or_else(PoisonError::into_inner) {
            self.spent.store(2, Relaxed);
        }
        self.check()
    }

    /// Whether something is spent.
    pub(crate) fn check(&self) -> Result<(), Spent> {
        match self.spent.load(Relaxed) {
            0 => Ok(()),
            1 => Err(Spent::Steps),
            _ => Err(Spent::Time),
        }
    }

    /// Says in which line it was spent; the first to say so is right.
    pub(crate) fn ended_at(&self, line: Option<usize>) {
        let line = line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
        let _ = self.line.compare_exchange(0, line, Relaxed, Relaxed);
    }

    /// The line in which it was spent.
    pub(crate) fn line(&self) -> Option<u32> {
        Some(self.line.load(Relaxed)).filter(|line| *line > 0)
    }

    /// A line of the script begins to run.
    pub(crate) fn ran(&self, line: Option<usize>) {
        if let Some(line) = line.and_then(|line| u32::try_from(line).ok()) {
            *self.lines.lock().unwrap_or_else(PoisonError::into_inner).entry(line).or_default() += 1;
        }
    }

    /// How often each line ran since this was last asked.
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

    /// What a person is told of it.
    pub(crate) fn message(&self, spent: Spent) -> String {
        match spent {
            Spent::Steps => format!("it takes more than {} steps", self.max.load(Relaxed)),
            Spent::Time => format!("it takes longer than {} s", TIME_MAX.as_secs()),
        }
    }

    pub(crate) fn wall_seconds(&self) -> i64 {
        (self.host.wall_seconds)()
    }

    pub(crate) fn print(&self, line: String) {
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        if printed.len() < PRINTED_LINES_MAX {
            printed.push(line);
        }
    }

    pub(crate) fn printed(&self) -> Vec<String> {
        std::mem::take(&mut self.printed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
