//! Objects of an installation: pure functions of its values (specification/operations.md 13).

use serde_json::{Map, Value, json};

use super::{agent, embedded, external, monitoring, values::Values};

/// User and group of the process, who is nobody on the node.
const USER: u32 = 65_532;
/// Name of the container.
const CONTAINER: &str = "ironclad";
/// Longest name of a release: names of objects that begin with it fit everywhere.
const NAME_MAX: usize = 40;
/// Kinds in the order in which they are applied.
const ORDER: [&str; 12] = [
    "Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Secret",
    "ConfigMap", "Service", "NetworkPolicy", "PodDisruptionBudget", "StatefulSet", "Deployment",
];

/// Shape of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// A control plane in one Pod: `ironclad up`
    Embedded,
    /// A control plane with an API server of its own; not built
    Plane,
    /// Controllers for an API server that exists: `ironclad run`
    External,
    /// A member in pull mode: `ironclad agent`
    Agent,
}

impl Mode {
    /// The name in values.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Plane => "plane",
            Self::External => "external",
            Self::Agent => "agent",
        }
    }
}

/// One installation in a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Release {
    /// Its name, with which the names of its objects begin.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its values.
    pub values: Values,
}

/// A port that the program serves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Port {
    pub(super) name: &'static str,
    /// Of the container.
    pub(super) port: u64,
    /// Of the Service.
    pub(super) at: u64,
}

/// The objects in the order in which they are applied.
///
/// # Errors
/// The reason why the values make no installation, and what to try.
pub fn objects(release: &Release) -> Result<Vec<Value>, String> {
    check(release)?;
    let mut objects = vec![json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": release.namespace},
    })];
    objects.extend(match release.values.text("mode") {
        "embedded" => embedded::objects(release)?,
        "external" => external::objects(release)?,
        "agent" => agent::objects(release)?,
        "plane" => return Err("mode plane is not built\n  try: external, with an API server that exists".to_owned()),
        other => return Err(format!("there is no mode {other:?}\n  try: embedded, external or agent")),
    });
    objects.extend(monitoring::objects(release)?);
    let rank = |object: &Value| ORDER.iter().position(|kind| object["kind"] == *kind).unwrap_or(ORDER.len());
    objects.sort_by_key(rank);
    Ok(objects)
}

fn check(release: &Release) -> Result<(), String> {
    let values = &release.values;
    let is_label = |text: &str| {
        let inner = text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        inner && !text.is_empty() && !text.starts_with('-') && !text.ends_with('-')
    };
    let Release { name, namespace, .. } = release;
    if !is_label(name) || name.starts_with(|c: char| c.is_ascii_digit()) || name.len() > NAME_MAX {
        return Err(format!(
            "the name {name:?} can't be used\n  because it is not made of small letters, digits and -, with a letter in \
             front, or is longer than {NAME_MAX}\n  try: ironclad"
        ));
    }
    if !is_label(namespace) || namespace.len() > 63 {
        return Err(format!(
            "the namespace {namespace:?} can't be used\n  because it is no name of a namespace\n  try: ironclad-system"
        ));
    }
    one_of(values, "image.pullPolicy", &["Always", "IfNotPresent", "Never"])?;
    required(values, "image.repository", "the name of the image")?;
    if values.is_on("metrics.serviceMonitor.enabled") {
        required(values, "metrics.serviceMonitor.interval", "30s")?;
    }
    port(values, "metrics.port").map(drop)
}

pub(super) fn required(values: &Values, path: &str, what: &str) -> Result<(), String> {
    if values.is_empty(path) { Err(format!("the value {path} is empty\n  try: --set {path}={what}")) } else { Ok(()) }
}

pub(super) fn one_of(values: &Values, path: &str, all: &[&str]) -> Result<(), String> {
    let text = values.text(path);
    if all.contains(&text) {
        return Ok(());
    }
    Err(format!("the value {path} is {text:?}, which is none of {}\n  try: --set {path}={}", all.join(", "), all[0]))
}

/// A value that is the port of a listener.
pub(super) fn port(values: &Values, path: &str) -> Result<u64, String> {
    let number = values.at(path).as_u64().unwrap_or_default();
    // Lower ones are reserved to root.
    if (1_024..=65_535).contains(&number) {
        return Ok(number);
    }
    Err(format!("the value {path} is {number}, which is no port from 1024 to 65535\n  try: --set {path}=8443"))
}

impl Release {
    /// Labels by which the Pods are found, which never change.
    pub(super) fn labels(&self) -> Value {
        json!({
            "app.kubernetes.io/name": "ironclad", "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/component": self.values.text("mode"),
        })
    }

    pub(super) fn metadata(&self, name: &str) -> Value {
        json!({"name": name, "namespace": self.namespace, "labels": self.labels()})
    }

    /// Name of roles, which are of no namespace.
    pub(super) fn role(&self) -> String {
        format!("ironclad:{}:{}", self.namespace, self.name)
    }

    pub(super) fn image(&self) -> String {
        let tag = match self.values.text("image.tag") {
            "" => concat!("v", env!("CARGO_PKG_VERSION")),
            tag => tag,
        };
        // A digest stands behind another sign.
        let between = if tag.starts_with("sha256:") { "@" } else { ":" };
        format!("{}{between}{tag}", self.values.text("image.repository"))
    }

    /// Name of the ServiceAccount.
    pub(super) fn account(&self) -> &str {
        match self.values.text("serviceAccount.name") {
            "" => &self.name,
            name => name,
        }
    }

