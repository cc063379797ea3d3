//! Differences between versions of a kind, and kinds beside those that Karmada ships (specification/propagation.md 21).

use super::*;

fn ready(reason: &str) -> Value {
    json!({"conditions": [{"type": "Ready", "status": "True", "reason": reason, "message": "m"}]})
}

#[test]
fn flux_versions() {
    let release = |version: &str| object(&format!("helm.toolkit.fluxcd.io/{version}"), "HelmRelease", json!({}));
    for (version, reason, want) in [
        ("v2", "InstallSucceeded", true),
        ("v2", "UpgradeSucceeded", true),
        ("v2", "TestSucceeded", true),
        ("v2beta2", "UpgradeSucceeded", true),
        ("v2beta1", "ReconciliationSucceeded", true),
        ("v2beta1", "UpgradeSucceeded", false),
    ] {
        assert_eq!(healthy(&with_status(release(version), ready(reason))), want, "{version} {reason}");
    }
    let failed =
        json!({"conditions": [{"type": "Ready", "status": "False", "reason": "UpgradeFailed", "message": ""}]});
    assert!(!healthy(&with_status(release("v2"), failed)));
    let report = |chart: &str, failures: i32| {
        json!({"failures": failures, "lastAttemptedRevision": chart, "lastAttemptedConfigDigest": "sha256:1",
        "lastAttemptedReleaseAction": "upgrade", "history": [{"chartVersion": chart, "status": "deployed"}]})
    };
    let status = aggregate(&release("v2"), &[report("6.5.3", 1), report("6.5.4", 2)]);
    let mut want = report("6.5.4", 3);
    want["installFailures"] = json!(0);
    want["upgradeFailures"] = json!(0);
    assert_eq!(status, want, "v2 has no lastAppliedRevision");
    let kube_config = json!({"kubeConfig": {"configMapRef": {"name": "k"}}});
    assert_eq!(dependencies(&with_spec(release("v2"), kube_config.clone())), ["ConfigMap n/k"]);

    for version in ["v1", "v1beta2"] {
        let api_version = format!("source.toolkit.fluxcd.io/{version}");
        let source = |kind: &str, spec: Value| object(&api_version, kind, spec);
        for kind in ["Bucket", "GitRepository", "HelmChart", "HelmRepository", "OCIRepository"] {
            assert!(healthy(&with_status(source(kind, json!({})), ready("Succeeded"))), "{version} {kind}");
            assert!(!healthy(&source(kind, json!({}))), "{version} {kind} without a status");
        }
        assert!(healthy(&with_status(source("HelmChart", json!({})), ready("ChartPackageSucceeded"))), "{version}");
        assert!(healthy(&source("HelmRepository", json!({"type": "oci"}))), "{version}: an address without a status");
        let bucket = json!({"secretRef": {"name": "a"}, "proxySecretRef": {"name": "b"}, "sts": {"secretRef": {"name": "c"},
            "certSecretRef": {"name": "d"}}});
        assert_eq!(dependencies(&source("Bucket", bucket)), ["Secret n/a", "Secret n/b", "Secret n/c", "Secret n/d"]);
        let oci = json!({"verify": {"trustedRootSecretRef": {"name": "r"}}});
        assert_eq!(dependencies(&source("OCIRepository", oci)), ["Secret n/r"]);
    }
    for version in ["v1", "v1beta2"] {
        let spec = json!({"postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": "a"}, {"kind": "Secret", "name": "b"}]},
            "decryption": {"serviceAccountName": "s"}, "kubeConfig": kube_config["kubeConfig"]});
        let kustomization = object(&format!("kustomize.toolkit.fluxcd.io/{version}"), "Kustomization", spec);
        assert_eq!(
            dependencies(&kustomization),
            ["ConfigMap n/a", "ConfigMap n/k", "Secret n/b", "ServiceAccount n/s"],
            "{version}"
        );
        assert!(healthy(&with_status(kustomization, ready("ReconciliationSucceeded"))), "{version}");
    }
}

fn with_spec(mut object: Value, spec: Value) -> Value {
    object["spec"] = spec;
    object
}

