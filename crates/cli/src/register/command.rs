//! `ironclad register`.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use ironclad_seam::Clock;
use kube::{Client, config::Kubeconfig};
use secrecy::SecretString;

use super::{
    Agent, Bootstrap, EXPIRATION_SECONDS, EXPIRATION_SECONDS_MIN, Names, RegisterError, address, credentials,
    discovery, install,
    member::{self, named},
    objects::objects,
    pins, refuse_name, rights, rolled_out,
};
use crate::{
    connect::{self, Plane},
    dry_run::DryRun,
    join::{self, Address, Preflight, Rbac},
    print::{self, Output},
    report::Misused,
    token::BootstrapToken,
    write::{Mode, Outcome},
};

/// Put an agent into a cluster that the control plane can't reach (pull mode).
///
/// It runs against the member, and needs a token of the control plane: `ironclad token create
/// --print-register-command` prints the line. Registering again renews the credentials and repairs what is missing;
/// objects that no registration of this cluster made are left as they are, and nothing is deleted. Without Pods in the
/// member, `ironclad agent --register` does the same as a process.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad register plane.example.com:6443 --token abcdef.0123456789abcdef \\
      --discovery-token-ca-cert-hash sha256:HEX --cluster-name member3
  ironclad register plane.example.com:6443 --token … --discovery-token-ca-cert-hash … --dry-run
  ironclad register plane.example.com:6443 --token … --discovery-token-ca-cert-hash … --print-manifests")]
pub struct Command {
    /// Address of the control plane
    #[arg(value_name = "HOST:PORT")]
    pub control_plane: String,
    /// Bootstrap token
    #[arg(long = "token", value_name = "TOKEN", required = true, hide_env_values = true)]
    pub bootstrap_token: SecretString,
    /// Hashes of public keys, one of which the control plane's certificate has to have
    #[arg(long, value_delimiter = ',', value_name = "sha256:HEX")]
    pub discovery_token_ca_cert_hash: Vec<String>,
    /// Believe the control plane without such a hash: whoever has the token may be taken for it
    #[arg(long)]
    pub discovery_token_unsafe_skip_ca_verification: bool,
    /// Timeout of each step: the discovery, the certificate, the roll-out
    #[arg(long, value_parser = crate::duration, default_value = "5m", value_name = "DURATION")]
    pub discovery_timeout: Duration,
    /// Name for the cluster [default: the cluster of the kubeconfig's context]
    #[arg(long, value_name = "NAME")]
    pub cluster_name: Option<String>,
    /// Namespace of credentials, in both clusters
    #[arg(long, value_name = "NAME", default_value = ironclad_api::namespaces::CLUSTER)]
    pub cluster_namespace: String,
    /// Cloud provider of the member
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub cluster_provider: String,
    /// Region of the member
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub cluster_region: String,
    /// Failure zones of the member
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub cluster_zones: Vec<String>,
    /// Namespace of the agent
    #[arg(short, long, value_name = "NAME", default_value = ironclad_api::namespaces::SYSTEM)]
    pub namespace: String,
    /// Image of this program that the member's nodes have or can pull
    #[arg(long, alias = "image", value_name = "IMAGE", default_value = concat!("ironclad:v", env!("CARGO_PKG_VERSION")))]
    pub karmada_agent_image: String,
    /// Number of Pods of the agent, one of which works
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub karmada_agent_replicas: u32,
    /// Lifetime of the agent's certificate, which it renews
    #[arg(long, value_name = "SECONDS", default_value_t = EXPIRATION_SECONDS, value_parser = clap::value_parser!(i32).range(i64::from(EXPIRATION_SECONDS_MIN)..))]
    pub cert_expiration_seconds: i32,
    /// Has no effect: the agent always renews its certificate
    #[arg(long)]
    pub enable_cert_rotation: bool,
    /// Permissions of the agent in the member: full, or a file with a ClusterRole
    #[arg(long, default_value = "full", value_name = "full|FILE")]
    pub rbac: String,
    /// Forward proxy on the way to the member's API server
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    pub proxy_server_address: String,
    /// Print what would be written, without writing it; with `server` the member validates it
    #[arg(long, value_enum, value_name = "WHO", num_args = 0..=1, default_value_t = DryRun::None, default_missing_value = "client", require_equals = true)]
    pub dry_run: DryRun,
    /// Print the agent's objects with its credentials, which are secret, and write nothing
    #[arg(long)]
    pub print_manifests: bool,
    /// Output format of --print-manifests
    #[arg(short, long, value_parser = Output::without(&[Output::Table, Output::Wide, Output::Name]), default_value = "yaml")]
    pub output: Output,
    /// Kubeconfig of the member [default: $KUBECONFIG, then ~/.kube/config]
    #[arg(long, value_name = "FILE", help_heading = "Member")]
    pub kubeconfig: Option<PathBuf>,
    /// Context in that kubeconfig [default: its current context]
    #[arg(long, alias = "karmada-context", value_name = "NAME", help_heading = "Member")]
    pub context: Option<String>,
    /// Act in the member as this user
    #[arg(long = "as", alias = "karmada-as", value_name = "USER", help_heading = "User in the member")]
    pub as_user: Option<String>,
    /// Act as a member of this group (repeatable)
    #[arg(
        long = "as-group",
        alias = "karmada-as-group",
        value_name = "GROUP",
        requires = "as_user",
        help_heading = "User in the member"
    )]
    pub as_groups: Vec<String>,
    /// Act as this uid
    #[arg(
        long = "as-uid",
        alias = "karmada-as-uid",
        value_name = "UID",
        requires = "as_user",
        help_heading = "User in the member"
    )]
    pub as_uid: Option<String>,
}

