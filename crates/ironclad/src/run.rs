//! `ironclad run`: the controllers against an existing kube-apiserver.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, bail};
use ironclad_admission::registration::Endpoint;
use ironclad_api::cluster::STORED_GROUP;
use ironclad_cli::{
    connect,
    crds::{AtStart, install_at_start},
    dashboard::{Bearers, TeamDashboard},
    join::Address,
    print,
    report::Misused,
};
use ironclad_controllers::Controllers;
use ironclad_extension::{
    self as extension, CertificateExpiry, Registration,
    admission::{WebhookOptions, serve_webhooks},
    agents::{self, ClusterInfo, Published},
    clusters::{self, ClusterServer, Form, serve_clusters},
    explain::{Explain, Leads, serve_explain},
    metrics::serve_metrics,
    proxy::{ProxyObserved, serve_proxy},
};
use ironclad_members::{Connections, NetworkConnector};
use ironclad_runtime::{Api, Failure, Scope, Traffic, Tunnels, client_from_kubeconfig, leader::fenced};
use ironclad_seam::{Clock, Seam};
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::{Client, api::ListParams, discovery};
use prometheus_client::collector::Collector;

use crate::{
    announce::announce,
    explain::{self, Here},
    flags::{
        AdmissionFlags, ControllerFlags, WebhookFlags,
        aggregated::{ClusterFlags, ExplainFlags, ProxyFlags},
        bind,
        dashboard::{BoundDashboard, DashboardFlags},
        metrics::{AdapterFlags, MetricsFlags},
    },
    leader::{self, Electors, LeaderFlags},
    memory, metrics,
    ops::{Ops, checks},
    scripts,
    signals::Stop,
    term::{Parts, Present, Work},
};

/// Time until Clusters are tried to be carried over again.
const CARRY_OVER_AGAIN: Duration = Duration::from_secs(2);
/// Time that a kube-apiserver may need to list a group that it serves already.
const DISCOVERY_LAG: Duration = Duration::from_secs(5);

/// Time until the kinds that were installed are served.
const INSTALL_MAX: Duration = Duration::from_secs(60);

/// Run the controllers against an existing kube-apiserver.
///
/// The kube-controller-manager of that kube-apiserver may run only the controllers that maintain objects (namespace,
/// garbage collector, service accounts, certificates): with all controllers it would start the templates in the
/// control plane itself.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad crds --install --kubeconfig plane.kubeconfig
  ironclad run --kubeconfig plane.kubeconfig
  ironclad run --kubeconfig plane.kubeconfig --metrics-bind-address 127.0.0.1:10358   (beside the first one: it stands by)
  ironclad run --kubeconfig plane.kubeconfig --dashboard-bind-address 0.0.0.0:8449 --dashboard-host fleet.example
  ironclad run --kubeconfig plane.kubeconfig --aggregate-clusters   (clusters/NAME/proxy where karmadactl looks for it)
  ironclad join member1 --kubeconfig plane.kubeconfig --cluster-kubeconfig member1.kubeconfig")]
pub(crate) struct RunArgs {
    /// Kubeconfig of the control plane [default: $KUBECONFIG, then ~/.kube/config, then the Pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context in that kubeconfig [default: its current context]
    #[arg(long, alias = "karmada-context", value_name = "NAME")]
    pub context: Option<String>,
    /// Address of health and metrics: PORT on loopback, or ADDRESS:PORT; 0 for none
    #[arg(long, env = "IRONCLAD_METRICS_BIND_ADDRESS", default_value = "127.0.0.1:10357", value_name = "ADDRESS")]
    pub metrics_bind_address: String,
    /// Record of running interpreter scripts: one that ended the process is skipped [default: ~/.local/state/ironclad]
    #[arg(long, env = "IRONCLAD_SCRIPT_STATE_DIR", value_name = "DIR")]
    pub script_state_dir: Option<PathBuf>,
    /// Install at the start what is missing or of an older version: crds (the CustomResourceDefinitions), roles (those
    /// of their users)
    #[arg(
        long,
        env = "IRONCLAD_INSTALL",
        value_enum,
        value_delimiter = ',',
        default_value = "none",
        value_name = "LIST"
    )]
    pub install: Vec<Install>,
    #[command(flatten)]
    pub leader: LeaderFlags,
    #[command(flatten)]
    pub controllers: ControllerFlags,
    #[command(flatten)]
    pub admission: AdmissionFlags,
    #[command(flatten)]
    pub webhooks: WebhookFlags,
    #[command(flatten)]
    pub metrics: MetricsFlags,
    #[command(flatten)]
    pub adapter: AdapterFlags,
    #[command(flatten)]
    pub explain: ExplainFlags,
    #[command(flatten)]
    pub proxy: ProxyFlags,
    #[command(flatten)]
    pub clusters: ClusterFlags,
    #[command(flatten)]
    pub dashboard: DashboardFlags,
}

