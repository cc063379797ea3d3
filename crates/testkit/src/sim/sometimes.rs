//! Coverage: events that must happen at least once over many seeds: a simulation that never gets there proves nothing.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Everything that a long run has to have seen.
pub const SOMETIMES: [&str; 13] = [
    "a binding is evicted",
    "a binding is evicted because of PreferNoExecute",
    "an evicted binding finds another cluster",
    "a task is cleared after a migration",
    "what waits is abandoned when its cluster recovers",
    "no eviction while too many clusters are unhealthy",
    "a process is killed between two writes of one turn",
    "a watch ends with 410",
    "an answer to a write is lost",
    "the leader changes",
    "a policy taints a cluster",
    "a policy takes its taint back",
    "a workload holds a Cluster that was deleted",
];

static SEEN: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// It happened once more.
pub fn happened(what: &'static str) {
    debug_assert!(SOMETIMES.contains(&what), "{what:?} is not in the list of what has to happen");
    *SEEN.lock().entry(what).or_default() += 1;
}

/// How often each thing happened in this process, those that never did among them.
#[must_use]
pub fn counts() -> Vec<(&'static str, u64)> {
    let seen = SEEN.lock();
    SOMETIMES.into_iter().map(|what| (what, seen.get(what).copied().unwrap_or_default())).collect()
}
