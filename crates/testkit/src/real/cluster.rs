//! One real cluster: an API server with controllers, scheduler and kubelets.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, anyhow, ensure};
use ironclad_runtime::Api;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::{
    NodeShape,
    binaries::Binaries,
    kubectl::Kubectl,
    nodes,
    pki::{self, Authority},
    port,
    process::{Process, Spec},
    wait::{self, Pending},
};

/// Deadline of the start: two cores may be shared with a build and two more clusters.
const DEADLINE: Duration = Duration::from_secs(240);

/// Controllers of the control plane's kube-controller-manager. A stock one would also start the templates: make
/// ReplicaSets and pods of Deployments that are meant for members.
const PLANE_CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,serviceaccount-controller,\
    serviceaccount-token-controller,root-ca-certificate-publisher-controller,clusterrole-aggregation-controller,\
    persistentvolumeclaim-protection-controller,persistentvolume-protection-controller,\
    ttl-after-finished-controller,certificatesigningrequest-signing-controller,\
    certificatesigningrequest-approving-controller,certificatesigningrequest-cleaner-controller,\
    bootstrap-signer-controller,token-cleaner-controller";

/// Controllers that any kube-apiserver of the last years serves.
const UNSCHEDULED_CONTROLLERS: &str = "namespace-controller,serviceaccount-controller,serviceaccount-token-controller,\
    deployment-controller,replicaset-controller";

#[derive(Debug, Clone)]
pub(super) enum Role {
    Plane,
    Member(MemberRole),
    /// Workloads get Pods, which no node runs: its kube-apiserver may be older than the other programs.
    Unscheduled,
}

/// A cluster that runs pods.
#[derive(Debug, Clone)]
pub(super) struct MemberRole {
    pub(super) nodes: NodeShape,
    /// Further flags of its kube-controller-manager.
    pub(super) manager_flags: Vec<String>,
    /// Further flags of its kube-apiserver.
    pub(super) api_server_flags: Vec<String>,
}

#[derive(Debug)]
pub struct Cluster {
    name: String,
    port: u16,
    directory: PathBuf,
    kubeconfig: PathBuf,
    kubectl: Kubectl,
    api_server: Mutex<Option<Process>>,
    spec: Spec,
    companions: Vec<Process>,
}

impl Cluster {
    /// Starts a cluster and waits until accounts exist and, in a member, nodes are ready for pods.
    pub(super) async fn start(
        binaries: &Binaries,
        name: String,
        role: Role,
        etcd: &str,
        parent: &Path,
    ) -> anyhow::Result<Self> {
        let directory = parent.join(&name);
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        let authority = Authority::make(&directory).with_context(|| format!("certificates of {name}"))?;
        let further: &[String] = match &role {
            Role::Member(member) => &member.api_server_flags,
            Role::Plane | Role::Unscheduled => &[],
        };
        let mut cluster = Self::start_api_server_anywhere(binaries, name, etcd, directory, &authority, further).await?;
        cluster.start_companions(binaries, &role, &authority)?;
        cluster.wait_until_alive(&role).await?;
        Ok(cluster)
    }

    pub(super) async fn start_api_server_anywhere(
        binaries: &Binaries,
        name: String,
        etcd: &str,
        directory: PathBuf,
        authority: &Authority,
        further_flags: &[String],
    ) -> anyhow::Result<Self> {
        let mut tries = 0;
        loop {
            tries += 1;
            let port = port::free_port()?;
            let mut arguments = api_server_arguments(&name, port, etcd, &directory);
            arguments.extend(further_flags.iter().map(Into::into));
            let spec = Spec {
                name: "kube-apiserver".into(),
                program: binaries.program("kube-apiserver"),
                arguments,
                directory: directory.clone(),
            };
            let kubeconfig = authority.kubeconfig(&pki::ADMIN, &name, port)?;
            let cluster = Self {
                name: name.clone(),
                port,
                kubectl: Kubectl::new(binaries, &kubeconfig, &directory),
                kubeconfig,
                directory: directory.clone(),
                api_server: Mutex::new(None),
                spec,
                companions: Vec::new(),
            };
            match cluster.start_api_server().await {
                Ok(()) => return Ok(cluster),
                Err(error) => {
                    let taken = cluster.with_api_server(|process| process.is_some_and(port::was_taken));
                    if !taken || tries == port::TRIES {
                        return Err(error);
                    }
                }
            }
        }
    }

