//! The simulated members of `ironclad up` (specification/api.md 11.8).

pub mod change;
pub mod command;
pub mod curl;

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, bail};
use ironclad_api::{ResourceList, StringMap, cluster::Cluster, sim::SimulatedCluster};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};

use self::change::Action;
use crate::{pages, print, write::FIELD_MANAGER};

/// Interval between checks whether a member applied the change.
const LOOK: Duration = Duration::from_millis(100);
/// Attempts of a write after conflicts.
const TRIES: usize = 5;
/// Finalizer that keeps the object until its member is deleted. The process that deletes members sets it.
const FINALIZER: &str = "sim.ironclad.io/member";
const STARTUP_DELAY: &str = "sim.ironclad.io/startup-delay";

/// The simulated members behind a control plane.
pub struct Fleet {
    /// The control plane.
    pub plane: Client,
    /// For waiting.
    pub clock: Clock,
}

impl Fleet {
    fn objects(&self) -> Api<SimulatedCluster> {
        Api::all(self.plane.clone())
    }

    /// The members of these names, or all.
    ///
    /// # Errors
    /// If one does not exist, or the control plane simulates none.
    pub async fn named(&self, names: &[String], all: bool) -> anyhow::Result<Vec<SimulatedCluster>> {
        let present = match pages::all(&self.objects(), ListParams::default()).await {
            Ok(list) => list,
            Err(kube::Error::Api(status)) if status.code == 404 => bail!(
                "this control plane has no simulated members\n  because only `ironclad up` simulates any\n  \
                 try: --kubeconfig FILE, with the file that `ironclad up` names when it starts"
            ),
            Err(error) => return Err(anyhow::Error::new(error).context("listing the simulated members")),
        };
        if all {
            return Ok(present);
        }
        let mut found = Vec::new();
        for name in names {
            match present.iter().find(|p| p.name_any() == *name) {
                Some(member) => found.push(member.clone()),
                None => {
                    let names: Vec<_> = present.iter().map(ResourceExt::name_any).collect();
                    bail!(
                        "there is no simulated member {name}\n  because the simulated members are {}\n  \
                         try: ironclad sim add {name}",
                        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
                    )
                }
            }
        }
        Ok(found)
    }

    /// Does this to the members, and waits until they follow.
    ///
    /// # Errors
    /// If the control plane refuses, or a member does not follow in time.
    pub async fn act(&self, members: &[SimulatedCluster], action: &Action, wait: Duration) -> anyhow::Result<()> {
        let mut changed = Vec::new();
        for member in members {
            match self.change(member, action).await? {
                Some(generation) => changed.push((member.name_any(), generation)),
                None => print::out(&format!("{} {} already\n", member.name_any(), action.said()))?,
            }
        }
        let began = self.clock.mono();
        for (name, generation) in changed {
            while !wait.is_zero() && !self.follows(&name, generation).await? {
                if self.clock.mono() - began >= wait {
                    bail!(
                        "timed out after {} s waiting for {name} to follow\n  because `ironclad up` did not report it\n  \
                         try: kubectl describe simulatedcluster {name}",
                        wait.as_secs()
                    );
                }
                self.clock.sleep(LOOK).await;
            }
            print::out(&format!("{name} {}\n", action.said()))?;
        }
        Ok(())
    }

    /// The generation with the change; `None` if it is so already.
    async fn change(&self, member: &SimulatedCluster, action: &Action) -> anyhow::Result<Option<i64>> {
        let name = member.name_any();
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let mut seen = member.clone();
        for _ in 0..TRIES {
            let wanted = action.on(&seen.spec);
            if wanted == seen.spec {
                return Ok(None);
            }
            seen.spec = wanted;
            match self.objects().replace(&name, &params, &seen).await {
                Ok(done) => return Ok(Some(done.metadata.generation.unwrap_or_default())),
                Err(kube::Error::Api(status)) if status.code == 409 => seen = self.objects().get(&name).await?,
                Err(error) => return Err(anyhow::Error::new(error).context(format!("changing {name}"))),
            }
        }
        bail!("{name} was not changed\n  because of repeated conflicts with other writers\n  try: the same again")
    }

