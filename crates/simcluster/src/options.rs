//! Options of a simulated member, and changes while it runs.

use std::{collections::BTreeMap, time::Duration};

use ironclad_apiserver::{TokenKey, pki::Authority};
use ironclad_kubecontrollers::AutoscalingOptions;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::usage::UsageRule;

/// A simulated member.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberOptions {
    /// The member's name; its nodes are `NAME-node-1` and so on.
    pub name: String,
    /// Nodes of the member.
    pub shape: Shape,
    /// Time from the binding of a pod until it is running and ready, unless the pod overrides it.
    pub startup_delay: Duration,
    /// Time from the deletion of a running pod until it is deleted, at most its grace period.
    pub termination_delay: Duration,
    /// Run time of pods that are meant to complete (`restartPolicy` not `Always`), unless the pod overrides it.
    pub run_time: Duration,
    /// The certificate (PEM) that is published in each namespace, if any.
    pub root_certificate: Option<String>,
    /// Signer of approved certificate requests; without it, none are signed.
    pub authority: Option<Authority>,
    /// Signing key of ServiceAccount tokens; without it, a key of this process.
    pub token_key: Option<TokenKey>,
    /// Usage that its metrics API reports; the last matching rule wins.
    pub usage: Vec<UsageRule>,
    /// Flags of its HorizontalPodAutoscalers.
    pub autoscaling: AutoscalingOptions,
}

impl Default for MemberOptions {
    fn default() -> Self {
        Self {
            name: "member".into(),
            shape: Shape::default(),
            startup_delay: Duration::from_secs(1),
            termination_delay: Duration::ZERO,
            run_time: Duration::from_secs(5),
            root_certificate: None,
            authority: None,
            token_key: None,
            usage: Vec::new(),
            autoscaling: AutoscalingOptions::of_one_cluster(),
        }
    }
}

/// Durations of pods' steps, unless a pod overrides them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// [`MemberOptions::startup_delay`].
    pub startup_delay: Duration,
    /// [`MemberOptions::termination_delay`].
    pub termination_delay: Duration,
    /// [`MemberOptions::run_time`].
    pub run_time: Duration,
}

impl MemberOptions {
    pub(crate) fn times(&self) -> Times {
        Times { startup_delay: self.startup_delay, termination_delay: self.termination_delay, run_time: self.run_time }
    }
}

impl Default for Times {
    fn default() -> Self {
        MemberOptions::default().times()
    }
}

/// Nodes of a member, as in `SimulatedCluster.spec` (specification/api.md 11.8).
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Number of nodes.
    pub nodes: u32,
    /// Capacity of each node, all of it allocatable.
    pub capacity: BTreeMap<String, Quantity>,
    /// Labels of each node besides host name, operating system and architecture.
    pub node_labels: BTreeMap<String, String>,
}

impl Default for Shape {
    fn default() -> Self {
        let capacity = [("cpu", "8"), ("memory", "32Gi"), ("pods", "110")];
        Self {
            nodes: 3,
            capacity: capacity.into_iter().map(|(k, v)| (k.to_owned(), Quantity(v.to_owned()))).collect(),
            node_labels: BTreeMap::new(),
        }
    }
}

/// Faults of a member (specification/api.md 11.8); none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// Its server does not respond, and its controllers stop.
    pub down: bool,
    /// It is cut off from the control plane and keeps running.
    pub partition: bool,
    /// Delay of every response to the control plane.
    pub slow: Option<Duration>,
    /// The member is alternately up and down.
    pub flap: Option<Flap>,
}

/// Phases of a flapping member; it starts with the time up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flap {
    /// Time up.
    pub up: Duration,
    /// Time down.
    pub down: Duration,
}
