//! Crash, staleness and drop matrices: a scenario runs once undisturbed, and then again for each of its writes
//! or events of watches, with that one disturbed. Each run must reach the final state of the undisturbed one.

use anyhow::{Context as _, ensure};

use super::{EventFault, Fault, FaultPlan, History, nightly};

/// Variable; `full` takes every write and event, a number takes that many of each scenario.
const EXTENT: &str = "IRONCLAD_MATRIX";
/// Variable with a part of the names of the scenarios to run.
const ONLY: &str = "IRONCLAD_SCENARIO";

/// Variable with the number of the only place to run; prints its history.
const PLACE: &str = "IRONCLAD_PLACE";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    None,
    /// Fault at the write of this number; 1 is the first of the scenario.
    Write(u64, Fault),
    /// Fault at the event of this number; 1 is the first of the scenario.
    Event(u64, EventFault),
}

impl Disturbance {
    /// Injects it from now on.
    pub fn plan(self, faults: &FaultPlan) {
        match self {
            Self::None => {}
            Self::Write(number, fault) => faults.on_coming_write(number, fault),
            Self::Event(number, fault) => faults.on_coming_event(number, fault),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// Final state, without values that differ from run to run.
    pub state: String,
    pub writes: u64,
    pub events: u64,
    pub struck: bool,
}

impl Played {
    /// Outcome of a scenario that began after so many writes and events.
    pub fn since(faults: &FaultPlan, (writes, events): (u64, u64), state: String) -> Self {
        let struck = !faults.struck().is_empty() || faults.events_struck() > 0;
        Self { state, writes: faults.writes() - writes, events: faults.events() - events, struck }
    }
}

/// Kind of disturbance, applied at each place in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    Writes(Fault),
    Events(EventFault),
}

impl Pass {
    /// Returns the disturbances of a scenario, spread evenly over its length.
    pub fn over(self, undisturbed: &Played, at_most: u64) -> Vec<Disturbance> {
        let count = match self {
            Self::Writes(_) => undisturbed.writes,
            Self::Events(_) => undisturbed.events,
        };
        let of = |number| match self {
            Self::Writes(fault) => Disturbance::Write(number, fault),
            Self::Events(fault) => Disturbance::Event(number, fault),
        };
        match place() {
            Some(place) => vec![of(place)],
            None => spread(count, extent(at_most)).into_iter().map(of).collect(),
        }
    }
}

fn place() -> Option<u64> {
    std::env::var(PLACE).ok()?.parse().ok()
}

pub fn show(disturbance: Disturbance, history: &History) {
    if place().is_some() && disturbance != Disturbance::None {
        history.lines().iter().for_each(|line| println!("{line}"));
    }
}

/// Number of places of each scenario, of those that a nightly run takes.
fn extent(at_most: u64) -> u64 {
    match std::env::var(EXTENT).as_deref() {
        Ok("full") => u64::MAX,
        Ok(number) => number.parse().unwrap_or(at_most),
        Err(_) => nightly::half(at_most),
    }
}

/// Returns `at_most` numbers from 1 to `count`, evenly spread and deterministic.
fn spread(count: u64, at_most: u64) -> Vec<u64> {
    if at_most >= count {
        return (1..=count).collect();
    }
    // The middle of each of equal parts.
    (0..at_most).map(|part| (count * (2 * part + 1)).div_ceil(2 * at_most)).collect()
}

/// Runs all scenarios with each of the disturbances of the pass.
pub fn run<S>(
    scenarios: &[S],
    name: impl Fn(&S) -> String,
    play: impl Fn(&S, Disturbance) -> anyhow::Result<Played>,
    pass: Pass,
    at_most: u64,
) -> anyhow::Result<()> {
    let only = std::env::var(ONLY).unwrap_or_default();
    let (mut runs, mut struck, mut wrong) = (0, 0, Vec::new());
    for scenario in scenarios.iter().filter(|scenario| name(scenario).contains(&only)) {
        let name = name(scenario);
        let undisturbed = play(scenario, Disturbance::None).with_context(|| name.clone())?;
        println!("{name}: {} writes, {} events", undisturbed.writes, undisturbed.events);
        for disturbance in pass.over(&undisturbed, at_most) {
            runs += 1;
            let found = match play(scenario, disturbance) {
                Err(error) => Some(format!("{error:#}")),
                Ok(played) => {
                    struck += u64::from(played.struck);
                    differs(&played.state, &undisturbed.state)
                }
            };
            if let Some(found) = found {
                println!("{name}, {disturbance:?}: {found}");
                wrong.push(format!("{name}, {disturbance:?}: {found}"));
            }
        }
    }
    println!("{runs} runs, {struck} struck");
    ensure!(wrong.is_empty(), "{} of {runs} runs:\n{}", wrong.len(), wrong.join("\n\n"));
    ensure!(struck * 10 >= runs * 9, "only {struck} of {runs} disturbances struck");
    Ok(())
}

/// Returns the first difference of two states.
fn differs(is: &str, want: &str) -> Option<String> {
    let (mut left, mut right) = (is.lines(), want.lines());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return None,
            (Some(is), Some(want)) if is == want => {}
            (is, want) => {
                let (is, want) = (is.unwrap_or_default(), want.unwrap_or_default());
                let [is, want] = around(is, want);
                return Some(format!("it ends differently, first here:\n  is     {is}\n  wanted {want}"));
            }
        }
    }
}

/// Returns the beginnings of two lines, which name the object, and the text around their first difference.
fn around(is: &str, want: &str) -> [String; 2] {
    const HEAD: usize = 60;
    const SIDE: usize = 150;
    let same = is.chars().zip(want.chars()).take_while(|(left, right)| left == right).count();
    let start = same.saturating_sub(SIDE);
    [is, want].map(|line| {
        let part: String = line.chars().skip(start).take(2 * SIDE).collect();
        if start == 0 { part } else { format!("{}… …{part}", line.chars().take(HEAD).collect::<String>()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_spread_over_the_whole() {
        for (count, at_most, want) in [
            (4, 9, &[1, 2, 3, 4][..]),
            (4, 4, &[1, 2, 3, 4]),
            (9, 3, &[2, 5, 8]),
            (100, 2, &[25, 75]),
            (1, 1, &[1]),
            (0, 5, &[]),
        ] {
            assert_eq!(spread(count, at_most), want, "{at_most} of {count}");
        }
        assert!((1..60).all(|at_most| spread(57, at_most).iter().all(|number| (1..=57).contains(number))));
    }

    #[test]
    fn state_that_ends_early_differs() {
        assert_eq!(differs("a\nb", "a\nb"), None);
        assert!(differs("a", "a\nb").is_some());
        let (left, right) = (format!("{}{}", "x".repeat(500), "l"), format!("{}{}", "x".repeat(500), "r"));
        let message = differs(&left, &right).unwrap_or_default();
        assert!(message.contains("xl\n") && message.ends_with("xr") && message.len() < 600, "{message}");
        assert!(differs("a\nb", "a").is_some());
    }
}
