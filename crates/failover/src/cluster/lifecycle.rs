//! A cluster's coming and going: its execution space, its finalizer, its automatic taints (specification/failover.md
//! 1.6, 9.5).
//!
//! A cluster leaves in this order: the bindings that name it, its execution space with the Works in it, its finalizer.
//! The space is deleted after the bindings, so that nothing is written into a terminating space.

use ironclad_api::{
    ObjectMeta, Time,
    cluster::Cluster,
    conditions::{self, FALSE, TRUE, binding::SCHEDULED},
    events::{CREATE_EXECUTION_SPACE_SUCCEED, REMOVE_EXECUTION_SPACE_SUCCEED, TAINT_CLUSTER_SUCCEED},
    finalizers::{CLUSTER_CONTROLLER, EXECUTION_CONTROLLER},
    labels::{SYSTEM, TRUE as LABEL_TRUE},
    names::execution_namespace,
    work::{ResourceBindingStatus, Work},
};
use ironclad_fleet::{
    Binding, ClusterName, Event, Plan, StatusPart, WorkKey, because::health::Reason, cluster_reference, count::count,
    finalizer,
};
use ironclad_scheduling::{Options, trigger::responsible};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::taints::{self, ByCondition};

/// Condition of a Cluster whose deletion is blocked by bindings that find no other cluster. Absent otherwise.
pub const REMOVAL_BLOCKED: &str = "RemovalBlocked";
/// Its reason.
const CANNOT_LEAVE: &str = "BindingsCannotLeave";
/// Bindings that it names.
const NAMED_MAX: usize = 3;
/// Bytes of what it repeats of one binding.
const WHY_MAX: usize = 200;

/// The namespace that holds the Works of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionSpace<'a> {
    /// It is not there.
    Missing,
    /// It is there.
    Active { uid: &'a str },
    /// It is being deleted.
    Terminating,
}

impl<'a> ExecutionSpace<'a> {
    /// Reads the metadata of the namespace.
    #[must_use]
    pub fn of(namespace: Option<&'a ObjectMeta>) -> Self {
        match namespace {
            None => Self::Missing,
            Some(namespace) if namespace.deletion_timestamp.is_some() => Self::Terminating,
            Some(namespace) => Self::Active { uid: namespace.uid.as_deref().unwrap_or_default() },
        }
    }
}

/// Input of the decision.
#[derive(Debug, Clone)]
pub struct Seen<'a> {
    pub cluster: &'a Cluster,
    pub space: ExecutionSpace<'a>,
    /// Works in it. Read only while the cluster is being deleted.
    pub works: Vec<&'a Work>,
    /// Bindings that have the cluster in `spec.clusters`. Read only while the cluster is being deleted.
    pub targeted_by: &'a [Binding],
    /// Flags and gates of the scheduler, which decides which bindings it moves.
    pub scheduler: &'a Options,
    /// True if the Ready condition taints.
    pub taints: ByCondition,
}

/// Effects, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A merge patch of the Cluster.
    Patch {
        patch: Value,
    },
    /// Creates the execution namespace.
    CreateNamespace(Value),
    /// Deletes the execution namespace.
    DeleteNamespace {
        name: String,
        /// The uid it must have.
        uid: String,
    },
    /// Merge patch of a Work that no other process will release.
    ReleaseWork {
        key: WorkKey,
        patch: Value,
    },
    /// A part for the Cluster's status writer.
    Status(StatusPart),
    Event(Event),
}

/// Next step of a cluster that joins or leaves. `now` is in whole seconds.
pub fn decide(seen: &Seen<'_>, now: Timestamp) -> Plan<Effect> {
    if seen.cluster.metadata.deletion_timestamp.is_none() { join(seen, now) } else { leave(seen, now) }
}

