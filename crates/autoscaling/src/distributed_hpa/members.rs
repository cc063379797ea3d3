//! Members of the division: what they report, which bounds they get, and their Works.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{
    StringMap, annotations,
    cluster::Cluster,
    conditions, events, labels,
    policy::OverridePolicy,
    work::{Manifest, Work},
};
use ironclad_fleet::{
    Because, ClusterName, Event, Plan,
    because::{
        distributed_hpa::{Left, Reason},
        propagation,
    },
};
use ironclad_interpreter::MemberReplicas;
use ironclad_propagation::{
    new_ids::NewIds,
    overrides,
    work::{
        Owner, key_of,
        owned::{self, DesiredWork, OfBinding, Write},
        owner,
    },
};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    Context, Effect, Placed, Seen, budget,
    effective::{self, Unreachable},
    ending, is_ready,
    lend::{self, Account},
    manifest::{self, Version},
    moved, own_works, quota, reference_of,
    report::{self, Report},
    scaler::{Scaler, Weights},
    split::{Bounds, Mode, split},
    state::{self, ClusterState, Hold},
    target_works, text, work_key,
};

/// Time after which reports count again, although a member did not confirm the replicas that a user set.
pub(super) const HOLD_MAX: SignedDuration = SignedDuration::from_secs(90);
/// Reason with which a member says that it wants more than its maximum.
const TOO_MANY_REPLICAS: &str = ironclad_api::reasons::federated_hpa::TOO_MANY_REPLICAS;

/// Works by cluster, and what they say.
pub(super) struct Reports<'a> {
    /// Works of the autoscaler.
    pub(super) own: BTreeMap<ClusterName, &'a Arc<Work>>,
    /// Works of the target.
    pub(super) target: BTreeMap<ClusterName, &'a Arc<Work>>,
    /// Reports of the members that can be reached.
    pub(super) all: BTreeMap<ClusterName, Report>,
}

impl<'a> Reports<'a> {
    pub(super) fn read(seen: &Seen<'a>) -> Self {
        let own = own_works(seen);
        let reachable = own.iter().filter(|(cluster, _)| is_ready(seen.clusters, cluster));
        let target = target_works(seen);
        let of_target = |cluster: &ClusterName| target.get(cluster).map(|work| &***work);
        let read = |(cluster, work): (&ClusterName, &&Arc<Work>)| {
            Some((cluster.clone(), seen.scaler.report(work, of_target(cluster))?))
        };
        let all = reachable.filter_map(read).collect();
        Self { own, target, all }
    }

    /// True if a cluster still has the target, or is about to get it.
    pub(super) fn has_target(&self, cluster: &ClusterName) -> bool {
        self.target.get(cluster).is_some_and(|work| work.metadata.deletion_timestamp.is_none())
    }
}

/// Cluster with a share.
pub(super) struct Member<'a> {
    cluster: &'a Arc<Cluster>,
    weight: u32,
    /// The version of a HorizontalPodAutoscaler; objects of other kinds are copied as they are.
    version: Option<Version>,
}

/// Clusters of the target.
pub(super) struct Fleet<'a> {
    /// Those with a share.
    pub(super) members: BTreeMap<ClusterName, Member<'a>>,
    /// Those of the binding without one.
    pub(super) left: BTreeMap<ClusterName, Left>,
    /// True if the OverridePolicy is for other replicas than the template has.
    pub(super) outdated: bool,
    /// Problems for the message of condition `AbleToScale`.
    pub(super) warnings: Vec<String>,
}

