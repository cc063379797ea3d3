//! Bounds of every result: groups, and what the estimators say.

use std::collections::BTreeSet;

use ironclad_api::policy::ReplicaSchedulingType;
use proptest::prelude::*;

use super::*;
use crate::{spread::Topology, testkit::decide_both};

proptest! {
    /// No result exceeds a maximum of groups, except of clusters where each group needs one; a duplicated one reaches
    /// every minimum. Division by capacity gives no cluster more than the estimate and what it had.
    #[test]
    fn results_keep_groups_and_estimates(
        rows in prop::collection::vec((0_usize..3, 0_usize..4, prop::option::of(0_i64..9)), 1..9),
        bounds in prop::collection::btree_map(0_usize..3, (1_i64..4, 0_i64..3), 1..3),
        strategy in 0_usize..3, replicas in 1_i32..25, previous in prop::collection::btree_map(0_usize..9, 1_i32..5, 0..3),
    ) {
        let fields = [SpreadByField::Cluster, SpreadByField::Region, SpreadByField::Zone];
        let names: Vec<String> = (0..rows.len()).map(|at| format!("m{at}")).collect();
        let mut fleet = Clusters::new();
        let mut available = Available::new();
        for (name, (region, zone, estimate)) in names.iter().zip(&rows) {
            let mut cluster = cluster(name);
            cluster.spec.region = format!("r{region}");
            cluster.spec.zones = vec![format!("z{zone}")];
            fleet.insert(name.as_str().into(), cluster.into());
            if let Some(estimate) = estimate {
                available.limit(&name.as_str().into(), *estimate);
            }
        }
        let constraint = |(field, (min, more)): (&usize, &(i64, i64))| spread(fields[*field], *min, min + more);
        let mut placement = [duplicated(), dynamic(), aggregated()][strategy].clone();
        placement.spread_constraints = bounds.iter().map(constraint).collect();
        let mut binding = placed(placement.clone(), replicas);
        let before: Vec<_> = previous.iter().filter(|(at, _)| **at < names.len()).map(|(at, n)| (names[*at].as_str(), *n)).collect();
        binding.spec.clusters = targets(&before);
        let capacity = Capacity::default();
        let options = Options::default();
        let decision = decide_both(
            &Seen {
                binding: (&binding).into(), clusters: &fleet, available: &available, capacity: &capacity, options: &options,
                since: Since::default(), preempting: None, peers: None, index: None,
            },
            1,
        );
        if decision.failure.is_some() {
            return Ok(());
        }
        let after = applied(&binding, &decision);
        let divided = placement.replica_scheduling_type() == ReplicaSchedulingType::Divided;
        let required = placement.spread_constraints.iter().filter(|c| Topology::of(c).is_some()).map(|c| c.min_groups).max();
        for constraint in &placement.spread_constraints {
            let of = |target: &ironclad_api::work::TargetCluster| match Topology::of(constraint) {
                Some(topology) => {
                    let cluster = &fleet[&target.name.as_str().into()];
                    topology.groups(cluster).iter().map(str::to_owned).collect()
                }
                None => vec![target.name.clone()],
            };
            let groups = after.spec.clusters.iter().flat_map(of).collect::<BTreeSet<_>>().len() as i64;
            let yields = constraint.spread_by_field == Some(SpreadByField::Cluster);
            let max = if yields { constraint.max_groups.max(required.unwrap_or(0)) } else { constraint.max_groups };
            prop_assert!(groups <= max, "{constraint:?}: {:?}", after.spec.clusters);
            // A divided workload may have fewer replicas than selected clusters.
            prop_assert!(divided || groups >= constraint.min_groups, "{constraint:?}: {:?}", after.spec.clusters);
        }
        for target in after.spec.clusters.iter().filter(|_| divided) {
            let had = before.iter().find(|(name, _)| *name == target.name).map_or(0, |(_, n)| i64::from(*n));
            if let Some(estimate) = available.get(&target.name.as_str().into()) {
                prop_assert!(i64::from(target.replicas) <= estimate + had, "{target:?} of {estimate} and {had}");
            }
        }
    }
}
