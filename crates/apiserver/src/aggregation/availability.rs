//! The condition of APIServices of other servers, and their discovery (specification/apiserver.md 22).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::join_all;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use ironclad_store::{Compare, Op, Query};
use serde_json::{Value, json};

use super::{
    apis::{Api, Origin, OwnGroups},
    endpoint::{Named, Nowhere, addresses},
    forward::of_user,
    forwarder::ForwardTarget,
};
use crate::{
    Identity, MASTERS,
    api_services::{self, Remote},
    object,
    state::State,
};

/// Time between two checks of servers that answer.
const CHECK_EVERY: Duration = Duration::from_secs(30);
/// Time until a server that does not answer is checked again.
const CHECK_AGAIN: Duration = Duration::from_secs(5);
/// A server that has not answered by then is not available.
const CHECK_DEADLINE: Duration = Duration::from_secs(5);
/// The most bytes of a discovery document.
const DISCOVERY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The most resources of a discovery document.
const RESOURCES_MAX: usize = 20_000;
/// The most EndpointSlices of a namespace that are looked at.
const SLICES_MAX: usize = 1_000;

/// The result of a check: reason, message, and what is known then.
struct Checked {
    reason: &'static str,
    message: String,
    found: Result<(ForwardTarget, Vec<Value>), String>,
}

/// Checks the servers of APIServices again and again, while there are any.
pub(crate) async fn follow(state: Arc<State>) {
    loop {
        let changed = state.aggregation.changed.notified();
        let remotes = api_services::remotes(&state);
        let own = own_groups(&state);
        let checks = remotes.iter().map(|remote| check(&state, remote, &own));
        let checked: Vec<Checked> = join_all(checks).await;
        let known = state.aggregation.apis();
        let mut apis = BTreeMap::new();
        for (remote, checked) in remotes.iter().zip(&checked) {
            if own.contains(&remote.group) {
                continue;
            }
            let key = (remote.group.clone(), remote.version.clone());
            let (origin, resources) = match &checked.found {
                Ok((target, resources)) => (Ok(target.clone()), resources.clone()),
                Err(why) => {
                    (Err(why.clone()), known.remotes.get(&key).map(|api| api.resources.clone()).unwrap_or_default())
                }
            };
            let api = Api {
                group_priority: remote.group_priority,
                version_priority: remote.version_priority,
                resources,
                origin: Origin::Remote(origin),
            };
            apis.insert(key, Arc::new(api));
        }
        state.aggregation.set_remotes(apis);
        for (remote, checked) in remotes.iter().zip(&checked) {
            write_condition(&state, remote, checked).await;
        }
        let wait = match checked.iter().all(|checked| checked.found.is_ok()) {
            _ if remotes.is_empty() => None,
            true => Some(CHECK_EVERY),
            false => Some(CHECK_AGAIN),
        };
        let pause = async {
            match wait {
                Some(wait) => state.seam.clock.sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = state.seam.tasks.stopping() => return,
            () = changed => {}
            () = pause => {}
        }
    }
}

/// The groups that this server serves from its store.
fn own_groups(state: &State) -> OwnGroups {
    let custom = state.registry.custom();
    state.registry.builtin_groups().iter().chain(&custom.groups).map(|group| group.name.clone()).collect()
}

async fn check(state: &State, remote: &Remote, own: &OwnGroups) -> Checked {
    let failed = |reason, message: String| Checked { reason, found: Err(message.clone()), message };
    if own.contains(&remote.group) {
        return failed("Local", format!("group {} is served by this server itself", remote.group));
    }
    let (namespace, name) = (remote.namespace.as_str(), remote.name.as_str());
    let addresses = match addresses_of(state, remote) {
        Ok(addresses) => addresses,
        Err(nowhere) => return failed(nowhere.reason, nowhere.message),
    };
    let path = format!("/apis/{}/{}", remote.group, remote.version);
    let target = |address: &String| ForwardTarget {
        base: format!("https://{address}"),
        server_name: Some(format!("{name}.{namespace}.svc")),
        ca_bundle: remote.ca_bundle.clone(),
        insecure: remote.insecure,
    };
    let targets: Vec<ForwardTarget> = addresses.iter().map(target).collect();
    // All at once: one that hangs must not delay the checks of others.
    let answers = join_all(targets.iter().map(|target| discover(state, target, &path))).await;
    let mut first = None;
    for (target, answer) in targets.into_iter().zip(answers) {
        match answer {
            Ok(resources) => {
                let found = Ok((target, resources));
                return Checked { reason: "Passed", message: "all checks passed".into(), found };
            }
            Err(why) => {
                first.get_or_insert_with(|| format!("failing or missing response from {}{path}: {why}", target.base));
            }
        }
    }
    failed("FailedDiscoveryCheck", first.unwrap_or_default())
}

/// The addresses of the Service of an APIService.
fn addresses_of(state: &State, remote: &Remote) -> Result<Vec<String>, Nowhere> {
    let (namespace, name) = (remote.namespace.as_str(), remote.name.as_str());
    let service = state.builtin_object("", "services", namespace, name);
    let slices = state.registry.builtin("discovery.k8s.io", "endpointslices").and_then(|resource| {
        let prefix = resource.prefix_of(Some(namespace));
        let range = state.store.range(&Query::prefix(&prefix)).ok()?;
        let objects = range.entries.iter().take(SLICES_MAX);
        Some(objects.filter_map(|(_, entry)| object::decode(&entry.value, entry.modified).ok()).collect::<Vec<_>>())
    });
    let endpoints = state.builtin_object("", "endpoints", namespace, name);
    let named = Named { namespace, name, port: remote.port };
    addresses(named, service.as_ref(), &slices.unwrap_or_default(), endpoints.as_ref())
}

/// Asks for the resources of a group and version.
async fn discover(state: &State, target: &ForwardTarget, path: &str) -> Result<Vec<Value>, String> {
    let Some(forwarder) = &state.options.forwarder else { return Err("this server forwards no requests".into()) };
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = path.parse().map_err(|_| "the path is invalid".to_owned())?;
    *request.headers_mut() = of_user(&http::HeaderMap::new(), &Identity::user("system:kube-aggregator", &[MASTERS]));
    request.headers_mut().insert(header::ACCEPT, http::HeaderValue::from_static("application/json"));
    let ask = async {
        let reply = forwarder.forward(target.clone(), request).await?;
        let status = reply.status();
        let body = Limited::new(reply.into_body(), DISCOVERY_BYTES_MAX).collect().await;
        let body = body.map_err(|e| format!("its answer can't be read: {e}"))?.to_bytes();
        if status != StatusCode::OK {
            return Err(format!("bad status: {status}"));
        }
        let mut list: Value = serde_json::from_slice(&body).map_err(|e| format!("its answer is not JSON: {e}"))?;
        match list["resources"].take() {
            Value::Array(mut resources) => {
                resources.truncate(RESOURCES_MAX);
                Ok(resources)
            }
            Value::Null => Ok(vec![]),
            _ => Err("its answer is not an APIResourceList".into()),
        }
    };
    match tokio::time::timeout(CHECK_DEADLINE, ask).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {CHECK_DEADLINE:?}")),
    }
}

