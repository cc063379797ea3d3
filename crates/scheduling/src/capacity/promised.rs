//! Promised replicas: what schedule results and eviction tasks name in a cluster and nobody has observed there yet
//! (specification/scheduling.md 11, 16.18, 16.33; specification/failover.md 8.5).
//!
//! Where the pods of a cluster are watched, a promise is what is named less the pods of the workload that are there. It
//! ends when all of them have come, when the result no longer names the cluster, when the member has applied the
//! workload and no pod has come for some time in which its pods were watched (it keeps fewer replicas, or refuses its
//! pods), and after five minutes.
//! Elsewhere, and for kinds whose pods cannot be told, it is what an assignment added; it ends when the cluster reports
//! the replicas, and had time to send a summary that counts them. In a cluster that is not ready it lasts.
//!
//! Promised replicas of a binding are subtracted for the binding itself, too: its previous replicas are added to the
//! estimate as *assigned*, so they must be missing from the estimate until the cluster shows them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::{
    policy::PurgeMode,
    work::{
        AggregatedStatusItem, Component, GracefulEvictionTask, ObjectReference, ResourceBindingSpec, ResourceHealth,
        TargetCluster, TargetComponent,
    },
};
use ironclad_fleet::{BindingKey, BindingRef, ClusterName};
use jiff::Timestamp;

use super::{
    Capacity, PROMISED_MAX, PROMISED_TTL, Slot,
    demand::{self, Demand, Part},
    free::Assumed,
    place,
};
use crate::{
    Options,
    estimator::{SetPart, Workload, assumed_parts},
    options::schedules_component_sets,
    priority::priority,
};

/// Allowance for a summary that was sent before the cluster reported the pods.
const SUMMARY_DELAY: Duration = Duration::from_secs(5);
/// Time without a new pod after which a member that has applied a workload counts as one that keeps fewer replicas.
const NO_POD_FOR: Duration = Duration::from_secs(15);
/// Kinds whose pods name them as their controller, directly or through a ReplicaSet.
const TOLD: [&str; 7] = ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController", "Pod"];

/// Promised replicas of one binding in one cluster.
#[derive(Debug, Clone)]
pub(super) struct Promise {
    /// The workload in the member.
    pub(super) workload: Workload,
    pub(super) namespace: Arc<str>,
    /// Priority of the binding.
    pub(super) priority: i32,
    /// Request of one replica or one component set.
    pub(super) parts: Arc<[Part]>,
    /// The same with requirements on nodes.
    pub(super) claimed: Arc<[SetPart]>,
    /// True if pods of this kind are known by their owner.
    is_told: bool,
    /// Replicas or sets that the result or a task names.
    wanted: i64,
    /// Those of them that are not observed.
    pub(super) due: i64,
    ends: Duration,
    /// Time at which it ends even if nobody could see its pods come.
    latest: Duration,
    /// Least number that was due so far.
    least: i64,
    /// True once the member has applied the result.
    is_applied: bool,
    /// Time since which the cluster reports the replicas, where its pods are not watched.
    seen: Option<Duration>,
}

/// Result that is being written, with the promises to its binding before it.
#[derive(Debug)]
#[must_use = "what is promised counts until it is confirmed or reverted"]
pub struct Reservation {
    key: BindingKey,
    before: BTreeMap<ClusterName, Promise>,
}

/// Replicas or sets by cluster.
type Named = BTreeMap<ClusterName, i64>;

/// Replicas or sets that targets and eviction tasks name: those that come, or stay until the task ends. A cluster to
/// which dispatching is suspended gets nothing new, and a task that purges directly keeps nothing.
fn named(spec: &ResourceBindingSpec, targets: &[TargetCluster], tasks: &[GracefulEvictionTask], sets: bool) -> Named {
    let suspension = spec.suspension.as_ref();
    let is_suspended = |cluster: &str| {
        suspension.is_some_and(|all| {
            let on = all.dispatching_on_clusters.as_ref();
            all.dispatching == Some(true) || on.is_some_and(|on| on.cluster_names.iter().any(|name| **name == *cluster))
        })
    };
    let wanted = |replicas: i32| if sets { 1 } else { i64::from(replicas.max(0)) };
    let mut all = Named::new();
    for task in tasks.iter().filter(|task| !matches!(task.purge_mode, Some(PurgeMode::Directly))) {
        all.insert(task.from_cluster.as_str().into(), wanted(task.replicas.unwrap_or(0)));
    }
    for target in targets {
        all.insert(target.name.as_str().into(), wanted(target.replicas));
    }
    all.retain(|cluster, _| !is_suspended(&cluster.0));
    all
}