/// Part of the control plane that a process installs.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Install {
    Crds,
    Roles,
    None,
}

impl RunArgs {
    pub(crate) fn at_start(&self) -> anyhow::Result<AtStart> {
        let has = |what| self.install.contains(&what);
        if has(Install::None) && self.install.len() > 1 {
            let text = "--install has none and others\n  try: --install=crds,roles, or none";
            return Err(Misused(text.to_owned()).into());
        }
        Ok(AtStart { crds: has(Install::Crds), roles: has(Install::Roles) })
    }
}

/// Runs until SIGTERM or ctrl-c, which end the start, too.
///
/// # Errors
/// The control plane is unreachable or lacks our CRDs, or the ops address is in use.
pub(crate) async fn run(args: RunArgs) -> anyhow::Result<()> {
    let mut stop = Stop::install()?;
    let seam = Seam::system("ironclad");
    let mut running = tokio::select! {
        biased;
        () = stop.received() => None,
        running = start(args, &seam) => Some(running?),
    };
    if let Some(running) = &mut running {
        // Its views are computed here, as their futures stay in one task.
        let dashboard = running.dashboard.take();
        let served = async {
            if let Some((dashboard, users)) = dashboard {
                dashboard.serve(&users, &seam.clock, &seam.tasks).await;
            }
            std::future::pending::<()>().await
        };
        tokio::select! {
            biased;
            () = stop.received() => {}
            () = served => {}
        }
    }
    print::note("stopping");
    let end = async {
        // The end of the tasks ends the term.
        let main = running.as_ref().and_then(|running| running.electors.as_ref()).map(|electors| &electors.main);
        let leads = main.is_none_or(|main| main.leads());
        seam.tasks.stop();
        seam.tasks.kill();
        let Some(running) = &running else { return };
        for registration in &running.registered {
            registration.end(leads, &main.map(|main| main.holder()).unwrap_or_default()).await;
        }
        if let Some(electors) = &running.electors {
            electors.release().await;
        }
    };
    stop.during(end).await;
    Ok(())
}

/// Running controllers, or elections for them.
struct Running {
    electors: Option<Electors>,
    /// The groups of which the leader makes the APIServices.
    registered: Vec<Registration>,
    /// Every replica serves it, with sessions of its own.
    dashboard: Option<(TeamDashboard, Bearers)>,
    /// Without elections, the controllers.
    _work: Option<Work>,
}

