//! Scarce capacity: workloads that request more than the members have, priorities, and what users do with them.
//!
//! Members have one node of eight cores. Workloads that request nothing, as those of the other parts of a script, are
//! neither short of capacity nor preempted.

use std::{fmt, time::Duration};

use ironclad_scheduling::preempt::{Limits, Mode};
use ironclad_seam::Stream;

use super::{Action, App, Peers, Script, Spread, Step, action};
use crate::sim::objects::Class;

/// Millicores of a member.
pub(super) const MEMBER: i64 = 8_000;
/// Number of workloads that request capacity at most.
const APPS_MAX: usize = 12;

/// The PriorityClasses at the start.
pub const CLASSES: [(&str, Class); 4] = [
    ("batch", Class { value: 0, never: false }),
    ("normal", Class { value: 100, never: false }),
    ("patient", Class { value: 500, never: true }),
    ("urgent", Class { value: 1_000, never: false }),
];
/// A class that does not exist at the start.
const UNKNOWN: &str = "unknown";

/// Gates and flags of a run in which capacity is scarce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    pub mode: Mode,
    pub limits: Limits,
    /// Members are in two zones.
    pub zones: bool,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limits { victims, evictions_per_minute } = self.limits;
        write!(f, "preemption {:?}, at most {victims} victims, {evictions_per_minute} a minute", self.mode)
    }
}

/// Makes capacity, in millicores, scarce. Workloads and steps are added behind all others.
pub(super) fn add(draws: &Stream, script: &mut Script, capacity: i64) {
    let mode = match draws.below(8) {
        0 => Mode::Off,
        1 => Mode::Observe,
        _ => Mode::Evict,
    };
    let limits = Limits {
        victims: [16, 16, 16, 2][draws.below(4) as usize],
        evictions_per_minute: [60, 60, 60, 2][draws.below(4) as usize],
    };
    script.shortage = Some(Shortage { mode, limits, zones: draws.chance(0.3) });
    let (first, members) = (script.apps.len(), script.members);
    let wanted = capacity * (110 + draws.below(90) as i64) / 100;
    let mut asked = 0;
    while asked < wanted && script.apps.len() < first + APPS_MAX {
        let number = script.apps.len() - first + 1;
        let app = sized(draws, number, members, script.shortage.is_some_and(|shortage| shortage.zones));
        asked += app.cpu * i64::from(app.replicas);
        script.apps.push(app);
    }
    let peers = [Peers::None, Peers::None, Peers::Together, Peers::Apart][draws.below(4) as usize];
    if peers != Peers::None {
        for app in script.apps[first..].iter_mut().take(2) {
            (app.peers, app.spread, app.exists) = (peers, Spread::Divided(1), true);
            app.affinity.clear();
        }
    }
    let mut add = |action: Action| {
        let after = Duration::from_millis(draws.below(if draws.chance(0.5) { 5_000 } else { 90_000 }));
        let number = script.kept.iter().max().map_or(0, |last| last + 1);
        let place = draws.below(script.steps.len() as u64 + 1) as usize;
        script.steps.insert(place, Step { after, action });
        script.kept.insert(place, number);
    };
    for (number, _) in script.apps.iter().enumerate().filter(|(_, app)| !app.exists) {
        add(Action::Create(number));
    }
    let sized = (script.apps.len() - first) as u64;
    for _ in 0..2 + draws.below(5) {
        let app = first + draws.below(sized) as usize;
        add(match draws.below(9) {
            0 | 1 => Action::Scale(app, 1 + draws.below(6) as i32),
            2 | 3 => Action::Remove(app),
            4 | 5 => Action::Prioritize(app, class(draws)),
            6 => Action::ReplaceClass(CLASSES[draws.below(4) as usize].0, drawn(draws)),
            7 => Action::DropClass(CLASSES[draws.below(4) as usize].0),
            _ => Action::Quota(draws.chance(0.7).then(|| capacity * (40 + draws.below(60) as i64) / 100)),
        });
    }
}

fn class(draws: &Stream) -> Option<&'static str> {
    match draws.below(12) {
        0 => None,
        1 => Some(UNKNOWN),
        drawn => Some(CLASSES[drawn as usize % CLASSES.len()].0),
    }
}

fn drawn(draws: &Stream) -> Class {
    Class { value: [-50, 50, 300, 2_000][draws.below(4) as usize], never: draws.chance(0.2) }
}

fn sized(draws: &Stream, number: usize, members: usize, zones: bool) -> App {
    let cpu = [500, 1_000, 1_000, 2_000][draws.below(4) as usize];
    let spread = match draws.below(10) {
        0..4 => Spread::Divided(1),
        4..6 => Spread::Divided(2.min(members)),
        6 if zones => Spread::OneZone,
        _ => Spread::Weighted,
    };
    // One member takes up to eight cores.
    let cores = 1 + draws.below(if spread == Spread::Divided(1) { 7 } else { 11 }) as i64;
    let limited = draws.chance(0.3).then(|| 1 + draws.below(members as u64 - 1) as usize);
    let from = draws.below(members as u64) as usize;
    let affinity = limited.map(|count| (from..from + count).map(|n| action::name(n % members)).collect());
    App {
        replicas: (cores * 1_000 / cpu).max(1) as i32,
        spread,
        affinity: affinity.unwrap_or_default(),
        cpu,
        class: class(draws),
        exists: draws.chance(0.6),
        ..App::new(&format!("sized{number}"))
    }
}
