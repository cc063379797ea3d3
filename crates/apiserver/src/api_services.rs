//! APIServices: which group and version is served by whom, as `kubectl get apiservices` shows it
//! (specification/apiserver.md 22).
//!
//! Every group and version that this server serves has one that says `Local`, made when the server opens and when a CRD
//! brings or takes a version ([`crate::Options::api_services`]). One that a user makes for another server is forwarded
//! ([`crate::Forwarder`]); a server without a forwarder says that it isn't served.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ironclad_store::{Compare, Op, Query, StoreError, TxnResult};
use serde_json::{Value, json};

use crate::{
    object,
    registry::{Group, Resource},
    schema,
    state::State,
};

pub(crate) const GROUP: &str = "apiregistration.k8s.io";
const KIND: &str = "APIService";
/// The label of the server's own APIServices: `onstart` for built-in versions, `true` for those of CRDs.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// The field manager of the server's own APIServices.
const MANAGER: &str = "kube-apiserver";
/// The most APIServices that requests are forwarded for.
const REMOTES_MAX: usize = 256;
/// Attempts of a synchronisation against concurrent writers.
const TRIES: usize = 16;

/// Priority of a group and of a version in it; higher ones come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Priority {
    group: u32,
    version: u32,
}

/// The priorities of built-in groups in a kube-apiserver.
const PRIORITIES: [(&str, &str, u32, u32); 21] = [
    ("", "v1", 18_000, 1),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("apps", "v1", 17_800, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v1", 17_500, 15),
    ("autoscaling", "v2", 17_500, 30),
    ("batch", "v1", 17_400, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("discovery.k8s.io", "v1", 16_200, 15),
    ("events.k8s.io", "v1", 17_750, 15),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
    ("networking.k8s.io", "v1", 17_200, 15),
    ("node.k8s.io", "v1", 16_300, 15),
    ("policy", "v1", 17_100, 15),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("resource.k8s.io", "v1", 16_200, 21),
    ("scheduling.k8s.io", "v1", 16_600, 15),
    ("storage.k8s.io", "v1", 16_800, 15),
];
/// The priority of the groups of CRDs.
const OF_CRDS: Priority = Priority { group: 1_000, version: 100 };

/// An APIService of another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remote {
    /// Name of the APIService.
    pub(crate) object: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) group_priority: u32,
    pub(crate) version_priority: u32,
    /// Namespace, name and port of the service.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
    /// The certificates to trust, PEM.
    pub(crate) ca_bundle: Option<Vec<u8>>,
    pub(crate) insecure: bool,
}

impl Remote {
    /// Reads an APIService; `None` for one without a service.
    fn of(object: &Value) -> Option<Self> {
        let spec = &object["spec"];
        let service = Some(&spec["service"]).filter(|service| service.is_object())?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let number = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or_default();
        let bundle = spec["caBundle"].as_str().filter(|bundle| !bundle.is_empty());
        Some(Self {
            object: object::meta_str(object, "name").to_owned(),
            group: text(&spec["group"]),
            version: text(&spec["version"]),
            group_priority: number(&spec["groupPriorityMinimum"]),
            version_priority: number(&spec["versionPriority"]),
            namespace: text(&service["namespace"]),
            name: text(&service["name"]),
            port: service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443),
            ca_bundle: bundle.and_then(|bundle| STANDARD.decode(bundle).ok()),
            insecure: spec["insecureSkipTLSVerify"] == true,
        })
    }
}

/// The APIServices of other servers, at most [`REMOTES_MAX`], in order of their names.
pub(crate) fn remotes(state: &State) -> Vec<Remote> {
    let Some(resource) = state.registry.builtin(GROUP, "apiservices") else { return vec![] };
    let Ok(range) = state.store.range(&Query::prefix(&resource.prefix)) else { return vec![] };
    let objects = range.entries.iter().filter_map(|(_, entry)| object::decode(&entry.value, entry.modified).ok());
    objects.filter_map(|object| Remote::of(&object)).take(REMOTES_MAX).collect()
}

/// A group and version that this server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Local {
    group: String,
    version: String,
    priority: Priority,
    managed: &'static str,
}

/// The desired local APIServices by name: those of built-in versions, of CRDs, and of routes with their priorities.
fn desired<'a>(
    builtin: &[Group],
    custom: impl Iterator<Item = (&'a str, &'a str)>,
    routes: impl Iterator<Item = (&'a str, &'a str, u32, u32)>,
) -> BTreeMap<String, Local> {
    let mut out = BTreeMap::new();
    let mut add = |group: &str, version: &str, priority, managed| {
        let local = Local { group: group.to_owned(), version: version.to_owned(), priority, managed };
        out.entry(format!("{version}.{group}")).or_insert(local);
    };
    for group in builtin {
        // That of APIServices themselves has none, as with a kube-apiserver.
        for (version, _) in group.versions.iter().filter(|_| group.name != GROUP) {
            let known = PRIORITIES.iter().find(|(g, v, ..)| (*g, *v) == (group.name.as_str(), version.as_str()));
            let priority =
                known.map_or(OF_CRDS, |(_, _, group, version)| Priority { group: *group, version: *version });
            add(&group.name, version, priority, "onstart");
        }
    }
    custom.for_each(|(group, version)| add(group, version, OF_CRDS, "true"));
    for (group, version, of_group, of_version) in routes {
        add(group, version, Priority { group: of_group, version: of_version }, "onstart");
    }
    out
}