impl Command {
    /// The connection to the member, with the same rules as those of a control plane.
    fn member(&self) -> Plane {
        Plane {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            as_user: self.as_user.clone(),
            as_groups: self.as_groups.clone(),
            as_uid: self.as_uid.clone(),
            ..Plane::default()
        }
    }

    fn bootstrap(&self, cluster: &str) -> anyhow::Result<Bootstrap> {
        use secrecy::ExposeSecret as _;
        let token = self.bootstrap_token.expose_secret().parse::<BootstrapToken>();
        let skip = self.discovery_token_unsafe_skip_ca_verification;
        let hashes = &self.discovery_token_ca_cert_hash;
        let ca_hashes = hashes
            .iter()
            .map(|text| pins::parse(text).ok_or_else(|| RegisterError::Pin { text: text.clone() }))
            .collect::<Result<Vec<_>, _>>();
        let misused = |error: RegisterError| Misused(error.to_string());
        if hashes.is_empty() && !skip {
            return Err(misused(RegisterError::NoPins).into());
        }
        Ok(Bootstrap {
            server: address(&self.control_plane).map_err(misused)?,
            token: token.map_err(|error| Misused(error.to_string()))?,
            ca_hashes: ca_hashes.map_err(misused)?,
            unsafe_skip: skip,
            timeout: self.discovery_timeout,
            cluster: cluster.to_owned(),
            expiration_seconds: self.cert_expiration_seconds,
        })
    }

    async fn agent(&self, cluster: &str, member: Address) -> anyhow::Result<Agent> {
        let proxy = &self.proxy_server_address;
        Ok(Agent {
            names: Names::default(),
            cluster: cluster.to_owned(),
            rbac: Rbac::read(&self.rbac).await?,
            namespace: self.namespace.clone(),
            cluster_namespace: self.cluster_namespace.clone(),
            image: self.karmada_agent_image.clone(),
            replicas: self.karmada_agent_replicas,
            proxy: if proxy.is_empty() { member.proxy } else { proxy.clone() },
            api_endpoint: member.endpoint,
            provider: self.cluster_provider.clone(),
            region: self.cluster_region.clone(),
            zones: self.cluster_zones.clone(),
        })
    }
}

/// Runs the command.
///
/// # Errors
/// If objects are in the way in the member, or the control plane does not register it.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let kubeconfig = command.member().kubeconfig()?;
    let cluster = match &command.cluster_name {
        Some(name) => name.clone(),
        None => of_context(&kubeconfig).context("the kubeconfig names no cluster\n  try: --cluster-name NAME")?,
    };
    refuse_name(&cluster)?;
    let bootstrap = command.bootstrap(&cluster)?;
    let config = connect::config(kubeconfig, command.context.as_deref(), "member").await?;
    let agent = command.agent(&cluster, Address::from(&config)).await?;
    if command.print_manifests {
        return print_manifests(command, &bootstrap, &agent, clock).await;
    }
    let member = connect::client(config)?;
    let id = preflight(&member, &agent, clock).await?;
    let (changes, findings) = member::survey(&member, &agent, None).await?;
    findings.iter().for_each(|finding| print::note(&format!("[preflight] {finding}")));
    member::refuse(&agent, findings)?;
    if command.dry_run != DryRun::None {
        discovery::certificates(&bootstrap, clock, note("[preflight]")).await?;
        return dry_run(command.dry_run, &cluster, &member, &changes).await;
    }
    print::note(&format!("[preflight] the control plane at {} is asked for a certificate", bootstrap.server));
    let kubeconfig = credentials(&bootstrap, clock, note("[preflight]")).await?;
    let report = note("[karmada-agent-start]");
    rights::ensure(&bootstrap, &kubeconfig, Some(&id), rights::MADE_WITHIN, clock, report).await?;
    for (name, outcome) in install(&member, &agent, &kubeconfig).await? {
        let done = match outcome {
            Outcome::Created => "created",
            Outcome::Updated => "configured",
            Outcome::Unchanged => "unchanged",
        };
        print::note(&format!("[karmada-agent-start] {name} {done}"));
    }
    print::note("[karmada-agent-start] waiting for the agent's Pods");
    rolled_out(&member, clock, &agent, command.discovery_timeout).await?;
    print::out(&format!("cluster({cluster}) is joined successfully\n"))
}

