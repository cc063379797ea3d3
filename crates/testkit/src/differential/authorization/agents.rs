//! Agents of two members as subjects: their rights as the control plane makes them, and questions about what belongs to
//! their own member and to the other one (specification/operations.md 10.3).

use ironclad_api::{
    agents::{AGENT_API_GROUP, AGENT_GROUP, agent_namespaces, agent_rights, agent_user},
    names, namespaces,
};
use serde_json::{Value, json};

use super::draw::{Draw, RBAC, Request, review};
use crate::differential::As;

const MEMBERS: [&str; 2] = ["m1", "m2"];
const VERBS: [&str; 9] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*"];
const SUBRESOURCES: [&str; 5] = ["status", "tunnel", "proxy", "finalizers", "approval"];

/// Namespaces, roles and bindings of both agents, with the paths at which they are created.
pub(super) fn objects() -> Vec<(String, Value)> {
    let [clusters, first] = agent_namespaces(MEMBERS[0]);
    let [_, second] = agent_namespaces(MEMBERS[1]);
    let mut out: Vec<_> =
        [clusters, first, second].into_iter().map(|namespace| ("/api/v1/namespaces".to_owned(), namespace)).collect();
    for object in MEMBERS.into_iter().flat_map(agent_rights) {
        let plural = format!("{}s", object["kind"].as_str().unwrap_or_default().to_lowercase());
        let path = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("/apis/{RBAC}/v1/namespaces/{namespace}/{plural}"),
            None => format!("/apis/{RBAC}/v1/{plural}"),
        };
        out.push((path, object));
    }
    out
}

/// A kind that agents ask for.
struct Asked {
    group: &'static str,
    resource: &'static str,
    namespace: String,
    name: String,
    /// Verbs on the kind that every agent has there; `None` for kinds that belong to no member.
    of_all: Option<&'static [&'static str]>,
}

/// Kinds with an object of this member.
fn kinds(member: &str) -> [Asked; 11] {
    let asked = |group, resource, namespace: &str, name: &str, of_all| Asked {
        group,
        resource,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        of_all,
    };
    let (space, clusters) = (names::execution_namespace(member), namespaces::CLUSTER);
    let impersonator = names::impersonation_secret(member);
    [
        asked("cluster.karmada.io", "clusters", "", member, Some(&["create", "list", "watch"])),
        asked(AGENT_API_GROUP, "clusters", "", member, Some(&[])),
        asked("work.karmada.io", "works", &space, "w", Some(&[])),
        asked("", "secrets", &space, "x", Some(&[])),
        asked("", "secrets", clusters, member, Some(&["create"])),
        asked("", "secrets", clusters, &impersonator, Some(&["create"])),
        asked("coordination.k8s.io", "leases", clusters, member, Some(&["create"])),
        asked("certificates.k8s.io", "certificatesigningrequests", "", "csr", None),
        asked("", "events", "default", "e", None),
        asked("", "namespaces", "", &space, None),
        asked(RBAC, "clusterroles", "", "r0", None),
    ]
}

/// A question, or a request, of an agent.
pub(super) fn request(draw: &Draw) -> Request {
    let (own, other) = (draw.one(&MEMBERS), draw.one(&MEMBERS));
    let kinds = kinds(other);
    let Asked { group, resource, namespace, name, of_all } = &kinds[draw.below(kinds.len())];
    let verb = draw.one(&VERBS);
    let subresource = if draw.chance(0.3) { draw.one(&SUBRESOURCES) } else { "" };
    let must_be_refused = own != other && of_all.is_some_and(|verbs| !subresource.is_empty() || !verbs.contains(&verb));
    let user = agent_user(own);
    let method = match verb {
        "get" | "list" => "GET",
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        _ => "",
    };
    if method.is_empty() || draw.chance(0.5) {
        let mut attributes = json!({"group": group, "resource": resource, "verb": verb, "name": name});
        for (key, value) in [("namespace", namespace.as_str()), ("subresource", subresource)] {
            if !value.is_empty() {
                attributes[key] = json!(value);
            }
        }
        let review = Some(review(&user, &[AGENT_GROUP], attributes));
        let (method, path, headers) = ("POST", String::new(), Vec::new());
        return Request { who: As::Admin, method, path, headers, body: None, review, must_be_refused };
    }
    let root = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/{}", version(group)) };
    let within = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    let mut path = format!("{root}{within}/{resource}");
    let is_of_kind = ["list", "create"].contains(&verb);
    if !is_of_kind || !subresource.is_empty() {
        path += &format!("/{name}");
    }
    if !subresource.is_empty() {
        path += &format!("/{subresource}");
    }
    path += if method == "GET" { "?resourceVersion=none" } else { "?dryRun=All" };
    let mut headers =
        vec![("Impersonate-User".to_owned(), user), ("Impersonate-Group".to_owned(), AGENT_GROUP.to_owned())];
    let body = ["POST", "PUT", "PATCH"].contains(&method).then(|| json!({"metadata": {"name": name}}));
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    headers.extend(body.is_some().then(|| ("Content-Type".to_owned(), content_type.to_owned())));
    Request { who: As::Admin, method, path, headers, body, review: None, must_be_refused }
}

fn version(group: &str) -> &'static str {
    if group.contains("karmada.io") || group == AGENT_API_GROUP { "v1alpha1" } else { "v1" }
}
