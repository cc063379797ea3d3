//! `ironclad join`.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use ironclad_api::cluster::Cluster;
use ironclad_seam::Clock;
use kube::ResourceExt as _;
use serde_json::Value;

use super::{Address, Change, Credential, JoinOptions, Joined, Preflight, Rbac, check_name, register};
use crate::{
    connect::{self, Plane},
    dry_run::DryRun,
    print::{self, Output},
    write::{self, Mode, Outcome},
};

/// Register a cluster that the control plane reaches itself (push mode).
///
/// Joining again refreshes credentials and address. Objects that no join made are left as they are: a namespace that
/// exists is used without a change, and a Secret, account or role of somebody else's is refused. The control plane
/// itself can't be joined.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad join member1 --cluster-kubeconfig member1.kubeconfig
  ironclad join member1 --cluster-kubeconfig all.kubeconfig --cluster-context member1 --wait=2m
  ironclad join member1 --cluster-kubeconfig member1.kubeconfig --cluster-region eu --cluster-zones a,b
  ironclad join member1 --cluster-kubeconfig member1.kubeconfig --dry-run=client -o yaml")]
pub struct Command {
    /// Name for the cluster
    #[arg(value_name = "CLUSTER")]
    pub cluster: String,
    /// Kubeconfig of the member [default: $KUBECONFIG, then ~/.kube/config]
    #[arg(long, value_name = "FILE", help_heading = "Member")]
    pub cluster_kubeconfig: Option<PathBuf>,
    /// Context in the member's kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME", help_heading = "Member")]
    pub cluster_context: Option<String>,
    /// Cloud provider of the member
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, help_heading = "Member")]
    pub cluster_provider: String,
    /// Region of the member
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, help_heading = "Member")]
    pub cluster_region: String,
    /// Failure zones of the member
    #[arg(long, value_name = "A,B", value_delimiter = ',', help_heading = "Member")]
    pub cluster_zones: Vec<String>,
    /// Namespace of credentials, in the control plane and in the member
    #[arg(long, value_name = "NAME", default_value = ironclad_api::namespaces::CLUSTER)]
    pub cluster_namespace: String,
    /// Tokens that do not expire (static), or tokens that do and are renewed by joining again (token)
    #[arg(long, value_enum, default_value_t = Kind::Static)]
    pub credential: Kind,
    /// Lifetime of tokens that expire
    #[arg(long, value_parser = crate::duration, default_value = "8760h", value_name = "DURATION")]
    pub token_duration: Duration,
    /// Permissions of the control plane in the member: full, or a file with a ClusterRole
    #[arg(long, default_value = "full", value_name = "full|FILE")]
    pub rbac: String,
    /// Wait until the cluster is ready, for this long
    #[arg(long, value_parser = crate::duration, value_name = "DURATION", num_args = 0..=1, default_missing_value = "60s", require_equals = true)]
    pub wait: Option<Duration>,
    /// Print what would be written, without writing it; with `server` the servers validate it
    #[arg(long, value_enum, value_name = "WHO", num_args = 0..=1, default_value_t = DryRun::None, default_missing_value = "client", require_equals = true)]
    pub dry_run: DryRun,
    /// Output format
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    #[command(flatten)]
    pub plane: Plane,
}

/// Kinds of credentials.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tokens that do not expire.
    Static,
    /// Tokens that expire.
    Token,
}

/// Runs the command.
///
/// # Errors
/// If the cluster can't be joined.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    check_name(&command.cluster)?;
    let kubeconfig = connect::read(command.cluster_kubeconfig.as_ref())?;
    let config = connect::config(kubeconfig, command.cluster_context.as_deref(), "member").await?;
    let options = options(command, Address::from(&config)).await?;
    if options.namespace == ironclad_api::namespaces::SYSTEM {
        print::note("warning: karmada-system is for the control plane's own parts; credentials in it mix with them");
    }
    let member = connect::client(config)?;
    let preflight = Preflight::of(&member, clock).await.with_context(|| {
        format!(
            "cluster {} was not joined: the member at {} does not answer\n  try: kubectl --kubeconfig FILE version",
            options.cluster, options.address.endpoint
        )
    })?;
    preflight.lines().iter().for_each(|line| print::note(line));
    let plane = command.plane.client().await?;
    if command.dry_run != DryRun::None {
        return dry_run(command, &options, &plane, &member).await;
    }
    let joined = register(plane, member, clock, &options).await?;
    print::out(&result(command.output, &joined)?)?;
    if let Some(expires) = joined.expires {
        let name = &options.cluster;
        print::note(&format!("the tokens expire at {expires}\n  try: the same `ironclad join {name}` again before"));
    }
    if command.output.is_none() && options.wait.is_none() {
        print::note(&format!("see: kubectl get cluster {}", options.cluster));
    }
    Ok(())
}

