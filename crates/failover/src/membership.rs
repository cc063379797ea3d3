//! A cluster's coming and going: its execution space, its finalizer, its automatic taints (failover.md 1.6, 9.5).
//!
//! A cluster leaves in this order: the bindings that name it, its execution space with the Works in it, its finalizer.
//! The space goes after the bindings, so that nothing is written into a space that is going.

use ironclad_api::{
    cluster::Cluster,
    conditions::TRUE,
    events::{CREATE_EXECUTION_SPACE_SUCCEED, REMOVE_EXECUTION_SPACE_SUCCEED, TAINT_CLUSTER_SUCCEED},
    finalizers::{CLUSTER_CONTROLLER, EXECUTION_CONTROLLER},
    labels::{SYSTEM, TRUE as LABEL_TRUE},
    names::execution_namespace,
    work::{ObjectReference, Work},
};
use ironclad_fleet::{ClusterName, Event, Plan, WorkKey, because::health::Reason};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::taints::{self, ByCondition};

/// The namespace that holds the Works of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionSpace<'a> {
    /// It is not there.
    Missing,
    /// It is there.
    Active {
        /// Its uid.
        uid: &'a str,
    },
    /// It is being deleted.
    Terminating,
}

/// What the decision reads.
#[derive(Debug, Clone)]
pub struct Seen<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Its execution space.
    pub space: ExecutionSpace<'a>,
    /// The Works in it. Only looked at while the cluster leaves.
    pub works: Vec<&'a Work>,
    /// How many bindings have the cluster in `spec.clusters`. Only looked at while the cluster leaves.
    pub targeted_by: usize,
    /// Whether the Ready condition taints.
    pub taints: ByCondition,
}

/// What is written, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A merge patch of the Cluster.
    Patch {
        /// The patch.
        patch: Value,
    },
    /// Creates the execution namespace.
    CreateNamespace(Value),
    /// Deletes the execution namespace.
    DeleteNamespace {
        /// Its name.
        name: String,
        /// The uid it must have.
        uid: String,
    },
    /// A merge patch of a Work that nobody else will release.
    ReleaseWork {
        /// Which one.
        key: WorkKey,
        /// The patch.
        patch: Value,
    },
    /// An event.
    Event(Event),
}

/// What a cluster needs next on its way in or out. `now` is in whole seconds.
pub fn decide(seen: &Seen<'_>, now: Timestamp) -> Plan<Effect> {
    if seen.cluster.metadata.deletion_timestamp.is_none() { join(seen, now) } else { leave(seen) }
}

/// The finalizer comes before the space that it guards; the taints ride on its write.
fn join(seen: &Seen<'_>, now: Timestamp) -> Plan<Effect> {
    let cluster = seen.cluster;
    let mut plan = Plan::default();
    let mut patch = json!({});
    let finalizers = cluster.metadata.finalizers.clone().unwrap_or_default();
    let guarded = finalizers.iter().any(|finalizer| finalizer == CLUSTER_CONTROLLER);
    if !guarded {
        let with: Vec<_> = finalizers.iter().map(String::as_str).chain([CLUSTER_CONTROLLER]).collect();
        patch["metadata"] = json!({ "finalizers": with });
    }
    let tainted = taints::wanted(cluster, seen.taints, now);
    if let Some(taints) = &tainted {
        patch["spec"] = json!({ "taints": if taints.is_empty() { Value::Null } else { json!(taints) } });
    }
    if patch != json!({}) {
        plan.effects.push(Effect::Patch { patch });
    }
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    if seen.space == ExecutionSpace::Missing {
        let namespace = execution_namespace(name);
        let message = format!("Create execution space({namespace}) for cluster({name}) succeed");
        plan.effects.push(Effect::CreateNamespace(json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": namespace, "labels": { SYSTEM: LABEL_TRUE } },
        })));
        plan.effects.push(Effect::Event(Event::normal(about(cluster), CREATE_EXECUTION_SPACE_SUCCEED, message)));
    }
    let set_up = guarded && seen.space != ExecutionSpace::Missing;
    plan.note(if set_up { Reason::SetUp } else { Reason::Joining }.into());
    match tainted {
        Some(taints) => {
            let ready = cluster.ready().unwrap_or("Missing").to_owned();
            plan.note(Reason::TaintsFollowReady { ready }.into());
            let event = Event::normal(about(cluster), TAINT_CLUSTER_SUCCEED, taints::message(&taints));
            plan.effects.push(Effect::Event(event));
        }
        None => plan.note(Reason::TaintsUnchanged.into()),
    }
    plan
}

