//! `ironclad agent`: one member's side of pull mode, which connects to the control plane.

mod credentials;

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use ironclad_api::{
    cluster::Cluster,
    namespaces::{self, KUBE_SYSTEM},
    quantity::Amount,
};
use ironclad_cli::{
    Period, connect,
    given::Given,
    print,
    proxied::{self, Front},
    register::{SECRET, life},
    report::Misused,
    token::BootstrapToken,
};
use ironclad_controllers::{ControllerList, Controllers, NetworkBackends, Settings};
use ironclad_extension::{Bandwidth, CertificateExpiry, Passed, TunnelledMember, hold_tunnels};
use ironclad_failover::{
    Flags,
    cluster::{
        agent::{Registration, refuse_other_names, registered},
        report::Tunnel,
    },
    flags::HealthFlags,
};
use ironclad_members::{Connections, Connector};
use ironclad_runtime::{
    Api, Scope, Traffic, certificates, client_from_kubeconfig,
    leader::{Elector, LeaderOptions, fenced},
};
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Client, Config,
    api::{ListParams, PostParams},
    config::Kubeconfig,
};
use parking_lot::Mutex;

use self::credentials::{AGAIN, Obtained};
use crate::{
    announce::announce,
    flags::bind,
    leader::{Electors, checks, host},
    memory,
    ops::Ops,
    scripts,
    signals::Stop,
    term::{Present, Work},
};

/// Clusters that are listed at a time.
const PAGE: u32 = 500;
/// Fewest bytes a second of a tunnel.
const LEAST_BANDWIDTH: u64 = 1 << 10;
/// Time between two attempts to register.
const RETRY: Duration = Duration::from_secs(5);

/// Serve one member in pull mode: this process connects to the control plane, which needs no way to the member.
///
/// It applies the member's Works, reports their status and the member's health, and needs the credentials that
/// `ironclad register` gets. It runs in the member or beside it.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  ironclad agent --cluster-name member1 --karmada-kubeconfig agent.kubeconfig   (in a Pod of the member)
  ironclad agent --cluster-name member1 --karmada-kubeconfig agent.kubeconfig --cluster-kubeconfig member1.kubeconfig
  ironclad agent --cluster-name member1 --karmada-kubeconfig agent.kubeconfig --cluster-kubeconfig member1.kubeconfig \\
      --register plane.example.com:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:HEX")]
