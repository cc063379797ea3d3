//! Objects in members that say something else than their Works: the control plane corrects such within moments, so one
//! that stays is changed again and again by somebody else, or nobody serves its Work.

use std::collections::BTreeMap;

use ironclad_api::{
    conditions::{self, TRUE, work::APPLIED},
    reasons,
    work::Work,
};
use ironclad_fleet::{ClusterName, ObjectKey, World};
use ironclad_interpreter::Interpreter;
use ironclad_propagation::execution;

use super::{Finding, Grade, named};

/// Differing objects, and the first differing field.
pub type Drifted = BTreeMap<(ClusterName, ObjectKey), String>;

/// Finds objects that differ, in members that are ready, from Works whose present content is applied.
#[must_use]
pub fn of(world: &World, interpreter: &Interpreter) -> Drifted {
    let mut found = Drifted::new();
    for (key, work) in &world.works {
        let ready = world
            .clusters
            .get(&key.cluster)
            .is_some_and(|c| c.ready() == Some(TRUE) && c.metadata.deletion_timestamp.is_none());
        if !ready || !is_settled(work) {
            continue;
        }
        let Some(object) = execution::object_key(work) else { continue };
        let Some(actual) = world.members.get(&key.cluster).and_then(|all| all.get(&object)) else { continue };
        if let Some(at) = execution::drifted(work, actual, interpreter) {
            found.insert((key.cluster.clone(), object), at);
        }
    }
    found
}

/// True if the present content of the Work was applied and its dispatching is not suspended.
fn is_settled(work: &Work) -> bool {
    let conditions = work.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    work.metadata.deletion_timestamp.is_none()
        && work.spec.suspend_dispatching != Some(true)
        && conditions::get(conditions, APPLIED).is_some_and(|applied| {
            applied.status == TRUE
                && applied.reason != reasons::work::ALREADY_EXISTS
                && applied.observed_generation == work.metadata.generation
        })
}

/// One finding for all differing objects.
#[must_use]
pub fn finding(drifted: &Drifted) -> Option<Finding> {
    let differences: Vec<String> =
        drifted.iter().map(|((cluster, object), at)| format!("{object} in {cluster} at {at}")).collect();
    let line = match drifted.len() {
        1 => format!("1 object in a member differs from its Work: {}", named(&differences)),
        several => format!("{several} objects in members differ from their Works: {}", named(&differences)),
    };
    let remedy =
        "kubectl get --show-managed-fields in the member, to see who else writes them; ironclad tree KIND/NAME";
    (!differences.is_empty()).then(|| Finding::new(Grade::Warning, line).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A Work whose ConfigMap says `a: b`, applied, and what the member has of it.
    fn world(edit: impl FnOnce(&mut Value, &mut Value)) -> World {
        let object = |marked: Value| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}, "metadata": {"name": "c", "namespace": "shop",
            "labels": {"karmada.io/managed": "true", "work.karmada.io/permanent-id": "id"}, "annotations": marked}})
        };
        let marks = json!({"work.karmada.io/namespace": "karmada-es-m1", "work.karmada.io/name": "w",
            "work.karmada.io/conflict-resolution": "abort",
            "work.ironclad.io/applied-fields": r#"{"fields":{"f:data":{"f:a":{}}}}"#});
        let mut member = object(marks.clone());
        let mut work = json!({
            "metadata": {"name": "w", "namespace": "karmada-es-m1", "generation": 2, "labels": {"work.karmada.io/permanent-id": "id"}},
            "spec": {"workload": {"manifests": [object(marks)]}},
            "status": {"conditions": [{"type": "Applied", "status": "True", "reason": "AppliedSuccessful", "message": "",
                "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        edit(&mut work, &mut member);
        let mut world = World::default();
        world.insert_cluster(
            serde_json::from_value(json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Push"}, "status": {"conditions":
                [{"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
            .unwrap(),
        );
        world.insert_work(serde_json::from_value(work).unwrap());
        world.insert_member("m1".into(), member);
        world
    }

    #[test]
    fn what_differs() {
        let other = |member: &mut Value| member["data"]["a"] = json!("x");
        for (name, world, want) in [
            ("the same", world(|_, _| ()), false),
            ("another value", world(|_, member| other(member)), true),
            (
                "the Work changed since it was applied",
                world(|work, member| {
                    work["metadata"]["generation"] = json!(3);
                    other(member);
                }),
                false,
            ),
            (
                "its dispatching is suspended",
                world(|work, member| {
                    work["spec"]["suspendDispatching"] = json!(true);
                    other(member);
                }),
                false,
            ),
            (
                "it was never applied",
                world(|work, member| {
                    work["status"]["conditions"][0]["status"] = json!("False");
                    other(member);
                }),
                false,
            ),
        ] {
            let drifted = of(&world, &Interpreter::default());
            assert_eq!(!drifted.is_empty(), want, "{name}");
            assert_eq!(finding(&drifted).is_some(), want, "{name}");
        }
        let found = finding(&of(&world(|_, member| other(member)), &Interpreter::default())).unwrap();
        assert_eq!(found.what, "1 object in a member differs from its Work: ConfigMap shop/c in m1 at /data/a");
    }
}
