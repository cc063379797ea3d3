//! `ironclad rollout`: restarts workloads by their templates; everything else about rollouts is kubectl's.

use std::ffi::OsString;

use anyhow::{Context as _, anyhow};
use ironclad_api::work::{ResourceBindingSpec, TargetCluster};
use ironclad_fleet::{BindingRef, targets};
use ironclad_seam::Clock;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    bindings,
    connect::Plane,
    dry_run::DryRun,
    kubectl::{self, Arguments, Divided},
    print::{self, Output, text},
    report::{self, Misused},
    resource::{Resources, arguments},
    tree::{api, whole},
    write,
};

/// Annotation of a Pod template whose change makes a workload replace its Pods.
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// Restart workloads, or manage their rollouts: kubectl rollout.
///
/// `restart` changes the template in the control plane, and so all copies. The other subcommands run kubectl, for the
/// control plane or with -C for members.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad rollout restart deploy/web -n shop
  ironclad rollout status deploy/web -n shop -C member1,member2
  ironclad rollout undo deploy/web -n shop")]
pub struct Command {
    #[command(subcommand)]
    pub verb: Verb,
}

/// Subcommand.
#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    /// Restart the Pods of workloads in all of their clusters
    Restart(Box<Restart>),
    /// Follow a rollout until it is done: kubectl rollout status
    Status(Arguments),
    /// Show earlier revisions: kubectl rollout history
    History(Arguments),
    /// Go back to an earlier revision: kubectl rollout undo
    Undo(Arguments),
    /// Hold a Deployment's rollout: kubectl rollout pause
    Pause(Arguments),
    /// Go on with a rollout that was paused: kubectl rollout resume
    Resume(Arguments),
}

/// Restart the Pods of workloads in all of their clusters.
///
/// The template in the control plane gets the annotation that `kubectl rollout restart` sets in its Pod template, and
/// each cluster replaces its Pods by the strategy of the workload. With -C only these members restart, by kubectl.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad rollout restart deploy/web -n shop
  ironclad rollout restart statefulset/db daemonset/agent -n shop --dry-run
  ironclad rollout restart deploy/web -n shop -C member1")]
pub struct Restart {
    /// TYPE NAME…, or TYPE/NAME…: Deployments, StatefulSets and DaemonSets
    #[arg(required = true, value_name = "TYPE NAME")]
    pub resource: Vec<String>,
    /// Namespace [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Restart the copies in these members alone
    #[arg(short = 'C', long, alias = "cluster", value_delimiter = ',', value_name = "NAMES")]
    pub clusters: Vec<String>,
    /// Print what would restart, without doing it
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "client", value_name = "WHO")]
    pub dry_run: DryRun,
    /// Output format
    #[arg(short, long, value_parser = Output::without(&[Output::Wide, Output::Json, Output::Yaml]), default_value = "table", value_name = "FORMAT")]
    pub output: Output,
    /// The control plane.
    #[command(flatten)]
    pub plane: Plane,
}

/// Runs the command.
///
/// # Errors
/// If a workload does not exist or can't be restarted, a server refuses, or kubectl fails.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let (verb, arguments) = match &command.verb {
        Verb::Restart(restart) if restart.clusters.is_empty() => return self::restart(restart, clock).await,
        Verb::Restart(restart) => return kubectl::divided("rollout", &restart.in_members()?).await,
        Verb::Status(arguments) => ("status", arguments),
        Verb::History(arguments) => ("history", arguments),
        Verb::Undo(arguments) => ("undo", arguments),
        Verb::Pause(arguments) => ("pause", arguments),
        Verb::Resume(arguments) => ("resume", arguments),
    };
    let words: Vec<OsString> = [verb.into()].into_iter().chain(arguments.arguments.iter().cloned()).collect();
    kubectl::divided("rollout", &Divided::of(&words)?).await
}

