//! Verbs that write templates and reschedule them, against `ironclad up`.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use ironclad_testkit::{
    binary::{Daemon, binary, free_port},
    real::{Binaries, Kubectl, until},
};
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::propagation_up::kubectl;

const DEADLINE: Duration = Duration::from_secs(60);

const SHOP: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "i:1"}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: shopkeeper}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
"#;

struct World {
    daemon: Daemon,
    dir: tempfile::TempDir,
    binaries: Binaries,
    data: PathBuf,
    plane: Kubectl,
}

/// End of a verb.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ended {
    fn success(self) -> anyhow::Result<String> {
        ensure!(self.code == Some(0), "{self:?}");
        Ok(self.stdout)
    }
}

impl World {
    async fn start() -> anyhow::Result<Option<Self>> {
        let Some(binaries) = Binaries::find_or_skip()? else { return Ok(None) };
        let dir = tempfile::tempdir()?;
        let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
        let path = data.display().to_string();
        let arguments =
            ["up", "--data-dir", &path, "--listen", &listen, "--clusters", "2", "--metrics-bind-address", "0"];
        let daemon = Daemon::start(arguments).await?;
        let plane = kubectl(&binaries, &data, "ironclad", dir.path())?;
        Ok(Some(Self { daemon, dir, binaries, data, plane }))
    }

    fn member(&self, name: &str) -> anyhow::Result<Kubectl> {
        kubectl(&self.binaries, &self.data, name, self.dir.path())
    }

    /// Runs a verb with this text on stdin; it finds kubectl on PATH.
    async fn verb(&self, line: &str, stdin: &str) -> anyhow::Result<Ended> {
        self.verb_of(&binary()?, line, stdin).await
    }

    /// A verb of the program at this path, which may be a link with another name.
    async fn verb_of(&self, program: &Path, line: &str, stdin: &str) -> anyhow::Result<Ended> {
        let kubectl = self.binaries.program("kubectl");
        let mut command = Command::new(program);
        command.args(line.split_whitespace()).env("PATH", kubectl.parent().context("kubectl is in a folder")?);
        command.env("KUBECONFIG", self.data.join("kubeconfig"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut pipe = child.stdin.take().context("stdin is a pipe")?;
        let _ = pipe.write_all(stdin.as_bytes()).await;
        drop(pipe);
        let output = child.wait_with_output().await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Ended { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) })
    }
}

#[tokio::test]
async fn manifests_are_applied_and_propagated() -> anyhow::Result<()> {
    let Some(world) = World::start().await? else { return Ok(()) };
    let unknown = world.verb("apply -f - -C member1,member9", SHOP).await?;
    ensure!(
        unknown.code == Some(1) && unknown.stderr.contains("clusters.cluster.karmada.io \"member9\" not found"),
        "{unknown:?}"
    );
    let dry = world.verb("apply -f - -n shop -C member1 --dry-run", SHOP).await?.success()?;
    ensure!(dry.matches("created (dry run)").count() == 5, "{dry}");
    ensure!(!world.plane.run(["get", "namespaces", "-o", "name"]).await?.contains("shop"), "nothing was made");

    let done = world.verb("apply -f - -n shop -C member1", SHOP).await?.success()?;
    let lines: Vec<&str> = done.lines().collect();
    let want = [
        "namespace/shop created",
        "propagationpolicy.policy.karmada.io/web-",
        "deployment.apps/web created",
        "clusterpropagationpolicy.policy.karmada.io/shopkeeper-",
        "clusterrole.rbac.authorization.k8s.io/shopkeeper created",
    ];
    ensure!(lines.len() == want.len() && lines.iter().zip(want).all(|(line, want)| line.starts_with(want)), "{done}");
    let names = async |member: &Kubectl| {
        let roles = member.run(["get", "clusterrole", "shopkeeper", "--ignore-not-found", "-o", "name"]).await?;
        let workloads = member.run(["get", "deploy", "-n", "shop", "-o", "name"]).await?;
        anyhow::Ok(roles + &workloads)
    };
    let all = "clusterrole.rbac.authorization.k8s.io/shopkeeper\ndeployment.apps/web\n";
    let (first, second) = (world.member("member1")?, world.member("member2")?);
    let reached = async |what: &str, member: &Kubectl| {
        until(what, DEADLINE, async || {
            let names = names(member).await?;
            ensure!(names == all, "{names}");
            Ok(())
        })
        .await
    };
    reached("member1 has all", &first).await?;
    ensure!(names(&second).await?.is_empty(), "member2 was not named");

    // The same policies change, and a manifest of the control plane alone has none.
    let policy = "---\napiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: o}\n\
                  spec: {overrideRules: [{overriders: {labelsOverrider: [{operator: add, value: {a: b}}]}}]}\n";
    let again = world.verb("apply -f - -n shop --all-clusters", &format!("{SHOP}{policy}")).await?;
    ensure!(again.stderr.contains("overridepolicy/o is applied to the control plane alone"), "{again:?}");
    let again = again.success()?;
    ensure!(
        again.matches(" configured").count() == 2 && again.contains("overridepolicy.policy.karmada.io/o created"),
        "{again}"
    );
    reached("member2 has all", &second).await?;
    let plain = world.verb("apply -f - -n shop", SHOP).await?.success()?;
    ensure!(plain.matches(" unchanged").count() == 3 && !plain.contains("policy"), "{plain}");
    let wrong = world.verb("apply -f - -n shop --all-clusters", "apiVersion: apps/v1\nkind: [Deployment").await?;
    ensure!(wrong.code == Some(1) && wrong.stderr.contains("error parsing"), "{wrong:?}");

    // A policy of a higher priority claims the template instead, which is told.
    world
        .plane
        .apply(
            "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: claiming, namespace: shop}\n\
             spec: {priority: 1, resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}], placement: {}}\n",
        )
        .await?;
    let told = world.verb("apply -f - -n shop --all-clusters", SHOP).await?;
    ensure!(told.code == Some(0) && !told.stderr.contains("would claim"), "web has its policy: {told:?}");
    let told = world.verb("apply -f - -n shop --all-clusters", &SHOP.replace("name: web", "name: api")).await?;
    let claimed = "warning: Deployment api: PropagationPolicy shop/claiming would claim it";
    ensure!(told.code == Some(0) && told.stderr.contains(claimed), "{told:?}");
    world.daemon.stop().await
}

