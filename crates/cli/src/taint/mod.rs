//! Editing the taints of clusters (specification/failover.md 9.1).

pub mod command;
pub mod edit;
pub mod spec;

use std::sync::Arc;

use ironclad_api::{
    Taint,
    cluster::Cluster,
    work::{ClusterResourceBinding, ResourceBinding},
};
use ironclad_failover::taints::{self, Owners, TaintId};
use ironclad_planning::taint::{Counter, Fleet, Impact};
use ironclad_runtime::Api;
use kube::{
    Client, ResourceExt as _,
    api::{Patch, PatchParams},
};

use crate::{
    unjoin::each,
    write::{FIELD_MANAGER, Mode},
};

/// Attempts of one edit; each reads the cluster again.
const ATTEMPTS: usize = 5;

/// Error of editing the taints of a cluster.
#[derive(Debug, thiserror::Error)]
pub enum TaintError {
    /// There is no such cluster.
    #[error(
        "Error from server (NotFound): clusters.cluster.karmada.io {name:?} not found\n  try: ironclad get clusters"
    )]
    NotFound {
        /// Its name.
        name: String,
    },
    /// It is tainted so already, or not.
    #[error(transparent)]
    Refused(#[from] edit::Refused),
    /// Others kept editing it.
    #[error("cluster {name} was not changed\n  because of repeated conflicts with other writers\n  try: again")]
    Busy {
        /// Its name.
        name: String,
    },
    /// The control plane did not do its part.
    #[error("cluster {name} was not changed")]
    Server {
        /// Its name.
        name: String,
        /// The server's answer.
        source: Box<kube::Error>,
    },
}

/// Counts the bindings that a cluster with these taints loses.
///
/// # Errors
/// If the bindings can't be listed.
pub async fn impact(plane: &Client, cluster: &str, taints: &[Taint], fleet: &Fleet<'_>) -> Result<Impact, kube::Error> {
    let mut counter = Counter::new(cluster, taints, fleet);
    let bindings: Api<ResourceBinding> = Api::all(plane.clone());
    each(&bindings, |binding| counter.add(&Arc::new(binding.clone()).into())).await?;
    let bindings: Api<ClusterResourceBinding> = Api::all(plane.clone());
    each(&bindings, |binding| counter.add(&Arc::new(binding.clone()).into())).await?;
    Ok(counter.finish())
}

/// Reads the cluster.
///
/// # Errors
/// If it is not there or can't be read.
pub async fn find(plane: &Client, name: &str) -> Result<Cluster, TaintError> {
    let found = Api::<Cluster>::all(plane.clone()).get_opt(name).await;
    let found = found.map_err(|error| TaintError::Server { name: name.to_owned(), source: Box::new(error) })?;
    found.ok_or_else(|| TaintError::NotFound { name: name.to_owned() })
}

/// Adds one taint to a cluster that was read before, unless one of that key and effect is there. Returns whether
/// something was written.
///
/// # Errors
/// If the control plane does not take it.
pub async fn add(plane: &Client, cluster: Cluster, taint: Taint) -> Result<bool, TaintError> {
    let edit = |taints: &[Taint]| {
        let there = taints.iter().any(|old| TaintId::of(&taint).is(old));
        Ok((!there).then(|| taints.iter().chain([&taint]).cloned().collect()))
    };
    change(plane, cluster, Mode::Keep, edit).await
}

/// Gives a cluster the taints that `edit` makes of those that it has, over the very version that was read; if it
/// changed meanwhile it is read and edited again. `None` of `edit` writes nothing. Returns whether something was
/// written.
///
/// # Errors
/// If the edit is refused, or the control plane does not take it.
pub(crate) async fn change(
    plane: &Client,
    mut cluster: Cluster,
    mode: Mode,
    edit: impl Fn(&[Taint]) -> Result<Option<Vec<Taint>>, edit::Refused>,
) -> Result<bool, TaintError> {
    let (api, name) = (Api::<Cluster>::all(plane.clone()), cluster.name_any());
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        dry_run: mode == Mode::DryRun,
        ..PatchParams::default()
    };
    for _ in 0..ATTEMPTS {
        let Some(wanted) = edit(&cluster.spec.taints)? else { return Ok(false) };
        let Some(mut patch) = taints::patch(&cluster, &wanted, &Owners::of(&cluster)) else { return Ok(false) };
        patch["metadata"]["resourceVersion"] = cluster.resource_version().unwrap_or_default().into();
        match api.patch(&name, &params, &Patch::Merge(&patch)).await {
            Ok(_) => return Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => cluster = find(plane, &name).await?,
            Err(error) => return Err(TaintError::Server { name, source: Box::new(error) }),
        }
    }
    Err(TaintError::Busy { name })
}
