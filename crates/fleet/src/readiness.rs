//! Readiness of clusters, as decisions about reports need it.

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::{cluster::Cluster, conditions};

use crate::ClusterName;

/// Returns those of these clusters that are missing or not ready: what is reported from them does not count.
#[must_use]
pub fn not_ready(
    names: impl IntoIterator<Item = ClusterName>,
    cluster: impl Fn(&ClusterName) -> Option<Arc<Cluster>>,
) -> BTreeSet<ClusterName> {
    let is_ready = |name: &ClusterName| cluster(name).is_some_and(|c| c.ready() == Some(conditions::TRUE));
    names.into_iter().filter(|name| !is_ready(name)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_unready_and_unknown_clusters_are_not_ready() {
        let lookup = |name: &ClusterName| {
            let status = match &*name.0 {
                "ready" => "True",
                "unready" => "False",
                "silent" => "Unknown",
                _ => return None,
            };
            let conditions = json!([{"type": "Ready", "status": status, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
            let cluster = json!({"metadata": {"name": &*name.0}, "spec": {"syncMode": "Push"},
                "status": {"conditions": conditions}});
            Some(Arc::new(serde_json::from_value(cluster).unwrap()))
        };
        let names = ["ready", "unready", "silent", "missing"].map(ClusterName::from);
        let found: Vec<String> = not_ready(names, lookup).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["missing", "silent", "unready"]);
    }
}