async fn start(args: RunArgs, seam: &Seam) -> anyhow::Result<Running> {
    let mut settings = args.controllers.settings()?;
    let at_start = args.at_start()?;
    let metrics = bind::of_metrics(&args.metrics_bind_address)?;
    let webhooks = args.webhooks.webhooks()?;
    args.webhooks.warnings(&settings.gates).iter().for_each(|warning| tracing::warn!("{warning}"));
    let (adapter, of_metrics) = (args.adapter.adapter()?, args.metrics.options()?);
    let (explain, proxy, aggregated) = (args.explain.explain()?, args.proxy.proxy()?, args.clusters.clusters()?);
    let dashboard = args.dashboard.dashboard()?;
    settings.member_metrics = of_metrics.clone();
    settings.history = Some(Arc::default());
    settings.running_scripts = args
        .script_state_dir
        .clone()
        .or_else(scripts::default_directory)
        .and_then(|dir| scripts::open(&dir, &seam.clock));
    let (plane, members) = (Arc::new(Traffic::without_managed_fields()), Arc::new(Traffic::without_managed_fields()));
    let kubeconfig = connect::read(args.kubeconfig.as_ref())?;
    let config = connect::config(kubeconfig, args.context.as_deref(), "control plane").await?;
    let server = config.cluster_url.to_string();
    let address = Address::from(&config);
    let stored = client_from_kubeconfig(config.clone(), plane.clone())?;
    let (form, client) = match &aggregated {
        Some(_) => (Form::Stored, clusters::of_stored(stored.clone())),
        None => (Form::Plain, stored.clone()),
    };
    // Before anything is written: a Karmada that runs keeps its definitions.
    args.leader.refuse_beside_karmada(&stored, &settings.controllers, seam).await?;
    for (name, _) in install_at_start(&stored, &seam.clock, at_start, INSTALL_MAX).await? {
        print::note(&format!("installed {name}"));
    }
    wait_for_crds(&stored, &server, &seam.clock).await?;
    warn_of_started_templates(&client).await;
    let is_reviewed = webhooks.is_some();
    let expiry = CertificateExpiry::new(seam.clock.clone());
    if let Some(webhooks) = webhooks {
        // Every replica serves webhooks, leader or not; the leader's own writes are exempt.
        let listener = tokio::net::TcpListener::bind(webhooks.bind).await.with_context(|| {
            format!("listening on {} for webhooks\n  try: another --webhook-bind-address, or 0 for none", webhooks.bind)
        })?;
        let address = listener.local_addr()?;
        let options = WebhookOptions {
            endpoint: webhooks.endpoint.unwrap_or_else(|| Endpoint::Url(format!("https://{address}"))),
            hosts: webhooks.hosts,
            legacy_bindings: args.webhooks.serve_legacy_binding_api,
            config: args.admission.config(&settings, None, seam.clock.clone()),
        };
        serve_webhooks(client.clone(), listener, options, &expiry, seam).await?;
        announce(&format!("webhooks: {address}"));
    }
    // After the webhooks, which limit whom it gives rights.
    prepare_registration(&client, &address, is_reviewed).await?;

    let tunnels = Tunnels::of_replica(&seam.rng.uuid());
    let connections = Connections::new(Arc::new(NetworkConnector::new(members.clone(), tunnels.clone())), Scope::All);
    let mut observed = None;
    if let Some(adapter) = adapter {
        // Every replica serves metrics, leader or not.
        let (listener, address) = adapter.listen().await?;
        let (service, of_members) = (adapter.service(address), seam.child("metrics"));
        let served = MetricsFlags::served(&settings.gates);
        let adapter = metrics::adapter(&client, connections.clone(), of_metrics, served, &of_members);
        observed = Some(adapter.observed());
        serve_metrics(client.clone(), listener, adapter, service, &expiry, &of_members).await?;
        announce(&format!("metrics APIs: {address}"));
    }

    let proxied = ProxyObserved::default();
    if let Some(proxy) = proxy {
        // Every replica serves the proxy, leader or not.
        let listener = tokio::net::TcpListener::bind(proxy.bind).await.with_context(|| {
            format!("listening on {} for the proxy\n  try: another --proxy-bind-address, or 0 for none", proxy.bind)
        })?;
        let address = listener.local_addr()?;
        let url = proxy.url.unwrap_or_else(|| format!("https://{address}"));
        serve_proxy(
            client.clone(),
            listener,
            (url.clone(), proxy.hosts),
            tunnels.clone(),
            proxied.clone(),
            &expiry,
            &seam.child("proxy"),
        )
        .await
        .context("preparing the proxy to members")?;
        announce(&format!("proxy to members: {url}"));
    }
    let dashboard = match dashboard {
        Some(bound) => {
            let (kubeconfig, context) = (args.kubeconfig.clone(), args.context.clone());
            let users = Bearers::new(kubeconfig, context, bound.writes, seam.child("dashboard"));
            Some((team_dashboard(bound, &client, &expiry, &seam.child("dashboard")).await?, users))
        }
        None => None,
    };
    let explain = match explain {
        Some(explain) => Some((explain.listen().await?, explain)),
        None => None,
    };
    let explained_at = explain.as_ref().map(|((_, address), _)| reachable(*address, &server)).transpose()?;
    let electors = args.leader.electors(&client, explained_at, seam).await?;
    let fence = electors.as_ref().map(|electors| electors.main.fence());
    let present: Present<Controllers> = Arc::default();
    let leads = electors.as_ref().map(|electors| electors.leads_by());
    let mut registered = Vec::new();
    if let Some(((listener, address), explain)) = explain {
        // Every replica serves the group; those that do not lead ask the leader.
        let (here, elected) = (Explain::new(Arc::new(Here(present.clone()))), electors.clone());
        let leader = move || elected.as_ref().map_or(Leads::Here, |electors| explain::leads(&electors.main));
        let (service, child) = (explain.service(address), seam.child("explain"));
        registered.push(serve_explain(client.clone(), listener, here, leader, service, &expiry, &child).await?);
        announce(&format!("explain.ironclad.io: {address}"));
    }
    let carried = Arc::new(AtomicBool::new(false));
    if let Some(bound) = aggregated {
        // Every replica serves the group; each keeps nothing.
        let (listener, address) = bound.listen().await?;
        let (elected, is_stored) = (electors.clone(), carried.clone());
        let registers =
            move || is_stored.load(Ordering::SeqCst) && elected.as_ref().is_none_or(|electors| electors.main.leads());
        let server = ClusterServer {
            // With managedFields, which controllers do without.
            stored: client_from_kubeconfig(config, Arc::new(Traffic::default()))?,
            served: client.clone(),
            listener,
            service: bound.service(address),
            tunnels,
            observed: proxied.clone(),
            expiry: expiry.clone(),
            registers: Box::new(registers),
        };
        registered.push(serve_clusters(server, &seam.child("clusters")).await?);
        announce(&format!("cluster.karmada.io: {address}"));
    }
    let carrier = match &fence {
        Some(fence) => fenced(stored, fence.clone()),
        None => stored,
    };
    let parts = Parts::new(client, &connections, settings, fence, present.clone(), Some(leads));
    let (checked, measured, elected) = (present.clone(), present.clone(), electors.clone());
    Ops::new(
        move || measured.lock().as_ref().map(|context| context.registry()),
        vec![("plane", plane), ("members", members)],
        electors
            .iter()
            .map(|electors| electors.collector())
            .chain(observed.map(|observed| Box::new(observed) as Box<dyn Collector>))
            .chain([Box::new(proxied) as Box<dyn Collector>, Box::new(expiry)])
            .collect(),
        move || match &elected {
            Some(electors) => leader::checks(electors, &checked),
            None => checks(checked.lock().as_deref()),
        },
    )
    .start(metrics, &seam.clock, &seam.tasks)
    .await?;
    memory::start(seam);
    let begin = move |term: Seam| {
        print::note(&format!("starting controllers for {server}"));
        let server = server.clone();
        let ready = carry_over(carrier.clone(), form, term.clock.clone(), carried.clone());
        parts.begin(term, ready, move || announce(&format!("ready: controllers run for {server}")))
    };
    let work = match &electors {
        Some(electors) => {
            electors.start(&seam.child("leader"), begin);
            None
        }
        None => Some(begin(seam.child("controllers"))),
    };
    Ok(Running { electors, registered, dashboard, _work: work })
}

