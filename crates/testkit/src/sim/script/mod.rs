//! A script: a fleet, its workloads, and a list of faults with times. It is determined by a seed, so that a
//! failing script replays exactly and can be shrunk by removing actions.

mod account;
mod action;
mod apps;
pub mod autoscalers;
mod draw;
mod drive;
mod fairness;
mod gauges;
mod removal;
mod shortage;
mod shrink;
mod varied;

use ironclad_failover::flags::eviction::Check;
use ironclad_seam::Rng;
use std::{collections::BTreeSet, fmt, time::Duration};

pub use self::{
    action::{Action, HAND_KEY, taint, untaint},
    apps::{App, Failover, Peers, Spread, TaintPolicy},
    drive::{Outcome, run, run_showing},
    shortage::{CLASSES, Shortage},
    shrink::{Shrunk, shrink},
    varied::Variety,
};
pub use super::{checker::POLICY_KEY, objects::Class};

/// Among many runs, capacity is scarce in one of this many.
pub const SCARCE_EVERY: u64 = 8;

/// Action with the time since the previous one.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub after: Duration,
    pub action: Action,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{:.1}s {}", self.after.as_secs_f64(), self.action)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// Seed of the script and of its run.
    pub seed: u64,
    /// Number of the run's draws of delays, jitter and uids; 0 for those of the seed itself.
    pub timing: u64,
    pub members: usize,
    /// Number of members in pull mode, the last ones.
    pub pull: usize,
    /// Their agents hold tunnels open.
    pub tunnels: bool,
    pub gate: bool,
    pub rate: f64,
    pub check: Check,
    /// Two controller processes, of which one leads.
    pub standby: bool,
    pub apps: Vec<App>,
    pub taint_policy: Option<TaintPolicy>,
    /// Gate `WorkloadAffinity`: two workloads avoid each other.
    pub grouped: bool,
    /// Workloads that request more than there is, and priorities.
    pub shortage: Option<Shortage>,
    /// Members that differ.
    pub variety: Option<Variety>,
    pub steps: Vec<Step>,
    /// Indexes of these steps in the full list.
    pub kept: Vec<usize>,
}

impl Script {
    pub fn from_seed(seed: u64) -> Self {
        draw::script(seed)
    }

    /// Scripts of many runs, from these seeds: one in [`SCARCE_EVERY`] is scarce.
    pub fn of_runs(seeds: impl Iterator<Item = u64>) -> impl Iterator<Item = Self> {
        let is_scarce = |run: u64| run.is_multiple_of(SCARCE_EVERY);
        (1..).zip(seeds).map(move |(run, seed)| if is_scarce(run) { Self::scarce(seed) } else { Self::from_seed(seed) })
    }

    /// Draws the script of a seed with scarce capacity besides.
    pub fn scarce(seed: u64) -> Self {
        draw::scarce(seed)
    }

    /// Draws the script of a seed with scarce capacity in members that differ.
    pub fn varied(seed: u64) -> Self {
        draw::varied(seed)
    }

    /// Draws the script of a seed with members in pull mode, whose agents have faults, too.
    pub fn pulled(seed: u64) -> Self {
        draw::pulled(seed)
    }

    /// Draws the script of a seed without its long outage and without actions of users.
    pub fn plain(seed: u64) -> Self {
        draw::plain(seed)
    }

    /// Returns the script with delays, jitter and uids of another draw: the same events in another order.
    #[must_use]
    pub fn timed(self, timing: u64) -> Self {
        Self { timing, ..self }
    }

    /// Seed of the world in which the script runs.
    fn world_seed(&self) -> u64 {
        match self.timing {
            0 => self.seed,
            timing => Rng::from_seed(self.seed).child(&format!("timing {timing}")).seed(),
        }
    }

    /// Returns the script with only these steps. The waits of removed steps are kept.
    pub fn keeping(&self, places: &BTreeSet<usize>) -> Self {
        let (mut steps, mut kept) = (Vec::new(), Vec::new());
        let mut waited = Duration::ZERO;
        for (step, place) in self.steps.iter().zip(&self.kept) {
            waited += step.after;
            if places.contains(place) {
                steps.push(Step { after: waited, action: step.action.clone() });
                kept.push(*place);
                waited = Duration::ZERO;
            }
        }
        Self { steps, kept, ..self.clone() }
    }

    pub fn again(&self) -> String {
        let (whole, scarce) = match (&self.variety, self.shortage) {
            _ if self.pull > 0 => (Self::pulled(self.seed), " --pull"),
            (Some(_), _) => (Self::varied(self.seed), " --varied"),
            (None, Some(_)) => (Self::scarce(self.seed), " --scarce"),
            (None, None) => (Self::from_seed(self.seed), ""),
        };
        let timing = if self.timing == 0 { String::new() } else { format!(" --timing {}", self.timing) };
        let command = format!("cargo xtask sim{scarce} --seed {}{timing}", self.seed);
        if whole.kept == self.kept {
            return command;
        }
        let kept: Vec<String> = self.kept.iter().map(ToString::to_string).collect();
        let kept = if kept.is_empty() { "none".to_owned() } else { kept.join(",") };
        format!("{command} --keep {kept}")
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}: {} members, {} of them in pull mode{}, gate {}, rate {}, check {}{}",
            self.seed,
            self.members,
            self.pull,
            if self.tunnels { " with tunnels" } else { "" },
            if self.gate { "on" } else { "off" },
            self.rate,
            self.check.as_str(),
            if self.standby { ", with a standby" } else { "" },
        )?;
        if self.grouped {
            writeln!(f, "  groups of workloads")?;
        }
        if let Some(shortage) = &self.shortage {
            writeln!(f, "  {shortage}")?;
        }
        if let Some(variety) = &self.variety {
            writeln!(f, "  {variety}")?;
        }
        if let Some(policy) = &self.taint_policy {
            writeln!(f, "  policy {policy}")?;
        }
        for app in &self.apps {
            writeln!(f, "  {app}")?;
        }
        for (place, step) in self.kept.iter().zip(&self.steps) {
            writeln!(f, "  [{place}] {step}")?;
        }
        Ok(())
    }
}
