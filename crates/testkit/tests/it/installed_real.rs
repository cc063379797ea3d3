//! Installations by manifests and by the chart, on a real kube-apiserver without kubelets: their objects are accepted,
//! and the program does its work with the arguments and the rights that they give it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use ironclad_cli::manifests::{Release, Values, objects};
use ironclad_testkit::{
    binary::{Daemon, binary, free_port, ironclad},
    real::{Binaries, Config, Kubectl, NodeShape, RealEnv, as_account, until},
};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    monitoring::{self, Program},
    propagation,
};

const DEADLINE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "fleet";
/// `run` without gate Failover, and without a request through the proxy. Its members have
/// neither nodes nor Pods.
const RUN: Program = Program {
    absent: &["ironclad_apiserver_", "ironclad_store_"],
    by_name: &["ironclad_cluster_proxy_"],
    unseen: &[
        "cluster_cpu_allocated_number",
        "cluster_fault_",
        "cluster_memory_allocated_bytes",
        "cluster_pod_allocated_number",
        "cluster_ready_transitions_total",
        "delete_resource_from_cluster",
        "evict",
        "federatedhpa_process_duration_seconds",
        "graceful_eviction_",
        "ironclad_hot_loop",
        "ironclad_interpreter_pool_calls_total",
        "ironclad_metrics_adapter_member_requests_total",
        "karmada_scheduler_estimator_estimating_request_total",
        "karmada_scheduler_preemption_",
        "policy_preemption_total",
        "update_resource_to_cluster",
    ],
};
/// The kinds of Prometheus' operator, without their schemas.
const OPERATORS_KINDS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: ServiceMonitor, plural: servicemonitors}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: prometheusrules.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: PrometheusRule, plural: prometheusrules}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
/// A template that grants what the account of `run` may not do.
const BEYOND: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: beyond, namespace: default}
rules: [{apiGroups: [''], resources: [pods], verbs: [create]}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: beyond, namespace: default}
spec:
  resourceSelectors: [{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, name: beyond}]
  placement: {clusterAffinity: {clusterNames: [member2]}}
";
/// Values that make no installation.
const REFUSED: [&str; 11] = [
    "mode: plane",
    "mode: hosted",
    "imag: {tag: v1}",
    "external: {replicas: two}",
    "image: {pullPolicy: Sometimes}",
    "metrics: {port: 80}",
    "mode: agent",
    "{mode: agent, agent: {clusterName: m1}, featureGates: {Failover: true}}",
    "{mode: agent, agent: {clusterName: m1}, monitoring: {rules: {enabled: true}}}",
    "{mode: external, external: {kubeconfigSecret: {name: p}, explain: {enabled: true}}}",
    "embedded: {service: {nodePort: 30000}}",
];

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/ironclad")
}

/// Files of values for tests of the chart, by name.
fn cases() -> anyhow::Result<Vec<PathBuf>> {
    let files = fs::read_dir(chart().join("ci"))?.map(|file| anyhow::Ok(file?.path()));
    let mut files = files.collect::<anyhow::Result<Vec<_>>>()?;
    files.sort();
    ensure!(files.len() > 5, "the cases are missing: {files:?}");
    Ok(files)
}