async fn options(command: &Command, address: Address) -> anyhow::Result<JoinOptions> {
    let rbac = Rbac::read(&command.rbac).await?;
    let seconds = i64::try_from(command.token_duration.as_secs()).unwrap_or(i64::MAX);
    Ok(JoinOptions {
        namespace: command.cluster_namespace.clone(),
        credential: match command.credential {
            Kind::Static => Credential::Static,
            Kind::Token => Credential::Token { seconds },
        },
        rbac,
        provider: command.cluster_provider.clone(),
        region: command.cluster_region.clone(),
        zones: command.cluster_zones.clone(),
        wait: command.wait,
        ..JoinOptions::new(&command.cluster, address)
    })
}

/// Objects that would be written, without the tokens.
async fn dry_run(
    command: &Command,
    options: &JoinOptions,
    plane: &kube::Client,
    member: &kube::Client,
) -> anyhow::Result<()> {
    let join = super::Join { plane: plane.clone(), member: member.clone(), clock: &Clock::system(), options };
    let survey = join.survey_all().await?;
    let changes: Vec<&Change> = survey.member.iter().chain([&survey.plane_namespace, &survey.cluster]).collect();
    let mut lines = String::new();
    for change in &changes {
        let (object, client) = (&change.object, join.client(change.side));
        let server = command.dry_run == DryRun::Server;
        let answer = match (&change.present, change.outcome()) {
            (Some(present), Outcome::Updated) if server => {
                write::merge(client, object, present, Mode::DryRun).await.map(drop)
            }
            (None, _) if server => write::create(client, object, Mode::DryRun).await.map(drop),
            _ => Ok(()),
        };
        let result = match (answer, change.outcome()) {
            // A join creates its namespace first; in a dry run it does not exist.
            (Err(kube::Error::Api(status)), Outcome::Created) if status.code == 404 => {
                "created (dry run, its namespace does not exist yet)"
            }
            (Err(error), _) => {
                let refused = format!("the {} would refuse {}", change.side, print::name(object));
                return Err(error).context(refused);
            }
            (Ok(()), outcome) => match (outcome, server) {
                (Outcome::Created, true) => "created (server dry run)",
                (Outcome::Updated, true) => "configured (server dry run)",
                (Outcome::Unchanged, true) => "unchanged (server dry run)",
                (Outcome::Created, false) => "created (dry run)",
                (Outcome::Updated, false) => "configured (dry run)",
                (Outcome::Unchanged, false) => "unchanged (dry run)",
            },
        };
        lines += &format!("{} {result} in the {}\n", print::name(object), change.side);
    }
    let all: Vec<Value> = changes.iter().map(|change| change.object.clone()).collect();
    match command.output {
        Some(output) if output.is_objects() => {
            print::note(lines.trim_end());
            print::out(&print::objects(output, &all)?)
        }
        Some(Output::Name) => print::out(&all.iter().map(|object| print::name(object) + "\n").collect::<String>()),
        _ => print::out(&lines),
    }
}

fn result(output: Option<Output>, joined: &Joined) -> anyhow::Result<String> {
    let object = || serde_json::to_value(&joined.cluster).context("writing the cluster");
    Ok(match output {
        None => format!("cluster({}) is joined successfully\n", joined.cluster.name_any()),
        Some(output) if output.is_objects() => print::objects(output, &[object()?])?,
        Some(Output::Name) => print::name(&object()?) + "\n",
        Some(output) => table(output, &joined.cluster),
    })
}

fn table(output: Output, cluster: &Cluster) -> String {
    let status = cluster.status.as_ref();
    let or_none = |text: String| if text.is_empty() { "<none>".to_owned() } else { text };
    let mut heading = vec!["NAME", "VERSION", "MODE", "READY"];
    let mut row = vec![
        cluster.name_any(),
        or_none(status.map(|s| s.kubernetes_version.clone()).unwrap_or_default()),
        format!("{:?}", cluster.spec.sync_mode),
        cluster.ready().unwrap_or("Unknown").to_owned(),
    ];
    if output == Output::Wide {
        heading.extend(["ZONES", "REGION", "PROVIDER", "API-ENDPOINT", "PROXY-URL"]);
        let spec = &cluster.spec;
        let cells = [&spec.zones.join(","), &spec.region, &spec.provider, &spec.api_endpoint, &spec.proxy_url];
        row.extend(cells.map(|cell| or_none(cell.clone())));
    }
    print::table(&heading, &[row])
}
