//! Filter `SpreadConstraint`: rejects clusters that lack the provider, region, zone or label that the workload is
//! spread by.

use ironclad_api::{cluster::Cluster, policy::SpreadByField};
use ironclad_fleet::{affinity, because::schedule::Refusal};

use crate::{
    index::{Index, Numbers},
    plugin::{Plugin, Point, Question, Rest, TargetState},
    spread::Topology,
};

pub static SPREAD_CONSTRAINT: Plugin = Plugin { name: "SpreadConstraint", point: Point::Filter { test, narrow } };

fn test(question: &Question<'_>, cluster: &Cluster, _: TargetState) -> Result<(), Refusal> {
    for constraint in &question.placement.spread_constraints {
        match constraint.spread_by_field {
            Some(SpreadByField::Provider) if cluster.spec.provider.is_empty() => return Err(Refusal::NoProvider),
            Some(SpreadByField::Region) if cluster.spec.region.is_empty() => return Err(Refusal::NoRegion),
            Some(SpreadByField::Zone) if affinity::zones(cluster).is_empty() => return Err(Refusal::NoZones),
            None if !constraint.spread_by_label.is_empty() => {
                let key = &constraint.spread_by_label;
                if cluster.metadata.labels.as_ref().is_none_or(|labels| !labels.contains_key(key)) {
                    return Err(Refusal::NoLabel { key: key.clone() });
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn narrow(question: &Question<'_>, index: &Index, all: &mut Numbers) -> Rest {
    let topologies = question.placement.spread_constraints.iter().filter_map(Topology::of);
    topologies.for_each(|topology| index.keep_grouped(&topology, all));
    Rest::Passes
}
