//! Draws a programme from a seed. Every run switches only some kinds of faults on, so that runs differ much (swarm).

use std::time::Duration;

use ironclad_api::taints::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_EXECUTE};
use ironclad_seam::{Rng, Stream};

use super::{Action, App, Failover, Programme, Spread, Step, TaintPolicy};
use crate::sim::{Cut, Fault};

/// Kinds of actions that are switched on or off for a whole run.
const KINDS: u64 = 14;

pub(super) fn programme(seed: u64) -> Programme {
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
    let check = ["strict", "relaxed", "off"][draws.below(3) as usize];
    let mut on: Vec<bool> = (0..KINDS).map(|_| draws.chance(0.5)).collect();
    // Something has to fail.
    on[draws.below(5) as usize] = true;
    // What makes clusters faulty, and what loses or doubles writes, comes twice as often as the rest.
    let often = [0, 1, 2, 7];
    let kinds: Vec<usize> = (0..KINDS as usize).chain(often).filter(|kind| on[*kind]).collect();
    let mut steps: Vec<Step> = Vec::new();
    for _ in 0..4 + draws.below(14) {
        let kind = kinds[draws.below(kinds.len() as u64) as usize];
        let after = Duration::from_millis(draws.below(if draws.chance(0.3) { 2_000 } else { 60_000 }));
        let mut action = action(&draws, kind, members, apps.len(), standby);
        // Taking back what was never done would be a waste.
        let standing = steps.iter().rev().find_map(|step| match &step.action {
            Action::Taint(member, effect) => Some((*member, *effect)),
            _ => None,
        });
        if let (Action::Untaint(..), Some((member, effect))) = (&action, standing) {
            action = Action::Untaint(member, effect);
        }
        steps.push(Step { after, action });
    }
    let kept = (0..steps.len()).collect();
    Programme { seed, members, gate, rate, check, standby, apps, taint_policy, steps, kept }
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

fn action(draws: &Stream, kind: usize, members: usize, apps: usize, standby: bool) -> Action {
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
