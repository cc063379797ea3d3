//! Names of clusters, in all fields that take them: one that does not exist is warned of, since most often it is
//! misspelt.

use serde_json::Value;

use crate::{
    Lookups, Need, Request, Resource,
    field::{Findings, Path},
    request::Needs,
};

/// At most this many names of an object are looked up.
const NAMES_MAX: usize = 64;

const CLUSTERS: Resource =
    Resource { group: "cluster.karmada.io", version: "v1alpha1", kind: "Cluster", plural: "clusters" };

const PROPAGATION: &[&str] = &[
    "spec.placement.clusterAffinities[].clusterNames[]",
    "spec.placement.clusterAffinities[].exclude[]",
    "spec.placement.clusterAffinities[].overflowAffinities[].clusterNames[]",
    "spec.placement.clusterAffinities[].overflowAffinities[].exclude[]",
    "spec.placement.clusterAffinity.clusterNames[]",
    "spec.placement.clusterAffinity.exclude[]",
    "spec.placement.replicaScheduling.weightPreference.staticWeightList[].targetCluster.clusterNames[]",
    "spec.placement.replicaScheduling.weightPreference.staticWeightList[].targetCluster.exclude[]",
    "spec.suspension.dispatchingOnClusters.clusterNames[]",
];
const OVERRIDES: &[&str] = &[
    "spec.overrideRules[].targetCluster.clusterNames[]",
    "spec.overrideRules[].targetCluster.exclude[]",
    "spec.targetCluster.clusterNames[]",
    "spec.targetCluster.exclude[]",
];

/// The fields by resource; `[]` stands for each item of a list.
const FIELDS: &[(&str, &[&str])] = &[
    ("clusteroverridepolicies", OVERRIDES),
    ("clusterpropagationpolicies", PROPAGATION),
    (
        "clustertaintpolicies",
        &[
            "spec.targetCluster.clusterNames[]",
            "spec.targetCluster.exclude[]",
            "spec.targetClusters.clusterNames[]",
            "spec.targetClusters.exclude[]",
        ],
    ),
    ("federatedresourcequotas", &["spec.staticAssignments[].clusterName"]),
    (
        "multiclusterservices",
        &[
            "spec.consumerClusters[].name",
            "spec.providerClusters[].name",
            "spec.range.clusterNames[]",
            "spec.serviceConsumptionClusters[]",
            "spec.serviceProvisionClusters[]",
        ],
    ),
    ("overridepolicies", OVERRIDES),
    ("propagationpolicies", PROPAGATION),
    ("remedies", &["spec.clusterAffinity.clusterNames[]"]),
];

/// Looks up the clusters that the object names.
pub(crate) fn needs(request: &Request<'_>, needs: &mut Needs) {
    needs.extend(named(request).into_iter().map(|(_, name)| cluster(name)));
}

/// Warns of the names of clusters that do not exist.
pub(crate) fn warn(request: &Request<'_>, lookups: &Lookups, out: &mut Findings) {
    for (path, name) in named(request) {
        if lookups.get(&cluster(name)).is_some_and(<[Value]>::is_empty) {
            out.warn(format!("{path} names cluster {name:?}, which does not exist"));
        }
    }
}

fn cluster(name: &str) -> Need {
    Need::Get { resource: CLUSTERS, namespace: String::new(), name: name.to_owned() }
}

/// The names of clusters in the object, each with its path.
fn named<'a>(request: &Request<'a>) -> Vec<(Path, &'a str)> {
    let fields = FIELDS.iter().find(|(resource, _)| *resource == request.resource).map(|(_, fields)| *fields);
    let mut found = Vec::new();
    for field in fields.unwrap_or_default() {
        let spec = request.object.and_then(|object| object.get("spec"));
        if let (Some(spec), Some(rest)) = (spec, field.strip_prefix("spec.")) {
            collect(spec, rest, &Path::new("spec"), &mut found);
        }
    }
    found.truncate(NAMES_MAX);
    found
}

