//! `ironclad apply`: kubectl apply in the control plane, with a policy before each object that propagates it
//! (specification/operations.md 2.10).

use std::{ffi::OsString, process::Stdio, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_patch::text_at;
use ironclad_propagation::generated_policy::{self, WithPolicies};
use ironclad_seam::Clock;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{
    claims::Claims,
    connect::Plane,
    dry_run::DryRun,
    kubectl::{self, inherited},
    members, print,
};

mod awaited;
mod pruned;

/// Time for clusters to apply templates.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Largest size of the manifests of one run, bytes.
const MANIFESTS_MAX: u64 = 256 << 20;

/// Apply manifests to the control plane, and propagate them to clusters: kubectl apply.
///
/// With -C or --all-clusters each object gets a policy for it alone, before the object itself; without them policies
/// have to select it. Flags are kubectl's.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad apply -f web.yaml --all-clusters
  ironclad apply -f web.yaml -n shop -C member1,member2 --wait --timeout 2m
  ironclad apply -k overlays/production --all-clusters --dry-run=server
  ironclad apply -f web.yaml")]
pub struct Command {
    /// Files, directories or URLs with manifests; - for stdin
    #[arg(short, long, value_name = "FILES", required_unless_present = "kustomize", conflicts_with = "kustomize")]
    pub filename: Vec<String>,
    /// Directory of a kustomization
    #[arg(short, long, value_name = "DIRECTORY")]
    pub kustomize: Option<String>,
    /// Read directories below those of -f, too
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Namespace of objects that name none [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Propagate to these members
    #[arg(short = 'C', long, alias = "cluster", value_delimiter = ',', value_name = "NAMES")]
    pub clusters: Vec<String>,
    /// Propagate to all members, those that join later too
    #[arg(long, conflicts_with = "clusters")]
    pub all_clusters: bool,
    /// Print what would be done, without doing it
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "client", value_name = "WHO")]
    pub dry_run: DryRun,
    /// Output format: json, yaml, name and others of kubectl
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<String>,
    /// Template for -o go-template and jsonpath
    #[arg(long, value_name = "TEMPLATE")]
    pub template: Option<String>,
    /// Keep managed fields in JSON and YAML
    #[arg(long)]
    pub show_managed_fields: bool,
    /// Let the server merge
    #[arg(long)]
    pub server_side: bool,
    /// With --server-side, take fields over from other managers
    #[arg(long)]
    pub force_conflicts: bool,
    /// Name of the manager of the fields
    #[arg(long, value_name = "NAME")]
    pub field_manager: Option<String>,
    /// Check fields: strict, warn or ignore [default: strict]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "strict", value_name = "HOW")]
    pub validate: Option<String>,
    /// Resolve conflicts between the live object and the manifest with the manifest's values
    #[arg(long, value_name = "BOOL")]
    pub overwrite: Option<bool>,
    /// Delete and create objects that can't be changed
    #[arg(long)]
    pub force: bool,
    /// Deletion of dependents of deleted objects: background, orphan or foreground
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "background", value_name = "HOW")]
    pub cascade: Option<String>,
    /// Seconds that deleted objects get to end
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub grace_period: Option<i32>,
    /// Wait until deleted objects are gone and, with -C or --all-clusters, until all clusters have applied the others
    #[arg(long)]
    pub wait: bool,
    /// Time to wait for them [default for clusters: 5m]
    #[arg(long, value_name = "TIME", value_parser = crate::duration)]
    pub timeout: Option<Duration>,
    /// Delete objects that were applied before and are not in the manifests, and their generated policies; needs -l,
    /// --all or --applyset
    #[arg(long)]
    pub prune: bool,
    /// With --prune, of these kinds: GROUP/VERSION/KIND (repeatable)
    #[arg(long, value_name = "KIND")]
    pub prune_allowlist: Vec<String>,
    /// With --prune, of this set, in which the objects are recorded
    #[arg(long, value_name = "NAME")]
    pub applyset: Option<String>,
    /// With --prune, all objects of those kinds in the namespace
    #[arg(long)]
    pub all: bool,
    /// Subresource to apply to, such as status
    #[arg(long, value_name = "NAME", conflicts_with_all = ["clusters", "all_clusters"])]
    pub subresource: Option<String>,
    /// The control plane.
    #[command(flatten)]
    pub plane: Plane,
}

