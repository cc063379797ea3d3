//! The dashboard in a browser beyond what it shows: users log in with tokens at `ironclad run`, and pages change
//! something where they may.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use ironclad_api::cluster::Cluster;
use ironclad_testkit::{
    binary::{Daemon, free_port},
    browser::Browser,
    real::{browser_or_skip, until},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    dashboard_up::{Pages, World},
    failover_walk::client,
};

const DEADLINE: Duration = Duration::from_secs(60);

/// A token of a ServiceAccount that may list clusters, and nothing else.
async fn token(plane: &Client) -> anyhow::Result<String> {
    let parameters = PostParams::default();
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "ann"}}))?;
    Api::<ServiceAccount>::namespaced(plane.clone(), "default").create(&parameters, &account).await?;
    let role: ClusterRole = serde_json::from_value(json!({"metadata": {"name": "clusters"}, "rules": [
        {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": ["get", "list"]}]}))?;
    Api::<ClusterRole>::all(plane.clone()).create(&parameters, &role).await?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({"metadata": {"name": "ann"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "clusters"},
        "subjects": [{"kind": "ServiceAccount", "name": "ann", "namespace": "default"}]}))?;
    Api::<ClusterRoleBinding>::all(plane.clone()).create(&parameters, &binding).await?;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
    let request = http::Request::post("/api/v1/namespaces/default/serviceaccounts/ann/token")
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&review)?)?;
    let made: Value = plane.request(request).await?;
    Ok(made["status"]["token"].as_str().context("a token")?.to_owned())
}

/// A script that presses the last button whose text begins like this.
fn press(name: &str) -> String {
    format!("[...document.querySelectorAll('button')].findLast((one) => one.textContent.startsWith({name:?})).click()")
}

#[tokio::test]
async fn a_user_logs_in_with_a_token_and_sees_and_changes_what_it_may() -> anyhow::Result<()> {
    let Some(program) = browser_or_skip()? else { return Ok(()) };
    let world = World::start(&["--clusters", "1"], "ready").await?;
    let (kubeconfig, port) = (world.kubeconfig(), free_port()?.to_string());
    let plane = client(kubeconfig.as_ref(), Some("ironclad")).await?;
    let token = token(&plane).await?;
    let run = ["run", "--kubeconfig", &kubeconfig, "--context", "ironclad", "--metrics-bind-address", "0"];
    let flags = ["--dashboard-bind-address", &port, "--dashboard-write"];
    let (run, _) = Daemon::start_until(run.into_iter().chain(flags), "dashboard: ").await?;

    let mut pages = Pages { browser: Browser::start(&program).await?, origin: format!("https://127.0.0.1:{port}") };
    // The authority of the managed certificate is one that no browser knows.
    pages.browser.call("Security.setIgnoreCertificateErrors", json!({ "ignore": true })).await?;
    pages.open("/cluster/member1").await?;
    pages.has("heading", "Log in").await?;
    let send = |token: &str| {
        format!("document.getElementById('token').value = {token:?}; document.querySelector('form button').click()")
    };
    pages.browser.value(&send("stranger")).await?;
    pages.has("alert", "").await?;
    pages.has("StaticText", "does not accept this token").await?;
    pages.browser.value(&send(&token)).await?;
    pages.has("heading", "member1").await.context("back to where the user came from")?;
    pages.has("StaticText", "system:serviceaccount:default:ann").await?;
    pages.has("columnheader", "Reason").await?;

    pages.open("/").await?;
    pages.has("rowheader", "member1").await?;
    pages.open("/policies").await?;
    pages.has("StaticText", "you may not list propagationpolicies").await.context("with the user's own rights")?;

    let (clusters, roles): (Api<Cluster>, Api<ClusterRole>) = (Api::all(plane.clone()), Api::all(plane.clone()));
    let taints = async || anyhow::Ok(clusters.get("member1").await?.spec.taints.len());
    pages.open("/cluster/member1").await?;
    for (verbs, said, want) in [
        (json!(["get", "list"]), "User \"system:serviceaccount:default:ann\" cannot", 0),
        (json!(["get", "list", "update", "patch"]), "Done.", 1),
    ] {
        let rules = json!([{"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": verbs}]);
        roles.patch("clusters", &PatchParams::default(), &Patch::Merge(json!({ "rules": rules }))).await?;
        pages.has("button", "Cordon …").await?;
        pages.browser.value(&press("Cordon …")).await?;
        pages.has("StaticText", "member1 cluster cordoned (dry run)").await?;
        pages.browser.value(&press("Cordon")).await?;
        pages.has("StaticText", said).await.context("what the user's roles say")?;
        ensure!(taints().await? == want, "{verbs}: as the user, not as run");
        pages.browser.value(&press("Close")).await?;
    }

    let accounts: Api<ServiceAccount> = Api::namespaced(plane, "default");
    accounts.delete("ann", &Default::default()).await?;
    // The page that is open hears of it. A page that is opened then may find the session ended, and asks to log in.
    pages.has("link", "Log in again").await.context("the token is worth nothing any more")?;
    pages.browser.value("document.querySelector('#banner a').click()").await?;
    pages.has("heading", "Log in").await?;
    until("neither process wrote the token down", DEADLINE, async || {
        let logs = [run.errors(), world.daemon.errors()].concat();
        ensure!(logs.iter().any(|line| line.contains("a session of the dashboard began")), "{logs:?}");
        ensure!(!logs.iter().any(|line| line.contains(&token)), "the token is in a log");
        Ok(())
    })
    .await?;
    run.stop().await?;
    world.daemon.stop().await?;
    Ok(())
}

#[tokio::test]
async fn a_page_shows_what_it_would_change_and_changes_it() -> anyhow::Result<()> {
    let Some(program) = browser_or_skip()? else { return Ok(()) };
    let world = World::start(&["--clusters", "3", "--demo", "--dashboard-write"], "ctrl-c").await?;
    let plane = client(world.kubeconfig().as_ref(), Some("ironclad")).await?;
    let clusters: Api<Cluster> = Api::all(plane.clone());
    let templates: Api<Deployment> = Api::namespaced(plane, "default");
    let restarted = async || {
        let annotations = templates.get("web").await?.spec.and_then(|spec| spec.template.metadata?.annotations);
        anyhow::Ok(annotations.and_then(|all| all.get("kubectl.kubernetes.io/restartedAt").cloned()))
    };
    let taints = async || anyhow::Ok(clusters.get("member1").await?.spec.taints.len());
    let mut pages = Pages { browser: Browser::start(&program).await?, origin: world.origin.clone() };
    pages.browser.open(&world.login).await?;
    pages.has("heading", "Fleet").await?;
    pages.open("/cluster/member1").await?;
    pages.has("button", "Cordon …").await?;
    pages.browser.value(&press("Cordon …")).await?;
    pages.has("dialog", "Cordon").await?;
    pages.has("StaticText", "member1 cluster cordoned (dry run)").await?;
    pages.has("StaticText", "ironclad cordon member1").await?;
    ensure!(taints().await? == 0, "nothing is done before it is confirmed");
    pages.browser.value(&press("Cordon")).await?;
    pages.has("StaticText", "Done.").await?;
    ensure!(taints().await? == 1, "it is done");
    pages.browser.value(&press("Close")).await?;
    pages.has("StaticText", "unschedulable").await?;
    pages.has("button", "Uncordon …").await.context("the one that has an effect")?;
    let titles = "[...document.querySelectorAll('main .actions button')].map((one) => one.textContent).join()";
    ensure!(pages.browser.value(titles).await? == "Uncordon …,Drain …", "and that one alone");

    pages.open("/cluster/member2").await?;
    pages.has("button", "Drain …").await?;
    pages.browser.value(&press("Drain …")).await?;
    pages.has("StaticText", "VERDICT").await.context("the plan of the drain")?;
    pages.browser.value(&press("Cancel")).await?;

    pages.open("/workload/default/deployment.apps/web").await?;
    pages.has("button", "Rebalance …").await?;
    pages.browser.value(&press("Restart …")).await?;
    pages.has("StaticText", "deployment.apps/web restarted (dry run) (member").await?;
    pages.has("StaticText", "ironclad rollout restart deployment.apps/web -n default").await?;
    ensure!(restarted().await?.is_none(), "nothing is done before it is confirmed");
    pages.browser.value(&press("Restart")).await?;
    pages.has("StaticText", "Done.").await?;
    ensure!(restarted().await?.is_some(), "the template is restarted");
    pages.browser.value(&press("Close")).await?;
    pages.open("/evictions").await?;
    pages.has("button", "Pause all evictions …").await?;
    pages.browser.value(&press("Pause all evictions …")).await?;
    pages.has("StaticText", "evictions would be paused").await?;
    pages.browser.value(&press("Pause all evictions")).await?;
    pages.has("StaticText", "Done.").await?;
    pages.browser.value(&press("Close")).await?;
    pages.has("button", "Resume evictions …").await?;
    pages.is_quiet()?;
    world.daemon.stop().await?;
    Ok(())
}
