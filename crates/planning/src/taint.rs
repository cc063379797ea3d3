//! Preview of taints: the bindings that they evict from a cluster, and when (specification/failover.md 9.1).

use ironclad_api::Taint;
use ironclad_failover::{
    flags::eviction::EvictionFlags,
    taint_manager::verdict::{FailoverSettings, Verdict, judge},
};
use ironclad_fleet::Binding;
use jiff::Timestamp;

use ironclad_fleet::count::count;

/// Number of bindings that taints evict from one cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Impact {
    /// Bindings that are evicted immediately.
    pub at_once: usize,
    /// Bindings that are evicted later.
    pub later: usize,
    /// Time of the last eviction.
    pub last: Option<Timestamp>,
    /// Bindings that are not evicted.
    pub stay: usize,
}

impl Impact {
    /// Number of evicted bindings.
    #[must_use]
    pub fn evicted(&self) -> usize {
        self.at_once + self.later
    }

    /// Counts a binding by the decision of the taint manager, with the defaults of its flags. Whether another cluster
    /// takes the binding is not decided here: `ironclad plan taint` does.
    pub fn count(&mut self, cluster: &str, binding: &Binding, taints: &[Taint], now: Timestamp) {
        if binding.spec().target(cluster).is_none() {
            return;
        }
        let verdict =
            FailoverSettings::of(binding).map(|settings| judge(&settings, taints, |_| now, &EvictionFlags::default()));
        match verdict {
            Ok(Verdict::Goes { causes, .. }) if causes.due() <= now => self.at_once += 1,
            Ok(Verdict::Goes { causes, .. }) => {
                self.later += 1;
                self.last = self.last.max(Some(causes.due()));
            }
            // What can't be read is not evicted (IR-9).
            Ok(Verdict::Stays(_)) | Err(_) => self.stay += 1,
        }
    }
}

impl std::fmt::Display for Impact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { at_once, later, last, stay } = self;
        write!(f, "{} would be evicted at once, {later} later", count(*at_once, "binding"))?;
        if let Some(last) = last {
            write!(f, " (the last at {last})")?;
        }
        write!(f, ", {stay} would stay")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ironclad_api::{
        Toleration,
        policy::{ClusterFailoverBehavior, FailoverBehavior, Placement},
        taints::{NO_EXECUTE, PREFER_NO_EXECUTE},
        work::{ResourceBinding, ResourceBindingSpec, TargetCluster},
    };

    use super::*;

    #[test]
    fn what_is_evicted_and_when() {
        let now = Timestamp::from_second(1_000).unwrap();
        let binding = |tolerates: Option<i64>, opted_in: bool, on: &str| {
            let toleration = Toleration {
                operator: Some("Exists".into()),
                toleration_seconds: tolerates.filter(|seconds| *seconds >= 0),
                ..Toleration::default()
            };
            let failover = FailoverBehavior { cluster: Some(ClusterFailoverBehavior::default()), ..Default::default() };
            let spec = ResourceBindingSpec {
                clusters: vec![TargetCluster { name: on.into(), replicas: 1, components: Vec::new() }],
                placement: Some(Placement {
                    cluster_tolerations: tolerates.map(|_| toleration).into_iter().collect(),
                    ..Placement::default()
                }),
                failover: opted_in.then_some(failover),
                ..ResourceBindingSpec::default()
            };
            Binding::from(Arc::new(ResourceBinding::new("b", spec)))
        };
        let all = [
            binding(None, false, "m1"),
            binding(Some(60), false, "m1"),
            binding(Some(-1), false, "m1"),
            binding(None, true, "m1"),
            binding(None, false, "m2"),
        ];
        let count = |effect: &str| {
            let taints = [Taint { key: "k".into(), effect: effect.into(), ..Taint::default() }];
            let mut impact = Impact::default();
            all.iter().for_each(|binding| impact.count("m1", binding, &taints, now));
            impact
        };
        for (effect, want) in [
            (
                NO_EXECUTE,
                "2 bindings would be evicted at once, 1 later (the last at 1970-01-01T00:17:40Z), 1 would stay",
            ),
            (
                PREFER_NO_EXECUTE,
                "0 bindings would be evicted at once, 1 later (the last at 1970-01-01T00:21:40Z), 3 would stay",
            ),
            ("NoSchedule", "0 bindings would be evicted at once, 0 later, 4 would stay"),
        ] {
            assert_eq!(count(effect).to_string(), want, "{effect}");
        }
        assert_eq!(count(NO_EXECUTE).evicted(), 3);
    }
}
