//! Decision about an object whose owners changed, or that waits for its dependents.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::graph::{FOREGROUND, Graph, Node, ORPHAN, Phase, Uid};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cascade {
    /// Dependents are deleted after it.
    Background,
    /// Dependents are deleted before it.
    Foreground,
}

#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub(crate) enum Step {
    /// None, until something changes.
    Leave,
    /// These owners are unknown to the cache: the server must say whether they exist.
    FindAbsent(Vec<OwnerReference>),
    Delete(Cascade),
    /// Cycle: all its owners and its dependents wait for it. First remove `blockOwnerDeletion`.
    Unblock,
    /// Some owner exists: remove the references to these absent ones.
    Release(Vec<Uid>),
    /// Remove the owner reference of these dependents, then the finalizer `orphan`.
    Orphan(Vec<Uid>),
    /// No dependent blocks it any more: remove this finalizer.
    Finish(&'static str),
}

enum OwnerState {
    Lives,
    /// In foreground deletion: it waits for its dependents.
    Waits,
    Absent,
    Unknown,
}

/// The next step for the object with this uid.
pub(crate) fn decide(graph: &Graph, uid: &str) -> Step {
    let Some(node) = graph.get(uid) else { return Step::Leave };
    match node.phase {
        Phase::Going => Step::Leave,
        Phase::Foreground if graph.blocking(uid).next().is_none() => Step::Finish(FOREGROUND),
        Phase::Foreground => Step::Leave,
        Phase::Orphaning => {
            let dependents: Vec<Uid> = graph.dependents(uid).map(|n| n.uid.clone()).collect();
            if dependents.is_empty() { Step::Finish(ORPHAN) } else { Step::Orphan(dependents) }
        }
        Phase::Alive if node.owners.is_empty() => Step::Leave,
        Phase::Alive => by_owners(graph, node),
    }
}

fn by_owners(graph: &Graph, node: &Node) -> Step {
    let (mut lives, mut lost, mut waits, mut unknown) = (false, Vec::new(), Vec::new(), Vec::new());
    for owner in &node.owners {
        match owner_state(graph, node, owner) {
            OwnerState::Lives => lives = true,
            OwnerState::Absent => lost.push(Uid::from(owner.uid.as_str())),
            OwnerState::Waits => waits.push(Uid::from(owner.uid.as_str())),
            OwnerState::Unknown => unknown.push(owner.clone()),
        }
    }
    if !unknown.is_empty() {
        return Step::FindAbsent(unknown);
    }
    if lives {
        lost.extend(waits);
        return if lost.is_empty() { Step::Leave } else { Step::Release(lost) };
    }
    let mut dependents = graph.dependents(&node.uid).peekable();
    if waits.is_empty() || dependents.peek().is_none() {
        return Step::Delete(Cascade::Background);
    }
    // Foreground deletion extends to the dependents of the dependents. If one of those waits for
    // this object, that would be a deadlock.
    if dependents.any(|d| d.phase == Phase::Foreground)
        && node.owners.iter().any(|r| r.block_owner_deletion == Some(true))
    {
        return Step::Unblock;
    }
    Step::Delete(Cascade::Foreground)
}

fn owner_state(graph: &Graph, node: &Node, owner: &OwnerReference) -> OwnerState {
    match graph.get(&owner.uid) {
        // A cluster-scoped object cannot have an owner in a namespace: the reference is invalid, so do nothing.
        Some(found) if found.kind.namespaced && !node.kind.namespaced => OwnerState::Lives,
        // An owner must be in the namespace of its dependent.
        Some(found) if found.kind.namespaced && found.namespace != node.namespace => OwnerState::Absent,
        // Name or kind of the reference differ: only the server knows if such an object exists.
        Some(found) if *found.name != *owner.name || found.kind.resource.kind != owner.kind => {
            if graph.is_absent(&referenced_uid(owner, &node.namespace)) {
                OwnerState::Absent
            } else {
                OwnerState::Unknown
            }
        }
        Some(found) if found.phase == Phase::Foreground => OwnerState::Waits,
        Some(_) => OwnerState::Lives,
        None if graph.is_absent(&owner.uid) || graph.is_absent(&referenced_uid(owner, &node.namespace)) => {
            OwnerState::Absent
        }
        None => OwnerState::Unknown,
    }
}

