//! `ironclad up`: an embedded control plane, all controllers and simulated members in one process.

pub(crate) mod backup;
pub(crate) mod local;
mod members;
#[cfg(test)]
mod one_watch;

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use ironclad_admission::convert::convert;
use ironclad_api::{
    crds::{crds, serve_legacy_bindings, simulated_cluster_crd},
    namespaces,
    roles::{CLUSTER_PROXY_ADMIN, cluster_roles},
};
use ironclad_apiserver::{FeatureGates, Identity, Options as ServerOptions, Server, pki};
use ironclad_cli::{
    connect::Plane,
    dashboard::{self, Dashboard},
    print,
    report::Misused,
};
use ironclad_controllers::Controllers;
use ironclad_extension::{
    CertificateExpiry, FrontProxy, NetworkCaller, NetworkForwarder,
    admission::InProcessAdmission,
    agents::{self, ClusterInfo, Published},
    explain::Explain,
    metrics::MetricsRoute,
    proxy::{CONNECTS, ClusterProxy, ProxyObserved},
};
use ironclad_fleet::gates::Gate;
use ironclad_kubecontrollers::{self as kubecontrollers, AutoscalingOptions, Cluster, Controller};
use ironclad_members::Connections;
use ironclad_runtime::{Api, Scope, Traffic, Tunnels, in_process_client};
use ironclad_seam::Seam;
use ironclad_store::{Commit, Engine, RedbBackend, restore};
use k8s_openapi::{
    api::{
        core::v1::Namespace,
        rbac::v1::{ClusterRoleBinding, RoleRef, Subject},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        CustomResourceDefinition, ServiceReference, WebhookClientConfig,
    },
};
use kube::{
    Client, Resource as _, ResourceExt as _,
    api::{ObjectMeta, PostParams},
};
use parking_lot::Mutex;
use tokio::{net::TcpListener, sync::Notify};

use crate::{
    announce::announce,
    demo::{self, Demo},
    explain::Here,
    flags::{AdmissionFlags, ControllerFlags, accepted::AcceptedElectionArgs, bind, metrics::MetricsFlags},
    leader, memory, metrics,
    ops::{Ops, server::Embedded},
    signals::Stop,
    term::{Parts, Present},
};
use members::{FleetArgs, KubeconfigFile, SimulatedMembers, Start};

/// Clients get this long at the end until their connections are cut off.
const STOP_TIME_MAX: Duration = Duration::from_secs(8);
/// CRDs that are installed at once.
const CRDS_AT_ONCE: usize = 16;
/// Interval of looking whether certificates end.
const RENEW_EVERY: Duration = Duration::from_secs(12 * 3_600);
const DEMO_NEEDS: &str = "--demo needs three members\n  try: --clusters 3";
/// User of the controllers, whose own writes are not reviewed (specification/admission.md 1.3).
const CONTROLLERS_USER: &str = "ironclad-controllers";

/// Run everything in one process: an embedded, durable API server, all controllers, and simulated members.
///
/// The same --data-dir resumes where it was. ctrl-c or SIGTERM ends it cleanly.
#[derive(clap::Args, Debug)]
#[command(before_help = "Start here: ironclad up --demo, in another terminal ironclad get clusters.
All flags have defaults; those that matter first are --data-dir, --clusters and --listen. --help has all of them.")]
#[command(after_help = "Examples:
  ironclad up --demo
  ironclad up --demo failover
  ironclad up --clusters 5 --nodes 10 --data-dir /var/lib/ironclad
  ironclad up --fleet fleet.yaml
  ironclad up --demo --dashboard
  ironclad up --data-dir /var/lib/ironclad --restore fleet.backup
  kubectl --kubeconfig ~/.local/share/ironclad/kubeconfig get clusters
  kubectl --kubeconfig ~/.local/share/ironclad/kubeconfig --context member1 get pods -A")]
