//! Condition and event when the API server rejects a result (specification/scheduling.md 13.1).

use ironclad_api::{
    conditions::FALSE,
    reasons::binding::{QUOTA_EXCEEDED, SCHEDULER_ERROR},
};
use ironclad_fleet::{BindingRef, Plan, StatusPart, because::schedule::Reason};
use jiff::Timestamp;

use super::{Effect, failed_events, scheduled};

/// Condition and event of a result that was rejected permanently; nothing if both are already recorded. `error` is the
/// server's message; the result stays unchanged.
pub fn refused(binding: BindingRef<'_>, error: &str, now: Timestamp) -> Plan<Effect> {
    let reason = if is_over_quota(error) { QUOTA_EXCEEDED } else { SCHEDULER_ERROR };
    let mut plan = Plan::default();
    plan.note(Reason::SchedulerError { error: error.to_owned() }.into());
    if let Some(condition) = scheduled(binding, FALSE, reason, error, binding.generation(), now) {
        plan.effects.push(Effect::Status(StatusPart::condition(condition)));
        plan.effects.extend(failed_events(binding, error));
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
    use crate::testkit::{at, binding};

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
        }
    }
}
