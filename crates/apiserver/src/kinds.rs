//! The built-in kinds as discovery prints them (apiserver.md 27), with what no schema says of them.

use std::sync::{Arc, OnceLock};

use crate::registry::{Builtin, BuiltinSub, Flavour, Group, Resource, Resources, Subresource};

/// One line each: `group/version plural Kind scope flags…`. Scope: N namespaced, C cluster. Flags: `short=a,b`, `all`, `ext` (categories), `gen`,
/// `rv`, `put` (see [`Builtin`]), `+sub`, `verbs=…`. Groups stand in the order of `/apis`.
const TABLE: &str = "
v1 bindings Binding N verbs=create
v1 componentstatuses ComponentStatus C short=cs verbs=get,list
v1 configmaps ConfigMap N short=cm
v1 endpoints Endpoints N short=ep put
v1 events Event N short=ev put
v1 limitranges LimitRange N short=limits put
v1 namespaces Namespace C short=ns verbs=create,delete,get,list,patch,update,watch +finalize +status
v1 nodes Node C short=no +proxy +status
v1 persistentvolumeclaims PersistentVolumeClaim N short=pvc +status
v1 persistentvolumes PersistentVolume C short=pv +status
v1 pods Pod N short=po all gen +attach +binding +ephemeralcontainers +eviction +exec +log +portforward +proxy +resize +status
v1 podtemplates PodTemplate N gen
v1 replicationcontrollers ReplicationController N short=rc all gen +scale +status
v1 resourcequotas ResourceQuota N short=quota +status
v1 secrets Secret N
v1 serviceaccounts ServiceAccount N short=sa +token
v1 services Service N short=svc all put +proxy +status
apiregistration.k8s.io/v1 apiservices APIService C ext +status
apps/v1 controllerrevisions ControllerRevision N
apps/v1 daemonsets DaemonSet N short=ds all gen +status
apps/v1 deployments Deployment N short=deploy all gen +scale +status
apps/v1 replicasets ReplicaSet N short=rs all gen +scale +status
apps/v1 statefulsets StatefulSet N short=sts all gen +scale +status
events.k8s.io/v1 events Event N short=ev put
authentication.k8s.io/v1 selfsubjectreviews SelfSubjectReview C verbs=create
authentication.k8s.io/v1 tokenreviews TokenReview C verbs=create
authorization.k8s.io/v1 localsubjectaccessreviews LocalSubjectAccessReview N verbs=create
authorization.k8s.io/v1 selfsubjectaccessreviews SelfSubjectAccessReview C verbs=create
authorization.k8s.io/v1 selfsubjectrulesreviews SelfSubjectRulesReview C verbs=create
authorization.k8s.io/v1 subjectaccessreviews SubjectAccessReview C verbs=create
autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler N short=hpa all +status
autoscaling/v1 horizontalpodautoscalers HorizontalPodAutoscaler N short=hpa all +status
batch/v1 cronjobs CronJob N short=cj all gen +status
batch/v1 jobs Job N all gen +status
certificates.k8s.io/v1 certificatesigningrequests CertificateSigningRequest C short=csr +approval +status
networking.k8s.io/v1 ingressclasses IngressClass C gen
networking.k8s.io/v1 ingresses Ingress N short=ing gen +status
networking.k8s.io/v1 ipaddresses IPAddress C short=ip
networking.k8s.io/v1 networkpolicies NetworkPolicy N short=netpol gen
networking.k8s.io/v1 servicecidrs ServiceCIDR C +status
policy/v1 poddisruptionbudgets PodDisruptionBudget N short=pdb gen rv +status
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding C put
rbac.authorization.k8s.io/v1 clusterroles ClusterRole C put
rbac.authorization.k8s.io/v1 rolebindings RoleBinding N put
rbac.authorization.k8s.io/v1 roles Role N put
storage.k8s.io/v1 csidrivers CSIDriver C
storage.k8s.io/v1 csinodes CSINode C
storage.k8s.io/v1 csistoragecapacities CSIStorageCapacity N
storage.k8s.io/v1 storageclasses StorageClass C short=sc
storage.k8s.io/v1 volumeattachments VolumeAttachment C +status
storage.k8s.io/v1 volumeattributesclasses VolumeAttributesClass C short=vac
admissionregistration.k8s.io/v1 mutatingadmissionpolicies MutatingAdmissionPolicy C ext gen rv
admissionregistration.k8s.io/v1 mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding C ext gen rv
admissionregistration.k8s.io/v1 mutatingwebhookconfigurations MutatingWebhookConfiguration C ext gen rv
admissionregistration.k8s.io/v1 validatingadmissionpolicies ValidatingAdmissionPolicy C ext gen rv +status
admissionregistration.k8s.io/v1 validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding C ext gen rv
admissionregistration.k8s.io/v1 validatingwebhookconfigurations ValidatingWebhookConfiguration C ext gen rv
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition C short=crd,crds ext gen +status
scheduling.k8s.io/v1 priorityclasses PriorityClass C short=pc gen
coordination.k8s.io/v1 leases Lease N rv put
node.k8s.io/v1 runtimeclasses RuntimeClass C
discovery.k8s.io/v1 endpointslices EndpointSlice N gen
resource.k8s.io/v1 deviceclasses DeviceClass C
resource.k8s.io/v1 resourceclaims ResourceClaim N +status
resource.k8s.io/v1 resourceclaimtemplates ResourceClaimTemplate N
resource.k8s.io/v1 resourceslices ResourceSlice C
flowcontrol.apiserver.k8s.io/v1 flowschemas FlowSchema C gen +status
flowcontrol.apiserver.k8s.io/v1 prioritylevelconfigurations PriorityLevelConfiguration C gen +status
";

