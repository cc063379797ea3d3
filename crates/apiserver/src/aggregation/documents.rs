//! Discovery documents of aggregated groups.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};

use super::apis::{Api, Apis};
use crate::registry::version_priority;

/// An aggregated group: its versions, the preferred one first.
#[derive(Debug)]
pub(crate) struct AggregatedGroup<'a> {
    pub(crate) name: &'a str,
    pub(crate) versions: Vec<(&'a str, &'a Arc<Api>)>,
}

impl Apis {
    /// The groups, those of higher priority first, without those that are served otherwise.
    pub(crate) fn groups(&self, is_own: impl Fn(&str) -> bool) -> Vec<AggregatedGroup<'_>> {
        let mut groups: BTreeMap<&str, Vec<(&str, &Arc<Api>)>> = BTreeMap::new();
        for ((group, version), api) in self.all() {
            if !is_own(group) {
                groups.entry(group).or_default().push((version, api));
            }
        }
        let mut groups: Vec<_> =
            groups.into_iter().map(|(name, versions)| AggregatedGroup { name, versions }).collect();
        for group in &mut groups {
            group.versions.sort_by_key(|(version, api)| (Reverse(api.version_priority), version_priority(version)));
        }
        groups.sort_by_key(|group| {
            let priority = group.versions.iter().map(|(_, api)| api.group_priority).max();
            (Reverse(priority), group.name)
        });
        groups
    }
}

impl AggregatedGroup<'_> {
    /// The group as `/apis` lists it.
    pub(crate) fn api_group(&self) -> Value {
        let version = |v: &str| json!({"groupVersion": format!("{}/{v}", self.name), "version": v});
        let versions: Vec<Value> = self.versions.iter().map(|(v, _)| version(v)).collect();
        json!({"name": self.name, "preferredVersion": versions.first(), "versions": versions})
    }

    /// The group in aggregated discovery. The resources of a server that does not answer are left out.
    pub(crate) fn discovery(&self) -> Value {
        let version = |(version, api): &(&str, &Arc<Api>)| {
            let (freshness, resources) = match api.is_stale() {
                true => ("Stale", json!([])),
                false => ("Current", resources(self.name, version, &api.resources)),
            };
            let mut out = json!({"version": version, "freshness": freshness});
            if !api.is_stale() {
                out["resources"] = resources;
            }
            out
        };
        let versions: Vec<Value> = self.versions.iter().map(version).collect();
        json!({"metadata": {"name": self.name}, "versions": versions})
    }
}

