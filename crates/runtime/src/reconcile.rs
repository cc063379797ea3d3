//! Loop of a reconciler: takes a key, reconciles it, and goes on, whatever the outcome.

use std::{
    collections::BTreeMap,
    fmt::{self, Debug, Display},
    future::Future,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use ironclad_seam::Tasks;
use parking_lot::Mutex;

use crate::{Failure, Queue, queue::Taken};

/// Longest wait that a server may ask for by `Retry-After`.
const THROTTLED_MAX: Duration = Duration::from_secs(60);

/// Next step for a key after a successful reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// None until an object changes.
    Forget,
    /// Reconcile again after this wait.
    After(Duration),
    /// Reconcile again with backoff, without an error.
    Retry,
}

impl fmt::Display for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forget => f.write_str("none"),
            Self::After(wait) => write!(f, "after {wait:?}"),
            Self::Retry => f.write_str("retry"),
        }
    }
}

/// Counters of one reconciler.
#[derive(Debug, Default)]
pub struct Worker {
    /// Successful reconciles.
    pub succeeded: AtomicU64,
    /// Failed reconciles.
    pub failed: AtomicU64,
    /// Reconciles that panicked.
    pub panicked: AtomicU64,
}

/// Message of the last panic of each key, until a reconcile succeeds. The same panic is logged as an error once.
type Panics<T> = Mutex<BTreeMap<T, String>>;

/// Runs workers of a reconciler as supervised tasks of this group. A panic in a reconcile is caught and counted, and
/// its key is retried with backoff.
pub fn run_workers<T, F, Fut>(
    name: &'static str,
    tasks: &Tasks,
    queue: &Queue<T>,
    workers: usize,
    reconcile: F,
) -> Arc<Worker>
where
    T: Ord + Clone + Debug + Display + Send + Sync + 'static,
    F: Fn(T) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Next, Failure>> + Send + 'static,
{
    let reconcile: Reconcile<T> = Arc::new(move |key| Box::pin(reconcile(key)));
    run_boxed(name, tasks, queue, workers, &reconcile)
}

/// A reconciler's function, whatever its future is.
type Reconcile<T> = Arc<dyn Fn(T) -> BoxFuture<'static, Result<Next, Failure>> + Send + Sync>;

/// [`run_workers`], compiled once for each kind of keys.
fn run_boxed<T>(
    name: &'static str,
    tasks: &Tasks,
    queue: &Queue<T>,
    workers: usize,
    reconcile: &Reconcile<T>,
) -> Arc<Worker>
where
    T: Ord + Clone + Debug + Display + Send + Sync + 'static,
{
    let counters = Arc::new(Worker::default());
    if let Some(meter) = queue.meter() {
        meter.workers.set(i64::try_from(workers).unwrap_or(i64::MAX));
    }
    let panics: Arc<Panics<T>> = Arc::default();
    for _ in 0..workers {
        let (worker, reconcile) = (queue.clone(), reconcile.clone());
        let (counters, panics) = (counters.clone(), panics.clone());
        tasks.supervise(queue.clock(), name, move || {
            work(name, worker.clone(), reconcile.clone(), counters.clone(), panics.clone())
        });
    }
    counters
}

async fn work<T>(
    name: &'static str,
    queue: Queue<T>,
    reconcile: Reconcile<T>,
    counters: Arc<Worker>,
    panics: Arc<Panics<T>>,
) where
    T: Ord + Clone + Debug + Display + Send + Sync + 'static,
{
    loop {
        let taken = queue.take_next().await;
        if let Some(meter) = queue.meter() {
            meter.active.inc();
        }
        let outcome = AssertUnwindSafe(async { reconcile(taken.key.clone()).await }).catch_unwind().await;
        if let Some(meter) = queue.meter() {
            meter.active.dec();
        }
        after(name, &queue, &counters, &panics, &taken, outcome);
        queue.done(&taken.key);
        if taken.is_low_priority {
            // A reconcile that finds nothing to do never waits: thousands of them would delay a user's change.
            tokio::task::yield_now().await;
        }
    }
}

