//! Assumed replicas: assigned by the scheduler, but not in any cluster summary yet (specification/scheduling.md 11,
//! 16.18, 16.33; specification/failover.md 8.5).
//!
//! The assumption is what an assignment adds to a cluster, not the total of the workload there. It ends when the
//! cluster reports the pods and had time to send another summary, when neither the result nor an eviction task
//! names the cluster any more, or after five minutes; in
//! a cluster that is not ready it lasts, since no summary comes from there.
//! Assumed replicas of a binding are also subtracted for the binding itself: its previous replicas are added to the
//! estimate as *assigned*, so they must be missing from the estimate until the summary counts them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::work::{
    AggregatedStatusItem, Component, GracefulEvictionTask, ResourceBindingSpec, ResourceHealth, TargetCluster,
    TargetComponent,
};
use ironclad_fleet::{BindingKey, BindingRef, ClusterName};
use jiff::Timestamp;

use super::{
    ASSUMED_MAX, ASSUMED_TTL, Capacity, Slot,
    demand::{self, Demand, Part},
    free::Assumed,
    place,
};
use crate::{Options, options::schedules_component_sets};

/// Allowance for a summary that was sent before the cluster reported the pods.
const SUMMARY_DELAY: Duration = Duration::from_secs(5);
/// Intervals between summaries that a start may find missing: nobody collects between the end of one leader and the
/// start of the next, and members may be slow.
const SUMMARIES_MISSING: u32 = 4;
/// The same for a cluster that is not ready: it was lost some intervals before that showed.
const SUMMARIES_MISSING_WHEN_LOST: u32 = 8;

/// Assumed replicas of one binding in one cluster.
#[derive(Debug, Clone)]
pub(super) struct AssumedReplicas {
    /// Request of one replica or one component set.
    parts: Arc<[Part]>,
    count: i64,
    ends: Duration,
    /// Time since which the cluster reports the pods; the assumption then ends with the next summary.
    seen: Option<Duration>,
}

/// Pods of one assumed replica or set, and the number of replicas or sets.
pub type Assumption = (Arc<[Part]>, i64);

/// Result that is being written, with the assumed replicas of its binding before it.
#[derive(Debug)]
#[must_use = "what is assumed counts until it is confirmed or reverted"]
pub struct Reservation {
    key: BindingKey,
    before: BTreeMap<ClusterName, AssumedReplicas>,
}

