//! Draws a script from a seed. Every run enables only some kinds of faults, so that runs differ (swarm testing).

use ironclad_failover::flags::eviction::Check;
use std::time::Duration;

use ironclad_api::taints::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_EXECUTE};
use ironclad_seam::{Rng, Stream};

use super::{Action, App, Failover, Peers, Script, Spread, Step, TaintPolicy, Variety, shortage, varied};
use crate::sim::{Cut, Fault, world::FIRST_AGENT};

/// Number of kinds of actions that are enabled or disabled for a whole run.
const KINDS: u64 = 14;

/// Remainder by five of the seeds whose workloads may form groups: none of the seeds that found bugs before.
const GROUPED: u64 = 1;

/// Draws the script of a seed with scarce capacity besides.
pub(super) fn scarce(seed: u64) -> Script {
    let mut script = ungrouped(seed);
    let capacity = shortage::MEMBER * script.members as i64;
    shortage::add(&Rng::from_seed(seed).child("shortage").stream("draws"), &mut script, capacity);
    script
}

/// Draws the script of a seed with scarce capacity in members that differ, without faults in half of them.
pub(super) fn varied(seed: u64) -> Script {
    let mut script = ungrouped(seed);
    let (rng, members) = (Rng::from_seed(seed), script.members);
    let variety = Variety::drawn(&rng.child("variety").stream("draws"), members);
    if variety.calm {
        (script.steps, script.kept) = (Vec::new(), Vec::new());
        (script.standby, script.taint_policy) = (false, None);
    }
    let (first, capacity) = (script.apps.len(), variety.capacity());
    script.variety = Some(variety);
    shortage::add(&rng.child("shortage").stream("draws"), &mut script, capacity);
    vary(&rng.child("varied").stream("draws"), &mut script, first);
    script
}

/// Draws a script, with a long outage of one member in most runs, with actions of users in some, and with groups of
/// workloads in few.
pub(super) fn script(seed: u64) -> Script {
    let mut script = ungrouped(seed);
    group(&Rng::from_seed(seed).child("group").stream("draws"), &mut script);
    script
}

fn ungrouped(seed: u64) -> Script {
    let mut script = plain(seed);
    let kept = std::mem::take(&mut script.kept);
    let mut steps: Vec<(usize, Step)> = kept.into_iter().zip(std::mem::take(&mut script.steps)).collect();
    let rng = Rng::from_seed(seed);
    outage(&rng.child("outage").stream("draws"), script.members, &mut steps);
    let draws = rng.child("people").stream("draws");
    people(&draws, script.members, &script.apps, script.taint_policy.as_ref(), &mut steps);
    hold(&rng.child("hold").stream("draws"), script.members, &mut script.apps, &mut steps);
    users(&rng.child("users").stream("draws"), script.members, &mut script.apps, &mut steps);
    (script.kept, script.steps) = steps.into_iter().unzip();
    script
}

/// Draws the script of a seed with members in pull mode, whose agents have faults, too: with scarce capacity in two of
/// five, and with tunnels in half of them.
pub(super) fn pulled(seed: u64) -> Script {
    let rng = Rng::from_seed(seed).child("pull");
    let mut script = if rng.stream("scarce").chance(0.4) { scarce(seed) } else { ungrouped(seed) };
    let draws = rng.stream("draws");
    script.pull = 1 + draws.below(script.members as u64 - 1) as usize;
    script.tunnels = rng.stream("tunnels").chance(0.5);
    let first = script.members - script.pull;
    // People unregister agents by a verb that asks them, which is not simulated.
    let unjoins =
        |action: &Action| matches!(action, Action::Unjoin(member) | Action::UnjoinEmpty(member) if *member >= first);
    let (kept, steps) = (std::mem::take(&mut script.kept), std::mem::take(&mut script.steps));
    (script.kept, script.steps) = kept.into_iter().zip(steps).filter(|(_, step)| !unjoins(&step.action)).unzip();
    let behind = script.kept.iter().max().map_or(0, |last| last + 1);
    for number in behind..behind + 1 + draws.below(4) as usize {
        let agent = FIRST_AGENT + draws.below(script.pull as u64) as usize;
        let time = Duration::from_millis(500 + draws.below(90_000));
        let action = match draws.below(7) {
            0 | 1 => Action::Crash(agent, time),
            2 => Action::Freeze(agent, time.min(Duration::from_secs(20))),
            3 => Action::CutWatches(agent, [Cut::Reset, Cut::Expired][draws.below(2) as usize]),
            4 => Action::WriteFault(agent, draws.below(6), Fault::ALL[draws.below(Fault::ALL.len() as u64) as usize]),
            5 => Action::Conflicts(agent, 1 + draws.below(5)),
            _ => Action::Skew(agent, draws.below(120_000) as i64 - 60_000),
        };
        let place = draws.below(script.steps.len() as u64 + 1) as usize;
        let after = Duration::from_millis(draws.below(60_000));
        script.steps.insert(place, Step { after, action });
        script.kept.insert(place, number);
    }
    script
}

