//! Objects without which a pod does not start.

use std::fmt;

use k8s_openapi::api::core::v1::{Container, Pod, Volume};

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

/// Returns the first object that the pod needs and that does not exist. Volumes are mounted before containers read
/// their environment.
pub(super) fn missing(pod: &Pod, exists: impl Fn(Kind, &str) -> bool) -> Option<Missing> {
    let spec = pod.spec.as_ref()?;
    let absent = |(kind, name): &(Kind, &str)| !name.is_empty() && *name != ROOT_CA && !exists(*kind, name);
    let mounted = spec.volumes.iter().flatten().flat_map(of_volume).find(absent);
    if let Some((kind, name)) = mounted {
        return Some(Missing { kind, name: name.to_owned(), reason: "ContainerCreating", message: String::new() });
    }
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let (kind, name) = containers.flat_map(of_environment).find(absent)?;
    let message = format!("{kind} \"{name}\" not found");
    Some(Missing { kind, name: name.to_owned(), reason: "CreateContainerConfigError", message })
}

fn of_volume(volume: &Volume) -> Vec<(Kind, &str)> {
    let mut found = Vec::new();
    if let Some(source) = volume.config_map.as_ref().filter(|s| s.optional != Some(true)) {
        found.push((Kind::ConfigMap, source.name.as_str()));
    }
    if let Some(source) = volume.secret.as_ref().filter(|s| s.optional != Some(true)) {
        found.extend(source.secret_name.as_deref().map(|name| (Kind::Secret, name)));
    }
    if let Some(source) = &volume.persistent_volume_claim {
        found.push((Kind::Claim, source.claim_name.as_str()));
    }
    for source in volume.projected.iter().flat_map(|p| p.sources.iter().flatten()) {
        if let Some(map) = source.config_map.as_ref().filter(|s| s.optional != Some(true)) {
            found.push((Kind::ConfigMap, map.name.as_str()));
        }
        if let Some(secret) = source.secret.as_ref().filter(|s| s.optional != Some(true)) {
            found.push((Kind::Secret, secret.name.as_str()));
        }
    }
    found
}

fn of_environment(container: &Container) -> Vec<(Kind, &str)> {
    let mut found = Vec::new();
    for source in container.env_from.iter().flatten() {
        if let Some(map) = source.config_map_ref.as_ref().filter(|s| s.optional != Some(true)) {
            found.push((Kind::ConfigMap, map.name.as_str()));
        }
        if let Some(secret) = source.secret_ref.as_ref().filter(|s| s.optional != Some(true)) {
            found.push((Kind::Secret, secret.name.as_str()));
        }
    }
    for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
        if let Some(map) = source.config_map_key_ref.as_ref().filter(|s| s.optional != Some(true)) {
            found.push((Kind::ConfigMap, map.name.as_str()));
        }
        if let Some(secret) = source.secret_key_ref.as_ref().filter(|s| s.optional != Some(true)) {
            found.push((Kind::Secret, secret.name.as_str()));
        }
    }
    found
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
}
