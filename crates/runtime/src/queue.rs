//! Work queue: each key at most once, never two workers on one key, delays, backoff, and two priorities. Keys may have
//! ranks besides, which come before both.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::{Arc, OnceLock},
    time::Duration,
};

use ironclad_seam::{Clock, Stream};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use crate::metrics::{Meter, WorkMetrics};

/// First wait of a failed key (specification/propagation.md 30, `--rate-limiter-base-delay`).
const BACKOFF_BASE: Duration = Duration::from_millis(5);
/// Longest wait of a key that fails again and again. Upstream waits up to 1,000 s; a minute protects a server, too.
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Time after which a key of low rank may be taken before keys of higher rank.
const OVERDUE_AFTER: Duration = Duration::from_secs(60);
/// One of so many turns goes to the key that has waited longest, if it is overdue.
const OVERDUE_TURN: u64 = 8;

/// Rank of a key: a higher one is taken first.
type Rank<T> = Box<dyn Fn(&T) -> i32 + Send + Sync>;

/// A queue of keys. Cheap to clone.
pub struct Queue<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
    clock: Clock,
    jitter: Stream,
    meter: OnceLock<Meter>,
    rank: OnceLock<Rank<T>>,
}

/// Place of a key that is ready. Fields are compared in the order of their declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// A higher rank first.
    rank: Reverse<i32>,
    /// A lower priority number first.
    priority: u8,
    /// First come, first served.
    number: u64,
}

struct State<T> {
    ready: BTreeMap<Place, Ready<T>>,
    place: BTreeMap<T, Place>,
    /// Ready keys in the order in which they began to wait; of queues with ranks only.
    oldest: BTreeSet<(Instant, Place)>,
    turns: u64,
    delayed: BTreeSet<(Instant, T)>,
    /// Time and priority of the delayed keys.
    due: BTreeMap<T, (Instant, u8)>,
    working: BTreeMap<T, Working>,
    failures: BTreeMap<T, u32>,
    next: u64,
}

/// A key that waits for a worker.
struct Ready<T> {
    key: T,
    since: Instant,
}

/// A key that a worker has.
struct Working {
    since: Instant,
    /// Priority with which it was added meanwhile.
    again: Option<u8>,
}

/// A key that a worker took.
pub(crate) struct Taken<T> {
    pub(crate) key: T,
    /// True if it was added with low priority.
    pub(crate) is_low_priority: bool,
}

/// A key in the queue, for inspection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued<T> {
    /// The key.
    pub key: T,
    /// Its state.
    pub state: QueuedState,
    /// Its rank; 0 in a queue without ranks.
    pub rank: i32,
    /// Failures in a row.
    pub failures: u32,
}

/// State of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuedState {
    /// A worker has it.
    Working,
    /// It waits for a worker.
    Ready,
    /// It waits for a worker, behind all keys of normal priority.
    LowPriority,
    /// It becomes ready after this time.
    Delayed(Duration),
}

