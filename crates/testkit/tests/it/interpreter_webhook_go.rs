//! An interpreter webhook in Go, as users of Karmada write it with its SDK, beside `ironclad up` and `ironclad run`
//! (specification/propagation.md 20.2). The webhook is the command `interpreter` of `tools/clients`: it refuses
//! requests with fields that Karmada does not publish, and answers as the SDK's handler does.

use std::time::Duration;

use anyhow::ensure;
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::{Binaries, Config, Kubectl, RealEnv, until},
};

use crate::propagation_up::kubectl;

const DEADLINE: Duration = Duration::from_secs(90);
const GATES: [&str; 2] = ["--feature-gates", "MultiplePodTemplatesScheduling=true"];

/// The kinds, which every member gets.
const KINDS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: workloads.workload.example.io}
spec:
  group: workload.example.io
  scope: Namespaced
  names: {kind: Workload, listKind: WorkloadList, plural: workloads, singular: workload}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ensembles.workload.example.io}
spec:
  group: workload.example.io
  scope: Namespaced
  names: {kind: Ensemble, listKind: EnsembleList, plural: ensembles, singular: ensemble}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: workload-kinds}
spec:
  resourceSelectors:
  - {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: workloads.workload.example.io}
  - {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: ensembles.workload.example.io}
  placement: {clusterAffinity: {clusterNames: [member1, member2]}}
";

const POLICIES: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: workloads, namespace: default}
spec:
  propagateDeps: true
  resourceSelectors: [{apiVersion: workload.example.io/v1alpha1, kind: Workload}]
  placement:
    clusterAffinity: {clusterNames: [member1, member2]}
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference:
        staticWeightList:
        - {targetCluster: {clusterNames: [member1]}, weight: 2}
        - {targetCluster: {clusterNames: [member2]}, weight: 1}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: ensembles, namespace: default}
spec:
  resourceSelectors: [{apiVersion: workload.example.io/v1alpha1, kind: Ensemble}]
  placement: {clusterAffinity: {clusterNames: [member1]}}
";

const TEMPLATES: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
data: {colour: red}
---
apiVersion: workload.example.io/v1alpha1
kind: Workload
metadata: {name: loom, namespace: default}
spec:
  replicas: 6
  paused: false
  template:
    spec:
      containers:
      - name: loom
        image: registry.example/loom:1
        resources: {requests: {cpu: 100m}}
        envFrom: [{configMapRef: {name: settings}}]
---
apiVersion: workload.example.io/v1alpha1
kind: Workload
metadata: {name: hollow, namespace: default}
spec: {replicas: 1, template: {spec: {containers: []}}}
---
apiVersion: workload.example.io/v1alpha1
kind: Ensemble
metadata: {name: choir, namespace: default}
spec:
  parts:
  - name: head
    replicas: 1
    template: {spec: {containers: [{name: head, resources: {requests: {cpu: 500m}}}]}}
  - name: worker
    replicas: 3
    template: {spec: {containers: [{name: worker, resources: {requests: {cpu: 200m}}}]}}
";

/// Waits until a field of an object has this value.
async fn says(kubectl: &Kubectl, object: &str, path: &str, want: &str) -> anyhow::Result<()> {
    until(&format!("{path} of {object} is {want:?}"), DEADLINE, async || {
        let got = kubectl.run(["get", object, "-o", &format!("jsonpath={path}")]).await?;
        ensure!(got == want, "{got:?}");
        Ok(())
    })
    .await
}

async fn patch(kubectl: &Kubectl, object: &str, arguments: &[&str], patch: &str) -> anyhow::Result<()> {
    let command = ["patch", object, "--type=merge", "-p", patch];
    kubectl.run(command.iter().chain(arguments)).await.map(drop)
}

