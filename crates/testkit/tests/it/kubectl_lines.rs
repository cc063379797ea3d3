//! The command line beside kubectl's: generated lines of `get`, and lines of other verbs, played with both against the
//! same servers. Output and exit code are equal but for the differences that are listed here.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, stream};
use ironclad_seam::Rng;
use ironclad_testkit::{
    binary::{Daemon, free_port, ironclad},
    real::{Binaries, Kubectl, Output, until},
};
use regex::Regex;

use crate::propagation_up::kubectl;

/// Generated lines of `get`.
const LINES: usize = 280;
/// Lines that are played at a time.
const AT_ONCE: usize = 4;

const OBJECTS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: a, labels: {app: web, tier: front}}
data: {key: \"1\"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b, labels: {app: db}}
---
apiVersion: v1
kind: Service
metadata: {name: web, labels: {app: web}}
spec: {ports: [{port: 80}], selector: {app: web}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: nginx}]}
";

/// A line for both programs, and how much of the answers is compared.
#[derive(Debug, Clone)]
struct Line {
    kubectl: Vec<String>,
    ours: Vec<String>,
    compared: Compared,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    /// Exit code, stdout, and what an error says.
    All,
    /// Success or failure alone.
    Success,
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// A line of `get` with a random choice for each kind of argument. Combinations that make no sense are wanted, too:
/// both refuse them.
fn line(rng: &Rng) -> Vec<String> {
    let stream = rng.stream("kubectl lines");
    let choose =
        |choices: &[&str]| choices[usize::try_from(stream.below(choices.len() as u64)).unwrap_or(0)].to_owned();
    let what = choose(&[
        "cm",
        "cm",
        "configmaps",
        "ConfigMap",
        "cm a",
        "cm a b",
        "cm a nope",
        "cm nope",
        "cm/a",
        "cm/a svc/web",
        "cm/a svc/nope",
        "cm/nope svc/web",
        "deploy",
        "deployments.apps",
        "deployments.v1.apps",
        "deploy web",
        "deploy nope",
        "svc",
        "cm,svc",
        "svc,deploy",
        "cm,svc a",
        "ns",
        "namespaces",
        "ns default",
        "ns nope",
        "all",
        "nosuch",
        "cm,nosuch",
        "nosuch a",
        "cm a svc/web",
        "endpointslices.discovery.k8s.io",
        "sa default",
        "events.v1",
    ]);
    let selector = choose(&[
        "",
        "",
        "",
        "",
        "-l app=web",
        "-l app=nope",
        "-l app!=web",
        "-l app,tier",
        "--selector=!tier",
        "--field-selector=metadata.name=a",
        "--field-selector=metadata.name!=a",
        "-l app=",
    ]);
    let namespace = choose(&["-n shop", "-n shop", "-n shop", "-A", "-n empty", "--namespace=shop", "-n nope"]);
    let output = choose(&[
        "",
        "",
        "",
        "-o wide",
        "-o name",
        "-o json",
        "-o yaml",
        "-o=name",
        "-ojson",
        "-o jsonpath={.items[*].metadata.name}",
        "-o jsonpath={.metadata.name}",
        "-o jsonpath={range@.items[*]}{.metadata.name}:{.data.key};{end}",
        "-o custom-columns=NAME:.metadata.name,APP:.metadata.labels.app",
        "-o jsonpath-as-json={.items[*].metadata.name}",
        "-o nosuch",
        "-o custom-columns=NAME",
    ]);
    let more = choose(&[
        "",
        "",
        "",
        "",
        "--no-headers",
        "--show-labels",
        "-L app",
        "-L app,tier",
        "--show-kind",
        "--ignore-not-found",
        "--sort-by=.metadata.name",
        "--sort-by={.metadata.labels.app}",
        "--show-labels --no-headers",
        "--show-managed-fields=false",
    ]);
    words(&format!("get {what} {selector} {namespace} {output} {more}"))
}

/// Other verbs. In lines of cordon, taint and drain, NODE is a node for kubectl and a cluster for us, and only success
/// is compared: they say which kind they are about.
const OTHERS: [(&str, &str, Compared); 32] = [
    ("logs POD -n shop", "logs POD -n shop -C member1", Compared::All),
    ("logs POD -n shop --tail=1", "logs POD -n shop -C member1 --tail=1", Compared::All),
    ("logs POD -n shop -c app", "logs POD -n shop -C member1 -c app", Compared::All),
    ("logs POD -n shop -c nope", "logs POD -n shop -C member1 -c nope", Compared::Success),
    (
        "logs POD -n shop --all-containers --limit-bytes=10",
        "logs POD -n shop -C member1 --all-containers --limit-bytes=10",
        Compared::Success,
    ),
    ("logs deploy/web -n shop", "logs deploy/web -n shop -C member1", Compared::All),
    ("logs deploy/nope -n shop", "logs deploy/nope -n shop -C member1", Compared::Success),
    ("logs nope -n shop", "logs nope -n shop -C member1", Compared::Success),
    ("logs -l app=web -n shop", "logs -l app=web -n shop -C member1", Compared::All),
    (
        "logs POD -n shop --since=1h --since-time=2026-01-01T00:00:00Z",
        "logs POD -n shop -C member1 --since=1h --since-time=2026-01-01T00:00:00Z",
        Compared::Success,
    ),
    ("logs POD -n shop --limit-bytes=0", "logs POD -n shop -C member1 --limit-bytes=0", Compared::Success),
    ("top pod nope -n shop", "top pod nope -n shop -C member1", Compared::Success),
    ("top pod -n shop --sort-by=cpu", "top pod -n shop -C member1 --sort-by=cpu", Compared::Success),
    ("top pod -n shop --sort-by=disk", "top pod -n shop -C member1 --sort-by=disk", Compared::Success),
    ("top node nope", "top node nope -C member1", Compared::Success),
    ("top node", "top node -C member1", Compared::Success),
    (
        "get cm -n shop -A=false --show-labels=True",
        "get cm -n shop -C member1 -A=false --show-labels=True",
        Compared::Success,
    ),
    ("get cm -n shop --watch=maybe", "get cm -n shop -C member1 --watch=maybe", Compared::Success),
    ("get cm -n shop -A -A", "get cm -n shop -C member1 -A -A", Compared::Success),
    ("get cm -n shop --warnings-as-errors", "get cm -n shop -C member1 --warnings-as-errors", Compared::Success),
    (
        "get endpoints -n shop --warnings-as-errors",
        "get endpoints -n shop -C member1 --warnings-as-errors",
        Compared::Success,
    ),
    ("cordon", "cordon", Compared::Success),
    ("cordon nope", "cordon nope", Compared::Success),
    ("cordon --selector=", "cordon --selector=", Compared::Success),
    ("cordon NODE --dry-run=client", "cordon NODE --dry-run=client", Compared::Success),
    ("cordon NODE --dry-run=nobody", "cordon NODE --dry-run=nobody", Compared::Success),
    ("cordon NODE -l app=web", "cordon NODE -l app=web", Compared::Success),
    ("uncordon NODE --dry-run=client", "uncordon NODE --dry-run=client", Compared::Success),
    ("taint nodes nope a=b:NoSchedule", "taint clusters nope a=b:NoSchedule", Compared::Success),
    ("taint nodes NODE a=b:Nowhere", "taint clusters NODE a=b:Nowhere", Compared::Success),
    (
        "taint nodes NODE a=b:NoSchedule --dry-run=client",
        "taint clusters NODE a=b:NoSchedule --dry-run=client",
        Compared::Success,
    ),
    ("drain nope", "drain nope", Compared::Success),
];

/// Lines whose answers differ. They are not compared; each row must fit a line whose answers do differ, so that a row
/// goes with its reason.
struct Difference {
    reason: &'static str,
    fits: fn(&str) -> bool,
}

const DIFFERENCES: [Difference; 6] = [
    Difference {
        reason: "our messages about types name the nearest ones",
        fits: |line| has(line, &["nosuch", "events.v1"]),
    },
    Difference {
        reason: "formats and templates are checked before anything is asked",
        fits: |line| has(line, &["-o nosuch", "-o custom-columns=NAME ", "{range@"]) || line.ends_with("=NAME"),
    },
    Difference { reason: "long strings in YAML are folded at other places", fits: |line| has(line, &["-o yaml"]) },
    Difference {
        reason: "names with selectors, with all namespaces, and in both forms are refused in words of ours",
        fits: |line| {
            let named =
                has(line, &["get cm a", "get cm b", "nope", "/", "svc a", "deploy web", "ns default", "sa default"]);
            named && has(line, &[" -l ", "--selector", "--field-selector", " -A", "a svc/", "--show-labels"])
        },
    },
    Difference {
        reason: "kubectl can't sort tables of several types",
        fits: |line| has(line, &["get all", "cm,svc", "svc,deploy", "svc/"]) && has(line, &["--sort-by"]),
    },
    Difference { reason: "no bytes at all are refused", fits: |line| has(line, &["--limit-bytes=0"]) },
];

fn has(line: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| line.contains(part))
}

