//! API group `explain.ironclad.io`: state in the leader's memory, read-only and never stored
//! (specification/operations.md 4.4).
//!
//! In `up` it is a route in front of the embedded server, behind its authentication and RBAC, and reads from the
//! controllers at the time of the request. `run` has no server to mount it on: there, CLI verbs read the ConfigMap in
//! which the leader reports (docs/decisions/0012).

use std::sync::Arc;

use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use ironclad_apiserver::{Identity, RequestBody, ResponseBody, Route, RouteFuture};
use ironclad_failover::taint_manager::{Report, Row};
use ironclad_fleet::BindingKey;
use ironclad_planning::leader::{Configuration, EstimatorAnswer, QueuedBinding};
use serde_json::{Value, json};

/// The group.
pub const GROUP: &str = "explain.ironclad.io";
/// Its one version.
pub const VERSION: &str = "v1alpha1";

/// Source of the leader's state.
pub trait Leader: Send + Sync {
    /// The rate in force and why, and everything that waits in order; `None` while no evictions are decided.
    fn evictions(&self) -> Option<(Report, Vec<Row>)>;

    /// The bindings that wait for the scheduler, in order.
    fn scheduling_queue(&self) -> Vec<QueuedBinding>;

    /// The last round of a FederatedHPA, as JSON; `None` if it has not been evaluated.
    fn autoscaler(&self, namespace: &str, name: &str) -> Option<Value>;

    /// Answers of the accounts of clusters and of estimators over gRPC about a binding; none if its result does not
    /// depend on capacity.
    fn estimates(&self, binding: &BindingKey) -> Vec<EstimatorAnswer>;

    /// Its settings and controllers; `None` while no controllers run in this process.
    fn configuration(&self) -> Option<Configuration>;
}

/// The route.
pub struct Explain(Arc<dyn Leader>);

impl Explain {
    /// Answers what this one knows.
    #[must_use]
    pub fn new(leader: Arc<dyn Leader>) -> Self {
        Self(leader)
    }

