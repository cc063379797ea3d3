//! The one writer of an object's status, to which several reconcilers contribute parts
//! (specification/propagation.md 1.1).
//!
//! A requested status is written at once if it is urgent or if the object had no recent activity; otherwise after a
//! pause, and at the latest a while after the first request. Until it is written, reconcilers read it back as
//! requested.

use std::{
    collections::BTreeMap,
    fmt::{Debug, Display},
    future::Future,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use ironclad_seam::Seam;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::{Failure, Next, Queue, run_workers};

/// Pauses before a write to a server that answers fast.
const FAST: Pauses = Pauses { quiet: Duration::from_millis(500), latest: Duration::from_secs(2) };
/// Pauses before a write to a server that answers slowly.
const SLOW: Pauses = Pauses { quiet: Duration::from_secs(2), latest: Duration::from_secs(5) };
/// Share of its time that a server may need for the writes of one object: one in this many.
const SHARE: u32 = 20;
/// Concurrent writes for one kind of object.
const WORKERS: usize = 4;

/// Pauses before a status is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pauses {
    /// Nothing new was requested for this time.
    quiet: Duration,
    /// Longest time from the first request to the write.
    latest: Duration,
}

impl Pauses {
    /// Pauses for a server that takes this long for a write. A server that is overloaded gets fewer writes of status,
    /// so that it can serve those that move workloads. Pure.
    fn for_latency(latency: Duration) -> Self {
        let quiet = latency.saturating_mul(SHARE).clamp(FAST.quiet, SLOW.quiet);
        Self { quiet, latest: quiet.saturating_mul(4).min(SLOW.latest) }
    }
}

/// Mean of a measured duration, in which later values count more. Pure.
fn mean(before: Duration, measured: Duration) -> Duration {
    (before * 3 + measured) / 4
}

/// The state that a status write is based on.
#[derive(Debug, Clone)]
pub struct Current {
    /// The version that the write is conditional on.
    pub resource_version: String,
    /// The uid of the object.
    pub uid: String,
    /// The stored status, `Null` if there is none.
    pub status: Value,
}

/// The kind of objects whose status is written.
pub trait StatusTarget: Send + Sync + 'static {
    /// Key of an object.
    type Key: Ord + Clone + Debug + Display + Send + Sync + 'static;
    /// Part of a status that a reconciler contributes.
    type Part: Clone + PartialEq + Send + Sync + 'static;

    /// The cached object.
    fn current(&self, key: &Self::Key) -> Option<Current>;

    /// The merge patch of the status that these parts make of it, `None` if nothing changes. Pure.
    fn merge(&self, current: &Value, parts: &[&Self::Part]) -> Option<Value>;

    /// Combines an earlier part and a later one of the same contributor. The later one was decided over a status that
    /// contained the earlier one, so it may contain only the differences. Pure.
    fn combine(&self, earlier: &Self::Part, later: &Self::Part) -> Self::Part;

    /// Sends the merge patch, conditional on the version.
    fn write(
        &self,
        key: &Self::Key,
        resource_version: &str,
        patch: Value,
    ) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + '_>>;
}

/// The writer. Cheap to clone.
pub struct StatusWriter<T: StatusTarget>(Arc<Shared<T>>);

struct Shared<T: StatusTarget> {
    target: T,
    seam: Seam,
    requests: Mutex<BTreeMap<T::Key, Request<T::Part>>>,
    /// Time of the last activity of an object: it was created, or its status was written.
    activity: Mutex<BTreeMap<T::Key, Instant>>,
    queue: Queue<T::Key>,
    /// Mean time that a write takes.
    latency: Mutex<Duration>,
}

struct Request<P> {
    uid: String,
    parts: BTreeMap<&'static str, P>,
    first: Instant,
    due: Instant,
    urgent: bool,
}

impl<T: StatusTarget> Clone for StatusWriter<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: StatusTarget> StatusWriter<T> {
    /// A writer that runs as tasks of this seam.
    pub fn start(name: &'static str, seam: &Seam, target: T) -> Self {
        let queue = Queue::new(seam.clock.clone(), seam.rng.stream(&format!("queue/{name}")));
        let this = Self(Arc::new(Shared {
            target,
            seam: seam.clone(),
            requests: Mutex::default(),
            activity: Mutex::default(),
            queue: queue.clone(),
            latency: Mutex::default(),
        }));
        let worker = this.clone();
        run_workers(name, &seam.tasks, &queue, WORKERS, move |key| {
            let worker = worker.clone();
            async move { worker.flush(key).await }
        });
        this
    }

