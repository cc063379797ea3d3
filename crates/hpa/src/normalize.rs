//! From a proposal to the replicas that are set: stabilization, rate and bounds (specification/autoscaling.md 2.7).

use jiff::Timestamp;

use crate::{
    conditions::{self, Condition, limited_by},
    history::History,
    options::Options,
    rates::{Direction, RateLimit, limit},
    spec::Spec,
};

/// The limits that hold for one proposal, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Normalized {
    /// Replicas that the metrics propose.
    pub proposal: i32,
    /// Lowest recommendation of the window of scaling up, the proposal included; `None` without `behavior`.
    pub lowest: Option<i32>,
    /// Highest recommendation of the window of scaling down, the proposal included.
    pub highest: i32,
    /// The proposal after stabilization.
    pub stabilized: i32,
    /// Limit by the rate of scaling up, without `behavior` twice the present size.
    pub up: RateLimit,
    /// Limit by the rate of scaling down; `None` without `behavior`.
    pub down: Option<RateLimit>,
    /// The replicas to set.
    pub desired: i32,
    /// Condition `AbleToScale`.
    pub able: Condition,
    /// Condition `ScalingLimited`.
    pub limited: Condition,
}

/// Limits a proposal. `holds` keeps the replicas from becoming fewer: some are on their way to the members.
pub(crate) fn normalize(
    proposal: i32,
    current: i32,
    spec: &Spec<'_>,
    history: &History,
    holds: bool,
    options: &Options,
    now: Timestamp,
) -> Normalized {
    let (up_window, down_window) = spec.windows(options);
    let highest = history.recommended_within(down_window, now).fold(proposal, i32::max);
    let lowest = spec.behavior.map(|_| history.recommended_within(up_window, now).fold(proposal, i32::min));
    let stabilized = match lowest {
        None => highest,
        Some(lowest) => current.max(lowest).min(highest),
    };
    let able = match stabilized {
        same if same == proposal => conditions::READY,
        _ if proposal >= current && lowest.is_some() => conditions::UP_STABILIZED,
        _ => conditions::DOWN_STABILIZED,
    };
    let (stabilized, able) =
        if holds && stabilized < current { (current, conditions::SETTLING) } else { (stabilized, able) };
    let up = match spec.behavior {
        None => RateLimit { replicas: current.saturating_mul(2).max(4), policies: Vec::new() },
        Some(_) => limit(spec.up(), Direction::Up, current, history, now),
    };
    let down = spec.behavior.map(|_| limit(spec.down(), Direction::Down, current, history, now));
    let (most, above) =
        if up.replicas < spec.max { (up.replicas, "ScaleUpLimit") } else { (spec.max, "TooManyReplicas") };
    let (least, below) = match &down {
        Some(down) if down.replicas > spec.min => (down.replicas, "ScaleDownLimit"),
        _ => (spec.min, "TooFewReplicas"),
    };
    let (desired, limited) = match stabilized {
        value if value > most => (most, limited_by(above)),
        value if value < least => (least, limited_by(below)),
        value => (value, conditions::WITHIN_RANGE),
    };
    Normalized { proposal, lowest, highest, stabilized, up, down, desired, able, limited }
}

#[cfg(test)]
mod tests;
