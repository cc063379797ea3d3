//! Decision about a SimulatedCluster (specification/api.md 11.8).

use std::time::Duration;

use ironclad_api::sim::SimulatedCluster;
use ironclad_simcluster::{Faults, Flap, Shape, Times, UsageRule, duration};

/// Finalizer that keeps a SimulatedCluster until its member has left the fleet and its data is removed.
pub(crate) const FINALIZER: &str = "sim.ironclad.io/member";
/// Annotation of a SimulatedCluster: startup time of its pods, unless a pod overrides it.
pub(crate) const STARTUP_DELAY: &str = "sim.ironclad.io/startup-delay";
/// Annotation of a SimulatedCluster: termination time of its pods.
pub(crate) const TERMINATION_DELAY: &str = "sim.ironclad.io/termination-delay";
/// Annotation of a SimulatedCluster: run time of pods that are meant to complete.
pub(crate) const RUN_TIME: &str = "sim.ironclad.io/run-time";
/// The context of the control plane in the kubeconfig, which no member can have.
pub(crate) const PLANE: &str = "ironclad";
/// The most nodes of a member.
pub(crate) const NODES_MAX: u32 = 1_000;

/// Action on a SimulatedCluster.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// None.
    Leave,
    /// Reject it, with the reason: it cannot be a member.
    Refuse(String),
    /// Have it keep these finalizers, ours among them, before anything is made for it.
    Hold(Vec<String>),
    /// A member runs like this.
    Run(Box<MemberConfig>),
    /// Remove its member from the fleet, then keep these finalizers.
    LeaveFleet(Vec<String>),
}

/// Configuration of a running member.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct MemberConfig {
    pub(super) shape: Shape,
    pub(super) faults: Faults,
    pub(super) usage: Vec<UsageRule>,
    pub(super) times: Times,
    /// Fields of the spec that cannot be applied, for the status.
    pub(super) complaints: Vec<String>,
}

/// Decides about a SimulatedCluster.
pub(super) fn decide(simulated: &SimulatedCluster) -> Step {
    let finalizers = simulated.metadata.finalizers.clone().unwrap_or_default();
    let has_finalizer = finalizers.iter().any(|f| f == FINALIZER);
    let name = simulated.metadata.name.as_deref().unwrap_or_default();
    match (simulated.metadata.deletion_timestamp.is_some(), has_finalizer) {
        (true, false) => Step::Leave,
        (true, true) => Step::LeaveFleet(finalizers.into_iter().filter(|f| f != FINALIZER).collect()),
        (false, _) if name == PLANE => {
            Step::Refuse(format!("{PLANE} is the name of the control plane's context; choose another"))
        }
        (false, false) => Step::Hold(finalizers.into_iter().chain([FINALIZER.to_owned()]).collect()),
        (false, true) => Step::Run(Box::new(wanted(simulated))),
    }
}

