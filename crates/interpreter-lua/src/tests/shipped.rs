//! Each row of propagation.md 21, and rows 35-40 of 31.4.

use std::collections::BTreeSet;

use ironclad_interpreter::Operation::*;

use super::*;
use crate::Shipped;

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
        "apps.kruise.io/v1alpha1 BroadcastJob RVHASTD",
        "apps.kruise.io/v1alpha1 CloneSet RVHASD",
        "apps.kruise.io/v1alpha1 DaemonSet HASD",
        "apps.kruise.io/v1alpha1 SidecarSet RHASTD",
        "apps.kruise.io/v1alpha1 UnitedDeployment RVHASD",
        "apps.kruise.io/v1beta1 StatefulSet RVHASD",
        "argoproj.io/v1alpha1 Workflow RVHTD",
        "batch.volcano.sh/v1alpha1 Job CHAS",
        "flink.apache.org/v1beta1 FlinkDeployment RCHAS",
        "helm.toolkit.fluxcd.io/v2beta1 HelmRelease HASTD",
        "kubeflow.org/v1 Notebook RHAS",
        "kubeflow.org/v1 PyTorchJob CHAD",
        "kubeflow.org/v1 TFJob CHAD",
        "kubeflow.org/v2beta1 MPIJob CHAS",
        "kustomize.toolkit.fluxcd.io/v1 Kustomization HASTD",
        "kyverno.io/v1 ClusterPolicy HAS",
        "kyverno.io/v1 Policy HAS",
        "ray.io/v1 RayCluster CHA",
        "ray.io/v1 RayJob CHAD",
        "ray.io/v1 RayService RVHAD",
        "source.toolkit.fluxcd.io/v1 GitRepository HASTD",
        "source.toolkit.fluxcd.io/v1beta2 Bucket HASTD",
        "source.toolkit.fluxcd.io/v1beta2 HelmChart HASTD",
        "source.toolkit.fluxcd.io/v1beta2 HelmRepository HASTD",
        "source.toolkit.fluxcd.io/v1beta2 OCIRepository HASTD",
        "sparkoperator.k8s.io/v1beta2 SparkApplication CHAS",
    ];
    assert_eq!(found, want);
}

