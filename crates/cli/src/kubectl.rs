//! Verbs that kubectl has: it is run for the control plane, or for members behind the control plane's proxy.

use std::{
    ffi::OsString,
    io::ErrorKind,
    process::{ExitStatus, Stdio},
};

use anyhow::Context as _;
use kube::{ResourceExt, config::Kubeconfig};
use tokio::process;

use crate::{
    connect::Plane,
    members, print, proxied,
    report::{Exit, Misused},
};

/// Verbs that end with one object in one cluster, or take the terminal.
const ONE_CLUSTER: [&str; 5] = ["exec", "attach", "port-forward", "cp", "edit"];

/// Arguments of kubectl, with our flags for clusters among them.
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// Arguments of kubectl; -C CLUSTER for the clusters to ask
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<OsString>,
}

/// Verbs of kubectl. Flags are kubectl's, and `-C CLUSTER` (`--cluster`, `--clusters`), `--operation-scope
/// karmada|members`, and those that name the control plane and who acts.
#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    /// Show objects of the control plane or of members, with their events: kubectl describe.
    #[command(after_help = "Examples:
  ironclad describe deploy web -n shop
  ironclad describe pod web-0 -n shop -C member1")]
    Describe(Arguments),
    /// Run a command in a container of a member's Pod: kubectl exec through the control plane's proxy.
    #[command(after_help = "Examples:
  ironclad exec web-0 -n shop -C member1 -- date
  ironclad exec -it web-0 -n shop -C member1 -- sh")]
    Exec(Arguments),
    /// Attach to a process in a member's Pod: kubectl attach through the control plane's proxy.
    #[command(after_help = "Examples:
  ironclad attach -it web-0 -n shop -C member1")]
    Attach(Arguments),
    /// Forward local ports to a member's Pod: kubectl port-forward through the control plane's proxy.
    #[command(after_help = "Examples:
  ironclad port-forward web-0 8080:80 -n shop -C member1")]
    PortForward(Arguments),
    /// Copy files from and to a member's Pod: kubectl cp through the control plane's proxy.
    #[command(after_help = "Examples:
  ironclad cp shop/web-0:/tmp/log ./log -C member1")]
    Cp(Arguments),
    /// Create objects in the control plane or in members: kubectl create.
    #[command(after_help = "Examples:
  ironclad create -f web.yaml
  ironclad create configmap limits --from-literal=a=b -n shop -C member1")]
    Create(Arguments),
    /// Edit an object in the control plane or in a member: kubectl edit.
    #[command(after_help = "Examples:
  ironclad edit deploy web -n shop
  ironclad edit configmap limits -n shop -C member1")]
    Edit(Arguments),
    /// Delete objects in the control plane or in members: kubectl delete.
    #[command(after_help = "Examples:
  ironclad delete deploy web -n shop
  ironclad delete pod web-0 -n shop -C member1")]
    Delete(Arguments),
    /// Change fields of an object in the control plane or in members: kubectl patch.
    #[command(after_help = "Examples:
  ironclad patch deploy web -n shop -p '{\"spec\":{\"replicas\":3}}'")]
    Patch(Arguments),
    /// Change labels of objects in the control plane or in members: kubectl label.
    #[command(after_help = "Examples:
  ironclad label deploy web tier=front -n shop
  ironclad label node node-1 zone=a -C member1")]
    Label(Arguments),
    /// Change annotations of objects in the control plane or in members: kubectl annotate.
    #[command(after_help = "Examples:
  ironclad annotate deploy web note=ok -n shop")]
    Annotate(Arguments),
    /// Explain the fields of a kind in the control plane or in a member: kubectl explain.
    #[command(after_help = "Examples:
  ironclad explain propagationpolicy.spec.placement
  ironclad explain deploy.spec -C member1")]
    Explain(Arguments),
    /// List the kinds that the control plane or members serve: kubectl api-resources.
    #[command(after_help = "Examples:
  ironclad api-resources
  ironclad api-resources --api-group=apps -C member1")]
    ApiResources(Arguments),
    /// List the API versions that the control plane or members serve: kubectl api-versions.
    #[command(after_help = "Examples:
  ironclad api-versions
  ironclad api-versions -C member1")]
    ApiVersions(Arguments),
    /// Ask for your rights in the control plane or in members: kubectl auth.
    #[command(after_help = "Examples:
  ironclad auth can-i create deploy -n shop
  ironclad auth can-i delete pods -n shop -C member1
  ironclad auth whoami -C member1")]
    Auth(Arguments),
}

