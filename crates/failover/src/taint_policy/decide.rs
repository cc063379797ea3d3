//! One pass over all policies of one cluster (specification/failover.md 2.4 to 2.7).

use std::{collections::BTreeMap, time::Duration};

use ironclad_api::{
    Taint, Time,
    cluster::Cluster,
    events::{TAINT_CLUSTER_FAILED, TAINT_CLUSTER_SUCCEED, TAINT_CONFLICT, TAINT_ORPHANED},
    policy::{ClusterTaintPolicy, TaintPolicyCluster, TaintPolicyTaint, TaintState},
    work::ObjectReference,
};
use ironclad_fleet::{Event, Plan, because::taint_policy::Reason, cluster_reference, reference};
use jiff::Timestamp;

use super::{
    Decision, Effect, Memory, Seen, Watches,
    predicate::is_known,
    rule::{Item, Rule, Spelling},
    watch,
};
use crate::taints::{self, Owners, TaintId};

/// Decides which taints the policies require on the cluster, the writes, and the next reconcile. `now` is the time of
/// day, `mono` monotonic time since any fixed moment of the process.
pub fn decide(seen: &Seen<'_>, now: Timestamp, mono: Duration) -> Decision {
    let cluster = seen.cluster;
    let uid = cluster.metadata.uid.clone().unwrap_or_default();
    let mut memory = Memory { cluster: uid, ..Memory::default() };
    let mut plan = Plan::default();
    if cluster.metadata.deletion_timestamp.is_some() {
        plan.note(Reason::Leaving.into());
        return Decision { plan, memory, next: None, status: BTreeMap::new() };
    }
    let rules = rules(seen, &mut plan);
    let before = seen.memory.filter(|before| before.cluster == memory.cluster);
    let mut pass = Pass::of(cluster, mono);
    let watched: Vec<(Rule<'_>, Watches)> = rules
        .into_iter()
        .map(|rule| {
            let key = (rule.uid.to_owned(), rule.generation);
            let known = before.and_then(|before| before.rules.get(&key)).copied();
            let watches = watch(&rule, cluster, known, now, mono);
            memory.rules.insert(key, watches);
            (rule, watches)
        })
        .collect();
    pass.drop_lost_owners(&watched, &mut plan);
    for (rule, watches) in &watched {
        for item in &rule.items {
            pass.add(rule, watches, item, now, &mut plan);
        }
        for item in &rule.items {
            pass.remove(rule, watches, item, &watched, &mut plan);
        }
    }
    let taints = pass.taints();
    let mut events = std::mem::take(&mut pass.events);
    if let Some(patch) = taints::patch(cluster, &taints, &pass.owners) {
        plan.effects.push(Effect::Patch(patch));
    }
    if taints != cluster.spec.taints {
        events.push(Event::normal(cluster_reference(cluster), TAINT_CLUSTER_SUCCEED, taints::message(&taints)));
    }
    plan.effects.extend(events.into_iter().map(Effect::Event));
    let reported = before.map(|before| &before.reported);
    for (rule, event) in conflicts(&watched, mono, &mut plan).into_iter().chain(unusable(&watched)) {
        let said = format!("{} {}", rule.uid, event.message);
        if reported.is_none_or(|reported| !reported.contains(&said)) {
            plan.effects.push(Effect::Event(event));
        }
        memory.reported.insert(said);
    }
    let status = watched
        .iter()
        .map(|(rule, watches)| (rule.name.to_owned(), status(rule, watches, &taints, &pass.owners, cluster)));
    let status = status.collect();
    Decision { plan, memory, next: pass.next, status }
}

/// The rules that select the cluster, the oldest first; ties break by name.
fn rules<'a>(seen: &Seen<'a>, plan: &mut Plan<Effect>) -> Vec<Rule<'a>> {
    let mut rules = Vec::new();
    for policy in seen.policies {
        // One that is being deleted asserts nothing any more.
        if policy.metadata.deletion_timestamp.is_some() {
            continue;
        }
        match Rule::of(policy) {
            Err(mixed) => {
                let policy = policy.metadata.name.clone().unwrap_or_default();
                plan.note(Reason::Unusable { policy, why: mixed.to_string() }.into());
            }
            Ok(rule) if rule.selects(seen.cluster) => rules.push(rule),
            Ok(rule) => plan.note(Reason::NotSelected { policy: rule.name.to_owned() }.into()),
        }
    }
    rules.sort_by(|a, b| (a.created, a.name).cmp(&(b.created, b.name)));
    rules
}

/// A taint in the making.
struct Slot {
    taint: Taint,
    present: bool,
}

