//! API group `explain.ironclad.io`: state in the leader's memory, read-only and never stored
//! (specification/operations.md 4.4).
//!
//! It is read from the controllers at the time of the request. In `up` it is a route in front of the embedded server,
//! behind its authentication and RBAC; `run` serves it behind the kube-apiserver ([`serve_explain`]), and replicas that
//! do not lead pass requests on to the leader.

mod serve;

use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, header::CONTENT_TYPE};
use ironclad_apiserver::{ApiError, Identity, RequestBody, ResponseBody, Route, RouteFuture};
use ironclad_failover::taint_manager::{Report, Row};
use ironclad_fleet::BindingKey;
use ironclad_planning::{
    history::{Of, Told},
    leader::{Configuration, EstimatorAnswer, QueuedBinding},
};
use serde_json::{Value, json};

use crate::aggregated::failure;

pub use serve::{Leads, serve_explain};

pub const GROUP: &str = "explain.ironclad.io";
pub const VERSION: &str = "v1alpha1";

/// Source of the leader's state.
pub trait Leader: Send + Sync {
    /// The rate in force and why, and everything that waits in order; `None` while no evictions are decided.
    fn evictions(&self) -> Option<(Report, Vec<Row>)>;

    /// The bindings that wait for the scheduler, in order; `None` while it does not run in this process.
    fn scheduling_queue(&self) -> Option<Vec<QueuedBinding>>;

    /// The last round of a FederatedHPA, as JSON; `None` if it has not been evaluated.
    fn autoscaler(&self, namespace: &str, name: &str) -> Option<Value>;

    /// Answers of the accounts of clusters and of estimators over gRPC about a binding; none if its result does not
    /// depend on capacity.
    fn estimates(&self, binding: &BindingKey) -> Vec<EstimatorAnswer>;

    /// Memory of the last hour; `None` while this process keeps none.
    fn history(&self, of: &Of) -> Option<Told>;

    /// Its settings and controllers; `None` while no controllers run in this process.
    fn configuration(&self) -> Option<Configuration>;
}

/// The route. Cheap to clone.
#[derive(Clone)]
pub struct Explain(Arc<dyn Leader>);

impl Explain {
    /// Answers what this one knows.
    #[must_use]
    pub fn new(leader: Arc<dyn Leader>) -> Self {
        Self(leader)
    }

    fn respond<B>(&self, request: &Request<B>) -> Response<ResponseBody> {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        match self.answer(request.method(), path, query) {
            Ok(body) => {
                let mut response = Response::new(ResponseBody::full(body.to_string()));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
            Err(error) => failure(&error),
        }
    }

    fn answer(&self, method: &Method, path: &str, query: &str) -> Result<Value, ApiError> {
        if method != Method::GET {
            return Err(ApiError::new(405, "MethodNotAllowed", "what the leader knows can only be read"));
        }
        let place = place_of(path).unwrap_or_default().trim_end_matches('/');
        if let Some(discovery) = discovery(place) {
            return Ok(discovery);
        }
        let evictions = || {
            let message = "no evictions are decided: feature gate Failover is off, or controller taint-manager is";
            self.0.evictions().ok_or_else(|| unavailable(message))
        };
        let Some(what) = place.strip_prefix("/v1alpha1/") else { return Err(ApiError::no_resource()) };
        match what.split('/').collect::<Vec<_>>().as_slice() {
            ["evictions"] => Ok(list("EvictionList", json!(evictions()?.1))),
            ["evictionrate"] => Ok(object("EvictionRate", json!(evictions()?.0))),
            ["configuration"] => {
                let message = "no controllers run in this process: another one leads";
                let configuration = self.0.configuration().ok_or_else(|| unavailable(message))?;
                Ok(object("Configuration", json!(configuration)))
            }
            ["estimates"] => {
                let message = "estimates are those of one binding: ask with ?binding=NAMESPACE/NAME";
                let binding = binding_of(query).ok_or_else(|| ApiError::bad_request(message))?;
                Ok(list("EstimateList", json!(self.0.estimates(&binding))))
            }
            ["history"] => {
                let message = "no controllers run in this process: another one leads";
                let told = self.0.history(&asked_history(query)?).ok_or_else(|| unavailable(message))?;
                Ok(object("History", json!(told)))
            }
            ["schedulingqueue"] => {
                let message = "the scheduler does not run in this process: --controllers leaves it out";
                let queue = self.0.scheduling_queue().ok_or_else(|| unavailable(message))?;
                Ok(list("SchedulingQueue", json!(queue)))
            }
            ["namespaces", namespace, "autoscalers", name] => {
                let message = || format!("FederatedHPA {namespace}/{name} has not been evaluated by this leader");
                let report = self.0.autoscaler(namespace, name);
                Ok(object("Autoscaler", report.ok_or_else(|| ApiError::new(404, "NotFound", message()))?))
            }
            _ => Err(ApiError::no_resource()),
        }
    }
}

impl Route for Explain {
    fn takes(&self, path: &str) -> bool {
        place_of(path).is_some()
    }

