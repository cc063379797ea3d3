//! Ends of a Job's pods: each counts once, also after its pod was deleted.
//!
//! A pod carries [`FINALIZER`] until its end is counted. Its uid is first written into the status, next the finalizer
//! is removed, then the counter grows and the uid leaves the status: a crash between any two of the three neither loses
//! nor repeats an end.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::{Job, JobSpec, UncountedTerminatedPods},
    core::v1::Pod,
};

use super::{
    failure_policy::{Action, action},
    indexes,
};
use crate::pods::{condition, is_active, is_terminating, phase};

/// Finalizer of pods whose end is not counted yet.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Annotation of a pod: failures of its index before it.
pub(super) const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// Ends of a Job's pods so far.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Succeeded pods, or indexes of an Indexed Job.
    pub(super) succeeded: i32,
    /// Failed pods, including those that were deleted before their end.
    pub(super) failed: i32,
    /// The part of `succeeded` that the status shows as a number.
    pub(super) counted_succeeded: i32,
    /// The part of `failed` that the status shows as a number.
    pub(super) counted_failed: i32,
    /// The rest of both, by uid.
    pub(super) uncounted: Option<UncountedTerminatedPods>,
    /// Indexes that succeeded.
    pub(super) completed: BTreeSet<i32>,
    /// Indexes that failed more often than `backoffLimitPerIndex`.
    pub(super) failed_indexes: BTreeSet<i32>,
    /// Failures of each index as far as its pods show.
    pub(super) index_failures: BTreeMap<i32, i32>,
    /// Message of a rule of `podFailurePolicy` that fails the Job.
    pub(super) fails_job: Option<String>,
    /// Pods whose end the status bears, or does not bear: remove their finalizer.
    pub(super) release: Vec<Arc<Pod>>,
    /// Failures since the last success, and the time of the last of them.
    pub(super) since_success: Option<Failures>,
    /// The same of each index as far as its pods show, for Jobs with `backoffLimitPerIndex`. Ignored failures count.
    pub(super) of_index: BTreeMap<i32, Failures>,
}

/// Failures that delay the next pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failures {
    pub(super) count: i32,
    pub(super) last: Timestamp,
}

/// Returns `true` if the pod's end is not counted yet.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.as_ref().is_some_and(|all| all.iter().any(|f| f == FINALIZER))
}

/// Returns the pod's finalizers without [`FINALIZER`].
pub(super) fn untracked(pod: &Pod) -> Vec<String> {
    let all = pod.metadata.finalizers.iter().flatten();
    all.filter(|finalizer| *finalizer != FINALIZER).cloned().collect()
}

/// Returns `true` if only failed pods are replaced, and a pod that is being deleted has not failed yet.
pub(super) fn replaces_failed_only(job: &Job) -> bool {
    job.spec.as_ref().is_some_and(|s| {
        s.pod_replacement_policy.as_deref() == Some("Failed")
            || (s.pod_replacement_policy.is_none() && s.pod_failure_policy.is_some())
    })
}

