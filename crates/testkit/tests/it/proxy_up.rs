//! The proxy to members, as users meet it: kubectl over contexts of `ironclad kubeconfig`, and our verbs.

use std::{path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_testkit::{
    binary::{Daemon, binary, free_port, ironclad},
    real::{Binaries, Config, Kubectl, RealEnv, until},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    process::Command,
};

use crate::propagation_up::kubectl;

const DEADLINE: Duration = Duration::from_secs(60);

const WORKLOAD: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, ports: [{containerPort: 8080}], env: [{name: COLOUR, value: blue}]}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [member1]}}
"#;

const RIGHTS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: member1}
rules:
- {apiGroups: [cluster.karmada.io], resources: [clusters/proxy], resourceNames: [member1], verbs: ["*"]}
- {apiGroups: [cluster.karmada.io], resources: [clusters], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: member1}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: member1}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
"#;

struct World {
    daemon: Daemon,
    dir: tempfile::TempDir,
    binaries: Binaries,
    plane: Kubectl,
    kubeconfig: PathBuf,
}

impl World {
    /// `up` with two members, and a kubeconfig of `ironclad kubeconfig`; `None` where there is no kubectl.
    async fn start() -> anyhow::Result<Option<Self>> {
        let Some(binaries) = Binaries::find_or_skip()? else { return Ok(None) };
        let dir = tempfile::tempdir()?;
        let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
        let path = data.display().to_string();
        let arguments =
            ["up", "--data-dir", &path, "--listen", &listen, "--clusters", "2", "--metrics-bind-address", "0"];
        let daemon = Daemon::start(arguments).await?;
        let plane = kubectl(&binaries, &data, "ironclad", dir.path())?;
        let kubeconfig = data.join("kubeconfig");
        let plane_kubeconfig = kubeconfig.display().to_string();
        let printed = ironclad(["kubeconfig", "--kubeconfig", &plane_kubeconfig]).await?.success()?;
        let members = dir.path().join("members.kubeconfig");
        std::fs::write(&members, printed)?;
        Ok(Some(Self { daemon, dir, binaries, plane, kubeconfig: members }))
    }

    fn member(&self, name: &str) -> anyhow::Result<Kubectl> {
        let all = std::fs::read_to_string(&self.kubeconfig)?;
        let file = self.dir.path().join(format!("{name}.proxied"));
        let line = |line: &str| {
            if line.starts_with("current-context:") { format!("current-context: {name}") } else { line.to_owned() }
        };
        std::fs::write(&file, all.lines().map(line).collect::<Vec<_>>().join("\n"))?;
        Ok(Kubectl::new(&self.binaries, &file, self.dir.path()))
    }

    /// Runs a verb of ours, which finds kubectl on PATH; answers its code and output.
    async fn verb(&self, arguments: &[&str]) -> anyhow::Result<(Option<i32>, String, String)> {
        let kubectl = self.binaries.program("kubectl");
        let mut command = Command::new(binary()?);
        command.args(arguments).env("PATH", kubectl.parent().context("kubectl is in a folder")?);
        command.env("KUBECONFIG", self.dir.path().join("data/kubeconfig")).stdin(Stdio::null());
        let output = command.output().await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.code(), text(&output.stdout), text(&output.stderr)))
    }

    /// Forwards ports of member1's Pod with kubectl, and talks to them.
    async fn ports_are_forwarded(&self, pod: &str, websocket: &str) -> anyhow::Result<()> {
        let mut command = Command::new(self.binaries.program("kubectl"));
        command.arg("--kubeconfig").arg(self.dir.path().join("member1.proxied")).env("HOME", self.dir.path());
        command.args(["port-forward", pod, ":8080", ":81"]).env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websocket);
        let mut kubectl = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let mut lines = BufReader::new(kubectl.stdout.take().context("stdout is a pipe")?).lines();
        let mut addresses = Vec::new();
        while addresses.len() < 2 {
            let line = tokio::time::timeout(DEADLINE, lines.next_line()).await.context("kubectl says nothing")??;
            let line = line.context("kubectl ended before it forwarded")?;
            // As `Forwarding from 127.0.0.1:41234 -> 8080`; it tells of [::1] too.
            let from = line.strip_prefix("Forwarding from ").and_then(|rest| rest.split(' ').next());
            addresses.extend(from.filter(|from| from.starts_with("127.")).map(str::to_owned));
        }
        let talk = async |address: &str, sent: Vec<u8>| {
            let (mut read, mut write) = TcpStream::connect(address).await?.into_split();
            let mut answer = Vec::new();
            let (written, got) = tokio::join!(
                async {
                    write.write_all(&sent).await?;
                    write.shutdown().await
                },
                read.read_to_end(&mut answer)
            );
            written.and(got.map(|_| answer))
        };
        let page = talk(&addresses[0], b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()).await?;
        let page = String::from_utf8(page)?;
        ensure!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains(&format!("pod default/{pod} on")), "{page}");
        let long = b"as it is\n".repeat(30_000);
        ensure!(talk(&addresses[0], long.clone()).await? == long, "a long text comes back");
        // kubectl ends after a port that nothing listens on: it lost the connection to the Pod, it says.
        let refused = talk(&addresses[1], b"x".to_vec()).await.unwrap_or_default();
        ensure!(refused.is_empty(), "{refused:?}");
        Ok(())
    }

    /// Waits for the Pod of the workload in member1.
    async fn pod(&self, member: &Kubectl) -> anyhow::Result<String> {
        until("the pod runs", DEADLINE, async || {
            let phase = ["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.phase}"];
            let phase = member.run(phase).await?;
            ensure!(phase == "Running", "{phase}");
            member.run(["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}"]).await
        })
        .await
    }
}