    async fn follows(&self, name: &str, generation: i64) -> anyhow::Result<bool> {
        let now = self.objects().get(name).await.with_context(|| format!("looking at {name}"))?;
        Ok(now.status.is_some_and(|s| s.observed_generation >= generation))
    }

    /// Adds these members, and waits until their clusters are ready.
    ///
    /// # Errors
    /// If one exists, the control plane refuses, or a cluster is not ready in time.
    pub async fn add(&self, objects: &[Value], wait: Duration) -> anyhow::Result<()> {
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let mut names = Vec::new();
        for object in objects {
            let object: SimulatedCluster = serde_json::from_value(object.clone())?;
            let name = object.name_any();
            match self.objects().create(&params, &object).await {
                Ok(_) => names.push(name),
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    bail!("{name} was not added\n  because it exists\n  try: ironclad sim nodes {name}, to change it")
                }
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    self.named(&[], true).await?;
                    return Err(kube::Error::Api(status).into());
                }
                Err(error) => return Err(anyhow::Error::new(error).context(format!("adding {name}"))),
            }
        }
        let clusters: Api<Cluster> = Api::all(self.plane.clone());
        let began = self.clock.mono();
        for name in names {
            loop {
                let ready = clusters.get_opt(&name).await?.is_some_and(|c| c.ready() == Some("True"));
                if ready {
                    print::out(&format!("{name} is joined and ready\n"))?;
                    break;
                }
                if wait.is_zero() {
                    print::out(&format!("{name} is added\n"))?;
                    break;
                }
                if self.clock.mono() - began >= wait {
                    bail!(
                        "timed out after {} s waiting for cluster {name} to be ready\n  \
                         try: kubectl describe simulatedcluster,cluster {name}",
                        wait.as_secs()
                    );
                }
                self.clock.sleep(LOOK).await;
            }
        }
        Ok(())
    }

    /// Removes these members, and waits until they are deleted.
    ///
    /// # Errors
    /// If the control plane refuses, or one does not go in time.
    pub async fn remove(&self, members: &[SimulatedCluster], wait: Duration) -> anyhow::Result<()> {
        for member in members {
            let name = member.name_any();
            match self.objects().delete(&name, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(anyhow::Error::new(error).context(format!("removing {name}"))),
            }
        }
        let began = self.clock.mono();
        for member in members {
            let (name, uid) = (member.name_any(), &member.metadata.uid);
            let there = async || {
                let now = self.objects().get_opt(&name).await?;
                anyhow::Ok(now.is_some_and(|now| now.metadata.uid == *uid))
            };
            while !wait.is_zero() && there().await? {
                if self.clock.mono() - began >= wait {
                    bail!(
                        "timed out after {} s waiting for {name} to go\n  because its cluster is still leaving the fleet\n  \
                         try: kubectl get works -n karmada-es-{name}",
                        wait.as_secs()
                    );
                }
                self.clock.sleep(LOOK).await;
            }
            print::out(&format!("{name} is {}\n", if wait.is_zero() { "leaving" } else { "removed" }))?;
        }
        Ok(())
    }
}

/// A SimulatedCluster to be added.
#[must_use]
pub fn member(
    name: &str,
    nodes: u32,
    capacity: &ResourceList,
    node_labels: &StringMap,
    labels: &BTreeMap<String, String>,
    startup_delay: Option<&str>,
) -> Value {
    let mut object = json!({
        "apiVersion": "sim.ironclad.io/v1alpha1", "kind": "SimulatedCluster",
        "metadata": {"name": name, "finalizers": [FINALIZER]},
        "spec": {"nodes": nodes, "capacity": capacity},
    });
    if !labels.is_empty() {
        object["metadata"]["labels"] = json!(labels);
    }
    if let Some(delay) = startup_delay {
        object["metadata"]["annotations"] = json!({STARTUP_DELAY: delay});
    }
    if !node_labels.is_empty() {
        object["spec"]["nodeLabels"] = json!(node_labels);
    }
    object
}

#[cfg(test)]
mod tests;
