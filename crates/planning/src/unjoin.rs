//! Preview of an unjoin: the Works and bindings that lose the cluster, and what blocks its removal
//! (specification/operations.md 2.4).

use ironclad_api::{
    cluster::Cluster,
    conditions::{self, TRUE},
    work::ResourceBindingSpec,
};
use ironclad_failover::cluster::lifecycle::REMOVAL_BLOCKED;

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
}

impl Impact {
    /// True if bindings target the cluster.
    #[must_use]
    pub fn is_targeted(&self) -> bool {
        self.losing + self.left_empty > 0
    }

    /// Counts a binding.
    pub fn count(&mut self, spec: &ResourceBindingSpec, cluster: &str) {
        if spec.target(cluster).is_some() {
            if spec.clusters.len() > 1 { self.losing += 1 } else { self.left_empty += 1 }
        }
    }
}

impl std::fmt::Display for Impact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { works, losing, left_empty } = self;
        let (works, losing) = (count(*works, "work"), count(*losing, "binding"));
        write!(f, "{works}, {losing} would lose a replica, {left_empty} would have no cluster left")
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
    use ironclad_api::work::TargetCluster;

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
            impact.count(&spec(names), "m1");
        }
        assert_eq!(impact.to_string(), "4 works, 1 binding would lose a replica, 1 would have no cluster left");
        assert!(impact.is_targeted() && !Impact { works: 1, ..Impact::default() }.is_targeted());
    }
}