/// Adds what happens in members, and what users do within a second.
fn vary(draws: &Stream, script: &mut Script, first: usize) {
    for app in script.apps.iter_mut().skip(first) {
        app.retains = draws.chance(0.15);
    }
    let (members, sized) = (script.members as u64, (script.apps.len() - first) as u64);
    let mut number = script.kept.iter().max().map_or(0, |last| last + 1);
    let mut add = |after: u64, actions: Vec<Action>| {
        let place = draws.below(script.steps.len() as u64 + 1) as usize;
        let mut after = Duration::from_millis(after);
        for (at, action) in actions.into_iter().enumerate() {
            script.steps.insert(place + at, Step { after, action });
            script.kept.insert(place + at, number);
            number += 1;
            after = Duration::from_millis(draws.below(1_500));
        }
    };
    for _ in 0..3 + draws.below(6) {
        let member = draws.below(members) as usize;
        let app = || first + draws.below(sized) as usize;
        let actions = match draws.below(8) {
            0 | 1 => {
                let cpu = 500 * (1 + draws.below(6) as i64);
                vec![Action::Job(member, cpu, Duration::from_secs(2 + draws.below(90)))]
            }
            2 => vec![Action::MemberQuota(member, draws.chance(0.7).then(|| 1 + draws.below(12) as i64))],
            3 => vec![Action::Nodes(member, 1 + draws.below(varied::NODES_MAX) as u32)],
            4 => vec![Action::ScaleCopy(app(), member, draws.below(5) as i32)],
            5 => {
                let (one, other) = (app(), app());
                let urgent = |app| Action::Prioritize(app, Some("urgent"));
                vec![urgent(one), Action::Create(one), urgent(other), Action::Create(other)]
            }
            6 => {
                let app = app();
                let then = match draws.below(3) {
                    0 => Action::Remove(app),
                    1 => Action::Scale(app, draws.below(8) as i32),
                    _ => Action::SuspendScheduling(app),
                };
                vec![Action::Create(app), then]
            }
            _ => {
                let app = app();
                let to = |draws: &Stream| Action::Scale(app, 1 + draws.below(8) as i32);
                vec![to(draws), to(draws), Action::Prioritize(app, Some("urgent"))]
            }
        };
        add(draws.below(60_000), actions);
    }
}

/// Two workloads avoid each other, so that one of them can't leave its member: the other one holds every other member
/// that it may go to. Only where nothing else takes the other one from there.
fn group(draws: &Stream, script: &mut Script) {
    let takes = |action: &Action| {
        matches!(
            action,
            Action::Drain(_) | Action::Evacuate(_) | Action::Unjoin(_) | Action::UnjoinEmpty(_) | Action::Recreate(_)
        )
    };
    let is_plain = |app: &App| app.affinity.is_empty() && app.overridden.is_none() && !app.depends;
    let fits = script.gate
        && script.check != Check::Off
        && script.members > 2
        && script.apps.len() > 1
        && script.apps.iter().take(2).all(is_plain)
        && !script.steps.iter().any(|step| takes(&step.action));
    if script.seed % 5 != GROUPED || !fits {
        return;
    }
    let others: Vec<String> = (1..script.members).map(super::action::name).collect();
    script.grouped = true;
    if let [holder, held, ..] = &mut script.apps[..] {
        (holder.peers, holder.spread, holder.failover) = (Peers::Apart, Spread::Copies(others.len()), Failover::None);
        holder.tolerates = Some(-1);
        held.affinity = vec![super::action::name(0), others[0].clone()];
        holder.affinity = others;
        let seconds = draws.below(20) as i64;
        (held.peers, held.spread, held.tolerates) = (Peers::Apart, Spread::Copies(1), None);
        held.failover = Failover::Cluster { mode: "Directly", seconds };
    }
    let effect = [NO_EXECUTE, PREFER_NO_EXECUTE][draws.below(2) as usize];
    let (fails, heals) = (Action::Taint(0, effect), Action::Untaint(0, effect));
    for (after, action) in [(40, fails), (60 + draws.below(60), heals)] {
        script.kept.push(script.kept.len());
        script.steps.push(Step { after: Duration::from_secs(after), action });
    }
}

