//! Changes of objects in the stores of the simulated servers.

use std::{sync::Arc, time::Duration};

use ironclad_api::{
    cluster::Cluster,
    work::{ResourceBinding, Work},
};
use ironclad_fleet::{BindingKey, ClusterName, ObjectKey, WorkKey};

#[derive(Debug, Clone)]
pub enum Changed {
    Cluster {
        name: ClusterName,
        /// State before; `None` if it did not exist.
        old: Option<Arc<Cluster>>,
        /// State after; `None` if it was deleted.
        new: Option<Arc<Cluster>>,
    },
    /// A binding of either kind; a ClusterResourceBinding is converted and has no namespace.
    Binding {
        key: BindingKey,
        old: Option<Arc<ResourceBinding>>,
        new: Option<Arc<ResourceBinding>>,
    },
    Work {
        key: WorkKey,
        old: Option<Arc<Work>>,
        new: Option<Arc<Work>>,
    },
    Copy {
        cluster: ClusterName,
        object: ObjectKey,
        before: bool,
        after: bool,
        template: String,
    },
    /// A member lost the ConfigMap that a Deployment mounts.
    ConfigDeleted {
        /// The member.
        cluster: ClusterName,
        /// Namespace of both.
        namespace: Arc<str>,
        /// Name of the Deployment.
        workload: Arc<str>,
    },
}

#[derive(Debug, Clone)]
pub struct Write {
    /// Virtual time since the start of the world.
    pub at: Duration,
    /// True time of day, seconds.
    pub wall: i64,
    pub what: Changed,
}
