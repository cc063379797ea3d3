//! Flows about the contents of copies.

use serde_json::json;

use super::{Flow, deployment, policy};

const EVERYWHERE: &str = "placement: {clusterAffinity: {clusterNames: [member1, member2]}}";

/// Overriders change the copies in the clusters of a rule, in order, and only there.
pub(super) async fn overridden(flow: &Flow<'_>) -> anyhow::Result<()> {
    flow.apply(&deployment("web", 1)).await?;
    flow.apply(
        "apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: web, namespace: NS}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  overrideRules:
  - targetCluster: {clusterNames: [member1]}
    overriders:
      imageOverrider: [{component: Registry, operator: replace, value: north.example}]
      labelsOverrider: [{operator: add, value: {site: north}}]
      argsOverrider: [{containerName: web, operator: add, value: [--site=north]}]
  - overriders:
      plaintext: [{path: /spec/template/spec/terminationGracePeriodSeconds, operator: add, value: 7}]
",
    )
    .await?;
    flow.apply(&policy("web", "apps/v1", "Deployment", EVERYWHERE)).await?;
    let container = "/spec/template/spec/containers/0";
    flow.member_has(1, "deployment/web", &format!("{container}/image"), json!("north.example/web:1")).await?;
    flow.member_has(1, "deployment/web", &format!("{container}/args"), json!(["--site=north"])).await?;
    flow.member_has(1, "deployment/web", "/metadata/labels/site", json!("north")).await?;
    flow.member_has(2, "deployment/web", &format!("{container}/image"), json!("registry.example/web:1")).await?;
    for member in [1, 2] {
        flow.member_has(member, "deployment/web", "/spec/template/spec/terminationGracePeriodSeconds", json!(7))
            .await?;
    }
    flow.kubectl(&["delete", "overridepolicy", "web"]).await?;
    flow.member_has(1, "deployment/web", &format!("{container}/image"), json!("registry.example/web:1")).await
}

/// Dependencies of a workload are propagated and removed with it.
pub(super) async fn dependencies(flow: &Flow<'_>) -> anyhow::Result<()> {
    flow.kubectl(&["create", "configmap", "settings", "--from-literal=colour=blue"]).await?;
    flow.kubectl(&["create", "secret", "generic", "token", "--from-literal=token=s"]).await?;
    let using = deployment("web", 1).replace(
        "image: registry.example/web:1\n",
        "image: registry.example/web:1
        envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: token}}]\n",
    );
    flow.apply(&using).await?;
    let only = "propagateDeps: true\n  placement: {clusterAffinity: {clusterNames: [member2]}}";
    flow.apply(&policy("web", "apps/v1", "Deployment", only)).await?;
    flow.member_has(2, "configmap/settings", "/data/colour", json!("blue")).await?;
    flow.is_in_member(2, "secret/token", true).await?;
    flow.member_has(2, "deployment/web", "/status/readyReplicas", json!(1)).await?;
    flow.is_in_member(1, "configmap/settings", false).await?;
    flow.kubectl(&["patch", "configmap", "settings", "-p", r#"{"data":{"colour":"red"}}"#]).await?;
    flow.member_has(2, "configmap/settings", "/data/colour", json!("red")).await?;
    flow.kubectl(&["delete", "deployment", "web"]).await?;
    flow.is_in_member(2, "configmap/settings", false).await
}

/// Custom resources and their definitions are propagated like built-in kinds.
pub(super) async fn custom_resources(flow: &Flow<'_>) -> anyhow::Result<()> {
    let crd = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.io}
spec:
  group: example.io
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: gadgets}
spec:
  resourceSelectors: [{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: gadgets.example.io}]
  placement: {clusterAffinity: {clusterNames: [member1, member2]}}
";
    flow.apply(crd).await?;
    for member in [1, 2] {
        flow.is_in_member(member, "crd/gadgets.example.io", true).await?;
    }
    flow.plane.run(["wait", "--for=condition=Established", "crd/gadgets.example.io"]).await?;
    let gadget = "apiVersion: example.io/v1