/// The finalizer is written before the space that it guards, together with the taints.
fn join(seen: &Seen<'_>, now: Timestamp) -> Plan<Effect> {
    let cluster = seen.cluster;
    let mut plan = Plan::default();
    let mut patch = json!({});
    let guarding = finalizer::added(&cluster.metadata, CLUSTER_CONTROLLER);
    if let Some(finalizers) = &guarding {
        patch["metadata"] = json!({ "finalizers": finalizers });
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
        plan.effects.push(Effect::Event(Event::normal(
            cluster_reference(cluster),
            CREATE_EXECUTION_SPACE_SUCCEED,
            message,
        )));
    }
    let set_up = guarding.is_none() && seen.space != ExecutionSpace::Missing;
    plan.note(if set_up { Reason::SetUp } else { Reason::Joining }.into());
    match tainted {
        Some(taints) => {
            let ready = cluster.ready().unwrap_or("Missing").to_owned();
            plan.note(Reason::TaintsFollowReady { ready }.into());
            let event = Event::normal(cluster_reference(cluster), TAINT_CLUSTER_SUCCEED, taints::message(&taints));
            plan.effects.push(Effect::Event(event));
        }
        None => plan.note(Reason::TaintsUnchanged.into()),
    }
    plan
}

fn leave(seen: &Seen<'_>, now: Timestamp) -> Plan<Effect> {
    let cluster = seen.cluster;
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let Some(other_finalizers) = finalizer::removed(&cluster.metadata, CLUSTER_CONTROLLER) else {
        return Plan::nothing(Reason::NotOurs { cluster: name.into() }.into());
    };
    let mut plan = if seen.targeted_by.is_empty() {
        empty(seen, name, other_finalizers)
    } else {
        Plan::nothing(Reason::TargetedBy { bindings: seen.targeted_by.len() }.into())
    };
    plan.effects.extend(blocked(seen, name, now).map(Effect::Status));
    plan
}

/// Deletions once no binding names the cluster.
fn empty(seen: &Seen<'_>, name: &str, other_finalizers: Vec<String>) -> Plan<Effect> {
    let cluster = seen.cluster;
    match seen.space {
        ExecutionSpace::Active { uid } => {
            let namespace = execution_namespace(name);
            let message = format!("Remove execution space({namespace}) for cluster({name}) succeed");
            let mut plan = Plan::default();
            plan.push(
                Effect::DeleteNamespace { name: namespace, uid: uid.to_owned() },
                Reason::WorksRemain { works: seen.works.len() }.into(),
            );
            plan.effects.push(Effect::Event(Event::normal(
                cluster_reference(cluster),
                REMOVE_EXECUTION_SPACE_SUCCEED,
                message,
            )));
            plan
        }
        ExecutionSpace::Terminating => release(seen, name),
        ExecutionSpace::Missing => {
            let others = Some(other_finalizers).filter(|others| !others.is_empty());
            Plan::one(Effect::Patch { patch: json!({ "metadata": { "finalizers": others } }) }, Reason::MayGo.into())
        }
    }
}

/// Sets or removes the condition that names the blocking bindings; `None` if it is up to date. Bindings that are
/// leaving are omitted.
fn blocked(seen: &Seen<'_>, name: &str, now: Timestamp) -> Option<StatusPart> {
    let mut stuck: Vec<(String, String)> = seen
        .targeted_by
        .iter()
        .filter_map(|binding| Some((binding.key().to_string(), stays(binding, seen.scheduler)?)))
        .collect();
    stuck.sort();
    let conditions_before = seen.cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let condition = if stuck.is_empty() {
        conditions::condition(REMOVAL_BLOCKED, "", "", "")
    } else {
        let (all, more) = (stuck.len(), stuck.len().saturating_sub(NAMED_MAX));
        let named: Vec<String> = stuck.iter().take(NAMED_MAX).map(|(key, why)| format!("{key} ({why})")).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!(
            "no other cluster for {}: {}{more}; edit their policies, or: ironclad unjoin {name} --force",
            count(all, "binding"),
            named.join(", ")
        );
        conditions::condition(REMOVAL_BLOCKED, TRUE, CANNOT_LEAVE, message)
    };
    let part = StatusPart::condition(ironclad_api::Condition { last_transition_time: Time(now), ..condition });
    StatusPart::patch(&json!({ "conditions": conditions_before }), &[&part]).is_some().then_some(part)
}

