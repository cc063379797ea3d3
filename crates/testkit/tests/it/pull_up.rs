//! A member in pull mode, from the token to the proxy: with `up`, and with `run` on real kube-apiservers.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use ironclad_runtime::carry_both;
use ironclad_seam::Seam;
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::{Binaries, Config, Kubectl, NodeShape, RealEnv, until},
};
use kube::config::Kubeconfig;
use tokio::net::{TcpListener, TcpStream};

use crate::propagation_up::kubectl;

const DEADLINE: Duration = Duration::from_secs(90);

/// It is renewed each second.
const LEASE: &str = "--cluster-lease-duration=4s";

const WORKLOAD: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [edge]}}
"#;

/// Rights of users in the member, as its administrator gives them.
const ADMINISTRATORS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: fleet-administrators}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: USER}]
"#;

/// A user with the rights of `samples/agent-role.yaml`, and what these do not allow.
const NARROWED: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: karmada-agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: karmada-agent}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: narrowed}]
"#;
const SECRET: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: credentials, namespace: default}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: credentials, namespace: default}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Secret, name: credentials}]
  placement: {clusterAffinity: {clusterNames: [edge]}}
"#;

/// A kubeconfig of the member for an agent with no more rights than it needs.
async fn narrowed(member: &Kubectl, administrators: &Path) -> anyhow::Result<PathBuf> {
    member.apply(include_str!("../../../../samples/agent-role.yaml")).await?;
    member.apply(NARROWED).await?;
    let mut kubeconfig = Kubeconfig::read_from(administrators)?;
    for user in &mut kubeconfig.auth_infos {
        user.auth_info.get_or_insert_default().impersonate = Some("narrowed".to_owned());
    }
    let path = administrators.with_file_name("narrowed.kubeconfig");
    std::fs::write(&path, serde_json::to_string(&kubeconfig)?)?;
    Ok(path)
}

/// Starts the agent of cluster edge with the line that `token create` prints.
async fn agent(plane: &str, member: &Path, own: &Path) -> anyhow::Result<Daemon> {
    let create = ["token", "create", "--print-register-command", "--cluster-name", "edge", "--kubeconfig", plane];
    let line = ironclad(create).await?.success()?;
    let words: Vec<&str> = line.split_whitespace().skip_while(|word| *word != "register").collect();
    let (address, flags) = words.get(1..).and_then(<[&str]>::split_first).context("the line has an address")?;
    let (member, own) = (member.display().to_string(), own.display().to_string());
    let mut arguments = vec!["agent", "--metrics-bind-address=0", LEASE, "--cluster-kubeconfig", &member];
    arguments.extend(["--karmada-kubeconfig", &own, "--register", address]);
    arguments.extend(flags);
    Daemon::start(arguments).await
}

async fn until_ready(plane: &Kubectl, want: &str) -> anyhow::Result<()> {
    until(&format!("edge is {want}"), DEADLINE, async || {
        let path = "jsonpath={.spec.syncMode} {.status.conditions[?(@.type==\"Ready\")].status}";
        let got = plane.run(["get", "cluster", "edge", "-o", path]).await?;
        ensure!(got == format!("Pull {want}"), "{got}");
        Ok(())
    })
    .await
}

/// Waits for a status of a condition of the Cluster; the empty one is that of a condition that is not there.
async fn until_condition(plane: &Kubectl, type_: &str, want: &str) -> anyhow::Result<()> {
    until(&format!("{type_} is {want:?}"), DEADLINE, async || {
        let path = format!("jsonpath={{.status.conditions[?(@.type==\"{type_}\")].status}}");
        let got = plane.run(["get", "cluster", "edge", "-o", &path]).await?;
        ensure!(got == want, "{got}");
        Ok(())
    })
    .await
}