impl Restart {
    /// The arguments of kubectl, which restarts copies in members.
    fn in_members(&self) -> Result<Divided, Misused> {
        if self.dry_run != DryRun::None {
            return Err(Misused("kubectl restarts in members, and has no --dry-run\n  try: without -C".to_owned()));
        }
        let mut words = vec!["restart".to_owned()];
        words.extend(self.namespace.iter().flat_map(|namespace| ["-n".to_owned(), namespace.clone()]));
        if self.output == Output::Name {
            words.extend(["-o".to_owned(), "name".to_owned()]);
        }
        words.extend(self.resource.iter().cloned());
        let kubectl = words.into_iter().map(OsString::from).collect();
        Ok(Divided { clusters: self.clusters.clone(), plane: self.plane.clone(), kubectl, ..Divided::default() })
    }
}

/// Restarts workloads by their templates. Nothing is written if one of them can't be restarted.
///
/// # Errors
/// If a workload does not exist or can't be restarted, or the server refuses.
pub async fn restart(command: &Restart, clock: &Clock) -> anyhow::Result<()> {
    let client = command.plane.client().await?;
    let known = Resources::of(&client).await.context("asking the control plane what it serves")?;
    let namespace = command.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let mut changes = Vec::new();
    for (word, names) in arguments(&command.resource)? {
        if names.is_empty() {
            let text = format!("{word} without a name\n  try: ironclad rollout restart {word} NAME");
            return Err(Misused(text).into());
        }
        let resource = known.find(&word)?;
        let namespace = if resource.namespaced { namespace.as_str() } else { "" };
        for name in names {
            let read = api(client.clone(), &resource, namespace).get_opt(&name).await;
            let present = read.with_context(|| format!("reading {word} {name}"))?;
            let Some(present) = present else {
                let plural = &resource.api.plural;
                return Err(anyhow!("{word} {name} does not exist\n  try: ironclad get {plural} -A"));
            };
            let change = restarted(&whole(&present, &resource)?, clock.wall_seconds())?;
            let binding = bindings::of(&client, &resource, namespace, &name).await;
            let binding = binding.with_context(|| format!("reading the binding of {word} {name}"));
            let copies = match report::permitted(binding)? {
                Some(binding) => copies(binding.as_ref().map(|binding| BindingRef::from(binding).spec())),
                None => "where is not known: you may not get its binding".to_owned(),
            };
            changes.push((change, present, copies));
        }
    }
    for (change, present, copies) in changes {
        let name = print::name(&change);
        if let Some(mode) = command.dry_run.mode() {
            let written = write::merge(&client, &change, &present, mode).await;
            written.with_context(|| format!("{name} was not restarted"))?;
        }
        print::out(&match command.output {
            Output::Name => format!("{name}\n"),
            _ => format!("{name} restarted{} ({copies})\n", command.dry_run.suffix()),
        })?;
    }
    Ok(())
}

/// The change of a workload that makes it replace its Pods.
fn restarted(workload: &Value, now: Timestamp) -> anyhow::Result<Value> {
    let (kind, name) = (text(workload, "/kind"), text(workload, "/metadata/name"));
    let (api_version, namespace) = (text(workload, "/apiVersion"), text(workload, "/metadata/namespace"));
    if !api_version.starts_with("apps/") || !["Deployment", "StatefulSet", "DaemonSet"].contains(&kind) {
        let text = format!("{kind} {name} has no rollout\n  try: a Deployment, a StatefulSet or a DaemonSet");
        return Err(Misused(text).into());
    }
    if workload["spec"]["paused"] == true {
        let resume = format!("ironclad rollout resume {}/{name} -n {namespace}", kind.to_lowercase());
        return Err(anyhow!("{kind} {name} is paused, so that its Pods are not replaced\n  try: {resume}"));
    }
    let at = now.to_string();
    if workload["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT] == at.as_str() {
        return Err(anyhow!("{kind} {name} was restarted within this second\n  try: again in a second"));
    }
    Ok(json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: at}}}}}))
}

