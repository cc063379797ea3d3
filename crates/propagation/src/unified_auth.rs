//! Decision of the unified auth controller: mirrors the control plane's RBAC for the cluster proxy as impersonation
//! rights in members (specification/propagation.md 23, specification/operations.md 4.3).

use std::{collections::BTreeMap, collections::BTreeSet, sync::Arc};

use ironclad_api::{
    OwnerReference, StringMap, annotations,
    cluster::{Cluster, SyncMode},
    events, labels, namespaces,
    work::{ObjectReference, Work},
};
use ironclad_fleet::{ClusterName, Event, Plan, WorkKey, because::propagation::Reason};
use serde_json::{Value, json};

use crate::{
    new_ids::NewIds,
    work::{
        key_of,
        owned::{self, DesiredWork, OfBinding, Write},
    },
};

/// Name of both objects in a member, and of the service account used there.
pub const NAME: &str = "karmada-impersonator";

/// Rule of a ClusterRole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// `apiGroups`.
    pub groups: Vec<String>,
    /// `resources`.
    pub resources: Vec<String>,
    /// `resourceNames`; empty means all.
    pub names: Vec<String>,
}

/// Subject of a ClusterRoleBinding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// `User`, `Group` or `ServiceAccount`.
    pub kind: String,
    /// Namespace of a ServiceAccount.
    pub namespace: String,
    pub name: String,
}

/// RBAC of the control plane.
#[derive(Debug, Clone, Default)]
pub struct Rbac {
    /// Rules by ClusterRole.
    pub roles: BTreeMap<String, Vec<Rule>>,
    /// Subjects of ClusterRoleBindings, each with the name of its ClusterRole.
    pub bindings: Vec<(String, Vec<Subject>)>,
}

/// Snapshot of one cluster.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub cluster: &'a Cluster,
    /// The RBAC of the control plane.
    pub rbac: &'a Rbac,
    /// The Works under [`keys`].
    pub works: &'a [Arc<Work>],
}

/// The keys of a cluster's two Works.
#[must_use]
pub fn keys(cluster: &ClusterName) -> [WorkKey; 2] {
    ["ClusterRole", "ClusterRoleBinding"].map(|kind| owned::key(cluster, kind, "", NAME))
}

/// The clusters that a rule grants access to: `Some(None)` all, or those named.
fn reach(rule: &Rule) -> Option<Option<BTreeSet<&str>>> {
    let has = |list: &[String], one: &str| list.iter().any(|item| item == one || item == "*");
    let proxy = has(&rule.groups, "cluster.karmada.io") && has(&rule.resources, "clusters/proxy");
    let search = has(&rule.groups, "search.karmada.io") && has(&rule.resources, "proxying/proxy");
    if search || (proxy && rule.names.is_empty()) {
        return Some(None);
    }
    proxy.then(|| Some(rule.names.iter().map(String::as_str).collect()))
}

/// Returns true if these rules of a ClusterRole grant access to any cluster.
#[must_use]
pub fn concerns(rules: &[Rule]) -> bool {
    rules.iter().any(|rule| reach(rule).is_some())
}

/// The subjects that may access the cluster.
#[must_use]
pub fn subjects(cluster: &str, rbac: &Rbac) -> BTreeSet<Subject> {
    let lets_in = |rules: &Vec<Rule>| {
        rules.iter().filter_map(reach).any(|names| names.is_none_or(|names| names.contains(cluster)))
    };
    let roles: BTreeSet<&String> =
        rbac.roles.iter().filter(|(_, rules)| lets_in(rules)).map(|(name, _)| name).collect();
    rbac.bindings.iter().filter(|(role, _)| roles.contains(role)).flat_map(|(_, subjects)| subjects.clone()).collect()
}

/// The namespace of the impersonator's ServiceAccount in a member; `None` for a cluster without impersonation. An agent
/// keeps these credentials in its member.
#[must_use]
pub fn impersonator(cluster: &Cluster) -> Option<&str> {
    let named = cluster.spec.impersonator_secret_ref.as_ref().map(|secret| secret.namespace.as_str());
    named.or((cluster.spec.sync_mode == SyncMode::Pull).then_some(namespaces::CLUSTER))
}

