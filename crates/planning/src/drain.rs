//! Preview of a drain: the bindings on the cluster, where each of them would go, and which can't be moved.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{policy::PurgeMode, work::TargetCluster};
use ironclad_failover::{
    drain::{self, Verdict},
    flags::eviction::Check,
    taint_manager::pre_scheduling_check::Snapshot,
};
use ironclad_fleet::{Binding, ClusterName, Clusters, World, because::migration::Reason, targets::stays};
use ironclad_scheduling::{Peers, capacity::PROMISED_TTL, estimator::Index};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    Settings,
    schedule::{State, search, unasked_in},
    world::{patched_binding, put_binding, with_result},
};

/// The cluster that is drained, and how.
#[derive(Debug, Clone)]
pub struct Drain {
    pub cluster: ClusterName,
    /// Strictness of the check before each move.
    pub check: Check,
    /// Removal of the old copies.
    pub purge_mode: PurgeMode,
    /// Flags and gates of the leader, whose scheduler is asked.
    pub settings: Settings,
    /// Nodes and pods of the members that were asked for them.
    pub nodes: BTreeMap<ClusterName, Arc<Index>>,
    /// Time at which the check is made.
    pub now: Timestamp,
}

impl Drain {
    /// Drain with the default flags of the leader.
    #[must_use]
    pub fn new(cluster: ClusterName, check: Check, purge_mode: PurgeMode, now: Timestamp) -> Self {
        Self { cluster, check, purge_mode, settings: Settings::default(), nodes: BTreeMap::new(), now }
    }

    /// Verdict on a binding whatever its groups say; `None` if it is not on the cluster, or is leaving already.
    #[must_use]
    pub fn judge(&self, binding: &Binding, clusters: &Clusters) -> Option<Verdict> {
        self.judge_beside(binding, clusters, None)
    }

    fn judge_beside(&self, binding: &Binding, clusters: &Clusters, peers: Option<&Peers>) -> Option<Verdict> {
        let snapshot = Snapshot { clusters, scheduler: &self.settings.scheduler, peers, now: self.now };
        drain::judge(binding, &self.cluster, &snapshot, self.check)
    }

    /// The groups of a binding without those members that the drain moves, too.
    fn peers_that_stay(&self, binding: &Binding, peers: &Peers, world: &World) -> Peers {
        peers.without(&binding.key(), |other| {
            let moves =
                |other: Binding| matches!(self.judge(&other, &world.clusters), Some(Verdict::Moves | Verdict::Leaves));
            let leaves = world.binding(other).is_some_and(moves);
            leaves.then(|| self.cluster.0.clone()).into_iter().collect()
        })
    }
}

/// Handling of bindings that have no other cluster or are pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stuck {
    /// Nothing is moved as long as there are such bindings.
    Refuse,
    /// They stay.
    Skip,
    /// They are evicted nevertheless.
    Force,
}

/// A binding on the cluster.
#[derive(Debug, Clone)]
pub struct Item {
    pub binding: Binding,
    /// Decision of the drain.
    pub verdict: Verdict,
    /// Clusters that the scheduler would choose, for a part of the replicas if they do not take all.
    pub to: Vec<TargetCluster>,
    /// Replicas that would stay if the binding was moved by force.
    pub stays: i32,
}

