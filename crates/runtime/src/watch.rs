//! Watch of one kind: first all objects that there are, then every change, over any number of connections. Events are
//! framed and routed before the object in them is decoded, which happens once.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use http_body_util::BodyExt as _;
use ironclad_kinds::{Erased, Object};
use ironclad_seam::Clock;
use kube::{
    Client, Error,
    api::{ListParams, WatchParams},
    client::Body,
    core::{Request, Status},
};
use serde::Deserialize;

use crate::{
    Api, WatchScope,
    api::{self, List},
    frames::{EventType, Frame, Frames, TooLong},
};

/// Time beyond the requested end of a watch after which a silent connection is taken for dead.
const SILENCE: Duration = Duration::from_secs(5);
/// A server that begins a watch with initial events sends the next one within this time, or marks their end. One that
/// doesn't is asked for a list instead.
pub(crate) const INITIAL_EVENTS_WAIT: Duration = Duration::from_secs(10);
/// Objects in a page of a list.
const PAGE: u32 = 500;
/// Annotation of the bookmark after the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Step of a watch.
#[derive(Debug)]
pub enum Event<T> {
    /// All objects follow, one by one.
    Init,
    /// One of all objects.
    InitApply(T),
    /// All objects were sent.
    InitDone,
    /// An object was added or changed.
    Apply(T),
    /// An object was deleted.
    Delete(T),
}

/// Failure of a watch, which goes on when it is asked for the next event.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The watch or the list was refused, or not answered.
    #[error("{0}")]
    Request(#[from] Error),
    /// The server ended the watch.
    #[error("the server ended the watch: {0}")]
    Ended(Box<Status>),
    /// An event is too large.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// An event can't be read.
    #[error("an event of the watch can't be read: {0}")]
    Unreadable(#[source] serde_json::Error),
    /// An object is deleted before all objects were sent, which no server does: everything is asked for again.
    #[error("the server sends a deletion among the initial events")]
    EarlyDelete,
    /// A list or an object has no resourceVersion to go on from.
    #[error("the server sends no resourceVersion")]
    NoVersion,
}

/// Watch of a kind.
pub struct Watch<K> {
    raw: Raw,
    kind: std::marker::PhantomData<fn() -> K>,
}

impl<K: Object> Watch<K> {
    /// A watch of these objects, whose connections last as long as this number of seconds.
    #[must_use]
    pub fn new(api: &Api<K>, scope: &WatchScope, seconds: u32, clock: &Clock) -> Self {
        Self { raw: Raw::new(api, scope, seconds, clock), kind: std::marker::PhantomData }
    }

    /// The next event.
    ///
    /// # Errors
    /// If the watch broke; it goes on with the next call, which should come after a while.
    pub async fn next(&mut self) -> Result<Event<Arc<K>>, WatchError> {
        let typed = |object| ironclad_kinds::typed(object).expect("the decoder of the kind made it");
        Ok(match self.raw.next().await? {
            Event::Init => Event::Init,
            Event::InitApply(object) => Event::InitApply(typed(object)),
            Event::InitDone => Event::InitDone,
            Event::Apply(object) => Event::Apply(typed(object)),
            Event::Delete(object) => Event::Delete(typed(object)),
        })
    }
}

type Decoded = serde_json::Result<Arc<dyn Erased>>;
type Decode = fn(&[u8]) -> Decoded;

/// Watch that yields erased objects; the kind is a decoder.
pub(crate) struct Raw {
    client: Client,
    request: Request,
    only_metadata: bool,
    scope: WatchScope,
    seconds: u32,
    decode: Decode,
    clock: Clock,
    /// False once the server showed that it does not begin watches with initial events.
    streams_lists: bool,
    state: State,
}

enum State {
    /// Nothing is known.
    Empty,
    /// Pages of a list; `next` is the token of the next one, if this is not the last.
    Pages { page: VecDeque<Decoded>, version: Option<String>, next: Option<String> },
    /// Initial events of a watch.
    Initial(Connection),
    /// All events up to this version were seen.
    Seen { version: String },
    /// The same, and more arrive on this connection.
    Watching { version: String, connection: Connection },
}

/// An answer that is being read.
struct Connection {
    body: Body,
    frames: Frames,
}

/// A line of an answer, or its end.
enum Read {
    Line(bytes::Bytes),
    End,
}

impl Connection {
    async fn read(&mut self) -> Result<Read, WatchError> {
        loop {
            if let Some(line) = self.frames.line()? {
                return Ok(Read::Line(line));
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.frames.push(&data);
                    }
                }
                None => return Ok(self.frames.rest().map_or(Read::End, Read::Line)),
            }
        }
    }
}