/// Finds the members, and brings the state up to what they report.
pub(super) fn observe<'a>(
    cx: &mut Context<'a>,
    target: &Placed<'_>,
    reports: &Reports<'_>,
    plan: &mut Plan<Effect>,
) -> Fleet<'a> {
    let (seen, now) = (cx.seen, cx.seen.now);
    let rule = if is_strict(cx) { Unreachable::Stay } else { Unreachable::LeftAfter(seen.options.failure_grace) };
    let given_away: BTreeSet<ClusterName> =
        cx.state.clusters.iter().filter(|(_, state)| state.given_away).map(|(cluster, _)| cluster.clone()).collect();
    let found = effective::effective(&target.binding.spec, seen.clusters, rule, &given_away, now);
    if let Some(next) = found.next {
        cx.again_in(next);
    }
    let mut fleet = Fleet { members: BTreeMap::new(), left: found.left, outdated: false, warnings: Vec::new() };
    let mode = Mode::parse(cx.annotation(annotations::FEDERATED_HPA_SPLIT)).unwrap_or_else(|warning| {
        fleet.warnings.push(warning);
        Mode::default()
    });
    for (name, member) in found.members {
        let weight = mode.weight(&name, member.replicas);
        let before = cx.state.clusters.get(&name).map(|state| state.api_version.as_str());
        let (is_served, version) = match seen.scaler.kind.is_hpa() {
            true => manifest::version(member.cluster, before).map_or((false, None), |version| (true, Some(version))),
            false => (seen.scaler.is_served_by(member.cluster), None),
        };
        if is_served {
            fleet.members.insert(name, Member { cluster: member.cluster, weight, version });
        } else {
            let gvk = &seen.scaler.kind.gvk;
            let why = if seen.scaler.kind.is_hpa() { Left::NoVersion } else { Left::NotServed { kind: gvk.clone() } };
            fleet.left.insert(name, why);
        }
    }
    for (cluster, why) in &fleet.left {
        let reason = Reason::ClusterLeft { cluster: cluster.clone(), why: why.clone() };
        if matches!(why, Left::NoVersion | Left::NotServed { .. } | Left::NotReady) {
            fleet.warnings.push(reason.to_string());
        }
        plan.note(reason.into());
    }
    let replicas = target.replicas();
    let scaled_from = cx.state.observed_replicas.filter(|before| *before != replicas);
    if let Some(from) = scaled_from {
        plan.note(Reason::UserScaled { from, to: replicas }.into());
    }
    cx.state.observed_replicas = Some(replicas);
    cx.state.hand_over = None;
    fleet.outdated =
        scaled_from.is_some() || seen.policy.and_then(observed_by).is_some_and(|observed| observed != replicas);

    let mut states = std::mem::take(&mut cx.state.clusters);
    states.retain(|cluster, _| fleet.members.contains_key(cluster) || reports.own.contains_key(cluster));
    for cluster in fleet.members.keys().chain(reports.own.keys()) {
        states.entry(cluster.clone()).or_default();
    }
    for (cluster, state) in &mut states {
        let report = reports.all.get(cluster);
        take(state, report, reports.own.contains_key(cluster), now);
        let scaled = report.and_then(|report| report.last_scale_time.as_ref()).map(|time| time.0);
        if fleet.members.contains_key(cluster) {
            state.given_away = false;
            if scaled_from.is_some() {
                state.hold = Some(Hold { since: now, applied: None, scaled });
            } else if std::mem::take(&mut state.left) && state.hold.is_none() {
                // Its report may be from before it was lost.
                state.hold = Some(Hold { since: now, applied: Some(now), scaled });
            }
        } else {
            state.left = true;
            // Without members nobody takes a share.
            state.given_away |= !fleet.members.is_empty();
            state.loan = 0;
            state.hold = None;
        }
        if let Some(hold) = &mut state.hold {
            // A copy with the number of before the change may be applied until the scheduler has divided the new one.
            let work = reports.target.get(cluster).filter(|_| ending::is_scheduled(target, replicas));
            let work = work.filter(|work| is_applied_for(work, replicas));
            if hold.applied.is_none() && work.is_some() {
                hold.applied = Some(now);
            }
            let confirmed = report.is_some_and(|report| {
                let asked = reports.target.get(cluster).and_then(|work| asked(work, target.pointer));
                asked == Some(i64::from(report.current_replicas)) || hold.scaled != scaled
            });
            let ends = hold.applied.map(|applied| (confirmed, state::left(applied, HOLD_MAX, now)));
            match ends {
                Some((true, _) | (_, None)) => state.hold = None,
                Some((false, Some(left))) => cx.next = cx.next.min(left),
                None => {}
            }
        }
    }
    cx.state.clusters = states;
    fleet
}

