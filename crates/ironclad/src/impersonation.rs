//! Every verb acts as the user of `--as` or of the kubeconfig's `as`, and as nobody else.

use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};

use clap::{CommandFactory as _, FromArgMatches as _};
use ironclad_apiserver::{Options, Server, pki};
use ironclad_seam::Seam;
use ironclad_store::{Commit, Engine, MemoryBackend};

use crate::Ironclad;

/// Verbs that ask no control plane, and the servers, whose client is that of all verbs (`ironclad-runtime` tests it).
const LOCAL: [&str; 9] =
    ["up", "run", "estimator", "agent", "interpret", "manifests", "version", "completion", "options"];

/// Arguments of each verb that asks a control plane; `FILE` is a file with a manifest, `MEMBER` a kubeconfig.
const ARGUMENTS: [(&str, &str); 70] = [
    ("apply", "-f FILE -C member1"),
    ("rebalance", "configmap web"),
    ("rollout restart", "deploy/web"),
    ("rollout status", "deploy/web -C member1"),
    ("rollout history", "deploy/web -C member1"),
    ("rollout undo", "deploy/web -C member1"),
    ("rollout pause", "deploy/web -C member1"),
    ("rollout resume", "deploy/web -C member1"),
    ("backup", "NEW"),
    ("cordon", "member1"),
    ("crds", "--install"),
    ("dashboard", ""),
    ("doctor", "--settle 0s"),
    ("drain", "member1"),
    ("failover pause", ""),
    ("failover resume", ""),
    ("failover status", ""),
    ("get", "configmaps"),
    ("join", "member1 --cluster-kubeconfig MEMBER"),
    ("logs", "pod/web -C member1"),
    ("plan apply", "-f FILE"),
    ("plan cluster-loss", "member1"),
    ("plan load", "fhpa/web --multiply 2"),
    ("plan preemption", "web"),
    ("plan priority-class", "critical"),
    ("plan rate", "5"),
    ("plan taint", "member1 key:NoExecute"),
    (
        "register",
        "127.0.0.1:1 --token abcdef.0123456789abcdef --discovery-token-unsafe-skip-ca-verification --cluster-name member9",
    ),
    ("sim add", "member9"),
    ("sim curl", "web --from member1"),
    ("sim down", "member1"),
    ("sim flap", "member1"),
    ("sim list", ""),
    ("sim load", "member1 --cpu 1"),
    ("sim partition", "member1"),
    ("sim remove", "member1"),
    ("sim slow", "member1"),
    ("sim nodes", "member1 --count 2"),
    ("sim up", "member1"),
    ("taint", "clusters member1 key=value:NoSchedule"),
    ("token create", "--cluster-name member9"),
    ("token delete", "abcdef"),
    ("token list", ""),
    ("top cluster", ""),
    ("top node", ""),
    ("top pod", ""),
    ("tree", "configmap/web"),
    ("uncordon", "member1"),
    ("unjoin", "member1 --yes"),
    ("unregister", "member1 --yes --cluster-kubeconfig MEMBER"),
    ("why", "configmap/web"),
    ("kubeconfig", "member1"),
    ("promote", "configmap web -C member1"),
    ("describe", "pod web -C member1"),
    ("exec", "web -C member1"),
    ("attach", "web -C member1"),
    ("port-forward", "web 80 -C member1"),
    ("cp", "web:/a b -C member1"),
    ("create", "configmap a -C member1"),
    ("edit", "configmap web -C member1"),
    ("delete", "configmap web -C member1"),
    ("patch", "configmap web -p {} -C member1"),
    ("label", "configmap web a=b -C member1"),
    ("annotate", "configmap web a=b -C member1"),
    ("explain", "configmap -C member1"),
    ("api-resources", "-C member1"),
    ("api-versions", "-C member1"),
    ("auth", "whoami -C member1"),
    ("why evicted", "configmap/web"),
    ("why not", "member1 configmap/web"),
];

/// A control plane on a loopback port, as users reach it.
struct Plane {
    dir: tempfile::TempDir,
    seam: Seam,
    runtime: tokio::runtime::Runtime,
    admin: String,
}

