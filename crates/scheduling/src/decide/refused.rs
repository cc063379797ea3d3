//! Condition and event when the API server rejects a result (specification/scheduling.md 13.1).

use ironclad_api::{
    conditions::{FALSE, TRUE},
    events::APPLY_POLICY_FAILED,
    reasons::binding::{QUOTA_EXCEEDED, SCHEDULER_ERROR, SUCCESS},
};
use ironclad_fleet::{BindingRef, Event, Plan, StatusPart, because::schedule::Reason};
use jiff::Timestamp;

use super::{EVENT_MAX, Effect, cut, failed_events, preemption, scheduled, success_message};

/// Condition and event of a result that was rejected permanently; nothing if both are already recorded. `error` is the
/// server's message; the result stays unchanged. A nomination of the binding ends: the capacity would be held in vain
/// (specification/scheduling.md 15.7).
pub fn refused(binding: BindingRef<'_>, error: &str, now: Timestamp) -> Plan<Effect> {
    report(binding, error, failed_events(binding, error), now)
}

fn report(
    binding: BindingRef<'_>,
    error: &str,
    events: impl IntoIterator<Item = Effect>,
    now: Timestamp,
) -> Plan<Effect> {
    let reason = if is_over_quota(error) { QUOTA_EXCEEDED } else { SCHEDULER_ERROR };
    let mut plan = Plan::default();
    plan.note(Reason::SchedulerError { error: error.to_owned() }.into());
    let condition = scheduled(binding, FALSE, reason, error, binding.generation(), now);
    let is_new = condition.is_some();
    let mut part = StatusPart::default();
    part.conditions.extend(condition);
    let was_nominated = preemption::end_nomination(binding, &mut part);
    if !part.is_empty() {
        plan.effects.push(Effect::Status(part));
    }
    if is_new {
        plan.effects.extend(events);
    }
    if was_nominated {
        plan.effects.extend(preemption::failed(binding, error));
    }
    plan
}

/// Beginning of the message if a quota refused the change of a binding that a change of its template asked for.
const TEMPLATE_REFUSED: &str = "the change of the template is not taken over: ";

/// Condition and event of a change of the template that a quota refused. The binding keeps its requests and clusters,
/// and members keep the last copies. As nothing was to be scheduled, the event is that of a policy that is not applied
/// (specification/propagation.md 5.3).
pub fn template_refused(binding: BindingRef<'_>, error: &str, now: Timestamp) -> Plan<Effect> {
    let message = format!("{TEMPLATE_REFUSED}{error}");
    let about = binding.spec().resource.clone();
    let event = Event::warning(about, APPLY_POLICY_FAILED, cut(&message, EVENT_MAX));
    report(binding, &message, [Effect::Event(event)], now)
}

/// Condition once the template asks for what the binding has again; nothing unless [`template_refused`] was recorded
/// last.
pub fn template_accepted(binding: BindingRef<'_>, now: Timestamp) -> Plan<Effect> {
    let mut plan = Plan::default();
    let was_refused = binding
        .scheduled()
        .is_some_and(|scheduled| scheduled.reason == QUOTA_EXCEEDED && scheduled.message.starts_with(TEMPLATE_REFUSED));
    if was_refused
        && binding.observed_generation() == binding.generation()
        && let Some(condition) = scheduled(
            binding,
            TRUE,
            SUCCESS,
            &success_message(binding, &binding.spec().clusters),
            binding.generation(),
            now,
        )
    {
        plan.effects.push(Effect::Status(StatusPart::condition(condition)));
    }
    plan
}

