//! Over a real socket: TLS, client certificates, tokens, and the real kubectl.

use std::{path::PathBuf, process::Command, sync::Arc};

use ironclad_apiserver::{Identity, Options, Server, Token, pki};
use ironclad_seam::{Clock, Seam};
use ironclad_store::{Commit, Engine, MemoryBackend};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, Config,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};

/// A server on a loopback port with its kubeconfig.
pub(crate) struct Served {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) seam: Seam,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) pki: pki::Pki,
    pub(crate) url: String,
    pub(crate) server: Arc<Server>,
}

pub(crate) async fn serve() -> Served {
    serve_with(Options::default()).await
}

/// With these options, and a robot's token and the key of its own certificates.
pub(crate) async fn serve_with(options: Options) -> Served {
    serve_in(options, Seam::system("served")).await
}

async fn serve_in(options: Options, seam: Seam) -> Served {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Thread, seam.clock.clone()).unwrap();
    let pki = pki::Pki::load_or_create(&dir.path().join("pki"), &seam, "test").unwrap();
    let token = Token { token: "s3cret".into(), identity: Identity::user("robot", &[]) };
    let token_key = Some(pki.token_key().clone());
    let options = Options { tokens: vec![token], token_key, ..options };
    let server = Server::open(options, engine.store("plane"), seam.clone()).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let tls = pki.server_config().unwrap();
    let serving = server.clone();
    seam.tasks.spawn("serve", async move { serving.serve(listener, tls).await });
    let kubeconfig = dir.path().join("kubeconfig");
    pki::write_private(&kubeconfig, pki::kubeconfig(&[pki.admin_context("plane", &url)]).as_bytes()).unwrap();
    Served { dir, seam, kubeconfig, pki, url, server }
}

impl Served {
    /// The address of the listener.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("https://")
    }

    pub(crate) async fn client(&self, client: Option<pki::Pair>, token: Option<&str>) -> Client {
        let mut context = self.pki.admin_context("plane", &self.url);
        if let Some(client) = client {
            context.client = client;
        }
        let mut text = pki::kubeconfig(&[context]);
        if let Some(token) = token {
            let user = text.find("    client-certificate-data").unwrap();
            let end = text.find("contexts:").unwrap();
            text.replace_range(user..end, &format!("    token: {token}\n"));
        }
        let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_tokens_authenticate() {
    let served = serve().await;
    let admin = served.client(None, None).await;
    let names = Api::<Namespace>::all(admin).list(&ListParams::default()).await.unwrap();
    assert_eq!(names.items.len(), 4);
    let alice = served.pki.client(&served.seam, "alice", "devs").unwrap();
    let refused =
        Api::<ConfigMap>::default_namespaced(served.client(Some(alice), None).await).list(&ListParams::default()).await;
    let text = "configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\"";
    assert_eq!(api_message(refused), text);
    let robot = served.client(None, Some("s3cret")).await;
    let refused = Api::<Namespace>::all(robot).list(&ListParams::default()).await;
    assert_eq!(
        api_message(refused),
        "namespaces is forbidden: User \"robot\" cannot list resource \"namespaces\" in API group \"\" at the cluster scope"
    );
    let stranger = served.client(None, Some("wrong")).await;
    assert_eq!(api_message(stranger.apiserver_version().await), "Unauthorized");
    served.seam.tasks.stop();
    served.seam.tasks.ended().await;
}

/// Whoever compares clocks, as `ironclad doctor` does, wants to know what the server's own says now.
#[tokio::test(flavor = "multi_thread")]
async fn answers_are_dated_by_the_clock_of_the_server() {
    let system = Seam::system("served");
    let behind = system.clock.wall() - std::time::Duration::from_secs(3_600);
    let served = serve_in(Options::default(), Seam { clock: Clock::simulated(behind), ..system }).await;
    let client = served.client(None, None).await;
    let request = http::Request::get("/version").body(kube::client::Body::empty()).unwrap();
    let answer = client.send(request).await.unwrap();
    let date = answer.headers()[http::header::DATE].to_str().unwrap();
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).unwrap();
    assert!(date.duration_since(behind).as_secs().abs() < 60, "{date}, and the server began at {behind}");
    served.seam.tasks.stop();
    served.seam.tasks.ended().await;
}