/// Counts the ends of the Job's pods. `finishing`: the Job has failed or succeeded, so that its deleted pods count as
/// failed without their end.
pub(super) fn count(job: &Job, pods: &[Arc<Pod>], finishing: bool) -> Ends {
    let (status, spec) = (job.status.clone().unwrap_or_default(), job.spec.clone().unwrap_or_default());
    let indexed = spec.completion_mode.as_deref() == Some("Indexed");
    let below = spec.completions.unwrap_or(0);
    let parse = |text: Option<String>| indexes::parse(text.as_deref().unwrap_or(""), below);
    let shown = status.uncounted_terminated_pods.unwrap_or_default();
    let mut ends = Ends {
        counted_succeeded: status.succeeded.unwrap_or(0),
        counted_failed: status.failed.unwrap_or(0),
        completed: parse(status.completed_indexes),
        failed_indexes: parse(status.failed_indexes),
        since_success: since_success(pods),
        ..Ends::default()
    };
    let recorded = ends.completed.clone();
    for pod in pods.iter().filter(|p| phase(p) == "Failed") {
        if action(&spec, pod) != Action::Ignore {
            ends.note_failure(indexes::of(pod), pod);
        }
        ends.note_end(pod);
    }
    let tracked: BTreeMap<&str, &Arc<Pod>> =
        pods.iter().filter(|p| is_tracked(p)).filter_map(|p| Some((p.metadata.uid.as_deref()?, p))).collect();
    let mut settle = |uids: Option<Vec<String>>, counter: &mut i32| {
        let uids = uids.unwrap_or_default().into_iter();
        let (open, over): (BTreeSet<String>, BTreeSet<String>) = uids.partition(|uid| tracked.contains_key(&**uid));
        *counter = counter.saturating_add(number(over.len()));
        ends.release.extend(open.iter().filter_map(|uid| tracked.get(&**uid)).map(|pod| (*pod).clone()));
        open
    };
    let mut succeeded = settle(shown.succeeded, &mut ends.counted_succeeded);
    let mut failed = settle(shown.failed, &mut ends.counted_failed);
    let deleted_is_failed = finishing || !replaces_failed_only(job);
    for (uid, pod) in tracked {
        let index = indexes::of(pod).filter(|i| (0..below).contains(i));
        if succeeded.contains(uid) || failed.contains(uid) {
            continue;
        }
        match phase(pod) {
            "Succeeded" if !indexed => {
                succeeded.insert(uid.to_owned());
            }
            "Succeeded" => match index {
                Some(index) if !recorded.contains(&index) => {
                    ends.completed.insert(index);
                }
                _ => ends.release.push(pod.clone()),
            },
            other if other == "Failed" || (is_terminating(pod) && deleted_is_failed) => {
                if indexed && index.is_none() {
                    ends.release.push(pod.clone());
                    continue;
                }
                let action = if other == "Failed" { action(&spec, pod) } else { Action::Count };
                if other != "Failed" {
                    ends.note_failure(index, pod);
                }
                match action {
                    Action::Ignore => {
                        ends.release.push(pod.clone());
                        continue;
                    }
                    Action::FailJob(message) => ends.fails_job = ends.fails_job.take().or(Some(message)),
                    Action::FailIndex => ends.failed_indexes.extend(index),
                    Action::Count => {
                        let limit = spec.backoff_limit_per_index;
                        let failures = index.and_then(|i| ends.index_failures.get(&i).copied()).unwrap_or(0);
                        ends.failed_indexes.extend(index.filter(|_| limit.is_some_and(|limit| failures > limit)));
                    }
                }
                failed.insert(uid.to_owned());
            }
            _ => {}
        }
    }
    if indexed {
        ends.counted_succeeded = number(ends.completed.len());
    }
    ends.failed_indexes.retain(|index| !ends.completed.contains(index));
    if spec.backoff_limit_per_index.is_some() && !finishing {
        ends.hold_unreplaced(pods, &spec);
    }
    ends.succeeded = ends.counted_succeeded.saturating_add(number(succeeded.len()));
    ends.failed = ends.counted_failed.saturating_add(number(failed.len()));
    // Both lists, also empty ones: a merge patch must replace the lists that it does not need any more.
    ends.uncounted = (!succeeded.is_empty() || !failed.is_empty()).then(|| UncountedTerminatedPods {
        succeeded: Some(succeeded.into_iter().collect()),
        failed: Some(failed.into_iter().collect()),
    });
    ends
}

impl Ends {
    /// Keeps the finalizer of the last failed pod of an index until its successor bears the number of failures.
    fn hold_unreplaced(&mut self, pods: &[Arc<Pod>], spec: &JobSpec) {
        let active = pods.iter().filter(|p| is_active(p)).filter_map(|p| indexes::of(p));
        let over = self.completed.iter().chain(&self.failed_indexes).copied();
        let replaced: BTreeSet<i32> = active.chain(over).collect();
        self.release.retain(|pod| {
            phase(pod) == "Succeeded"
                || indexes::of(pod).is_none_or(|index| replaced.contains(&index))
                || action(spec, pod) == Action::Ignore
        });
    }

    /// Notes the end of a failed pod, for the wait before the next pod of its index.
    fn note_end(&mut self, pod: &Pod) {
        let (Some(index), Some(last)) = (indexes::of(pod), ended_at(pod)) else { return };
        let count = self.index_failures.get(&index).copied().unwrap_or(0).max(1);
        let failures = self.of_index.entry(index).or_insert(Failures { count, last });
        *failures = Failures { count: failures.count.max(count), last: failures.last.max(last) };
    }

    fn note_failure(&mut self, index: Option<i32>, pod: &Pod) {
        let Some(index) = index else { return };
        let before = pod.metadata.annotations.as_ref().and_then(|a| a.get(INDEX_FAILURES)?.parse::<i32>().ok());
        let failures = self.index_failures.entry(index).or_default();
        *failures = (*failures).max(before.unwrap_or(0).max(0).saturating_add(1));
    }
}

/// Returns the failures after the last success, as far as pods show.
fn since_success(pods: &[Arc<Pod>]) -> Option<Failures> {
    let ends = |of: &'static str| pods.iter().filter(move |p| phase(p) == of).filter_map(|p| ended_at(p));
    let success = ends("Succeeded").max();
    let failures = ends("Failed").filter(|end| success.is_none_or(|success| *end > success));
    let (count, last) = failures.fold((0, None), |(count, last), end| (count + 1, last.max(Some(end))));
    Some(Failures { count, last: last? })
}

/// Returns the end of a pod: that of its last container, or the time since which it is not ready.
fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let statuses = pod.status.as_ref()?.container_statuses.as_deref().unwrap_or_default();
    let ends = statuses.iter().filter_map(|c| c.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref());
    let unready = || condition(pod, "Ready").filter(|c| c.status == "False")?.last_transition_time.as_ref();
    ends.max().or_else(unready).map(|t| t.0)
}

