//! `ironclad rebalance`: workloads are scheduled anew, by a WorkloadRebalancer (specification/operations.md 2.20).

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use ironclad_api::{
    apps::{FAILED as NOT_TRIGGERED, WorkloadRebalancer},
    names,
};
use ironclad_fleet::{Binding, BindingKey, BindingRef, World};
use ironclad_planning::{Fleet, coming::coming_to};
use ironclad_propagation::rebalance::{Progress, progress};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use kube::{Client, ResourceExt, api::ListParams};
use serde_json::{Value, json};

use crate::{
    bindings,
    connect::Plane,
    dry_run::DryRun,
    get::columns::placement,
    nodes, pages,
    plan::read::lists,
    print::{self, Output},
    report::{Exit, FAILED, Misused},
    resource::{Resource, Resources, arguments},
    tree::{api, refuse_ours},
    why::known,
    write,
};

/// Interval of looking for results.
const LOOK: Duration = Duration::from_millis(250);

/// Schedule workloads anew, as if they had no place yet.
///
/// A WorkloadRebalancer is made for them; then the verb waits until they are scheduled, and shows where they were and
/// are. Replicas that leave a cluster stay until those that replace them run.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad rebalance deploy/web -n shop
  ironclad rebalance deploy/web statefulset/db -n shop --wait 2m
  ironclad rebalance deploy -l tier=front -n shop --dry-run
  ironclad rebalance --cluster member1 -A
  ironclad rebalance deploy,statefulset --all -n shop --wait 0s -o name")]
pub struct Command {
    /// TYPE NAME…, or TYPE/NAME…; with -l or --all TYPE,TYPE; with --cluster none for all types
    #[arg(required_unless_present = "cluster", value_name = "TYPE NAME")]
    pub resource: Vec<String>,
    /// Only workloads that have nothing in this cluster and would get replicas there, as after its recovery
    #[arg(long, value_name = "CLUSTER")]
    pub cluster: Option<String>,
    /// With --cluster and without types: workloads of all namespaces
    #[arg(short = 'A', long, requires = "cluster", conflicts_with_all = ["resource", "namespace"])]
    pub all_namespaces: bool,
    /// Namespace [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// All workloads of the types with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// All workloads of the types in the namespace
    #[arg(long)]
    pub all: bool,
    /// Time to wait until the workloads are scheduled; 0s does not wait
    #[arg(long, default_value = "30s", value_parser = crate::duration, value_name = "TIME")]
    pub wait: Duration,
    /// Time after which the WorkloadRebalancer deletes itself once it is finished
    #[arg(long, default_value = "1h", value_parser = crate::duration, value_name = "TIME")]
    pub ttl: Duration,
    /// Print what would be made, without making it
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "client", value_name = "WHO")]
    pub dry_run: DryRun,
    /// Output format; json and yaml print the WorkloadRebalancer
    #[arg(short, long, value_parser = Output::without(&[Output::Wide]), default_value = "table", value_name = "FORMAT")]
    pub output: Output,
    /// The control plane.
    #[command(flatten)]
    pub plane: Plane,
}

/// A workload to schedule.
struct Workload {
    resource: Resource,
    namespace: String,
    name: String,
    /// Its placement before.
    before: String,
}

impl Workload {
    fn words(&self) -> String {
        format!("{}/{}", self.resource.api.kind.to_ascii_lowercase(), self.name)
    }

    /// Command that says why it is where it is.
    fn why(&self) -> String {
        let namespace = if self.namespace.is_empty() { String::new() } else { format!(" -n {}", self.namespace) };
        format!("ironclad why {}{namespace}", self.words())
    }

    fn reference(&self) -> Value {
        let mut reference = json!({
            "apiVersion": self.resource.api.api_version, "kind": self.resource.api.kind, "name": self.name});
        if !self.namespace.is_empty() {
            reference["namespace"] = json!(self.namespace);
        }
        reference
    }
}