pub(crate) struct UpArgs {
    /// Data directory [default: $XDG_DATA_HOME/ironclad, else ~/.local/share/ironclad]
    #[arg(long, env = "IRONCLAD_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Address of the API, with TLS
    #[arg(long, env = "IRONCLAD_LISTEN", default_value = "127.0.0.1:6443", value_name = "ADDRESS:PORT")]
    pub listen: String,
    /// Further name or address in the API's certificate; the first one is the server in the kubeconfig. May repeat
    #[arg(long, env = "IRONCLAD_TLS_SAN", value_delimiter = ',', value_name = "NAME")]
    pub tls_san: Vec<String>,
    /// File of the kubeconfig [default: DIR/kubeconfig]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Apply a sample and show where it went; `failover` also plays the loss of a member, with gate and times for it
    #[arg(long, value_enum, num_args = 0..=1, default_missing_value = "sample", value_name = "WHAT", hide_possible_values = true)]
    pub demo: Option<Demo>,
    /// Address of health and metrics: PORT on loopback, or ADDRESS:PORT; 0 for none
    #[arg(long, env = "IRONCLAD_METRICS_BIND_ADDRESS", default_value = "127.0.0.1:10357", value_name = "ADDRESS")]
    pub metrics_bind_address: String,
    /// Serve the dashboard on this port of 127.0.0.1 [without a port: a free one]
    #[arg(
        long,
        env = "IRONCLAD_DASHBOARD",
        value_name = "PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "0"
    )]
    pub dashboard: Option<u16>,
    /// Let its pages change something, as `ironclad dashboard --write` does
    #[arg(long, env = "IRONCLAD_DASHBOARD_WRITE", requires = "dashboard", value_parser = clap::builder::BoolishValueParser::new(), action = clap::ArgAction::SetTrue)]
    pub dashboard_write: bool,
    /// Start from what `ironclad backup FILE` saved; --data-dir must be empty
    #[arg(long, value_name = "FILE")]
    pub restore: Option<PathBuf>,
    #[command(flatten)]
    pub fleet: FleetArgs,
    #[command(flatten)]
    pub controllers: ControllerFlags,
    #[command(flatten)]
    pub admission: AdmissionFlags,
    #[command(flatten)]
    pub metrics: MetricsFlags,
    #[command(flatten)]
    pub election: AcceptedElectionArgs,
}