kind: Gadget
metadata: {name: one, namespace: NS}
spec: {size: 3}
";
    flow.apply(gadget).await?;
    flow.apply(&policy("one", "example.io/v1", "Gadget", EVERYWHERE)).await?;
    for member in [1, 2] {
        flow.member_has(member, "gadgets.example.io/one", "/spec/size", json!(3)).await?;
    }
    flow.kubectl(&["patch", "gadget", "one", "--type=merge", "-p", r#"{"spec":{"size":4}}"#]).await?;
    flow.member_has(1, "gadgets.example.io/one", "/spec/size", json!(4)).await?;
    flow.is_true("resourcebinding/one-gadget", "FullyApplied").await?;
    flow.kubectl(&["delete", "gadget", "one"]).await?;
    flow.is_in_member(1, "gadgets.example.io/one", false).await?;
    flow.plane.run(["delete", "clusterpropagationpolicy", "gadgets"]).await?;
    flow.plane.run(["delete", "crd", "gadgets.example.io"]).await?;
    flow.is_in_member(1, "crd/gadgets.example.io", false).await
}

/// ClusterPropagationPolicies propagate cluster-scoped objects.
pub(super) async fn cluster_scoped(flow: &Flow<'_>) -> anyhow::Result<()> {
    flow.apply(
        "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: flow-reader}
rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: flow-reader}
spec:
  resourceSelectors: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: flow-reader}]
  placement: {clusterAffinity: {clusterNames: [member2]}}
",
    )
    .await?;
    flow.member_has(2, "clusterrole/flow-reader", "/rules/0/verbs/0", json!("get")).await?;
    flow.is_in_member(1, "clusterrole/flow-reader", false).await?;
    flow.is_true("clusterresourcebinding/flow-reader-clusterrole", "FullyApplied").await?;
    flow.plane.run(["delete", "clusterrole", "flow-reader"]).await?;
    flow.is_in_member(2, "clusterrole/flow-reader", false).await?;
    flow.plane.run(["delete", "clusterpropagationpolicy", "flow-reader"]).await.map(drop)
}

/// Parallelism and completions of a Job are divided; its completion is aggregated.
pub(super) async fn jobs_divided(flow: &Flow<'_>) -> anyhow::Result<()> {
    flow.apply(
        "apiVersion: batch/v1
kind: Job
metadata: {name: sums, namespace: NS}
spec:
  parallelism: 4
  completions: 8
  template:
    spec:
      restartPolicy: Never
      containers: [{name: sum, image: registry.example/sum:1}]
",
    )
    .await?;
    let weights = "placement:
    clusterAffinity: {clusterNames: [member1, member2]}
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference: {staticWeightList: [{targetCluster: {clusterNames: [member1]}, weight: 3}, {targetCluster: {clusterNames: [member2]}, weight: 1}]}";
    flow.apply(&policy("sums", "batch/v1", "Job", weights)).await?;
    flow.placed("sums-job", "member1:3,member2:1").await?;
    for (member, parallelism, completions) in [(1, 3, 6), (2, 1, 2)] {
        flow.member_has(member, "job/sums", "/spec/parallelism", json!(parallelism)).await?;
        flow.member_has(member, "job/sums", "/spec/completions", json!(completions)).await?;
    }
    flow.is_true("resourcebinding/sums-job", "FullyApplied").await
}

/// The statuses of other workloads are aggregated as those of Deployments.
pub(super) async fn stateful_and_daemon_sets(flow: &Flow<'_>) -> anyhow::Result<()> {
    let pods = "selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: web, image: 'registry.example/web:1'}]}";
    let set = format!(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: db, namespace: NS}}\nspec:\n  replicas: 2\n  serviceName: db\n  {pods}\n"
    );
    flow.apply(&set.replace("NAME", "db")).await?;
    flow.apply(&policy("db", "apps/v1", "StatefulSet", EVERYWHERE)).await?;
    let set =
        format!("apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: agent, namespace: NS}}\nspec:\n  {pods}\n");
    flow.apply(&set.replace("NAME", "agent")).await?;
    flow.apply(&policy("agent", "apps/v1", "DaemonSet", EVERYWHERE)).await?;
    for member in [1, 2] {
        flow.member_has(member, "statefulset/db", "/status/readyReplicas", json!(2)).await?;
        flow.is_in_member(member, "daemonset/agent", true).await?;
    }
    flow.plane_has("statefulset/db", "/status/readyReplicas", json!(4)).await?;
    flow.is_true("resourcebinding/agent-daemonset", "FullyApplied").await
}

/// Fields that a member sets on a Service, such as its address, are retained.
pub(super) async fn services(flow: &Flow<'_>) -> anyhow::Result<()> {
    let service = "apiVersion: v1
kind: Service
metadata: {name: web, namespace: NS}
spec: {selector: {app: web}, ports: [{port: 80}]}
";
    flow.apply(service).await?;
    flow.apply(&policy("web", "v1", "Service", EVERYWHERE)).await?;
    flow.is_in_member(1, "service/web", true).await?;
    let address = flow.in_member(1, &["get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"]).await?;
    anyhow::ensure!(!address.is_empty(), "member1 gave no address");
    flow.apply(&service.replace("port: 80", "port: 81")).await?;
    flow.member_has(1, "service/web", "/spec/ports/0/port", json!(81)).await?;
    flow.member_has(1, "service/web", "/spec/clusterIP", json!(address)).await
}
