//! Mode external: `ironclad run` for an API server that exists, either that of the cluster of the Pods, or the one of a
//! kubeconfig in a Secret.

use serde_json::{Value, json};

use super::{
    objects::{Port, Release, port, required},
    rights,
};

/// Folder of the kubeconfig.
const KUBECONFIG: &str = "/etc/ironclad";
/// Folder of the record of running scripts.
const STATE: &str = "/var/lib/ironclad";
/// Values of `run --install`.
const INSTALLED: [&str; 2] = ["crds", "roles"];
/// Port and section of the dashboard.
const DASHBOARD: &str = "dashboard";
const RBAC: &str = "rbac.authorization.k8s.io";

/// True if the Pods use the API server of their own cluster.
fn is_own_cluster(release: &Release) -> bool {
    release.values.is_empty("external.kubeconfigSecret.name")
}

pub(super) fn objects(release: &Release) -> Result<Vec<Value>, String> {
    let values = &release.values;
    check(release)?;
    let ports = ports(release)?;
    let (mut mounts, mut volumes) = (vec![json!({"name": "state", "mountPath": STATE})], Vec::new());
    if !is_own_cluster(release) {
        mounts.push(json!({"name": "kubeconfig", "mountPath": KUBECONFIG, "readOnly": true}));
        volumes.push(json!({
            "name": "kubeconfig", "secret": {"secretName": values.at("external.kubeconfigSecret.name")},
        }));
    }
    volumes.insert(0, json!({"name": "state", "emptyDir": {}}));
    let mut template = release.template(arguments(release), &ports, mounts, volumes);
    template["spec"]["automountServiceAccountToken"] = is_own_cluster(release).into();
    let replicas = values.at("external.replicas");
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": release.metadata(&release.name),
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": release.labels()},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": template,
        },
    });
    let is_disrupted = values.is_on("external.podDisruptionBudget.enabled") && replicas.as_u64() > Some(1);
    let budget = is_disrupted.then(|| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": release.metadata(&release.name),
            "spec": {
                "minAvailable": values.at("external.podDisruptionBudget.minAvailable"),
                "selector": {"matchLabels": release.labels()},
            },
        })
    });
    let policy = release.network_policy(&ports);
    let (of_dashboard, others): (Vec<Port>, Vec<Port>) = ports.into_iter().partition(|port| port.name == DASHBOARD);
    let service = release.service(&others, &Value::Null);
    let dashboard = (!of_dashboard.is_empty()).then(|| {
        let mut service = release.service(&of_dashboard, &Value::Null);
        service["metadata"]["name"] = format!("{}-{DASHBOARD}", release.name).into();
        // Each replica has the sessions that began there.
        service["spec"]["sessionAffinity"] = "ClientIP".into();
        service
    });
    let optional = [dashboard, release.service_account(), policy, budget, release.service_monitor()];
    let own = [service, deployment].into_iter().chain(optional.into_iter().flatten());
    Ok(own.chain(roles(release)).collect())
}

fn check(release: &Release) -> Result<(), String> {
    let values = &release.values;
    for (path, on) in [
        ("external.explain.enabled", values.is_on("external.explain.enabled")),
        ("external.metricsAdapter.enabled", values.is_on("external.metricsAdapter.enabled")),
        ("external.clusters.enabled", values.is_on("external.clusters.enabled")),
        ("external.rbac.escalate", values.is_on("external.rbac.escalate")),
    ] {
        if on && !is_own_cluster(release) {
            return Err(format!(
                "the value {path} can't be true with external.kubeconfigSecret\n  because it needs the control plane to \
                 be the cluster of the Pods\n  try: --set {path}=false"
            ));
        }
    }
    if !values.is_on("external.webhooks.enabled") && !values.is_empty("external.webhooks.url") {
        return Err("the value external.webhooks.url has no effect without external.webhooks.enabled\n  try: --set \
                    external.webhooks.enabled=true"
            .to_owned());
    }
    if values.is_on("external.dashboard.write") && values.is_empty("external.dashboard.hosts") {
        return Err("the value external.dashboard.write has no effect without external.dashboard.hosts\n  try: --set \
                    external.dashboard.hosts='[fleet.example]'"
            .to_owned());
    }
    if let Some(other) = values.texts("external.install").iter().find(|what| !INSTALLED.contains(&what.as_str())) {
        return Err(format!(
            "the value external.install has {other:?}, which is none of {}\n  try: --set external.install='[]' for none",
            INSTALLED.join(", ")
        ));
    }
    for path in ["external.webhooks.url", "external.proxy.url"] {
        if !values.is_empty(path) && !values.text(path).starts_with("https://") {
            return Err(format!("the value {path} is no https:// URL\n  try: --set {path}=https://HOST:PORT"));
        }
    }
    if !is_own_cluster(release) {
        required(values, "external.kubeconfigSecret.key", "kubeconfig")?;
    }
    Ok(())
}

