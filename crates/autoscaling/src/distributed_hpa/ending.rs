//! End of a distributed HorizontalPodAutoscaler: the target keeps the replicas that members decided, then everything
//! that was made is removed (specification/autoscaling.md 6.6, hand-over).

use ironclad_api::{annotations, finalizers, labels, policy::ReplicaSchedulingType};
use ironclad_fleet::{ClusterName, Plan, because::distributed_hpa::Reason, finalizer};
use ironclad_propagation::{overrides, work::owned};
use jiff::SignedDuration;
use serde_json::{Map, Value, json};

use super::{
    CLAIMANT, Context, Effect, HandOver, Placed, Seen, Target, is_enabled, label, own_works, recorded,
    state::{self, State},
    status,
};

/// Time for which the end waits for the scheduler.
const SCHEDULED_WITHIN: SignedDuration = SignedDuration::from_secs(60);
/// Interval at which it looks.
const LOOK_EVERY: SignedDuration = SignedDuration::from_secs(5);
/// Value of annotation `federatedhpa.karmada.io/on-delete`.
const RESET: &str = "Reset";

/// Ends the distribution of an object that is being deleted, lost its label or has another target now.
pub(super) fn decide(plan: &mut Plan<Effect>, seen: &Seen<'_>) {
    let metadata = &seen.scaler.hpa.metadata;
    let released = released(seen);
    if released.is_none() && own_works(seen).is_empty() && recorded::own(seen).is_none() {
        plan.note(Reason::NotEnabled.into());
        return;
    }
    let mut cx = Context::of(seen);
    let resets = cx.annotation(annotations::FEDERATED_HPA_ON_DELETE) == Some(RESET);
    let has_policy = recorded::own(seen).is_some() || cx.state.hand_over.is_some();
    let is_ours = finalizer::removed(metadata, finalizers::FEDERATED_HPA).is_some();
    if let Some(target) = placed(seen).filter(|_| has_policy && is_ours && !resets) {
        let new = HandOver { replicas: number(seen, &target), since: seen.now };
        let end = cx.state.hand_over.get_or_insert(new).clone();
        if let Some(left) = state::left(end.since, SCHEDULED_WITHIN, seen.now) {
            cx.again_in(LOOK_EVERY.min(left));
            if target.replicas() != end.replicas {
                store(plan, &cx);
                let replicas = i32::try_from(end.replicas).unwrap_or(i32::MAX);
                plan.push(Effect::ScaleTarget { replicas }, Reason::HandsOver { replicas: end.replicas }.into());
                plan.effects.push(Effect::RequeueAfter(cx.next));
                return;
            }
            if !is_divided(&target, end.replicas) {
                plan.note(Reason::AwaitsScheduler.into());
                plan.effects.push(Effect::RequeueAfter(cx.next));
                return;
            }
        }
    }
    remove(plan, seen);
    plan.note(Reason::Released.into());
    if is_ours && metadata.deletion_timestamp.is_none() && !goes_on(seen) {
        status::ended(&cx, plan);
    }
    plan.effects.extend(released.map(|patch| Effect::Release { patch }));
    if goes_on(seen) {
        // With the target of the spec.
        plan.effects.push(Effect::RequeueAfter(SignedDuration::from_secs(1)));
    }
}

/// Removes everything that was made for the object. The members' autoscalers go first: they would act upon the numbers
/// that the end of the OverridePolicy brings.
pub(super) fn remove(plan: &mut Plan<Effect>, seen: &Seen<'_>) {
    plan.effects.extend(own_works(seen).into_values().filter_map(owned::delete).map(Effect::Work));
    let policy = recorded::own(seen).filter(|policy| policy.metadata.deletion_timestamp.is_none());
    plan.effects.extend(policy.map(|_| Effect::DeletePolicy));
}

