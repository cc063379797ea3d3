//! Propagation through `ironclad up` and kubectl, its demo, and its messages about bad input.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::{Binaries, Kubectl, until},
};

use crate::propagation;

const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn kubectl(binaries: &Binaries, data: &Path, context: &str, home: &Path) -> anyhow::Result<Kubectl> {
    // One context per kubeconfig, so that `kubectl` cannot use the wrong cluster.
    let all = std::fs::read_to_string(data.join("kubeconfig"))?;
    let file = home.join(format!("{context}.kubeconfig"));
    let current = all.lines().find(|l| l.starts_with("current-context:")).context("no current-context")?;
    std::fs::write(&file, all.replace(current, &format!("current-context: {context}")))?;
    Ok(Kubectl::new(binaries, &file, home))
}

#[tokio::test]
async fn propagation_through_up() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let path = data.display().to_string();
    let arguments = ["up", "--data-dir", &path, "--listen", &listen, "--clusters", "3", "--metrics-bind-address", "0"];
    let daemon = Daemon::start(arguments).await?;
    let plane = kubectl(&binaries, &data, "ironclad", dir.path())?;
    let mut members = Vec::new();
    for n in 1..=3 {
        members.push(kubectl(&binaries, &data, &format!("member{n}"), dir.path())?);
    }
    propagation::walk(&plane, &members).await?;

    // The state survives a clean stop and a restart.
    plane.apply(&propagation::deployment("kept", 1)).await?;
    plane.apply(&propagation::policy("kept", "clusterAffinity: {clusterNames: [member2]}")).await?;
    until("kept runs in member2", DEADLINE, async || {
        let ready = members[1].run(["get", "deployment", "kept", "-o", "jsonpath={.status.readyReplicas}"]).await?;
        ensure!(ready == "1", "readyReplicas {ready:?}");
        Ok(())
    })
    .await?;
    daemon.stop().await?;
    let daemon = Daemon::start(arguments).await?;
    plane.run(["scale", "deployment", "kept", "--replicas=2"]).await?;
    until("kept is scaled in member2 after the restart", DEADLINE, async || {
        let ready = members[1].run(["get", "deployment", "kept", "-o", "jsonpath={.status.readyReplicas}"]).await?;
        ensure!(ready == "2", "readyReplicas {ready:?}");
        Ok(())
    })
    .await?;
    daemon.stop().await
}

#[tokio::test]
async fn messages_of_bad_placements() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let path = data.display().to_string();
    let daemon = Daemon::start([
        "up", "--data-dir", &path, "--listen", &listen, "--clusters", "1", "--metrics-bind-address", "0",
    ])
    .await?;
    let plane = kubectl(&binaries, &data, "ironclad", dir.path())?;
    let member = kubectl(&binaries, &data, "member1", dir.path())?;

    // A manifest that can't be parsed, and one with an unknown field.
    let output = plane.output(["apply", "-f", "-"], "apiVersion: apps/v1\nkind: [Deployment").await?;
    ensure!(output.code == Some(1) && output.stderr.contains("error parsing"), "{output:?}");
    let unknown = propagation::policy("odd", "clusterAfinity: {clusterNames: [member1]}");
    let output = plane.output(["apply", "-f", "-"], &unknown).await?;
    ensure!(
        output.code == Some(1) && output.stderr.contains("unknown field \"spec.placement.clusterAfinity\""),
        "{output:?}"
    );

    // A policy that matches nothing says so.
    plane.apply(&propagation::policy("lonely", "clusterAffinity: {clusterNames: [member1]}")).await?;
    says(&plane, "propagationpolicy/lonely", "no template matches the resource selectors yet").await?;

    // A cluster that doesn't exist.
    plane.apply(&propagation::deployment("lost", 1)).await?;
    plane.apply(&propagation::policy("lost", "clusterAffinity: {clusterNames: [member9]}")).await?;
    condition(
        &plane,
        "resourcebinding/lost-deployment",
        "Scheduled",
        "False",
        "member9 named by the placement does not exist",
    )
    .await?;

    // A member with an unmanaged object of the same name.
    member.apply(&propagation::deployment("taken", 1)).await?;
    plane.apply(&propagation::deployment("taken", 1)).await?;
    plane.apply(&propagation::policy("taken", "clusterAffinity: {clusterNames: [member1]}")).await?;
    condition(&plane, "resourcebinding/taken-deployment", "FullyApplied", "False", "see status.aggregatedStatus")
        .await?;
    until("the binding says what the member said", DEADLINE, async || {
        let message = plane
            .run([
                "get",
                "resourcebinding",
                "taken-deployment",
                "-o",
                "jsonpath={.status.aggregatedStatus[0].appliedMessage}",
            ])
            .await?;
        ensure!(message.contains("already exists in the cluster member1"), "{message}");
        ensure!(message.contains("Overwrite"), "the remedy is missing: {message}");
        Ok(())
    })
    .await?;

    // `tree` marks the first broken link, and `get` says where it is.
    let kubeconfig = data.join("kubeconfig").display().to_string();
    for (template, broken) in [
        ("deploy/lost", "member9 named by the placement does not exist   <-- look here first"),
        ("deploy/taken", "already exists in the cluster member1"),
    ] {
        let output = ironclad(["tree", template, "--kubeconfig", &kubeconfig]).await?;
        ensure!(output.code == Some(0) && output.stdout.contains(broken), "{output:?}");
        ensure!(output.stdout.contains("✓ PropagationPolicy default/"), "{output:?}");
    }
    let output = ironclad(["get", "deploy", "taken", "-s", "all", "--kubeconfig", &kubeconfig]).await?;
    let places: Vec<_> = output.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    ensure!(places.len() == 3 && places[1][1] == "Karmada" && places[2][1] == "member1", "{output:?}");
    ensure!(places[2].last() == Some(&"N"), "what the member has of its own is not adopted: {output:?}");
    let output = ironclad(["get", "deplo", "--kubeconfig", &kubeconfig]).await?;
    ensure!(output.code == Some(1) && output.stderr.contains("try: deployments"), "{output:?}");

    // A cluster that is not joined can't be unjoined.
    let output = ironclad(["unjoin", "member9", "--kubeconfig", &kubeconfig, "--yes"]).await?;
    ensure!(output.code == Some(1) && output.stderr.contains("member9"), "{output:?}");
    daemon.stop().await
}

