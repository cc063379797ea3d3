//! The workloads of a script, and the policy that taints clusters.

use std::fmt;

use ironclad_api::{
    labels::RETAIN_REPLICAS,
    policy::{ClusterTaintPolicy, PropagationPolicy},
};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use crate::sim::{checker::POLICY_KEY, objects::CONFIG_SUFFIX};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    Copies(usize),
    /// A full copy in every cluster, without a spread constraint, so that nothing may be moved.
    Everywhere,
    Divided(usize),
    /// Divided by available replicas over any number of clusters.
    Weighted,
    /// The same, in one zone.
    OneZone,
}

/// Group of workloads that a label of their templates names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peers {
    None,
    /// They run in the same clusters.
    Together,
    /// They run in different clusters.
    Apart,
}

impl Peers {
    const TOGETHER: &str = "together";
    const APART: &str = "apart";

    fn label(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Together => Some(Self::TOGETHER),
            Self::Apart => Some(Self::APART),
        }
    }
}

/// Values of a policy's `failover.cluster`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failover {
    None,
    /// Moves on PreferNoExecute after a toleration, with a purge mode.
    Cluster {
        mode: &'static str,
        seconds: i64,
    },
}

impl Failover {
    /// Returns `spec.failover` of a policy.
    pub fn to_json(&self) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Cluster { mode, seconds } => json!({"cluster": {"purgeMode": mode, "tolerationSeconds": seconds}}),
        }
    }
}

impl fmt::Display for Failover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Cluster { mode, seconds } => write!(f, "{mode}/{seconds}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct App {
    pub name: String,
    /// Desired replicas: of each copy, or divided.
    pub replicas: i32,
    pub spread: Spread,
    /// Candidate members; all if empty.
    pub affinity: Vec<String>,
    /// Seconds for which it tolerates NoExecute taints set by users; a negative number is for ever.
    pub tolerates: Option<i64>,
    pub failover: Failover,
    /// It mounts a ConfigMap, which its policy sends along.
    pub depends: bool,
    /// An override of its replicas in a member.
    pub overridden: Option<(usize, i32)>,
    /// Millicores that each replica requests; 0 is no request.
    pub cpu: i64,
    /// PriorityClass that its policy names.
    pub class: Option<&'static str>,
    pub peers: Peers,
    /// Members decide on the replicas of its copies.
    pub retains: bool,
    /// False until a user creates it, and after its deletion.
    pub exists: bool,
}

