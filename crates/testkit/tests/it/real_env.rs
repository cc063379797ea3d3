//! The real-Kubernetes environment itself: pods run in a member, none in the plane, and everything is cleaned up.

use std::{
    env,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use ironclad_testkit::real::{Binaries, Cluster, Config, RealEnv, until};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, api::ListParams};

const DEADLINE: Duration = Duration::from_secs(120);

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: registry.example/web:1
        resources: {requests: {cpu: 100m, memory: 64Mi}}
"#;

#[tokio::test]
async fn a_deployment_runs_in_a_member_and_not_in_the_plane() -> anyhow::Result<()> {
    let Some(env) = RealEnv::start_or_skip(Config { members: 1, ..Config::default() }).await? else { return Ok(()) };

    env.plane().kubectl().apply(WEB).await?;
    env.member(0).kubectl().apply(WEB).await?;

    let client = env.member(0).client().await?;
    until("the member reports three ready replicas", DEADLINE, async || {
        let web = Api::<Deployment>::namespaced(client.clone(), "default").get("web").await?;
        let ready = web.status.and_then(|status| status.ready_replicas);
        ensure!(ready == Some(3), "readyReplicas is {ready:?}");
        Ok(())
    })
    .await?;
    let pods = Api::<Pod>::namespaced(client.clone(), "default").list(&ListParams::default()).await?.items;
    let phases: Vec<_> = pods.iter().map(|pod| pod.status.as_ref().and_then(|s| s.phase.as_deref())).collect();
    assert_eq!(phases, [Some("Running"); 3]);

    // A stock kube-controller-manager would have created pods in the plane by now.
    assert_eq!(pod_count(env.plane()).await?, 0, "the plane holds templates, it doesn't start them");

    env.member(0).kubectl().run(["delete", "deployment", "web", "--wait=false"]).await?;
    until("the pods are deleted with their Deployment", DEADLINE, async || {
        let left = pod_count(env.member(0)).await?;
        ensure!(left == 0, "{left} are left");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_job_succeeds_in_a_member() -> anyhow::Result<()> {
    let config = Config { plane: false, members: 1, ..Config::default() };
    let Some(env) = RealEnv::start_or_skip(config).await? else { return Ok(()) };
    let kubectl = env.member(0).kubectl();
    kubectl.run(["create", "job", "once", "--image=registry.example/once:1"]).await?;
    until("the job is complete", DEADLINE, async || {
        let succeeded = kubectl.run(["get", "job", "once", "-o", "jsonpath={.status.succeeded}"]).await?;
        ensure!(succeeded == "1", "succeeded is {succeeded:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_restarted_server_has_its_data() -> anyhow::Result<()> {
    let config = Config { plane: true, members: 0, ..Config::default() };
    let Some(env) = RealEnv::start_or_skip(config).await? else { return Ok(()) };
    let plane = env.plane();
    plane.kubectl().run(["create", "namespace", "shop"]).await?;

    plane.stop_api_server();
    let refused = plane.kubectl().output(["get", "namespace", "shop"], "").await?;
    assert_eq!(refused.code, Some(1), "nobody answers: {refused:?}");
    assert!(refused.stderr.contains("refused"), "{}", refused.stderr);

    plane.start_api_server().await?;
    plane.kubectl().run(["get", "namespace", "shop"]).await?;
    Ok(())
}

#[tokio::test]
async fn a_dropped_environment_leaves_nothing_behind() -> anyhow::Result<()> {
    let config = Config { plane: true, members: 1, ..Config::default() };
    let Some(mut env) = RealEnv::start_or_skip(config).await? else { return Ok(()) };
    let directory = env.directory();
    env.start_program("another", Path::new("sleep"), ["600"], &directory)?;
    let processes = env.processes();
    let names: Vec<&str> = processes.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "etcd",
            "plane/kube-apiserver",
            "plane/kube-controller-manager",
            "member1/kube-apiserver",
            "member1/kube-controller-manager",
            "member1/kube-scheduler",
            "member1/kwok",
            "another",
        ]
    );
    for (name, id) in &processes {
        ensure!(is_running(*id), "{name} is not running as process {id}");
    }
    drop(env);
    for (name, id) in &processes {
        ensure!(!is_running(*id), "{name} still runs as process {id}");
    }
    ensure!(!directory.exists(), "{} is still there", directory.display());
    Ok(())
}

#[tokio::test]
async fn a_killed_test_leaves_nothing_behind() -> anyhow::Result<()> {
    if Binaries::find_or_skip()?.is_none() {
        return Ok(());
    }
    let mut victim = Command::new(env::current_exe()?)
        .args(["--exact", "real_env::process_that_is_killed_by_another_test", "--ignored", "--nocapture"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(victim.stdout.take().context("a pipe")?).lines();
    let mut processes: Vec<u32> = Vec::new();
    let directory = loop {
        let line = lines.next().context("the victim ended too early")??;
        if let Some(id) = line.strip_prefix("process ") {
            processes.push(id.parse()?);
        } else if let Some(directory) = line.strip_prefix("directory ") {
            break PathBuf::from(directory);
        }
    };
    assert_eq!(processes.len(), 3, "etcd, kube-apiserver, kube-controller-manager");
    ensure!(directory.exists() && processes.iter().all(|id| is_running(*id)), "the victim's environment is up");

    victim.kill()?;
    victim.wait()?;
    until("nothing is left of the victim's environment", DEADLINE, async || {
        for id in &processes {
            ensure!(!is_running(*id), "process {id} still runs");
        }
        ensure!(!directory.exists(), "{} is still there", directory.display());
        Ok(())
    })
    .await
}

#[tokio::test]
#[ignore = "the part of a_killed_test_leaves_nothing_behind that is killed: it waits for that"]
async fn process_that_is_killed_by_another_test() -> anyhow::Result<()> {
    let env = RealEnv::start(Config { plane: true, members: 0, ..Config::default() }).await?;
    println!();
    for (_, id) in env.processes() {
        println!("process {id}");
    }
    println!("directory {}", env.directory().display());
    // A deadline for manual runs of the ignored tests.
    tokio::time::timeout(DEADLINE, std::future::pending()).await?
}

async fn pod_count(cluster: &Cluster) -> anyhow::Result<usize> {
    let pods: Api<Pod> = Api::all(cluster.client().await?);
    Ok(pods.list(&ListParams::default()).await.context("pods")?.items.len())
}

fn is_running(id: u32) -> bool {
    Path::new("/proc").join(id.to_string()).exists()
}