fn wanted(simulated: &SimulatedCluster) -> MemberConfig {
    let spec = &simulated.spec;
    let mut complaints = Vec::new();
    let mut read = |field: &str, text: &str| {
        let read = duration(text);
        if read.is_none() {
            complaints.push(format!("{field}: {text:?} is not a duration (write it like 250ms, 30s or 2m)"));
        }
        read
    };
    let slow = spec.faults.slow.as_ref().and_then(|s| read("spec.faults.slow.latency", &s.latency));
    let flap = spec.faults.flap.as_ref().and_then(|f| {
        let (up, down) = (read("spec.faults.flap.up", &f.up), read("spec.faults.flap.down", &f.down));
        Some(Flap { up: up?, down: down? })
    });
    let usual = Times::default();
    let mut time = |key: &str, otherwise: Duration| {
        let text = simulated.metadata.annotations.as_ref().and_then(|a| a.get(key));
        text.and_then(|text| read(key, text)).unwrap_or(otherwise)
    };
    let times = Times {
        startup_delay: time(STARTUP_DELAY, usual.startup_delay),
        termination_delay: time(TERMINATION_DELAY, usual.termination_delay),
        run_time: time(RUN_TIME, usual.run_time),
    };
    let nodes = u32::try_from(spec.nodes).unwrap_or(0);
    if nodes > NODES_MAX || spec.nodes < 0 {
        complaints.push(format!("spec.nodes: {} is not between 0 and {NODES_MAX}", spec.nodes));
    }
    let usage = spec.usage.iter().map(|rule| UsageRule {
        namespace: rule.namespace.clone(),
        selector: rule.selector.clone(),
        cpu: rule.cpu.clone(),
        memory: rule.memory.clone(),
    });
    MemberConfig {
        shape: Shape {
            nodes: nodes.min(NODES_MAX),
            capacity: spec.capacity.clone(),
            node_labels: spec.node_labels.clone(),
        },
        faults: Faults { down: spec.faults.down, partition: spec.faults.partition, slow, flap },
        usage: usage.collect(),
        times,
        complaints,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn simulated(metadata: Value, faults: Value) -> SimulatedCluster {
        let mut whole = json!({
            "apiVersion": "sim.ironclad.io/v1alpha1", "kind": "SimulatedCluster", "metadata": metadata,
            "spec": {"nodes": 2, "capacity": {"cpu": "4"}, "faults": faults},
        });
        whole["metadata"]["name"].as_str().is_none().then(|| whole["metadata"]["name"] = json!("m1"));
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn steps() {
        let ours = || vec![FINALIZER.to_owned()];
        let deleted = "2026-01-01T00:00:00Z";
        for (name, metadata, want) in [
            ("a new one gets the finalizer first", json!({}), Step::Hold(ours())),
            (
                "beside what holds it already",
                json!({"finalizers": ["a/b"]}),
                Step::Hold(vec!["a/b".into(), FINALIZER.into()]),
            ),
            (
                "one that is deleted departs, and keeps what others hold",
                json!({"finalizers": ["a/b", FINALIZER], "deletionTimestamp": deleted}),
                Step::LeaveFleet(vec!["a/b".into()]),
            ),
            ("once departed nothing is left to do", json!({"deletionTimestamp": deleted}), Step::Leave),
            (
                "the control plane's own name is taken",
                json!({"name": "ironclad"}),
                Step::Refuse("ironclad is the name of the control plane's context; choose another".into()),
            ),
        ] {
            assert_eq!(decide(&simulated(metadata, json!({}))), want, "{name}");
        }
    }

    #[test]
    fn configuration_of_members() {
        let has_finalizer = || json!({"finalizers": [FINALIZER]});
        let run = |metadata, faults| match decide(&simulated(metadata, faults)) {
            Step::Run(wanted) => *wanted,
            other => panic!("{other:?}"),
        };
        let plain = run(has_finalizer(), json!({}));
        assert_eq!((plain.shape.nodes, &plain.faults, plain.times), (2, &Faults::default(), Times::default()));
        assert!(plain.complaints.is_empty());

        let broken = run(has_finalizer(), json!({"slow": {"latency": "250ms"}, "flap": {"up": "2m", "down": "30s"}}));
        assert_eq!(broken.faults.slow, Some(Duration::from_millis(250)));
        assert_eq!(broken.faults.flap, Some(Flap { up: Duration::from_secs(120), down: Duration::from_secs(30) }));

        let odd = run(has_finalizer(), json!({"slow": {"latency": "a while"}, "down": true}));
        assert_eq!(odd.faults, Faults { down: true, ..Faults::default() }, "what can be read holds");
        assert_eq!(
            odd.complaints,
            ["spec.faults.slow.latency: \"a while\" is not a duration (write it like 250ms, 30s or 2m)"]
        );

        let quick = json!({"finalizers": [FINALIZER], "annotations": {STARTUP_DELAY: "0s"}});
        assert_eq!(run(quick, json!({})).times.startup_delay, Duration::ZERO);
    }
}
