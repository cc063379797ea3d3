//! User-visible state of a world, as text to compare.

use ironclad_api::work::{ResourceBinding, Work};
use ironclad_runtime::Api;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{ResourceExt as _, api::ListParams};
use serde::Serialize;
use serde_json::Value;

use super::World;

impl World {
    /// Returns the user-visible state of everything that was propagated, without values that differ from run to run:
    /// times, versions, uids.
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
    K: ironclad_runtime::Object + Serialize,
{
    for object in api.list(&ListParams::default()).await?.items {
        let mut value = serde_json::to_value(&object)?;
        mask(&mut value);
        let key = format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any());
        text.push_str(&format!("{server} {key} {value}\n"));
    }
    Ok(())
}

/// Masks values that may differ between two runs with the same final state.
fn mask(value: &mut Value) {
    // The number of steps may differ, and generations with it.
    const VARIES: [&str; 19] = [
        "schedulerObservedGeneration",
        // Not written together with the eviction: a crash in between skips it.
        "failoverHistory",
        "generation",
        // Of the template, to which changed claims are writes, too: annotations of Deployments count.
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
        // Random per container, and assigned in the order of Pods.
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
                // Every process draws new permanent ids, and the fingerprint covers the template with its ids.
                if name.ends_with("permanent-id") || name == "policy.ironclad.io/applied-template" {
                    *field = Value::from("id");
                }
                // Messages of tasks about their wait.
                if let (true, Value::Array(tasks)) = (name == "gracefulEvictionTasks", &mut *field) {
                    tasks.iter_mut().for_each(|task| task["message"] = Value::Null);
                }
                mask(field);
                // The order in which conditions were added differs, too.
                if let (true, Value::Array(list)) = (name == "conditions", field) {
                    list.sort_by_key(|condition| condition["type"].to_string());
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        // Times in members, such as a Job's start.
        Value::String(text) if text.len() >= 20 && text.parse::<jiff::Timestamp>().is_ok() => *text = "time".to_owned(),
        _ => {}
    }
}