/// Takes a report into the state of its cluster.
fn take(state: &mut ClusterState, report: Option<&Report>, has_work: bool, now: jiff::Timestamp) {
    let Some(report) = report else {
        if has_work && state.current.is_some() && state.silent_since.is_none() {
            state.silent_since = Some(now);
        }
        return;
    };
    let conditions: BTreeMap<String, String> = report
        .conditions
        .iter()
        .map(|condition| {
            let reason = &condition.reason;
            let text = if condition.is_true() { reason.clone() } else { format!("{}: {reason}", condition.status) };
            (condition.type_.clone(), text)
        })
        .collect();
    let before = (state.current, state.desired, &state.conditions);
    let bounds = Bounds { min: state.min, max: state.max };
    let decided = report.decided().map(|decided| within(decided, bounds)).or(state.desired);
    if before != (Some(report.current_replicas), decided, &conditions) {
        state.reported_at = Some(now);
    }
    state.current = Some(report.current_replicas.max(0));
    state.desired = decided;
    state.conditions = conditions;
    state.silent_since = None;
    if report.current_replicas.max(report.desired_replicas) <= state.max {
        state.may_have = None;
    }
}

/// The number within the bounds that the member has; those of a state without bounds are not known.
pub(super) fn within(decided: i32, bounds: Bounds) -> i32 {
    if bounds.max < 1 { decided } else { decided.clamp(bounds.min.min(bounds.max), bounds.max) }
}

/// Divides minimum and maximum over the members. Returns the writes of Works.
pub(super) fn divide(
    cx: &mut Context<'_>,
    target: &Placed<'_>,
    fleet: &Fleet<'_>,
    reports: &Reports<'_>,
    ids: &mut NewIds,
    plan: &mut Plan<Effect>,
) -> Vec<Write> {
    let spec = &cx.seen.scaler.hpa.spec;
    let mode = Mode::parse(cx.annotation(annotations::FEDERATED_HPA_SPLIT)).unwrap_or_default();
    let weights: BTreeMap<ClusterName, u32> =
        fleet.members.iter().map(|(cluster, member)| (cluster.clone(), member.weight)).collect();
    let scaler = cx.seen.scaler;
    let template = scaler.template();
    let mut shares = split(&mode, spec.min_replicas.unwrap_or(1), spec.max_replicas, &weights);
    for (cluster, share) in &mut shares {
        if !scaler.kind.has_bounds() {
            let mut object = template.clone();
            scaler.divide_totals(&mut object, &mode, cluster, &weights);
            (share.min, share.max) = scaler.kind.bounds(&object);
        } else if scaler.may_rest() {
            share.min = 0;
        }
    }
    if !scaler.kind.has_bounds() {
        return at_moments(cx, target, fleet, reports, (&template, &mode, &weights, &shares), ids, plan);
    }
    takes_over(cx, target, fleet, reports, &weights, plan);
    // Loans come afterwards: what a quota takes from a share is no headroom to lend.
    let shares = within_quotas(cx, target, shares, plan);
    let maxima = maxima(cx, &mode, &shares, &weights, reports, plan);
    let members = budgeted(cx, target, &mode, &shares, &maxima, reports);
    let wanted = budget::wanted(&members);
    let left = reports.own.iter().filter(|(cluster, _)| !members.contains_key(*cluster));
    let counts = |cluster: &ClusterName| !matches!(fleet.left.get(cluster), Some(Left::NotReady | Left::Gone));
    let elsewhere = left.filter(|(cluster, _)| counts(cluster)).map(|(cluster, _)| i64::from(has(cx, cluster)));
    let now = budget::now(&members, &wanted, elsewhere.sum());
    let made = |bounds, cluster: &ClusterName| {
        let mut object = template.clone();
        scaler.divide_totals(&mut object, &mode, cluster, &weights);
        (object, bounds)
    };
    let mut writes: Vec<Write> = Vec::new();
    for (cluster, member) in &fleet.members {
        let (share, max, has) = (shares[cluster], now[cluster], members[cluster].has);
        let raised =
            cx.state.clusters.get(cluster).and_then(|state| state.raised.as_ref()).map_or(0, |raised| raised.to);
        let bounds = Bounds { min: share.min.max(raised).min(max), max };
        let existing = existing(cx.seen, cluster);
        let reason = Reason::Share { cluster: cluster.clone(), min: bounds.min, max, share: share.max };
        let state = cx.state.clusters.entry(cluster.clone()).or_default();
        state.share = share.max;
        state.loan = wanted[cluster].saturating_sub(share.max);
        if wanted[cluster] > max {
            plan.note(Reason::GrowsLater { cluster: cluster.clone(), max: wanted[cluster] }.into());
        }
        if existing.is_none() && (waits(target, cluster, reports, plan) || max < 1) {
            continue;
        }
        state.may_have = (has > max).then_some(has);
        (state.min, state.max) = (bounds.min, bounds.max);
        if let Some(write) = write(cx, plan, (cluster, member), existing, &made(bounds, cluster), ids) {
            let runs = members[cluster].runs;
            if mode != Mode::PerCluster && runs > max && members[cluster].written > max {
                let cut = Reason::Cut { cluster: cluster.clone(), runs, max };
                let about = reference_of(cx.seen.scaler);
                plan.effects.push(Effect::Event(Event::normal(about, events::REPLICAS_CUT, cut.to_string())));
                plan.note(cut.into());
            }
            plan.note(reason.into());
            writes.push(write);
        }
    }
    writes.extend(leaving(cx, fleet, reports, plan));
    writes
}

