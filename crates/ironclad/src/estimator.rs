//! `ironclad estimator`: the estimator of one member over Karmada's gRPC protocol.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::Context as _;
use ironclad_cli::{connect, print, report::Misused};
use ironclad_estimator::{CallMetrics, Member, Needs, Serve, ServerTls, Service, serve};
use ironclad_fleet::gates::{Gate, Gates};
use ironclad_runtime::{Caches, Scope, Traffic, client_from_kubeconfig};
use ironclad_seam::Seam;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::{announce::announce, flags::bind, ops::Ops, signals::Stop};

/// Answer how many replicas fit on the nodes of one member, for schedulers that speak Karmada's estimator protocol.
///
/// `ironclad run` computes the same in its own process for each member that it is connected to; a server of its own is
/// for members that the control plane cannot reach, and for karmada-scheduler.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad estimator --cluster-name member1 --kubeconfig member1.kubeconfig
  ironclad estimator --cluster-name member1 --grpc-auth-cert-file server.crt --grpc-auth-key-file server.key --grpc-client-ca-file ca.crt
  ironclad run --kubeconfig plane.kubeconfig --enable-scheduler-estimator --scheduler-estimator-ca-file ca.crt   (asks it)")]
pub(crate) struct EstimatorArgs {
    /// Name of the member's Cluster; calls about another one are refused
    #[arg(long, env = "IRONCLAD_CLUSTER_NAME", value_name = "NAME")]
    cluster_name: String,
    /// Kubeconfig of the member [default: $KUBECONFIG, then ~/.kube/config, then the Pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context in that kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Address that is listened on
    #[arg(long, env = "IRONCLAD_BIND_ADDRESS", default_value = "0.0.0.0", value_name = "ADDRESS")]
    bind_address: String,
    /// Port that is listened on
    #[arg(long, env = "IRONCLAD_SERVER_PORT", default_value_t = 10_352, value_name = "PORT")]
    server_port: u16,
    /// Certificate of the server, PEM; without it, connections are plain
    #[arg(long, env = "IRONCLAD_GRPC_AUTH_CERT_FILE", value_name = "FILE")]
    grpc_auth_cert_file: Option<PathBuf>,
    /// Key of that certificate, PEM
    #[arg(long, env = "IRONCLAD_GRPC_AUTH_KEY_FILE", value_name = "FILE")]
    grpc_auth_key_file: Option<PathBuf>,
    /// Authorities that sign certificates of clients, PEM; without it, clients need no certificate
    #[arg(long, env = "IRONCLAD_GRPC_CLIENT_CA_FILE", value_name = "FILE")]
    grpc_client_ca_file: Option<PathBuf>,
    /// Accept clients without a certificate
    #[arg(long, env = "IRONCLAD_INSECURE_SKIP_GRPC_CLIENT_VERIFY", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    insecure_skip_grpc_client_verify: bool,
    /// Features to switch on or off; ResourceQuotaEstimate=true limits answers to what ResourceQuotas leave
    #[arg(long, env = "IRONCLAD_FEATURE_GATES", default_value = "", hide_default_value = true, value_name = "GATES")]
    feature_gates: String,
    /// Address of health and metrics: PORT on loopback, or ADDRESS:PORT; 0 for none
    #[arg(long, env = "IRONCLAD_METRICS_BIND_ADDRESS", default_value = "127.0.0.1:10351", value_name = "ADDRESS")]
    metrics_bind_address: String,
    /// Accepted for command lines of karmada-scheduler-estimator: answers are computed incrementally
    #[arg(long, hide = true, value_name = "COUNT")]
    parallelism: Option<u32>,
    /// Accepted for command lines of karmada-scheduler-estimator: the member's API server limits requests
    #[arg(long, hide = true, value_name = "QPS")]
    kube_api_qps: Option<f64>,
    /// Accepted for command lines of karmada-scheduler-estimator: the member's API server limits requests
    #[arg(long, hide = true, value_name = "COUNT")]
    kube_api_burst: Option<u32>,
}