/// Returns whether a FederatedResourceQuota rejected it. A webhook's rejection is only text, so the message is matched.
fn is_over_quota(error: &str) -> bool {
    error.contains("FederatedResourceQuota(") && error.contains(" exceeded for resource ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{at, binding, targets};

    #[test]
    fn reasons_of_refusals() {
        let quota = "FederatedResourceQuota(shop/q) exceeded for resource cpu: requested sum 5, limit 4";
        for (name, error, want) in [
            ("a quota", quota.to_owned(), "QuotaExceeded"),
            ("a quota, by webhook", format!("admission webhook \"x\" denied the request: {quota}"), "QuotaExceeded"),
            ("not allowed", "resourcebindings.work.karmada.io \"web\" is forbidden".to_owned(), "SchedulerError"),
        ] {
            let mut binding = binding("web", 5, &[("m1", 2)]);
            let plan = refused((&binding).into(), &error, at(5));
            let [Effect::Status(part), Effect::Event(event), Effect::Event(on_template)] = plan.effects.as_slice()
            else {
                panic!("{name}: {plan:?}")
            };
            let kinds = (event.about.kind.as_str(), on_template.about.kind.as_str());
            assert_eq!((kinds, &on_template.message), (("ResourceBinding", "Deployment"), &event.message), "{name}");
            let condition = part.conditions[0].clone();
            assert_eq!((condition.reason.as_str(), condition.message.as_str()), (want, error.as_str()), "{name}");
            assert_eq!((event.reason, event.message.as_str()), ("ScheduleBindingFailed", error.as_str()), "{name}");
            binding.status.get_or_insert_default().conditions = vec![condition];
            assert!(refused((&binding).into(), &error, at(9)).is_quiet(), "{name}: reported once");
            assert!(
                template_accepted((&binding).into(), at(9)).is_quiet(),
                "{name}: the scheduler's own refusal stays"
            );
        }
    }

    #[test]
    fn refused_preemptor_gives_its_nomination_up() {
        let error = "FederatedResourceQuota(shop/q) exceeded for resource cpu: requested sum 5, limit 4";
        let mut binding = binding("web", 5, &[]);
        binding.status.get_or_insert_default().nominated_clusters = targets(&[("m1", 5)]);
        let plan = refused((&binding).into(), error, at(5));
        let reasons: Vec<&str> = plan
            .effects
            .iter()
            .map(|effect| match effect {
                Effect::Event(event) => event.reason,
                Effect::Status(part) => {
                    assert_eq!(part.fields.get("nominatedClusters"), Some(&serde_json::Value::Null));
                    binding.status.as_mut().unwrap().conditions = part.conditions.clone();
                    "status"
                }
                _ => "another",
            })
            .collect();
        let failed = ["ScheduleBindingFailed", "ScheduleBindingFailed", "PreemptBindingFailed", "PreemptBindingFailed"];
        assert_eq!(reasons, [["status"].as_slice(), &failed].concat());
        let again = refused((&binding).into(), error, at(9));
        assert_eq!(again.effects.len(), 3, "found by another process: {again:?}");
        binding.status.as_mut().unwrap().nominated_clusters.clear();
        assert!(refused((&binding).into(), error, at(9)).is_quiet(), "given up once");
    }

    #[test]
    fn refused_change_of_a_template_is_reported_until_it_is_taken_back() {
        let error = "FederatedResourceQuota(shop/q) exceeded for resource cpu: requested sum 5, limit 4";
        let mut binding = binding("web", 5, &[("m1", 5)]);
        binding.metadata.generation = Some(3);
        let apply = |binding: &mut ironclad_api::work::ResourceBinding, plan: Plan<Effect>| {
            let mut told = Vec::new();
            for effect in plan.effects {
                match effect {
                    Effect::Status(part) => binding.status.get_or_insert_default().conditions = part.conditions,
                    Effect::Event(event) => told.push(format!("{} {}", event.about.kind, event.reason)),
                    other => panic!("{other:?}"),
                }
            }
            told
        };
        binding.status.get_or_insert_default().scheduler_observed_generation = 3;
        assert!(template_accepted((&binding).into(), at(1)).is_quiet(), "nothing was refused");
        let plan = template_refused((&binding).into(), error, at(2));
        assert_eq!(apply(&mut binding, plan), ["Deployment ApplyPolicyFailed"], "nothing was to be scheduled");
        let scheduled = binding.status.as_ref().unwrap().conditions[0].clone();
        assert_eq!((scheduled.status.as_str(), scheduled.reason.as_str()), ("False", "QuotaExceeded"));
        assert_eq!(scheduled.message, format!("the change of the template is not taken over: {error}"));
        assert!(template_refused((&binding).into(), error, at(3)).is_quiet(), "reported once");
        let plan = template_accepted((&binding).into(), at(4));
        assert_eq!(apply(&mut binding, plan), [""; 0]);
        let scheduled = binding.status.as_ref().unwrap().conditions[0].clone();
        assert_eq!((scheduled.status.as_str(), scheduled.reason.as_str()), ("True", "Success"));
        assert!(template_accepted((&binding).into(), at(5)).is_quiet());
    }
}
