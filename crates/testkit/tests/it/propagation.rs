//! Propagation, from `kubectl apply` to the members and back, from the users' view: the same steps on real
//! kube-apiservers and through `ironclad up`.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use ironclad_testkit::real::{Kubectl, until};
use serde_json::Value;

const DEADLINE: Duration = Duration::from_secs(60);

/// Runs the steps with kubectl for the control plane and for each member, `member1` first.
pub(crate) async fn walk(plane: &Kubectl, members: &[Kubectl]) -> anyhow::Result<()> {
    let names: Vec<String> = (1..=members.len()).map(|n| format!("member{n}")).collect();
    duplicated(plane, members, &names).await.context("a Duplicated Deployment")?;
    owned(plane, members).await.context("a Deployment that a member's users edit, too")?;
    weighted(plane, members).await.context("a Deployment divided by static weights")
}

async fn duplicated(plane: &Kubectl, members: &[Kubectl], names: &[String]) -> anyhow::Result<()> {
    let count = i64::try_from(members.len())?;
    plane.apply(&deployment("web", 2)).await?;
    plane.apply(&policy("web", &format!("clusterAffinity: {{clusterNames: [{}]}}", names.join(", ")))).await?;
    everywhere(members, "web", |d| {
        ensure!(d["spec"]["replicas"] == 2, "replicas {}", d["spec"]["replicas"]);
        ensure!(d["metadata"]["labels"]["karmada.io/managed"] == "true", "not marked as managed");
        Ok(())
    })
    .await?;
    settled(plane, "web", 2 * count).await?;
    until("the binding says where it went and that it was applied", DEADLINE, async || {
        let binding = get(plane, "resourcebinding", "web-deployment").await?;
        for condition in ["Scheduled", "FullyApplied"] {
            ensure!(
                condition_is_true(&binding, condition),
                "{condition} is not True: {}",
                binding["status"]["conditions"]
            );
        }
        let reported = binding["status"]["aggregatedStatus"].as_array().context("no aggregatedStatus")?;
        ensure!(reported.len() == names.len(), "{} members report", reported.len());
        ensure!(reported.iter().all(|item| item["health"] == "Healthy"), "not all healthy: {reported:?}");
        Ok(())
    })
    .await?;
    // Statuses of Works may be written a moment after that of the binding.
    until("every Work says that it is applied", DEADLINE, async || {
        for name in names {
            let namespace = format!("karmada-es-{name}");
            let works = plane.run(["get", "works", "-n", &namespace, "-o", "json"]).await?;
            let works: Value = serde_json::from_str(&works)?;
            let works = works["items"].as_array().context("no list")?;
            ensure!(!works.is_empty(), "no Work in {namespace}");
            let waits = works.iter().find(|work| !condition_is_true(work, "Applied"));
            ensure!(waits.is_none(), "a Work in {namespace} is not applied: {waits:?}");
        }
        Ok(())
    })
    .await?;

    plane.run(["scale", "deployment", "web", "--replicas=3"]).await?;
    everywhere(members, "web", |d| {
        ensure!(d["spec"]["replicas"] == 3, "replicas {}", d["spec"]["replicas"]);
        Ok(())
    })
    .await?;
    settled(plane, "web", 3 * count).await?;

    plane.run(["set", "image", "deployment/web", "web=registry.example/web:2"]).await?;
    everywhere(members, "web", |d| {
        let image = &d["spec"]["template"]["spec"]["containers"][0]["image"];
        ensure!(*image == "registry.example/web:2", "image {image}");
        Ok(())
    })
    .await?;
    settled(plane, "web", 3 * count).await?;

    // A copy that is deleted in a member is recreated.
    members[0].run(["delete", "deployment", "web", "--wait=true"]).await?;
    everywhere(members, "web", |d| {
        ensure!(d["status"]["readyReplicas"] == 3, "status {}", d["status"]);
        Ok(())
    })
    .await?;
    settled(plane, "web", 3 * count).await?;

    plane.run(["delete", "deployment", "web", "--wait=true"]).await?;
    until_deleted(plane, members, "web").await
}