    fn answer(&self, method: &Method, path: &str, query: &str) -> (StatusCode, Value) {
        if method != Method::GET {
            return status(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "what the leader knows can only be read",
            );
        }
        let version = format!("{GROUP}/{VERSION}");
        let place = path.trim_end_matches('/').strip_prefix("/apis/explain.ironclad.io").unwrap_or_default();
        let evictions = || {
            self.0.evictions().ok_or_else(|| {
                let message = "no evictions are decided: feature gate Failover is off, or controller taint-manager is";
                status(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
            })
        };
        let list =
            |kind: &str, items: Value| json!({ "apiVersion": version, "kind": kind, "metadata": {}, "items": items });
        match place {
            "" => (StatusCode::OK, group(&version)),
            "/v1alpha1" => (StatusCode::OK, resources(&version)),
            "/v1alpha1/evictions" => match evictions() {
                Ok((_, rows)) => (StatusCode::OK, list("EvictionList", json!(rows))),
                Err(none) => none,
            },
            "/v1alpha1/evictionrate" => match evictions() {
                Ok((report, _)) => {
                    let mut object = json!(report);
                    if let Some(fields) = object.as_object_mut() {
                        fields.remove("rows");
                        fields.insert("apiVersion".to_owned(), version.into());
                        fields.insert("kind".to_owned(), "EvictionRate".into());
                    }
                    (StatusCode::OK, object)
                }
                Err(none) => none,
            },
            "/v1alpha1/configuration" => match self.0.configuration() {
                Some(configuration) => {
                    let mut object = json!(configuration);
                    if let Some(fields) = object.as_object_mut() {
                        fields.insert("apiVersion".to_owned(), version.into());
                        fields.insert("kind".to_owned(), "Configuration".into());
                    }
                    (StatusCode::OK, object)
                }
                None => {
                    let message = "no controllers run in this process: another one leads";
                    status(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
                }
            },
            "/v1alpha1/estimates" => match binding_of(query) {
                Some(binding) => (StatusCode::OK, list("EstimateList", json!(self.0.estimates(&binding)))),
                None => {
                    let message = "estimates are those of one binding: ask with ?binding=NAMESPACE/NAME";
                    status(StatusCode::BAD_REQUEST, "BadRequest", message)
                }
            },
            "/v1alpha1/schedulingqueue" => (StatusCode::OK, list("SchedulingQueue", json!(self.0.scheduling_queue()))),
            _ => self.autoscaler(place).unwrap_or_else(|| {
                status(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
            }),
        }
    }
}

impl Explain {
    /// Answers `namespaces/NAMESPACE/autoscalers/NAME`; `None` if that is not the place.
    fn autoscaler(&self, place: &str) -> Option<(StatusCode, Value)> {
        let parts: Vec<&str> = place.strip_prefix("/v1alpha1/namespaces/")?.split('/').collect();
        let [namespace, "autoscalers", name] = parts.as_slice() else { return None };
        let Some(mut report) = self.0.autoscaler(namespace, name) else {
            let message = format!("FederatedHPA {namespace}/{name} has not been evaluated by this leader");
            return Some(status(StatusCode::NOT_FOUND, "NotFound", &message));
        };
        if let Some(fields) = report.as_object_mut() {
            fields.insert("apiVersion".to_owned(), format!("{GROUP}/{VERSION}").into());
            fields.insert("kind".to_owned(), "Autoscaler".into());
        }
        Some((StatusCode::OK, report))
    }
}

impl Route for Explain {
    fn takes(&self, path: &str) -> bool {
        path.strip_prefix("/apis/explain.ironclad.io").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn call(&self, request: Request<RequestBody>, _identity: Identity) -> RouteFuture {
        let (code, body) =
            self.answer(request.method(), request.uri().path(), request.uri().query().unwrap_or_default());
        let mut response = Response::new(ResponseBody::full(body.to_string()));
        *response.status_mut() = code;
        response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        Box::pin(std::future::ready(response))
    }
}

/// The binding that a query names: `NAMESPACE/NAME`, or `/NAME` for one without a namespace.
fn binding_of(query: &str) -> Option<BindingKey> {
    let text = query.split('&').find_map(|pair| pair.strip_prefix("binding="))?;
    let text = percent_encoding::percent_decode_str(text).decode_utf8().ok()?;
    let (namespace, name) = text.split_once('/')?;
    (!name.is_empty()).then(|| BindingKey { namespace: namespace.into(), name: name.into() })
}

fn group(version: &str) -> Value {
    let version = json!({ "groupVersion": version, "version": VERSION });
    json!({ "apiVersion": "v1", "kind": "APIGroup", "name": GROUP, "versions": [version], "preferredVersion": version })
}

fn resources(version: &str) -> Value {
    let one = |name: &str, kind: &str, namespaced: bool| json!({ "name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get"] });
    let all = [
        one("evictions", "Eviction", false),
        one("evictionrate", "EvictionRate", false),
        one("schedulingqueue", "SchedulingQueue", false),
        one("configuration", "Configuration", false),
        one("estimates", "Estimate", false),
        one("autoscalers", "Autoscaler", true),
    ];
    json!({ "apiVersion": "v1", "kind": "APIResourceList", "groupVersion": version, "resources": all })
}

fn status(code: StatusCode, reason: &str, message: &str) -> (StatusCode, Value) {
    let body = json!({ "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "reason": reason, "message": message, "code": code.as_u16() });
    (code, body)
}

#[cfg(test)]
mod tests {
    use ironclad_failover::{Evictions, Flags, Now, taint_manager};
    use jiff::Timestamp;

    use super::*;

    struct Knows(Option<Vec<Row>>);

    impl Leader for Knows {
        fn evictions(&self) -> Option<(Report, Vec<Row>)> {
            let now = Now { wall: Timestamp::UNIX_EPOCH, mono: std::time::Duration::ZERO };
            let rows = self.0.clone()?;
            Some((Evictions::new(Flags::default(), now).report(now), rows))
        }

        fn configuration(&self) -> Option<Configuration> {
            self.0.as_ref().map(|_| Configuration::default())
        }

        fn autoscaler(&self, namespace: &str, name: &str) -> Option<Value> {
            (namespace == "shop" && name == "web").then(|| json!({"name": name}))
        }

        fn estimates(&self, binding: &BindingKey) -> Vec<EstimatorAnswer> {
            let answer = EstimatorAnswer {
                cluster: "m1".into(),
                source: "Nodes".into(),
                fits: Some(7),
                account: None,
                age_ms: Some(0),
                error: None,
            };
            if &*binding.name == "web" { vec![answer] } else { Vec::new() }
        }

        fn scheduling_queue(&self) -> Vec<QueuedBinding> {
            let binding = BindingKey { namespace: "shop".into(), name: "web".into() };
            vec![QueuedBinding {
                binding,
                position: 1,
                priority: 0,
                cause: "Change".to_owned(),
                state: "Backoff".to_owned(),
                wait_ms: Some(20),
                attempts: 2,
                message: None,
            }]
        }
    }

    #[test]
    fn responses() {
        let row = Row {
            binding: BindingKey { namespace: "shop".into(), name: "web".into() },
            resource: "apps/v1/Deployment shop/web".into(),
            cluster: "m1".into(),
            state: taint_manager::Waiting::Queued,
            position: Some(1),
            since: None,
            due: Timestamp::UNIX_EPOCH,
            causes: vec!["k:NoExecute".into()],
            purge_mode: "Gracefully".into(),
            expected: None,
            attempts: 0,
            because: None,
        };
        let on = Explain::new(Arc::new(Knows(Some(vec![row]))));
        let off = Explain::new(Arc::new(Knows(None)));
        for (explain, method, path, code, pointer, want) in [
            (&on, Method::GET, "", 200, "/versions/0/groupVersion", json!("explain.ironclad.io/v1alpha1")),
            (&on, Method::GET, "/v1alpha1", 200, "/resources/1/name", json!("evictionrate")),
            (&on, Method::GET, "/v1alpha1/evictions", 200, "/items/0/binding/name", json!("web")),
            (&on, Method::GET, "/v1alpha1/evictions/", 200, "/kind", json!("EvictionList")),
            (&on, Method::GET, "/v1alpha1/evictionrate", 200, "/state", json!("held")),
            (&on, Method::GET, "/v1alpha1/evictionrate", 200, "/rows", Value::Null),
            (&on, Method::GET, "/v1alpha1/schedulingqueue", 200, "/items/0/waitMs", json!(20)),
            (&on, Method::GET, "/v1alpha1/configuration", 200, "/kind", json!("Configuration")),
            (&on, Method::GET, "/v1alpha1/configuration", 200, "/scheduler/schedulerName", json!("default-scheduler")),
            (&off, Method::GET, "/v1alpha1/configuration", 503, "/reason", json!("ServiceUnavailable")),
            (&on, Method::GET, "/v1alpha1/namespaces/shop/autoscalers/web", 200, "/kind", json!("Autoscaler")),
            (&on, Method::GET, "/v1alpha1/namespaces/shop/autoscalers/other", 404, "/reason", json!("NotFound")),
            (&on, Method::GET, "/v1alpha1/estimates?binding=shop%2Fweb", 200, "/items/0/fits", json!(7)),
            (&on, Method::GET, "/v1alpha1/estimates?binding=shop/other", 200, "/items", json!([])),
            (&on, Method::GET, "/v1alpha1/estimates", 400, "/reason", json!("BadRequest")),
            (&on, Method::GET, "/v1alpha1/estimates?binding=web", 400, "/reason", json!("BadRequest")),
            (&on, Method::POST, "/v1alpha1/evictions", 405, "/reason", json!("MethodNotAllowed")),
            (&on, Method::GET, "/v1alpha1/others", 404, "/reason", json!("NotFound")),
            (&off, Method::GET, "/v1alpha1/evictions", 503, "/reason", json!("ServiceUnavailable")),
            (&off, Method::GET, "/v1alpha1/schedulingqueue", 200, "/kind", json!("SchedulingQueue")),
        ] {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let (status, body) = explain.answer(&method, &format!("/apis/explain.ironclad.io{path}"), query);
            let got = body.pointer(pointer).cloned().unwrap_or_default();
            assert_eq!((status.as_u16(), got), (code, want), "{method} {path}: {body}");
        }
    }

    #[test]
    fn handled_paths() {
        let explain = Explain::new(Arc::new(Knows(None)));
        for (path, want) in [
            ("/apis/explain.ironclad.io", true),
            ("/apis/explain.ironclad.io/v1alpha1/evictions", true),
            ("/apis/explain.ironclad.iox/v1", false),
            ("/apis", false),
        ] {
            assert_eq!(explain.takes(path), want, "{path}");
        }
    }
}