/// A Deployment and a ConfigMap: one has a generation, the other one has not.
fn labelled(name: &str, replicas: u32, text: &str) -> String {
    format!(
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, labels: {{team: a}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: c, image: "i:1"}}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, labels: {{team: a}}}}
data: {{text: {text}}}
---
"#
    )
}

#[tokio::test]
async fn apply_waits_for_clusters_and_prunes_what_it_made() -> anyhow::Result<()> {
    let Some(world) = World::start().await? else { return Ok(()) };
    let first = world.member("member1")?;
    let present = async |name: &str| {
        let replicas = first.run(["get", "deploy", name, "-o", "jsonpath={.spec.replicas}"]).await?;
        let text = first.run(["get", "cm", name, "-o", "jsonpath={.data.text}"]).await?;
        anyhow::Ok(format!("{replicas} {text}"))
    };
    // What is told to be applied is there, the first time and each time after.
    for (replicas, text) in [(2, "one"), (3, "two"), (1, "three")] {
        let line = "apply -f - -n default -C member1 --wait --timeout 60s";
        let done = world.verb(line, &labelled("web", replicas, text)).await?;
        for kind in ["deployment.apps", "configmap"] {
            let told = format!("{kind}/web is applied in member1");
            ensure!(done.code == Some(0) && done.stderr.contains(&told), "{done:?}");
        }
        ensure!(present("web").await? == format!("{replicas} {text}"), "{done:?}");
    }
    world.verb("cordon member1", "").await?.success()?;
    let late = world.verb("apply -f - -n default -C member1 --wait --timeout 2s", &labelled("api", 1, "x")).await?;
    let told = "deployment.apps/api is not applied after 2 s: ";
    let remedy = "try: ironclad tree deployments/api -n default";
    ensure!(late.code == Some(1) && late.stderr.contains(told) && late.stderr.contains(remedy), "{late:?}");
    world.verb("uncordon member1", "").await?.success()?;

    // Policies of others stay, also with the same label.
    world
        .plane
        .apply(
            "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\n\
             metadata: {name: own, namespace: default, labels: {team: a}}\n\
             spec: {resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: none}], placement: {}}\n",
        )
        .await?;
    let both = labelled("web", 1, "three") + &labelled("api", 1, "x");
    world.verb("apply -f - -n default --all-clusters -l team=a --wait --timeout 60s", &both).await?.success()?;
    let policies = async || world.plane.run(["get", "pp", "-o", "name"]).await;
    ensure!(policies().await?.lines().count() == 5, "{}", policies().await?);
    let pruned =
        world.verb("apply -f - -n default --all-clusters --prune -l team=a", &labelled("web", 1, "three")).await?;
    let pruned = pruned.success()?;
    let lines: Vec<&str> = pruned.lines().filter(|line| line.ends_with(" pruned")).collect();
    ensure!(lines.contains(&"deployment.apps/api pruned") && lines.contains(&"configmap/api pruned"), "{pruned}");
    let of_api = lines.iter().filter(|line| line.starts_with("propagationpolicy.policy.karmada.io/api-")).count();
    ensure!((of_api, lines.len()) == (2, 4), "{pruned}");
    let left = policies().await?;
    ensure!(left.lines().count() == 3 && left.contains("/own\n") && !left.contains("/api-"), "{left}");
    world.daemon.stop().await
}

