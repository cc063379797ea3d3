//! Admission as webhooks of a real kube-apiserver: defaults, refusals and warnings, with our own certificates.
//! own.

use std::time::Duration;

use anyhow::ensure;
use ironclad_testkit::{
    binary::{Daemon, ironclad},
    real::{Config, Kubectl, RealEnv, until},
};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(60);

fn policy(name: &Value, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": name,
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "none"}], "placement": {}},
    });
    if let (Some(all), Value::Object(more)) = (object["spec"].as_object_mut(), spec) {
        all.extend(more);
    }
    object
}

fn broken(name: &str) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy", "metadata": {"name": name},
        "spec": {"overrideRules": [{"overriders": {"plaintext": [{"path": "spec.a", "operator": "remove"}]}}]},
    })
}

async fn create(kubectl: &Kubectl, object: &Value, more: &[&str]) -> anyhow::Result<ironclad_testkit::real::Output> {
    let arguments = ["create", "-f", "-"].iter().chain(more);
    kubectl.output(arguments, &object.to_string()).await
}

#[tokio::test]
async fn webhooks_of_a_real_kube_apiserver() -> anyhow::Result<()> {
    let config = Config { members: 0, ..Config::default() };
    let Some(env) = RealEnv::start_or_skip(config).await? else { return Ok(()) };
    let (plane, kubectl) = (env.plane().kubeconfig().display().to_string(), env.plane().kubectl());
    ironclad(["crds", "--install", "--kubeconfig", &plane]).await?.success()?;
    let account = env.account().await?;
    let run = ["run", "--kubeconfig", &account, "--metrics-bind-address", "0", "--webhook-bind-address", "127.0.0.1:0"];
    let daemon = Daemon::start(run).await?;

    // A new configuration takes effect after a short time.
    until("policies are stamped", DEADLINE, async || {
        let made = create(kubectl, &policy(&json!({"generateName": "p-"}), json!({})), &["-o", "json"]).await?;
        let made: Value = serde_json::from_str(&made.success()?)?;
        let id = &made["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"];
        ensure!(id.as_str().is_some_and(|id| id.len() == 36), "{made}");
        ensure!(made["metadata"]["finalizers"][0] == "karmada.io/propagation-policy-controller", "{made}");
        ensure!(made["spec"]["resourceSelectors"][0]["namespace"] == "default", "{made}");
        Ok(())
    })
    .await?;

    let refused = create(kubectl, &broken("o"), &[]).await?;
    let want = "admission webhook \"overridepolicy.karmada.io\" denied the request: spec.overrideRules[0].overriders.plaintext[0].path: \
                Invalid value: \"spec.a\": JSON pointer must be empty or start with a \"/\": write /spec/a";
    ensure!(refused.code == Some(1) && refused.stderr.contains(want), "{refused:?}");
    let dry = create(kubectl, &broken("o"), &["--dry-run=server"]).await?;
    ensure!(dry.code == Some(1) && dry.stderr.contains(want), "a dry run is reviewed, too: {dry:?}");
    let own = env.kubectl(account.as_ref());
    let ours = create(&own, &broken("ours"), &["--field-manager=ironclad-test"]).await?;
    ensure!(ours.code == Some(0), "our own writes are exempt: {ours:?}");

    let unknown =
        policy(&json!({"name": "far"}), json!({"placement": {"clusterAffinity": {"clusterNames": ["nowhere"]}}}));
    let warned = create(kubectl, &unknown, &[]).await?;
    let want =
        "Warning: spec.placement.clusterAffinity.clusterNames[0] names cluster \"nowhere\", which does not exist";
    ensure!(warned.code == Some(0) && warned.stderr.contains(want), "{warned:?}");
    let other = kubectl
        .output(["patch", "propagationpolicy", "far", "--type=merge", "-p", r#"{"spec":{"schedulerName":"x"}}"#], "")
        .await?;
    ensure!(other.stderr.contains("the schedulerName should not be updated"), "{other:?}");

    protection(kubectl).await?;
    conversion(kubectl).await?;
    daemon.stop_unrefused().await?;

    // Another replica, later, without the certificates.
    kubectl.run(["delete", "secret", "-n", "karmada-system", "ironclad-webhook-certificates"]).await?;
    let gates = ["--feature-gates", "FederatedQuotaEnforcement=true"];
    let daemon = Daemon::start(run.iter().chain(&gates)).await?;
    until("the new certificate is trusted", DEADLINE, async || {
        let refused = create(kubectl, &broken("o"), &[]).await?;
        ensure!(refused.stderr.contains("denied the request"), "{refused:?}");
        Ok(())
    })
    .await?;
    quota(kubectl).await?;
    daemon.stop_unrefused().await
}

/// Quota of a binding is booked before it is stored, refused beyond the limit, and released with its deletion.
async fn quota(kubectl: &Kubectl) -> anyhow::Result<()> {
    let quota = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota", "metadata": {"name": "q"},
        "spec": {"overall": {"cpu": "3"}},
    });
    create(kubectl, &quota, &[]).await?.success()?;
    let binding = |name: &str| {
        json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": name},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "none"},
                "replicas": 2, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}, "schedulerName": "nobody",
                "clusters": [{"name": "m1", "replicas": 2}],
            },
        })
    };
    let used = async |want: &str| {
        until(&format!("{want} is used"), DEADLINE, async || {
            let quota: Value =
                serde_json::from_str(&kubectl.run(["get", "federatedresourcequota", "q", "-o", "json"]).await?)?;
            let used = quota["status"]["overallUsed"]["cpu"].as_str().unwrap_or("0");
            ensure!(used == want, "{quota}");
            Ok(())
        })
        .await
    };
    used("0").await?;
    create(kubectl, &binding("first"), &["--dry-run=server"]).await?.success()?;
    used("0").await?;
    create(kubectl, &binding("first"), &[]).await?.success()?;
    used("2").await?;
    let refused = create(kubectl, &binding("second"), &[]).await?;
    let want = "FederatedResourceQuota(default/q) exceeded for resource cpu: requested sum 4, limit 3";
    ensure!(refused.code == Some(1) && refused.stderr.contains(want), "{refused:?}");
    used("2").await?;
    kubectl.run(["delete", "resourcebinding", "first"]).await?;
    used("0").await?;
    create(kubectl, &binding("second"), &[]).await?.success()?;
    used("2").await
}

