//! Condition and events of a preemptor that is placed and whose pods the scheduler of a member finds no node for
//! (specification/scheduling.md 15.10): an account by resources does not know every reason of a member's scheduler.

use std::{collections::BTreeMap, time::Duration};

use ironclad_api::{
    Condition,
    conditions::{self, TRUE, binding::PODS_UNSCHEDULABLE},
    events,
    reasons::binding::UNSCHEDULABLE,
};
use ironclad_fleet::{BindingRef, ClusterName, Event, StatusPart};

use crate::{
    decide::cut_event,
    preempt::{Mode, may_preempt},
};

/// Time after which a change is looked at: a pod may find no node for a moment while victims of its binding leave.
pub const SETTLES: Duration = Duration::from_secs(5);
/// Time after which the condition is checked again: a member that is connected anew does not tell what vanished.
pub(crate) const CHECKED_AGAIN: Duration = Duration::from_secs(30);
/// Clusters that a message contains.
const CLUSTERS_MAX: usize = 3;

/// A pod for which the scheduler of its cluster finds no node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// Its name.
    pub pod: String,
    /// Message of the scheduler.
    pub message: String,
}

/// Writes about one binding.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// Change of its condition.
    pub status: Option<StatusPart>,
    /// Events, when the condition becomes True.
    pub events: Vec<Event>,
    /// Time after which to decide again, if nothing changes before.
    pub again: Option<Duration>,
}

/// Clusters whose pods count: the targets of a binding that may preempt.
#[must_use]
pub fn questions(binding: BindingRef<'_>, mode: Mode) -> Vec<ClusterName> {
    let counts = may_preempt(binding, mode) && !binding.is_deleting();
    names(binding).filter(|_| counts).map(ClusterName::from).collect()
}

/// Decides on the condition of a binding. `waiting` has the pods without node of its workload by cluster.
#[must_use]
pub fn decide(binding: BindingRef<'_>, mode: Mode, waiting: &BTreeMap<ClusterName, Vec<Waiting>>) -> Decision {
    let mut found: Vec<(ClusterName, &[Waiting])> = questions(binding, mode)
        .into_iter()
        .filter_map(|cluster| Some((cluster.clone(), waiting.get(&cluster)?.as_slice())))
        .filter(|(_, pods)| !pods.is_empty())
        .collect();
    found.sort();
    let present = present(binding);
    if found.is_empty() {
        let none = present.map(|_| StatusPart::condition(conditions::condition(PODS_UNSCHEDULABLE, "", "", "")));
        return Decision { status: none, ..Decision::default() };
    }
    let wanted = conditions::condition(PODS_UNSCHEDULABLE, TRUE, UNSCHEDULABLE, message(&found));
    let was_true = present.is_some_and(|present| present.status == TRUE);
    let is_same = was_true
        && present.is_some_and(|present| (&present.reason, &present.message) == (&wanted.reason, &wanted.message));
    let about = [binding.reference(), binding.spec().resource.clone()];
    let event = |about| Event::warning(about, events::PODS_UNSCHEDULABLE, cut_event(&wanted.message));
    Decision {
        events: about.into_iter().filter(|_| !was_true).map(event).collect(),
        status: (!is_same).then(|| StatusPart::condition(wanted)),
        again: Some(CHECKED_AGAIN),
    }
}

pub(crate) fn names(binding: BindingRef<'_>) -> impl Iterator<Item = &str> {
    binding.spec().clusters.iter().map(|target| target.name.as_str())
}

pub(crate) fn present(binding: BindingRef<'_>) -> Option<&Condition> {
    conditions::get(&binding.status()?.conditions, PODS_UNSCHEDULABLE)
}

