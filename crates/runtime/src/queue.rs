//! A work queue: every key at most once, never two workers on one key, delays, backoff, and two priorities.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use ironclad_seam::{Clock, Stream};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// The first wait of a key that failed (propagation.md 30, `--rate-limiter-base-delay`).
const BACKOFF_BASE: Duration = Duration::from_millis(5);
/// The longest wait of a key that goes on failing. Upstream waits up to 1,000 s; a minute is kind enough to a server.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// A queue of keys. Cheap to clone.
pub struct Queue<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
    clock: Clock,
    jitter: Stream,
}

struct State<T> {
    /// Lower priority number first, then first come first served.
    ready: BTreeMap<(u8, u64), T>,
    place: BTreeMap<T, (u8, u64)>,
    delayed: BTreeSet<(Instant, T)>,
    due: BTreeMap<T, Instant>,
    working: BTreeMap<T, Option<u8>>,
    failures: BTreeMap<T, u32>,
    next: u64,
}

/// What a user changed.
const USER: u8 = 0;
/// What is only replayed: the first list after a start, the fan-out of a policy (propagation.md 6.1).
const REPLAY: u8 = 1;

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Ord + Clone + Debug> Queue<T> {
    /// An empty queue. `jitter` spreads retries by up to a tenth.
    #[must_use]
    pub fn new(clock: Clock, jitter: Stream) -> Self {
        let state = State {
            ready: BTreeMap::new(),
            place: BTreeMap::new(),
            delayed: BTreeSet::new(),
            due: BTreeMap::new(),
            working: BTreeMap::new(),
            failures: BTreeMap::new(),
            next: 0,
        };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Notify::new(), clock, jitter }))
    }

    /// To be worked on now; what was waiting for later no longer waits.
    pub fn add(&self, key: T) {
        self.enqueue(key, USER);
    }

    /// To be worked on when nothing more urgent is there.
    pub fn add_replay(&self, key: T) {
        self.enqueue(key, REPLAY);
    }

    /// To be worked on after this wait, unless it is wanted earlier.
    pub fn add_after(&self, key: T, wait: Duration) {
        if wait.is_zero() {
            return self.add(key);
        }
        let at = self.0.clock.mono() + wait;
        {
            let mut state = self.0.state.lock();
            if state.place.contains_key(&key) || state.due.get(&key).is_some_and(|due| *due <= at) {
                return;
            }
            if let Some(earlier) = state.due.insert(key.clone(), at) {
                state.delayed.remove(&(earlier, key.clone()));
            }
            state.delayed.insert((at, key));
        }
        self.0.changed.notify_one();
    }

    /// To be worked on again after a wait that doubles with each failure of this key.
    pub fn retry(&self, key: T) -> Duration {
        let failures = {
            let mut state = self.0.state.lock();
            let failures = state.failures.entry(key.clone()).or_insert(0);
            *failures = failures.saturating_add(1);
            *failures
        };
        let wait = BACKOFF_BASE.saturating_mul(1 << (failures - 1).min(20)).min(BACKOFF_MAX);
        let wait = wait + self.0.jitter.duration_up_to(wait / 10);
        self.add_after(key, wait);
        wait
    }

    /// The key is well: its next failure waits the shortest time again.
    pub fn forget(&self, key: &T) {
        self.0.state.lock().failures.remove(key);
    }

    /// How many keys wait or are worked on, for metrics and for knowing that all is quiet.
    #[must_use]
    pub fn len(&self) -> usize {
        let state = self.0.state.lock();
        state.ready.len() + state.working.len() + state.due.len()
    }

    /// True if no key waits, is delayed or is worked on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if no key is ready or worked on; appointments may be open.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let state = self.0.state.lock();
        let now = self.0.clock.mono();
        state.ready.is_empty() && state.working.is_empty() && state.delayed.first().is_none_or(|(at, _)| *at > now)
    }

    /// The next key; [`Queue::done`] must be called with it.
    pub async fn next(&self) -> T {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let wake = {
                let mut state = self.0.state.lock();
                state.promote(self.0.clock.mono());
                if let Some(key) = state.take() {
                    // Another worker may find more.
                    if !state.ready.is_empty() {
                        self.0.changed.notify_one();
                    }
                    return key;
                }
                state.delayed.first().map(|(at, _)| *at)
            };
            match wake {
                Some(at) => tokio::select! {
                    biased;
                    () = &mut changed => {}
                    () = self.0.clock.sleep_until(at) => {}
                },
                None => changed.await,
            }
        }
    }

    /// The work on the key ended; if it was added meanwhile it comes again.
    pub fn done(&self, key: &T) {
        let again = self.0.state.lock().working.remove(key).flatten();
        if let Some(priority) = again {
            self.enqueue(key.clone(), priority);
        }
    }

    fn enqueue(&self, key: T, priority: u8) {
        {
            let mut state = self.0.state.lock();
            if let Some(due) = state.due.remove(&key) {
                state.delayed.remove(&(due, key.clone()));
            }
            state.insert(key, priority);
        }
        self.0.changed.notify_one();
    }
}

