//! Verbs beside `ironclad run` plan and explain with the settings of the leader, which it announces in a ConfigMap.

use std::{fs, time::Duration};

use anyhow::ensure;
use ironclad_testkit::{
    binary::{Daemon, Output, ironclad},
    real::{Config, RealEnv, until},
};

const DEADLINE: Duration = Duration::from_secs(30);
const OBJECTS: &str = r#"
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m1}
spec: {syncMode: Pull}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [m1]}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: FederatedResourceQuota
metadata: {name: quota, namespace: default}
spec: {overall: {cpu: "1"}}
"#;
const UNKNOWN_CONTROLLERS: &str = "which controllers run is not known";
const ASSUMED: &str = "planned with the defaults";

#[tokio::test]
async fn verbs_use_the_settings_that_the_leader_of_run_announces() -> anyhow::Result<()> {
    let Some(env) = RealEnv::start_or_skip(Config { members: 0, ..Config::default() }).await? else { return Ok(()) };
    let kubeconfig = env.plane().kubeconfig().display().to_string();
    ironclad(["crds", "--install", "--kubeconfig", &kubeconfig]).await?.success()?;
    let kubectl = env.plane().kubectl();
    let dir = tempfile::tempdir()?;
    let manifests = dir.path().join("objects.yaml");
    fs::write(&manifests, OBJECTS)?;
    kubectl.run(["apply", "-f", &manifests.display().to_string()]).await?;
    let verb = async |words: &[&str]| -> anyhow::Result<Output> {
        let mut line = words.to_vec();
        line.extend(["--kubeconfig", &kubeconfig]);
        ironclad(line).await
    };
    let loss = ["plan", "cluster-loss", "m1"].as_slice();
    let account = env.account().await?;
    let run = ["run", "--kubeconfig", &account, "--metrics-bind-address=0"];

    // Nobody has led yet.
    let doctor = verb(&["doctor"]).await?;
    let asked = "no leader has announced its settings in ConfigMap karmada-system/ironclad-configuration";
    ensure!(doctor.stdout.contains(UNKNOWN_CONTROLLERS) && doctor.stdout.contains(asked), "{doctor:?}");
    let plan = verb(loss).await?;
    ensure!(plan.stderr.contains(ASSUMED), "{plan:?}");

    let first = ["--controllers=*,-federatedResourceQuotaSync", "--scheduler-name=mine"];
    let daemon = Daemon::start(run.into_iter().chain(first)).await?;
    until("the settings are announced", DEADLINE, async || {
        let doctor = verb(&["doctor"]).await?;
        ensure!(!doctor.stdout.contains(UNKNOWN_CONTROLLERS), "{doctor:?}");
        let off = "controller federatedResourceQuotaSync does not run, and nothing else acts on";
        ensure!(doctor.stdout.contains(off), "{doctor:?}");
        Ok(())
    })
    .await?;
    until("the policy takes the Deployment", DEADLINE, async || {
        let why = verb(&["why", "deploy/web"]).await?;
        ensure!(why.stdout.contains("default-scheduler"), "the scheduler of the leader has another name: {why:?}");
        ensure!(!why.stderr.contains("flags and gates of the scheduler"), "{why:?}");
        Ok(())
    })
    .await?;
    for words in [&["get", "evictions"], loss] {
        let off = verb(words).await?;
        ensure!(off.stderr.contains("feature gate Failover is off"), "{words:?}: {off:?}");
        ensure!(!off.stderr.contains(ASSUMED), "{words:?}: {off:?}");
    }
    daemon.stop_unrefused().await?;
    // A leader that stopped: its settings are the last ones that are known.
    let plan = verb(loss).await?;
    ensure!(plan.stderr.contains("feature gate Failover is off"), "{plan:?}");

    let second = ["--feature-gates=Failover=true", "--resource-eviction-rate=7"];
    let daemon = Daemon::start(run.into_iter().chain(second)).await?;
    until("the settings of the next leader are announced", DEADLINE, async || {
        let plan = verb(loss).await?;
        let told = !plan.stderr.contains(ASSUMED) && !plan.stderr.contains("feature gate Failover is off");
        ensure!(told && !plan.stderr.contains("has not announced"), "{plan:?}");
        Ok(())
    })
    .await?;
    let get = ["get", "configmap", "-n", "karmada-system", "ironclad-configuration", "-o", "jsonpath={.data}"];
    let announced = kubectl.run(get).await?;
    ensure!(announced.contains(r#"\"resourceEvictionRate\":7"#), "{announced}");
    let doctor = verb(&["doctor"]).await?;
    ensure!(!doctor.stdout.contains("federatedResourceQuotaSync does not run"), "{doctor:?}");
    daemon.stop_unrefused().await
}