fn message(found: &[(ClusterName, &[Waiting])]) -> String {
    let of = |(cluster, pods): &(ClusterName, &[Waiting])| {
        let count = if pods.len() == 1 { "1 pod has".to_owned() } else { format!("{} pods have", pods.len()) };
        let why = pods.iter().min().map_or("", |first| first.message.trim_end());
        format!("{cluster}: {count} no node: {why}")
    };
    let mut parts: Vec<String> = found.iter().take(CLUSTERS_MAX).map(of).collect();
    if let Some(more) = found.len().checked_sub(CLUSTERS_MAX).filter(|more| *more > 0) {
        parts.push(format!("and {more} more"));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use ironclad_api::work::{PreemptionPolicy, ResourceBinding};

    use super::*;
    use crate::testkit::preemptor;

    const FULL: &str = "0/3 nodes are available: 3 Insufficient cpu.";

    fn waiting(all: &[(&str, &[(&str, &str)])]) -> BTreeMap<ClusterName, Vec<Waiting>> {
        let pods = |pods: &[(&str, &str)]| {
            let pod = |(pod, message): &(&str, &str)| Waiting { pod: (*pod).into(), message: (*message).into() };
            pods.iter().map(pod).collect()
        };
        all.iter().map(|(cluster, of)| (ClusterName::from(*cluster), pods(of))).collect()
    }

    #[test]
    fn preemptors_say_why_their_pods_have_no_node() {
        let never = || {
            let mut binding = preemptor(&[("m1", 3)], "m1: old");
            binding.spec.schedule_priority.as_mut().unwrap().preemption_policy = Some(PreemptionPolicy::Never);
            binding
        };
        let one = "m1: 1 pod has no node: 0/3 nodes are available: 3 Insufficient cpu.";
        let on_m1: &[(&str, &[(&str, &str)])] = &[("m1", &[("a", FULL)])];
        let four: &[(&str, &[(&str, &str)])] =
            &[("m4", &[("a", "d")]), ("m3", &[("a", "c")]), ("m2", &[("a", "b")]), ("m1", &[("b", "2"), ("a", "1 ")])];
        let wide = [("m2", 1), ("m1", 1), ("m3", 1), ("m4", 1)];
        let short = "m1: 2 pods have no node: 1; m2: 1 pod has no node: b; m3: 1 pod has no node: c";
        let all = format!("{short}; and 1 more");
        // Name, binding, pods, wanted message (empty: removed), number of events.
        let rows: &[(&str, ResourceBinding, &[(&str, &[(&str, &str)])], Option<&str>, usize)] = &[
            ("newly without node", preemptor(&[("m1", 3)], ""), on_m1, Some(one), 2),
            ("the same", preemptor(&[("m1", 3)], one), on_m1, None, 0),
            ("other words", preemptor(&[("m1", 3)], "m1: old"), on_m1, Some(one), 0),
            ("all have nodes", preemptor(&[("m1", 3)], one), &[], Some(""), 0),
            ("all have nodes, an empty list", preemptor(&[("m1", 3)], one), &[("m1", &[])], Some(""), 0),
            ("never without node", preemptor(&[("m1", 3)], ""), &[], None, 0),
            ("a cluster that is no target", preemptor(&[("m2", 3)], one), on_m1, Some(""), 0),
            ("not placed", preemptor(&[], ""), on_m1, None, 0),
            ("may not preempt any more", never(), on_m1, Some(""), 0),
            ("in order of names, three at most", preemptor(&wide, ""), four, Some(&all), 2),
            ("three", preemptor(&wide[..3], ""), four, Some(short), 2),
        ];
        for (name, binding, pods, want, events) in rows {
            let decision = decide(BindingRef::from(binding), Mode::Evict, &waiting(pods));
            let got = decision.status.as_ref().map(|part| part.conditions[0].message.as_str());
            assert_eq!((got, decision.events.len()), (*want, *events), "{name}");
            if let Some(part) = &decision.status {
                let (status, reason) = if *want == Some("") { ("", "") } else { (TRUE, UNSCHEDULABLE) };
                assert_eq!((&*part.conditions[0].status, &*part.conditions[0].reason), (status, reason), "{name}");
            }
            let about: Vec<_> = decision.events.iter().map(|event| (&*event.about.kind, &*event.message)).collect();
            let message = want.unwrap_or_default();
            let want = [("ResourceBinding", message), ("Deployment", message)];
            assert_eq!(about, want[..*events], "{name}");
            let stays = (*events > 0 || ["the same", "other words"].contains(name)).then_some(CHECKED_AGAIN);
            assert_eq!(decision.again, stays, "{name}");
        }
        let binding = preemptor(&[("m1", 3)], one);
        let off = decide(BindingRef::from(&binding), Mode::Off, &waiting(on_m1));
        assert!(off.status.is_some_and(|part| part.conditions[0].status.is_empty()), "the gate is off");
    }
}
