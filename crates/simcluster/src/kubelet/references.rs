//! Objects without which a pod does not start.

use std::fmt;

use k8s_openapi::api::core::v1::{Container, KeyToPath, Pod, Volume};

/// ConfigMap that the member's own controller publishes in each namespace. Pods do not wait for it: members without a
/// certificate have none.
const ROOT_CA: &str = "kube-root-ca.crt";

/// Kind that pods refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    ConfigMap,
    Secret,
    Claim,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
            Self::Claim => "persistentvolumeclaim",
        })
    }
}

/// Object that a pod waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// Reason of the waiting containers, in the kubelet's words.
    pub(super) reason: &'static str,
    /// Message beside it; empty while volumes are mounted.
    pub(super) message: String,
}

/// Object that a pod refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reference<'a> {
    pub(super) kind: Kind,
    pub(super) name: &'a str,
    /// Key that it has to have.
    pub(super) key: Option<&'a str>,
    is_mounted: bool,
}

impl Reference<'_> {
    fn missing(&self, message: String) -> Missing {
        let (reason, message) = match self.is_mounted {
            true => ("ContainerCreating", String::new()),
            false => ("CreateContainerConfigError", message),
        };
        Missing { kind: self.kind, name: self.name.to_owned(), reason, message }
    }

    /// The key is missing: the object of this namespace exists without it.
    pub(super) fn without_key(&self, namespace: &str) -> Missing {
        let kind = match self.kind {
            Kind::ConfigMap => "ConfigMap",
            _ => "Secret",
        };
        self.missing(format!("couldn't find key {} in {kind} {namespace}/{}", self.key.unwrap_or_default(), self.name))
    }
}

/// Returns the first object that the pod needs and that does not exist.
pub(super) fn missing(pod: &Pod, exists: impl Fn(Kind, &str) -> bool) -> Option<Missing> {
    let found = references(pod).into_iter().find(|reference| !exists(reference.kind, reference.name))?;
    Some(found.missing(format!("{} \"{}\" not found", found.kind, found.name)))
}

/// The objects that the pod needs. Volumes are mounted before containers read their environment.
pub(super) fn references(pod: &Pod) -> Vec<Reference<'_>> {
    let Some(spec) = pod.spec.as_ref() else { return Vec::new() };
    let mut found = Found::default();
    spec.volumes.iter().flatten().for_each(|volume| found.volume(volume));
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    containers.for_each(|container| found.environment(container));
    found.0.retain(|reference| !reference.name.is_empty() && reference.name != ROOT_CA);
    found.0
}

#[derive(Default)]
struct Found<'a>(Vec<Reference<'a>>);

impl<'a> Found<'a> {
    /// Notes an object and its keys. What is optional keeps no pod waiting.
    fn add(&mut self, kind: Kind, name: &'a str, optional: Option<bool>, keys: &[&'a str], is_mounted: bool) {
        if optional == Some(true) {
            return;
        }
        self.0.push(Reference { kind, name, key: None, is_mounted });
        let keys = keys.iter().map(|key| Reference { kind, name, key: Some(key), is_mounted });
        self.0.extend(keys);
    }

    fn volume(&mut self, volume: &'a Volume) {
        if let Some(source) = &volume.config_map {
            self.add(Kind::ConfigMap, &source.name, source.optional, &keys(source.items.as_deref()), true);
        }
        if let Some(source) = &volume.secret {
            let name = source.secret_name.as_deref().unwrap_or_default();
            self.add(Kind::Secret, name, source.optional, &keys(source.items.as_deref()), true);
        }
        if let Some(source) = &volume.persistent_volume_claim {
            self.add(Kind::Claim, &source.claim_name, None, &[], true);
        }
        for source in volume.projected.iter().flat_map(|p| p.sources.iter().flatten()) {
            if let Some(map) = &source.config_map {
                self.add(Kind::ConfigMap, &map.name, map.optional, &keys(map.items.as_deref()), true);
            }
            if let Some(secret) = &source.secret {
                self.add(Kind::Secret, &secret.name, secret.optional, &keys(secret.items.as_deref()), true);
            }
        }
    }

    fn environment(&mut self, container: &'a Container) {
        for source in container.env_from.iter().flatten() {
            if let Some(map) = &source.config_map_ref {
                self.add(Kind::ConfigMap, &map.name, map.optional, &[], false);
            }
            if let Some(secret) = &source.secret_ref {
                self.add(Kind::Secret, &secret.name, secret.optional, &[], false);
            }
        }
        for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            if let Some(map) = &source.config_map_key_ref {
                self.add(Kind::ConfigMap, &map.name, map.optional, &[&map.key], false);
            }
            if let Some(secret) = &source.secret_key_ref {
                self.add(Kind::Secret, &secret.name, secret.optional, &[&secret.key], false);
            }
        }
    }
}