fn leave(seen: &Seen<'_>) -> Plan<Effect> {
    let cluster = seen.cluster;
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let finalizers = cluster.metadata.finalizers.clone().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == CLUSTER_CONTROLLER) {
        return Plan::nothing(Reason::NotOurs { cluster: name.into() }.into());
    }
    if seen.targeted_by > 0 {
        return Plan::nothing(Reason::TargetedBy { bindings: seen.targeted_by }.into());
    }
    match seen.space {
        ExecutionSpace::Active { uid } => {
            let namespace = execution_namespace(name);
            let message = format!("Remove execution space({namespace}) for cluster({name}) succeed");
            let mut plan = Plan::default();
            plan.push(
                Effect::DeleteNamespace { name: namespace, uid: uid.to_owned() },
                Reason::WorksRemain { works: seen.works.len() }.into(),
            );
            plan.effects.push(Effect::Event(Event::normal(about(cluster), REMOVE_EXECUTION_SPACE_SUCCEED, message)));
            plan
        }
        ExecutionSpace::Terminating => release(seen, name),
        ExecutionSpace::Missing => {
            let others: Vec<_> = finalizers.iter().filter(|finalizer| *finalizer != CLUSTER_CONTROLLER).collect();
            let others = if others.is_empty() { Value::Null } else { json!(others) };
            Plan::one(Effect::Patch { patch: json!({ "metadata": { "finalizers": others } }) }, Reason::MayGo.into())
        }
    }
}

/// The Works that are left in a space that is going. A member that is ready cleans up itself; of one that is not
/// nobody will, and the Works would stay for ever.
fn release(seen: &Seen<'_>, name: &str) -> Plan<Effect> {
    let held = |work: &&&Work| work.metadata.finalizers.iter().flatten().any(|f| f == EXECUTION_CONTROLLER);
    let held: Vec<_> = seen.works.iter().filter(held).collect();
    if seen.cluster.ready() == Some(TRUE) || held.is_empty() {
        let works = seen.works.len();
        return Plan::nothing(
            if works > 0 { Reason::WorksRemain { works } } else { Reason::ExecutionSpaceGoing }.into(),
        );
    }
    let mut plan = Plan::default();
    plan.note(Reason::WorksReleased { works: held.len() }.into());
    for work in held {
        let others = work.metadata.finalizers.iter().flatten().filter(|f| *f != EXECUTION_CONTROLLER);
        let others: Vec<_> = others.collect();
        let others = if others.is_empty() { Value::Null } else { json!(others) };
        let key = WorkKey {
            cluster: ClusterName::from(name),
            name: work.metadata.name.as_deref().unwrap_or_default().into(),
        };
        plan.effects.push(Effect::ReleaseWork { key, patch: json!({ "metadata": { "finalizers": others } }) });
    }
    plan
}

/// A cluster as events are about it.
#[must_use]
pub fn about(cluster: &Cluster) -> ObjectReference {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    ObjectReference {
        api_version: "cluster.karmada.io/v1alpha1".to_owned(),
        kind: "Cluster".to_owned(),
        namespace: String::new(),
        name: text(&cluster.metadata.name),
        uid: text(&cluster.metadata.uid),
        resource_version: text(&cluster.metadata.resource_version),
    }
}

#[cfg(test)]
mod tests {
    use ironclad_api::{Time, work::WorkSpec};

    use super::*;
    use crate::testkit::{at, cluster, ready};

    fn seen<'a>(cluster: &'a Cluster, space: ExecutionSpace<'a>) -> Seen<'a> {
        Seen { cluster, space, works: Vec::new(), targeted_by: 0, taints: ByCondition::On }
    }

    fn kinds(plan: &Plan<Effect>) -> Vec<String> {
        let kind = |effect: &Effect| match effect {
            Effect::Patch { patch } => format!("patch {patch}"),
            Effect::CreateNamespace(object) => format!("create {}", object["metadata"]["name"].as_str().unwrap()),
            Effect::DeleteNamespace { name, uid } => format!("delete {name} {uid}"),
            Effect::ReleaseWork { key, patch } => format!("release {key} {patch}"),
            Effect::Event(event) => format!("event {}", event.reason),
        };
        plan.effects.iter().map(kind).collect()
    }

