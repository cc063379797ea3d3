//! Each row of specification/propagation.md 21, and rows 35-40 of 31.4.

use std::collections::BTreeSet;

use ironclad_interpreter::Operation::*;

use super::*;
use crate::Shipped;

mod batch;
mod delivery;
mod kruise;
mod learning;
mod schemas;
mod versions;

fn interpreter() -> Interpreter {
    Interpreter::new(vec![Arc::new(Shipped::new(Host::at(1_767_225_845)))])
}

fn object(api_version: &str, kind: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "w", "namespace": "n", "generation": 2}, "spec": spec})
}

fn with_status(mut object: Value, status: Value) -> Value {
    object["status"] = status;
    object
}

fn healthy(object: &Value) -> bool {
    interpreter().health(object).unwrap() == Some(Health::Healthy)
}

fn aggregate(template: &Value, statuses: &[Value]) -> Value {
    let names = ["m1", "m2", "m3"];
    let items: Vec<Item<'_>> = statuses
        .iter()
        .zip(names)
        .map(|(status, name)| Item::of(name, Some(status).filter(|s| !s.is_null())))
        .collect();
    interpreter().aggregate_status(template, &items, &BTreeSet::new(), "").unwrap()
}

fn dependencies(template: &Value) -> Vec<String> {
    let found = interpreter().dependencies(template).unwrap();
    found.into_iter().map(|d| format!("{} {}/{}", d.kind, d.namespace, d.name)).collect()
}

fn components(template: &Value) -> Value {
    json!(interpreter().components(template).unwrap())
}

fn replicas(template: &Value) -> Value {
    let found = interpreter().replicas(template).unwrap();
    json!([found.replicas, found.requirements])
}

fn pod(cpu: &str) -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {
        "containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "c"}}], "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
        "volumes": [{"name": "v", "secret": {"secretName": "s"}}]}})
}

const POD: [&str; 2] = ["ConfigMap n/c", "Secret n/s"];

#[test]
fn the_kinds_and_their_operations() {
    let letter = |operation: &Operation| match operation {
        InterpretReplica => 'R',
        ReviseReplica => 'V',
        InterpretComponent => 'C',
        InterpretHealth => 'H',
        AggregateStatus => 'A',
        InterpretStatus => 'S',
        Retain => 'T',
        InterpretDependency => 'D',
    };
    let found: Vec<String> = Shipped::kinds()
        .map(|(api, kind, operations)| format!("{api} {kind} {}", operations.iter().map(letter).collect::<String>()))
        .collect();
    let want = [
        "apps.kruise.io/v1alpha1 AdvancedCronJob AD",
        "apps.kruise.io/v1beta1 AdvancedCronJob AD",
        "apps.kruise.io/v1alpha1 BroadcastJob RVHASTD",
        "apps.kruise.io/v1beta1 BroadcastJob RVHASTD",
        "apps.kruise.io/v1alpha1 CloneSet RVHASD",
        "apps.kruise.io/v1beta1 CloneSet RVHASD",
        "apps.kruise.io/v1alpha1 DaemonSet HASD",
        "apps.kruise.io/v1beta1 DaemonSet HASD",
        "apps.kruise.io/v1alpha1 SidecarSet RHASTD",
        "apps.kruise.io/v1beta1 SidecarSet RHASTD",
        "apps.kruise.io/v1alpha1 StatefulSet RVHASD",
        "apps.kruise.io/v1beta1 StatefulSet RVHASD",
        "apps.kruise.io/v1alpha1 UnitedDeployment RVHASD",
        "apps.kruise.io/v1beta1 UnitedDeployment RVHASD",
        "argoproj.io/v1alpha1 Rollout RVHASD",
        "argoproj.io/v1alpha1 Workflow RVHTD",
        "batch.volcano.sh/v1alpha1 Job CHAS",
        "flink.apache.org/v1beta1 FlinkDeployment RCHAS",
        "helm.toolkit.fluxcd.io/v2beta1 HelmRelease HASTD",
        "helm.toolkit.fluxcd.io/v2beta2 HelmRelease HASTD",
        "helm.toolkit.fluxcd.io/v2 HelmRelease HASTD",
        "kubeflow.org/v1alpha1 Notebook RHAS",
        "kubeflow.org/v1beta1 Notebook RHAS",
        "kubeflow.org/v1 Notebook RHAS",
        "kubeflow.org/v1 JAXJob CHAD",
        "kubeflow.org/v1 MPIJob CHAD",
        "kubeflow.org/v1 PaddleJob CHAD",
        "kubeflow.org/v1 PyTorchJob CHAD",
        "kubeflow.org/v1 TFJob CHAD",
        "kubeflow.org/v1 XGBoostJob CHAD",
        "kubeflow.org/v2beta1 MPIJob CHAS",
        "kustomize.toolkit.fluxcd.io/v1beta2 Kustomization HASTD",
        "kustomize.toolkit.fluxcd.io/v1 Kustomization HASTD",
        "kyverno.io/v1 ClusterPolicy HAS",
        "kyverno.io/v1 Policy HAS",
        "kyverno.io/v2beta1 ClusterPolicy HAS",
        "kyverno.io/v2beta1 Policy HAS",
        "policies.kyverno.io/v1alpha1 DeletingPolicy HAS",
        "policies.kyverno.io/v1alpha1 GeneratingPolicy HAS",
        "policies.kyverno.io/v1alpha1 ImageValidatingPolicy HAS",
        "policies.kyverno.io/v1alpha1 MutatingPolicy HAS",
        "policies.kyverno.io/v1alpha1 ValidatingPolicy HAS",
        "policies.kyverno.io/v1beta1 DeletingPolicy HAS",
        "policies.kyverno.io/v1beta1 GeneratingPolicy HAS",
        "policies.kyverno.io/v1beta1 ImageValidatingPolicy HAS",
        "policies.kyverno.io/v1beta1 MutatingPolicy HAS",
        "policies.kyverno.io/v1beta1 ValidatingPolicy HAS",
        "policies.kyverno.io/v1 DeletingPolicy HAS",
        "policies.kyverno.io/v1 GeneratingPolicy HAS",
        "policies.kyverno.io/v1 ImageValidatingPolicy HAS",
        "policies.kyverno.io/v1 MutatingPolicy HAS",
        "policies.kyverno.io/v1 ValidatingPolicy HAS",
        "policies.kyverno.io/v1beta1 NamespacedDeletingPolicy HAS",
        "policies.kyverno.io/v1beta1 NamespacedGeneratingPolicy HAS",
        "policies.kyverno.io/v1beta1 NamespacedImageValidatingPolicy HAS",
        "policies.kyverno.io/v1beta1 NamespacedMutatingPolicy HAS",
        "policies.kyverno.io/v1beta1 NamespacedValidatingPolicy HAS",
        "policies.kyverno.io/v1 NamespacedDeletingPolicy HAS",
        "policies.kyverno.io/v1 NamespacedGeneratingPolicy HAS",
        "policies.kyverno.io/v1 NamespacedImageValidatingPolicy HAS",
        "policies.kyverno.io/v1 NamespacedMutatingPolicy HAS",
        "policies.kyverno.io/v1 NamespacedValidatingPolicy HAS",
        "ray.io/v1alpha1 RayCluster CHA",
        "ray.io/v1 RayCluster CHA",
        "ray.io/v1alpha1 RayJob CHAD",
        "ray.io/v1 RayJob CHAD",
        "ray.io/v1alpha1 RayService RVHAD",
        "ray.io/v1 RayService RVHAD",
        "source.toolkit.fluxcd.io/v1beta2 Bucket HASTD",
        "source.toolkit.fluxcd.io/v1beta2 GitRepository HASTD",
        "source.toolkit.fluxcd.io/v1beta2 HelmChart HASTD",
        "source.toolkit.fluxcd.io/v1beta2 HelmRepository HASTD",
        "source.toolkit.fluxcd.io/v1beta2 OCIRepository HASTD",
        "source.toolkit.fluxcd.io/v1 Bucket HASTD",
        "source.toolkit.fluxcd.io/v1 GitRepository HASTD",
        "source.toolkit.fluxcd.io/v1 HelmChart HASTD",
        "source.toolkit.fluxcd.io/v1 HelmRepository HASTD",
        "source.toolkit.fluxcd.io/v1 OCIRepository HASTD",
        "sparkoperator.k8s.io/v1beta2 SparkApplication CHAS",
        "trainer.kubeflow.org/v1alpha1 TrainJob CHAS",
    ];
    assert_eq!(found, want);
}