fn after<T: Ord + Clone + Debug + Display>(
    name: &'static str,
    queue: &Queue<T>,
    counters: &Worker,
    panics: &Panics<T>,
    taken: &Taken<T>,
    outcome: Result<Result<Next, Failure>, Box<dyn std::any::Any + Send>>,
) {
    let key = &taken.key;
    let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
    if let Some(meter) = queue.meter() {
        match &outcome {
            Ok(Ok(Next::Forget)) => meter.succeeded.inc(),
            Ok(Ok(Next::After(_))) => meter.requeued_after.inc(),
            Ok(Ok(Next::Retry)) => meter.requeued.inc(),
            Ok(Err(_)) | Err(_) => {
                meter.failed.inc();
                meter.errors.inc()
            }
        };
        if outcome.is_err() {
            meter.panics.inc();
        }
    }
    match outcome {
        Ok(Ok(next)) => {
            count(&counters.succeeded);
            panics.lock().remove(key);
            match next {
                Next::Forget => queue.forget(key),
                Next::After(wait) => {
                    queue.forget(key);
                    queue.take_back(taken, wait);
                }
                Next::Retry => {
                    queue.retry_taken(taken, Duration::ZERO);
                }
            }
        }
        // The write is not refused for a fault of this key, and the guard reported it.
        Ok(Err(Failure::HotLoop { after })) => {
            count(&counters.failed);
            queue.take_back(taken, after);
        }
        Ok(Err(failure)) => {
            count(&counters.failed);
            let at_least = match &failure {
                Failure::Throttled { after: Some(after), .. } => (*after).min(THROTTLED_MAX),
                _ => Duration::ZERO,
            };
            let wait = queue.retry_taken(taken, at_least);
            if failure.is_conflict() {
                tracing::debug!(reconciler = name, %key, ?wait, %failure, "the object changed, observing again");
            } else {
                tracing::warn!(reconciler = name, %key, ?wait, class = failure.class(), %failure, "reconcile failed");
            }
        }
        Err(panic) => {
            count(&counters.panicked);
            let wait = queue.retry_taken(taken, Duration::ZERO);
            let what = panic
                .downcast_ref::<&str>()
                .map(|s| (*s).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_default();
            if is_new_panic(panics, key, &what) {
                tracing::error!(reconciler = name, %key, ?wait, panic = %what, "reconcile panicked");
            } else {
                tracing::debug!(reconciler = name, %key, ?wait, panic = %what, "reconcile panicked again");
            }
        }
    }
}

/// Remembers the panic of a key; returns true if its last reconcile did not panic with the same message.
fn is_new_panic<T: Ord + Clone>(panics: &Panics<T>, key: &T, what: &str) -> bool {
    panics.lock().insert(key.clone(), what.to_owned()).is_none_or(|before| before != what)
}

#[cfg(test)]
mod tests {
    use ironclad_seam::{Clock, Rng};
    use parking_lot::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn low_priority_keys_do_not_delay_other_tasks() {
        let tasks = Tasks::new("t");
        let queue = Queue::new(Clock::system(), Rng::from_seed(1).stream("q"));
        let done: Arc<AtomicU64> = Arc::default();
        let counted = done.clone();
        run_workers("test", &tasks, &queue, 1, move |_: u32| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok(Next::Forget) }
        });
        (0..1_000).for_each(|key| queue.add_low_priority(key));
        tokio::task::yield_now().await;
        assert_eq!(done.load(Ordering::Relaxed), 1, "this test has its turn after one of a thousand");
        (2_000..2_100).for_each(|key| queue.add(key));
        tokio::task::yield_now().await;
        assert_eq!(done.load(Ordering::Relaxed), 102, "what a user changed is done in one go");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_or_an_error_is_backed_off_and_other_keys_are_reconciled() {
        let tasks = Tasks::new("t");
        let queue = Queue::new(Clock::system(), Rng::from_seed(1).stream("q"));
        let seen: Arc<Mutex<Vec<&str>>> = Arc::default();
        let log = seen.clone();
        let counters = run_workers("test", &tasks, &queue, 1, move |key: &'static str| {
            let log = log.clone();
            async move {
                log.lock().push(key);
                let times = log.lock().iter().filter(|k| **k == key).count();
                match (key, times) {
                    ("panics", 1) => panic!("on purpose"),
                    ("fails", 1) => Err(Failure::Unavailable("busy".into())),
                    _ => Ok(Next::Forget),
                }
            }
        });
        for key in ["panics", "fails", "well"] {
            queue.add(key);
        }
        while !queue.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(seen.lock().iter().filter(|k| **k == "well").count(), 1);
        assert_eq!(seen.lock().iter().filter(|k| **k == "panics").count(), 2);
        assert_eq!(seen.lock().iter().filter(|k| **k == "fails").count(), 2);
        assert_eq!(counters.panicked.load(Ordering::Relaxed), 1);
        assert_eq!(counters.failed.load(Ordering::Relaxed), 1);
        assert_eq!(counters.succeeded.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn the_same_panic_of_one_key_is_new_once() {
        let panics = Panics::default();
        for (name, key, what, want) in [
            ("the first", "a", "nothing there", true),
            ("the same again", "a", "nothing there", false),
            ("another key", "b", "nothing there", true),
            ("another panic", "a", "too much there", true),
            ("and again", "a", "too much there", false),
        ] {
            assert_eq!(is_new_panic(&panics, &key, what), want, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_successful_reconcile_makes_the_next_panic_new() {
        let (queue, panics) = (Queue::new(Clock::system(), Rng::from_seed(1).stream("q")), Panics::default());
        let counters = Worker::default();
        assert!(is_new_panic(&panics, &"a", "nothing there"));
        let taken = Taken { key: "a", is_low_priority: false };
        after("test", &queue, &counters, &panics, &taken, Ok(Ok(Next::Forget)));
        assert!(is_new_panic(&panics, &"a", "nothing there"));
    }
}