#[tokio::test]
async fn the_demo_shows_the_clusters_of_the_sample() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data").display().to_string(), format!("127.0.0.1:{}", free_port()?));
    let (daemon, lines) = Daemon::start_until(
        ["up", "--demo", "--data-dir", &data, "--listen", &listen, "--metrics-bind-address", "0"],
        "ctrl-c ends it;",
    )
    .await?;
    let table = lines.join("\n");
    for row in ["web                  member1", "web                  member2", "worker               member3"] {
        ensure!(table.contains(row), "{row:?} is missing in\n{table}");
    }
    daemon.stop().await
}

#[tokio::test]
async fn the_demo_plays_a_failover() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data").display().to_string(), format!("127.0.0.1:{}", free_port()?));
    let (daemon, lines) = Daemon::start_until(
        ["up", "--demo", "failover", "--data-dir", &data, "--listen", &listen, "--metrics-bind-address", "0"],
        "ctrl-c ends it;",
    )
    .await?;
    let place = |text: &str| {
        let found = lines.iter().position(|line| line.contains(text));
        found.with_context(|| format!("{text:?} is missing in\n{}", lines.join("\n")))
    };
    let mut places = Vec::new();
    for text in [
        "member1 is down",
        "member1 is not Ready",
        "member1 gets the taint",
        "worker leaves member1: 4 replicas",
        "8 of its 8 replicas elsewhere are ready",
        "member1 is up",
        "member1 is Ready again",
        "ironclad why evicted",
        "ironclad tree deploy/web",
    ] {
        places.push(place(text)?);
    }
    ensure!(places.is_sorted(), "{places:?} in\n{}", lines.join("\n"));
    daemon.stop().await
}

async fn condition(plane: &Kubectl, object: &str, type_: &str, status: &str, says: &str) -> anyhow::Result<()> {
    until(&format!("{object} says {type_} {status}"), DEADLINE, async || {
        let template = format!("jsonpath={{.status.conditions[?(@.type==\"{type_}\")]}}");
        let text = plane.run(["get", object, "-o", &template]).await?;
        ensure!(text.contains(&format!("\"status\":\"{status}\"")) && text.contains(says), "{text}");
        Ok(())
    })
    .await
}

async fn says(plane: &Kubectl, object: &str, text: &str) -> anyhow::Result<()> {
    until(&format!("an event of {object}"), DEADLINE, async || {
        let events = plane.run(["events", "--for", object]).await?;
        ensure!(events.contains(text), "{events}");
        Ok(())
    })
    .await
}