/// Reason why a binding does not leave; `None` if it may leave at any moment.
fn stays(binding: &Binding, scheduler: &Options) -> Option<String> {
    if let Err(why) = responsible(binding.into(), scheduler) {
        return Some(why.to_string());
    }
    let scheduled = conditions::get(&binding.status()?.conditions, SCHEDULED).filter(|c| c.status == FALSE)?;
    let why = if scheduled.message.is_empty() { &scheduled.reason } else { &scheduled.message };
    let end = (0..=why.len().min(WHY_MAX)).rev().find(|end| why.is_char_boundary(*end)).unwrap_or(0);
    Some(if end < why.len() { format!("{}...", &why[..end]) } else { why.clone() })
}

/// True if a binding's report on its placement changed: the condition of a cluster that it blocks changes then.
#[must_use]
pub fn scheduled_changed(old: Option<&ResourceBindingStatus>, new: Option<&ResourceBindingStatus>) -> bool {
    let scheduled = |status: Option<&ResourceBindingStatus>| {
        let condition = status.and_then(|status| conditions::get(&status.conditions, SCHEDULED));
        condition.map(|condition| (condition.status.clone(), condition.message.clone()))
    };
    scheduled(old) != scheduled(new)
}

/// Releases the Works that are left in a terminating execution space. A ready member cleans up itself; for one that
/// is not ready no process does, and the Works would remain forever.
fn release(seen: &Seen<'_>, name: &str) -> Plan<Effect> {
    let others = |work: &Work| finalizer::removed(&work.metadata, EXECUTION_CONTROLLER);
    let guarded: Vec<_> = seen.works.iter().filter_map(|work| Some((work, others(work)?))).collect();
    if seen.cluster.is_ready() || guarded.is_empty() {
        let works = seen.works.len();
        return Plan::nothing(
            if works > 0 { Reason::WorksRemain { works } } else { Reason::ExecutionSpaceGoing }.into(),
        );
    }
    let mut plan = Plan::default();
    plan.note(Reason::WorksReleased { works: guarded.len() }.into());
    for (work, others) in guarded {
        let others = Some(others).filter(|others| !others.is_empty());
        let key = WorkKey {
            cluster: ClusterName::from(name),
            name: work.metadata.name.as_deref().unwrap_or_default().into(),
        };
        plan.effects.push(Effect::ReleaseWork { key, patch: json!({ "metadata": { "finalizers": others } }) });
    }
    plan
}

#[cfg(test)]
mod tests {
    use ironclad_api::work::{BindingSuspension, ResourceBinding, WorkSpec};

    use std::sync::LazyLock;

    use super::*;
    use crate::testkit::{at, cluster, ready};

    fn seen<'a>(cluster: &'a Cluster, space: ExecutionSpace<'a>) -> Seen<'a> {
        static SCHEDULER: LazyLock<Options> = LazyLock::new(Options::default);
        Seen { cluster, space, works: Vec::new(), targeted_by: &[], scheduler: &SCHEDULER, taints: ByCondition::On }
    }

    fn kinds(plan: &Plan<Effect>) -> Vec<String> {
        let kind = |effect: &Effect| match effect {
            Effect::Patch { patch } => format!("patch {patch}"),
            Effect::CreateNamespace(object) => format!("create {}", object["metadata"]["name"].as_str().unwrap()),
            Effect::DeleteNamespace { name, uid } => format!("delete {name} {uid}"),
            Effect::ReleaseWork { key, patch } => format!("release {key} {patch}"),
            Effect::Status(part) => {
                let one = |c: &ironclad_api::Condition| format!("status {}={} {}", c.type_, c.status, c.message);
                part.conditions.iter().map(one).collect()
            }
            Effect::Event(event) => format!("event {}", event.reason),
        };
        plan.effects.iter().map(kind).collect()
    }