/// Writes the condition, if it differs. A concurrent write of the APIService wakes the next check.
async fn write_condition(state: &State, remote: &Remote, checked: &Checked) {
    let Some(resource) = state.registry.builtin(api_services::GROUP, "apiservices") else { return };
    let key = resource.key("", &remote.object);
    let Some(entry) = state.store.get(&key) else { return };
    let Ok(mut value) = object::decode(&entry.value, entry.modified) else { return };
    let status = if checked.found.is_ok() { "True" } else { "False" };
    let conditions = value.pointer("/status/conditions").and_then(Value::as_array);
    let known = conditions.and_then(|list| list.iter().find(|c| c["type"] == "Available")).cloned().unwrap_or_default();
    if known["status"] == status && known["reason"] == checked.reason && known["message"] == checked.message {
        return;
    }
    let since = if known["status"] == status { known["lastTransitionTime"].clone() } else { json!(state.now()) };
    value["status"] = json!({"conditions": [{
        "type": "Available", "status": status, "lastTransitionTime": since, "reason": checked.reason,
        "message": checked.message,
    }]});
    let compare = Compare::modified(key.as_str(), entry.modified);
    if let Err(error) = state.txn(vec![compare], vec![Op::put(key.as_str(), object::encode(&value))]).await {
        tracing::warn!(api_service = remote.object, %error, "writing the condition Available");
    }
}
