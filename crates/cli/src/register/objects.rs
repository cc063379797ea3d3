//! Objects of an agent in its member (specification/operations.md 2.5): the names of karmadactl's, so that tools for
//! either find them.

use ironclad_api::{
    agents::AGENT_API_GROUP,
    labels::{SYSTEM, TRUE},
};
use k8s_openapi::ByteString;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::ownership::AGENT_OF;
use crate::join::Rbac;

/// Name of the Deployment, its container, its ClusterRole and the binding of that.
pub const AGENT: &str = "karmada-agent";
/// Name of the ServiceAccount.
pub const ACCOUNT: &str = "karmada-agent-sa";
/// Name of the Secret with the agent's kubeconfig, and of its key.
pub const SECRET: &str = "karmada-kubeconfig";
/// Folder of the Secret in the container.
const FOLDER: &str = "/etc/kubeconfig";
/// Port of health and metrics.
const PORT: u16 = 10_357;
/// User of the process, who is nobody on the node.
const USER: u32 = 65_532;
/// Requests of the container; an agent of a small member stays below.
const REQUESTS: [(&str, &str); 2] = [("cpu", "50m"), ("memory", "64Mi")];

/// Names of the objects of an agent: those of [`Default`], which tools rely on, unless several agents share a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The Deployment and its container.
    pub deployment: String,
    /// The ServiceAccount.
    pub account: String,
    /// The ClusterRole and the binding of it.
    pub role: String,
    /// The Secret with the kubeconfig, in its key [`SECRET`].
    pub secret: String,
}

impl Default for Names {
    fn default() -> Self {
        Self { deployment: AGENT.into(), account: ACCOUNT.into(), role: AGENT.into(), secret: SECRET.into() }
    }
}

/// The agent of a cluster, as it is put into its member.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Agent {
    /// Names of its objects.
    pub names: Names,
    /// Name of the cluster.
    pub cluster: String,
    /// Namespace of the agent.
    pub namespace: String,
    /// Namespace of credentials, in the control plane and in the member.
    pub cluster_namespace: String,
    /// Image with this program.
    pub image: String,
    /// Number of Pods, one of which works.
    pub replicas: u32,
    /// Address of the member's API server, for others.
    pub api_endpoint: String,
    /// Proxy on the way to it, empty if there is none.
    pub proxy: String,
    /// Cloud provider, empty if none is to be set.
    pub provider: String,
    /// Region, empty if none is to be set.
    pub region: String,
    /// Failure zones, empty if none are to be set.
    pub zones: Vec<String>,
    /// Permissions in the member.
    pub rbac: Rbac,
}

/// The objects of an agent in the order of their creation; the Secret has no data without a kubeconfig.
#[must_use]
pub fn objects(agent: &Agent, kubeconfig: Option<&str>) -> Vec<Value> {
    let Agent { names, cluster, namespace, .. } = agent;
    let metadata = |name: &str, namespace: Option<&str>| {
        let mut metadata = json!({"name": name, "labels": {SYSTEM: TRUE}, "annotations": {AGENT_OF: cluster}});
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.into();
        }
        metadata
    };
    let rbac = "rbac.authorization.k8s.io";
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata(&names.secret, Some(namespace)),
    });
    if let Some(kubeconfig) = kubeconfig {
        secret["data"] = json!({SECRET: ByteString(kubeconfig.as_bytes().to_vec())});
    }
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {SYSTEM: TRUE}}}),
        secret,
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(&names.account, Some(namespace))}),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": metadata(&names.role, None),
            "rules": agent.rbac.rules(),
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata(&names.role, None),
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": names.role},
            "subjects": [{"kind": "ServiceAccount", "name": names.account, "namespace": namespace}],
        }),
        deployment(agent, kubeconfig),
    ]
}

/// The arguments of the program, which is the entry point of its image.
fn arguments(agent: &Agent) -> Vec<String> {
    let mut words = vec!["agent".to_owned()];
    let unless = |default: &str, value: &str| if value == default { String::new() } else { value.to_owned() };
    let cluster_namespace = unless(ironclad_api::namespaces::CLUSTER, &agent.cluster_namespace);
    let flags: [(&str, &str); 10] = [
        ("cluster-name", &agent.cluster),
        ("karmada-kubeconfig", &format!("{FOLDER}/{SECRET}")),
        ("karmada-kubeconfig-secret", &unless(SECRET, &agent.names.secret)),
        ("cluster-api-endpoint", &agent.api_endpoint),
        ("proxy-server-address", &agent.proxy),
        ("cluster-provider", &agent.provider),
        ("cluster-region", &agent.region),
        ("cluster-zones", &agent.zones.join(",")),
        ("cluster-namespace", &cluster_namespace),
        ("metrics-bind-address", &format!("0.0.0.0:{PORT}")),
    ];
    words.extend(flags.iter().filter(|(_, value)| !value.is_empty()).map(|(flag, value)| format!("--{flag}={value}")));
    words
}

