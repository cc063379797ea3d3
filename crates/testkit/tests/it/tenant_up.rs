//! A tenant of `up`: `edit` in one namespace, and ClusterRole `ironclad-tenant`. The verbs show the tenant's objects,
//! and say what they leave out.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use ironclad_testkit::{
    binary::{Daemon, Output, free_port, ironclad},
    real::{Binaries, Kubectl, until},
};

use crate::propagation_up::kubectl;

const DEADLINE: Duration = Duration::from_secs(60);

/// A workload of the tenant and one of somebody else, and the tenant's rights here and in the members.
const WORLD: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: other}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: theirs, namespace: other}
spec:
  replicas: 1
  selector: {matchLabels: {app: theirs}}
  template:
    metadata: {labels: {app: theirs}}
    spec: {containers: [{name: c, image: i}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: jane, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: jane-tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ironclad-tenant}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
---
# As metrics-server brings it; simulated members have none.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: system:aggregated-metrics-reader
  labels: {rbac.authorization.k8s.io/aggregate-to-edit: "true"}
rules: [{apiGroups: [metrics.k8s.io], resources: [pods], verbs: [get, list]}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: everywhere}
spec:
  resourceSelectors:
  - {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: "system:aggregated-metrics-reader"}
  - {apiVersion: apps/v1, kind: Deployment}
  - {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, namespace: shop, name: jane}
  placement: {clusterAffinity: {clusterNames: [member1]}}
"#;

struct Tenant {
    kubeconfig: PathBuf,
    kubectl: Kubectl,
}

impl Tenant {
    /// The administrator's kubeconfig, as which jane asks.
    fn new(binaries: &Binaries, of_plane: &Path, dir: &Path) -> anyhow::Result<Self> {
        let all = std::fs::read_to_string(of_plane)?;
        let kubeconfig = dir.join("jane.kubeconfig");
        let jane: Vec<String> = all
            .lines()
            .flat_map(|line| {
                let indent: String = line.chars().take_while(|c| *c == ' ').collect();
                let is_user = line.trim_start().starts_with("client-certificate");
                [Some(line.to_owned()), is_user.then(|| format!("{indent}as: jane"))]
            })
            .flatten()
            .collect();
        std::fs::write(&kubeconfig, jane.join("\n"))?;
        let kubectl = Kubectl::new(binaries, &kubeconfig, dir);
        Ok(Self { kubeconfig, kubectl })
    }

    async fn verb(&self, words: &[&str]) -> anyhow::Result<Output> {
        let kubeconfig = self.kubeconfig.display().to_string();
        ironclad(words.iter().copied().chain(["--kubeconfig", &kubeconfig])).await
    }
}

#[tokio::test]
async fn a_tenant_sees_the_own_namespace() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let path = data.display().to_string();
    let flags = ["--data-dir", &path, "--listen", &listen, "--clusters", "1", "--metrics-bind-address", "0"];
    let daemon = Daemon::start([&["up"][..], &flags].concat()).await?;
    let plane = kubectl(&binaries, &data, "ironclad", dir.path())?;
    plane.apply(WORLD).await?;
    let jane = Tenant::new(&binaries, &data.join("kubeconfig"), dir.path())?;
    let who = jane.kubectl.run(["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]).await?;
    ensure!(who == "jane", "{who}");

    until("the chain of the workload is whole", DEADLINE, async || {
        let tree = jane.verb(&["tree", "deploy/web", "-n", "shop"]).await?;
        ensure!(tree.stderr.contains("left out: Works, which you may not read"), "{tree:?}");
        let shown = tree.success()?;
        for line in ["applied, as the binding reports", "member1: Deployment shop/web – 1/1 ready, healthy"] {
            ensure!(shown.contains(line), "{shown}");
        }
        Ok(())
    })
    .await?;
    let why = jane.verb(&["why", "deploy/web", "-n", "shop"]).await?.success()?;
    ensure!(why.contains("ClusterPropagationPolicy everywhere") && why.contains("member1"), "{why}");
    // Members are asked as the user.
    let pods = jane.verb(&["get", "pods", "-n", "shop", "-C", "member1", "-o", "name"]).await?.success()?;
    let pod = pods.lines().next().context("a Pod is listed")?.to_owned();
    let logs = jane.verb(&["logs", &pod, "-n", "shop", "-C", "member1"]).await?.success()?;
    ensure!(logs.contains("simulated container"), "{logs}");
    until("metrics of the Pod are there", DEADLINE, async || {
        let top = jane.verb(&["top", "pods", "-n", "shop", "-C", "member1"]).await?.success()?;
        ensure!(top.contains("web-"), "{top}");
        Ok(())
    })
    .await?;
    let proxied = dir.path().join("member1.kubeconfig");
    std::fs::write(&proxied, jane.verb(&["kubeconfig", "member1"]).await?.success()?)?;
    let name = pod.trim_start_matches("pod/");
    let member = Kubectl::new(&binaries, &proxied, dir.path());
    let echoed = member.run(["exec", "-n", "shop", name, "--as", "jane", "--", "echo", "hello"]).await?;
    ensure!(echoed.trim() == "hello", "{echoed}");

    // Objects of others stay closed.
    for (words, want) in [
        (&["tree", "deploy/theirs", "-n", "other"][..], "cannot get resource \"deployments\""),
        (&["why", "deploy/theirs", "-n", "other"], "cannot get resource \"deployments\""),
        (&["get", "pods", "-n", "other", "-C", "member1"], "cannot list resource \"pods\""),
        (&["get", "secrets", "-n", "karmada-cluster"], "cannot list resource \"secrets\""),
        (&["get", "evictions"], "is forbidden"),
    ] {
        let refused = jane.verb(words).await?;
        ensure!(refused.code != Some(0), "{words:?}: {refused:?}");
        ensure!(format!("{}{}", refused.stdout, refused.stderr).contains(want), "{words:?}: {refused:?}");
    }
    daemon.stop().await
}