pub(crate) struct AgentArgs {
    /// Name of the Cluster
    #[arg(long, env = "IRONCLAD_CLUSTER_NAME", value_name = "NAME")]
    cluster_name: String,
    /// Kubeconfig of the control plane, with the certificate of this agent; --register writes it, and so do renewals
    #[arg(long, env = "IRONCLAD_KARMADA_KUBECONFIG", value_name = "FILE")]
    karmada_kubeconfig: PathBuf,
    /// Context in that kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    karmada_context: Option<String>,
    /// In a Pod whose kubeconfig is of a Secret: its name, by which renewals are written there
    #[arg(long, value_name = "NAME", default_value = SECRET)]
    karmada_kubeconfig_secret: String,
    /// Get that kubeconfig from the control plane at this address first, unless it is there
    #[arg(long, value_name = "HOST:PORT", requires = "token")]
    register: Option<String>,
    /// Bootstrap token for --register
    #[arg(long, value_name = "TOKEN", env = "IRONCLAD_BOOTSTRAP_TOKEN", hide_env_values = true)]
    token: Option<BootstrapToken>,
    /// Hashes of public keys, one of which the control plane's certificate has to have, for --register
    #[arg(long, value_delimiter = ',', value_name = "sha256:HEX")]
    discovery_token_ca_cert_hash: Vec<String>,
    /// Believe the control plane without such a hash: whoever has the token may be taken for it
    #[arg(long)]
    discovery_token_unsafe_skip_ca_verification: bool,
    /// Timeout of each step of --register
    #[arg(long, default_value_t = Period(Duration::from_secs(300)), value_name = "DURATION")]
    discovery_timeout: Period,
    /// Kubeconfig of the member [default: $KUBECONFIG, then ~/.kube/config, then the Pod's service account]
    #[arg(long, alias = "kubeconfig", value_name = "FILE")]
    cluster_kubeconfig: Option<PathBuf>,
    /// Context in that kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    cluster_context: Option<String>,
    #[command(flatten)]
    accepted: AcceptedArgs,
    /// Address of the member's API server for others
    #[arg(
        long,
        help_heading = "Cluster",
        env = "IRONCLAD_CLUSTER_API_ENDPOINT",
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    cluster_api_endpoint: String,
    /// Forward proxy on the way to it
    #[arg(
        long,
        help_heading = "Cluster",
        env = "IRONCLAD_PROXY_SERVER_ADDRESS",
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    proxy_server_address: String,
    /// Cloud provider of the member
    #[arg(long, help_heading = "Cluster", value_name = "NAME", default_value = "", hide_default_value = true)]
    cluster_provider: String,
    /// Region of the member
    #[arg(long, help_heading = "Cluster", value_name = "NAME", default_value = "", hide_default_value = true)]
    cluster_region: String,
    /// Failure zones of the member
    #[arg(long, help_heading = "Cluster", value_name = "NAME,...", value_delimiter = ',')]
    cluster_zones: Vec<String>,
    /// Controllers to run: `*` all, `name` this one, `-name` not this one
    #[arg(long, env = "IRONCLAD_CONTROLLERS", default_value = "*", value_name = "LIST", allow_hyphen_values = true)]
    controllers: String,
    /// Duration of the Lease by which the control plane sees that this agent is alive
    #[arg(long, help_heading = "Cluster", env = "IRONCLAD_CLUSTER_LEASE_DURATION", default_value_t = Period(Duration::from_secs(40)), value_name = "DURATION")]
    cluster_lease_duration: Period,
    /// Part of that duration after which it is renewed
    #[arg(
        long,
        help_heading = "Cluster",
        env = "IRONCLAD_CLUSTER_LEASE_RENEW_INTERVAL_FRACTION",
        default_value_t = 0.25,
        value_name = "FRACTION"
    )]
    cluster_lease_renew_interval_fraction: f64,
    /// Do not let the control plane reach the member over this agent: no proxy, logs, metrics and account of its Pods
    #[arg(long, env = "IRONCLAD_NO_TUNNEL", value_parser = clap::builder::BoolishValueParser::new(), action = clap::ArgAction::SetTrue)]
    no_tunnel: bool,
    /// Requests that may come over the tunnel: api, exec (what reaches into Pods), logs, metrics
    #[arg(long, env = "IRONCLAD_TUNNEL_ALLOW", value_name = "KIND,...", value_delimiter = ',', default_values_t = Passed::ALL)]
    tunnel_allow: Vec<Passed>,
    /// Most bytes a second that the tunnel carries in each direction, such as 2Mi [default: no limit]
    #[arg(long, env = "IRONCLAD_TUNNEL_BANDWIDTH", value_name = "BYTES", value_parser = bandwidth)]
    tunnel_bandwidth: Option<u64>,
    /// Address of health and metrics: PORT on loopback, or ADDRESS:PORT; 0 for none
    #[arg(long, env = "IRONCLAD_METRICS_BIND_ADDRESS", default_value = "127.0.0.1:10357", value_name = "ADDRESS")]
    metrics_bind_address: String,
    #[command(flatten)]
    health: Given<HealthFlags>,
}

