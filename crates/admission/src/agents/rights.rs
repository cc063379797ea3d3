//! Roles, bindings and namespaces of agents: the control plane makes them, so that nobody needs its administrator's
//! rights to register a member (specification/operations.md 10.3).

use std::time::Duration;

use ironclad_api::{
    agents::{agent_namespaces, agent_rights, may_have_agent},
    cluster::{Cluster, SyncMode},
    labels, names, namespaces,
};
use ironclad_patch::text_at;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Map, Value, json};

use super::request::{AgentRequest, Occasion, approved_at};
use crate::kinds::quota::cluster_name_mistakes;

/// Time from the approval of an agent's first certificate in which its Cluster has to be made; later its rights end.
const FIRST_USE: Duration = Duration::from_secs(3600);

const CLUSTER: &str = "Cluster";
/// Label that API servers give Namespaces.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const PREFIX: &str = "system:karmada:";
const SUFFIXES: [&str; 3] = [":agent", ":agent-secret", ":agent-work"];

/// Rights that the agent of a cluster has to have.
#[derive(Debug, Clone, PartialEq)]
pub enum Due {
    /// These. Changes by others are undone.
    Made {
        /// Namespaces, made if they are missing.
        namespaces: Vec<Value>,
        /// Roles and bindings. Those in a namespace that does not exist, or goes, have to wait.
        objects: Vec<Value>,
        /// Time after which to decide again, if nothing changes before.
        again: Option<Duration>,
    },
    /// None: those of these kinds and names are deleted if they are labelled as ours.
    Removed(Vec<Value>),
    /// Those that there are: the cluster is being removed.
    AsTheyAre,
}

/// Decides on the rights of a cluster's agent. `approved` are the times at which first certificates of it were approved
/// that were not used for a Cluster that is gone.
#[must_use]
pub fn decide(name: &str, cluster: Option<&Cluster>, approved: &[Timestamp], now: Timestamp) -> Due {
    let Some(cluster) = cluster else {
        let age = |at: &Timestamp| Duration::try_from(now.duration_since(*at)).unwrap_or_default();
        let left = approved.iter().filter_map(|at| FIRST_USE.checked_sub(age(at))).filter(|left| !left.is_zero()).max();
        return match left {
            Some(left) => {
                Due::Made { namespaces: agent_namespaces(name).into(), objects: agent_rights(name), again: Some(left) }
            }
            None => Due::Removed(agent_rights(name)),
        };
    };
    if cluster.metadata.deletion_timestamp.is_some() {
        return Due::AsTheyAre;
    }
    if cluster.spec.sync_mode != SyncMode::Pull || !may_have_agent(name) {
        // It may have had an agent before.
        return Due::Removed(agent_rights(name));
    }
    let mut objects = agent_rights(name);
    for object in &mut objects {
        object["metadata"]["ownerReferences"] = json!([owner(cluster)]);
    }
    // Another controller makes the execution namespace, after the finalizer of the Cluster.
    let [of_clusters, _] = agent_namespaces(name);
    Due::Made { namespaces: vec![of_clusters], objects, again: None }
}

fn owner(cluster: &Cluster) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": CLUSTER,
        "name": cluster.metadata.name, "uid": cluster.metadata.uid,
    })
}

/// The cluster of a first certificate that was approved, with the time. `None` for other requests.
#[must_use]
pub fn first_approval(request: &CertificateSigningRequest) -> Option<(String, Timestamp)> {
    let at = approved_at(request)?;
    let asked = AgentRequest::of(request).filter(|asked| asked.occasion == Occasion::First)?;
    Some((asked.cluster, at))
}

/// Difference between a role or binding and what it has to be.
#[derive(Debug, Clone, PartialEq)]
pub enum Repair {
    /// None.
    Nothing,
    /// This merge patch removes it.
    Patch(Value),
    /// The role of a binding cannot be changed: it has to be deleted and made again.
    Remake,
}

