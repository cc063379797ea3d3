//! Alert rules and dashboards of the control plane, from the files of the chart.

use serde_json::{Value, json};

use super::objects::Release;

/// Groups of alert rules, as the spec of a PrometheusRule.
pub(super) const RULES: &str = include_str!("../../../../charts/ironclad/rules.yaml");
/// Dashboards by name.
pub(super) const DASHBOARDS: [(&str, &str); 4] = [
    ("apiserver", include_str!("../../../../charts/ironclad/dashboards/apiserver.json")),
    ("evictions", include_str!("../../../../charts/ironclad/dashboards/evictions.json")),
    ("fleet", include_str!("../../../../charts/ironclad/dashboards/fleet.json")),
    ("scheduler", include_str!("../../../../charts/ironclad/dashboards/scheduler.json")),
];

/// The objects that are asked for.
pub(super) fn objects(release: &Release) -> Result<Vec<Value>, String> {
    let values = &release.values;
    let (rules, dashboards) = (values.is_on("monitoring.rules.enabled"), values.is_on("monitoring.dashboards.enabled"));
    if values.text("mode") == "agent" && (rules || dashboards) {
        return Err(
            "the values monitoring.rules and monitoring.dashboards have no effect in mode agent\n  because they \
                    are about the fleet, which the control plane knows\n  try: set them where the control plane is \
                    installed"
                .to_owned(),
        );
    }
    let mut objects = Vec::new();
    if dashboards {
        objects.extend(DASHBOARDS.map(|(name, text)| dashboard(release, name, text)));
    }
    if rules {
        objects.push(rules_of(release)?);
    }
    Ok(objects)
}

/// A dashboard as the sidecar of Grafana finds it.
fn dashboard(release: &Release, name: &str, text: &str) -> Value {
    let mut metadata = release.metadata(&format!("{}-dashboard-{name}", release.name));
    metadata["labels"]["grafana_dashboard"] = "1".into();
    let file = format!("ironclad-{name}.json");
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {file: text}})
}

fn rules_of(release: &Release) -> Result<Value, String> {
    let spec: Value =
        serde_saphyr::from_str(RULES).map_err(|error| format!("the built-in alert rules are no YAML: {error}"))?;
    let mut metadata = release.metadata(&release.name);
    for (key, value) in release.values.at("monitoring.rules.labels").as_object().into_iter().flatten() {
        metadata["labels"][key.as_str()] = value.clone();
    }
    Ok(json!({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": metadata, "spec": spec,
    }))
}