/// The two objects of a member. No effects if they are up to date, or for a cluster without impersonation.
pub fn decide(seen: &Seen<'_>, mut ids: NewIds) -> Plan<Write> {
    let mut plan = Plan::default();
    let cluster = seen.cluster;
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let name = text(&cluster.metadata.name);
    let (Some(namespace), None) = (impersonator(cluster), &cluster.metadata.deletion_timestamp) else { return plan };
    let cluster_name = ClusterName::from(name.as_str());
    let owner = OwnerReference {
        api_version: "cluster.karmada.io/v1alpha1".into(),
        kind: "Cluster".into(),
        name: name.clone(),
        uid: text(&cluster.metadata.uid),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    for manifest in [role(&subjects(&name, seen.rbac)), binding(namespace)] {
        let kind = manifest["kind"].as_str().unwrap_or_default();
        let key = owned::key(&cluster_name, kind, "", NAME);
        let existing = seen.works.iter().find(|work| key_of(work).as_ref() == Some(&key)).map(|work| &**work);
        let desired = DesiredWork {
            cluster: &cluster_name,
            manifest,
            labels: StringMap::new(),
            annotations: StringMap::new(),
            of_binding: OfBinding::Keeps,
            owner: Some(owner.clone()),
            // The name is reserved for the control plane: an existing object is its own, from before a reinstallation.
            conflict_resolution: annotations::CONFLICT_RESOLUTION_OVERWRITE,
            reports_only: false,
        };
        if let Some(write) = owned::write(desired, existing, &mut ids) {
            plan.push(write, Reason::PlacedOn { cluster: cluster_name.clone() }.into());
        }
    }
    plan
}

/// Event after a reconcile of a cluster (specification/propagation.md 1.1: a success only if it ends a reported
/// failure).
#[must_use]
pub fn sync_event(cluster: &Cluster, failure: Option<&str>, reported: Option<&str>) -> Option<Event> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let about = || ObjectReference {
        api_version: "cluster.karmada.io/v1alpha1".into(),
        kind: "Cluster".into(),
        name: text(&cluster.metadata.name),
        uid: text(&cluster.metadata.uid),
        ..ObjectReference::default()
    };
    match (failure, reported) {
        (Some(failure), before) if before != Some(failure) => {
            let message = format!("Failed to sync impersonation config for cluster: {failure}");
            Some(Event::warning(about(), events::SYNC_IMPERSONATION_CONFIG_FAILED, message))
        }
        (None, Some(_)) => {
            let message = "Sync impersonation config succeed.";
            Some(Event::normal(about(), events::SYNC_IMPERSONATION_CONFIG_SUCCEED, message))
        }
        _ => None,
    }
}

/// Attributes that a kube-apiserver gives users of ServiceAccount tokens, and the id of any credential.
const EXTRAS: [&str; 5] = ["credential-id", "node-name", "node-uid", "pod-name", "pod-uid"];
/// Group of uids and of extra attributes.
const AUTHENTICATION: &str = "authentication.k8s.io";
/// Resource of extra attributes; its subresources are their keys.
const USER_EXTRAS: &str = "userextras/";

/// Attributes of a user, besides the name, that a member lets the proxy pass on: by the ClusterRole in the Work of
/// [`keys`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impersonable {
    groups: BTreeSet<String>,
    extras: BTreeSet<String>,
    uid: bool,
}

impl Impersonable {
    /// Reads the Work with the role.
    #[must_use]
    pub fn of(role: &Work) -> Self {
        let mut of = Self::default();
        let manifests: Vec<Value> = role.spec.workload.manifests.iter().map(|manifest| manifest.object()).collect();
        for rule in manifests.iter().filter_map(|role| role.get("rules")?.as_array()).flatten() {
            let texts = |field: &str| rule[field].as_array().into_iter().flatten().filter_map(Value::as_str);
            for resource in texts("resources") {
                match resource.strip_prefix(USER_EXTRAS) {
                    Some(key) => drop(of.extras.insert(key.to_owned())),
                    None if resource == "groups" => of.groups.extend(texts("resourceNames").map(str::to_owned)),
                    None => of.uid |= resource == "uids",
                }
            }
        }
        of
    }

    /// Returns whether the uid can be passed on.
    #[must_use]
    pub fn uid(&self) -> bool {
        self.uid
    }

    /// Returns whether this extra attribute, in lower case, can be passed on.
    #[must_use]
    pub fn extra(&self, key: &str) -> bool {
        self.extras.contains(key)
    }

