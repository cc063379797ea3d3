//! Objects by which members are registered with a bootstrap token: the rights of those tokens, and ConfigMap
//! `kube-public/cluster-info`, by which a member finds and recognizes the control plane (specification/operations.md
//! 10.4).

use std::collections::BTreeMap;

use ironclad_api::agents::{CLUSTER_INFO, CLUSTER_INFO_KUBECONFIG, KUBE_PUBLIC, bootstrap_rights, cluster_info};
use ironclad_runtime::{Api, Failure, Writer};
use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Namespace},
};
use kube::{
    Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta},
};
use serde_json::{Value, json};

/// Name of the writer; its field manager is `ironclad-agents`.
const WRITER: &str = "agents";
/// The annotation that protects an object from updates when it is `false`.
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
/// Attempts for one object that others write at the same time.
const ATTEMPTS: u32 = 5;

/// Address of the control plane, as ConfigMap `kube-public/cluster-info` publishes it.
#[derive(Debug, Clone, Copy)]
pub struct ClusterInfo<'a> {
    /// URL of the API server, as members reach it.
    pub server: &'a str,
    /// Certificates (PEM) of the authorities that members trust for it.
    pub certificates: &'a str,
}

/// Treatment of a ConfigMap `cluster-info` that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// It stays as it is, unless it has no address.
    Keep,
    /// It gets this address. Its other keys stay.
    Replace,
}

/// Maintains the roles and bindings of bootstrap tokens and of agents (specification/operations.md 10.4): creates what
/// is missing, and replaces rules and subjects that differ. Objects whose annotation
/// `rbac.authorization.kubernetes.io/autoupdate` is `false` stay as they are. Namespace `kube-public` is created if it
/// is missing. `is_reviewed` as in [`bootstrap_rights`].
///
/// # Errors
/// `Denied` if the client may not write them; the failure of a request.
pub async fn install_rights(client: &Client, is_reviewed: bool) -> Result<(), Failure> {
    let writer = Writer::new(WRITER);
    ensure_namespace(client, &writer).await?;
    for wanted in bootstrap_rights(is_reviewed) {
        retried(async || install_right(client, &writer, &wanted).await).await?;
    }
    Ok(())
}

/// Publishes the address of the control plane in ConfigMap `kube-public/cluster-info` (specification/operations.md
/// 10.4). Namespace `kube-public` is created if it is missing.
///
/// # Errors
/// `Denied` if the client may not write it; the failure of a request.
pub async fn publish(client: &Client, info: ClusterInfo<'_>, published: Published) -> Result<(), Failure> {
    let certificates = json!(ByteString(info.certificates.as_bytes().to_vec()));
    let kubeconfig = cluster_info(info.server, certificates.as_str().unwrap_or_default());
    let writer = Writer::new(WRITER);
    ensure_namespace(client, &writer).await?;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), KUBE_PUBLIC);
    retried(async || match api.get_opt(CLUSTER_INFO).await? {
        None => {
            let map = ConfigMap {
                metadata: named(CLUSTER_INFO),
                data: Some(BTreeMap::from([(CLUSTER_INFO_KUBECONFIG.to_owned(), kubeconfig.clone())])),
                ..ConfigMap::default()
            };
            writer.create(&api, None, &map).await.map(drop)
        }
        Some(present) => match info_patch(&present, &kubeconfig, published) {
            Some(patch) => writer.patch(&api, None, &present, patch).await.map(drop),
            None => Ok(()),
        },
    })
    .await
}

/// Runs a look and the write that follows from it again, while others write the same object.
async fn retried(attempt: impl AsyncFn() -> Result<(), Failure>) -> Result<(), Failure> {
    for _ in 1..ATTEMPTS {
        match attempt().await {
            Err(Failure::Conflict(_) | Failure::AlreadyExists(_)) => {}
            done => return done,
        }
    }
    attempt().await
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

async fn ensure_namespace(client: &Client, writer: &Writer) -> Result<(), Failure> {
    let api: Api<Namespace> = Api::all(client.clone());
    if api.get_opt(KUBE_PUBLIC).await?.is_some() {
        return Ok(());
    }
    let namespace = Namespace { metadata: named(KUBE_PUBLIC), ..Namespace::default() };
    match writer.create(&api, None, &namespace).await {
        Ok(_) | Err(Failure::AlreadyExists(_)) => Ok(()),
        Err(failure) => Err(failure),
    }
}

async fn install_right(client: &Client, writer: &Writer, wanted: &Value) -> Result<(), Failure> {
    let object: DynamicObject = serde_json::from_value(wanted.clone()).map_err(kube::Error::SerdeError)?;
    let kind = object.types.clone().and_then(|types| GroupVersionKind::try_from(types).ok());
    let Some(kind) = kind.map(|kind| ApiResource::from_gvk(&kind)) else { return Ok(()) };
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    };
    let Some(present) = api.get_opt(object.metadata.name.as_deref().unwrap_or_default()).await? else {
        return writer.create(&api, None, &object).await.map(drop);
    };
    let present = serde_json::to_value(present).map_err(kube::Error::SerdeError)?;
    let Some(replacement) = replacement(&present, wanted) else { return Ok(()) };
    let replacement: DynamicObject = serde_json::from_value(replacement).map_err(kube::Error::SerdeError)?;
    writer.replace(&api, None, &replacement).await.map(drop)
}