/// The key under which an absent reference is remembered: in another namespace, kind or name the same
/// uid may still be found.
pub(crate) fn referenced_uid(owner: &OwnerReference, namespace: &str) -> Uid {
    format!("{}/{}/{namespace}/{}/{}", owner.api_version, owner.kind, owner.name, owner.uid).into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kube::{api::ObjectMeta, core::ApiResource};

    use super::*;
    use crate::{kinds::Kind, testkit::at};

    fn kind(namespaced: bool) -> Arc<Kind> {
        let kind = if namespaced { "ConfigMap" } else { "Node" };
        Arc::new(Kind {
            resource: ApiResource {
                group: String::new(),
                version: "v1".into(),
                api_version: "v1".into(),
                kind: kind.into(),
                plural: kind.to_lowercase() + "s",
            },
            namespaced,
            verbs: vec![],
        })
    }

    /// `name[@namespace][!phase][ <owner[*]...]`: an object, `*` blocks its owner; namespace `-` is cluster-scoped.
    fn world(objects: &[&str]) -> Graph {
        let mut graph = Graph::default();
        for text in objects {
            put(&mut graph, text);
        }
        graph
    }

    fn put(graph: &mut Graph, text: &str) -> Vec<Uid> {
        let mut words = text.split(" <");
        let head = words.next().unwrap();
        let (head, phase) = head.split_once('!').unwrap_or((head, ""));
        let (name, namespace) = head.split_once('@').unwrap_or((head, "d"));
        let namespaced = namespace != "-";
        let owners = words.map(|w| {
            let owner = w.trim_end_matches('*');
            let cluster = owner.starts_with("node");
            OwnerReference {
                api_version: "v1".into(),
                kind: if cluster { "Node" } else { "ConfigMap" }.into(),
                name: owner.into(),
                uid: owner.into(),
                block_owner_deletion: Some(w.ends_with('*')),
                controller: None,
            }
        });
        let meta = ObjectMeta {
            name: Some(name.into()),
            uid: Some(name.into()),
            owner_references: Some(owners.collect()),
            deletion_timestamp: (!phase.is_empty()).then(|| Time(at(1))),
            finalizers: match phase {
                "foreground" => Some(vec![FOREGROUND.into()]),
                "orphan" => Some(vec![ORPHAN.into()]),
                _ => None,
            },
            ..ObjectMeta::default()
        };
        let namespace = graph.namespace(if namespaced { namespace } else { "" });
        graph.applied(Node::of(&kind(namespaced), namespace, meta).unwrap())
    }

    fn uids(names: &[&str]) -> Vec<Uid> {
        names.iter().map(|n| (*n).into()).collect()
    }

    #[test]
    fn steps() {
        for (name, objects, absent, of, want) in [
            ("no owner", vec!["a"], vec![], "a", Step::Leave),
            ("the owner exists", vec!["o", "a <o"], vec![], "a", Step::Leave),
            ("the owner is absent", vec!["a <o"], vec!["o"], "a", Step::Delete(Cascade::Background)),
            ("one of two owners is absent", vec!["p", "a <o <p"], vec!["o"], "a", Step::Release(uids(&["o"]))),
            ("both went", vec!["a <o <p"], vec!["o", "p"], "a", Step::Delete(Cascade::Background)),
            ("a terminating owner still exists", vec!["o!going", "a <o"], vec![], "a", Step::Leave),
            ("a terminating object is left alone", vec!["a!going <o"], vec!["o"], "a", Step::Leave),
            (
                "an owner in another namespace counts as absent",
                vec!["o@x", "a <o"],
                vec![],
                "a",
                Step::Delete(Cascade::Background),
            ),
            ("a cluster-scoped owner exists", vec!["node@-", "a <node"], vec![], "a", Step::Leave),
            ("a cluster-scoped object cannot have a namespaced owner", vec!["o", "n@- <o"], vec![], "n", Step::Leave),
            (
                "foreground: dependents of the owner are deleted",
                vec!["o!foreground", "a <o*"],
                vec![],
                "a",
                Step::Delete(Cascade::Background),
            ),
            (
                "foreground deletion continues with their dependents",
                vec!["o!foreground", "a <o*", "b <a"],
                vec![],
                "a",
                Step::Delete(Cascade::Foreground),
            ),
            (
                "foreground with another existing owner: only the reference is removed",
                vec!["o!foreground", "p", "a <o* <p"],
                vec![],
                "a",
                Step::Release(uids(&["o"])),
            ),
            ("foreground waits for blocking dependents", vec!["o!foreground", "a <o*"], vec![], "o", Step::Leave),
            (
                "foreground does not wait for other dependents",
                vec!["o!foreground", "a <o"],
                vec![],
                "o",
                Step::Finish(FOREGROUND),
            ),
            ("foreground without dependents finishes", vec!["o!foreground"], vec![], "o", Step::Finish(FOREGROUND)),
            ("a cycle is broken", vec!["o!foreground <a*", "a <o*"], vec![], "a", Step::Unblock),
            (
                "orphaning removes the references of dependents",
                vec!["o!orphan", "a <o", "b <o"],
                vec![],
                "o",
                Step::Orphan(uids(&["a", "b"])),
            ),
            ("orphaning finishes without dependents", vec!["o!orphan", "a"], vec![], "o", Step::Finish(ORPHAN)),
        ] {
            let mut graph = world(&objects);
            for uid in absent {
                graph.remember_absent(uid.into());
            }
            assert_eq!(decide(&graph, of), want, "{name}");
        }
    }

    #[test]
    fn an_unknown_owner_is_looked_up_before_deletion() {
        let mut graph = world(&["a <o"]);
        let Step::FindAbsent(owners) = decide(&graph, "a") else { panic!("asks") };
        assert_eq!(owners[0].uid, "o");
        graph.remember_absent(referenced_uid(&owners[0], "d"));
        assert_eq!(decide(&graph, "a"), Step::Delete(Cascade::Background));
        put(&mut graph, "o");
        assert_eq!(decide(&graph, "a"), Step::Leave, "the owner exists: the cache was stale");
    }

    #[test]
    fn objects_that_are_reconciled_after_a_change() {
        let mut graph = Graph::default();
        assert_eq!(put(&mut graph, "o"), uids(&[]), "nothing to do for a plain object");
        assert_eq!(put(&mut graph, "a <o*"), uids(&["a"]), "a new dependent");
        assert_eq!(put(&mut graph, "a <o*"), uids(&[]), "nothing changed");
        assert_eq!(
            put(&mut graph, "o!foreground"),
            uids(&["o", "a"]),
            "the owner waits: enqueue it and its dependents"
        );
        assert_eq!(put(&mut graph, "a!going <o*"), uids(&["a"]));
        assert_eq!(graph.deleted("a"), uids(&["o"]), "the owner waited for this dependent");
        put(&mut graph, "b <o");
        assert_eq!(graph.deleted("o"), uids(&["b"]), "its dependents");
        assert_eq!(put(&mut graph, "b"), uids(&["b"]), "a removed reference");
        assert!(graph.is_absent("o"));
    }
}