/// Every script bears objects with nothing in them: what is absent counts nothing (row 38).
#[test]
fn no_script_stumbles_over_what_is_absent() {
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
                    Retain => interpreter.retain(&template, &template, None).err(),
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
fn the_same_reports_make_the_same_status() {
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

#[test]
fn kruise() {
    let cron = object(
        "apps.kruise.io/v1alpha1",
        "AdvancedCronJob",
        json!({"template": {"broadcastJobTemplate": {"spec": {"template": pod("1")}}}}),
    );
    assert_eq!(dependencies(&cron), POD);
    assert_eq!(
        aggregate(
            &cron,
            &[
                json!({"active": [{"name": "a"}], "type": "BroadcastJob", "lastScheduleTime": "2026-01-02T00:00:00Z"}),
                json!({"active": [{"name": "b"}], "lastScheduleTime": "2026-01-01T00:00:00Z"}),
            ]
        ),
        json!({"active": [{"name": "a"}, {"name": "b"}], "type": "BroadcastJob", "lastScheduleTime": "2026-01-02T00:00:00Z"}),
        "the latest time (row 37)"
    );
    assert_eq!(aggregate(&cron, &[json!({})]), json!(null), "what is absent is left out");

    let job = object("apps.kruise.io/v1alpha1", "BroadcastJob", json!({"parallelism": 3, "template": pod("1")}));
    assert_eq!(replicas(&job), json!([3, {"resourceRequest": {"cpu": "1", "memory": "1Gi"}}]));
    assert_eq!(replicas(&object("apps.kruise.io/v1alpha1", "BroadcastJob", json!({"parallelism": "50%"})))[0], 1);
    assert_eq!(interpreter().revise_replica(&job, 5).unwrap()["spec"]["parallelism"], 5);
    assert_eq!(dependencies(&job), POD);
    for (status, want) in [
        (json!({"desired": 2, "active": 1}), true),
        (json!({"desired": 2, "succeeded": 1}), true),
        (json!({"desired": 2, "active": 1, "failed": 1}), false),
        (json!({"desired": 0, "active": 1}), false),
        (json!({"desired": 2}), false),
    ] {
        assert_eq!(healthy(&with_status(job.clone(), status.clone())), want, "{status}");
    }
    let complete = json!({"succeeded": 1, "desired": 1, "conditions": [{"type": "Complete", "status": "True"}]});
    let failed = json!({"failed": 1, "desired": 1, "conditions": [{"type": "Failed", "status": "True"}]});
    let conditions = |statuses: &[Value]| {
        let status = aggregate(&job, statuses);
        let list = status["conditions"].as_array().cloned().unwrap_or_default();
        list.iter()
            .map(|c| format!("{}: {}", c["type"].as_str().unwrap(), c["message"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(conditions(&[complete.clone(), complete.clone()]), ["Complete: Job completed"]);
    assert_eq!(
        conditions(&[failed, complete.clone()]),
        ["Failed: Job executed failed in member clusters m1"],
        "one cluster's end is not the next one's (row 36)"
    );
    assert_eq!(conditions(&[complete, json!(null)]), Vec::<String>::new());
    let mut member = job.clone();
    member["spec"]["template"]["metadata"]["labels"] = json!({"mine": "1"});
    assert_eq!(
        interpreter().retain(&job, &member, None).unwrap()["spec"]["template"]["metadata"]["labels"],
        json!({"mine": "1"})
    );

    for (api_version, kind, other) in [
        ("apps.kruise.io/v1alpha1", "CloneSet", "expectedUpdatedReplicas"),
        ("apps.kruise.io/v1beta1", "StatefulSet", "currentReplicas"),
    ] {
        let mut set = object(
            api_version,
            kind,
            json!({"replicas": 4, "template": pod("1"), "volumeClaimTemplates": [{"metadata": {"name": "own"}}]}),
        );
        let claim = json!({"persistentVolumeClaim": {"claimName": "own"}});
        set["spec"]["template"]["spec"]["volumes"].as_array_mut().unwrap().push(claim);
        assert_eq!(replicas(&set), json!([4, {"resourceRequest": {"cpu": "1", "memory": "1Gi"}}]));
        assert_eq!(interpreter().revise_replica(&set, 9).unwrap()["spec"]["replicas"], 9);
        assert_eq!(dependencies(&set), POD, "its own claims are not others'");
        let report = |generation: i64| json!({"replicas": 2, "readyReplicas": 2, other: 1, "updateRevision": "r", "observedGeneration": 7, "generation": 7, "resourceTemplateGeneration": generation});
        let status = aggregate(&set, &[report(2), report(2)]);
        assert_eq!(
            (&status["replicas"], &status[other], &status["updateRevision"], &status["observedGeneration"]),
            (&json!(4), &json!(2), &json!("r"), &json!(2))
        );
        assert_eq!(
            aggregate(&set, &[report(2), report(1)]).get("observedGeneration"),
            None,
            "one is of an older template"
        );
        let mut up =
            with_status(set.clone(), json!({"observedGeneration": 2, "updatedReplicas": 4, "availableReplicas": 4}));
        assert!(healthy(&up));
        up["status"]["updatedReplicas"] = json!(3);
        assert!(!healthy(&up));
        up["metadata"]["annotations"] = json!({"resourcetemplate.karmada.io/generation": "6"});
        assert_eq!(
            interpreter().reflect_status(&up),
            Ok(Some(
                json!({"availableReplicas": 4, "updatedReplicas": 3, "observedGeneration": 2, "generation": 2, "resourceTemplateGeneration": 6})
            ))
        );
    }

    let daemons = object("apps.kruise.io/v1alpha1", "DaemonSet", json!({"template": pod("1")}));
    assert_eq!(dependencies(&daemons), POD);
    assert!(healthy(&with_status(
        daemons.clone(),
        json!({"observedGeneration": 2, "desiredNumberScheduled": 1, "updatedNumberScheduled": 1, "numberAvailable": 1})
    )));
    assert!(!healthy(&with_status(
        daemons.clone(),
        json!({"observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 1, "numberAvailable": 1})
    )));
    let status = aggregate(&daemons, &[json!({"numberReady": 1, "daemonSetHash": "h"}), json!({"numberReady": 2})]);
    assert_eq!((&status["numberReady"], &status["daemonSetHash"]), (&json!(3), &json!("h")));

    let sidecars = object(
        "apps.kruise.io/v1alpha1",
        "SidecarSet",
        json!({"namespace": "side", "containers": pod("1")["spec"]["containers"], "volumes": pod("1")["spec"]["volumes"]}),
    );
    assert_eq!(replicas(&sidecars), json!([0, null]));
    assert_eq!(dependencies(&sidecars), ["ConfigMap side/c", "Secret side/s"]);
    assert!(
        healthy(&sidecars) && !healthy(&with_status(sidecars.clone(), json!({"matchedPods": 2, "updatedPods": 1})))
    );
    assert_eq!(
        aggregate(&sidecars, &[json!({"matchedPods": 2, "readyPods": 1}), json!({"matchedPods": 1})]),
        json!({"matchedPods": 3, "readyPods": 1, "updatedPods": 0})
    );

    let united = object(
        "apps.kruise.io/v1alpha1",
        "UnitedDeployment",
        json!({"replicas": 2, "template": {"deploymentTemplate": {"spec": {"template": pod("1")}}}}),
    );
    assert_eq!(replicas(&united), json!([2, {"resourceRequest": {"cpu": "1", "memory": "1Gi"}}]));
    assert_eq!(dependencies(&united), POD);
    let condition = |status: &str, at: &str| json!({"replicas": 1, "conditions": [{"type": "SubsetProvisioned", "status": status, "lastTransitionTime": at}]});
    let status =
        aggregate(&united, &[condition("True", "2026-01-02T00:00:00Z"), condition("False", "2026-01-01T00:00:00Z")]);
    assert_eq!(
        (&status["replicas"], &status["conditions"]),
        (
            &json!(2),
            &json!([{"type": "SubsetProvisioned", "status": "True", "lastTransitionTime": "2026-01-02T00:00:00Z"}])
        )
    );
}

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
            "ConfigMap n/c",
            "PersistentVolumeClaim n/claim",
            "Secret n/a",
            "Secret n/b",
            "Secret n/pull",
            "ServiceAccount n/runner"
        ],
        "a secret under either name (row 40)"
    );
    for (phase, want) in [("Running", true), ("Succeeded", true), ("Error", false), ("Failed", false), ("", false)] {
        assert_eq!(healthy(&with_status(workflow.clone(), json!({"phase": phase}))), want, "{phase}");
    }
    let mut member = with_status(workflow.clone(), json!({"phase": "Running"}));
    member["spec"]["suspend"] = json!(true);
    let kept = interpreter().retain(&workflow, &member, None).unwrap();
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
        {"name": "ps", "replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "1", "memory": "1Gi"}}}, {"name": "task-1", "replicas": 1}])
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
            &status["succeeded"],
            &status["version"],
            &status["runningDuration"],
            &status["taskStatusCount"],
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

#[test]
fn flux() {
    let ready = |reason: &str, message: &str| json!({"conditions": [{"type": "Ready", "status": "True", "reason": reason, "message": message}]});
    let sources = ["GitRepository", "Bucket", "HelmChart", "HelmRepository", "OCIRepository"].map(|kind| {
        let version =
            if kind == "GitRepository" { "source.toolkit.fluxcd.io/v1" } else { "source.toolkit.fluxcd.io/v1beta2" };
        (version, kind, "Succeeded")
    });
    let all = [
        ("helm.toolkit.fluxcd.io/v2beta1", "HelmRelease", "ReconciliationSucceeded"),
        ("kustomize.toolkit.fluxcd.io/v1", "Kustomization", "ReconciliationSucceeded"),
    ];
    for (api_version, kind, reason) in all.into_iter().chain(sources) {
        let template = object(api_version, kind, json!({"serviceAccountName": "flux"}));
        assert!(healthy(&with_status(template.clone(), ready(reason, ""))), "{kind}");
        assert!(!healthy(&with_status(template.clone(), ready("Other", ""))), "{kind}");
        assert_eq!(
            healthy(&with_status(template.clone(), ready("ChartPullSucceeded", ""))),
            kind == "HelmChart",
            "{kind}"
        );
        let mut report = ready(reason, "done");
        report["generation"] = json!(5);
        report["observedGeneration"] = json!(5);
        report["resourceTemplateGeneration"] = json!(2);
        let status = aggregate(&template, &[report.clone(), report]);
        assert_eq!(
            status["conditions"],
            json!([{"type": "Ready", "status": "True", "reason": reason, "message": "m1=done, m2=done"}]),
            "{kind}"
        );
        assert_eq!(status["observedGeneration"], 2, "{kind}");
        let mut member = template.clone();
        member["spec"]["suspend"] = json!(true);
        assert_eq!(interpreter().retain(&template, &member, None).unwrap()["spec"]["suspend"], true, "{kind}");
        assert_eq!(dependencies(&template), ["ServiceAccount n/flux"], "{kind}");
    }
    let release = object(
        "helm.toolkit.fluxcd.io/v2beta1",
        "HelmRelease",
        json!({
        "valuesFrom": [{"kind": "ConfigMap", "name": "v"}, {"kind": "Secret", "name": "w"}],
        "chart": {"spec": {"verify": {"secretRef": {"name": "x"}}}}, "kubeConfig": {"secretRef": {"name": "y"}}}),
    );
    assert_eq!(dependencies(&release), ["ConfigMap n/v", "Secret n/w", "Secret n/x", "Secret n/y"]);
    let failing = with_status(release, json!({"failures": 7}));
    let status =
        aggregate(&failing, &[json!({"failures": 1, "helmChart": "a"}), json!({"failures": 2, "helmChart": "b"})]);
    assert_eq!((&status["failures"], &status["helmChart"]), (&json!(3), &json!("b")), "from zero (row 35)");
    let kustomization = object(
        "kustomize.toolkit.fluxcd.io/v1",
        "Kustomization",
        json!({"decryption": {"secretRef": {"name": "d"}}, "kubeConfig": {"secretRef": {"name": "k"}}}),
    );
    assert_eq!(dependencies(&kustomization), ["Secret n/d", "Secret n/k"]);
    let git = object(
        "source.toolkit.fluxcd.io/v1",
        "GitRepository",
        json!({"secretRef": {"name": "a"}, "verify": {"secretRef": {"name": "b"}}, "certSecretRef": {"name": "c"}}),
    );
    assert_eq!(dependencies(&git), ["Secret n/a", "Secret n/b", "Secret n/c"]);
    assert_eq!(
        aggregate(&git, &[json!({"artifact": {"revision": "1"}, "url": "u"}), json!({"artifact": {"revision": "2"}})])
            ["artifact"],
        json!({"revision": "2"})
    );
}

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
        // An empty table of a running state is still one that runs.
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
        let told = |statuses: &[Value]| -> Vec<String> {
            aggregate(&job, statuses)["conditions"]
                .as_array()
                .unwrap()
                .iter()
                .map(|c| c["type"].as_str().unwrap().to_owned())
                .collect()
        };
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        assert_eq!(told(&[report("Succeeded", early), report("Succeeded", late)]), ["Created", "Succeeded"]);
        assert_eq!(told(&[report("Succeeded", early), report("Running", late)]), ["Created", "Running"]);
        assert_eq!(told(&[report("Succeeded", early), report("Failed", late)]), ["Created", "Failed"]);
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
fn kyverno() {
    for kind in ["ClusterPolicy", "Policy"] {
        let policy = object("kyverno.io/v1", kind, json!({}));
        let condition = |reason: &str| json!({"conditions": [{"type": "Ready", "status": "True", "reason": reason, "message": "ok"}]});
        for (status, want) in [
            (json!({"ready": true}), true),
            (json!({"ready": false, "conditions": condition("Succeeded")["conditions"]}), false),
            (condition("Succeeded"), true),
            (condition("Other"), false),
        ] {
            assert_eq!(healthy(&with_status(policy.clone(), status.clone())), want, "{status}");
        }
        let report = json!({"ready": true, "rulecount": {"validate": 1, "mutate": 2}, "conditions": condition("Succeeded")["conditions"]});
        let status = aggregate(&policy, &[report.clone(), report]);
        assert_eq!(
            (&status["rulecount"], &status["ready"], &status["conditions"][0]["message"]),
            (&json!({"validate": 2, "mutate": 4}), &json!(true), &json!("m1=ok, m2=ok"))
        );
    }
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