    /// Notes that the object was created or changed in a way that will soon change its status more than once.
    pub fn note_activity(&self, key: T::Key) {
        self.set_activity(key);
    }

    /// Requests a part of the status of the object with this uid, in addition to the contributor's earlier requests.
    pub fn request(&self, key: &T::Key, uid: &str, contributor: &'static str, part: T::Part, urgent: bool) {
        let (now, pauses) = (self.0.seam.clock.mono(), self.pauses());
        let Some(current) = self.0.target.current(key) else { return };
        if current.uid != uid {
            return;
        }
        let due = {
            let mut requests = self.0.requests.lock();
            let known = requests.get(key).is_some_and(|w| w.uid == uid);
            if !known && self.0.target.merge(&current.status, &[&part]).is_none() {
                requests.remove(key);
                return;
            }
            let last_activity = self.0.activity.lock().get(key).copied();
            let fresh = || Request { uid: uid.to_owned(), parts: BTreeMap::new(), first: now, due: now, urgent: false };
            let entry = requests.entry(key.clone()).or_insert_with(fresh);
            if entry.uid != uid {
                *entry = fresh();
            }
            let before = entry.parts.get(contributor);
            let part = before.map_or_else(|| part.clone(), |before| self.0.target.combine(before, &part));
            if before == Some(&part) && !urgent {
                return;
            }
            entry.parts.insert(contributor, part);
            entry.urgent |= urgent;
            let quiet_since = if entry.first == now { last_activity } else { Some(now) };
            let quiet = quiet_since.map_or(now, |at| (at + pauses.quiet).min(entry.first + pauses.latest));
            entry.due = if entry.urgent { now } else { quiet.max(now) };
            entry.due
        };
        if due <= now { self.0.queue.add(key.clone()) } else { self.0.queue.add_after(key.clone(), due - now) }
    }

    /// The status as it will be once all requests are written; `None` if it is stored already.
    #[must_use]
    pub fn read(&self, key: &T::Key, uid: &str, status: impl FnOnce() -> Value) -> Option<Value> {
        let requests = self.0.requests.lock();
        let entry = requests.get(key).filter(|w| w.uid == uid)?;
        let parts: Vec<_> = entry.parts.values().collect();
        let status = status();
        let patch = self.0.target.merge(&status, &parts)?;
        Some(merged(status, &patch))
    }

    /// True if every request is written.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.0.queue.is_empty() && self.0.requests.lock().is_empty()
    }

    async fn flush(&self, key: T::Key) -> Result<Next, Failure> {
        let now = self.0.seam.clock.mono();
        let Some(current) = self.0.target.current(&key) else {
            self.0.requests.lock().remove(&key);
            return Ok(Next::Forget);
        };
        let (sent, patch) = {
            let mut requests = self.0.requests.lock();
            let Some(entry) = requests.get_mut(&key) else { return Ok(Next::Forget) };
            if entry.due > now {
                return Ok(Next::After(entry.due - now));
            }
            let parts: Vec<_> = entry.parts.values().collect();
            let patch = if entry.uid == current.uid { self.0.target.merge(&current.status, &parts) } else { None };
            let Some(patch) = patch else {
                requests.remove(&key);
                return Ok(Next::Forget);
            };
            entry.urgent = false;
            (entry.parts.clone(), patch)
        };
        let began = self.0.seam.clock.mono();
        let written = self.0.target.write(&key, &current.resource_version, patch).await;
        self.note_latency(self.0.seam.clock.mono() - began);
        match written {
            Ok(()) => {}
            Err(Failure::NotFound(_)) => {
                self.0.requests.lock().remove(&key);
                return Ok(Next::Forget);
            }
            // The server never takes it. If it stayed requested, reconcilers would read it back as if it were stored.
            Err(failure @ Failure::Invalid(_)) => {
                let mut requests = self.0.requests.lock();
                if let Some(entry) = requests.get_mut(&key) {
                    entry.parts.retain(|contributor, part| sent.get(contributor) != Some(part));
                    if entry.parts.is_empty() {
                        requests.remove(&key);
                    }
                }
                return Err(failure);
            }
            Err(failure) => return Err(failure),
        }
        self.set_activity(key.clone());
        let mut requests = self.0.requests.lock();
        if let Some(entry) = requests.get_mut(&key) {
            entry.parts.retain(|contributor, part| sent.get(contributor) != Some(part));
            if entry.parts.is_empty() {
                requests.remove(&key);
            } else {
                // A part that was requested during the write may be urgent.
                let wait = if entry.urgent { Duration::ZERO } else { self.pauses().quiet };
                (entry.first, entry.due) = (now, now + wait);
                return Ok(Next::After(wait));
            }
        }
        Ok(Next::Forget)
    }

    fn pauses(&self) -> Pauses {
        Pauses::for_latency(*self.0.latency.lock())
    }

    fn note_latency(&self, measured: Duration) {
        let mut latency = self.0.latency.lock();
        *latency = mean(*latency, measured);
    }

    fn set_activity(&self, key: T::Key) {
        let now = self.0.seam.clock.mono();
        let mut activity = self.0.activity.lock();
        // Only recent activity matters. An occasional sweep keeps the map small.
        if activity.len() >= 1024 {
            activity.retain(|_, at| now - *at < SLOW.quiet);
        }
        activity.insert(key, now);
    }
}