/// Listens for the dashboard, with managed or given certificates.
async fn team_dashboard(
    bound: BoundDashboard,
    client: &Client,
    expiry: &CertificateExpiry,
    seam: &Seam,
) -> anyhow::Result<TeamDashboard> {
    let BoundDashboard { bind, hosts, files, writes: _ } = bound;
    let listener = tokio::net::TcpListener::bind(bind).await.with_context(|| {
        format!("listening on {bind} for the dashboard\n  try: another --dashboard-bind-address, or 0 for none")
    })?;
    let address = listener.local_addr()?;
    let tls = match files {
        Some((certificate, key)) => {
            extension::dashboard::from_files(certificate, key, expiry, seam).map_err(|why| {
                anyhow::anyhow!(
                    "{why}\n  try: --dashboard-tls-cert-file and --dashboard-tls-private-key-file of one pair"
                )
            })?
        }
        None => extension::dashboard::managed(client.clone(), hosts.clone(), expiry, seam)
            .await
            .context("preparing the certificate of the dashboard")?,
    };
    announce(&format!("dashboard: https://{address}, under the names {}", hosts.join(", ")));
    Ok(TeamDashboard::new(listener, tls, hosts, &seam.clock))
}

/// Brings Clusters into the form of this process before its controllers see any, however often it takes.
async fn carry_over(client: Client, form: Form, clock: Clock, carried: Arc<AtomicBool>) {
    carried.store(false, Ordering::SeqCst);
    loop {
        match clusters::carry_over(&client, form, &clock).await {
            Ok(moved) => {
                if moved > 0 {
                    print::note(&format!("carried {moved} Clusters over"));
                }
                carried.store(true, Ordering::SeqCst);
                return;
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, ?cause, "Clusters were not carried over yet: controllers wait for that");
                clock.sleep(CARRY_OVER_AGAIN).await;
            }
        }
    }
}