impl Capacity {
    /// Promises what each target gains from a result that is about to be written, so that the next decision need not
    /// wait for the API server. Returns `None` if the binding requests no capacity.
    pub fn assume(
        &mut self,
        before: BindingRef<'_>,
        after: &[TargetCluster],
        options: &Options,
        now: Duration,
    ) -> Option<Reservation> {
        if !is_tracked(before) {
            return None;
        }
        let key = before.key();
        let promised = self.promises.get(&key).cloned().unwrap_or_default();
        self.assigned(before, after, options, now);
        self.being_written.insert(key.clone());
        Some(Reservation { key, before: promised })
    }

    /// Confirms that the result was written.
    pub fn confirm(&mut self, reservation: &Reservation) {
        self.being_written.remove(&reservation.key);
    }

    /// Reverts a result that was not written: restores the previous promises to its binding, without those that ended
    /// meanwhile.
    pub fn revert(&mut self, reservation: Reservation, now: Duration) {
        let Reservation { key, before } = reservation;
        if !self.being_written.remove(&key) {
            // The binding was changed or deleted meanwhile.
            return;
        }
        let meanwhile = self.promises.get(&key).cloned().unwrap_or_default();
        for cluster in meanwhile.keys() {
            self.release(&key, cluster);
        }
        for (cluster, mut promise) in before {
            if promise.ends <= now {
                continue;
            }
            if let Some(other) = meanwhile.get(&cluster) {
                promise.is_applied |= other.is_applied;
                if let Some(seen) = other.seen {
                    (promise.seen, promise.ends) = (Some(seen), promise.ends.min(other.ends));
                }
            }
            self.renew(&key, &cluster, promise);
        }
    }

    /// Promises what each target gained from a written result. `before` is the binding as it was scheduled, `now` any
    /// monotonic time.
    pub fn assigned(&mut self, before: BindingRef<'_>, after: &[TargetCluster], options: &Options, now: Duration) {
        self.assign(before, before.spec(), after, options, now);
    }

    /// Promises what each target gained from a change that was observed. A result that is being written is part of it,
    /// or its write will fail, since the version that it was decided on is not the present one.
    pub fn observed(&mut self, old: BindingRef<'_>, new: &ResourceBindingSpec, options: &Options, now: Duration) {
        self.being_written.remove(&old.key());
        self.assign(old, new, &new.clusters, options, now);
    }

    fn assign(
        &mut self,
        before: BindingRef<'_>,
        spec: &ResourceBindingSpec,
        after: &[TargetCluster],
        options: &Options,
        now: Duration,
    ) {
        let (old, tasks) = (before.spec(), &spec.graceful_eviction_tasks);
        if !is_tracked(before) {
            return;
        }
        let key = before.key();
        self.leaves(&key, &spec.resource, tasks);
        let sets = spec.placement.as_ref().is_some_and(|placement| schedules_component_sets(options, spec, placement));
        let (had, wants) = (named(old, &old.clusters, &[], sets), named(spec, after, tasks, sets));
        let known = self.promises.get(&key).into_iter().flatten().map(|(name, _)| name);
        let lost: Vec<_> = known.filter(|name| !wants.contains_key(*name)).cloned().collect();
        lost.iter().for_each(|cluster| self.release(&key, cluster));
        let whole = demand_of(spec, sets);
        for (cluster, wanted) in wants {
            let known = self.promises.get(&key).and_then(|all| all.get(&cluster)).cloned();
            let had = known.as_ref().map(|known| known.wanted).or_else(|| had.get(&cluster).copied());
            let had = had.unwrap_or_else(|| self.returning(before, &cluster).min(wanted));
            let (parts, gained) = match after.iter().find(|target| target.name == *cluster.0).filter(|_| sets) {
                Some(target) => {
                    let old = old.target(&target.name);
                    let before = old.map_or(&[][..], |old| old.components.as_slice());
                    let gained = gained_parts(&spec.components, before, old.is_some());
                    let gains = i64::from(demand::pods(&gained) > 0);
                    (gained.into(), gains)
                }
                None => (whole.clone(), wanted - had),
            };
            let is_new = old.target(&cluster.0).is_none() && after.iter().any(|target| target.name == *cluster.0);
            let mut promise = Promise::new(spec, sets, parts, wanted, now);
            let known = known.filter(|known| gained <= 0 || !sets || known.parts == promise.parts);
            promise.due = known.as_ref().map_or(0, |known| known.due).saturating_add(gained.max(0)).min(wanted);
            if let Some(known) = known.filter(|_| gained <= 0) {
                let Promise { ends, latest, least, is_applied, seen, .. } = known;
                let fresh = Promise::new(spec, sets, requesting(&known.parts, &whole), wanted, now);
                promise = Promise { due: promise.due, ends, latest, least, is_applied, seen, ..fresh };
            } else if gained <= 0 && !(is_new && self.is_watched(&cluster)) {
                continue;
            }
            self.renew(&key, &cluster, promise);
        }
    }