#[test]
fn kruise_versions() {
    for version in ["apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"] {
        for kind in ["CloneSet", "StatefulSet"] {
            let set = object(version, kind, json!({"replicas": 3, "template": pod("1")}));
            assert_eq!(
                replicas(&set),
                json!([3, {"resourceRequest": {"cpu": "1", "memory": "1Gi"}}]),
                "{version} {kind}"
            );
        }
        let job = object(version, "BroadcastJob", json!({"parallelism": 2, "template": pod("1")}));
        assert_eq!(replicas(&job)[0], json!(2), "{version}");
        let sidecars = |spec: Value| {
            let mut spec = spec;
            spec["containers"] = pod("1")["spec"]["containers"].clone();
            spec["imagePullSecrets"] = json!([{"name": "pull"}]);
            json!({"apiVersion": version, "kind": "SidecarSet", "metadata": {"name": "w"}, "spec": spec})
        };
        let one = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "a"}}});
        assert_eq!(dependencies(&sidecars(one)), ["ConfigMap a/c", "Secret a/pull"], "{version}");
        assert_eq!(dependencies(&sidecars(json!({"namespace": "a"}))), ["ConfigMap a/c", "Secret a/pull"], "{version}");
        let several = json!({"namespaceSelector": {"matchLabels": {"team": "a"}}});
        assert_eq!(dependencies(&sidecars(several)), Vec::<String>::new(), "{version}: not those of namespace default");
        assert_eq!(dependencies(&sidecars(json!({}))), Vec::<String>::new(), "{version}: all namespaces");
    }
}

#[test]
fn ray_versions() {
    let rays = |version: &str, kind: &str, status: Value| {
        with_status(object(&format!("ray.io/{version}"), kind, json!({})), status)
    };
    for version in ["v1", "v1alpha1"] {
        for (kind, status, want) in [
            ("RayCluster", json!({"state": "ready"}), true),
            ("RayCluster", json!({"state": "suspended"}), false),
            ("RayService", json!({"serviceStatus": "Running"}), true),
            ("RayService", json!({"serviceStatus": ""}), false),
        ] {
            assert_eq!(
                healthy(&rays(version, kind, status.clone())),
                want,
                "{version} {kind} {status} without conditions"
            );
        }
    }
    let group = json!({"groupName": "tpu", "replicas": 2, "numOfHosts": 4, "template": pod("1")});
    let cluster = json!({"headGroupSpec": {"template": pod("1")}, "workerGroupSpecs": [group, {"replicas": 4}]});
    let found = components(&object("ray.io/v1", "RayCluster", cluster.clone()));
    assert_eq!([&found[1]["name"], &found[1]["replicas"]], [&json!("tpu"), &json!(8)], "Pods, not groups of hosts");
    let service = object("ray.io/v1", "RayService", json!({"rayClusterConfig": cluster}));
    assert_eq!(replicas(&service)[0], json!(13));
    for (replicas, want) in [(13, [2, 4]), (7, [1, 2]), (25, [4, 8]), (3, [0, 2]), (1, [0, 0])] {
        let revised = interpreter().revise_replica(&service, replicas).unwrap();
        let groups = revised["spec"]["rayClusterConfig"]["workerGroupSpecs"].as_array().unwrap().clone();
        let found: Vec<_> = groups.iter().map(|group| group["replicas"].as_i64().unwrap()).collect();
        assert_eq!(found, want, "{replicas} replicas");
    }
    let report =
        |status: &str, message: Value| json!({"conditions": [{"type": "Ready", "status": status, "message": message}]});
    let status = aggregate(&service, &[report("True", json!("up")), report("False", json!(7))]);
    assert_eq!(
        status["conditions"],
        json!([{"type": "Ready", "status": "False", "message": "m2=7"}]),
        "one condition for each type, of the worst status"
    );
}

