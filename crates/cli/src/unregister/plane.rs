//! The kubeconfig of the control plane in a member: that of its agent, wherever the agent's Deployment has it from.

use anyhow::{Context as _, anyhow};
use ironclad_runtime::Api;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret},
};
use kube::{Client, config::Kubeconfig};
use serde_json::Value;

use crate::{print::text, register::ownership::flag};

/// Kind of the object that has the kubeconfig.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Secret,
    ConfigMap,
}

/// Place of a kubeconfig in the namespace of an agent.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    holder: Holder,
    name: String,
    key: String,
    /// Context in the kubeconfig; `None` for its current one.
    context: Option<String>,
}

/// The kubeconfig with which the agent in a member reaches the control plane, and the context in it
/// (specification/operations.md 2.5).
///
/// # Errors
/// If there is no such agent, or its kubeconfig is not found.
pub(super) async fn of_agent(
    member: &Client,
    namespace: &str,
    agent: &str,
) -> anyhow::Result<(Kubeconfig, Option<String>)> {
    let missing = |why: String| {
        anyhow!(
            "the kubeconfig of the control plane was not found in the member\n  because {why}\n  try: --karmada-config FILE"
        )
    };
    let reading = |what: &str| format!("reading {what} of the member\n  try: --karmada-config FILE");
    let deployments: Api<Deployment> = Api::namespaced(member.clone(), namespace);
    let found = deployments.get_opt(agent).await.with_context(|| reading("the agent's Deployment"))?;
    let found = found.ok_or_else(|| missing(format!("there is no Deployment {namespace}/{agent}")))?;
    let place = place(&serde_json::to_value(found).context("reading the Deployment")?).map_err(missing)?;
    let Place { holder, name, key, context } = place;
    let text = match holder {
        Holder::Secret => {
            let secrets: Api<Secret> = Api::namespaced(member.clone(), namespace);
            let found = secrets.get_opt(&name).await.with_context(|| reading("the agent's Secret"))?;
            let bytes = found.and_then(|secret| secret.data?.remove(&key)).map(|bytes| bytes.0);
            bytes.and_then(|bytes| String::from_utf8(bytes).ok())
        }
        Holder::ConfigMap => {
            let maps: Api<ConfigMap> = Api::namespaced(member.clone(), namespace);
            let found = maps.get_opt(&name).await.with_context(|| reading("the agent's ConfigMap"))?;
            found.and_then(|map| map.data?.remove(&key))
        }
    };
    let text = text.ok_or_else(|| missing(format!("{holder:?} {namespace}/{name} has no key {key}")))?;
    let kubeconfig = Kubeconfig::from_yaml(&text);
    // The cause could quote the kubeconfig.
    let kubeconfig = kubeconfig.map_err(|_| missing(format!("{holder:?} {namespace}/{name} has no kubeconfig")))?;
    Ok((kubeconfig, context))
}