impl Item {
    /// One word for the decision.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match &self.verdict {
            Verdict::Moves => "moves",
            Verdict::Leaves => "leaves",
            Verdict::Finished => "finished",
            Verdict::Stuck(Reason::Pinned { .. }) => "pinned",
            Verdict::Stuck(_) if self.stays > 0 => "in part",
            Verdict::Stuck(_) => "unmovable",
            Verdict::Follows => "follows",
        }
    }

    /// Target clusters, or the reason that it is not moved.
    #[must_use]
    pub fn detail(&self) -> String {
        let shares = self.to.iter().map(|target| match target.replicas {
            0 => target.name.clone(),
            replicas => format!("{}:{replicas}", target.name),
        });
        let shares = shares.collect::<Vec<_>>().join(", ");
        match &self.verdict {
            Verdict::Moves => shares,
            Verdict::Leaves => format!("whole copies stay: {shares}"),
            Verdict::Finished => Reason::HasFinished.to_string(),
            Verdict::Stuck(Reason::NowhereToGo { why }) if self.stays > 0 => {
                format!("{shares}, and {}: {why}", stays(self.stays))
            }
            Verdict::Stuck(reason) => reason.to_string(),
            Verdict::Follows => Reason::FollowsItsOwner.to_string(),
        }
    }

    /// JSON for scripts.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let (spec, key) = (self.binding.spec(), self.binding.key());
        json!({
            "binding": { "kind": self.binding.kind(), "namespace": &*key.namespace, "name": &*key.name },
            "resource": { "apiVersion": spec.resource.api_version, "kind": spec.resource.kind,
                "namespace": spec.resource.namespace, "name": spec.resource.name },
            "verdict": self.word(),
            "detail": self.detail(),
            "to": self.to,
            "stays": self.stays,
        })
    }
}

/// Bindings on a cluster, in the order in which they are moved.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// The bindings.
    pub items: Vec<Item>,
    /// Bindings that a drain moved and whose old copies remain.
    pub under_way: Vec<Binding>,
    /// Clusters whose nodes decide on bindings, and that were not asked for them.
    pub unasked: BTreeSet<ClusterName>,
    /// Number of bindings that the strict check keeps, and that the relaxed one would not.
    pub kept_by_strict: usize,
}

impl Survey {
    /// Decides on the bindings that concern the cluster, and asks the scheduler where those that leave would go, each
    /// beside those before. The world has all clusters, and the bindings that [`counts`].
    #[must_use]
    pub fn of(mut bindings: Vec<Binding>, world: &World, drain: &Drain) -> Self {
        bindings.sort_by_cached_key(drain::order);
        let mut state = State::of(world, &drain.settings, &drain.nodes, drain.now);
        let (mut survey, mut after) = (Self::default(), world.clone());
        for binding in bindings {
            let peers = state.peers.as_ref().map(|peers| drain.peers_that_stay(&binding, peers, world));
            match drain.judge_beside(&binding, &world.clusters, peers.as_ref()) {
                Some(verdict @ (Verdict::Moves | Verdict::Leaves)) => {
                    let item = survey.placed(binding, verdict, &mut after, &mut state, drain);
                    survey.items.push(item);
                }
                Some(Verdict::Stuck(why @ Reason::NowhereToGo { .. })) => {
                    let relaxed = Drain { check: Check::Relaxed, ..drain.clone() };
                    let judged = relaxed.judge_beside(&binding, &world.clusters, peers.as_ref());
                    survey.kept_by_strict += usize::from(judged == Some(Verdict::Moves));
                    survey.items.push(Item { binding, verdict: Verdict::Stuck(why), to: Vec::new(), stays: 0 });
                }
                Some(verdict) => survey.items.push(Item { binding, verdict, to: Vec::new(), stays: 0 }),
                None if drain::is_under_way(binding.spec(), &drain.cluster) => survey.under_way.push(binding),
                None => {}
            }
        }
        survey
    }

    /// A binding that passes the pre-scheduling check, after which the scheduler decides: it may still find no cluster.
    fn placed(
        &mut self,
        binding: Binding,
        verdict: Verdict,
        after: &mut World,
        state: &mut State,
        drain: &Drain,
    ) -> Item {
        let evicted = drain::patch(binding.spec(), &drain.cluster, drain.purge_mode)
            .map_or_else(|| binding.clone(), |patch| patched_binding(&binding, &patch));
        let options = &drain.settings.scheduler;
        state.ask(evicted.view(), options);
        let (found, trace) =
            search(&evicted, &after.clusters, state, options, &BTreeSet::from([drain.cluster.clone()]));
        if drain.settings.estimators {
            self.unasked.extend(unasked_in(&trace, evicted.spec(), state, options));
        }
        match found {
            Ok(to) => {
                let placed = with_result(&evicted, to.clone());
                state.written(&evicted, &placed, options);
                put_binding(after, &binding.key(), placed);
                Item { binding, verdict, to, stays: 0 }
            }
            Err(why) => {
                let (to, stays) = in_part(&evicted, after, state, drain).unwrap_or_default();
                Item { binding, verdict: Verdict::Stuck(Reason::NowhereToGo { why }), to, stays }
            }
        }
    }

