//! Answers of a simulated port: a page to HTTP, and everything else as it came.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};

/// Ports of a Pod on which something answers.
#[derive(Debug)]
pub(super) struct Ports {
    /// `NAMESPACE/NAME`.
    pod: String,
    /// Each with the text that it says of itself.
    declared: BTreeMap<u16, String>,
    /// The text of every port, if no container declares one: then nothing is known of them.
    every: Option<String>,
}

impl Ports {
    /// `says` is what a container says of itself.
    pub(super) fn of(pod: &Pod, says: impl Fn(&Container) -> String) -> Self {
        let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
        let is_tcp = |protocol: &Option<String>| protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
        let mut declared = BTreeMap::new();
        for container in containers {
            for port in container.ports.iter().flatten().filter(|port| is_tcp(&port.protocol)) {
                if let Ok(port) = u16::try_from(port.container_port) {
                    declared.entry(port).or_insert_with(|| says(container));
                }
            }
        }
        let every = containers.first().filter(|_| declared.is_empty()).map(says);
        let metadata = &pod.metadata;
        let [namespace, name] = [&metadata.namespace, &metadata.name].map(|text| text.as_deref().unwrap_or_default());
        Self { pod: format!("{namespace}/{name}"), declared, every }
    }

    /// The start of an answer on a port, or the reason why nothing listens there.
    pub(super) fn answer(&self, port: u16) -> Result<Answer, String> {
        let says = self.declared.get(&port).or(self.every.as_ref());
        says.map(|says| Answer { says: says.clone(), state: State::Undecided(Vec::new()) }).ok_or_else(|| {
            let declared: Vec<String> = self.declared.keys().map(u16::to_string).collect();
            format!(
                "connection refused: nothing listens on port {port} of the simulated pod {}; its containers declare {}",
                self.pod,
                declared.join(", ")
            )
        })
    }
}

/// One connection to a port.
#[derive(Debug)]
pub(super) struct Answer {
    says: String,
    state: State,
}

#[derive(Debug)]
enum State {
    /// All that came, as long as it may become a request of HTTP.
    Undecided(Vec<u8>),
    Echo,
}

/// The most bytes of the first line and the headers of a request.
const HEAD_MAX: usize = 16 << 10;

impl Answer {
    /// Takes bytes that the client sent; `last` if no more come. Returns those to answer, and whether the answer is
    /// whole.
    pub(super) fn take(&mut self, bytes: &[u8], last: bool) -> (Vec<u8>, bool) {
        let State::Undecided(head) = &mut self.state else { return (bytes.to_vec(), last) };
        head.extend_from_slice(bytes);
        match read(head) {
            Read::Request(Request { line, is_head }) => {
                let body = format!("{}\n{line}\n", self.says);
                (response("200 OK", &body, is_head), true)
            }
            Read::TooLong => (response("431 Request Header Fields Too Large", "", false), true),
            Read::Unfinished if !last => (Vec::new(), false),
            Read::Unfinished | Read::Other => {
                let echo = std::mem::take(head);
                self.state = State::Echo;
                (echo, last)
            }
        }
    }
}

fn response(status: &str, body: &str, is_head: bool) -> Vec<u8> {
    let length = body.len();
    let body = if is_head { "" } else { body };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\
         \r\n\r\n{body}"
    )
    .into_bytes()
}

enum Read {
    Request(Request),
    /// It may still become a request.
    Unfinished,
    TooLong,
    /// It is none.
    Other,
}

struct Request {
    /// Method and path.
    line: String,
    is_head: bool,
}

fn read(bytes: &[u8]) -> Read {
    let is_method = |text: &[u8]| text.len() <= 7 && text.iter().all(u8::is_ascii_uppercase);
    let method = bytes.split(|byte| *byte == b' ').next().unwrap_or_default();
    if !is_method(method) {
        return Read::Other;
    }
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return if bytes.len() > HEAD_MAX { Read::Other } else { Read::Unfinished };
    };
    let line = String::from_utf8_lossy(&bytes[..end]);
    let words: Vec<&str> = line.split_whitespace().collect();
    let [method, path, "HTTP/1.1" | "HTTP/1.0"] = words[..] else { return Read::Other };
    let is_whole = bytes.windows(4).any(|four| four == b"\r\n\r\n") || bytes.windows(2).any(|two| two == b"\n\n");
    if is_whole {
        Read::Request(Request { line: format!("{method} {path}"), is_head: method == "HEAD" })
    } else if bytes.len() > HEAD_MAX {
        Read::TooLong
    } else {
        Read::Unfinished
    }
}