/// Metadata that a bookmark has.
#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

pub(crate) type Step = Result<Option<Event<Arc<dyn Erased>>>, WatchError>;

impl Raw {
    pub(crate) fn new<K: Object>(api: &Api<K>, scope: &WatchScope, seconds: u32, clock: &Clock) -> Self {
        Self {
            client: api.client().clone(),
            request: api.request().clone(),
            only_metadata: api.only_metadata(),
            scope: scope.clone(),
            seconds,
            decode: K::decode_erased,
            clock: clock.clone(),
            streams_lists: true,
            state: State::Empty,
        }
    }

    /// The next event; see [`Watch::next`]. Boxed, as it would be copied into the future of each caller.
    pub(crate) fn next(&mut self) -> BoxFuture<'_, Result<Event<Arc<dyn Erased>>, WatchError>> {
        Box::pin(async move {
            loop {
                if let Some(event) = self.go_on().await? {
                    return Ok(event);
                }
            }
        })
    }

    /// One step: a request, or a line of an answer, which may be an event. Boxed as [`Raw::next`].
    pub(crate) fn step(&mut self) -> BoxFuture<'_, Step> {
        Box::pin(self.go_on())
    }

    /// True while events arrive as they happen.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Watching { .. })
    }

    /// On an error the state is the one to go on from: one object that can't be read does not keep the others away.
    async fn go_on(&mut self) -> Step {
        match std::mem::replace(&mut self.state, State::Empty) {
            State::Empty if self.streams_lists => match self.connect("0", true).await {
                Ok(connection) => {
                    self.state = State::Initial(connection);
                    Ok(Some(Event::Init))
                }
                // Kubernetes before 1.34, or with the gate WatchList off. It is not asked again.
                Err(error) if refuses_streaming_list(&error) => {
                    self.streams_lists = false;
                    Ok(None)
                }
                Err(error) => Err(error.into()),
            },
            State::Empty => {
                self.state = State::Pages { page: VecDeque::new(), version: None, next: None };
                Ok(Some(Event::Init))
            }
            State::Pages { mut page, version, next } => {
                if let Some(object) = page.pop_front() {
                    self.state = State::Pages { page, version, next };
                    return object.map(Event::InitApply).map(Some).map_err(WatchError::Unreadable);
                }
                match version {
                    Some(version) if next.is_none() => {
                        self.state = State::Seen { version };
                        Ok(Some(Event::InitDone))
                    }
                    _ => self.page(next).await,
                }
            }
            State::Initial(connection) => self.initial(connection).await,
            State::Seen { version } => match self.connect(&version, false).await {
                Ok(connection) => {
                    self.state = State::Watching { version, connection };
                    Ok(None)
                }
                Err(error) => {
                    // The version is too old: everything is listed again.
                    if !matches!(&error, Error::Api(status) if status.code == http::StatusCode::GONE.as_u16()) {
                        self.state = State::Seen { version };
                    }
                    Err(error.into())
                }
            },
            State::Watching { version, connection } => self.watching(version, connection).await,
        }
    }

    /// Reads a page of a list.
    async fn page(&mut self, token: Option<String>) -> Step {
        let params = ListParams {
            label_selector: self.scope.labels.clone(),
            field_selector: self.scope.fields.clone(),
            limit: Some(PAGE),
            continue_token: token,
            ..ListParams::default()
        };
        let request = match self.only_metadata {
            true => self.request.list_metadata(&params),
            false => self.request.list(&params),
        };
        let answer = api::call(&self.client, request).await?;
        let list = List::read(&answer)?;
        let page = list.items().map(self.decode).collect();
        let of = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (version, next) = (of(list.metadata.resource_version), of(list.metadata.continue_));
        if version.is_none() && next.is_none() {
            return Err(WatchError::NoVersion);
        }
        self.state = State::Pages { page, version, next };
        Ok(None)
    }

    async fn initial(&mut self, mut connection: Connection) -> Step {
        let clock = self.clock.clone();
        let line = tokio::select! {
            biased;
            read = connection.read() => read?,
            () = clock.sleep(INITIAL_EVENTS_WAIT) => {
                // Kubernetes before 1.27 ignores the request for initial events, as others may do.
                tracing::debug!(url = self.request.url_path, "the server does not end its initial events: it is asked for a list");
                self.streams_lists = false;
                return Ok(None);
            }
        };
        let Read::Line(line) = line else { return Ok(None) };
        let frame = match Frame::read(&line) {
            Ok(frame) => frame,
            // A connection that ended within a line.
            Err(error) if error.is_eof() => return Ok(None),
            Err(error) => return Err(WatchError::Unreadable(error)),
        };
        match frame.event {
            EventType::Applied => {
                let object = frame.decode(self.decode);
                self.state = State::Initial(connection);
                object.map(Event::InitApply).map(Some).map_err(WatchError::Unreadable)
            }
            EventType::Bookmark => {
                let bookmark = bookmark(&frame)?;
                if !bookmark.annotations.is_some_and(|all| all.contains_key(INITIAL_EVENTS_END)) {
                    self.state = State::Initial(connection);
                    return Ok(None);
                }
                self.state = State::Watching { version: bookmark.resource_version, connection };
                Ok(Some(Event::InitDone))
            }
            EventType::Deleted => Err(WatchError::EarlyDelete),
            EventType::Error => Err(ended(&frame)),
        }
    }

    async fn watching(&mut self, version: String, mut connection: Connection) -> Step {
        let (clock, silence) = (self.clock.clone(), Duration::from_secs(u64::from(self.seconds)) + SILENCE);
        let read = tokio::select! {
            biased;
            read = connection.read() => read,
            () = clock.sleep(silence) => {
                tracing::debug!(url = self.request.url_path, "a silent watch is begun anew");
                Ok(Read::End)
            }
        };
        let line = match read {
            Ok(Read::Line(line)) => line,
            Ok(Read::End) => {
                self.state = State::Seen { version };
                return Ok(None);
            }
            Err(error) => {
                self.state = State::Seen { version };
                return Err(error);
            }
        };
        let frame = match Frame::read(&line) {
            Ok(frame) => frame,
            Err(error) => {
                self.state = State::Seen { version };
                // A connection that ended within a line.
                return if error.is_eof() { Ok(None) } else { Err(WatchError::Unreadable(error)) };
            }
        };
        match frame.event {
            EventType::Applied | EventType::Deleted => {}
            EventType::Bookmark => {
                self.state = State::Watching { version: bookmark(&frame)?.resource_version, connection };
                return Ok(None);
            }
            EventType::Error => {
                let error = ended(&frame);
                let is_gone = |status: &Status| status.code == http::StatusCode::GONE.as_u16();
                if !matches!(&error, WatchError::Ended(status) if is_gone(status)) {
                    self.state = State::Seen { version };
                }
                return Err(error);
            }
        }
        let object = match frame.decode(self.decode) {
            Ok(object) => object,
            Err(error) => {
                self.state = State::Watching { version, connection };
                return Err(WatchError::Unreadable(error));
            }
        };
        let version = object.meta().resource_version.clone().filter(|version| !version.is_empty());
        let version = version.ok_or(WatchError::NoVersion)?;
        self.state = State::Watching { version, connection };
        Ok(Some(if frame.event == EventType::Deleted { Event::Delete(object) } else { Event::Apply(object) }))
    }

    /// Begins a watch after this version; with all objects first if `all`.
    async fn connect(&mut self, version: &str, all: bool) -> Result<Connection, Error> {
        let params = WatchParams {
            label_selector: self.scope.labels.clone(),
            field_selector: self.scope.fields.clone(),
            timeout: Some(self.seconds),
            bookmarks: true,
            send_initial_events: all,
        };
        let request = match self.only_metadata {
            true => self.request.watch_metadata(&params, version),
            false => self.request.watch(&params, version),
        };
        let response = api::open(&self.client, request).await?;
        Ok(Connection { body: response.into_body(), frames: Frames::default() })
    }
}

