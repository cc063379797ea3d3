//! A member in pull mode in virtual time: its agent is a process of its own, with the rights of agents.

use std::time::Duration;

use anyhow::Context as _;
use ironclad_api::{cluster::Cluster, conditions, policy::PropagationPolicy};
use ironclad_runtime::Api;
use ironclad_testkit::sim::{Setup, World, WorldOptions};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

const PULLED: &str = "member2";

async fn create<K>(client: &Client, object: Value) -> anyhow::Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    K: serde::Serialize + serde::de::DeserializeOwned + Clone + std::fmt::Debug,
{
    let api: kube::Api<K> = kube::Api::namespaced(client.clone(), "default");
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

fn deployment(image: &str) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn policy() -> Value {
    json!({"metadata": {"name": "web"}, "spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
        "placement": {"clusterAffinity": {"clusterNames": [PULLED]}}}})
}

async fn ready(user: &Client) -> anyhow::Result<String> {
    let clusters: Api<Cluster> = Api::all(user.clone());
    Ok(clusters.get(PULLED).await?.ready().unwrap_or_default().to_owned())
}

/// Image and uid of the copy in the member.
async fn copy(member: &Client) -> anyhow::Result<Option<(String, String)>> {
    let api: Api<Deployment> = Api::namespaced(member.clone(), "default");
    let Some(found) = api.get_opt("web").await? else { return Ok(None) };
    let uid = found.uid().unwrap_or_default();
    let template = found.spec.context("a Deployment has a spec")?.template;
    let image = template.spec.and_then(|spec| spec.containers.into_iter().next()).and_then(|c| c.image);
    Ok(Some((image.unwrap_or_default(), uid)))
}

async fn pods(member: &Client) -> anyhow::Result<Vec<String>> {
    let api: Api<Pod> = Api::namespaced(member.clone(), "default");
    Ok(api.list(&ListParams::default()).await?.items.iter().filter_map(ResourceExt::uid).collect())
}

#[tokio::test(start_paused = true)]
async fn an_agent_serves_its_member_and_what_it_missed_is_made_up_for() -> anyhow::Result<()> {
    let setup = Setup { pull: 1, ..Setup::from(WorldOptions { seed: 39, members: 2 }) };
    let mut world = World::start(setup).await?;
    world.start_controllers().await;
    let agent = world.agents().start;
    let (user, member) = (world.user(), world.member(PULLED)?.client());
    create::<Deployment>(&user, deployment("a:1")).await?;
    create::<PropagationPolicy>(&user, policy()).await?;
    let templates: Api<Deployment> = Api::namespaced(user.clone(), "default");
    world
        .until("its status comes back", async || {
            let template = templates.get("web").await?;
            Ok(template.status.is_some_and(|status| status.ready_replicas == Some(2)))
        })
        .await?;
    assert_eq!(ready(&user).await?, "True");
    world.until_quiet().await?;
    let (_, uid) = copy(&member).await?.context("the copy exists")?;
    let before = pods(&member).await?;

    // Without its agent the member runs on, and its cluster becomes Unknown after the grace period.
    world.crash(agent, Duration::from_secs(600));
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "a:2"}]}}}});
    templates.patch("web", &PatchParams::default(), &Patch::Strategic(image)).await?;
    world.pass(Duration::from_secs(30)).await?;
    assert_eq!(ready(&user).await?, "True", "within the grace period");
    world.pass(Duration::from_secs(60)).await?;
    assert_eq!(ready(&user).await?, "Unknown", "no sign of life");
    assert_eq!(copy(&member).await?, Some(("a:1".to_owned(), uid.clone())));
    // A policy that is deleted and made again meanwhile costs no copy.
    let policies: Api<PropagationPolicy> = Api::namespaced(user.clone(), "default");
    policies.delete("web", &DeleteParams::default()).await?;
    world.pass(Duration::from_secs(20)).await?;
    create::<PropagationPolicy>(&user, policy()).await?;
    world.pass(Duration::from_secs(30)).await?;
    assert_eq!(pods(&member).await?, before, "nothing was restarted");
    world
        .until("the agent is back and has applied what it missed", async || {
            Ok(ready(&user).await? == "True" && copy(&member).await? == Some(("a:2".to_owned(), uid.clone())))
        })
        .await?;
    // It restores what others change, and removes what leaves.
    let copies: Api<Deployment> = Api::namespaced(member.clone(), "default");
    let scaled = Patch::Merge(json!({"spec": {"replicas": 1}}));
    copies.patch("web", &PatchParams::default(), &scaled).await?;
    world
        .until("the copy has its replicas again", async || {
            Ok(copies.get("web").await?.spec.is_some_and(|spec| spec.replicas == Some(2)))
        })
        .await?;
    templates.delete("web", &DeleteParams::default()).await?;
    world.until("the copy is removed", async || Ok(copy(&member).await?.is_none())).await?;
    world.until_quiet().await
}

/// An agent whose clock is wrong by an hour, either way: what it writes is judged by when it arrives.
#[tokio::test(start_paused = true)]
async fn the_clock_of_an_agent_may_be_wrong() -> anyhow::Result<()> {
    for hours in [-1, 1] {
        let setup = Setup { pull: 1, ..Setup::from(WorldOptions { seed: 40, members: 2 }) };
        let mut world = World::start(setup).await?;
        let agent = world.agents().start;
        world.skew(agent, hours * 3_600_000);
        world.start_controllers().await;
        let (user, member) = (world.user(), world.member(PULLED)?.client());
        create::<Deployment>(&user, deployment("a:1")).await?;
        create::<PropagationPolicy>(&user, policy()).await?;
        world.until("the copy runs", async || Ok(pods(&member).await?.len() == 2)).await?;
        let (before, clusters) = (pods(&member).await?, Api::<Cluster>::all(user.clone()));
        let skewed = async || -> anyhow::Result<Option<String>> {
            let status = clusters.get(PULLED).await?.status.unwrap_or_default();
            let found = conditions::get(&status.conditions, conditions::cluster::CLOCK_SKEW);
            Ok(found.filter(|condition| condition.status == "True").map(|condition| condition.message.clone()))
        };
        world.until("it is told", async || Ok(skewed().await?.is_some())).await?;
        for _ in 0..20 {
            world.pass(Duration::from_secs(30)).await?;
            assert_eq!(ready(&user).await?, "True", "{hours} h");
        }
        // It goes wrong, and right again, while it runs.
        world.skew(agent, 0);
        world.until("it is right again", async || Ok(skewed().await?.is_none())).await?;
        world.skew(agent, -hours * 3_600_000);
        world.until("and wrong the other way", async || Ok(skewed().await?.is_some())).await?;
        world.pass(Duration::from_secs(300)).await?;
        assert_eq!(ready(&user).await?, "True");
        // An agent that is gone is noticed no later.
        world.crash(agent, Duration::from_secs(300));
        world.pass(Duration::from_secs(90)).await?;
        assert_eq!(ready(&user).await?, "Unknown", "{hours} h");
        world.until("it is back", async || Ok(ready(&user).await? == "True")).await?;
        world.until_quiet().await?;
        assert_eq!(pods(&member).await?, before, "nothing was restarted");
    }
    Ok(())
}