impl App {
    /// Creates a workload: one copy of one replica, in one cluster.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            replicas: 1,
            spread: Spread::Copies(1),
            affinity: Vec::new(),
            tolerates: None,
            failover: Failover::None,
            depends: false,
            overridden: None,
            cpu: 0,
            class: None,
            peers: Peers::None,
            retains: false,
            exists: true,
        }
    }

    /// Name of its binding.
    #[must_use]
    pub fn binding(&self) -> String {
        format!("{}-deployment", self.name)
    }

    /// Name of the ConfigMap that it mounts, if it does.
    #[must_use]
    pub fn config(&self) -> String {
        format!("{}{CONFIG_SUFFIX}", self.name)
    }

    /// Replicas of its copy in a member that was given so many.
    #[must_use]
    pub fn replicas_in(&self, cluster: &str, given: i32) -> i32 {
        match self.overridden {
            Some((member, replicas)) if super::action::name(member) == cluster => replicas,
            _ => given,
        }
    }

    pub fn deployment(&self) -> anyhow::Result<Deployment> {
        let labels = json!({"app": self.name});
        let config = json!([{"name": "config", "configMap": {"name": self.config()}}]);
        let volumes = if self.depends { config } else { json!([]) };
        let mut container = json!({"name": "app", "image": "app:1"});
        if self.cpu > 0 {
            container["resources"] = json!({"requests": {"cpu": format!("{}m", self.cpu)}});
        }
        let mut own = labels.clone();
        if let Some(label) = self.peers.label() {
            own[label] = json!("group");
        }
        if self.retains {
            own[RETAIN_REPLICAS] = json!("true");
        }
        Ok(serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": self.name, "namespace": "default", "labels": own},
            "spec": {
                "replicas": self.replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "containers": [container], "volumes": volumes,
                }},
            },
        }))?)
    }

    pub fn placement(&self) -> Value {
        let mut placement = json!({});
        if self.affinity.is_empty() {
            placement["clusterAffinity"] = json!({});
        } else {
            placement["clusterAffinity"] = json!({"clusterNames": self.affinity});
        }
        let groups = |n: usize| json!([{"spreadByField": "cluster", "minGroups": n, "maxGroups": n}]);
        match self.spread {
            Spread::Copies(n) => placement["spreadConstraints"] = groups(n),
            Spread::Everywhere => {}
            Spread::Divided(n) => {
                placement["spreadConstraints"] = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": n}]);
                placement["replicaScheduling"] =
                    json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
            }
            Spread::Weighted | Spread::OneZone => {
                placement["replicaScheduling"] = json!({
                    "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
                });
            }
        }
        if self.spread == Spread::OneZone {
            placement["spreadConstraints"] = json!([
                {"spreadByField": "zone", "minGroups": 1, "maxGroups": 1},
                {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 99},
            ]);
        }
        if let Some(label) = self.peers.label() {
            let term = if self.peers == Peers::Together { "affinity" } else { "antiAffinity" };
            placement["workloadAffinity"] = json!({term: {"groupByLabelKey": label}});
        }
        if let Some(seconds) = self.tolerates {
            let mut toleration = json!({"key": super::action::HAND_KEY, "operator": "Exists", "effect": "NoExecute"});
            if seconds >= 0 {
                toleration["tolerationSeconds"] = json!(seconds);
            }
            placement["clusterTolerations"] = json!([toleration]);
        }
        placement
    }

    /// Returns `spec.schedulePriority` of its policy.
    pub(super) fn schedule_priority(&self) -> Value {
        let named = |class| json!({"priorityClassSource": "KubePriorityClass", "priorityClassName": class});
        self.class.map_or(Value::Null, named)
    }

    pub fn policy(&self) -> anyhow::Result<PropagationPolicy> {
        let mut policy = json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": self.name, "namespace": "default"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": self.name}],
                "placement": self.placement(),
            },
        });
        if self.depends {
            policy["spec"]["propagateDeps"] = json!(true);
        }
        if self.class.is_some() {
            policy["spec"]["schedulePriority"] = self.schedule_priority();
        }
        if self.failover != Failover::None {
            policy["spec"]["failover"] = self.failover.to_json();
        }
        Ok(serde_json::from_value(policy)?)
    }
}

impl fmt::Display for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} replicas, {:?}, failover {}", self.name, self.replicas, self.spread, self.failover)?;
        if !self.affinity.is_empty() {
            write!(f, ", on {}", self.affinity.join(" "))?;
        }
        if self.depends {
            f.write_str(", with a ConfigMap")?;
        }
        if self.cpu > 0 {
            write!(f, ", {}m each, class {}", self.cpu, self.class.unwrap_or("none"))?;
        }
        if self.peers != Peers::None {
            write!(f, ", {:?}", self.peers)?;
        }
        if self.retains {
            f.write_str(", members scale it")?;
        }
        if !self.exists {
            f.write_str(", created later")?;
        }
        match self.tolerates {
            None => Ok(()),
            Some(seconds) if seconds < 0 => f.write_str(", tolerates"),
            Some(seconds) => write!(f, ", tolerates for {seconds} s"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaintPolicy {
    pub effect: &'static str,
    pub add_after: i64,
    pub remove_after: i64,
}

impl TaintPolicy {
    pub fn object(&self) -> anyhow::Result<ClusterTaintPolicy> {
        Ok(serde_json::from_value(json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy",
            "metadata": {"name": "failing"},
            "spec": {
                "targetCluster": {},
                "matchConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False", "Unknown"]}],
                "taintsToAdd": [{
                    "key": POLICY_KEY, "effect": self.effect,
                    "addOnMatchSeconds": self.add_after, "removeOnMismatchSeconds": self.remove_after,
                }],
            },
        }))?)
    }
}

impl fmt::Display for TaintPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{POLICY_KEY}:{} after {} s, back after {} s", self.effect, self.add_after, self.remove_after)
    }
}