    /// Divides groups of a user into those that are passed on and those that are not. A member gives everybody the
    /// group of authenticated users itself.
    #[must_use]
    pub fn groups<'a>(&self, groups: &'a [String]) -> (Vec<&'a str>, Vec<&'a str>) {
        let own = ["system:authenticated", "system:unauthenticated"];
        let groups = groups.iter().map(String::as_str).filter(|group| !own.contains(group));
        groups.partition(|group| self.groups.contains(*group))
    }
}

fn role(subjects: &BTreeSet<Subject>) -> Value {
    let mut users: BTreeSet<String> = BTreeSet::new();
    let (mut accounts, mut groups) = (BTreeSet::new(), BTreeSet::new());
    for subject in subjects {
        match subject.kind.as_str() {
            "User" => drop(users.insert(subject.name.clone())),
            "Group" => drop(groups.insert(subject.name.clone())),
            "ServiceAccount" => {
                accounts.insert(subject.name.clone());
                // Kubernetes identifies a service account by this name, which includes its namespace.
                users.insert(format!("system:serviceaccount:{}:{}", subject.namespace, subject.name));
                // Its identity implies them.
                groups.insert("system:serviceaccounts".to_owned());
                groups.insert(format!("system:serviceaccounts:{}", subject.namespace));
            }
            _ => {}
        }
    }
    let rule = |resource: &str, names: BTreeSet<String>| {
        (!names.is_empty()).then(
            || json!({"verbs": ["impersonate"], "apiGroups": [""], "resources": [resource], "resourceNames": names}),
        )
    };
    let about_them = (!subjects.is_empty()).then(|| {
        let extras = EXTRAS.map(|key| format!("{USER_EXTRAS}authentication.kubernetes.io/{key}"));
        let resources: Vec<String> = std::iter::once("uids".to_owned()).chain(extras).collect();
        json!({"verbs": ["impersonate"], "apiGroups": [AUTHENTICATION], "resources": resources})
    });
    let named = [rule("users", users), rule("serviceaccounts", accounts), rule("groups", groups)];
    let rules: Vec<Value> = named.into_iter().chain([about_them]).flatten().collect();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": NAME, "labels": {labels::SYSTEM: labels::TRUE}},
        "rules": rules,
    })
}

