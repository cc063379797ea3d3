//! Resources of a member that are not stored: metrics of its pods and nodes, logs, and streams to containers.

mod forward;
mod logs;
mod metrics;
mod shell;
mod streams;

use std::sync::Weak;

use http::{Method, Request, Response, header};
use ironclad_apiserver::{ApiError, Identity, RequestBody, ResponseBody, Route, RouteFuture, Served, ServedResource};
use ironclad_patch::selector::LabelSelector;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use self::streams::Kind;
use crate::member::Inner;

pub(crate) fn metrics_group() -> Served {
    let resource = |plural, kind, namespaced| ServedResource { plural, kind, namespaced, verbs: vec!["get", "list"] };
    Served {
        group: metrics::GROUP,
        version: metrics::VERSION,
        resources: vec![resource("nodes", "NodeMetrics", false), resource("pods", "PodMetrics", true)],
    }
}

pub(crate) struct ServedRoute(pub(crate) Weak<Inner>);

#[derive(Debug, PartialEq, Eq)]
enum Address {
    NodeMetrics { name: Option<String> },
    PodMetrics { namespace: Option<String>, name: Option<String> },
    Log { namespace: String, pod: String },
    Stream { kind: Kind, namespace: String, pod: String },
    Ports { namespace: String, pod: String },
}

impl Address {
    fn of(path: &str) -> Option<Self> {
        let decoded = |s: &str| percent_decode_str(s).decode_utf8().map(|t| t.into_owned()).ok();
        let parts: Vec<String> = path.trim_matches('/').split('/').map(decoded).collect::<Option<_>>()?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let own = |s: &&str| (*s).to_owned();
        match parts.as_slice() {
            ["apis", metrics::GROUP, metrics::VERSION, rest @ ..] => match rest {
                ["nodes"] => Some(Self::NodeMetrics { name: None }),
                ["nodes", name] => Some(Self::NodeMetrics { name: Some(own(name)) }),
                ["pods"] => Some(Self::PodMetrics { namespace: None, name: None }),
                ["namespaces", namespace, "pods"] => {
                    Some(Self::PodMetrics { namespace: Some(own(namespace)), name: None })
                }
                ["namespaces", namespace, "pods", name] => {
                    Some(Self::PodMetrics { namespace: Some(own(namespace)), name: Some(own(name)) })
                }
                _ => None,
            },
            ["api", "v1", "namespaces", namespace, "pods", pod, "log"] => {
                Some(Self::Log { namespace: own(namespace), pod: own(pod) })
            }
            ["api", "v1", "namespaces", namespace, "pods", pod, kind @ ("exec" | "attach")] => {
                let kind = if *kind == "exec" { Kind::Exec } else { Kind::Attach };
                Some(Self::Stream { kind, namespace: own(namespace), pod: own(pod) })
            }
            ["api", "v1", "namespaces", namespace, "pods", pod, "portforward"] => {
                Some(Self::Ports { namespace: own(namespace), pod: own(pod) })
            }
            _ => None,
        }
    }
}

impl Route for ServedRoute {
    fn takes(&self, path: &str) -> bool {
        // Called for every request: reject foreign paths without decoding.
        let may_be = ["/log", "/exec", "/attach", "/portforward"].iter().any(|end| path.ends_with(end));
        (may_be || path.starts_with("/apis/metrics.k8s.io/")) && Address::of(path).is_some()
    }

    fn call(&self, request: Request<RequestBody>, _: Identity) -> RouteFuture {
        let answer = self.answer(request);
        Box::pin(async move { answer.unwrap_or_else(|e| json(e.code, &e.status())) })
    }
}

impl ServedRoute {
    fn answer(&self, request: Request<RequestBody>) -> Result<Response<ResponseBody>, ApiError> {
        let address = Address::of(request.uri().path()).ok_or_else(ApiError::no_resource)?;
        let may_post = matches!(address, Address::Stream { .. } | Address::Ports { .. });
        if request.method() != Method::GET && !(may_post && request.method() == Method::POST) {
            return Err(ApiError::method_not_allowed());
        }
        let unavailable = || ApiError::new(503, "ServiceUnavailable", "the member is down");
        let member = self.0.upgrade().ok_or_else(unavailable)?;
        let cluster = member.cluster().ok_or_else(unavailable)?;
        let query = Query::of(request.uri().query());
        match address {
            Address::NodeMetrics { name } => {
                metrics::nodes(&cluster, &member.rules(), name.as_deref(), &query).map(|v| json(200, &v))
            }
            Address::PodMetrics { namespace, name } => {
                metrics::pods(&cluster, &member.rules(), namespace.as_deref(), name.as_deref(), &query)
                    .map(|v| json(200, &v))
            }
            Address::Log { namespace, pod } => logs::log(&cluster, &namespace, &pod, &query),
            Address::Stream { kind, namespace, pod } => streams::open(&cluster, kind, &namespace, &pod, request),
            Address::Ports { namespace, pod } => forward::open(&cluster, &namespace, &pod, request),
        }
    }
}

struct Query(Vec<(String, String)>);

impl Query {
    fn of(text: Option<&str>) -> Self {
        let decoded = |s: &str| percent_decode_str(&s.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = text.unwrap_or_default().split('&').filter(|p| !p.is_empty());
        Self(pairs.map(|p| p.split_once('=').unwrap_or((p, ""))).map(|(k, v)| (decoded(k), decoded(v))).collect())
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }

    fn all(&self, key: &str) -> Vec<String> {
        self.0.iter().filter(|(k, _)| k == key).map(|(_, v)| v.clone()).collect()
    }

    fn number(&self, key: &str) -> Option<i64> {
        self.get(key)?.parse().ok()
    }

    fn flag(&self, key: &str) -> bool {
        matches!(self.get(key), Some("true" | "1"))
    }

    fn selector(&self) -> Result<LabelSelector, ApiError> {
        let text = self.get("labelSelector").unwrap_or_default();
        LabelSelector::parse(text).map_err(|e| ApiError::bad_request(format!("unable to parse requirement: {e}")))
    }
}

fn json(code: u16, value: &Value) -> Response<ResponseBody> {
    reply(code, "application/json", value.to_string() + "\n")
}

fn reply(code: u16, media: &'static str, body: String) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(body));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(media));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let some = |text: &str| Some(text.to_owned());
        for (path, want) in [
            ("/apis/metrics.k8s.io/v1beta1/nodes", Some(Address::NodeMetrics { name: None })),
            ("/apis/metrics.k8s.io/v1beta1/nodes/a", Some(Address::NodeMetrics { name: some("a") })),
            ("/apis/metrics.k8s.io/v1beta1/pods", Some(Address::PodMetrics { namespace: None, name: None })),
            (
                "/apis/metrics.k8s.io/v1beta1/namespaces/x/pods/y",
                Some(Address::PodMetrics { namespace: some("x"), name: some("y") }),
            ),
            ("/apis/metrics.k8s.io/v1beta1", None),
            ("/apis/metrics.k8s.io/v1/pods", None),
            ("/api/v1/namespaces/x/pods/y/log", Some(Address::Log { namespace: "x".into(), pod: "y".into() })),
            (
                "/api/v1/namespaces/x/pods/y/portforward",
                Some(Address::Ports { namespace: "x".into(), pod: "y".into() }),
            ),
            ("/api/v1/namespaces/x/pods/y", None),
            ("/apis/a/v1/namespaces/x/pods/y/log", None),
        ] {
            assert_eq!(Address::of(path), want, "{path}");
        }
    }
}