/// Compares a role or binding with what it has to be. Labels and owners of others are kept.
#[must_use]
pub fn repair(found: &Value, wanted: &Value) -> Repair {
    if found["roleRef"] != wanted["roleRef"] {
        return Repair::Remake;
    }
    let mut patch = Map::new();
    for field in ["rules", "aggregationRule", "subjects"] {
        if found[field] != wanted[field] {
            patch.insert(field.to_owned(), wanted[field].clone());
        }
    }
    let mut metadata = Map::new();
    let wrong = wanted["metadata"]["labels"].as_object().into_iter().flatten();
    let wrong: Map<String, Value> = wrong
        .filter(|(key, value)| found["metadata"]["labels"][key.as_str()] != **value)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !wrong.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(wrong));
    }
    let owners = |object: &Value| object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let before = owners(found);
    let of_others = before.iter().filter(|owner| owner["kind"] != CLUSTER).cloned();
    let after: Vec<Value> = of_others.chain(owners(wanted)).collect();
    if before != after {
        metadata.insert("ownerReferences".to_owned(), Value::Array(after));
    }
    if !metadata.is_empty() {
        patch.insert("metadata".to_owned(), Value::Object(metadata));
    }
    if patch.is_empty() { Repair::Nothing } else { Repair::Patch(Value::Object(patch)) }
}

/// The cluster to whose agent a role or binding of this name belongs.
#[must_use]
pub fn cluster_of_rights(name: &str) -> Option<&str> {
    let rest = name.strip_prefix(PREFIX)?;
    let cluster = SUFFIXES.iter().find_map(|suffix| rest.strip_suffix(suffix))?;
    (!cluster.is_empty() && !cluster.contains(':')).then_some(cluster)
}

/// Returns true if the role or binding is one of those of some cluster's agent.
#[must_use]
pub fn are_of_an_agent(kind: &str, namespace: &str, name: &str) -> bool {
    let Some(cluster) = cluster_of_rights(name).filter(|name| is_of_an_agent(name)) else { return false };
    let has = |object: &Value, pointer: &str, want: &str| text_at(object, pointer) == want;
    agent_rights(cluster).iter().any(|object| {
        has(object, "/kind", kind)
            && has(object, "/metadata/namespace", namespace)
            && has(object, "/metadata/name", name)
    })
}

/// Returns true if the Namespace is one that is made for some cluster's agent, with these labels and nothing else.
#[must_use]
pub fn is_made_for_an_agent(object: &Value) -> bool {
    let name = text_at(object, "/metadata/name");
    let cluster = names::cluster_of_execution_namespace(name);
    let of_an_agent = name == namespaces::CLUSTER || cluster.is_ok_and(is_of_an_agent);
    let labels = json!({labels::SYSTEM: labels::TRUE});
    // The API server itself adds a label with the name.
    let of_others = object["metadata"]["labels"].as_object().into_iter().flatten();
    let given: Map<String, Value> =
        of_others.filter(|(key, _)| *key != NAME_LABEL).map(|(key, value)| (key.clone(), value.clone())).collect();
    let more = ["annotations", "finalizers", "ownerReferences"];
    of_an_agent && Value::Object(given) == labels && more.iter().all(|field| object["metadata"][*field].is_null())
}

