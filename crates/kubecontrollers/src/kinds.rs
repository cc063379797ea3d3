//! Kinds of a server: each resource once, in its preferred version.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_runtime::{Failure, aggregated_groups};
use kube::{Client, core::ApiResource, core::discovery::v2::APIGroupDiscovery};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<String>,
}

impl Kind {
    pub(crate) fn has(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }

    /// Name in messages: `deployments.apps`, `pods`.
    pub(crate) fn group_resource(&self) -> String {
        if self.resource.group.is_empty() {
            self.resource.plural.clone()
        } else {
            format!("{}.{}", self.resource.plural, self.resource.group)
        }
    }
}

pub(crate) type Kinds = BTreeMap<(String, String), Arc<Kind>>;

/// Discovers the kinds of the server, with two requests.
///
/// # Errors
/// The error of a request.
pub(crate) async fn discover(client: &Client) -> Result<Kinds, Failure> {
    Ok(of(aggregated_groups(client).await?.iter()))
}

fn of<'a>(groups: impl Iterator<Item = &'a APIGroupDiscovery>) -> Kinds {
    let mut kinds = Kinds::new();
    for group in groups {
        let name = group.metadata.as_ref().and_then(|m| m.name.clone()).unwrap_or_default();
        for version in &group.versions {
            let Some(version_name) = &version.version else { continue };
            for resource in &version.resources {
                let (Some(plural), Some(kind)) =
                    (&resource.resource, resource.response_kind.as_ref().and_then(|k| k.kind.as_ref()))
                else {
                    continue;
                };
                // Versions are in order of preference: use the first that has the resource.
                kinds.entry((name.clone(), plural.clone())).or_insert_with(|| {
                    let api_version =
                        if name.is_empty() { version_name.clone() } else { format!("{name}/{version_name}") };
                    Arc::new(Kind {
                        resource: ApiResource {
                            group: name.clone(),
                            version: version_name.clone(),
                            api_version,
                            kind: kind.clone(),
                            plural: plural.clone(),
                        },
                        namespaced: resource.scope.as_deref() == Some("Namespaced"),
                        verbs: resource.verbs.clone(),
                    })
                });
            }
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_resource_once_in_its_preferred_version() {
        let resource = |plural: &str, kind: &str| json!({"resource": plural, "scope": "Namespaced", "verbs": ["get", "delete"], "responseKind": {"group": "", "version": "", "kind": kind}});
        let groups: Vec<APIGroupDiscovery> = serde_json::from_value(json!([
            {"metadata": {}, "versions": [{"version": "v1", "resources": [resource("pods", "Pod")]}]},
            {"metadata": {"name": "autoscaling"}, "versions": [
                {"version": "v2", "resources": [resource("hpas", "HPA")]},
                {"version": "v1", "resources": [resource("hpas", "HPA"), resource("old", "Old")]},
            ]},
        ]))
        .unwrap();
        let kinds = of(groups.iter());
        let names: Vec<_> =
            kinds.values().map(|k| format!("{} {}", k.resource.api_version, k.group_resource())).collect();
        assert_eq!(names, ["v1 pods", "autoscaling/v2 hpas.autoscaling", "autoscaling/v1 old.autoscaling"]);
        assert!(kinds.values().all(|k| k.namespaced && k.has("delete") && !k.has("watch")));
    }
}