/// Runs the command.
///
/// # Errors
/// If a workload does not exist or is not propagated, is not scheduled in time, or a server refuses.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let client = command.plane.client().await?;
    let workloads = match &command.cluster {
        None => wanted(command, &client).await?,
        Some(cluster) => coming(command, &client, cluster, clock).await?,
    };
    if workloads.is_empty() {
        print::note(&match &command.cluster {
            None => "no workload was found that is propagated".to_owned(),
            Some(cluster) => format!("no workload was found that would come to {cluster}"),
        });
        return Ok(());
    }
    let references: Vec<Value> = workloads.iter().map(Workload::reference).collect();
    let ttl = i32::try_from(command.ttl.as_secs()).unwrap_or(i32::MAX);
    let wanted = json!({
        "apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": {"generateName": "rebalance-"},
        "spec": {"workloads": references, "ttlSecondsAfterFinished": ttl}});
    let name = match command.dry_run.mode() {
        Some(mode) => {
            let made = write::create(&client, &wanted, mode).await.context("the WorkloadRebalancer was not created")?;
            made.name_any()
        }
        None => "rebalance-<generated>".to_owned(),
    };
    let mut made = wanted.clone();
    made["metadata"] = json!({"name": name});
    let created = format!("{} created{}\n", print::name(&made), command.dry_run.suffix());
    if command.dry_run != DryRun::None {
        return match command.output {
            Output::Json | Output::Yaml => print::out(&print::objects(command.output, &[wanted])?),
            Output::Name => print::out(&format!("{}\n", print::name(&made))),
            Output::Table | Output::Wide => {
                let rows: Vec<_> = workloads.iter().map(|one| vec![one.words(), one.before.clone()]).collect();
                print::out(&format!("{created}{}", print::table(&["WORKLOAD", "PLACEMENT"], &rows)))
            }
        };
    }
    if command.output == Output::Table {
        print::out(&created)?;
    }
    let (rebalancer, bindings, is_done) = awaited(command, &client, &name, &workloads, clock).await?;
    match command.output {
        Output::Json | Output::Yaml => {
            print::out(&print::objects(command.output, &[serde_json::to_value(&rebalancer)?])?)?
        }
        Output::Name => print::out(&format!("{}\n", print::name(&made)))?,
        Output::Table | Output::Wide if command.wait.is_zero() => {}
        Output::Table | Output::Wide => {
            let mut rows = Vec::new();
            for (one, binding) in workloads.iter().zip(&bindings) {
                let after = binding.as_ref().map(shown).unwrap_or_default();
                let how = progress_of(&rebalancer, one, binding.as_ref());
                let result = match how {
                    Progress::Waits => "waits to be scheduled".to_owned(),
                    Progress::Failed(why) => format!("failed: {why}"),
                    Progress::Scheduled if after == one.before => "stays".to_owned(),
                    Progress::Scheduled => "moved".to_owned(),
                };
                rows.push(vec![one.words(), one.before.clone(), after, result]);
            }
            print::out(&print::table(&["WORKLOAD", "BEFORE", "AFTER", "RESULT"], &rows))?;
        }
    }
    let status = rebalancer.status.as_ref();
    let has_failed =
        status.is_some_and(|status| status.observed_workloads.iter().any(|one| one.result == NOT_TRIGGERED));
    if !is_done {
        let first = workloads.first().map(Workload::why).unwrap_or_default();
        bail!("timed out: not all are scheduled after {} s\n  try: {first}", command.wait.as_secs());
    }
    if has_failed { Err(Exit(FAILED).into()) } else { Ok(()) }
}

fn shown(binding: &Binding) -> String {
    placement(&json!({"spec": BindingRef::from(binding).spec()}))
}

fn progress_of(rebalancer: &WorkloadRebalancer, one: &Workload, binding: Option<&Binding>) -> Progress {
    let observed = rebalancer.status.iter().flat_map(|status| &status.observed_workloads);
    let mut observed = observed.filter(|observed| {
        let workload = &observed.workload;
        (&workload.kind, &workload.name, &workload.namespace) == (&one.resource.api.kind, &one.name, &one.namespace)
            && workload.api_version == one.resource.api.api_version
    });
    progress(observed.next(), binding.map(BindingRef::from))
}

/// Waits until all workloads are scheduled, or the time is up: false then.
async fn awaited(
    command: &Command,
    client: &Client,
    name: &str,
    workloads: &[Workload],
    clock: &Clock,
) -> anyhow::Result<(WorkloadRebalancer, Vec<Option<Binding>>, bool)> {
    let deadline = clock.mono() + command.wait;
    let api: Api<WorkloadRebalancer> = Api::all(client.clone());
    loop {
        let read = api.get_opt(name).await.with_context(|| format!("reading WorkloadRebalancer {name}"))?;
        let rebalancer = read.ok_or_else(|| anyhow!("WorkloadRebalancer {name} was deleted meanwhile"))?;
        if command.wait.is_zero() {
            return Ok((rebalancer, Vec::new(), true));
        }
        let mut bindings = Vec::with_capacity(workloads.len());
        for one in workloads {
            let read = bindings::of(client, &one.resource, &one.namespace, &one.name).await;
            bindings.push(read.with_context(|| format!("reading the binding of {}", one.words()))?);
        }
        let waits = workloads
            .iter()
            .zip(&bindings)
            .any(|(one, binding)| progress_of(&rebalancer, one, binding.as_ref()) == Progress::Waits);
        if !waits || clock.mono() >= deadline {
            return Ok((rebalancer, bindings, !waits));
        }
        clock.sleep(LOOK).await;
    }
}

