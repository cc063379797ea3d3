//! Decision of the rebalancer controller: reschedules bindings for a WorkloadRebalancer (specification/propagation.md
//! 26; specification/propagation.md 31 row 14).

use ironclad_api::{
    Time,
    apps::{FAILED, ObservedWorkload, SUCCESSFUL, WorkloadRebalancer},
    reasons::workload_rebalancer::REFERENCED_BINDING_NOT_FOUND,
};
use ironclad_fleet::{Because, BindingKey, BindingRef, Plan, StatusPart, because::propagation::Reason};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::detector::binding::Binding;

/// Snapshot of one rebalancer.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub rebalancer: &'a WorkloadRebalancer,
    /// The binding of each entry of `spec.workloads`, in order, found by `spec.resource`.
    pub bindings: &'a [Option<Binding<'a>>],
    /// Current time.
    pub now: Timestamp,
}

/// Write or requeue.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    PatchBinding {
        key: BindingKey,
        /// Merge patch without resourceVersion.
        patch: Value,
    },
    /// Set a part of the rebalancer's status, after the bindings are written.
    Status(StatusPart),
    /// Delete the rebalancer, if it is unchanged.
    Delete {
        uid: String,
        /// Its resourceVersion.
        resource_version: String,
    },
    /// Reconcile again at this time.
    RequeueAt(Timestamp),
}

/// Triggers the bindings of new entries, updates the status, and deletes a rebalancer after its TTL.
pub fn decide(seen: &Seen<'_>) -> Plan<Effect> {
    let mut plan = Plan::default();
    let rebalancer = seen.rebalancer;
    if rebalancer.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let now = whole_second(seen.now);
    let old = rebalancer.status.clone().unwrap_or_default();
    let is_final = |observed: &&ObservedWorkload| !observed.result.is_empty();
    let created = rebalancer.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    // An entry of a later edit counts from the edit: its workload may have been scheduled since the rebalancer was
    // created.
    let asked_at = if old.observed_generation == 0 { created } else { now };

    let mut observed: Vec<ObservedWorkload> = old
        .observed_workloads
        .iter()
        .filter(|known| {
            known.result == SUCCESSFUL || (is_final(known) && rebalancer.spec.workloads.contains(&known.workload))
        })
        .cloned()
        .collect();
    let mut news = false;
    for (workload, binding) in rebalancer.spec.workloads.iter().zip(seen.bindings) {
        if observed.iter().any(|known| known.workload == *workload) {
            continue;
        }
        news = true;
        let (result, reason) = match binding {
            Some(binding) => {
                trigger(&mut plan, *binding, asked_at);
                (SUCCESSFUL, "")
            }
            None => (FAILED, REFERENCED_BINDING_NOT_FOUND),
        };
        observed.push(ObservedWorkload { workload: workload.clone(), result: result.into(), reason: reason.into() });
    }
    observed.sort_by(|a, b| a.workload.cmp(&b.workload));
    let finished = match &old.finish_time {
        Some(time) if !news => time.0,
        _ => now,
    };
    let fields = Map::from_iter([
        ("observedWorkloads".to_owned(), json!(observed)),
        ("observedGeneration".to_owned(), json!(rebalancer.metadata.generation)),
        ("finishTime".to_owned(), json!(Time(finished))),
    ]);
    let part = StatusPart { fields, ..StatusPart::default() };
    let is_up_to_date = StatusPart::patch(&json!(rebalancer.status), &[&part]).is_none();
    if !is_up_to_date {
        plan.effects.push(Effect::Status(part));
    }
    if let Some(ttl) = rebalancer.spec.ttl_seconds_after_finished {
        let end = finished.saturating_add(SignedDuration::from_secs(ttl.max(0).into())).unwrap_or(Timestamp::MAX);
        if !is_up_to_date || end > now {
            plan.effects.push(Effect::RequeueAt(end));
        } else {
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            plan.effects.push(Effect::Delete {
                uid: text(&rebalancer.metadata.uid),
                resource_version: text(&rebalancer.metadata.resource_version),
            });
        }
    }
    plan
}