fn keys(items: Option<&[KeyToPath]>) -> Vec<&str> {
    items.into_iter().flatten().map(|item| item.key.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(volumes: Value, container: Value) -> Pod {
        let mut container = container;
        container["name"] = "c".into();
        serde_json::from_value(json!({"spec": {"volumes": volumes, "containers": [container]}})).unwrap()
    }

    #[test]
    fn pods_wait_for_what_they_mount_and_read() {
        let config = |name: &str| (name.to_owned(), "CreateContainerConfigError".to_owned());
        let mount = |name: &str| (name.to_owned(), "ContainerCreating".to_owned());
        for (name, volumes, container, want) in [
            ("nothing", json!([]), json!({}), None),
            (
                "an environment from a ConfigMap",
                json!([]),
                json!({"envFrom": [{"configMapRef": {"name": "a"}}]}),
                Some(config("a")),
            ),
            (
                "a variable from a Secret",
                json!([]),
                json!({"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "a", "key": "k"}}}]}),
                Some(config("a")),
            ),
            ("one that is there", json!([]), json!({"envFrom": [{"configMapRef": {"name": "there"}}]}), None),
            (
                "an optional one",
                json!([]),
                json!({"envFrom": [{"configMapRef": {"name": "a", "optional": true}}]}),
                None,
            ),
            ("a volume", json!([{"name": "v", "configMap": {"name": "a"}}]), json!({}), Some(mount("a"))),
            ("a Secret's volume", json!([{"name": "v", "secret": {"secretName": "a"}}]), json!({}), Some(mount("a"))),
            (
                "a claim",
                json!([{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}]),
                json!({}),
                Some(mount("a")),
            ),
            (
                "volumes first",
                json!([{"name": "v", "configMap": {"name": "a"}}]),
                json!({"envFrom": [{"configMapRef": {"name": "b"}}]}),
                Some(mount("a")),
            ),
            (
                "a token's volume does not wait for the root certificate",
                json!([{"name": "v", "projected": {"sources": [{"configMap": {"name": ROOT_CA}}]}}]),
                json!({}),
                None,
            ),
        ] {
            let got = missing(&pod(volumes, container), |_, name| name == "there");
            assert_eq!(got.map(|missing| (missing.name, missing.reason.to_owned())), want, "{name}");
        }
    }

    #[test]
    fn the_message_names_the_kind() {
        let pod = pod(json!([]), json!({"envFrom": [{"configMapRef": {"name": "a"}}]}));
        assert_eq!(missing(&pod, |_, _| false).unwrap().message, "configmap \"a\" not found");
    }

    #[test]
    fn keys_that_volumes_and_variables_name_are_needed() {
        let items = json!([{"key": "k", "path": "p"}]);
        for (name, volumes, container, want) in [
            (
                "a Secret's volume",
                json!([{"name": "v", "secret": {"secretName": "a", "items": items}}]),
                json!({}),
                Some("ContainerCreating "),
            ),
            (
                "a projected ConfigMap",
                json!([{"name": "v", "projected": {"sources": [{"configMap": {"name": "a", "items": items}}]}}]),
                json!({}),
                Some("ContainerCreating "),
            ),
            (
                "a variable",
                json!([]),
                json!({"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "a", "key": "k"}}}]}),
                Some("CreateContainerConfigError couldn't find key k in Secret ns/a"),
            ),
            (
                "an optional one",
                json!([{"name": "v", "secret": {"secretName": "a", "items": items, "optional": true}}]),
                json!({"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k", "optional": true}}}]}),
                None,
            ),
            ("all keys", json!([{"name": "v", "secret": {"secretName": "a"}}]), json!({}), None),
            (
                "the root certificate",
                json!([{"name": "v", "projected": {"sources": [{"configMap": {"name": ROOT_CA, "items": items}}]}}]),
                json!({}),
                None,
            ),
        ] {
            let pod = pod(volumes, container);
            let needed = references(&pod).into_iter().find(|reference| reference.key == Some("k"));
            let got = needed.map(|reference| reference.without_key("ns"));
            assert_eq!(got.map(|m| format!("{} {}", m.reason, m.message)).as_deref(), want, "{name}");
            assert_eq!(missing(&pod, |_, _| true), None, "{name}: the object exists");
        }
    }
}
