//! The caches' view of one ReplicaSet.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_runtime::Key;
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};

use super::{
    Controller,
    decide::{Seen, wanted},
};
use crate::{
    owner::{BY_CONTROLLER, ORPHANS, claim, controller_of, selector},
    pods::{is_active, is_terminating, node_of},
};

impl Controller {
    pub(super) fn observe(&self, key: &Key) -> Option<Seen> {
        let set = self.sets.get_key(key)?;
        let uid = set.metadata.uid.clone().unwrap_or_default();
        let selector = selector(set.spec.as_ref().map(|s| &s.selector))?;
        let mut owned = self.pods.by_index(BY_CONTROLLER, &uid);
        let trouble = {
            let mut memory = self.memory.lock();
            let memory = memory.entry(uid).or_default();
            if !memory.deleting.is_empty() {
                let awaited: Vec<_> = owned.iter().filter(|p| !is_terminating(p)).collect();
                memory.deleting.retain(|uid| awaited.iter().any(|p| p.metadata.uid.as_ref() == Some(uid)));
                let deleting = &memory.deleting;
                owned.retain(|p| !p.metadata.uid.as_ref().is_some_and(|uid| deleting.contains(uid)));
            }
            memory.trouble.clone()
        };
        let pods = claim(&set.metadata, &selector, owned, self.pods.by_index(ORPHANS, &key.namespace));
        let active = pods.mine.iter().filter(|p| is_active(p)).count();
        let on_node = if active > usize::try_from(wanted(&set)).unwrap_or(0) {
            self.on_node(&set, &pods.mine)
        } else {
            BTreeMap::new()
        };
        Some(Seen { set, pods, on_node, trouble })
    }

    fn on_node(&self, set: &ReplicaSet, mine: &[Arc<Pod>]) -> BTreeMap<String, usize> {
        let siblings =
            controller_of(&set.metadata).map(|r| self.sets.by_index(BY_CONTROLLER, &r.uid)).unwrap_or_default();
        let others = siblings.iter().filter(|s| s.metadata.uid != set.metadata.uid);
        let others = others.flat_map(|s| self.pods.by_index(BY_CONTROLLER, s.metadata.uid.as_deref().unwrap_or("")));
        let mut on_node = BTreeMap::new();
        for pod in others.chain(mine.iter().cloned()).filter(|p| is_active(p)) {
            *on_node.entry(node_of(&pod).to_owned()).or_insert(0) += 1;
        }
        on_node
    }
}
