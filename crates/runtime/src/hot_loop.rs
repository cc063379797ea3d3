//! Guard against hot loops: a writer that sends the same content to the same object again and again fights another
//! writer, or itself.
//!
//! A state machine without IO. Up to 20 equal writes of an object within a minute pass. After that they
//! pass one at a time, with a pause that doubles. A write of other content, or an hour without writes, ends it.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use tokio::time::Instant;

use ironclad_seam::Clock;

/// Equal writes of one object by one writer that pass within [`WINDOW`].
const WRITES_MAX: u32 = 20;
/// Time over which writes are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// First pause of a hot loop.
const PAUSE_BASE: Duration = Duration::from_secs(5);
/// Longest pause of a hot loop.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// A hot loop ends after this time without an attempt to write.
const OVER_AFTER: Duration = Duration::from_secs(600);
/// Remembered objects of a writer. Beyond it, those whose writes need not wait are forgotten.
const REMEMBERED_MAX: usize = 4_096;

/// Outcome of [`Objects::attempt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The write may be sent.
    Pass,
    /// The write must wait for this time.
    Wait {
        /// The remaining pause.
        after: Duration,
        /// True for the first refusal of this hot loop: report it.
        is_new: bool,
    },
}

/// Writes of one writer, by object.
#[derive(Debug)]
pub(crate) struct Objects<K>(BTreeMap<K, Writes>);

#[derive(Debug)]
struct Writes {
    /// Hash of what the writes come from: their content, or the version of their source.
    source: u64,
    /// Writes since `began`.
    count: u32,
    began: Instant,
    last: Instant,
    /// Pause between writes, once there were too many.
    pause: Option<Duration>,
    reported: bool,
}

impl<K: Ord> Default for Objects<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Objects<K> {
    /// Checks whether a write of the object may be sent now, and counts it if so.
    pub(crate) fn attempt(&mut self, key: K, source: u64, now: Instant) -> Attempt {
        if self.0.len() >= REMEMBERED_MAX && !self.0.contains_key(&key) {
            self.0.retain(|_, writes| writes.pause.is_some() && !writes.is_over(now));
            if self.0.len() >= REMEMBERED_MAX {
                return Attempt::Pass;
            }
        }
        let fresh = || Writes { source, count: 0, began: now, last: now, pause: None, reported: false };
        let writes = self.0.entry(key).or_insert_with(fresh);
        if writes.source != source || writes.is_over(now) {
            *writes = fresh();
        }
        if let Some(pause) = writes.pause {
            let after = (writes.last + pause).saturating_duration_since(now);
            if !after.is_zero() {
                return Attempt::Wait { after, is_new: !std::mem::replace(&mut writes.reported, true) };
            }
            writes.pause = Some(pause.saturating_mul(2).min(PAUSE_MAX));
        } else {
            writes.count += 1;
            if writes.count >= WRITES_MAX {
                writes.pause = Some(PAUSE_BASE);
            }
        }
        writes.last = now;
        Attempt::Pass
    }

    /// Takes back a write that passed but failed: it changed nothing.
    pub(crate) fn retract(&mut self, key: &K) {
        if let Some(writes) = self.0.get_mut(key).filter(|writes| !writes.reported) {
            writes.count = writes.count.saturating_sub(1);
            writes.pause = None;
        }
    }

    /// The number of objects whose writes have to wait.
    #[must_use]
    pub(crate) fn hot(&self, now: Instant) -> usize {
        self.0.values().filter(|writes| writes.reported && !writes.is_over(now)).count()
    }
}

impl Writes {
    fn is_over(&self, now: Instant) -> bool {
        match self.pause {
            Some(_) => now.saturating_duration_since(self.last) >= OVER_AFTER,
            None => now.saturating_duration_since(self.began) >= WINDOW,
        }
    }
}

/// Report of a hot loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotLoop {
    /// Controller that writes.
    pub controller: String,
    /// `apiVersion` of the object.
    pub api_version: String,
    /// `kind` of the object.
    pub kind: String,
    /// Namespace of the object, empty if it is cluster-scoped.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// `metadata.uid` of the object, empty if it is being created.
    pub uid: String,
}

impl fmt::Display for HotLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "controller {} wrote the same content {WRITES_MAX} times within a minute, because something else changes it \
             back; it goes on with pauses. Find the other writer in metadata.managedFields",
            self.controller
        )
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    controller: String,
}

type Report = dyn Fn(&HotLoop) + Send + Sync;

/// Guards of the writers of one process. Cheap to clone.
#[derive(Clone)]
pub struct HotLoops(Arc<Shared>);

struct Shared {
    clock: Clock,
    gauge: Family<Labels, Gauge>,
    report: Box<Report>,
    /// By controller and object.
    objects: Mutex<BTreeMap<String, Objects<String>>>,
}

impl fmt::Debug for HotLoops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HotLoops")
    }
}

impl HotLoops {
    /// No writes yet. `report` is called once for each hot loop.
    pub fn new(clock: Clock, registry: &mut Registry, report: impl Fn(&HotLoop) + Send + Sync + 'static) -> Self {
        let gauge = Family::default();
        let help =
            "Objects that this controller writes again and again without a change of its own, and so with pauses";
        registry.register("ironclad_hot_loop", help, gauge.clone());
        Self(Arc::new(Shared { clock, gauge, report: Box::new(report), objects: Mutex::default() }))
    }