/// Raises the minima of the members by what leaves other clusters, and lets what was raised before end.
fn takes_over(
    cx: &mut Context<'_>,
    target: &Placed<'_>,
    fleet: &Fleet<'_>,
    reports: &Reports<'_>,
    weights: &Weights,
    plan: &mut Plan<Effect>,
) {
    let now = cx.seen.now;
    let moves = |cluster: &ClusterName| {
        matches!(fleet.left.get(cluster), Some(Left::Evicted | Left::Tainted { .. })) && reports.has_target(cluster)
    };
    let runs = |state: &ClusterState| state.current.max(state.desired).unwrap_or(0);
    let (mut leaving, mut leaves) = (false, 0_i32);
    for (cluster, state) in &mut cx.state.clusters {
        let is_leaving = moves(cluster);
        leaving |= is_leaving;
        if is_leaving && !state.taken_over {
            leaves = leaves.saturating_add(runs(state));
        }
        // The load of a member that was lost has come to the others already.
        state.taken_over = is_leaving || state.given_away;
    }
    let mut members = BTreeMap::new();
    for (cluster, state) in &mut cx.state.clusters {
        let is_member = fleet.members.contains_key(cluster);
        let before = state.raised.take().filter(|_| is_member);
        state.raised = before.and_then(|raised| moved::lasting(raised, runs(state), leaving, now));
        if is_member {
            let weight = weights.get(cluster).copied().unwrap_or(0);
            // A copy begins with what the binding gives it.
            let given = i32::try_from(target.given(cluster)).unwrap_or(i32::MAX);
            let runs = state.current.max(state.desired).unwrap_or(given);
            members.insert(cluster.clone(), moved::Member { weight, runs, raised: state.raised.clone() });
        }
    }
    for (cluster, raised) in moved::raise(&members, leaves, now) {
        plan.note(Reason::TakesOver { cluster: cluster.clone(), min: raised.to }.into());
        cx.state.clusters.entry(cluster).or_default().raised = Some(raised);
    }
    let next = cx.state.clusters.values().filter_map(|state| state.raised.as_ref());
    let next = next.filter_map(|raised| state::left(raised.since, moved::RAISED_MAX, now)).min();
    next.into_iter().for_each(|wait| cx.again_in(wait));
}

/// The Works of an object that says numbers for moments: each member has its part, and nothing is lent or held back.
fn at_moments(
    cx: &mut Context<'_>,
    target: &Placed<'_>,
    fleet: &Fleet<'_>,
    reports: &Reports<'_>,
    (template, mode, weights, shares): (&Value, &Mode, &Weights, &BTreeMap<ClusterName, Bounds>),
    ids: &mut NewIds,
    plan: &mut Plan<Effect>,
) -> Vec<Write> {
    let mut writes: Vec<Write> = Vec::new();
    for (cluster, member) in &fleet.members {
        let Some(bounds) = shares.get(cluster).copied() else { continue };
        let existing = existing(cx.seen, cluster);
        if existing.is_none() && waits(target, cluster, reports, plan) {
            continue;
        }
        let state = cx.state.clusters.entry(cluster.clone()).or_default();
        (state.min, state.max, state.share) = (bounds.min, bounds.max, bounds.max);
        let mut object = template.clone();
        cx.seen.scaler.divide_totals(&mut object, mode, cluster, weights);
        if let Some(write) = write(cx, plan, (cluster, member), existing, &(object, bounds), ids) {
            let (min, max) = (bounds.min, bounds.max);
            plan.note(Reason::Share { cluster: cluster.clone(), min, max, share: max }.into());
            writes.push(write);
        }
    }
    writes.extend(leaving(cx, fleet, reports, plan));
    writes
}