/// Prints lines with the name of the step before.
fn note(step: &str) -> impl FnMut(&str) {
    move |line| print::note(&format!("{step} {line}"))
}

/// The cluster that the current context of a kubeconfig names.
fn of_context(kubeconfig: &Kubeconfig) -> Option<String> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == *current)?;
    context.context.as_ref().map(|context| context.cluster.clone())
}

/// Asks the member; returns its identity.
async fn preflight(member: &Client, agent: &Agent, clock: &Clock) -> anyhow::Result<String> {
    let cluster = &agent.cluster;
    let failed = || {
        format!(
            "cluster {cluster} was not registered: asking the member\n  try: --kubeconfig FILE of an administrator of the \
             member, or --context NAME"
        )
    };
    let preflight = Preflight::of(member, clock).await.with_context(failed)?;
    preflight.lines().iter().for_each(|line| print::note(&format!("[preflight] {line}")));
    let id = join::identity(member).await.with_context(failed)?;
    Ok(id.ok_or_else(|| RegisterError::NoIdentity { cluster: cluster.clone() })?)
}

async fn print_manifests(command: &Command, bootstrap: &Bootstrap, agent: &Agent, clock: &Clock) -> anyhow::Result<()> {
    let kubeconfig = match command.dry_run {
        DryRun::None => Some(credentials(bootstrap, clock, note("[preflight]")).await?),
        DryRun::Client | DryRun::Server => {
            print::note("the Secret has no data (dry run)");
            None
        }
    };
    let objects = objects(agent, kubeconfig.as_deref());
    match command.output {
        Output::Json => print::out(&print::objects(Output::Json, &objects)?),
        _ => print::out(&print::documents(&objects)?),
    }
}

async fn dry_run(dry_run: DryRun, cluster: &str, member: &Client, changes: &[member::Change]) -> anyhow::Result<()> {
    let suffix = dry_run.suffix();
    let mut lines = String::new();
    for change in changes {
        let name = named(&change.object);
        let answer =
            if dry_run == DryRun::Server { change.write(member, Mode::DryRun).await.map(drop) } else { Ok(()) };
        let result = match (answer, change.outcome()) {
            // A registration creates its namespace first; in a dry run it does not exist.
            (Err(kube::Error::Api(status)), Outcome::Created) if status.code == 404 => "created, as its namespace is",
            (Err(error), _) => return Err(error).context(format!("the member would refuse {name}")),
            (Ok(()), Outcome::Created) => "created",
            (Ok(()), Outcome::Updated) => "configured",
            (Ok(()), Outcome::Unchanged) => "unchanged",
        };
        lines += &format!("{name} {result}{suffix}\n");
    }
    print::out(&format!("{lines}cluster({cluster}) would be registered{suffix}\n"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::report::{MISUSED, exit_code};

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        command: Command,
    }

    fn command(words: &str) -> Command {
        let line = format!("register plane:6443 {words}");
        Line::try_parse_from(line.split_whitespace()).unwrap_or_else(|error| panic!("{line}: {error}")).command
    }

    #[test]
    fn arguments_are_checked_before_anything_is_asked() {
        const TOKEN: &str = "--token abcdef.0123456789abcdef";
        let hash = format!("--discovery-token-ca-cert-hash sha256:{}", "0".repeat(64));
        for (words, want) in [
            (format!("{TOKEN} {hash}"), ""),
            (format!("{TOKEN} {hash} --image i --enable-cert-rotation=true --dry-run"), ""),
            (format!("{TOKEN} --discovery-token-unsafe-skip-ca-verification"), ""),
            (TOKEN.to_owned(), "no hash"),
            (format!("{TOKEN} --discovery-token-ca-cert-hash sha256:0"), "64 hexadecimal"),
            (format!("--token abcdef.secret {hash}"), "ID.SECRET"),
        ] {
            let words = words.replace("--enable-cert-rotation=true", "--enable-cert-rotation");
            let got = command(&words).bootstrap("m1");
            let text = got.as_ref().map_or_else(ToString::to_string, |_| String::new());
            assert!(text.contains(want) && text.is_empty() == want.is_empty(), "{words}: {text}");
            assert!(!text.contains("abcdef.secret"), "a token is not printed");
            assert!(got.is_ok() || got.is_err_and(|error| exit_code(&error) == MISUSED), "{words}");
        }
        assert!(!format!("{:?}", command(&format!("{TOKEN} {hash}"))).contains("0123456789abcdef"), "nor logged");
    }

    #[test]
    fn clusters_are_named_after_the_context() {
        let text = super::super::kubeconfig("https://m:6443", "", "user", "", "").unwrap();
        assert_eq!(of_context(&Kubeconfig::from_yaml(&text).unwrap()).as_deref(), Some("karmada-apiserver"));
        assert_eq!(of_context(&Kubeconfig::default()), None);
    }
}
