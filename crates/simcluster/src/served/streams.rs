//! `exec` and `attach` over WebSocket, with the subprotocols of Kubernetes: the first byte of a message is its channel.

use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, HeaderValue, Request, Response, header};
use hyper_util::rt::TokioIo;
use ironclad_apiserver::{ApiError, RequestBody, ResponseBody, Upgrade};
use ironclad_kubecontrollers::{
    Cluster, PODS,
    pods::{node_of, phase},
};
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::{
    Query,
    logs::{container, lines},
    shell::{Facts, Program, Ran, Reaction, Session},
};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
/// Closes the channel that the message names.
const CLOSE: u8 = 255;
/// In the order in which they are preferred.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
/// The most bytes of a message.
const MESSAGE_MAX: usize = 1 << 20;

/// Requested stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Exec,
    Attach,
}

/// Answers a request to run a command in a container, or to attach to it.
pub(super) fn open(
    cluster: &Cluster,
    kind: Kind,
    namespace: &str,
    name: &str,
    mut request: Request<RequestBody>,
) -> Result<Response<ResponseBody>, ApiError> {
    let query = Query::of(request.uri().query());
    let pod = cluster.caches.take(&PODS).get(namespace, name).ok_or_else(|| ApiError::not_found("pods", "", name))?;
    let container = container(&pod, query.get("container"))?;
    if phase(&pod) != "Running" {
        let why =
            format!("cannot exec into a container in a pod that is not running; current phase is {}", phase(&pod));
        return Err(ApiError::bad_request(why));
    }
    let facts = facts(cluster, &pod, container);
    let words = query.all("command");
    let program = match kind {
        Kind::Exec if words.is_empty() => {
            return Err(ApiError::bad_request("you must specify at least 1 command for the container"));
        }
        Kind::Exec => Program::start(&words, &facts),
        Kind::Attach => Program::Cat,
    };
    let first: String = match kind {
        Kind::Exec => String::new(),
        Kind::Attach => lines(&pod, container).into_iter().map(|(_, line)| line + "\n").collect(),
    };
    let session = Session::new(query.flag("tty"));
    let reads = query.flag("stdin");
    let Some((protocol, key)) = websocket(request.headers(), &PROTOCOLS) else {
        return Err(ApiError::bad_request(
            "simulated members take exec and attach over WebSocket with v5.channel.k8s.io or v4.channel.k8s.io alone: use kubectl 1.31 or newer",
        ));
    };
    let upgrade = Upgrade::of(&mut request)?;
    let mut switching = upgrade.switch(HeaderValue::from_static("websocket"), move |io| {
        let stream = Stream { facts, session, program, first, reads };
        stream.carry(io)
    });
    let headers = switching.headers_mut();
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, key);
    Ok(switching)
}

/// A running container as what runs in it sees it.
pub(super) fn facts(cluster: &Cluster, pod: &Pod, container: &Container) -> Facts {
    let values = |variable: &k8s_openapi::api::core::v1::EnvVar| {
        format!("{}={}", variable.name, variable.value.as_deref().unwrap_or_default())
    };
    Facts {
        pod: pod.metadata.name.clone().unwrap_or_default(),
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        node: node_of(pod).to_owned(),
        container: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        environment: container.env.iter().flatten().map(values).collect(),
        now: cluster.seam.clock.wall().to_string(),
    }
}

/// The first of these subprotocols that a client of WebSocket offers, and the answer to its key.
pub(super) fn websocket(headers: &HeaderMap, protocols: &[&'static str]) -> Option<(&'static str, HeaderValue)> {
    let offered: Vec<&str> = headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    let protocol = protocols.iter().find(|protocol| offered.contains(*protocol))?;
    let key = derive_accept_key(headers.get(header::SEC_WEBSOCKET_KEY)?.as_bytes());
    Some((protocol, HeaderValue::try_from(key).ok()?))
}

pub(super) type Io = TokioIo<hyper::upgrade::Upgraded>;

/// WebSocket on a connection that was upgraded.
pub(super) async fn socket(io: Io) -> WebSocketStream<Io> {
    let config = WebSocketConfig::default().max_message_size(Some(MESSAGE_MAX)).max_frame_size(Some(MESSAGE_MAX));
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await
}

struct Stream {
    facts: Facts,
    session: Session,
    program: Program,
    /// Written before anything is read.
    first: String,
    /// The client sends input.
    reads: bool,
}

impl Stream {
    async fn carry(mut self, io: Io) {
        let mut socket = socket(io).await;
        match self.talk(&mut socket).await {
            Ok(code) => {
                let _ = send(&mut socket, ERROR, status(code).to_string()).await;
                let end = CloseFrame { code: CloseCode::Normal, reason: "".into() };
                let _ = socket.close(Some(end)).await;
            }
            Err(error) => tracing::debug!(%error, pod = self.facts.pod, "a stream to a container ended"),
        }
    }

    /// Runs the program to its end, and returns its exit code.
    async fn talk(&mut self, socket: &mut WebSocketStream<Io>) -> Result<u8, tokio_tungstenite::tungstenite::Error> {
        send(socket, STDOUT, self.for_terminal(&self.first)).await?;
        if let Program::Ended(Ran { stdout, stderr, code }) = &self.program {
            send(socket, STDOUT, self.for_terminal(stdout)).await?;
            let channel = if self.session.tty { STDOUT } else { STDERR };
            send(socket, channel, self.for_terminal(stderr)).await?;
            return Ok(*code);
        }
        if self.program == Program::Shell {
            send(socket, STDOUT, self.session.prompt().to_owned()).await?;
        }
        while self.reads {
            let Some(message) = socket.next().await else { break };
            let data = match message? {
                Message::Binary(data) => data,
                Message::Close(_) => break,
                _ => continue,
            };
            match data.split_first() {
                Some((&STDIN, input)) => {
                    let input = String::from_utf8_lossy(input);
                    let Reaction { stdout, stderr, ended } = match self.program {
                        Program::Shell => self.session.take(&input, &self.facts),
                        _ => Reaction { stdout: input.into_owned(), ..Reaction::default() },
                    };
                    send(socket, STDOUT, stdout).await?;
                    send(socket, STDERR, stderr).await?;
                    if ended {
                        break;
                    }
                }
                Some((&CLOSE, [STDIN])) => break,
                _ => {}
            }
        }
        Ok(self.session.code)
    }

    fn for_terminal(&self, text: &str) -> String {
        if self.session.tty { text.replace('\n', "\r\n") } else { text.to_owned() }
    }
}

async fn send(
    socket: &mut WebSocketStream<Io>,
    channel: u8,
    text: String,
) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    if text.is_empty() {
        return Ok(());
    }
    let mut data = vec![channel];
    data.extend(text.into_bytes());
    socket.send(Message::Binary(data.into())).await
}

/// The Status that ends a stream.
fn status(code: u8) -> Value {
    match code {
        0 => json!({"metadata": {}, "status": "Success"}),
        code => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
    }
}