/// Users mount ConfigMaps, pin workloads, override replicas, delete policies and suspend bindings; operators
/// give drains up, and unjoin clusters without bindings. Their steps are numbered behind all others.
fn users(draws: &Stream, members: usize, apps: &mut [App], steps: &mut Vec<(usize, Step)>) {
    if !draws.chance(0.6) {
        return;
    }
    for app in apps.iter_mut() {
        app.depends = draws.chance(0.5);
    }
    let number = draws.below(apps.len() as u64) as usize;
    let (first, second) = (draws.below(members as u64) as usize, draws.below(members as u64 - 1) as usize);
    let second = if second < first { second } else { second + 1 };
    // A workload that may go to a few clusters only holds a Cluster that is deleted.
    let left = members - steps.iter().filter(|(_, step)| matches!(step.action, Action::Unjoin(_))).count();
    let unjoins = left < members;
    let mut limit = |members: &[usize]| {
        apps[number].affinity = members.iter().map(|member| super::action::name(*member)).collect();
        apps[number].spread = Spread::Copies(1);
    };
    let fails = Action::Taint(first, NO_EXECUTE);
    let heals = Action::Untaint(first, NO_EXECUTE);
    let play: Vec<(u64, Action)> = match draws.below(7) {
        0 => vec![(60, fails), (60 + draws.below(120), heals)],
        1 | 2 => {
            let stops = match draws.below(3) {
                0 => Action::DropPropagation(number),
                1 => Action::SuspendScheduling(number),
                _ => Action::SuspendDispatching(number),
            };
            vec![(20, stops), (40, fails), (60 + draws.below(60), heals)]
        }
        3 if !unjoins && members > 3 => {
            limit(&[first, second]);
            apps[number].tolerates = Some(5 + draws.below(25) as i64);
            let (also, back) = (Action::Taint(second, NO_EXECUTE), Action::Untaint(second, NO_EXECUTE));
            vec![(40, fails), (60 + draws.below(60), also), (60, heals), (1, back)]
        }
        4 if !unjoins => {
            limit(&[first, second]);
            apps[number].replicas = 2 + draws.below(3) as i32;
            apps[number].overridden = Some((second, 1));
            vec![(60, fails), (60 + draws.below(60), heals)]
        }
        5 if !unjoins => {
            limit(&[first]);
            vec![(30, Action::Evacuate(first)), (20 + draws.below(40), Action::Uncordon(first))]
        }
        _ if left > 1 => {
            if !unjoins {
                let other = (0..members).find(|member| ![first, second].contains(member));
                limit(&[Some(first), Some(second), other].into_iter().flatten().collect::<Vec<_>>());
                apps[number].spread = Spread::Copies(members.min(3) - 1);
            }
            vec![(30, Action::Drain(first)), (0, Action::UnjoinEmpty(first))]
        }
        _ => vec![(30, fails), (60, heals)],
    };
    for (after, action) in play {
        let after = Duration::from_secs(after);
        steps.push((steps.len(), Step { after, action }));
    }
}

/// One member fails for so long that its episode plays to its end: without that, few runs evict anything.
fn outage(draws: &Stream, members: usize, steps: &mut Vec<(usize, Step)>) {
    if !draws.chance(0.7) {
        return;
    }
    let member = draws.below(members as u64) as usize;
    let (fails, heals) = match draws.below(4) {
        0 => (Action::Down(vec![member]), Action::Up(vec![member])),
        1 => (Action::Partition(vec![member]), Action::Up(vec![member])),
        _ => {
            let effect = [NO_EXECUTE, PREFER_NO_EXECUTE][draws.below(2) as usize];
            (Action::Taint(member, effect), Action::Untaint(member, effect))
        }
    };
    let place = draws.below(steps.len() as u64 + 1) as usize;
    let number = steps.len();
    let calm = Duration::from_secs(60);
    steps.insert(place, (number, Step { after: calm, action: fails }));
    let after = Duration::from_secs(60 + draws.below(180));
    steps.insert(place + 1, (number + 1, Step { after, action: heals }));
}