/// True if a cluster cannot get its Work yet.
fn waits(target: &Placed<'_>, cluster: &ClusterName, reports: &Reports<'_>, plan: &mut Plan<Effect>) -> bool {
    if is_suspended(target, cluster) {
        plan.note(Reason::Suspended { cluster: cluster.clone() }.into());
        return true;
    }
    let is_marked = reports.target.get(cluster).is_some_and(|work| mark(work).is_some());
    if !is_marked {
        plan.note(Reason::AwaitsTarget { cluster: cluster.clone() }.into());
    }
    !is_marked
}

/// The Works in clusters without a share.
fn leaving(cx: &mut Context<'_>, fleet: &Fleet<'_>, reports: &Reports<'_>, plan: &mut Plan<Effect>) -> Vec<Write> {
    let left = reports.own.iter().filter(|(cluster, _)| !fleet.members.contains_key(*cluster));
    left.filter_map(|(cluster, work)| leave(cx, cluster, work, fleet.left.get(cluster), reports, plan)).collect()
}

/// The members with what they run and have.
fn budgeted(
    cx: &Context<'_>,
    target: &Placed<'_>,
    mode: &Mode,
    shares: &BTreeMap<ClusterName, Bounds>,
    maxima: &BTreeMap<ClusterName, i32>,
    reports: &Reports<'_>,
) -> BTreeMap<ClusterName, budget::Member> {
    let of = |(cluster, share): (&ClusterName, &Bounds)| {
        let state = cx.state.clusters.get(cluster);
        let reported = state.and_then(|state| state.current.max(state.desired));
        let is_held = state.is_some_and(|state| state.hold.is_some());
        let given = i32::try_from(target.given(cluster)).unwrap_or(i32::MAX);
        // A copy begins with what the binding gives it, and gets that from a user who scales.
        let runs = reported.filter(|_| !is_held).unwrap_or_else(|| given.max(reported.unwrap_or(0)));
        let member = budget::Member {
            share: *share,
            max: maxima.get(cluster).copied().unwrap_or(share.max),
            runs: if *mode == Mode::PerCluster { share.min } else { runs },
            limited: !is_held && reports.all.get(cluster).is_some_and(is_limited),
            written: written(cx, cluster),
            has: has(cx, cluster),
        };
        (cluster.clone(), member)
    };
    shares.iter().map(of).collect()
}

/// The maximum of a member that its Work says.
fn written(cx: &Context<'_>, cluster: &ClusterName) -> i32 {
    existing(cx.seen, cluster).and_then(|work| bounds_of(cx.seen.scaler, work)).map_or(0, |bounds| bounds.max)
}

/// The maximum of a member: with `strict-max` also what it may still have of an earlier one.
fn has(cx: &Context<'_>, cluster: &ClusterName) -> i32 {
    let may_have = cx.state.clusters.get(cluster).and_then(|state| state.may_have);
    may_have.filter(|_| is_strict(cx)).unwrap_or(0).max(written(cx, cluster))
}

fn is_strict(cx: &Context<'_>) -> bool {
    cx.annotation(annotations::FEDERATED_HPA_STRICT_MAX) == Some(labels::TRUE)
}

/// True if the member stands at its maximum and wants more.
fn is_limited(report: &Report) -> bool {
    let limited = report.condition(conditions::federated_hpa::SCALING_LIMITED);
    limited.is_some_and(|limited| limited.is_true() && limited.reason == TOO_MANY_REPLICAS)
}

