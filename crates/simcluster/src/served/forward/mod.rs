//! `port-forward`: SPDY/3.1 in a WebSocket, as kubectl sends it, or on the connection itself, as older clients do
//! (decision 240).

mod answer;
mod frames;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderName, HeaderValue, Request, Response, header};
use ironclad_apiserver::{ApiError, RequestBody, ResponseBody, Upgrade};
use ironclad_kubecontrollers::{Cluster, PODS, pods::phase};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::{
    self, Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use self::{
    answer::{Answer, Ports},
    frames::{Broken, Decoder, Encoder, Frame, reason},
};
use super::streams::{Io, facts, socket, websocket};

/// Subprotocol of a WebSocket that carries the frames.
const TUNNELED: &str = "SPDY/3.1+portforward.k8s.io";
/// Protocol of a connection that carries them itself.
const PLAIN: &str = "SPDY/3.1";
const VERSION: &str = "portforward.k8s.io";
const VERSION_HEADER: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// The most forwarded connections at a time over one of a client; each has two streams.
const FORWARDED_MAX: usize = 128;
/// Bytes that are read at a time.
const READ: usize = 32 << 10;

/// Answers a request to forward ports to a Pod.
pub(super) fn open(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    mut request: Request<RequestBody>,
) -> Result<Response<ResponseBody>, ApiError> {
    let pod = cluster.caches.take(&PODS).get(namespace, name).ok_or_else(|| ApiError::not_found("pods", "", name))?;
    if phase(&pod) != "Running" {
        let why = format!("unable to forward port because pod is not running. Current status={}", phase(&pod));
        return Err(ApiError::bad_request(why));
    }
    let ports = Ports::of(&pod, |container| facts(cluster, &pod, container).shown());
    let session = Session::new(ports);
    let headers = request.headers();
    if let Some((protocol, key)) = websocket(headers, &[TUNNELED]) {
        let upgrade = Upgrade::of(&mut request)?;
        let mut switching = upgrade.switch(HeaderValue::from_static("websocket"), move |io| tunneled(session, io));
        switching.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        switching.headers_mut().insert(header::SEC_WEBSOCKET_ACCEPT, key);
        return Ok(switching);
    }
    let asked = headers.get(header::UPGRADE).map(HeaderValue::as_bytes);
    let is_plain = asked.is_some_and(|asked| asked.eq_ignore_ascii_case(PLAIN.as_bytes()));
    let versions = headers.get_all(VERSION_HEADER).iter().filter_map(|value| value.to_str().ok());
    let knows = versions.flat_map(|value| value.split(',')).any(|version| version.trim() == VERSION);
    if !is_plain || !knows {
        return Err(ApiError::bad_request(format!(
            "ports are forwarded over WebSocket with the subprotocol {TUNNELED}, or over {PLAIN} with the header \
             X-Stream-Protocol-Version: {VERSION}: use kubectl port-forward"
        )));
    }
    let upgrade = Upgrade::of(&mut request)?;
    let mut switching = upgrade.switch(HeaderValue::from_static(PLAIN), move |io| plain(session, io));
    switching.headers_mut().insert(VERSION_HEADER, HeaderValue::from_static(VERSION));
    Ok(switching)
}

async fn tunneled(mut session: Session, io: Io) {
    let mut socket = socket(io).await;
    let talk = async {
        while let Some(message) = socket.next().await {
            let data = match message? {
                Message::Binary(data) => data,
                Message::Close(_) => break,
                _ => continue,
            };
            match session.take(&data) {
                Ok(out) if out.is_empty() => {}
                Ok(out) => socket.send(Message::Binary(out.into())).await?,
                Err(error) => {
                    let reason = error.to_string().into();
                    return socket.close(Some(CloseFrame { code: CloseCode::Protocol, reason })).await;
                }
            }
        }
        socket.close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() })).await
    };
    match talk.await {
        Ok(()) | Err(tungstenite::Error::ConnectionClosed) => {}
        Err(error) => tracing::debug!(%error, "a connection with forwarded ports ended"),
    }
}

async fn plain(mut session: Session, mut io: Io) {
    let talk = async {
        let mut buffer = vec![0; READ];
        loop {
            let read = io.read(&mut buffer).await?;
            if read == 0 {
                return io.shutdown().await;
            }
            let out = session.take(&buffer[..read]).map_err(std::io::Error::other)?;
            io.write_all(&out).await?;
            io.flush().await?;
        }
    };
    if let Err(error) = talk.await {
        tracing::debug!(%error, "a connection with forwarded ports ended");
    }
}

