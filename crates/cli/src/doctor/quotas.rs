//! Quotas that are to be enforced where no admission does it.

use ironclad_fleet::gates::{Gate, Gates};
use ironclad_planning::doctor::{Finding, Grade};
use ironclad_runtime::Api;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Client;

use crate::{plan::read::every, resource::Resources};

/// The webhook of admission that charges quotas (specification/admission.md 1.3).
const WEBHOOK: &str = "resourcebinding.karmada.io";

/// The finding. Whoever may not list webhooks learns nothing.
pub(super) async fn finding(plane: &Client, gates: &Gates, resources: &Resources) -> Option<Finding> {
    // In `up` the API server itself is the admission.
    if resources.of_kind("sim.ironclad.io/v1alpha1", "SimulatedCluster").is_some() {
        return None;
    }
    let registered: Vec<ValidatingWebhookConfiguration> = every(Api::all(plane.clone())).await.ok()?;
    not_enforced(gates, &registered)
}

fn not_enforced(gates: &Gates, registered: &[ValidatingWebhookConfiguration]) -> Option<Finding> {
    let mut names = registered.iter().flat_map(|one| one.webhooks.iter().flatten()).map(|webhook| &*webhook.name);
    (gates.enabled(Gate::FederatedQuotaEnforcement) && !names.any(|name| name == WEBHOOK)).then(|| {
        let line = "feature gate FederatedQuotaEnforcement is on, and no quota is enforced: no webhook is registered for \
                    bindings";
        Finding::new(Grade::Warning, line).remedy("ironclad run --webhook-bind-address ADDRESS:PORT")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quotas_that_no_admission_enforces() {
        let registered = |name: &str| -> Vec<ValidatingWebhookConfiguration> {
            let hook =
                json!({"name": name, "clientConfig": {}, "sideEffects": "None", "admissionReviewVersions": ["v1"]});
            serde_json::from_value(
                json!([{"metadata": {"name": "validating-config"}, "webhooks": [hook]}, {"metadata": {}}]),
            )
            .unwrap()
        };
        for (is_on, registered, is_told) in [
            (true, vec![], true),
            (true, registered("policy.example"), true),
            (true, registered(WEBHOOK), false),
            (false, vec![], false),
        ] {
            let gates = Gates::default().with(Gate::FederatedQuotaEnforcement, is_on);
            assert_eq!(not_enforced(&gates, &registered).is_some(), is_told, "{is_on} {registered:?}");
        }
    }
}
