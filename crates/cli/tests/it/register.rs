//! Registration over TLS with a token, and the agent's objects in a member.

use std::{path::PathBuf, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD, prelude::BASE64_URL_SAFE_NO_PAD};
use ironclad_api::{
    agents::{BOOTSTRAP_GROUP, RBAC_GENERATOR, bootstrap_rights, cluster_info},
    cluster::{Cluster, ClusterSpec, SyncMode},
};
use ironclad_apiserver::{
    Identity, Options, Server, Token,
    pki::{self, Order, Pki},
};
use ironclad_cli::{
    Outcome,
    connect::{self, Plane},
    dry_run::DryRun,
    register::{Agent, Bootstrap, credentials, install, pins, rights, rolled_out},
    report::render,
    token,
    unregister::{self, command::Identity as Asking},
};
use ironclad_runtime::{Traffic, in_process_client};
use ironclad_seam::Seam;
use ironclad_store::{Commit, Engine, MemoryBackend};
use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::Deployment,
        certificates::v1::CertificateSigningRequest,
        core::v1::{ConfigMap, Namespace, Secret, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding},
    },
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    config::Kubeconfig,
    core::{ApiResource, GroupVersionKind},
};
use ring::hmac;
use serde_json::{Value, json};

use crate::support::World;

const TOKEN: &str = "abcdef.0123456789abcdef";

/// A control plane on a loopback port whose bootstrap token is a static one, and that signs what it approves.
struct Served {
    url: String,
    admin: Client,
    pki: Pki,
    folder: tempfile::TempDir,
    seam: Seam,
}

impl Served {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let seam = Seam::system("plane");
        let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, seam.clock.clone()).unwrap();
        let pki = Pki::load_or_create(&folder.path().join("pki"), &seam, "plane").unwrap();
        let identity = Identity::user("system:bootstrap:abcdef", &["system:bootstrappers", BOOTSTRAP_GROUP]);
        let tokens = vec![Token { token: TOKEN.into(), identity }];
        let options = Options { tokens, ..Options::default() };
        let server: Arc<Server> = Server::open(options, engine.store("plane"), seam.clone()).await.unwrap();
        let admin = in_process_client(server.in_process(Identity::admin("tester")), Arc::new(Traffic::default()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let tls = pki.server_config().unwrap();
        seam.tasks.spawn("serve", async move { server.serve(listener, tls).await });
        let served = Self { url, admin, pki, folder, seam };
        for object in bootstrap_rights(true) {
            served.put(object).await;
        }
        served.publish(&cluster_info("https://elsewhere:6443", &BASE64_STANDARD.encode(served.pki.ca()))).await;
        served
    }

    async fn put(&self, object: Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let version = text("/apiVersion");
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &text("/kind")));
        let api: Api<DynamicObject> = match text("/metadata/namespace").as_str() {
            "" => Api::all_with(self.admin.clone(), &resource),
            namespace => Api::namespaced_with(self.admin.clone(), namespace, &resource),
        };
        let params = PatchParams::apply("test").force();
        api.patch(&text("/metadata/name"), &params, &Patch::Apply(&object)).await.unwrap();
    }

    /// Publishes a kubeconfig with a signature by the token.
    async fn publish(&self, kubeconfig: &str) {
        let encode = |text: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(text);
        let header = encode(br#"{"alg":"HS256","kid":"abcdef"}"#);
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"0123456789abcdef");
        let tag = hmac::sign(&key, format!("{header}.{}", encode(kubeconfig.as_bytes())).as_bytes());
        let signature = format!("{header}..{}", encode(tag.as_ref()));
        self.put(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info", "namespace": "kube-public"},
            "data": {"kubeconfig": kubeconfig, "jws-kubeconfig-abcdef": signature},
        }))
        .await;
    }

    fn bootstrap(&self) -> Bootstrap {
        Bootstrap {
            server: self.url.clone(),
            token: TOKEN.parse().unwrap(),
            ca_hashes: pins::of(self.pki.ca().as_bytes()),
            unsafe_skip: false,
            timeout: Duration::from_secs(20),
            cluster: "m1".into(),
            expiration_seconds: 3600,
        }
    }

    /// Approves and signs the first request that appears and is not decided, or denies it.
    fn decide(&self, verdict: &'static str) -> ironclad_seam::TaskHandle<()> {
        let (admin, authority, clock) = (self.admin.clone(), self.pki.authority().clone(), self.seam.clock.clone());
        self.seam.tasks.spawn("approver", async move {
            let requests: Api<CertificateSigningRequest> = Api::all(admin);
            let conditions = |of: &CertificateSigningRequest| {
                of.status.clone().and_then(|status| status.conditions).unwrap_or_default()
            };
            let found = loop {
                let found = requests.list(&ListParams::default()).await.unwrap().items;
                match found.into_iter().find(|found| conditions(found).is_empty()) {
                    Some(found) => break found,
                    None => clock.sleep(Duration::from_millis(20)).await,
                }
            };
            let name = found.name_any();
            let condition = json!({"type": verdict, "status": "True", "reason": "Test", "message": "so be it"});
            let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
            requests.patch_approval(&name, &PatchParams::default(), &patch).await.unwrap();
            if verdict == "Approved" {
                let block = x509_parser::pem::Pem::iter_from_buffer(&found.spec.request.0).next().unwrap().unwrap();
                let (now, usages) = (clock.wall(), found.spec.usages.unwrap());
                let not_after = now + Duration::from_secs(3600);
                let order = Order { request: &block.contents, usages: &usages, not_before: now, not_after };
                let pem = authority.sign(order, now).unwrap();
                let patch = Patch::Merge(json!({"status": {"certificate": ByteString(pem.into_bytes())}}));
                requests.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
            }
        })
    }
}