fn collect<'a>(value: &'a Value, field: &str, path: &Path, found: &mut Vec<(Path, &'a str)>) {
    let (first, rest) = field.split_once('.').unwrap_or((field, ""));
    let mut one = |value: &'a Value, path: Path| match (rest, value.as_str()) {
        ("", Some(name)) if !name.is_empty() => found.push((path, name)),
        ("", _) => {}
        _ => collect(value, rest, &path, found),
    };
    match first.strip_suffix("[]") {
        None => {
            if let Some(value) = value.get(first) {
                one(value, path.child(first));
            }
        }
        Some(list) => {
            let items = value.get(list).and_then(Value::as_array).into_iter().flatten();
            items.enumerate().for_each(|(i, item)| one(item, path.child(list).index(i)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::table::{Act, WEBHOOKS};

    const WRITTEN_BY_CONTROLLERS: [&str; 3] = ["clusterresourcebindings", "resourcebindings", "works"];

    /// Paths below a schema that take names of clusters, by their field names and types.
    fn of_schema(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let at = format!("{path}.{name}");
            let clusters = name.to_lowercase().contains("cluster");
            match property["type"].as_str() {
                Some("string") if name == "clusterName" => _ = found.insert(at),
                Some("array") => {
                    let items = &property["items"];
                    if items["type"] == "string" && (clusters || name == "exclude") {
                        found.insert(format!("{at}[]"));
                    } else if clusters && items["properties"].as_object().is_some_and(|p| p.keys().eq(["name"])) {
                        found.insert(format!("{at}[].name"));
                    }
                    of_schema(items, &format!("{at}[]"), found);
                }
                _ => of_schema(property, &at, found),
            }
        }
    }

    #[test]
    fn every_field_of_our_kinds_that_takes_names_of_clusters_is_in_the_table() {
        let mut all = Vec::new();
        for crd in ironclad_api::crds::crds() {
            let plural = crd.spec.names.plural.clone();
            let mut found = BTreeSet::new();
            for version in &crd.spec.versions {
                let schema = json!(version.schema.as_ref().unwrap().open_api_v3_schema);
                of_schema(&schema["properties"]["spec"], "spec", &mut found);
            }
            if !found.is_empty() && !WRITTEN_BY_CONTROLLERS.contains(&&*plural) {
                all.push((plural, found));
            }
        }
        all.sort();
        let table: Vec<(String, BTreeSet<String>)> = FIELDS
            .iter()
            .map(|(resource, fields)| {
                ((*resource).to_owned(), fields.iter().map(|field| (*field).to_owned()).collect())
            })
            .collect();
        assert_eq!(all, table);
        for (resource, _) in &table {
            let validates = |w: &crate::table::Webhook| w.resource == resource && matches!(w.act, Act::Validate { .. });
            assert_eq!(WEBHOOKS.iter().filter(|webhook| validates(webhook)).count(), 1, "{resource} is reviewed");
        }
    }

    #[test]
    fn each_name_of_a_cluster_that_does_not_exist_is_warned_of() {
        fn filled(field: &str) -> Value {
            let (first, rest) = field.split_once('.').unwrap_or((field, ""));
            let below = if rest.is_empty() { json!("nowhere") } else { filled(rest) };
            match first.strip_suffix("[]") {
                Some(list) => json!({list: [below]}),
                None => json!({first: below}),
            }
        }
        for (resource, fields) in FIELDS {
            for field in *fields {
                let object = filled(field);
                let request = Request {
                    operation: crate::Operation::Create,
                    group: "",
                    version: "",
                    resource,
                    subresource: "",
                    kind: "",
                    namespace: "",
                    name: "",
                    object: Some(&object),
                    old: None,
                    user: "",
                    may_be_own: false,
                    groups: &[],
                    field_manager: "",
                    dry_run: false,
                };
                let mut needed = Needs::new();
                needs(&request, &mut needed);
                let mut lookups = Lookups::default();
                let warnings = |lookups: &Lookups| {
                    let mut out = Findings::default();
                    warn(&request, lookups, &mut out);
                    out.warnings
                };
                assert_eq!(warnings(&lookups), [""; 0], "a failed look-up");
                lookups.found = needed.iter().map(|need| (need.clone(), vec![json!({})])).collect();
                assert_eq!(warnings(&lookups), [""; 0], "it exists");
                lookups.found.values_mut().for_each(Vec::clear);
                let want = format!("{} names cluster \"nowhere\", which does not exist", field.replace("[]", "[0]"));
                assert_eq!(warnings(&lookups), [want]);
            }
        }
    }
}