fn number(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::JobStatus;

    use super::*;
    use crate::testkit::{PodMaker, meta, pod};

    fn tracked(maker: PodMaker) -> Arc<Pod> {
        let mut pod = maker.build();
        pod.metadata.finalizers = Some(vec![FINALIZER.into()]);
        Arc::new(pod)
    }

    fn job(change: impl FnOnce(&mut JobSpec)) -> Job {
        let mut spec = JobSpec { completions: Some(4), ..JobSpec::default() };
        change(&mut spec);
        Job { metadata: meta("j"), spec: Some(spec), status: None }
    }

    /// Writes what was counted into the Job, as a reconcile does.
    fn write(job: &mut Job, ends: &Ends) {
        let indexed = job.spec.as_ref().unwrap().completion_mode.is_some();
        job.status = Some(JobStatus {
            succeeded: Some(ends.counted_succeeded),
            failed: Some(ends.counted_failed),
            uncounted_terminated_pods: ends.uncounted.clone(),
            completed_indexes: indexes::text(&ends.completed).filter(|_| indexed),
            failed_indexes: indexes::text(&ends.failed_indexes).filter(|_| indexed),
            ..JobStatus::default()
        });
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
        pods.iter().filter_map(|p| p.metadata.name.as_deref()).collect()
    }

    #[test]
    fn an_end_is_written_released_and_counted_once() {
        let mut job = job(|_| {});
        let pods = [tracked(pod("a").phase("Succeeded")), tracked(pod("b").phase("Failed"))];
        let first = count(&job, &pods, false);
        assert_eq!((first.succeeded, first.failed, first.counted_succeeded), (1, 1, 0));
        assert!(first.release.is_empty(), "not before the status bears them");
        write(&mut job, &first);
        let second = count(&job, &pods, false);
        assert_eq!((second.succeeded, second.failed, second.counted_succeeded), (1, 1, 0));
        assert_eq!(names(&second.release), ["a", "b"]);
        assert_eq!(second.uncounted, first.uncounted, "nothing to write");

        // One pod stays without the finalizer, the other was deleted.
        let left = [pod("a").phase("Succeeded").arc()];
        let third = count(&job, &left, false);
        assert_eq!((third.counted_succeeded, third.counted_failed, third.uncounted.as_ref()), (1, 1, None));
        write(&mut job, &third);
        for pods in [&left[..], &[]] {
            let later = count(&job, pods, false);
            assert_eq!((later.succeeded, later.failed), (1, 1), "never again");
        }
        let more = count(&job, &[tracked(pod("c").phase("Succeeded"))], false);
        assert_eq!(more.succeeded, 2, "an end after pods were deleted is added");
    }

    #[test]
    fn deleted_pods_have_failed_unless_their_end_is_awaited() {
        let pods = [tracked(pod("a").phase("Running").terminating())];
        let waits = |s: &mut JobSpec| s.pod_replacement_policy = Some("Failed".into());
        assert_eq!(count(&job(|_| {}), &pods, false).failed, 1);
        assert_eq!(count(&job(waits), &pods, false).failed, 0);
        assert_eq!(count(&job(waits), &pods, true).failed, 1, "the Job is over");
    }

    #[test]
    fn indexes_count_once_each() {
        let mut job = job(|s| s.completion_mode = Some("Indexed".into()));
        let of = |name: &str, index: &str| pod(name).phase("Succeeded").annotation(indexes::INDEX, index);
        let pods = [tracked(of("a", "1")), tracked(of("twin", "1")), tracked(of("out", "9")), tracked(of("none", ""))];
        let first = count(&job, &pods, false);
        assert_eq!((first.succeeded, first.uncounted.clone()), (1, None));
        assert_eq!(names(&first.release), ["none", "out"], "they count for no index");
        write(&mut job, &first);
        assert_eq!(names(&count(&job, &pods, false).release), ["a", "none", "out", "twin"]);
        assert_eq!(count(&job, &[], false).succeeded, 1);
    }

    #[test]
    fn an_index_fails_after_its_own_limit() {
        let job = job(|s| {
            s.completion_mode = Some("Indexed".into());
            s.backoff_limit_per_index = Some(1);
        });
        let failed = |before: &str| {
            tracked(pod("a").phase("Failed").annotation(indexes::INDEX, "2").annotation(INDEX_FAILURES, before))
        };
        let first = count(&job, &[failed("0")], false);
        assert_eq!((first.index_failures[&2], first.failed_indexes.len()), (1, 0));
        let second = count(&job, &[failed("1")], false);
        assert_eq!((second.index_failures[&2], second.failed_indexes), (2, [2].into()));

        let mut job = job;
        write(&mut job, &first);
        let successor = tracked(pod("b").annotation(indexes::INDEX, "2").annotation(INDEX_FAILURES, "1"));
        assert!(count(&job, &[failed("0")], false).release.is_empty(), "its successor needs the number");
        assert_eq!(names(&count(&job, &[failed("0"), successor], false).release), ["a"]);
    }
}