/// Stores the number before it is set, so that a controller that starts meanwhile sets the same one.
fn store(plan: &mut Plan<Effect>, cx: &Context<'_>) {
    if State::of(cx.seen.scaler.hpa.metadata.annotations.as_ref()) != cx.state {
        let patch = json!({"metadata": {"annotations": {annotations::FEDERATED_HPA_STATUS: cx.state.text()}}});
        plan.effects.push(Effect::Patch { patch });
    }
}

/// True if the object stays distributed: only its target has changed.
fn goes_on(seen: &Seen<'_>) -> bool {
    seen.scaler.hpa.metadata.deletion_timestamp.is_none() && is_enabled(&seen.scaler.hpa.metadata)
}

/// The patch that takes our marks off the object; `None` if it has none.
fn released(seen: &Seen<'_>) -> Option<Value> {
    let metadata = &seen.scaler.hpa.metadata;
    if goes_on(seen) {
        return Some(json!({"metadata": {"annotations": {annotations::FEDERATED_HPA_STATUS: null}}}));
    }
    let mut patch = Map::new();
    if let Some(rest) = finalizer::removed(metadata, finalizers::FEDERATED_HPA) {
        patch.insert("finalizers".into(), json!(rest));
    }
    if label(metadata, labels::CLAIMED_BY) == Some(CLAIMANT) {
        patch.insert("labels".into(), json!({labels::CLAIMED_BY: null}));
    }
    let annotated =
        metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotations::FEDERATED_HPA_STATUS));
    if annotated {
        patch.insert("annotations".into(), json!({annotations::FEDERATED_HPA_STATUS: null}));
    }
    let deleted = metadata.deletion_timestamp.is_some();
    // The last finalizer of a deleted object ends it; nothing else matters then.
    (!patch.is_empty() && (!deleted || patch.contains_key("finalizers"))).then(|| json!({"metadata": patch}))
}

fn placed<'a>(seen: &Seen<'a>) -> Option<Placed<'a>> {
    let Target::Found { template, replicas } = seen.target else { return None };
    let binding = seen.binding.filter(|binding| binding.metadata.deletion_timestamp.is_none())?;
    Some(Placed { template, pointer: replicas, binding })
}

fn is_duplicated(target: &Placed<'_>) -> bool {
    let placement = target.binding.spec.placement.as_ref();
    placement.is_none_or(|placement| placement.replica_scheduling_type() == ReplicaSchedulingType::Duplicated)
}

/// The number for the template: the sum over its clusters, or what one copy has at most.
fn number(seen: &Seen<'_>, target: &Placed<'_>) -> i64 {
    let rules = recorded::own(seen).map(overrides::recorded).unwrap_or_default();
    let of = |name: &String| {
        let cluster = ClusterName::from(name.as_str());
        rules.get(&cluster).map_or_else(|| target.given(&cluster), |number| i64::from(*number))
    };
    let clusters = target.binding.spec.clusters.iter().map(|one| of(&one.name));
    let whole = !target.binding.spec.is_workload() || is_duplicated(target);
    let number: i64 = if whole { clusters.max().unwrap_or(0) } else { clusters.sum() };
    if number > 0 { number } else { target.replicas() }
}

/// True if the scheduler has seen the replicas of the template. Nobody divides those of a kind without interpretation.
pub(super) fn is_scheduled(target: &Placed<'_>, replicas: i64) -> bool {
    let (spec, metadata) = (&target.binding.spec, &target.binding.metadata);
    let observed = target.binding.status.as_ref().map(|status| status.scheduler_observed_generation);
    let seen = metadata.generation.is_none() || observed >= metadata.generation;
    !spec.is_workload() || (i64::from(spec.replicas) == replicas && seen)
}

/// True if it has divided all of them.
fn is_divided(target: &Placed<'_>, replicas: i64) -> bool {
    let spec = &target.binding.spec;
    let sum: i64 = spec.clusters.iter().map(|one| i64::from(one.replicas)).sum();
    is_scheduled(target, replicas) && (!spec.is_workload() || is_duplicated(target) || sum == replicas)
}