const ALL_VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// All built-in resources, made once for all servers of the process.
pub(crate) fn builtins() -> &'static [Builtin] {
    static KINDS: OnceLock<Vec<Builtin>> = OnceLock::new();
    KINDS.get_or_init(|| TABLE.lines().filter(|l| !l.is_empty()).map(parse_line).collect())
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
    // Events of both groups are the same objects.
    let stored_group = match (builtin.group, builtin.kind) {
        ("" | "events.k8s.io", "Event") | ("", _) => "core",
        (group, _) => group,
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

fn parse_line(line: &'static str) -> Builtin {
    let mut words = line.split(' ');
    let mut word = || words.next().expect("the table has four words in each line");
    let (gv, plural, kind, scope) = (word(), word(), word(), word());
    let (group, version) = gv.split_once('/').unwrap_or(("", gv));
    let mut out = Builtin {
        group,
        version,
        plural,
        kind,
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
                    out.subresources.push(subresource(sub, kind));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a real kube-apiserver published, in one line per resource.
    fn published() -> Vec<String> {
        let resources = ironclad_patch::builtin::resources().iter();
        let mut lines: Vec<String> = resources
            .map(|r| {
                let subs: Vec<String> =
                    r.subresources.iter().map(|s| format!("{} {} {:?}", s.name, s.kind, s.verbs)).collect();
                format!(
                    "{}/{} {} {} {} {:?} {:?} {:?} {subs:?}",
                    r.group, r.version, r.resource, r.kind, r.namespaced, r.short_names, r.categories, r.verbs
                )
            })
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn the_table_is_what_a_real_server_publishes() {
        let mut ours: Vec<String> = builtins()
            .iter()
            .map(|r| {
                let subs: Vec<String> =
                    r.subresources.iter().map(|s| format!("{} {} {:?}", s.name, s.kind, s.verbs)).collect();
                format!(
                    "{}/{} {} {} {} {:?} {:?} {:?} {subs:?}",
                    r.group, r.version, r.plural, r.kind, r.namespaced, r.short_names, r.categories, r.verbs
                )
            })
            .collect();
        ours.sort();
        assert_eq!(ours.join("\n"), published().join("\n"));
    }
}
