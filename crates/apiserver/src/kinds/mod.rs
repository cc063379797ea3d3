//! The built-in kinds (specification/apiserver.md 27). A kind is one file or folder here and one row in [`KINDS`];
//! nothing else in the server asks which kind an object is of.

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apps;
mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod certificates;
mod coordination;
mod core;
mod discovery;
pub(crate) mod kind;
mod networking;
mod node;
mod policy;
mod rbac;
mod scheduling;
mod shared;
mod storage;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use self::kind::{Hooks, Kind};
use crate::registry::{Builtin, BuiltinSub, Flavour, Group, Resource, Resources, Subresource};

/// The built-in kinds; groups in the order of `/apis`.
///
/// Discovery of each is one line: `group/version plural Kind scope flags…`. Scope: N namespaced, C cluster. Flags:
/// `short=a,b`, `all`, `ext` (categories), `gen`, `rv`, `put` (see [`Builtin`]), `+sub`, `verbs=…`.
static KINDS: &[Kind] = &[
    core::binding::KIND,
    core::component_status::KIND,
    core::config_map::KIND,
    core::endpoints::KIND,
    core::event::KIND,
    core::limit_range::KIND,
    core::namespace::KIND,
    core::node::KIND,
    core::persistent_volume_claim::KIND,
    core::persistent_volume::KIND,
    core::pod::KIND,
    core::pod_template::KIND,
    core::replication_controller::KIND,
    core::resource_quota::KIND,
    core::secret::KIND,
    core::service_account::KIND,
    core::service::KIND,
    apiregistration::api_service::KIND,
    apps::controller_revision::KIND,
    apps::daemon_set::KIND,
    apps::deployment::KIND,
    apps::replica_set::KIND,
    apps::stateful_set::KIND,
    core::event::NEW,
    authentication::self_subject_review::KIND,
    authentication::token_review::KIND,
    authorization::subject_access_review::LOCAL,
    authorization::self_subject_access_review::KIND,
    authorization::self_subject_rules_review::KIND,
    authorization::subject_access_review::KIND,
    autoscaling::horizontal_pod_autoscaler::KIND,
    autoscaling::horizontal_pod_autoscaler::V1,
    batch::cron_job::KIND,
    batch::job::KIND,
    certificates::certificate_signing_request::KIND,
    networking::ingress_class::KIND,
    networking::ingress::KIND,
    Kind::new("networking.k8s.io/v1 ipaddresses IPAddress C short=ip"),
    networking::network_policy::KIND,
    Kind::new("networking.k8s.io/v1 servicecidrs ServiceCIDR C +status"),
    policy::pod_disruption_budget::KIND,
    rbac::role_binding::CLUSTER,
    rbac::role::CLUSTER,
    rbac::role_binding::KIND,
    rbac::role::KIND,
    storage::csi_driver::KIND,
    Kind::new("storage.k8s.io/v1 csinodes CSINode C"),
    Kind::new("storage.k8s.io/v1 csistoragecapacities CSIStorageCapacity N"),
    storage::storage_class::KIND,
    Kind::new("storage.k8s.io/v1 volumeattachments VolumeAttachment C +status"),
    Kind::new("storage.k8s.io/v1 volumeattributesclasses VolumeAttributesClass C short=vac"),
    admissionregistration::mutating_admission_policy::KIND,
    admissionregistration::mutating_admission_policy_binding::KIND,
    admissionregistration::webhook_configuration::MUTATING,
    admissionregistration::validating_admission_policy::KIND,
    admissionregistration::validating_admission_policy_binding::KIND,
    admissionregistration::webhook_configuration::VALIDATING,
    apiextensions::custom_resource_definition::KIND,
    scheduling::priority_class::KIND,
    coordination::lease::KIND,
    node::runtime_class::KIND,
    discovery::endpoint_slice::KIND,
    Kind::new("resource.k8s.io/v1 deviceclasses DeviceClass C"),
    Kind::new("resource.k8s.io/v1 resourceclaims ResourceClaim N +status"),
    Kind::new("resource.k8s.io/v1 resourceclaimtemplates ResourceClaimTemplate N"),
    Kind::new("resource.k8s.io/v1 resourceslices ResourceSlice C"),
    Kind::new("flowcontrol.apiserver.k8s.io/v1 flowschemas FlowSchema C gen +status"),
    Kind::new("flowcontrol.apiserver.k8s.io/v1 prioritylevelconfigurations PriorityLevelConfiguration C gen +status"),
];

/// The hooks of a resource's kind; a custom resource has none.
pub(crate) fn hooks(resource: &Resource) -> &'static Hooks {
    resource.builtin().map_or(&Hooks::NONE, |builtin| &KINDS[builtin.row].hooks)
}

const ALL_VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// All built-in resources, made once for all servers of the process.
pub(crate) fn builtins() -> &'static [Builtin] {
    static BUILTINS: OnceLock<Vec<Builtin>> = OnceLock::new();
    BUILTINS.get_or_init(|| KINDS.iter().enumerate().map(|(row, kind)| builtin(row, kind)).collect())
}

