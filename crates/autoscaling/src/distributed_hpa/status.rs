//! Status of the control plane's object: the sum of what members report
//! (specification/autoscaling.md 6.5).

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::{
    annotations,
    conditions::{
        self,
        federated_hpa::{ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED},
    },
    reasons::federated_hpa::{MAX_BELOW_CLUSTER_COUNT, QUOTA_EXCEEDED, SUCCEEDED_GET_SCALE},
};
use ironclad_fleet::{ClusterName, Plan, StatusPart, because::distributed_hpa::Reason};
use jiff::SignedDuration;
use serde_json::{Map, Value, json};

use super::{
    Context, Effect, event_reason, is_ready,
    members::{Fleet, Reports},
    policy_name, recorded,
    report::ReportedCondition,
    split::Mode,
    state,
};

/// Time for which the last report of a silent member counts.
const SILENT_FOR: SignedDuration = SignedDuration::from_mins(5);

/// Condition to be.
struct Condition {
    type_: &'static str,
    status: &'static str,
    reason: String,
    message: String,
}

/// Reports that the object cannot work.
pub(super) fn refused(cx: &Context<'_>, plan: &mut Plan<Effect>, reason: &Reason) {
    if let Reason::SwitchedOff { .. } = reason {
        // No problem: the same conditions as those of an autoscaler of one cluster.
        let (reason, message) = (reason.reason().to_owned(), reason.to_string());
        let active = Condition { type_: SCALING_ACTIVE, status: conditions::FALSE, reason, message };
        let able = Condition {
            type_: ABLE_TO_SCALE,
            status: conditions::TRUE,
            reason: SUCCEEDED_GET_SCALE.to_owned(),
            message: "the target was found".to_owned(),
        };
        let mut status = present(cx);
        put(cx, &mut status, vec![able, active]);
        write(cx, plan, status);
        return;
    }
    let (word, message) = (reason.reason(), reason.to_string());
    let is_new = stored(cx, ABLE_TO_SCALE).is_none_or(|(status, before)| (status, before) != (conditions::FALSE, word));
    let able = Condition { type_: ABLE_TO_SCALE, status: conditions::FALSE, reason: word.to_owned(), message };
    if is_new {
        cx.event(plan, event_reason(reason), able.message.clone());
    }
    let mut status = present(cx);
    put(cx, &mut status, vec![able]);
    write(cx, plan, status);
}

/// Reports what members report.
pub(super) fn report(cx: &Context<'_>, fleet: &Fleet<'_>, reports: &Reports<'_>, plan: &mut Plan<Effect>) {
    let (mut current, mut desired) = (0_i64, 0_i64);
    for state in cx.state.clusters.values() {
        if state.silent_since.is_none_or(|since| state::left(since, SILENT_FOR, cx.seen.now).is_some()) {
            let of = |number: Option<i32>| i64::from(number.unwrap_or(0));
            current += of(state.current);
            desired += of(state.desired.or(state.current));
        }
    }
    let number = |sum: i64| json!(i32::try_from(sum).unwrap_or(i32::MAX));
    let mut status = present(cx);
    status.insert("currentReplicas".into(), number(current));
    status.insert("desiredReplicas".into(), number(desired));
    if let Some(generation) = cx.seen.scaler.hpa.metadata.generation {
        status.insert("observedGeneration".into(), generation.into());
    }
    let before =
        cx.seen.scaler.hpa.status.as_ref().and_then(|status| status.last_scale_time.as_ref()).map(|time| time.0);
    let latest = reports.all.values().filter_map(|report| report.last_scale_time.as_ref()).map(|time| time.0).max();
    if let Some(latest) = latest.max(before) {
        status.insert("lastScaleTime".into(), json!(latest));
    }
    match (fleet.members.len(), reports.all.iter().next()) {
        (1, Some((_, report))) if reports.all.len() == 1 && !report.current_metrics.is_empty() => {
            status.insert("currentMetrics".into(), json!(report.current_metrics));
        }
        _ => {
            status.remove("currentMetrics");
        }
    }
    let conditions = aggregated(cx, fleet, reports);
    if !conditions.iter().any(|condition| condition.type_ == SCALING_LIMITED) {
        drop_own_limit(&mut status);
    }
    put(cx, &mut status, conditions);
    write(cx, plan, status);
}

