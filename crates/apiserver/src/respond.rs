//! Answers: bytes with the headers that clients read, in the requested shape (specification/apiserver.md 1, 2).

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use ironclad_store::{Entry, Revision};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::{
    answer_budget::BudgetPermit,
    context::Cx,
    conversion, convert,
    negotiate::{self, Format, Shape},
    object,
    request::Query,
    status::ApiError,
    table,
};

/// The body of an answer: bytes at once, or the frames of a watch as they come.
pub struct ResponseBody {
    inner: Inner,
    /// Returned when the body was sent.
    permit: Option<BudgetPermit>,
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseBody").field("bytes", &self.bytes().map(Bytes::len)).finish_non_exhaustive()
    }
}

/// The most bytes of a frame of a body that is there as a whole.
const PIECE_BYTES: usize = 256 * 1024;

enum Inner {
    Boxed(Pin<Box<dyn Body<Data = Bytes, Error = io::Error> + Send>>),
    Full(Bytes),
    Stream { frames: mpsc::Receiver<StreamFrame>, ended: bool },
}

/// The sender of a watch's frames.
#[derive(Debug)]
pub(crate) enum StreamFrame {
    Data {
        bytes: Bytes,
        /// Permit for its bytes, returned when the frame is read.
        _room: OwnedSemaphorePermit,
    },
    /// The clean end; a channel that closes without it was cut off.
    End,
}

impl ResponseBody {
    fn of(inner: Inner) -> Self {
        Self { inner, permit: None }
    }

    /// Keeps this permit until the body was sent, as far as the body needs it.
    pub(crate) fn hold(&mut self, mut permit: BudgetPermit) {
        if let Some(bytes) = self.bytes() {
            permit.shrink(bytes.len());
        }
        self.permit = Some(permit);
    }

