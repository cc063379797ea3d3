//! Removal of what a join made: accounts and rights in the member, credentials in the control plane.

use ironclad_api::{
    annotations::JOINED_BY,
    names::{IMPERSONATOR, impersonation_secret, member_cluster_role, member_service_account},
};
use ironclad_runtime::{Api, discover};
use k8s_openapi::api::{
    core::v1::{Namespace, Secret, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Client, Resource, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, ObjectMeta, Preconditions},
    discovery::{Scope, verbs},
};

use super::{UnjoinError, failed};
use crate::{
    join::ownership::{self, Owner},
    write::Mode,
};

/// Objects that a namespace has from the start.
const OF_EVERY_NAMESPACE: [(&str, &str); 2] = [("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")];

/// Identity of a join, by which its objects in a member are recognized.
#[derive(Debug, Clone, Copy)]
pub struct Joined<'a> {
    /// Name of the cluster.
    pub cluster: &'a str,
    /// The uid of namespace kube-system of the control plane.
    pub plane: &'a str,
    /// Namespace of the accounts.
    pub namespace: &'a str,
    /// The Cluster exists and its id is that of the member, so that objects without our annotation, which karmadactl
    /// and older releases made, are known to be its own.
    pub confirmed: bool,
    /// The servers are only asked.
    pub mode: Mode,
}

/// Result of a removal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Number of objects that were deleted.
    pub deleted: usize,
    /// Objects that were left, each with the reason.
    pub left: Vec<String>,
}

/// Deletes the binding, role, accounts and Secrets that the join made, and its namespace if nothing else is in it: a
/// member may belong to two control planes. In a dry run the cluster's own account stays, so that what is shared, and
/// the namespace, is not asked for.
///
/// # Errors
/// If the member refuses.
pub async fn clean(member: &Client, joined: &Joined<'_>) -> Result<Cleaned, UnjoinError> {
    let Joined { cluster, namespace, .. } = *joined;
    let account = member_service_account(cluster);
    let role = member_cluster_role(&account);
    let mut cleaned = Cleaned::default();
    let accounts: Api<ServiceAccount> = Api::namespaced(member.clone(), namespace);
    let secrets: Api<Secret> = Api::namespaced(member.clone(), namespace);
    let ours = |meta: &ObjectMeta| match ownership::in_member(meta, joined.plane) {
        Owner::Unmarked if !joined.confirmed => Owner::Other("it does not say which control plane made it".to_owned()),
        owner => owner,
    };
    // Rights first: if a later deletion fails, the remaining account has no rights.
    delete(&Api::<ClusterRoleBinding>::all(member.clone()), joined, &role, ours, &mut cleaned).await?;
    delete(&Api::<ClusterRole>::all(member.clone()), joined, &role, ours, &mut cleaned).await?;
    delete(&secrets, joined, &account, ours, &mut cleaned).await?;
    delete(&accounts, joined, &account, ours, &mut cleaned).await?;

    let listing = format!("listing the ServiceAccounts of namespace {namespace} of the member");
    let others = accounts.list(&ListParams::default()).await.map_err(failed(cluster, listing))?;
    let known = ["default", IMPERSONATOR];
    if others.iter().any(|other| !known.contains(&other.name_any().as_str())) {
        return Ok(cleaned);
    }
    // Any control plane may have made the account that all of them share; the last one deletes it.
    let shared = |meta: &ObjectMeta| match ownership::in_member(meta, joined.plane) {
        Owner::Other(_) if meta.annotations.as_ref().is_some_and(|all| all.contains_key(JOINED_BY)) => Owner::Ours,
        _ => ours(meta),
    };
    delete(&secrets, joined, IMPERSONATOR, shared, &mut cleaned).await?;
    delete(&accounts, joined, IMPERSONATOR, shared, &mut cleaned).await?;
    clean_namespace(member, joined, &mut cleaned).await?;
    Ok(cleaned)
}