/// Flags of karmada-agent that have no effect here.
#[derive(clap::Args, Clone, Debug)]
struct AcceptedArgs {
    /// Accepted for command lines of karmada-agent: Leases are in karmada-cluster
    #[arg(long, hide = true, default_value = namespaces::CLUSTER, value_name = "NAME")]
    cluster_namespace: String,
    /// Accepted for command lines of karmada-agent: no credentials of the member leave it
    #[arg(long, hide = true, value_delimiter = ',', value_name = "WHAT")]
    report_secrets: Vec<String>,
    /// Accepted for command lines of karmada-agent: the certificate is looked at each minute
    #[arg(long, hide = true, value_name = "DURATION")]
    cert_rotation_checking_interval: Option<Period>,
    /// Accepted for command lines of karmada-agent: it is renewed when a third of its life is left
    #[arg(long, hide = true, value_name = "SHARE")]
    cert_rotation_remaining_time_threshold: Option<f64>,
    /// Accepted for command lines of karmada-agent: the Secret is in the namespace of the Pod
    #[arg(long, hide = true, value_name = "NAME")]
    karmada_kubeconfig_namespace: Option<String>,
}

impl AcceptedArgs {
    /// Warnings about those that were given.
    fn warnings(&self) -> Vec<String> {
        let reports = self.report_secrets.iter().any(|name| name != "None");
        let given = [
            ("cluster-namespace", self.cluster_namespace != namespaces::CLUSTER, "Leases are in karmada-cluster"),
            ("report-secrets", reports, "no credentials of the member leave it, and the tunnel serves in their place"),
            (
                "cert-rotation-checking-interval",
                self.cert_rotation_checking_interval.is_some(),
                "the certificate is looked at each minute",
            ),
            (
                "cert-rotation-remaining-time-threshold",
                self.cert_rotation_remaining_time_threshold.is_some(),
                "the certificate is renewed when a third of its life is left",
            ),
            (
                "karmada-kubeconfig-namespace",
                self.karmada_kubeconfig_namespace.is_some(),
                "the Secret that is rewritten is in the namespace of the Pod",
            ),
        ];
        let given = given.into_iter().filter(|(_, given, _)| *given);
        given.map(|(flag, _, why)| format!("--{flag} has no effect: {why}")).collect()
    }
}

/// Warnings about flags of cluster health that were given and that only the control plane reads.
fn of_the_control_plane(given: &HealthFlags) -> Vec<String> {
    let default = HealthFlags::default();
    let differing = [
        ("cluster-monitor-period", given.monitor_period != default.monitor_period),
        ("cluster-monitor-grace-period", given.monitor_grace_period != default.monitor_grace_period),
        ("cluster-startup-grace-period", given.startup_grace_period != default.startup_grace_period),
        ("taint-cluster-by-condition", given.by_condition != default.by_condition),
        ("allow-no-execute-taint-policy", given.no_execute_policy != default.no_execute_policy),
    ];
    let differing = differing.into_iter().filter(|(_, differs)| *differs);
    differing.map(|(flag, _)| format!("--{flag} has no effect in an agent: the control plane has it")).collect()
}

/// The controller of karmada-agent that renews its certificate, which always runs here.
const CERT_ROTATION: &str = "certRotation";

