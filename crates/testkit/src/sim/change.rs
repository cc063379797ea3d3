//! Changes of objects in the stores of the simulated servers.

use std::{sync::Arc, time::Duration};

use ironclad_api::{
    cluster::Cluster,
    work::{ResourceBinding, Work},
};
use ironclad_fleet::{BindingKey, ClusterName, ObjectKey, WorkKey};
use k8s_openapi::api::core::v1::Node;

use super::checker::machines::Held;

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
    /// A node of a member was added, changed or (`None`) removed.
    Node {
        cluster: ClusterName,
        name: String,
        new: Option<Arc<Node>>,
    },
    /// A pod of a member was added, changed or (`None`) removed or ended.
    Pod {
        cluster: ClusterName,
        name: String,
        new: Option<Held>,
    },
}

impl Changed {
    /// Returns whether invariants over the objects of the fleet may be broken by it.
    pub fn is_of_the_fleet(&self) -> bool {
        !matches!(self, Self::Node { .. } | Self::Pod { .. })
    }
}

#[derive(Debug, Clone)]
pub struct Write {
    /// Virtual time since the start of the world.
    pub at: Duration,
    /// True time of day, seconds.
    pub wall: i64,
    pub what: Changed,
}
