//! Taking our accounts and rights out of a member.

use ironclad_api::{
    labels::{SYSTEM, TRUE},
    names::{IMPERSONATOR, member_cluster_role, member_service_account},
};
use k8s_openapi::api::{
    core::v1::{Namespace, Secret, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use serde::de::DeserializeOwned;

use super::{UnjoinError, failed};

/// Deletes the binding, role, accounts and Secrets that a join made, and the namespace if nobody else's are in it:
/// a member may belong to two control planes.
///
/// # Errors
/// If the member refuses.
pub async fn clean(member: &Client, cluster: &str, namespace: &str) -> Result<(), UnjoinError> {
    let account = member_service_account(cluster);
    let role = member_cluster_role(&account);
    delete(&Api::<ClusterRoleBinding>::all(member.clone()), cluster, &role).await?;
    delete(&Api::<ClusterRole>::all(member.clone()), cluster, &role).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(member.clone(), namespace);
    let secrets: Api<Secret> = Api::namespaced(member.clone(), namespace);
    delete(&secrets, cluster, &account).await?;
    delete(&accounts, cluster, &account).await?;
    let listing = format!("listing the ServiceAccounts of namespace {namespace} of the member");
    let others = accounts.list(&ListParams::default()).await.map_err(failed(cluster, listing))?;
    if others.items.iter().any(|other| !["default", IMPERSONATOR].contains(&other.name_any().as_str())) {
        return Ok(());
    }
    delete(&secrets, cluster, IMPERSONATOR).await?;
    delete(&accounts, cluster, IMPERSONATOR).await?;
    let namespaces: Api<Namespace> = Api::all(member.clone());
    let reading = format!("reading namespace {namespace} of the member");
    let found = namespaces.get_opt(namespace).await.map_err(failed(cluster, reading))?;
    match found {
        Some(found) if found.labels().get(SYSTEM).is_some_and(|value| value == TRUE) => {
            delete(&namespaces, cluster, namespace).await
        }
        _ => Ok(()),
    }
}

async fn delete<K>(api: &Api<K>, cluster: &str, name: &str) -> Result<(), UnjoinError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(failed(cluster, format!("deleting {} {name} of the member", K::kind(&())))(error)),
    }
}