impl AgentArgs {
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        let misused = |error: String| Misused(format!("{error}\n  try: --help"));
        let mut failover = Flags::default();
        if let Some((_, error)) = self.health.apply_to(&mut failover.health).into_iter().next() {
            return Err(misused(error).into());
        }
        failover.health.lease_duration = self.cluster_lease_duration.0;
        failover.health.lease_renew_interval_fraction = self.cluster_lease_renew_interval_fraction;
        let errors: Vec<String> = failover.errors().iter().map(ToString::to_string).collect();
        if !errors.is_empty() {
            return Err(misused(errors.join("\n  and ")).into());
        }
        let of_rotation = |item: &&str| item.trim().trim_start_matches('-') != CERT_ROTATION;
        let controllers = self.controllers.split(',').filter(of_rotation).collect::<Vec<_>>().join(",");
        let controllers = ControllerList::parse(&controllers).map_err(|error| misused(error.to_string()))?;
        for warning in self.accepted.warnings().into_iter().chain(of_the_control_plane(&failover.health)) {
            tracing::warn!("{warning}");
        }
        Ok(Settings { agent_of: Some(self.cluster_name.as_str().into()), controllers, failover, ..Settings::default() })
    }

    async fn member(&self) -> anyhow::Result<Config> {
        let kubeconfig = connect::read(self.cluster_kubeconfig.as_ref())?;
        connect::config(kubeconfig, self.cluster_context.as_deref(), "member").await
    }

    async fn plane(&self) -> anyhow::Result<Config> {
        let kubeconfig = connect::read(Some(&self.karmada_kubeconfig))?;
        connect::config(kubeconfig, self.karmada_context.as_deref(), "control plane").await
    }

    /// The control plane where it accepts tunnels: at the listener of `ironclad run`, if there is one, else at its
    /// server.
    async fn tunnel_end(&self, plane: &Client) -> Result<Config, String> {
        let mut config = self.plane().await.map_err(|error| format!("{error:#}"))?;
        if let Some(Front { address, ca_bundle }) = proxied::front(plane).await {
            config.cluster_url =
                address.parse().map_err(|error| format!("the proxy's address {address:?}: {error}"))?;
            config.root_cert = Some(certificates(ca_bundle.as_bytes())?);
        }
        Ok(config)
    }

    fn registration(&self, id: String) -> Registration {
        Registration {
            name: self.cluster_name.clone(),
            id,
            api_endpoint: self.cluster_api_endpoint.clone(),
            proxy_url: self.proxy_server_address.clone(),
            provider: self.cluster_provider.clone(),
            region: self.cluster_region.clone(),
            zones: self.cluster_zones.clone(),
        }
    }
}

/// The one member of an agent.
struct OneMember(Client);

impl Connector for OneMember {
    fn connect(&self, _: &Cluster, _: Option<&Secret>) -> Result<Client, String> {
        Ok(self.0.clone())
    }
}

/// Serves the member until SIGTERM or ctrl-c. With new credentials it begins anew, without an end of the process.
///
/// # Errors
/// A kubeconfig can't be used, or the control plane does not accept this member under this name.
pub(crate) async fn run(args: AgentArgs) -> anyhow::Result<()> {
    let mut stop = Stop::install()?;
    let seam = Seam::system("agent");
    let agent = tokio::select! {
        biased;
        () = stop.received() => return Ok(()),
        agent = Agent::new(args, &seam) => agent?,
    };
    loop {
        let session = seam.child("session");
        let renewed = tokio::select! {
            biased;
            () = stop.received() => false,
            ended = agent.serve(&session) => {
                ended?;
                true
            }
        };
        session.tasks.stop();
        session.tasks.kill();
        let electors = agent.electors.lock().take();
        let release = async {
            if let Some(electors) = electors {
                electors.release().await;
            }
        };
        if !renewed {
            print::note("stopping");
            seam.tasks.stop();
            seam.tasks.kill();
            stop.during(release).await;
            return Ok(());
        }
        release.await;
        print::note("beginning anew with the credentials that were renewed");
    }
}

/// The process of an agent.
struct Agent {
    args: AgentArgs,
    settings: Settings,
    to_plane: Arc<Traffic>,
    of_member: Config,
    member: Client,
    present: Present<Controllers>,
    obtained: Obtained,
    /// The election with the present credentials.
    electors: Arc<Mutex<Option<Electors>>>,
}