    #[test]
    fn joining_adds_the_finalizer_before_the_execution_namespace() {
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
    fn complete_cluster_gets_only_missing_taints_and_namespaces() {
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
            "the execution namespace was deleted"
        );
    }

    #[test]
    fn removal_waits_for_bindings_works_and_execution_namespace() {
        let work = |name: &str, finalizers: &[&str]| {
            let mut work = Work::new(name, WorkSpec::default());
            work.metadata.finalizers = Some(finalizers.iter().map(|f| (*f).to_owned()).collect());
            work
        };
        let (retained, free) = (work("a", &[EXECUTION_CONTROLLER, "x/y"]), work("b", &[]));
        let active = ExecutionSpace::Active { uid: "u" };
        let missing = ExecutionSpace::Missing;
        let going = ExecutionSpace::Terminating;
        let released = r#"release m1:a {"metadata":{"finalizers":["x/y"]}}"#;
        let free_to_go = r#"patch {"metadata":{"finalizers":null}}"#;
        let two = [binding("a", None, false), binding("b", Some(("True", "")), false)];
        for (name, status, space, targeted_by, works, want, because) in [
            (
                "bindings still target the cluster",
                "True",
                active,
                &two[..],
                vec![],
                &[][..],
                "the cluster is still a target of 2 bindings",
            ),
            (
                "then the execution namespace is deleted",
                "True",
                active,
                &[],
                vec![&retained],
                &["delete karmada-es-m1 u", "event RemoveExecutionSpaceSucceed"],
                "1 Work left in the execution space",
            ),
            (
                "Works of a ready member are removed by the execution controller",
                "True",
                going,
                &[],
                vec![&retained],
                &[],
                "1 Work left in the execution space",
            ),
            (
                "Works of an unreachable member are released",
                "False",
                going,
                &[],
                vec![&retained, &free],
                &[released],
                "the cluster cannot be reached: 1 Work released without it",
            ),
            (
                "Works of a member without a Ready condition are released",
                "Unknown",
                going,
                &[],
                vec![&retained],
                &[released],
                "the cluster cannot be reached: 1 Work released without it",
            ),
            (
                "the execution namespace is terminating",
                "False",
                going,
                &[],
                vec![],
                &[],
                "the execution space is being deleted",
            ),
            (
                "then the finalizer is removed",
                "False",
                missing,
                &[],
                vec![],
                &[free_to_go],
                "all objects of the cluster are removed",
            ),
        ] {
            let mut cluster = cluster("m1");
            ready(&mut cluster, status, 0);
            cluster.metadata.deletion_timestamp = Some(Time(at(1)));
            let plan = decide(&Seen { targeted_by, works, ..seen(&cluster, space) }, at(9));
            assert_eq!(kinds(&plan), want, "{name}");
            assert_eq!(plan.because[0].to_string(), because, "{name}");
        }
    }

    /// Binding with this Scheduled condition; its scheduling is suspended or not.
    fn binding(name: &str, scheduled: Option<(&str, &str)>, suspended: bool) -> Binding {
        let mut spec = crate::testkit::spec(&[("m1", 1)], vec![]);
        spec.suspension =
            suspended.then(|| BindingSuspension { scheduling: Some(true), ..BindingSuspension::default() });
        let mut binding = ResourceBinding::new(name, spec);
        binding.metadata.namespace = Some("shop".into());
        binding.metadata.labels = Some(crate::testkit::owned());
        let said = scheduled.map(|(status, message)| conditions::condition(SCHEDULED, status, "NoClusterFit", message));
        binding.status.get_or_insert_default().conditions.extend(said);
        Binding::from(std::sync::Arc::new(binding))
    }