/// The built-in groups in the order of `/apis`, core first.
pub(crate) fn groups() -> &'static [Group] {
    static GROUPS: OnceLock<Vec<Group>> = OnceLock::new();
    GROUPS.get_or_init(|| {
        let mut groups: Vec<Group> = Vec::new();
        for builtin in builtins() {
            let group = match groups.iter_mut().find(|g| g.name == builtin.group) {
                Some(group) => group,
                None => {
                    groups.push(Group { name: builtin.group.to_owned(), versions: vec![] });
                    groups.last_mut().expect("just pushed")
                }
            };
            let resources = match group.versions.iter_mut().position(|(v, _)| v == builtin.version) {
                Some(at) => &mut group.versions[at].1,
                None => {
                    group.versions.push((builtin.version.to_owned(), Resources::new()));
                    &mut group.versions.last_mut().expect("just pushed").1
                }
            };
            resources.insert(builtin.plural.to_owned(), Arc::new(builtin_resource(builtin)));
        }
        groups
    })
}

fn builtin_resource(builtin: &'static Builtin) -> Resource {
    let subresources = builtin.subresources.iter().map(|s| Subresource {
        name: s.name,
        group: s.group,
        version: s.version,
        kind: s.kind.to_owned(),
        verbs: s.verbs.clone(),
    });
    let stored_group = match builtin.stored_group() {
        "" => "core",
        group => group,
    };
    Resource {
        group: builtin.group.to_owned(),
        version: builtin.version.to_owned(),
        plural: builtin.plural.to_owned(),
        singular: builtin.kind.to_lowercase(),
        kind: builtin.kind.to_owned(),
        list_kind: format!("{}List", builtin.kind),
        namespaced: builtin.namespaced,
        short_names: builtin.short_names.iter().map(|s| (*s).to_owned()).collect(),
        categories: builtin.categories.iter().map(|s| (*s).to_owned()).collect(),
        verbs: builtin.verbs.clone(),
        subresources: subresources.collect(),
        prefix: format!("/registry/{stored_group}/{}/", builtin.plural),
        flavour: Flavour::Builtin(builtin),
    }
}

/// Reads a row.
fn builtin(row: usize, kind: &'static Kind) -> Builtin {
    let mut words = kind.discovery.split(' ');
    let mut word = || words.next().expect("the table has four words in each line");
    let (gv, plural, kind_name, scope) = (word(), word(), word(), word());
    let (group, version) = gv.split_once('/').unwrap_or(("", gv));
    let mut out = Builtin {
        group,
        version,
        plural,
        kind: kind_name,
        strategy: &kind.strategy,
        row,
        namespaced: scope == "N",
        short_names: vec![],
        categories: vec![],
        verbs: ALL_VERBS.to_vec(),
        subresources: vec![],
        generation: false,
        needs_revision: false,
        create_on_update: false,
    };
    for flag in words {
        match flag {
            "all" => out.categories.push("all"),
            "ext" => out.categories.push("api-extensions"),
            "gen" => out.generation = true,
            "rv" => out.needs_revision = true,
            "put" => out.create_on_update = true,
            _ => {
                if let Some(names) = flag.strip_prefix("short=") {
                    out.short_names = names.split(',').collect();
                } else if let Some(verbs) = flag.strip_prefix("verbs=") {
                    out.verbs = verbs.split(',').collect();
                } else if let Some(sub) = flag.strip_prefix('+') {
                    out.subresources.push(subresource(sub, kind_name));
                } else {
                    unreachable!("the table knows no flag {flag}");
                }
            }
        }
    }
    out
}

fn subresource(name: &'static str, parent: &'static str) -> BuiltinSub {
    const CHANGE: &[&str] = &["get", "patch", "update"];
    const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];
    let (group, version, kind, verbs) = match name {
        "scale" => ("autoscaling", "v1", "Scale", CHANGE),
        "eviction" => ("policy", "v1", "Eviction", &["create"][..]),
        "token" => ("authentication.k8s.io", "v1", "TokenRequest", &["create"][..]),
        "binding" => ("", "", "Binding", &["create"][..]),
        "attach" => ("", "", "PodAttachOptions", &["create", "get"][..]),
        "exec" => ("", "", "PodExecOptions", &["create", "get"][..]),
        "portforward" => ("", "", "PodPortForwardOptions", &["create", "get"][..]),
        "proxy" => {
            let kind = match parent {
                "Pod" => "PodProxyOptions",
                "Node" => "NodeProxyOptions",
                _ => "ServiceProxyOptions",
            };
            ("", "", kind, PROXY)
        }
        "log" => ("", "", "Pod", &["get"][..]),
        "finalize" => ("", "", "Namespace", &["update"][..]),
        _ => ("", "", parent, CHANGE),
    };
    BuiltinSub { name, group, version, kind, verbs: verbs.to_vec() }
}
