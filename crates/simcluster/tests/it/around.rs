//! Objects around pods: slices of Services, disruption budgets, aggregated roles, tokens.

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    core::v1::{Pod, Secret, Service, ServiceAccount},
    discovery::v1::EndpointSlice,
    policy::v1::PodDisruptionBudget,
    rbac::v1::ClusterRole,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::world::{World, options, web};

fn addresses(slices: &[EndpointSlice]) -> Vec<String> {
    let mut all: Vec<_> =
        slices.iter().flat_map(|s| s.endpoints.iter().flatten()).flat_map(|e| e.addresses.clone()).collect();
    all.sort();
    all
}

async fn ips(w: &World) -> Vec<String> {
    let mut all: Vec<_> = w.list::<Pod>().await.into_iter().filter_map(|p| p.status?.pod_ip).collect();
    all.sort();
    all
}

#[tokio::test(start_paused = true)]
async fn slices_of_a_service_follow_its_pods() {
    let w = World::new(1, options()).await;
    let services: Api<Service> = Api::namespaced(w.client.clone(), "default");
    let service = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }));
    services.create(&PostParams::default(), &service.unwrap()).await.unwrap();
    w.quiet().await;
    let slices: Vec<EndpointSlice> = w.list().await;
    assert_eq!((slices.len(), addresses(&slices).len()), (1, 0), "one empty slice without endpoints");

    w.deploy(web(3, "i:1")).await;
    w.complete("web").await;
    w.quiet().await;
    let slices: Vec<EndpointSlice> = w.list().await;
    assert_eq!((slices.len(), addresses(&slices)), (1, ips(&w).await));
    assert_eq!(slices[0].labels()["kubernetes.io/service-name"], "web");

    w.patch("web", json!({"spec": {"replicas": 1}})).await;
    w.quiet().await;
    let slices: Vec<EndpointSlice> = w.list().await;
    assert_eq!(addresses(&slices), ips(&w).await);
    let before = w.requests();
    w.quiet().await;
    assert_eq!(w.requests(), before, "settled");

    services.delete("web", &DeleteParams::default()).await.unwrap();
    w.quiet().await;
    assert!(w.list::<EndpointSlice>().await.is_empty(), "they are deleted with the Service");
}

#[tokio::test(start_paused = true)]
async fn a_budget_allows_evictions_one_after_the_other() {
    let w = World::new(1, options()).await;
    w.deploy(web(3, "i:1")).await;
    w.complete("web").await;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(w.client.clone(), "default");
    let budget = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }));
    budgets.create(&PostParams::default(), &budget.unwrap()).await.unwrap();
    let allowed = async || budgets.get("web").await.unwrap().status.unwrap_or_default().disruptions_allowed;
    w.until("one may go", || async { allowed().await == Some(1) }).await;
    let (pods, api) = (w.list::<Pod>().await, w.pods());
    api.evict(&pods[0].name_any(), &EvictParams::default()).await.unwrap();
    let refused = api.evict(&pods[1].name_any(), &EvictParams::default()).await.unwrap_err();
    assert!(
        refused.to_string().contains("Cannot evict pod as it would violate the pod's disruption budget"),
        "{refused}"
    );
    w.complete("web").await;
    w.until("its successor runs: another may go", || async { allowed().await == Some(1) }).await;
    let status = budgets.get("web").await.unwrap().status.unwrap();
    assert_eq!((status.expected_pods, status.desired_healthy, status.current_healthy), (Some(3), Some(2), Some(3)));
    assert_eq!(status.disrupted_pods.unwrap_or_default().len(), 0, "the eviction is over");
    api.evict(&pods[1].name_any(), &EvictParams::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_aggregated_role_follows_its_parts() {
    let w = World::new(1, options()).await;
    let roles: Api<ClusterRole> = Api::all(w.client.clone());
    let make = async |name: &str, extra: serde_json::Value| {
        let mut role = json!({"metadata": {"name": name}});
        role.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        role["metadata"]["name"] = json!(name);
        roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    };
    make("all", json!({"rules": [], "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"into": "all"}}]}}))
        .await;
    let rule = |verb: &str| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
    make("a", json!({"metadata": {"labels": {"into": "all"}}, "rules": rule("get")})).await;
    make("b", json!({"metadata": {"labels": {"into": "all"}}, "rules": rule("list")})).await;
    let verbs = async || {
        let rules = roles.get("all").await.unwrap().rules.unwrap_or_default();
        rules.into_iter().flat_map(|r| r.verbs).collect::<Vec<_>>()
    };
    w.quiet().await;
    assert_eq!(verbs().await, ["get", "list"]);
    roles.patch("a", &PatchParams::default(), &Patch::Merge(json!({"rules": rule("watch")}))).await.unwrap();
    w.quiet().await;
    assert_eq!(verbs().await, ["watch", "list"]);
    roles.delete("b", &DeleteParams::default()).await.unwrap();
    w.quiet().await;
    assert_eq!(verbs().await, ["watch"]);
}

#[tokio::test(start_paused = true)]
async fn default_roles_are_aggregated_and_secrets_get_tokens() {
    let w = World::new(1, options()).await;
    w.quiet().await;
    let roles: Api<ClusterRole> = Api::all(w.client.clone());
    for (name, verb, resource, want) in [
        ("view", "get", "pods", true),
        ("view", "create", "pods", false),
        ("edit", "create", "pods", true),
        ("admin", "create", "rolebindings", true),
        ("edit", "create", "rolebindings", false),
    ] {
        let rules = roles.get(name).await.unwrap().rules.unwrap_or_default();
        let has = |list: &Option<Vec<String>>, value: &str| list.iter().flatten().any(|v| v == value);
        let may = rules.iter().any(|r| r.verbs.iter().any(|v| v == verb) && has(&r.resources, resource));
        assert_eq!(may, want, "{name} {verb} {resource}");
    }

    let accounts: Api<ServiceAccount> = Api::namespaced(w.client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(w.client.clone(), "default");
    let reviews: Api<TokenReview> = Api::all(w.client.clone());
    let make = |name: &str, account: &str| {
        let annotations = json!({"kubernetes.io/service-account.name": account});
        let secret = json!({"metadata": {"name": name, "annotations": annotations}, "type": "kubernetes.io/service-account-token"});
        serde_json::from_value::<Secret>(secret).unwrap()
    };
    secrets.create(&PostParams::default(), &make("orphan", "nobody")).await.unwrap();
    secrets.create(&PostParams::default(), &make("mine", "default")).await.unwrap();
    w.quiet().await;
    assert!(secrets.get_opt("orphan").await.unwrap().is_none(), "its account does not exist");
    let data = secrets.get("mine").await.unwrap().data.unwrap();
    assert_eq!(data["namespace"].0, b"default");
    let token = String::from_utf8(data["token"].0.clone()).unwrap();
    let spec = TokenReviewSpec { token, audiences: None };
    let review = TokenReview { spec, ..TokenReview::default() };
    let user = async || {
        let status = reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap();
        status.user.unwrap().username
    };
    assert_eq!(user().await.as_deref(), Some("system:serviceaccount:default:default"));
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    w.quiet().await;
    assert_eq!(user().await, None, "the new account has another uid");
}
