//! Copies that ask for more than their binding was charged (specification/admission.md 3.3).
//!
//! A quota is charged with what the binding says; an override may raise the replicas or requests of a copy afterwards.

use std::sync::Arc;

use ironclad_api::{
    policy::FederatedResourceQuota,
    quantity::Amount,
    work::{ResourceBindingSpec, TargetCluster},
};
use ironclad_interpreter::{InterpretError, Interpreter, Operation};
use serde_json::Value;

use crate::{
    quota::usage::{self, Amounts, limited},
    template::Identity,
};

/// The reason why an overridden copy cannot be written: it asks for more of a limited resource than the binding was
/// charged for this cluster, and than the copy without overrides. `None` if it does not, or no quota limits it.
///
/// # Errors
/// If the copy cannot be interpreted.
pub(super) fn excess(
    quotas: &[Arc<FederatedResourceQuota>],
    interpreter: &Interpreter,
    spec: &ResourceBindingSpec,
    target: TargetCluster,
    revised: &Value,
    overridden: &Value,
) -> Result<Option<String>, InterpretError> {
    let limits = || quotas.iter().flat_map(|quota| quota.spec.overall.keys().map(move |key| (quota, limited(key))));
    if revised == overridden || limits().next().is_none() {
        return Ok(None);
    }
    let of = |spec: &ResourceBindingSpec| {
        // A binding with invalid quantities was refused when it was charged.
        usage::of_binding(&ResourceBindingSpec { clusters: vec![target.clone()], ..spec.clone() }).unwrap_or_default()
    };
    let charged = of(spec);
    let (before, after) = (asked(interpreter, spec, revised)?, asked(interpreter, spec, overridden)?);
    let amount = |amounts: &Amounts, resource: &str| amounts.get(resource).copied().unwrap_or(Amount::ZERO);
    let exceeded = limits()
        .find(|(_, resource)| amount(&after, resource) > amount(&charged, resource).max(amount(&before, resource)));
    Ok(exceeded.map(|(quota, resource)| {
        format!(
            "with overrides the copy asks for {} of {resource}, but its binding was charged {} for it, and \
             FederatedResourceQuota({}/{}) limits {resource}: request it in the template, or remove the override",
            amount(&after, &resource),
            amount(&charged, &resource),
            quota.metadata.namespace.as_deref().unwrap_or_default(),
            quota.metadata.name.as_deref().unwrap_or_default(),
        )
    }))
}

/// Amounts that a manifest asks for in one cluster.
fn asked(interpreter: &Interpreter, spec: &ResourceBindingSpec, manifest: &Value) -> Result<Amounts, InterpretError> {
    let gvk = Identity::of(manifest).gvk();
    let mut asked = ResourceBindingSpec { clusters: vec![TargetCluster::default()], ..ResourceBindingSpec::default() };
    if !spec.components.is_empty() && interpreter.implements(&gvk, Operation::InterpretComponent) {
        asked.components = interpreter.components(manifest)?;
    } else if interpreter.implements(&gvk, Operation::InterpretReplica) {
        let replicas = interpreter.replicas(manifest)?;
        asked.clusters[0].replicas = replicas.replicas;
        asked.replica_requirements = replicas.requirements.map(Into::into);
    }
    Ok(usage::of_binding(&asked).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testkit::deployment;

    fn manifest(replicas: i64, cpu: &str) -> Value {
        let mut manifest = deployment();
        manifest["spec"]["replicas"] = json!(replicas);
        manifest["spec"]["template"]["spec"] =
            json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]});
        manifest
    }

    #[test]
    fn copies_ask_for_no_more_than_was_charged() {
        let quota = |overall: Value| {
            let quota = json!({"metadata": {"namespace": "shop", "name": "q"}, "spec": {"overall": overall}});
            Arc::new(serde_json::from_value::<FederatedResourceQuota>(quota).unwrap())
        };
        let (cpu, requests) = (quota(json!({"cpu": "3"})), quota(json!({"requests.cpu": "3"})));
        let spec: ResourceBindingSpec = serde_json::from_value(json!({
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            "replicas": 4, "replicaRequirements": {"resourceRequest": {"cpu": "100m"}},
            "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}],
        }))
        .unwrap();
        let none: &[Arc<FederatedResourceQuota>] = &[];
        for (name, quotas, overridden, refused) in [
            ("not overridden", &[cpu.clone()][..], manifest(2, "100m"), false),
            ("more replicas", std::slice::from_ref(&cpu), manifest(50, "100m"), true),
            ("larger requests", std::slice::from_ref(&cpu), manifest(2, "101m"), true),
            ("by the other spelling", &[requests], manifest(2, "101m"), true),
            ("fewer, but larger", std::slice::from_ref(&cpu), manifest(1, "200m"), false),
            ("fewer, and too large", std::slice::from_ref(&cpu), manifest(1, "201m"), true),
            ("less", std::slice::from_ref(&cpu), manifest(1, "10m"), false),
            ("more pods", &[quota(json!({"pods": "10"}))], manifest(3, "10m"), true),
            ("no more pods", &[quota(json!({"pods": "10"}))], manifest(2, "9"), false),
            ("another resource is limited", &[quota(json!({"memory": "1"}))], manifest(50, "1"), false),
            ("no quota", none, manifest(50, "1"), false),
        ] {
            let target = spec.clusters[0].clone();
            let got =
                excess(quotas, &Interpreter::default(), &spec, target, &manifest(2, "100m"), &overridden).unwrap();
            assert_eq!(got.is_some(), refused, "{name}: {got:?}");
        }
        let got = excess(
            &[quota(json!({"cpu": "3"}))],
            &Interpreter::default(),
            &spec,
            spec.clusters[0].clone(),
            &manifest(2, "100m"),
            &manifest(50, "100m"),
        );
        assert_eq!(
            got.unwrap().unwrap(),
            "with overrides the copy asks for 5 of cpu, but its binding was charged 200m for it, and FederatedResourceQuota(shop/q) limits cpu: \
             request it in the template, or remove the override"
        );
    }
}