/// Applies a JSON merge patch (RFC 7396) to a value.
fn merged(mut value: Value, patch: &Value) -> Value {
    if let Value::Object(changes) = patch {
        if !value.is_object() {
            value = Value::Object(serde_json::Map::new());
        }
        if let Value::Object(fields) = &mut value {
            for (name, change) in changes {
                if change.is_null() {
                    fields.remove(name);
                } else {
                    let old = fields.remove(name).unwrap_or(Value::Null);
                    fields.insert(name.clone(), merged(old, change));
                }
            }
        }
        value
    } else {
        patch.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ironclad_seam::{Clock, Rng, Tasks};
    use serde_json::json;

    use super::*;

    /// One object whose status is a JSON object; a part is a set of top-level fields.
    #[derive(Clone, Default)]
    struct Fake(Arc<Mutex<State>>);

    #[derive(Default)]
    struct State {
        version: u32,
        status: Value,
        writes: Vec<(u128, Value)>,
        conflicts: u32,
        /// The server refuses every status.
        invalid: bool,
        /// Duration of a write.
        takes: Duration,
        began: Option<Instant>,
    }

    impl StatusTarget for Fake {
        type Key = String;
        type Part = Value;

        fn current(&self, key: &String) -> Option<Current> {
            let state = self.0.lock();
            (key == "a").then(|| Current {
                resource_version: state.version.to_string(),
                uid: "u".into(),
                status: state.status.clone(),
            })
        }

        fn merge(&self, current: &Value, parts: &[&Value]) -> Option<Value> {
            let wanted = parts.iter().fold(current.clone(), |status, part| merged(status, part));
            (wanted != *current).then_some(wanted)
        }

        fn combine(&self, earlier: &Value, later: &Value) -> Value {
            merged(earlier.clone(), later)
        }

        fn write(
            &self,
            _: &String,
            version: &str,
            patch: Value,
        ) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + '_>> {
            let mut state = self.0.lock();
            let takes = state.takes;
            let outcome = if state.invalid {
                Err(Failure::Invalid("too long".into()))
            } else if state.conflicts > 0 {
                state.conflicts -= 1;
                state.version += 1;
                Err(Failure::Conflict("modified".into()))
            } else {
                assert_eq!(version, state.version.to_string());
                state.version += 1;
                state.status = merged(state.status.clone(), &patch);
                let at = state.began.map_or(0, |began| (Clock::system().mono() - began).as_millis());
                state.writes.push((at, patch));
                Ok(())
            };
            Box::pin(async move {
                tokio::time::sleep(takes).await;
                outcome
            })
        }
    }

    fn writer() -> (Fake, StatusWriter<Fake>) {
        let seam = Seam { clock: Clock::system(), rng: Rng::from_seed(1), tasks: Tasks::new("t") };
        let fake = Fake::default();
        fake.0.lock().began = Some(seam.clock.mono());
        fake.0.lock().status = json!({});
        (fake.clone(), StatusWriter::start("status", &seam, fake))
    }

    fn request(writer: &StatusWriter<Fake>, contributor: &'static str, part: Value, urgent: bool) {
        writer.request(&"a".to_owned(), "u", contributor, part, urgent);
    }

    async fn pass(ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    fn times(fake: &Fake) -> Vec<u128> {
        fake.0.lock().writes.iter().map(|(at, _)| *at).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_status_is_written_at_once_and_the_next_ones_after_a_pause() {
        let (fake, writer) = writer();
        request(&writer, "x", json!({"x": 1}), false);
        pass(10).await;
        request(&writer, "x", json!({"x": 2, "z": 1}), false);
        // Decided over the requested status, so it contains only the difference.
        request(&writer, "x", json!({"x": 3}), false);
        pass(100).await;
        request(&writer, "y", json!({"y": 1}), false);
        assert_eq!(writer.read(&"a".into(), "u", || json!({"x": 1})), Some(json!({"x": 3, "y": 1, "z": 1})));
        pass(2_000).await;
        assert_eq!(times(&fake), [0, 610], "one write for both, 500 ms after the last of them");
        assert_eq!(fake.0.lock().status, json!({"x": 3, "y": 1, "z": 1}));
        assert!(writer.is_quiet());
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_that_changes_all_the_time_is_written_after_two_seconds() {
        let (fake, writer) = writer();
        writer.note_activity("a".into());
        for n in 0..30 {
            request(&writer, "x", json!({"x": n}), false);
            pass(100).await;
        }
        assert!(times(&fake).first().is_some_and(|at| *at <= 2_100), "{:?}", times(&fake));
    }

    #[test]
    fn pauses_grow_with_the_time_that_a_write_takes() {
        for (latency, quiet, latest) in
            [(0, 500, 2_000), (25, 500, 2_000), (50, 1_000, 4_000), (100, 2_000, 5_000), (30_000, 2_000, 5_000)]
        {
            let of = Pauses::for_latency(Duration::from_millis(latency));
            assert_eq!((of.quiet.as_millis(), of.latest.as_millis()), (quiet, latest), "{latency} ms");
        }
        assert_eq!(Pauses::for_latency(Duration::ZERO), FAST);
        assert_eq!(Pauses::for_latency(Duration::MAX), SLOW);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_server_gets_fewer_writes_until_it_answers_fast_again() {
        let (fake, writer) = writer();
        let changes = async |from: i32| {
            for n in 0..40 {
                request(&writer, "x", json!({ "x": from + n }), false);
                pass(600).await;
            }
            pass(10_000).await;
            std::mem::take(&mut fake.0.lock().writes).len()
        };
        let fast = changes(0).await;
        fake.0.lock().takes = Duration::from_millis(400);
        let slow = changes(100).await;
        fake.0.lock().takes = Duration::ZERO;
        changes(200).await;
        changes(300).await;
        let again = changes(400).await;
        assert!(slow * 2 < fast && again == fast, "{fast} writes, {slow} while it is slow, {again} afterwards");
        assert_eq!(fake.0.lock().status, json!({"x": 439}));
    }

    #[tokio::test(start_paused = true)]
    async fn an_urgent_status_is_written_at_once() {
        let (fake, writer) = writer();
        writer.note_activity("a".into());
        request(&writer, "x", json!({"x": 1}), false);
        pass(10).await;
        request(&writer, "y", json!({"failed": true}), true);
        pass(10).await;
        assert_eq!(times(&fake), [10]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_is_urgent_during_a_write_is_written_right_after_it() {
        let (fake, writer) = writer();
        fake.0.lock().takes = Duration::from_millis(100);
        request(&writer, "x", json!({"x": 1}), false);
        pass(50).await;
        request(&writer, "y", json!({"failed": true}), true);
        pass(2_000).await;
        assert_eq!(times(&fake), [0, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_that_the_server_never_takes_is_not_read_back() {
        let (fake, writer) = writer();
        fake.0.lock().invalid = true;
        request(&writer, "x", json!({"x": 1}), true);
        pass(1_000).await;
        assert_eq!(writer.read(&"a".into(), "u", || json!({})), None);
        assert!(writer.is_quiet());
        fake.0.lock().invalid = false;
        request(&writer, "x", json!({"x": 2}), true);
        pass(1_000).await;
        assert_eq!(fake.0.lock().status, json!({"x": 2}));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stored_status_is_not_written_again_and_a_conflict_is_merged_again() {
        let (fake, writer) = writer();
        fake.0.lock().status = json!({"x": 1});
        request(&writer, "x", json!({"x": 1}), false);
        pass(1_000).await;
        assert!(times(&fake).is_empty());
        fake.0.lock().conflicts = 2;
        request(&writer, "x", json!({"x": 2}), false);
        pass(1_000).await;
        assert_eq!(fake.0.lock().status, json!({"x": 2}));
        assert_eq!(times(&fake).len(), 1);
        writer.request(&"a".to_owned(), "another incarnation", "x", json!({"x": 3}), true);
        writer.request(&"gone".to_owned(), "u", "x", json!({"x": 3}), true);
        pass(1_000).await;
        assert_eq!(times(&fake).len(), 1);
        assert!(writer.is_quiet());
    }
}