#[tokio::test]
async fn kubectl_reaches_members_through_the_control_plane() -> anyhow::Result<()> {
    let Some(world) = World::start().await? else { return Ok(()) };
    let member = world.member("member1")?;
    until("the administrator is let in", DEADLINE, async || member.run(["get", "nodes"]).await).await?;
    world.plane.apply(WORKLOAD).await?;
    let pod = world.pod(&member).await?;
    let log = member.run(["logs", &pod]).await?;
    ensure!(log.contains("simulated container of image i"), "{log}");
    // Upgrades.
    ensure!(member.run(["exec", &pod, "--", "hostname"]).await?.trim() == pod);
    ensure!(member.run(["exec", &pod, "--", "env"]).await?.trim() == "COLOUR=blue");
    let failed = member.output(["exec", &pod, "--", "sh", "-c", "exit 7"], "").await?;
    ensure!(failed.code == Some(7), "{failed:?}");
    let typed = member.output(["exec", "-i", &pod, "--", "sh"], "echo a\nhostname\nexit 3\n").await?;
    ensure!((typed.code, typed.stdout.as_str()) == (Some(3), format!("a\n{pod}\n").as_str()), "{typed:?}");
    let copied = member.output(["exec", "-i", &pod, "--", "cat"], "as it is").await?;
    ensure!(copied.stdout == "as it is", "{copied:?}");
    // Over WebSocket, as kubectl does, and over SPDY alone, as older clients do.
    world.ports_are_forwarded(&pod, "true").await?;
    world.ports_are_forwarded(&pod, "false").await?;
    // A watch streams.
    drop(member.start(["get", "pods", "--watch"]).await?);
    // All clusters at once.
    let raw = "/apis/cluster.karmada.io/v1alpha1/clusters/*/proxy/api/v1/nodes";
    let nodes = world.plane.run(["get", "--raw", raw]).await?;
    let nodes: serde_json::Value = serde_json::from_str(&nodes)?;
    let origins: std::collections::BTreeSet<_> = nodes["items"]
        .as_array()
        .context("items")?
        .iter()
        .filter_map(|node| node["metadata"]["annotations"]["resource.karmada.io/cached-from-cluster"].as_str())
        .collect();
    ensure!(origins == ["member1", "member2"].into(), "{origins:?}");
    // Our verbs.
    let (code, out, err) = world.verb(&["exec", &pod, "-C", "member1", "--", "hostname"]).await?;
    ensure!((code, out.trim()) == (Some(0), pod.as_str()), "{out} {err}");
    let (code, _, err) = world.verb(&["exec", &pod, "-C", "member1", "--", "false"]).await?;
    ensure!(code == Some(1), "{err}");
    let (code, out, err) = world.verb(&["describe", "pod", &pod, "-C", "member1"]).await?;
    ensure!(code == Some(0) && out.contains("COLOUR:  blue"), "{out} {err}");
    let (code, out, err) = world.verb(&["api-versions", "--operation-scope", "members"]).await?;
    ensure!(code == Some(0) && out.matches("apps/v1\n").count() == 2, "{out} {err}");
    ensure!(err.contains("cluster member1:") && err.contains("cluster member2:"), "{err}");
    world.daemon.stop().await
}