/// Ports of the container and of the Service, those of what is served.
fn ports(release: &Release) -> Result<Vec<Port>, String> {
    let values = &release.values;
    let mut ports = vec![release.metrics()];
    for (name, section, is_served) in [
        ("webhooks", "webhooks", values.is_on("external.webhooks.enabled")),
        ("explain", "explain", values.is_on("external.explain.enabled")),
        ("metrics-adapter", "metricsAdapter", values.is_on("external.metricsAdapter.enabled")),
        ("clusters", "clusters", values.is_on("external.clusters.enabled")),
        ("proxy", "proxy", !values.is_empty("external.proxy.url")),
        (DASHBOARD, DASHBOARD, !values.is_empty("external.dashboard.hosts")),
    ] {
        let port = port(values, &format!("external.{section}.port"))?;
        if is_served {
            ports.push(Port { name, port, at: port });
        }
    }
    Ok(ports)
}

fn arguments(release: &Release) -> Vec<String> {
    let Release { name, namespace, values } = release;
    let listens = |section: &str| format!("0.0.0.0:{}", values.at(&format!("external.{section}.port")));
    let service = |section: &str| format!("{namespace}/{name}:{}", values.at(&format!("external.{section}.port")));
    let mut words = vec!["run".to_owned()];
    if !is_own_cluster(release) {
        words.push(format!("--kubeconfig={KUBECONFIG}/{}", values.text("external.kubeconfigSecret.key")));
    }
    let install = values.texts("external.install");
    let install = if install.is_empty() { "none".to_owned() } else { install.join(",") };
    words.extend([
        format!("--install={install}"),
        format!("--script-state-dir={STATE}"),
        format!("--metrics-bind-address=0.0.0.0:{}", release.metrics().port),
    ]);
    if values.is_on("external.webhooks.enabled") {
        words.push(format!("--webhook-bind-address={}", listens("webhooks")));
        words.push(match values.text("external.webhooks.url") {
            "" if is_own_cluster(release) => format!("--webhook-service={}", service("webhooks")),
            // A control plane elsewhere knows no Service of this cluster; one in its Pods finds the name.
            "" => format!("--webhook-url=https://{name}.{namespace}.svc:{}", values.at("external.webhooks.port")),
            url => format!("--webhook-url={url}"),
        });
    }
    if values.is_on("external.explain.enabled") {
        words.push(format!("--explain-bind-address={}", listens("explain")));
        words.push(format!("--explain-service={}", service("explain")));
    }
    if values.is_on("external.metricsAdapter.enabled") {
        words.push(format!("--metrics-adapter-bind-address={}", listens("metricsAdapter")));
        words.push(format!("--metrics-adapter-service={}", service("metricsAdapter")));
    }
    if values.is_on("external.clusters.enabled") {
        words.push("--aggregate-clusters".to_owned());
        words.push(format!("--clusters-bind-address={}", listens("clusters")));
        words.push(format!("--clusters-service={}", service("clusters")));
    }
    if !values.is_empty("external.proxy.url") {
        words.push(format!("--proxy-bind-address={}", listens("proxy")));
        words.push(format!("--proxy-url={}", values.text("external.proxy.url")));
    }
    if !values.is_empty("external.dashboard.hosts") {
        words.push(format!("--dashboard-bind-address={}", listens(DASHBOARD)));
        words.push(format!("--dashboard-host={}", values.texts("external.dashboard.hosts").join(",")));
        words.extend(values.is_on("external.dashboard.write").then(|| "--dashboard-write".to_owned()));
    }
    words.extend(release.further_arguments());
    words
}

/// The rights of the controllers, in the cluster that is the control plane.
fn roles(release: &Release) -> Vec<Value> {
    let values = &release.values;
    if !values.is_on("external.rbac.create") || !is_own_cluster(release) {
        return Vec::new();
    }
    let (name, labels) = (release.role(), release.labels());
    vec![
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": name, "labels": labels},
            "rules": rights::rules(values.is_on("external.clusters.enabled"), values.is_on("external.rbac.escalate")),
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": name, "labels": labels},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{
                "kind": "ServiceAccount", "name": release.account(), "namespace": release.namespace,
            }],
        }),
    ]
}
