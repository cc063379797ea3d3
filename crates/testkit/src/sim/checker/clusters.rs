//! Clusters over time: their Ready condition, their taints, their failover episodes (invariants 5, 27 to 30).
//!
//! A policy adds its taint when the cluster was not Ready for its window, and removes it when it was Ready for the
//! other; the policies of the simulation have no other conditions.

use std::{collections::BTreeMap, time::Duration};

use ironclad_api::{
    Taint,
    annotations::DRAINING,
    cluster::{Cluster, SyncMode},
    conditions::{self, TRUE, UNKNOWN},
    taints::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_EXECUTE},
};
use ironclad_fleet::ClusterName;

use super::{Rules, Write, by_policy};

/// Tolerance in comparisons of stored times and thresholds.
const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Clusters(BTreeMap<ClusterName, State>);

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) taints: Vec<Taint>,
    /// Recently removed evicting taints, with the time of removal.
    former: Vec<(Taint, Duration)>,
    /// Number of the current or last episode.
    pub(super) episode: u64,
    pub(super) episode_began: Option<Duration>,
    is_ready: bool,
    /// Time at which its agent started last.
    agent_started: Option<Duration>,
    /// Time of the last change of Ready.
    pub(super) ready_since: Duration,
    /// The same in true time of day, seconds.
    ready_since_wall: i64,
    /// The same as in the condition, by the clock of its writer, seconds.
    ready_since_said: i64,
    /// Interval in which Ready had the opposite status before that, by the time of day.
    before: Option<(i64, i64)>,
    flipped: Option<Duration>,
    /// Time since which nothing new may be placed on it.
    repels_since: Option<Duration>,
    unavailable_since: Option<Duration>,
    /// Time of the last change of its taints, Ready, deletion or drain, which decide about the workloads on it.
    pub(super) changed: Duration,
    /// Times of changes of its evicting taints in this episode.
    pub(super) tainted_at: Vec<Duration>,
}

pub(super) fn evicts(taint: &Taint) -> bool {
    taint.effect == NO_EXECUTE || taint.effect == PREFER_NO_EXECUTE
}

impl State {
    /// Returns the evicting taints that a view of this age may contain.
    pub(super) fn causes(&self, at: Duration, stale: Duration) -> impl Iterator<Item = &Taint> {
        let lately = self.former.iter().filter(move |(_, until)| *until + stale >= at).map(|(taint, _)| taint);
        self.taints.iter().filter(|taint| evicts(taint)).chain(lately)
    }

    /// Returns `true` if no view allows a workload to be placed on it. Existing copies remain whatever its taints are
    /// (specification/failover.md 8.3).
    pub(super) fn surely_repels(&self, holds: bool, at: Duration, stale: Duration) -> bool {
        let since = if holds { self.unavailable_since } else { self.repels_since };
        since.is_some_and(|since| since + stale < at)
    }

    /// Returns `true` if it may have been Ready (or not) for this time in a view of allowed age.
    fn was(&self, ready: bool, window: i64, write: &Write, rules: &Rules) -> bool {
        // Both ends of the window may come from clocks that are wrong in opposite directions.
        let slack = 2 * rules.skew + 1;
        if self.is_ready == ready {
            return write.wall + slack >= self.ready_since_wall + window;
        }
        self.ready_since + rules.stale >= write.at && self.before.is_some_and(|(from, to)| to + slack >= from + window)
    }

    /// Returns `true` if it has been Ready long enough for every view.
    pub(super) fn is_surely_ready(&self, at: Duration, stale: Duration) -> bool {
        self.is_ready && at.saturating_sub(self.ready_since) > stale
    }
}

/// Fields of a cluster that decide which workloads may run on it.
fn says(cluster: &Cluster) -> (&[Taint], Option<&str>, bool, bool) {
    let drains = cluster.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(DRAINING));
    (&cluster.spec.taints, cluster.ready(), cluster.metadata.deletion_timestamp.is_some(), drains)
}

impl Clusters {
    pub(super) fn get(&self, name: &ClusterName) -> Option<&State> {
        self.0.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ClusterName, &State)> {
        self.0.iter()
    }

    /// A process that starts takes the first probe for what it is.
    pub(super) fn agent_started(&mut self, name: &ClusterName, at: Duration) {
        self.0.entry(name.clone()).or_default().agent_started = Some(at);
    }

