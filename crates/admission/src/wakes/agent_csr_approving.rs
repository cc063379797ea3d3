//! Wake rules of the approval of agents' certificates.

use ironclad_api::cluster::Cluster;

use crate::agents::approval::has_permission;

/// Returns true if a change of a Cluster may make its name free: pending requests are decided on again.
#[must_use]
pub fn cluster(old: Option<&Cluster>, new: Option<&Cluster>) -> bool {
    let what = |cluster: &Cluster| (cluster.spec.sync_mode, has_permission(cluster), cluster.metadata.uid.clone());
    old.map(what) != new.map(what)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_that_may_free_a_name_wake_its_requests() {
        let of = |mode: &str, annotation: bool| -> Cluster {
            let annotations =
                if annotation { json!({"agent.ironclad.io/allow-reregister": "true"}) } else { json!({}) };
            let metadata = json!({"name": "m1", "uid": "u", "annotations": annotations});
            serde_json::from_value(json!({"metadata": metadata, "spec": {"syncMode": mode}})).unwrap()
        };
        let (pull, push, permitted) = (of("Pull", false), of("Push", false), of("Pull", true));
        let mut again = pull.clone();
        again.metadata.uid = Some("v".to_owned());
        let mut labelled = pull.clone();
        labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        for (name, old, new, want) in [
            ("created", None, Some(&pull), true),
            ("deleted", Some(&pull), None, true),
            ("recreated", Some(&pull), Some(&again), true),
            ("another mode", Some(&push), Some(&pull), true),
            ("permitted", Some(&pull), Some(&permitted), true),
            ("labelled", Some(&pull), Some(&labelled), false),
        ] {
            assert_eq!(cluster(old, new), want, "{name}");
        }
    }
}
