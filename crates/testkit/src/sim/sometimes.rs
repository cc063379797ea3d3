//! Coverage: events that must happen at least once over many seeds: otherwise the simulation proves nothing about them.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Events that must happen in a long run.
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

/// Events that must happen in a long run with scarce capacity, besides.
pub const SCARCE: [&str; 6] = [
    "a binding is preempted",
    "a preempted binding finds another cluster",
    "a preemption needs several victims",
    "the number of victims is compared with all sets",
    "a preemptor is deleted before it is placed",
    "a victim may return early",
];

static SEEN: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

pub fn happened(what: &'static str) {
    debug_assert!(SOMETIMES.contains(&what) || SCARCE.contains(&what), "{what:?} is not in the list of events");
    *SEEN.lock().entry(what).or_default() += 1;
}

/// Returns how often each event happened in this process, including those that never did.
pub fn counts() -> Vec<(&'static str, u64)> {
    let seen = SEEN.lock();
    SOMETIMES.into_iter().chain(SCARCE).map(|what| (what, seen.get(what).copied().unwrap_or_default())).collect()
}