fn aggregated(cx: &Context<'_>, fleet: &Fleet<'_>, reports: &Reports<'_>) -> Vec<Condition> {
    let of = |type_: &str| -> BTreeMap<&ClusterName, &ReportedCondition> {
        let reports = reports.all.iter();
        reports.filter_map(|(cluster, report)| Some((cluster, report.condition(type_)?))).collect()
    };
    let mut warnings = fleet.warnings.clone();
    if cx.seen.policy.is_some() && recorded::own(cx.seen).is_none() {
        let name = policy_name(cx.seen.scaler);
        warnings.push(format!("OverridePolicy {name} is not of this autoscaler: give it another name"));
    }
    let mut conditions = Vec::new();
    let (able, active) = (of(ABLE_TO_SCALE), of(SCALING_ACTIVE));
    let of_members = members_without_report(cx, fleet, reports);
    let all = fleet.members.keys().chain(able.keys().copied()).collect::<BTreeSet<_>>().len();
    warnings.splice(0..0, of_members);
    conditions.push(any(ABLE_TO_SCALE, &able, all, warnings).unwrap_or_else(|warnings| Condition {
        type_: ABLE_TO_SCALE,
        status: conditions::TRUE,
        reason: SUCCEEDED_GET_SCALE.to_owned(),
        message: joined("no member has reported yet", warnings),
    }));
    conditions.extend(any(SCALING_ACTIVE, &active, active.len(), Vec::new()).ok());
    let divides = Mode::parse(cx.annotation(annotations::FEDERATED_HPA_SPLIT)) != Ok(Mode::PerCluster);
    let count = fleet.members.len();
    let max = cx.seen.scaler.hpa.spec.max_replicas;
    let limited = of(SCALING_LIMITED);
    let by_a_member = limited.iter().find(|(_, condition)| condition.is_true());
    let limited = if divides && usize::try_from(max).is_ok_and(|max| max < count) {
        Some(Condition {
            type_: SCALING_LIMITED,
            status: conditions::TRUE,
            reason: MAX_BELOW_CLUSTER_COUNT.to_owned(),
            message: format!(
                "maxReplicas {max} is below the number of clusters, {count}, and each has at least 1: limit the \
                 clusters by a spread constraint of the policy, or raise maxReplicas"
            ),
        })
    } else if let Some(quota) = &cx.quota {
        Some(Condition {
            type_: SCALING_LIMITED,
            status: conditions::TRUE,
            reason: quota.reason().to_owned(),
            message: quota.to_string(),
        })
    } else if let Some((cluster, condition)) = by_a_member {
        let message = format!("cluster {cluster}: {}", condition.message);
        let reason = condition.reason.clone();
        Some(Condition { type_: SCALING_LIMITED, status: conditions::TRUE, reason, message })
    } else {
        limited.values().next().map(|condition| Condition {
            type_: SCALING_LIMITED,
            status: conditions::FALSE,
            reason: condition.reason.clone(),
            message: "the desired count of every member is within its range".to_owned(),
        })
    };
    conditions.extend(limited);
    conditions
}

/// The members of which there is no report, with the reason.
fn members_without_report(cx: &Context<'_>, fleet: &Fleet<'_>, reports: &Reports<'_>) -> Vec<String> {
    let silent = fleet.members.keys().filter(|cluster| !reports.all.contains_key(*cluster));
    let why = |cluster: &ClusterName| {
        if !is_ready(cx.seen.clusters, cluster) {
            return Some(format!("cluster {cluster}: it is not Ready"));
        }
        let status = reports.own.get(cluster).and_then(|work| work.status.as_ref());
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let applied = conditions::get(conditions, conditions::work::APPLIED);
        match applied.filter(|applied| applied.status == conditions::FALSE) {
            Some(refused) => Some(format!("cluster {cluster}: {}: {}", refused.reason, refused.message)),
            // Without any report the message says so at once.
            None => (!reports.all.is_empty()).then(|| format!("cluster {cluster}: it has not reported yet")),
        }
    };
    silent.filter_map(why).collect()
}

/// Reports that no member runs the autoscaler any more, although the object stays.
pub(super) fn ended(cx: &Context<'_>, plan: &mut Plan<Effect>) {
    let mut status = present(cx);
    status.retain(|key, _| !["currentMetrics", "conditions"].contains(&key.as_str()));
    status.insert("currentReplicas".into(), 0.into());
    status.insert("desiredReplicas".into(), 0.into());
    let (reason, message) = (Reason::NotEnabled.reason().to_owned(), Reason::NotEnabled.to_string());
    put(cx, &mut status, vec![Condition { type_: ABLE_TO_SCALE, status: conditions::FALSE, reason, message }]);
    write(cx, plan, status);
}