#[test]
fn conditions_are_taken_back() {
    let conditions = |status: &Value| -> Vec<String> {
        let list = status["conditions"].as_array().cloned().unwrap_or_default();
        list.iter().map(|c| format!("{}={}", c["type"].as_str().unwrap(), c["status"].as_str().unwrap())).collect()
    };
    let was = |kinds: &[&str]| json!({"conditions": kinds.iter().map(|kind| json!({"type": kind, "status": "True", "reason": "R"})).collect::<Vec<_>>()});
    let report = |kind: &str| json!({"conditions": [{"type": kind, "status": "True"}]});
    for (api_version, kind, before, now, want) in [
        ("kubeflow.org/v1", "PyTorchJob", vec!["Failed"], report("Succeeded"), vec!["Failed=False", "Succeeded=True"]),
        (
            "kubeflow.org/v1",
            "PyTorchJob",
            vec!["Succeeded"],
            report("Running"),
            vec!["Succeeded=False", "Running=True"],
        ),
        ("kubeflow.org/v1", "PyTorchJob", vec!["Succeeded"], Value::Null, vec!["Succeeded=True"]),
        (
            "apps.kruise.io/v1beta1",
            "BroadcastJob",
            vec!["Failed"],
            report("Complete"),
            vec!["Failed=False", "Complete=True"],
        ),
        ("apps.kruise.io/v1beta1", "BroadcastJob", vec!["Complete"], report("Other"), vec!["Complete=False"]),
        (
            "kubeflow.org/v1",
            "Notebook",
            vec!["Failed", "Ready"],
            json!({"readyReplicas": 0, "containerState": {"waiting": {"reason": "ContainerCreating"}}}),
            vec!["Failed=False", "Ready=False"],
        ),
        (
            "kubeflow.org/v1",
            "Notebook",
            vec!["Failed"],
            json!({"readyReplicas": 1}),
            vec!["Failed=False", "Ready=True"],
        ),
    ] {
        let template = with_status(object(api_version, kind, json!({})), was(&before));
        let once = aggregate(&template, std::slice::from_ref(&now));
        assert_eq!(conditions(&once), want, "{kind} {before:?} {now}");
        assert_eq!(
            aggregate(&with_status(template, once.clone()), &[now]),
            once,
            "{kind}: the same reports, the same status"
        );
    }
}

#[test]
fn jobs_of_the_training_operator() {
    for (kind, field, types) in [
        ("JAXJob", "jaxReplicaSpecs", vec!["Worker"]),
        ("MPIJob", "mpiReplicaSpecs", vec!["Launcher", "Worker"]),
        ("PaddleJob", "paddleReplicaSpecs", vec!["Master", "Worker"]),
        ("XGBoostJob", "xgbReplicaSpecs", vec!["Master", "Worker"]),
    ] {
        let specs: serde_json::Map<_, _> =
            types.iter().map(|name| ((*name).to_owned(), json!({"replicas": 2, "template": pod("1")}))).collect();
        let job = object("kubeflow.org/v1", kind, json!({field: specs}));
        let found = components(&job);
        let names: Vec<&str> = found.as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
        assert_eq!(names, types.iter().map(|name| name.to_lowercase()).collect::<Vec<_>>(), "{kind}");
        assert_eq!(dependencies(&job), POD, "{kind}");
        let report = json!({"conditions": [{"type": "Running", "status": "True"}], "replicaStatuses": {"Worker": {"active": 2}}});
        let status = aggregate(&job, &[report.clone(), report]);
        assert_eq!(status["replicaStatuses"]["Worker"]["active"], 4, "{kind}");
    }
}

