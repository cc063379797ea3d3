//! Removal of an agent from its member: Deployment, rights, account and credentials.

use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, Preconditions},
};
use serde_json::{Value, json};

use crate::{
    print,
    register::{
        ACCOUNT, AGENT, SECRET,
        ownership::{self, Owner},
    },
    unjoin::Cleaned,
    write::{self, Mode},
};

/// Objects of an agent, in the order of their deletion: nothing that runs loses its rights before it is gone.
fn objects(namespace: &str, deployment: &str) -> [Value; 5] {
    let rbac = "rbac.authorization.k8s.io/v1";
    let named = |version: &str, kind: &str, name: &str, namespace: Option<&str>| {
        let mut metadata = json!({"name": name});
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.into();
        }
        json!({"apiVersion": version, "kind": kind, "metadata": metadata})
    };
    [
        named("apps/v1", "Deployment", deployment, Some(namespace)),
        named("v1", "ServiceAccount", ACCOUNT, Some(namespace)),
        named(rbac, "ClusterRoleBinding", AGENT, None),
        named(rbac, "ClusterRole", AGENT, None),
        named("v1", "Secret", SECRET, Some(namespace)),
    ]
}

/// Deletes the agent of a cluster, as far as it is that cluster's; the namespace stays. In a dry run the server is
/// only asked (specification/operations.md 2.5).
///
/// # Errors
/// If the member refuses: with the operation, and its answer.
pub(super) async fn clean(
    member: &Client,
    cluster: &str,
    namespace: &str,
    deployment: &str,
    mode: Mode,
) -> Result<Cleaned, (String, kube::Error)> {
    let mut cleaned = Cleaned::default();
    // What has only karmadactl's label is this cluster's if a Deployment or a Secret beside it is.
    let mut confirmed = false;
    let mut found = Vec::new();
    for object in objects(namespace, deployment) {
        let name = print::name(&object);
        let present = write::api_of(member, &object).get_opt(print::text(&object, "/metadata/name")).await;
        let Some(present) = present.map_err(|error| (format!("reading {name}"), error))? else { continue };
        let owner = ownership::of(&present, cluster);
        confirmed |= owner == Owner::Ours;
        found.push((object, present, owner));
    }
    for (object, present, owner) in found {
        let name = print::name(&object);
        let why = match owner {
            Owner::Ours => None,
            Owner::Unmarked if confirmed => None,
            Owner::Unmarked => Some("it does not say of which cluster's agent it is".to_owned()),
            Owner::Other(why) => Some(why),
        };
        if let Some(why) = why {
            cleaned.left.push(format!("{name}: {why}"));
            continue;
        }
        let preconditions = Some(Preconditions { uid: present.uid(), resource_version: None });
        let params = DeleteParams { preconditions, dry_run: mode == Mode::DryRun, ..DeleteParams::background() };
        match write::api_of(member, &object).delete(&present.name_any(), &params).await {
            Ok(_) => cleaned.deleted += 1,
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err((format!("deleting {name}"), error)),
        }
    }
    Ok(cleaned)
}

/// Deletes the rights of an agent in the control plane, which Ironclad deletes with the Cluster and Karmada keeps.
/// Those without the label of registrations stay.
///
/// # Errors
/// If the control plane refuses: with the operation, and its answer.
pub(super) async fn clean_plane(plane: &Client, cluster: &str) -> Result<(), (String, kube::Error)> {
    for object in ironclad_api::agents::agent_rights(cluster).iter().rev() {
        let (api, name) = (write::api_of(plane, object), print::text(object, "/metadata/name"));
        let doing = |what: &str| format!("{what} {} of the control plane", print::name(object));
        let present = api.get_opt(name).await.map_err(|error| (doing("reading"), error))?;
        let Some(present) = present.filter(|present| present.metadata.deletion_timestamp.is_none()) else { continue };
        let label = present.labels().get(ironclad_api::labels::SYSTEM).map(String::as_str);
        if label != Some(ironclad_api::labels::TRUE) {
            continue;
        }
        let preconditions = Some(Preconditions { uid: present.uid(), resource_version: None });
        match api.delete(name, &DeleteParams { preconditions, ..DeleteParams::background() }).await {
            Ok(_) => {}
            // It is deleted already, or made anew.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err((doing("deleting"), error)),
        }
    }
    Ok(())
}
