//! Members as a process knows them: from a Cluster and its Secret to a client, the life of a connection, and caches of
//! a member that everything in a process shares.
//!
//! [`Connections`] is the process: it has one connection for each address and credentials, however many follow
//! the Clusters. [`Members`] is one of those who follow them, which tells listeners of members that come; what they
//! keep for each is theirs ([`PerMember`]). A cache is taken from [`Member::caches`] by its spec.

mod connections;
mod connector;
mod credentials;
mod kinds;
mod members;

pub use connections::{Connections, Member};
pub use connector::{Connector, NetworkConnector, client, streams};
pub use credentials::Credentials;
pub use kinds::{
    BY_BINDING_WITHOUT_NODE, NODES, Node, PODS, Pod, REPLICA_SETS, RESOURCE_QUOTAS, ReplicaSet, ResourceQuota,
    WithoutNode,
};
pub use members::{Members, PerMember, Unconnected};
