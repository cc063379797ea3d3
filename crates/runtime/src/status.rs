//! One writer of an object's status, whatever number of reconcilers contribute (design.md 4, propagation.md 1.1).
//!
//! A wanted status goes out at once if it is urgent or the object had some quiet before, else after that quiet, and at the
//! latest a while after it was first wanted. Until it is out, reconcilers read it back as written.

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

/// A status waits until nothing new was wanted for this long.
const QUIET: Duration = Duration::from_millis(500);
/// A status waits no longer than this after it was first wanted.
const LATEST: Duration = Duration::from_secs(2);
/// Requests under way at once for one kind of object.
const WORKERS: usize = 4;

/// The state that a status write is based on.
#[derive(Debug, Clone)]
pub struct Current {
    /// The version that the write is conditional on.
    pub resource_version: String,
    /// The incarnation that the parts were wanted for.
    pub uid: String,
    /// The status as it stands, `Null` if there is none.
    pub status: Value,
}

/// The kind of objects whose status is written.
pub trait StatusTarget: Send + Sync + 'static {
    /// How an object is named.
    type Key: Ord + Clone + Debug + Display + Send + Sync + 'static;
    /// What a reconciler contributes.
    type Part: Clone + PartialEq + Send + Sync + 'static;

    /// The object as the cache has it.
    fn current(&self, key: &Self::Key) -> Option<Current>;

    /// The merge patch of the status that these parts make of it, `None` if nothing changes. Pure.
    fn merge(&self, current: &Value, parts: &[&Self::Part]) -> Option<Value>;

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
    wanted: Mutex<BTreeMap<T::Key, Wanted<T::Part>>>,
    /// When an object last made noise: it was created, or we wrote its status.
    noise: Mutex<BTreeMap<T::Key, Instant>>,
    queue: Queue<T::Key>,
}

struct Wanted<P> {
    uid: String,
    parts: BTreeMap<&'static str, P>,
    first: Instant,
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
            wanted: Mutex::default(),
            noise: Mutex::default(),
            queue: queue.clone(),
        }));
        let worker = this.clone();
        run_workers(name, &seam.tasks, &queue, WORKERS, move |key| {
            let worker = worker.clone();
            async move { worker.flush(key).await }
        });
        this
    }

    /// The object came to be, or changed in a way that will soon change its status again.
    pub fn noise(&self, key: T::Key) {
        self.make_noise(key);
    }

    /// This contributor wants this of the status of the object with this uid, in place of what it wanted before.
    pub fn want(&self, key: &T::Key, uid: &str, contributor: &'static str, part: T::Part, urgent: bool) {
        let now = self.0.seam.clock.mono();
        let Some(current) = self.0.target.current(key) else { return };
        if current.uid != uid {
            return;
        }
        let due = {
            let mut wanted = self.0.wanted.lock();
            let known = wanted.get(key).is_some_and(|w| w.uid == uid);
            if !known && self.0.target.merge(&current.status, &[&part]).is_none() {
                wanted.remove(key);
                return;
            }
            let last_noise = self.0.noise.lock().get(key).copied();
            let entry = wanted.entry(key.clone()).or_insert_with(|| Wanted {
                uid: uid.to_owned(),
                parts: BTreeMap::new(),
                first: now,
                urgent: false,
            });
            if entry.uid != uid {
                *entry = Wanted { uid: uid.to_owned(), parts: BTreeMap::new(), first: now, urgent: false };
            }
            let again = entry.parts.insert(contributor, part.clone());
            if again.as_ref() == Some(&part) && !urgent {
                return;
            }
            entry.urgent |= urgent;
            let quiet_since = if entry.first == now { last_noise } else { Some(now) };
            if entry.urgent { now } else { quiet_since.map_or(now, |at| (at + QUIET).min(entry.first + LATEST)) }
        };
        if due <= now { self.0.queue.add(key.clone()) } else { self.0.queue.add_after(key.clone(), due - now) }
    }

    /// The status as it will stand once everything wanted is out.
    #[must_use]
    pub fn read(&self, key: &T::Key, uid: &str, status: Value) -> Value {
        let wanted = self.0.wanted.lock();
        let Some(entry) = wanted.get(key).filter(|w| w.uid == uid) else { return status };
        let parts: Vec<_> = entry.parts.values().collect();
        match self.0.target.merge(&status, &parts) {
            Some(patch) => merged(status, &patch),
            None => status,
        }
    }

    /// True if nothing waits to be written.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.0.queue.is_empty() && self.0.wanted.lock().is_empty()
    }

    async fn flush(&self, key: T::Key) -> Result<Next, Failure> {
        let now = self.0.seam.clock.mono();
        let Some(current) = self.0.target.current(&key) else {
            self.0.wanted.lock().remove(&key);
            return Ok(Next::Forget);
        };
        let (sent, patch) = {
            let mut wanted = self.0.wanted.lock();
            let Some(entry) = wanted.get(&key) else { return Ok(Next::Forget) };
            let parts: Vec<_> = entry.parts.values().collect();
            let patch = if entry.uid == current.uid { self.0.target.merge(&current.status, &parts) } else { None };
            let Some(patch) = patch else {
                wanted.remove(&key);
                return Ok(Next::Forget);
            };
            (entry.parts.clone(), patch)
        };
        match self.0.target.write(&key, &current.resource_version, patch).await {
            Ok(()) => {}
            Err(Failure::NotFound(_)) => {
                self.0.wanted.lock().remove(&key);
                return Ok(Next::Forget);
            }
            Err(failure) => return Err(failure),
        }
        self.make_noise(key.clone());
        let mut wanted = self.0.wanted.lock();
        if let Some(entry) = wanted.get_mut(&key) {
            entry.parts.retain(|contributor, part| sent.get(contributor) != Some(part));
            entry.first = now;
            entry.urgent = false;
            if entry.parts.is_empty() {
                wanted.remove(&key);
            } else {
                return Ok(Next::After(QUIET));
            }
        }
        Ok(Next::Forget)
    }

    fn make_noise(&self, key: T::Key) {
        let now = self.0.seam.clock.mono();
        let mut noise = self.0.noise.lock();
        // Only what was noisy within the last moments matters; a sweep now and then keeps the map small.
        if noise.len() >= 1024 {
            noise.retain(|_, at| now - *at < QUIET);
        }
        noise.insert(key, now);
    }
}

/// A JSON merge patch (RFC 7396) laid over a value.
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