#[tokio::test]
async fn token_leads_to_the_credentials_of_an_agent() {
    let served = Served::new().await;
    let approver = served.decide("Approved");
    let kubeconfig = credentials(&served.bootstrap(), &served.seam.clock, |_| ()).await.unwrap();
    approver.await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&kubeconfig).unwrap();
    let server = kubeconfig.clusters[0].cluster.as_ref().unwrap().server.clone();
    assert_eq!(server, Some(served.url.clone()), "the address that was given, not the one that is published");
    let agent = connect::client(connect::config(kubeconfig, None, "control plane").await.unwrap()).unwrap();
    let refused = Api::<Secret>::all(agent).list(&ListParams::default()).await.unwrap_err();
    assert!(refused.to_string().contains("system:karmada:agent:m1"), "{refused}");
    served.seam.tasks.stop();
}

/// Karmada's control plane leaves the rights to whoever registers: with a certificate of an administrator.
#[tokio::test]
async fn rights_that_the_control_plane_does_not_make_are_made_with_the_token() {
    let served = Served::new().await;
    served
        .put(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "all-rights-as-with-karmada"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": RBAC_GENERATOR}],
        }))
        .await;
    let (bootstrap, clock) = (served.bootstrap(), &served.seam.clock);
    let mut crds = ironclad_api::crds::crds();
    crds.retain(|crd| crd.spec.group == "cluster.karmada.io");
    ironclad_cli::crds::install(&served.admin, clock, crds, Duration::from_secs(60), false).await.unwrap();
    let approver = served.decide("Approved");
    let own = credentials(&bootstrap, clock, |_| ()).await.unwrap();
    approver.await.unwrap();
    let ensure = async |id: &str| {
        let mut notes = Vec::new();
        let done =
            rights::ensure(&bootstrap, &own, Some(id), Duration::ZERO, clock, |note| notes.push(note.to_owned()));
        let done = done.await.map_err(|error| render(&error));
        (done, notes)
    };
    let denier = served.decide("Denied");
    let (done, notes) = ensure("1").await;
    denier.await.unwrap();
    assert!(done.is_ok() && notes[1].contains("denied: Test: so be it"), "the agent waits: {done:?} {notes:?}");
    let approver = served.decide("Approved");
    let (done, notes) = ensure("1").await;
    approver.await.unwrap();
    assert!(done.is_ok() && notes.len() == 1, "{done:?} {notes:?}");
    let (done, notes) = ensure("1").await;
    assert!(done.is_ok() && notes.is_empty(), "the rights are there: {done:?} {notes:?}");
    let cluster = ClusterSpec { id: "2".into(), sync_mode: SyncMode::Pull, ..ClusterSpec::default() };
    Api::all(served.admin.clone()).create(&PostParams::default(), &Cluster::new("m1", cluster)).await.unwrap();
    let (done, _) = ensure("1").await;
    assert!(done.is_err_and(|error| error.contains("another identity (2, not 1)")));
    served.seam.tasks.stop();
}

#[tokio::test]
async fn other_control_planes_and_tokens_are_refused() {
    let served = Served::new().await;
    let short = || Bootstrap { timeout: Duration::ZERO, ..served.bootstrap() };
    let other = served.decide("Denied");
    for (name, bootstrap, want) in [
        ("another hash", Bootstrap { ca_hashes: vec![format!("sha256:{}", "0".repeat(64))], ..short() }, "public key"),
        ("no hash", Bootstrap { ca_hashes: vec![], ..short() }, "no hash of its certificate"),
        ("another secret", Bootstrap { token: "abcdef.0000000000000000".parse().unwrap(), ..short() }, "signature"),
        (
            "another id",
            Bootstrap { token: "abcdee.0123456789abcdef".parse().unwrap(), ..short() },
            "does not know the token",
        ),
        ("nobody there", Bootstrap { server: "https://127.0.0.1:1".into(), ..short() }, "timed out"),
        ("a reserved name", Bootstrap { cluster: "rbac-generator".into(), ..short() }, "can't be used"),
        ("denied", Bootstrap { ca_hashes: vec![], unsafe_skip: true, ..served.bootstrap() }, "denied: Test: so be it"),
    ] {
        let error = credentials(&bootstrap, &served.seam.clock, |_| ()).await.unwrap_err();
        let text = render(&error);
        assert!(text.contains(want), "{name}: {text}");
        assert!(!text.contains("0123456789abcdef"), "{name}: a secret is not printed");
    }
    other.await.unwrap();
    served.seam.tasks.stop();
}

