//! Waiting until templates have come to their clusters.

use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt as _, stream};
use ironclad_api::ObjectMeta;
use ironclad_fleet::tree::{Reach, reach};
use ironclad_patch::text_at;
use ironclad_propagation::template_hash::{APPLIED_TEMPLATE, TemplateHash};
use ironclad_seam::Clock;
use kube::Client;
use serde_json::Value;

use crate::{
    members, print,
    report::{Exit, FAILED},
    resource::{Resource, Resources},
    tree,
};

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// Time after which it is told what is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// A template that has not come to its clusters yet.
struct Awaited<'a> {
    template: &'a Value,
    resource: Resource,
    /// The last look found it applied. Works of some kinds do not tell their version, so two looks have to agree.
    seems_applied: bool,
    /// The reason that was told last.
    told: String,
    /// The reason for which it waits.
    why: String,
}

/// Waits until all clusters of these templates have applied them, and tells of each.
///
/// # Errors
/// After this time, if some have not; the failure of the discovery.
pub(super) async fn until_applied(
    plane: &Client,
    clock: &Clock,
    templates: &[&Value],
    timeout: Duration,
) -> anyhow::Result<()> {
    let resources = Resources::of(plane).await.context("asking the control plane what it serves")?;
    let of =
        |template: &&'_ Value| resources.of_kind(text_at(template, "/apiVersion"), text_at(template, "/kind")).cloned();
    let known = templates.iter().filter_map(|template| Some((*template, of(template)?)));
    let mut waiting: Vec<Awaited<'_>> = known
        .map(|(template, resource)| Awaited {
            template,
            resource,
            seems_applied: false,
            told: String::new(),
            why: String::new(),
        })
        .collect();
    let began = clock.mono();
    loop {
        let looks = stream::iter(waiting).map(async |one| look(plane, one).await);
        let looked: Vec<Option<Awaited<'_>>> = looks.buffered(members::ASKED_MAX).collect().await;
        waiting = looked.into_iter().flatten().collect();
        let waited = clock.mono().duration_since(began);
        if waiting.is_empty() {
            return Ok(());
        }
        if waited >= timeout {
            break;
        }
        if waited >= PATIENCE {
            waiting.iter_mut().filter(|one| one.told != one.why).for_each(Awaited::tell);
        }
        clock.sleep(LOOK).await;
    }
    for one in &waiting {
        let (kind, namespace, name) = (
            &one.resource.api.plural,
            text_at(one.template, "/metadata/namespace"),
            text_at(one.template, "/metadata/name"),
        );
        let at = if namespace.is_empty() { String::new() } else { format!(" -n {namespace}") };
        print::note(&format!(
            "{} is not applied after {} s: {}\n  try: ironclad tree {kind}/{name}{at}",
            print::name(one.template),
            timeout.as_secs(),
            print::line(&one.why),
        ));
    }
    Err(Exit(FAILED).into())
}

impl Awaited<'_> {
    fn tell(&mut self) {
        print::note(&format!("waiting for {}: {}", print::name(self.template), print::line(&self.why)));
        self.told.clone_from(&self.why);
    }
}

/// Looks at a template again; `None` if it has come to its clusters, which is told.
async fn look<'a>(plane: &Client, mut one: Awaited<'a>) -> Option<Awaited<'a>> {
    let (namespace, name) = (text_at(one.template, "/metadata/namespace"), text_at(one.template, "/metadata/name"));
    let reached = match tree::related(plane, &one.resource, namespace, name).await {
        Ok((world, without_works)) => reach(&world, &tree::key(&one.resource, namespace, name), without_works, is_of),
        Err(error) => Reach::Waits(format!("{error:#}")),
    };
    match reached {
        Reach::Applied(clusters) if one.seems_applied => {
            let names: Vec<&str> = clusters.iter().map(|cluster| &*cluster.0).collect();
            let clusters = if names.is_empty() { "no cluster".to_owned() } else { names.join(", ") };
            print::note(&format!("{} is applied in {clusters}", print::name(one.template)));
            return None;
        }
        Reach::Applied(_) => {
            one.seems_applied = true;
            "it is looked at again".clone_into(&mut one.why);
        }
        Reach::Waits(why) => {
            one.seems_applied = false;
            one.why = why;
        }
    }
    Some(one)
}

/// Returns whether a binding was built from what the user gave the template. One of Karmada does not tell.
fn is_of(binding: &ObjectMeta, template: &Value) -> bool {
    let recorded = binding.annotations.as_ref().and_then(|annotations| annotations.get(APPLIED_TEMPLATE));
    let recorded = recorded.and_then(|text| TemplateHash::parse(text));
    recorded.is_none_or(|recorded| recorded.users == TemplateHash::of(template).users)
}