    fn start_companions(&mut self, binaries: &Binaries, role: &Role, authority: &Authority) -> anyhow::Result<()> {
        let mut start = |program: &str, client: &pki::ClientName, flags: Vec<OsString>| {
            let mut arguments = flags;
            arguments.extend(["--kubeconfig".into(), authority.kubeconfig(client, &self.name, self.port)?.into()]);
            let directory = self.directory.clone();
            let spec = Spec { name: program.into(), program: binaries.program(program), arguments, directory };
            self.companions.push(Process::start(&spec)?);
            anyhow::Ok(())
        };
        let controllers = match role {
            Role::Plane => PLANE_CONTROLLERS,
            Role::Member(..) => "*",
            Role::Unscheduled => UNSCHEDULED_CONTROLLERS,
        };
        let mut flags = manager_flags(&self.directory, controllers);
        if let Role::Member(member) = role {
            flags.extend(member.manager_flags.iter().map(Into::into));
        }
        start("kube-controller-manager", &pki::CONTROLLER_MANAGER, flags)?;
        if let Role::Member(MemberRole { nodes: shape, .. }) = role {
            start("kube-scheduler", &pki::SCHEDULER, companion_flags())?;
            let usual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/kubernetes/kwok-stages/stages.yaml");
            let stages = shape.stages.clone().unwrap_or_else(|| usual.into());
            // Leases keep the nodes Ready for the node lifecycle controller.
            let mut flags: Vec<OsString> =
                ["--manage-all-nodes", "--node-lease-duration-seconds=40", "--v=WARN", "--config"]
                    .map(Into::into)
                    .to_vec();
            flags.push(stages.into());
            start("kwok", &pki::KWOK, flags)?;
        }
        Ok(())
    }

    async fn wait_until_alive(&mut self, role: &Role) -> anyhow::Result<()> {
        let client = self.client().await?;
        if let Role::Member(MemberRole { nodes: shape, .. }) = role {
            nodes::create(&client, &self.name, shape).await?;
        }
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
        let companions = &mut self.companions;
        let what = format!("{} does its work", self.name);
        let alive = wait::poll(&what, DEADLINE, async || {
            for process in companions.iter_mut() {
                if let Some(status) = process.ended() {
                    let error = anyhow!("{} ended with {status}; {}", process.name(), process.log_tail());
                    return Err(Pending::Never(error));
                }
            }
            let look = async {
                accounts.get("default").await.context("the service account that kube-controller-manager makes")?;
                match role {
                    Role::Plane | Role::Unscheduled => Ok(()),
                    Role::Member(..) => nodes::are_ready(&client).await,
                }
            };
            look.await.map_err(Pending::Yet)
        });
        match alive.await {
            Ok(()) => Ok(()),
            Err(error) => {
                let logs: Vec<String> = self.companions.iter().map(Process::log_tail).collect();
                Err(anyhow!("{error:#}\n{}", logs.join("\n")))
            }
        }
    }

    /// The cluster's name: `plane`, `member1`, `member2` …; also the name of its kubeconfig's one context.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    pub async fn client(&self) -> anyhow::Result<Client> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// Kills the API server, so that clients get no answer. The rest of the cluster
    /// stays.
    pub fn stop_api_server(&self) {
        let process = self.api_server.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(process);
    }

    /// Starts the API server again, at the same port with the same data, and waits until it is ready.
    pub async fn start_api_server(&self) -> anyhow::Result<()> {
        let process = Process::start(&self.spec)?;
        *self.api_server.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
        let client = self.client().await?;
        let what = format!("{}'s API server is ready", self.name);
        let ready = wait::poll(&what, DEADLINE, async || {
            let ended = self.with_api_server(|process| process.and_then(Process::ended));
            if let Some(status) = ended {
                return Err(Pending::Never(anyhow!("kube-apiserver ended with {status}")));
            }
            readyz(&client).await.map_err(Pending::Yet)
        });
        ready.await.map_err(|error| {
            let tail = self.with_api_server(|process| process.map(|process| process.log_tail()));
            anyhow!("{error:#}\n{}", tail.unwrap_or_default())
        })
    }

