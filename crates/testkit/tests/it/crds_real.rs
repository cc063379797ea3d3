//! A real kube-apiserver accepts all our CRDs unchanged and serves their kinds.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use ironclad_testkit::{
    binary::ironclad,
    real::{Config, RealEnv, until},
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::Value;

const DEADLINE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_real_kube_apiserver_accepts_all_crds() -> anyhow::Result<()> {
    let Some(env) = RealEnv::start_or_skip(Config { members: 0, ..Config::default() }).await? else { return Ok(()) };
    let kubeconfig = env.plane().kubeconfig().display().to_string();
    ironclad(["crds", "--install", "--kubeconfig", &kubeconfig]).await?.success()?;
    let api: Api<CustomResourceDefinition> = Api::all(env.plane().client().await?);
    until("all are established and have all their words", DEADLINE, async || {
        compared(&api.list(&ListParams::default()).await?.items)
    })
    .await
}

fn compared(stored: &[CustomResourceDefinition]) -> anyhow::Result<()> {
    let ours = ironclad_api::crds::crds();
    ensure!(stored.len() == ours.len(), "{} of {} are stored", stored.len(), ours.len());
    for crd in &ours {
        let name = crd.name_any();
        let stored = stored.iter().find(|stored| stored.name_any() == name).context(name.clone())?;
        let conditions = stored.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        for condition in &conditions {
            let want = if condition.type_ == "NonStructuralSchema" { "False" } else { "True" };
            let message = condition.message.as_deref().unwrap_or_default();
            ensure!(condition.status == want, "{name}: {} is {}: {message}", condition.type_, condition.status);
        }
        ensure!(conditions.iter().any(|c| c.type_ == "Established"), "{name} is not established");
        let mut lost = Vec::new();
        missing(&serde_json::to_value(&crd.spec)?, &serde_json::to_value(&stored.spec)?, "spec", &mut lost);
        ensure!(lost.is_empty(), "{name}: the server did not keep {lost:?}");
    }
    Ok(())
}

/// Returns the paths at which the server's copy lacks or changed our values. Values that it adds are ignored.
fn missing(sent: &Value, kept: &Value, at: &str, lost: &mut Vec<String>) {
    match (sent, kept) {
        (Value::Object(sent), Value::Object(kept)) => {
            for (key, value) in sent {
                missing(value, kept.get(key).unwrap_or(&Value::Null), &format!("{at}.{key}"), lost);
            }
        }
        (Value::Array(sent), Value::Array(kept)) if sent.len() == kept.len() => {
            for (i, (sent, kept)) in sent.iter().zip(kept).enumerate() {
                missing(sent, kept, &format!("{at}[{i}]"), lost);
            }
        }
        (sent, kept) if sent != kept => lost.push(format!("{at}: {sent} became {kept}")),
        _ => {}
    }
}