/// Draws a script with many small faults.
pub(super) fn plain(seed: u64) -> Script {
    let draws = Rng::from_seed(seed).child("programme").stream("draws");
    let members = 2 + draws.below(4) as usize;
    let apps: Vec<App> = (1..=1 + draws.below(3)).map(|n| app(&draws, n, members)).collect();
    let gate = draws.chance(0.85);
    let taint_policy = (gate && draws.chance(0.6)).then(|| TaintPolicy {
        effect: [NO_EXECUTE, PREFER_NO_EXECUTE][draws.below(2) as usize],
        add_after: 1 + draws.below(25) as i64,
        remove_after: 1 + draws.below(25) as i64,
    });
    let standby = draws.chance(0.3);
    let rate = [0.5, 2.0, 10.0][draws.below(3) as usize];
    let check = [Check::Strict, Check::Relaxed, Check::Off][draws.below(3) as usize];
    let mut on: Vec<bool> = (0..KINDS).map(|_| draws.chance(0.5)).collect();
    // At least one kind of fault.
    on[draws.below(5) as usize] = true;
    // Faults of clusters, and lost or duplicate writes, are twice as frequent as others.
    let often = [0, 1, 2, 7];
    let kinds: Vec<usize> = (0..KINDS as usize).chain(often).filter(|kind| on[*kind]).collect();
    let mut steps: Vec<Step> = Vec::new();
    for _ in 0..4 + draws.below(14) {
        let kind = kinds[draws.below(kinds.len() as u64) as usize];
        let after = Duration::from_millis(draws.below(if draws.chance(0.3) { 2_000 } else { 60_000 }));
        let mut action = action(&draws, kind, members, apps.len(), standby);
        // Revert only an action that was taken.
        let earlier = steps.iter().rev().find_map(|step| match &step.action {
            Action::Taint(member, effect) => Some((*member, *effect)),
            _ => None,
        });
        if let (Action::Untaint(..), Some((member, effect))) = (&action, earlier) {
            action = Action::Untaint(member, effect);
        }
        steps.push(Step { after, action });
    }
    let kept = (0..steps.len()).collect();
    Script {
        seed,
        timing: 0,
        members,
        gate,
        rate,
        check,
        standby,
        apps,
        taint_policy,
        grouped: false,
        shortage: None,
        variety: None,
        pull: 0,
        tunnels: false,
        steps,
        kept,
    }
}

/// Adds actions of users in two runs of five: they edit policies, drain and unjoin at any time.
/// Their steps are numbered after all others.
fn people(draws: &Stream, members: usize, apps: &[App], policy: Option<&TaintPolicy>, steps: &mut Vec<(usize, Step)>) {
    if !draws.chance(0.4) {
        return;
    }
    let kinds = 1 + draws.below(3);
    let first = draws.below(5);
    for _ in 0..1 + draws.below(4) {
        let member = draws.below(members as u64) as usize;
        let action = match (first + draws.below(kinds)) % 5 {
            0 if policy.is_some() => Action::EditPolicy(TaintPolicy {
                effect: [NO_EXECUTE, PREFER_NO_EXECUTE][draws.below(2) as usize],
                add_after: 1 + draws.below(25) as i64,
                remove_after: 1 + draws.below(25) as i64,
            }),
            1 if policy.is_some() => Action::DropPolicy,
            0 | 2 => {
                let seconds = [None, Some(-1), Some(draws.below(60) as i64)][draws.below(3) as usize];
                Action::Tolerate(draws.below(apps.len() as u64) as usize, seconds)
            }
            1 | 3 => Action::Drain(member),
            _ if draws.chance(0.4) => Action::Join,
            // A workload that needs more clusters than are left blocks an unjoin until its placement is relaxed. One
            // member stays: without clusters nothing can be moved or checked.
            _ if steps.iter().filter(|(_, step)| matches!(step.action, Action::Unjoin(_))).count() + 1 >= members => {
                Action::Join
            }
            _ => Action::Unjoin(member),
        };
        let after = Duration::from_millis(draws.below(40_000));
        let (number, place) = (steps.len(), draws.below(steps.len() as u64 + 1) as usize);
        steps.insert(place, (number, Step { after, action }));
    }
}

