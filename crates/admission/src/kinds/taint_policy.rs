//! ClusterTaintPolicy (admission.md 5.5). What it must look like is said beside what it does, in crate `failover`.

use ironclad_api::policy::ClusterTaintPolicy;
use ironclad_failover::taint_policy;
use ironclad_fleet::gates::Gate;
use serde_json::Value;

use super::affinity;
use crate::{
    Denial, Need, Request, Resource,
    field::{Findings, Path},
    request::{Config, Cx, Needs, decode},
};

const POLICIES: Resource = Resource {
    group: "policy.karmada.io",
    version: "v1alpha1",
    kind: "ClusterTaintPolicy",
    plural: "clustertaintpolicies",
};

fn all() -> Need {
    Need::List { resource: POLICIES, namespace: String::new() }
}

/// The other policies, to warn of taints that several set.
pub(crate) fn needs(_: &Request<'_>, _: &Config, needs: &mut Needs) {
    needs.insert(all());
}

pub(crate) fn validate(object: &Value, cx: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    let policy: ClusterTaintPolicy = decode(object)?;
    let path = Path::new("spec");
    for (field, target) in
        [("targetClusters", &policy.spec.target_clusters), ("targetCluster", &policy.spec.target_cluster)]
    {
        if let Some(target) = target {
            affinity::affinity(target, &path.child(field), out);
        }
    }
    out.all(taint_policy::validate(&policy.spec, cx.config.no_execute_policy));
    taint_policy::warnings(&policy.spec).into_iter().for_each(|text| out.warn(text));
    let others: Vec<ClusterTaintPolicy> =
        cx.lookups.get(&all()).unwrap_or_default().iter().filter_map(|other| decode(other).ok()).collect();
    taint_policy::overlaps(&policy, &others).into_iter().for_each(|text| out.warn(text));
    if !cx.config.gates.enabled(Gate::Failover) {
        out.warn("the policy has no effect: feature gate Failover is off");
    }
    Ok(())
}