/// Every script accepts objects without fields: an absent number counts as 0 (specification/propagation.md 31.4, row
/// 38).
#[test]
fn scripts_accept_absent_fields() {
    let interpreter = interpreter();
    let empty = json!({});
    for (api_version, kind, operations) in Shipped::kinds() {
        let bare = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}});
        for template in [bare, object(api_version, kind, json!({}))] {
            for operation in operations {
                let items = [Item::of("m1", Some(&empty)), Item::of("m2", None)];
                let error = match operation {
                    InterpretReplica => interpreter.replicas(&template).err(),
                    ReviseReplica => interpreter.revise_replica(&template, 2).err(),
                    InterpretComponent => interpreter.components(&template).err(),
                    InterpretHealth => interpreter.health(&template).err(),
                    InterpretStatus => interpreter.reflect_status(&template).err(),
                    Retain => interpreter.retain(&template, &template).err(),
                    InterpretDependency => interpreter.dependencies(&template).err(),
                    AggregateStatus => [&[][..], &items]
                        .into_iter()
                        .find_map(|items| interpreter.aggregate_status(&template, items, &BTreeSet::new(), "").err()),
                };
                assert_eq!(error, None, "{kind} {operation}");
            }
        }
    }
}

#[test]
fn equal_reports_give_equal_status() {
    let report = json!({"conditions": [{"type": "Failed", "status": "True"}, {"type": "Created", "status": "True"}], "readyReplicas": 1,
        "containerState": {"terminated": {"exitCode": 1}}, "failed": 1, "failures": 2});
    for (api_version, kind, _) in Shipped::kinds().filter(|(_, _, operations)| operations.contains(&AggregateStatus)) {
        let template = object(api_version, kind, json!({}));
        let once = aggregate(&template, &[report.clone(), report.clone()]);
        let later = Interpreter::new(vec![Arc::new(Shipped::new(Host::at(1_767_300_000)))]);
        let items = [Item::of("m1", Some(&report)), Item::of("m2", Some(&report))];
        let template = with_status(template, once.clone());
        assert_eq!(later.aggregate_status(&template, &items, &BTreeSet::new(), ""), Ok(once), "{kind}");
    }
}
