//! `ironclad promote`: objects of a member become templates, and are taken over as they are.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use ironclad_api::labels::MANAGED;
use ironclad_propagation::promotion;
use ironclad_seam::Clock;
use kube::{Client, ResourceExt as _, api::DynamicObject};
use serde_json::Value;

use crate::{
    connect::Plane,
    dry_run::DryRun,
    members,
    print::{self, Output},
    report::{Exit, FAILED, Misused},
    resource::{Resource, Resources, arguments},
    tree::api,
    write,
};

/// Interval of looking whether the object was taken over.
const LOOK: Duration = Duration::from_millis(250);

/// Take objects that run in a member under control: each becomes a template, with a policy that keeps it there.
///
/// The policy is made first, so that no other one moves the template. Nothing is created anew in the member: the object
/// there is taken over as it is, and stays if the template is deleted.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad promote deployment web -n shop -C member1 --dry-run
  ironclad promote deployment web -n shop -C member1
  ironclad promote deployment/web service/web configmap/web -n shop -C member1
  ironclad promote deployment web -n shop -C member1 --auto-create-policy=false")]
pub struct Command {
    /// TYPE NAME…, or TYPE/NAME…
    #[arg(required = true, value_name = "TYPE NAME")]
    pub resource: Vec<String>,
    /// The member
    #[arg(short = 'C', long = "clusters", alias = "cluster", value_name = "CLUSTER")]
    pub cluster: String,
    /// Namespace [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Make a policy that keeps each template in the member; without it a policy has to select them
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub auto_create_policy: bool,
    /// Name of the policy of a single object [default: its name and a hash]
    #[arg(long, value_name = "NAME")]
    pub policy_name: Option<String>,
    /// Time to wait until the member's objects are taken over; 0s does not wait
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

/// An object to promote.
struct Promoted {
    resource: Resource,
    present: DynamicObject,
    template: Value,
    policy: Option<Value>,
}

impl Promoted {
    fn words(&self) -> String {
        let namespace = self.present.namespace().map(|namespace| namespace + "/").unwrap_or_default();
        format!("{} {namespace}{}", self.resource.api.kind, self.present.name_any())
    }
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
    let wanted = surveyed(command, &plane, &member).await?;
    if let Some(output) = command.output {
        let objects: Vec<Value> =
            wanted.iter().flat_map(|one| one.policy.iter().chain([&one.template])).cloned().collect();
        return print::out(&print::objects(output, &objects)?);
    }
    for one in &wanted {
        // The policy first: another one could claim the template before, and move it.
        for object in one.policy.iter().chain([&one.template]) {
            if let Some(mode) = command.dry_run.mode() {
                let made = write::create(&plane, object, mode).await;
                made.with_context(|| format!("{} was not created in the control plane", print::name(object)))?;
            }
            print::out(&format!("{} created{}\n", print::name(object), command.dry_run.suffix()))?;
        }
    }
    if command.dry_run != DryRun::None || command.wait.is_zero() {
        return Ok(());
    }
    let deadline = clock.mono() + command.wait;
    let mut all_well = true;
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

/// Says how the object fares in the member; false if it was not taken over in time.
fn told(command: &Command, one: &Promoted, after: Option<&DynamicObject>) -> anyhow::Result<bool> {
    let (words, cluster) = (one.words(), &command.cluster);
    let Some(after) = after else {
        print::note(&format!(
            "{words} was not taken over in {cluster} within {} s\n  try: ironclad why {}/{}",
            command.wait.as_secs(),
            one.resource.api.plural,
            one.present.name_any()
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

/// Reads the objects, and checks all of them before anything is written.
async fn surveyed(command: &Command, plane: &Client, member: &Client) -> anyhow::Result<Vec<Promoted>> {
    let served = Resources::of(member).await.with_context(|| format!("asking {} what it serves", command.cluster))?;
    let of_plane = Resources::of(plane).await.context("asking the control plane what it serves")?;
    let mut all = Vec::new();
    for (word, names) in arguments(&command.resource)? {
        let resource = served.find(&word)?;
        let kind = &resource.api.kind;
        if of_plane.of_kind(&resource.api.api_version, kind).is_none() {
            return Err(anyhow!(
                "the control plane does not serve {kind} of {}\n  try: install its CustomResourceDefinition there first",
                resource.api.api_version
            ));
        }
        if names.is_empty() {
            return Err(
                Misused(format!("{word} without a name\n  try: ironclad promote {word} NAME -C CLUSTER")).into()
            );
        }
        let namespace = command.namespace.clone().unwrap_or_else(|| plane.default_namespace().to_owned());
        let namespace = if resource.namespaced { namespace } else { String::new() };
        for name in names {
            let read = api(member.clone(), &resource, &namespace).get_opt(&name).await;
            let present = read.with_context(|| format!("reading {kind} {name} in {}", command.cluster))?;
            let present = present.ok_or_else(|| anyhow!("{kind} {name} is not in {}", command.cluster))?;
            let mut object = serde_json::to_value(&present)?;
            (object["apiVersion"], object["kind"]) = (resource.api.api_version.clone().into(), kind.clone().into());
            let refused = |why: &dyn std::fmt::Display| anyhow!("{kind} {name} was not promoted\n  because {why}");
            promotion::check(&object).map_err(|why| refused(&why))?;
            if api(plane.clone(), &resource, &namespace)
                .get_opt(&name)
                .await
                .context("reading the control plane")?
                .is_some()
            {
                return Err(refused(&"the control plane has one of that name already"));
            }
            let template = promotion::template(&object);
            let policy = promotion::policy(&template, &command.cluster, command.policy_name.as_deref());
            let policy = command.auto_create_policy.then_some(policy);
            all.push(Promoted { resource: resource.clone(), present, template, policy });
        }
    }
    if command.policy_name.is_some() && all.len() > 1 {
        return Err(Misused("--policy-name is for one object".to_owned()).into());
    }
    Ok(all)
}