    fn call(&self, request: Request<RequestBody>, _identity: Identity) -> RouteFuture {
        Box::pin(std::future::ready(self.respond(&request)))
    }
}

/// The path behind that of the group; `None` for one of another group.
fn place_of(path: &str) -> Option<&str> {
    path.strip_prefix("/apis/explain.ironclad.io").filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The documents that any process answers, leader or not.
fn discovery(place: &str) -> Option<Value> {
    let version = format!("{GROUP}/{VERSION}");
    match place {
        "" => Some(group(&version)),
        "/v1alpha1" => Some(resources(&version)),
        _ => None,
    }
}

fn unavailable(message: &str) -> ApiError {
    ApiError::new(503, "ServiceUnavailable", message)
}

fn object(kind: &str, mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), format!("{GROUP}/{VERSION}").into());
        fields.insert("kind".to_owned(), kind.into());
    }
    object
}

fn list(kind: &str, items: Value) -> Value {
    object(kind, json!({ "metadata": {}, "items": items }))
}

/// The subject of a question about the last hour.
fn asked_history(query: &str) -> Result<Of, ApiError> {
    let named = |name: &'static str| {
        let message = format!("?{name}=NAMESPACE/NAME says of what");
        named_in(query, name).ok_or_else(|| ApiError::bad_request(message))
    };
    match query.split('=').next() {
        None | Some("") => Ok(Of::Evictions),
        Some("autoscaler") => Ok(Of::Autoscaler(named("autoscaler")?)),
        Some(_) => Ok(Of::Binding(named("binding")?)),
    }
}

/// The binding that a query names: `NAMESPACE/NAME`, or `/NAME` for one without a namespace.
fn binding_of(query: &str) -> Option<BindingKey> {
    named_in(query, "binding")
}

fn named_in(query: &str, parameter: &str) -> Option<BindingKey> {
    let text = query.split('&').find_map(|pair| pair.strip_prefix(parameter)?.strip_prefix('='))?;
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
        one("history", "History", false),
        one("autoscalers", "Autoscaler", true),
    ];
    json!({ "apiVersion": "v1", "kind": "APIResourceList", "groupVersion": version, "resources": all })
}

#[cfg(test)]
mod tests {
    use ironclad_failover::{Evictions, Flags, Now, taint_manager};
    use ironclad_planning::history::{Placed, Round};
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

        fn history(&self, of: &Of) -> Option<Told> {
            self.0.as_ref()?;
            let mut told = Told::default();
            match of {
                Of::Evictions => {}
                Of::Binding(_) => told.placements.push(Placed { at: Timestamp::UNIX_EPOCH, clusters: [].into() }),
                Of::Autoscaler(_) => told.rounds.push(Round::default()),
            }
            Some(told)
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

        fn scheduling_queue(&self) -> Option<Vec<QueuedBinding>> {
            self.0.as_ref()?;
            let binding = BindingKey { namespace: "shop".into(), name: "web".into() };
            Some(vec![QueuedBinding {
                binding,
                position: 1,
                priority: 0,
                cause: "Change".to_owned(),
                state: "Backoff".to_owned(),
                wait_ms: Some(20),
                attempts: 2,
                message: None,
            }])
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
            rebuilt: false,
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
            (&on, Method::GET, "/v1alpha1/schedulingqueue", 200, "/items/0/waitMs", json!(20)),
            (&on, Method::GET, "/v1alpha1/history", 200, "/kind", json!("History")),
            (&on, Method::GET, "/v1alpha1/history?binding=shop/web", 200, "/placements/0/clusters", json!({})),
            (&on, Method::GET, "/v1alpha1/history?autoscaler=shop/web", 200, "/rounds/0/desired", json!(0)),
            (&on, Method::GET, "/v1alpha1/history?binding=", 400, "/reason", json!("BadRequest")),
            (&off, Method::GET, "/v1alpha1/history", 503, "/reason", json!("ServiceUnavailable")),
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
            (&off, Method::GET, "/v1alpha1/schedulingqueue", 503, "/reason", json!("ServiceUnavailable")),
        ] {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let answer = explain.answer(&method, &format!("/apis/explain.ironclad.io{path}"), query);
            let (status, body) = answer.map_or_else(|error| (error.code, error.status()), |body| (200, body));
            let got = body.pointer(pointer).cloned().unwrap_or_default();
            assert_eq!((status, got), (code, want), "{method} {path}: {body}");
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