/// Serves until SIGTERM or ctrl-c.
///
/// # Errors
/// A flag is invalid, the member is unreachable, or the address is in use.
pub(crate) async fn run(args: EstimatorArgs) -> anyhow::Result<()> {
    let mut stop = Stop::install()?;
    let metrics = bind::of_metrics(&args.metrics_bind_address)?;
    let (gates, warnings) = Gates::parse(&args.feature_gates).map_err(|error| Misused(error.to_string()))?;
    for warning in warnings.into_iter().chain(args.ignored()) {
        tracing::warn!("{warning}");
    }
    let address: SocketAddr = format!("{}:{}", bracketed(&args.bind_address), args.server_port)
        .parse()
        .map_err(|_| Misused(format!("--bind-address {:?} is not an address\n  try: 0.0.0.0", args.bind_address)))?;
    let tls = ServerTls::from_files(
        args.grpc_auth_cert_file.as_ref(),
        args.grpc_auth_key_file.as_ref(),
        args.grpc_client_ca_file.as_ref(),
        args.insecure_skip_grpc_client_verify,
    )?;
    let seam = Seam::system("estimator");
    let traffic = Arc::new(Traffic::without_managed_fields());
    let kubeconfig = connect::read(args.kubeconfig.as_ref())?;
    let config = connect::config(kubeconfig, args.context.as_deref(), "member").await?;
    let client = client_from_kubeconfig(config, traffic.clone())?;
    let quotas = gates.enabled(Gate::ResourceQuotaEstimate);
    let caches = Caches::new(Scope::All, &seam);
    let member = Member::new(Needs { capacity: true, quotas, unschedulable: true }, &caches);
    caches.start(&client);
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("listening on {address}\n  try: another --server-port or --bind-address"))?;
    let address = listener.local_addr()?;

    let mut registry = Registry::default();
    let calls = CallMetrics::register(&mut registry);
    let registry = Arc::new(registry);
    let synced = member.clone();
    Ops::new(
        move || Some(registry.clone()),
        vec![("members", traffic)],
        Vec::new(),
        move || vec![("caches", if synced.is_synced() { Ok(()) } else { Err("not yet".to_owned()) })],
    )
    .start(metrics, &seam.clock, &seam.tasks)
    .await?;

    let service = Service::new(&args.cluster_name, member.clone(), seam.clock.clone(), calls);
    let cluster = args.cluster_name.clone();
    seam.tasks.spawn("ready", async move {
        member.synced().await;
        announce(&format!("ready: estimator of {cluster} on {address}"));
    });
    let (serving, clock) = (seam.tasks.child("estimator"), seam.clock.clone());
    let group = serving.clone();
    let served = async move { serve(Serve { listener, tls, service }, &clock, &group).await };
    let mut served = seam.tasks.spawn("server", served);
    tokio::select! {
        biased;
        ended = &mut served => ended?.context("serving the estimator")?,
        () = stop.received() => {
            print::note("stopping");
            serving.stop();
            served.await??;
        }
    }
    seam.tasks.kill();
    Ok(())
}

/// An IPv6 address in the form that a port follows.
fn bracketed(address: &str) -> String {
    if address.contains(':') && !address.starts_with('[') { format!("[{address}]") } else { address.to_owned() }
}

impl EstimatorArgs {
    /// Warnings about flags without an effect.
    fn ignored(&self) -> Vec<String> {
        let given = [
            ("parallelism", self.parallelism.is_some(), "answers are computed incrementally"),
            ("kube-api-qps", self.kube_api_qps.is_some(), "the member's API server limits requests"),
            ("kube-api-burst", self.kube_api_burst.is_some(), "the member's API server limits requests"),
        ];
        let given = given.into_iter().filter(|(_, given, _)| *given);
        given.map(|(flag, _, why)| format!("--{flag} is ignored: {why}")).collect()
    }
}