/// Priority of users' changes.
const NORMAL: u8 = 0;
/// Priority of changes for which nobody waits: the first list after a start, the fan-out of a policy
/// (specification/propagation.md 6.1).
const LOW: u8 = 1;

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
            oldest: BTreeSet::new(),
            turns: 0,
            delayed: BTreeSet::new(),
            due: BTreeMap::new(),
            working: BTreeMap::new(),
            failures: BTreeMap::new(),
            next: 0,
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            changed: Notify::new(),
            clock,
            jitter,
            meter: OnceLock::new(),
            rank: OnceLock::new(),
        }))
    }

    /// The same queue, with a rank for each key. Keys of higher rank are taken first; among equal ones, users' changes
    /// precede replays, and then it is first come, first served. What becomes ready at one moment enters in this order,
    /// too.
    ///
    /// So that no key waits for ever: one of eight turns goes to the key that has waited longest, if it has waited for
    /// a minute. A key with n ready ones older than itself waits at most a minute and 8(n + 1) turns.
    ///
    /// The rank is read when a key is added and when it becomes ready. Only the first call counts.
    #[must_use]
    pub fn ranked(self, rank: impl Fn(&T) -> i32 + Send + Sync + 'static) -> Self {
        self.0.rank.get_or_init(|| Box::new(rank));
        self
    }

    fn rank(&self, key: &T) -> Option<i32> {
        self.0.rank.get().map(|rank| rank(key))
    }

    /// The same queue, with metrics under this name.
    #[must_use]
    pub fn measured(self, name: &'static str, metrics: &WorkMetrics) -> Self
    where
        T: Send + Sync + 'static,
    {
        let weak = Arc::downgrade(&self.0);
        let unfinished = move || {
            let shared = weak.upgrade()?;
            let (state, now) = (shared.state.lock(), shared.clock.mono());
            let all = state.working.values().map(|working| (now - working.since).as_secs_f64());
            Some(all.fold((0.0, 0.0), |(sum, longest): (f64, f64), seconds| (sum + seconds, longest.max(seconds))))
        };
        // Only the first name counts.
        self.0.meter.get_or_init(|| metrics.meter(name, Box::new(unfinished)));
        self
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The metrics of the queue, if it has any.
    pub(crate) fn meter(&self) -> Option<&Meter> {
        self.0.meter.get()
    }

    /// Adds a key that is ready now. A delayed key becomes ready, too.
    pub fn add(&self, key: T) {
        self.enqueue(key, NORMAL);
    }

    /// Adds a key with low priority.
    pub fn add_low_priority(&self, key: T) {
        self.enqueue(key, LOW);
    }

    /// Adds a key that becomes ready after this wait. An earlier time has precedence.
    pub fn add_after(&self, key: T, wait: Duration) {
        self.delay(key, wait, NORMAL);
    }

    /// Adds a key again that a worker took, after this wait, with the priority that it had. An earlier time has
    /// precedence.
    pub(crate) fn take_back(&self, taken: &Taken<T>, wait: Duration) {
        self.delay(taken.key.clone(), wait, if taken.is_low_priority { LOW } else { NORMAL });
    }

    fn delay(&self, key: T, wait: Duration, priority: u8) {
        if wait.is_zero() {
            return self.enqueue(key, priority);
        }
        let at = self.0.clock.mono() + wait;
        {
            let mut state = self.0.state.lock();
            if state.place.contains_key(&key) {
                return;
            }
            let before = state.due.get(&key).copied();
            let priority = before.map_or(priority, |(_, before)| before.min(priority));
            let at = before.map_or(at, |(before, _)| before.min(at));
            if let Some((earlier, _)) = state.due.insert(key.clone(), (at, priority)) {
                state.delayed.remove(&(earlier, key.clone()));
            }
            state.delayed.insert((at, key));
        }
        self.0.changed.notify_one();
    }

    /// Adds a failed key again, after a wait that doubles with each failure in a row. Returns the wait.
    #[cfg(test)]
    fn retry(&self, key: T) -> Duration {
        self.retry_taken(&Taken { key, is_low_priority: false }, Duration::ZERO)
    }

    /// Adds a failed key again that a worker took, with the priority that it had, after a wait that doubles with each
    /// failure in a row and is at least this long. Returns the wait.
    pub(crate) fn retry_taken(&self, taken: &Taken<T>, at_least: Duration) -> Duration {
        let key = taken.key.clone();
        let failures = {
            let mut state = self.0.state.lock();
            let failures = state.failures.entry(key.clone()).or_insert(0);
            *failures = failures.saturating_add(1);
            *failures
        };
        let wait = BACKOFF_BASE.saturating_mul(1 << (failures - 1).min(20)).min(BACKOFF_MAX);
        let wait = wait + self.0.jitter.duration_up_to(wait / 10);
        if let Some(meter) = self.meter() {
            meter.retries.inc();
        }
        let wait = wait.max(at_least);
        self.take_back(taken, wait);
        wait
    }

    /// Failures of a key in a row.
    #[must_use]
    pub fn failures(&self, key: &T) -> u32 {
        self.0.state.lock().failures.get(key).copied().unwrap_or(0)
    }

    /// Resets the failures of a key: its next failure waits the shortest time again.
    pub fn forget(&self, key: &T) {
        self.0.state.lock().failures.remove(key);
    }

    /// The number of keys that wait or are being worked on.
    #[must_use]
    pub fn len(&self) -> usize {
        let state = self.0.state.lock();
        state.ready.len() + state.working.len() + state.due.len()
    }

    /// All keys, for inspection: first those that are being worked on, then those that wait, in order. It costs time in
    /// proportion to the queue.
    #[must_use]
    pub fn waiting(&self) -> Vec<Queued<T>> {
        let (state, now) = (self.0.state.lock(), self.0.clock.mono());
        let queued = |key: &T, at: QueuedState| Queued {
            key: key.clone(),
            state: at,
            rank: state.place.get(key).map_or_else(|| self.rank(key).unwrap_or(0), |place| place.rank.0),
            failures: state.failures.get(key).copied().unwrap_or(0),
        };
        let working = state.working.keys().map(|key| queued(key, QueuedState::Working));
        let ready = state.ready.iter().map(|(place, ready)| {
            queued(&ready.key, if place.priority == NORMAL { QueuedState::Ready } else { QueuedState::LowPriority })
        });
        let delayed =
            state.delayed.iter().map(|(at, key)| queued(key, QueuedState::Delayed(at.saturating_duration_since(now))));
        working.chain(ready).chain(delayed).collect()
    }

    /// True if no key waits, is delayed or is worked on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if no key is ready or being worked on. Delayed keys may wait.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let state = self.0.state.lock();
        let now = self.0.clock.mono();
        state.ready.is_empty() && state.working.is_empty() && state.delayed.first().is_none_or(|(at, _)| *at > now)
    }

    /// The next key; [`Queue::done`] must be called with it.
    pub async fn next(&self) -> T {
        self.take_next().await.key
    }

    /// The next key with its priority; [`Queue::done`] must be called with it.
    pub(crate) async fn take_next(&self) -> Taken<T> {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let wake = {
                let mut state = self.0.state.lock();
                let now = self.0.clock.mono();
                state.promote(now, self.meter(), |key| self.rank(key));
                if let Some(turn) = state.take(now, self.meter()) {
                    // Another worker may find more.
                    if !state.ready.is_empty() {
                        self.0.changed.notify_one();
                    }
                    return turn;
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

    /// Ends the work on a key. If it was added meanwhile, it is ready again.
    pub fn done(&self, key: &T) {
        let ended = self.0.state.lock().working.remove(key);
        if let (Some(meter), Some(working)) = (self.meter(), &ended) {
            meter.worked(self.0.clock.mono() - working.since);
        }
        if let Some(priority) = ended.and_then(|working| working.again) {
            self.enqueue(key.clone(), priority);
        }
    }

    fn enqueue(&self, key: T, priority: u8) {
        {
            let mut state = self.0.state.lock();
            if let Some((due, _)) = state.due.remove(&key) {
                state.delayed.remove(&(due, key.clone()));
            }
            let rank = self.rank(&key);
            state.insert(key, rank, priority, self.0.clock.mono(), self.meter());
        }
        self.0.changed.notify_one();
    }
}

impl<T: Ord + Clone> State<T> {
    fn insert(&mut self, key: T, rank: Option<i32>, priority: u8, now: Instant, meter: Option<&Meter>) {
        if let Some(working) = self.working.get_mut(&key) {
            working.again = Some(working.again.map_or(priority, |p| p.min(priority)));
            return;
        }
        let (mut since, mut priority) = (now, priority);
        let order = Reverse(rank.unwrap_or(0));
        match self.place.get(&key).copied() {
            Some(place) if place.rank == order && place.priority <= priority => return,
            Some(place) => {
                priority = priority.min(place.priority);
                if let Some(moved) = self.remove(place, meter) {
                    since = moved.since;
                }
            }
            None => {
                if let Some(meter) = meter {
                    meter.adds.inc();
                }
            }
        }
        if let Some(depth) = meter.and_then(|meter| meter.depth.get(usize::from(priority))) {
            depth.inc();
        }
        let place = Place { rank: order, priority, number: self.next };
        self.next += 1;
        if rank.is_some() {
            self.oldest.insert((since, place));
        }
        self.place.insert(key.clone(), place);
        self.ready.insert(place, Ready { key, since });
    }

    fn remove(&mut self, place: Place, meter: Option<&Meter>) -> Option<Ready<T>> {
        let ready = self.ready.remove(&place)?;
        self.place.remove(&ready.key);
        self.oldest.remove(&(ready.since, place));
        if let Some(depth) = meter.and_then(|meter| meter.depth.get(usize::from(place.priority))) {
            depth.dec();
        }
        Some(ready)
    }

    fn promote(&mut self, now: Instant, meter: Option<&Meter>, rank: impl Fn(&T) -> Option<i32>) {
        while let Some((at, key)) = self.delayed.first().cloned() {
            if at > now {
                break;
            }
            self.delayed.remove(&(at, key.clone()));
            let priority = self.due.remove(&key).map_or(NORMAL, |(_, priority)| priority);
            let rank = rank(&key);
            self.insert(key, rank, priority, now, meter);
        }
    }

    fn take(&mut self, now: Instant, meter: Option<&Meter>) -> Option<Taken<T>> {
        self.turns = self.turns.wrapping_add(1);
        let overdue = self.oldest.first().filter(|(since, _)| {
            self.turns.is_multiple_of(OVERDUE_TURN) && now.saturating_duration_since(*since) >= OVERDUE_AFTER
        });
        let place = overdue.map(|(_, place)| *place).or_else(|| self.ready.keys().next().copied())?;
        let Ready { key, since } = self.remove(place, meter)?;
        self.working.insert(key.clone(), Working { since: now, again: None });
        if let Some(meter) = meter {
            meter.waited(now - since);
        }
        Some(Taken { key, is_low_priority: place.priority == LOW })
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
    async fn inspection_lists_keys_in_order() {
        let queue = queue();
        for key in ["c", "b"] {
            queue.add(key);
        }
        queue.add_low_priority("a");
        let worked = queue.next().await;
        queue.retry("e");
        queue.add_after("d", Duration::from_secs(7));
        let seen: Vec<_> = queue.waiting().into_iter().map(|one| (one.key, one.state, one.failures)).collect();
        assert_eq!(worked, "c");
        assert_eq!(
            seen[..3],
            [("c", QueuedState::Working, 0), ("b", QueuedState::Ready, 0), ("a", QueuedState::LowPriority, 0)]
        );
        assert!(matches!(seen[3], ("e", QueuedState::Delayed(wait), 1) if wait < Duration::from_secs(1)), "{seen:?}");
        assert_eq!(seen[4..], [("d", QueuedState::Delayed(Duration::from_secs(7)), 0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_queued_once_and_again_if_added_while_it_is_worked_on() {
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
    async fn normal_priority_precedes_low_and_a_low_key_can_be_raised() {
        let q = queue();
        q.add_low_priority("r1");
        q.add_low_priority("r2");
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
    async fn a_failed_or_delayed_key_of_low_priority_comes_back_with_low_priority() {
        let q = queue();
        for key in ["fails", "waits", "raised"] {
            q.add_low_priority(key);
        }
        for _ in 0..3 {
            let taken = q.take_next().await;
            if taken.key == "fails" {
                q.retry_taken(&taken, Duration::ZERO);
            } else {
                q.take_back(&taken, Duration::from_millis(1));
            }
            q.done(&taken.key);
        }
        q.add_after("raised", Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(1)).await;
        q.add("user");
        let mut order = Vec::new();
        for _ in 0..4 {
            let taken = q.take_next().await;
            q.done(&taken.key);
            order.push((taken.key, taken.is_low_priority));
        }
        assert_eq!(order[..2], [("user", false), ("raised", false)]);
        assert!(order[2..].contains(&("fails", true)) && order[2..].contains(&("waits", true)), "{order:?}");
    }

    /// The keys in the order in which they are taken.
    async fn taken(q: &Queue<&'static str>, count: usize) -> Vec<&'static str> {
        let mut order = Vec::new();
        for _ in 0..count {
            let key = q.next().await;
            q.done(&key);
            order.push(key);
        }
        order
    }

    /// The rank is the number at the end of the key.
    fn ranked() -> Queue<&'static str> {
        queue().ranked(|key| key[1..].parse().unwrap_or(0))
    }

    #[tokio::test(start_paused = true)]
    async fn ranks_precede_priorities_and_the_time_of_entry() {
        let q = ranked();
        for key in ["a0", "b5", "c3"] {
            q.add(key);
        }
        assert_eq!(taken(&q, 3).await, ["b5", "c3", "a0"]);
        q.add_low_priority("r5");
        q.add("u5");
        q.add("v5");
        q.add("u0");
        assert_eq!(taken(&q, 4).await, ["u5", "v5", "r5", "u0"], "replays come last within a rank");
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_become_ready_at_one_moment_enter_by_rank() {
        let q = ranked();
        q.add_after("a1", Duration::from_secs(2));
        q.add_after("b3", Duration::from_secs(2));
        q.add_after("c9", Duration::from_secs(8));
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(taken(&q, 2).await, ["b3", "a1"], "a high rank that backs off does not hold back others");
        assert_eq!(taken(&q, 1).await, ["c9"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_rank_moves_a_key_in_either_direction() {
        use std::sync::atomic::{AtomicI32, Ordering};
        let rank = Arc::new(AtomicI32::new(0));
        let of_a = rank.clone();
        let q = queue().ranked(move |key| if *key == "a" { of_a.load(Ordering::Relaxed) } else { 5 });
        for (first, then, want) in [(0, 9, ["a", "b"]), (9, 0, ["b", "a"])] {
            rank.store(first, Ordering::Relaxed);
            q.add("a");
            q.add("b");
            rank.store(then, Ordering::Relaxed);
            q.add("a");
            assert_eq!(q.len(), 2, "each key once");
            assert_eq!(taken(&q, 2).await, want);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_low_rank_is_not_kept_waiting_for_ever() {
        let q = ranked();
        q.add("l0");
        q.add("m0");
        tokio::time::sleep(Duration::from_secs(59)).await;
        let mut turns = Vec::new();
        for _ in 0..24 {
            q.add("h9");
            q.add("i9");
            turns.extend(taken(&q, 1).await);
            if turns.len() == 8 {
                assert!(!turns.contains(&"l0"), "not before a minute is over");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        let at = |key| turns.iter().position(|taken| *taken == key).map(|at| at + 1);
        assert_eq!((at("l0"), at("m0")), (Some(16), Some(24)), "every eighth turn, in the order of waiting: {turns:?}");
    }

    proptest::proptest! {
        /// Against a list that is searched: nothing is lost or doubled, and the best is taken.
        #[test]
        fn a_ranked_queue_takes_the_best_of_what_is_ready(
            steps in proptest::collection::vec((0_u8..12, proptest::bool::ANY, proptest::bool::ANY), 1..80),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let q = Queue::new(Clock::system(), Rng::from_seed(1).stream("q")).ranked(|key: &u8| i32::from(*key % 4));
                // Key, and whether it has low priority, in the order of entry.
                let mut model: Vec<(u8, bool)> = Vec::new();
                for (key, low, take) in steps {
                    if low { q.add_low_priority(key) } else { q.add(key) }
                    match model.iter().position(|(known, _)| *known == key) {
                        Some(at) if model[at].1 && !low => {
                            model.remove(at);
                            model.push((key, false));
                        }
                        Some(_) => {}
                        None => model.push((key, low)),
                    }
                    if take {
                        let best = (0..model.len()).min_by_key(|at| (Reverse(model[*at].0 % 4), model[*at].1, *at)).unwrap();
                        let (key, _) = model.remove(best);
                        let taken = q.next().await;
                        assert_eq!(taken, key);
                        q.done(&taken);
                    }
                    assert_eq!(q.len(), model.len());
                }
            });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_key_waits_as_long_as_the_server_asks() {
        let q = queue();
        let taken = Taken { key: "a", is_low_priority: false };
        assert_eq!(q.retry_taken(&taken, Duration::from_secs(7)), Duration::from_secs(7));
        assert!(q.retry_taken(&taken, Duration::ZERO) < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn delayed_keys_become_ready_in_order_and_an_add_makes_them_ready_early() {
        let q = queue();
        let start = tokio_now(&q);
        q.add_after("late", Duration::from_secs(10));
        assert!(q.is_idle() && !q.is_empty(), "an appointment is no work");
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
    async fn backoff_doubles_up_to_a_bound_and_forget_resets_it() {
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

    #[tokio::test(start_paused = true)]
    async fn a_measured_queue_has_the_metrics_of_controller_runtime() {
        let mut registry = prometheus_client::registry::Registry::default();
        let metrics = WorkMetrics::register(&mut registry);
        let q = queue().measured("binding", &metrics);
        q.add_low_priority("a");
        q.add("a");
        q.add("b");
        let first = q.next().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let shown = |registry| {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
            text
        };
        let labels = "name=\"binding\",controller=\"binding\"";
        let text = shown(&registry);
        for line in [
            format!("workqueue_adds_total{{{labels}}} 2"),
            format!("workqueue_depth{{{labels},priority=\"0\"}} 1"),
            format!("workqueue_depth{{{labels},priority=\"-100\"}} 0"),
            format!("workqueue_unfinished_work_seconds{{{labels}}} 2.0"),
            format!("workqueue_longest_running_processor_seconds{{{labels}}} 2.0"),
        ] {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
        q.done(&first);
        q.retry(first);
        let text = shown(&registry);
        assert!(text.contains(&format!("workqueue_work_duration_seconds_sum{{{labels}}} 2.0")), "{text}");
        assert!(text.contains(&format!("workqueue_retries_total{{{labels}}} 1")), "{text}");
    }
}
