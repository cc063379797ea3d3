//! Priority and preemption from the users' view: the same steps on real kube-apiservers and through `ironclad up`.
//! Both members have one node of four cores.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_testkit::real::{Kubectl, until};
use serde_json::{Value, json};

use crate::propagation;

const DEADLINE: Duration = Duration::from_secs(60);

/// Flags with which the steps take seconds.
pub(crate) const FLAGS: [&str; 3] = [
    "--feature-gates=PriorityBasedPreemptiveScheduling=true,CustomizedClusterResourceModeling=false",
    "--cluster-status-update-frequency=1s",
    "--metrics-bind-address=0",
];

/// Runs the steps with kubectl for the control plane and for both members.
pub(crate) async fn walk(plane: &Kubectl, members: &[Kubectl]) -> anyhow::Result<()> {
    for (name, value, policy) in
        [("low", 10, "PreemptLowerPriority"), ("high", 1_000, "PreemptLowerPriority"), ("patient", 2_000, "Never")]
    {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "preemptionPolicy": policy});
        plane.apply(&class.to_string()).await?;
    }
    create(plane, "low", 4, "low", "member1").await?;
    create(plane, "keep", 4, "high", "member2").await?;
    placed(plane, "low", "member1:4").await?;
    placed(plane, "keep", "member2:4").await?;
    ready(&members[0], "low", 4).await?;

    // A class that does not exist: the default priority, and a warning.
    create(plane, "odd", 1, "unknown", "member1").await?;
    event(plane, "Warning", "PriorityClassNotFound", &["odd"], "unknown").await?;
    says(plane, "odd", "Scheduled", "False", "are not enough").await?;

    // Never: the highest priority waits.
    create(plane, "patient", 4, "patient", "member1").await?;
    says(plane, "patient", "Scheduled", "False", "are not enough").await?;
    placed(plane, "low", "member1:4").await?;
    plane
        .run(["delete", "deployment/odd", "deployment/patient", "propagationpolicy/odd", "propagationpolicy/patient"])
        .await?;

    create(plane, "high", 3, "high", "member1, member2").await?;
    placed(plane, "high", "member1:3").await?;
    ready(&members[0], "high", 3).await?;
    placed(plane, "low", "").await?;
    says(
        plane,
        "low",
        "Preempted",
        "True",
        "preempted from cluster member1 by default/high-deployment (priority 1000)",
    )
    .await?;
    says(plane, "low", "Scheduled", "False", "1 cluster(s) is in the process of eviction").await?;
    event(plane, "Warning", "BindingPreempted", &["low", "low-deployment"], "high-deployment (priority 1000)").await?;
    let victims = "Preempted 1 binding(s): default/low-deployment@member1";
    event(plane, "Normal", "PreemptBindingSucceed", &["high", "high-deployment"], victims).await?;
    until("the copy of the victim is deleted", DEADLINE, async || {
        let left = members[0].run(["get", "deployment", "low", "--ignore-not-found", "-o", "name"]).await?;
        ensure!(left.trim().is_empty(), "member1 still has {left}");
        Ok(())
    })
    .await?;
    let held = get(plane, "high").await?["status"]["nominatedClusters"].clone();
    ensure!(held.is_null(), "capacity is still held: {held}");
    placed(plane, "keep", "member2:4").await?;

    // The victim returns as soon as the preemptor is deleted, before its task of five minutes ends.
    plane.run(["delete", "deployment", "high"]).await?;
    placed(plane, "low", "member1:4").await?;
    ready(&members[0], "low", 4).await?;
    until("nothing is left of the preemption", DEADLINE, async || {
        let low = get(plane, "low").await?;
        ensure!(low["spec"]["gracefulEvictionTasks"].is_null(), "{}", low["spec"]["gracefulEvictionTasks"]);
        ensure!(condition(&low, "Preempted").is_none(), "{}", low["status"]["conditions"]);
        // Until the member reports both the Pods and what they request, a new reader of its capacity counts the
        // replicas twice or not at all.
        let reported = &low["status"]["aggregatedStatus"][0];
        ensure!(reported["health"] == "Healthy", "{reported}");
        let cluster: Value = serde_json::from_str(&plane.run(["get", "cluster", "member1", "-o", "json"]).await?)?;
        let summary = &cluster["status"]["resourceSummary"];
        ensure!(summary["allocated"]["cpu"] == "4", "{summary}");
        Ok(())
    })
    .await
}