    /// Checks whether a write may be sent now, and counts it if so. `object` identifies the object among those of the
    /// controller; `source` is a hash of what the write comes from.
    ///
    /// # Errors
    /// The time to wait.
    pub fn attempt(
        &self,
        controller: &str,
        object: String,
        source: u64,
        about: impl FnOnce() -> Option<HotLoop>,
    ) -> Result<(), Duration> {
        let now = self.0.clock.mono();
        let (attempt, hot) = {
            let mut all = self.0.objects.lock();
            let objects = all.entry(controller.to_owned()).or_default();
            let attempt = objects.attempt(object, source, now);
            (attempt, matches!(attempt, Attempt::Wait { .. }).then(|| objects.hot(now)))
        };
        if let Some(hot) = hot {
            let labels = Labels { controller: controller.to_owned() };
            self.0.gauge.get_or_create_owned(&labels).set(i64::try_from(hot).unwrap_or(i64::MAX));
        }
        match attempt {
            Attempt::Pass => Ok(()),
            Attempt::Wait { after, is_new } => {
                if let Some(about) = is_new.then(about).flatten() {
                    let (kind, namespace, name) = (&about.kind, &about.namespace, &about.name);
                    tracing::warn!(controller, %kind, %namespace, %name, "the same write was sent again and again");
                    (self.0.report)(&about);
                }
                Err(after)
            }
        }
    }
}

impl HotLoops {
    /// Takes back a write that passed but failed.
    pub fn retract(&self, controller: &str, object: &String) {
        if let Some(objects) = self.0.objects.lock().get_mut(controller) {
            objects.retract(object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn equal_writes_slow_down_and_are_reported_once() {
        let (mut objects, began) = (Objects::default(), Clock::system().mono());
        let mut passed = Vec::new();
        let mut reports = 0;
        for tick in 0..10 * 60 * 100_u32 {
            let at = began + Duration::from_millis(10) * tick;
            match objects.attempt("a", 1, at) {
                Attempt::Pass => passed.push(at.duration_since(began)),
                Attempt::Wait { is_new, .. } => reports += u32::from(is_new),
            }
        }
        assert_eq!(reports, 1);
        assert_eq!(passed.len(), 20 + 6, "{passed:?}");
        let gaps: Vec<u64> = passed[19..].windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
        assert_eq!(gaps, [5, 10, 20, 40, 80, 160], "the pause doubles");
        assert_eq!(objects.hot(began + 600 * SECOND), 1);
        assert_eq!(objects.attempt("b", 1, began + 600 * SECOND), Attempt::Pass, "another object");
        assert_eq!(objects.attempt("a", 2, began + 600 * SECOND), Attempt::Pass, "another source");
        assert_eq!(objects.hot(began + 600 * SECOND), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn rare_writes_and_writes_of_a_changing_source_pass() {
        let (mut objects, began) = (Objects::default(), Clock::system().mono());
        for (name, every, source) in [
            ("an edit every 4 s", 4 * SECOND, (|_| 1) as fn(u32) -> u64),
            ("a source that changes with each write", SECOND / 10, |n| u64::from(n)),
            ("a source that changes back and forth", SECOND / 10, |n| u64::from(n % 2)),
        ] {
            for n in 0..1_000 {
                assert_eq!(objects.attempt(name, source(n), began + every * n), Attempt::Pass, "{name}, {n}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn hot_loop_is_over_after_ten_minutes_without_writes() {
        let (mut objects, began) = (Objects::default(), Clock::system().mono());
        (0..WRITES_MAX).for_each(|_| assert_eq!(objects.attempt("a", 1, began), Attempt::Pass));
        let wait = |after, is_new| Attempt::Wait { after, is_new };
        assert_eq!(objects.attempt("a", 1, began), wait(5 * SECOND, true));
        assert_eq!(objects.attempt("a", 1, began + SECOND), wait(4 * SECOND, false));
        assert_eq!(objects.attempt("a", 1, began + 5 * SECOND), Attempt::Pass);
        let later = began + 5 * SECOND + OVER_AFTER;
        (0..WRITES_MAX).for_each(|_| assert_eq!(objects.attempt("a", 1, later), Attempt::Pass));
        assert_eq!(objects.attempt("a", 1, later), wait(5 * SECOND, true), "reported again");
    }

    #[tokio::test(start_paused = true)]
    async fn failed_writes_do_not_count() {
        let (mut objects, began) = (Objects::default(), Clock::system().mono());
        for _ in 0..1_000 {
            assert_eq!(objects.attempt("a", 1, began), Attempt::Pass);
            objects.retract(&"a");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded() {
        let (mut objects, began) = (Objects::default(), Clock::system().mono());
        for n in 0..u32::try_from(REMEMBERED_MAX).unwrap() * 3 {
            objects.attempt(n, 1, began + SECOND * n);
        }
        assert!(objects.0.len() <= REMEMBERED_MAX);
    }
}
