//! Filters and scores of a binding's clusters (specification/scheduling.md 5, 6).
//!
//! The filters of a cluster run in the order of specification/scheduling.md 5 until the first rejection, so that the
//! reason is always the same.

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::{
    annotations::DRAINING,
    cluster::Cluster,
    eviction::{APPLICATION_FAILURE, BINDING_PREEMPTED, CLUSTER_DRAIN, TAINT_UNTOLERATED},
    policy::{ClusterAffinityTerm, Placement},
    taints::PREFER_NO_EXECUTE,
    work::{FailoverRecord, ResourceBindingSpec},
};
use ironclad_fleet::{ClusterName, Clusters, because::schedule::Refusal};
use jiff::Timestamp;

use smallvec::SmallVec;

use crate::{
    CycleEvent, Plugins,
    index::{Index, Numbers},
    plugin::{Plugin, Point, Question, Rest, TargetState},
    plugins,
};

/// Score of a cluster with a PreferNoExecute taint for workloads that do not run there yet.
const AVOIDED: i64 = -1;

/// Input of the filters and scores of one binding.
#[derive(Debug, Clone, Copy)]
pub struct Filter<'a> {
    /// Spec of the binding.
    pub spec: &'a ResourceBindingSpec,
    /// Placement of the binding.
    pub placement: &'a Placement,
    /// Affinity group that is tried, if the placement has groups.
    pub group: Option<&'a ClusterAffinityTerm>,
    /// Enabled filters and scores.
    pub plugins: Plugins,
    /// Last migrations of the binding, from its status.
    pub history: &'a [FailoverRecord],
    /// Time at which `tolerationSeconds` are evaluated.
    pub now: Timestamp,
}

impl Filter<'_> {
    /// The input of the plugins about a cluster.
    fn question(&self, cluster: &Cluster) -> Question<'_> {
        Question { evicted: self.evicted_from(cluster), ..self.question_of_all() }
    }

    /// The same without what is particular to a cluster.
    fn question_of_all(&self) -> Question<'_> {
        Question { spec: self.spec, placement: self.placement, group: self.group, now: self.now, evicted: None }
    }

    /// Time of the last eviction from the cluster by a NoExecute taint, which the status may not show yet.
    fn evicted_from(&self, cluster: &Cluster) -> Option<Timestamp> {
        if self.history.is_empty() && self.spec.graceful_eviction_tasks.is_empty() {
            return None;
        }
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let task = self.spec.eviction(name).filter(|task| task.reason == TAINT_UNTOLERATED);
        let task = task.map(|task| task.creation_timestamp.as_ref().map_or(self.now, |created| created.0));
        let evictions = self.history.iter().filter(|record| record.from == name && record.reason == TAINT_UNTOLERATED);
        evictions.filter_map(|record| Some(record.evicted_at.as_ref()?.0)).chain(task).max()
    }

    /// Clusters that may pass as new ones, with the plugins that still have to test them.
    pub(crate) fn narrowed(&self, index: &Index, on_event: &mut dyn FnMut(CycleEvent)) -> Narrowed {
        let (mut numbers, mut left) = (index.staying(), SmallVec::new());
        on_event(CycleEvent::Cluster);
        for plugin in self.plugins.enabled() {
            let Point::Filter { narrow, .. } = plugin.point else { continue };
            let rest = narrow(&self.question_of_all(), index, &mut numbers);
            on_event(CycleEvent::Plugin { plugin, passed: !numbers.is_empty() });
            if rest == Rest::IsTested {
                left.push(plugin);
            }
        }
        Narrowed { numbers, left }
    }

    /// Checks whether the cluster may be used. Returns the tier of the affinity group that selects it
    /// (specification/scheduling.md 4.3).
    ///
    /// # Errors
    /// The reason of the first filter that rejects it.
    pub fn test(&self, cluster: &Cluster, state: TargetState) -> Result<u32, Refusal> {
        self.test_observed(cluster, state, &mut |_| {})
    }

    /// [`Filter::test`] that reports each plugin that ran.
    pub(crate) fn test_observed(
        &self,
        cluster: &Cluster,
        state: TargetState,
        on_event: &mut dyn FnMut(CycleEvent),
    ) -> Result<u32, Refusal> {
        self.test_by(self.plugins.enabled(), cluster, state, on_event)
    }

    /// The same by these plugins only.
    pub(crate) fn test_by(
        &self,
        plugins: impl Iterator<Item = &'static Plugin>,
        cluster: &Cluster,
        state: TargetState,
        on_event: &mut dyn FnMut(CycleEvent),
    ) -> Result<u32, Refusal> {
        let bars_return = |reason: &str| match reason {
            APPLICATION_FAILURE | BINDING_PREEMPTED => true,
            // The task may outlive the drain, or even the Cluster, by far: while no other cluster fits.
            CLUSTER_DRAIN => cluster.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(DRAINING)),
            _ => false,
        };
        let name = || cluster.metadata.name.as_deref().unwrap_or_default();
        let is_evicted = !self.spec.graceful_eviction_tasks.is_empty();
        if is_evicted && self.spec.eviction(name()).is_some_and(|task| bars_return(&task.reason)) {
            return Err(Refusal::BeingEvicted);
        }
        for plugin in plugins {
            let Point::Filter { test, .. } = plugin.point else { continue };
            let answer = test(&self.question(cluster), cluster, state);
            on_event(CycleEvent::Plugin { plugin, passed: answer.is_ok() });
            answer?;
        }
        let has_overflow = self.group.is_some_and(|group| !group.overflow_affinities.is_empty());
        Ok(if has_overflow { self.question(cluster).tier(cluster).unwrap_or(0) } else { 0 })
    }

    /// Clusters that the affinity names but that do not exist, most likely by a typing error.
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

    /// Score of a cluster that passed the filters (specification/scheduling.md 6); higher is better.
    #[must_use]
    pub fn score(&self, cluster: &Cluster, state: TargetState) -> i64 {
        self.score_observed(cluster, state, true, &mut |_| {})
    }

    /// [`Filter::score`] that reports each plugin that ran. `is_tainted` is false if the cluster is known to have no
    /// taints.
    pub(crate) fn score_observed(
        &self,
        cluster: &Cluster,
        state: TargetState,
        is_tainted: bool,
        on_event: &mut dyn FnMut(CycleEvent),
    ) -> i64 {
        let avoided = || cluster.spec.taints.iter().any(|taint| taint.effect == PREFER_NO_EXECUTE);
        let mut sum = if is_tainted && state == TargetState::New && avoided() { AVOIDED } else { 0 };
        for plugin in self.plugins.enabled() {
            let Point::Score(score) = plugin.point else { continue };
            sum += score(&self.question(cluster), cluster, state);
            on_event(CycleEvent::Plugin { plugin, passed: true });
        }
        sum
    }
}