impl Plane {
    fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let entered = runtime.enter();
        let dir = tempfile::tempdir().unwrap();
        let seam = Seam::system("plane");
        let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, seam.clock.clone()).unwrap();
        let pki = pki::Pki::load_or_create(&dir.path().join("pki"), &seam, "plane").unwrap();
        let tls = pki.server_config().unwrap();
        let (url, server) = runtime.block_on(async {
            let server: Arc<Server> =
                Server::open(Options::default(), engine.store("plane"), seam.clone()).await.unwrap();
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            (format!("https://{}", listener.local_addr().unwrap()), (server, listener))
        });
        seam.tasks.spawn("serve", async move { server.0.serve(server.1, tls).await });
        let admin = pki::kubeconfig(&[pki.admin_context("plane", &url)]);
        drop(entered);
        Self { dir, seam, runtime, admin }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Runs one verb with these arguments and returns the error that it prints, or its exit code.
    fn run(&self, verb: &str, arguments: &str) -> String {
        let file = |name: &str| self.dir.path().join(name).display().to_string();
        let words = ["ironclad"].into_iter().chain(verb.split(' ')).chain(arguments.split_whitespace());
        let line: Vec<String> = words
            .map(|word| match word {
                "FILE" => file("manifest"),
                "MEMBER" | "ADMIN" => file("admin"),
                "NOBODY" => file("nobody"),
                "NEW" => file("new.backup"),
                other => other.to_owned(),
            })
            .collect();
        let tree = Ironclad::command();
        let matches = tree.clone().try_get_matches_from(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        let ironclad = Ironclad::from_arg_matches(&matches).unwrap();
        match crate::execute(ironclad.verb, &tree) {
            Ok(()) => "done".to_owned(),
            Err(error) => ironclad_cli::report::render(&error),
        }
    }

    /// The revision of the store, which every write moves.
    fn revision(&self) -> String {
        let _entered = self.runtime.enter();
        self.runtime.block_on(async {
            let kubeconfig = kube::config::Kubeconfig::from_yaml(&self.admin).unwrap();
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
            let client = kube::Client::try_from(config).unwrap();
            let maps: ironclad_runtime::Api<k8s_openapi::api::core::v1::ConfigMap> = ironclad_runtime::Api::all(client);
            maps.list(&Default::default()).await.unwrap().metadata.resource_version.unwrap()
        })
    }
}

/// The verbs at the leaves of the tree of commands: `sim down`, but `why` too, which is both.
fn verbs(command: &clap::Command, above: &str, found: &mut Vec<String>) {
    let below: Vec<_> = command.get_subcommands().filter(|one| one.get_name() != "help").collect();
    if !above.is_empty() && (below.is_empty() || !command.is_subcommand_required_set()) {
        found.push(above.to_owned());
    }
    for one in below {
        verbs(one, format!("{above} {}", one.get_name()).trim(), found);
    }
}

#[test]
fn every_verb_is_refused_what_the_user_it_acts_as_may_not_do() {
    let plane = Plane::start();
    plane.file("admin", &plane.admin);
    plane.file("nobody", &plane.admin.replace("  user:\n", "  user:\n    as: nobody\n    as-groups: [nothing]\n"));
    plane.file("manifest", r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}"#);
    let arguments: BTreeMap<&str, &str> = ARGUMENTS.into_iter().collect();
    let mut all = Vec::new();
    verbs(&Ironclad::command(), "", &mut all);
    all.retain(|verb| !LOCAL.contains(&verb.as_str()));
    let before = plane.revision();
    let mut wrong = Vec::new();
    for verb in &all {
        let Some(arguments) = arguments.get(verb.as_str()) else {
            wrong.push(format!("{verb}: has no row here"));
            continue;
        };
        for identity in [
            "--kubeconfig ADMIN --as nobody",
            "--kubeconfig ADMIN --as nobody --as-group nothing --as-uid 1",
            "--kubeconfig ADMIN --karmada-as nobody --karmada-as-group nothing",
            "--kubeconfig NOBODY",
        ] {
            let answer = plane.run(verb, &format!("{arguments} {identity}"));
            if !answer.contains("Forbidden") || !answer.contains("User \"nobody\"") {
                wrong.push(format!("{verb} {identity}: {answer}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(plane.revision(), before, "nothing is written, neither to the control plane nor to a member");
    plane.seam.tasks.stop();
}