fn bookmark(frame: &Frame<'_>) -> Result<BookmarkMeta, WatchError> {
    let bookmark: Bookmark = frame.decode(serde_json::from_slice).map_err(WatchError::Unreadable)?;
    Ok(bookmark.metadata)
}

/// The Status with which a server ends a watch.
fn ended(frame: &Frame<'_>) -> WatchError {
    let status = frame.decode(serde_json::from_slice);
    status.map_or_else(WatchError::Unreadable, |status| WatchError::Ended(Box::new(status)))
}

/// True if the server refuses to send the initial list as events of a watch: it knows the request and refuses it, or,
/// before 1.27, knows only the parameter that comes with it.
fn refuses_streaming_list(error: &Error) -> bool {
    let Error::Api(status) = error else { return false };
    status.code == http::StatusCode::UNPROCESSABLE_ENTITY.as_u16()
        && ["sendInitialEvents", "resourceVersionMatch"].iter().any(|parameter| status.message.contains(parameter))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use futures::{StreamExt as _, TryStreamExt as _};
    use http::{Response, StatusCode};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use serde_json::json;
    use tower::{BoxError, service_fn};

    use super::*;

    /// Answer to one request for a watch.
    #[derive(Clone)]
    enum Answer {
        /// These chunks, and then the end.
        Ends(Vec<String>),
        /// These chunks, and then nothing more.
        Stays(Vec<String>),
        /// These chunks, and then a broken connection.
        Breaks(Vec<String>),
        /// A refusal.
        Refused(StatusCode),
    }

    fn event(event: &str, name: &str, version: u32) -> String {
        let metadata = json!({"name": name, "namespace": "n", "uid": name, "resourceVersion": version.to_string()});
        format!(
            "{}\n",
            json!({"type": event, "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}})
        )
    }

    fn bookmark(version: u32, is_end: bool) -> String {
        let annotations = if is_end { json!({INITIAL_EVENTS_END: "true"}) } else { json!({}) };
        let metadata = json!({"resourceVersion": version.to_string(), "annotations": annotations});
        format!("{}\n", json!({"type": "BOOKMARK", "object": {"kind": "ConfigMap", "metadata": metadata}}))
    }

    fn error(code: u16) -> String {
        format!("{}\n", json!({"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "on purpose"}}))
    }

    /// The steps of a watch over these answers, one a connection, until it waits or this many were seen.
    async fn steps(answers: Vec<Answer>, most: usize) -> Vec<String> {
        let asked = Arc::new(AtomicUsize::new(0));
        let versions: Arc<parking_lot::Mutex<Vec<String>>> = Arc::default();
        let seen = versions.clone();
        let service = service_fn(move |request: http::Request<Body>| {
            let answer = answers.get(asked.fetch_add(1, Ordering::Relaxed)).cloned();
            let query = request.uri().query().unwrap_or_default();
            let version = query.split('&').find_map(|part| part.strip_prefix("resourceVersion="));
            seen.lock().push(version.unwrap_or("none").to_owned());
            async move {
                let chunks =
                    |all: Vec<String>| futures::stream::iter(all.into_iter().map(|text| Ok(Bytes::from(text))));
                let broken = || futures::stream::iter([Err::<Bytes, BoxError>("broken".into())]);
                let (code, body) = match answer {
                    Some(Answer::Ends(all)) => (StatusCode::OK, chunks(all).boxed()),
                    Some(Answer::Stays(all)) => (StatusCode::OK, chunks(all).chain(futures::stream::pending()).boxed()),
                    Some(Answer::Breaks(all)) => (StatusCode::OK, chunks(all).chain(broken()).boxed()),
                    Some(Answer::Refused(code)) => (code, chunks(vec!["no".to_owned()]).boxed()),
                    None => (StatusCode::OK, futures::stream::pending().boxed()),
                };
                Response::builder().status(code).body(StreamBody::new(body.map_ok(Frame::data))).map_err(BoxError::from)
            }
        });
        let api: Api<ConfigMap> = Api::all(Client::new(service, "default"));
        let mut watch = Watch::new(&api, &WatchScope::default(), 30, &Clock::system());
        let mut steps = Vec::new();
        while steps.len() < most {
            let name = |object: &ConfigMap| object.metadata.name.clone().unwrap_or_default();
            let next = tokio::time::timeout(Duration::from_secs(5), watch.next()).await;
            steps.push(match next {
                Err(_) => break,
                Ok(Ok(Event::Init)) => "all".to_owned(),
                Ok(Ok(Event::InitApply(object))) => format!("is {}", name(&object)),
                Ok(Ok(Event::InitDone)) => "done".to_owned(),
                Ok(Ok(Event::Apply(object))) => format!("set {}", name(&object)),
                Ok(Ok(Event::Delete(object))) => format!("gone {}", name(&object)),
                Ok(Err(_)) => "error".to_owned(),
            });
        }
        steps.push(format!("from {}", versions.lock().join(",")));
        steps
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_goes_on_from_what_it_saw() {
        let all = || vec![event("ADDED", "a", 1), bookmark(2, true)];
        let with = |more: &[String]| [&all()[..], more].concat();
        let set = |name: &str, version| event("MODIFIED", name, version);
        let unreadable = r#"{"type":"ADDED","object":{"metadata":{"name":1}}}"#.to_owned() + "\n";
        let truncated = set("b", 3)[..40].to_owned();
        let html = "<html>502</html>\n".to_owned();
        let rows: [(&str, Vec<Answer>, &[&str]); 11] = [
            (
                "events",
                vec![Answer::Stays(with(&[set("b", 3), event("DELETED", "b", 4)]))],
                &["set b", "gone b", "from 0"],
            ),
            (
                "the end of a connection",
                vec![Answer::Ends(with(&[set("b", 3)])), Answer::Stays(vec![set("c", 4)])],
                &["set b", "set c", "from 0,3"],
            ),
            (
                "a bookmark before it",
                vec![Answer::Ends(with(&[bookmark(9, false)])), Answer::Stays(vec![set("c", 10)])],
                &["set c", "from 0,9"],
            ),
            (
                "a broken connection",
                vec![Answer::Breaks(with(&[set("b", 3)])), Answer::Stays(vec![set("c", 4)])],
                &["set b", "error", "set c", "from 0,3"],
            ),
            (
                "an end within a line",
                vec![Answer::Ends(with(&[truncated])), Answer::Stays(vec![set("c", 4)])],
                &["set c", "from 0,2"],
            ),
            (
                "a page of HTML",
                vec![Answer::Stays(with(&[html])), Answer::Stays(vec![set("c", 4)])],
                &["error", "set c", "from 0,2"],
            ),
            (
                "an object that can't be read",
                vec![Answer::Stays(with(&[unreadable, set("c", 4)]))],
                &["error", "set c", "from 0"],
            ),
            (
                "a version that is too old",
                vec![Answer::Ends(all()), Answer::Ends(vec![error(410)]), Answer::Stays(all())],
                &["error", "all", "is a", "done", "from 0,2,0"],
            ),
            (
                "the same before the watch begins",
                vec![Answer::Ends(all()), Answer::Refused(StatusCode::GONE), Answer::Stays(all())],
                &["error", "all", "is a", "done", "from 0,2,0"],
            ),
            (
                "another error",
                vec![Answer::Ends(with(&[error(500)])), Answer::Stays(vec![set("c", 4)])],
                &["error", "set c", "from 0,2"],
            ),
            (
                "a server that can't answer",
                vec![
                    Answer::Ends(all()),
                    Answer::Refused(StatusCode::SERVICE_UNAVAILABLE),
                    Answer::Stays(vec![set("c", 4)]),
                ],
                &["error", "set c", "from 0,2,2"],
            ),
        ];
        for (name, answers, want) in rows {
            let got = steps(answers, 20).await;
            assert_eq!(got[..3], ["all", "is a", "done"], "{name}");
            assert_eq!(got[3..], *want, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn initial_events_that_break_off_begin_again() {
        let first = || vec![event("ADDED", "a", 1)];
        let whole = || Answer::Stays(vec![event("ADDED", "a", 1), bookmark(2, true)]);
        let again: &[&str] = &["all", "is a", "all", "is a", "done", "from 0,0"];
        let failed: &[&str] = &["all", "is a", "error", "all", "is a", "done", "from 0,0"];
        for (name, answer, want) in [
            ("an end", Answer::Ends(first()), again),
            ("a broken connection", Answer::Breaks(first()), failed),
            ("an error", Answer::Ends([first(), vec![error(500)]].concat()), failed),
            ("a deletion", Answer::Stays([first(), vec![event("DELETED", "a", 2)]].concat()), failed),
        ] {
            assert_eq!(steps(vec![answer, whole()], 20).await, want, "{name}");
        }
    }

    /// An object of a list that can't be read does not keep the others of its page away.
    #[tokio::test(start_paused = true)]
    async fn a_page_is_read_up_to_its_end() {
        let service = service_fn(|request: http::Request<Body>| async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let item = |name: serde_json::Value| json!({"metadata": {"name": name, "resourceVersion": "1"}});
            let list = json!({"metadata": {"resourceVersion": "2"}, "items": [item(json!(1)), item(json!("a"))]});
            let refusal = json!({"kind": "Status", "code": 422, "message": "sendInitialEvents: Forbidden"});
            let (code, text) = if is_watch { (422, refusal) } else { (200, list) };
            let body = futures::stream::iter([Ok::<_, BoxError>(Frame::data(Bytes::from(text.to_string())))]);
            Response::builder().status(code).body(StreamBody::new(body)).map_err(BoxError::from)
        });
        let api: Api<ConfigMap> = Api::all(Client::new(service, "default"));
        let mut watch = Watch::new(&api, &WatchScope::default(), 30, &Clock::system());
        assert!(matches!(watch.next().await, Ok(Event::Init)));
        assert!(matches!(watch.next().await, Err(WatchError::Unreadable(_))));
        assert!(
            matches!(watch.next().await, Ok(Event::InitApply(object)) if object.metadata.name.as_deref() == Some("a"))
        );
        assert!(matches!(watch.next().await, Ok(Event::InitDone)));
    }

    /// Nothing arrives on a connection whose end got lost: it is begun anew, from the last version.
    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_given_up() {
        let service = service_fn(|request: http::Request<Body>| async move {
            let is_first = request.uri().query().is_some_and(|query| query.contains("sendInitialEvents"));
            let text = if is_first { bookmark(2, true) } else { event("MODIFIED", "b", 3) };
            let body = futures::stream::iter([Ok::<_, BoxError>(Bytes::from(text))]).chain(futures::stream::pending());
            Response::builder().body(StreamBody::new(body.map_ok(Frame::data))).map_err(BoxError::from)
        });
        let api: Api<ConfigMap> = Api::all(Client::new(service, "default"));
        let mut watch = Watch::new(&api, &WatchScope::default(), 30, &Clock::system());
        assert!(matches!(watch.next().await, Ok(Event::Init)) && matches!(watch.next().await, Ok(Event::InitDone)));
        let next = tokio::time::timeout(Duration::from_secs(36), watch.next()).await;
        assert!(matches!(next, Ok(Ok(Event::Apply(object))) if object.metadata.name.as_deref() == Some("b")));
    }
}