/// The taints and their owners while the policies pass over them.
struct Pass<'a> {
    cluster: &'a Cluster,
    slots: Vec<Slot>,
    owners: Owners,
    /// As it was before the first policy: what protects a taint does not depend on the order of the policies.
    owned_before: Owners,
    events: Vec<Event>,
    next: Option<Duration>,
    mono: Duration,
}

impl<'a> Pass<'a> {
    fn of(cluster: &'a Cluster, mono: Duration) -> Self {
        let slots = cluster.spec.taints.iter().map(|taint| Slot { taint: taint.clone(), present: true }).collect();
        let owners = Owners::of(cluster);
        Self { cluster, slots, owned_before: owners.clone(), owners, events: Vec::new(), next: None, mono }
    }

    fn taints(&self) -> Vec<Taint> {
        self.slots.iter().filter(|slot| slot.present).map(|slot| slot.taint.clone()).collect()
    }

    fn is_present(&self, id: &TaintId) -> bool {
        self.slots.iter().any(|slot| slot.present && id.is(&slot.taint))
    }

    fn wait(&mut self, left: Duration) -> u64 {
        self.next = Some(self.next.map_or(left, |next| next.min(left)));
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    /// A policy that was deleted, or no longer selects the cluster or names the taint, owns nothing;
    /// a missing taint has no owner. The taints remain (specification/failover.md 2.7).
    fn drop_lost_owners(&mut self, watched: &[(Rule<'_>, Watches)], plan: &mut Plan<Effect>) {
        let present: Vec<String> =
            self.cluster.spec.taints.iter().map(|taint| TaintId::of(taint).to_string()).collect();
        let lost = self.owners.retain(|taint, policy| {
            let rule = watched.iter().find(|(rule, _)| rule.name == policy);
            present.iter().any(|id| id == taint)
                && rule.is_some_and(|(rule, _)| rule.items.iter().any(|item| item.id.to_string() == taint))
        });
        self.owned_before = self.owners.clone();
        for taint in lost.into_iter().filter(|taint| present.contains(taint)) {
            let reason = Reason::Orphaned { taint };
            self.events.push(Event::normal(cluster_reference(self.cluster), TAINT_ORPHANED, reason.to_string()));
            plan.note(reason.into());
        }
    }

    fn add(&mut self, rule: &Rule<'_>, watches: &Watches, item: &Item<'_>, now: Timestamp, plan: &mut Plan<Effect>) {
        if !watches.add.holds {
            return;
        }
        let (policy, taint) = (rule.name.to_owned(), item.id.to_string());
        let (present, left) = (self.is_present(&item.id), watches.add.left_of(item.add_after, self.mono));
        if !left.is_zero() {
            // Also if the taint exists: the policy becomes its owner.
            if !self.owners.owns(rule.name, &item.id) {
                let wait_ms = self.wait(left);
                plan.note(Reason::AddPending { policy, taint, wait_ms }.into());
            }
            return;
        }
        if present {
            // A policy owns only taints that a policy added, not those of a person.
            if self.owners.is_owned(&item.id) {
                self.owners.add(&item.id, rule.name);
            }
            plan.note(Reason::Asserted { policy, taint }.into());
            return;
        }
        match self.slots.iter_mut().find(|slot| item.id.is(&slot.taint)) {
            // An older policy took it away in this very pass: on the whole nothing happens to it.
            Some(slot) => slot.present = true,
            None => {
                let value = Some(item.value.to_owned()).filter(|value| !value.is_empty());
                let added = Timestamp::from_second(now.as_second()).unwrap_or(now);
                let TaintId { key, effect } = item.id.clone();
                self.slots
                    .push(Slot { taint: Taint { key, effect, value, time_added: Some(Time(added)) }, present: true });
            }
        }
        self.owners.add(&item.id, rule.name);
        plan.note(Reason::Added { policy, taint }.into());
    }

    fn remove(
        &mut self,
        rule: &Rule<'_>,
        watches: &Watches,
        item: &Item<'_>,
        watched: &[(Rule<'_>, Watches)],
        plan: &mut Plan<Effect>,
    ) {
        let owns = self.owners.owns(rule.name, &item.id);
        // The seed's spelling takes away only what it put.
        let may = owns || rule.spelling == Spelling::AddRemove;
        if !watches.remove.holds || !may || !self.is_present(&item.id) {
            return;
        }
        let (policy, taint) = (rule.name.to_owned(), item.id.to_string());
        let left = watches.remove.left_of(item.remove_after, self.mono);
        if !left.is_zero() {
            let wait_ms = self.wait(left);
            plan.note(Reason::RemovePending { policy, taint, wait_ms }.into());
            return;
        }
        self.owners.remove(&item.id, rule.name);
        let wanted = match rule.spelling {
            Spelling::Match => self.owners.is_owned(&item.id),
            Spelling::AddRemove => watched.iter().any(|(other, watches)| self.holds_on(other, watches, &item.id)),
        };
        if wanted {
            plan.note(Reason::Shared { policy, taint }.into());
            return;
        }
        for slot in self.slots.iter_mut().filter(|slot| item.id.is(&slot.taint)) {
            slot.present = false;
        }
        let id = item.id.to_string();
        self.owners.retain(|taint, _| taint != id);
        plan.note(Reason::Removed { policy, taint }.into());
    }

    /// True if a policy with `addOnConditions` keeps the taint: it requires it, or added it and its remove window still
    /// runs. Without this the two spellings could add and remove for ever (specification/failover.md 2.6).
    fn holds_on(&self, rule: &Rule<'_>, watches: &Watches, taint: &TaintId) -> bool {
        let Some(item) = rule.item(taint).filter(|_| rule.spelling == Spelling::Match) else { return false };
        let owned = self.owned_before.owns(rule.name, taint);
        if watches.add.holds {
            owned || watches.add.left_of(item.add_after, self.mono).is_zero()
        } else {
            owned && !watches.remove.left_of(item.remove_after, self.mono).is_zero()
        }
    }
}

/// Policies that want the value of a taint that an older one gave another.
fn conflicts<'a>(
    watched: &'a [(Rule<'a>, Watches)],
    mono: Duration,
    plan: &mut Plan<Effect>,
) -> Vec<(&'a Rule<'a>, Event)> {
    let mut first: BTreeMap<&TaintId, (&Rule<'_>, &str)> = BTreeMap::new();
    let mut found = Vec::new();
    for (rule, watches) in watched.iter().filter(|(_, watches)| watches.add.holds) {
        for item in rule.items.iter().filter(|item| watches.add.left_of(item.add_after, mono).is_zero()) {
            let (older, value) = *first.entry(&item.id).or_insert((rule, item.value));
            if value != item.value {
                let (policy, taint) = (rule.name.to_owned(), item.id.to_string());
                let reason = Reason::Conflict { policy, taint, older: older.name.to_owned() };
                found.push((rule, Event::warning(about_policy(rule.policy), TAINT_CONFLICT, reason.to_string())));
                plan.note(reason.into());
            }
        }
    }
    found
}

/// Operators that mean nothing.
fn unusable<'a>(watched: &'a [(Rule<'a>, Watches)]) -> Vec<(&'a Rule<'a>, Event)> {
    let bad = |rule: &Rule<'_>| rule.add.iter().chain(rule.remove).find(|condition| !is_known(condition)).cloned();
    let event = |rule: &'a Rule<'a>| {
        let why = format!("operator {:?} is not one of In, NotIn", bad(rule)?.operator);
        let reason = Reason::Unusable { policy: rule.name.to_owned(), why };
        Some((rule, Event::warning(about_policy(rule.policy), TAINT_CLUSTER_FAILED, reason.to_string())))
    };
    watched.iter().filter_map(|(rule, _)| event(rule)).collect()
}

/// Entry of the cluster in a policy's status (specification/failover.md 2.9).
fn status(
    rule: &Rule<'_>,
    watches: &Watches,
    taints: &[Taint],
    owners: &Owners,
    cluster: &Cluster,
) -> TaintPolicyCluster {
    let one = |item: &Item<'_>| {
        let existing = taints.iter().find(|taint| item.id.is(taint));
        let leaves = watches.remove.holds
            && match rule.spelling {
                Spelling::Match => owners.owns(rule.name, &item.id),
                // Once its window passed only another policy can be what keeps the taint.
                Spelling::AddRemove => !watches.add.holds && !item.remove_after.is_zero(),
            };
        let (state, at) = match existing {
            Some(_) if leaves => (TaintState::Removing, Some(Time(watches.remove.end_of(item.remove_after)))),
            Some(taint) => (TaintState::Added, taint.time_added.clone()),
            None if watches.add.holds && !(watches.remove.holds && rule.spelling == Spelling::AddRemove) => {
                (TaintState::Pending, Some(Time(watches.add.end_of(item.add_after))))
            }
            None => (TaintState::NotAdded, None),
        };
        let TaintId { key, effect } = item.id.clone();
        TaintPolicyTaint { key, effect, state: Some(state), at }
    };
    TaintPolicyCluster {
        name: cluster.metadata.name.clone().unwrap_or_default(),
        matched: watches.add.holds,
        since: Some(Time(Timestamp::from_second(watches.add.since.as_second()).unwrap_or_default())),
        taints: rule.items.iter().map(one).collect(),
    }
}

fn about_policy(policy: &ClusterTaintPolicy) -> ObjectReference {
    reference("policy.karmada.io/v1alpha1", "ClusterTaintPolicy", &policy.metadata)
}