    /// The ServiceAccount, unless one is named that exists.
    pub(super) fn service_account(&self) -> Option<Value> {
        if !self.values.is_empty("serviceAccount.name") {
            return None;
        }
        let mut metadata = self.metadata(&self.name);
        if !self.values.is_empty("serviceAccount.annotations") {
            metadata["annotations"] = self.values.at("serviceAccount.annotations").clone();
        }
        Some(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}))
    }

    /// Arguments of controllers, then those of the user.
    pub(super) fn further_arguments(&self) -> Vec<String> {
        let values = &self.values;
        let mut words = Vec::new();
        if !values.is_empty("controllers") {
            words.push(format!("--controllers={}", values.texts("controllers").join(",")));
        }
        let gates = values.at("featureGates").as_object().into_iter().flatten();
        let gates: Vec<String> = gates.map(|(gate, is_on)| format!("{gate}={is_on}")).collect();
        if !gates.is_empty() {
            words.push(format!("--feature-gates={}", gates.join(",")));
        }
        words.extend(values.texts("extraArgs"));
        words
    }

    pub(super) fn metrics(&self) -> Port {
        let port = self.values.at("metrics.port").as_u64().unwrap_or_default();
        Port { name: "metrics", port, at: port }
    }

    /// The template of Pods with one container.
    pub(super) fn template(
        &self,
        arguments: Vec<String>,
        ports: &[Port],
        mounts: Vec<Value>,
        volumes: Vec<Value>,
    ) -> Value {
        let values = &self.values;
        let probe = |path: &str, seconds: u32, failures: u32| {
            json!({
                "httpGet": {"path": path, "port": "metrics"}, "periodSeconds": seconds, "failureThreshold": failures,
                "timeoutSeconds": 5,
            })
        };
        let ports = ports.iter().map(|port| json!({"name": port.name, "containerPort": port.port, "protocol": "TCP"}));
        let mut container = json!({
            "name": CONTAINER, "image": self.image(), "args": arguments, "ports": ports.collect::<Vec<_>>(),
            // The program listens when it is started; a large store takes a while.
            "startupProbe": probe("/healthz", 5, 60),
            "livenessProbe": probe("/healthz", 20, 3), "readinessProbe": probe("/readyz", 5, 3),
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": mounts,
        });
        let mut pod = json!({
            "serviceAccountName": self.account(),
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumes": volumes,
        });
        self.of_values(&mut pod, &mut container);
        pod["containers"] = json!([container]);
        let mut metadata = json!({"labels": self.labels()});
        if !values.is_empty("podAnnotations") {
            metadata["annotations"] = values.at("podAnnotations").clone();
        }
        json!({"metadata": metadata, "spec": pod})
    }

    /// Fields of Pods and containers that values have, whatever the mode.
    pub(super) fn of_values(&self, pod: &mut Value, container: &mut Value) {
        let values = &self.values;
        container["imagePullPolicy"] = values.at("image.pullPolicy").clone();
        let resources = values.at("resources").as_object().into_iter().flatten();
        let resources: Map<String, Value> = resources
            .filter(|(_, amounts)| !super::values::is_empty(amounts))
            .map(|(key, amounts)| (key.clone(), amounts.clone()))
            .collect();
        if resources.is_empty() {
            container.as_object_mut().map(|container| container.remove("resources"));
        } else {
            container["resources"] = resources.into();
        }
        let of_pod = ["affinity", "imagePullSecrets", "nodeSelector", "priorityClassName", "topologySpreadConstraints"];
        for field in of_pod.into_iter().filter(|field| !values.is_empty(field)) {
            pod[field] = values.at(field).clone();
        }
        let add = |object: &mut Value, field: &str, value: &str| {
            let more = values.list(value);
            if !more.is_empty() {
                let mut all = object[field].as_array().cloned().unwrap_or_default();
                all.extend(more.iter().cloned());
                object[field] = all.into();
            }
        };
        add(pod, "tolerations", "tolerations");
        add(pod, "volumes", "extraVolumes");
        add(container, "env", "extraEnv");
        add(container, "volumeMounts", "extraVolumeMounts");
    }

    pub(super) fn service(&self, ports: &[Port], annotations: &Value) -> Value {
        let ports = ports
            .iter()
            .map(|port| json!({"name": port.name, "port": port.at, "targetPort": port.name, "protocol": "TCP"}));
        let mut metadata = self.metadata(&self.name);
        if !super::values::is_empty(annotations) {
            metadata["annotations"] = annotations.clone();
        }
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"selector": self.labels(), "ports": ports.collect::<Vec<_>>()},
        })
    }

    /// Lets others reach these ports only, if it is asked for.
    pub(super) fn network_policy(&self, ports: &[Port]) -> Option<Value> {
        let ports = ports.iter().map(|port| json!({"port": port.name, "protocol": "TCP"}));
        self.values.is_on("networkPolicy.enabled").then(|| {
            json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": self.metadata(&self.name),
                "spec": {
                    "podSelector": {"matchLabels": self.labels()}, "policyTypes": ["Ingress"],
                    "ingress": [{"ports": ports.collect::<Vec<_>>()}],
                },
            })
        })
    }

    /// Tells Prometheus' operator where the metrics are, if it is asked for.
    pub(super) fn service_monitor(&self) -> Option<Value> {
        let values = &self.values;
        values.is_on("metrics.serviceMonitor.enabled").then(|| {
            let mut metadata = self.metadata(&self.name);
            for (key, value) in values.at("metrics.serviceMonitor.labels").as_object().into_iter().flatten() {
                metadata["labels"][key.as_str()] = value.clone();
            }
            json!({
                "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": metadata,
                "spec": {
                    "selector": {"matchLabels": self.labels()},
                    "endpoints": [{"port": "metrics", "interval": values.at("metrics.serviceMonitor.interval")}],
                },
            })
        })
    }
}
