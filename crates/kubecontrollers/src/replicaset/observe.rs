//! The caches' view of one object.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_runtime::{Informer, Key};
use k8s_openapi::api::core::v1::Pod;

use super::{
    Set,
    decide::{Seen, wanted},
};
use crate::{
    owner::{BY_CONTROLLER, controller_of},
    pods::{is_active, node_of},
    workload::Workload,
};

pub(super) fn observe<W: Set>(sets: &Workload<W>, key: &Key) -> Option<(Arc<W>, Seen)> {
    let (object, pods) = sets.find(key)?;
    let set = object.as_set();
    let last_error = sets.control.last_error(set.metadata.uid.as_deref().unwrap_or(""));
    let active = pods.mine.iter().filter(|p| is_active(p)).count();
    let surplus = active > usize::try_from(wanted(&set)).unwrap_or(0);
    let on_node =
        if surplus { on_node(&sets.objects, sets.control.pods(), &*object, &pods.mine) } else { BTreeMap::new() };
    Some((object, Seen { set, pods, on_node, last_error }))
}

fn on_node<W: Set>(sets: &Informer<W>, pods: &Informer<Pod>, set: &W, mine: &[Arc<Pod>]) -> BTreeMap<String, usize> {
    let siblings = controller_of(set.meta()).map(|r| sets.by_index(BY_CONTROLLER, &r.uid)).unwrap_or_default();
    let others = siblings.iter().filter(|s| s.meta().uid != set.meta().uid);
    let others = others.flat_map(|s| pods.by_index(BY_CONTROLLER, s.meta().uid.as_deref().unwrap_or("")));
    let mut on_node = BTreeMap::new();
    for pod in others.chain(mine.iter().cloned()).filter(|p| is_active(p)) {
        *on_node.entry(node_of(&pod).to_owned()).or_insert(0) += 1;
    }
    on_node
}