/// Runs until SIGTERM or ctrl-c.
///
/// # Errors
/// The data directory is unusable, an address is in use, or a part does not start.
pub(crate) async fn run(mut args: UpArgs) -> anyhow::Result<()> {
    if args.demo.is_some() && args.fleet.clusters.is_some_and(|clusters| clusters < 3) {
        bail!("{DEMO_NEEDS}");
    }
    // Whatever can be wrong in flags is found before the data directory is made.
    let fleet = args.fleet.described()?;
    let metrics = bind::of_metrics(&args.metrics_bind_address)?;
    let mut stop = Stop::install()?;
    for warning in args.election.warnings() {
        tracing::warn!("{warning}");
    }
    let plays_failover = args.demo == Some(Demo::Failover);
    if plays_failover {
        args.controllers.prefer(Gate::Failover);
    }
    let mut settings = args.controllers.settings()?;
    if plays_failover && !settings.gates.enabled(Gate::Failover) {
        bail!("--demo failover needs feature gate Failover\n  try: --feature-gates without Failover=false");
    }
    if plays_failover {
        demo::failover::quicken(&mut settings);
    }
    let of_metrics = args.metrics.options()?;
    settings.member_metrics = of_metrics.clone();
    let seam = Seam::system("ironclad");
    let data_dir = match &args.data_dir {
        Some(dir) => dir.clone(),
        None => local::default_data_dir()?,
    };
    let listener = listen(&args.listen).await?;
    let dashboard = match args.dashboard {
        Some(port) => Some(dashboard::bind(port, &seam.clock).await?),
        None => None,
    };
    let address = listener.local_addr()?;
    let endpoint = endpoint(address, &args.tls_san);
    let hosts = certified_hosts(address.ip(), &args.tls_san);
    let address = address.ip();

    if let Some(file) = &args.restore {
        let restored = restore(file, &data_dir, &seam.clock)
            .context("nothing was started\n  try: --restore with a file that `ironclad backup` completed, and an empty --data-dir")?;
        announce(&format!("restored {} from {}", crate::backup::counted(&restored), file.display()));
    }
    let backend = RedbBackend::open(&data_dir).context("opening the data directory\n  try: another --data-dir DIR")?;
    settings.running_scripts = crate::scripts::open(&data_dir, &seam.clock);
    settings.history = Some(Arc::default());
    let engine = Engine::open(Box::new(backend), Commit::Thread, seam.clock.clone())?;
    let plane_seam = seam.child("plane");
    let admission = args.admission.config(&settings, Some(CONTROLLERS_USER.to_owned()), seam.clock.clone());
    let credentials =
        pki::Pki::load_or_create_for(&data_dir.join("pki").join("ironclad"), &plane_seam, "ironclad", &hosts)?;
    let forwarder = Arc::new(NetworkForwarder::default());
    let options = ServerOptions {
        name: "plane".to_owned(),
        external_url: Some(endpoint.clone()),
        token_key: Some(credentials.token_key().clone()),
        webhooks: Some(Arc::new(NetworkCaller::default())),
        forwarder: Some(forwarder.clone()),
        admission: Some(Arc::new(InProcessAdmission::new(admission))),
        converter: Some(convert),
        api_services: true,
        feature_gates: FeatureGates { hpa_scale_to_zero: settings.gates.enabled(Gate::HPAScaleToZero) },
        ..ServerOptions::default()
    };
    let plane = Server::open(options, engine.store("plane"), plane_seam.clone()).await?;
    let (server, tls) = (plane.clone(), credentials.server_config()?);
    let mut serving = plane_seam.tasks.spawn("serve", async move {
        if let Err(error) = server.serve(listener, tls).await {
            tracing::error!(%error, "API listener failed");
        }
    });
    announce(&format!("control plane: {endpoint}, data directory: {}", data_dir.display()));

    let admin = in_process_client(plane.in_process(Identity::admin("ironclad")), Arc::new(Traffic::default()));
    let mut definitions = crds();
    let roles = cluster_roles(&definitions);
    definitions.push(simulated_cluster_crd());
    install_crds(&admin, definitions).await?;
    ironclad_cli::crds::install_roles(&admin, roles, false).await?;
    let_administrator_through(&admin).await?;
    agents::install_rights(&admin, true).await.context("installing the rights of bootstrap tokens")?;
    let info = ClusterInfo { server: &endpoint, certificates: credentials.ca() };
    agents::publish(&admin, info, Published::Replace).await.context("publishing the address of the API")?;
    // A first start ends with the namespace: one that is cut off before makes its members at the next.
    let all: Api<Namespace> = Api::all(admin.clone());
    let start = if all.get_opt(namespaces::CLUSTER).await?.is_none() { Start::First } else { Start::Again };
    args.fleet.ensure(&admin, fleet, start).await?;
    if start == Start::First {
        create_namespace(&all, namespaces::CLUSTER).await?;
    }
    start_plane_controllers(admin.clone(), &seam.child("plane-controllers"), &credentials);
    FrontProxy::start(admin.clone(), forwarder, credentials.ca().to_owned(), &seam.child("front-proxy"))
        .await
        .context("preparing the forwarding of aggregated APIs")?;

    let kubeconfig = args.kubeconfig.clone().unwrap_or_else(|| data_dir.join("kubeconfig"));
    let file = KubeconfigFile::new(kubeconfig.clone(), credentials.admin_context("ironclad", &endpoint));
    let of_backup = data_dir.clone();
    let autoscaling = AutoscalingOptions {
        scale_to_zero: settings.gates.enabled(Gate::HPAScaleToZero),
        ..settings.federated_hpa.clone().in_one_cluster()
    };
    let simulated = SimulatedMembers::start(&admin, &engine, &seam, data_dir, address, file, autoscaling).await?;
    let expiry = CertificateExpiry::new(seam.clock.clone());
    renew_certificates(credentials.clone(), simulated.clone(), endpoint.clone(), &expiry, &seam);
    print_members(&simulated);
    announce(&format!("kubeconfig: {}", kubeconfig.display()));

    let (to_plane, to_members) =
        (Arc::new(Traffic::without_managed_fields()), Arc::new(Traffic::without_managed_fields()));
    let client = in_process_client(plane.in_process(Identity::admin(CONTROLLERS_USER)), to_plane.clone());
    let tunnels = Tunnels::default();
    let connector = members::UpConnector::new(simulated.clone(), to_members.clone(), tunnels.clone());
    let connections = Connections::new(Arc::new(connector), Scope::All);
    let of_members = seam.child("metrics");
    let served = MetricsFlags::served(&settings.gates);
    let adapter = metrics::adapter(&admin, connections.clone(), of_metrics, served, &of_members);
    let observed = adapter.observed();
    MetricsRoute::mount(adapter, &plane, &of_members);
    let controllers = seam.child("controllers");
    let electors = leader::of_up(&admin, &controllers).await?;
    let present: Present<Controllers> = Arc::default();
    let parts = Parts::new(client, &connections, settings, Some(electors.main.fence()), present.clone(), None);
    let proxied = ProxyObserved::default();
    let rights = Arc::downgrade(&plane);
    plane.mount(Arc::new(ClusterProxy::new(admin.clone(), rights, &seam, tunnels, proxied.clone())));
    plane.announce_subresource(&CONNECTS)?;
    plane.mount(Arc::new(backup::Backup::new(engine.clone(), of_backup)));
    plane.mount(Arc::new(Explain::new(Arc::new(Here(present.clone())))));
    let (checked, elected) = (present.clone(), electors.clone());
    let embedded = Embedded { plane: plane.clone(), engine: engine.clone() };
    let store = embedded.clone();
    let traffic = vec![("plane", to_plane), ("members", to_members)];
    Ops::new(
        move || present.lock().as_ref().map(|controllers| controllers.registry()),
        traffic,
        vec![electors.collector(), Box::new(observed), Box::new(proxied), Box::new(embedded), Box::new(expiry)],
        move || leader::checks(&elected, &checked).into_iter().chain([store.check()]).collect(),
    )
    .start(metrics, &seam.clock, &seam.tasks)
    .await?;
    let started = Arc::new(Notify::new());
    let notify = started.clone();
    electors.start(&controllers, move |term| {
        let notify = notify.clone();
        parts.begin(term, std::future::ready(()), move || notify.notify_one())
    });
    electors.started(&seam.clock, &started).await;
    memory::start(&seam);
    if let Some(dashboard) = &dashboard {
        announce(&format!("dashboard: {}", dashboard.address()));
    }
    let of_dashboard = seam.child("dashboard");
    let mut pages = std::pin::pin!(serve_dashboard(dashboard, args.dashboard_write, &kubeconfig, &of_dashboard));
    announce(&format!("ready: kubectl --kubeconfig {} get clusters", kubeconfig.display()));

    let (names, path) = (simulated.list(), kubeconfig.display().to_string());
    if args.demo.is_some() {
        if names.len() < 3 {
            bail!("{DEMO_NEEDS}");
        }
        let played = async {
            demo::show(&admin, &seam.clock, &path).await?;
            if plays_failover {
                demo::failover::play(&admin, &seam.clock, &path).await?;
            }
            anyhow::Ok(())
        };
        tokio::select! {
            biased;
            played = played => played?,
            () = &mut pages => {}
        }
    }
    announce(&demo::next_steps(&path, names.first().map(|member| member.name.as_str()), args.demo.is_some()));
    let listener_ended = tokio::select! {
        biased;
        () = stop.received() => false,
        _ = &mut serving => true,
        () = &mut pages => false,
    };
    print::note("stopping");
    let end = async {
        // Controllers first, so that their requests do not fail against a stopping server.
        of_dashboard.tasks.kill();
        controllers.tasks.kill();
        of_members.tasks.kill();
        electors.release().await;
        // Requests under way are answered, and watches end with their last frame.
        plane_seam.tasks.stop();
        if !listener_ended && tokio::time::timeout(STOP_TIME_MAX, serving).await.is_err() {
            tracing::warn!("connections did not end in time and are cut off");
        }
        seam.tasks.kill();
        engine.close();
    };
    stop.during(end).await;
    if listener_ended {
        bail!("the API listener ended: the log says why\n  try: start ironclad up again");
    }
    Ok(())
}

