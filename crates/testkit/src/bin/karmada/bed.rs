//! Servers that the suite runs against: a control plane and three members of one node each, further ones for specs that
//! create clusters, Ironclad, and the suite's example of an interpreter webhook.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use ironclad_testkit::{
    binary::{free_port, ironclad},
    real::{Binaries, Config, NodeShape, RealEnv, until},
};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

const MEMBERS: usize = 3;
/// Further servers that no one joins: specs take them where they would create clusters in docker. One spec takes two.
const SPARE: usize = 2;
/// Stands for the name of the context in a spare's kubeconfig.
const CONTEXT: &str = "CONTEXT";
/// Stands for the path of kubectl in the hook.
const KUBECTL: &str = "KUBECTL";
/// The program that a spec asks for a cluster: `create NAME KUBECONFIG CONTEXT`, `delete NAME KUBECONFIG`. A spare's
/// file is renamed by whoever takes it, so that two specs do not get one. A spare is free again when the namespace that
/// `join` made in it is gone; one that is not reached is given to the next spec as it is.
const HOOK: &str = r#"#!/bin/sh
set -eu
cd "$(dirname "$0")"
case $1 in
create)
    for spare in *.free; do
        if mv "$spare" "${spare%.free}.of.$2" 2>/dev/null; then
            mkdir -p "$(dirname "$3")"
            sed "s/CONTEXT/$4/g" "${spare%.free}.of.$2" >"$3"
            exit 0
        fi
    done
    echo "all spare clusters are taken: $(ls)"
    exit 1
    ;;
delete)
    for spare in *.of."$2"; do
        KUBECTL --kubeconfig "$spare" wait --for=delete namespace/karmada-cluster --timeout=60s >&2 || true
        mv "$spare" "${spare%.of."$2"}.free"
    done
    ;;
esac
"#;
const DEADLINE: Duration = Duration::from_secs(180);
/// Flags for what Karmada's installation script switches on beyond defaults, and for the events that specs wait for.
const FLAGS: [&str; 8] = [
    // karmadactl looks for clusters/NAME/proxy there.
    "--aggregate-clusters",
    "--feature-gates=AllAlpha=true,AllBeta=true",
    "--controllers=*,hpaScaleTargetMarker,deploymentReplicasSyncer",
    "--success-events",
    // A busy machine must not end the one leader's term.
    "--leader-elect=false",
    // Specs wait for less long than a new leader does.
    "--eviction-warm-up=0s",
    "--mass-failure-hold=0s",
    // Specs delete their namespace while something in it is protected.
    "--protect-namespace-contents=false",
];
/// The suite's own example of a kind, and of its webhook.
const EXAMPLE: &str = "examples/customresourceinterpreter";

pub(crate) struct Bed {
    /// Contexts `karmada-apiserver` and `karmada-host`, both of the control plane.
    pub(crate) kubeconfig: PathBuf,
    /// Folder with `bin/karmadactl`.
    pub(crate) go_path: PathBuf,
    pub(crate) home: PathBuf,
    /// The program that gives specs a cluster.
    pub(crate) hook: PathBuf,
    _env: RealEnv,
}

