//! PropagationPolicy and ClusterPropagationPolicy (specification/admission.md 2.1 to 2.4).

use ironclad_api::{
    finalizers, labels,
    policy::{FailoverBehavior, PolicyPreemption, PropagationSpec, PurgeMode, SpreadByField, Suspension},
};
use ironclad_fleet::gates::Gate;
use ironclad_propagation::{defaults, selector::never_matches};
use serde_json::Value;

use super::{
    affinity, failover,
    lens::{add_finalizer, edit, label, set_label, text},
    placement, priority,
};
use crate::{
    Denial, Need, Operation, Request,
    field::{Findings, Path},
    request::{Config, Cx, Needs, decode_spec},
};

/// Differences between the two kinds.
struct Kind {
    id: &'static str,
    finalizer: &'static str,
    namespaced: bool,
}

const NAMESPACED: Kind = Kind {
    id: labels::PROPAGATION_POLICY_PERMANENT_ID,
    finalizer: finalizers::PROPAGATION_POLICY_CONTROLLER,
    namespaced: true,
};
const CLUSTER: Kind = Kind {
    id: labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID,
    finalizer: finalizers::CLUSTER_PROPAGATION_POLICY_CONTROLLER,
    namespaced: false,
};

/// Asks for an id for a new policy.
pub(crate) fn needs_id(request: &Request<'_>, _: &Config, needs: &mut Needs) {
    if request.operation == Operation::Create {
        needs.insert(Need::Id);
    }
}

/// Looks up the priority class that the policy names.
pub(crate) fn needs(request: &Request<'_>, _: &Config, needs: &mut Needs) {
    let Some(Ok(spec)) = request.object.map(spec) else { return };
    if let Some(priority) = &spec.schedule_priority {
        priority::needs_class(priority, needs);
    }
}

fn spec(object: &Value) -> Result<PropagationSpec, Denial> {
    decode_spec(object)
}

pub(crate) fn mutate(object: &mut Value, cx: &Cx<'_>) -> Result<(), Denial> {
    fill_in(&NAMESPACED, object, cx)
}

pub(crate) fn mutate_cluster(object: &mut Value, cx: &Cx<'_>) -> Result<(), Denial> {
    fill_in(&CLUSTER, object, cx)
}

fn fill_in(kind: &Kind, object: &mut Value, cx: &Cx<'_>) -> Result<(), Denial> {
    let namespace = kind.namespaced.then_some(cx.request.namespace);
    let Some(part) = object.get_mut("spec") else {
        return Err(Denial::undecodable("missing field `spec`"));
    };
    edit(part, |spec: &mut PropagationSpec| defaults::policy(spec, namespace))?;
    if cx.request.operation == Operation::Create {
        set_label(object, kind.id, &cx.lookups.id);
        add_finalizer(object, kind.finalizer);
    }
    Ok(())
}

pub(crate) fn change(cx: &Cx<'_>, _: &mut Findings) -> Result<(), Denial> {
    immutable(&NAMESPACED, cx)
}

pub(crate) fn change_cluster(cx: &Cx<'_>, _: &mut Findings) -> Result<(), Denial> {
    immutable(&CLUSTER, cx)
}

fn immutable(kind: &Kind, cx: &Cx<'_>) -> Result<(), Denial> {
    if let (Operation::Update, Some(old), Some(new)) = (cx.request.operation, cx.request.old, cx.request.object) {
        let scheduler = |object: &Value| match text(object, "/spec/schedulerName") {
            "" => ironclad_api::policy::DEFAULT_SCHEDULER_NAME.to_owned(),
            name => name.to_owned(),
        };
        if scheduler(old) != scheduler(new) {
            return Err(Denial::forbidden("the schedulerName should not be updated"));
        }
        let before = label(old, kind.id);
        if !before.is_empty() && before != label(new, kind.id) {
            return Err(Denial::forbidden(format!(
                "label {} is immutable, it can only be set by the system during creation",
                kind.id
            )));
        }
    }
    Ok(())
}

pub(crate) fn validate(object: &Value, cx: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    check(&NAMESPACED, object, cx, out)
}

pub(crate) fn validate_cluster(object: &Value, cx: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    check(&CLUSTER, object, cx, out)
}

fn check(kind: &Kind, object: &Value, cx: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    let unstamped = label(object, kind.id).is_empty();
    if unstamped && cx.request.old.is_none_or(|old| !label(old, kind.id).is_empty()) {
        return Err(Denial::forbidden(format!("label {} not set", kind.id)));
    }
    let path = Path::new("spec");
    let spec = spec(object)?;
    placement::placement(&spec.placement, &path.child("placement"), out);
    if let Some(behavior) = &spec.failover {
        if behavior.application.is_some() && !spec.propagate_deps {
            let detail = "application failover is set, propagateDeps must be true";
            out.invalid(path.child("propagateDeps"), &spec.propagate_deps, detail);
        }
        failover::failover(behavior, &path.child("failover"), out);
        if behavior.cluster.is_some() && !cx.config.gates.enabled(Gate::Failover) {
            out.warn("spec.failover.cluster has no effect: feature gate Failover is off");
        }
        warn_of_dependencies(&spec, &path, out);
        warn_of_partial_state(&spec, behavior, &path, out);
        warn_of_unused_state(behavior, &path, cx, out);
    }
    selectors(kind, object, &spec, &path.child("resourceSelectors"), out);
    if let Some(suspension) = &spec.suspension {
        suspended(suspension, &path.child("suspension"), out);
    }
    if let Some(priority) = &spec.schedule_priority {
        priority::schedule_priority(priority, &path.child("schedulePriority"), cx, out);
    }
    if spec.placement.workload_affinity.is_some() && !cx.config.gates.enabled(Gate::WorkloadAffinity) {
        out.warn("spec.placement.workloadAffinity has no effect: feature gate WorkloadAffinity is off");
    }
    if spec.preemption == Some(PolicyPreemption::Always) && !cx.config.gates.enabled(Gate::PropagationPolicyPreemption)
    {
        out.warn("spec.preemption has no effect: feature gate PropagationPolicyPreemption is off");
    }
    Ok(())
}

