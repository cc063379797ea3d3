//! Which clusters a binding may use at all (specification/scheduling.md 5), and how much they are preferred (6).
//!
//! The filters of one cluster run in the order of section 5 until the first refusal, so the reason is always the same one.

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::{
    cluster::Cluster,
    eviction::{APPLICATION_FAILURE, BINDING_PREEMPTED, CLUSTER_DRAIN},
    policy::{ClusterAffinityTerm, Placement},
    taints::PREFER_NO_EXECUTE,
    work::ResourceBindingSpec,
};
use ironclad_fleet::{ClusterName, Clusters, affinity, because::schedule::Refusal};
use jiff::Timestamp;

use crate::{Plugins, Tick, plugins::Point};

/// The score of a cluster with a PreferNoExecute taint for workloads that are not there yet.
const AVOIDED: i64 = -1;

/// One binding's question to every cluster.
#[derive(Debug, Clone, Copy)]
pub struct Filter<'a> {
    /// The binding.
    pub spec: &'a ResourceBindingSpec,
    /// Its placement.
    pub placement: &'a Placement,
    /// The group of the ordered affinity groups that is being tried, if the placement has groups.
    pub group: Option<&'a ClusterAffinityTerm>,
    /// Which filters and scores run.
    pub plugins: Plugins,
    /// By when tolerations of some seconds are measured.
    pub now: Timestamp,
}

impl Filter<'_> {
    /// Checks whether the cluster may be used. Returns the tier of the affinity group that selects it
    /// (specification/scheduling.md 4.3).
    ///
    /// # Errors
    /// The reason of the first filter that rejects it.
    pub fn test(&self, cluster: &Cluster, standing: Standing) -> Result<u32, Refusal> {
        self.test_observed(cluster, standing, &mut |_| {})
    }

    /// [`Filter::test`] that reports each plugin that ran.
    pub(crate) fn test_observed(
        &self,
        cluster: &Cluster,
        standing: Standing,
        tick: &mut dyn FnMut(Tick),
    ) -> Result<u32, Refusal> {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let bars_return = |reason: &str| [APPLICATION_FAILURE, CLUSTER_DRAIN, BINDING_PREEMPTED].contains(&reason);
        if self.spec.eviction(name).is_some_and(|task| bars_return(&task.reason)) {
            return Err(Refusal::BeingEvicted);
        }
        for plugin in self.plugins.enabled() {
            let Point::Filter(filter) = plugin.point else { continue };
            let answer = filter(self, cluster, standing);
            tick(Tick::Plugin { plugin, passed: answer.is_ok() });
            answer?;
        }
        let has_overflow = self.group.is_some_and(|group| !group.overflow_affinities.is_empty());
        Ok(if has_overflow { self.tier(cluster).unwrap_or(0) } else { 0 })
    }

    /// The clusters that the affinity names and that are not among these: a slip of the pen, most likely.
    pub fn missing(&self, clusters: &Clusters) -> Vec<ClusterName> {
        let own = self.placement.cluster_affinity.as_ref();
        let group = self.group.filter(|_| own.is_none());
        let tiers = group.into_iter().flat_map(|group| group.overflow_affinities.iter().map(|tier| &tier.affinity));
        let affinities = own.into_iter().chain(group.map(|group| &group.affinity)).chain(tiers);
        let named = affinities.flat_map(|a| a.cluster_names.iter().filter(|name| !a.exclude.contains(name)));
        let missing: BTreeSet<ClusterName> =
            named.map(|name| name.as_str().into()).filter(|name| !clusters.contains_key(name)).collect();
        missing.into_iter().collect()
    }

    /// The tier of the affinity that chooses the cluster, 0 being the affinity itself (4.3).
    pub(crate) fn tier(&self, cluster: &Cluster) -> Option<u32> {
        if let Some(own) = &self.placement.cluster_affinity {
            return affinity::chooses(own, cluster).then_some(0);
        }
        let Some(group) = self.group else { return Some(0) };
        if affinity::chooses(&group.affinity, cluster) {
            return Some(0);
        }
        if !self.spec.is_workload() {
            return None;
        }
        let overflow = group.overflow_affinities.iter().position(|tier| affinity::chooses(&tier.affinity, cluster))?;
        u32::try_from(overflow + 1).ok()
    }

    /// The score of a cluster that passed the filters (specification/scheduling.md 6); higher is better.
    #[must_use]
    pub fn score(&self, cluster: &Cluster, standing: Standing) -> i64 {
        self.score_observed(cluster, standing, &mut |_| {})
    }

    /// [`Filter::score`] that reports each plugin that ran.
    pub(crate) fn score_observed(&self, cluster: &Cluster, standing: Standing, tick: &mut dyn FnMut(Tick)) -> i64 {
        let avoided = || cluster.spec.taints.iter().any(|taint| taint.effect == PREFER_NO_EXECUTE);
        let mut sum = if standing == Standing::New && avoided() { AVOIDED } else { 0 };
        for plugin in self.plugins.enabled() {
            let Point::Score(score) = plugin.point else { continue };
            sum += score(self, cluster, standing);
            tick(Tick::Plugin { plugin, passed: true });
        }
        sum
    }
}