    /// Bindings that the drain moves.
    #[must_use]
    pub fn moving(&self, stuck: Stuck) -> Vec<Binding> {
        let moves = |item: &&Item| match item.verdict {
            Verdict::Moves | Verdict::Leaves => true,
            Verdict::Stuck(_) => stuck == Stuck::Force,
            Verdict::Follows | Verdict::Finished => false,
        };
        self.items.iter().filter(moves).map(|item| item.binding.clone()).collect()
    }

    /// Bindings that can't be moved.
    #[must_use]
    pub fn stuck(&self) -> Vec<&Item> {
        self.items.iter().filter(|item| matches!(item.verdict, Verdict::Stuck(_))).collect()
    }

    /// Bindings that must be moved before the drain is complete.
    #[must_use]
    pub fn remaining(&self, stuck: Stuck) -> Vec<&Item> {
        let remains = |item: &&Item| match item.verdict {
            Verdict::Moves | Verdict::Leaves => true,
            Verdict::Stuck(_) => stuck != Stuck::Skip,
            Verdict::Follows | Verdict::Finished => false,
        };
        self.items.iter().filter(remains).collect()
    }

    /// Bindings that stay, each with the reason.
    #[must_use]
    pub fn staying(&self) -> Vec<String> {
        let stays = |item: &&Item| matches!(item.verdict, Verdict::Stuck(_) | Verdict::Finished);
        let named = |item: &Item| format!("{} ({})", item.binding.key(), item.detail());
        self.items.iter().filter(stays).map(named).collect()
    }

    /// Number of bindings that neither follow others nor have finished.
    #[must_use]
    pub fn evictable(&self) -> usize {
        let is_evictable = |item: &&Item| !matches!(item.verdict, Verdict::Follows | Verdict::Finished);
        self.items.iter().filter(is_evictable).count()
    }
}

/// The result of an evicted binding of which only a part fits elsewhere, and the replicas that stay, as the scheduler
/// decides on it.
fn in_part(evicted: &Binding, world: &World, state: &State, drain: &Drain) -> Option<(Vec<TargetCluster>, i32)> {
    let without = BTreeSet::from([drain.cluster.clone()]);
    let seen = state.seen(evicted.view(), &world.clusters, &drain.settings.scheduler);
    let failure = ironclad_scheduling::dry_run(&seen, &without).0.err()?;
    let part = ironclad_scheduling::part_that_fits(&seen, &without, &failure, drain.now)?;
    Some((part.targets, part.stays))
}

/// True if a drain of the cluster moves the binding, reports it, or waits for it.
#[must_use]
pub fn concerns(binding: &Binding, clusters: &Clusters, drain: &Drain) -> bool {
    drain::is_under_way(binding.spec(), &drain.cluster) || drain.judge(binding, clusters).is_some()
}

/// True if the scheduler's answers about other bindings may depend on this one: its pods may be promised and not
/// observed yet, capacity is held for it, or it belongs to groups of workloads.
#[must_use]
pub fn counts(binding: &Binding, now: Timestamp) -> bool {
    let is_nominated = binding.status().is_some_and(|status| !status.nominated_clusters.is_empty());
    let age = binding.view().last_scheduled().map(|scheduled| now.duration_since(scheduled));
    let is_new = age.is_some_and(|age| age < SignedDuration::try_from(PROMISED_TTL).unwrap_or(SignedDuration::MAX));
    let spec = binding.spec();
    is_nominated || is_new || !spec.graceful_eviction_tasks.is_empty() || spec.workload_affinity_groups.is_some()
}

#[cfg(test)]
mod tests {
    use ironclad_failover::flags::eviction::Check;

    use super::*;
    use crate::testkit::{nodes_of, world_of};

