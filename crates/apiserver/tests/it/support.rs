//! A server in memory, and raw requests to it.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use ironclad_apiserver::{Identity, Options, Server};
use ironclad_seam::{Clock, Rng, Seam, Tasks};
use ironclad_store::{Backend, Commit, Engine, MemoryBackend};
use jiff::Timestamp;
use serde_json::Value;

/// 2026-01-01T00:00:00Z.
pub(crate) const EPOCH: i64 = 1_767_225_600;

/// A server in virtual time.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) server: Arc<Server>,
    pub(crate) seam: Seam,
}

/// An answer that was read whole.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Value,
    pub(crate) bytes: Bytes,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::seeded(1, Options::default()).await
    }

    pub(crate) async fn seeded(seed: u64, options: Options) -> Self {
        Self::over(Box::new(MemoryBackend::default()), seed, options).await
    }

    pub(crate) async fn over(backend: Box<dyn Backend>, seed: u64, options: Options) -> Self {
        let clock = Clock::simulated(Timestamp::from_second(EPOCH).unwrap());
        let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(seed), tasks: Tasks::new("test") };
        let engine = Engine::open(backend, Commit::Inline, clock).unwrap();
        let server = Server::open(options, engine.store("test"), seam.clone()).await.unwrap();
        Self { server, seam }
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.server.in_process(Identity::admin("tester")), "default")
    }

    /// A request with a JSON body of the usual type for its method.
    pub(crate) async fn call(&self, method: Method, path: &str, body: impl Into<Option<Value>>) -> Answer {
        let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let bytes = body.into().map(|b| b.to_string()).unwrap_or_default();
        self.send(method, path, &[("content-type", content_type)], bytes).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(Method::POST, path, body).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.call(Method::PUT, path, body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.call(Method::DELETE, path, None).await
    }

    pub(crate) async fn patch(&self, path: &str, content_type: &str, body: Value) -> Answer {
        let content_type = format!("application/{content_type}");
        self.send(Method::PATCH, path, &[("content-type", &content_type)], body.to_string()).await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        self.send_as(Identity::admin("tester"), method, path, headers, body).await
    }

    pub(crate) async fn send_as(
        &self,
        identity: Identity,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let response = self.server.handle(request, identity).await.expect("the server lives");
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Answer { code: parts.status.as_u16(), headers: parts.headers, body: value, bytes }
    }

    /// Opens a watch.
    pub(crate) async fn watch(&self, path: &str, accept: &str) -> Events {
        let request = Request::builder().uri(path).header("accept", accept).body(Full::<Bytes>::default()).unwrap();
        let response = self.server.handle(request, Identity::admin("tester")).await.expect("the server lives");
        assert_eq!(response.status().as_u16(), 200, "{path}");
        Events { body: response.into_body(), buffer: Vec::new() }
    }
}

impl Answer {
    /// The message of a Status.
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// The value at a JSON pointer.
    #[track_caller]
    pub(crate) fn at(&self, pointer: &str) -> &Value {
        self.body.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// Fails unless the code is this one.
    #[track_caller]
    pub(crate) fn expect(self, code: u16) -> Self {
        assert_eq!(self.code, code, "{}", String::from_utf8_lossy(&self.bytes));
        self
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.headers.get_all("warning").iter().map(|v| v.to_str().unwrap().to_owned()).collect()
    }
}

/// The events of a watch.
pub(crate) struct Events {
    body: ironclad_apiserver::ResponseBody,
    buffer: Vec<u8>,
}

impl Events {
    /// The next event, `None` at a clean end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.expect("the watch was not cut off");
            self.buffer.extend_from_slice(frame.data_ref().unwrap());
        }
    }

    /// Type, name and one field of the next event.
    pub(crate) async fn brief(&mut self) -> String {
        let event = self.next().await.expect("an event");
        let object = &event["object"];
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("-");
        format!("{} {name}", event["type"].as_str().unwrap())
    }
}

/// A ConfigMap.
pub(crate) fn config_map(name: &str, data: Value) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// A Deployment of one container.
pub(crate) fn deployment(name: &str) -> Value {
    serde_json::json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "nginx:1.27"}]},
        }},
    })
}
