//! Look-ups of webhook reviews in the control plane.

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use ironclad_admission::{Effect, Lookups, Need, Resource, table::Webhook};
use ironclad_runtime::{Api, discover};
use ironclad_seam::Seam;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::{
    Client,
    api::{ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject},
    discovery::{Scope, verbs},
};
use serde_json::Value;

/// Time that is left of a webhook's timeout for the review itself and the way back.
const RESERVE: Duration = Duration::from_secs(1);
/// Requests under way at a time.
const REQUESTS_MAX: usize = 8;

/// Answers what is needed. What can't be had before the caller of the webhook gives up is missing.
pub(crate) async fn look_up(client: &Client, webhook: &Webhook, needs: BTreeSet<Need>, seam: &Seam) -> Lookups {
    let timeout = Duration::from_secs(webhook.timeout_seconds.into()).saturating_sub(RESERVE);
    let mut lookups = Lookups { now: seam.clock.wall_seconds(), ..Lookups::default() };
    if needs.contains(&Need::Id) {
        lookups.id = seam.rng.uuid();
    }
    let answers = stream::iter(needs.into_iter().filter(|need| *need != Need::Id)).map(|need| async move {
        let found = tokio::time::timeout(timeout, answer(client, &need)).await;
        (need, found)
    });
    let answers: Vec<_> = answers.buffered(REQUESTS_MAX).collect().await;
    for (need, found) in answers {
        match found {
            Ok(Ok(found)) => {
                lookups.found.insert(need, found);
            }
            Ok(Err(error)) => tracing::warn!(?need, %error, "look-up for a webhook review failed"),
            Err(_) => tracing::warn!(?need, "look-up for a webhook review timed out"),
        }
    }
    lookups
}

async fn answer(client: &Client, need: &Need) -> Result<Vec<Value>, kube::Error> {
    match need {
        Need::Id => Ok(vec![]),
        Need::Get { resource, namespace, name } => {
            let found = api(client, resource, namespace).get_opt(name).await?;
            Ok(found.iter().map(json).collect())
        }
        Need::List { resource, namespace } => {
            let list = api(client, resource, namespace).list(&ListParams::default()).await?;
            Ok(list
                .items
                .into_iter()
                .map(|mut object| {
                    // Items of a list have no `apiVersion` and `kind`.
                    object.types.get_or_insert_with(|| kube::core::TypeMeta {
                        api_version: resource_of(resource).api_version,
                        kind: resource.kind.to_owned(),
                    });
                    json(&object)
                })
                .collect())
        }
        Need::Access { user, groups, verb, resource, namespace, name } => {
            let review = serde_json::json!({
                "spec": {
                    "user": user, "groups": groups,
                    "resourceAttributes": {
                        "verb": verb, "group": resource.group, "version": resource.version,
                        "resource": resource.plural, "namespace": namespace, "name": name,
                    },
                },
            });
            let review: SubjectAccessReview = serde_json::from_value(review).map_err(kube::Error::SerdeError)?;
            let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
            let allowed = answer.status.is_some_and(|status| status.allowed);
            Ok(allowed.then_some(Value::Bool(true)).into_iter().collect())
        }
        Need::Labelled { key, value, namespace, at_most } => labelled(client, key, value, namespace, *at_most).await,
    }
}

/// Lists the labelled objects of every namespaced kind.
async fn labelled(
    client: &Client,
    key: &str,
    value: &str,
    namespace: &str,
    at_most: usize,
) -> Result<Vec<Value>, kube::Error> {
    let discovery = discover(client).await?;
    let limit = u32::try_from(at_most).unwrap_or(u32::MAX);
    let params = ListParams::default().labels(&format!("{key}={value}")).limit(limit);
    let kinds: Vec<ApiResource> = discovery
        .groups()
        .flat_map(|group| group.recommended_resources())
        .filter(|(_, capabilities)| {
            capabilities.scope == Scope::Namespaced && capabilities.supports_operation(verbs::LIST)
        })
        .map(|(resource, _)| resource)
        .collect();
    let params = &params;
    let lists = stream::iter(kinds).map(|kind| async move {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
        let found = match api.list_metadata(params).await {
            Ok(list) => list.items,
            // The kind was removed since discovery.
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            Err(error) => {
                tracing::warn!(kind = kind.kind, api_version = kind.api_version, "a kind cannot be listed");
                return Err(error);
            }
        };
        let object = |object: kube::core::PartialObjectMeta<DynamicObject>| {
            serde_json::json!({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": object.metadata})
        };
        Ok(found.into_iter().map(object).collect::<Vec<Value>>())
    });
    let lists: Vec<Vec<Value>> = lists.buffered(REQUESTS_MAX).try_collect().await?;
    Ok(lists.into_iter().flatten().take(at_most).collect())
}

/// Performs the writes that a review requires.
pub(crate) async fn apply_effects(client: &Client, effects: Vec<Effect>) -> Result<(), Failed> {
    let mut done: Vec<(Api<DynamicObject>, String, Value)> = Vec::new();
    for effect in effects {
        let Effect::WriteStatus { resource, object } = effect;
        let Ok(object) = serde_json::from_value::<DynamicObject>(object) else { continue };
        let name = object.metadata.name.clone().unwrap_or_default();
        let api = api(client, &resource, object.metadata.namespace.as_deref().unwrap_or_default());
        let before = api.get(&name).await.map_err(Failed::of)?;
        let params = PostParams { field_manager: Some("ironclad-quota".into()), ..PostParams::default() };
        match api.replace_status(&name, &params, &object).await {
            Ok(_) => done.push((api, name, before.data["status"].clone())),
            Err(error) => {
                // All writes or none: undo the ones that succeeded.
                for (api, name, status) in done {
                    let patch = serde_json::json!({ "status": status });
                    let _ = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
                }
                return Err(Failed::of(error));
            }
        }
    }
    Ok(())
}

/// Reason why a write did not happen.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The object changed: review again.
    Conflict,
    /// Anything else.
    Other(String),
}

impl Failed {
    fn of(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.is_conflict() => Self::Conflict,
            other => Self::Other(other.to_string()),
        }
    }
}

fn api(client: &Client, resource: &Resource, namespace: &str) -> Api<DynamicObject> {
    let resource = resource_of(resource);
    if namespace.is_empty() {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, &resource)
    }
}

fn resource_of(resource: &Resource) -> ApiResource {
    let api_version = if resource.group.is_empty() {
        resource.version.to_owned()
    } else {
        format!("{}/{}", resource.group, resource.version)
    };
    ApiResource {
        group: resource.group.to_owned(),
        version: resource.version.to_owned(),
        api_version,
        kind: resource.kind.to_owned(),
        plural: resource.plural.to_owned(),
    }
}

fn json(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or(Value::Null)
}