fn deployment(agent: &Agent, kubeconfig: Option<&str>) -> Value {
    let names = &agent.names;
    let labels = json!({"app": names.deployment});
    let probe = |path: &str, seconds: u32| json!({"httpGet": {"path": path, "port": PORT}, "periodSeconds": seconds});
    let toleration = |key: &str| json!({"key": format!("node-role.kubernetes.io/{key}"), "operator": "Exists"});
    let requests: Value = REQUESTS.iter().map(|(resource, amount)| ((*resource).to_owned(), json!(amount))).collect();
    let mut template = json!({
        "metadata": {"labels": labels},
        "spec": {
            "serviceAccountName": names.account,
            "priorityClassName": "system-cluster-critical",
            "tolerations": [toleration("control-plane"), toleration("master")],
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": names.deployment, "image": agent.image, "args": arguments(agent),
                "ports": [{"name": "metrics", "containerPort": PORT, "protocol": "TCP"}],
                "livenessProbe": probe("/healthz", 20), "readinessProbe": probe("/readyz", 5),
                "resources": {"requests": requests},
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [{"name": "kubeconfig", "mountPath": FOLDER, "readOnly": true}],
            }],
            "volumes": [{"name": "kubeconfig", "secret": {"secretName": names.secret}}],
        },
    });
    if let Some(kubeconfig) = kubeconfig {
        // Pods that run are replaced: an agent whose certificate expired reads no other one.
        template["metadata"]["annotations"] = json!({format!("{AGENT_API_GROUP}/credentials"): short_hash(kubeconfig)});
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": names.deployment, "namespace": agent.namespace, "labels": labels, "annotations": {AGENT_OF: agent.cluster},
        },
        "spec": {"replicas": agent.replicas, "selector": {"matchLabels": labels}, "template": template},
    })
}

/// The beginning of a hash, which tells one kubeconfig from another.
fn short_hash(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent() -> Agent {
        Agent {
            cluster: "m1".into(),
            namespace: "karmada-system".into(),
            cluster_namespace: "karmada-cluster".into(),
            image: "ironclad:v1".into(),
            replicas: 1,
            api_endpoint: "https://10.0.0.1:6443".into(),
            ..Agent::default()
        }
    }

    #[test]
    fn names_that_other_tools_rely_on() {
        let made = objects(&agent(), Some("kubeconfig"));
        let named: Vec<String> = made.iter().map(crate::print::name).collect();
        assert_eq!(
            named,
            [
                "namespace/karmada-system",
                "secret/karmada-kubeconfig",
                "serviceaccount/karmada-agent-sa",
                "clusterrole.rbac.authorization.k8s.io/karmada-agent",
                "clusterrolebinding.rbac.authorization.k8s.io/karmada-agent",
                "deployment.apps/karmada-agent",
            ]
        );
        assert_eq!(made[1]["data"], json!({"karmada-kubeconfig": "a3ViZWNvbmZpZw=="}));
        assert!(made[1..].iter().all(|object| object["metadata"]["annotations"][AGENT_OF] == json!("m1")));
        assert!(objects(&agent(), None)[1].get("data").is_none());
    }

    #[test]
    fn flags_of_the_agent() {
        let bare = "agent --cluster-name=m1 --karmada-kubeconfig=/etc/kubeconfig/karmada-kubeconfig \
                    --cluster-api-endpoint=https://10.0.0.1:6443 --metrics-bind-address=0.0.0.0:10357";
        assert_eq!(arguments(&agent()).join(" "), bare);
        let full = Agent {
            proxy: "http://p".into(),
            provider: "p".into(),
            region: "r".into(),
            zones: vec!["a".into(), "b".into()],
            cluster_namespace: "other".into(),
            names: Names { secret: "second".into(), ..Names::default() },
            ..agent()
        };
        let words = arguments(&full);
        for want in [
            "--proxy-server-address=http://p",
            "--cluster-provider=p",
            "--cluster-region=r",
            "--cluster-zones=a,b",
            "--cluster-namespace=other",
            "--karmada-kubeconfig-secret=second",
        ] {
            assert!(words.iter().any(|word| word == want), "{want}: {words:?}");
        }
    }

    #[test]
    fn pods_are_replaced_when_credentials_change() {
        let template = |kubeconfig| objects(&agent(), kubeconfig)[5]["spec"]["template"].clone();
        assert_eq!(template(Some("a")), template(Some("a")));
        assert_ne!(template(Some("a")), template(Some("b")));
        let pod = &template(None)["spec"];
        assert_eq!(pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"], json!(true));
        assert_eq!(pod["securityContext"]["runAsNonRoot"], json!(true));
    }
}