#[tokio::test]
async fn tokens_are_created_listed_and_deleted() {
    let served = Served::new().await;
    let file: PathBuf = served.folder.path().join("admin");
    std::fs::write(&file, pki::kubeconfig(&[served.pki.admin_context("plane", &served.url)])).unwrap();
    let run = async |verb: token::command::Verb| {
        let plane = Plane { kubeconfig: Some(file.clone()), ..Plane::default() };
        token::command::run(&token::command::Command { verb, plane }, &served.seam.clock).await
    };
    let create = |token: &str| {
        token::command::Verb::Create(token::command::Create {
            new_token: Some(token.into()),
            ttl: Duration::from_secs(60),
            usages: vec!["signing".into(), "authentication".into()],
            groups: vec![BOOTSTRAP_GROUP.into()],
            description: String::new(),
            cluster_name: Some("m1".into()),
            print_register_command: true,
        })
    };
    run(create("ghijkl.0123456789abcdef")).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(served.admin.clone(), "kube-system");
    let made = secrets.get("bootstrap-token-ghijkl").await.unwrap();
    assert_eq!(made.type_.as_deref(), Some("bootstrap.kubernetes.io/token"));
    let again = render(&run(create("ghijkl.aaaaaaaaaaaaaaaa")).await.unwrap_err());
    assert!(again.contains("because there is one of this id") && !again.contains("aaaa"), "{again}");
    let list = token::command::Verb::List { show_secrets: false, output: ironclad_cli::print::Output::Table };
    run(list).await.unwrap();
    run(token::command::Verb::Delete { tokens: vec!["ghijkl".into()] }).await.unwrap();
    assert_eq!(secrets.get_opt("bootstrap-token-ghijkl").await.unwrap().map(|one| one.name_any()), None);
    served.seam.tasks.stop();
}

fn agent() -> Agent {
    Agent {
        cluster: "member1".into(),
        namespace: "karmada-system".into(),
        cluster_namespace: "karmada-cluster".into(),
        image: "ironclad:test".into(),
        replicas: 1,
        ..Agent::default()
    }
}

fn kubeconfig_of(cluster: &str, certificate: &str) -> String {
    ironclad_cli::register::kubeconfig("https://plane:6443", "ca", cluster, certificate, "key").unwrap()
}

