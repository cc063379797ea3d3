//! Defaults of pods and pod templates.

use serde_json::{Value, json};

use super::defaults::{child, each, set};

pub(crate) fn pod(object: &mut Value) {
    let spec = child(object, "spec");
    for list in ["initContainers", "containers"] {
        for container in each(spec, list) {
            requests_from_limits(container);
        }
    }
    set(spec, "enableServiceLinks", true);
    pod_spec(spec);
    let class = quality(&object["spec"]);
    let status = child(object, "status");
    set(status, "phase", "Pending");
    set(status, "qosClass", class);
}

/// Limits without requests are requests as well; in pods only, not in templates.
fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container.pointer("/resources/limits").and_then(Value::as_object).cloned() else { return };
    let requests = child(child(container, "resources"), "requests");
    for (name, amount) in limits {
        set(requests, &name, amount);
    }
}

/// The quality of service that requests and limits add up to.
pub(crate) fn quality(spec: &Value) -> &'static str {
    let amounts = |container: &Value, side: &str, name: &str| {
        container.pointer(&format!("/resources/{side}/{name}")).filter(|v| !v.is_null()).cloned()
    };
    let (mut any, mut guaranteed) = (false, true);
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array().into_iter().flatten() {
            for name in ["cpu", "memory"] {
                let (request, limit) = (amounts(container, "requests", name), amounts(container, "limits", name));
                any |= request.is_some() || limit.is_some();
                guaranteed &= limit.is_some() && request == limit;
            }
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// The template of a workload.
pub(crate) fn template(template: &mut Value) {
    if template.is_null() {
        return;
    }
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, v| !v.is_null());
    }
    pod_spec(child(template, "spec"));
}

fn pod_spec(spec: &mut Value) {
    set(spec, "restartPolicy", "Always");
    set(spec, "terminationGracePeriodSeconds", 30);
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "securityContext", json!({}));
    set(spec, "schedulerName", "default-scheduler");
    // The two names of one field.
    let account = ["serviceAccountName", "serviceAccount"]
        .iter()
        .find_map(|k| spec[*k].as_str().filter(|s| !s.is_empty()).map(str::to_owned));
    if let Some(account) = account {
        spec["serviceAccountName"] = json!(account);
        spec["serviceAccount"] = json!(account);
    }
    let host_network = spec["hostNetwork"] == true;
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for one in each(spec, list) {
            container(one, host_network);
        }
    }
    each(spec, "volumes").for_each(volume);
}

fn container(container: &mut Value, host_network: bool) {
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    let image = container["image"].as_str().unwrap_or_default();
    let policy = if image_is_latest(image) { "Always" } else { "IfNotPresent" };
    set(container, "imagePullPolicy", policy);
    set(container, "resources", json!({}));
    for port in each(container, "ports") {
        set(port, "protocol", "TCP");
        if host_network && port["containerPort"].is_number() {
            let number = port["containerPort"].clone();
            set(port, "hostPort", number);
        }
    }
    for env in each(container, "env") {
        if let Some(field) = env.pointer_mut("/valueFrom/fieldRef").filter(|f| f.is_object()) {
            set(field, "apiVersion", "v1");
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container[name].is_object() {
            probe(&mut container[name]);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(get) = container.pointer_mut(&format!("/lifecycle/{hook}/httpGet")).filter(|g| g.is_object()) {
            http_get(get);
        }
    }
}

/// True for images without a tag or with the tag `latest`; a digest is a tag.
fn image_is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or(image);
    last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn probe(probe: &mut Value) {
    set(probe, "timeoutSeconds", 1);
    set(probe, "periodSeconds", 10);
    set(probe, "successThreshold", 1);
    set(probe, "failureThreshold", 3);
    if let Some(get) = probe.get_mut("httpGet").filter(|g| g.is_object()) {
        http_get(get);
    }
    if let Some(grpc) = probe.get_mut("grpc").filter(|g| g.is_object()) {
        let map = grpc.as_object_mut().expect("filtered above");
        map.entry("service").or_insert_with(|| json!(""));
    }
}

fn http_get(get: &mut Value) {
    set(get, "path", "/");
    set(get, "scheme", "HTTP");
}

fn volume(volume: &mut Value) {
    for kind in ["configMap", "secret", "projected", "downwardAPI"] {
        if volume[kind].is_object() {
            set(&mut volume[kind], "defaultMode", 420);
        }
    }
    for kind in ["projected", "downwardAPI"] {
        let list = if kind == "projected" { "sources" } else { "items" };
        if let Some(sources) = volume.pointer_mut(&format!("/{kind}/{list}")).and_then(Value::as_array_mut) {
            for source in sources {
                if let Some(token) = source.get_mut("serviceAccountToken").filter(|t| t.is_object()) {
                    set(token, "expirationSeconds", 3600);
                }
                let items = match source.get_mut("downwardAPI") {
                    Some(api) => api.get_mut("items").and_then(Value::as_array_mut),
                    None => None,
                };
                for item in items.into_iter().flatten() {
                    if let Some(field) = item.get_mut("fieldRef").filter(|f| f.is_object()) {
                        set(field, "apiVersion", "v1");
                    }
                }
                if let Some(field) = source.get_mut("fieldRef").filter(|f| f.is_object()) {
                    set(field, "apiVersion", "v1");
                }
            }
        }
    }
    if let Some(path) = volume.get_mut("hostPath").and_then(Value::as_object_mut) {
        path.entry("type").or_insert_with(|| json!(""));
    }
    let without_source = volume.as_object().is_some_and(|v| v.keys().all(|k| k == "name"));
    if without_source {
        volume["emptyDir"] = json!({});
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest() {
        for (image, want) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.27", false),
            ("host:5000/nginx", true),
            ("host:5000/nginx:1", false),
            ("nginx@sha256:00", false),
        ] {
            assert_eq!(image_is_latest(image), want, "{image}");
        }
    }

    #[test]
    fn quality_of_service() {
        let container = |resources: Value| json!({"containers": [{"resources": resources}]});
        let both = json!({"cpu": "1", "memory": "1Gi"});
        for (name, spec, want) in [
            ("nothing asked", container(json!({})), "BestEffort"),
            ("requests alone", container(json!({"requests": {"cpu": "1"}})), "Burstable"),
            ("requests equal limits", container(json!({"requests": both, "limits": both})), "Guaranteed"),
        ] {
            assert_eq!(quality(&spec), want, "{name}");
        }
    }
}
