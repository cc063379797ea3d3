//! Flows about the life cycle of copies.

use std::time::Duration;

use anyhow::ensure;
use ironclad_testkit::real::until;
use serde_json::json;

use super::{Flow, deployment, policy};

const FIRST: &str = "placement: {clusterAffinity: {clusterNames: [member1]}}";
const EVERYWHERE: &str = "placement: {clusterAffinity: {clusterNames: [member1, member2]}}";

fn placed(name: &str, more: &str) -> String {
    policy(name, "apps/v1", "Deployment", more)
}

/// Changes reach the members only while dispatching is not suspended.
pub(super) async fn suspended(flow: &Flow<'_>) -> anyhow::Result<()> {
    flow.apply(&deployment("web", 1)).await?;
    flow.apply(&placed("web", EVERYWHERE)).await?;
    flow.member_has(1, "deployment/web", "/status/readyReplicas", json!(1)).await?;
    let only = format!("{EVERYWHERE}\n  suspension: {{dispatchingOnClusters: {{clusterNames: [member1]}}}}");
    flow.apply(&placed("web", &only)).await?;
    until("the Work of member1 is suspended", super::DEADLINE, async || {
        let works = flow.plane.run(["get", "works", "-n", "karmada-es-member1", "-o", "json"]).await?;
        let works: serde_json::Value = serde_json::from_str(&works)?;
        let all = works["items"].as_array().into_iter().flatten();
        let mut of_web = all.filter(|work| work.to_string().contains("\"name\":\"web\""));
        ensure!(of_web.any(|work| work["spec"]["suspendDispatching"] == true), "not suspended");
        Ok(())
    })
    .await?;
    flow.kubectl(&["set", "image", "deployment/web", "web=registry.example/web:2"]).await?;
    let image = "/spec/template/spec/containers/0/image";
    flow.member_has(2, "deployment/web", image, json!("registry.example/web:2")).await?;
    flow.member_has(1, "deployment/web", image, json!("registry.example/web:1")).await?;
    flow.apply(&placed("web", EVERYWHERE)).await?;
    flow.kubectl(&["patch", "propagationpolicy", "web", "--type=merge", "-p", r#"{"spec":{"suspension":null}}"#])
        .await?;
    flow.member_has(1, "deployment/web", image, json!("registry.example/web:2")).await
}

/// With preserveResourcesOnDeletion the copies remain when the template is deleted.
pub(super) async fn preserved(flow: &Flow<'_>) -> anyhow::Result<()> {
    flow.apply(&deployment("web", 1)).await?;
    flow.apply(&placed("web", &format!("preserveResourcesOnDeletion: true\n  {FIRST}"))).await?;
    flow.member_has(1, "deployment/web", "/status/readyReplicas", json!(1)).await?;
    flow.kubectl(&["delete", "deployment", "web"]).await?;
    until("nothing of it is left in the control plane", super::DEADLINE, async || {
        let left = flow.kubectl(&["get", "resourcebinding", "-o", "name"]).await?;
        ensure!(!left.contains("web-deployment"), "{left}");
        Ok(())
    })
    .await?;
    // The object remains without our labels.
    flow.member_has(1, "deployment/web", "/metadata/labels/karmada.io~1managed", json!(null)).await?;
    flow.member_has(1, "deployment/web", "/status/readyReplicas", json!(1)).await?;
    flow.in_member(1, &["delete", "deployment", "web"]).await.map(drop)
}

/// Objects that exist in a member are taken over only if the policy says so.
pub(super) async fn adopted(flow: &Flow<'_>) -> anyhow::Result<()> {
    until("the namespace is in member1", super::DEADLINE, async || {
        flow.in_member(1, &["get", "serviceaccount", "default"]).await.map(drop)
    })
    .await?;
    let existing = deployment("web", 3).replace("NS", "adopted");
    flow.members[0].apply(&existing).await?;
    flow.apply(&deployment("web", 1)).await?;
    flow.apply(&placed("web", FIRST)).await?;
    until("the binding reports the conflict", super::DEADLINE, async || {
        let message = "jsonpath={.status.aggregatedStatus[0].appliedMessage}";
        let said = flow.kubectl(&["get", "resourcebinding", "web-deployment", "-o", message]).await?;
        ensure!(said.contains("already exists"), "it says {said:?}");
        Ok(())
    })
    .await?;
    flow.member_has(1, "deployment/web", "/spec/replicas", json!(3)).await?;
    flow.apply(&placed("web", &format!("conflictResolution: Overwrite\n  {FIRST}"))).await?;
    flow.member_has(1, "deployment/web", "/spec/replicas", json!(1)).await?;
    flow.is_true("resourcebinding/web-deployment", "FullyApplied").await
}

/// With retain-replicas a member keeps its own number of replicas.
pub(super) async fn replicas_retained(flow: &Flow<'_>) -> anyhow::Result<()> {
    let labelled = deployment("web", 1).replacen(
        "labels: {app: web}",
        "labels: {app: web, resourcetemplate.karmada.io/retain-replicas: 'true'}",
        1,
    );
    flow.apply(&labelled).await?;
    flow.apply(&placed("web", FIRST)).await?;
    flow.member_has(1, "deployment/web", "/status/readyReplicas", json!(1)).await?;
    flow.in_member(1, &["scale", "deployment", "web", "--replicas=3"]).await?;
    flow.kubectl(&["set", "image", "deployment/web", "web=registry.example/web:2"]).await?;
    flow.member_has(1, "deployment/web", "/spec/template/spec/containers/0/image", json!("registry.example/web:2"))
        .await?;
    flow.member_has(1, "deployment/web", "/spec/replicas", json!(3)).await
}

/// A protected template can't be deleted until the label is removed.
pub(super) async fn deletion_protected(flow: &Flow<'_>) -> anyhow::Result<()> {
    flow.apply(&deployment("web", 1)).await?;
    flow.kubectl(&["label", "deployment", "web", "resourcetemplate.karmada.io/deletion-protected=Always"]).await?;
    let refused = flow.kubectl(&["delete", "deployment", "web"]).await;
    let refused = refused.err().map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(refused.contains("protected"), "the deletion was not refused: {refused:?}");
    flow.kubectl(&["label", "deployment", "web", "resourcetemplate.karmada.io/deletion-protected-"]).await?;
    flow.kubectl(&["delete", "deployment", "web"]).await.map(drop)
}

/// A WorkloadRebalancer reschedules its workloads and reports it.
pub(super) async fn rebalanced(flow: &Flow<'_>) -> anyhow::Result<()> {
    flow.apply(&deployment("web", 2)).await?;
    flow.apply(&placed("web", EVERYWHERE)).await?;
    flow.is_true("resourcebinding/web-deployment", "Scheduled").await?;
    flow.apply(
        "apiVersion: apps.karmada.io/v1alpha1
kind: WorkloadRebalancer
metadata: {name: flow}
spec: {workloads: [{apiVersion: apps/v1, kind: Deployment, namespace: NS, name: web}, {apiVersion: apps/v1, kind: Deployment, namespace: NS, name: none}]}
",
    )
    .await?;
    until("the rebalancer reports both workloads", Duration::from_secs(60), async || {
        let results = "jsonpath={.status.observedWorkloads[*].result}";
        let said = flow.plane.run(["get", "workloadrebalancer", "flow", "-o", results]).await?;
        ensure!(said.contains("Successful") && said.contains("Failed"), "it says {said:?}");
        Ok(())
    })
    .await?;
    let triggered = "jsonpath={.spec.rescheduleTriggeredAt}";
    let at = flow.kubectl(&["get", "resourcebinding", "web-deployment", "-o", triggered]).await?;
    ensure!(!at.is_empty(), "rescheduleTriggeredAt is not set");
    flow.plane.run(["delete", "workloadrebalancer", "flow"]).await.map(drop)
}

/// A namespace is propagated to every member, unless it is excluded.
pub(super) async fn namespace_kept_out(flow: &Flow<'_>) -> anyhow::Result<()> {
    for member in [1, 2] {
        flow.is_in_member(member, "namespace/namespace-kept-out", true).await?;
    }
    flow.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: flow-private, labels: {namespace.karmada.io/skip-auto-propagation: 'true'}}\n").await?;
    flow.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: flow-public}\n").await?;
    flow.is_in_member(2, "namespace/flow-public", true).await?;
    flow.is_in_member(2, "namespace/flow-private", false).await?;
    flow.plane.run(["delete", "namespace", "flow-private", "flow-public"]).await?;
    flow.is_in_member(2, "namespace/flow-public", false).await
}

/// One policy with several objects, and `kubectl rollout status`.
pub(super) async fn rolled_out(flow: &Flow<'_>) -> anyhow::Result<()> {
    flow.apply(&deployment("web", 2)).await?;
    flow.kubectl(&["create", "configmap", "page", "--from-literal=title=hello"]).await?;
    flow.apply(
        "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: all, namespace: NS}
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {app: web}}}
  - {apiVersion: v1, kind: ConfigMap, name: page}
  placement: {clusterAffinity: {clusterNames: [member1, member2]}}
",
    )
    .await?;
    flow.kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"]).await?;
    flow.member_has(2, "configmap/page", "/data/title", json!("hello")).await?;
    flow.kubectl(&["set", "image", "deployment/web", "web=registry.example/web:2"]).await?;
    flow.kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"]).await?;
    flow.member_has(1, "deployment/web", "/status/updatedReplicas", json!(2)).await
}
