//! The caches' view of one Deployment.

use ironclad_runtime::Key;
use jiff::Timestamp;

use super::{
    Controller,
    decide::{Seen, Set},
};
use crate::{
    owner::{BY_CONTROLLER, ORPHANS, claim, selector},
    pods::is_finished,
    replicaset::count,
};

impl Controller {
    pub(super) fn observe(&self, key: &Key, now: Timestamp) -> Option<Seen> {
        let deployment = self.deployments.get_key(key)?;
        let uid = deployment.metadata.uid.as_deref().unwrap_or("");
        let selector = selector(deployment.spec.as_ref().map(|s| &s.selector))?;
        let owned = self.sets.by_index(BY_CONTROLLER, uid);
        let mut claims = claim(&deployment.metadata, &selector, owned, self.sets.by_index(ORPHANS, &key.namespace));
        let sets = std::mem::take(&mut claims.mine).into_iter().map(|set| {
            let pods = self.pods.by_index(BY_CONTROLLER, set.metadata.uid.as_deref().unwrap_or(""));
            let unfinished = pods.iter().filter(|p| !is_finished(p)).count();
            Set {
                counts: count(&set, pods.iter(), now),
                unfinished: i32::try_from(unfinished).unwrap_or(i32::MAX),
                set,
            }
        });
        let sets = sets.collect();
        Some(Seen { deployment, sets, claims })
    }
}