    /// A body that is there as a whole.
    #[must_use]
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self::of(Inner::Full(bytes.into()))
    }

    /// The body of a route's answer.
    pub fn boxed<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self::of(Inner::Boxed(Box::pin(http_body_util::BodyExt::map_err(body, io::Error::other))))
    }

    pub(crate) fn stream(frames: mpsc::Receiver<StreamFrame>) -> Self {
        Self::of(Inner::Stream { frames, ended: false })
    }

    /// True for the body of a watch.
    pub(crate) fn is_watch(&self) -> bool {
        matches!(self.inner, Inner::Stream { .. })
    }

    /// The bytes of a body that is there as a whole; `None` for a stream.
    #[must_use]
    pub fn bytes(&self) -> Option<&Bytes> {
        match &self.inner {
            Inner::Full(bytes) => Some(bytes),
            Inner::Boxed(_) | Inner::Stream { .. } => None,
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut self.inner {
            Inner::Boxed(body) => body.as_mut().poll_frame(cx),
            Inner::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            // In pieces, so that a connection shows how far its reader is.
            Inner::Full(bytes) => {
                let piece = bytes.split_to(bytes.len().min(PIECE_BYTES));
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Inner::Stream { ended: true, .. } => Poll::Ready(None),
            Inner::Stream { frames, ended } => frames.poll_recv(cx).map(|frame| match frame {
                Some(StreamFrame::Data { bytes, .. }) => Some(Ok(Frame::data(bytes))),
                Some(StreamFrame::End) => {
                    *ended = true;
                    None
                }
                None => {
                    *ended = true;
                    Some(Err(io::Error::new(io::ErrorKind::ConnectionReset, "the server ended before the watch did")))
                }
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Boxed(body) => body.is_end_stream(),
            Inner::Full(bytes) => bytes.is_empty(),
            Inner::Stream { ended, .. } => *ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Boxed(body) => body.size_hint(),
            Inner::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Inner::Stream { .. } => SizeHint::default(),
        }
    }
}

/// The answer type of the server.
pub(crate) type Reply = Response<ResponseBody>;

/// An answer of this code and type.
pub(crate) fn reply(code: u16, content_type: &str, body: impl Into<Bytes>) -> Reply {
    let mut response = Response::new(ResponseBody::full(body));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Ok(value) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}

/// Plain text.
pub(crate) fn text(code: u16, body: impl Into<Bytes>) -> Reply {
    reply(code, "text/plain; charset=utf-8", body)
}

/// The answer for an unknown path.
pub(crate) fn page_not_found() -> Reply {
    let mut response = text(404, "404 page not found\n");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A JSON answer, compact and ended by a newline.
pub(crate) fn json(code: u16, value: &Value) -> Reply {
    let mut body = serde_json::to_vec(value).expect("a JSON value always serialises into memory");
    body.push(b'\n');
    reply(code, "application/json", body)
}

/// An error's Status.
pub(crate) fn error(error: &ApiError) -> Reply {
    let mut response = json(error.code, &error.status());
    if matches!(error.code, 429 | 503 | 504) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// An error's Status in an accepted media type, or else as indented JSON.
pub(crate) fn error_for(request: &http::HeaderMap, pretty: bool, error: &ApiError) -> Reply {
    let accept = request.get(header::ACCEPT).and_then(|v| v.to_str().ok());
    let plain = self::error(error);
    let (body, media) = match negotiate::plain(accept) {
        Some(Format::Json) if !pretty => return plain,
        Some(Format::Yaml) => (serde_saphyr::to_string(&error.status()).ok(), "application/yaml"),
        Some(Format::Json) | None => {
            (serde_json::to_string_pretty(&error.status()).ok().map(|t| t + "\n"), "application/json")
        }
    };
    let Some(body) = body else { return plain };
    let mut reply = plain;
    *reply.body_mut() = ResponseBody::full(body);
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    reply
}

/// True if JSON is to be indented: on request, or for tools that people read.
pub(crate) fn is_pretty(query: &Query, request: &http::HeaderMap) -> bool {
    let agent = request.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    match query.get("pretty") {
        Some(value) => value == "true" || value == "1",
        None => ["curl", "Wget", "Mozilla/5.0"].iter().any(|p| agent.starts_with(p)),
    }
}

/// A value in the requested format and layout.
pub(crate) fn formatted(cx: &Cx, code: u16, value: &Value) -> Reply {
    if cx.accept.format == Format::Yaml {
        return match serde_saphyr::to_string(value) {
            Ok(text) => reply(code, "application/yaml", text),
            Err(e) => error(&ApiError::internal(e)),
        };
    }
    if cx.pretty {
        let mut body = serde_json::to_vec_pretty(value).expect("a JSON value always serialises into memory");
        body.push(b'\n');
        return reply(code, "application/json", body);
    }
    json(code, value)
}

/// One stored object.
pub(crate) fn stored(cx: &Cx, code: u16, entry: &Entry) -> Result<Reply, ApiError> {
    if cx.accept.shape == Shape::Object && cx.plain_json() && !convert::needed(&cx.resource, entry) {
        let mut out = BytesMut::with_capacity(entry.value.len() + 64);
        object::write_into(&mut out, &entry.value, entry.modified);
        out.extend_from_slice(b"\n");
        return Ok(reply(code, "application/json", out.freeze()));
    }
    object(cx, code, convert::read(&cx.resource, entry)?)
}

/// One object in the request's version.
pub(crate) fn object(cx: &Cx, code: u16, value: Value) -> Result<Reply, ApiError> {
    let value = match cx.accept.shape {
        Shape::Object => value,
        Shape::Table { version } => {
            let revision = object::meta_str(&value, "resourceVersion").to_owned();
            let metadata = json!({"resourceVersion": revision});
            table::table(cx, version, metadata, std::slice::from_ref(&value), true)?
        }
        Shape::Partial { version, list: false } => object::partial(value, version),
        Shape::Partial { list: true, .. } => {
            return Err(ApiError::not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{}.{})",
                if cx.resource.group.is_empty() { "core" } else { &cx.resource.group },
                cx.resource.kind
            )));
        }
    };
    Ok(formatted(cx, code, &value))
}

/// The metadata of a list.
pub(crate) struct ListMeta {
    pub(crate) revision: Revision,
    pub(crate) next: Option<String>,
    pub(crate) remaining: Option<u64>,
}

impl ListMeta {
    pub(crate) fn value(&self, custom: bool) -> Value {
        let mut out = json!({"resourceVersion": self.revision.to_string()});
        match &self.next {
            Some(next) => out["continue"] = json!(next),
            None if custom => out["continue"] = json!(""),
            None => {}
        }
        if let Some(remaining) = self.remaining {
            out["remainingItemCount"] = json!(remaining);
        }
        out
    }
}

/// Decoded objects take so many times the memory of their text.
const DECODED: usize = 8;
/// The most objects of a table or of a list of metadata that are decoded at once.
const PIECE_OBJECTS: usize = 200;
/// Bytes of objects that are decoded until other tasks of the worker run.
const YIELD_BYTES: usize = 256 * 1024;

/// Lets other tasks of the worker run now and then, while many objects are decoded.
#[derive(Debug, Default)]
pub(crate) struct Pauses(usize);

impl Pauses {
    /// After this many bytes were decoded.
    pub(crate) async fn after(&mut self, bytes: usize) {
        self.0 += bytes;
        if self.0 >= YIELD_BYTES {
            self.0 = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// A list of stored objects.
pub(crate) async fn list(cx: &Cx, entries: &[Entry], meta: &ListMeta) -> Result<Reply, ApiError> {
    let resource = &cx.resource;
    if let Shape::Partial { list: false, .. } = cx.accept.shape {
        return Err(ApiError::not_acceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list (*{}.{})",
            if resource.group.is_empty() { "core" } else { &resource.group },
            resource.list_kind
        )));
    }
    let bytes: usize = entries.iter().map(|e| e.value.len() + 48).sum();
    let as_stored =
        cx.accept.shape == Shape::Object && cx.plain_json() && !entries.iter().any(|e| convert::needed(resource, e));
    let decoded_at_once = match cx.accept.shape {
        _ if as_stored => 0,
        Shape::Object => bytes,
        Shape::Table { .. } | Shape::Partial { .. } => entries
            .chunks(PIECE_OBJECTS)
            .map(|piece| piece.iter().map(|e| e.value.len()).sum::<usize>())
            .max()
            .unwrap_or(0),
    };
    let permit = cx.answer_permit(bytes + DECODED * decoded_at_once).await?;
    let metadata = meta.value(resource.custom().is_some() && !matches!(cx.accept.shape, Shape::Table { .. }));
    let mut reply = if as_stored {
        stored_list(cx, entries, &metadata, bytes)
    } else {
        formatted(cx, 200, &decoded_list(cx, entries, metadata).await?)
    };
    if let Some(permit) = permit {
        reply.body_mut().hold(permit);
    }
    Ok(reply)
}

/// A list of objects as they are stored.
fn stored_list(cx: &Cx, entries: &[Entry], metadata: &Value, bytes: usize) -> Reply {
    let resource = &cx.resource;
    let mut out = BytesMut::with_capacity(bytes + 256);
    out.extend_from_slice(
        format!(
            "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
            json!(resource.list_kind),
            json!(resource.api_version())
        )
        .as_bytes(),
    );
    for (i, entry) in entries.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(b",");
        }
        object::write_into(&mut out, &entry.value, entry.modified);
    }
    out.extend_from_slice(b"]}\n");
    reply(200, "application/json", out.freeze())
}

/// A list of objects in the requested shape. Whole objects are needed of a piece at a time only.
async fn decoded_list(cx: &Cx, entries: &[Entry], metadata: Value) -> Result<Value, ApiError> {
    let resource = &cx.resource;
    let mut pauses = Pauses::default();
    let mut list = match cx.accept.shape {
        Shape::Object => json!({
            "kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": metadata, "items": [],
        }),
        Shape::Table { version } => table::table(cx, version, metadata, &[], true)?,
        Shape::Partial { version, .. } => json!({
            "kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{version}"),
            "metadata": metadata, "items": [],
        }),
    };
    let mut items: Vec<Value> = Vec::with_capacity(entries.len());
    for piece in entries.chunks(PIECE_OBJECTS) {
        let mut objects: Vec<Value> = Vec::with_capacity(piece.len());
        for entry in piece {
            objects.extend(conversion::read_or_skip(cx, &resource.plural, entry));
            pauses.after(entry.value.len()).await;
        }
        match cx.accept.shape {
            Shape::Object => items.append(&mut objects),
            Shape::Table { version } => {
                if let Value::Array(mut rows) = table::table(cx, version, Value::Null, &objects, false)?["rows"].take()
                {
                    items.append(&mut rows);
                }
            }
            Shape::Partial { version, .. } => {
                items.extend(objects.into_iter().map(|object| object::partial(object, version)));
            }
        }
    }
    list[if matches!(cx.accept.shape, Shape::Table { .. }) { "rows" } else { "items" }] = Value::Array(items);
    Ok(list)
}

