//! Flows about placement.

use serde_json::json;

use super::{Flow, deployment, policy};

const DEPLOYMENT: [&str; 2] = ["apps/v1", "Deployment"];

fn placed(name: &str, placement: &str) -> String {
    policy(name, DEPLOYMENT[0], DEPLOYMENT[1], &format!("placement: {placement}"))
}

/// Clusters are selected by labels; after a change of labels the workload moves only when it is rescheduled.
pub(super) async fn by_labels(flow: &Flow<'_>) -> anyhow::Result<()> {
    flow.plane.run(["label", "cluster", "member2", "tier=gold", "--overwrite"]).await?;
    flow.apply(&deployment("web", 2)).await?;
    flow.apply(&placed("web", "{clusterAffinity: {labelSelector: {matchLabels: {tier: gold}}}}")).await?;
    flow.placed("web-deployment", "member2:2").await?;
    flow.member_has(2, "deployment/web", "/status/readyReplicas", json!(2)).await?;
    flow.is_in_member(1, "deployment/web", false).await?;
    flow.plane_has("deployment/web", "/status/readyReplicas", json!(2)).await?;
    flow.plane.run(["label", "cluster", "member1", "tier=gold", "--overwrite"]).await?;
    flow.placed("web-deployment", "member1:2,member2:2").await?;
    flow.member_has(1, "deployment/web", "/status/readyReplicas", json!(2)).await?;
    flow.plane.run(["label", "cluster", "member1", "member2", "tier-"]).await.map(drop)
}

/// Clusters are selected by fields.
pub(super) async fn by_fields(flow: &Flow<'_>) -> anyhow::Result<()> {
    flow.plane.run(["patch", "cluster", "member1", "--type=merge", "-p", r#"{"spec":{"region":"north"}}"#]).await?;
    flow.plane.run(["patch", "cluster", "member2", "--type=merge", "-p", r#"{"spec":{"region":"south"}}"#]).await?;
    flow.apply(&deployment("web", 1)).await?;
    let fields = "{matchExpressions: [{key: region, operator: In, values: [north]}]}";
    flow.apply(&placed("web", &format!("{{clusterAffinity: {{fieldSelector: {fields}}}}}"))).await?;
    flow.placed("web-deployment", "member1:1").await?;
    flow.member_has(1, "deployment/web", "/status/readyReplicas", json!(1)).await
}

/// Excluded clusters get no copies; a change of the policy moves existing ones.
pub(super) async fn excluded(flow: &Flow<'_>) -> anyhow::Result<()> {
    flow.apply(&deployment("web", 1)).await?;
    flow.apply(&placed("web", "{clusterAffinity: {exclude: [member1]}}")).await?;
    flow.member_has(2, "deployment/web", "/status/readyReplicas", json!(1)).await?;
    flow.is_in_member(1, "deployment/web", false).await?;
    flow.apply(&placed("web", "{clusterAffinity: {exclude: [member2]}}")).await?;
    flow.member_has(1, "deployment/web", "/status/readyReplicas", json!(1)).await?;
    flow.is_in_member(2, "deployment/web", false).await
}

/// A tainted cluster gets only workloads that tolerate the taint.
pub(super) async fn tainted(flow: &Flow<'_>) -> anyhow::Result<()> {
    let taint = r#"{"spec":{"taints":[{"key":"dedicated","value":"batch","effect":"NoSchedule"}]}}"#;
    flow.plane.run(["patch", "cluster", "member1", "--type=merge", "-p", taint]).await?;
    flow.apply(&deployment("web", 1)).await?;
    flow.apply(&placed("web", "{clusterAffinity: {clusterNames: [member1, member2]}}")).await?;
    flow.placed("web-deployment", "member2:1").await?;
    let tolerations = "[{key: dedicated, operator: Equal, value: batch, effect: NoSchedule}]";
    flow.apply(&deployment("batch", 1)).await?;
    let both = format!("{{clusterAffinity: {{clusterNames: [member1, member2]}}, clusterTolerations: {tolerations}}}");
    flow.apply(&placed("batch", &both)).await?;
    flow.placed("batch-deployment", "member1:1,member2:1").await?;
    flow.plane.run(["patch", "cluster", "member1", "--type=merge", "-p", r#"{"spec":{"taints":null}}"#]).await?;
    flow.placed("web-deployment", "member1:1,member2:1").await
}

/// When its policy is deleted, a template keeps its copies until another policy claims it, which then moves them.
pub(super) async fn handed_over(flow: &Flow<'_>) -> anyhow::Result<()> {
    flow.apply(&deployment("web", 1)).await?;
    flow.apply(&placed("web", "{clusterAffinity: {clusterNames: [member1]}}")).await?;
    flow.member_has(1, "deployment/web", "/status/readyReplicas", json!(1)).await?;
    let uid = flow.in_member(1, &["get", "deployment", "web", "-o", "jsonpath={.metadata.uid}"]).await?;
    let next =
        placed("web", "{clusterAffinity: {clusterNames: [member1, member2]}}").replacen("name: web,", "name: next,", 1);
    flow.apply(&next).await?;
    flow.kubectl(&["delete", "propagationpolicy", "web"]).await?;
    flow.member_has(2, "deployment/web", "/status/readyReplicas", json!(1)).await?;
    flow.plane_has("deployment/web", "/metadata/annotations/propagationpolicy.karmada.io~1name", json!("next")).await?;
    let after = flow.in_member(1, &["get", "deployment", "web", "-o", "jsonpath={.metadata.uid}"]).await?;
    anyhow::ensure!(uid == after, "the copy in member1 was recreated: {uid} and then {after}");
    Ok(())
}