#[tokio::test]
async fn workloads_are_scheduled_anew() -> anyhow::Result<()> {
    let Some(world) = World::start().await? else { return Ok(()) };
    let policy = "---\napiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: web}\nspec:\n  \
                  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]\n  placement:\n    \
                  replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}\n";
    world.verb("cordon member2", "").await?.success()?;
    world.verb("apply -f - -n shop", &format!("{SHOP}{policy}")).await?.success()?;
    until("member1 has all replicas", DEADLINE, async || {
        let placed = world.verb("get rb web-deployment -n shop -o wide", "").await?.success()?;
        ensure!(placed.contains("member1:4 ") && placed.contains("1/1 healthy"), "{placed}");
        Ok(())
    })
    .await?;
    world.verb("uncordon member2", "").await?.success()?;
    let dry = world.verb("rebalance deploy/web -n shop --dry-run=server", "").await?.success()?;
    ensure!(dry.contains("created (server dry run)") && dry.contains("deployment/web   member1:4"), "{dry}");
    ensure!(world.plane.run(["get", "workloadrebalancers", "-o", "name"]).await?.is_empty(), "nothing was made");
    // What would come to a cluster that is there again. Others are left out, as ClusterRole shopkeeper is.
    for line in
        ["rebalance --cluster member2 -A --dry-run", "rebalance deploy --all -n shop --cluster member2 --dry-run"]
    {
        let coming = world.verb(line, "").await?.success()?;
        let rows: Vec<&str> = coming.lines().skip(2).collect();
        ensure!(matches!(rows[..], [row] if row.starts_with("deployment/web   member1:4")), "{line}: {coming}");
    }
    let none = world.verb("rebalance --cluster member1 -A", "").await?;
    ensure!(none.code == Some(0) && none.stderr.contains("would come to member1"), "{none:?}");
    // The second of the last scheduling counts as later.
    let moved = world.verb("rebalance deploy -l app=web -n shop --cluster member2", "").await?.success()?;
    ensure!(moved.contains("workloadrebalancer.apps.karmada.io/rebalance-"), "{moved}");
    let row = moved.lines().last().unwrap_or_default();
    ensure!(row.starts_with("deployment/web   member1:4   member1:2,member2:2") && row.ends_with("moved"), "{moved}");
    let again = world.verb("rebalance deploy/web -n shop -o name", "").await?.success()?;
    let made = world.plane.run(["get", "workloadrebalancers", "-o", "name"]).await?;
    ensure!(made.lines().count() == 2 && made.contains(again.trim()), "{again} {made}");
    for (line, code, want) in [
        ("rebalance clusterrole/shopkeeper", 1, "it has no binding"),
        ("rebalance deploy/nope -n shop", 1, "deploy nope does not exist"),
        ("rebalance deploy -n shop", 2, "deploy without a name"),
        ("rebalance --cluster m9 -A", 1, "there is no cluster m9"),
        ("rebalance -A", 2, "--cluster"),
        ("rebalance deploy/web -l app=web", 2, "deploy has names"),
        ("rebalance rb/web-deployment -n shop", 2, "try: ironclad rebalance deployment/web -n shop"),
    ] {
        let refused = world.verb(line, "").await?;
        ensure!(refused.code == Some(code) && refused.stderr.contains(want), "{line}: {refused:?}");
    }
    are_restarted(&world).await?;
    is_karmadactl_by_name(&world).await?;
    world.daemon.stop().await
}

