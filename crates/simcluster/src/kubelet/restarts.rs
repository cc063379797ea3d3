//! Restarts of containers in their pod: what its status tells of them, and the status after an end and after a restart.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        Container, ContainerState, ContainerStateRunning, ContainerStateWaiting, ContainerStatus, Pod, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::status::{containers, ready_conditions, status_of, terminated};

/// Reason of containers that wait for their restart.
pub(super) const CRASH_LOOP: &str = "CrashLoopBackOff";
/// Wait before the second restart, doubled for each further one ...
const BACKOFF: Duration = Duration::from_secs(10);
/// ... up to this.
const BACKOFF_MAX: Duration = Duration::from_secs(300);

/// Runs of a pod's containers so far. All of them end and restart together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Restarts {
    pub(super) count: i32,
    /// Start of the current run.
    pub(super) running: Option<Timestamp>,
    /// End of the last run, while the containers wait for their restart.
    pub(super) crashed: Option<Timestamp>,
}

impl Restarts {
    pub(super) fn of(pod: &Pod) -> Self {
        let first = pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten()).next();
        let state = first.and_then(|c| c.state.as_ref());
        let waits = state.and_then(|s| s.waiting.as_ref()).is_some_and(|w| w.reason.as_deref() == Some(CRASH_LOOP));
        let ended = || first?.last_state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|t| t.0);
        Self {
            count: first.map_or(0, |c| c.restart_count),
            running: state.and_then(|s| s.running.as_ref()?.started_at.as_ref()).map(|t| t.0),
            crashed: waits.then(|| ended().unwrap_or(Timestamp::UNIX_EPOCH)),
        }
    }
}

/// Returns the wait after an end for the restart that follows this many.
pub(super) fn crash_loop_backoff(restarts: i32) -> Duration {
    let doubled = u32::try_from(restarts.clamp(1, 10) - 1).unwrap_or(0);
    BACKOFF.saturating_mul(1 << doubled).min(BACKOFF_MAX)
}

/// Returns the status of a pod whose containers run again from now on. `exit_code`: they ended just now.
pub(super) fn restarted(pod: &Pod, exit_code: Option<i32>, ready: bool, now: Timestamp) -> PodStatus {
    let running = ContainerStateRunning { started_at: Some(Time(now)) };
    let state = ContainerState { running: Some(running), ..ContainerState::default() };
    let again = |container: &Container| {
        let mut status = status_of(pod, container, ready, state.clone());
        status.restart_count = status.restart_count.saturating_add(1);
        if let Some(exit_code) = exit_code {
            status.last_state = Some(end(pod, exit_code, now));
        }
        status
    };
    PodStatus {
        conditions: Some(ready_conditions(pod, ready, now)),
        container_statuses: Some(containers(pod).map(again).collect()),
        ..PodStatus::default()
    }
}

/// Returns the status of a pod whose containers ended just now and wait for their restart.
pub(super) fn crashed(pod: &Pod, exit_code: i32, now: Timestamp) -> PodStatus {
    let wait = crash_loop_backoff(Restarts::of(pod).count).as_secs();
    let meta = &pod.metadata;
    let (name, namespace) = (meta.name.as_deref().unwrap_or(""), meta.namespace.as_deref().unwrap_or(""));
    let of_pod = format!("pod={name}_{namespace}({})", meta.uid.as_deref().unwrap_or(""));
    let ended = |container: &Container| {
        let message = format!("back-off {wait}s restarting failed container={} {of_pod}", container.name);
        let waiting = ContainerStateWaiting { reason: Some(CRASH_LOOP.to_owned()), message: Some(message) };
        let state = ContainerState { waiting: Some(waiting), ..ContainerState::default() };
        ContainerStatus { last_state: Some(end(pod, exit_code, now)), ..status_of(pod, container, false, state) }
    };
    PodStatus {
        conditions: Some(ready_conditions(pod, false, now)),
        container_statuses: Some(containers(pod).map(ended).collect()),
        ..PodStatus::default()
    }
}

fn end(pod: &Pod, exit_code: i32, now: Timestamp) -> ContainerState {
    let started = Restarts::of(pod).running.unwrap_or(now);
    let terminated = terminated(exit_code, &Time(started), &Time(now));
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;

    use super::*;
    use crate::kubelet::status::{PodLocation, ended, running};

    fn t(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn place() -> PodLocation {
        PodLocation { host_ip: "1.1.1.1".into(), pod_ip: "2.2.2.2".into() }
    }

    fn first(pod: &Pod) -> ContainerStatus {
        pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].clone()
    }

    #[test]
    fn runs_and_waits_follow_each_other() {
        let container = Container { name: "c".into(), ..Container::default() };
        let mut pod =
            Pod { spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }), ..Pod::default() };
        pod.status = Some(running(&pod, place(), true, t(10)));
        assert_eq!(Restarts::of(&pod), Restarts { count: 0, running: Some(t(10)), crashed: None });

        pod.status = Some(restarted(&pod, Some(3), true, t(20)));
        assert_eq!(Restarts::of(&pod), Restarts { count: 1, running: Some(t(20)), crashed: None });
        let last = first(&pod).last_state.unwrap().terminated.unwrap();
        assert_eq!((last.exit_code, last.started_at, last.finished_at), (3, Some(Time(t(10))), Some(Time(t(20)))));

        pod.status = Some(crashed(&pod, 3, t(30)));
        assert_eq!(Restarts::of(&pod), Restarts { count: 1, running: None, crashed: Some(t(30)) });
        let waiting = first(&pod).state.unwrap().waiting.unwrap();
        assert_eq!(waiting.message.as_deref(), Some("back-off 10s restarting failed container=c pod=_()"));
        assert!(!first(&pod).ready);

        pod.status = Some(restarted(&pod, None, true, t(40)));
        assert_eq!(Restarts::of(&pod), Restarts { count: 2, running: Some(t(40)), crashed: None });
        let last = first(&pod).last_state.unwrap().terminated.unwrap();
        assert_eq!(last.finished_at, Some(Time(t(30))), "the end before the wait");

        pod.status = Some(running(&pod, place(), false, t(50)));
        assert_eq!(
            Restarts::of(&pod),
            Restarts { count: 2, running: Some(t(40)), crashed: None },
            "not ready any more"
        );
        pod.status = Some(ended(&pod, 0, t(60)));
        assert_eq!(first(&pod).restart_count, 2);
    }
}
