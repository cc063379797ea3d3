//! Writes of a registration in the member: all objects are read before the first write, and what is somebody else's is
//! left as it is.

use std::time::Duration;

use ironclad_runtime::Api;
use ironclad_seam::Clock;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Client, api::DynamicObject};
use serde_json::Value;

use super::{
    RegisterError,
    objects::{AGENT, Agent, objects},
    ownership::{self, Owner},
};
use crate::{
    print::text,
    write::{self, Mode, Outcome},
};

/// Interval between looks at the roll-out.
const LOOK: Duration = Duration::from_secs(1);

/// An object of the agent, and the one that is there.
pub(super) struct Change {
    pub(super) object: Value,
    pub(super) present: Option<DynamicObject>,
}

impl Change {
    /// Result of the write. The Namespace is used as it is, because others use it, too.
    pub(super) fn outcome(&self) -> Outcome {
        match &self.present {
            None => Outcome::Created,
            Some(_) if text(&self.object, "/kind") == "Namespace" => Outcome::Unchanged,
            Some(present) if write::contains(present, &self.object) => Outcome::Unchanged,
            Some(_) => Outcome::Updated,
        }
    }

    /// Writes the object unless it is there as wanted.
    pub(super) async fn write(&self, member: &Client, mode: Mode) -> Result<Outcome, kube::Error> {
        let outcome = self.outcome();
        match (&self.present, outcome) {
            (_, Outcome::Unchanged) => {}
            (Some(present), _) => drop(write::merge(member, &self.object, present, mode).await?),
            (None, _) => drop(write::create(member, &self.object, mode).await?),
        }
        Ok(outcome)
    }
}

/// Namespace, name and kind, in the order of karmadactl's messages.
pub(super) fn named(object: &Value) -> String {
    let namespace = match text(object, "/metadata/namespace") {
        "" => String::new(),
        namespace => format!("{namespace}/"),
    };
    format!("{namespace}{} {}", text(object, "/metadata/name"), text(object, "/kind"))
}

/// Reads the objects that are there. The second list has a line for each that belongs to somebody else.
///
/// # Errors
/// If the member does not answer.
pub(super) async fn survey(
    member: &Client,
    agent: &Agent,
    kubeconfig: Option<&str>,
) -> Result<(Vec<Change>, Vec<String>), RegisterError> {
    let (mut changes, mut findings) = (Vec::new(), Vec::new());
    for object in objects(agent, kubeconfig) {
        let present = write::api_of(member, &object).get_opt(text(&object, "/metadata/name")).await;
        let present = present
            .map_err(|error| RegisterError::member(&agent.cluster, format!("reading {}", named(&object)), error))?;
        let owner = present.as_ref().filter(|_| text(&object, "/kind") != "Namespace");
        if let Some(Owner::Other(why)) = owner.map(|present| ownership::of(present, &agent.cluster)) {
            findings.push(format!("{} already exists: {why}", named(&object)));
        }
        changes.push(Change { object, present });
    }
    Ok((changes, findings))
}

/// Puts an agent with its credentials (a kubeconfig as YAML) into its member, or repairs the one that is there
/// (specification/operations.md 2.5). Nothing is deleted, also if it fails: the same again completes it. Returns the
/// objects that were written.
///
/// # Errors
/// If objects of somebody else are in the way, or the member refuses.
pub async fn install(
    member: &Client,
    agent: &Agent,
    kubeconfig: &str,
) -> Result<Vec<(String, Outcome)>, RegisterError> {
    let (changes, findings) = survey(member, agent, Some(kubeconfig)).await?;
    refuse(agent, findings)?;
    let mut written = Vec::new();
    for change in &changes {
        let name = named(&change.object);
        let outcome = change.write(member, Mode::Keep).await;
        let outcome =
            outcome.map_err(|error| RegisterError::member(&agent.cluster, format!("writing {name}"), error))?;
        written.push((name, outcome));
    }
    Ok(written)
}

/// The error of objects that are in the way.
pub(super) fn refuse(agent: &Agent, findings: Vec<String>) -> Result<(), RegisterError> {
    if findings.is_empty() {
        return Ok(());
    }
    Err(RegisterError::InTheWay {
        cluster: agent.cluster.clone(),
        namespace: agent.namespace.clone(),
        findings: findings.join("; "),
    })
}

/// Waits until the Pods of the agent are ready.
///
/// # Errors
/// If they are not in time, or the member refuses.
pub async fn rolled_out(member: &Client, clock: &Clock, agent: &Agent, timeout: Duration) -> Result<(), RegisterError> {
    let deployments: Api<Deployment> = Api::namespaced(member.clone(), &agent.namespace);
    let deadline = clock.mono() + timeout;
    loop {
        let found = deployments.get_opt(AGENT).await;
        let found =
            found.map_err(|error| RegisterError::member(&agent.cluster, "reading the Deployment".into(), error))?;
        let why = match &found {
            Some(deployment) => match lacks(deployment) {
                None => return Ok(()),
                Some(why) => why,
            },
            None => "somebody deleted the Deployment".to_owned(),
        };
        if clock.mono() >= deadline {
            return Err(RegisterError::NotRolledOut {
                cluster: agent.cluster.clone(),
                namespace: agent.namespace.clone(),
                image: agent.image.clone(),
                seconds: timeout.as_secs(),
                why,
            });
        }
        clock.sleep(LOOK).await;
    }
}

/// Part of a roll-out that is missing; `None` if it is complete.
fn lacks(deployment: &Deployment) -> Option<String> {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let status = deployment.status.clone().unwrap_or_default();
    if status.observed_generation < deployment.metadata.generation {
        return Some("no controller of the member has seen the Deployment yet".to_owned());
    }
    let (updated, available) = (status.updated_replicas.unwrap_or(0), status.available_replicas.unwrap_or(0));
    if updated < wanted {
        return Some(format!("{updated} of {wanted} Pods are made"));
    }
    if status.replicas.unwrap_or(0) > updated {
        return Some("Pods of the agent before are not gone".to_owned());
    }
    (available < wanted).then(|| format!("{available} of {wanted} Pods are ready"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn roll_outs_are_complete_when_all_pods_are_new_and_ready() {
        for (status, want) in [
            (json!({}), Some("no controller")),
            (json!({"observedGeneration": 1, "updatedReplicas": 2, "availableReplicas": 2}), Some("no controller")),
            (json!({"observedGeneration": 2}), Some("0 of 2 Pods are made")),
            (
                json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 2}),
                Some("Pods of the agent before"),
            ),
            (
                json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}),
                Some("1 of 2 Pods are ready"),
            ),
            (json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}), None),
        ] {
            let object = json!({
                "metadata": {"generation": 2}, "spec": {"replicas": 2, "selector": {}, "template": {}}, "status": status,
            });
            let got = lacks(&serde_json::from_value(object).unwrap());
            assert_eq!(got.is_some(), want.is_some(), "{status}: {got:?}");
            assert!(got.unwrap_or_default().starts_with(want.unwrap_or_default()), "{status}");
        }
    }
}
