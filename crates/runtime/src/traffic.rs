//! Observer between a client and its server: it counts requests, passes warnings on and removes `managedFields`.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use kube::client::Body;
use tower::Service;

use crate::{
    managed_fields::{self, Shape},
    warnings::{self, Warn},
};

/// Observer of a client's requests and answers: counters, for metrics and for tests that a converged fleet sends no
/// requests, what is called with the warnings of servers, and whether answers keep `managedFields`.
#[derive(Debug, Default)]
pub struct Traffic {
    /// GET requests, lists among them, watches not.
    pub reads: AtomicU64,
    /// Watches begun.
    pub watches: AtomicU64,
    /// POST, PUT, PATCH and DELETE requests.
    pub writes: AtomicU64,
    /// Requests without an answer.
    pub unanswered: AtomicU64,
    /// Requests whose credentials were not accepted (401).
    pub unauthenticated: AtomicU64,
    /// Requests for paths that the server does not know: 404 without a Status.
    pub unknown_paths: AtomicU64,
    warn: Option<Warn>,
    without_managed_fields: bool,
}

impl Traffic {
    /// An observer that calls this function with the text of each `Warning` header (specification/operations.md 3).
    #[must_use]
    pub fn with_warnings(warn: Warn) -> Self {
        Self { warn: Some(warn), ..Self::default() }
    }

    /// An observer for clients of controllers, which need no `managedFields`: single objects and events of watches
    /// come with `null` instead, which costs less to decode. Those of Services keep them.
    #[must_use]
    pub fn without_managed_fields() -> Self {
        Self { without_managed_fields: true, ..Self::default() }
    }

    /// The service with this observer before it.
    pub(crate) fn before<S>(self: Arc<Self>, service: S) -> Observed<S> {
        Observed { service, traffic: self }
    }

    fn note<B>(&self, response: &Response<B>) {
        let headers = response.headers();
        if let Some(warn) = self.warn {
            warnings::texts(headers).iter().for_each(|text| warn(text));
        }
        let is_json = headers.get(CONTENT_TYPE).is_some_and(|media| media.as_bytes().starts_with(b"application/json"));
        match response.status() {
            StatusCode::UNAUTHORIZED => count(&self.unauthenticated),
            StatusCode::NOT_FOUND if !is_json => count(&self.unknown_paths),
            _ => {}
        }
    }

    fn count(&self, request: &Request<Body>) {
        let counter = match (request.method(), managed_fields::is_watch(request)) {
            (&Method::GET, true) => &self.watches,
            (&Method::GET | &Method::HEAD, false) => &self.reads,
            _ => &self.writes,
        };
        count(counter);
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A service with an observer before it.
#[derive(Clone)]
pub(crate) struct Observed<S> {
    service: S,
    traffic: Arc<Traffic>,
}

impl<S, B> Service<Request<Body>> for Observed<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<UnsyncBoxBody<Bytes, B::Error>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.traffic.count(&request);
        let traffic = self.traffic.clone();
        let shape = traffic.without_managed_fields.then(|| Shape::of(&request)).flatten();
        let answer = self.service.call(request);
        Box::pin(async move {
            let response = answer.await.inspect_err(|_| count(&traffic.unanswered))?;
            traffic.note(&response);
            Ok(match shape {
                Some(shape) => managed_fields::without(response, shape),
                None => response.map(BodyExt::boxed_unsync),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{
        Api, ResourceExt as _,
        api::{WatchEvent, WatchParams},
    };
    use serde_json::{Value, json};
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::in_process_client;

    /// A server with one ConfigMap, which answers with this content type.
    fn answers(traffic: Traffic, content_type: &'static str) -> kube::Client {
        let service = service_fn(move |request: Request<Body>| async move {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "managedFields": [{"manager": "m", "fieldsV1": {"f:data": {}}}]},
            });
            let answer = match request.uri().query() {
                Some(query) if query.contains("watch=true") => json!({"type": "ADDED", "object": object}),
                _ => object,
            };
            let response = Response::builder().header("content-type", content_type);
            Ok::<_, BoxError>(response.body(Full::new(Bytes::from(format!("{answer}\n"))))?)
        });
        in_process_client(service, Arc::new(traffic))
    }

    async fn got(client: &kube::Client) -> ConfigMap {
        Api::default_namespaced(client.clone()).get("a").await.unwrap()
    }

    #[tokio::test]
    async fn clients_of_controllers_get_objects_and_events_without_managed_fields() {
        let client = answers(Traffic::without_managed_fields(), "application/json");
        assert_eq!(got(&client).await.metadata.managed_fields, None);
        let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let mut events = Box::pin(api.watch(&WatchParams::default(), "0").await.unwrap());
        let event = futures::TryStreamExt::try_next(&mut events).await.unwrap();
        let Some(WatchEvent::Added(seen)) = event else { panic!("no event: {event:?}") };
        assert_eq!((seen.name_any().as_str(), seen.metadata.managed_fields), ("a", None));
        let raw: Value = client.request(Request::get("/api/v1/a").body(vec![]).unwrap()).await.unwrap();
        assert_eq!(raw.pointer("/metadata/managedFields"), Some(&Value::Null));
    }

    #[tokio::test]
    async fn other_clients_and_other_content_keep_them() {
        let kept = |object: ConfigMap| object.metadata.managed_fields.map(|entries| entries.len());
        assert_eq!(kept(got(&answers(Traffic::default(), "application/json")).await), Some(1));
        assert_eq!(kept(got(&answers(Traffic::without_managed_fields(), "text/plain")).await), Some(1));
    }
}