#[test]
fn train_jobs() {
    let spec = json!({"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 3, "resourcesPerNode": {"requests": {"cpu": "4"}}}});
    let job = object("trainer.kubeflow.org/v1alpha1", "TrainJob", spec);
    assert_eq!(
        components(&job),
        json!([{"name": "node", "replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "4"}}}])
    );
    let report = |kind: &str| json!({"conditions": [{"type": kind, "status": "True", "message": "m"}], "jobsStatus": [{"name": "node", "active": 2, "ready": 1}]});
    assert!(
        healthy(&with_status(job.clone(), report("Complete"))) && !healthy(&with_status(job.clone(), report("Failed")))
    );
    assert_eq!(aggregate(&job, &[report("Complete")]), report("Complete"), "one is copied");
    assert_eq!(
        aggregate(&job, &[report("Complete"), report("Complete")]),
        json!({"conditions": [{"type": "Complete", "status": "True", "message": "m1=m, m2=m"}],
            "jobsStatus": [{"name": "node", "active": 4, "failed": 0, "ready": 2, "succeeded": 0, "suspended": 0}]})
    );
}

#[test]
fn rollouts() {
    let spec = json!({"replicas": 4, "template": pod("1"), "strategy": {"canary": {"stableService": "stable", "canaryService": "canary"}}});
    let rollout = object("argoproj.io/v1alpha1", "Rollout", spec);
    assert_eq!(replicas(&rollout), json!([4, {"resourceRequest": {"cpu": "1", "memory": "1Gi"}}]));
    assert_eq!(replicas(&object("argoproj.io/v1alpha1", "Rollout", json!({})))[0], json!(1), "the default of Argo");
    assert_eq!(interpreter().revise_replica(&rollout, 2).unwrap()["spec"]["replicas"], 2);
    assert_eq!(dependencies(&rollout), ["ConfigMap n/c", "Secret n/s", "Service n/canary", "Service n/stable"]);
    let by_reference = json!({"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "strategy": {"blueGreen": {"activeService": "a", "previewService": "p"}}});
    let by_reference = object("argoproj.io/v1alpha1", "Rollout", by_reference);
    assert_eq!(dependencies(&by_reference), ["Deployment n/d", "Service n/a", "Service n/p"]);
    let status = |phase: &str, available: i32, observed: &str| json!({"phase": phase, "availableReplicas": available, "observedGeneration": observed});
    for (status, want) in [
        (status("Healthy", 4, "2"), true),
        (status("Healthy", 4, "1"), false),
        (status("Paused", 4, "2"), true),
        (status("Progressing", 4, "2"), true),
        (status("Progressing", 3, "2"), false),
        (status("Degraded", 4, "2"), false),
        (json!({}), false),
    ] {
        assert_eq!(healthy(&with_status(rollout.clone(), status.clone())), want, "{status}");
    }
    let report = |phase: &str| {
        json!({"phase": phase, "message": "why", "replicas": 2, "availableReplicas": 2, "observedGeneration": "7", "generation": 7,
        "resourceTemplateGeneration": 2})
    };
    let status = aggregate(&rollout, &[report("Healthy"), report("Degraded")]);
    assert_eq!(
        [&status["phase"], &status["message"], &status["replicas"], &status["observedGeneration"]],
        [&json!("Degraded"), &json!("m2=why"), &json!(4), &json!("2")]
    );
}

#[test]
fn policies_of_kyverno() {
    for version in ["kyverno.io/v1", "kyverno.io/v2beta1"] {
        for kind in ["ClusterPolicy", "Policy"] {
            assert!(healthy(&with_status(object(version, kind, json!({})), ready("Succeeded"))), "{version} {kind}");
        }
    }
    let policy = object("policies.kyverno.io/v1", "ValidatingPolicy", json!({}));
    let report = |is_ready: bool| {
        let status = if is_ready { "True" } else { "False" };
        json!({"conditionStatus": {"ready": is_ready, "message": "m",
            "conditions": [{"type": "WebhookConfigured", "status": status, "message": "c"}]}})
    };
    assert!(
        healthy(&with_status(policy.clone(), report(true))) && !healthy(&with_status(policy.clone(), report(false)))
    );
    assert!(!healthy(&policy));
    assert_eq!(
        aggregate(&policy, &[report(true), report(false)]),
        json!({"conditionStatus": {"ready": false, "message": "m2=m",
            "conditions": [{"type": "WebhookConfigured", "status": "False", "message": "m2=c"}]}})
    );
    assert_eq!(aggregate(&policy, &[report(true), report(true)])["conditionStatus"]["ready"], true);
    assert_eq!(aggregate(&policy, &[report(true), Value::Null])["conditionStatus"]["ready"], false, "one is missing");
}
