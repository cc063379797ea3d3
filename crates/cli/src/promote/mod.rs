//! `ironclad promote`: objects of a member become templates, and are taken over as they are
//! (specification/operations.md 2.13).

mod survey;

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use ironclad_api::labels::MANAGED;
use ironclad_fleet::BindingRef;
use ironclad_propagation::promotion;
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Preconditions},
};
use serde_json::Value;

use self::survey::{Promoted, surveyed};
use crate::{
    bindings,
    connect::Plane,
    dry_run::DryRun,
    members,
    print::{self, Output},
    report::{Exit, FAILED},
    tree::api,
    write::{self, Mode},
};

/// Interval of looking whether a binding is as wanted, or an object taken over.
const LOOK: Duration = Duration::from_millis(250);

/// Take objects that run in a member under control: each becomes a template, with a policy that keeps it there.
///
/// The policy is made first, and dispatches nothing until the binding shows that all replicas stay in the member.
/// Nothing is created anew there: the object is taken over as it is, and stays if the template is deleted.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad promote deployment web -n shop -C member1 --dry-run
  ironclad promote deployment web -n shop -C member1
  ironclad promote deployment/web service/web -n shop -C member1 --dependencies
  ironclad promote deploy,svc -l app=web -n shop -C member1
  ironclad promote deploy,svc,ingress --all -n shop -C member1 -d --dry-run
  ironclad promote deployment web -n shop -C member1 --auto-create-policy=false")]
pub struct Command {
    /// TYPE NAME…, or TYPE/NAME…; with -l or --all TYPE,TYPE
    #[arg(required = true, value_name = "TYPE NAME")]
    pub resource: Vec<String>,
    /// The member
    #[arg(short = 'C', long = "clusters", alias = "cluster", value_name = "CLUSTER")]
    pub cluster: String,
    /// Namespace [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// All objects of the types with these labels, but those that have a template or an owner
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// All objects of the types in the namespace, but those that have a template or an owner
    #[arg(long)]
    pub all: bool,
    /// Promote what the objects need, too: ConfigMaps, Secrets, claims, and what interpreters name
    #[arg(short, long, alias = "deps")]
    pub dependencies: bool,
    /// Make a policy that keeps each template in the member; without it a policy has to select them
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub auto_create_policy: bool,
    /// Name of the policy of a single object [default: its name and a hash]
    #[arg(long, value_name = "NAME")]
    pub policy_name: Option<String>,
    /// Time to wait until the member's objects are taken over; 0s does not wait, and dispatches at once
    #[arg(long, default_value = "30s", value_parser = crate::duration, value_name = "TIME")]
    pub wait: Duration,
    /// Print what would be made, without making it
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "client", value_name = "WHO")]
    pub dry_run: DryRun,
    /// Print the policy and the template in this format, and make nothing
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    #[command(flatten)]
    pub way: members::Way,
    /// The control plane.
    #[command(flatten)]
    pub plane: Plane,
}

/// Runs the command.
///
/// # Errors
/// If an object is not there, can't be promoted, or is in the control plane already; or a server does not answer.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let plane = command.plane.client().await?;
    let clusters = members::clusters(&plane, std::slice::from_ref(&command.cluster)).await?;
    let member = members::connect(&plane, command.plane.kubeconfig().ok().as_ref(), command.way, &clusters).await;
    let member = member.first().context("the cluster was found")?.client();
    let member = member.map_err(|why| anyhow!("cluster {} is not reached\n  because {why}", command.cluster))?;
    let mut wanted = surveyed(command, &plane, &member, clock).await?;
    if wanted.is_empty() {
        print::note("nothing is to be promoted");
        return Ok(());
    }
    let waits = command.dry_run == DryRun::None && !command.wait.is_zero();
    if waits {
        wanted.iter_mut().for_each(|one| one.policy = one.policy.take().map(promotion::suspended));
    }
    if let Some(output) = command.output {
        let objects: Vec<Value> =
            wanted.iter().flat_map(|one| one.policy.iter().chain([&one.template])).cloned().collect();
        return print::out(&print::objects(output, &objects)?);
    }
    let mut policies = Vec::new();
    for one in &wanted {
        policies.push(create(command, &plane, one).await?);
    }
    if !waits {
        return Ok(());
    }
    let deadline = clock.mono() + command.wait;
    let mut all_well = true;
    for (one, policy) in wanted.iter().zip(policies) {
        all_well &= match policy {
            Some(policy) => dispatched(command, &plane, one, &policy, clock, deadline).await?,
            None => true,
        };
    }
    for one in &wanted {
        let api = api(member.clone(), &one.resource, &one.present.namespace().unwrap_or_default());
        let name = one.present.name_any();
        let after = loop {
            let now = api.get_opt(&name).await.with_context(|| format!("reading {} in the member", one.words()))?;
            match now.filter(|now| now.labels().contains_key(MANAGED)) {
                Some(taken) => break Some(taken),
                None if clock.mono() >= deadline => break None,
                None => clock.sleep(LOOK).await,
            }
        };
        all_well &= told(command, one, after.as_ref())?;
    }
    if all_well { Ok(()) } else { Err(Exit(FAILED).into()) }
}

