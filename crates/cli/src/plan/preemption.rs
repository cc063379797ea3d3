//! `ironclad plan preemption` and `ironclad plan priority-class`: who would leave for a workload, or for those of a
//! class, and where to.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use ironclad_api::work::PreemptionPolicy;
use ironclad_fleet::{Binding, BindingKey, ClusterName, World};
use ironclad_interpreter::webhook::Webhooks;
use ironclad_planning::{
    Fleet,
    apply::Planned,
    preemption::{Answer, As, ClassPlan, PreemptionPlan, of_class, preemption},
};
use ironclad_propagation::priority::Class;
use ironclad_seam::Clock;
use kube::Client;

use super::{apply, command::Format, read, victims::table};
use crate::{
    connect::Plane,
    nodes::{self, Asked},
    print,
    report::{Exit, Misused, WOULD_MOVE},
    why,
};

/// The workload, and output options.
#[derive(clap::Args, Clone, Debug)]
#[group(id = "subject", required = true, multiple = false, args = ["name", "filename"])]
pub struct How {
    /// The workload or its ResourceBinding, by name
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Workloads that do not exist yet, with their policies and PriorityClasses: YAML or JSON, - for stdin
    #[arg(short, long, value_name = "FILE")]
    pub filename: Option<PathBuf>,
    /// Namespace of the workload, and of objects that name none [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Plan with this priority [default: the binding's own]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub priority: Option<i32>,
    #[command(flatten)]
    pub source: Source,
}

/// The PriorityClass, and output options.
#[derive(clap::Args, Clone, Debug)]
pub struct OfClass {
    /// The PriorityClass
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Plan as if it had this value, whether or not it exists [default: its own]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub value: Option<i32>,
    #[command(flatten)]
    pub source: Source,
}

/// The fleet that is read, and the output format.
#[derive(clap::Args, Clone, Debug)]
pub struct Source {
    /// Read the fleet from this dump instead of a control plane: objects or Lists as YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub dump: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub output: Format,
    #[command(flatten)]
    pub plane: Plane,
}

/// Runs the command.
///
/// # Errors
/// If the fleet can't be read or has no such binding; and [`Exit`] with 3 if somebody would leave.
pub async fn run(how: &How, clock: &Clock) -> anyhow::Result<()> {
    let given = As { priority: how.priority, preemption_policy: Some(PreemptionPolicy::PreemptLowerPriority) };
    let plans = match (&how.filename, &how.name) {
        (Some(file), _) => of_file(how, file, given, clock).await?,
        (None, name) => vec![of_name(how, name.as_deref().unwrap_or_default(), given, clock).await?],
    };
    let text = match (how.source.output, plans.as_slice()) {
        (Format::Table, _) => plans.iter().map(table).collect(),
        // One workload that exists is one object, as it has always been.
        (Format::Json, [plan]) if how.filename.is_none() => serde_json::to_string_pretty(plan)? + "\n",
        (Format::Json, _) => serde_json::to_string_pretty(&plans)? + "\n",
    };
    print::out(&text)?;
    exit(&plans)
}

async fn of_name(how: &How, name: &str, given: As, clock: &Clock) -> anyhow::Result<PreemptionPlan> {
    let (mut fleet, namespace, plane) = match &how.source.dump {
        Some(file) => (Fleet { world: read::dump(file)?, ..Fleet::default() }, "default".to_owned(), None),
        None => {
            let client = how.source.plane.client().await?;
            let settings = crate::leader::settings(&client).await;
            let quotas = read::quotas(&client, &settings).await?;
            let fleet = Fleet { world: read::lists(&client).await?, settings, quotas, ..Fleet::default() };
            (fleet, client.default_namespace().to_owned(), Some(client))
        }
    };
    let key = find(&fleet.world, how.namespace.as_deref().unwrap_or(&namespace), name)?;
    let mut members = Asked::default();
    loop {
        let plan = preemption(&fleet, &key, given, clock.wall_seconds());
        let plan = plan.with_context(|| format!("there is no ResourceBinding {key}"))?;
        if !how.source.ask(&mut members, &fleet, &plan.unasked, plane.as_ref(), clock).await {
            return Ok(plan);
        }
        fleet.nodes.clone_from(&members.nodes);
    }
}

