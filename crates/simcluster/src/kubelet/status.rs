//! Status of a pod that runs or has ended.

use ironclad_kubecontrollers::pods::condition;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
        ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::{references::Missing, restarts::Restarts};

pub(crate) struct PodLocation {
    pub(crate) host_ip: String,
    pub(crate) pod_ip: String,
}

/// Returns the readiness gate of the pod whose condition is not true.
pub(super) fn closed_gate(pod: &Pod) -> Option<&str> {
    let gates = pod.spec.iter().flat_map(|s| s.readiness_gates.iter().flatten());
    gates.map(|gate| gate.condition_type.as_str()).find(|gate| condition(pod, gate).is_none_or(|c| c.status != "True"))
}

/// Returns `true` if the pod's status already says that it waits for this object.
pub(super) fn is_waiting(pod: &Pod, missing: &Missing) -> bool {
    let statuses = pod.status.as_ref().and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
    !statuses.is_empty()
        && statuses.iter().all(|status| {
            let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
            waiting.is_some_and(|w| {
                w.reason.as_deref() == Some(missing.reason) && w.message.as_deref().unwrap_or("") == missing.message
            })
        })
}

/// Returns the status of a pod that waits for an object.
pub(super) fn waiting(pod: &Pod, missing: &Missing, now: Timestamp) -> PodStatus {
    let state = ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: Some(missing.reason.to_owned()),
            message: Some(missing.message.clone()).filter(|message| !message.is_empty()),
        }),
        ..ContainerState::default()
    };
    let mounted = if missing.message.is_empty() { Some(("", String::new())) } else { None };
    let unready = Some(("ContainersNotReady", unready_message(pod)));
    let wanted = [
        ("PodReadyToStartContainers", mounted),
        ("Initialized", None),
        ("Ready", unready.clone()),
        ("ContainersReady", unready),
    ];
    PodStatus {
        phase: Some("Pending".into()),
        conditions: Some(conditions(pod, now, wanted)),
        container_statuses: Some(containers(pod).map(|c| status_of(pod, c, false, state.clone())).collect()),
        ..PodStatus::default()
    }
}

fn unready_message(pod: &Pod) -> String {
    let names = containers(pod).map(|c| c.name.as_str()).collect::<Vec<_>>().join(" ");
    format!("containers with unready status: [{names}]")
}

/// Returns the status of a pod whose containers have run since its start, or from now on.
pub(crate) fn running(pod: &Pod, place: PodLocation, ready: bool, now: Timestamp) -> PodStatus {
    let started = pod.status.as_ref().and_then(|s| s.start_time.clone()).unwrap_or(Time(now));
    let since = Restarts::of(pod).running.map_or_else(|| started.clone(), Time);
    let state = ContainerState {
        running: Some(ContainerStateRunning { started_at: Some(since) }),
        ..ContainerState::default()
    };
    let done = ContainerState { terminated: Some(terminated(0, &started, &started)), ..ContainerState::default() };
    let init = pod.spec.iter().flat_map(|s| s.init_containers.iter().flatten());
    let init: Vec<_> = init
        .map(|c| match c.restart_policy.as_deref() {
            Some("Always") => status_of(pod, c, true, state.clone()),
            _ => status_of(pod, c, true, done.clone()),
        })
        .collect();
    PodStatus {
        phase: Some("Running".into()),
        host_ip: Some(place.host_ip.clone()),
        host_ips: Some(vec![HostIP { ip: place.host_ip }]),
        pod_ip: Some(place.pod_ip.clone()),
        pod_ips: Some(vec![PodIP { ip: place.pod_ip }]),
        start_time: Some(started),
        conditions: Some(ready_conditions(pod, ready, now)),
        init_container_statuses: (!init.is_empty()).then_some(init),
        container_statuses: Some(containers(pod).map(|c| status_of(pod, c, ready, state.clone())).collect()),
        ..PodStatus::default()
    }
}