    /// Records that the clusters' reports of a binding changed. That a workload became applied since it was promised,
    /// or that its copy was edited, concerns the result; what was reported before may be about the previous one.
    pub fn reported(
        &mut self,
        key: &BindingKey,
        spec: &ResourceBindingSpec,
        old: &[AggregatedStatusItem],
        new: &[AggregatedStatusItem],
        now: Duration,
    ) {
        let Some(all) = self.promises.get(key) else { return };
        let mut updates = Vec::new();
        for (name, promise) in all {
            let target = spec.target(&name.0).map(|target| target.replicas);
            let task = spec.eviction(&name.0).map(|task| task.replicas.unwrap_or(0));
            let Some(wanted) = target.or(task) else {
                // A report that refers to the previous result does not cover the targets of the one being written.
                if !self.being_written.contains(key) {
                    updates.push((name.clone(), None));
                }
                continue;
            };
            let of = |list: &'_ [AggregatedStatusItem]| list.iter().position(|item| item.cluster_name == *name.0);
            let Some(report) = of(new).and_then(|at| new.get(at)) else { continue };
            let before = of(old).and_then(|at| old.get(at));
            let shown = shows(report, before, wanted);
            let is_edited = before.is_some_and(|before| generation(before) < generation(report));
            let turned_applied = report.applied && (is_edited || !before.is_some_and(|before| before.applied));
            match self.is_watched(name) {
                true if promise.is_told && turned_applied && !promise.is_applied => {
                    let ends = promise.ends.min(now + NO_POD_FOR);
                    updates.push((name.clone(), Some(Promise { is_applied: true, ends, ..promise.clone() })));
                }
                true if !promise.is_told && shown => updates.push((name.clone(), None)),
                false if shown && promise.seen.is_none() => {
                    let ends = promise.ends.min(now + self.summaries_every + SUMMARY_DELAY);
                    updates.push((name.clone(), Some(Promise { seen: Some(now), ends, ..promise.clone() })));
                }
                _ => {}
            }
        }
        for (cluster, promise) in updates {
            match promise {
                Some(promise) => self.renew(key, &cluster, promise),
                None => self.release(key, &cluster),
            }
        }
    }