fn trigger(plan: &mut Plan<Effect>, binding: Binding<'_>, at: Timestamp) {
    let triggered = binding.spec().reschedule_triggered_at.as_ref().map(|time| time.0);
    if triggered.is_none_or(|triggered| triggered < at) {
        let patch = json!({"spec": {"rescheduleTriggeredAt": Time(at)}});
        let key = binding.key();
        plan.push(Effect::PatchBinding { key: key.clone(), patch }, Reason::RescheduleAsked { binding: key }.into());
    } else {
        plan.note(Because::UpToDate);
    }
}

/// State of one workload of a rebalancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It is not scheduled yet.
    Waits,
    /// It was scheduled since.
    Scheduled,
    /// It can't be, for this reason.
    Failed(String),
}

/// Progress of a workload by its result, if there is one yet, and its binding.
#[must_use]
pub fn progress(observed: Option<&ObservedWorkload>, binding: Option<BindingRef<'_>>) -> Progress {
    match observed {
        Some(observed) if observed.result == FAILED => Progress::Failed(observed.reason.clone()),
        Some(observed) if observed.result == SUCCESSFUL => match binding {
            Some(binding) if binding.reschedule_required() => Progress::Waits,
            Some(_) => Progress::Scheduled,
            None => Progress::Failed(REFERENCED_BINDING_NOT_FOUND.to_owned()),
        },
        _ => Progress::Waits,
    }
}