    pub fn processes(&self) -> Vec<(String, u32)> {
        let named = |process: &Process| (format!("{}/{}", self.name, process.name()), process.id());
        let api_server = self.with_api_server(|process| process.map(|process| named(process)));
        api_server.into_iter().chain(self.companions.iter().map(named)).collect()
    }

    fn with_api_server<T>(&self, f: impl FnOnce(Option<&mut Process>) -> T) -> T {
        f(self.api_server.lock().unwrap_or_else(PoisonError::into_inner).as_mut())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // First the programs that would log errors about a missing server.
        self.companions.clear();
        self.stop_api_server();
    }
}

async fn readyz(client: &Client) -> anyhow::Result<()> {
    let answer = client.request_text(http::Request::get("/readyz").body(Vec::new())?).await?;
    ensure!(answer == "ok", "it says {answer:?}");
    Ok(())
}

fn api_server_arguments(name: &str, port: u16, etcd: &str, directory: &Path) -> Vec<OsString> {
    let file = |name: &str| directory.join(name).into_os_string();
    let mut arguments = Vec::new();
    for (flag, value) in [
        ("--etcd-servers", etcd.into()),
        ("--etcd-prefix", format!("/{name}").into()),
        ("--bind-address", "127.0.0.1".into()),
        ("--secure-port", port.to_string().into()),
        ("--cert-dir", file("certificates")),
        ("--tls-cert-file", file("server.crt")),
        ("--tls-private-key-file", file("server.key")),
        ("--client-ca-file", file("ca.crt")),
        ("--service-account-issuer", "https://kubernetes.default.svc.cluster.local".into()),
        ("--service-account-key-file", file("service-accounts.pub")),
        ("--service-account-signing-key-file", file("service-accounts.key")),
        ("--requestheader-client-ca-file", file("front-proxy-ca.crt")),
        ("--requestheader-allowed-names", pki::FRONT_PROXY.into()),
        ("--requestheader-username-headers", "X-Remote-User".into()),
        ("--requestheader-group-headers", "X-Remote-Group".into()),
        ("--requestheader-extra-headers-prefix", "X-Remote-Extra-".into()),
        ("--proxy-client-cert-file", file("front-proxy.crt")),
        ("--proxy-client-key-file", file("front-proxy.key")),
        ("--authorization-mode", "RBAC".into()),
        ("--service-cluster-ip-range", "10.96.0.0/16".into()),
        // So that it works on loopback, without a network.
        ("--advertise-address", "127.0.0.1".into()),
        ("--endpoint-reconciler-type", "none".into()),
        // Pods need not wait for ServiceAccounts of another program.
        ("--disable-admission-plugins", "ServiceAccount".into()),
    ] {
        arguments.extend([flag.into(), value]);
    }
    // As in other clusters: nodes run privileged pods.
    arguments.push("--allow-privileged=true".into());
    // For members in pull mode.
    arguments.push("--enable-bootstrap-token-auth=true".into());
    arguments
}

/// Flags common to kube-controller-manager and kube-scheduler: no leader election, no port.
fn companion_flags() -> Vec<OsString> {
    ["--leader-elect=false", "--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400"].map(Into::into).to_vec()
}

fn manager_flags(directory: &Path, controllers: &str) -> Vec<OsString> {
    let file = |name: &str| directory.join(name).into_os_string();
    let mut flags = companion_flags();
    for (flag, value) in [
        ("--controllers", controllers.into()),
        ("--root-ca-file", file("ca.crt")),
        ("--cluster-signing-cert-file", file("ca.crt")),
        ("--cluster-signing-key-file", file("ca.key")),
        ("--service-account-private-key-file", file("service-accounts.key")),
    ] {
        flags.extend([flag.into(), value]);
    }
    flags
}