    /// Restores the promises to a binding at start (specification/scheduling.md 16.33), when a cluster of its result is
    /// lost, or once its pods are listed: what was assigned recently, or in a cluster that is not ready, and is not
    /// observed. Promises that are there stay. `wall` is the present time.
    pub fn found(
        &mut self,
        binding: BindingRef<'_>,
        reports: &[AggregatedStatusItem],
        wall: Timestamp,
        options: &Options,
        now: Duration,
    ) {
        let spec = binding.spec();
        if !is_tracked(binding) {
            return;
        }
        let (key, age) = (binding.key(), age_of_assignment(binding, wall));
        self.leaves(&key, &spec.resource, &spec.graceful_eviction_tasks);
        // A cluster that was not ready starts what it got since it is ready again.
        let waits = |cluster: &ClusterName| {
            let ready = self.ready_since.get(cluster).filter(|since| **since <= wall);
            let ready = ready.map(|since| wall.duration_since(*since));
            ready.map_or(age, |ready| age.min(Duration::try_from(ready).unwrap_or_default()))
        };
        let sets = spec.placement.as_ref().is_some_and(|placement| schedules_component_sets(options, spec, placement));
        let known = self.promises.get(&key);
        let open =
            named(spec, &spec.clusters, &spec.graceful_eviction_tasks, sets).into_iter().filter(|(cluster, _)| {
                (waits(cluster) < PROMISED_TTL || self.is_silent(cluster))
                    && known.is_none_or(|known| !known.contains_key(cluster))
            });
        let open: Vec<_> = open.map(|(cluster, wanted)| (waits(&cluster), cluster, wanted)).collect();
        if open.is_empty() {
            return;
        }
        let whole = demand_of(spec, sets);
        for (waits, cluster, wanted) in open {
            let mut promise = Promise::new(spec, sets, whole.clone(), wanted, now);
            promise.ends = now + PROMISED_TTL.saturating_sub(waits);
            promise.latest = promise.ends;
            // After a start the summary may be older than the pods that are reported, until the cluster's pods are
            // listed.
            let is_counted_soon = promise.is_told && self.recounts_until.is_some() && !self.is_watched(&cluster);
            let reported = if is_counted_soon { 0 } else { pods_in(reports, &cluster.0, wanted, sets) };
            promise.due = wanted - reported;
            self.renew(&key, &cluster, promise);
        }
    }

    /// Takes in that pods of a workload came to a cluster or left it.
    pub(super) fn arrivals(&mut self, cluster: &ClusterName, workload: Workload, now: Duration) {
        let Some(key) = self.slots.get(cluster).and_then(|slot| slot.workloads.get(&workload)).cloned() else { return };
        let Some(promise) = self.promises.get(&key).and_then(|all| all.get(cluster)) else { return };
        let arrived = self.arrived(cluster, workload);
        let due = if self.counts_pods(cluster, promise) {
            promise.wanted - arrived
        } else if arrived >= demand::pods(&promise.parts).saturating_mul(promise.wanted) {
            0
        } else {
            promise.due
        };
        if due != promise.due {
            // More pods than ever before are of this result, which prolongs it even beyond its time; one that takes the
            // place of another tells nothing, so that nobody holds capacity for ever.
            let comes = due < promise.least;
            let ends = if comes { now + NO_POD_FOR } else { promise.ends };
            let latest = promise.latest.max(ends);
            let promise = Promise { due, ends, latest, is_applied: promise.is_applied || comes, ..promise.clone() };
            self.put(&key, cluster, promise);
            // A pod takes the place that was promised to it: what nodes have left tells whether more fits.
            self.changed(cluster, false);
        }
    }

    /// Counts all promises in a cluster anew, whose pods are listed now.
    pub(super) fn recount(&mut self, cluster: &ClusterName) {
        let here = self.promises.iter().filter_map(|(key, all)| Some((key.clone(), all.get(cluster)?.clone())));
        for (key, promise) in here.collect::<Vec<_>>() {
            self.renew(&key, cluster, promise);
        }
    }

    fn is_watched(&self, cluster: &ClusterName) -> bool {
        self.slots.get(cluster).is_some_and(|slot| slot.watched.is_some())
    }

    /// Returns whether the pods of a promised workload are counted in the cluster.
    fn counts_pods(&self, cluster: &ClusterName, promise: &Promise) -> bool {
        promise.is_told && self.is_watched(cluster)
    }

    fn arrived(&self, cluster: &ClusterName, workload: Workload) -> i64 {
        let watched = self.slots.get(cluster).and_then(|slot| slot.watched.as_ref());
        watched.map_or(0, |index| index.arrived(workload))
    }

