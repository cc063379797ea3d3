//! Mode embedded: `ironclad up` in a StatefulSet of one Pod, with a volume for its data.

use serde_json::{Value, json};

use super::objects::{Port, Release, one_of, port, required};

/// Folder of the volume.
const DATA: &str = "/data";

pub(super) fn objects(release: &Release) -> Result<Vec<Value>, String> {
    let values = &release.values;
    let api = port(values, "embedded.port")?;
    one_of(values, "embedded.service.type", &["ClusterIP", "LoadBalancer", "NodePort"])?;
    required(values, "embedded.persistence.size", "10Gi")?;
    let node_port = values.at("embedded.service.nodePort").as_u64().unwrap_or_default();
    if node_port != 0 && values.text("embedded.service.type") == "ClusterIP" {
        return Err("the value embedded.service.nodePort has no effect with embedded.service.type ClusterIP\n  try: \
                    --set embedded.service.type=NodePort"
            .to_owned());
    }
    let ports = [Port { name: "api", port: api, at: api }, release.metrics()];
    let mut service = release.service(&ports, values.at("embedded.service.annotations"));
    service["spec"]["type"] = values.at("embedded.service.type").clone();
    if node_port != 0 {
        service["spec"]["ports"][0]["nodePort"] = node_port.into();
    }
    let mut claim = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": values.at("embedded.persistence.size")}},
    });
    if !values.is_empty("embedded.persistence.storageClass") {
        claim["storageClassName"] = values.at("embedded.persistence.storageClass").clone();
    }
    let mounts = vec![json!({"name": "data", "mountPath": DATA})];
    let mut template = release.template(arguments(release, api), &ports, mounts, vec![]);
    template["spec"]["automountServiceAccountToken"] = false.into();
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": release.metadata(&release.name),
        "spec": {
            "replicas": 1, "serviceName": release.name, "selector": {"matchLabels": release.labels()},
            "template": template,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    });
    let optional = [release.service_account(), release.network_policy(&ports), release.service_monitor()];
    Ok([service, set].into_iter().chain(optional.into_iter().flatten()).collect())
}

fn arguments(release: &Release, api: u64) -> Vec<String> {
    let Release { name, namespace, values } = release;
    let mut names = values.texts("embedded.publicAddresses");
    names.extend([format!("{name}.{namespace}.svc"), format!("{name}.{namespace}"), name.clone()]);
    let mut words = vec![
        "up".to_owned(),
        format!("--data-dir={DATA}"),
        format!("--listen=0.0.0.0:{api}"),
        format!("--tls-san={}", names.join(",")),
        format!("--clusters={}", values.at("embedded.simulatedMembers")),
        format!("--metrics-bind-address=0.0.0.0:{}", release.metrics().port),
    ];
    words.extend(release.further_arguments());
    words
}