impl Capacity {
    /// Counts what each target gains from a result that is about to be written, so that the next decision need not wait
    /// for the API server. Returns `None` if the binding requests no capacity.
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
        let assumed = self.assumed.get(&key).cloned().unwrap_or_default();
        self.assigned(before, after, options, now);
        self.being_written.insert(key.clone());
        Some(Reservation { key, before: assumed })
    }

    /// Confirms that the result was written.
    pub fn confirm(&mut self, reservation: &Reservation) {
        self.being_written.remove(&reservation.key);
    }

    /// Reverts a result that was not written: restores the previous assumptions of its binding, without those that
    /// ended meanwhile.
    pub fn revert(&mut self, reservation: Reservation, now: Duration) {
        let Reservation { key, before } = reservation;
        if !self.being_written.remove(&key) {
            // The binding was deleted meanwhile.
            return;
        }
        let meanwhile = self.assumed.get(&key).cloned().unwrap_or_default();
        for cluster in meanwhile.keys() {
            self.release(&key, cluster);
        }
        for (cluster, assumed) in before {
            if assumed.ends <= now {
                continue;
            }
            self.insert(&key, &cluster, assumed);
            if let Some(reported) = meanwhile.get(&cluster)
                && let Some(seen) = reported.seen
            {
                self.end_at(&key, &cluster, seen, reported.ends);
            }
        }
    }

    /// Returns whether a result of this binding is being written.
    #[must_use]
    pub fn is_being_written(&self, key: &BindingKey) -> bool {
        self.being_written.contains(key)
    }

    /// Counts what each target gained from a written result. `before` is the binding as it was scheduled, `now` any
    /// monotonic time.
    pub fn assigned(&mut self, before: BindingRef<'_>, after: &[TargetCluster], options: &Options, now: Duration) {
        self.assign(before, after, &before.spec().graceful_eviction_tasks, options, now);
    }

    /// Counts what each target gained from a change that somebody else made, an eviction for example: what it takes
    /// from a cluster stays assumed there while its task holds the copy.
    pub fn observed(&mut self, old: BindingRef<'_>, new: &ResourceBindingSpec, options: &Options, now: Duration) {
        self.assign(old, &new.clusters, &new.graceful_eviction_tasks, options, now);
    }

    fn assign(
        &mut self,
        before: BindingRef<'_>,
        after: &[TargetCluster],
        tasks: &[GracefulEvictionTask],
        options: &Options,
        now: Duration,
    ) {
        let spec = before.spec();
        if !is_tracked(before) {
            return;
        }
        let key = before.key();
        // What was assigned to the cluster of a task still comes, or returns with the cluster.
        let kept = |cluster: &ClusterName| {
            after.iter().any(|target| target.name == *cluster.0)
                || tasks.iter().any(|task| task.from_cluster == *cluster.0)
        };
        let lost: Vec<_> = self
            .assumed
            .get(&key)
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
            .filter(|name| !kept(name))
            .cloned()
            .collect();
        for cluster in &lost {
            self.release(&key, cluster);
        }
        let sets = spec.placement.as_ref().is_some_and(|placement| schedules_component_sets(options, spec, placement));
        let whole: Arc<[Part]> = Demand::of(spec, sets).into_parts().into();
        for target in after {
            let cluster = ClusterName::from(target.name.as_str());
            let old = spec.target(&target.name);
            if sets {
                let gained =
                    gained_parts(&spec.components, old.map_or(&[], |old| old.components.as_slice()), old.is_some());
                if demand::pods(&gained) > 0 {
                    self.extend(&key, &cluster, &gained.into(), 1, 1, now + ASSUMED_TTL);
                }
                continue;
            }
            let has = i64::from(target.replicas);
            let had = match old {
                Some(old) => i64::from(old.replicas),
                None => self.returning(before, &cluster).min(has),
            };
            if has > had {
                self.extend(&key, &cluster, &whole, has - had, has, now + ASSUMED_TTL);
            } else {
                self.shrink(&key, &cluster, has);
            }
        }
    }

    /// Records that the clusters' reports of a binding changed. Assumptions end by themselves, see
    /// [`Capacity::expire`].
    pub fn reported(
        &mut self,
        key: &BindingKey,
        spec: &ResourceBindingSpec,
        old: &[AggregatedStatusItem],
        new: &[AggregatedStatusItem],
        now: Duration,
    ) {
        let Some(all) = self.assumed.get(key) else { return };
        let of = |list: &'_ [AggregatedStatusItem], name: &ClusterName| {
            list.iter().position(|item| item.cluster_name == *name.0)
        };
        let (mut removed, mut seen) = (Vec::new(), Vec::new());
        for (name, assumed) in all {
            let target = spec.target(&name.0).map(|target| target.replicas);
            let task = spec.eviction(&name.0).map(|task| task.replicas.unwrap_or(0));
            let Some(wanted) = target.or(task) else {
                // A report that refers to the previous result does not cover the targets of the one being written.
                if !self.being_written.contains(key) {
                    removed.push(name.clone());
                }
                continue;
            };
            let report = of(new, name).and_then(|at| new.get(at));
            let before = of(old, name).and_then(|at| old.get(at));
            if assumed.seen.is_none() && report.is_some_and(|report| shows(report, before, wanted)) {
                seen.push(name.clone());
            }
        }
        for cluster in &removed {
            self.release(key, cluster);
        }
        let ends = now + self.summaries_every + SUMMARY_DELAY;
        for cluster in &seen {
            self.end_at(key, cluster, now, ends);
        }
    }

    /// Restores the assumptions of a binding at start (specification/scheduling.md 16.33), or when a cluster of its
    /// result is lost: assignments that no cluster reports, if they are recent, or the cluster is not ready; and the
    /// latest ones until the next summary, since their pods may be newer than the last one. Assumptions that are there
    /// stay. `wall` is the present time.
    pub fn found(
        &mut self,
        binding: BindingRef<'_>,
        reports: &[AggregatedStatusItem],
        wall: Timestamp,
        options: &Options,
        now: Duration,
    ) {
        let spec = binding.spec();
        if !matches!(binding, BindingRef::Namespaced(_)) || !spec.is_workload() {
            return;
        }
        let (key, age) = (binding.key(), age_of_assignment(binding, wall));
        let known = self.assumed.get(&key);
        // A cluster that was not ready starts what it got since it is ready again.
        let waits = |cluster: &ClusterName| {
            let ready = self.ready_since.get(cluster).filter(|since| **since <= wall);
            let ready = ready.map(|since| wall.duration_since(*since));
            ready.map_or(age, |ready| age.min(Duration::try_from(ready).unwrap_or_default()))
        };
        let is_open = |cluster: &ClusterName| {
            (waits(cluster) < ASSUMED_TTL || self.is_silent(cluster))
                && known.is_none_or(|known| !known.contains_key(cluster))
        };
        let named = spec.clusters.iter().map(|target| (target.name.as_str(), target.replicas));
        let leaving = spec.graceful_eviction_tasks.iter().filter(|task| spec.target(&task.from_cluster).is_none());
        let leaving = leaving.map(|task| (task.from_cluster.as_str(), task.replicas.unwrap_or(0)));
        let all = named.chain(leaving).map(|(cluster, replicas)| (ClusterName::from(cluster), i64::from(replicas)));
        let open = all.filter(|(cluster, _)| is_open(cluster));
        let open: Vec<_> = open.map(|(cluster, replicas)| (waits(&cluster), cluster, replicas)).collect();
        if open.is_empty() {
            return;
        }
        let sets = spec.placement.as_ref().is_some_and(|placement| schedules_component_sets(options, spec, placement));
        let parts: Arc<[Part]> = Demand::of(spec, sets).into_parts().into();
        for (waits, cluster, replicas) in open {
            let ends = now + ASSUMED_TTL.saturating_sub(waits);
            let missing = if self.is_silent(&cluster) { SUMMARIES_MISSING_WHEN_LOST } else { SUMMARIES_MISSING };
            let may_lack = !self.summaries_every.is_zero() && age < self.summaries_every * missing + SUMMARY_DELAY;
            let wanted = if sets { 1 } else { replicas };
            let has = pods_in(reports, &cluster.0, wanted, sets);
            if has < wanted {
                self.extend(&key, &cluster, &parts, wanted - has, wanted, ends);
            } else if wanted > 0 && may_lack && spec.target(&cluster.0).is_some() {
                self.extend(&key, &cluster, &parts, wanted, wanted, ends);
                self.end_at(&key, &cluster, now, now + self.summaries_every + SUMMARY_DELAY);
                self.recounted.insert((cluster, key.clone()));
            }
        }
    }

    /// Forgets a deleted binding.
    pub fn forget(&mut self, key: &BindingKey) {
        self.withdraw_nomination(key);
        self.being_written.remove(key);
        let clusters: Vec<_> = self.assumed.get(key).into_iter().flatten().map(|(name, _)| name.clone()).collect();
        for cluster in &clusters {
            self.release(key, cluster);
        }
    }

    /// Returns whether some assumptions of a start may count twice: their clusters report the pods, and a summary that
    /// shows them for certain is still to come.
    #[must_use]
    pub fn is_recounting(&self) -> bool {
        self.recounted.iter().any(|(cluster, _)| !self.is_silent(cluster))
    }

    /// Lets [`Capacity::expire`] end the assumptions of a start in this cluster now, since it has sent a summary.
    /// Returns whether there are any.
    pub fn recount(&mut self, cluster: &ClusterName) -> bool {
        let first = (cluster.clone(), BindingKey { namespace: "".into(), name: "".into() });
        let here = self.recounted.range(first..).take_while(|(other, _)| other == cluster);
        let here: Vec<BindingKey> = here.map(|(_, key)| key.clone()).collect();
        for key in &here {
            self.move_end(key, cluster, Duration::ZERO);
        }
        !here.is_empty()
    }

    /// Ends expired assumptions. Returns the clusters whose available capacity grows by that. Those in clusters that
    /// are not ready are prolonged; so are those that the summary of their cluster may not show yet, at most five
    /// minutes. `is_summarized` tells whether the summary shows what the cluster reported until then.
    pub fn expire(
        &mut self,
        now: Duration,
        is_summarized: impl Fn(&ClusterName, Duration) -> bool,
    ) -> Vec<ClusterName> {
        let mut freed = Vec::new();
        while let Some((ends, key, cluster)) = self.ends.first().cloned() {
            if ends > now {
                break;
            }
            let seen = self.assumed.get(&key).and_then(|all| all.get(&cluster)).and_then(|assumed| assumed.seen);
            if self.is_silent(&cluster) {
                let prolonged = if seen.is_some() { self.summaries_every + SUMMARY_DELAY } else { ASSUMED_TTL };
                self.move_end(&key, &cluster, now + prolonged);
                continue;
            }
            if seen.is_some_and(|seen| now < seen + ASSUMED_TTL && !is_summarized(&cluster, seen)) {
                self.move_end(&key, &cluster, now + SUMMARY_DELAY);
                continue;
            }
            self.release(&key, &cluster);
            freed.push(cluster);
        }
        freed.sort();
        freed.dedup();
        freed
    }

    /// Records from now on which assumptions change, for [`Capacity::take_changed`].
    pub fn record_changes(&mut self) {
        self.changed.get_or_insert_default();
    }

    /// Marks the assumptions in a cluster as changed: an estimator that was just connected knows none of them.
    pub fn mark_changed(&mut self, cluster: &ClusterName) {
        let here = self.assumed.iter().filter(|(_, all)| all.contains_key(cluster));
        let here: Vec<_> = here.map(|(key, _)| (key.clone(), cluster.clone())).collect();
        if let Some(changed) = &mut self.changed {
            changed.extend(here);
        }
    }

    /// Takes the assumptions that changed, each with the pods of one replica or set and their number; `None` for one
    /// that ended.
    pub fn take_changed(&mut self) -> Vec<(BindingKey, ClusterName, Option<Assumption>)> {
        let changed = self.changed.as_mut().map(std::mem::take).unwrap_or_default();
        let present = |key: &BindingKey, cluster: &ClusterName| {
            let assumed = self.assumed.get(key)?.get(cluster)?;
            Some((assumed.parts.clone(), assumed.count))
        };
        changed
            .into_iter()
            .map(|(key, cluster)| {
                let now = present(&key, &cluster);
                (key, cluster, now)
            })
            .collect()
    }

    /// Assumptions in a cluster: each with the pods of one replica or set, and their number.
    pub fn assumed_in<'a>(
        &'a self,
        cluster: &'a ClusterName,
    ) -> impl Iterator<Item = (&'a BindingKey, &'a [Part], i64)> {
        self.assumed.iter().filter_map(move |(key, all)| {
            let assumed = all.get(cluster)?;
            Some((key, &*assumed.parts, assumed.count))
        })
    }

    fn note_change(&mut self, key: &BindingKey, cluster: &ClusterName) {
        if let Some(changed) = &mut self.changed {
            changed.insert((key.clone(), cluster.clone()));
        }
    }

    /// Time at which [`Capacity::expire`] has something to end.
    #[must_use]
    pub fn expires_next(&self) -> Option<Duration> {
        self.ends.first().map(|(ends, _, _)| *ends)
    }

    /// Number of assumptions.
    #[must_use]
    pub fn assumed_count(&self) -> usize {
        self.ends.len()
    }

    /// Replicas of an eviction task that estimates subtract, and that the binding gets back if it returns: those that
    /// the cluster reports, since its summary includes what the eviction has not removed yet, and those that are
    /// assumed, as far as they fit. Others never ran there.
    #[must_use]
    pub fn returning(&self, binding: BindingRef<'_>, cluster: &ClusterName) -> i64 {
        let Some(replicas) = binding.spec().eviction(&cluster.0).and_then(|task| task.replicas) else { return 0 };
        let replicas = i64::from(replicas.max(0));
        let reports = binding.status().map_or(&[][..], |status| &status.aggregated_status);
        let assumed = self.assumed.get(&binding.key()).and_then(|all| all.get(cluster));
        let unseen = assumed.filter(|assumed| assumed.seen.is_none());
        let unseen = unseen.map_or(0, |assumed| assumed.count.min(self.fits_without(assumed, cluster, binding)));
        replicas.min(pods_in(reports, &cluster.0, replicas, false) + unseen)
    }

    /// Replicas of the binding that fit by the summary beside what is assumed of others.
    fn fits_without(&self, assumed: &AssumedReplicas, cluster: &ClusterName, binding: BindingRef<'_>) -> i64 {
        let Some(slot) = self.slots.get(cluster) else { return 0 };
        let mut others = slot.assumed.clone();
        others.add(&assumed.parts, -assumed.count);
        slot.free.as_ref().map_or(0, |free| free.fits(&Demand::of(binding.spec(), false), &others, None))
    }

    fn extend(
        &mut self,
        key: &BindingKey,
        cluster: &ClusterName,
        parts: &Arc<[Part]>,
        more: i64,
        at_most: i64,
        ends: Duration,
    ) {
        let before = self.assumed.get(key).and_then(|all| all.get(cluster)).filter(|assumed| assumed.parts == *parts);
        let count = before.map_or(0, |assumed| assumed.count).saturating_add(more).min(at_most);
        self.release(key, cluster);
        self.insert(key, cluster, AssumedReplicas { parts: parts.clone(), count, ends, seen: None });
    }

    /// Adds an assumption of a binding that has none in this cluster.
    fn insert(&mut self, key: &BindingKey, cluster: &ClusterName, assumed: AssumedReplicas) {
        if self.ends.len() >= ASSUMED_MAX
            && let Some((_, key, cluster)) = self.ends.first().cloned()
        {
            self.release(&key, &cluster);
        }
        self.note_change(key, cluster);
        self.ends.insert((assumed.ends, key.clone(), cluster.clone()));
        self.answers.forget(cluster);
        self.slots.entry(cluster.clone()).or_default().add_assumed(&assumed.parts, assumed.count);
        self.assumed.entry(key.clone()).or_default().insert(cluster.clone(), assumed);
    }

    /// Reduces an assumption to at most `at_most` replicas.
    fn shrink(&mut self, key: &BindingKey, cluster: &ClusterName, at_most: i64) {
        let Some(assumed) = self.assumed.get(key).and_then(|all| all.get(cluster)) else { return };
        if assumed.count <= at_most {
            return;
        }
        let (parts, ends, seen) = (assumed.parts.clone(), assumed.ends, assumed.seen);
        self.release(key, cluster);
        if at_most > 0 {
            self.extend(key, cluster, &parts, at_most, at_most, ends);
            if let Some(seen) = seen {
                self.end_at(key, cluster, seen, ends);
            }
        }
    }

    fn end_at(&mut self, key: &BindingKey, cluster: &ClusterName, seen: Duration, ends: Duration) {
        let Some(assumed) = self.assumed.get_mut(key).and_then(|all| all.get_mut(cluster)) else { return };
        assumed.seen = Some(seen);
        if ends < assumed.ends {
            self.move_end(key, cluster, ends);
        }
    }

    fn move_end(&mut self, key: &BindingKey, cluster: &ClusterName, ends: Duration) {
        let Some(assumed) = self.assumed.get_mut(key).and_then(|all| all.get_mut(cluster)) else { return };
        self.ends.remove(&(assumed.ends, key.clone(), cluster.clone()));
        assumed.ends = ends;
        self.ends.insert((ends, key.clone(), cluster.clone()));
    }

    fn release(&mut self, key: &BindingKey, cluster: &ClusterName) {
        let Some(all) = self.assumed.get_mut(key) else { return };
        let Some(assumed) = all.remove(cluster) else { return };
        if all.is_empty() {
            self.assumed.remove(key);
        }
        self.recounted.remove(&(cluster.clone(), key.clone()));
        self.note_change(key, cluster);
        self.ends.remove(&(assumed.ends, key.clone(), cluster.clone()));
        self.answers.forget(cluster);
        let Some(slot) = self.slots.get_mut(cluster) else { return };
        slot.remove_assumed(&assumed.parts, assumed.count);
        if slot.is_unused() {
            self.slots.remove(cluster);
        }
    }
}

impl Slot {
    fn add_assumed(&mut self, parts: &Arc<[Part]>, count: i64) {
        *self.footprints.entry(parts.clone()).or_default() += count;
        self.count(parts, count);
        if let Some(nodes) = &mut self.nodes {
            place(nodes, parts, count);
        }
    }

    fn remove_assumed(&mut self, parts: &Arc<[Part]>, count: i64) {
        if let Some(all) = self.footprints.get_mut(parts) {
            *all -= count;
            if *all <= 0 {
                self.footprints.remove(parts);
            }
        }
        self.assumed = Assumed::default();
        let all: Vec<_> = self.footprints.iter().map(|(parts, count)| (parts.clone(), *count)).collect();
        for (parts, count) in &all {
            self.count(parts, *count);
        }
        self.place_again();
    }

    fn count(&mut self, parts: &[Part], count: i64) {
        self.assumed.add(parts, count);
    }
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

/// Returns whether replicas of the binding are assumed: namespaced workloads only.
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