/// The object that replaces a role or binding: with our labels, and our rules or subjects. `None` if it has them, or is
/// not to be touched. The role of a binding can't be changed and stays.
fn replacement(present: &Value, wanted: &Value) -> Option<Value> {
    if present["metadata"]["annotations"][AUTO_UPDATE] == "false" {
        return None;
    }
    let mut replacement = present.clone();
    for key in ["rules", "subjects"] {
        if let Some(ours) = wanted.get(key) {
            replacement[key] = ours.clone();
        }
    }
    for (key, value) in wanted["metadata"]["labels"].as_object().into_iter().flatten() {
        replacement["metadata"]["labels"][key.as_str()] = value.clone();
    }
    (replacement != *present).then_some(replacement)
}

/// The merge patch that gives the ConfigMap this address; `None` if it has it, or is to keep its own.
fn info_patch(present: &ConfigMap, kubeconfig: &str, published: Published) -> Option<Value> {
    let has = present.data.as_ref().and_then(|data| data.get(CLUSTER_INFO_KUBECONFIG)).filter(|text| !text.is_empty());
    let stays = has.is_some_and(|has| published == Published::Keep || has == kubeconfig);
    (!stays).then(|| json!({"data": {CLUSTER_INFO_KUBECONFIG: kubeconfig}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_subjects_are_ours() {
        let rule = |verb: &str| json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]});
        let role = |verb: &str, labels: Value| json!({"kind": "Role", "metadata": {"name": "r", "labels": labels}, "rules": [rule(verb)]});
        let binding = |names: &[&str], role: &str| {
            let subjects: Vec<Value> = names.iter().map(|name| json!({"kind": "Group", "name": name})).collect();
            json!({"kind": "RoleBinding", "metadata": {"name": "b"}, "roleRef": {"name": role}, "subjects": subjects})
        };
        let ours = json!({"of": "us"});
        let mut kept = role("list", json!({}));
        kept["metadata"]["annotations"] = json!({AUTO_UPDATE: "false"});
        for (name, present, wanted, want) in [
            ("the same", role("get", ours.clone()), role("get", ours.clone()), None),
            (
                "other labels",
                role("get", json!({"a": "b"})),
                role("get", ours.clone()),
                Some(role("get", json!({"a": "b", "of": "us"}))),
            ),
            ("no labels", role("get", Value::Null), role("get", ours.clone()), Some(role("get", ours.clone()))),
            ("other rules", role("list", ours.clone()), role("get", ours.clone()), Some(role("get", ours.clone()))),
            ("kept by its user", kept, role("get", ours), None),
            ("the same subjects", binding(&["a"], "r"), binding(&["a"], "r"), None),
            ("other subjects", binding(&["b"], "r"), binding(&["a"], "r"), Some(binding(&["a"], "r"))),
            ("another role", binding(&["a"], "s"), binding(&["a"], "r"), None),
        ] {
            assert_eq!(replacement(&present, &wanted), want, "{name}");
        }
    }

    #[test]
    fn address_that_is_published() {
        let map = |data: Value| serde_json::from_value::<ConfigMap>(json!({ "data": data })).unwrap();
        let written = || Some(json!({"data": {"kubeconfig": "new"}}));
        for (name, data, published, want) in [
            ("the same", json!({"kubeconfig": "new", "jws-kubeconfig-a": "x"}), Published::Replace, None),
            ("another", json!({"kubeconfig": "old", "jws-kubeconfig-a": "x"}), Published::Replace, written()),
            ("another that stays", json!({"kubeconfig": "old"}), Published::Keep, None),
            ("none", json!({"other": "x"}), Published::Keep, written()),
            ("an empty one", json!({"kubeconfig": ""}), Published::Keep, written()),
            ("nothing", Value::Null, Published::Replace, written()),
        ] {
            assert_eq!(info_patch(&map(data), "new", published), want, "{name}");
        }
    }
}
