//! Answers, each with the headers that keep other pages and other types away.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use ironclad_serving::Body;
use serde_json::Value;

use crate::{assets::File, views::Failed};

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// Nothing but our own files is loaded, nothing inline runs, and nobody frames a page.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// An answer of this type.
pub(crate) fn answer(status: u16, media: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    with_body(status, media, Full::from(body.into()).map_err(|never| match never {}).boxed_unsync())
}

/// The same with a body that is there already.
pub(crate) fn with_body(status: u16, media: &'static str, body: Body) -> Response<Body> {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, media),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// A line of text.
pub(crate) fn text(status: u16, text: String) -> Response<Body> {
    let mut answer = answer(status, TEXT, text + "\n");
    if status == 405 {
        answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    answer
}

/// A file; without its content if the browser has this version.
pub(crate) fn file(file: &'static File, asked: &HeaderMap) -> Response<Body> {
    let tag = file.tag();
    let has_it = asked.get_all(header::IF_NONE_MATCH).iter().any(|known| known.as_bytes() == tag.as_bytes());
    let mut answer = match has_it {
        true => answer(304, file.media, Bytes::new()),
        false => answer(200, file.media, Bytes::from_static(file.bytes)),
    };
    let headers = answer.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    answer
}

/// A view, or why there is none.
pub(crate) fn view(found: Result<Value, Failed>) -> Response<Body> {
    match found {
        Ok(view) => answer(200, JSON, view.to_string()),
        Err(failed) => answer(failed.status, JSON, serde_json::to_string(&failed).unwrap_or_default()),
    }
}

/// Refuses a request without a session, in a way by which scripts know that users log in here. Browsers ask for nothing
/// by themselves for this scheme.
pub(crate) fn log_in_first(text: String) -> Response<Body> {
    let mut answer = self::text(401, text);
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

/// Status without a body; a browser goes on to this path.
pub(crate) fn go_on(path: &'static str) -> Response<Body> {
    let mut answer = answer(303, TEXT, "");
    answer.headers_mut().insert(header::LOCATION, HeaderValue::from_static(path));
    answer
}

/// The page at which a user logs in. It sends a form to where it came from, and nothing else.
pub(crate) fn login(status: u16, page: String) -> Response<Body> {
    const FORM: &str = "default-src 'none'; style-src 'self'; img-src 'self'; frame-ancestors 'none'; \
         base-uri 'none'; form-action 'self'";
    let mut answer = answer(status, "text/html; charset=utf-8", page);
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(FORM));
    // With `no-referrer`, browsers send `null` as the origin of a form.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    answer
}

/// Begins a session. The page itself goes on to the first one: a browser does not send a strict cookie along where
/// another page's link leads, not even behind a redirection.
pub(crate) fn begin(cookie: &str) -> Response<Body> {
    const PAGE: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Ironclad</title>\
                        <link rel=\"icon\" href=\"/files/icon.svg\">\
                        <meta http-equiv=\"refresh\" content=\"0; url=/\"></head>\
                        <body><p><a href=\"/\">Go on to the dashboard</a></p></body></html>";
    let mut answer = answer(200, "text/html; charset=utf-8", PAGE);
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    answer
}
