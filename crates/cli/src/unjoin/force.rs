//! Removal of finalizers that block the deletion of a Cluster: of its Works, its execution namespace and itself.

use ironclad_api::{cluster::Cluster, names::execution_namespace, work::Work};
use ironclad_runtime::Api;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{UnjoinError, each, failed};

/// Removes them in this order: Works, namespace, Cluster, so that no object outlives its owner.
pub(super) async fn strip(plane: &Client, cluster: &str) -> Result<(), UnjoinError> {
    let space = execution_namespace(cluster);
    let works: Api<Work> = Api::namespaced(plane.clone(), &space);
    let mut names = Vec::new();
    each(&works, |work| names.push(work.name_any())).await.map_err(failed(cluster, "listing its Works"))?;
    for name in names {
        let doing = format!("releasing Work {name}");
        ignore_not_found(release(&works, &name).await).map_err(failed(cluster, doing))?;
    }
    let namespaces: Api<Namespace> = Api::all(plane.clone());
    let deleting = format!("deleting namespace {space}");
    ignore_not_found(namespaces.delete(&space, &DeleteParams::default()).await.map(drop))
        .map_err(failed(cluster, deleting))?;
    let doing = format!("releasing namespace {space}");
    ignore_not_found(finalize(&namespaces, &space).await).map_err(failed(cluster, doing))?;
    let clusters: Api<Cluster> = Api::all(plane.clone());
    ignore_not_found(release(&clusters, cluster).await).map_err(failed(cluster, "releasing it"))
}

async fn release<K>(api: &Api<K>, name: &str) -> Result<(), kube::Error>
where
    K: ironclad_runtime::Object,
{
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    api.patch_metadata(name, &PatchParams::default(), &patch).await.map(drop)
}

/// Removes the finalizers in the spec of a namespace, which only the subresource `finalize` can do.
async fn finalize(namespaces: &Api<Namespace>, name: &str) -> Result<(), kube::Error> {
    let mut namespace = namespaces.get(name).await?;
    namespace.metadata.finalizers = None;
    namespace.spec.get_or_insert_default().finalizers = None;
    namespaces.replace_subresource("finalize", name, &PostParams::default(), &namespace).await.map(drop)
}

fn ignore_not_found(result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other,
    }
}
