//! `ironclad promote`: what runs in a member is taken over without a restart.

use std::time::Duration;

use anyhow::ensure;
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::{Binaries, until},
};

use crate::propagation_up::kubectl;

const DEADLINE: Duration = Duration::from_secs(60);

const RUNNING: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, labels: {tier: front}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "i:1"}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80}]}
"#;

#[tokio::test]
async fn what_runs_in_a_member_is_taken_over_as_it_is() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let path = data.display().to_string();
    let arguments = ["up", "--data-dir", &path, "--listen", &listen, "--clusters", "2", "--metrics-bind-address", "0"];
    let daemon = Daemon::start(arguments).await?;
    let plane = kubectl(&binaries, &data, "ironclad", dir.path())?;
    let member = kubectl(&binaries, &data, "member1", dir.path())?;
    member.apply(RUNNING).await?;
    let facts = async || {
        let pods = member.run(["get", "pods", "-o", "jsonpath={.items[*].metadata.uid}"]).await?;
        let of = [
            "get",
            "deploy/web",
            "service/web",
            "-o",
            "jsonpath={range .items[*]}{.metadata.uid} {.spec.clusterIP} {.spec.ports[*].nodePort}{end}",
        ];
        anyhow::Ok((pods, member.run(of).await?))
    };
    until("both pods run", DEADLINE, async || {
        let phases = member.run(["get", "pods", "-o", "jsonpath={.items[*].status.phase}"]).await?;
        ensure!(phases == "Running Running", "{phases}");
        Ok(())
    })
    .await?;
    let before = facts().await?;
    let kubeconfig = data.join("kubeconfig").display().to_string();
    let promote = |more: &'static [&'static str]| {
        let words = ["promote", "deployment/web", "service/web", "-C", "member1", "--kubeconfig", &kubeconfig];
        ironclad(
            words.map(str::to_owned).into_iter().chain(more.iter().map(|word| (*word).to_owned())).collect::<Vec<_>>(),
        )
    };
    let dry = promote(&["--dry-run=server"]).await?.success()?;
    ensure!(dry.matches("(server dry run)").count() == 4, "{dry}");
    ensure!(!plane.run(["get", "deploy,svc,pp", "-o", "name"]).await?.contains("web"), "nothing was made");
    let done = promote(&[]).await?.success()?;
    for line in [
        "Deployment default/web in member1 is taken over as it is",
        "Service default/web in member1 is taken over as it is",
    ] {
        ensure!(done.contains(line), "{done}");
    }
    ensure!(facts().await? == before, "nothing was made anew");
    let other = kubectl(&binaries, &data, "member2", dir.path())?;
    ensure!(other.run(["get", "deploy", "-o", "name"]).await?.is_empty(), "it stays where it is");
    // It is governed from now on.
    plane.run(["scale", "deploy/web", "--replicas", "3"]).await?;
    until("the member follows", DEADLINE, async || {
        let replicas = member.run(["get", "deploy/web", "-o", "jsonpath={.spec.replicas}"]).await?;
        ensure!(replicas == "3", "{replicas}");
        Ok(())
    })
    .await?;
    let again = promote(&[]).await?;
    ensure!(again.code == Some(1) && again.stderr.contains("it is propagated already"), "{again:?}");
    let pod = member.run(["get", "pods", "-o", "jsonpath={.items[0].metadata.name}"]).await?;
    let owned = ironclad(["promote", "pod", &pod, "-C", "member1", "--kubeconfig", &kubeconfig]).await?;
    ensure!(owned.code == Some(1) && owned.stderr.contains("try: ironclad promote ReplicaSet"), "{owned:?}");
    // Without their templates they stay.
    plane.run(["delete", "deploy/web", "service/web"]).await?;
    until("the Works are gone", DEADLINE, async || {
        let works = plane.run(["get", "works", "-n", "karmada-es-member1", "-o", "name"]).await?;
        ensure!(!works.contains("web-"), "{works}");
        Ok(())
    })
    .await?;
    member.run(["get", "deploy/web", "service/web"]).await?;
    // Another policy would claim the template, and move it: nothing is promoted.
    plane.apply(CLAIMING).await?;
    let claimed = promote(&[]).await?;
    let told = claimed.stderr.contains("PropagationPolicy default/claiming would claim it");
    ensure!(claimed.code == Some(1) && told, "{claimed:?}");
    ensure!(!plane.run(["get", "deploy,svc", "-o", "name"]).await?.contains("web"), "nothing was made");
    daemon.stop().await
}

const CLAIMING: &str = r#"
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: claiming, namespace: default}
spec:
  priority: 1
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement: {clusterAffinity: {clusterNames: [member2]}}
"#;