/// Fields of copies belong to the template or to the member (specification/propagation.md 13.3): with kubectl, and with
/// the defaults and the list types of the member's own server.
async fn owned(plane: &Kubectl, members: &[Kubectl]) -> anyhow::Result<()> {
    let (member, count) = (&members[0], i64::try_from(members.len())?);
    plane.apply(&deployment("owned", 1)).await?;
    plane.run(["set", "env", "deployment/owned", "OURS=1", "GONE=1"]).await?;
    plane.apply(&policy("owned", "clusterAffinity: {}")).await?;
    settled(plane, "owned", count).await?;
    plane.run(["wait", "--for=condition=Available", "--timeout=60s", "deployment/owned"]).await?;
    plane.run(["rollout", "status", "--timeout=60s", "deployment/owned"]).await?;

    member.run(["set", "env", "deployment/owned", "THEIRS=1"]).await?;
    member.run(["rollout", "restart", "deployment/owned"]).await?;
    let theirs = r#"{"spec": {"revisionHistoryLimit": 3, "template": {"spec": {"priorityClassName": "system-node-critical",
        "containers": [{"name": "proxy", "image": "registry.example/proxy:1"}],
        "tolerations": [{"key": "theirs", "operator": "Exists"}]}}}}"#;
    member.run(["patch", "deployment", "owned", "-p", theirs]).await?;
    plane.run(["set", "env", "deployment/owned", "OURS=2", "GONE-"]).await?;
    until("the copy has what either side set", DEADLINE, async || {
        let copy = get(member, "deployment", "owned").await?;
        let (spec, pod) = (&copy["spec"], &copy["spec"]["template"]["spec"]);
        let containers = pod["containers"].as_array().context("no containers")?;
        let web = containers.iter().find(|container| container["name"] == "web").context("no container web")?;
        let mut env: Vec<String> = web["env"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| format!("{}={}", one["name"].as_str().unwrap_or(""), one["value"].as_str().unwrap_or("")))
            .collect();
        env.sort();
        ensure!(env == ["OURS=2", "THEIRS=1"], "environment {env:?}");
        let restarted = &spec["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"];
        ensure!(restarted.is_string(), "the restart is gone");
        ensure!(containers.iter().any(|container| container["name"] == "proxy"), "the sidecar is gone: {containers:?}");
        let kept = (&spec["revisionHistoryLimit"], &pod["priorityClassName"], &pod["tolerations"][0]["key"]);
        ensure!(*kept.0 == 3 && kept.1 == "system-node-critical" && kept.2 == "theirs", "not kept: {kept:?}");
        Ok(())
    })
    .await?;
    settled(plane, "owned", count).await?;
    plane.run(["delete", "deployment", "owned", "--wait=true"]).await?;
    until_deleted(plane, members, "owned").await
}

async fn weighted(plane: &Kubectl, members: &[Kubectl]) -> anyhow::Result<()> {
    let placement = "clusterAffinity: {clusterNames: [member1, member2]}
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference:
        staticWeightList:
        - {targetCluster: {clusterNames: [member1]}, weight: 2}
        - {targetCluster: {clusterNames: [member2]}, weight: 1}";
    plane.apply(&policy("split", placement)).await?;
    plane.apply(&deployment("split", 6)).await?;
    for (member, want) in members.iter().zip([4, 2]) {
        until("each member has its share", DEADLINE, async || {
            let replicas = get(member, "deployment", "split").await?["spec"]["replicas"].clone();
            ensure!(replicas == want, "{replicas} replicas instead of {want}");
            Ok(())
        })
        .await?;
    }
    settled(plane, "split", 6).await?;
    plane.run(["delete", "deployment", "split", "--wait=true"]).await?;
    until_deleted(plane, &members[..2], "split").await
}

/// Waits until every member has the expected Deployment.
async fn everywhere(members: &[Kubectl], name: &str, right: fn(&Value) -> anyhow::Result<()>) -> anyhow::Result<()> {
    for (n, member) in members.iter().enumerate() {
        until(&format!("{name} in member{}", n + 1), DEADLINE, async || right(&get(member, "deployment", name).await?))
            .await?;
    }
    Ok(())
}

/// Waits until the template reports this many updated and ready replicas for its generation.
async fn settled(plane: &Kubectl, name: &str, replicas: i64) -> anyhow::Result<()> {
    until(&format!("the template {name} reports {replicas} replicas"), DEADLINE, async || {
        let template = get(plane, "deployment", name).await?;
        let status = &template["status"];
        ensure!(
            status["observedGeneration"] == template["metadata"]["generation"]
                && status["replicas"] == replicas
                && status["updatedReplicas"] == replicas
                && status["readyReplicas"] == replicas,
            "generation {}, status {status}",
            template["metadata"]["generation"]
        );
        Ok(())
    })
    .await
}

/// Waits until all its objects are deleted.
async fn until_deleted(plane: &Kubectl, members: &[Kubectl], name: &str) -> anyhow::Result<()> {
    until(&format!("nothing is left of {name}"), DEADLINE, async || {
        for member in members {
            let left = member.run(["get", "deployment", name, "--ignore-not-found", "-o", "name"]).await?;
            ensure!(left.trim().is_empty(), "a member still has {left}");
        }
        let binding = format!("{name}-deployment");
        let left = plane.run(["get", "resourcebinding", &binding, "--ignore-not-found", "-o", "name"]).await?;
        ensure!(left.trim().is_empty(), "the control plane still has {left}");
        let works = plane.run(["get", "works", "-A", "-o", "name"]).await?;
        ensure!(!works.contains(&format!("/{name}-")), "the control plane still has {works}");
        Ok(())
    })
    .await
}

async fn get(kubectl: &Kubectl, resource: &str, name: &str) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&kubectl.run(["get", resource, name, "-o", "json"]).await?)?)
}

fn condition_is_true(object: &Value, type_: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|list| list.iter().any(|c| c["type"] == type_ && c["status"] == "True"))
}

pub(crate) fn deployment(name: &str, replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default, labels: {{app: {name}}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
      - name: web
        image: registry.example/web:1
"
    )
}

/// A PropagationPolicy for the Deployment of this name.
pub(crate) fn policy(name: &str, placement: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: default}}
spec:
  resourceSelectors:
  - {{apiVersion: apps/v1, kind: Deployment, name: {name}}}
  placement:
    {placement}
"
    )
}
