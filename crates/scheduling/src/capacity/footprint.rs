//! Resources of a placed workload in a form that a search over thousands of workloads reads fast: the usual resources
//! are in an array, so that neither a name is compared nor memory elsewhere is read.

use super::{demand::Units, free::PODS};

/// Resources that nearly all workloads request, and pods.
const USUAL: [&str; 4] = ["cpu", "memory", "ephemeral-storage", PODS];
const POD: usize = 3;

/// Resource as footprints look it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Usual(usize),
    Other,
}

impl Place {
    pub(super) fn of(resource: &str) -> Self {
        USUAL.iter().position(|usual| *usual == resource).map_or(Self::Other, Self::Usual)
    }
}

/// Amounts of a binding on one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    usual: [i64; USUAL.len()],
    /// Requests for other resources, and those for a resource named `pods`.
    others: Units,
}

impl Footprint {
    /// Footprint of these requests and this number of pods.
    #[must_use]
    pub(crate) fn new(mut amounts: Units, pods: i64) -> Self {
        let mut usual = [0; USUAL.len()];
        amounts.retain(|resource, amount| match USUAL[..POD].iter().position(|usual| *usual == resource) {
            Some(at) => {
                usual[at] = (*amount).max(0);
                false
            }
            None => *amount > 0,
        });
        usual[POD] = pods;
        Self { usual, others: amounts }
    }

    /// Returns whether it has an amount of any resource beside pods.
    #[must_use]
    pub(crate) fn requests_resources(&self) -> bool {
        self.usual[..POD].iter().any(|amount| *amount > 0) || !self.others.is_empty()
    }

    pub(super) fn get(&self, place: Place, resource: &str) -> i64 {
        match place {
            Place::Usual(at) => self.usual[at],
            Place::Other => self.others.get(resource).copied().unwrap_or(0),
        }
    }
}

/// Measure of how much of one cluster footprints take (specification/scheduling.md 15.5).
pub(crate) struct Share<'a> {
    usual: [i64; USUAL.len()],
    allocatable: Box<dyn Fn(&str) -> i64 + 'a>,
}

impl<'a> Share<'a> {
    pub(super) fn new(allocatable: impl Fn(&str) -> i64 + 'a) -> Self {
        Self { usual: USUAL.map(&allocatable), allocatable: Box::new(allocatable) }
    }

    /// Part of the cluster that a footprint takes: the sum over its resources and pods of amount by allocatable amount,
    /// in billionths.
    pub(crate) fn of(&self, footprint: &Footprint) -> u128 {
        let usual = footprint.usual.iter().zip(self.usual).map(|(amount, of)| part(*amount, of));
        let others = footprint.others.iter().map(|(resource, amount)| part(*amount, (self.allocatable)(resource)));
        usual.chain(others).sum()
    }
}

/// Part that an amount is of a whole, in billionths. What the cluster does not list at all takes all of it.
fn part(amount: i64, of: i64) -> u128 {
    const WHOLE: u64 = 1_000_000_000;
    let (amount, of) = (u64::try_from(amount).unwrap_or(0), u64::try_from(of).unwrap_or(0));
    if of == 0 {
        return if amount == 0 { 0 } else { u128::from(WHOLE) };
    }
    match amount.checked_mul(WHOLE) {
        Some(amount) => u128::from(amount / of),
        None => u128::from(amount) * u128::from(WHOLE) / u128::from(of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(rows: &[(&str, i64)]) -> Units {
        rows.iter().map(|(resource, amount)| ((*resource).to_owned(), *amount)).collect()
    }

    #[test]
    fn amounts_and_shares_of_usual_and_other_resources() {
        let all = units(&[("cpu", 4_000), ("memory", 100), ("pods", 10), ("example.com/gpu", 8)]);
        let share = Share::new(|resource| all.get(resource).copied().unwrap_or(0));
        for (name, amounts, pods, requests, want) in [
            ("nothing", units(&[]), 0, false, 0),
            ("pods alone", units(&[]), 2, false, 200_000_000),
            ("usual ones", units(&[("cpu", 1_000), ("memory", 25)]), 1, true, 600_000_000),
            ("another one", units(&[("example.com/gpu", 2)]), 0, true, 250_000_000),
            ("one that the cluster does not list", units(&[("ephemeral-storage", 1)]), 0, true, 1_000_000_000),
            ("less than nothing", units(&[("cpu", -5), ("example.com/gpu", -1)]), 0, false, 0),
            ("a request for pods", units(&[("pods", 5)]), 5, true, 1_000_000_000),
            ("more than 64 bits hold", units(&[("memory", i64::MAX)]), 0, true, 92_233_720_368_547_758_070_000_000),
        ] {
            let footprint = Footprint::new(amounts.clone(), pods);
            assert_eq!((footprint.requests_resources(), share.of(&footprint)), (requests, want), "{name}");
            for resource in ["cpu", "memory", "ephemeral-storage", "example.com/gpu"] {
                let want = amounts.get(resource).copied().unwrap_or(0).max(0);
                assert_eq!(footprint.get(Place::of(resource), resource), want, "{name}: {resource}");
            }
            assert_eq!(footprint.get(Place::of(PODS), PODS), pods, "{name}");
        }
    }
}
