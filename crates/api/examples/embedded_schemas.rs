//! Extracts `crates/api/data/embedded-schemas.json` from OpenAPI v3 documents of a kube-apiserver.
//!
//! Start one, save `/openapi/v3/api/v1` and `/openapi/v3/apis/GROUP/VERSION` of `autoscaling/v2`,
//! `networking.k8s.io/v1` and `admissionregistration.k8s.io/v1` to files, and:
//!
//!     cargo run -p ironclad-api --example embedded_schemas -- FILE... > crates/api/data/embedded-schemas.json

use std::{env, fs};

use serde_json::{Map, Value};

const ROOTS: [&str; 16] = [
    "io.k8s.api.admissionregistration.v1.WebhookClientConfig",
    "io.k8s.api.autoscaling.v2.CrossVersionObjectReference",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus",
    "io.k8s.api.autoscaling.v2.MetricSpec",
    "io.k8s.api.core.v1.NodeSelector",
    "io.k8s.api.core.v1.NodeSelectorRequirement",
    "io.k8s.api.core.v1.ServiceStatus",
    "io.k8s.api.core.v1.SessionAffinityConfig",
    "io.k8s.api.core.v1.Taint",
    "io.k8s.api.core.v1.Toleration",
    "io.k8s.api.networking.v1.IngressLoadBalancerStatus",
    "io.k8s.api.networking.v1.IngressSpec",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Condition",
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut published = Map::new();
    for file in env::args().skip(1) {
        let mut document: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
        let schemas = document["components"]["schemas"].take();
        published.extend(schemas.as_object().cloned().ok_or_else(|| format!("{file} has no components.schemas"))?);
    }
    if let Some(missing) = ROOTS.iter().find(|root| !published.contains_key(**root)) {
        return Err(format!("no file defines {missing}").into());
    }
    let pruned = ironclad_api::crds::prune_embedded(&published, &ROOTS);
    println!("{}", serde_json::to_string_pretty(&pruned)?);
    Ok(())
}