/// Deletes the namespace if the join created it and nothing else is in it.
async fn clean_namespace(member: &Client, joined: &Joined<'_>, cleaned: &mut Cleaned) -> Result<(), UnjoinError> {
    let (cluster, namespace) = (joined.cluster, joined.namespace);
    let namespaces: Api<Namespace> = Api::all(member.clone());
    let reading = format!("reading namespace {namespace} of the member");
    let found = namespaces.get_opt(namespace).await.map_err(failed(cluster, reading))?;
    let Some(found) = found.filter(|found| found.metadata.deletion_timestamp.is_none()) else { return Ok(()) };
    if !found.annotations().contains_key(JOINED_BY) {
        cleaned.left.push(format!("namespace {namespace}, which no join created"));
        return Ok(());
    }
    let listing = format!("looking for other objects in namespace {namespace} of the member");
    if let Some(other) = first_other(member, namespace).await.map_err(failed(cluster, listing))? {
        cleaned.left.push(format!("namespace {namespace}, which has other objects, such as {other}"));
        return Ok(());
    }
    let ours = |_: &ObjectMeta| Owner::Ours;
    delete(&namespaces, joined, namespace, ours, cleaned).await
}

/// An object of any kind in the namespace that does not come with every namespace.
async fn first_other(member: &Client, namespace: &str) -> Result<Option<String>, kube::Error> {
    let discovery = discover(member).await?;
    for (resource, capabilities) in discovery.groups().flat_map(|group| group.recommended_resources()) {
        // Endpoints belong to Services, which are listed; servers warn of their list.
        let is_none = resource.kind == "Event" || resource.kind == "Endpoints";
        if capabilities.scope != Scope::Namespaced || !capabilities.supports_operation(verbs::LIST) || is_none {
            continue;
        }
        let objects: Api<DynamicObject> = Api::namespaced_with(member.clone(), namespace, &resource);
        for object in objects.list_metadata(&ListParams::default()).await?.items {
            let name = object.metadata.name.unwrap_or_default();
            let deleted = object.metadata.deletion_timestamp.is_some();
            if !deleted && !OF_EVERY_NAMESPACE.contains(&(resource.kind.as_str(), name.as_str())) {
                return Ok(Some(format!("{} {name}", resource.kind)));
            }
        }
    }
    Ok(None)
}

/// Deletes the credentials in the control plane that nothing owns, which a join that broke off leaves.
///
/// # Errors
/// If the control plane refuses.
pub async fn clean_plane(plane: &Client, cluster: &str, namespace: &str) -> Result<Cleaned, UnjoinError> {
    let secrets: Api<Secret> = Api::namespaced(plane.clone(), namespace);
    let mut cleaned = Cleaned::default();
    let joined = Joined { cluster, plane: "", namespace, confirmed: true, mode: Mode::Keep };
    let ours = |meta: &ObjectMeta| match ownership::in_plane(meta, cluster) {
        Owner::Ours => Owner::Ours,
        _ => Owner::Other("it is not the cluster's".to_owned()),
    };
    for name in [impersonation_secret(cluster), cluster.to_owned()] {
        delete(&secrets, &joined, &name, ours, &mut cleaned).await?;
    }
    Ok(Cleaned { left: Vec::new(), ..cleaned })
}

/// Deletes an object, unless it is somebody else's.
async fn delete<K>(
    api: &Api<K>,
    joined: &Joined<'_>,
    name: &str,
    owner: impl Fn(&ObjectMeta) -> Owner,
    cleaned: &mut Cleaned,
) -> Result<(), UnjoinError>
where
    K: ironclad_runtime::Object + Resource<DynamicType = ()>,
{
    let kind = K::kind(&());
    let failed = |doing: &str| failed(joined.cluster, format!("{doing} {kind} {name}"));
    let Some(found) = api.get_opt(name).await.map_err(failed("reading"))? else { return Ok(()) };
    if let Owner::Other(why) = owner(found.meta()) {
        cleaned.left.push(format!("{kind} {name}: {why}"));
        return Ok(());
    }
    let preconditions = Some(Preconditions { uid: found.uid(), resource_version: None });
    let params = DeleteParams { preconditions, dry_run: joined.mode == Mode::DryRun, ..DeleteParams::background() };
    match api.delete(name, &params).await {
        Ok(_) => cleaned.deleted += 1,
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(failed("deleting")(error)),
    }
    Ok(())
}