impl Agent {
    async fn new(args: AgentArgs, seam: &Seam) -> anyhow::Result<Self> {
        let mut settings = args.settings()?;
        let metrics = bind::of_metrics(&args.metrics_bind_address)?;
        settings.running_scripts = scripts::default_directory().and_then(|dir| scripts::open(&dir, &seam.clock));
        let (to_plane, to_member) =
            (Arc::new(Traffic::without_managed_fields()), Arc::new(Traffic::without_managed_fields()));
        let of_member = args.member().await?;
        let member = client_from_kubeconfig(of_member.clone(), to_member.clone())?;
        let (present, electors): (Present<Controllers>, Arc<Mutex<Option<Electors>>>) = Default::default();
        let (checked, measured, elected) = (present.clone(), present.clone(), electors.clone());
        let report = settings.agent_report.clone();
        let expiry = CertificateExpiry::new(seam.clock.clone());
        expiry.show("agent", move || report.lock().certificate.map(|life| life.until));
        Ops::new(
            move || measured.lock().as_ref().map(|controllers| controllers.registry()),
            vec![("plane", to_plane.clone()), ("members", to_member)],
            vec![Box::new(expiry)],
            move || match &*elected.lock() {
                Some(electors) => checks(electors, &checked),
                None => vec![("control plane", Err("not registered there yet".to_owned()))],
            },
        )
        .start(metrics, &seam.clock, &seam.tasks)
        .await?;
        memory::start(seam);
        let obtained = Obtained::default();
        Ok(Self { args, settings, to_plane, of_member, member, present, obtained, electors })
    }

    /// Serves the member with the credentials that there are, until there are others.
    async fn serve(&self, session: &Seam) -> anyhow::Result<()> {
        let args = &self.args;
        credentials::ensure(args, &self.obtained, &session.clock).await?;
        let used = std::fs::read_to_string(&args.karmada_kubeconfig).unwrap_or_default();
        self.settings.agent_report.lock().certificate = Kubeconfig::from_yaml(&used).ok().as_ref().and_then(life);
        let plane = client_from_kubeconfig(args.plane().await?, self.to_plane.clone())?;
        let id = uid(&self.member).await.context("reading namespace kube-system of the member")?;
        let registration = args.registration(id);
        loop {
            match register(&plane, &registration).await {
                Ok(()) => break,
                Err(error) if error.downcast_ref::<kube::Error>().is_some_and(is_passing) => {
                    print::note(&format!("waiting for the control plane: {error:#}"));
                    session.clock.sleep(RETRY).await;
                }
                Err(error) => return Err(with_remedy(error)),
            }
        }
        let electors = self.electors(&plane, session);
        *self.electors.lock() = Some(electors.clone());
        if args.no_tunnel {
            self.settings.agent_report.lock().tunnel = Some(Tunnel::Off);
        } else {
            self.open_tunnel(&plane, session)?;
        }
        let connections = Connections::new(Arc::new(OneMember(self.member.clone())), Scope::All);
        let fence = electors.main.fence();
        let (writer, members) = (fenced(plane, fence.clone()), connections.fenced(Some(fence)));
        let (present, settings, name) = (self.present.clone(), self.settings.clone(), args.cluster_name.clone());
        electors.start(&session.child("leader"), move |term| {
            let (writer, members, settings) = (writer.clone(), members.clone(), settings.clone());
            let controllers = Controllers::new(writer, term.clone(), members, Arc::new(NetworkBackends), settings);
            let name = name.clone();
            Work::begin(&present, controllers, &term, std::future::ready(()), move || {
                announce(&format!("ready: the agent of {name} runs"))
            })
        });
        credentials::changed(args, &used, &self.member, &self.obtained, &session.clock).await;
        Ok(())
    }

    fn electors(&self, plane: &Client, session: &Seam) -> Electors {
        let options = LeaderOptions {
            namespace: namespaces::CLUSTER.to_owned(),
            name: format!("karmada-agent-{}", self.args.cluster_name),
            ..LeaderOptions::new(&format!("{}_{}", host(), session.rng.uuid()))
        };
        Electors::of(Elector::new(plane.clone(), session.clone(), options))
    }