/// Creates a Deployment whose replicas request a core each, with a policy that names a class.
async fn create(plane: &Kubectl, name: &str, replicas: u32, class: &str, on: &str) -> anyhow::Result<()> {
    let placement = format!(
        "clusterAffinity: {{clusterNames: [{on}]}}
    replicaScheduling: {{replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}
  schedulePriority: {{priorityClassSource: KubePriorityClass, priorityClassName: {class}}}"
    );
    plane.apply(&propagation::policy(name, &placement)).await?;
    let deployment = propagation::deployment(name, replicas);
    let request = "resources: {requests: {cpu: '1'}}";
    plane.apply(&format!("{deployment}        {request}\n")).await?;
    Ok(())
}

async fn get(plane: &Kubectl, app: &str) -> anyhow::Result<Value> {
    let binding = format!("{app}-deployment");
    Ok(serde_json::from_str(&plane.run(["get", "resourcebinding", &binding, "-o", "json"]).await?)?)
}

fn condition<'a>(binding: &'a Value, type_: &str) -> Option<&'a Value> {
    binding["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

/// Waits until a workload is placed as `member:replicas`.
async fn placed(plane: &Kubectl, app: &str, want: &str) -> anyhow::Result<()> {
    until(&format!("{app} is on {want:?}"), DEADLINE, async || {
        let binding = get(plane, app).await?;
        let targets = binding["spec"]["clusters"].as_array().cloned().unwrap_or_default();
        let is: Vec<String> = targets
            .iter()
            .map(|target| format!("{}:{}", target["name"].as_str().unwrap_or_default(), target["replicas"]))
            .collect();
        ensure!(is.join(",") == want, "it is on {is:?}: {}", binding["status"]["conditions"]);
        Ok(())
    })
    .await
}

async fn ready(member: &Kubectl, app: &str, replicas: i64) -> anyhow::Result<()> {
    until(&format!("{replicas} Pods of {app} are ready"), DEADLINE, async || {
        let ready = member.run(["get", "deployment", app, "-o", "jsonpath={.status.readyReplicas}"]).await?;
        ensure!(ready == replicas.to_string(), "{ready:?} are");
        Ok(())
    })
    .await
}

/// Waits until a condition of a binding has this status and this text in its message.
async fn says(plane: &Kubectl, app: &str, type_: &str, status: &str, text: &str) -> anyhow::Result<()> {
    until(&format!("{type_} of {app} is {status}"), DEADLINE, async || {
        let binding = get(plane, app).await?;
        let says = condition(&binding, type_).context("there is no such condition")?;
        let message = says["message"].as_str().unwrap_or_default();
        ensure!(says["status"] == status && message.contains(text), "{says}");
        Ok(())
    })
    .await
}

/// Waits until an event with this text is about each of these objects.
async fn event(plane: &Kubectl, type_: &str, reason: &str, about: &[&str], text: &str) -> anyhow::Result<()> {
    until(&format!("event {reason}"), DEADLINE, async || {
        let events: Value = serde_json::from_str(&plane.run(["get", "events", "-o", "json"]).await?)?;
        let all = events["items"].as_array().context("no list")?;
        let such = |event: &&Value| {
            let message = event["message"].as_str().unwrap_or_default();
            event["type"] == type_ && event["reason"] == reason && message.contains(text)
        };
        let named: BTreeSet<&str> =
            all.iter().filter(such).filter_map(|event| event["involvedObject"]["name"].as_str()).collect();
        let missing: Vec<&&str> = about.iter().filter(|name| !named.contains(**name)).collect();
        ensure!(missing.is_empty(), "none about {missing:?}, but about {named:?}");
        Ok(())
    })
    .await
}