    const READY: &str = "apiEnablements: [{groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}], conditions: [{type: Ready, status: \"True\", reason: ClusterReady, message: \"\", lastTransitionTime: \"2026-01-01T00:00:00Z\"}]";

    fn cluster(name: &str, summary: &str) -> String {
        format!(
            "---\n{{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {{name: {name}}}, spec: {{syncMode: Push}}, status: {{{READY}{summary}}}}}\n"
        )
    }

    fn binding(name: &str, on: &str, more: &str) -> String {
        format!(
            "---\napiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\n\
             metadata: {{name: {name}, namespace: shop, uid: {name}, labels: {{propagationpolicy.karmada.io/permanent-id: p}}}}\n\
             spec: {{replicas: 1, resource: {{apiVersion: apps/v1, kind: Deployment, namespace: shop, name: {name}}}, clusters: [{{name: {on}, replicas: 1}}], \
             placement: {{spreadConstraints: [{{spreadByField: cluster, minGroups: 1, maxGroups: 1}}]}}{more}}}\n"
        )
    }

    /// The verdicts and targets of a drain of m1.
    fn survey(text: &str, settings: Settings) -> Vec<String> {
        surveyed(text, settings, &[]).0
    }

    /// The same with these nodes of members, and the members whose nodes are still to be asked for.
    fn surveyed(text: &str, settings: Settings, nodes: &[(&str, &[i64])]) -> (Vec<String>, String) {
        let world = world_of(text);
        let bindings: Vec<Binding> = world.all_bindings().collect();
        let nodes = nodes.iter().map(|(cluster, cores)| ((*cluster).into(), nodes_of(cores))).collect();
        let drain = Drain::new("m1".into(), Check::Strict, PurgeMode::Gracefully, Timestamp::UNIX_EPOCH);
        let survey = Survey::of(bindings, &world, &Drain { settings, nodes, ..drain });
        let items = survey.items.iter();
        let items = items.map(|item| format!("{} {} {}", item.binding.key().name, item.word(), item.detail()));
        let unasked: Vec<String> = survey.unasked.iter().map(ToString::to_string).collect();
        (items.collect(), unasked.join(" "))
    }

    #[test]
    fn groups_of_workloads_decide_where_bindings_go() {
        let group = ", workloadAffinityGroups: {antiAffinityGroup: tier=gold}";
        let fleet = |clusters: &[&str]| {
            let clusters: String = clusters.iter().map(|name| cluster(name, "")).collect();
            clusters + &binding("db", "m2", group) + &binding("web", "m1", group)
        };
        let mut on = Settings::default();
        on.scheduler.workload_affinity = true;
        assert_eq!(survey(&fleet(&["m1", "m2", "m3"]), on.clone()), ["web moves m3:1"]);
        let stuck = survey(&fleet(&["m1", "m2"]), on);
        assert!(
            stuck.len() == 1 && stuck[0].starts_with("web unmovable ") && stuck[0].contains("shop/db"),
            "{stuck:?}"
        );
        assert_eq!(survey(&fleet(&["m1", "m2"]), Settings::default()), ["web moves m2:1"], "the gate is off");
    }