    fn open_tunnel(&self, plane: &Client, session: &Seam) -> anyhow::Result<()> {
        let of_tunnel = session.child("tunnel");
        let passed = self.args.tunnel_allow.iter().copied().collect();
        let behind = TunnelledMember::new(self.of_member.clone(), self.member.clone(), passed, &of_tunnel);
        let behind = behind.map_err(|why| anyhow::anyhow!("the kubeconfig of the member can't be used: {why}"))?;
        let (plane, args, report) = (plane.clone(), self.args.clone(), self.settings.agent_report.clone());
        session.tasks.spawn("tunnel", async move {
            let end = async || args.tunnel_end(&plane).await;
            let told = |open: Result<(), String>| {
                report.lock().tunnel = Some(open.map_or_else(Tunnel::Missing, |()| Tunnel::Open));
            };
            let instance = format!("{}_{}", host(), of_tunnel.rng.uuid());
            let limit = args.tunnel_bandwidth.map(|bytes| Bandwidth::new(bytes, &of_tunnel.clock));
            hold_tunnels(end, told, behind, (&args.cluster_name, &instance), limit, &of_tunnel).await;
        });
        Ok(())
    }
}

/// Bytes a second of a quantity.
fn bandwidth(text: &str) -> Result<u64, String> {
    let bytes = Amount::parse(text).ok().and_then(|amount| u64::try_from(amount.value()).ok());
    match bytes {
        Some(bytes) if bytes >= LEAST_BANDWIDTH => Ok(bytes),
        _ => Err(format!("{text:?} is not a number of bytes of at least 1Ki (write it like 500Ki or 2Mi)")),
    }
}

/// True if an attempt may succeed later: the control plane is not there, or has not made the rights of this agent yet.
fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 403 | 409 | 429 | 500..),
        _ => true,
    }
}

/// The error of a registration, with what helps against credentials that are not accepted.
fn with_remedy(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) if status.code == 401 => error.context(format!(
            "the control plane does not know this agent: its certificate has ended, is not valid yet by the control plane's \
             clock, or is of another control plane\n  try: {AGAIN}; or compare the clocks (NTP)"
        )),
        _ => error,
    }
}

/// Uid of namespace kube-system.
async fn uid(client: &Client) -> Result<String, kube::Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    Ok(namespaces.get(KUBE_SYSTEM).await?.metadata.uid.unwrap_or_default())
}

/// Writes the Cluster if it is not as the agent wants it.
async fn register(plane: &Client, wanted: &Registration) -> anyhow::Result<()> {
    if uid(plane).await? == wanted.id {
        bail!("the member is the control plane itself\n  try: --cluster-kubeconfig of another cluster");
    }
    let clusters: Api<Cluster> = Api::all(plane.clone());
    let present = clusters.get_opt(&wanted.name).await?;
    if present.is_none() {
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = clusters.list(&params).await?;
            refuse_other_names(&page.items, wanted)?;
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
    }
    match registered(present.as_ref(), wanted)? {
        None => {}
        Some(cluster) if present.is_none() => drop(clusters.create(&PostParams::default(), &cluster).await?),
        Some(cluster) => drop(clusters.replace(&wanted.name, &PostParams::default(), &cluster).await?),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_that_are_not_accepted_name_the_remedy() {
        let answered = |code| {
            anyhow::Error::from(kube::Error::Api(Box::new(kube::core::Status::failure("no", "").with_code(code))))
        };
        assert!(format!("{:#}", with_remedy(answered(401))).contains("ironclad register"));
        assert!(!format!("{:#}", with_remedy(answered(403))).contains("register"));
    }

    #[test]
    fn flags_that_only_the_control_plane_reads_are_told() {
        assert_eq!(of_the_control_plane(&HealthFlags::default()), Vec::<String>::new());
        let given = HealthFlags { monitor_period: Duration::from_secs(1), ..HealthFlags::default() };
        let want = "--cluster-monitor-period has no effect in an agent: the control plane has it";
        assert_eq!(of_the_control_plane(&given), [want]);
        let used = HealthFlags { success_threshold: Duration::from_secs(1), ..HealthFlags::default() };
        assert_eq!(of_the_control_plane(&used), Vec::<String>::new(), "agents probe their members");
    }
}
