//! Changes of objects, as the stores of the simulated servers made them.

use std::{sync::Arc, time::Duration};

use ironclad_api::{
    cluster::Cluster,
    work::{ResourceBinding, Work},
};
use ironclad_fleet::{BindingKey, ClusterName, ObjectKey, WorkKey};

/// One change, as the store made it.
#[derive(Debug, Clone)]
pub enum Changed {
    /// A Cluster.
    Cluster {
        /// Its name.
        name: ClusterName,
        /// Before; `None` if it was not there.
        old: Option<Arc<Cluster>>,
        /// After; `None` if it is gone.
        new: Option<Arc<Cluster>>,
    },
    /// A binding of either kind; that of a cluster-scoped template has no namespace and is shown as the other kind.
    Binding {
        /// Its key.
        key: BindingKey,
        /// Before.
        old: Option<Arc<ResourceBinding>>,
        /// After.
        new: Option<Arc<ResourceBinding>>,
    },
    /// A Work.
    Work {
        /// Its key.
        key: WorkKey,
        /// Before.
        old: Option<Arc<Work>>,
        /// After.
        new: Option<Arc<Work>>,
    },
    /// A Deployment in a member came, changed or went.
    Copy {
        /// The member.
        cluster: ClusterName,
        /// Which object.
        object: ObjectKey,
        /// Set if it existed before.
        before: bool,
        /// Set if it exists now.
        after: bool,
        /// The uid of the template that it was a copy of.
        template: String,
    },
}

/// A change and its moment.
#[derive(Debug, Clone)]
pub struct Write {
    /// Virtual time since the world began.
    pub at: Duration,
    /// The true time of day then, seconds.
    pub wall: i64,
    /// The change.
    pub what: Changed,
}