/// Answers from this size on are compressed for clients that accept it.
const COMPRESS_FROM: usize = 128 * 1024;

/// Compresses a large answer if the client accepts gzip. Other tasks of the worker run in between.
pub(crate) async fn compress(request: &http::HeaderMap, reply: &mut Reply) {
    use std::io::Write;
    let accepts = request
        .get(header::ACCEPT_ENCODING)
        .and_then(|v| v.to_str().ok())
        .is_some_and(|v| v.split(',').any(|e| e.trim().split(';').next() == Some("gzip")));
    let Some(bytes) = reply.body().bytes().filter(|b| accepts && b.len() >= COMPRESS_FROM).cloned() else { return };
    if reply.headers().contains_key(header::CONTENT_ENCODING) {
        return;
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::with_capacity(bytes.len() / 8), flate2::Compression::fast());
    let mut pauses = Pauses::default();
    for piece in bytes.chunks(PIECE_BYTES) {
        if encoder.write_all(piece).is_err() {
            return;
        }
        pauses.after(piece.len()).await;
    }
    let Ok(packed) = encoder.finish() else { return };
    let permit = reply.body_mut().permit.take();
    *reply.body_mut() = ResponseBody::full(packed);
    if let Some(permit) = permit {
        reply.body_mut().hold(permit);
    }
    reply.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    reply.headers_mut().append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
}
