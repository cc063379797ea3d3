//! Removal of a pull member from the fleet (specification/operations.md 2.5).

pub mod command;
mod member;
mod plane;

use ironclad_api::cluster::{Cluster, SyncMode};
use ironclad_runtime::Api;
use kube::Client;

use crate::unjoin::UnjoinError;

/// Error of removing a cluster.
#[derive(Debug, thiserror::Error)]
pub enum UnregisterError {
    /// There is no such cluster.
    #[error("no cluster object {name} found in karmada control Plane\n  try: ironclad get clusters")]
    NotFound {
        /// Its name.
        name: String,
    },
    /// It is a push member.
    #[error(
        "cluster {name} is a Push mode member cluster, please use command `unjoin` if you want to continue unregistering the \
         cluster\n  try: ironclad unjoin {name}"
    )]
    Push {
        /// Its name.
        name: String,
    },
    /// The kubeconfig of the member leads elsewhere.
    #[error(
        "cluster {name} was not unregistered\n  because --cluster-kubeconfig leads to another cluster (namespace kube-system \
         has uid {found}, spec.id is {id:?}), where nothing may be deleted\n  try: --cluster-context NAME"
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
        "cluster {name} was not unregistered\n  because --cluster-kubeconfig leads to the control plane, whose credentials \
         of all members would be deleted\n  try: --cluster-kubeconfig FILE of the member, or --cluster-context NAME"
    )]
    MemberIsPlane {
        /// Its name.
        name: String,
    },
    /// The Cluster was not deleted in time.
    #[error(
        "timed out after {seconds} s waiting for cluster {name} to go\n  because {holds}\n  \
         try: kubectl describe cluster {name}; its agent has to run to remove what it applied; or --force, which may leave \
         objects in the member"
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
    #[error("cluster {name} was not unregistered: {doing}{remedy}")]
    Server {
        /// Its name.
        name: String,
        /// The attempted operation.
        doing: String,
        /// The next step, as a line of its own; empty if there is none.
        remedy: &'static str,
        /// The server's answer.
        source: Box<kube::Error>,
    },
    /// Another error of a removal.
    #[error(transparent)]
    Other(UnjoinError),
}

impl UnregisterError {
    fn server(name: &str, doing: impl Into<String>, source: kube::Error) -> Self {
        let remedy = match &source {
            kube::Error::Api(status) if status.code == 403 => "\n  try: --karmada-config FILE of an administrator",
            _ => "",
        };
        Self::Server { name: name.to_owned(), doing: doing.into(), remedy, source: Box::new(source) }
    }
}

impl From<UnjoinError> for UnregisterError {
    fn from(error: UnjoinError) -> Self {
        match error {
            UnjoinError::NotFound { name } => Self::NotFound { name },
            UnjoinError::OtherMember { name, id, found } => Self::OtherMember { name, id, found },
            UnjoinError::MemberIsPlane { name } => Self::MemberIsPlane { name },
            UnjoinError::StillThere { name, seconds, holds } => Self::StillThere { name, seconds, holds },
            UnjoinError::Server { name, doing, source } => Self::server(&name, doing, *source),
            other @ (UnjoinError::Pull { .. } | UnjoinError::PlaneIsCluster { .. }) => Self::Other(other),
        }
    }
}

/// The cluster, if it may be unregistered; `None` if there is none.
///
/// # Errors
/// If it is a push member, or the control plane does not answer.
pub async fn find(plane: &Client, name: &str) -> Result<Option<Cluster>, UnregisterError> {
    let clusters: Api<Cluster> = Api::all(plane.clone());
    let found = clusters.get_opt(name).await;
    match found.map_err(|error| UnregisterError::server(name, "reading it", error))? {
        Some(found) if found.spec.sync_mode == SyncMode::Push => Err(UnregisterError::Push { name: name.to_owned() }),
        found => Ok(found),
    }
}
