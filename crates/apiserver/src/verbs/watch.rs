//! watch: changes as they come, with initial events, selector transitions and bookmarks
//! (specification/apiserver.md 11).

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use ironclad_store::{Entry, Event, Query, Revision, Watch};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use crate::{
    context::Cx,
    conversion, convert,
    negotiate::{Format, Shape},
    object,
    respond::{Reply, ResponseBody, StreamFrame},
    select::{self, Selector},
    status::{ApiError, Cause},
    table,
};

use super::read;

/// Frames that wait for a reader. Behind it the store's own buffer fills, and then the watch ends with 410.
const FRAMES_BUFFERED: usize = 64;
/// Their bytes; one that is larger waits alone.
const FRAMES_BYTES: u32 = 1024 * 1024;
/// A quiet watch says how far it is this often.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The last bookmark is sent this long before the end.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Without a timeout in the request, a watch lives 30 to 60 minutes.
const DEFAULT_LIFE_SECONDS: u64 = 1_800;
/// A watch that asks for more time ends after this.
const LIFE_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Watches shorter than this get no last bookmark.
const SHORT: Duration = Duration::from_secs(10);

const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The options of a watch.
struct Plan {
    selector: Selector,
    prefix: String,
    /// The revision after which changes are sent; `None` with initial events.
    from: Option<Revision>,
    bookmarks: bool,
    /// A bookmark marks the end of the initial events.
    marks_end: bool,
    /// Initial events show at least this revision.
    not_older_than: u64,
    life: Duration,
}

/// GET of a collection with `watch`.
pub(crate) fn watch(cx: Arc<Cx>) -> Result<Reply, ApiError> {
    let plan = plan(&cx)?;
    if cx.accept.format == Format::Yaml {
        return Err(ApiError::not_acceptable(
            "only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
        ));
    }
    let (frames, body) = mpsc::channel(FRAMES_BUFFERED);
    let tasks = cx.state.seam.tasks.clone();
    tasks.spawn("watch", async move {
        let room = Arc::new(Semaphore::new(FRAMES_BYTES as usize));
        let mut run = Run { out: Encoder::new(cx.clone()), cx, frames, room };
        // An error means that the reader disconnected.
        let _ = run.all(plan).await;
    });
    let mut response = http::Response::new(ResponseBody::stream(body));
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    Ok(response)
}

fn plan(cx: &Cx) -> Result<Plan, ApiError> {
    let resource = &*cx.resource;
    let mut selector = Selector::of(resource, &cx.query)?;
    let mut prefix = resource.prefix_of(cx.namespace());
    if let Some(name) = cx.path.name.as_deref() {
        // The legacy path of one object.
        prefix = cx.key();
        let text = format!("metadata.name={name}");
        selector.fields = select::FieldSelector::parse(resource, &text)?;
    }
    // One object is watched under its key alone; the selector leaves out others whose keys begin like it.
    let namespace = if resource.namespaced { cx.namespace().or_else(|| selector.fields.namespace()) } else { Some("") };
    if let (Some(name), Some(namespace)) = (selector.fields.name(), namespace) {
        prefix = resource.key(namespace, name);
    }
    let text = cx.query.get("resourceVersion").unwrap_or_default();
    let wanted: u64 =
        if text.is_empty() { 0 } else { text.parse().map_err(|_| ApiError::unclassified(read::bad_revision(text)))? };
    let matching = cx.query.text("resourceVersionMatch");
    let send = cx.query.text("sendInitialEvents").map(|v| v != "false" && v != "0");
    check_matching(matching, send)?;
    let seconds = read::timeout_seconds(cx)?
        .unwrap_or_else(|| DEFAULT_LIFE_SECONDS + cx.state.seam.rng.stream("watch").below(DEFAULT_LIFE_SECONDS));
    let bookmarks = cx.query.flag("allowWatchBookmarks");
    let initial = send.unwrap_or(wanted == 0);
    Ok(Plan {
        selector,
        prefix,
        from: if initial { None } else { Some(Revision::new(wanted).unwrap_or_else(|| cx.state.store.revision())) },
        bookmarks,
        marks_end: initial && bookmarks,
        not_older_than: wanted,
        life: Duration::from_secs(seconds).min(LIFE_MAX),
    })
}

fn check_matching(matching: Option<&str>, send: Option<bool>) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    match (matching, send) {
        (Some("NotOlderThan"), Some(_)) | (None, None) => return Ok(()),
        (Some(_), None) => {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            causes.push(Cause::forbidden("resourceVersionMatch", why));
        }
        (other, Some(_)) => {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            causes.push(Cause::forbidden("resourceVersionMatch", why));
            if let Some(other) = other {
                causes.push(Cause::unsupported("resourceVersionMatch", &json!(other), &["NotOlderThan"]));
            }
        }
    }
    Err(ApiError::invalid("ListOptions", "meta.k8s.io", "", causes))
}

/// The reader disconnected.
struct Disconnected;

struct Run {
    cx: Arc<Cx>,
    frames: mpsc::Sender<StreamFrame>,
    /// A permit for each byte that may wait.
    room: Arc<Semaphore>,
    out: Encoder,
}

