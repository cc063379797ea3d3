//! Works: keys, manifests, and Works without a binding.

pub mod manifest;
pub mod owned;
mod owner;

use ironclad_api::{names, work::Work};
use ironclad_fleet::WorkKey;

pub use self::owner::{Owner, owner};

/// The key of a Work; `None` outside of execution spaces.
#[must_use]
pub fn key_of(work: &Work) -> Option<WorkKey> {
    let namespace = work.metadata.namespace.as_deref()?;
    let cluster = names::cluster_of_execution_namespace(namespace).ok()?;
    Some(WorkKey { cluster: cluster.into(), name: work.metadata.name.as_deref()?.into() })
}