/// The workloads that the command line names or selects, or all of the namespace, as far as they would come to this
/// cluster.
async fn coming(command: &Command, client: &Client, cluster: &str, clock: &Clock) -> anyhow::Result<Vec<Workload>> {
    let world = lists(client).await?;
    let cluster = known(&world, cluster)?;
    let chosen = if command.resource.is_empty() {
        every(command, client, &world).await?
    } else {
        wanted(command, client).await?
    };
    let key = |one: &Workload| BindingKey {
        namespace: one.namespace.as_str().into(),
        name: names::binding_name(&one.resource.api.kind, &one.name).as_str().into(),
    };
    let keys: Vec<BindingKey> = chosen.iter().map(key).collect();
    let settings = crate::leader::configuration(client).await.map(|known| known.settings()).unwrap_or_default();
    let mut fleet = Fleet { world, settings, ..Fleet::default() };
    let (mut members, kubeconfig) = (nodes::Asked::default(), command.plane.kubeconfig().ok());
    let found = loop {
        let found = coming_to(&fleet, &keys, &cluster, clock.wall_seconds());
        if !members.ask(&fleet, &found.unasked, client, kubeconfig.as_ref(), clock).await {
            break found;
        }
        fleet.nodes.clone_from(&members.nodes);
    };
    for (member, why) in &members.unknown {
        print::note(&format!("the nodes of {member} are not known here: {why}"));
    }
    Ok(chosen.into_iter().filter(|one| found.bindings.contains(&key(one))).collect())
}

/// All workloads with a binding, of the namespace or of all.
async fn every(command: &Command, client: &Client, world: &World) -> anyhow::Result<Vec<Workload>> {
    let served = Resources::of(client).await.context("asking the control plane what it serves")?;
    let namespace = command.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let mut workloads = Vec::new();
    for binding in world.all_bindings() {
        let template = &binding.spec().resource;
        if !command.all_namespaces && template.namespace != namespace {
            continue;
        }
        let group = template.api_version.split_once('/').map_or("", |(group, _)| group);
        let word = if group.is_empty() { template.kind.clone() } else { format!("{}.{group}", template.kind) };
        workloads.push(Workload {
            resource: served.find(&word)?,
            namespace: template.namespace.clone(),
            name: template.name.clone(),
            before: shown(&binding),
        });
    }
    Ok(workloads)
}

/// The workloads that the command line names or selects. Of selected ones those are left out that have no binding.
async fn wanted(command: &Command, client: &Client) -> anyhow::Result<Vec<Workload>> {
    let known = Resources::of(client).await.context("asking the control plane what it serves")?;
    let default = command.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let is_selected = command.all || command.selector.is_some();
    let mut workloads = Vec::new();
    for (word, names) in arguments(&command.resource)? {
        if names.is_empty() != is_selected {
            let text = match is_selected {
                true => format!("--all and -l choose the workloads, and {word} has names\n  try: without -l"),
                false => format!("{word} without a name\n  try: ironclad rebalance {word} NAME, or --all"),
            };
            return Err(Misused(text).into());
        }
        let resource = known.find(&word)?;
        let namespace = if resource.namespaced { default.clone() } else { String::new() };
        let objects = api(client.clone(), &resource, &namespace);
        let names = match is_selected {
            false => names,
            true => {
                let mut selected = ListParams::default();
                selected.label_selector.clone_from(&command.selector);
                let found = pages::all(&objects, selected).await.with_context(|| format!("listing {word}"))?;
                found.iter().map(ResourceExt::name_any).collect()
            }
        };
        for name in names {
            if !is_selected {
                refuse_ours(client, &resource, &namespace, &name, "rebalance").await?;
            }
            let read = bindings::of(client, &resource, &namespace, &name).await;
            let binding = read.with_context(|| format!("reading the binding of {word} {name}"))?;
            let mut workload =
                Workload { resource: resource.clone(), namespace: namespace.clone(), name, before: String::new() };
            let Some(binding) = binding else {
                if is_selected {
                    continue;
                }
                let name = &workload.name;
                let there = objects.get_opt(name).await.with_context(|| format!("reading {word} {name}"))?.is_some();
                let plural = &resource.api.plural;
                return Err(match there {
                    true => {
                        anyhow!("{word} {name} is not propagated: it has no binding\n  try: {}", workload.why())
                    }
                    false => anyhow!("{word} {name} does not exist\n  try: ironclad get {plural} -A"),
                });
            };
            workload.before = shown(&binding);
            workloads.push(workload);
        }
    }
    Ok(workloads)
}
