//! Panics of supervised tasks: their number, and the tasks that panic again and again.

use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// The first wait before a restart; it doubles with each panic in a row.
const BACKOFF_BASE: Duration = Duration::from_secs(1);
/// The longest wait before a restart.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Panics in a row from which on a task counts as failing.
const FAILING_AFTER: u32 = 3;
/// A task that has run for this time without a panic is healthy again.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// The panics of a process. Cheap to clone. It has an entry for each task that ever panicked.
#[derive(Debug, Clone, Default)]
pub struct Panics(Arc<Mutex<BTreeMap<(String, String), Panicked>>>);

#[derive(Debug, Default)]
struct Panicked {
    total: u64,
    in_a_row: u32,
    /// Time of the last restart.
    restarted: Option<Instant>,
}

impl Panics {
    /// Counts a panic of a task that ran for `ran`; returns the wait before its restart.
    pub(crate) fn record(&self, group: &str, task: &str, ran: Duration, now: Instant) -> Duration {
        let mut all = self.0.lock();
        let entry = all.entry((group.to_owned(), task.to_owned())).or_default();
        entry.total += 1;
        entry.in_a_row = if ran >= HEALTHY_AFTER { 1 } else { entry.in_a_row.saturating_add(1) };
        let wait = BACKOFF_BASE.saturating_mul(1 << (entry.in_a_row - 1).min(10)).min(BACKOFF_MAX);
        entry.restarted = Some(now + wait);
        wait
    }

    /// The number of panics by the name of the task.
    pub fn totals(&self) -> Vec<(String, u64)> {
        let mut totals: BTreeMap<String, u64> = BTreeMap::new();
        for ((_, task), panicked) in self.0.lock().iter() {
            *totals.entry(task.clone()).or_default() += panicked.total;
        }
        totals.into_iter().collect()
    }

    /// The tasks that panicked several times in a row and have not run well since, as `GROUP/TASK`.
    pub fn failing(&self, now: Instant) -> Vec<String> {
        let all = self.0.lock();
        let is_failing = |panicked: &Panicked| {
            let healthy = panicked.restarted.is_none_or(|at| now.saturating_duration_since(at) >= HEALTHY_AFTER);
            panicked.in_a_row >= FAILING_AFTER && !healthy
        };
        all.iter().filter(|(_, p)| is_failing(p)).map(|((group, task), _)| format!("{group}/{task}")).collect()
    }
}

/// Makes a future and runs it; returns the message if it panics.
pub(crate) async fn catch_panic<F, Fut>(make: F) -> Result<(), String>
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = ()>,
{
    let made = catch_unwind(AssertUnwindSafe(make)).map_err(|panic| message(&*panic))?;
    let mut future = std::pin::pin!(made);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(())) => Poll::Ready(Ok(())),
        Err(panic) => Poll::Ready(Err(message(&*panic))),
    })
    .await
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