/// Removes condition `ScalingLimited` if no member reported it: what limited the object has ended.
fn drop_own_limit(status: &mut Map<String, Value>) {
    let is_own = |condition: &Value| {
        let reason = condition["reason"].as_str().unwrap_or_default();
        condition["type"] == SCALING_LIMITED && [MAX_BELOW_CLUSTER_COUNT, QUOTA_EXCEEDED].contains(&reason)
    };
    if let Some(list) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        list.retain(|condition| !is_own(condition));
    }
}

/// True if it is true for any of so many members; the message lists the others. Without reports the warnings come back.
fn any(
    type_: &'static str,
    all: &BTreeMap<&ClusterName, &ReportedCondition>,
    members: usize,
    mut warnings: Vec<String>,
) -> Result<Condition, Vec<String>> {
    let Some((_, best)) = all.iter().find(|(_, condition)| condition.is_true()).or_else(|| all.iter().next()) else {
        return Err(warnings);
    };
    let status = if best.is_true() { conditions::TRUE } else { conditions::FALSE };
    let others = all.iter().filter(|(_, condition)| !condition.is_true());
    let others: Vec<String> = others
        .map(|(cluster, condition)| format!("cluster {cluster}: {}: {}", condition.reason, condition.message))
        .collect();
    let working = all.len() - others.len();
    let first = format!("{working} of {members} members");
    warnings.splice(0..0, others);
    Ok(Condition { type_, status, reason: best.reason.clone(), message: joined(&first, warnings) })
}

fn joined(first: &str, rest: Vec<String>) -> String {
    std::iter::once(first.to_owned()).chain(rest).collect::<Vec<_>>().join("; ")
}

fn present(cx: &Context<'_>) -> Map<String, Value> {
    let status = serde_json::to_value(&cx.seen.scaler.hpa.status).ok();
    let mut status = status.and_then(|status| status.as_object().cloned()).unwrap_or_default();
    status.entry("desiredReplicas").or_insert_with(|| 0.into());
    status
}

/// Status and reason of a stored condition.
fn stored<'a>(cx: &Context<'a>, type_: &str) -> Option<(&'a str, &'a str)> {
    let conditions = cx.seen.scaler.hpa.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((&condition.status, condition.reason.as_deref().unwrap_or_default()))
}

/// Puts conditions into a status. Their time changes with their status only.
fn put(cx: &Context<'_>, status: &mut Map<String, Value>, conditions: Vec<Condition>) {
    let list = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return };
    for condition in conditions {
        let before = list.iter_mut().find(|before| before.get("type").and_then(Value::as_str) == Some(condition.type_));
        let mut new = json!({"type": condition.type_, "status": condition.status, "reason": condition.reason,
            "message": condition.message, "lastTransitionTime": cx.seen.now});
        match before {
            Some(before) => {
                if before.get("status") == new.get("status")
                    && let Some(since) = before.get("lastTransitionTime")
                {
                    new["lastTransitionTime"] = since.clone();
                }
                *before = new;
            }
            None => list.push(new),
        }
    }
}

/// Condition of another kind that says whether it can scale: that is what its status gets.
fn able_only(cx: &Context<'_>, old: &Value, status: &Map<String, Value>) -> Option<Value> {
    let type_ = cx.seen.scaler.kind.paths.able_condition.as_deref()?;
    let is = |condition: &Value, type_: &str| condition.get("type").and_then(Value::as_str) == Some(type_);
    let able = status.get("conditions")?.as_array()?.iter().find(|condition| is(condition, ABLE_TO_SCALE))?;
    let condition =
        json!({"type": type_, "status": able["status"], "reason": able["reason"], "message": able["message"]});
    let mut new = if old.is_object() { old.clone() } else { json!({}) };
    let mut list = old.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    match list.iter_mut().find(|condition| is(condition, type_)) {
        Some(before) => *before = condition,
        None => list.push(condition),
    }
    new["conditions"] = list.into();
    Some(new)
}

fn write(cx: &Context<'_>, plan: &mut Plan<Effect>, status: Map<String, Value>) {
    if let Some(old) = cx.seen.scaler.own_status() {
        let part = able_only(cx, &old, &status).map(|new| StatusPart::replacing(&old, &new));
        let part = part.filter(|part| StatusPart::patch(&old, &[part]).is_some());
        plan.effects.extend(part.map(Effect::Status));
        return;
    }
    let old = serde_json::to_value(&cx.seen.scaler.hpa.status).unwrap_or_default();
    let part = StatusPart::replacing(&old, &Value::Object(status));
    if StatusPart::patch(&old, &[&part]).is_some() {
        plan.effects.push(Effect::Status(part));
    }
}