/// The resources of an APIResourceList as aggregated discovery lists them: subresources in their resource. The resource
/// of a subresource need not be listed itself.
fn resources(group: &str, version: &str, list: &[Value]) -> Value {
    let mut order: Vec<&str> = Vec::new();
    let mut found: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    let kind = |of: &Value| {
        let text = |key: &str, default: &str| of[key].as_str().filter(|t| !t.is_empty()).unwrap_or(default).to_owned();
        json!({"group": text("group", group), "version": text("version", version), "kind": text("kind", "")})
    };
    // Never null: clients take a list.
    let verbs = |of: &Value| Some(&of["verbs"]).filter(|verbs| verbs.is_array()).cloned().unwrap_or_else(|| json!([]));
    let scope = |of: &Value| json!(if of["namespaced"] == true { "Namespaced" } else { "Cluster" });
    for one in list {
        let Some(name) = one["name"].as_str() else { continue };
        let (resource, subresource) = match name.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource)),
            None => (name, None),
        };
        if !found.contains_key(resource) {
            order.push(resource);
        }
        let entry = found.entry(resource).or_insert_with(|| {
            let empty = json!({"resource": resource, "responseKind": {"group": "", "version": "", "kind": ""},
                "scope": scope(one), "singularResource": "", "verbs": []});
            empty.as_object().cloned().unwrap_or_default()
        });
        match subresource {
            None => {
                entry.insert("responseKind".into(), kind(one));
                entry.insert("scope".into(), scope(one));
                entry.insert("singularResource".into(), json!(one["singularName"].as_str().unwrap_or_default()));
                entry.insert("verbs".into(), verbs(one));
                for list in ["shortNames", "categories"] {
                    if one[list].as_array().is_some_and(|names| !names.is_empty()) {
                        entry.insert(list.into(), one[list].clone());
                    }
                }
            }
            Some(subresource) => {
                let fresh = json!({"subresource": subresource, "responseKind": kind(one), "verbs": verbs(one)});
                let subresources = entry.entry("subresources").or_insert_with(|| json!([]));
                if let Some(subresources) = subresources.as_array_mut() {
                    subresources.push(fresh);
                }
            }
        }
    }
    order.into_iter().filter_map(|name| found.remove(name).map(Value::Object)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregation::apis::{Aggregation, ApiResource, Origin, ServedApi};

    fn served(group: &str, version: &str, priorities: (u32, u32), resources: &[&str]) -> ServedApi {
        let resource = |name: &&str| ApiResource {
            name: (*name).to_owned(),
            kind: "K".into(),
            namespaced: true,
            verbs: vec!["get".into()],
        };
        ServedApi {
            group: group.into(),
            version: version.into(),
            group_priority: priorities.0,
            version_priority: priorities.1,
            registered: true,
            resources: resources.iter().map(resource).collect(),
        }
    }

    #[test]
    fn groups_are_in_order_of_their_priorities_and_subresources_in_their_resources() {
        let aggregation = Aggregation::default();
        assert!(aggregation.announce(served("b.io", "v1beta1", (100, 200), &["pods/x", "pods/y", "things"])));
        assert!(aggregation.announce(served("b.io", "v1beta2", (100, 200), &[])));
        assert!(aggregation.announce(served("a.io", "v1", (100, 1), &[])));
        assert!(aggregation.announce(served("c.io", "v1", (2_000, 1), &[])));
        let before = aggregation.apis().generation;
        assert!(!aggregation.announce(served("c.io", "v1", (2_000, 1), &[])), "nothing changed");
        assert_eq!(aggregation.apis().generation, before);
        let apis = aggregation.apis();
        let names: Vec<_> = apis.groups(|_| false).iter().map(|group| group.name.to_owned()).collect();
        assert_eq!(names, ["c.io", "a.io", "b.io"]);
        let own: Vec<_> = apis.groups(|name| name == "c.io").iter().map(|group| group.name.to_owned()).collect();
        assert_eq!(own, ["a.io", "b.io"], "what is served otherwise is left out");
        let groups = apis.groups(|_| false);
        let group = &groups[2];
        assert_eq!(group.api_group()["preferredVersion"]["version"], "v1beta2");
        let discovery = group.discovery();
        let resources = &discovery["versions"][1]["resources"];
        assert_eq!(resources[0]["resource"], "pods");
        assert_eq!(resources[0]["subresources"][1]["subresource"], "y");
        assert_eq!(resources[1]["responseKind"], json!({"group": "b.io", "version": "v1beta1", "kind": "K"}));
    }

    #[test]
    fn a_server_that_does_not_answer_is_stale_and_takes_precedence_over_a_route() {
        let aggregation = Aggregation::default();
        aggregation.announce(served("a.io", "v1", (100, 1), &["things"]));
        let api = Api {
            group_priority: 100,
            version_priority: 1,
            resources: vec![],
            origin: Origin::Remote(Err("gone".into())),
        };
        aggregation.set_remotes([(("a.io".to_owned(), "v1".to_owned()), Arc::new(api))].into());
        let apis = aggregation.apis();
        let version = &apis.groups(|_| false)[0].discovery()["versions"][0];
        assert_eq!((version["freshness"].as_str(), version.get("resources")), (Some("Stale"), None));
        assert!(apis.remote("/apis/a.io/v1").is_some() && apis.remote("/apis/a.io/v1/things/x").is_some());
        for other in ["/apis/a.io", "/apis/a.io/v2/things", "/api/v1/pods", "/apis/a.iox/v1"] {
            assert!(apis.remote(other).is_none(), "{other}");
        }
    }
}