/// Applies the workload, and waits until its status came back.
async fn propagated(plane: &Kubectl) -> anyhow::Result<()> {
    plane.apply(WORKLOAD).await?;
    until("the status of the template", DEADLINE, async || {
        let ready = plane.run(["get", "deploy/web", "-o", "jsonpath={.status.readyReplicas}"]).await?;
        ensure!(ready == "2", "readyReplicas {ready:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_member_is_registered_and_reached_through_its_agent() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let start = async |name: &str, clusters: &str| {
        let (data, listen) = (dir.path().join(name).display().to_string(), format!("127.0.0.1:{}", free_port()?));
        let flags = ["--data-dir", &data, "--listen", &listen, "--clusters", clusters, "--metrics-bind-address", "0"];
        let times = ["--cluster-monitor-grace-period=6s", "--cluster-monitor-period=1s"];
        // The one that has the member leaves the rights of its users to the other.
        let controllers = if clusters == "0" { "*" } else { "*,-unifiedAuth" };
        Daemon::start([&["up", "--controllers", controllers][..], &flags, &times].concat()).await
    };
    // The second one has the member, which the first could not reach.
    let (up, beside) = (start("plane", "0").await?, start("beside", "1").await?);
    let plane = kubectl(&binaries, &dir.path().join("plane"), "ironclad", dir.path())?;
    let member = kubectl(&binaries, &dir.path().join("beside"), "member1", dir.path())?;
    let of_plane = dir.path().join("plane/kubeconfig").display().to_string();
    let (of_member, own) = (dir.path().join("member1.kubeconfig"), dir.path().join("agent.kubeconfig"));
    let first = agent(&of_plane, &of_member, &own).await?;
    until_ready(&plane, "True").await?;
    until_condition(&plane, "TunnelConnected", "True").await?;
    propagated(&plane).await?;
    let uid = member.run(["get", "deploy/web", "-o", "jsonpath={.metadata.uid}"]).await?;

    // Its account of capacity is that of its nodes, over the tunnel.
    until("why asks the nodes", DEADLINE, async || {
        let why = ironclad(["why", "deploy/web", "--kubeconfig", &of_plane]).await?.success()?;
        ensure!(why.contains("edge:2"), "{why}");
        Ok(())
    })
    .await?;
    // Users go as themselves: the member knows this one as an administrator by the group, and Jane not at all.
    let proxied = dir.path().join("edge.kubeconfig");
    std::fs::write(&proxied, ironclad(["kubeconfig", "edge", "--kubeconfig", &of_plane]).await?.success()?)?;
    let proxied = Kubectl::new(&binaries, &proxied, dir.path());
    until("the member lets the user in", DEADLINE, async || proxied.run(["get", "pods"]).await).await?;
    plane.apply(&PROXY_ADMINISTRATORS.replace("USER", "jane")).await?;
    until("the member decides about Jane", DEADLINE, async || {
        let refused = proxied.run(["get", "--raw", "/api/v1/nodes", "--as", "jane"]).await.err().context("let in")?;
        ensure!(format!("{refused:#}").contains("User \"jane\" cannot list resource \"nodes\""), "{refused:#}");
        Ok(())
    })
    .await?;
    let pod = proxied.run(["get", "pods", "-o", "jsonpath={.items[0].metadata.name}"]).await?;
    ensure!(proxied.run(["logs", &pod]).await?.contains("simulated container"), "logs go over the tunnel");
    let echoed = proxied.run(["exec", &pod, "--", "echo", "through two hops"]).await?;
    ensure!(echoed.trim() == "through two hops", "{echoed}");

    // The agent is killed: the cluster becomes Unknown, and nothing happens to what runs.
    first.kill().await?;
    until_ready(&plane, "Unknown").await?;
    until_condition(&plane, "TunnelConnected", "Unknown").await?;
    let gone = proxied.run(["get", "pods"]).await.err().context("nobody is there to ask")?;
    ensure!(format!("{gone:#}").contains("pull member without a tunnel"), "{gone:#}");
    plane.run(["scale", "deploy/web", "--replicas=3"]).await?;
    // It has its certificate, and needs no token any more.
    let narrowed = narrowed(&member, &of_member).await?.display().to_string();
    let (of_member, own) = (of_member.display().to_string(), own.display().to_string());
    let flags = ["--cluster-kubeconfig", &narrowed, "--karmada-kubeconfig", &own, "--metrics-bind-address=0"];
    let allowed = ["agent", LEASE, "--cluster-name", "edge", "--tunnel-allow=api,logs"];
    let second = Daemon::start([&allowed[..], &flags].concat()).await?;
    until_ready(&plane, "True").await?;
    until("what it missed is applied", DEADLINE, async || {
        let path = "jsonpath={.metadata.uid} {.spec.replicas}";
        let got = member.run(["get", "deploy/web", "-o", path]).await?;
        ensure!(got == format!("{uid} 3"), "{got}");
        Ok(())
    })
    .await?;
    until("users go as themselves", DEADLINE, async || proxied.run(["logs", &pod]).await).await?;
    let proxy = format!("/api/v1/namespaces/default/pods/{pod}/proxy/");
    let refused = proxied.run(["get", "--raw", &proxy]).await.err().context("the agent passes nothing on to Pods")?;
    ensure!(format!("{refused:#}").contains("does not pass on requests for exec"), "{refused:#}");
    plane.apply(SECRET).await?;
    until("what the agent may not write is told", DEADLINE, async || {
        let path = "jsonpath={.items[*].status.conditions[?(@.type==\"Applied\")].message}";
        let told = plane.run(["get", "works", "-n", "karmada-es-edge", "-o", path]).await?;
        ensure!(told.contains(r#"User "narrowed" cannot"#) && told.contains(r#"resource "secrets""#), "{told}");
        Ok(())
    })
    .await?;
    plane.run(["delete", "secret/credentials"]).await?;
    // Nobody else becomes the agent of this name while it lives.
    let other = dir.path().join("other.kubeconfig");
    let taken = agent(&of_plane, Path::new(&of_member), &other);
    let taken = tokio::time::timeout(Duration::from_secs(10), taken).await;
    ensure!(!matches!(taken, Ok(Ok(_))), "a second certificate was approved");
    // With its certificate it reads and writes nothing of others.
    let as_agent = Kubectl::new(&binaries, Path::new(&own), dir.path());
    for words in [
        &["get", "secrets", "-n", "kube-system"][..],
        &["get", "works", "-n", "karmada-es-other"],
        &["create", "namespace", "x"],
        &["get", "namespace", "default"],
    ] {
        let refused = as_agent.run(words.iter().copied()).await.err().context("an agent may not do that")?;
        ensure!(format!("{refused:#}").contains("forbidden"), "{words:?}: {refused:#}");
    }
    // The control plane takes the member over, and gives it back to the agent: the copy stays.
    let pods = async || member.run(["get", "pods", "-o", "jsonpath={.items[*].metadata.uid}"]).await;
    let before = pods().await?;
    let scaled = async |mode: &str, replicas: &str| {
        plane.run(["scale", "deploy/web", "--replicas", replicas]).await?;
        until(&format!("the member is served in mode {mode}"), DEADLINE, async || {
            let path = "jsonpath={.metadata.uid} {.spec.replicas}";
            let got = member.run(["get", "deploy/web", "-o", path]).await?;
            ensure!(got == format!("{uid} {replicas}"), "{got}");
            Ok(())
        })
        .await
    };
    let joined = ["join", "edge", "--kubeconfig", &of_plane, "--cluster-kubeconfig", &of_member];
    let refused = ironclad(joined).await?;
    ensure!(refused.stderr.contains("it is in pull mode: its agent serves it"), "{refused:?}");
    plane.run(["patch", "cluster", "edge", "--type=merge", "-p", r#"{"spec":{"syncMode":"Push"}}"#]).await?;
    ironclad(joined).await?.success()?;
    scaled("Push", "4").await?;
    until_condition(&plane, "Ready", "True").await?;
    until_condition(&plane, "TunnelConnected", "").await?;
    plane.run(["patch", "cluster", "edge", "--type=merge", "-p", r#"{"spec":{"syncMode":"Pull"}}"#]).await?;
    scaled("Pull", "5").await?;
    until_condition(&plane, "TunnelConnected", "True").await?;
    let after = pods().await?;
    ensure!(before.split(' ').all(|uid| after.contains(uid)), "pods restarted: {before}, then {after}");
    second.stop().await?;
    beside.stop().await?;
    up.stop().await
}

#[tokio::test]
async fn agents_serve_members_of_a_real_kube_apiserver() -> anyhow::Result<()> {
    let nodes = NodeShape { count: 1, ..NodeShape::default() };
    let Some(env) = RealEnv::start_or_skip(Config { members: 1, nodes, ..Config::default() }).await? else {
        return Ok(());
    };
    let of_plane = env.plane().kubeconfig().display().to_string();
    ironclad(["crds", "--install", "--kubeconfig", &of_plane]).await?.success()?;
    // Both have the address of whoever balances between them.
    let listeners = [format!("127.0.0.1:{}", free_port()?), format!("127.0.0.1:{}", free_port()?)];
    let seam = Seam::system("test");
    let front = balance(&seam, listeners.clone()).await?;
    let account = env.account().await?;
    let run = async |listener: &str, until: &str| {
        let (listener, front) = (format!("--proxy-bind-address={listener}"), format!("--proxy-url=https://{front}"));
        let line = ["run", "--kubeconfig", &account, "--metrics-bind-address=0", &listener, &front];
        Ok::<_, anyhow::Error>(Daemon::start_until(line, until).await?.0)
    };
    let leader = run(&listeners[0], "ready").await?;
    let other = run(&listeners[1], "proxy to members").await?;
    let dir = tempfile::tempdir()?;
    let (plane, member) = (env.plane().kubectl(), env.member(0).kubectl());
    let own = dir.path().join("agent.kubeconfig");
    let serving = agent(&of_plane, &env.member(0).kubeconfig(), &own).await?;
    until_ready(plane, "True").await?;
    propagated(plane).await?;
    let pods = member.run(["get", "pods", "-o", "jsonpath={.items[*].metadata.name}"]).await?;
    ensure!(pods.split(' ').count() == 2, "{pods}");
    // Over the tunnel, which ends at the listener of the proxy.
    let me = plane.run(["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]).await?;
    let proxied = dir.path().join("edge.kubeconfig");
    let balanced = ironclad(["kubeconfig", "edge", "--kubeconfig", &of_plane]).await?.success()?;
    ensure!(balanced.contains(&front.to_string()), "{balanced}");
    member.apply(&ADMINISTRATORS.replace("USER", &me)).await?;
    plane.apply(&PROXY_ADMINISTRATORS.replace("USER", &me)).await?;
    let answers = async |listener: &str| {
        std::fs::write(&proxied, balanced.replace(&front.to_string(), listener))?;
        let proxied = env.kubectl(&proxied);
        until(&format!("the member answers over its tunnel to {listener}"), DEADLINE, async || {
            // kubectl hides the message of a discovery that is refused.
            proxied.run(["get", "--raw", "/api"]).await?;
            let got = proxied.run(["get", "pods", "-o", "jsonpath={.items[*].metadata.name}"]).await?;
            ensure!(got == pods, "{got}");
            Ok(())
        })
        .await
    };
    for listener in &listeners {
        answers(listener).await?;
    }
    // A replica that comes back gets its tunnel again.
    other.stop_unrefused().await?;
    let other = run(&listeners[1], "proxy to members").await?;
    answers(&listeners[1]).await?;
    answers(&listeners[0]).await?;
    serving.stop().await?;
    other.stop_unrefused().await?;
    leader.stop_unrefused().await?;
    seam.tasks.kill();
    Ok(())
}

/// Connections to the address that is returned go to these in turn; one that nobody accepts is closed.
async fn balance(seam: &Seam, listeners: [String; 2]) -> anyhow::Result<SocketAddr> {
    let front = TcpListener::bind("127.0.0.1:0").await?;
    let address = front.local_addr()?;
    let tasks = seam.tasks.clone();
    seam.tasks.spawn("balancer", async move {
        for to in listeners.iter().cycle() {
            let Ok((near, _)) = front.accept().await else { return };
            let to = to.clone();
            tasks.spawn("balanced", async move {
                let Ok(far) = TcpStream::connect(to).await else { return };
                carry_both(near, far).await;
            });
        }
    });
    Ok(address)
}

/// The user is mirrored into members.
const PROXY_ADMINISTRATORS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: fleet-proxy-administrators}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-proxy-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: USER}]
"#;
