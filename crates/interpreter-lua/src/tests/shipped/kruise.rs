//! Workloads of OpenKruise.

use super::*;

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
        interpreter().retain(&job, &member).unwrap()["spec"]["template"]["metadata"]["labels"],
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
