//! Machine learning: Kubeflow and Ray.

use super::*;

#[test]
fn kubeflow() {
    let notebook = object("kubeflow.org/v1", "Notebook", json!({"template": pod("1")}));
    assert_eq!(replicas(&notebook), json!([1, {"resourceRequest": {"cpu": "1", "memory": "1Gi"}}]));
    for (state, want) in [
        (json!({"running": {}}), false),
        (json!({"running": {"startedAt": "x"}}), true),
        (json!({"waiting": {"reason": "ContainerCreating"}}), true),
        (json!({"waiting": {"reason": "ImagePullBackOff"}}), false),
        (json!({"terminated": {"exitCode": 0, "reason": "Completed"}}), true),
        (json!({"terminated": {"exitCode": 1}}), false),
    ] {
        // An empty table of a running state still means running.
        let want = want || state == json!({"running": {}});
        assert_eq!(healthy(&with_status(notebook.clone(), json!({"containerState": state}))), want, "{state}");
    }
    let status = aggregate(
        &notebook,
        &[
            json!({"readyReplicas": 1, "containerState": {"running": {"startedAt": "x"}}}),
            json!({"readyReplicas": 0, "containerState": {"terminated": {"exitCode": 1}}}),
        ],
    );
    let types: Vec<&str> =
        status["conditions"].as_array().unwrap().iter().map(|c| c["type"].as_str().unwrap()).collect();
    assert_eq!((&status["readyReplicas"], types), (&json!(1), vec!["Failed", "Ready"]));

    for (kind, field, types) in [
        ("PyTorchJob", "pytorchReplicaSpecs", vec!["Master", "Worker"]),
        ("TFJob", "tfReplicaSpecs", vec!["PS", "Worker", "Chief", "Evaluator"]),
    ] {
        let mut spec = json!({field: {}});
        for name in &types {
            spec[field][name] = json!({"replicas": 2, "template": pod("1")});
        }
        let job = object("kubeflow.org/v1", kind, spec);
        let names: Vec<String> =
            components(&job).as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(names, types.iter().map(|t| t.to_lowercase()).collect::<Vec<_>>());
        assert_eq!(dependencies(&job), POD);
        let report = |end: &str, time: &str| {
            json!({"startTime": time, "completionTime": time, "replicaStatuses": {"Worker": {"active": 1, "failed": 0}},
            "conditions": [{"type": "Created", "status": "True"}, {"type": end, "status": "True"}]})
        };
        assert!(
            !healthy(&with_status(job.clone(), report("Failed", "")))
                && healthy(&with_status(job.clone(), report("Running", "")))
        );
        let types = |statuses: &[Value]| -> Vec<String> {
            aggregate(&job, statuses)["conditions"]
                .as_array()
                .unwrap()
                .iter()
                .map(|c| c["type"].as_str().unwrap().to_owned())
                .collect()
        };
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        assert_eq!(types(&[report("Succeeded", early), report("Succeeded", late)]), ["Created", "Succeeded"]);
        assert_eq!(types(&[report("Succeeded", early), report("Running", late)]), ["Created", "Running"]);
        assert_eq!(types(&[report("Succeeded", early), report("Failed", late)]), ["Created", "Failed"]);
        let status = aggregate(&job, &[report("Succeeded", late), report("Succeeded", early)]);
        assert_eq!(
            [&status["startTime"], &status["completionTime"], &status["replicaStatuses"]],
            [&json!(early), &json!(late), &json!({"Worker": {"active": 2, "failed": 0, "succeeded": 0}})]
        );
    }

    let mpi = object(
        "kubeflow.org/v2beta1",
        "MPIJob",
        json!({"mpiReplicaSpecs": {"Worker": {"template": pod("1")}, "Launcher": {"template": {"spec": {}}}}}),
    );
    let found: Vec<String> = components(&mpi)
        .as_array()
        .unwrap()
        .iter()
        .map(|c| format!("{} {}", c["name"].as_str().unwrap(), c["replicas"]))
        .collect();
    assert_eq!(found, ["launcher 1", "worker 0"], "by key (row 40)");
    let report = |kind: &str, at: &str| json!({"conditions": [{"type": kind, "status": "True", "lastUpdateTime": at}], "replicaStatuses": {"Worker": {"active": 1}}});
    assert!(
        !healthy(&mpi)
            && healthy(&with_status(mpi.clone(), report("Running", "")))
            && !healthy(&with_status(mpi.clone(), report("Failed", "")))
    );
    assert_eq!(aggregate(&mpi, &[report("Running", "1")]), report("Running", "1"));
    let status = aggregate(&mpi, &[report("Running", "1"), report("Running", "2")]);
    assert_eq!(
        (&status["conditions"][0]["lastUpdateTime"], &status["replicaStatuses"]["Worker"]["active"]),
        (&json!("2"), &json!(2))
    );
}

