//! User-visible state of a world, as text to compare.

use ironclad_api::work::{ResourceBinding, Work};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, Resource, ResourceExt as _, api::ListParams};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::World;

impl World {
    /// Everything that a user can see of what was propagated, without what differs from run to run: times, versions,
    /// uids.
    ///
    /// # Errors
    /// If a server does not answer.
    pub async fn state(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        let plane = self.user();
        dump::<Deployment>(&mut text, "plane", Api::all(plane.clone())).await?;
        dump::<ResourceBinding>(&mut text, "plane", Api::all(plane.clone())).await?;
        dump::<Work>(&mut text, "plane", Api::all(plane)).await?;
        for (name, member) in self.members.iter() {
            dump::<Deployment>(&mut text, name, Api::all(member.client())).await?;
            let pods = Api::<Pod>::all(member.client()).list(&ListParams::default()).await?;
            let running =
                pods.items.iter().filter(|p| p.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running"));
            text.push_str(&format!("{name} {} pods, {} running\n", pods.items.len(), running.count()));
        }
        Ok(text)
    }
}

async fn dump<K>(text: &mut String, server: &str, api: Api<K>) -> anyhow::Result<()>
where
    K: Resource + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    for object in api.list(&ListParams::default()).await?.items {
        let mut value = serde_json::to_value(&object)?;
        mask(&mut value);
        let key = format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any());
        text.push_str(&format!("{server} {key} {value}\n"));
    }
    Ok(())
}

/// Removes or levels what may differ between two runs that came to the same end.
fn mask(value: &mut Value) {
    // In how many steps a member came to its end is the way, not the end: so generations differ, too.
    const VARIES: [&str; 19] = [
        "schedulerObservedGeneration",
        // Written beside an eviction and not with it: a crash in between leaves it out.
        "failoverHistory",
        "generation",
        // Of the template, of which a claim that moves is a step, too: Deployments count their annotations.
        "resourceTemplateGeneration",
        "observedGeneration",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "lastTransitionTime",
        "lastUpdateTime",
        "lastScheduledTime",
        "managedFields",
        "resourcetemplate.karmada.io/uid",
        "time",
        // Drawn by the member for each container, and given out in the order in which Pods came.
        "containerID",
        "hostIP",
        "hostIPs",
        "podIP",
        "podIPs",
    ];
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !VARIES.contains(&name.as_str()));
            for (name, field) in fields.iter_mut() {
                // Permanent ids are drawn anew by every process, and the fingerprint covers the template with its ids.
                if name.ends_with("permanent-id") || name == "policy.ironclad.io/applied-template" {
                    *field = Value::from("id");
                }
                // What a task tells of its wait, in words.
                if let (true, Value::Array(tasks)) = (name == "gracefulEvictionTasks", &mut *field) {
                    tasks.iter_mut().for_each(|task| task["message"] = Value::Null);
                }
                mask(field);
                // So is the order in which conditions first came.
                if let (true, Value::Array(list)) = (name == "conditions", field) {
                    list.sort_by_key(|condition| condition["type"].to_string());
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        // When a member did something: a Job's start, a probe.
        Value::String(text) if text.len() >= 20 && text.parse::<jiff::Timestamp>().is_ok() => *text = "time".to_owned(),
        _ => {}
    }
}