#[tokio::test(start_paused = true)]
async fn registering_again_repairs_and_renews() {
    let world = World::bare().await;
    let member = &world.member.client;
    let first = install(member, &agent(), &kubeconfig_of("member1", "one")).await.unwrap();
    assert!(first.iter().all(|(_, outcome)| *outcome == Outcome::Created), "{first:?}");
    let roles: Api<ClusterRole> = Api::all(member.clone());
    roles.delete("karmada-agent", &Default::default()).await.unwrap();
    let again = install(member, &agent(), &kubeconfig_of("member1", "two")).await.unwrap();
    let outcome = |name: &str| again.iter().find(|(found, _)| found.ends_with(name)).unwrap().1;
    assert_eq!(
        ["Namespace", "Secret", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"].map(outcome),
        [Outcome::Unchanged, Outcome::Updated, Outcome::Unchanged, Outcome::Created, Outcome::Unchanged]
    );
    let other = Agent { cluster: "member2".into(), ..agent() };
    let error = install(member, &other, &kubeconfig_of("member2", "one")).await.unwrap_err();
    let text = render(&error.into());
    assert!(text.contains("karmada-system/karmada-kubeconfig Secret already exists"), "{text}");
    assert!(text.contains("it is of the agent of cluster member1"), "{text}");

    let clock = &world.seam.clock;
    let late = rolled_out(member, clock, &agent(), Duration::from_secs(2)).await.unwrap_err();
    assert!(render(&late.into()).contains("ironclad:test"));
    let deployments: Api<Deployment> = Api::namespaced(member.clone(), "karmada-system");
    let generation = deployments.get("karmada-agent").await.unwrap().metadata.generation;
    let status = json!({"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1});
    let patch = Patch::Merge(json!({ "status": status }));
    deployments.patch_status("karmada-agent", &PatchParams::default(), &patch).await.unwrap();
    rolled_out(member, clock, &agent(), Duration::from_secs(2)).await.unwrap();
}

fn unregister_command() -> unregister::command::Command {
    unregister::command::Command {
        cluster: "member1".into(),
        cluster_kubeconfig: PathBuf::new(),
        cluster_context: None,
        namespace: "karmada-system".into(),
        agent_name: "karmada-agent".into(),
        cluster_namespace: "karmada-cluster".into(),
        drain: false,
        no_drain: false,
        keep_workloads: false,
        yes: true,
        wait: Duration::from_secs(60),
        force: false,
        dry_run: DryRun::None,
        karmada_config: None,
        plane: Plane::default(),
    }
}

async fn unregister(world: &World, command: &unregister::command::Command) -> Result<String, String> {
    let plane = (world.plane.client.clone(), Asking::Named);
    let done = unregister::command::whole(plane, &world.member.client, &world.seam.clock, command, |_| ()).await;
    done.map_err(|error| render(&error))
}

async fn registered(mode: SyncMode, id: Option<&str>) -> World {
    let world = World::new().await;
    install(&world.member.client, &agent(), &kubeconfig_of("member1", "one")).await.unwrap();
    let own = Api::<Namespace>::all(world.member.client.clone()).get("kube-system").await.unwrap().uid().unwrap();
    let id = id.map_or(own, str::to_owned);
    let spec = ClusterSpec { id, sync_mode: mode, ..ClusterSpec::default() };
    let clusters: Api<Cluster> = Api::all(world.plane.client.clone());
    clusters.create(&PostParams::default(), &Cluster::new("member1", spec)).await.unwrap();
    world
}

#[tokio::test(start_paused = true)]
async fn unregistering_deletes_the_cluster_and_the_agent() {
    let world = registered(SyncMode::Pull, None).await;
    let member = &world.member.client;
    // Of somebody else, in the agent's namespace.
    let map = ConfigMap { metadata: serde_json::from_value(json!({"name": "other"})).unwrap(), ..ConfigMap::default() };
    Api::<ConfigMap>::namespaced(member.clone(), "karmada-system").create(&PostParams::default(), &map).await.unwrap();
    world.member.writes();
    let dry = unregister::command::Command { dry_run: DryRun::Server, ..unregister_command() };
    assert_eq!(unregister(&world, &dry).await.unwrap(), "cluster(member1) would be unregistered (server dry run)\n");
    assert!(Api::<Cluster>::all(world.plane.client.clone()).get_opt("member1").await.unwrap().is_some());

    let done = unregister(&world, &unregister_command()).await.unwrap();
    assert_eq!(done, "cluster(member1) is unregistered successfully\n");
    assert!(Api::<Cluster>::all(world.plane.client.clone()).get_opt("member1").await.unwrap().is_none());
    let gone = [
        Api::<Deployment>::namespaced(member.clone(), "karmada-system")
            .get_opt("karmada-agent")
            .await
            .unwrap()
            .is_none(),
        Api::<Secret>::namespaced(member.clone(), "karmada-system")
            .get_opt("karmada-kubeconfig")
            .await
            .unwrap()
            .is_none(),
        Api::<ServiceAccount>::namespaced(member.clone(), "karmada-system")
            .get_opt("karmada-agent-sa")
            .await
            .unwrap()
            .is_none(),
        Api::<ClusterRole>::all(member.clone()).get_opt("karmada-agent").await.unwrap().is_none(),
        Api::<ClusterRoleBinding>::all(member.clone()).get_opt("karmada-agent").await.unwrap().is_none(),
    ];
    assert_eq!(gone, [true; 5]);
    assert!(Api::<Namespace>::all(member.clone()).get_opt("karmada-system").await.unwrap().is_some());
    let again = unregister(&world, &unregister_command()).await.unwrap_err();
    assert!(again.starts_with("error: no cluster object member1 found in karmada control Plane"), "{again}");
}

#[tokio::test(start_paused = true)]
async fn push_members_and_other_members_are_not_unregistered() {
    for (name, mode, id, want) in [
        ("push", SyncMode::Push, None, "cluster member1 is a Push mode member cluster, please use command `unjoin`"),
        ("another member", SyncMode::Pull, Some("2"), "--cluster-kubeconfig leads to another cluster"),
    ] {
        let world = registered(mode, id).await;
        let error = unregister(&world, &unregister_command()).await.unwrap_err();
        assert!(error.contains(want), "{name}: {error}");
        let deployments: Api<Deployment> = Api::namespaced(world.member.client.clone(), "karmada-system");
        assert!(deployments.get_opt("karmada-agent").await.unwrap().is_some(), "{name}");
    }
}