/// Renders the chart as helm does, for each file of values.
async fn rendered(binaries: &Binaries, files: &[PathBuf]) -> anyhow::Result<Vec<Value>> {
    let mut command = Command::new(binaries.clients()?);
    command.args(["--namespace", NAMESPACE, "render"]).arg(chart()).arg("one").args(files).kill_on_drop(true);
    let output = command.output().await?;
    ensure!(output.status.success(), "helm: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn made(text: &str) -> Result<Vec<Value>, String> {
    let values = Values::new(&[("values".to_owned(), text.to_owned())], &[]).map_err(|error| format!("{error:#}"))?;
    objects(&Release { name: "one".to_owned(), namespace: NAMESPACE.to_owned(), values })
}

fn by_name(objects: &[Value]) -> BTreeMap<String, &Value> {
    objects.iter().map(|object| (format!("{}/{}", object["kind"], object["metadata"]["name"]), object)).collect()
}

#[tokio::test]
async fn the_chart_renders_what_the_verb_prints() -> anyhow::Result<()> {
    let Some(binaries) = Binaries::find_or_skip()? else { return Ok(()) };
    let files = cases()?;
    let mut wrong = Vec::new();
    for (file, rendered) in files.iter().zip(rendered(&binaries, &files).await?) {
        let name = file.display();
        let own = made(&fs::read_to_string(file)?).map_err(anyhow::Error::msg)?;
        ensure!(own[0]["kind"] == "Namespace", "{name}: helm makes the namespace itself");
        let charted = rendered["objects"].as_array().with_context(|| format!("{name}: {}", rendered["error"]))?;
        let (own, charted) = (by_name(&own[1..]), by_name(charted));
        if own.keys().ne(charted.keys()) {
            wrong.push(format!("{name}: {:?} instead of {:?}", charted.keys(), own.keys()));
        }
        for (key, object) in &own {
            if charted.get(key).is_some_and(|other| other != object) {
                wrong.push(format!("{name}: {key}\nchart: {}\nverb:  {object}", charted[key]));
            }
        }
        ensure!(rendered["hooks"].is_null(), "{name}: a hook can fail and leave half an installation: {rendered}");
        ensure!(rendered["notes"].as_str().is_some_and(|notes| notes.contains("ironclad")), "{name}: {rendered}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));

    let folder = tempfile::tempdir()?;
    let file = |(n, text): (usize, &&str)| {
        let path = folder.path().join(format!("{n}.yaml"));
        fs::write(&path, text).map(|()| path)
    };
    let files = REFUSED.iter().enumerate().map(file).collect::<Result<Vec<_>, _>>()?;
    for (text, rendered) in REFUSED.iter().zip(rendered(&binaries, &files).await?) {
        ensure!(made(text).is_err(), "the verb takes {text}");
        ensure!(rendered["error"].as_str().is_some_and(|why| !why.is_empty()), "the chart takes {text}: {rendered}");
    }
    Ok(())
}

#[tokio::test]
async fn objects_of_each_mode_are_accepted() -> anyhow::Result<()> {
    let config = Config { members: 0, ..Config::default() };
    let Some(env) = RealEnv::start_or_skip(config).await? else { return Ok(()) };
    let kubectl = env.plane().kubectl();
    kubectl.apply(OPERATORS_KINDS).await?;
    kubectl.run(["create", "namespace", NAMESPACE]).await?;
    let apply = ["apply", "--server-side", "--validate=strict", "-f", "-"];
    for file in cases()? {
        let values = file.display().to_string();
        for name in ["one", "two"] {
            // A port of the node belongs to one Service.
            let port = if name == "one" { "30443" } else { "30444" };
            let port = format!("embedded.service.nodePort={port}");
            let mut line = vec!["manifests", "-n", NAMESPACE, "--name", name, "-f", &values];
            if values.contains("embedded-all") {
                line.extend(["--set", &port]);
            }
            let text = ironclad(&line).await?.success()?;
            let count = text.matches("\nkind: ").count() + usize::from(text.starts_with("kind: "));
            let accepted = |output: &str| output.lines().filter(|line| line.contains("serverside-applied")).count();
            until(&format!("{name} of {values} passes as a dry run"), DEADLINE, async || {
                // The kind of the monitors may not be served yet.
                let dry = kubectl.output(apply.iter().chain(&["--dry-run=server"]), &text).await?.success()?;
                ensure!(accepted(&dry) == count && count > 3, "{count} objects: {dry}");
                Ok(())
            })
            .await?;
            let done = kubectl.output(apply, &text).await?.success().with_context(|| values.clone())?;
            ensure!(accepted(&done) == count, "{count} objects: {done}");
        }
        // Releases of other modes may have the same names here.
        let labels = ["-l", "app.kubernetes.io/name=ironclad"];
        let kinds = "statefulsets,deployments,services,networkpolicies,poddisruptionbudgets,serviceaccounts,\
                     servicemonitors,prometheusrules,configmaps";
        let listed = kubectl.run(["get", kinds, "-n", NAMESPACE, "-o", "name"].iter().chain(&labels)).await?;
        for name in ["one", "two"] {
            ensure!(listed.lines().any(|line| line.ends_with(&format!("/{name}"))), "{values}: {listed}");
        }
        kubectl.run(["delete", kinds, "-n", NAMESPACE].iter().chain(&labels)).await?;
        kubectl.run(["delete", "clusterroles,clusterrolebindings"].iter().chain(&labels)).await?;
    }
    Ok(())
}

/// The specification of the Pods of release one.
async fn pod_of_the_release(kubectl: &Kubectl) -> anyhow::Result<Value> {
    let deployment = kubectl.run(["get", "deployment", "one", "-n", NAMESPACE, "-o", "json"]).await?;
    Ok(serde_json::from_str::<Value>(&deployment)?["spec"]["template"]["spec"].clone())
}

/// Writes a kubeconfig with the rights of these Pods, beside that of an administrator. Returns its path.
async fn as_the_account(kubectl: &Kubectl, pod: &Value, admins: &Path, dir: &Path) -> anyhow::Result<PathBuf> {
    let account = pod["serviceAccountName"].as_str().context("a ServiceAccount")?;
    as_account(kubectl, (NAMESPACE, account), admins, dir).await
}

/// Starts the program with the arguments of these Pods. Their volume is a folder of the test.
async fn start(pod: &Value, kubeconfig: &Path, dir: &Path) -> anyhow::Result<Daemon> {
    let state = pod["containers"][0]["volumeMounts"][0]["mountPath"].as_str().context("a volume")?;
    let words = pod["containers"][0]["args"].as_array().context("arguments")?.iter().filter_map(Value::as_str);
    let words = words.map(|word| word.replace(state, &dir.display().to_string()));
    let mut command = vec![format!("KUBECONFIG={}", kubeconfig.display()), binary()?.display().to_string()];
    command.extend(words);
    Daemon::start_program(Path::new("/usr/bin/env"), &command).await
}

/// A workload in member2.
const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [member2]}}
";

/// The release is in a cluster with nodes, which is its control plane, too; another one is its member.
#[tokio::test]
async fn helm_installs_upgrades_rolls_back_and_uninstalls_the_chart() -> anyhow::Result<()> {
    let nodes = NodeShape { count: 1, ..NodeShape::default() };
    let Some(env) = RealEnv::start_or_skip(Config { members: 2, nodes, ..Config::default() }).await? else {
        return Ok(());
    };
    let (binaries, dir) = (Binaries::find()?, tempfile::tempdir()?);
    let (host, member) = (env.member(0).kubectl(), env.member(1).kubectl());
    let admins = env.member(0).kubeconfig();
    let (hooks, metrics) = (free_port()?, free_port()?);
    let values = |gate: bool| {
        let webhooks = json!({"url": format!("https://127.0.0.1:{hooks}"), "port": hooks});
        let path = dir.path().join(format!("values-{gate}.yaml"));
        let values = json!({"mode": "external", "featureGates": {"Failover": gate}, "metrics": {"port": metrics},
            "external": {"webhooks": webhooks}});
        fs::write(&path, values.to_string()).map(|()| path)
    };
    let helm = async |verb: &str, more: &[&Path]| {
        let mut command = Command::new(binaries.clients()?);
        command.arg("--kubeconfig").arg(&admins).args(["--namespace", NAMESPACE, "--home"]).arg(dir.path());
        command.args(["release", verb, "one"]).args(more).kill_on_drop(true);
        let output = command.output().await?;
        ensure!(output.status.success(), "helm {verb}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let copy = async |replicas: &str| {
        host.run(["scale", "deploy/web", "--replicas", replicas]).await?;
        until(&format!("the member has {replicas} replicas"), DEADLINE, async || {
            let got =
                member.run(["get", "deploy/web", "-o", "jsonpath={.status.readyReplicas} {.metadata.uid}"]).await?;
            let (ready, uid) = got.split_once(' ').context("no status yet")?;
            ensure!(ready == replicas, "{ready}");
            Ok(uid.to_owned())
        })
        .await
    };

    // It ends when the Pods are ready.
    let told = helm("install", &[&chart(), &values(false)?]).await?;
    ensure!(told == "revision 1, deployed", "{told}");
    let first = pod_of_the_release(host).await?;
    let kubeconfig = as_the_account(host, &first, &admins, dir.path()).await?;
    let daemon = start(&first, &kubeconfig, dir.path()).await?;
    let (plane, joined) = (admins.display().to_string(), env.member(1).kubeconfig().display().to_string());
    ironclad(["join", "member2", "--kubeconfig", &plane, "--cluster-kubeconfig", &joined]).await?.success()?;
    host.apply(WEB).await?;
    let uid = copy("1").await?;
    daemon.stop().await?;

    let told = helm("upgrade", &[&chart(), &values(true)?]).await?;
    ensure!(told == "revision 2, deployed", "{told}");
    let second = pod_of_the_release(host).await?;
    ensure!(second["containers"][0]["args"].to_string().contains("Failover=true"), "{second}");
    let daemon = start(&second, &kubeconfig, dir.path()).await?;
    ensure!(copy("2").await? == uid, "the upgrade replaced the copy");
    daemon.stop().await?;

    let told = helm("rollback", &[Path::new("1")]).await?;
    ensure!(told == "revision 3, deployed", "{told}");
    let third = pod_of_the_release(host).await?;
    ensure!(third == first, "{third} is not the first revision's {first}");
    let daemon = start(&third, &kubeconfig, dir.path()).await?;
    ensure!(copy("1").await? == uid, "the rollback replaced the copy");
    daemon.stop().await?;

    let told = helm("uninstall", &[]).await?;
    ensure!(told == "revision 3, uninstalled", "{told}");
    let kinds = "deployments,services,networkpolicies,poddisruptionbudgets,serviceaccounts,configmaps";
    let labels = ["-l", "app.kubernetes.io/name=ironclad", "-o", "name"];
    let left = host.run(["get", kinds, "-n", NAMESPACE].iter().chain(&labels)).await?;
    let left = left + &host.run(["get", "clusterroles,clusterrolebindings"].iter().chain(&labels)).await?;
    ensure!(left.is_empty(), "helm left {left}");
    // What runs in members, and what says so, stays.
    host.run(["get", "resourcebinding", "web-deployment"]).await?;
    let got = member.run(["get", "deploy/web", "-o", "jsonpath={.metadata.uid}"]).await?;
    ensure!(got == uid, "the copy went with the release");
    Ok(())
}

#[tokio::test]
async fn run_does_its_work_with_the_arguments_and_rights_of_its_manifests() -> anyhow::Result<()> {
    let Some(env) = RealEnv::start_or_skip(Config { members: 2, ..Config::default() }).await? else { return Ok(()) };
    let kubectl = env.plane().kubectl();
    let dir = tempfile::tempdir()?;
    let (hooks, metrics) = (free_port()?, free_port()?);
    let line = [
        "manifests".to_owned(),
        "--mode=external".to_owned(),
        format!("--namespace={NAMESPACE}"),
        "--name=one".to_owned(),
        // Nothing leads to a Service here, as there are no Pods.
        format!("--set=external.webhooks.url=https://127.0.0.1:{hooks}"),
        format!("--set=external.webhooks.port={hooks}"),
        format!("--set=metrics.port={metrics}"),
    ];
    let text = ironclad(&line).await?.success()?;
    kubectl.apply(&text).await?;
    let pod = pod_of_the_release(kubectl).await?;
    let kubeconfig = as_the_account(kubectl, &pod, &env.plane().kubeconfig(), dir.path()).await?;
    let own = Kubectl::new(&Binaries::find()?, &kubeconfig, dir.path());
    for (line, want) in [("create deployments", "no"), ("escalate clusterroles", "no"), ("patch deployments", "yes")] {
        let answer = own.output(["auth", "can-i"].into_iter().chain(line.split(' ')), "").await?.stdout;
        ensure!(answer.trim() == want, "the account's right to {line}: {answer}");
    }

    let daemon = start(&pod, &kubeconfig, dir.path()).await?;

    let crds = kubectl.run(["get", "crds", "-o", "name"]).await?;
    ensure!(crds.contains("propagationpolicies.policy.karmada.io"), "it installs the definitions: {crds}");
    kubectl.run(["get", "clusterrole", "karmada-view", "karmada-edit"]).await?;
    let plane = env.plane().kubeconfig().display().to_string();
    for member in env.members() {
        let kubeconfig = member.kubeconfig().display().to_string();
        ironclad(["join", member.name(), "--kubeconfig", &plane, "--cluster-kubeconfig", &kubeconfig])
            .await?
            .success()?;
    }
    until("both members are Ready", DEADLINE, async || {
        let ready = kubectl.run(["get", "clusters", "--no-headers"]).await?;
        ensure!(ready.lines().filter(|line| line.contains("True")).count() == 2, "{ready}");
        Ok(())
    })
    .await?;
    let members: Vec<_> = env.members().iter().map(|member| member.kubectl().clone()).collect();
    propagation::walk(kubectl, &members).await?;
    let stamped =
        kubectl.run(["get", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "-o", "name"]).await?;
    ensure!(stamped.contains("mutating-config") && stamped.contains("validating-config"), "{stamped}");
    // Agents: bootstrap tokens get rights, which are within those of the account.
    kubectl.run(["get", "clusterrolebinding", "system:karmada:agent-bootstrap"]).await?;
    until("dashboards and alert rules ask for what there is", DEADLINE, async || {
        monitoring::check(RUN, &monitoring::scrape(metrics).await?)
    })
    .await?;
    ironclad(["unjoin", "member1", "--kubeconfig", &plane, "--yes"]).await?.success()?;

    let refused: Vec<String> =
        daemon.errors().into_iter().filter(|line| line.to_ascii_lowercase().contains("forbidden")).collect();
    ensure!(refused.is_empty(), "the account lacks rights:\n{}", refused.join("\n"));

    // A Role that grants more than the account has is not claimed.
    kubectl.apply(BEYOND).await?;
    until("the Role that grants more is told", DEADLINE, async || {
        let events = kubectl.run(["get", "events", "-n", "default", "-o", "jsonpath={.items[*].message}"]).await?;
        let told = daemon.errors().into_iter().chain([events]).any(|text| text.contains("attempting to grant"));
        ensure!(told, "nothing says so");
        Ok(())
    })
    .await?;
    let role = kubectl.run(["get", "role", "beyond", "-o", "jsonpath={.metadata.labels}"]).await?;
    ensure!(role.is_empty(), "the Role was claimed: {role}");
    daemon.stop().await?;
    // It ends with its Lease, so that another one leads at once.
    let lease = kubectl
        .run(["get", "lease", "ironclad", "-n", "karmada-system", "-o", "jsonpath={.spec.holderIdentity}"])
        .await?;
    ensure!(lease.is_empty(), "the Lease is held by {lease}");
    Ok(())
}

#[tokio::test]
async fn up_serves_with_the_arguments_of_its_manifests() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let line = [
        "mode=embedded".to_owned(),
        "embedded.publicAddresses=[localhost]".to_owned(),
        format!("embedded.port={}", free_port()?),
        format!("metrics.port={}", free_port()?),
    ];
    let values = Values::new(&[], &line)?;
    let release = Release { name: "one".to_owned(), namespace: NAMESPACE.to_owned(), values };
    let objects = objects(&release).map_err(anyhow::Error::msg)?;
    let set = objects.iter().find(|object| object["kind"] == "StatefulSet").context("a StatefulSet")?;
    let container = &set["spec"]["template"]["spec"]["containers"][0];
    let volume = container["volumeMounts"][0]["mountPath"].as_str().context("a volume")?;
    let folder = dir.path().display().to_string();
    let words = container["args"].as_array().context("arguments")?.iter().filter_map(Value::as_str);
    let words: Vec<String> = words.map(|word| word.replace(volume, &folder)).collect();
    let daemon = Daemon::start(&words).await?;

    // As `kubectl exec` asks in an image without a shell.
    let inside = format!("{folder}/kubeconfig");
    let kubeconfig = ironclad(["kubeconfig", "--control-plane", "--kubeconfig", &inside]).await?.success()?;
    let outside = format!("{folder}/outside");
    fs::write(&outside, &kubeconfig)?;
    ensure!(kubeconfig.contains("server: https://localhost:"), "the public address is not the server: {kubeconfig}");
    ironclad(["get", "clusters", "--kubeconfig", &outside]).await?.success()?;
    daemon.stop().await
}
