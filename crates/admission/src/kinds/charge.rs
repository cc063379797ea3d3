//! Usage that a binding charges to the FederatedResourceQuotas of its namespace (specification/admission.md 3.3).

use ironclad_api::{policy::FederatedResourceQuota, quantity::Amount, work::ResourceBindingSpec};
use ironclad_fleet::gates::Gate;
use ironclad_propagation::quota::usage::{self, Amounts, limited};
use serde_json::{Value, json};

use crate::{
    Denial, Effect, Need, Operation, Request, Resource,
    field::Findings,
    request::{Config, Cx, Needs, decode, decode_spec},
};

/// The resource FederatedResourceQuota.
pub(crate) const QUOTAS: Resource = Resource {
    group: "policy.karmada.io",
    version: "v1alpha1",
    kind: "FederatedResourceQuota",
    plural: "federatedresourcequotas",
};

fn quotas(namespace: &str) -> Need {
    Need::List { resource: QUOTAS, namespace: namespace.to_owned() }
}

/// Looks up the quotas of the namespace if they are enforced and the write changes what the binding uses.
pub(crate) fn needs(request: &Request<'_>, config: &Config, needs: &mut Needs) {
    if config.gates.enabled(Gate::FederatedQuotaEnforcement) && charged(request).is_ok_and(|delta| !delta.is_empty()) {
        needs.insert(quotas(request.namespace));
    }
}

/// Refuses a write that exceeds a quota, and books the usage of one that is admitted.
pub(crate) fn change(cx: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    if !cx.config.gates.enabled(Gate::FederatedQuotaEnforcement) {
        return Ok(());
    }
    let delta = charged(cx.request)?;
    if delta.is_empty() {
        return Ok(());
    }
    let Some(found) = cx.lookups.get(&quotas(cx.request.namespace)) else {
        return Err(Denial::failure("the FederatedResourceQuotas of the namespace could not be listed; try again"));
    };
    let mut effects = Vec::new();
    for quota in found {
        if let Some(object) = book(quota, &delta)? {
            effects.push(Effect::WriteStatus { resource: QUOTAS, object });
        }
    }
    out.effects.extend(effects);
    Ok(())
}

/// Difference of usage between the new and the old binding; empty if the write changes nothing.
fn charged(request: &Request<'_>) -> Result<Amounts, Denial> {
    let spec =
        |object: Option<&Value>| -> Result<Option<ResourceBindingSpec>, Denial> { object.map(decode_spec).transpose() };
    let Some(new) = spec(request.object)? else { return Ok(Amounts::new()) };
    let old = spec(request.old.filter(|_| request.operation == Operation::Update))?;
    usage::difference(old.as_ref(), &new).map_err(|error| Denial::undecodable(error.to_string()))
}

/// Returns the quota with the change booked, if the quota limits any resource that changes.
fn book(quota: &Value, delta: &Amounts) -> Result<Option<Value>, Denial> {
    let typed: FederatedResourceQuota = decode(quota)?;
    if let Some(refusal) = usage::refusal(&typed, delta).map_err(|error| Denial::failure(error.to_string()))? {
        return Err(Denial::quota(refusal));
    }
    let mut used = typed.status.clone().unwrap_or_default().overall_used;
    let mut touched = false;
    for key in typed.spec.overall.keys() {
        let Some(change) = delta.get(&*limited(key)) else { continue };
        let before = used.get(key).map(Amount::try_from).transpose();
        let before = before.map_err(|error| Denial::failure(error.to_string()))?.unwrap_or(Amount::ZERO);
        let after = before + *change;
        let after = if after.is_negative() { Amount::ZERO } else { after };
        used.insert(key.clone(), after.into());
        touched = true;
    }
    if !touched {
        return Ok(None);
    }
    let mut booked = quota.clone();
    booked["status"]["overallUsed"] = json!(used);
    Ok(Some(booked))
}