    /// Copies that other clusters have, too, go, and what has ended stays.
    #[test]
    fn what_loses_nothing_does_not_block() {
        let clusters: String = ["m1", "m2", "m3"].iter().map(|name| cluster(name, "")).collect();
        let everywhere = |text: String| {
            let one = "clusters: [{name: m1, replicas: 1}]";
            text.replace(one, "clusters: [{name: m1, replicas: 1}, {name: m2, replicas: 1}, {name: m3, replicas: 1}]")
                .replace("maxGroups: 1", "maxGroups: 3")
                .replace("{spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 3}]}", "{}")
        };
        let divided = |text: String| {
            everywhere(text)
                .replace("placement: {}", "placement: {replicaScheduling: {replicaSchedulingType: Divided}}")
        };
        let job = binding("job", "m1", "").replace("apps/v1, kind: Deployment", "batch/v1, kind: Job")
            + "status: {aggregatedStatus: [{clusterName: m1, status: {conditions: [{type: Complete, status: \"True\"}]}}]}\n";
        let text = clusters + &everywhere(binding("dup", "m1", "")) + &divided(binding("shared", "m1", "")) + &job;
        let world = world_of(&text);
        let survey = |check| {
            let drain = Drain::new("m1".into(), check, PurgeMode::Gracefully, Timestamp::UNIX_EPOCH);
            Survey::of(world.all_bindings().collect(), &world, &drain)
        };
        let words = |survey: &Survey| -> Vec<String> {
            survey.items.iter().map(|item| format!("{} {}", item.binding.key().name, item.word())).collect()
        };
        let relaxed = survey(Check::Relaxed);
        assert_eq!(words(&relaxed), ["dup leaves", "job finished", "shared moves"]);
        assert_eq!(relaxed.items[0].detail(), "whole copies stay: m2:1, m3:1");
        assert_eq!((relaxed.stuck().len(), relaxed.evictable(), relaxed.kept_by_strict), (0, 2, 0));
        assert_eq!(relaxed.staying(), ["shop/job (it has finished, and is not run again elsewhere)"]);
        assert_eq!(relaxed.moving(Stuck::Force).len(), 2, "what has ended is not evicted by force either");
        let strict = survey(Check::Strict);
        assert_eq!(words(&strict), ["dup leaves", "job finished", "shared unmovable"]);
        assert_eq!((strict.kept_by_strict, strict.remaining(Stuck::Refuse).len()), (1, 2));
    }

    /// With purge mode Directly the part of a divided workload that fits elsewhere moves if a person insists.
    #[test]
    fn what_moves_in_part_is_told() {
        let room = |cores: &str| format!(", resourceSummary: {{allocatable: {{cpu: \"{cores}\", pods: \"9\"}}}}");
        let needs = ", replicaRequirements: {resourceRequest: {cpu: \"1\"}}";
        let status = "status: {aggregatedStatus: [{clusterName: m1, applied: true}]}\n";
        let with = |cores: &str, purge_mode, placement: fn(&str) -> String| {
            let web = binding("web", "m1", needs).replace("replicas: 1", "replicas: 6") + status;
            let text = cluster("m1", &room("9")) + &cluster("m2", &room(cores)) + &placement(&web);
            let (world, now) = (world_of(&text), Timestamp::UNIX_EPOCH);
            let drain = Drain::new("m1".into(), Check::Strict, purge_mode, now);
            let survey = Survey::of(world.all_bindings().collect(), &world, &drain);
            let [item] = &survey.items[..] else { panic!("{survey:?}") };
            let (stuck, forced) = (survey.stuck().len(), survey.moving(Stuck::Force).len());
            assert_eq!((stuck, forced), (usize::from(item.word() != "moves"), 1));
            format!("{} {}", item.word(), item.detail())
        };
        let one: fn(&str) -> String = str::to_owned;
        let (directly, gracefully) = (PurgeMode::Directly, PurgeMode::Gracefully);
        for (name, cores, purge_mode, placement, want) in [
            ("all fit", "6", directly, divided as fn(&str) -> String, "moves m2:6"),
            ("four of six", "4", directly, divided, "in part m2:4, and 2 replicas stay until others have room: "),
            ("one of six", "1", directly, divided, "in part m2:1, and 5 replicas stay until others have room: "),
            ("none", "0", directly, divided, "unmovable nowhere to go: "),
            ("gracefully all have to fit", "4", gracefully, divided, "unmovable nowhere to go: "),
            ("its replicas are not divided", "4", directly, one, "moves m2:6"),
        ] {
            let found = with(cores, purge_mode, placement);
            assert!(found.starts_with(want), "{name}: {found}");
        }
    }

