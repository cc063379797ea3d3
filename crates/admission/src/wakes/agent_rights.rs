//! Wake rules of the controller of agents' rights.

use ironclad_api::{cluster::Cluster, names, namespaces};
use k8s_openapi::api::core::v1::Namespace;

/// Clusters whose agents' rights have to be compared again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake<'a> {
    /// All clusters.
    All,
    /// The cluster of this name.
    Cluster(&'a str),
}

/// Returns true if a change of a Cluster may change which rights its agent has to have.
#[must_use]
pub fn cluster(old: Option<&Cluster>, new: Option<&Cluster>) -> bool {
    let what = |cluster: &Cluster| {
        (cluster.spec.sync_mode, cluster.metadata.uid.clone(), cluster.metadata.deletion_timestamp.is_some())
    };
    old.map(what) != new.map(what)
}

/// Returns the clusters that a changed namespace concerns: roles can be made in a new one, and those in one that is
/// gone are gone with it.
#[must_use]
pub fn namespace<'a>(old: Option<&'a Namespace>, new: Option<&'a Namespace>) -> Option<Wake<'a>> {
    if old.is_some() == new.is_some() {
        return None;
    }
    match new.or(old)?.metadata.name.as_deref()? {
        namespaces::CLUSTER => Some(Wake::All),
        name => names::cluster_of_execution_namespace(name).ok().map(Wake::Cluster),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agents::testkit::at;

    #[test]
    fn changes_of_mode_and_life_wake() {
        let of = |mode: &str| -> Cluster {
            serde_json::from_value(json!({"metadata": {"name": "m1", "uid": "u"}, "spec": {"syncMode": mode}})).unwrap()
        };
        let (pull, push) = (of("Pull"), of("Push"));
        let mut going = pull.clone();
        going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(1)));
        let mut labelled = pull.clone();
        labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        for (name, old, new, want) in [
            ("created", None, Some(&pull), true),
            ("deleted", Some(&pull), None, true),
            ("being deleted", Some(&pull), Some(&going), true),
            ("another mode", Some(&push), Some(&pull), true),
            ("labelled", Some(&pull), Some(&labelled), false),
        ] {
            assert_eq!(cluster(old, new), want, "{name}");
        }
    }

    #[test]
    fn namespaces_that_come_or_go_wake_their_agents() {
        let of = |name: &str| -> Namespace { serde_json::from_value(json!({"metadata": {"name": name}})).unwrap() };
        let (all, one, other) = (of("karmada-cluster"), of("karmada-es-m1"), of("shop"));
        for (name, old, new, want) in [
            ("the namespace of all clusters comes", None, Some(&all), Some(Wake::All)),
            ("it changes", Some(&all), Some(&all), None),
            ("an execution space comes", None, Some(&one), Some(Wake::Cluster("m1"))),
            ("it goes", Some(&one), None, Some(Wake::Cluster("m1"))),
            ("another namespace", None, Some(&other), None),
        ] {
            assert_eq!(namespace(old, new), want, "{name}");
        }
    }
}