    #[test]
    fn joining() {
        let mut new = cluster("m1");
        new.metadata.finalizers = Some(vec!["example.com/theirs".into()]);
        let plan = decide(&seen(&new, ExecutionSpace::Missing), at(7));
        let patch = concat!(
            r#"patch {"metadata":{"finalizers":["example.com/theirs","karmada.io/cluster-controller"]},"#,
            r#""spec":{"taints":[{"effect":"NoSchedule","key":"cluster.karmada.io/not-ready","timeAdded":"1970-01-01T00:00:07Z"}]}}"#
        );
        let want = [patch, "create karmada-es-m1", "event CreateExecutionSpaceSucceed", "event TaintClusterSucceed"];
        assert_eq!(kinds(&plan), want, "one write of the Cluster, the finalizer before the space");
        let Some(Effect::CreateNamespace(namespace)) = plan.effects.get(1) else { panic!() };
        assert_eq!(namespace["metadata"]["labels"], json!({ "karmada.io/system": "true" }));
    }

    #[test]
    fn a_cluster_that_is_set_up_is_left_alone_or_tainted() {
        let mut cluster = cluster("m1");
        ready(&mut cluster, "True", 0);
        assert!(decide(&seen(&cluster, ExecutionSpace::Active { uid: "u" }), at(7)).is_quiet());
        ready(&mut cluster, "False", 0);
        let plan = decide(&seen(&cluster, ExecutionSpace::Active { uid: "u" }), at(7));
        assert_eq!(plan.effects.len(), 2, "{:?}", plan.effects);
        let off = Seen { taints: ByCondition::Off, ..seen(&cluster, ExecutionSpace::Active { uid: "u" }) };
        assert!(decide(&off, at(7)).is_quiet());
        assert_eq!(
            kinds(&decide(&Seen { taints: ByCondition::Off, ..seen(&cluster, ExecutionSpace::Missing) }, at(7)))[0],
            "create karmada-es-m1",
            "somebody deleted the space"
        );
    }

    #[test]
    fn leaving_goes_step_by_step() {
        let work = |name: &str, finalizers: &[&str]| {
            let mut work = Work::new(name, WorkSpec::default());
            work.metadata.finalizers = Some(finalizers.iter().map(|f| (*f).to_owned()).collect());
            work
        };
        let (held, free) = (work("a", &[EXECUTION_CONTROLLER, "x/y"]), work("b", &[]));
        let active = ExecutionSpace::Active { uid: "u" };
        let gone = ExecutionSpace::Missing;
        let going = ExecutionSpace::Terminating;
        let released = r#"release m1:a {"metadata":{"finalizers":["x/y"]}}"#;
        let free_to_go = r#"patch {"metadata":{"finalizers":null}}"#;
        for (name, status, space, targeted_by, works, want, because) in [
            ("bindings go first", "True", active, 2, vec![], &[][..], "2 bindings still name the cluster as a target"),
            (
                "then the space",
                "True",
                active,
                0,
                vec![&held],
                &["delete karmada-es-m1 u", "event RemoveExecutionSpaceSucceed"],
                "1 Works remain in the execution space",
            ),
            (
                "a ready member cleans up itself",
                "True",
                going,
                0,
                vec![&held],
                &[],
                "1 Works remain in the execution space",
            ),
            (
                "of one that is not nobody will",
                "False",
                going,
                0,
                vec![&held, &free],
                &[released],
                "the cluster cannot be reached: 1 Works are released without it",
            ),
            (
                "nor of one nobody knows of",
                "Unknown",
                going,
                0,
                vec![&held],
                &[released],
                "the cluster cannot be reached: 1 Works are released without it",
            ),
            ("the space is going", "False", going, 0, vec![], &[], "the execution space is being deleted"),
            ("then the finalizer", "False", gone, 0, vec![], &[free_to_go], "nothing of the cluster is left"),
        ] {
            let mut cluster = cluster("m1");
            ready(&mut cluster, status, 0);
            cluster.metadata.deletion_timestamp = Some(Time(at(1)));
            let plan = decide(&Seen { targeted_by, works, ..seen(&cluster, space) }, at(9));
            assert_eq!(kinds(&plan), want, "{name}");
            assert_eq!(plan.because[0].to_string(), because, "{name}");
        }
    }

    #[test]
    fn a_cluster_that_others_hold_is_not_ours_any_more() {
        let mut cluster = cluster("m1");
        cluster.metadata.finalizers = Some(vec!["x/y".into()]);
        cluster.metadata.deletion_timestamp = Some(Time(at(1)));
        assert!(decide(&seen(&cluster, ExecutionSpace::Active { uid: "u" }), at(9)).is_quiet());
    }
}