/// Under karmadactl's name scripts find what they read from its output (docs/decisions/0257).
async fn is_karmadactl_by_name(world: &World) -> anyhow::Result<()> {
    let link = world.data.join("karmadactl");
    std::os::unix::fs::symlink(binary()?, &link)?;
    let own = world.verb("get deploy web -n shop", "").await?.success()?;
    ensure!(!own.contains("CLUSTER"), "{own}");
    let theirs = world.verb_of(&link, "get deploy web -n shop", "").await?.success()?;
    let words = |line: usize| theirs.lines().nth(line).unwrap_or_default().split_whitespace().collect::<Vec<_>>();
    ensure!(words(0).starts_with(&["NAME", "CLUSTER"]) && words(1).starts_with(&["web", "Karmada"]), "{theirs}");
    let token = world.verb_of(&link, "token create", "").await?.success()?;
    let listed = world.verb_of(&link, "token list", "").await?.success()?;
    ensure!(listed.contains(token.trim()), "{listed}");
    let own = world.verb("token list", "").await?.success()?;
    ensure!(own.contains(&token[..6]) && !own.contains(token.trim()), "{own}");
    let (id, delete) = (&token[..6], format!("token delete {}", &token[..6]));
    ensure!(world.verb(&delete, "").await?.success()?.contains(&format!("bootstrap token {id:?} deleted")));
    let again = world.verb(&delete, "").await?;
    ensure!(again.stderr.contains(&format!("err: secrets \"bootstrap-token-{id}\" not found")), "{again:?}");
    let version = world.verb_of(&link, "version", "").await?.success()?;
    let fields = ["karmadactl version: ", "GitVersion:\"v", "GoVersion:", "Platform:"];
    ensure!(fields.iter().all(|field| version.contains(field)), "{version}");
    Ok(())
}

/// A restart changes the template, and so the copies in both members; what else there is to rollouts is kubectl's.
async fn are_restarted(world: &World) -> anyhow::Result<()> {
    const MARK: &str = "kubectl.kubernetes.io/restartedAt: ";
    let copies = async |names: &str| {
        let copies = world.verb(&format!("get deploy web -n shop -C {names} -o yaml"), "").await?.success()?;
        anyhow::Ok(copies.matches(MARK).count())
    };
    let dry = world.verb("rollout restart deploy/web -n shop --dry-run=server", "").await?.success()?;
    ensure!(dry == "deployment.apps/web restarted (server dry run) (member1:2, member2:2)\n", "{dry}");
    ensure!(!world.plane.run(["get", "deploy", "web", "-n", "shop", "-o", "yaml"]).await?.contains(MARK), "{dry}");
    world.verb("rollout restart deploy/web -n shop -C member1", "").await?.success()?;
    ensure!((copies("member1").await?, copies("member2").await?) == (1, 0), "one copy alone");
    let done = world.verb("rollout restart deploy/web -n shop -o name", "").await?.success()?;
    ensure!(done == "deployment.apps/web\n", "{done}");
    until("the copies of both members are restarted", DEADLINE, async || {
        ensure!(copies("member1,member2").await? == 2);
        Ok(())
    })
    .await?;
    let status = world.verb("rollout status deploy/web -n shop -C member1", "").await?.success()?;
    ensure!(status.contains("successfully rolled out"), "{status}");
    world.verb("rollout pause deploy/web -n shop", "").await?.success()?;
    for (line, code, want) in [
        ("rollout restart deploy/web -n shop", 1, "try: ironclad rollout resume deployment/web -n shop"),
        ("rollout restart rb/web-deployment -n shop", 2, "ResourceBinding web-deployment has no rollout"),
        ("rollout restart deploy/nope -n shop", 1, "deploy nope does not exist"),
        ("rollout restart deploy -n shop", 2, "deploy without a name"),
        ("rollout restart deploy/web -C member1 --dry-run", 2, "without -C"),
    ] {
        let refused = world.verb(line, "").await?;
        ensure!(refused.code == Some(code) && refused.stderr.contains(want), "{line}: {refused:?}");
    }
    world.verb("rollout resume deploy/web -n shop", "").await?.success().map(drop)
}

#[tokio::test]
async fn links_with_karmadactls_names_help_under_these_names() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    for (file, called) in
        [("kubectl-karmada", "kubectl karmada"), ("kubectl-ironclad", "kubectl ironclad"), ("karmadactl", "karmadactl")]
    {
        let link = dir.path().join(file);
        std::os::unix::fs::symlink(binary()?, &link)?;
        let run = async |words: &[&str]| {
            let output = Command::new(&link).args(words).env("KUBECONFIG", dir.path().join("none")).output().await?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            anyhow::Ok((output.status.code(), text(&output.stdout), text(&output.stderr)))
        };
        let (code, help, _) = run(&["get", "-h"]).await?;
        ensure!(code == Some(0) && help.contains(&format!("Usage: {called} get ")), "{help}");
        ensure!(
            help.contains(&format!("  {called} get clusters -o wide")) && !help.contains("  ironclad get"),
            "{help}"
        );
        let (code, _, error) = run(&["get", "evictions/web"]).await?;
        ensure!(code == Some(2) && error.contains(&format!("try: {called} why evicted web")), "{error}");
    }
    Ok(())
}