/// The address at which other hosts reach a listener: its own, or, if it listens on all, the one from which this host
/// reaches the control plane. Nothing is sent to find it out.
fn reachable(listened: SocketAddr, server: &str) -> anyhow::Result<String> {
    if !listened.ip().is_unspecified() {
        return Ok(listened.to_string());
    }
    let finding = || format!("finding the address from which this host reaches {server}");
    let server: http::Uri = server.parse().with_context(finding)?;
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    let server = (host, server.port_u16().unwrap_or(443)).to_socket_addrs().with_context(finding)?.next();
    let server = server.with_context(finding)?;
    let any = if server.is_ipv4() { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).with_context(finding)?;
    socket.connect(server).with_context(finding)?;
    Ok(SocketAddr::new(socket.local_addr()?.ip(), listened.port()).to_string())
}

/// Waits for the CRDs: a kube-apiserver lists a group some moments after it serves the first kind, and they may just
/// have been installed.
async fn wait_for_crds(client: &Client, server: &str, clock: &Clock) -> anyhow::Result<()> {
    let deadline = clock.mono() + DISCOVERY_LAG;
    loop {
        match require_crds(client, server).await {
            Err(_) if clock.mono() < deadline => clock.sleep(Duration::from_millis(250)).await,
            done => return done,
        }
    }
}

async fn require_crds(client: &Client, server: &str) -> anyhow::Result<()> {
    for group in ["work.karmada.io", "policy.karmada.io", "cluster.karmada.io"] {
        // Stored Clusters are carried over, or are served once this process does.
        let stored =
            if group == "cluster.karmada.io" { discovery::group(client, STORED_GROUP).await.ok() } else { None };
        match discovery::group(client, group).await {
            Ok(_) => {}
            Err(_) if stored.is_some() => {}
            Err(kube::Error::Discovery(_)) => bail!(
                "the control plane {server} does not serve {group}\n  because our CustomResourceDefinitions are not installed there\n  \
                 try: ironclad crds --install --kubeconfig FILE, or --install=crds"
            ),
            Err(kube::Error::Api(status)) if status.code == 404 => bail!(
                "the control plane {server} does not serve {group}\n  because our CustomResourceDefinitions are not installed there\n  \
                 try: ironclad crds --install --kubeconfig FILE, or --install=crds"
            ),
            Err(other) => {
                return Err(anyhow::Error::new(other).context(format!("discovering the kinds of {server}")));
            }
        }
    }
    Ok(())
}

/// Makes what the registration of members with bootstrap tokens needs. Without the rights to make it, the controllers
/// run nevertheless.
async fn prepare_registration(client: &Client, address: &Address, is_reviewed: bool) -> anyhow::Result<()> {
    let prepare = async || {
        agents::install_rights(client, is_reviewed).await?;
        if address.ca_bundle.is_empty() {
            // Members compare the certificates with what they were told of them.
            return Ok(());
        }
        let info = ClusterInfo { server: &address.endpoint, certificates: &address.ca_bundle };
        agents::publish(client, info, Published::Keep).await
    };
    match prepare().await {
        Err(Failure::Denied(why)) => {
            tracing::warn!(
                %why,
                "members can't be registered with bootstrap tokens: their rights and ConfigMap kube-public/cluster-info \
                 were not made"
            );
            Ok(())
        }
        done => done.context("preparing the registration of members with bootstrap tokens"),
    }
}

/// Warns if a kube-controller-manager beside the control plane starts templates (specification/operations.md 2.16).
async fn warn_of_started_templates(client: &Client) {
    let sets: Api<ReplicaSet> = Api::all(client.clone());
    let Ok(list) = sets.list(&ListParams::default().limit(1)).await else { return };
    if let Some(set) = list.items.first() {
        tracing::warn!(
            namespace = set.metadata.namespace.as_deref().unwrap_or_default(),
            replica_set = set.metadata.name.as_deref().unwrap_or_default(),
            "the control plane holds ReplicaSets: its kube-controller-manager runs the deployment controller and starts templates \
             itself; give it --controllers=namespace,garbagecollector,serviceaccount,serviceaccount-token,ttl-after-finished"
        );
    }
}