impl Command {
    /// Flags of kubectl that say which manifests are meant.
    fn choosing(&self) -> Vec<OsString> {
        let files = self.filename.iter().map(|file| format!("--filename={file}"));
        let folder = self.kustomize.iter().map(|folder| format!("--kustomize={folder}"));
        let recursive = self.recursive.then(|| "--recursive".to_owned());
        files.chain(folder).chain(recursive).map(Into::into).collect()
    }

    /// Flags of kubectl that hold for manifests from wherever.
    fn filtering(&self) -> Vec<OsString> {
        let valued = [("selector", &self.selector), ("namespace", &self.namespace)];
        let mut flags = of_values(valued);
        if let Some(timeout) = self.plane.request_timeout {
            flags.push(format!("--request-timeout={}ms", timeout.as_millis()).into());
        }
        flags
    }

    /// Flags of kubectl that say how objects are applied.
    fn applying(&self) -> Vec<OsString> {
        let (overwrite, grace_period) =
            (self.overwrite.map(|is| is.to_string()), self.grace_period.map(|seconds| seconds.to_string()));
        let timeout = self.timeout.map(|timeout| format!("{}ms", timeout.as_millis()));
        let dry_run = match self.dry_run {
            DryRun::None => None,
            DryRun::Client => Some("client".to_owned()),
            DryRun::Server => Some("server".to_owned()),
        };
        let mut flags = of_values([
            ("dry-run", &dry_run),
            ("output", &self.output),
            ("template", &self.template),
            ("field-manager", &self.field_manager),
            ("validate", &self.validate),
            ("overwrite", &overwrite),
            ("cascade", &self.cascade),
            ("grace-period", &grace_period),
            ("timeout", &timeout),
            ("applyset", &self.applyset),
            ("subresource", &self.subresource),
        ]);
        let switches = [
            ("show-managed-fields", self.show_managed_fields),
            ("server-side", self.server_side),
            ("force-conflicts", self.force_conflicts),
            ("force", self.force),
            ("wait", self.wait),
            ("prune", self.prune),
            ("all", self.all),
            ("warnings-as-errors", self.plane.warnings_as_errors),
        ];
        flags.extend(switches.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| format!("--{name}").into()));
        flags.extend(self.prune_allowlist.iter().map(|kind| format!("--prune-allowlist={kind}").into()));
        flags
    }
}

fn of_values<const N: usize>(valued: [(&str, &Option<String>); N]) -> Vec<OsString> {
    let given = |(name, value): (&str, &Option<String>)| Some(format!("--{name}={}", value.as_ref()?).into());
    valued.into_iter().filter_map(given).collect()
}

/// Runs the command.
///
/// # Errors
/// If a cluster does not exist, there is no kubectl, or it fails: then with its exit code.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let kubeconfig = command.plane.kubeconfig()?;
    if command.clusters.is_empty() && !command.all_clusters {
        let arguments = [command.choosing(), command.filtering(), command.applying()].concat();
        return kubectl::start("apply", &arguments, &kubeconfig, inherited())?.ended().await;
    }
    let plane = command.plane.client().await?;
    if !command.clusters.is_empty() {
        members::clusters(&plane, &command.clusters).await?;
    }
    // It reads manifests from everywhere that kubectl knows, and gives objects their namespace; it writes nothing.
    let reading = ["--dry-run=client", "--output=json", "--validate=false"].map(OsString::from);
    let arguments = [command.choosing(), command.filtering(), reading.to_vec()].concat();
    let [stdin, _] = inherited();
    let mut reader = kubectl::start("create", &arguments, &kubeconfig, [stdin, Stdio::piped()])?;
    let mut text = Vec::new();
    let stdout = reader.child.stdout.take().context("kubectl's stdout is a pipe")?;
    stdout.take(MANIFESTS_MAX + 1).read_to_end(&mut text).await.context("reading the manifests from kubectl")?;
    ensure!(text.len() as u64 <= MANIFESTS_MAX, "the manifests have more than {} MiB", MANIFESTS_MAX >> 20);
    reader.ended().await?;
    let manifests = serde_json::Deserializer::from_slice(&text).into_iter();
    let manifests: Vec<Value> = manifests.collect::<Result<_, _>>().context("reading the manifests from kubectl")?;
    let all = generated_policy::of_manifests(manifests, &command.clusters);
    for object in &all.of_plane {
        print::note(&format!(
            "{object} is applied to the control plane alone: objects of its kind or name are not propagated"
        ));
    }
    tell_claims(Claims::new(plane.clone()), &all).await;
    let arguments = [vec!["--filename=-".into()], command.filtering(), command.applying()].concat();
    let [_, stdout] = inherited();
    let mut applier = kubectl::start("apply", &arguments, &kubeconfig, [Stdio::piped(), stdout])?;
    let mut stdin = applier.child.stdin.take().context("kubectl's stdin is a pipe")?;
    let list = serde_json::to_vec(&print::list(all.manifests.clone()))?;
    // If it ends before it has read all, its exit code says why.
    let _ = stdin.write_all(&list).await;
    drop(stdin);
    applier.ended().await?;
    if command.dry_run != DryRun::None {
        return Ok(());
    }
    // An applyset has the policies as its members.
    if command.prune && command.applyset.is_none() {
        pruned::policies(&plane, command.selector.as_deref(), &all).await?;
    }
    if !command.wait {
        return Ok(());
    }
    let templates: Vec<&Value> = all.generated.iter().filter_map(|at| all.manifests.get(at + 1)).collect();
    let timeout = command.timeout.filter(|timeout| !timeout.is_zero()).unwrap_or(TIMEOUT);
    awaited::until_applied(&plane, clock, &templates, timeout).await
}