/// An answer without what differs by nature: ages, the widths that follow from them, and the advice that only we give.
fn normal(output: &Output) -> (bool, String, String) {
    let ages = Regex::new(r"\b(\d+[smhd])+\b|<invalid>").expect("a constant pattern");
    let gaps = Regex::new(r"  +").expect("a constant pattern");
    let text = |text: &str| {
        let lines =
            text.lines().map(|line| gaps.replace_all(&ages.replace_all(line, "AGE"), "  ").trim_end().to_owned());
        lines.collect::<Vec<_>>().join("\n")
    };
    let stderr = output.stderr.lines().filter(|line| !line.starts_with("  try: ") && !line.starts_with("  because "));
    let stderr = stderr.map(|line| line.strip_prefix("error: ").unwrap_or(line)).collect::<Vec<_>>().join("\n");
    (output.code == Some(0), text(&output.stdout), text(&stderr))
}

/// Plays one line with both; returns the answers if they differ.
async fn play(line: &Line, kubectl: &Kubectl, kubeconfig: &[String]) -> anyhow::Result<Option<(String, String)>> {
    let theirs = normal(&kubectl.output(&line.kubectl, "").await?);
    let ours = normal(&ironclad(line.ours.iter().chain(kubeconfig)).await?);
    let equal = if line.compared == Compared::Success { theirs.0 == ours.0 } else { theirs == ours };
    Ok((!equal).then(|| (line.ours.join(" "), format!("  kubectl:  {theirs:?}\n  ironclad: {ours:?}"))))
}