/// Creates the policy and then the template: another policy could claim the template before, and move it. Returns the
/// policy, if there is one that was made. Without its template it is deleted again.
async fn create(command: &Command, plane: &Client, one: &Promoted) -> anyhow::Result<Option<DynamicObject>> {
    let mut policy = None;
    for object in one.policy.iter().chain([&one.template]) {
        if let Some(mode) = command.dry_run.mode() {
            let made = write::create(plane, object, mode).await;
            if let (Err(_), Some(policy), Mode::Keep) = (&made, &policy, mode) {
                remove(plane, one, policy).await;
            }
            let made = made.with_context(|| format!("{} was not created in the control plane", print::name(object)))?;
            policy = policy.or(one.policy.as_ref().map(|_| made));
        }
        print::out(&format!("{} created{}\n", print::name(object), command.dry_run.suffix()))?;
    }
    Ok(policy)
}

/// Deletes a policy whose template was not made.
async fn remove(plane: &Client, one: &Promoted, policy: &DynamicObject) {
    let Some(object) = &one.policy else { return };
    let preconditions = Preconditions { uid: policy.metadata.uid.clone(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    let api: Api<DynamicObject> = write::api_of(plane, object);
    match api.delete(&policy.name_any(), &params).await {
        Ok(_) => print::note(&format!("{} deleted again", print::name(object))),
        Err(error) => {
            print::note(&format!("{} was not deleted again: {}", print::name(object), crate::report::answer(&error)))
        }
    }
}

/// Waits until the binding shows that nothing would move, and lets the policy dispatch then; false if that was not so
/// in time.
async fn dispatched(
    command: &Command,
    plane: &Client,
    one: &Promoted,
    policy: &DynamicObject,
    clock: &Clock,
    deadline: tokio::time::Instant,
) -> anyhow::Result<bool> {
    let Some(object) = &one.policy else { return Ok(true) };
    let (namespace, name) = (one.present.namespace().unwrap_or_default(), one.present.name_any());
    loop {
        let binding = bindings::of(plane, &one.resource, &namespace, &name).await;
        let binding = binding.with_context(|| format!("reading the binding of {}", one.words()))?;
        match promotion::stays(binding.as_ref().map(BindingRef::from), &command.cluster) {
            Ok(()) => break,
            Err(awaited) if clock.mono() >= deadline => {
                print::note(&format!(
                    "{} is not dispatched: {}; {} stays suspended\n  try: {}",
                    one.words(),
                    print::line(&awaited.to_string()),
                    print::name(object),
                    one.why(),
                ));
                return Ok(false);
            }
            Err(_) => clock.sleep(LOOK).await,
        }
    }
    let resumed = write::merge(plane, &promotion::resumed(object), policy, Mode::Keep).await;
    resumed.with_context(|| format!("{} stays suspended", print::name(object)))?;
    Ok(true)
}

/// Says how the object fares in the member; false if it was not taken over in time.
fn told(command: &Command, one: &Promoted, after: Option<&DynamicObject>) -> anyhow::Result<bool> {
    let (words, cluster) = (one.words(), &command.cluster);
    let Some(after) = after else {
        print::note(&format!(
            "{words} was not taken over in {cluster} within {} s\n  try: {}",
            command.wait.as_secs(),
            one.why()
        ));
        return Ok(false);
    };
    // Not by generation: a Deployment gets another one for an annotation.
    let content = |object: &DynamicObject| {
        let mut content = object.data.clone();
        content.as_object_mut().into_iter().for_each(|fields| drop(fields.remove("status")));
        content
    };
    let how = match content(&one.present) == content(after) {
        true => "as it is",
        false => "with changes: compare it with the template",
    };
    print::out(&format!("{words} in {cluster} is taken over {how}\n"))?;
    Ok(true)
}
