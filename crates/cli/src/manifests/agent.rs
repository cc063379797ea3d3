//! Mode agent: the objects that `ironclad register` puts into a member, under the names of a release, for whoever keeps
//! manifests.

use ironclad_api::namespaces;
use serde_json::{Value, json};

use super::objects::{Release, required};
use crate::{
    join::Rbac,
    register::{self, Agent, Names},
};

pub(super) fn objects(release: &Release) -> Result<Vec<Value>, String> {
    let values = &release.values;
    required(values, "agent.clusterName", "member1")?;
    required(values, "agent.kubeconfigSecret", register::SECRET)?;
    if !values.is_empty("featureGates") {
        return Err(
            "the value featureGates has no effect in mode agent: the control plane has gates\n  try: leave it out"
                .to_owned(),
        );
    }
    let text = |path: &str| values.text(path).to_owned();
    let agent = Agent {
        names: Names {
            deployment: release.name.clone(),
            account: release.account().to_owned(),
            role: release.role(),
            secret: text("agent.kubeconfigSecret"),
        },
        cluster: text("agent.clusterName"),
        namespace: release.namespace.clone(),
        cluster_namespace: namespaces::CLUSTER.to_owned(),
        image: release.image(),
        replicas: values.at("agent.replicas").as_u64().and_then(|number| number.try_into().ok()).unwrap_or(u32::MAX),
        api_endpoint: text("agent.apiEndpoint"),
        proxy: text("agent.proxyServerAddress"),
        provider: text("agent.provider"),
        region: text("agent.region"),
        zones: values.texts("agent.zones"),
        rbac: Rbac::default(),
    };
    let mut objects = register::objects(&agent, None);
    objects.retain(|object| {
        let is_account = object["kind"] == "ServiceAccount" && !values.is_empty("serviceAccount.name");
        object["kind"] != "Namespace" && object["kind"] != "Secret" && !is_account
    });
    for object in &mut objects {
        label(release, &mut object["metadata"]);
        match object["kind"].as_str() {
            Some("ServiceAccount") => {
                for (key, value) in values.at("serviceAccount.annotations").as_object().into_iter().flatten() {
                    object["metadata"]["annotations"][key.as_str()] = value.clone();
                }
            }
            Some("Deployment") => of_deployment(release, &mut object["spec"]["template"]),
            _ => {}
        }
    }
    let ports = [release.metrics()];
    let monitor = release.service_monitor();
    // Nothing else asks the agent by a Service.
    let service = monitor.is_some().then(|| release.service(&ports, &Value::Null));
    Ok(objects.into_iter().chain([service, release.network_policy(&ports), monitor].into_iter().flatten()).collect())
}

fn label(release: &Release, metadata: &mut Value) {
    for (key, value) in release.labels().as_object().into_iter().flatten() {
        metadata["labels"][key.as_str()] = value.clone();
    }
}

fn of_deployment(release: &Release, template: &mut Value) {
    label(release, &mut template["metadata"]);
    if !release.values.is_empty("podAnnotations") {
        template["metadata"]["annotations"] = release.values.at("podAnnotations").clone();
    }
    let mut container = template["spec"]["containers"][0].take();
    let port = release.metrics().port;
    container["ports"][0]["containerPort"] = port.into();
    for probe in ["livenessProbe", "readinessProbe"] {
        container[probe]["httpGet"]["port"] = "metrics".into();
    }
    let arguments = container["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let arguments = arguments.map(|word| match word.split_once('=') {
        Some((flag @ "--metrics-bind-address", _)) => format!("{flag}=0.0.0.0:{port}"),
        _ => word.to_owned(),
    });
    let arguments: Vec<String> = arguments.chain(release.further_arguments()).collect();
    container["args"] = json!(arguments);
    release.of_values(&mut template["spec"], &mut container);
    template["spec"]["containers"] = json!([container]);
}
