//! Objects and fields on which nothing acts are told of by events on the objects.

use ironclad_testkit::sim::{World, WorldOptions, propagation};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams},
};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn kinds_and_fields_without_effect_get_an_event_once() -> anyhow::Result<()> {
    let mut world = World::start(WorldOptions { seed: 5, members: 1 }).await?;
    let user = world.user();
    let mut policy = serde_json::to_value(propagation::policy()?)?;
    policy["spec"]["association"] = true.into();
    let policies: Api<ironclad_api::policy::PropagationPolicy> = Api::namespaced(user.clone(), "default");
    policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
    world.start_controllers().await;
    let kind = GroupVersionKind::gvk("networking.karmada.io", "v1alpha1", "MultiClusterIngress");
    let ingresses: Api<DynamicObject> = Api::namespaced_with(user.clone(), "default", &ApiResource::from_gvk(&kind));
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let object = json!({"apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterIngress",
        "metadata": {"name": "r"}, "spec": {"defaultBackend": backend}});
    ingresses.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let events: Api<Event> = Api::all(user);
    let told = async || -> anyhow::Result<Vec<String>> {
        let all = events.list(&ListParams::default()).await?.items;
        let told = all.into_iter().filter(|event| event.reason.as_deref() == Some("NoEffect"));
        let line = |event: Event| {
            let about = event.involved_object;
            let [kind, name] = [about.kind, about.name].map(Option::unwrap_or_default);
            format!("{kind} {name}, {}: {}", event.count.unwrap_or(1), event.message.unwrap_or_default())
        };
        let mut lines: Vec<String> = told.map(line).collect();
        lines.sort();
        Ok(lines)
    };
    world.until("both are told of", async || Ok(told().await?.len() == 2)).await?;
    world.until_quiet().await?;
    assert_eq!(
        told().await?,
        [
            "MultiClusterIngress r, 1: no controller acts on a MultiClusterIngress: it is for controllers of cloud vendors, which are not part of Ironclad",
            "PropagationPolicy web, 1: spec.association has no effect: it is the deprecated forerunner of \
             spec.propagateDeps: set that instead",
        ]
    );
    Ok(())
}