    /// Forgets a deleted binding.
    pub fn forget(&mut self, key: &BindingKey) {
        self.withdraw_nomination(key);
        self.leaves(key, &ObjectReference::default(), &[]);
        self.being_written.remove(key);
        let clusters: Vec<_> = self.promises.get(key).into_iter().flatten().map(|(name, _)| name.clone()).collect();
        for cluster in &clusters {
            self.release(key, cluster);
        }
    }

    /// Ends promises whose time is over, if the pods of all clusters are watched without a break.
    pub fn expire(&mut self, now: Duration) {
        self.expire_watched(now, |_| Duration::MAX);
    }

    /// Ends promises whose time is over. Those in clusters that are not ready are prolonged, and for some minutes those
    /// in clusters whose pods nobody saw meanwhile: `watched_for` says for how long they are watched without a break.
    pub fn expire_watched(&mut self, now: Duration, watched_for: impl Fn(&ClusterName) -> Duration) {
        if self.recounts_until.is_some_and(|until| until <= now) {
            self.recounts_until = None;
        }
        while let Some((ends, key, cluster)) = self.ends.first().cloned() {
            if ends > now {
                break;
            }
            let promise = self.promises.get(&key).and_then(|all| all.get(&cluster)).cloned();
            let prolonged = promise.and_then(|promise| {
                let ends = if self.is_silent(&cluster) {
                    let is_seen = promise.seen.is_some();
                    now + if is_seen { self.summaries_every + SUMMARY_DELAY } else { PROMISED_TTL }
                } else if self.counts_pods(&cluster, &promise) && watched_for(&cluster) < NO_POD_FOR {
                    (now + NO_POD_FOR).min(promise.latest)
                } else {
                    now
                };
                (ends > now).then(|| Promise { ends, latest: promise.latest.max(ends), ..promise })
            });
            match prolonged {
                Some(promise) => self.renew(&key, &cluster, promise),
                None => self.release(&key, &cluster),
            }
        }
    }