/// Resolution of the wire format: two writes of one time must be equal.
fn whole_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).expect("the second of a timestamp is a timestamp")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{binding, patched};

    const CREATED: &str = "2026-01-01T00:00:10Z";

    fn rebalancer(names: &[&str], extra: Value) -> WorkloadRebalancer {
        let workloads: Vec<Value> = names
            .iter()
            .map(|n| json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": n}))
            .collect();
        let base: WorkloadRebalancer = serde_json::from_value(json!({
            "metadata": {"name": "r", "uid": "u", "resourceVersion": "7", "generation": 1, "creationTimestamp": CREATED}, "spec": {"workloads": workloads}}))
        .unwrap();
        patched(&base, &extra)
    }

    fn run(rebalancer: &WorkloadRebalancer, bindings: &[Option<Binding<'_>>], now: &str) -> Vec<Effect> {
        decide(&Seen { rebalancer, bindings, now: now.parse().unwrap() }).effects
    }

    fn after(rebalancer: &WorkloadRebalancer, effects: &[Effect]) -> WorkloadRebalancer {
        let part = effects.iter().find_map(|e| if let Effect::Status(part) = e { Some(part) } else { None }).unwrap();
        patched(rebalancer, &json!({"status": StatusPart::applied(&json!(rebalancer.status), &[part])}))
    }

    #[test]
    fn new_entries_trigger_bindings() {
        for (name, triggered, want) in [
            ("never triggered", json!(null), Some(CREATED)),
            ("triggered before", json!("2026-01-01T00:00:09Z"), Some(CREATED)),
            ("triggered then", json!(CREATED), None),
            ("triggered later", json!("2026-01-01T00:00:11Z"), None),
        ] {
            let binding = patched(&binding(&[]), &json!({"spec": {"rescheduleTriggeredAt": triggered}}));
            let effects =
                run(&rebalancer(&["web"], json!({})), &[Some(Binding::from(&binding))], "2026-01-01T00:00:20.7Z");
            let triggered = effects.iter().find_map(|e| {
                if let Effect::PatchBinding { patch, .. } = e {
                    patch["spec"]["rescheduleTriggeredAt"].as_str()
                } else {
                    None
                }
            });
            assert_eq!(triggered, want, "{name}");
        }
    }

    #[test]
    fn status_lists_every_workload() {
        let binding = binding(&[]);
        let fresh = rebalancer(&["web", "gone"], json!({}));
        let bindings = [Some(Binding::from(&binding)), None];
        let effects = run(&fresh, &bindings, "2026-01-01T00:00:20.7Z");
        let Some(Effect::Status(part)) = effects.last() else { panic!("{effects:?}") };
        let of = |name: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name});
        assert_eq!(
            Value::Object(part.fields.clone()),
            json!({"observedGeneration": 1, "finishTime": "2026-01-01T00:00:20Z", "observedWorkloads": [
                {"workload": of("gone"), "result": "Failed", "reason": "ReferencedBindingNotFound"}, {"workload": of("web"), "result": "Successful"}]})
        );
        let done = after(&fresh, &effects);
        assert_eq!(run(&done, &bindings, "2026-01-01T01:00:00Z"), [], "a result is final");

        let edited = patched(&done, &json!({"metadata": {"generation": 2}, "spec": {"workloads": [of("new")]}}));
        let effects = run(&edited, &[Some(Binding::from(&binding))], "2026-01-01T02:00:00Z");
        let [Effect::PatchBinding { patch, .. }, Effect::Status(part)] = effects.as_slice() else {
            panic!("{effects:?}")
        };
        assert_eq!(
            patch["spec"]["rescheduleTriggeredAt"], "2026-01-01T02:00:00Z",
            "an entry added later counts from then"
        );
        let names: Vec<&str> = part.fields["observedWorkloads"]
            .as_array()
            .unwrap()
            .iter()
            .map(|o| o["workload"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["new", "web"], "of removed ones only the successful stay");
        assert_eq!(part.fields["finishTime"], "2026-01-01T02:00:00Z");
    }

    #[test]
    fn a_workload_is_scheduled_once_its_binding_was_after_the_trigger() {
        let observed = |result: &str, reason: &str| ObservedWorkload {
            result: result.into(),
            reason: reason.into(),
            ..ObservedWorkload::default()
        };
        let (fine, failed) = (observed(SUCCESSFUL, ""), observed(FAILED, REFERENCED_BINDING_NOT_FOUND));
        let (before, at, after) = ("2026-01-01T00:00:09Z", CREATED, "2026-01-01T00:00:11Z");
        let not_found = || Progress::Failed(REFERENCED_BINDING_NOT_FOUND.into());
        for (name, observed, scheduled, want) in [
            ("no result yet", None, Some(after), Progress::Waits),
            ("the result may come later", Some(&observed("", "")), Some(after), Progress::Waits),
            ("not scheduled since", Some(&fine), Some(before), Progress::Waits),
            ("in the same second", Some(&fine), Some(at), Progress::Waits),
            ("scheduled since", Some(&fine), Some(after), Progress::Scheduled),
            ("the binding is gone", Some(&fine), None, not_found()),
            ("refused", Some(&failed), Some(after), not_found()),
        ] {
            let binding = scheduled.map(|time| {
                patched(
                    &binding(&[]),
                    &json!({"spec": {"rescheduleTriggeredAt": at}, "status": {"lastScheduledTime": time}}),
                )
            });
            assert_eq!(progress(observed, binding.as_ref().map(BindingRef::from)), want, "{name}");
        }
    }

    #[test]
    fn finished_rebalancer_is_deleted_after_its_ttl() {
        let binding = binding(&[]);
        let bindings = [Some(Binding::from(&binding))];
        let fresh = rebalancer(&["web"], json!({"spec": {"ttlSecondsAfterFinished": 60}}));
        let effects = run(&fresh, &bindings, "2026-01-01T00:01:00Z");
        let end: Timestamp = "2026-01-01T00:02:00Z".parse().unwrap();
        assert_eq!(effects.last(), Some(&Effect::RequeueAt(end)));
        let done = after(&fresh, &effects);
        assert_eq!(run(&done, &bindings, "2026-01-01T00:01:59Z"), [Effect::RequeueAt(end)]);
        assert_eq!(
            run(&done, &bindings, "2026-01-01T00:02:00Z"),
            [Effect::Delete { uid: "u".into(), resource_version: "7".into() }]
        );
        let at_once = rebalancer(&["web"], json!({"spec": {"ttlSecondsAfterFinished": 0}}));
        let done = after(&at_once, &run(&at_once, &bindings, CREATED));
        assert!(
            matches!(run(&done, &bindings, CREATED).as_slice(), [Effect::Delete { .. }]),
            "0 is at once, the record first"
        );
        let going = patched(&done, &json!({"metadata": {"deletionTimestamp": CREATED}}));
        assert_eq!(run(&going, &bindings, CREATED), []);
    }
}