/// The lines whose answers differ, with them.
async fn differences(
    lines: Vec<Line>,
    kubectl: &Kubectl,
    kubeconfig: &[String],
) -> anyhow::Result<Vec<(String, String)>> {
    let played = lines.iter().map(|line| play(line, kubectl, kubeconfig));
    let found: Vec<_> = stream::iter(played).buffered(AT_ONCE).collect().await;
    found.into_iter().filter_map(Result::transpose).collect()
}

fn kubeconfig(data: &Path, context: &str) -> Vec<String> {
    words(&format!("--kubeconfig {} --context {context}", data.join("kubeconfig").display()))
}

#[tokio::test]
async fn lines_of_kubectl_have_the_same_answers() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let path = data.display().to_string();
    let daemon = Daemon::start([
        "up", "--data-dir", &path, "--listen", &listen, "--clusters", "1", "--metrics-bind-address", "0",
    ])
    .await?;
    let (plane, member) =
        (kubectl(&binaries, &data, "ironclad", dir.path())?, kubectl(&binaries, &data, "member1", dir.path())?);
    for server in [&plane, &member] {
        for namespace in ["shop", "empty"] {
            // The control plane may have copied it to the member already.
            server.output(["create", "namespace", namespace], "").await?;
        }
        server.output(["apply", "-n", "shop", "-f", "-"], OBJECTS).await?.success()?;
    }
    until("the member's deployment runs", Duration::from_secs(60), async || {
        let ready =
            member.run(["get", "deployment", "web", "-n", "shop", "-o", "jsonpath={.status.readyReplicas}"]).await?;
        ensure!(ready == "1", "readyReplicas {ready:?}");
        Ok(())
    })
    .await?;

    let rng = Rng::from_seed(16);
    let generated: Vec<Vec<String>> = (0..LINES).map(|_| line(&rng)).collect();
    let both = |words: &Vec<String>| Line { kubectl: words.clone(), ours: words.clone(), compared: Compared::All };
    let (first, second) = generated.split_at(LINES / 2);
    let mut found = differences(first.iter().map(both).collect(), &plane, &kubeconfig(&data, "ironclad")).await?;
    found.extend(differences(second.iter().map(both).collect(), &member, &kubeconfig(&data, "member1")).await?);

    let pod = member.run(["get", "pods", "-n", "shop", "-o", "jsonpath={.items[0].metadata.name}"]).await?;
    let node = member.run(["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"]).await?;
    let others = OTHERS.iter().map(|(theirs, ours, compared)| Line {
        kubectl: words(&theirs.replace("POD", &pod).replace("NODE", &node)),
        ours: words(&ours.replace("POD", &pod).replace("NODE", "member1")),
        compared: *compared,
    });
    found.extend(differences(others.collect(), &member, &kubeconfig(&data, "ironclad")).await?);
    daemon.stop().await?;
    for difference in DIFFERENCES {
        let seen = found.iter().any(|(line, _)| (difference.fits)(line));
        ensure!(seen, "no line differs any more: {}", difference.reason);
    }
    let unknown = found.iter().filter(|(line, _)| !DIFFERENCES.iter().any(|difference| (difference.fits)(line)));
    let unknown: Vec<String> = unknown.map(|(line, answers)| format!("{line}\n{answers}")).collect();
    ensure!(unknown.is_empty(), "{} of {} lines differ:\n{}", unknown.len(), LINES + OTHERS.len(), unknown.join("\n"));
    Ok(())
}

/// A watch whose reader ends is over with the next line, as kubectl's is.
#[tokio::test]
async fn readers_that_end_end_the_verb() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let path = data.display().to_string();
    let daemon = Daemon::start([
        "up", "--data-dir", &path, "--listen", &listen, "--clusters", "1", "--metrics-bind-address", "0",
    ])
    .await?;
    let plane = kubectl(&binaries, &data, "ironclad", dir.path())?;
    plane.run(["create", "configmap", "first"]).await?;
    let verb = ironclad_testkit::binary::binary()?;
    let line = format!("\"$0\" get cm -w --kubeconfig {}/kubeconfig | head -n 1", data.display());
    let mut pipeline = tokio::process::Command::new("sh").arg("-c").arg(line).arg(verb).kill_on_drop(true).spawn()?;
    for n in 0..120 {
        plane.run(["create", "configmap", &format!("more{n}")]).await?;
        if tokio::time::timeout(Duration::from_millis(500), pipeline.wait()).await.is_ok() {
            return daemon.stop().await;
        }
    }
    Err(anyhow::anyhow!("the pipeline does not end")).context("ironclad get cm -w | head -n 1")
}
