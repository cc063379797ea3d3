//! Recorder of Kubernetes Events, with the times and names of the seam, deduplicated by message.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use ironclad_seam::Seam;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client, Resource,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

/// Remembered pairs of object and reason. Beyond it the memory is cleared, and an event may be recorded twice.
const REMEMBERED_MAX: usize = 10_000;
/// Time after which an event with the same message is recorded again: servers delete events after an hour.
const REPEATED_AFTER: Duration = Duration::from_secs(50 * 60);
/// Events that wait for their write. Beyond it new ones are dropped, as by Kubernetes' own recorder.
const WAITING_MAX: usize = 5_000;
/// Events that are written at once. A move of many workloads makes events by the hundred: on a server that is slow,
/// they come after the writes that move the workloads.
const WRITES_AT_ONCE: usize = 2;
/// Bytes of a message, beyond which it is cut: the server refuses longer ones.
const MESSAGE_BYTES_MAX: usize = 1024;
/// Bytes of an object's name.
const NAME_BYTES_MAX: usize = 253;
/// Letters of the random suffix of an event's name.
const SUFFIX_LENGTH: usize = 10;

/// Type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// An expected change.
    Normal,
    /// A problem.
    Warning,
}

/// The object of an event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventAbout {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects: their events live in `default`.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
}

impl EventAbout {
    /// The object of this kind with these metadata.
    #[must_use]
    pub fn of<K: Resource<DynamicType = ()>>(meta: &ObjectMeta) -> Self {
        Self {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        }
    }
}

/// Recorder of one component. It writes events in tasks of their own, a few at once in the order in which they were
/// recorded: no reconciler waits for them or fails because of them.
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

struct Shared {
    client: Client,
    seam: Seam,
    component: &'static str,
    last: Mutex<BTreeMap<Remembered, Last>>,
    waiting: Mutex<Waiting>,
}

/// Events that wait for their write.
#[derive(Default)]
struct Waiting {
    events: VecDeque<Recorded>,
    /// Tasks that write them.
    writers: usize,
}

/// A recorded event, to be written.
struct Recorded {
    key: Remembered,
    write: Write,
    namespace: String,
    event: Event,
}

/// Key of the memory: the object and the reason.
type Remembered = (EventAbout, String);

/// Last event of one reason on one object.
struct Last {
    message: String,
    type_: EventType,
    at: Instant,
    /// Name of the event in the control plane.
    name: String,
    /// Number of times that it was recorded.
    count: i32,
    /// An event of the other type came after it: if it comes again, it is counted.
    is_over: bool,
}

impl Recorder {
    /// A recorder for this component.
    #[must_use]
    pub fn new(client: Client, seam: &Seam, component: &'static str) -> Self {
        let (last, waiting) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Shared { client, seam: seam.clone(), component, last, waiting }))
    }

    /// Records an event, unless the last one of this reason on this object had the same message, was recorded less than
    /// 50 minutes ago, and no event of the other type came on the object after it. If one came, the event is counted:
    /// evictions that are paused a second time are paused again.
    pub fn record(&self, about: &EventAbout, type_: EventType, reason: &str, message: &str) {
        self.record_from(self.0.component, about, type_, reason, message);
    }

    /// Records an event of another component than the recorder's.
    pub fn record_from(&self, component: &str, about: &EventAbout, type_: EventType, reason: &str, message: &str) {
        let message = cut(message, MESSAGE_BYTES_MAX);
        let Some(write) = self.0.next(about, type_, reason, message) else { return };
        let namespace = if about.namespace.is_empty() { "default" } else { &about.namespace };
        let now = Time(self.0.seam.clock.wall_seconds());
        let (name, count) = match &write {
            Write::Create { name } => (name.clone(), 1),
            Write::Count { name, count } => (name.clone(), *count),
        };
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some(about.api_version.clone()),
                kind: Some(about.kind.clone()),
                namespace: Some(about.namespace.clone()).filter(|n| !n.is_empty()),
                name: Some(about.name.clone()),
                uid: Some(about.uid.clone()),
                ..ObjectReference::default()
            },
            type_: Some(if type_ == EventType::Normal { "Normal" } else { "Warning" }.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            source: Some(EventSource { component: Some(component.to_owned()), host: None }),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now.clone()),
            count: Some(count),
            ..Event::default()
        };
        let key = (about.clone(), reason.to_owned());
        self.0.enqueue(Recorded { key, write, namespace: namespace.to_owned(), event });
    }
}

/// A task that writes events. Dropped, also by a panic, it makes room for another one.
struct EventWriter {
    shared: Arc<Shared>,
    /// It is no longer counted.
    has_ended: bool,
}

impl EventWriter {
    async fn run(mut self) {
        while let Some(recorded) = self.next() {
            self.shared.write(recorded).await;
        }
    }

    /// The next event. Without one the task ends, before another event can be recorded.
    fn next(&mut self) -> Option<Recorded> {
        let mut waiting = self.shared.waiting.lock();
        let next = waiting.events.pop_front();
        if next.is_none() {
            waiting.writers -= 1;
            self.has_ended = true;
        }
        next
    }
}