/// Serves the dashboard, if there is one, with the rights of the administrator's kubeconfig; it ends with the process.
async fn serve_dashboard(dashboard: Option<Dashboard>, writes: bool, kubeconfig: &Path, seam: &Seam) {
    let plane =
        Plane { kubeconfig: Some(kubeconfig.to_owned()), context: Some("ironclad".to_owned()), ..Plane::default() };
    if let Some(dashboard) = dashboard {
        let acting = writes.then(|| dashboard::Acting::new(plane.clone(), seam.clock.clone()));
        let actions = acting.as_ref().map(|acting| acting as &dyn dashboard::Actions);
        let views = dashboard::Live::new(plane, seam);
        dashboard.serve(&views, actions, &seam.clock, &seam.tasks).await;
    }
    std::future::pending().await
}

/// Names the administrator in a ClusterRoleBinding to the proxy's role: members let it through by that.
async fn let_administrator_through(admin: &Client) -> anyhow::Result<()> {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let bindings: Api<ClusterRoleBinding> = Api::all(admin.clone());
    let name = CLUSTER_PROXY_ADMIN.to_owned();
    if bindings.get_opt(&name).await?.is_some() {
        return Ok(());
    }
    let subject = Subject {
        api_group: Some(GROUP.to_owned()),
        kind: "User".to_owned(),
        name: pki::ADMIN.to_owned(),
        ..Subject::default()
    };
    let role_ref = RoleRef { api_group: Some(GROUP.to_owned()), kind: "ClusterRole".to_owned(), name: name.clone() };
    let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
    let binding = ClusterRoleBinding { metadata, role_ref, subjects: Some(vec![subject]) };
    bindings.create(&PostParams::default(), &binding).await.context("letting the administrator through to members")?;
    Ok(())
}

