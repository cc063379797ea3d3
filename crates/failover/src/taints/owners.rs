//! Annotation that records which taints of a Cluster a ClusterTaintPolicy owns (specification/failover.md 2.5).

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::{annotations::TAINT_OWNERS, cluster::Cluster};
use serde_json::{Value, json};

use super::TaintId;

/// The policies, by name, that put each taint on a cluster. A taint that is not in it is a person's, or another
/// program's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners(BTreeMap<String, BTreeSet<String>>);

impl Owners {
    /// As the annotation of the cluster has it. One that can't be read owns nothing: then no taint is removed.
    #[must_use]
    pub fn of(cluster: &Cluster) -> Self {
        let annotation = cluster.metadata.annotations.as_ref().and_then(|all| all.get(TAINT_OWNERS));
        Self(annotation.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
    }

    /// True if a policy owns the taint.
    #[must_use]
    pub fn is_owned(&self, taint: &TaintId) -> bool {
        self.policies(taint).next().is_some()
    }

    /// The names of the policies that own the taint, in order.
    pub fn policies(&self, taint: &TaintId) -> impl Iterator<Item = &str> {
        self.0.get(&taint.to_string()).into_iter().flatten().map(String::as_str)
    }

    /// True if this policy owns the taint.
    #[must_use]
    pub fn owns(&self, policy: &str, taint: &TaintId) -> bool {
        self.policies(taint).any(|name| name == policy)
    }

    /// True if this policy owns any taint here.
    #[must_use]
    pub fn names(&self, policy: &str) -> bool {
        self.0.values().any(|names| names.contains(policy))
    }

    /// The policy owns the taint from now on.
    pub fn add(&mut self, taint: &TaintId, policy: &str) {
        self.0.entry(taint.to_string()).or_default().insert(policy.to_owned());
    }

    /// The policy does not own the taint any more.
    pub fn remove(&mut self, taint: &TaintId, policy: &str) {
        self.retain(|at, name| at != taint.to_string() || name != policy);
    }

    /// Keeps the ownerships, given as `key:effect` and the policy's name, for which this holds. Returns the taints that
    /// lost their last owner.
    pub fn retain(&mut self, keep: impl Fn(&str, &str) -> bool) -> Vec<String> {
        let mut orphans = Vec::new();
        self.0.retain(|taint, names| {
            names.retain(|name| keep(taint, name));
            if names.is_empty() {
                orphans.push(taint.clone());
            }
            !names.is_empty()
        });
        orphans
    }

    /// Merge patch of the cluster's annotations; `None` if nothing changes.
    #[must_use]
    pub fn change_for(&self, cluster: &Cluster) -> Option<Value> {
        let annotation = cluster.metadata.annotations.as_ref().and_then(|all| all.get(TAINT_OWNERS));
        let text = if self.0.is_empty() { Value::Null } else { json!(json!(self.0).to_string()) };
        let same = match annotation {
            // Written by hand, perhaps in another order.
            Some(_) => !self.0.is_empty() && *self == Self::of(cluster),
            None => text.is_null(),
        };
        (!same).then(|| json!({ TAINT_OWNERS: text }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::cluster;

    fn annotated(text: &str) -> Cluster {
        let mut cluster = cluster("m1");
        cluster.metadata.annotations = Some([(TAINT_OWNERS.to_owned(), text.to_owned())].into());
        cluster
    }

    #[test]
    fn owners_are_read_from_the_annotation() {
        let id = TaintId::new("a", "NoExecute");
        for (name, text, owned, names_p) in [
            ("two policies", r#"{"a:NoExecute":["p","q"]}"#, vec!["p", "q"], true),
            ("another effect", r#"{"a:NoSchedule":["p"]}"#, vec![], true),
            ("no policy", r#"{"a:NoExecute":[]}"#, vec![], false),
            ("invalid JSON: no owner", "p", vec![], false),
        ] {
            let owners = Owners::of(&annotated(text));
            assert_eq!(owners.policies(&id).collect::<Vec<_>>(), owned, "{name}");
            assert_eq!((owners.is_owned(&id), owners.names("p")), (!owned.is_empty(), names_p), "{name}");
        }
    }

    #[test]
    fn owners_are_written_if_they_change() {
        let id = TaintId::new("a", "NoExecute");
        let mut owners = Owners::default();
        assert_eq!(owners.change_for(&cluster("m1")), None);
        owners.add(&id, "q");
        owners.add(&id, "p");
        let text = r#"{"a:NoExecute":["p","q"]}"#;
        assert_eq!(owners.change_for(&cluster("m1")), Some(json!({ TAINT_OWNERS: text })));
        assert_eq!(owners.change_for(&annotated(text)), None);
        assert_eq!(
            owners.change_for(&annotated(r#"{ "a:NoExecute": ["q", "p"] }"#)),
            None,
            "formatting and order do not matter"
        );
        owners.remove(&id, "q");
        assert!(owners.owns("p", &id) && !owners.owns("q", &id));
        assert_eq!(owners.retain(|_, _| false), ["a:NoExecute"]);
        assert_eq!(owners.change_for(&annotated(text)), Some(json!({ TAINT_OWNERS: null })));
    }
}