impl Run {
    async fn all(&mut self, plan: Plan) -> Result<(), Disconnected> {
        let clock = self.cx.state.seam.clock.clone();
        let end = clock.mono() + plan.life;
        let from = match plan.from {
            Some(from) => {
                // A revision that is yet to come: silent until then.
                if from > self.cx.state.store.revision() && !self.reach(from, end).await? {
                    return self.end().await;
                }
                from
            }
            None => {
                if let Some(wanted) = Revision::new(plan.not_older_than)
                    && !self.reach(wanted, end).await?
                {
                    return self.end().await;
                }
                self.initial(&plan).await?
            }
        };
        let watch = match self.cx.state.store.watch(&plan.prefix, from) {
            Ok(watch) => watch,
            Err(_) => return self.expired().await,
        };
        if plan.marks_end {
            self.bookmark(from, true).await?;
        }
        self.changes(&plan, watch, end).await
    }

    /// Waits for a revision until the end; false when the end came first.
    async fn reach(&mut self, revision: Revision, end: tokio::time::Instant) -> Result<bool, Disconnected> {
        let tasks = self.cx.state.seam.tasks.clone();
        tokio::select! {
            biased;
            _ = self.cx.state.store.reached(revision) => Ok(true),
            () = tasks.stopping() => Ok(false),
            () = self.frames.closed() => Err(Disconnected),
            () = tokio::time::sleep_until(end) => Ok(false),
        }
    }

    /// Everything there is, as ADDED.
    async fn initial(&mut self, plan: &Plan) -> Result<Revision, Disconnected> {
        let cx = self.cx.clone();
        let Ok(range) = cx.state.store.range(&Query::prefix(&plan.prefix)) else { return Err(Disconnected) };
        for (_, entry) in &range.entries {
            let Some(entry) = &self.converted(entry).await? else { continue };
            if !plan.selector.is_everything() && !self.selects(plan, entry) {
                continue;
            }
            self.send("ADDED", entry, entry.modified).await?;
        }
        Ok(range.revision)
    }

    /// The entry in the request's version. An object that can't be converted is reported to the reader.
    async fn converted(&mut self, entry: &Entry) -> Result<Option<Entry>, Disconnected> {
        match conversion::one_in_version(&self.cx, entry).await {
            Ok(entry) => Ok(Some(entry)),
            Err(error) => {
                self.push(frame("ERROR", &error.status())).await?;
                Ok(None)
            }
        }
    }

    fn selects(&self, plan: &Plan, entry: &Entry) -> bool {
        convert::read(&self.cx.resource, entry).is_ok_and(|value| plan.selector.matches(&value))
    }

    async fn changes(&mut self, plan: &Plan, mut watch: Watch, end: tokio::time::Instant) -> Result<(), Disconnected> {
        let cx = self.cx.clone();
        let clock = cx.state.seam.clock.clone();
        let mut next_bookmark = clock.mono() + BOOKMARK_EVERY;
        let last_bookmark = end.checked_sub(BOOKMARK_BEFORE_END).unwrap_or(end);
        // A short watch has nothing to gain from it.
        let mut last_sent = plan.life < SHORT;
        let registry = cx.state.registry_changed.clone();
        loop {
            let changed = registry.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if !cx.state.still_served(&cx.resource) {
                return self.end().await;
            }
            let bookmark_at = if last_sent { end } else { next_bookmark.min(last_bookmark) };
            tokio::select! {
                biased;
                () = cx.state.seam.tasks.stopping() => return self.end().await,
                () = self.frames.closed() => return Err(Disconnected),
                batch = watch.next() => match batch {
                    None => return self.end().await,
                    Some(Err(_)) => return self.expired().await,
                    Some(Ok(batch)) => {
                        for event in batch.events() {
                            self.event(plan, event, batch.revision()).await?;
                        }
                    }
                },
                () = changed => {}
                () = tokio::time::sleep_until(bookmark_at), if bookmark_at < end => {
                    let now = clock.mono();
                    next_bookmark = now + BOOKMARK_EVERY;
                    last_sent = now >= last_bookmark;
                    if plan.bookmarks {
                        let revision = watch.progress();
                        self.bookmark(revision, false).await?;
                    }
                }
                () = tokio::time::sleep_until(end) => return self.end().await,
            }
        }
    }

    async fn event(&mut self, plan: &Plan, event: &Event, revision: Revision) -> Result<(), Disconnected> {
        let converted;
        let event = if conversion::is_asked_for(&self.cx.resource, event) {
            let mut copy = event.clone();
            for entry in [&mut copy.entry, &mut copy.previous].into_iter().flatten() {
                let Some(converted) = self.converted(entry).await? else { return Ok(()) };
                *entry = converted;
            }
            converted = copy;
            &converted
        } else {
            event
        };
        let (now, before) = if plan.selector.is_everything() {
            (true, true)
        } else {
            let decoded = &self.cx.state.decoded_for_watches;
            select::selected_states(&self.cx.resource, &plan.selector, event, decoded)
        };
        let (now, before) = (event.entry.as_ref().filter(|_| now), event.previous.as_ref().filter(|_| before));
        match (now, before) {
            (Some(now), Some(_)) => self.send("MODIFIED", now, revision).await,
            (Some(now), None) => self.send("ADDED", now, revision).await,
            // The old state with the revision of what ended it.
            (None, Some(before)) => self.send("DELETED", before, revision).await,
            (None, None) => Ok(()),
        }
    }