    /// Three clusters with these cores each, and on m1 two workloads of three cores, divided by capacity.
    fn two_divided(cores: &str) -> String {
        let room = format!(", resourceSummary: {{allocatable: {{cpu: \"{cores}\", pods: \"9\"}}}}");
        let clusters: String = ["m1", "m2", "m3"].iter().map(|name| cluster(name, &room)).collect();
        let needs = ", replicaRequirements: {resourceRequest: {cpu: \"3\"}}";
        let bindings: String = ["a", "b"].iter().map(|name| binding(name, "m1", needs)).collect();
        divided(&(clusters + &bindings))
    }

    /// The same objects with bindings that are divided by capacity.
    fn divided(text: &str) -> String {
        let divided =
            "placement: {replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}";
        let one = "placement: {spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]}";
        text.replace(one, divided)
    }

    #[test]
    fn each_binding_is_placed_beside_those_before() {
        let went = survey(&two_divided("4"), Settings::default());
        assert_eq!(went, ["a moves m2:1", "b moves m3:1"]);
    }

    /// The nodes of members count where the leader keeps accounts by node.
    #[test]
    fn nodes_of_members_that_were_asked_count() {
        let asks = Settings::default().with_estimators(true);
        let small: &[(&str, &[i64])] = &[("m2", &[2, 2, 2, 2]), ("m3", &[2, 3, 3])];
        let one: &[(&str, &[i64])] = &[("m2", &[2, 2, 2, 2]), ("m3", &[3, 2])];
        for (name, settings, nodes, verdicts, unasked) in [
            ("nobody asks", Settings::default(), &[][..], ["a moves m2:1", "b moves m3:1"], ""),
            ("both are to be asked", asks.clone(), &[], ["a moves m2:1", "b moves m3:1"], "m2 m3"),
            ("m2 has small nodes", asks.clone(), small, ["a moves m3:1", "b moves m3:1"], ""),
            ("the first takes the only node", asks.clone(), one, ["a moves m3:1", "b unmovable "], ""),
        ] {
            let (found, still) = surveyed(&two_divided("8"), settings, nodes);
            assert_eq!(still, unasked, "{name}");
            assert!(found.iter().zip(verdicts).all(|(found, want)| found.starts_with(want)), "{name}: {found:?}");
        }
    }

    /// A workload that a drain moved a moment ago is promised where it went, before any summary or pod shows it.
    #[test]
    fn a_drain_sees_what_another_one_has_taken() {
        let room = ", resourceSummary: {allocatable: {cpu: \"4\", pods: \"9\"}}";
        let clusters: String = ["m1", "m2", "m3"].iter().map(|name| cluster(name, room)).collect();
        let needs = ", replicaRequirements: {resourceRequest: {cpu: \"3\"}}";
        let fleet = divided(&(clusters + &binding("b", "m1", needs)));
        let moved = |from: &str, scheduled: &str| {
            let task = format!("{{fromCluster: {from}, reason: ClusterDrain, producer: Drain, replicas: 1}}");
            let moved = binding("a", "m2", &format!("{needs}, gracefulEvictionTasks: [{task}]"));
            divided(&moved) + &format!("status: {{lastScheduledTime: \"{scheduled}\"}}\n")
        };
        let (now, long_ago) = ("1970-01-01T00:00:00Z", "1969-12-31T00:00:00Z");
        let free: &[(&str, &[i64])] = &[("m2", &[4]), ("m3", &[4])];
        for (name, other, nodes, want) in [
            ("nothing was moved", String::new(), &[][..], "b moves m2:1"),
            ("the same drain again", moved("m1", now), &[], "b moves m3:1"),
            ("the same by nodes that have no pod of it yet", moved("m1", now), free, "b moves m3:1"),
            ("a drain of another cluster, whose copy stays meanwhile", moved("m3", now), free, "b unmovable "),
            ("the summary shows what was moved long ago", moved("m3", long_ago), &[], "b moves m2:1"),
        ] {
            let settings = Settings::default().with_estimators(!nodes.is_empty());
            let (found, _) = surveyed(&(fleet.clone() + &other), settings, nodes);
            let found: Vec<&String> = found.iter().filter(|line| line.starts_with("b ")).collect();
            assert!(found.len() == 1 && found[0].starts_with(want), "{name}: {found:?}");
        }
    }
}