impl Verb {
    fn parts(&self) -> (&'static str, &Arguments) {
        match self {
            Self::Describe(arguments) => ("describe", arguments),
            Self::Exec(arguments) => ("exec", arguments),
            Self::Attach(arguments) => ("attach", arguments),
            Self::PortForward(arguments) => ("port-forward", arguments),
            Self::Cp(arguments) => ("cp", arguments),
            Self::Create(arguments) => ("create", arguments),
            Self::Edit(arguments) => ("edit", arguments),
            Self::Delete(arguments) => ("delete", arguments),
            Self::Patch(arguments) => ("patch", arguments),
            Self::Label(arguments) => ("label", arguments),
            Self::Annotate(arguments) => ("annotate", arguments),
            Self::Explain(arguments) => ("explain", arguments),
            Self::ApiResources(arguments) => ("api-resources", arguments),
            Self::ApiVersions(arguments) => ("api-versions", arguments),
            Self::Auth(arguments) => ("auth", arguments),
        }
    }
}

/// Servers that a verb asks.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    Plane,
    /// These members; none named means all.
    Members(Vec<String>),
}

/// Arguments, divided into ours and those of kubectl.
#[derive(Debug, Default)]
pub(crate) struct Divided {
    /// Members that are named.
    pub(crate) clusters: Vec<String>,
    pub(crate) operation_scope: Option<String>,
    /// The control plane, and who acts.
    pub(crate) plane: Plane,
    /// Arguments of kubectl behind its verb.
    pub(crate) kubectl: Vec<OsString>,
}

/// Flags with a value that are ours: kubectl gets them in its kubeconfig.
const OURS: [&str; 16] = [
    "-C", "--cluster", "--clusters", "--operation-scope", "--kubeconfig", "--context", "--karmada-context", "--user",
    "--server", "--token", "--as", "--karmada-as", "--as-group", "--karmada-as-group", "--as-uid", "--karmada-as-uid",
];

impl Divided {
    /// Takes our flags out of arguments.
    pub(crate) fn of(arguments: &[OsString]) -> Result<Self, Misused> {
        let mut divided = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let text = argument.to_string_lossy();
            if text == "--" {
                divided.kubectl.push(argument.clone());
                divided.kubectl.extend(rest.cloned());
                break;
            }
            let (name, given) = match text.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None if text.starts_with("-C") && text.len() > 2 => ("-C".to_owned(), Some(text[2..].to_owned())),
                None => (text.into_owned(), None),
            };
            if !OURS.contains(&&*name) {
                divided.kubectl.push(argument.clone());
                continue;
            }
            let next = || rest.next().map(|value| value.to_string_lossy().into_owned());
            let value = given.or_else(next).ok_or_else(|| Misused(format!("flag needs an argument: {name}")))?;
            let plane = &mut divided.plane;
            match name.trim_start_matches("--").trim_start_matches("karmada-") {
                "operation-scope" => divided.operation_scope = Some(value),
                "kubeconfig" => plane.kubeconfig = Some(value.into()),
                "context" => plane.context = Some(value),
                "user" => plane.user = Some(value),
                "server" => plane.server = Some(value),
                "token" => plane.token = Some(value),
                "as" => plane.as_user = Some(value),
                "as-group" => plane.as_groups.push(value),
                "as-uid" => plane.as_uid = Some(value),
                _ => divided.clusters.extend(value.split(',').filter(|name| !name.is_empty()).map(str::to_owned)),
            }
        }
        Ok(divided)
    }

    fn scope(&self, verb: &str) -> Result<Scope, Misused> {
        let scope = match self.operation_scope.as_deref() {
            None if self.clusters.is_empty() => Scope::Plane,
            Some("karmada") if self.clusters.is_empty() => Scope::Plane,
            None | Some("members") => Scope::Members(self.clusters.clone()),
            Some("karmada") => return Err(Misused("-C names members, and --operation-scope is karmada".to_owned())),
            Some(other) => {
                let text = format!("--operation-scope {other:?} is none of {verb}\n  try: karmada or members");
                return Err(Misused(text));
            }
        };
        match &scope {
            Scope::Members(names) if names.len() != 1 && ONE_CLUSTER.contains(&verb) => {
                Err(Misused(format!("{verb} is for one cluster\n  try: -C CLUSTER")))
            }
            _ => Ok(scope),
        }
    }
}

/// Runs kubectl with this verb, for each cluster in turn, and passes its exit code on.
///
/// # Errors
/// If flags contradict each other, a cluster does not exist, or there is no kubectl.
pub async fn run(verb: &Verb) -> anyhow::Result<()> {
    let (verb, arguments) = verb.parts();
    divided(verb, &Divided::of(&arguments.arguments)?).await
}

/// Runs a verb of kubectl with arguments that were divided.
///
/// # Errors
/// Those of [`run`].
pub(crate) async fn divided(verb: &str, divided: &Divided) -> anyhow::Result<()> {
    let scope = divided.scope(verb)?;
    let plane = &divided.plane;
    let Scope::Members(names) = scope else {
        return start(verb, &divided.kubectl, &plane.kubeconfig()?, inherited())?.ended().await;
    };
    let client = plane.client().await?;
    let clusters = members::clusters(&client, &names).await?;
    let front = proxied::front(&client).await;
    let names: Vec<String> = clusters.iter().map(ResourceExt::name_any).collect();
    let mut failed = Ok(());
    for name in &names {
        if names.len() > 1 {
            print::note(&format!("cluster {name}:"));
        }
        let kubeconfig = proxied::kubeconfig(&plane.kubeconfig()?, front.as_ref(), std::slice::from_ref(name))?;
        let ended = start(verb, &divided.kubectl, &kubeconfig, inherited())?.ended().await;
        failed = failed.and(ended);
    }
    failed
}

