//! Makers for the tests of this crate: they take only what matters to a row.

use ironclad_api::{
    Taint, Time,
    cluster::{APIEnablement, APIResource, Cluster, ClusterSpec},
    conditions::{self, cluster::READY},
    finalizers::CLUSTER_CONTROLLER,
};
use jiff::Timestamp;

/// A moment, in seconds.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A cluster with its finalizer.
pub(crate) fn cluster(name: &str) -> Cluster {
    let mut cluster = Cluster::new(name, ClusterSpec::default());
    cluster.metadata.finalizers = Some(vec![CLUSTER_CONTROLLER.to_owned()]);
    cluster
}

/// Gives it a Ready condition, since this second.
pub(crate) fn ready(cluster: &mut Cluster, status: &str, since: i64) {
    let condition = conditions::condition(READY, status, "Stored", "");
    conditions::set(&mut cluster.status.get_or_insert_default().conditions, condition, &Time(at(since)));
}

/// One resource in each of these groups and versions.
pub(crate) fn apis(group_versions: &[&str]) -> Vec<APIEnablement> {
    let one = |group_version: &&str| APIEnablement {
        group_version: (*group_version).to_owned(),
        resources: vec![APIResource { name: "things".into(), kind: "Thing".into() }],
    };
    group_versions.iter().map(one).collect()
}

/// A taint without a value, added at this second.
pub(crate) fn taint(key: &str, effect: &str, added: Option<i64>) -> Taint {
    let time_added = added.map(|second| Time(at(second)));
    Taint { key: key.to_owned(), effect: effect.to_owned(), value: None, time_added }
}