/// Adds, in few runs, a workload that needs every cluster, and the deletion of one.
fn hold(draws: &Stream, members: usize, apps: &mut [App], steps: &mut Vec<(usize, Step)>) {
    let is_unjoin = |(_, step): &(usize, Step)| matches!(step.action, Action::Unjoin(_));
    if !draws.chance(0.06) || steps.iter().any(is_unjoin) {
        return;
    }
    if let Some(app) = apps.first_mut() {
        app.spread = Spread::Copies(members);
    }
    let action = Action::Unjoin(draws.below(members as u64) as usize);
    let after = Duration::from_millis(draws.below(40_000));
    let (number, place) = (steps.len(), draws.below(steps.len() as u64 + 1) as usize);
    steps.insert(place, (number, Step { after, action }));
}

fn app(draws: &Stream, number: u64, members: usize) -> App {
    let spread = match draws.below(5) {
        0 => Spread::Everywhere,
        1 | 2 => Spread::Divided(1 + draws.below(members as u64) as usize),
        _ => Spread::Copies(1 + draws.below(2.min(members as u64)) as usize),
    };
    App {
        name: format!("app{number}"),
        replicas: 1 + draws.below(4) as i32,
        spread,
        affinity: Vec::new(),
        tolerates: match draws.below(4) {
            0 => Some(-1),
            1 => Some(draws.below(60) as i64),
            _ => None,
        },
        failover: failover(draws),
        ..App::new("")
    }
}

fn failover(draws: &Stream) -> Failover {
    match draws.below(3) {
        0 => Failover::None,
        mode => {
            Failover::Cluster { mode: ["Gracefully", "Directly"][mode as usize - 1], seconds: draws.below(60) as i64 }
        }
    }
}

pub(super) fn action(draws: &Stream, kind: usize, members: usize, apps: usize, standby: bool) -> Action {
    let member = || draws.below(members as u64) as usize;
    let app = || draws.below(apps as u64) as usize;
    let process = || if standby { draws.below(2) as usize } else { 0 };
    let seconds = |most: u64| Duration::from_millis(500 + draws.below(most * 1_000));
    let some = || -> Vec<usize> {
        match draws.below(4) {
            // Half of the fleet, or all of it: the control plane's own network.
            0 => (0..members).filter(|m| m % 2 == 0).collect(),
            1 => (0..members).collect(),
            _ => vec![member()],
        }
    };
    let fault = || Fault::ALL[draws.below(4) as usize];
    match kind {
        0 => Action::Down(some()),
        1 => Action::Partition(some()),
        2 => Action::Taint(member(), [NO_EXECUTE, PREFER_NO_EXECUTE, NO_SCHEDULE][draws.below(3) as usize]),
        3 => Action::Flap(member(), seconds(60), seconds(60)),
        4 => Action::Up(some()),
        5 => Action::Slow(member(), seconds(8)),
        6 => Action::Untaint(member(), [NO_EXECUTE, PREFER_NO_EXECUTE, NO_SCHEDULE][draws.below(3) as usize]),
        7 => match draws.below(3) {
            0 => Action::Conflicts(process(), 1 + draws.below(6)),
            1 => Action::MemberFault(process(), 1 + draws.below(4), fault()),
            _ => Action::WriteFault(process(), 1 + draws.below(10), fault()),
        },
        8 => Action::Freeze(process(), seconds(30)),
        9 => Action::CutWatches(process(), [Cut::Reset, Cut::Expired][draws.below(2) as usize]),
        10 => match draws.below(2) {
            0 => Action::Stall(process(), seconds(40)),
            _ => Action::Crash(process(), seconds(30)),
        },
        11 => Action::Skew(process(), draws.below(600_000) as i64 - 300_000),
        12 => Action::Failover(app(), failover(draws)),
        _ => match draws.below(3) {
            0 => Action::Recreate(app()),
            _ => Action::Scale(app(), 1 + draws.below(5) as i32),
        },
    }
}