impl<T: Ord + Clone> State<T> {
    fn insert(&mut self, key: T, priority: u8) {
        if let Some(again) = self.working.get_mut(&key) {
            *again = Some(again.map_or(priority, |p| p.min(priority)));
            return;
        }
        if let Some(place) = self.place.get(&key).copied() {
            if place.0 <= priority {
                return;
            }
            self.ready.remove(&place);
        }
        let place = (priority, self.next);
        self.next += 1;
        self.place.insert(key.clone(), place);
        self.ready.insert(place, key);
    }

    fn promote(&mut self, now: Instant) {
        while let Some((at, key)) = self.delayed.first().cloned() {
            if at > now {
                break;
            }
            self.delayed.remove(&(at, key.clone()));
            self.due.remove(&key);
            self.insert(key, USER);
        }
    }

    fn take(&mut self) -> Option<T> {
        let (_, key) = self.ready.pop_first()?;
        self.place.remove(&key);
        self.working.insert(key.clone(), None);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use ironclad_seam::Rng;

    use super::*;

    fn queue() -> Queue<&'static str> {
        Queue::new(Clock::system(), Rng::from_seed(1).stream("q"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_there_once_and_comes_again_if_added_during_its_work() {
        let q = queue();
        q.add("a");
        q.add("a");
        assert_eq!(q.next().await, "a");
        q.add("a");
        assert_eq!(q.len(), 1, "not ready while it is worked on");
        q.done(&"a");
        assert_eq!(q.next().await, "a");
        q.done(&"a");
        assert!(q.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn users_go_before_replays_and_a_replay_can_become_urgent() {
        let q = queue();
        q.add_replay("r1");
        q.add_replay("r2");
        q.add("u");
        q.add("r2");
        let mut order = Vec::new();
        for _ in 0..3 {
            let key = q.next().await;
            q.done(&key);
            order.push(key);
        }
        assert_eq!(order, ["u", "r2", "r1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn delays_end_in_their_order_and_an_add_ends_them_early() {
        let q = queue();
        let start = tokio_now(&q);
        q.add_after("late", Duration::from_secs(10));
        q.add_after("soon", Duration::from_secs(2));
        q.add_after("soon", Duration::from_secs(5));
        assert_eq!(q.next().await, "soon");
        assert_eq!(tokio_now(&q) - start, Duration::from_secs(2));
        q.done(&"soon");
        assert!(q.is_idle() && !q.is_empty(), "an appointment is no work");
        q.add("late");
        assert!(!q.is_idle());
        assert_eq!(q.next().await, "late");
        assert_eq!(tokio_now(&q) - start, Duration::from_secs(2));
        q.done(&"late");
        assert!(q.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_longer_each_time_up_to_a_bound_and_forgetting_starts_anew() {
        let q = queue();
        let first = q.retry("a");
        assert!(first >= BACKOFF_BASE && first <= BACKOFF_BASE.mul_f32(1.1));
        let waits: Vec<_> = (0..30).map(|_| q.retry("a")).collect();
        assert!(waits[0] > first);
        assert!(waits.iter().all(|w| *w <= BACKOFF_MAX.mul_f32(1.1)));
        q.forget(&"a");
        assert!(q.retry("a") <= BACKOFF_BASE.mul_f32(1.1));
    }

    fn tokio_now(q: &Queue<&'static str>) -> Instant {
        q.0.clock.mono()
    }
}