/// Maxima of the members, with loans.
fn maxima(
    cx: &mut Context<'_>,
    mode: &Mode,
    shares: &BTreeMap<ClusterName, Bounds>,
    weights: &BTreeMap<ClusterName, u32>,
    reports: &Reports<'_>,
    plan: &mut Plan<Effect>,
) -> BTreeMap<ClusterName, i32> {
    let now = cx.seen.now;
    let off = cx.annotation(annotations::FEDERATED_HPA_REBALANCE) == Some("false");
    if off || *mode == Mode::PerCluster {
        cx.state.lent_at = None;
        return shares.iter().map(|(cluster, bounds)| (cluster.clone(), bounds.max)).collect();
    }
    let mut accounts: BTreeMap<ClusterName, Account> = BTreeMap::new();
    for (cluster, bounds) in shares {
        let state = cx.state.clusters.get(cluster).cloned().unwrap_or_default();
        let max = bounds.max.saturating_add(state.loan);
        let valid = reports.all.get(cluster).filter(|_| state.hold.is_none()).and_then(Report::decided);
        let (weight, desired) = (weights.get(cluster).copied().unwrap_or(0), valid.unwrap_or(max));
        let account = Account { bounds: *bounds, max, desired, weight, limited: false, idle: false };
        accounts.insert(cluster.clone(), account);
    }
    for (cluster, max) in lend::carry(accounts.clone()) {
        let wants_more = reports.all.get(&cluster).is_some_and(is_limited);
        let Some(account) = accounts.get_mut(&cluster) else { continue };
        account.max = max;
        let reported = reports.all.get(&cluster).and_then(Report::decided);
        let needs_no_loan = max > account.bounds.max && reported.is_some_and(|desired| desired <= account.bounds.max);
        let state = cx.state.clusters.entry(cluster).or_default();
        state.limited_since = wants_more.then(|| state.limited_since.unwrap_or(now));
        state.idle_since = needs_no_loan.then(|| state.idle_since.unwrap_or(now));
        let mut waits = Vec::new();
        for (since, wait, is_so) in [
            (state.limited_since, lend::LIMITED_FOR, &mut account.limited),
            (state.idle_since, lend::RETURN_AFTER, &mut account.idle),
        ] {
            let left = since.map(|since| state::left(since, wait, now));
            *is_so = left == Some(None);
            waits.extend(left.flatten());
        }
        waits.into_iter().for_each(|wait| cx.again_in(wait));
    }
    let as_it_is = || accounts.iter().map(|(cluster, account)| (cluster.clone(), account.max)).collect();
    if let Some(returned) = lend::give_back(&accounts) {
        return returned;
    }
    match cx.state.lent_at.and_then(|at| state::left(at, lend::LEND_EVERY, now)) {
        Some(left) if accounts.values().any(|account| account.limited) => cx.again_in(left),
        Some(_) => {}
        None => {
            if let Some(loan) = lend::lend(&accounts) {
                cx.state.lent_at = Some(now);
                cx.again_in(lend::LEND_EVERY);
                let reason = Reason::Lends { replicas: loan.replicas, to: loan.to };
                let about = reference_of(cx.seen.scaler);
                plan.effects.push(Effect::Event(Event::normal(about, events::REPLICAS_LENT, reason.to_string())));
                plan.note(reason.into());
                return loan.maxima;
            }
        }
    }
    as_it_is()
}

/// Lowers shares of the maximum to what the quotas of the namespace leave, and never below what runs or counts anyway.
fn within_quotas(
    cx: &mut Context<'_>,
    target: &Placed<'_>,
    shares: BTreeMap<ClusterName, Bounds>,
    plan: &mut Plan<Effect>,
) -> BTreeMap<ClusterName, Bounds> {
    let Some(room) = quota::room(&cx.seen.quotas, &cx.seen.scaler.hpa) else { return shares };
    let states = &cx.state.clusters;
    let charged = |cluster: &ClusterName| room.charged.get(cluster).copied().unwrap_or(0);
    let floor = |(cluster, share): (&ClusterName, &Bounds)| {
        let runs = states.get(cluster).and_then(|state| state.current.max(state.desired)).unwrap_or(0);
        let given = i32::try_from(target.given(cluster)).unwrap_or(i32::MAX);
        (cluster.clone(), share.min.max(runs).max(charged(cluster)).max(given))
    };
    let floors: BTreeMap<ClusterName, i32> = shares.iter().map(floor).collect();
    // Clusters without a share may still run the target, up to the maximum that they had.
    let elsewhere: BTreeSet<&ClusterName> =
        room.charged.keys().chain(states.keys()).filter(|cluster| !shares.contains_key(cluster)).collect();
    let with_maximum = |cluster: &ClusterName| states.get(cluster).map_or(0, |state| state.max);
    let elsewhere: i64 =
        elsewhere.into_iter().map(|cluster| i64::from(charged(cluster).max(with_maximum(cluster)))).sum();
    let maxima: BTreeMap<ClusterName, i32> =
        shares.iter().map(|(cluster, share)| (cluster.clone(), share.max)).collect();
    let lowered = quota::lowered(&maxima, &floors, room.replicas - elsewhere);
    if lowered != maxima {
        let sum = |maxima: &BTreeMap<ClusterName, i32>| maxima.values().map(|max| i64::from(*max)).sum::<i64>();
        let (replicas, wanted) = (sum(&lowered), sum(&maxima));
        let reason = Reason::QuotaLeaves { quota: room.quota, key: room.key, replicas, wanted };
        plan.note(reason.clone().into());
        cx.quota = Some(reason);
    }
    let bounds = shares.into_iter().map(|(cluster, share)| {
        let max = lowered.get(&cluster).copied().unwrap_or(share.max);
        (cluster, Bounds { max, ..share })
    });
    bounds.collect()
}

