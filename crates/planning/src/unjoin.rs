//! Preview of an unjoin: the Works and bindings that lose the cluster, and what blocks its removal
//! (specification/operations.md 2.4).

use ironclad_api::{
    cluster::Cluster,
    conditions::{self, TRUE},
    policy::PurgeMode,
    work::{ResourceBindingSpec, ResourceBindingStatus},
};
use ironclad_failover::{cluster::lifecycle::REMOVAL_BLOCKED, drain::has_finished};

use ironclad_fleet::count::count;

/// Objects that lose a cluster when it is removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Impact {
    /// Number of Works in its execution space.
    pub works: usize,
    /// Number of bindings that target it among other clusters.
    pub losing: usize,
    /// Number of bindings that target it alone.
    pub left_empty: usize,
    /// Number of old copies in it that eviction tasks keep until their replacements are healthy.
    pub old_copies: usize,
}

impl Impact {
    /// True if workloads lose a copy: bindings target the cluster, or an old copy in it waits for its replacement.
    #[must_use]
    pub fn is_targeted(&self) -> bool {
        self.losing + self.left_empty + self.old_copies > 0
    }

    /// Names what loses a copy.
    #[must_use]
    pub fn held_by(&self) -> String {
        let targeting = match self.losing + self.left_empty {
            0 => None,
            1 => Some("1 binding still targets it".to_owned()),
            several => Some(format!("{several} bindings still target it")),
        };
        let waiting = match self.old_copies {
            0 => None,
            1 => Some("1 old copy in it waits for its replacement".to_owned()),
            several => Some(format!("{several} old copies in it wait for their replacements")),
        };
        targeting.into_iter().chain(waiting).collect::<Vec<_>>().join(", and ")
    }

    /// Counts a binding, unless what it ran there has ended.
    pub fn count(&mut self, spec: &ResourceBindingSpec, status: Option<&ResourceBindingStatus>, cluster: &str) {
        if has_finished(spec, status, cluster) {
            return;
        }
        if spec.target(cluster).is_some() {
            if spec.clusters.len() > 1 { self.losing += 1 } else { self.left_empty += 1 }
        } else if spec.eviction(cluster).is_some_and(|task| task.purge_mode != Some(PurgeMode::Directly)) {
            self.old_copies += 1;
        }
    }
}

impl std::fmt::Display for Impact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { works, losing, left_empty, old_copies } = self;
        let (works, losing) = (count(*works, "work"), count(*losing, "binding"));
        write!(f, "{works}, {losing} would lose a replica, {left_empty} would have no cluster left")?;
        if *old_copies > 0 {
            write!(f, ", {} would go before the replacement is healthy", count(*old_copies, "old copy"))?;
        }
        Ok(())
    }
}

/// Message of condition RemovalBlocked of a cluster that is being deleted.
#[must_use]
pub fn blocked(cluster: &Cluster) -> Option<&str> {
    let conditions = &cluster.status.as_ref()?.conditions;
    let condition = conditions::get(conditions, REMOVAL_BLOCKED).filter(|condition| condition.status == TRUE)?;
    Some(&condition.message)
}

#[cfg(test)]
mod tests {
    use ironclad_api::work::{GracefulEvictionTask, TargetCluster};

    use super::*;

    #[test]
    fn impact_counts_those_that_target_it() {
        let spec = |names: &[&str]| ResourceBindingSpec {
            clusters: names
                .iter()
                .map(|n| TargetCluster { name: (*n).to_owned(), ..TargetCluster::default() })
                .collect(),
            ..ResourceBindingSpec::default()
        };
        let mut impact = Impact { works: 4, ..Impact::default() };
        for names in [&["m1"][..], &["m1", "m2"], &["m2"], &[]] {
            impact.count(&spec(names), None, "m1");
        }
        let job = ResourceBindingSpec {
            resource: ironclad_api::work::ObjectReference {
                api_version: "batch/v1".into(),
                kind: "Job".into(),
                ..Default::default()
            },
            ..spec(&["m1"])
        };
        let done = serde_json::json!({"aggregatedStatus": [{"clusterName": "m1",
            "status": {"conditions": [{"type": "Complete", "status": "True"}]}}]});
        impact.count(&job, Some(&serde_json::from_value(done).unwrap()), "m1");
        assert_eq!(impact.to_string(), "4 works, 1 binding would lose a replica, 1 would have no cluster left");
        assert!(impact.is_targeted() && !Impact { works: 1, ..Impact::default() }.is_targeted());
        assert_eq!(impact.held_by(), "2 bindings still target it");
    }

    #[test]
    fn old_copies_that_wait_for_their_replacement_count() {
        for (mode, result, want) in [
            (Some(PurgeMode::Gracefully), &["m2"][..], 1),
            (None, &[], 1),
            (Some(PurgeMode::Never), &["m2"], 1),
            (Some(PurgeMode::Directly), &["m2"], 0),
        ] {
            let task = GracefulEvictionTask { from_cluster: "m1".into(), purge_mode: mode, ..Default::default() };
            let target = |name: &&str| TargetCluster { name: (*name).to_owned(), ..TargetCluster::default() };
            let spec = ResourceBindingSpec {
                clusters: result.iter().map(target).collect(),
                graceful_eviction_tasks: vec![task],
                ..ResourceBindingSpec::default()
            };
            let (mut here, mut elsewhere) = (Impact::default(), Impact::default());
            here.count(&spec, None, "m1");
            elsewhere.count(&spec, None, "m3");
            assert_eq!((here.old_copies, here.is_targeted()), (want, want > 0), "{mode:?}");
            assert_eq!(elsewhere, Impact::default(), "{mode:?}");
        }
        let both = Impact { losing: 1, old_copies: 2, ..Impact::default() };
        assert_eq!(both.held_by(), "1 binding still targets it, and 2 old copies in it wait for their replacements");
        assert_eq!(
            Impact { works: 1, old_copies: 1, ..Impact::default() }.to_string(),
            "1 work, 0 bindings would lose a replica, 0 would have no cluster left, 1 old copy would go before the \
             replacement is healthy"
        );
    }
}