    async fn send(&mut self, kind: &str, entry: &Entry, revision: Revision) -> Result<(), Disconnected> {
        let bytes = self.out.event(kind, entry, revision);
        self.push(bytes).await
    }

    async fn bookmark(&mut self, revision: Revision, end_of_initial: bool) -> Result<(), Disconnected> {
        let bytes = self.out.bookmark(revision, end_of_initial);
        self.push(bytes).await
    }

    async fn expired(&mut self) -> Result<(), Disconnected> {
        let error = ApiError::expired("The resourceVersion for the provided watch is too old.");
        let bytes = frame("ERROR", &error.status());
        self.push(bytes).await?;
        self.end().await
    }

    async fn push(&mut self, bytes: Bytes) -> Result<(), Disconnected> {
        let weight = u32::try_from(bytes.len()).unwrap_or(u32::MAX).min(FRAMES_BYTES);
        let room = self.room.clone().acquire_many_owned(weight).await.map_err(|_| Disconnected)?;
        self.frames.send(StreamFrame::Data { bytes, _room: room }).await.map_err(|_| Disconnected)
    }

    async fn end(&mut self) -> Result<(), Disconnected> {
        self.frames.send(StreamFrame::End).await.map_err(|_| Disconnected)
    }
}

fn frame(kind: &str, object: &Value) -> Bytes {
    let mut out = serde_json::to_vec(&json!({"type": kind, "object": object}))
        .expect("a JSON value always serialises into memory");
    out.push(b'\n');
    out.into()
}

/// Makes the frames of one watch.
struct Encoder {
    cx: Arc<Cx>,
    /// Objects go out as the bytes that the store holds.
    plain: bool,
    /// Column definitions were sent.
    columns_sent: bool,
}

impl Encoder {
    fn new(cx: Arc<Cx>) -> Self {
        let plain = cx.accept.shape == Shape::Object;
        Self { cx, plain, columns_sent: false }
    }

    fn event(&mut self, kind: &str, entry: &Entry, revision: Revision) -> Bytes {
        if self.plain && !convert::needed(&self.cx.resource, entry) {
            let mut out = BytesMut::with_capacity(entry.value.len() + 80);
            out.extend_from_slice(b"{\"type\":\"");
            out.extend_from_slice(kind.as_bytes());
            out.extend_from_slice(b"\",\"object\":");
            object::write_into(&mut out, &entry.value, revision);
            out.extend_from_slice(b"}\n");
            return out.freeze();
        }
        if let Some(frame) = self.metadata_event(kind, entry, revision) {
            return frame;
        }
        match convert::read(&self.cx.resource, entry) {
            Ok(mut value) => {
                self.cx.state.set_revision(&mut value, revision);
                self.shaped(kind, value)
            }
            Err(e) => frame("ERROR", &e.status()),
        }
    }

    /// The frame of a metadata-only watch, cut out of the stored bytes: clients that follow every kind request these.
    fn metadata_event(&self, kind: &str, entry: &Entry, revision: Revision) -> Option<Bytes> {
        let Shape::Partial { version, .. } = self.cx.accept.shape else { return None };
        if convert::is_metadata_converted(&self.cx.resource) {
            return None;
        }
        let mut out = BytesMut::with_capacity(640);
        for text in
            ["{\"type\":\"", kind, "\",\"object\":{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/"]
        {
            out.extend_from_slice(text.as_bytes());
        }
        out.extend_from_slice(version.as_bytes());
        out.extend_from_slice(b"\",\"metadata\":");
        if !object::write_metadata_into(&mut out, &entry.value, revision) {
            return None;
        }
        out.extend_from_slice(b"}}\n");
        Some(out.freeze())
    }

    fn bookmark(&mut self, revision: Revision, end_of_initial: bool) -> Bytes {
        let resource = &self.cx.resource;
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if end_of_initial {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let object = json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata});
        self.shaped("BOOKMARK", object)
    }

    fn shaped(&mut self, kind: &str, value: Value) -> Bytes {
        let value = match self.cx.accept.shape {
            Shape::Object => value,
            Shape::Partial { version, .. } => object::partial(value, version),
            Shape::Table { version } => {
                let revision = object::meta_str(&value, "resourceVersion").to_owned();
                let first = !std::mem::replace(&mut self.columns_sent, true);
                let metadata = json!({"resourceVersion": revision});
                match table::table(&self.cx, version, metadata, std::slice::from_ref(&value), first) {
                    Ok(table) => table,
                    Err(e) => return frame("ERROR", &e.status()),
                }
            }
        };
        frame(kind, &value)
    }
}