/// stdin and stdout of this process.
pub(crate) fn inherited() -> [Stdio; 2] {
    [Stdio::inherit(), Stdio::inherit()]
}

/// A kubectl that runs.
pub(crate) struct Running {
    /// The process.
    pub(crate) child: process::Child,
    /// Has credentials: only its owner may read it, and it is removed at the end.
    _kubeconfig: tempfile::NamedTempFile,
}

/// Starts kubectl with this kubeconfig, and these as stdin and stdout.
pub(crate) fn start(
    verb: &str,
    arguments: &[OsString],
    kubeconfig: &Kubeconfig,
    [stdin, stdout]: [Stdio; 2],
) -> anyhow::Result<Running> {
    let mut file = tempfile::NamedTempFile::new().context("a file for kubectl's kubeconfig")?;
    serde_json::to_writer(&mut file, &serde_json::to_value(kubeconfig)?)?;
    let mut command = process::Command::new("kubectl");
    command.arg(verb).arg("--kubeconfig").arg(file.path()).args(arguments).stdin(stdin).stdout(stdout);
    let child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow::Error::msg(format!(
            "kubectl was not found on PATH, and runs `ironclad {verb}`\n  try: install kubectl"
        )),
        _ => anyhow::Error::new(error).context("kubectl can't be run"),
    })?;
    Ok(Running { child, _kubeconfig: file })
}

impl Running {
    /// Waits for its end, and passes its exit code on.
    pub(crate) async fn ended(mut self) -> anyhow::Result<()> {
        // Both get ctrl-c; kubectl says how it ends.
        loop {
            tokio::select! {
                biased;
                ended = self.child.wait() => return passed_on(ended?),
                _ = tokio::signal::ctrl_c() => {}
            }
        }
    }
}

fn passed_on(status: ExitStatus) -> anyhow::Result<()> {
    match status.code() {
        Some(0) => Ok(()),
        code => Err(Exit(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(crate::report::FAILED)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(line: &str) -> Divided {
        Divided::of(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn flags_for_clusters_are_ours_and_all_others_kubectls() {
        for (line, clusters, kubectl) in [
            ("pod web -n shop", vec![], "pod web -n shop"),
            ("pod web -C m1 -n shop", vec!["m1"], "pod web -n shop"),
            ("-Cm1 pod web", vec!["m1"], "pod web"),
            ("--cluster=m1,m2 pod --cluster m3", vec!["m1", "m2", "m3"], "pod"),
            ("-it web -C m1 -- sh -C m2 --context x", vec!["m1"], "-it web -- sh -C m2 --context x"),
            ("web --context plane --kubeconfig=f", vec![], "web"),
        ] {
            let got = divided(line);
            let passed: Vec<_> = got.kubectl.iter().map(|one| one.to_string_lossy().into_owned()).collect();
            assert_eq!(
                (got.clusters, passed.join(" ")),
                (clusters.into_iter().map(str::to_owned).collect(), kubectl.to_owned()),
                "{line}"
            );
        }
        let plane = divided("web --context plane --kubeconfig=f --as ann --karmada-as-group devs").plane;
        assert_eq!((plane.context.as_deref(), plane.kubeconfig), (Some("plane"), Some("f".into())));
        assert_eq!((plane.as_user.as_deref(), plane.as_groups), (Some("ann"), vec!["devs".to_owned()]));
        let missing = Divided::of(&["-C".into()]).unwrap_err();
        assert_eq!(missing.to_string(), "flag needs an argument: -C");
    }

    #[test]
    fn scopes() {
        let names = |names: &[&str]| Scope::Members(names.iter().map(|name| (*name).to_owned()).collect());
        for (verb, line, want) in [
            ("describe", "pod web", Ok(Scope::Plane)),
            ("describe", "pod web --operation-scope karmada", Ok(Scope::Plane)),
            ("describe", "pod web --operation-scope=members", Ok(names(&[]))),
            ("describe", "pod web -C m1,m2", Ok(names(&["m1", "m2"]))),
            ("exec", "web -C m1 -- sh", Ok(names(&["m1"]))),
            ("exec", "web -C m1,m2 -- sh", Err("exec is for one cluster")),
            ("exec", "web --operation-scope members -- sh", Err("exec is for one cluster")),
            ("describe", "pod -C m1 --operation-scope karmada", Err("-C names members")),
            ("describe", "pod --operation-scope all", Err("karmada or members")),
        ] {
            match (divided(line).scope(verb), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{verb} {line}"),
                (Err(got), Err(want)) => assert!(got.to_string().contains(want), "{verb} {line}: {got}"),
                (got, want) => panic!("{verb} {line}: {got:?}, wanted {want:?}"),
            }
        }
    }
}
