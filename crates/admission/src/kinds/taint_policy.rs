//! ClusterTaintPolicy (specification/admission.md 5.5). Crate `failover` validates its fields, beside the code that
//! uses them.

use ironclad_api::{cluster::Cluster, policy::ClusterTaintPolicy};
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

const CLUSTERS: Resource =
    Resource { group: "cluster.karmada.io", version: "v1alpha1", kind: "Cluster", plural: "clusters" };

fn all() -> Need {
    Need::List { resource: POLICIES, namespace: String::new() }
}

fn clusters() -> Need {
    Need::List { resource: CLUSTERS, namespace: String::new() }
}

/// Looks up the other policies, to warn of taints that several policies set. Clusters are looked up in a dry run only,
/// so that a real write costs no more.
pub(crate) fn needs(request: &Request<'_>, _: &Config, needs: &mut Needs) {
    needs.insert(all());
    if request.dry_run {
        needs.insert(clusters());
    }
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
    if cx.request.dry_run {
        match cx.lookups.get(&clusters()) {
            Some(found) => {
                let found: Vec<Cluster> = found.iter().filter_map(|cluster| decode(cluster).ok()).collect();
                let warnings = taint_policy::foresee(&policy, &others, &found, cx.lookups.now);
                warnings.into_iter().for_each(|text| out.warn(text));
            }
            None => out.warn("dry run: it is not known which clusters match, since they could not be listed"),
        }
    }
    Ok(())
}