/// Every operation by its effect. `configuration` is the file that the webhook wrote.
async fn walk(plane: &Kubectl, members: &[Kubectl], configuration: &str) -> anyhow::Result<()> {
    plane.run(["apply", "-f", configuration]).await?;
    plane.apply(KINDS).await?;
    until("the kinds are served", DEADLINE, async || plane.run(["get", "workloads,ensembles"]).await.map(drop)).await?;
    plane.apply(POLICIES).await?;
    plane.apply(TEMPLATES).await?;

    // InterpretReplica and ReviseReplica: what is divided, and the share of each copy.
    let binding = "rb/loom-workload";
    says(plane, binding, "{.spec.replicas}", "6").await?;
    says(plane, binding, "{.spec.replicaRequirements.resourceRequest.cpu}", "100m").await?;
    says(plane, binding, "{.spec.clusters[*].name}:{.spec.clusters[*].replicas}", "member1 member2:4 2").await?;
    for (member, share) in members.iter().zip(["4", "2"]) {
        says(member, "workload/loom", "{.spec.replicas}", share).await?;
        // InterpretDependency.
        says(member, "configmap/settings", "{.data.colour}", "red").await?;
    }

    // InterpretHealth, InterpretStatus without what is not reported, and AggregateStatus.
    says(plane, binding, "{.status.aggregatedStatus[*].health}", "Unhealthy Unhealthy").await?;
    for (member, ready) in members.iter().zip([4, 1]) {
        let status = format!("{{\"status\": {{\"readyReplicas\": {ready}, \"note\": \"mine\"}}}}");
        patch(member, "workload/loom", &["--subresource=status"], &status).await?;
    }
    says(plane, binding, "{.status.aggregatedStatus[*].health}", "Healthy Unhealthy").await?;
    let reported = "{\"readyReplicas\":4} {\"readyReplicas\":1}";
    says(plane, binding, "{.status.aggregatedStatus[*].status}", reported).await?;
    says(plane, "workload/loom", "{.status}", "{\"readyReplicas\":5}").await?;

    // Retain: the member's switch survives a change of the template.
    patch(&members[0], "workload/loom", &[], "{\"spec\": {\"paused\": true}}").await?;
    patch(plane, "workload/loom", &[], "{\"spec\": {\"replicas\": 9}}").await?;
    for (member, want) in members.iter().zip(["6 true", "3 "]) {
        says(member, "workload/loom", "{.spec.replicas} {.spec.paused}", want).await?;
    }

    // InterpretComponent.
    let components = "{range .spec.components[*]}{.name}={.replicas}x{.replicaRequirements.resourceRequest.cpu} {end}";
    says(plane, "rb/choir-ensemble", components, "head=1x500m worker=3x200m ").await?;
    says(plane, "rb/choir-ensemble", "{.spec.replicas}", "").await?;

    // A refusal leaves the object alone, and says the webhook's words on it.
    until("an event reports the refusal", DEADLINE, async || {
        let about = "involvedObject.kind=Workload,involvedObject.name=hollow,reason=GetReplicasFailed";
        let events =
            plane.run(["get", "events", "--field-selector", about, "-o", "jsonpath={.items[*].message}"]).await?;
        ensure!(events.contains("400") && events.contains("the template has no containers"), "{events:?}");
        Ok(())
    })
    .await?;
    let bindings = plane.run(["get", "resourcebindings", "-o", "name"]).await?;
    ensure!(!bindings.contains("hollow"), "{bindings}");
    Ok(())
}

#[tokio::test]
async fn webhook_in_go_interprets_through_up() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let (path, home) = (data.display().to_string(), dir.path().display().to_string());
    let up = ["up", "--data-dir", &path, "--listen", &listen, "--clusters", "2", "--metrics-bind-address", "0"];
    let daemon = Daemon::start(up.iter().chain(&GATES)).await?;
    let plane = kubectl(&binaries, &data, "ironclad", dir.path())?;
    let members =
        [kubectl(&binaries, &data, "member1", dir.path())?, kubectl(&binaries, &data, "member2", dir.path())?];
    let webhook = Daemon::start_program(&binaries.clients()?, ["--home", &home, "interpreter"]).await?;
    walk(&plane, &members, &dir.path().join("webhook.json").display().to_string()).await?;
    webhook.stop().await?;
    daemon.stop().await
}

#[tokio::test]
async fn webhook_in_go_interprets_on_real_kube_apiservers() -> anyhow::Result<()> {
    let Some(env) = RealEnv::start_or_skip(Config { members: 2, ..Config::default() }).await? else { return Ok(()) };
    let plane = env.plane().kubeconfig().display().to_string();
    ironclad(["crds", "--install", "--kubeconfig", &plane]).await?.success()?;
    let account = env.account().await?;
    let run = ["run", "--kubeconfig", &account, "--metrics-bind-address", "0", "--webhook-bind-address", "127.0.0.1:0"];
    let daemon = Daemon::start(run.iter().chain(&GATES)).await?;
    for (n, member) in env.members().iter().enumerate() {
        let (name, member) = (format!("member{}", n + 1), member.kubeconfig().display().to_string());
        ironclad(["join", &name, "--kubeconfig", &plane, "--cluster-kubeconfig", &member]).await?.success()?;
    }
    let dir = tempfile::tempdir()?;
    let home = dir.path().display().to_string();
    let webhook = Daemon::start_program(&Binaries::find()?.clients()?, ["--home", &home, "interpreter"]).await?;
    let members: Vec<_> = env.members().iter().map(|member| member.kubectl().clone()).collect();
    walk(env.plane().kubectl(), &members, &dir.path().join("webhook.json").display().to_string()).await?;
    webhook.stop().await?;
    daemon.stop_unrefused().await
}