/// Clusters that the index does not rule out.
pub(crate) struct Narrowed {
    pub(crate) numbers: Numbers,
    /// Filters that still have to test them.
    pub(crate) left: SmallVec<[&'static Plugin; plugins::ALL.len()]>,
}

/// Rejections of a cycle in which no cluster passed the filters (specification/scheduling.md 5.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FitError {
    /// Number of clusters in the snapshot, including those that are being deleted.
    pub clusters: usize,
    /// Number of clusters by reason; clusters that are being deleted are not counted.
    pub refusals: BTreeMap<Refusal, usize>,
    /// Clusters that the affinity names but that do not exist.
    pub missing: Vec<ClusterName>,
}

/// Largest number of missing clusters that a text lists.
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
    use ironclad_api::{
        Taint, Time, Toleration,
        eviction::TAINT_PREFER_NO_EXECUTE,
        taints::{NO_EXECUTE, NO_SCHEDULE},
    };

    use super::*;
    use crate::testkit::{affinity, at, binding, cluster, failover, group, spread, taint, task, toleration};
    use ironclad_api::{
        policy::{SpreadByField, SpreadConstraint},
        work::{GracefulEvictionTask, ResourceBinding},
    };

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Fit {
        tier: u32,
        score: i64,
    }

    fn filter_of<'a>(binding: &'a ResourceBinding, placement: &'a Placement) -> Filter<'a> {
        Filter {
            spec: &binding.spec,
            placement,
            group: None,
            plugins: Plugins::default(),
            history: &[],
            now: Timestamp::MIN,
        }
    }

    fn fit(filter: &Filter<'_>, cluster: &Cluster, state: TargetState) -> Result<Fit, Refusal> {
        Ok(Fit { tier: filter.test(cluster, state)?, score: filter.score(cluster, state) })
    }

    #[test]
    fn taints_and_tolerations_of_targets_and_others() {
        let k = |effect| vec![taint("k", "", effect)];
        let tolerated = vec![toleration("k", "Exists", NO_EXECUTE)];
        let refused = |effect: &str| Err(Refusal::Taint { taint: format!("k:{effect}") });
        let ok = |score| Ok(Fit { tier: 0, score });
        for (name, taints, tolerations, opted_in, state, want) in [
            ("NoSchedule keeps new ones away", k(NO_SCHEDULE), vec![], false, TargetState::New, refused(NO_SCHEDULE)),
            ("NoSchedule leaves targets alone", k(NO_SCHEDULE), vec![], false, TargetState::Target, ok(100)),
            (
                "NoExecute leaves targets to the taint manager",
                k(NO_EXECUTE),
                vec![],
                false,
                TargetState::Target,
                ok(100),
            ),
            ("NoExecute tolerated for a while", k(NO_EXECUTE), tolerated.clone(), false, TargetState::New, ok(0)),
            ("PreferNoExecute steers away", k(PREFER_NO_EXECUTE), vec![], false, TargetState::New, ok(-1)),
            (
                "PreferNoExecute refuses who opted in",
                k(PREFER_NO_EXECUTE),
                tolerated,
                true,
                TargetState::New,
                refused(PREFER_NO_EXECUTE),
            ),
            ("PreferNoExecute leaves targets alone", k(PREFER_NO_EXECUTE), vec![], true, TargetState::Target, ok(100)),
        ] {
            let mut binding = binding("web", 1, &[]);
            binding.spec.failover = opted_in.then(|| failover().into());
            let placement = Placement { cluster_tolerations: tolerations, ..Placement::default() };
            let mut cluster = cluster("m1");
            cluster.spec.taints = taints;
            let filter = filter_of(&binding, &placement);
            assert_eq!(fit(&filter, &cluster, state), want, "{name}");
        }
    }

    #[test]
    fn evictions_reject_only_where_no_other_filter_does() {
        for (reason, draining, want) in [
            (APPLICATION_FAILURE, false, Err(Refusal::BeingEvicted)),
            (CLUSTER_DRAIN, true, Err(Refusal::BeingEvicted)),
            (CLUSTER_DRAIN, false, Ok(Fit { tier: 0, score: 0 })),
            (BINDING_PREEMPTED, false, Err(Refusal::BeingEvicted)),
            ("TaintUntolerated", true, Ok(Fit { tier: 0, score: 0 })),
            ("TaintPreferNoExecute", false, Ok(Fit { tier: 0, score: 0 })),
            ("SomethingElse", false, Ok(Fit { tier: 0, score: 0 })),
        ] {
            let mut cluster = cluster("m1");
            cluster.metadata.annotations = draining.then(|| [(DRAINING.to_owned(), "now".to_owned())].into());
            let mut binding = binding("web", 1, &[]);
            binding.spec.graceful_eviction_tasks = vec![task("m1", reason, None)];
            let placement = Placement::default();
            let filter = filter_of(&binding, &placement);
            assert_eq!(fit(&filter, &cluster, TargetState::New), want, "{reason}, draining: {draining}");
        }
    }

    #[test]
    fn limited_tolerations_do_not_bring_back_who_was_evicted() {
        let placement = Placement {
            cluster_tolerations: vec![Toleration {
                toleration_seconds: Some(60),
                ..toleration("k", "Exists", NO_EXECUTE)
            }],
            ..Placement::default()
        };
        let mut cluster = cluster("m1");
        cluster.spec.taints = vec![Taint { time_added: Some(Time(at(100))), ..taint("k", "", NO_EXECUTE) }];
        let record = |from: &str, reason: &str, second| FailoverRecord {
            from: from.to_owned(),
            reason: reason.to_owned(),
            evicted_at: Some(Time(at(second))),
            ..FailoverRecord::default()
        };
        for (name, history, now, want) in [
            ("not yet", vec![], 159, true),
            ("over", vec![], 160, false),
            ("evicted, and the clock went back", vec![record("m1", TAINT_UNTOLERATED, 160)], 90, false),
            ("evicted before it was tolerated", vec![record("m1", TAINT_UNTOLERATED, 110)], 120, false),
            ("evicted by an earlier taint", vec![record("m1", TAINT_UNTOLERATED, 50)], 120, true),
            ("from another cluster", vec![record("m2", TAINT_UNTOLERATED, 160)], 120, true),
            ("for another reason", vec![record("m1", APPLICATION_FAILURE, 160)], 120, true),
            ("twice", vec![record("m1", TAINT_UNTOLERATED, 170), record("m1", TAINT_UNTOLERATED, 20)], 120, false),
        ] {
            let binding = binding("web", 1, &[]);
            let filter = Filter { history: &history, now: at(now), ..filter_of(&binding, &placement) };
            assert_eq!(filter.test(&cluster, TargetState::New).is_ok(), want, "{name}");
        }
        // The task is written before the status.
        for (name, reason, created, want) in [
            ("evicted a moment ago", TAINT_UNTOLERATED, Some(110), false),
            ("at an unknown time", TAINT_UNTOLERATED, None, false),
            ("by an earlier taint", TAINT_UNTOLERATED, Some(50), true),
            ("opted in to leave another taint", TAINT_PREFER_NO_EXECUTE, Some(110), true),
        ] {
            let mut binding = binding("web", 1, &[]);
            let created = created.map(|second| Time(at(second)));
            binding.spec.graceful_eviction_tasks =
                vec![GracefulEvictionTask { creation_timestamp: created, ..task("m1", reason, None) }];
            let filter = Filter { now: at(120), ..filter_of(&binding, &placement) };
            assert_eq!(filter.test(&cluster, TargetState::New).is_ok(), want, "{name}");
        }
    }

    #[test]
    fn affinity_rejects_targets_and_api_enablement_does_not() {
        let binding = binding("web", 1, &[]);
        let placement = Placement { cluster_affinity: Some(affinity(&["m2"])), ..Placement::default() };
        let filter = filter_of(&binding, &placement);
        assert_eq!(fit(&filter, &cluster("m1"), TargetState::Target), Err(Refusal::Affinity));
        let mut bare = cluster("m2");
        bare.status = None;
        assert_eq!(fit(&filter, &bare, TargetState::New), Err(Refusal::ApiNotEnabled), "unknown is not enabled");
        assert_eq!(fit(&filter, &bare, TargetState::Target), Ok(Fit { tier: 0, score: 100 }));
    }

    #[test]
    fn overflow_tiers_open_for_workloads_only() {
        let mut group = group("main", &["m1"]);
        group.overflow_affinities =
            vec![crate::testkit::overflow("a", &["m2"]), crate::testkit::overflow("b", &["m2", "m3"])];
        let placement = Placement { cluster_affinities: vec![group.clone()], ..Placement::default() };
        let tiers = |replicas| {
            let binding = binding("web", replicas, &[]);
            let filter = Filter { group: Some(&group), ..filter_of(&binding, &placement) };
            ["m1", "m2", "m3", "m4"].map(|name| fit(&filter, &cluster(name), TargetState::New).ok().map(|fit| fit.tier))
        };
        assert_eq!(tiers(1), [Some(0), Some(1), Some(2), None]);
        assert_eq!(tiers(0), [Some(0), None, None, None], "configuration does not overflow");
    }

    #[test]
    fn missing_spread_fields_are_rejected() {
        let binding = binding("web", 1, &[]);
        let by_label = SpreadConstraint { spread_by_label: "rack".into(), ..SpreadConstraint::default() };
        for (field, want) in [
            (spread(SpreadByField::Provider, 1, 1), Refusal::NoProvider),
            (spread(SpreadByField::Region, 1, 1), Refusal::NoRegion),
            (spread(SpreadByField::Zone, 1, 1), Refusal::NoZones),
            (by_label, Refusal::NoLabel { key: "rack".into() }),
        ] {
            let placement = Placement { spread_constraints: vec![field.clone()], ..Placement::default() };
            let filter = filter_of(&binding, &placement);
            assert_eq!(fit(&filter, &cluster("m1"), TargetState::Target), Err(want), "{field:?}, also for targets");
            let mut placed = cluster("m1");
            placed.spec.provider = "p".into();
            placed.spec.region = "r".into();
            placed.spec.zones = vec!["z".into()];
            placed.metadata.labels = Some([("rack".to_owned(), String::new())].into());
            assert!(fit(&filter, &placed, TargetState::New).is_ok(), "{field:?}");
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