const WITH_NEEDS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: conf, namespace: default}
data: {colour: blue}
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: default}
stringData: {key: k}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other, namespace: default}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, labels: {tier: front}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: c
        image: "i:1"
        envFrom: [{configMapRef: {name: conf}}, {secretRef: {name: key}}, {configMapRef: {name: gone, optional: true}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: late, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: late}}
  template:
    metadata: {labels: {app: late}}
    spec: {containers: [{name: c, image: "i:1"}]}
"#;

#[tokio::test]
async fn what_objects_need_is_taken_over_with_them_and_nothing_that_would_move() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let path = data.display().to_string();
    let arguments = ["up", "--data-dir", &path, "--listen", &listen, "--clusters", "2", "--metrics-bind-address", "0"];
    let daemon = Daemon::start(arguments).await?;
    let plane = kubectl(&binaries, &data, "ironclad", dir.path())?;
    let member = kubectl(&binaries, &data, "member1", dir.path())?;
    member.apply(WITH_NEEDS).await?;
    until("all pods run", DEADLINE, async || {
        let phases = member.run(["get", "pods", "-o", "jsonpath={.items[*].status.phase}"]).await?;
        ensure!(phases == "Running Running Running", "{phases}");
        Ok(())
    })
    .await?;
    let pods = async || member.run(["get", "pods", "-o", "jsonpath={.items[*].metadata.uid}"]).await;
    let before = pods().await?;
    let kubeconfig = data.join("kubeconfig").display().to_string();
    let verb = async |words: &str| {
        let words = words.split(' ').chain(["--kubeconfig", &kubeconfig]);
        ironclad(words.map(str::to_owned).collect::<Vec<_>>()).await
    };
    // A template of that name with other content would be written over the member's.
    plane.run(["create", "configmap", "conf", "--from-literal=colour=red"]).await?;
    let other = verb("promote deploy -l tier=front -C member1 --dependencies").await?;
    let why = "it needs ConfigMap conf, and that of the control plane differs from that of member1";
    ensure!(other.code == Some(1) && other.stderr.contains(why), "{other:?}");
    ensure!(!plane.run(["get", "deploy,secret,pp", "-o", "name"]).await?.contains('/'), "nothing was made");
    plane.run(["delete", "configmap", "conf"]).await?;

    let done = verb("promote deploy -l tier=front -C member1 --dependencies").await?;
    ensure!(done.stderr.contains("ConfigMap gone, which Deployment default/web needs, is left out"), "{done:?}");
    let done = done.success()?;
    let lines = ["ConfigMap default/conf", "Secret default/key", "Deployment default/web"]
        .map(|object| done.find(&format!("{object} in member1 is taken over as it is")));
    ensure!(lines.iter().all(Option::is_some) && lines.is_sorted(), "what is needed comes first: {done}");
    ensure!(pods().await? == before, "no Pod was restarted");
    let policies = plane.run(["get", "pp", "-o", "jsonpath={range .items[*]}{.spec.suspension}{end}"]).await?;
    ensure!(policies.is_empty(), "all are dispatched: {policies}");
    let placed = plane.run(["get", "rb", "-o", "jsonpath={range .items[*]}{.spec.clusters[*].name} {end}"]).await?;
    ensure!(placed.trim() == "member1 member1 member1", "{placed}");

    // Of all ConfigMaps those that have a template already, or that each cluster makes, are left out.
    let all = verb("promote configmap --all -C member1").await?;
    ensure!(all.stderr.contains("ConfigMap conf is left out: it is propagated already"), "{all:?}");
    let all = all.success()?;
    ensure!(
        all.contains("ConfigMap default/other in member1 is taken over as it is") && !all.contains("/conf "),
        "{all}"
    );

    // The scheduler would not choose the member: nothing is dispatched.
    verb("cordon member1").await?.success()?;
    let late = verb("promote deploy late -C member1 --wait 2s").await?;
    ensure!(late.code == Some(1) && late.stderr.contains("Deployment default/late is not dispatched: "), "{late:?}");
    let label = ["get", "deploy/late", "-o", "jsonpath={.metadata.labels}"];
    ensure!(member.run(label).await?.is_empty(), "it is not touched");
    verb("uncordon member1").await?.success()?;
    ensure!(pods().await? == before, "no Pod was restarted");
    let policy = plane.run(["get", "pp", "-o", "name"]).await?;
    let policy = policy.lines().find(|name| name.contains("/late-")).unwrap_or_default();
    plane.run(["patch", policy, "--type=json", r#"-p=[{"op": "remove", "path": "/spec/suspension"}]"#]).await?;
    until("it is taken over", DEADLINE, async || {
        ensure!(member.run(label).await?.contains("karmada.io/managed"));
        Ok(())
    })
    .await?;
    ensure!(pods().await? == before, "no Pod was restarted");
    daemon.stop().await
}