#[test]
fn ray() {
    let cluster = json!({"headGroupSpec": {"template": pod("1")}, "workerGroupSpecs": [
        {"groupName": "gpu", "replicas": 2, "template": pod("4")}, {"replicas": 1, "template": {"spec": {}}}]});
    let rays = object("ray.io/v1", "RayCluster", cluster.clone());
    let named = |value: Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|c| format!("{} {}", c["name"].as_str().unwrap(), c["replicas"])).collect()
    };
    assert_eq!(named(components(&rays)), ["ray-head 1", "gpu 2", "worker-1 1"]);
    let conditions = |list: &[&str]| json!({"conditions": list.iter().map(|t| json!({"type": t, "status": "True"})).collect::<Vec<_>>()});
    assert!(healthy(&with_status(rays.clone(), conditions(&["HeadPodReady", "RayClusterProvisioned"]))));
    assert!(!healthy(&with_status(rays.clone(), conditions(&["HeadPodReady"]))));
    assert!(!healthy(&with_status(
        rays.clone(),
        conditions(&["HeadPodReady", "RayClusterProvisioned", "RayClusterReplicaFailure"])
    )));
    let report = |time: &str, state: &str| json!({"availableWorkerReplicas": 2, "desiredCPU": "500m", "desiredMemory": "1Gi", "lastUpdateTime": time, "state": state});
    assert_eq!(aggregate(&rays, &[report("2", "ready")]), report("2", "ready"), "one is copied");
    assert_eq!(
        aggregate(&rays, &[report("2", "ready"), report("3", "suspended")]),
        json!({"availableWorkerReplicas": 4, "desiredCPU": "1", "desiredMemory": "2Gi", "lastUpdateTime": "3", "state": "ready"})
    );

    let job = object(
        "ray.io/v1",
        "RayJob",
        json!({"rayClusterSpec": cluster, "submitterPodTemplate": {"spec": {"serviceAccountName": "submit"}}}),
    );
    assert_eq!(named(components(&job)), ["ray-head 1", "gpu 2", "worker-1 1"]);
    assert_eq!(dependencies(&job), ["ConfigMap n/c", "Secret n/s", "ServiceAccount n/submit"]);
    for (status, want) in [
        (json!({"jobDeploymentStatus": "Running"}), true),
        (json!({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}), true),
        (json!({"jobDeploymentStatus": "Complete", "jobStatus": "FAILED"}), false),
        (json!({"jobDeploymentStatus": "Initializing"}), false),
    ] {
        assert_eq!(healthy(&with_status(job.clone(), status.clone())), want, "{status}");
    }
    let status = aggregate(
        &job,
        &[
            json!({"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"}),
            json!({"jobStatus": "RUNNING", "jobDeploymentStatus": "Running"}),
        ],
    );
    assert_eq!((&status["jobStatus"], &status["jobDeploymentStatus"]), (&json!("RUNNING"), &json!("Running")));

    let service = object("ray.io/v1", "RayService", json!({"rayClusterConfig": cluster}));
    assert_eq!(replicas(&service), json!([4, {"resourceRequest": {"cpu": "4", "memory": "1Gi"}}]));
    assert_eq!(dependencies(&service), POD);
    assert!(healthy(&with_status(service.clone(), conditions(&["Ready"]))) && !healthy(&service));
    let revised = |groups: &[i64], replicas: i32| -> Vec<i64> {
        let groups: Vec<Value> = groups.iter().map(|n| json!({"replicas": n})).collect();
        let service = object("ray.io/v1", "RayService", json!({"rayClusterConfig": {"workerGroupSpecs": groups}}));
        let revised = interpreter().revise_replica(&service, replicas).unwrap();
        revised["spec"]["rayClusterConfig"]["workerGroupSpecs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|g| g["replicas"].as_i64().unwrap())
            .collect()
    };
    for (groups, replicas, want) in [
        (vec![1, 1, 1, 1], 3, vec![1, 1, 0, 0]),
        (vec![2, 1], 7, vec![4, 2]),
        (vec![2, 1], 6, vec![3, 2]),
        (vec![5, 1], 1, vec![0, 0]),
        (vec![5, 1], 0, vec![0, 0]),
        (vec![0, 0], 4, vec![2, 1]),
    ] {
        assert_eq!(revised(&groups, replicas), want, "{groups:?} for {replicas} (row 39)");
    }
    let report = |endpoints: i64, status: &str| json!({"numServeEndpoints": endpoints, "activeServiceStatus": {"applicationStatuses": {"app": {"status": status}}}});
    let status = aggregate(&service, &[report(2, "RUNNING"), report(1, "DEPLOYING")]);
    assert_eq!(
        (&status["numServeEndpoints"], &status["activeServiceStatus"]["applicationStatuses"]["app"]["status"]),
        (&json!(3), &json!("DEPLOYING"))
    );
}