/// One connection of a client, without its IO.
struct Session {
    decoder: Decoder,
    encoder: Encoder,
    ports: Ports,
    /// Highest stream that the client opened: it uses each number once.
    highest: u32,
    /// Forwarded connections, by the client's number of each.
    forwarded: BTreeMap<String, Forwarded>,
}

/// A connection to a port: a stream with its bytes, and one that tells why it could not be made.
#[derive(Default)]
struct Forwarded {
    errors: Option<u32>,
    data: Option<u32>,
    port: u16,
    /// Once there are both.
    answer: Option<Answer>,
}

impl Session {
    fn new(ports: Ports) -> Self {
        Self { decoder: Decoder::new(), encoder: Encoder::default(), ports, highest: 0, forwarded: BTreeMap::new() }
    }

    /// Takes bytes of the client, and returns those to send to it.
    fn take(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Broken> {
        self.decoder.push(bytes);
        let mut out = Vec::new();
        while let Some(frame) = self.decoder.next()? {
            match frame {
                Frame::Open { stream, headers, .. } => self.open(stream, &headers, &mut out),
                Frame::Data { stream, data, last } => self.data(stream, &data, last, &mut out),
                Frame::Reset { stream } => self.end(stream, &mut out),
                // Even numbers are answers to a server's.
                Frame::Ping { id } if id % 2 == 1 => frames::ping(id, &mut out),
                Frame::Ping { .. } => {}
            }
        }
        Ok(out)
    }

    fn open(&mut self, stream: u32, headers: &[(String, String)], out: &mut Vec<u8>) {
        let header = |name: &str| headers.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str());
        let (kind, request, port) = (header("streamtype"), header("requestid"), header("port").parse::<u16>());
        let is_new = stream % 2 == 1 && stream > self.highest;
        let (true, "error" | "data", false, Ok(port)) = (is_new, kind, request.is_empty(), port) else {
            return frames::reset(stream, reason::PROTOCOL, out);
        };
        self.highest = stream;
        if self.forwarded.len() >= FORWARDED_MAX && !self.forwarded.contains_key(request) {
            return frames::reset(stream, reason::REFUSED, out);
        }
        let forwarded = self.forwarded.entry(request.to_owned()).or_default();
        let place = if kind == "error" { &mut forwarded.errors } else { &mut forwarded.data };
        if place.is_some() {
            return frames::reset(stream, reason::PROTOCOL, out);
        }
        *place = Some(stream);
        if kind == "data" {
            forwarded.port = port;
        }
        self.encoder.opened(stream, out);
        let (Some(errors), Some(data)) = (forwarded.errors, forwarded.data) else { return };
        match self.ports.answer(forwarded.port) {
            Ok(answer) => forwarded.answer = Some(answer),
            Err(refused) => {
                frames::data(errors, refused.as_bytes(), true, out);
                frames::data(data, &[], true, out);
                self.forwarded.remove(request);
            }
        }
    }

    fn data(&mut self, stream: u32, data: &[u8], last: bool, out: &mut Vec<u8>) {
        // What comes on other streams ends that of errors, or came after the answer was whole.
        let Some((_, forwarded)) = self.forwarded.iter_mut().find(|(_, one)| one.data == Some(stream)) else { return };
        let Some(answer) = &mut forwarded.answer else {
            frames::reset(stream, reason::PROTOCOL, out);
            return self.end(stream, out);
        };
        let (bytes, ended) = answer.take(data, last);
        frames::data(stream, &bytes, ended, out);
        if ended {
            self.end(stream, out);
        }
    }

    /// Forgets a forwarded connection one of whose streams ended, and ends the other: the client waits for that.
    fn end(&mut self, stream: u32, out: &mut Vec<u8>) {
        let of_stream = |one: &Forwarded| [one.errors, one.data].contains(&Some(stream));
        let Some((request, _)) = self.forwarded.iter().find(|(_, one)| of_stream(one)) else { return };
        let Some(one) = self.forwarded.remove(&request.clone()) else { return };
        let other = [one.errors, one.data].into_iter().flatten().find(|other| *other != stream);
        if let Some(other) = other {
            frames::data(other, &[], true, out);
        }
    }
}