#[tokio::test]
async fn members_see_who_asks_and_the_control_plane_says_who_may() -> anyhow::Result<()> {
    let Some(world) = World::start().await? else { return Ok(()) };
    world.plane.apply(RIGHTS).await?;
    let (first, second) = (world.member("member1")?, world.member("member2")?);
    let asked = ["get", "pods", "--as", "jane", "--as-group", "devs"];
    until("jane is let through to the member", DEADLINE, async || {
        let answer = first.output(asked, "").await?;
        ensure!(answer.stderr.contains("User \"jane\" cannot list resource \"pods\""), "{answer:?}");
        ensure!(answer.stderr.contains("groups devs were not passed on to member1"), "{answer:?}");
        Ok(())
    })
    .await?;
    // kubectl hides the message of a discovery that is refused.
    let raw = ["get", "--raw", "/api/v1/pods", "--as", "jane"];
    let refused = second.output(raw, "").await?;
    ensure!(refused.stderr.contains("clusters.cluster.karmada.io \"member2\" is forbidden"), "{refused:?}");
    let direct = kubectl(&world.binaries, &world.dir.path().join("data"), "member1", world.dir.path())?;
    direct.run(["create", "clusterrolebinding", "jane", "--clusterrole", "view", "--user", "jane"]).await?;
    first.run(asked).await?;
    let who = first.run(["auth", "whoami", "--as", "jane", "-o", "jsonpath={.status.userInfo.username}"]).await?;
    ensure!(who == "jane", "{who}");
    // She has a right of her own in member2, and none to its proxy: the way can be chosen.
    let second = kubectl(&world.binaries, &world.dir.path().join("data"), "member2", world.dir.path())?;
    second.run(["create", "clusterrolebinding", "jane", "--clusterrole", "view", "--user", "jane"]).await?;
    for (way, code, want) in [
        (None, Some(0), ""),
        (Some("--via=direct"), Some(0), ""),
        (Some("--via=proxy"), Some(1), "clusters.cluster.karmada.io \"member2\" is forbidden"),
    ] {
        let line = ["get", "pods", "-A", "-C", "member2", "--as", "jane"];
        let (got, out, err) = world.verb(&line.into_iter().chain(way).collect::<Vec<_>>()).await?;
        ensure!(got == code && err.contains(want), "{way:?}: {out} {err}");
    }
    // Rights that are taken away end with the next request.
    world.plane.run(["delete", "clusterrolebinding", "member1"]).await?;
    let refused = first.output(raw, "").await?;
    ensure!(refused.stderr.contains("clusters.cluster.karmada.io \"member1\" is forbidden"), "{refused:?}");
    world.daemon.stop().await
}

#[tokio::test]
async fn run_serves_the_proxy_on_a_listener_of_its_own() -> anyhow::Result<()> {
    let Some(env) = RealEnv::start_or_skip(Config { members: 1, ..Config::default() }).await? else { return Ok(()) };
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let plane = env.plane().kubeconfig().display().to_string();
    ironclad(["crds", "--install", "--kubeconfig", &plane]).await?.success()?;
    let account = env.account().await?;
    let daemon = Daemon::start([
        "run", "--kubeconfig", &account, "--metrics-bind-address", "0", "--proxy-bind-address", "127.0.0.1:0",
    ])
    .await?;
    let member = &env.members()[0];
    let credentials = member.kubeconfig().display().to_string();
    ironclad(["join", "member1", "--kubeconfig", &plane, "--cluster-kubeconfig", &credentials]).await?.success()?;
    let rights = RIGHTS.replace("name: jane}", "name: jane}, {kind: ServiceAccount, namespace: default, name: bot}");
    env.plane().kubectl().apply(&rights).await?;
    let view = ["create", "clusterrolebinding", "view", "--clusterrole", "view", "--user", "jane"];
    member.kubectl().run(view).await?;
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("members.kubeconfig");
    std::fs::write(&file, ironclad(["kubeconfig", "--kubeconfig", &plane]).await?.success()?)?;
    let proxied = Kubectl::new(&binaries, &file, dir.path());
    let asked = ["get", "pods", "-A", "--as", "jane"];
    until("jane is let through to the member", DEADLINE, async || proxied.run(asked).await).await?;
    let who = ["auth", "whoami", "--as", "jane", "-o", "jsonpath={.status.userInfo.username}"];
    ensure!(proxied.run(who).await? == "jane");
    // A watch streams.
    drop(proxied.start(["get", "pods", "-A", "--as", "jane", "--watch"]).await?);
    let refused = proxied.output(["get", "pods", "-A", "--as", "joe"], "").await?;
    ensure!(refused.stderr.contains("clusters.cluster.karmada.io \"member1\" is forbidden"), "{refused:?}");
    // By a token of the control plane, whose user may not speak for others.
    env.plane().kubectl().run(["create", "serviceaccount", "bot"]).await?;
    let token = env.plane().kubectl().run(["create", "token", "bot"]).await?;
    let token = token.trim();
    let of_bot = dir.path().join("bot.kubeconfig");
    let printed = ironclad(["kubeconfig", "member1", "--kubeconfig", &plane, "--token", token]).await?.success()?;
    std::fs::write(&of_bot, printed)?;
    let bot = Kubectl::new(&binaries, &of_bot, dir.path());
    let who = bot.output(["auth", "whoami"], "").await?;
    ensure!(who.stdout.contains("system:serviceaccount:default:bot"), "{who:?}");
    let spoofed = bot.output(["get", "pods", "--as", "jane"], "").await?;
    ensure!(spoofed.stderr.contains("cannot impersonate resource \"users\""), "{spoofed:?}");
    daemon.stop_unrefused().await
}
