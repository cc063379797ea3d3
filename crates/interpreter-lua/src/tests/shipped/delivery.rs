//! Delivery and policy kinds: Flux and Kyverno.

use super::*;

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
        assert_eq!(interpreter().retain(&template, &member).unwrap()["spec"]["suspend"], true, "{kind}");
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