    /// Promises in a cluster: each with the pods of one replica or set, and the number of those that are not observed.
    pub fn promised_in<'a>(
        &'a self,
        cluster: &'a ClusterName,
    ) -> impl Iterator<Item = (&'a BindingKey, &'a [Part], i64)> {
        let here = self.slots.get(cluster).into_iter().flat_map(|slot| slot.workloads.values());
        here.filter_map(move |key| {
            let promise = self.promises.get(key)?.get(cluster)?;
            Some((key, &*promise.parts, promise.due))
        })
    }

    /// Time at which [`Capacity::expire`] has something to end.
    #[must_use]
    pub fn expires_next(&self) -> Option<Duration> {
        self.ends.first().map(|(ends, _, _)| *ends)
    }

    /// Number of promises.
    #[must_use]
    pub fn promised_count(&self) -> usize {
        self.ends.len()
    }

    /// Replicas of an eviction task that estimates subtract, and that the binding gets back if it returns: those that
    /// are observed in the cluster, and those that are promised, as far as they have or find a node. Others never ran
    /// there.
    #[must_use]
    pub fn returning(&self, binding: BindingRef<'_>, cluster: &ClusterName) -> i64 {
        let Some(replicas) = binding.spec().eviction(&cluster.0).and_then(|task| task.replicas) else { return 0 };
        let replicas = i64::from(replicas.max(0));
        if TOLD.contains(&&*binding.spec().resource.kind)
            && let Some(index) = self.slots.get(cluster).and_then(|slot| slot.watched.as_ref())
        {
            // Pods without a place would not run there either.
            let held = index.leaving(Workload::from(&binding.spec().resource), &Arc::default());
            return held.map_or(0, |held| replicas.min(held.amounts().1));
        }
        let promise = self.promises.get(&binding.key()).and_then(|all| all.get(cluster));
        let unseen = promise.filter(|promise| promise.seen.is_none());
        let unseen = unseen.map_or(0, |promise| promise.due.min(self.fits_without(promise, cluster, binding)));
        let reports = binding.status().map_or(&[][..], |status| &status.aggregated_status);
        let observed = pods_in(reports, &cluster.0, replicas, false);
        replicas.min(observed.saturating_add(unseen))
    }

    /// Replicas of the binding that fit beside what is promised to others.
    fn fits_without(&self, promise: &Promise, cluster: &ClusterName, binding: BindingRef<'_>) -> i64 {
        let Some(slot) = self.slots.get(cluster) else { return 0 };
        if slot.watched.is_some() {
            // What is placed on a node fits, by the rules of the account.
            return promise.due;
        }
        let mut others = slot.assumed.clone();
        others.add(&promise.parts, -promise.due);
        slot.reported.as_ref().map_or(0, |free| free.fits(&Demand::of(binding.spec(), false), &others, None))
    }

    /// Replaces the promise to a binding in a cluster; one without replicas ends.
    fn renew(&mut self, key: &BindingKey, cluster: &ClusterName, promise: Promise) {
        let before = self.promises.get(key).and_then(|all| all.get(cluster)).cloned();
        self.put(key, cluster, promise);
        let after = self.promises.get(key).and_then(|all| all.get(cluster));
        let is_more = |before: Promise| after.is_none_or(|now| now.due < before.due || now.parts != before.parts);
        self.changed(cluster, before.is_some_and(is_more));
    }

    /// Records a promise, less the pods that have come.
    fn put(&mut self, key: &BindingKey, cluster: &ClusterName, mut promise: Promise) {
        if self.counts_pods(cluster, &promise) {
            promise.due = promise.wanted - self.arrived(cluster, promise.workload);
        }
        promise.least = promise.least.min(promise.due);
        self.take_out(key, cluster);
        if promise.due > 0 {
            if self.ends.len() >= PROMISED_MAX
                && let Some((_, key, cluster)) = self.ends.first().cloned()
            {
                self.release(&key, &cluster);
            }
            self.ends.insert((promise.ends, key.clone(), cluster.clone()));
            self.slots.entry(cluster.clone()).or_default().promise(key, &promise);
            self.promises.entry(key.clone()).or_default().insert(cluster.clone(), promise);
        } else {
            self.expect_no_more(key, cluster);
        }
    }

    /// Ends the promise to a binding in a cluster.
    fn release(&mut self, key: &BindingKey, cluster: &ClusterName) {
        if self.take_out(key, cluster) {
            self.expect_no_more(key, cluster);
            self.changed(cluster, true);
        }
    }

    /// Gives the places on nodes back that were kept for a promise. One that is replaced keeps what it can.
    fn expect_no_more(&mut self, key: &BindingKey, cluster: &ClusterName) {
        if let Some(index) = self.slots.get_mut(cluster).and_then(|slot| slot.watched.as_mut()) {
            index.expect(&key.to_string(), Workload::NONE, "", None);
        }
    }

    fn take_out(&mut self, key: &BindingKey, cluster: &ClusterName) -> bool {
        let Some(all) = self.promises.get_mut(key) else { return false };
        let Some(promise) = all.remove(cluster) else { return false };
        if all.is_empty() {
            self.promises.remove(key);
        }
        self.ends.remove(&(promise.ends, key.clone(), cluster.clone()));
        if let Some(slot) = self.slots.get_mut(cluster) {
            slot.withdraw(&promise);
        }
        true
    }
}

impl Promise {
    fn new(spec: &ResourceBindingSpec, sets: bool, parts: Arc<[Part]>, wanted: i64, now: Duration) -> Self {
        Self {
            workload: Workload::from(&spec.resource),
            namespace: spec.resource.namespace.as_str().into(),
            priority: priority(spec),
            claimed: assumed_parts(spec, &parts).into(),
            parts,
            is_told: !sets && TOLD.contains(&&*spec.resource.kind),
            wanted,
            due: 0,
            least: i64::MAX,
            ends: now + PROMISED_TTL,
            latest: now + PROMISED_TTL,
            is_applied: false,
            seen: None,
        }
    }
}

impl Slot {
    /// Subtracts a promise.
    pub(super) fn promise(&mut self, key: &BindingKey, promise: &Promise) {
        self.workloads.insert(promise.workload, key.clone());
        if let Some(index) = &mut self.watched {
            let expected = Some((promise.claimed.to_vec(), promise.due));
            index.expect(&key.to_string(), promise.workload, &promise.namespace, expected);
            return;
        }
        *self.footprints.entry(promise.parts.clone()).or_default() += promise.due;
        self.assumed.add(&promise.parts, promise.due);
        if let Some(nodes) = &mut self.nodes {
            place(nodes, &promise.parts, promise.due);
        }
    }