impl Bed {
    /// Programs write their logs into folder `built`.
    pub(crate) async fn start(product: &Path, checkout: &Path, built: &Path) -> anyhow::Result<Self> {
        eprintln!("==> a control plane and {MEMBERS} members");
        // Specs count one Pod of a DaemonSet for each member.
        let nodes =
            NodeShape { count: 1, cpu: "64".into(), memory: "256Gi".into(), pods: 1_000, ..NodeShape::default() };
        let mut env = RealEnv::start(Config { members: MEMBERS + SPARE, nodes, ..Config::default() }).await?;
        let plane = env.plane().kubeconfig().display().to_string();

        eprintln!("==> ironclad run, and its members");
        verb(&["crds", "--install", "--kubeconfig", &plane]).await?;
        let (metrics, webhooks) = (format!("127.0.0.1:{}", free_port()?), format!("127.0.0.1:{}", free_port()?));
        let clusters = free_port()?.to_string();
        let own = [
            "run", "--kubeconfig", &plane, "--metrics-bind-address", &metrics, "--webhook-bind-address", &webhooks,
            "--clusters-bind-address", &clusters,
        ];
        env.start_program("ironclad", product, own.into_iter().chain(FLAGS), built)?;
        until("Clusters are served", DEADLINE, async || {
            let path = "jsonpath={.spec.service.name} {.status.conditions[?(@.type==\"Available\")].status}";
            let asked = ["get", "apiservice", "v1alpha1.cluster.karmada.io", "-o", path];
            let served = env.plane().kubectl().run(asked).await?;
            ensure!(!served.starts_with(' ') && served.ends_with("True"), "{served}");
            Ok(())
        })
        .await?;
        // As Karmada's installation script does: members let only named users through.
        let kubectl = env.plane().kubectl();
        let user = kubectl.run(["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]).await?;
        let rights = ["--clusterrole=cluster-proxy-admin", "--user", &user];
        kubectl.run(["create", "clusterrolebinding", "suite"].into_iter().chain(rights)).await?;
        for (n, member) in env.members().iter().take(MEMBERS).enumerate() {
            let (name, member) = (format!("member{}", n + 1), member.kubeconfig().display().to_string());
            verb(&["join", &name, "--kubeconfig", &plane, "--cluster-kubeconfig", &member]).await?;
        }

        eprintln!("==> the example of an interpreter webhook");
        let kind = checkout.join(EXAMPLE).join("apis/workload.example.io_workloads.yaml").display().to_string();
        for cluster in std::iter::once(env.plane()).chain(env.members()) {
            // Too large for `apply`.
            let created = cluster.kubectl().run(["create", "-f", &kind]).await;
            created.with_context(|| format!("the kind in {}", cluster.name()))?;
        }
        start_webhook(&mut env, checkout, built).await?;

        let kubectl = env.plane().kubectl();
        until("all members are Ready", DEADLINE, async || {
            let ready = kubectl.run(["get", "clusters", "--no-headers"]).await?;
            ensure!(ready.lines().filter(|line| line.contains("True")).count() == MEMBERS, "{ready}");
            Ok(())
        })
        .await
        .with_context(|| format!("the log of Ironclad is in {}", built.display()))?;

        let home = env.directory();
        let kubeconfig = home.join("karmada.config");
        let text = fs::read_to_string(&plane).with_context(|| plane.clone())?;
        fs::write(&kubeconfig, with_contexts(&text)?).context("the kubeconfig of the suite")?;
        let go_path = home.join("go");
        fs::create_dir_all(go_path.join("bin")).context("a folder for karmadactl")?;
        symlink(product, go_path.join("bin/karmadactl")).context("karmadactl")?;
        let spares = env.members().iter().skip(MEMBERS).map(|spare| spare.kubeconfig());
        let hook = offer(&home.join("spares"), spares, &Binaries::find()?.program("kubectl"))?;
        Ok(Self { kubeconfig, go_path, home, hook, _env: env })
    }
}

/// Puts kubeconfigs of spare servers into a folder, beside the program that gives them to specs. Returns its path.
fn offer(folder: &Path, spares: impl Iterator<Item = PathBuf>, kubectl: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder).context("a folder for spare clusters")?;
    for (number, kubeconfig) in spares.enumerate() {
        let text = fs::read_to_string(&kubeconfig).with_context(|| kubeconfig.display().to_string())?;
        let spare = folder.join(format!("{number}.free"));
        fs::write(&spare, named(&text)?).with_context(|| spare.display().to_string())?;
    }
    let hook = folder.join("hook");
    fs::write(&hook, HOOK.replace(KUBECTL, &kubectl.display().to_string()))
        .context("the program that gives clusters to specs")?;
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755))
        .context("the program that gives clusters to specs")?;
    Ok(hook)
}

/// A kubeconfig whose cluster, user and context have the name that a spec says.
fn named(text: &str) -> anyhow::Result<String> {
    let mut kubeconfig: Value = serde_json::from_str(text)?;
    for list in ["clusters", "users", "contexts"] {
        kubeconfig[list][0]["name"] = CONTEXT.into();
    }
    kubeconfig["contexts"][0]["context"] = json!({"cluster": CONTEXT, "user": CONTEXT});
    kubeconfig["current-context"] = CONTEXT.into();
    Ok(kubeconfig.to_string())
}

async fn verb(arguments: &[&str]) -> anyhow::Result<()> {
    let output = ironclad(arguments).await?;
    output.success().map(drop).with_context(|| format!("ironclad {}", arguments.join(" ")))
}

/// Starts the example with a certificate of its own, and registers it as the example's manifest says.
async fn start_webhook(env: &mut RealEnv, checkout: &Path, built: &Path) -> anyhow::Result<()> {
    let certificates = env.directory().join("webhook");
    fs::create_dir_all(&certificates).context("a folder for the webhook's certificate")?;
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).context("the webhook's certificate")?;
    fs::write(certificates.join("tls.crt"), own.cert.pem()).context("the webhook's certificate")?;
    fs::write(certificates.join("tls.key"), own.signing_key.serialize_pem()).context("the webhook's key")?;
    let port = free_port()?;
    let flags = [
        format!("--kubeconfig={}", env.plane().kubeconfig().display()),
        format!("--cert-dir={}", certificates.display()),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
    ];
    env.start_program("interpreter-webhook", &built.join("interpreter-webhook"), &flags, built)?;
    let path = checkout.join(EXAMPLE).join("webhook-configuration.yaml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let registration = registration(&text, port, &own.cert.pem())?;
    env.plane().kubectl().apply(&registration).await.with_context(|| path.display().to_string()).map(drop)
}

