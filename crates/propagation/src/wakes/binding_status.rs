//! Wake rules of the binding status controller.

use std::time::Duration;

use ironclad_api::{
    cluster::Cluster,
    conditions,
    work::{ResourceBindingSpec, ResourceBindingStatus, Work, WorkStatus},
};

/// Returns true if a Work's contribution to the status of its binding may differ: its status, or its deletion.
#[must_use]
pub fn work(old: Option<&Work>, new: Option<&Work>) -> bool {
    fn contribution(work: &Work) -> (&Option<WorkStatus>, bool) {
        (&work.status, work.metadata.deletion_timestamp.is_some())
    }
    old.map(contribution) != new.map(contribution)
}

/// Returns how long changes of Works are collected before a binding to this many clusters is aggregated. Each of its
/// Works changes several times, and each aggregation reads all of them: without the wait the cost of a binding would
/// grow with the square of its clusters. It ends before the debounced write of the status (500 ms) is due.
#[must_use]
pub fn collect_for(clusters: usize) -> Duration {
    /// A binding to fewer clusters is aggregated at once.
    const NARROW: usize = 5;
    const FOR_EACH: Duration = Duration::from_millis(10);
    const AT_MOST: Duration = Duration::from_millis(400);
    let beyond = u32::try_from(clusters.saturating_sub(NARROW)).unwrap_or(u32::MAX);
    FOR_EACH.saturating_mul(beyond).min(AT_MOST)
}

/// Object whose status has to be aggregated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The binding: its spec changed, so the expected clusters may differ.
    Binding,
    /// The template: the status of its binding changed.
    Template,
}

/// Returns what a change of a binding's spec or status wakes; nothing if the binding was deleted.
#[must_use]
pub fn binding(
    old: Option<(&ResourceBindingSpec, Option<&ResourceBindingStatus>)>,
    new: Option<(&ResourceBindingSpec, Option<&ResourceBindingStatus>)>,
) -> Option<Wake> {
    let (spec, status) = new?;
    match old {
        Some((old_spec, _)) if old_spec != spec => Some(Wake::Binding),
        Some((_, old_status)) => (old_status != status).then_some(Wake::Template),
        None => Some(Wake::Binding),
    }
}

/// Urgency with which the bindings that have a copy in a cluster are aggregated again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Like a change of a user.
    Normal,
    /// After everything else: nobody waits for it, and there may be thousands.
    Low,
}

/// Returns whether bindings with copies in a cluster are aggregated again: a report counts only while its cluster is
/// ready (specification/propagation.md 31 row 6). The Works themselves do not change then.
#[must_use]
pub fn cluster(old: Option<&Cluster>, new: Option<&Cluster>) -> Option<Urgency> {
    let is_ready = |cluster: Option<&Cluster>| cluster.is_some_and(|c| c.ready() == Some(conditions::TRUE));
    new?;
    match (is_ready(old), is_ready(new)) {
        (false, true) => Some(Urgency::Normal),
        (true, false) => Some(Urgency::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit;

    #[test]
    fn status_and_deletion_of_a_work_wake_its_binding() {
        let work_of = |extra: Value| -> Work {
            let mut base = json!({"metadata": {"name": "w", "generation": 1}, "spec": {"workload": {}}});
            testkit::merge(&mut base, &extra);
            serde_json::from_value(base).unwrap()
        };
        let base = work_of(json!({}));
        let deleting = work_of(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        let reported = work_of(json!({"status": {"conditions": []}}));
        for (name, old, new, want) in [
            ("created", None, Some(&base), true),
            ("removed", Some(&base), None, true),
            ("spec", Some(&base), Some(&work_of(json!({"metadata": {"generation": 2}}))), false),
            ("status", Some(&base), Some(&reported), true),
            ("being deleted", Some(&base), Some(&deleting), true),
        ] {
            assert_eq!(work(old, new), want, "{name}");
        }
    }

    #[test]
    fn changes_of_works_are_collected_longer_for_wider_bindings() {
        for (clusters, milliseconds) in
            [(0, 0), (1, 0), (5, 0), (6, 10), (20, 150), (45, 400), (100, 400), (usize::MAX, 400)]
        {
            assert_eq!(collect_for(clusters), Duration::from_millis(milliseconds), "{clusters} clusters");
        }
    }

    #[test]
    fn spec_of_a_binding_wakes_the_binding_and_status_the_template() {
        let spec = testkit::binding(&[("m1", 1)]).spec;
        let moved = testkit::binding(&[("m2", 1)]).spec;
        let (empty, status) = (
            ResourceBindingStatus::default(),
            ResourceBindingStatus { scheduler_observed_generation: 1, ..ResourceBindingStatus::default() },
        );
        for (name, old, new, want) in [
            ("created", None, Some((&spec, None)), Some(Wake::Binding)),
            ("deleted", Some((&spec, None)), None, None),
            ("unchanged", Some((&spec, Some(&empty))), Some((&spec, Some(&empty))), None),
            ("other targets", Some((&spec, Some(&empty))), Some((&moved, Some(&status))), Some(Wake::Binding)),
            ("status", Some((&spec, Some(&empty))), Some((&spec, Some(&status))), Some(Wake::Template)),
            ("first status", Some((&spec, None)), Some((&spec, Some(&status))), Some(Wake::Template)),
        ] {
            assert_eq!(binding(old, new), want, "{name}");
        }
    }

    #[test]
    fn readiness_of_a_cluster_wakes_the_bindings_with_copies_there() {
        let (ready, unready) = (testkit::cluster("m1", "True"), testkit::cluster("m1", "False"));
        let unknown = testkit::cluster("m1", "Unknown");
        for (name, old, new, want) in [
            ("became ready", Some(&unready), Some(&ready), Some(Urgency::Normal)),
            ("joined ready", None, Some(&ready), Some(Urgency::Normal)),
            ("became unready", Some(&ready), Some(&unready), Some(Urgency::Low)),
            ("became unknown", Some(&ready), Some(&unknown), Some(Urgency::Low)),
            ("still unready", Some(&unready), Some(&unknown), None),
            ("still ready", Some(&ready), Some(&ready), None),
            ("joined unready", None, Some(&unready), None),
            ("removed", Some(&ready), None, None),
        ] {
            assert_eq!(cluster(old, new), want, "{name}");
        }
    }
}
