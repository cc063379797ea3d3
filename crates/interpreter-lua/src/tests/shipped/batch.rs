//! Workflows and jobs: Argo, Volcano, Flink and Spark.

use super::*;

#[test]
fn argo_and_volcano() {
    let workflow = object(
        "argoproj.io/v1alpha1",
        "Workflow",
        json!({
            "parallelism": 4, "nodeSelector": {"disk": "ssd"}, "serviceAccountName": "runner", "executor": {"serviceAccountName": "default"},
            "imagePullSecrets": [{"name": "pull"}], "volumeClaimTemplates": [{"metadata": {"name": "claim"}}],
            "volumes": [{"secret": {"secretName": "a"}}, {"secret": {"name": "b"}}, {"configMap": {"name": "c"}}],
        }),
    );
    assert_eq!(replicas(&workflow), json!([4, {"nodeClaim": {"nodeSelector": {"disk": "ssd"}}}]));
    assert_eq!(replicas(&object("argoproj.io/v1alpha1", "Workflow", json!({}))), json!([1, null]));
    assert_eq!(
        dependencies(&workflow),
        [
            "ConfigMap n/c", "PersistentVolumeClaim n/claim", "Secret n/a", "Secret n/b", "Secret n/pull",
            "ServiceAccount n/runner"
        ],
        "a secret under either name (row 40)"
    );
    for (phase, want) in [("Running", true), ("Succeeded", true), ("Error", false), ("Failed", false), ("", false)] {
        assert_eq!(healthy(&with_status(workflow.clone(), json!({"phase": phase}))), want, "{phase}");
    }
    let mut member = with_status(workflow.clone(), json!({"phase": "Running"}));
    member["spec"]["suspend"] = json!(true);
    let kept = interpreter().retain(&workflow, &member).unwrap();
    assert_eq!((&kept["spec"]["suspend"], &kept["status"]), (&json!(true), &json!({"phase": "Running"})));

    let job = object(
        "batch.volcano.sh/v1alpha1",
        "Job",
        json!({"tasks": [
        {"name": "ps", "replicas": 2, "minAvailable": 2, "template": pod("1")}, {"replicas": 3, "template": {"spec": {}}}]}),
    );
    assert_eq!(
        components(&job),
        json!([
        {"name": "ps", "replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "1", "memory": "1Gi"}}}, {"name": "task-1", "replicas": 3}])
    );
    for (phase, want) in [("Running", true), ("Terminated", true), ("Failed", false), ("Unknown", false)] {
        assert_eq!(healthy(&with_status(job.clone(), json!({"state": {"phase": phase}}))), want, "{phase}");
    }
    let one = json!({"state": {"phase": "Completed"}, "succeeded": 2, "version": 3, "runningDuration": "1h0m1s", "taskStatusCount": {"ps": {"phase": {"Succeeded": 2}}}});
    let two = json!({"state": {"phase": "Completed"}, "succeeded": 1, "version": 2, "runningDuration": "59m59s", "taskStatusCount": {"ps": {"phase": {"Succeeded": 1}}}});
    assert_eq!(aggregate(&job, std::slice::from_ref(&one)), one, "one is copied");
    let status = aggregate(&job, &[one, two]);
    assert_eq!(
        [
            &status["succeeded"], &status["version"], &status["runningDuration"], &status["taskStatusCount"],
            &status["state"]
        ],
        [
            &json!(3),
            &json!(3),
            &json!("1h0m1s"),
            &json!({"ps": {"phase": {"Succeeded": 3}}}),
            &json!({"phase": "Completed"})
        ]
    );
}

#[test]
fn flink_and_spark() {
    let flink = object(
        "flink.apache.org/v1beta1",
        "FlinkDeployment",
        json!({
        "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "2"}, "job": {"parallelism": 5},
        "podTemplate": {"spec": {"nodeSelector": {"disk": "ssd"}}},
        "jobManager": {"resource": {"cpu": 1, "memory": "2048m"}}, "taskManager": {"resource": {"cpu": 0.5, "memory": "4g"}}}),
    );
    let claim = json!({"nodeSelector": {"disk": "ssd"}});
    assert_eq!(
        components(&flink),
        json!([
        {"name": "jobmanager", "replicas": 1, "replicaRequirements": {"nodeClaim": claim, "resourceRequest": {"cpu": "1", "memory": "2048Mi"}}},
        {"name": "taskmanager", "replicas": 3, "replicaRequirements": {"nodeClaim": claim, "resourceRequest": {"cpu": "500m", "memory": "4Gi"}}}])
    );
    assert_eq!(replicas(&flink), json!([4, {"nodeClaim": claim, "resourceRequest": {"cpu": "1", "memory": "4Gi"}}]));
    for (status, want) in [
        (json!({"jobStatus": {"state": "RUNNING"}}), true),
        (json!({"jobStatus": {"state": "FINISHED"}}), true),
        (json!({"jobStatus": {"state": "RESTARTING"}}), true),
        (json!({"jobStatus": {"state": "CREATED"}}), false),
        (json!({"jobStatus": {"state": "RECONCILING"}, "error": "… ImagePullBackOff …"}), true),
        (json!({"jobManagerDeploymentStatus": "READY", "lifecycleState": "STABLE"}), true),
        (json!({"jobManagerDeploymentStatus": "DEPLOYING", "lifecycleState": "STABLE"}), false),
    ] {
        assert_eq!(healthy(&with_status(flink.clone(), status.clone())), want, "{status}");
    }
    assert_eq!(
        aggregate(&flink, &[json!({"lifecycleState": "STABLE"}), json!({"lifecycleState": "", "error": "e"})]),
        json!({"lifecycleState": "STABLE", "error": "e"}),
        "what is absent is left out (row 37)"
    );

    let spark = |kind: &str| {
        object(
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            json!({"type": kind,
        "driver": {"cores": 1, "memory": "512m"}, "executor": {"instances": 3, "cores": 2, "memory": "8g", "memoryOverhead": "1g", "gpu": {"name": "nvidia.com/gpu", "quantity": 1}}}),
        )
    };
    assert_eq!(
        components(&spark("Scala")),
        json!([
        {"name": "driver", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "1", "memory": "896Mi"}}},
        {"name": "executor", "replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "2", "memory": "9216Mi", "nvidia.com/gpu": "1"}}}])
    );
    let mut python = spark("Python");
    python["spec"]["driver"]["memory"] = json!("2g");
    assert_eq!(components(&python)[0]["replicaRequirements"]["resourceRequest"]["memory"], "2868Mi", "two fifths more");
    let state = |state: &str| json!({"applicationState": {"state": state}, "executionAttempts": 1, "executorState": {state.to_lowercase(): state}});
    assert!(
        healthy(&with_status(spark("Scala"), state("RUNNING")))
            && !healthy(&with_status(spark("Scala"), state("FAILED")))
            && !healthy(&spark("Scala"))
    );
    let status = aggregate(&spark("Scala"), &[state("COMPLETED"), state("FAILED")]);
    assert_eq!(
        [&status["applicationState"], &status["executionAttempts"], &status["executorState"]],
        [&json!({"state": "FAILED"}), &json!(2), &json!({"completed": "COMPLETED", "failed": "FAILED"})]
    );
}
