//! The manifest of a template, and of its copy in each cluster.

use anyhow::{Context as _, bail};
use ironclad_dashboard::Reference;
use ironclad_fleet::ClusterName;
use ironclad_planning::views::{self, Line};
use ironclad_propagation::work::key_of;
use kube::Client;
use serde_json::{Value, json};

use super::observe;
use crate::{bindings, print, resource::Resources};

/// The view of these manifests. Works say what the copies are: overrides, replicas and all else are in them.
pub(super) async fn look(client: &Client, template: &Reference, cluster: Option<&str>) -> anyhow::Result<Value> {
    let Reference { namespace, kind, name } = template;
    let resource = Resources::of(client).await.context("asking the control plane what it serves")?.find(kind)?;
    let namespace = if resource.namespaced { namespace.as_str() } else { "" };
    let plural = &resource.api.plural;
    let Some(object) = crate::tree::api(client.clone(), &resource, namespace).get_opt(name).await? else {
        bail!("{plural} {name} does not exist\n  try: ironclad get {plural} -A")
    };
    let object = crate::tree::whole(&object, &resource)?;
    let mut notes = Vec::new();
    let mut copies: Vec<(ClusterName, Value)> = Vec::new();
    match bindings::of(client, &resource, namespace, name).await? {
        None => notes.push("it has no binding, so there are no copies".to_owned()),
        Some(binding) => match observe::works(client, &binding).await? {
            None => notes.push("you may not list works.work.karmada.io, which contain the copies".to_owned()),
            Some(works) => copies.extend(works.iter().filter_map(|work| {
                let manifest = work.spec.workload.manifests.first()?.object();
                Some((key_of(work)?.cluster, manifest))
            })),
        },
    }
    copies.sort_by(|(a, _), (b, _)| a.cmp(b));
    let own = print::yaml(&views::readable(&object, None))?;
    let (mut rows, mut lines, mut shown) = (Vec::new(), None, String::new());
    for (at, copy) in &copies {
        let found = views::difference(&own, &print::yaml(&views::readable(copy, Some(&object)))?);
        let (added, removed) = views::changes(&found);
        rows.push(json!({ "name": at, "added": added, "removed": removed }));
        if cluster == Some(&*at.0) {
            (lines, shown) = (Some(found), at.to_string());
        }
    }
    let lines: Vec<Line> = views::cut(lines.unwrap_or_else(|| views::difference(&own, &own)));
    Ok(json!({ "rows": rows, "cluster": shown, "lines": lines, "notes": notes }))
}