/// Kinds that run pods.
const WORKLOADS: [&str; 7] = ["CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "StatefulSet"];
/// Kinds that pods refer to, or are reached by.
const DEPENDENCIES: [&str; 5] = ["ConfigMap", "PersistentVolumeClaim", "Secret", "Service", "ServiceAccount"];

/// Warns of resources listed beside a workload: they are scheduled and evicted independently of it
/// (specification/failover.md 14.1, karmada#7324).
fn warn_of_dependencies(spec: &PropagationSpec, path: &Path, out: &mut Findings) {
    if !spec.resource_selectors.iter().any(|selector| WORKLOADS.contains(&selector.kind.as_str())) {
        return;
    }
    for (i, selector) in spec.resource_selectors.iter().enumerate() {
        if DEPENDENCIES.contains(&selector.kind.as_str()) {
            let (at, kind) = (path.child("resourceSelectors").index(i), &selector.kind);
            out.warn(format!(
                "{at}: a {kind} is scheduled on its own and does not follow a workload that spec.failover moves"
            ));
        }
    }
}

/// Warns that preserved state reaches the new copy only if it is the only copy (specification/failover.md 5.4).
fn warn_of_partial_state(spec: &PropagationSpec, behavior: &FailoverBehavior, path: &Path, out: &mut Findings) {
    let of_cluster = behavior.cluster.as_ref().and_then(|cluster| cluster.state_preservation.as_ref());
    let of_application = behavior.application.as_ref().and_then(|application| application.state_preservation.as_ref());
    let one_cluster = spec
        .placement
        .spread_constraints
        .iter()
        .any(|constraint| constraint.spread_by_field == Some(SpreadByField::Cluster) && constraint.max_groups == 1);
    if of_cluster.or(of_application).is_some() && !one_cluster {
        let at = path.child("placement").child("spreadConstraints");
        out.warn(format!("{at}: state is preserved only for workloads in one cluster: spreadByField cluster, minGroups 1, maxGroups 1"));
    }
}

/// Warns of state that no new copy gets: the gate is off, or the old copy runs on beside the new one
/// (specification/failover.md 5.4).
fn warn_of_unused_state(behavior: &FailoverBehavior, path: &Path, cx: &Cx<'_>, out: &mut Findings) {
    let cluster = behavior.cluster.as_ref().filter(|cluster| cluster.state_preservation.is_some());
    let application = behavior.application.as_ref().filter(|application| application.state_preservation.is_some());
    let modes = [("cluster", cluster.map(|c| c.purge_mode())), ("application", application.map(|a| a.purge_mode()))];
    for (field, mode) in modes.into_iter().filter_map(|(field, mode)| Some((field, mode?))) {
        let at = path.child("failover").child(field).child("statePreservation");
        if !cx.config.gates.enabled(Gate::StatefulFailoverInjection) {
            out.warn(format!("{at} has no effect: feature gate StatefulFailoverInjection is off"));
        } else if mode != PurgeMode::Directly {
            out.warn(format!(
                "{at} has no effect with purgeMode {mode:?}: only copies that replace a deleted one inherit"
            ));
        }
    }
}

fn selectors(kind: &Kind, object: &Value, spec: &PropagationSpec, path: &Path, out: &mut Findings) {
    if kind.namespaced {
        affinity::own_namespace(&spec.resource_selectors, text(object, "/metadata/namespace"), path, out);
    }
    affinity::resource_selectors(&spec.resource_selectors, path, out);
    for (i, selector) in spec.resource_selectors.iter().enumerate() {
        let at = path.index(i);
        if spec.preemption == Some(PolicyPreemption::Always) && selector.name.is_empty() {
            let detail = "name cannot be empty if preemption is Always, the empty name may cause unexpected resources preemption";
            out.invalid(at.child("name"), &selector.name, detail);
        }
        if !kind.namespaced
            && selector.name.is_empty()
            && selector.namespace.is_empty()
            && selector.label_selector.is_none()
        {
            out.warn(format!("{at} matches every {} of all namespaces", selector.kind));
        }
        if let Some(why) = never_matches(&selector.api_version) {
            out.warn(format!("{}: {why}", at.child("apiVersion")));
        }
    }
}

fn suspended(suspension: &Suspension, path: &Path, out: &mut Findings) {
    let some = suspension.dispatching_on_clusters.as_ref().is_some_and(|on| !on.cluster_names.is_empty());
    if suspension.dispatching == Some(true) && some {
        out.invalid(path, suspension, "suspension dispatching cannot co-exist with dispatchingOnClusters.clusterNames");
    }
}