fn api_message<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> String {
    match result {
        Err(kube::Error::Api(status)) => status.message.clone(),
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_persistent_and_private() {
    use std::os::unix::fs::PermissionsExt;
    let served = serve().await;
    let dir = served.dir.path().join("pki");
    let again = pki::Pki::load_or_create(&dir, &served.seam, "test").unwrap();
    assert_eq!(again.ca(), served.pki.ca());
    assert_eq!(again.admin().key, served.pki.admin().key);
    for entry in std::fs::read_dir(&dir).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
    }
    std::fs::write(dir.join("server.crt"), "nonsense").unwrap();
    let renewed = pki::Pki::load_or_create(&dir, &served.seam, "test").unwrap();
    assert_eq!(renewed.ca(), served.pki.ca());
    renewed.server_config().unwrap();
    served.seam.tasks.kill();
}

/// The real kubectl, if there is one.
fn kubectl_binary() -> Option<PathBuf> {
    let given = std::env::var_os("IRONCLAD_KUBECTL").map(PathBuf::from);
    let built = std::env::var_os("IRONCLAD_KUBERNETES_BIN").map(|dir| PathBuf::from(dir).join("kubectl"));
    given.into_iter().chain(built).find(|p| p.exists())
}

/// Says by name that a test did nothing; where everything is there to be had, that is a failure.
fn skip() {
    use std::io::Write;
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    assert!(std::env::var_os("CI").is_none(), "{test}: no kubectl");
    eprintln!("skipped: {test}: no kubectl");
    if let Some(file) = std::env::var_os("IRONCLAD_SKIPPED") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file).unwrap();
        writeln!(file, "{test}: no kubectl").unwrap();
    }
}

/// Runs kubectl against a server.
pub(crate) struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Kubectl {
    pub(crate) fn of(served: &Served) -> Option<Self> {
        let Some(binary) = kubectl_binary() else {
            skip();
            return None;
        };
        Some(Self { binary, kubeconfig: served.kubeconfig.clone(), home: served.dir.path().into() })
    }

    fn command(&self, arguments: &str) -> tokio::process::Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments.split_whitespace())
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("KUBECONFIG", &self.kubeconfig);
        tokio::process::Command::from(command)
    }

    /// Output and error text of a command that is to succeed.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &str, input: &str) -> impl Future<Output = String> {
        let mut command = self.command(arguments);
        let (arguments, input) = (arguments.to_owned(), input.to_owned());
        async move {
            use tokio::io::AsyncWriteExt;
            command
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped());
            let mut child = command.kill_on_drop(true).spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            stdin.write_all(input.as_bytes()).await.unwrap();
            drop(stdin);
            let done = tokio::time::timeout(std::time::Duration::from_secs(60), child.wait_with_output()).await;
            let output = done.unwrap_or_else(|_| panic!("kubectl {arguments} takes too long")).unwrap();
            let text =
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "kubectl {arguments}\n{text}");
            text
        }
    }
}

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: nginx, image: 'nginx:1.27', ports: [{containerPort: 80}]}
";

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_end_to_end() {
    let served = serve().await;
    let Some(kubectl) = Kubectl::of(&served) else { return };
    assert_eq!(kubectl.run("apply -f -", DEPLOYMENT).await, "deployment.apps/web created\n");
    assert_eq!(kubectl.run("apply -f -", DEPLOYMENT).await, "deployment.apps/web unchanged\n");
    let changed = DEPLOYMENT.replace("nginx:1.27", "nginx:1.28").replace("replicas: 2", "replicas: 3");
    assert_eq!(kubectl.run("apply -f -", &changed).await, "deployment.apps/web configured\n");
    let wide = kubectl.run("get deploy -o wide", "").await;
    let lines: Vec<Vec<&str>> = wide.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]);
    assert_eq!(
        (lines[1][0], lines[1][1], lines[1][5], lines[1][6], lines[1][7]),
        ("web", "0/3", "nginx", "nginx:1.28", "app=web")
    );
    assert_eq!(kubectl.run("get deploy web -o jsonpath={.spec.replicas}", "").await, "3");
    let described = kubectl.run("describe deploy web", "").await;
    assert!(described.contains("Replicas:               3 desired"), "{described}");
    let explained = kubectl.run("explain deployment.spec.replicas", "").await;
    assert!(explained.contains("FIELD: replicas <integer>"), "{explained}");
    let resources = kubectl.run("api-resources", "").await;
    assert!(resources.contains("deployments") && resources.contains("customresourcedefinitions"), "{resources}");
    assert_eq!(kubectl.run("scale deploy web --replicas=5", "").await, "deployment.apps/web scaled\n");
    assert_eq!(kubectl.run("label deploy web tier=front", "").await, "deployment.apps/web labeled\n");
    kubectl.run("apply --server-side --force-conflicts -f -", &changed).await;
    assert_eq!(kubectl.run("get deploy web -o jsonpath={.spec.replicas}", "").await, "3");
    assert_eq!(kubectl.run("delete deploy web", "").await, "deployment.apps \"web\" deleted from default namespace\n");
    served.seam.tasks.stop();
    served.seam.tasks.ended().await;
}

const CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.t.io}
spec:
  group: t.io
  scope: Namespaced
  names: {plural: foos, kind: Foo}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer, description: How large.}}}
";

