//! Ownership of objects: a join writes over, and an unjoin deletes, only what a join made.

use ironclad_api::{
    annotations::{CREDENTIALS_OF, JOINED_BY},
    labels::{SYSTEM, TRUE},
};
use kube::api::ObjectMeta;

/// Owner of an object, by its labels, annotations and owner references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A join of this control plane made it, or for this cluster.
    Ours,
    /// A join made it that wrote no annotation: that of karmadactl, or of an older release.
    Unmarked,
    /// Somebody else made it, for the reason given.
    Other(String),
}

/// Owner of an object in a member that the control plane with this id joins or leaves.
pub(crate) fn in_member(object: &ObjectMeta, plane: &str) -> Owner {
    match annotation(object, JOINED_BY) {
        Some(by) if by == plane => Owner::Ours,
        Some(by) => Owner::Other(format!("control plane {by} joined the member with it")),
        None => unmarked(object),
    }
}

/// Owner of a Secret in the control plane that holds credentials of the cluster of this name.
pub(crate) fn in_plane(secret: &ObjectMeta, cluster: &str) -> Owner {
    if let Some(of) = annotation(secret, CREDENTIALS_OF) {
        return if of == cluster { Owner::Ours } else { Owner::Other(format!("it holds credentials of cluster {of}")) };
    }
    match secret.owner_references.iter().flatten().next() {
        Some(owner) if owner.kind == "Cluster" && owner.name == cluster => Owner::Ours,
        Some(owner) => Owner::Other(format!("it belongs to {} {}", owner.kind, owner.name)),
        None => unmarked(secret),
    }
}

fn unmarked(object: &ObjectMeta) -> Owner {
    let label = object.labels.as_ref().and_then(|labels| labels.get(SYSTEM));
    if label.is_some_and(|value| value == TRUE) { Owner::Unmarked } else { Owner::Other("no join made it".to_owned()) }
}

fn annotation<'a>(object: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    object.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn meta(value: Value) -> ObjectMeta {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_objects_of_a_join_are_owned() {
        let system = json!({ SYSTEM: TRUE });
        let other = |why: &str| Owner::Other(why.to_owned());
        for (name, object, want) in [
            ("ours", json!({"labels": system, "annotations": {JOINED_BY: "p1"}}), Owner::Ours),
            ("ours, although the label was removed", json!({"annotations": {JOINED_BY: "p1"}}), Owner::Ours),
            ("karmadactl's", json!({"labels": system}), Owner::Unmarked),
            (
                "of another control plane",
                json!({"labels": system, "annotations": {JOINED_BY: "p2"}}),
                other("control plane p2 joined the member with it"),
            ),
            ("of a user", json!({"labels": {"app": "web"}}), other("no join made it")),
            ("of a user, without labels and annotations", json!({}), other("no join made it")),
            ("label with another value", json!({"labels": {SYSTEM: "false"}}), other("no join made it")),
        ] {
            assert_eq!(in_member(&meta(object), "p1"), want, "{name}");
        }
        let owned = |kind: &str, by: &str| json!([{"apiVersion": "v1", "kind": kind, "name": by, "uid": "u"}]);
        for (name, secret, want) in [
            ("ours", json!({"annotations": {CREDENTIALS_OF: "m"}}), Owner::Ours),
            (
                "of another cluster",
                json!({"annotations": {CREDENTIALS_OF: "n"}}),
                other("it holds credentials of cluster n"),
            ),
            ("owned by the Cluster", json!({"ownerReferences": owned("Cluster", "m")}), Owner::Ours),
            (
                "owned by another Cluster",
                json!({"labels": system, "ownerReferences": owned("Cluster", "n")}),
                other("it belongs to Cluster n"),
            ),
            (
                "owned by a Deployment",
                json!({"ownerReferences": owned("Deployment", "m")}),
                other("it belongs to Deployment m"),
            ),
            ("left by an interrupted join", json!({"labels": system}), Owner::Unmarked),
            ("of a user", json!({}), other("no join made it")),
        ] {
            assert_eq!(in_plane(&meta(secret), "m"), want, "{name}");
        }
    }
}