/// The address of the API for clients. One that listens on every address is reached by a name of its certificate, or
/// from this host.
fn endpoint(address: SocketAddr, names: &[String]) -> String {
    let host = match names.first() {
        Some(name) => {
            name.parse::<IpAddr>().map_or_else(|_| name.clone(), |ip| SocketAddr::new(ip, 0).ip().to_string())
        }
        None if address.ip().is_unspecified() => "127.0.0.1".to_owned(),
        None => address.ip().to_string(),
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    format!("https://{host}:{}", address.port())
}

/// Names and addresses of the certificate, besides those that it always has.
fn certified_hosts(address: IpAddr, names: &[String]) -> Vec<String> {
    let has_it = address.is_unspecified() || pki::LOOPBACK.contains(&address.to_string().as_str());
    let listened = (!has_it).then(|| address.to_string());
    names.iter().cloned().chain(listened).collect()
}

/// Makes the certificates of the plane anew before they end.
fn renew_certificates(
    credentials: pki::Pki,
    simulated: SimulatedMembers,
    endpoint: String,
    expiry: &CertificateExpiry,
    seam: &Seam,
) {
    let renewal = Arc::new((Mutex::new(credentials), simulated, endpoint, seam.clone()));
    let shown = renewal.clone();
    expiry.show("server", move || shown.0.lock().ends());
    seam.tasks.supervise(&seam.clock, "certificates", move || {
        let renewal = renewal.clone();
        async move {
            let (credentials, simulated, endpoint, seam) = &*renewal;
            loop {
                seam.clock.sleep(RENEW_EVERY).await;
                let mut credentials = credentials.lock();
                let renewed = match credentials.renew(seam) {
                    Ok(false) => continue,
                    Ok(true) => simulated.set_plane_context(credentials.admin_context("ironclad", endpoint)),
                    Err(error) => Err(error.into()),
                };
                match renewed {
                    Ok(()) => tracing::info!("certificates were renewed and the kubeconfig written"),
                    Err(error) => tracing::error!(%error, "certificates could not be renewed"),
                }
            }
        }
    });
}

/// Starts the controllers that maintain the control plane's objects; none that would start templates.
fn start_plane_controllers(client: Client, seam: &Seam, credentials: &pki::Pki) {
    let cluster = Cluster::new(client, seam.clone());
    let options = kubecontrollers::Options {
        controllers: Controller::PLANE.to_vec(),
        root_certificate: Some(credentials.ca().to_owned()),
        signer: Some(ironclad_simcluster::signer(credentials.authority().clone())),
        ..kubecontrollers::Options::default()
    };
    kubecontrollers::start(&cluster, &options);
    cluster.start_caches();
}

async fn listen(address: &str) -> anyhow::Result<TcpListener> {
    let Ok(socket) = address.parse::<SocketAddr>() else {
        let message = format!("--listen {address:?} is not an address and port\n  try: --listen 127.0.0.1:6443");
        return Err(Misused(message).into());
    };
    match TcpListener::bind(socket).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let holder = local::held_by(socket);
            bail!("{socket} is in use{holder}\n  try: another --listen ADDRESS:PORT, or stop the process that holds it")
        }
        Err(error) => {
            Err(anyhow::Error::new(error)
                .context(format!("listening on {socket}\n  try: another --listen ADDRESS:PORT")))
        }
    }
}