    /// Subtracts a promise no more.
    fn withdraw(&mut self, promise: &Promise) {
        self.workloads.remove(&promise.workload);
        if self.watched.is_some() {
            return;
        }
        if let Some(all) = self.footprints.get_mut(&promise.parts) {
            *all -= promise.due;
            if *all <= 0 {
                self.footprints.remove(&promise.parts);
            }
        }
        self.assumed = Assumed::default();
        for (parts, count) in &self.footprints {
            self.assumed.add(parts, *count);
        }
        self.place_again();
    }
}

/// The replicas of these parts with the requests of others, if they are parts of the same set.
fn requesting(parts: &Arc<[Part]>, of: &[Part]) -> Arc<[Part]> {
    if parts.len() != of.len() {
        return parts.clone();
    }
    let request = |(part, of): (&Part, &Part)| Part { request: of.request.clone(), ..*part };
    parts.iter().zip(of).map(request).collect()
}

fn demand_of(spec: &ResourceBindingSpec, sets: bool) -> Arc<[Part]> {
    Demand::of(spec, sets).into_parts().into()
}

/// Pods of a workload that a cluster reports, at most as many as wanted. What reports no pods has all of them once it
/// is healthy: health may be that of the assignment before, so it does not count beside pods, except for component
/// sets.
fn pods_in(reports: &[AggregatedStatusItem], cluster: &str, wanted: i64, sets: bool) -> i64 {
    let report = reports.iter().find(|report| report.cluster_name == cluster);
    let is_healthy = report.is_some_and(|report| report.health == Some(ResourceHealth::Healthy));
    match report.and_then(pods_of).filter(|_| !sets || !is_healthy) {
        Some(pods) => pods.clamp(0, wanted),
        None if is_healthy => wanted,
        None => 0,
    }
}

/// Returns whether replicas of the binding are promised: namespaced workloads only.
fn is_tracked(binding: BindingRef<'_>) -> bool {
    matches!(binding, BindingRef::Namespaced(_)) && binding.spec().is_workload()
}

/// Time since the result of a binding was written. A process that ended between the result and its status leaves no
/// time: that result is new.
fn age_of_assignment(binding: BindingRef<'_>, wall: Timestamp) -> Duration {
    if binding.observed_generation() < binding.generation() {
        return Duration::ZERO;
    }
    let since = binding.last_scheduled().map(|scheduled| wall.duration_since(scheduled));
    since.map_or(Duration::MAX, |since| Duration::try_from(since).unwrap_or_default())
}

/// Returns whether the cluster runs what was assigned: all pods exist, or it became healthy.
fn shows(report: &AggregatedStatusItem, before: Option<&AggregatedStatusItem>, wanted: i32) -> bool {
    let healthy = |item: &AggregatedStatusItem| item.health == Some(ResourceHealth::Healthy);
    let turned = healthy(report) && !before.is_some_and(healthy);
    turned || (wanted > 0 && pods_of(report).is_some_and(|pods| pods >= i64::from(wanted)))
}

/// Generation of the copy that a status is about; `None` is less than any.
fn generation(report: &AggregatedStatusItem) -> Option<i64> {
    report.status.as_ref()?.value().get("generation")?.as_i64()
}

/// Pods in a reported status, in the field that most workloads use.
fn pods_of(report: &AggregatedStatusItem) -> Option<i64> {
    report.status.as_ref()?.value().get("replicas")?.as_i64()
}

/// Replicas that a cluster gains when it is assigned these components.
fn gained_parts(components: &[Component], before: &[TargetComponent], was_target: bool) -> Vec<Part> {
    let mut parts = demand::parts(components);
    for (part, component) in parts.iter_mut().zip(components) {
        let had = before.iter().find(|had| had.name == component.name).map(|had| i64::from(had.replicas));
        // A target without a list of components runs the whole set.
        let had = had.unwrap_or(if was_target && before.is_empty() { part.replicas } else { 0 });
        part.replicas = (part.replicas - had).max(0);
    }
    parts.retain(|part| part.replicas > 0);
    parts
}