/// The example's manifest with the address and certificate of the webhook.
fn registration(text: &str, port: u16, certificate: &str) -> anyhow::Result<String> {
    let mut manifest: Value = serde_saphyr::from_str(&text.replace("{{", "").replace("}}", ""))?;
    let webhooks = manifest["webhooks"].as_array_mut().context("it has no webhooks")?;
    for webhook in webhooks {
        let client = &mut webhook["clientConfig"];
        let url = client["url"].as_str().context("a webhook has no URL")?;
        let path = url.rsplit('/').next().unwrap_or_default();
        *client = json!({
            "url": format!("https://127.0.0.1:{port}/{path}"),
            "caBundle": ByteString(certificate.as_bytes().to_vec()),
        });
    }
    Ok(manifest.to_string())
}

/// The kubeconfig with its one context under the names that the suite knows.
fn with_contexts(text: &str) -> anyhow::Result<String> {
    let mut kubeconfig: Value = serde_json::from_str(text)?;
    let context = kubeconfig["contexts"][0]["context"].take();
    kubeconfig["contexts"] =
        ["karmada-apiserver", "karmada-host"].map(|name| json!({"name": name, "context": context})).into();
    kubeconfig["current-context"] = "karmada-apiserver".into();
    Ok(kubeconfig.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registration_points_at_the_webhook() {
        let text = "kind: A\nwebhooks:\n- name: w\n  clientConfig:\n    url: https://{{address}}:443/interpreter-workload\n    caBundle: {{caBundle}}\n";
        let made: Value = serde_json::from_str(&registration(text, 8443, "PEM").unwrap()).unwrap();
        assert_eq!(
            made,
            json!({"kind": "A", "webhooks": [{"name": "w", "clientConfig": {
                "url": "https://127.0.0.1:8443/interpreter-workload", "caBundle": "UEVN",
            }}]})
        );
    }

    #[test]
    fn a_spare_cluster_is_given_to_one_spec_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("member4.kubeconfig");
        let text = json!({
            "clusters": [{"name": "m", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "m", "user": {}}],
            "contexts": [{"name": "m", "context": {"cluster": "m", "user": "m"}}],
            "current-context": "m",
        });
        fs::write(&kubeconfig, text.to_string()).unwrap();
        let hook = offer(&folder.path().join("spares"), [kubeconfig].into_iter(), Path::new("true")).unwrap();
        let given = folder.path().join("home/.kube/new.config");
        let ask = |words: &[&str]| {
            let output = std::process::Command::new(&hook).args(words).output().unwrap();
            (output.status.success(), String::from_utf8(output.stdout).unwrap())
        };
        let path = given.display().to_string();
        assert_eq!(ask(&["create", "new", &path, "kind-new"]), (true, String::new()));
        let got: Value = serde_json::from_str(&fs::read_to_string(&given).unwrap()).unwrap();
        assert_eq!(
            got["contexts"],
            json!([{"name": "kind-new", "context": {"cluster": "kind-new", "user": "kind-new"}}])
        );
        assert_eq!(got["clusters"][0]["cluster"]["server"], "https://127.0.0.1:1");
        let (taken, says) = ask(&["create", "other", &path, "kind-other"]);
        assert!(!taken && says.starts_with("all spare clusters are taken"), "{says}");
        assert_eq!(ask(&["delete", "new", &path]), (true, String::new()));
        assert_eq!(ask(&["create", "other", &path, "kind-other"]), (true, String::new()));
    }

    #[test]
    fn both_contexts_are_the_control_plane() {
        let text = json!({
            "contexts": [{"name": "plane", "context": {"cluster": "c", "user": "u"}}], "current-context": "plane",
        });
        let made: Value = serde_json::from_str(&with_contexts(&text.to_string()).unwrap()).unwrap();
        let context = json!({"cluster": "c", "user": "u"});
        assert_eq!(
            made,
            json!({
                "contexts": [
                    {"name": "karmada-apiserver", "context": context}, {"name": "karmada-host", "context": context},
                ],
                "current-context": "karmada-apiserver",
            })
        );
    }
}