    #[test]
    fn blocked_removal_names_the_bindings() {
        let fits = |name: &str| binding(name, Some(("False", "0/2 clusters are available")), false);
        let changed = |change: fn(&mut ResourceBinding)| {
            let Binding::Namespaced(shared) = binding("a", Some(("True", "")), false) else { unreachable!() };
            let mut changed = (*shared).clone();
            change(&mut changed);
            Binding::from(std::sync::Arc::new(changed))
        };
        let remedy = "; edit their policies, or: ironclad unjoin m1 --force";
        let says = |text: &str| vec![format!("status RemovalBlocked=True {text}{remedy}")];
        let why = "(0/2 clusters are available)";
        let long = binding("a", Some(("False", &"ä".repeat(150))), false);
        for (name, holders, want) in [
            ("a binding that is being deleted does not block", vec![binding("a", Some(("True", "")), false)], vec![]),
            ("a binding that was never scheduled does not block", vec![binding("a", None, false)], vec![]),
            (
                "a binding without another candidate blocks",
                vec![fits("b"), binding("a", Some(("True", "")), false)],
                says(&format!("no other cluster for 1 binding: shop/b {why}")),
            ),
            (
                "the first three bindings by name",
                ["e", "d", "c", "b", "a"].map(fits).to_vec(),
                says(&format!("no other cluster for 5 bindings: shop/a {why}, shop/b {why}, shop/c {why} and 2 more")),
            ),
            (
                "a suspended binding blocks",
                vec![binding("a", Some(("True", "")), true)],
                says("no other cluster for 1 binding: shop/a (scheduling is suspended)"),
            ),
            (
                "a binding whose policy was deleted blocks",
                vec![changed(|binding| binding.metadata.labels = None)],
                says("no other cluster for 1 binding: shop/a (neither a policy nor a controller owns the binding)"),
            ),
            (
                "a binding of another scheduler blocks",
                vec![changed(|binding| binding.spec.scheduler_name = "another".into())],
                says("no other cluster for 1 binding: shop/a (the binding is scheduled by another)"),
            ),
            (
                "without a message: the reason",
                vec![binding("a", Some(("False", "")), false)],
                says("no other cluster for 1 binding: shop/a (NoClusterFit)"),
            ),
            (
                "a long message is truncated",
                vec![long],
                says(&format!("no other cluster for 1 binding: shop/a ({}...)", "ä".repeat(100))),
            ),
        ] {
            let mut cluster = cluster("m1");
            cluster.metadata.deletion_timestamp = Some(Time(at(1)));
            let active = ExecutionSpace::Active { uid: "u" };
            let plan = decide(&Seen { targeted_by: &holders, ..seen(&cluster, active) }, at(9));
            assert_eq!(kinds(&plan), want, "{name}");
            let Some(Effect::Status(part)) = plan.effects.first() else { continue };
            cluster.status.get_or_insert_default().conditions = part.conditions.clone();
            let again = decide(&Seen { targeted_by: &holders, ..seen(&cluster, active) }, at(99));
            assert!(again.is_quiet(), "{name}: written once");
            let freed = decide(&seen(&cluster, ExecutionSpace::Terminating), at(99));
            assert_eq!(kinds(&freed), ["status RemovalBlocked= "], "{name}: removed");
        }
    }

    #[test]
    fn changes_of_the_scheduled_condition_are_detected() {
        let status = |scheduled| binding("a", scheduled, false).status().cloned();
        let (no, yes) = (Some(("False", "x")), Some(("True", "x")));
        for (name, old, new, want) in [
            ("no change", no, no, false),
            ("scheduled", no, yes, true),
            ("another reason", no, Some(("False", "y")), true),
            ("first report of the scheduler", None, no, true),
        ] {
            assert_eq!(scheduled_changed(status(old).as_ref(), status(new).as_ref()), want, "{name}");
        }
    }

    #[test]
    fn cluster_without_our_finalizer_is_left_alone() {
        let mut cluster = cluster("m1");
        cluster.metadata.finalizers = Some(vec!["x/y".into()]);
        cluster.metadata.deletion_timestamp = Some(Time(at(1)));
        assert!(decide(&seen(&cluster, ExecutionSpace::Active { uid: "u" }), at(9)).is_quiet());
    }
}
