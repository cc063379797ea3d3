//! Pods sorted by how they count (specification/autoscaling.md 2.4).

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use crate::{
    options::Options,
    pods::{Phase, Pod, PodKey},
    samples::{Sample, Samples},
};

/// The one resource of which starting pods use more than in steady state.
const CPU: &str = "cpu";

/// A pod with its key.
pub(crate) type Named<'a> = (&'a PodKey, &'a Pod);

/// Pods by how they count. Those that are ignored are in none of the lists.
#[derive(Debug, Default)]
pub(crate) struct Groups<'a> {
    /// Pods whose samples count.
    pub(crate) ready: Vec<(Named<'a>, Sample)>,
    /// Pods that start.
    pub(crate) unready: Vec<Named<'a>>,
    /// Pods without a sample.
    pub(crate) missing: Vec<Named<'a>>,
    /// The numbers, by cluster.
    pub(crate) counts: BTreeMap<Arc<str>, Counts>,
}

/// Number of pods of one cluster by how they count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Their samples count.
    pub ready: usize,
    /// They start: no samples yet.
    pub unready: usize,
    /// They have no sample, or none that is recent enough.
    pub missing: usize,
    /// Of those, the ones whose sample is too old.
    pub stale: usize,
    /// They are being deleted or have failed.
    pub ignored: usize,
    /// Sum of the samples, in thousandths.
    pub total: i128,
}

/// Sorts pods. `resource` is the resource of which the samples are, if they are of one.
pub(crate) fn group<'a>(
    pods: impl IntoIterator<Item = Named<'a>>,
    samples: &Samples,
    resource: Option<&str>,
    options: &Options,
    now: Timestamp,
) -> Groups<'a> {
    let mut groups = Groups::default();
    for (key, pod) in pods {
        let counts = groups.counts.entry(key.cluster.clone()).or_default();
        if pod.is_deleted || pod.phase == Phase::Failed {
            counts.ignored += 1;
            continue;
        }
        if pod.phase == Phase::Pending {
            counts.unready += 1;
            groups.unready.push((key, pod));
            continue;
        }
        let sample = samples.get(key);
        let Some(sample) = sample.filter(|sample| !sample.is_stale(options, now)) else {
            counts.missing += 1;
            counts.stale += usize::from(sample.is_some());
            groups.missing.push((key, pod));
            continue;
        };
        if resource == Some(CPU) && is_starting(pod, sample, options, now) {
            counts.unready += 1;
            groups.unready.push((key, pod));
            continue;
        }
        counts.ready += 1;
        counts.total += i128::from(sample.value);
        groups.ready.push(((key, pod), *sample));
    }
    groups
}

/// True if CPU usage of the pod says nothing about its load, as the pod starts.
fn is_starting(pod: &Pod, sample: &Sample, options: &Options, now: Timestamp) -> bool {
    let (Some(ready), Some(started)) = (pod.ready, pod.started) else { return true };
    let is_not_ready = ready.is_ready == Some(false);
    let since = ready.since.unwrap_or(started);
    if later(started, options.cpu_initialization_period) > now {
        is_not_ready || sample.at < later(since, sample.window)
    } else {
        is_not_ready && later(started, options.initial_readiness_delay) > since
    }
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.saturating_add(by).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        pods::Readiness,
        testkit::{at, key, running, sample},
    };

    const NOW: i64 = 10_000;

    fn counted(pod: Pod, sample: Option<Sample>, resource: Option<&str>) -> Counts {
        let key = key("m1", "p");
        let samples = sample.map(|sample| (key.clone(), sample)).into_iter().collect();
        let groups = group([(&key, &pod)], &samples, resource, &Options::default(), at(NOW));
        groups.counts.into_values().next().unwrap_or_default()
    }

    #[test]
    fn pods_are_sorted_by_how_they_count() {
        let ready = Counts { ready: 1, total: 7, ..Counts::default() };
        let unready = Counts { unready: 1, ..Counts::default() };
        let missing = Counts { missing: 1, ..Counts::default() };
        let ignored = Counts { ignored: 1, ..Counts::default() };
        let measured = Some(sample(NOW, 7));
        for (name, pod, sample, want) in [
            ("ready", running(), measured, ready),
            ("being deleted", Pod { is_deleted: true, ..running() }, measured, ignored),
            ("failed", Pod { phase: Phase::Failed, ..running() }, measured, ignored),
            ("pending, even with a sample", Pod { phase: Phase::Pending, ..running() }, measured, unready),
            ("no sample", running(), None, missing),
            ("an old sample", running(), Some(sample(NOW - 1_000, 7)), Counts { stale: 1, ..missing }),
        ] {
            assert_eq!(counted(pod, sample, Some("cpu")), want, "{name}");
        }
    }

    #[test]
    fn cpu_of_starting_pods_does_not_count() {
        let pod = |started: i64, is_ready: bool, since: i64| Pod {
            started: Some(at(started)),
            ready: Some(Readiness { is_ready: Some(is_ready), since: Some(at(since)) }),
            ..running()
        };
        let measured = |seconds: i64| Sample { window: SignedDuration::from_secs(15), ..sample(seconds, 7) };
        for (name, pod, sample, counts) in [
            ("measured before it was ready for a window", pod(NOW - 20, true, NOW - 14), measured(NOW), false),
            ("ready for a whole window", pod(NOW - 20, true, NOW - 15), measured(NOW), true),
            ("young and not ready", pod(NOW - 299, false, NOW - 100), measured(NOW), false),
            ("old, not ready, was ready before", pod(NOW - 300, false, NOW - 100), measured(NOW), true),
            ("old, and never ready: within 30 s", pod(NOW - 300, false, NOW - 271), measured(NOW), false),
            ("old, ready once: after 30 s", pod(NOW - 300, false, NOW - 270), measured(NOW), true),
            ("no condition", Pod { ready: None, ..running() }, measured(NOW), false),
            ("no start", Pod { started: None, ..running() }, measured(NOW), false),
        ] {
            assert_eq!(counted(pod.clone(), Some(sample), Some("cpu")).ready == 1, counts, "{name}");
            assert_eq!(counted(pod.clone(), Some(sample), Some("memory")).ready, 1, "{name}: memory counts");
            assert_eq!(counted(pod, Some(sample), None).ready, 1, "{name}: a custom metric counts");
        }
    }
}