impl Drop for EventWriter {
    fn drop(&mut self) {
        if !self.has_ended {
            self.shared.waiting.lock().writers -= 1;
        }
    }
}

/// Write of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Write {
    /// A new one.
    Create {
        /// Its name.
        name: String,
    },
    /// The stored one happened again.
    Count {
        /// Its name.
        name: String,
        /// Number of times so far.
        count: i32,
    },
}

impl Shared {
    /// Writes an event as soon as those before it are written.
    fn enqueue(self: &Arc<Self>, recorded: Recorded) {
        let mut waiting = self.waiting.lock();
        if waiting.events.len() >= WAITING_MAX {
            drop(waiting);
            tracing::debug!(reason = %recorded.key.1, "event was dropped: too many wait for their write");
            self.last.lock().remove(&recorded.key);
            return;
        }
        waiting.events.push_back(recorded);
        if waiting.writers < WRITES_AT_ONCE {
            waiting.writers += 1;
            let writer = EventWriter { shared: self.clone(), has_ended: false };
            drop(waiting);
            drop(self.seam.tasks.spawn("event", writer.run()));
        }
    }

    async fn write(&self, recorded: Recorded) {
        let Recorded { key, write, namespace, event } = recorded;
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let written = match write {
            Write::Create { .. } => api.create(&PostParams::default(), &event).await.map(drop),
            Write::Count { name, count } => {
                let patch = Patch::Merge(json!({ "count": count, "lastTimestamp": event.last_timestamp }));
                match api.patch(&name, &PatchParams::default(), &patch).await {
                    // Somebody deleted it.
                    Err(kube::Error::Api(status)) if status.code == 404 => {
                        api.create(&PostParams::default(), &event).await.map(drop)
                    }
                    other => other.map(drop),
                }
            }
        };
        if let Err(error) = written {
            tracing::debug!(reason = %key.1, %error, "event was not written");
            self.last.lock().remove(&key);
        }
    }

    /// Remembers an event, and returns what has to be written for it.
    fn next(&self, about: &EventAbout, type_: EventType, reason: &str, message: &str) -> Option<Write> {
        let mut last = self.last.lock();
        if last.len() >= REMEMBERED_MAX {
            last.clear();
        }
        let (key, at) = ((about.clone(), reason.to_owned()), self.seam.clock.mono());
        let same = last.get(&key).filter(|one| one.message == message && at.duration_since(one.at) < REPEATED_AFTER);
        if same.is_some_and(|one| !one.is_over) {
            return None;
        }
        let (write, count) = match same {
            Some(one) => {
                let count = one.count.saturating_add(1);
                (Write::Count { name: one.name.clone(), count }, count)
            }
            None => {
                let name = name_of(&about.name, &self.seam.rng.stream("events").suffix(SUFFIX_LENGTH));
                (Write::Create { name }, 1)
            }
        };
        let of_object = (about.clone(), String::new())..;
        for (_, one) in last.range_mut(of_object).take_while(|((other, _), _)| other == about) {
            one.is_over |= one.type_ != type_;
        }
        let (Write::Create { name } | Write::Count { name, .. }) = &write;
        let (name, message) = (name.clone(), message.to_owned());
        last.insert(key, Last { message, type_, at, name, count, is_over: false });
        Some(write)
    }
}

/// The name of an event about an object of this name.
fn name_of(about: &str, suffix: &str) -> String {
    let room = NAME_BYTES_MAX - 1 - suffix.len().min(SUFFIX_LENGTH);
    // Each part of a DNS name ends with a letter or a digit.
    format!("{}.{suffix}", cut(about, room).trim_end_matches(['.', '-']))
}

fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::atomic::Ordering};

    use bytes::Bytes;
    use http_body::Body as _;
    use ironclad_seam::{Clock, Rng, Tasks};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_event_is_repeated_once_it_may_be_gone_or_the_failure_was_over() {
        let written: Arc<std::sync::atomic::AtomicU32> = Arc::default();
        let refuses: Arc<std::sync::atomic::AtomicBool> = Arc::default();
        let (count, refused) = (written.clone(), refuses.clone());
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (count, refused) = (count.clone(), refused.clone());
            async move {
                assert!(!request.into_body().is_end_stream(), "an event is sent");
                let status = if refused.load(Ordering::Relaxed) { 500 } else { 201 };
                if status == 201 {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                let body = http_body_util_full(b"{\"metadata\":{},\"involvedObject\":{}}");
                Ok::<_, Infallible>(http::Response::builder().status(status).body(body).unwrap())
            }
        });
        let seam = Seam { clock: Clock::system(), rng: Rng::from_seed(1), tasks: Tasks::new("t") };
        let recorder = Recorder::new(Client::new(service, "default"), &seam, "test");
        let about = EventAbout {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: "n".into(),
            name: "p".into(),
            uid: "u".into(),
        };
        let after = async |wait: Duration, type_, reason: &str| {
            tokio::time::sleep(wait).await;
            recorder.record(&about, type_, reason, "text");
            tokio::time::sleep(Duration::from_millis(1)).await;
            written.swap(0, Ordering::Relaxed)
        };
        let (second, warning) = (Duration::from_secs(1), EventType::Warning);
        assert_eq!(after(second, warning, "Failed").await, 1, "the first");
        assert_eq!(after(second, warning, "Failed").await, 0, "the same again");
        assert_eq!(after(REPEATED_AFTER, warning, "Failed").await, 1, "servers deleted it");
        assert_eq!(after(second, EventType::Normal, "Done").await, 1, "the failure is over");
        assert_eq!(after(second, warning, "Failed").await, 1, "it came back");
        refuses.store(true, Ordering::Relaxed);
        assert_eq!(after(REPEATED_AFTER, warning, "Failed").await, 0, "the server refuses it");
        refuses.store(false, Ordering::Relaxed);
        assert_eq!(after(second, warning, "Failed").await, 1, "it is sent again");
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_happens_again_after_its_opposite_is_counted() {
        let seam = Seam { clock: Clock::system(), rng: Rng::from_seed(1), tasks: Tasks::new("t") };
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Ok::<_, Infallible>(http::Response::new(http_body_util_full(b"{}")))
        });
        let recorder = Recorder::new(Client::new(service, "default"), &seam, "test");
        let about = |name: &str| EventAbout {
            api_version: "v1".into(),
            kind: "Cluster".into(),
            namespace: String::new(),
            name: name.into(),
            uid: String::new(),
        };
        let next = |name: &str, type_, reason: &str| recorder.0.next(&about(name), type_, reason, "text");
        let counted = |write: Option<Write>| match write {
            Some(Write::Create { .. }) => Some(1),
            Some(Write::Count { count, .. }) => Some(count),
            None => None,
        };
        let (paused, resumed) = ((EventType::Warning, "Paused"), (EventType::Normal, "Resumed"));
        for (name, (type_, reason), want) in [
            ("m1", paused, Some(1)),
            ("m1", paused, None),
            ("m2", paused, Some(1)),
            ("m1", resumed, Some(1)),
            ("m1", resumed, None),
            ("m1", paused, Some(2)),
            ("m1", resumed, Some(2)),
            ("m2", paused, None),
        ] {
            assert_eq!(counted(next(name, type_, reason)), want, "{reason} of {name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_events_are_written_at_once_in_their_order_and_few_wait() {
        let (running, most): (Arc<std::sync::atomic::AtomicUsize>, Arc<std::sync::atomic::AtomicUsize>) =
            Default::default();
        let paths: Arc<Mutex<Vec<String>>> = Arc::default();
        let (now, peak, seen) = (running.clone(), most.clone(), paths.clone());
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (now, peak, seen) = (now.clone(), peak.clone(), seen.clone());
            async move {
                seen.lock().push(request.uri().path().to_owned());
                peak.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                now.fetch_sub(1, Ordering::Relaxed);
                let body = http_body_util_full(b"{\"metadata\":{},\"involvedObject\":{}}");
                Ok::<_, Infallible>(http::Response::builder().status(201).body(body).unwrap())
            }
        });
        let seam = Seam { clock: Clock::system(), rng: Rng::from_seed(1), tasks: Tasks::new("t") };
        let recorder = Recorder::new(Client::new(service, "default"), &seam, "test");
        let record = |number: usize| {
            let about = EventAbout {
                api_version: "v1".into(),
                kind: "Pod".into(),
                namespace: format!("n{number:05}"),
                name: "p".into(),
                uid: "u".into(),
            };
            recorder.record(&about, EventType::Normal, "Moved", "text");
        };
        let all_written = || tokio::time::sleep(Duration::from_secs(2_700));
        (0..WAITING_MAX + 200).for_each(record);
        all_written().await;
        let written = std::mem::take(&mut *paths.lock());
        assert_eq!(most.load(Ordering::Relaxed), WRITES_AT_ONCE);
        assert_eq!(written.len(), WAITING_MAX, "those beyond the bound are dropped");
        assert!(written.is_sorted(), "in the order in which they were recorded");
        record(WAITING_MAX);
        record(0);
        all_written().await;
        let written = std::mem::take(&mut *paths.lock());
        assert_eq!(written, ["/api/v1/namespaces/n05000/events"], "one that was dropped is no repetition");
    }

    fn http_body_util_full(text: &'static [u8]) -> kube::client::Body {
        kube::client::Body::from(Bytes::from_static(text))
    }

    #[test]
    fn names_of_events_fit_the_limit_of_names() {
        let suffix = "0123456789";
        let long = "a".repeat(253);
        let parts = format!("{}.{}", "a".repeat(241), "b".repeat(11));
        for (about, want) in [
            ("web", "web.0123456789".to_owned()),
            (&long, format!("{}.{suffix}", "a".repeat(242))),
            (&parts, format!("{}.{suffix}", "a".repeat(241))),
        ] {
            let name = name_of(about, suffix);
            assert_eq!(name, want);
            assert!(name.len() <= NAME_BYTES_MAX);
        }
    }
}