/// The condition of an APIService: True without a service (served here). With one it is False if requests are not
/// forwarded, and unknown until the service was checked.
fn condition(spec: &Value, now: &str, forwards: bool) -> Value {
    let (status, reason, message) = match spec["service"].is_object() {
        true if forwards => ("Unknown", "Unchecked", "the service was not asked yet"),
        false => ("True", "Local", "Local APIServices are always available"),
        true => ("False", "NotForwarded", "this server forwards no requests to other API servers"),
    };
    json!({"type": "Available", "status": status, "lastTransitionTime": now, "reason": reason, "message": message})
}

/// Gives an APIService its status, unless the change leaves it as it is.
pub(crate) fn set_conditions(old: Option<&Value>, new: &mut Value, now: &str, forwards: bool) {
    let remote = |value: &Value| value["spec"]["service"].is_object();
    if old.is_none_or(|old| remote(old) != remote(new)) {
        new["status"] = json!({"conditions": [condition(&new["spec"], now, forwards)]});
    }
}

impl Local {
    fn object(&self, resource: &Resource, name: &str, uid: String, now: &str) -> Value {
        let mut spec = json!({
            "version": self.version, "groupPriorityMinimum": self.priority.group, "versionPriority": self.priority.version,
        });
        if !self.group.is_empty() {
            spec["group"] = json!(self.group);
        }
        let metadata =
            json!({"name": name, "uid": uid, "creationTimestamp": now, "labels": {AUTOMANAGED: self.managed}});
        let mut object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": KIND, "metadata": metadata, "spec": spec});
        schema::with_tracker(resource, "", |t| t.update(None, &mut object, MANAGER, now));
        // No manager owns the status.
        object["status"] = json!({"conditions": [condition(&object["spec"], now, false)]});
        object
    }
}

/// Creates the local APIServices that are missing, and deletes those whose version no CRD serves any more.
pub(crate) async fn sync(state: &State) -> Result<(), StoreError> {
    let Some(resource) = state.registry.builtin(GROUP, "apiservices").filter(|_| state.options.api_services) else {
        return Ok(());
    };
    for _ in 0..TRIES {
        let custom = state.registry.custom();
        let versions = custom.groups.iter().flat_map(|g| g.versions.iter().map(move |(v, r)| (g, v, r)));
        let versions = versions.filter(|(_, _, resources)| resources.values().any(|r| !r.is_served()));
        let apis = state.aggregation.apis();
        let desired = desired(
            state.registry.builtin_groups(),
            versions.map(|(group, version, _)| (group.name.as_str(), version.as_str())),
            apis.registered(),
        );
        let Ok(range) = state.store.range(&Query::prefix(&resource.prefix)) else { return Ok(()) };
        let (mut compares, mut ops) = (Vec::new(), Vec::new());
        let mut existing = BTreeSet::new();
        for (key, entry) in &range.entries {
            let name = key.strip_prefix(resource.prefix.as_str()).unwrap_or_default();
            existing.insert(name.to_owned());
            // The desired ones, which are nearly all, are not decoded.
            if desired.contains_key(name) {
                continue;
            }
            let Ok(is) = object::decode(&entry.value, entry.modified) else { continue };
            if is.pointer("/metadata/labels").is_some_and(|labels| labels[AUTOMANAGED] == "true") {
                compares.push(Compare::modified(key.as_str(), entry.modified));
                ops.push(Op::delete(key.as_str()));
            }
        }
        let uids = state.seam.rng.stream("api-services");
        for (name, local) in desired.iter().filter(|(name, _)| !existing.contains(*name)) {
            let key = resource.key("", name);
            let object = local.object(&resource, name, uids.uuid(), &state.now());
            compares.push(Compare::absent(key.as_str()));
            ops.push(Op::put(key, object::encode(&object)));
        }
        if ops.is_empty() {
            return Ok(());
        }
        if let TxnResult::Done { .. } = state.store.txn(compares, ops).await? {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_api_services_have_their_priorities() {
        let all = desired(
            crate::kinds::groups(),
            [("stable.example.com", "v2"), ("apps", "v1")].into_iter(),
            [("metrics.k8s.io", "v1beta1", 2_000, 10)].into_iter(),
        );
        for (name, group, version, managed) in [
            ("v1.", 18_000, 1, "onstart"),
            ("v1.apps", 17_800, 15, "onstart"),
            ("v2.autoscaling", 17_500, 30, "onstart"),
            ("v2.stable.example.com", 1_000, 100, "true"),
            ("v1beta1.metrics.k8s.io", 2_000, 10, "onstart"),
        ] {
            let one = &all[name];
            assert_eq!((one.priority, one.managed), (Priority { group, version }, managed), "{name}");
        }
        assert!(!all.contains_key("v1.apiregistration.k8s.io"));
        let unranked: Vec<_> =
            all.iter().filter(|(_, one)| one.managed == "onstart" && one.priority == OF_CRDS).collect();
        assert_eq!(unranked, [], "every built-in version has a priority of its own");
    }

    #[test]
    fn conditions() {
        let service = json!({"service": {"namespace": "a", "name": "b"}});
        for (name, old, spec, want) in [
            ("one without a service is served", None, json!({}), Some("True")),
            ("one with a service is not", None, service.clone(), Some("False")),
            ("one with a service that is forwarded is to be asked", None, service.clone(), Some("Unknown")),
            ("a change of nothing leaves the status", Some(json!({})), json!({"caBundle": ""}), None),
            ("a service is new", Some(json!({})), service, Some("False")),
        ] {
            let old = old.map(|spec| json!({"spec": spec}));
            let mut new = json!({"spec": spec});
            set_conditions(old.as_ref(), &mut new, "now", name.contains("forwarded"));
            assert_eq!(new.pointer("/status/conditions/0/status").and_then(Value::as_str), want, "{name}");
        }
    }
}