    pub(super) fn see(
        &mut self,
        write: &Write,
        name: &ClusterName,
        old: Option<&Cluster>,
        new: Option<&Cluster>,
        rules: &Rules,
        starts: &[Duration],
        by_person: bool,
        broken: &mut Vec<String>,
    ) {
        let at = write.at;
        let Some(new) = new else {
            self.0.remove(name);
            return;
        };
        let uid = |cluster: &Cluster| cluster.metadata.uid.clone();
        if old.is_some_and(|old| uid(old) != uid(new)) {
            self.0.remove(name);
        }
        let state = self.0.entry(name.clone()).or_default();
        if old.map(says) != Some(says(new)) {
            state.changed = at;
        }
        for taint in new.spec.taints.iter().filter(|taint| taint.effect == NO_EXECUTE) {
            if !rules.asked_taints.contains(&(taint.key.clone(), taint.effect.clone())) {
                broken.push(format!("invariant 5: {name} has {}:{} for which nobody asked", taint.key, taint.effect));
            }
        }
        for taint in &new.spec.taints {
            let same = |t: &&Taint| t.key == taint.key && t.effect == taint.effect;
            if let Some(before) = state.taints.iter().find(same)
                && before.time_added.is_some()
                && before.time_added != taint.time_added
            {
                broken.push(format!("invariant 28: timeAdded of {}:{} on {name} moved", taint.key, taint.effect));
            }
            if new.spec.taints.iter().filter(same).count() > 1 {
                broken.push(format!("{name} has {}:{} twice", taint.key, taint.effect));
            }
        }
        for taint in state.taints.iter().filter(|taint| evicts(taint)) {
            let stays = new.spec.taints.iter().any(|t| t.key == taint.key && t.effect == taint.effect);
            if !stays {
                state.former.push((taint.clone(), at));
            }
        }
        let owned = |taints: &[Taint]| taints.iter().any(by_policy);
        if let Some((add, remove)) = rules.windows {
            match (owned(&state.taints), owned(&new.spec.taints)) {
                (false, true) if !state.was(false, add, write, rules) => broken
                    .push(format!("invariant 27: {name} is tainted by policy before it was not Ready for long enough")),
                (true, false) if !by_person && !state.was(true, remove, write, rules) => broken
                    .push(format!("invariant 27: {name} loses its policy's taint before it was Ready for long enough")),
                _ => {}
            }
        }
        let faulty = |taints: &[Taint]| taints.iter().any(evicts);
        if faulty(&new.spec.taints) && !faulty(&state.taints) {
            state.episode += 1;
            state.episode_began = Some(at);
            state.tainted_at.clear();
        }
        let evicting = |taints: &[Taint]| taints.iter().filter(|taint| evicts(taint)).cloned().collect::<Vec<_>>();
        if evicting(&new.spec.taints) != evicting(&state.taints) {
            state.tainted_at.push(at);
        }
        state.taints.clone_from(&new.spec.taints);
        state.former.retain(|(_, until)| at.saturating_sub(*until) < Duration::from_secs(600));
        if new.spec.sync_mode == SyncMode::Push && new.ready() == Some(UNKNOWN) {
            broken.push(format!("invariant 30: {name} is a Push cluster and Unknown"));
        }
        if let Some(ready) = new.ready().map(|status| status == TRUE)
            && (ready != state.is_ready || old.is_none_or(|old| old.ready().is_none()))
        {
            let first = old.is_none_or(|old| old.ready().is_none());
            // A write may arrive late: the transition time in the condition counts.
            let said = new.status.as_ref().and_then(|s| conditions::get(&s.conditions, conditions::cluster::READY));
            let said = said.map_or(write.wall, |condition| condition.last_transition_time.0.as_second());
            let since = said.min(write.wall);
            // The writer's clock may be wrong, but by the same amount at both flips.
            let apart = (since - state.ready_since_wall).max(said - state.ready_since_said);
            let apart = Duration::from_secs(u64::try_from(apart).unwrap_or_default());
            // Silence of an agent begins and ends at once.
            let is_unknown = |cluster: &Cluster| cluster.ready() == Some(UNKNOWN);
            let by_silence = new.spec.sync_mode == SyncMode::Pull && (is_unknown(new) || old.is_some_and(is_unknown));
            if let (false, false, Some(last)) = (first, by_silence, state.flipped)
                && at - last + SECOND < rules.debounce
                && apart + SECOND < rules.debounce
                && !starts.iter().chain(&state.agent_started).any(|start| (last..=at).contains(start))
            {
                broken.push(format!("invariant 29: Ready of {name} flipped twice within {:?}", at - last));
            }
            state.before = (!first).then_some((state.ready_since_wall, since));
            state.is_ready = ready;
            state.ready_since = at;
            state.ready_since_wall = since;
            state.ready_since_said = said;
            state.flipped = (!by_silence).then_some(at);
        }
        let unavailable = new.metadata.deletion_timestamp.is_some() || !new.is_ready();
        let repels = unavailable || new.spec.taints.iter().any(|taint| taint.effect == NO_SCHEDULE);
        state.unavailable_since = unavailable.then(|| state.unavailable_since.unwrap_or(at));
        state.repels_since = repels.then(|| state.repels_since.unwrap_or(at));
    }
}