/// Installs our CRDs, a few at once: the store makes them durable together. Existing ones are updated only if they
/// differ.
async fn install_crds(admin: &Client, ours: Vec<CustomResourceDefinition>) -> anyhow::Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(admin.clone());
    let present = api.list(&kube::api::ListParams::default()).await?.items;
    let writes: Vec<_> = ours.into_iter().map(|definition| install_crd(admin, definition, &present)).collect();
    stream::iter(writes).buffer_unordered(CRDS_AT_ONCE).try_collect::<()>().await
}

async fn install_crd(
    admin: &Client,
    mut definition: CustomResourceDefinition,
    present: &[CustomResourceDefinition],
) -> anyhow::Result<()> {
    serve_legacy_bindings(&mut definition, converter());
    let name = definition.name_any();
    let old = present.iter().find(|old| old.metadata.name == definition.metadata.name);
    if old.is_some_and(|old| old.spec == definition.spec) {
        return Ok(());
    }
    let (path, params) =
        (kube::core::Request::new(CustomResourceDefinition::url_path(&(), None)), PostParams::default());
    let (request, doing) = match old {
        None => (path.create(&params, serde_json::to_vec(&definition)?), "installing"),
        Some(old) => {
            definition.metadata.resource_version = old.metadata.resource_version.clone();
            (path.replace(&name, &params, serde_json::to_vec(&definition)?), "updating")
        }
    };
    // The answer repeats the definition: it is not decoded.
    let written = admin.request::<serde::de::IgnoredAny>(request?).await;
    written.map(drop).with_context(|| format!("{doing} CRD {name}"))
}

/// Client config of the converter in CRDs. The embedded server calls it without a network.
fn converter() -> WebhookClientConfig {
    let service = ServiceReference {
        namespace: namespaces::SYSTEM.to_owned(),
        name: "ironclad".to_owned(),
        path: Some("/convert".to_owned()),
        port: Some(443),
    };
    WebhookClientConfig { service: Some(service), ..WebhookClientConfig::default() }
}

async fn create_namespace(api: &Api<Namespace>, name: &str) -> anyhow::Result<()> {
    let namespace = Namespace {
        metadata: kube::api::ObjectMeta { name: Some(name.to_owned()), ..kube::api::ObjectMeta::default() },
        ..Namespace::default()
    };
    api.create(&PostParams::default(), &namespace).await.with_context(|| format!("creating namespace {name}"))?;
    Ok(())
}

fn print_members(simulated: &SimulatedMembers) {
    const NAMED: usize = 10;
    let members = simulated.list();
    let names: Vec<&str> = members.iter().take(NAMED).map(|m| m.name.as_str()).collect();
    match members.len().saturating_sub(NAMED) {
        _ if members.is_empty() => {
            announce("no simulated members: ironclad sim add member1 makes one, ironclad join takes a cluster")
        }
        0 => announce(&format!("simulated members: {}", names.join(", "))),
        more => announce(&format!("simulated members: {} and {more} more", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_has_the_names_by_which_the_api_is_reached() {
        for (listened, names, url, hosts) in [
            ("127.0.0.1:6443", vec![], "https://127.0.0.1:6443", vec![]),
            ("0.0.0.0:6443", vec![], "https://127.0.0.1:6443", vec![]),
            ("127.0.0.2:6443", vec![], "https://127.0.0.2:6443", vec!["127.0.0.2"]),
            ("[::1]:6443", vec![], "https://[::1]:6443", vec![]),
            ("10.0.0.5:6443", vec![], "https://10.0.0.5:6443", vec!["10.0.0.5"]),
            ("[fd00::5]:443", vec![], "https://[fd00::5]:443", vec!["fd00::5"]),
            (
                "0.0.0.0:6443",
                vec!["fleet.example", "10.0.0.5"],
                "https://fleet.example:6443",
                vec!["fleet.example", "10.0.0.5"],
            ),
            ("10.0.0.5:6443", vec!["fd00::7"], "https://[fd00::7]:6443", vec!["fd00::7", "10.0.0.5"]),
        ] {
            let address: SocketAddr = listened.parse().unwrap();
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            assert_eq!(endpoint(address, &names), url, "{listened} {names:?}");
            assert_eq!(certified_hosts(address.ip(), &names), hosts, "{listened} {names:?}");
        }
    }
}
