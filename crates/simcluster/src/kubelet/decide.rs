//! Decision of a node about one of its pods.

use std::time::Duration;

use ironclad_kubecontrollers::pods::{condition, is_finished, is_terminating, phase, ready_since};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use super::{
    restarts::{Restarts, crash_loop_backoff},
    status::closed_gate,
};
use crate::options::Times;

/// Annotation with the time from binding to start (`5s`, `2m`, `250ms`).
pub(crate) const STARTUP_DELAY: &str = "sim.ironclad.io/startup-delay";
/// Annotation; pods with value `false` run and are not ready. It may change while they run.
pub(crate) const READY: &str = "sim.ironclad.io/ready";
/// Annotation with the time from start to termination, for any restart policy.
pub(crate) const RUN_TIME: &str = "sim.ironclad.io/run-time";
/// Annotation with the exit code of the containers; other than 0, the pod fails.
pub(crate) const EXIT_CODE: &str = "sim.ironclad.io/exit-code";
/// Exit code of containers that are stopped.
const KILLED: i32 = 137;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// None, until the pod changes.
    Leave,
    /// None before this time.
    Wait(Timestamp),
    /// Report running containers, ready or not.
    Run {
        ready: bool,
    },
    /// Report containers that run again after their end, ready or not; with this exit code, they ended just now.
    Restart {
        exit_code: Option<i32>,
        ready: bool,
    },
    /// Report containers that ended with this exit code and are started again after a wait.
    CrashLoop {
        exit_code: i32,
    },
    /// Report terminated containers with this exit code.
    End {
        exit_code: i32,
    },
    Remove,
}

/// Decides about a pod; `node_exists`: the node that it is bound to exists.
pub(crate) fn decide(pod: &Pod, node_exists: bool, times: &Times, now: Timestamp) -> Step {
    if pod.spec.as_ref().is_none_or(|s| s.node_name.is_none()) {
        return Step::Leave;
    }
    if !node_exists {
        return Step::Remove;
    }
    if is_terminating(pod) {
        // A pod that something waits for reports its end before it goes.
        let is_awaited = pod.metadata.finalizers.as_ref().is_some_and(|all| !all.is_empty());
        let step = if is_awaited && !is_finished(pod) { Step::End { exit_code: KILLED } } else { Step::Remove };
        return at(ends(pod, times), now, step);
    }
    if is_finished(pod) {
        return Step::Leave;
    }
    let ready = is_wanted_ready(pod);
    if phase(pod) != "Running" {
        return at(starts(pod, times), now, Step::Run { ready });
    }
    let restarts = Restarts::of(pod);
    if let Some(ended) = restarts.crashed {
        let again = Step::Restart { exit_code: None, ready };
        return at(later(ended, crash_loop_backoff(restarts.count)), now, again);
    }
    let reported = condition(pod, "ContainersReady").is_none_or(|c| (c.status == "True") == ready)
        && ready_since(pod).is_some() == (ready && closed_gate(pod).is_none());
    let over = run_time(pod, times).map(|time| later(restarts.running.unwrap_or_else(|| started(pod)), time));
    match over {
        Some(over) if over <= now => end(pod, exit_code(pod), restarts.count, ready),
        _ if !reported => Step::Run { ready },
        Some(over) => Step::Wait(over),
        None => Step::Leave,
    }
}

/// Returns what follows the end of the pod's containers. The first restart comes at once.
fn end(pod: &Pod, exit_code: i32, restarts: i32, ready: bool) -> Step {
    let policy = pod.spec.as_ref().and_then(|s| s.restart_policy.as_deref());
    match (policy, restarts) {
        (Some("OnFailure"), 0) if exit_code != 0 => Step::Restart { exit_code: Some(exit_code), ready },
        (Some("OnFailure"), _) if exit_code != 0 => Step::CrashLoop { exit_code },
        _ => Step::End { exit_code },
    }
}

/// Returns the readiness of a new pod that runs as soon as it is created; `None` if its startup takes time.
pub(crate) fn starts_at_once(pod: &Pod, times: &Times) -> Option<bool> {
    startup_delay(pod, times).is_zero().then(|| is_wanted_ready(pod))
}

fn is_wanted_ready(pod: &Pod) -> bool {
    annotation(pod, READY) != Some("false")
}

fn startup_delay(pod: &Pod, times: &Times) -> Duration {
    annotation(pod, STARTUP_DELAY).and_then(duration).unwrap_or(times.startup_delay)
}

fn at(due: Timestamp, now: Timestamp, step: Step) -> Step {
    if due <= now { step } else { Step::Wait(due) }
}

fn starts(pod: &Pod, times: &Times) -> Timestamp {
    let bound = condition(pod, "PodScheduled").filter(|c| c.status == "True");
    let bound = bound.and_then(|c| c.last_transition_time.as_ref()).or(pod.metadata.creation_timestamp.as_ref());
    later(bound.map_or(Timestamp::UNIX_EPOCH, |t| t.0), startup_delay(pod, times))
}