async fn protection(kubectl: &Kubectl) -> anyhow::Result<()> {
    kubectl.run(["create", "namespace", "kept"]).await?;
    kubectl.run(["create", "configmap", "c", "-n", "kept"]).await?;
    let label = "resourcetemplate.karmada.io/deletion-protected";
    kubectl.run(["label", "configmap", "c", "-n", "kept", &format!("{label}=Always")]).await?;
    for (arguments, want) in [
        (
            ["delete", "configmap", "c", "--namespace=kept"],
            "This resource is protected, please make sure to remove the label",
        ),
        (["delete", "namespace", "kept", "--wait=false"], "This namespace holds protected resources: ConfigMap c"),
    ] {
        let refused = kubectl.output(arguments, "").await?;
        ensure!(refused.code == Some(1) && refused.stderr.contains(want), "{refused:?}");
    }
    kubectl.run(["label", "configmap", "c", "-n", "kept", &format!("{label}-")]).await?;
    kubectl.run(["delete", "namespace", "kept"]).await.map(drop)
}

/// Clients of v1alpha1 read and write bindings without wiping what they do not know.
async fn conversion(kubectl: &Kubectl) -> anyhow::Result<()> {
    let binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "old-client"},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "none"},
            "replicas": 3, "placement": {"clusterAffinity": {"clusterNames": ["nowhere"]}}, "schedulerName": "nobody",
        },
    });
    create(kubectl, &binding, &[]).await?.success()?;
    let legacy = "resourcebindings.v1alpha1.work.karmada.io";
    until("v1alpha1 is served", DEADLINE, async || {
        let old: Value = serde_json::from_str(&kubectl.run(["get", legacy, "old-client", "-o", "json"]).await?)?;
        ensure!(old["spec"]["resource"]["replicas"] == 3 && old["spec"].get("placement").is_none(), "{old}");
        Ok(())
    })
    .await?;
    let patch = r#"{"spec":{"clusters":[{"name":"m1","replicas":3}]}}"#;
    kubectl.run(["patch", legacy, "old-client", "--type=merge", "-p", patch]).await?;
    let stored = kubectl.run(["get", "resourcebindings.v1alpha2.work.karmada.io", "old-client", "-o", "json"]).await?;
    let stored: Value = serde_json::from_str(&stored)?;
    ensure!(stored["spec"]["clusters"] == json!([{"name": "m1", "replicas": 3}]), "{stored}");
    ensure!(stored["spec"]["placement"] == binding["spec"]["placement"], "the rest stays: {stored}");
    ensure!(stored["metadata"].get("annotations").is_none(), "what was kept is not stored: {stored}");
    Ok(())
}