/// Clusters whose copies restart, with their replicas: `member1:2, member2:2`.
fn copies(binding: Option<&ResourceBindingSpec>) -> String {
    let Some(spec) = binding else { return "no copies: it is not propagated".to_owned() };
    let copy = |target: &TargetCluster| match target.replicas {
        0 => target.name.clone(),
        replicas => format!("{}:{replicas}", target.name),
    };
    let copies: Vec<String> = targets::started(spec).map(copy).collect();
    match (copies.is_empty(), spec.clusters.is_empty()) {
        (true, true) => "no copies: it is not scheduled".to_owned(),
        (true, false) => "no copies: its dispatch is suspended".to_owned(),
        (false, _) => copies.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(kind: &str, spec: Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": "shop"}, "spec": spec})
    }

    #[test]
    fn workloads_with_rollouts_are_restarted_by_an_annotation() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let at = |time: &str| json!({"template": {"metadata": {"annotations": {RESTARTED_AT: time}}}});
        let of = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web", "namespace": "shop"}});
        for (what, given, want) in [
            ("a Deployment", workload("Deployment", json!({"replicas": 2})), Ok("Deployment")),
            ("a StatefulSet", workload("StatefulSet", json!({})), Ok("StatefulSet")),
            ("a DaemonSet", workload("DaemonSet", json!({})), Ok("DaemonSet")),
            ("one second later", workload("Deployment", at("2026-01-02T03:04:04Z")), Ok("Deployment")),
            ("in the same second", workload("Deployment", at("2026-01-02T03:04:05Z")), Err("within this second")),
            ("not paused", workload("Deployment", json!({"paused": false})), Ok("Deployment")),
            (
                "paused",
                workload("Deployment", json!({"paused": true})),
                Err("paused, so that its Pods are not replaced\n  try: ironclad rollout resume deployment/web -n shop"),
            ),
            ("a ReplicaSet", workload("ReplicaSet", json!({})), Err("ReplicaSet web has no rollout")),
            ("another group", of("apps.example/v1", "Deployment"), Err("has no rollout")),
            ("a ConfigMap", of("v1", "ConfigMap"), Err("ConfigMap web has no rollout")),
        ] {
            match (restarted(&given, now), want) {
                (Ok(change), Ok(kind)) => assert_eq!(change, workload(kind, at("2026-01-02T03:04:05Z")), "{what}"),
                (Err(error), Err(want)) => assert!(error.to_string().contains(want), "{what}: {error}"),
                (got, _) => panic!("{what}: {got:?}"),
            }
        }
    }

    #[test]
    fn copies_restart_where_the_binding_is_dispatched() {
        let binding = |clusters: &[(&str, i32)], suspension: Value| -> ResourceBindingSpec {
            let clusters: Vec<Value> =
                clusters.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
            serde_json::from_value(json!({"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "clusters": clusters, "suspension": suspension}))
            .unwrap()
        };
        let two = [("member1", 2), ("member2", 2)];
        let one_off = json!({"dispatchingOnClusters": {"clusterNames": ["member1"]}});
        for (given, want) in [
            (Some(binding(&two, json!(null))), "member1:2, member2:2"),
            (Some(binding(&[("member1", 0)], json!(null))), "member1"),
            (Some(binding(&two, one_off)), "member2:2"),
            (Some(binding(&two, json!({"dispatching": true}))), "no copies: its dispatch is suspended"),
            (Some(binding(&[], json!(null))), "no copies: it is not scheduled"),
            (None, "no copies: it is not propagated"),
        ] {
            assert_eq!(copies(given.as_ref()), want);
        }
    }

    #[test]
    fn kubectl_restarts_copies_of_members() {
        use clap::{Args as _, FromArgMatches as _};
        let of = |line: &str| {
            let matches = Restart::augment_args(clap::Command::new("restart")).get_matches_from(line.split(' '));
            Restart::from_arg_matches(&matches).unwrap().in_members()
        };
        let divided = of("restart deploy/web -n shop -C m1,m2 -o name --context plane").unwrap();
        assert_eq!(
            (divided.clusters, divided.plane.context.as_deref()),
            (vec!["m1".into(), "m2".into()], Some("plane"))
        );
        assert_eq!(divided.kubectl.join(" ".as_ref()), "restart -n shop -o name deploy/web");
        assert!(of("restart deploy/web -C m1 --dry-run").unwrap_err().to_string().contains("without -C"));
    }
}
