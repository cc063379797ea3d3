//! What a simulated member is told, and what can be done to it while it runs.

use std::{collections::BTreeMap, time::Duration};

use ironclad_apiserver::{TokenKey, pki::Authority};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::usage::UsageRule;

/// A simulated member.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberOptions {
    /// The member's name; its nodes are `NAME-node-1` and so on.
    pub name: String,
    /// What it consists of.
    pub shape: Shape,
    /// From the binding of a pod until it is running and ready, unless the pod says otherwise.
    pub startup_delay: Duration,
    /// From the deletion of a running pod until it is gone, at most its grace period.
    pub termination_delay: Duration,
    /// How long pods run that are meant to end (`restartPolicy` not `Always`), unless the pod says otherwise.
    pub run_time: Duration,
    /// The certificate (PEM) that is published in each namespace, if any.
    pub root_certificate: Option<String>,
    /// What signs requests for certificates that were approved; without it, nobody does.
    pub authority: Option<Authority>,
    /// What signs the tokens of its ServiceAccounts; without it, a key of this process.
    pub token_key: Option<TokenKey>,
    /// What its metrics API says that pods use; the last rule that matches wins.
    pub usage: Vec<UsageRule>,
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
        }
    }
}

/// How long things take that pods do, unless a pod says otherwise.
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

/// The nodes of a member, as `SimulatedCluster.spec` describes them (api.md 11.8).
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// How many.
    pub nodes: u32,
    /// What each has, and all of it is allocatable.
    pub capacity: BTreeMap<String, Quantity>,
    /// What each is labelled with besides its host name, operating system and architecture.
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

/// What is wrong with a member (api.md 11.8). `Faults::default()` is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// Its server answers nothing and nothing in it moves.
    pub down: bool,
    /// It is cut off from the control plane and goes on by itself.
    pub partition: bool,
    /// Every answer to the control plane comes that much later.
    pub slow: Option<Duration>,
    /// Up and down by turns.
    pub flap: Option<Flap>,
}

/// The turns of a flapping member; it starts with the time up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flap {
    /// So long it is up.
    pub up: Duration,
    /// So long it is down.
    pub down: Duration,
}