/// Returns the time at which a deleted pod ends: `deletionTimestamp` includes the whole grace period.
fn ends(pod: &Pod, times: &Times) -> Timestamp {
    let deadline = pod.metadata.deletion_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0);
    let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or(0).max(0));
    let asked = deadline.checked_sub(grace).unwrap_or(deadline);
    // A pod that does not run yet terminates immediately.
    let needs = if phase(pod) == "Running" { times.termination_delay } else { Duration::ZERO };
    later(asked, needs).min(deadline)
}

fn started(pod: &Pod) -> Timestamp {
    let start = pod.status.as_ref().and_then(|s| s.start_time.as_ref());
    start.map_or(Timestamp::UNIX_EPOCH, |t| t.0)
}

fn run_time(pod: &Pod, times: &Times) -> Option<Duration> {
    let ends = pod.spec.as_ref().and_then(|s| s.restart_policy.as_deref()).is_some_and(|p| p != "Always");
    annotation(pod, RUN_TIME).and_then(duration).or(ends.then_some(times.run_time))
}

fn exit_code(pod: &Pod) -> i32 {
    annotation(pod, EXIT_CODE).and_then(|c| c.parse().ok()).unwrap_or(0)
}

fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn later(from: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| from.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

/// Parses a duration such as `1h30m`, `90s` or `250ms`. `None` for invalid and negative ones.
pub fn duration(text: &str) -> Option<Duration> {
    Duration::try_from(text.parse::<SignedDuration>().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::core::v1::{
            ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
            PodCondition, PodReadinessGate, PodSpec, PodStatus,
        },
        apimachinery::pkg::apis::meta::v1::Time,
    };

    use super::*;
    use crate::kubelet::restarts::CRASH_LOOP;

    fn t(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn pod(phase: &str, change: impl FnOnce(&mut Pod)) -> Pod {
        let mut pod = Pod {
            spec: Some(PodSpec { node_name: Some("n".into()), ..PodSpec::default() }),
            status: Some(PodStatus {
                phase: Some(phase.into()),
                start_time: Some(Time(t(100))),
                conditions: Some(vec![
                    PodCondition {
                        type_: "PodScheduled".into(),
                        status: "True".into(),
                        last_transition_time: Some(Time(t(100))),
                        ..PodCondition::default()
                    },
                    PodCondition {
                        type_: "Ready".into(),
                        status: if phase == "Running" { "True" } else { "False" }.into(),
                        ..PodCondition::default()
                    },
                ]),
                ..PodStatus::default()
            }),
            ..Pod::default()
        };
        change(&mut pod);
        pod
    }

    fn note(pod: &mut Pod, key: &str, value: &str) {
        pod.metadata.annotations.get_or_insert_default().insert(key.into(), value.into());
    }

    fn deleted(pod: &mut Pod, asked: i64, grace: i64) {
        pod.metadata.deletion_timestamp = Some(Time(t(asked + grace)));
        pod.metadata.deletion_grace_period_seconds = Some(grace);
    }

    fn running(restart_count: i32, since: i64) -> ContainerStatus {
        let running = ContainerStateRunning { started_at: Some(Time(t(since))) };
        let state = ContainerState { running: Some(running), ..ContainerState::default() };
        ContainerStatus { restart_count, state: Some(state), ..ContainerStatus::default() }
    }

    fn crashed(restart_count: i32, ended: i64) -> ContainerStatus {
        let waiting = ContainerStateWaiting { reason: Some(CRASH_LOOP.into()), message: None };
        let terminated = ContainerStateTerminated { finished_at: Some(Time(t(ended))), ..Default::default() };
        ContainerStatus {
            restart_count,
            state: Some(ContainerState { waiting: Some(waiting), ..ContainerState::default() }),
            last_state: Some(ContainerState { terminated: Some(terminated), ..ContainerState::default() }),
            ..ContainerStatus::default()
        }
    }

    #[test]
    fn steps() {
        let times = Times {
            startup_delay: Duration::from_secs(10),
            termination_delay: Duration::from_secs(3),
            run_time: Duration::from_secs(20),
        };
        let restarting = |container: ContainerStatus| {
            pod("Running", |p| {
                p.spec.as_mut().unwrap().restart_policy = Some("OnFailure".into());
                note(p, EXIT_CODE, "3");
                p.status.as_mut().unwrap().container_statuses = Some(vec![container]);
            })
        };
        let job = |p: &mut Pod| p.spec.as_mut().unwrap().restart_policy = Some("Never".into());
        for (name, pod, now, want) in [
            ("a pod without a node", pod("Pending", |p| p.spec = None), 100, Step::Leave),
            ("a second before its start", pod("Pending", |_| {}), 109, Step::Wait(t(110))),
            ("at its start", pod("Pending", |_| {}), 110, Step::Run { ready: true }),
            ("its own startup delay", pod("Pending", |p| note(p, STARTUP_DELAY, "1s")), 101, Step::Run { ready: true }),
            ("running and not ready", pod("Pending", |p| note(p, READY, "false")), 110, Step::Run { ready: false }),
            ("a running pod is left alone", pod("Running", |_| {}), 900, Step::Leave),
            (
                "annotated as not ready while running",
                pod("Running", |p| note(p, READY, "false")),
                900,
                Step::Run { ready: false },
            ),
            (
                "a readiness gate that closed",
                pod("Running", |p| {
                    let gate = PodReadinessGate { condition_type: "x.io/open".into() };
                    p.spec.as_mut().unwrap().readiness_gates = Some(vec![gate]);
                }),
                900,
                Step::Run { ready: true },
            ),
            ("a pod of a Job runs for its run time", pod("Running", job), 119, Step::Wait(t(120))),
            ("and ends", pod("Running", job), 120, Step::End { exit_code: 0 }),
            (
                "a pod ends with its exit code",
                pod("Running", |p| {
                    job(p);
                    note(p, EXIT_CODE, "3");
                }),
                120,
                Step::End { exit_code: 3 },
            ),
            (
                "any pod can have a run time",
                pod("Running", |p| note(p, RUN_TIME, "5s")),
                105,
                Step::End { exit_code: 0 },
            ),
            (
                "under OnFailure a container that failed restarts at once",
                restarting(running(0, 100)),
                120,
                Step::Restart { exit_code: Some(3), ready: true },
            ),
            ("the restarted container runs for its run time", restarting(running(1, 120)), 139, Step::Wait(t(140))),
            ("and waits before the next restart", restarting(running(1, 120)), 140, Step::CrashLoop { exit_code: 3 }),
            ("during the wait", restarting(crashed(1, 140)), 149, Step::Wait(t(150))),
            ("after the wait", restarting(crashed(1, 140)), 150, Step::Restart { exit_code: None, ready: true }),
            ("the wait doubles", restarting(crashed(3, 140)), 179, Step::Wait(t(180))),
            ("up to five minutes", restarting(crashed(30, 140)), 141, Step::Wait(t(440))),
            (
                "under OnFailure a container that succeeded ends",
                pod("Running", |p| {
                    job(p);
                    p.spec.as_mut().unwrap().restart_policy = Some("OnFailure".into());
                }),
                120,
                Step::End { exit_code: 0 },
            ),
            ("a finished pod is left alone", pod("Succeeded", job), 900, Step::Leave),
            (
                "a deleted pod terminates after its delay",
                pod("Running", |p| deleted(p, 200, 30)),
                202,
                Step::Wait(t(203)),
            ),
            ("after the termination delay it is removed", pod("Running", |p| deleted(p, 200, 30)), 203, Step::Remove),
            ("never later than the grace period", pod("Running", |p| deleted(p, 200, 1)), 201, Step::Remove),
            (
                "a pod with a finalizer reports its end first",
                pod("Running", |p| {
                    deleted(p, 200, 30);
                    p.metadata.finalizers = Some(vec!["a.io/f".into()]);
                }),
                203,
                Step::End { exit_code: KILLED },
            ),
            (
                "a pod that ended is removed in spite of a finalizer",
                pod("Failed", |p| {
                    deleted(p, 200, 30);
                    p.metadata.finalizers = Some(vec!["a.io/f".into()]);
                }),
                200,
                Step::Remove,
            ),
            (
                "a pod that has not started is removed immediately",
                pod("Pending", |p| deleted(p, 200, 30)),
                200,
                Step::Remove,
            ),
        ] {
            assert_eq!(decide(&pod, true, &times, t(now)), want, "{name}");
        }
        assert_eq!(decide(&pod("Running", |_| {}), false, &times, t(1)), Step::Remove, "its node does not exist");
    }

    #[test]
    fn pods_that_start_immediately() {
        let slow = Times { startup_delay: Duration::from_secs(1), ..Times::default() };
        let at_once = Times { startup_delay: Duration::ZERO, ..slow };
        for (name, pod, times, want) in [
            ("no startup delay", pod("Pending", |_| {}), &at_once, Some(true)),
            ("running and not ready", pod("Pending", |p| note(p, READY, "false")), &at_once, Some(false)),
            ("a delay", pod("Pending", |_| {}), &slow, None),
            ("its own delay", pod("Pending", |p| note(p, STARTUP_DELAY, "250ms")), &at_once, None),
            ("its own delay is zero", pod("Pending", |p| note(p, STARTUP_DELAY, "0s")), &slow, Some(true)),
        ] {
            assert_eq!(starts_at_once(&pod, times), want, "{name}");
        }
    }

    #[test]
    fn durations() {
        for (text, want) in [
            ("5s", Some(5_000)),
            ("1m30s", Some(90_000)),
            ("250ms", Some(250)),
            ("2h", Some(7_200_000)),
            ("", None),
            ("5", None),
            ("s", None),
            ("1d", None),
            ("-5s", None),
            ("1.5s", Some(1_500)),
        ] {
            assert_eq!(duration(text), want.map(Duration::from_millis), "{text}");
        }
    }
}
