//! Maximum number of evictions in an interval (specification/failover.md 6.4, 6.6; invariants 1 to 3).

use std::time::Duration;

use ironclad_api::{
    annotations,
    cluster::Cluster,
    taints::{NO_EXECUTE, PREFER_NO_EXECUTE},
};

/// Time by which evictions may seem nearer to each other than they count.
const JITTER: Duration = ironclad_failover::taint_manager::rate::SLACK;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    pub primary: f64,
    pub secondary: f64,
    pub threshold: f64,
    pub large: usize,
    pub halt_on_total_outage: bool,
}

impl Default for Rates {
    fn default() -> Self {
        Self { primary: 0.5, secondary: 0.1, threshold: 0.55, large: 10, halt_on_total_outage: true }
    }
}

impl Rates {
    /// Evictions per second that these clusters allow.
    pub(super) fn allowed<'a>(&self, clusters: impl Iterator<Item = &'a Cluster>) -> f64 {
        let (mut total, mut unhealthy) = (0usize, 0usize);
        for cluster in clusters {
            let annotations = cluster.metadata.annotations.as_ref();
            let drains = annotations.is_some_and(|all| all.contains_key(annotations::DRAINING));
            if cluster.metadata.deletion_timestamp.is_some() || drains || cluster.ready().is_none() {
                continue;
            }
            total += 1;
            let faulty = cluster.spec.taints.iter().any(|t| t.effect == NO_EXECUTE || t.effect == PREFER_NO_EXECUTE);
            unhealthy += usize::from(faulty || !cluster.is_ready());
        }
        self.of(total, unhealthy)
    }

    /// Computes the rate from the numbers of clusters.
    pub(super) fn of(&self, total: usize, unhealthy: usize) -> f64 {
        if unhealthy as f64 <= self.threshold * total as f64 + 1e-9 {
            return self.primary;
        }
        if self.halt_on_total_outage && unhealthy == total {
            return 0.0;
        }
        if total > self.large { self.secondary.min(self.primary) } else { 0.0 }
    }
}

/// The rate in force over time, and the evictions.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Allowed rates with their start times.
    allowed: Vec<(Duration, f64)>,
    evictions: Vec<Duration>,
}

/// Maximum evictions in a checked window: violations show in short ones.
const WINDOW: usize = 256;

impl Log {
    pub(super) fn allow(&mut self, at: Duration, rate: f64) {
        if self.allowed.last().is_none_or(|(_, last)| *last != rate) {
            self.allowed.push((at, rate));
        }
    }

    /// Returns the greatest rate that was allowed at any time of an interval.
    fn greatest(&self, from: Duration, to: Duration) -> f64 {
        let first = self.allowed.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        let within = self.allowed[first..].iter().take_while(|(at, _)| *at <= to);
        within.map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    /// Records an eviction; returns the invariant that it breaks.
    pub(super) fn evicted(&mut self, at: Duration, stale: Duration) -> Option<String> {
        self.evictions.push(at);
        let since = |from: Duration| from.saturating_sub(stale);
        if self.greatest(since(at), at) <= 0.0 {
            return Some("invariant 2: an eviction although none is allowed".to_owned());
        }
        for (count, begin) in self.evictions.iter().rev().take(WINDOW).enumerate().skip(1) {
            let greatest = self.greatest(since(*begin), at);
            let most = ((at - *begin + JITTER).as_secs_f64() * greatest).floor() + 1.0;
            if (count + 1) as f64 > most {
                let window = at - *begin;
                return Some(format!(
                    "invariant 1: {} evictions within {window:?}, where at {greatest}/s only {most} may be",
                    count + 1
                ));
            }
        }
        None
    }
}