async fn of_file(how: &How, file: &Path, given: As, clock: &Clock) -> anyhow::Result<Vec<PreemptionPlan>> {
    let documents = read::dumped(file)?;
    let (mut planned, plane) = match &how.source.dump {
        Some(dump) => {
            print::note("not known without a control plane: what admission would refuse or fill in");
            let namespace = how.namespace.as_deref().unwrap_or("default");
            (Planned::of_dump(read::dumped(dump)?, documents, namespace)?, None)
        }
        None => {
            let client = how.source.plane.client().await?;
            let planned = apply::read::live(&client, documents, how.namespace.as_deref(), print::note).await?.0;
            (planned, Some(client))
        }
    };
    let interpreter = why::read::interpreter(clock, &planned.after.customizations, Webhooks::default());
    let mut members = Asked::default();
    let plans = loop {
        let plans = planned.preemptions(given, &interpreter, clock.wall_seconds());
        let unasked = plans.iter().flat_map(|plan| plan.unasked.iter().cloned()).collect();
        if !how.source.ask(&mut members, &planned.after, &unasked, plane.as_ref(), clock).await {
            break plans;
        }
        planned.before.nodes.clone_from(&members.nodes);
        planned.after.nodes.clone_from(&members.nodes);
    };
    if plans.is_empty() {
        print::note(
            "no policy places a workload of the file as a ResourceBinding, so nobody would leave for it\n  try: ironclad \
             plan apply, which says why",
        );
    }
    Ok(plans)
}

impl Source {
    /// Asks members for their nodes, as [`Asked::ask`]; those of a dump can't be asked. Names the silent ones once all
    /// were asked.
    async fn ask(
        &self,
        members: &mut Asked,
        fleet: &Fleet,
        clusters: &BTreeSet<ClusterName>,
        plane: Option<&Client>,
        clock: &Clock,
    ) -> bool {
        if let Some(plane) = plane
            && members.ask(fleet, clusters, plane, self.plane.kubeconfig().ok().as_ref(), clock).await
        {
            return true;
        }
        for (cluster, why) in &members.unknown {
            print::note(&nodes::unknown(cluster, why));
        }
        false
    }
}

/// Runs `plan priority-class`.
///
/// # Errors
/// If the fleet can't be read or has no such class; and [`Exit`] with 3 if somebody would leave.
pub async fn run_of_class(how: &OfClass, clock: &Clock) -> anyhow::Result<()> {
    let (mut fleet, plane) = match &how.source.dump {
        Some(dump) => (read::fleet(read::dumped(dump)?)?, None),
        None => {
            let client = how.source.plane.client().await?;
            (apply::read::fleet(&client).await?, Some(client))
        }
    };
    if let Some(value) = how.value {
        let known = fleet.priority_classes.iter().flatten().find(|class| class.name == how.name).cloned();
        let new = || Class { name: how.name.clone(), value, is_default: false, preemption_policy: None };
        fleet.insert_class(Class { value, ..known.unwrap_or_else(new) });
    }
    let interpreter = why::read::interpreter(clock, &fleet.customizations, Webhooks::default());
    let mut members = Asked::default();
    let plan = loop {
        let Some(plan) = of_class(fleet.clone(), &how.name, &interpreter, clock.wall_seconds()) else {
            bail!(
                "there is no PriorityClass {}\n  try: --value NUMBER, to plan as if there were one, or kubectl get priorityclasses",
                how.name
            );
        };
        if !how.source.ask(&mut members, &fleet, &plan.unasked, plane.as_ref(), clock).await {
            break plan;
        }
        fleet.nodes.clone_from(&members.nodes);
    };
    let text = match how.source.output {
        Format::Table => class_table(&plan),
        Format::Json => serde_json::to_string_pretty(&plan)? + "\n",
    };
    print::out(&text)?;
    exit(&plan.waiting)
}

fn exit(plans: &[PreemptionPlan]) -> anyhow::Result<()> {
    let anyone_leaves = plans.iter().any(|plan| matches!(plan.answer, Answer::Preempts { .. }));
    if anyone_leaves { Err(Exit(WOULD_MOVE).into()) } else { Ok(()) }
}

fn class_table(plan: &ClassPlan) -> String {
    let never = if plan.preempts { "" } else { ", preemptionPolicy Never: nobody leaves for its workloads" };
    let mut text = format!(
        "PriorityClass {} with value {}{never}\n{} of {} workloads are placed and stay so\n",
        plan.class,
        plan.value,
        plan.placed,
        plan.placed + plan.waiting.len()
    );
    text.extend(plan.waiting.iter().map(table));
    text
}

/// The ResourceBinding of this name, or the one of the workload of this name.
fn find(world: &World, namespace: &str, name: &str) -> anyhow::Result<BindingKey> {
    let own = BindingKey { namespace: namespace.into(), name: name.into() };
    if world.binding(&own).is_some() {
        return Ok(own);
    }
    let of_workload = |binding: &Binding| {
        let resource = &binding.spec().resource;
        (resource.namespace == namespace && resource.name == name && matches!(binding, Binding::Namespaced(_)))
            .then(|| binding.key())
    };
    let found: Vec<BindingKey> = world.all_bindings().filter_map(|binding| of_workload(&binding)).collect();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => bail!(
            "no ResourceBinding in namespace {namespace} is called {name} or is of a workload of this name\n  try: \
             kubectl get resourcebindings -n {namespace}"
        ),
        several => {
            let names: Vec<&str> = several.iter().map(|key| &*key.name).collect();
            Err(Misused(format!("{name} may be one of several\n  try: one of {}", names.join(", "))).into())
        }
    }
}