/// Returns the conditions of a pod whose containers were started, ready or not.
pub(super) fn ready_conditions(pod: &Pod, ready: bool, now: Timestamp) -> Vec<PodCondition> {
    let unready = if ready { None } else { Some(("ContainersNotReady", unready_message(pod))) };
    let gated = closed_gate(pod).map(|gate| {
        let state = if condition(pod, gate).is_some() { "false" } else { "missing" };
        ("ReadinessGatesNotReady", format!("the condition of readiness gate {gate:?} is {state}"))
    });
    let wanted = [
        ("PodReadyToStartContainers", None),
        ("Initialized", None),
        ("Ready", unready.clone().or(gated)),
        ("ContainersReady", unready),
    ];
    conditions(pod, now, wanted)
}

pub(crate) fn ended(pod: &Pod, exit_code: i32, now: Timestamp) -> PodStatus {
    let started = pod.status.as_ref().and_then(|s| s.start_time.clone()).unwrap_or(Time(now));
    let state =
        ContainerState { terminated: Some(terminated(exit_code, &started, &Time(now))), ..ContainerState::default() };
    let (phase, reason) = if exit_code == 0 { ("Succeeded", "PodCompleted") } else { ("Failed", "PodFailed") };
    let over = Some((reason, String::new()));
    PodStatus {
        phase: Some(phase.into()),
        conditions: Some(conditions(
            pod,
            now,
            [
                ("PodReadyToStartContainers", over.clone()),
                ("Initialized", None),
                ("Ready", over.clone()),
                ("ContainersReady", over),
            ],
        )),
        container_statuses: Some(containers(pod).map(|c| status_of(pod, c, false, state.clone())).collect()),
        ..PodStatus::default()
    }
}

pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(|s| &s.containers)
}

pub(super) fn terminated(exit_code: i32, started: &Time, finished: &Time) -> ContainerStateTerminated {
    ContainerStateTerminated {
        exit_code,
        reason: Some(if exit_code == 0 { "Completed" } else { "Error" }.into()),
        started_at: Some(started.clone()),
        finished_at: Some(finished.clone()),
        ..ContainerStateTerminated::default()
    }
}

/// Returns the status of a container in this state. Restarts so far stay counted.
pub(super) fn status_of(pod: &Pod, container: &Container, ready: bool, state: ContainerState) -> ContainerStatus {
    let image = container.image.clone().unwrap_or_default();
    let mut all = pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten());
    let before = all.rfind(|status| status.name == container.name);
    let was_created = before.is_some_and(|status| status.container_id.is_some());
    let (runs, created) = (state.running.is_some(), state.waiting.is_none() || was_created);
    let id = format!("simulated://{}/{}", pod.metadata.uid.as_deref().unwrap_or(""), container.name);
    ContainerStatus {
        name: container.name.clone(),
        image_id: if created { format!("simulated://{image}") } else { String::new() },
        image,
        container_id: created.then_some(id),
        ready,
        started: Some(runs),
        restart_count: before.map_or(0, |status| status.restart_count),
        last_state: before.and_then(|status| status.last_state.clone()),
        state: Some(state),
        ..ContainerStatus::default()
    }
}

/// A condition with reason and message if it is false.
type Wanted = (&'static str, Option<(&'static str, String)>);