const FOO: &str = "{apiVersion: t.io/v1, kind: Foo, metadata: {name: a}, spec: {size: 3}}";

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_with_a_custom_resource() {
    let served = serve().await;
    let Some(kubectl) = Kubectl::of(&served) else { return };
    assert_eq!(
        kubectl.run("apply -f -", CRD).await,
        "customresourcedefinition.apiextensions.k8s.io/foos.t.io created\n"
    );
    kubectl.run("wait --for=condition=Established crd/foos.t.io", "").await;
    assert_eq!(kubectl.run("apply -f -", FOO).await, "foo.t.io/a created\n");
    assert_eq!(kubectl.run("apply -f -", &FOO.replace('3', "4")).await, "foo.t.io/a configured\n");
    assert_eq!(kubectl.run("get foos", "").await, "NAME   SIZE\na      4\n");
    assert!(kubectl.run("explain foo.spec.size", "").await.contains("How large."));
    assert_eq!(
        kubectl.run("delete crd foos.t.io", "").await,
        "customresourcedefinition.apiextensions.k8s.io \"foos.t.io\" deleted\n"
    );
    served.seam.tasks.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_get_watches() {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let served = serve().await;
    let Some(kubectl) = Kubectl::of(&served) else { return };
    let before = served.server.store().watches();
    let mut child = kubectl
        .command("get configmaps -w --output-watch-events")
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // An object that is deleted before kubectl lists is never shown.
    let watches = async {
        while served.server.store().watches() <= before {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), watches).await.expect("kubectl watches in time");
    kubectl.run("create -f -", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: '1'}}").await;
    kubectl.run("delete configmap a", "").await;
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let line =
            tokio::time::timeout(std::time::Duration::from_secs(30), lines.next_line()).await.expect("lines in time");
        seen.push(line.unwrap().expect("a line").split_whitespace().take(3).collect::<Vec<_>>().join(" "));
    }
    assert_eq!(seen, ["EVENT NAME DATA", "ADDED a 1", "DELETED a 1"]);
    child.kill().await.unwrap();
    served.seam.tasks.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_imperative_commands_send_protobuf() {
    let served = serve().await;
    let Some(kubectl) = Kubectl::of(&served) else { return };
    for (arguments, want) in [
        ("create namespace shop", "namespace/shop created\n"),
        ("create configmap c --from-literal=a=b -n shop", "configmap/c created\n"),
        ("create secret generic s --from-literal=a=b -n shop", "secret/s created\n"),
        ("create deployment web --image=nginx:1 --replicas=2 --port=80 -n shop", "deployment.apps/web created\n"),
        ("create service clusterip web --tcp=80:8080 -n shop", "service/web created\n"),
        ("create serviceaccount robot -n shop", "serviceaccount/robot created\n"),
        ("create job once --image=busybox -n shop -- true", "job.batch/once created\n"),
        ("create role r --verb=get --resource=pods -n shop", "role.rbac.authorization.k8s.io/r created\n"),
        ("create rolebinding rb --role=r --user=alice -n shop", "rolebinding.rbac.authorization.k8s.io/rb created\n"),
        ("create quota q --hard=pods=3 -n shop", "resourcequota/q created\n"),
        ("create pdb p --selector=app=web --min-available=1 -n shop", "poddisruptionbudget.policy/p created\n"),
        ("create priorityclass high --value=1000", "priorityclass.scheduling.k8s.io/high created\n"),
        ("create ingress i --rule=a.example/*=web:80 -n shop", "ingress.networking.k8s.io/i created\n"),
        ("auth can-i create pods", "yes\n"),
        ("get configmap c -n shop -o jsonpath={.data.a}", "b"),
        ("get secret s -n shop -o jsonpath={.data.a}", "Yg=="),
        ("get service web -n shop -o jsonpath={.spec.ports[0].targetPort}", "8080"),
        ("get pdb p -n shop -o jsonpath={.spec.minAvailable}", "1"),
        ("get deploy web -n shop -o jsonpath={.spec.template.spec.containers[0].ports[0].containerPort}", "80"),
        ("run p --image=nginx:1 -n shop", "pod/p created\n"),
        ("set image deploy/web nginx=nginx:2 -n shop", "deployment.apps/web image updated\n"),
        ("autoscale deploy web --max=3 -n shop", "horizontalpodautoscaler.autoscaling/web autoscaled\n"),
        ("expose deploy web --name=again --port=81 -n shop", "service/again exposed\n"),
        ("rollout restart deploy web -n shop", "deployment.apps/web restarted\n"),
        ("annotate deploy web a=b -n shop", "deployment.apps/web annotated\n"),
        ("version -o yaml", "gitVersion"),
        ("cluster-info", "Kubernetes control plane"),
        ("get all -n shop", "deployment.apps/web"),
        ("get events -n shop", "No resources found"),
        ("delete pod p -n shop --now", "pod \"p\" deleted"),
        ("diff -f -", ""),
        ("auth whoami", "ironclad-admin"),
        ("auth whoami --as alice --as-group devs", "alice"),
    ] {
        let got = kubectl.run(arguments, "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}").await;
        assert!(got.contains(want), "kubectl {arguments}: {got}");
    }
    served.seam.tasks.kill();
}
