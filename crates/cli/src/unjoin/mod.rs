//! Removal of a push member from the fleet (specification/operations.md 2.4).

pub mod command;
mod consent;
mod force;
mod member;

use std::time::Duration;

use ironclad_api::{
    annotations::KEEP_WORKLOADS,
    cluster::{Cluster, SyncMode},
    labels,
    names::execution_namespace,
    work::{ClusterResourceBinding, ResourceBinding, Work},
};
use ironclad_planning::unjoin::{Impact, blocked};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use kube::{
    Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions},
};
use serde_json::json;

use crate::join;

pub(crate) use consent::Consent;
pub use member::{Cleaned, Joined, clean, clean_plane};

/// Objects that are listed at a time.
const PAGE: u32 = 500;
/// Interval between checks whether the cluster is deleted.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Error of removing a cluster.
#[derive(Debug, thiserror::Error)]
pub enum UnjoinError {
    /// There is no such cluster.
    #[error("no cluster object {name} found in karmada control Plane\n  try: ironclad get clusters")]
    NotFound {
        /// Its name.
        name: String,
    },
    /// It is a pull member.
    #[error(
        "cluster {name} was not unjoined\n  because it is registered in pull mode\n  try: ironclad unregister {name}"
    )]
    Pull {
        /// Its name.
        name: String,
    },
    /// The kubeconfig of the member leads elsewhere.
    #[error(
        "cluster {name} was not unjoined\n  because --cluster-kubeconfig leads to another cluster (namespace kube-system \
         has uid {found}, spec.id is {id:?}), where nothing may be deleted\n  \
         try: --cluster-context NAME, or without --cluster-kubeconfig"
    )]
    OtherMember {
        /// Its name.
        name: String,
        /// The identity in its spec.
        id: String,
        /// The identity of the server that answered.
        found: String,
    },
    /// The kubeconfig of the member leads to the control plane.
    #[error(
        "cluster {name} was not unjoined\n  because --cluster-kubeconfig leads to the control plane, whose credentials of \
         all members would be deleted\n  try: --cluster-kubeconfig FILE of the member, or --cluster-context NAME"
    )]
    MemberIsPlane {
        /// Its name.
        name: String,
    },
    /// The cluster is the control plane itself.
    #[error(
        "cluster {name} was not unjoined\n  because it is the control plane itself: removing its workloads would delete \
         the templates\n  try: --keep-workloads"
    )]
    PlaneIsCluster {
        /// Its name.
        name: String,
    },
    /// The Cluster was not deleted in time.
    #[error(
        "timed out after {seconds} s waiting for cluster {name} to go\n  because {holds}\n  \
         try: kubectl describe cluster {name}; or --force, which may leave objects in the member"
    )]
    StillThere {
        /// Its name.
        name: String,
        /// Timeout.
        seconds: u64,
        /// Reason that blocks the removal.
        holds: String,
    },
    /// A server refused or did not answer.
    #[error("cluster {name} was not unjoined: {doing}")]
    Server {
        /// Its name.
        name: String,
        /// The attempted operation.
        doing: String,
        /// The server's answer.
        source: Box<kube::Error>,
    },
}

fn failed(name: &str, doing: impl Into<String>) -> impl FnOnce(kube::Error) -> UnjoinError {
    let (name, doing) = (name.to_owned(), doing.into());
    move |source| UnjoinError::Server { name, doing, source: Box::new(source) }
}

/// The cluster, if it may be unjoined.
///
/// # Errors
/// If there is none, or it is a pull member.
pub async fn find(plane: &Client, name: &str) -> Result<Cluster, UnjoinError> {
    let clusters: Api<Cluster> = Api::all(plane.clone());
    let cluster = clusters.get_opt(name).await.map_err(failed(name, "reading it"))?;
    match cluster {
        None => Err(UnjoinError::NotFound { name: name.to_owned() }),
        Some(cluster) if cluster.spec.sync_mode == SyncMode::Pull => Err(UnjoinError::Pull { name: name.to_owned() }),
        Some(cluster) => Ok(cluster),
    }
}

/// The identity of the control plane and, if a client of the member is given, proof that it is the cluster's.
///
/// # Errors
/// If the member is another cluster, or a server does not answer.
pub async fn identify(
    plane: &Client,
    member: Option<&Client>,
    name: &str,
    cluster: Option<&Cluster>,
) -> Result<String, UnjoinError> {
    let reading = |side: &str| failed(name, format!("reading namespace kube-system of the {side}"));
    let plane_id = join::identity(plane).await.map_err(reading("control plane"))?.unwrap_or_default();
    let Some(member) = member else { return Ok(plane_id) };
    let found = join::identity(member).await.map_err(reading("member"))?.unwrap_or_default();
    if found == plane_id {
        return Err(UnjoinError::MemberIsPlane { name: name.to_owned() });
    }
    match cluster {
        Some(cluster) if cluster.spec.id != found || found.is_empty() => {
            Err(UnjoinError::OtherMember { name: name.to_owned(), id: cluster.spec.id.clone(), found })
        }
        _ => Ok(plane_id),
    }
}