/// The Work of a member.
fn write(
    cx: &mut Context<'_>,
    plan: &mut Plan<Effect>,
    (cluster, member): (&ClusterName, &Member<'_>),
    existing: Option<&Work>,
    (template, bounds): &(Value, Bounds),
    ids: &mut NewIds,
) -> Option<Write> {
    let (scaler, bounds) = (cx.seen.scaler, *bounds);
    let hpa = &scaler.hpa;
    let mut of_binding = OfBinding::Keeps;
    match existing.and_then(owner) {
        Some(Owner::Binding { .. }) => of_binding = OfBinding::Loses,
        Some(other @ (Owner::Quota { .. } | Owner::Cluster { .. })) => {
            let reason = propagation::Reason::WorkOwned { work: work_key(scaler, cluster), owner: other.to_string() };
            plan.note(Because::from(reason));
            return None;
        }
        Some(Owner::Autoscaler { .. }) | None => {}
    }
    let of_users: Vec<Arc<OverridePolicy>> =
        cx.seen.overrides.iter().filter(|policy| !overrides::is_of_autoscaler(policy)).cloned().collect();
    let overridden = match overrides::apply(template.clone(), member.cluster, cx.seen.cluster_overrides, &of_users) {
        Ok(overridden) => overridden.manifest,
        Err(error) => {
            let failed = propagation::Reason::OverrideFailed { cluster: cluster.clone(), message: error.to_string() };
            cx.event(plan, events::APPLY_OVERRIDE_POLICY_FAILED, failed.to_string());
            plan.note(failed.into());
            return None;
        }
    };
    let resolution = match cx.annotation(annotations::CONFLICT_RESOLUTION) {
        Some(annotations::CONFLICT_RESOLUTION_OVERWRITE) => annotations::CONFLICT_RESOLUTION_OVERWRITE,
        _ => annotations::CONFLICT_RESOLUTION_ABORT,
    };
    let state = cx.state.clusters.entry(cluster.clone()).or_default();
    let api_version = member.version.map_or_else(|| scaler.api_version(), |version| version.api_version().to_owned());
    let is_new_version = state.api_version != api_version;
    state.api_version = api_version;
    let true_ = || labels::TRUE.to_owned();
    let desired = DesiredWork {
        cluster,
        manifest: scaler.manifest(&overridden, member.version, bounds),
        labels: StringMap::from([
            (labels::FEDERATED_HPA.to_owned(), true_()),
            (labels::FEDERATED_HPA_ENABLED.to_owned(), true_()),
            (labels::FEDERATED_HPA_UID.to_owned(), text(&hpa.metadata.uid).to_owned()),
        ]),
        annotations: StringMap::from([
            (annotations::FEDERATED_HPA_NAMESPACE.to_owned(), text(&hpa.metadata.namespace).to_owned()),
            (annotations::FEDERATED_HPA_NAME.to_owned(), text(&hpa.metadata.name).to_owned()),
        ]),
        of_binding,
        owner: None,
        conflict_resolution: resolution,
        reports_only: false,
    };
    let write = owned::write(desired, existing, ids)?;
    if is_new_version && member.version == Some(Version::V2Beta1) && hpa.spec.behavior.is_some() {
        let message = format!(
            "cluster {cluster} serves only {}, which has no behavior: its autoscaler scales without spec.behavior",
            Version::V2Beta1.api_version()
        );
        cx.event(plan, events::BEHAVIOR_NOT_SUPPORTED, message);
    }
    Some(write)
}

/// The Work in a cluster without a share: it stays as it is where nothing can be changed, may not grow where the copy
/// of the target still runs, and goes with that copy.
fn leave(
    cx: &mut Context<'_>,
    cluster: &ClusterName,
    work: &Arc<Work>,
    why: Option<&Left>,
    reports: &Reports<'_>,
    plan: &mut Plan<Effect>,
) -> Option<Write> {
    let is_served = !matches!(why, Some(Left::NoVersion | Left::NotServed { .. }));
    if !reports.has_target(cluster) || !is_served {
        cx.state.clusters.remove(cluster);
        let work = key_of(work)?;
        plan.note(propagation::Reason::NotATarget { work }.into());
        return owned::delete(reports.own.get(cluster)?);
    }
    if matches!(why, Some(Left::NotReady | Left::Gone)) {
        return None;
    }
    let (present, has) = (bounds_of(cx.seen.scaler, work)?, has(cx, cluster));
    let state = cx.state.clusters.entry(cluster.clone()).or_default();
    let most = state.desired.or(state.current).unwrap_or(present.max).max(1);
    let bounds = Bounds { min: present.min.min(most), max: present.max.min(most) };
    (state.min, state.max) = (bounds.min, bounds.max);
    state.may_have = (has > bounds.max).then_some(has);
    if bounds == present || !cx.seen.scaler.kind.has_bounds() {
        return None;
    }
    plan.note(Reason::Frozen { cluster: cluster.clone(), max: bounds.max }.into());
    let mut object = work.spec.workload.manifests.first()?.object();
    cx.seen.scaler.set_bounds(&mut object, bounds);
    let manifests: Vec<Manifest> = vec![object.into()];
    Some(Write::Patch { key: key_of(work)?, patch: json!({"spec": {"workload": {"manifests": manifests}}}) })
}

/// Deletes the binding that propagated the object before it was distributed, once its Works changed hands.
pub(super) fn drop_own_binding(cx: &Context<'_>, plan: &mut Plan<Effect>) {
    let Some(binding) = cx.seen.own_binding.filter(|binding| binding.metadata.deletion_timestamp.is_none()) else {
        return;
    };
    let still_owned = cx.seen.works.iter().any(|work| matches!(owner(work), Some(Owner::Binding { .. })));
    if !still_owned {
        let (namespace, name) = (text(&binding.metadata.namespace), text(&binding.metadata.name));
        let key = ironclad_fleet::BindingKey { namespace: namespace.into(), name: name.into() };
        plan.effects.push(Effect::DeleteOwnBinding { key });
    }
}

/// The Work of the object in a cluster, whoever owns it.
fn existing<'a>(seen: &Seen<'a>, cluster: &ClusterName) -> Option<&'a Work> {
    let key = work_key(seen.scaler, cluster);
    seen.works.iter().find(|work| key_of(work).as_ref() == Some(&key)).map(|work| &**work)
}

