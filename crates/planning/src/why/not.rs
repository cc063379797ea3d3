//! Reasons why a template does not run on one cluster, and what would change that.

use ironclad_api::{
    eviction::CLUSTER_DRAIN,
    taints::{NOT_READY, PREFER_NO_EXECUTE, UNREACHABLE, UNSCHEDULABLE},
};
use ironclad_fleet::{
    Because, ClusterName,
    because::schedule::{Reason, Refusal},
};
use serde::Serialize;

use super::Explanation;

/// The answer for one cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub cluster: ClusterName,
    /// Its replicas, if it is a target now.
    pub replicas: Option<i32>,
    /// Message of a copy that is not applied, if it is a target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_applied: Option<String>,
    /// Reasons why it is or is not a target, the first cause first.
    pub because: Vec<String>,
    #[serde(rename = "try", skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Explains the decisions on one cluster.
#[must_use]
pub fn answer(explanation: &Explanation, cluster: &ClusterName) -> Answer {
    let mut answer =
        Answer { cluster: cluster.clone(), replicas: None, not_applied: None, because: Vec::new(), remedy: None };
    let Some(bound) = &explanation.binding else {
        answer.because = explanation.policy_lines();
        let kind = &explanation.template.gvk.kind;
        answer.remedy =
            (!explanation.skipped && answer.because.iter().any(|line| line.contains("no policy"))).then(|| {
                let policy = explanation.policy_kind();
                format!("a {policy} whose resourceSelectors name {kind} {}", explanation.template.name)
            });
        return answer;
    };
    answer.replicas = bound.clusters.iter().find(|target| target.name == *cluster.0).map(|target| target.replicas);
    if answer.replicas.is_some() {
        answer.not_applied = bound.not_applied.get(&*cluster.0).cloned();
    }
    if !bound.follows.is_empty() {
        let followed: Vec<String> = bound.follows.iter().map(ToString::to_string).collect();
        let is_there = if answer.replicas.is_some() { "is" } else { "is not" };
        answer.because.push(format!("it follows the workload of {}, which {is_there} there", followed.join(", ")));
    }
    if let Some(task) = bound.leaving.get(&*cluster.0) {
        answer.because.push(format!("it was left: {task}"));
        answer.remedy = Some(match task.as_str() {
            CLUSTER_DRAIN => format!("ironclad drain {cluster} --status"),
            _ => format!("ironclad why evicted {}", bound.key.name),
        });
    }
    let Some(scheduling) = &explanation.scheduling else { return answer };
    for cycle in &scheduling.cycles {
        let Some(outcome) = cycle.clusters.get(cluster) else { continue };
        let group = cycle.group.as_ref().map_or(String::new(), |group| format!("affinity group {group}: "));
        match (&outcome.because, &cycle.failed) {
            (Reason::Fits { .. }, Some(failed)) => answer.because.push(format!("{group}{failed}")),
            (Reason::Fits { .. }, None) => {}
            (Reason::Target { .. }, _) if answer.replicas.is_none() => {
                let trigger = scheduling.trigger.as_ref();
                let by_trigger = trigger.map_or(String::new(), |trigger| format!(": {trigger}"));
                answer.because.push(format!(
                    "{group}a scheduling cycle would place it there, and none has run since{by_trigger}"
                ));
                answer.remedy = match trigger {
                    Some(Because::Schedule(Reason::ResultStands)) => {
                        Some("a WorkloadRebalancer that names the template, for a fresh scheduling".to_owned())
                    }
                    Some(Because::Schedule(Reason::Suspended)) => {
                        Some("end suspension.scheduling of the binding".to_owned())
                    }
                    _ => None,
                };
            }
            (Reason::Refused { because: Refusal::Affinity, .. }, _)
                if explanation.passed_over.contains_key(cluster) =>
            {
                let over = explanation.passed_over.get(cluster).map(ToString::to_string);
                answer.because.extend(over.filter(|over| !answer.because.contains(over)));
                answer.remedy =
                    Some("a WorkloadRebalancer that names the template: it starts with the first group".to_owned());
            }
            (because, _) => answer.because.push(format!("{group}{}", because_of_cluster(because, cluster))),
        }
        if answer.remedy.is_none() && answer.replicas.is_none() {
            answer.remedy = remedy(&outcome.because, cluster, explanation);
        }
    }
    if let Some(failure) = scheduling.failure.as_ref().filter(|failure| !answer.because.contains(failure)) {
        answer.because.push(failure.clone());
    }
    answer
}

fn remedy(because: &Reason, cluster: &ClusterName, explanation: &Explanation) -> Option<String> {
    let gvk = &explanation.template.gvk;
    Some(match because {
        Reason::Refused { because: Refusal::Affinity, .. } => {
            format!("the affinity of the policy's placement: let it choose {cluster}")
        }
        Reason::Refused { because: Refusal::Taint { taint }, .. } if taint.starts_with(UNSCHEDULABLE) => {
            format!("ironclad uncordon {cluster}")
        }
        // The control plane would add them again at once.
        Reason::Refused { because: Refusal::Taint { taint }, .. }
            if [NOT_READY, UNREACHABLE].iter().any(|key| taint.starts_with(key)) =>
        {
            format!("bring cluster {cluster} back; why it is not ready: kubectl describe cluster {cluster}")
        }
        Reason::Refused { because: Refusal::Taint { taint }, .. } => {
            // A taint as it is printed may have a value; to take it away its key and effect are named.
            let (key, effect) = taint.rsplit_once(':').unwrap_or((taint, ""));
            let key = key.split_once('=').map_or(key, |(key, _)| key);
            if effect == PREFER_NO_EXECUTE {
                // Tolerations play no part for this effect (specification/failover.md 3.3).
                return Some(format!(
                    "ironclad taint clusters {cluster} {key}:{effect}-, or a policy without spec.failover.cluster"
                ));
            }
            format!("clusterTolerations in the placement, or: ironclad taint clusters {cluster} {key}:{effect}-")
        }
        Reason::Refused { because: Refusal::ApiNotEnabled, .. } => {
            format!("install {gvk} in {cluster}; its status.apiEnablements lists what it serves")
        }
        Reason::Refused { because: Refusal::BeingEvicted, .. } => {
            "wait for the end of the eviction: ironclad why evicted".to_owned()
        }
        Reason::Refused { because: Refusal::NoRegion, .. } => format!("set spec.region of Cluster {cluster}"),
        Reason::Refused { because: Refusal::NoProvider, .. } => format!("set spec.provider of Cluster {cluster}"),
        Reason::Refused { because: Refusal::WithoutPeer { peer }, .. } => {
            format!("place {peer} on {cluster}, or take the workload out of its affinity group")
        }
        Reason::Refused { because: Refusal::BesidePeer { peer }, .. } => {
            format!("move {peer} away from {cluster}, or take the workload out of its anti-affinity group")
        }
        Reason::Refused { because: Refusal::NoZones, .. } => format!("set spec.zones of Cluster {cluster}"),
        Reason::Refused { because: Refusal::NoLabel { key }, .. } => format!("set label {key} of Cluster {cluster}"),
        Reason::NotSelected { .. } => "a larger maxGroups in the placement's spreadConstraints".to_owned(),
        Reason::NoShare { .. } => "more replicas, or a weight for it in the placement".to_owned(),
        _ => return None,
    })
}

/// The reason without the cluster that it begins with.
#[must_use]
pub fn because_of_cluster(because: &Reason, cluster: &ClusterName) -> String {
    let text = because.to_string();
    text.strip_prefix(&format!("{cluster}: ")).map_or(text.clone(), str::to_owned)
}