/// Counts the objects that lose the cluster.
///
/// # Errors
/// If the control plane can't be asked.
pub async fn impact(plane: &Client, cluster: &str) -> Result<Impact, UnjoinError> {
    let mut impact = Impact::default();
    let works = Api::<Work>::namespaced(plane.clone(), &execution_namespace(cluster));
    each(&works, |_| impact.works += 1).await.map_err(failed(cluster, "listing its Works"))?;
    let bindings = Api::<ResourceBinding>::all(plane.clone());
    let listing = "listing ResourceBindings";
    each(&bindings, |binding| impact.count(&binding.spec, binding.status.as_ref(), cluster))
        .await
        .map_err(failed(cluster, listing))?;
    let bindings = Api::<ClusterResourceBinding>::all(plane.clone());
    let listing = "listing ClusterResourceBindings";
    each(&bindings, |binding| impact.count(&binding.spec, binding.status.as_ref(), cluster))
        .await
        .map_err(failed(cluster, listing))?;
    Ok(impact)
}

/// Visits every object, a page at a time.
pub(crate) async fn each<K>(api: &Api<K>, mut visit: impl FnMut(&K)) -> Result<(), kube::Error>
where
    K: ironclad_runtime::Object,
{
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&params).await?;
        page.items.iter().for_each(&mut visit);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// Reaction to a cluster that is not removed in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTimeout {
    /// Fail and report the finalizers.
    Report,
    /// Remove its finalizers: objects may stay in the member.
    RemoveFinalizers,
}

/// Handling of the objects that were propagated to the member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workloads {
    /// They are deleted there.
    Remove,
    /// They stay, without our marks.
    Keep,
}

/// True if the cluster is marked to keep its workloads when it is removed.
#[must_use]
pub fn keeps(cluster: &Cluster) -> bool {
    let mark = cluster.metadata.annotations.as_ref().and_then(|all| all.get(KEEP_WORKLOADS));
    mark.is_some_and(|value| value == labels::TRUE)
}

/// The annotation is written before the deletion, so controllers that see the deletion see the annotation too: no
/// object of the member has a moment in which it would be deleted.
async fn mark(clusters: &Api<Cluster>, cluster: &Cluster, dry_run: bool) -> Result<(), kube::Error> {
    if keeps(cluster) {
        return Ok(());
    }
    let uid = cluster.metadata.uid.clone();
    let patch = json!({ "metadata": { "uid": uid, "annotations": { KEEP_WORKLOADS: labels::TRUE } } });
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let params = PatchParams { dry_run, ..PatchParams::default() };
    clusters.patch_metadata(name, &params, &Patch::Merge(patch)).await.map(drop)
}

/// Begins the deletion of the cluster, in a dry run as far as the server is asked. Returns false if it does not exist.
async fn delete(
    clusters: &Api<Cluster>,
    cluster: &Cluster,
    workloads: Workloads,
    dry_run: bool,
) -> Result<bool, UnjoinError> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    if workloads == Workloads::Keep {
        let doing = "marking that its workloads are kept";
        mark(clusters, cluster, dry_run).await.map_err(failed(name, doing))?;
    }
    let preconditions = Some(Preconditions { uid: cluster.metadata.uid.clone(), resource_version: None });
    let params = DeleteParams { preconditions, dry_run, ..DeleteParams::background() };
    match clusters.delete(name, &params).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(failed(name, "deleting it")(error)),
    }
}

/// Asks the control plane whether it would take the writes of [`remove`].
///
/// # Errors
/// If it would not.
pub(crate) async fn would_remove(plane: &Client, cluster: &Cluster, workloads: Workloads) -> Result<(), UnjoinError> {
    delete(&Api::all(plane.clone()), cluster, workloads, true).await.map(drop)
}

/// Deletes the cluster and waits until it is removed. Reports what blocks the removal meanwhile.
///
/// # Errors
/// If it is refused, or still there in the end.
pub async fn remove(
    plane: &Client,
    clock: &Clock,
    cluster: &Cluster,
    workloads: Workloads,
    wait: Duration,
    on_timeout: OnTimeout,
    mut report: impl FnMut(&str),
) -> Result<(), UnjoinError> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let clusters: Api<Cluster> = Api::all(plane.clone());
    if !delete(&clusters, cluster, workloads, false).await? {
        return Ok(());
    }
    let deadline = clock.mono() + wait;
    let mut forced = on_timeout == OnTimeout::Report;
    let mut reported = None;
    loop {
        let present = clusters.get_opt(name).await.map_err(failed(name, "reading it"))?;
        let Some(present) = present.filter(|present| present.metadata.uid == cluster.metadata.uid) else {
            return Ok(());
        };
        let blocked = blocked(&present).map(str::to_owned);
        if let Some(why) = blocked.as_ref().filter(|_| reported != blocked) {
            report(&format!("cluster {name} waits: {why}"));
        }
        reported.clone_from(&blocked);
        if clock.mono() >= deadline {
            if forced {
                let finalizers = present.metadata.finalizers.unwrap_or_default().join(", ");
                let holds = blocked.unwrap_or_else(|| format!("its finalizers are not released: {finalizers}"));
                return Err(UnjoinError::StillThere { name: name.to_owned(), seconds: wait.as_secs(), holds });
            }
            force::strip(plane, name).await?;
            forced = true;
            continue;
        }
        clock.sleep(POLL_INTERVAL).await;
    }
}
