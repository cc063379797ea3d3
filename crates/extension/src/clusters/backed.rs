//! A client that finds served Clusters where they are stored.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response, Uri, header};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt as _;
use ironclad_admission::stored::{served_body, stored_body, stored_path};
use ironclad_runtime::Frames;
use kube::{Client, client::Body};
use tower::{BoxError, service_fn};

/// A client whose requests for Clusters go to where they are stored. Requests for other kinds are not changed.
#[must_use]
pub fn of_stored(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let path = request.uri().path_and_query().map_or("", |path| path.as_str());
            let Some(stored) = stored_path(path) else {
                let answer = client.send(request).await.map_err(BoxError::from)?;
                return Ok::<_, BoxError>(answer.map(|body| body.map_err(BoxError::from).boxed_unsync()));
            };
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok(send(&client, parts, &stored, &body).await?.map(|body| body.map_err(BoxError::from).boxed_unsync()))
        }
    });
    Client::new(service, namespace)
}

/// Sends a request for served Clusters to where they are stored; answers what is served.
pub(super) async fn send(
    client: &Client,
    parts: http::request::Parts,
    stored: &str,
    body: &[u8],
) -> Result<Response<Changed>, BoxError> {
    let is_watch =
        parts.uri.query().is_some_and(|query| query.split('&').any(|part| matches!(part, "watch=true" | "watch=1")));
    let body = if body.is_empty() { Vec::new() } else { stored_body(body) };
    // Not of the same version of HTTP: it may have come over another one.
    let mut request = Request::new(Body::from(body));
    (*request.method_mut(), *request.headers_mut()) = (parts.method, parts.headers);
    *request.uri_mut() = stored.parse::<Uri>()?;
    let headers = request.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::ACCEPT_ENCODING);
    let accept = json_only(headers);
    headers.insert(header::ACCEPT, accept);
    let mut answer = client.send(request).await?;
    answer.headers_mut().remove(header::CONTENT_LENGTH);
    let frames = is_watch && answer.status().is_success();
    Ok(answer.map(|body| Changed { body, frames: frames.then(Frames::default), whole: BytesMut::new(), ended: false }))
}

/// Those media types of a client whose content can be changed: JSON, and tables and metadata in JSON.
fn json_only(headers: &HeaderMap) -> HeaderValue {
    const JSON: &str = "application/json";
    let all = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let kept: Vec<&str> =
        all.flat_map(|value| value.split(',')).map(str::trim).filter(|media| media.starts_with(JSON)).collect();
    HeaderValue::try_from(kept.join(",")).ok().filter(|kept| !kept.is_empty()).unwrap_or(HeaderValue::from_static(JSON))
}

/// An answer about stored Clusters, as one about served ones: a watch event by event, others as a whole.
pub(super) struct Changed {
    body: Body,
    frames: Option<Frames>,
    whole: BytesMut,
    ended: bool,
}

/// The most bytes of an answer that is no watch.
const BYTES_MAX: usize = 256 << 20;

impl Changed {
    /// The next part that can be passed on.
    fn ready(&mut self) -> io::Result<Option<Bytes>> {
        let Some(frames) = &mut self.frames else {
            return Ok((self.ended && !self.whole.is_empty()).then(|| served_body(&self.whole.split()).into()));
        };
        let line = match frames.line().map_err(io::Error::other)? {
            None if self.ended => frames.rest(),
            line => line,
        };
        Ok(line.map(|line| {
            let mut line = served_body(&line);
            line.push(b'\n');
            line.into()
        }))
    }

    fn take(&mut self, part: &[u8]) -> io::Result<()> {
        match &mut self.frames {
            Some(frames) => frames.push(part),
            None if self.whole.len() + part.len() > BYTES_MAX => {
                return Err(io::Error::other(format!("an answer about Clusters has more than {BYTES_MAX} bytes")));
            }
            None => self.whole.extend_from_slice(part),
        }
        Ok(())
    }
}

impl HttpBody for Changed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            match self.ready() {
                Ok(None) if self.ended => return Poll::Ready(None),
                Ok(None) => {}
                ready => return Poll::Ready(ready.map(|part| part.map(Frame::data)).transpose()),
            }
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => self.ended = true,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(io::Error::other(error)))),
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(part) = frame.into_data()
                        && let Err(error) = self.take(&part)
                    {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_that_are_asked_of_the_store() {
        for (accept, want) in [
            ("", "application/json"),
            ("application/vnd.kubernetes.protobuf,application/json", "application/json"),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            ),
            ("*/*", "application/json"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(json_only(&headers), want, "{accept}");
        }
    }
}