fn binding(namespace: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": NAME, "labels": {labels::SYSTEM: labels::TRUE}},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": NAME}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{cluster, ids, patched};

    fn rule(group: &str, resource: &str, names: &[&str]) -> Rule {
        Rule {
            groups: vec![group.into()],
            resources: vec![resource.into()],
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn subject(kind: &str, name: &str) -> Subject {
        Subject { kind: kind.into(), namespace: "ops".into(), name: name.into() }
    }

    fn rbac(rule: Rule, subjects: &[Subject]) -> Rbac {
        Rbac { roles: [("r".to_owned(), vec![rule])].into(), bindings: vec![("r".into(), subjects.to_vec())] }
    }

    #[test]
    fn subjects_with_cluster_access() {
        let ada = [subject("User", "ada")];
        for (name, rule, want) in [
            ("all clusters", rule("cluster.karmada.io", "clusters/proxy", &[]), true),
            ("this one by name", rule("cluster.karmada.io", "clusters/proxy", &["m1"]), true),
            ("another one", rule("cluster.karmada.io", "clusters/proxy", &["m2"]), false),
            ("everything", rule("*", "*", &[]), true),
            ("clusters, but not the proxy", rule("cluster.karmada.io", "clusters", &[]), false),
            ("by way of search", rule("search.karmada.io", "proxying/proxy", &["global"]), true),
            ("of another group", rule("apps", "clusters/proxy", &[]), false),
        ] {
            assert_eq!(!subjects("m1", &rbac(rule.clone(), &ada)).is_empty(), want, "{name}");
            assert_eq!(concerns(&[rule]), want || name == "another one", "{name}");
        }
        let other = Rbac { bindings: vec![("s".into(), ada.to_vec())], ..rbac(rule("*", "*", &[]), &[]) };
        assert!(subjects("m1", &other).is_empty(), "bound to another role");
    }

    #[test]
    fn events_are_written_on_change() {
        let m1 = cluster("m1", "True");
        for (name, failure, before, want) in [
            ("well, as before", None, None, None),
            ("it fails", Some("no"), None, Some("SyncImpersonationConfigFailed")),
            ("it fails as before", Some("no"), Some("no"), None),
            ("it fails otherwise", Some("no"), Some("never"), Some("SyncImpersonationConfigFailed")),
            ("well again", None, Some("no"), Some("SyncImpersonationConfigSucceed")),
        ] {
            assert_eq!(sync_event(&m1, failure, before).map(|event| event.reason), want, "{name}");
        }
        let event = sync_event(&m1, Some("no"), None).unwrap();
        assert_eq!((&*event.about.kind, &*event.about.name), ("Cluster", "m1"));
        assert_eq!(event.message, "Failed to sync impersonation config for cluster: no");
    }

    #[test]
    fn impersonation_objects_of_a_member() {
        let joined = patched(
            &cluster("m1", "True"),
            &json!({"metadata": {"uid": "u"}, "spec": {"impersonatorSecretRef": {"namespace": "karmada-cluster", "name": "m1-impersonator"}}}),
        );
        let all = rbac(
            rule("cluster.karmada.io", "clusters/proxy", &[]),
            &[
                subject("User", "bob"),
                subject("User", "ada"),
                subject("Group", "dev"),
                subject("ServiceAccount", "bot"),
            ],
        );
        let plan = decide(&Seen { cluster: &joined, rbac: &all, works: &[] }, ids("id"));
        let works: Vec<Arc<Work>> = plan
            .effects
            .iter()
            .map(|write| if let Write::Create(work) = write { Arc::new((**work).clone()) } else { panic!("{write:?}") })
            .collect();
        let manifest = |at: usize| works[at].spec.workload.manifests[0].object();
        assert_eq!(
            manifest(0)["rules"],
            json!([
                {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["ada", "bob", "system:serviceaccount:ops:bot"]},
                {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["bot"]},
                {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["groups"], "resourceNames": ["dev", "system:serviceaccounts", "system:serviceaccounts:ops"]},
                {"verbs": ["impersonate"], "apiGroups": ["authentication.k8s.io"], "resources": [
                    "uids", "userextras/authentication.kubernetes.io/credential-id",
                    "userextras/authentication.kubernetes.io/node-name", "userextras/authentication.kubernetes.io/node-uid",
                    "userextras/authentication.kubernetes.io/pod-name", "userextras/authentication.kubernetes.io/pod-uid",
                ]},
            ])
        );
        let may = Impersonable::of(&works[0]);
        let groups = ["dev", "ops", "system:authenticated", "system:serviceaccounts:ops"].map(str::to_owned);
        assert_eq!(may.groups(&groups), (vec!["dev", "system:serviceaccounts:ops"], vec!["ops"]));
        assert!(may.uid() && may.extra("authentication.kubernetes.io/pod-uid") && !may.extra("example.com/team"));
        assert_eq!(Impersonable::of(&works[1]), Impersonable::default(), "the binding lets nothing pass");
        assert_eq!(
            manifest(1)["subjects"],
            json!([{"kind": "ServiceAccount", "namespace": "karmada-cluster", "name": "karmada-impersonator"}])
        );
        assert_eq!(works[0].metadata.owner_references.as_ref().unwrap()[0].kind, "Cluster");
        assert_eq!(works.iter().filter_map(|work| key_of(work)).collect::<Vec<_>>(), keys(&"m1".into()));
        assert!(
            decide(&Seen { cluster: &joined, rbac: &all, works: &works }, ids("x")).is_quiet(),
            "no changes once they exist"
        );

        let nobody = Rbac::default();
        let plan = decide(&Seen { cluster: &joined, rbac: &nobody, works: &works }, ids("x"));
        let [Write::Patch { patch, .. }] = plan.effects.as_slice() else { panic!("{plan:?}") };
        assert_eq!(patch.pointer("/spec/workload/manifests/0/rules"), Some(&json!([])), "a role without rules");

        let plain = cluster("m1", "True");
        assert!(decide(&Seen { cluster: &plain, rbac: &all, works: &[] }, ids("x")).is_quiet(), "no impersonation");
        let mut pulled = plain;
        pulled.spec.sync_mode = SyncMode::Pull;
        let plan = decide(&Seen { cluster: &pulled, rbac: &all, works: &[] }, ids("x"));
        assert_eq!(plan.effects.len(), 2, "an agent keeps the Secret of the impersonator in its member");
    }
}