fn is_of_an_agent(cluster: &str) -> bool {
    cluster_name_mistakes(cluster).is_empty() && may_have_agent(cluster)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::testkit::{agent, at, request};

    fn cluster(mode: &str) -> Cluster {
        serde_json::from_value(json!({"metadata": {"name": "m1", "uid": "u"}, "spec": {"syncMode": mode}})).unwrap()
    }

    fn short(due: &Due) -> String {
        match due {
            Due::Made { namespaces, objects, again } => {
                let names: Vec<&str> = namespaces.iter().filter_map(|n| n["metadata"]["name"].as_str()).collect();
                let owned = objects.iter().filter(|o| o["metadata"]["ownerReferences"][0]["uid"] == "u").count();
                format!("{} of {} owned, {names:?}, {again:?}", owned, objects.len())
            }
            Due::Removed(objects) => format!("{} removed", objects.len()),
            Due::AsTheyAre => "as they are".to_owned(),
        }
    }

    #[test]
    fn rights_follow_clusters_and_approved_requests() {
        let (pull, push) = (cluster("Pull"), cluster("Push"));
        let mut going = pull.clone();
        going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(1)));
        let owned = r#"6 of 6 owned, ["karmada-cluster"], None"#;
        let first = |left: &str| format!(r#"0 of 6 owned, ["karmada-cluster", "karmada-es-m1"], Some({left})"#);
        for (name, cluster, approved, want) in [
            ("a Pull cluster", Some(&pull), &[][..], owned.to_owned()),
            ("with its request", Some(&pull), &[at(90)], owned.to_owned()),
            ("a Push cluster", Some(&push), &[], "6 removed".to_owned()),
            ("a cluster that is being removed", Some(&going), &[at(90)], "as they are".to_owned()),
            ("an approved request", None, &[at(4990)], first("3590s")),
            ("approved by another clock", None, &[at(6000)], first("3600s")),
            ("two of them", None, &[at(4000), at(4990)], first("3590s")),
            ("approved too long ago", None, &[at(1400)], "6 removed".to_owned()),
            ("nothing", None, &[], "6 removed".to_owned()),
        ] {
            assert_eq!(short(&decide("m1", cluster, approved, at(5000))), want, "{name}");
        }
        assert_eq!(
            short(&decide("rbac-generator", Some(&pull), &[], at(5000))),
            "6 removed",
            "an identity of karmadactl"
        );
    }

    #[test]
    fn only_approved_first_requests_give_rights() {
        let mut request = request(&agent("m1"));
        assert_eq!(first_approval(&request), None, "pending");
        let approved = json!({"conditions": [{"type": "Approved", "status": "True", "lastUpdateTime": at(7)}]});
        request.status = serde_json::from_value(approved).unwrap();
        assert_eq!(first_approval(&request), Some(("m1".to_owned(), at(7))));
        request.spec.username = Some("system:karmada:agent:m1".to_owned());
        assert_eq!(first_approval(&request), None, "a renewal");
    }

    #[test]
    fn differences_are_repaired_and_others_parts_are_kept() {
        let Due::Made { objects, .. } = decide("m1", Some(&cluster("Pull")), &[], at(0)) else { panic!() };
        let [role, binding] = [&objects[0], &objects[1]];
        let changed = |object: &Value, patch: Value| {
            let mut object = object.clone();
            ironclad_patch::merge_patch(&mut object, &patch);
            object
        };
        let ours = role["metadata"]["ownerReferences"][0].clone();
        let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"});
        let stale = changed(&ours, json!({"uid": "gone"}));
        let owners = |list: Value| json!({"metadata": {"ownerReferences": list}});
        for (name, found, wanted, want) in [
            ("the same", role.clone(), role, Repair::Nothing),
            ("a label of others", changed(role, json!({"metadata": {"labels": {"a": "b"}}})), role, Repair::Nothing),
            ("other rules", changed(role, json!({"rules": []})), role, Repair::Patch(json!({"rules": role["rules"]}))),
            (
                "rules that are aggregated",
                changed(role, json!({"aggregationRule": {"clusterRoleSelectors": []}})),
                role,
                Repair::Patch(json!({"aggregationRule": null})),
            ),
            (
                "without its label",
                changed(role, json!({"metadata": {"labels": null}})),
                role,
                Repair::Patch(json!({"metadata": {"labels": {"karmada.io/system": "true"}}})),
            ),
            ("without owner", changed(role, owners(Value::Null)), role, Repair::Patch(owners(json!([ours])))),
            (
                "of a Cluster that is gone",
                changed(role, owners(json!([stale, theirs]))),
                role,
                Repair::Patch(owners(json!([theirs, ours]))),
            ),
            (
                "other subjects",
                changed(binding, json!({"subjects": null})),
                binding,
                Repair::Patch(json!({"subjects": binding["subjects"]})),
            ),
            ("another role", changed(binding, json!({"roleRef": {"name": "x"}})), binding, Repair::Remake),
        ] {
            assert_eq!(repair(&found, wanted), want, "{name}");
        }
    }

    #[test]
    fn names_of_rights_name_their_cluster() {
        for object in agent_rights("m1") {
            assert_eq!(cluster_of_rights(object["metadata"]["name"].as_str().unwrap()), Some("m1"));
        }
        for other in ["system:karmada:agent-bootstrap", "system:karmada::agent", "system:karmada:a:b:agent", "admin"] {
            assert_eq!(cluster_of_rights(other), None, "{other}");
        }
    }
}