/// Updates conditions; others are kept, and one whose status is unchanged keeps its time.
fn conditions(pod: &Pod, now: Timestamp, wanted: [Wanted; 4]) -> Vec<PodCondition> {
    let others = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let others = others.filter(|c| !wanted.iter().any(|(type_, _)| c.type_ == *type_)).cloned();
    let mut all: Vec<PodCondition> = others.collect();
    for (type_, against) in wanted {
        let status = if against.is_none() { "True" } else { "False" };
        let kept = condition(pod, type_).filter(|c| c.status == status).and_then(|c| c.last_transition_time.clone());
        let (reason, message) = against.unzip();
        all.push(PodCondition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.filter(|reason| !reason.is_empty()).map(str::to_owned),
            message: message.filter(|m| !m.is_empty()),
            last_transition_time: kept.or(Some(Time(now))),
            observed_generation: pod.metadata.generation,
            ..PodCondition::default()
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodReadinessGate, PodSpec};

    use super::*;
    use crate::kubelet::references::Kind;

    fn t(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn pod() -> Pod {
        let container = |name: &str| Container { name: name.into(), image: Some("i".into()), ..Container::default() };
        Pod {
            spec: Some(PodSpec { containers: vec![container("a"), container("b")], ..PodSpec::default() }),
            ..Pod::default()
        }
    }

    fn place() -> PodLocation {
        PodLocation { host_ip: "1.1.1.1".into(), pod_ip: "2.2.2.2".into() }
    }

    fn is(status: &PodStatus, type_: &str) -> (String, i64) {
        let condition = status.conditions.iter().flatten().find(|c| c.type_ == type_).unwrap();
        (condition.status.clone(), condition.last_transition_time.as_ref().unwrap().0.as_second())
    }

    #[test]
    fn a_pod_with_a_closed_gate_runs_and_is_not_ready() {
        let mut pod = pod();
        let gate = PodReadinessGate { condition_type: "x.io/open".into() };
        pod.spec.as_mut().unwrap().readiness_gates = Some(vec![gate]);
        let closed = running(&pod, place(), true, t(10));
        assert_eq!((is(&closed, "Ready").0, is(&closed, "ContainersReady").0), ("False".into(), "True".into()));
        let open = PodCondition { type_: "x.io/open".into(), status: "True".into(), ..PodCondition::default() };
        pod.status = Some(PodStatus { conditions: Some(vec![open]), ..PodStatus::default() });
        assert_eq!(is(&running(&pod, place(), true, t(20)), "Ready").0, "True");
    }

    #[test]
    fn a_waiting_pod_says_what_for() {
        let mut pod = pod();
        let missing = Missing {
            kind: Kind::ConfigMap,
            name: "conf".into(),
            reason: "CreateContainerConfigError",
            message: "configmap \"conf\" not found".into(),
        };
        assert!(!is_waiting(&pod, &missing));
        let status = waiting(&pod, &missing, t(10));
        assert_eq!((status.phase.as_deref(), is(&status, "Ready").0), (Some("Pending"), "False".into()));
        assert!(status.container_statuses.iter().flatten().all(|c| c.container_id.is_none()));
        pod.status = Some(status);
        assert!(is_waiting(&pod, &missing));
        let other = Missing { message: "secret \"key\" not found".into(), ..missing };
        assert!(!is_waiting(&pod, &other), "it waits for something else now");
    }

    #[test]
    fn conditions_follow_readiness_and_end() {
        let mut pod = pod();
        let first = running(&pod, place(), true, t(10));
        assert_eq!(is(&first, "Ready"), ("True".into(), 10));
        assert!(first.container_statuses.as_ref().unwrap().iter().all(|c| c.ready));
        pod.status = Some(first);
        let unready = running(&pod, place(), false, t(20));
        assert_eq!((is(&unready, "Ready"), is(&unready, "Initialized")), (("False".into(), 20), ("True".into(), 10)));
        let message = unready.conditions.iter().flatten().find(|c| c.type_ == "Ready").unwrap().message.clone();
        assert_eq!(message.as_deref(), Some("containers with unready status: [a b]"));
        assert_eq!(unready.start_time, Some(Time(t(10))), "the start time is kept");
        pod.status = Some(unready);
        let ended = ended(&pod, 2, t(30));
        assert_eq!((ended.phase.as_deref(), is(&ended, "Ready")), (Some("Failed"), ("False".into(), 20)));
        let state = ended.container_statuses.unwrap()[0].state.clone().unwrap().terminated.unwrap();
        assert_eq!((state.exit_code, state.reason.as_deref()), (2, Some("Error")));
    }
}