/// Place of the kubeconfig that an agent's Deployment names.
fn place(deployment: &Value) -> Result<Place, String> {
    let path = flag(deployment, "--karmada-kubeconfig").ok_or("the agent has no flag --karmada-kubeconfig")?;
    let context = flag(deployment, "--karmada-context").filter(|context| !context.is_empty());
    let pod = deployment.pointer("/spec/template/spec").unwrap_or(&Value::Null);
    let list =
        |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
    let mounts = list(pod, "/containers").into_iter().flat_map(|container| list(&container, "/volumeMounts"));
    // The file below the mount. A file that is mounted itself is named by the mount.
    let below = mounts.filter_map(|mount| {
        let at = text(&mount, "/mountPath").trim_end_matches('/').to_owned();
        let file = match text(&mount, "/subPath") {
            "" => path.strip_prefix(&at)?.strip_prefix('/')?.to_owned(),
            sub if at == path => sub.to_owned(),
            _ => return None,
        };
        Some((at.len(), text(&mount, "/name").to_owned(), file))
    });
    let (_, volume, file) =
        below.max_by_key(|(length, ..)| *length).ok_or_else(|| format!("{path} is in no volume"))?;
    let volumes = list(pod, "/volumes");
    let volume =
        volumes.iter().find(|one| text(one, "/name") == volume).ok_or(format!("there is no volume {volume}"))?;
    let mut sources = vec![volume.clone()];
    sources.extend(list(volume, "/projected/sources"));
    let found = sources.iter().find_map(|source| {
        // A Secret of a volume has another field for its name than one that is projected.
        let secret = [text(source, "/secret/secretName"), text(source, "/secret/name")].concat();
        let (holder, name, items) = match text(source, "/configMap/name") {
            "" if secret.is_empty() => return None,
            "" => (Holder::Secret, secret, list(source, "/secret/items")),
            map => (Holder::ConfigMap, map.to_owned(), list(source, "/configMap/items")),
        };
        let item = items.iter().find(|item| text(item, "/path") == file);
        let key = match item {
            Some(item) => text(item, "/key").to_owned(),
            None if items.is_empty() => file.clone(),
            None => return None,
        };
        Some(Place { holder, name, key, context: context.clone() })
    });
    found.ok_or_else(|| format!("volume {} is of no Secret and no ConfigMap", text(volume, "/name")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::register::{Agent, objects};

    fn deployment(words: &[&str], mount: Value, volume: Value) -> Value {
        json!({"spec": {"template": {"spec": {
            "containers": [{"args": words, "volumeMounts": [mount, {"name": "other", "mountPath": "/etc"}]}],
            "volumes": [volume],
        }}}})
    }

    #[test]
    fn kubeconfigs_are_found_as_the_container_sees_them() {
        let secret = |name: &str, key: &str| {
            Ok(Place { holder: Holder::Secret, name: name.into(), key: key.into(), context: None })
        };
        let flag = "--karmada-kubeconfig=/etc/kubeconfig/karmada-kubeconfig";
        let mount = json!({"name": "v", "mountPath": "/etc/kubeconfig"});
        let of_secret = json!({"name": "v", "secret": {"secretName": "s"}});
        let own = objects(&Agent { cluster: "m1".into(), ..Agent::default() }, None).pop().unwrap();
        for (name, deployment, want) in [
            ("ours", own, secret("karmada-kubeconfig", "karmada-kubeconfig")),
            ("karmadactl's", deployment(&[flag], mount.clone(), of_secret.clone()), secret("s", "karmada-kubeconfig")),
            (
                "another key",
                deployment(
                    &[flag],
                    mount.clone(),
                    json!({"name": "v", "secret": {"secretName": "s", "items": [{"key": "k", "path": "karmada-kubeconfig"}]}}),
                ),
                secret("s", "k"),
            ),
            (
                "a file that is mounted itself",
                deployment(
                    &["--karmada-kubeconfig", "/a/file"],
                    json!({"name": "v", "mountPath": "/a/file", "subPath": "k"}),
                    of_secret.clone(),
                ),
                secret("s", "k"),
            ),
            (
                "projected",
                deployment(
                    &[flag],
                    mount.clone(),
                    json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {}}, {"secret": {"name": "s"}}]}}),
                ),
                secret("s", "karmada-kubeconfig"),
            ),
            (
                "a ConfigMap, with a context",
                deployment(
                    &[flag, "--karmada-context=c"],
                    mount.clone(),
                    json!({"name": "v", "configMap": {"name": "m"}}),
                ),
                Ok(Place {
                    holder: Holder::ConfigMap,
                    name: "m".into(),
                    key: "karmada-kubeconfig".into(),
                    context: Some("c".into()),
                }),
            ),
            ("no flag", deployment(&[], mount.clone(), of_secret.clone()), Err("no flag")),
            ("no mount", deployment(&["--karmada-kubeconfig=/a"], mount.clone(), of_secret), Err("is in no volume")),
            ("a folder", deployment(&[flag], mount, json!({"name": "v", "hostPath": {}})), Err("of no Secret")),
        ] {
            match (place(&deployment), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{name}"),
                (Err(got), Err(want)) => assert!(got.contains(want), "{name}: {got}"),
                (got, _) => panic!("{name}: {got:?}"),
            }
        }
    }
}