/// Tells which templates another policy claims, so that they don't go where the command line says.
async fn tell_claims(mut claims: Claims, all: &WithPolicies) {
    for at in &all.generated {
        let [Some(policy), Some(template)] = [at, &(at + 1)].map(|at| all.manifests.get(*at)) else { continue };
        match claims.instead_of(policy, template).await {
            Ok(None) => {}
            // A template stays with the policy that claimed it.
            Ok(Some(_)) if claims.is_there(policy) => {}
            Ok(Some(instead)) => {
                let text = |pointer: &str| text_at(template, pointer);
                print::note(&format!("warning: {} {}: {instead}", text("/kind"), text("/metadata/name")));
            }
            // Who may write policies need not be allowed to list them.
            Err(error) => return print::note(&format!("it is not known whether other policies claim them: {error:#}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        command: Command,
    }

    fn command(words: &str) -> Result<Command, String> {
        let line = Line::try_parse_from(std::iter::once("apply").chain(words.split_whitespace()));
        line.map(|line| line.command).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_are_passed_to_kubectl() {
        let text = |flags: Vec<OsString>| {
            flags.into_iter().map(|flag| flag.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        for (line, choosing, filtering, applying) in [
            ("-f a.yaml", "--filename=a.yaml", "", ""),
            ("-f a,b -f - -R -l app=web", "--filename=a,b --filename=- --recursive", "--selector=app=web", ""),
            ("-k dir -nshop", "--kustomize=dir", "--namespace=shop", ""),
            ("-f a --dry-run", "--filename=a", "", "--dry-run=client"),
            ("-f a --dry-run=server -o name", "--filename=a", "", "--dry-run=server --output=name"),
            ("-f a --validate", "--filename=a", "", "--validate=strict"),
            ("-f a --validate=false --overwrite false", "--filename=a", "", "--validate=false --overwrite=false"),
            (
                "-f a --server-side --force-conflicts --field-manager me",
                "--filename=a",
                "",
                "--field-manager=me --server-side --force-conflicts",
            ),
            (
                "-f a --force --cascade --grace-period -1 --wait --timeout 1m",
                "--filename=a",
                "",
                "--cascade=background --grace-period=-1 --timeout=60000ms --force --wait",
            ),
            (
                "-f a --prune --all --prune-allowlist v1/Pod --prune-allowlist v1/Secret",
                "--filename=a",
                "",
                "--prune --all --prune-allowlist=v1/Pod --prune-allowlist=v1/Secret",
            ),
            ("-f a -C m1,m2 --context x --request-timeout 5s", "--filename=a", "--request-timeout=5000ms", ""),
        ] {
            let got = command(line).unwrap();
            assert_eq!(
                (text(got.choosing()), text(got.filtering()), text(got.applying())),
                (choosing.to_owned(), filtering.to_owned(), applying.to_owned()),
                "{line}"
            );
        }
        assert_eq!(command("-f a -C m1,m2 --cluster m3").unwrap().clusters, ["m1", "m2", "m3"]);
        for (line, want) in [
            ("-C m1", "--filename <FILES>"),
            ("-f a -k b", "cannot be used with"),
            ("-f a -C m1 --all-clusters", "cannot be used with"),
            ("-f a --all-clusters --subresource status", "cannot be used with"),
        ] {
            let error = command(line).err().unwrap();
            assert!(error.contains(want), "{line}: {error}");
        }
    }
}