fn bounds_of(scaler: &Scaler, work: &Work) -> Option<Bounds> {
    scaler.bounds_of(&work.spec.workload.manifests.first()?.object())
}

fn is_suspended(target: &Placed<'_>, cluster: &ClusterName) -> bool {
    target.binding.spec.suspension.as_ref().is_some_and(|suspension| {
        let on = suspension.dispatching_on_clusters.as_ref();
        suspension.dispatching == Some(true)
            || on.is_some_and(|on| on.cluster_names.iter().any(|name| **name == *cluster.0))
    })
}

/// Mark of the target's Work that its replicas are decided in the member.
pub(super) fn mark(work: &Work) -> Option<MemberReplicas> {
    MemberReplicas::of(&work.spec.workload.manifests.first()?.object())
}

/// Replicas in the target's Work.
fn asked(work: &Work, pointer: &str) -> Option<i64> {
    work.spec.workload.manifests.first()?.object().pointer(pointer)?.as_i64()
}

/// True if the member has the target with these replicas of the template, and no longer with a recorded number.
fn is_applied_for(work: &Work, replicas: i64) -> bool {
    report::is_applied(work) && mark(work).is_some_and(|mark| mark.template == replicas && !mark.decided)
}

/// Replicas of the template for which an OverridePolicy was written.
fn observed_by(policy: &OverridePolicy) -> Option<i64> {
    let annotations = policy.metadata.annotations.as_ref()?;
    annotations.get(annotations::FEDERATED_HPA_OBSERVED_REPLICAS)?.parse().ok()
}