/// True if a cluster is in the present result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is, even with 0 replicas.
    Target,
    /// It is not.
    New,
}

/// The refusals of a pass that no cluster passed (5.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FitError {
    /// Clusters in the snapshot, those that are being deleted included.
    pub clusters: usize,
    /// How many clusters gave which reason; those that are being deleted give none.
    pub refusals: BTreeMap<Refusal, usize>,
    /// Clusters that the affinity names and that do not exist.
    pub missing: Vec<ClusterName>,
}

/// Missing clusters that a text lists by name.
const MISSING_LISTED_MAX: usize = 5;

impl std::fmt::Display for FitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut details: Vec<String> =
            self.refusals.iter().map(|(refusal, count)| format!("{count} {refusal}")).collect();
        details.sort();
        let details = if details.is_empty() { "no cluster exists".to_owned() } else { details.join(", ") };
        write!(f, "0/{} clusters are available: {details}.", self.clusters)?;
        let listed: Vec<&str> = self.missing.iter().take(MISSING_LISTED_MAX).map(|name| &*name.0).collect();
        match (self.missing.len(), self.missing.len() - listed.len()) {
            (0, _) => Ok(()),
            (1, _) => write!(f, " cluster {} named by the placement does not exist", listed[0]),
            (_, 0) => write!(f, " clusters {} named by the placement do not exist", listed.join(", ")),
            (_, more) => {
                write!(f, " clusters {} and {more} more named by the placement do not exist", listed.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ironclad_api::taints::{NO_EXECUTE, NO_SCHEDULE};

    use super::*;
    use crate::testkit::{affinity, binding, cluster, failover, group, spread, taint, task, toleration};
    use ironclad_api::policy::SpreadByField;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Fit {
        tier: u32,
        score: i64,
    }

    fn fit(filter: &Filter<'_>, cluster: &Cluster, standing: Standing) -> Result<Fit, Refusal> {
        Ok(Fit { tier: filter.test(cluster, standing)?, score: filter.score(cluster, standing) })
    }

    #[test]
    fn taints_tolerations_and_standing() {
        let k = |effect| vec![taint("k", "", effect)];
        let tolerated = vec![toleration("k", "Exists", NO_EXECUTE)];
        let refused = |effect: &str| Err(Refusal::Taint { taint: format!("k:{effect}") });
        let ok = |score| Ok(Fit { tier: 0, score });
        for (name, taints, tolerations, opted_in, standing, want) in [
            ("NoSchedule keeps new ones away", k(NO_SCHEDULE), vec![], false, Standing::New, refused(NO_SCHEDULE)),
            ("NoSchedule leaves targets alone", k(NO_SCHEDULE), vec![], false, Standing::Target, ok(100)),
            ("NoExecute leaves targets to the taint manager", k(NO_EXECUTE), vec![], false, Standing::Target, ok(100)),
            ("NoExecute tolerated for a while", k(NO_EXECUTE), tolerated.clone(), false, Standing::New, ok(0)),
            ("PreferNoExecute steers away", k(PREFER_NO_EXECUTE), vec![], false, Standing::New, ok(-1)),
            (
                "PreferNoExecute refuses who opted in",
                k(PREFER_NO_EXECUTE),
                tolerated,
                true,
                Standing::New,
                refused(PREFER_NO_EXECUTE),
            ),
            ("PreferNoExecute leaves targets alone", k(PREFER_NO_EXECUTE), vec![], true, Standing::Target, ok(100)),
        ] {
            let mut binding = binding("web", 1, &[]);
            binding.spec.failover = opted_in.then(failover);
            let placement = Placement { cluster_tolerations: tolerations, ..Placement::default() };
            let mut cluster = cluster("m1");
            cluster.spec.taints = taints;
            let filter = Filter {
                spec: &binding.spec,
                placement: &placement,
                group: None,
                plugins: Plugins::default(),
                now: Timestamp::MIN,
            };
            assert_eq!(fit(&filter, &cluster, standing), want, "{name}");
        }
    }

    #[test]
    fn evictions_refuse_only_where_nothing_else_does() {
        for (reason, want) in [
            (APPLICATION_FAILURE, Err(Refusal::BeingEvicted)),
            (CLUSTER_DRAIN, Err(Refusal::BeingEvicted)),
            (BINDING_PREEMPTED, Err(Refusal::BeingEvicted)),
            ("TaintUntolerated", Ok(Fit { tier: 0, score: 0 })),
            ("TaintPreferNoExecute", Ok(Fit { tier: 0, score: 0 })),
            ("SomethingElse", Ok(Fit { tier: 0, score: 0 })),
        ] {
            let mut binding = binding("web", 1, &[]);
            binding.spec.graceful_eviction_tasks = vec![task("m1", reason, None)];
            let filter = Filter {
                spec: &binding.spec,
                placement: &Placement::default(),
                group: None,
                plugins: Plugins::default(),
                now: Timestamp::MIN,
            };
            assert_eq!(fit(&filter, &cluster("m1"), Standing::New), want, "{reason}");
        }
    }

    #[test]
    fn affinity_spares_nobody_and_api_spares_targets() {
        let binding = binding("web", 1, &[]);
        let placement = Placement { cluster_affinity: Some(affinity(&["m2"])), ..Placement::default() };
        let filter = Filter {
            spec: &binding.spec,
            placement: &placement,
            group: None,
            plugins: Plugins::default(),
            now: Timestamp::MIN,
        };
        assert_eq!(fit(&filter, &cluster("m1"), Standing::Target), Err(Refusal::Affinity));
        let mut bare = cluster("m2");
        bare.status = None;
        assert_eq!(fit(&filter, &bare, Standing::New), Err(Refusal::ApiNotEnabled), "unknown is not enabled");
        assert_eq!(fit(&filter, &bare, Standing::Target), Ok(Fit { tier: 0, score: 100 }));
    }

    #[test]
    fn overflow_tiers_open_for_workloads_only() {
        let mut group = group("main", &["m1"]);
        group.overflow_affinities =
            vec![crate::testkit::overflow("a", &["m2"]), crate::testkit::overflow("b", &["m2", "m3"])];
        let placement = Placement { cluster_affinities: vec![group.clone()], ..Placement::default() };
        let tiers = |replicas| {
            let binding = binding("web", replicas, &[]);
            let filter = Filter {
                spec: &binding.spec,
                placement: &placement,
                group: Some(&group),
                plugins: Plugins::default(),
                now: Timestamp::MIN,
            };
            ["m1", "m2", "m3", "m4"].map(|name| fit(&filter, &cluster(name), Standing::New).ok().map(|fit| fit.tier))
        };
        assert_eq!(tiers(1), [Some(0), Some(1), Some(2), None]);
        assert_eq!(tiers(0), [Some(0), None, None, None], "configuration does not overflow");
    }

    #[test]
    fn spread_fields_must_be_there() {
        let binding = binding("web", 1, &[]);
        for (field, want) in [
            (SpreadByField::Provider, Refusal::NoProvider),
            (SpreadByField::Region, Refusal::NoRegion),
            (SpreadByField::Zone, Refusal::NoZones),
        ] {
            let placement = Placement { spread_constraints: vec![spread(field, 1, 1)], ..Placement::default() };
            let filter = Filter {
                spec: &binding.spec,
                placement: &placement,
                group: None,
                plugins: Plugins::default(),
                now: Timestamp::MIN,
            };
            assert_eq!(fit(&filter, &cluster("m1"), Standing::Target), Err(want), "{field:?}, also for targets");
            let mut placed = cluster("m1");
            placed.spec.provider = "p".into();
            placed.spec.region = "r".into();
            placed.spec.zones = vec!["z".into()];
            assert!(fit(&filter, &placed, Standing::New).is_ok(), "{field:?}");
        }
    }

    #[test]
    fn fit_error_text() {
        let taint = Refusal::Taint { taint: "cluster.karmada.io/not-ready:NoSchedule".into() };
        let error =
            FitError { clusters: 3, refusals: [(Refusal::ApiNotEnabled, 2), (taint, 1)].into(), missing: Vec::new() };
        assert_eq!(
            error.to_string(),
            "0/3 clusters are available: 1 cluster(s) had untolerated taint \
             {cluster.karmada.io/not-ready:NoSchedule}, 2 cluster(s) did not have the API resource."
        );
        assert_eq!(FitError::default().to_string(), "0/0 clusters are available: no cluster exists.");
        assert_eq!(
            FitError { clusters: 2, ..FitError::default() }.to_string(),
            "0/2 clusters are available: no cluster exists."
        );
    }
}
