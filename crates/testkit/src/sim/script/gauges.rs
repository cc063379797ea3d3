//! Metrics of evictions, compared with each other and with a settled fleet (invariants 15, 38).

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};

use crate::sim::World;

/// Pairs of names for one value (specification/failover.md 6.11).
const ALIASES: [(&str, &str); 2] =
    [("cluster_fault_rate", "cluster_failure_rate"), ("evict_kind_total", "eviction_kind_total")];

/// Metrics that count elements of the queue: zero when all is healthy.
const OF_THE_QUEUE: [&str; 5] =
    ["evict_total", "eviction_total", "eviction_queue_depth", "evict_kind_total", "eviction_kind_total"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    /// The gauges agree with each other, and none is negative.
    Equal,
    /// They are zero, too.
    Empty,
}

/// Checks the metrics of the first process, if it runs.
pub(super) fn check(world: &World, expect: Expect) -> anyhow::Result<()> {
    let Some(context) = world.context() else { return Ok(()) };
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &context.registry())?;
    let sums = sums(&text)?;
    let sum = |name: &str| sums.get(name).copied().unwrap_or_default();
    for name in OF_THE_QUEUE {
        ensure!(sum(name) >= 0.0, "invariant 15: {name} is {}", sum(name));
        ensure!(expect == Expect::Equal || sum(name) == 0.0, "invariant 15: at rest {name} is {}", sum(name));
    }
    ensure!(
        sum("evict_total") == sum("eviction_total"),
        "invariant 15: {} elements by cluster, {} by queue",
        sum("evict_total"),
        sum("eviction_total")
    );
    for (name, alias) in ALIASES {
        ensure!(sum(name) == sum(alias), "invariant 38: {name} is {} and {alias} {}", sum(name), sum(alias));
    }
    Ok(())
}

fn sums(text: &str) -> anyhow::Result<BTreeMap<&str, f64>> {
    let mut sums = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (series, value) = line.rsplit_once(' ').with_context(|| format!("not a sample: {line}"))?;
        let name = series.split('{').next().unwrap_or(series);
        let value: f64 = value.parse().with_context(|| format!("not a number: {line}"))?;
        *sums.entry(name).or_default() += value;
    }
    Ok(sums)
}
