//! Pods of a member that are known by their workload and node, in little memory: equal pods of a workload on one node
//! are one entry.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use ironclad_api::work::ObjectReference;

use crate::capacity::demand::Units;

/// Workload in a member: a hash of kind, namespace and name. There are as many as workloads in all members, so their
/// names are not kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Workload(u64);

impl Workload {
    /// Pods that nobody controls.
    pub const NONE: Self = Self(0);
    /// Pods that are being deleted, whatever their workload is: they hold their node until they are gone.
    pub(super) const LEAVING: Self = Self(1);

    /// The workload of this kind and name.
    #[must_use]
    pub fn new(kind: &str, namespace: &str, name: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (kind, namespace, name).hash(&mut hasher);
        Self(hasher.finish().max(2))
    }
}

impl From<&ObjectReference> for Workload {
    fn from(template: &ObjectReference) -> Self {
        Self::new(&template.kind, &template.namespace, &template.name)
    }
}

/// Number of a request in [`Requests`].
type RequestNumber = u32;

/// Distinct requests of pods, each stored once.
#[derive(Debug, Clone, Default)]
struct Requests {
    numbers: BTreeMap<Arc<Units>, RequestNumber>,
    /// Each request with the number of its pods.
    all: Vec<(Arc<Units>, u32)>,
    unused: Vec<RequestNumber>,
}

impl Requests {
    /// Adds a pod with this request.
    fn add(&mut self, request: &Units) -> RequestNumber {
        let number = self.numbers.get(request).copied().unwrap_or_else(|| {
            let request = Arc::new(request.clone());
            let number = self.unused.pop().unwrap_or_else(|| {
                self.all.push((Arc::default(), 0));
                // Fewer distinct requests than pods, and a process holds no 2^32 pods.
                RequestNumber::try_from(self.all.len() - 1).unwrap_or(RequestNumber::MAX)
            });
            self.all[number as usize] = (request.clone(), 0);
            self.numbers.insert(request, number);
            number
        });
        self.all[number as usize].1 += 1;
        number
    }

    /// Removes a pod with this request. Returns its number.
    fn remove(&mut self, request: &Units) -> Option<RequestNumber> {
        let number = *self.numbers.get(request)?;
        let pods = &mut self.all[number as usize].1;
        *pods -= 1;
        if *pods == 0 {
            self.numbers.remove(request);
            self.unused.push(number);
        }
        Some(number)
    }
}

/// Pods of one member that have a node and have not ended, and the number of pods of each workload.
#[derive(Debug, Clone, Default)]
pub(super) struct Pods {
    requests: Requests,
    /// Number of equal pods of a workload on a node.
    placed: BTreeMap<(Workload, u32, RequestNumber), u32>,
    /// Pods that count as the replicas of a workload: those that are not being deleted.
    arrived: BTreeMap<Workload, u32>,
}

impl Pods {
    /// Adds a pod on the node with this number.
    pub(super) fn place(&mut self, workload: Workload, node: usize, request: &Units) {
        let request = self.requests.add(request);
        *self.placed.entry((workload, number(node), request)).or_default() += 1;
    }

    /// Removes a pod from the node with this number.
    pub(super) fn remove(&mut self, workload: Workload, node: usize, request: &Units) {
        let Some(request) = self.requests.remove(request) else { return };
        decrease(&mut self.placed, &(workload, number(node), request));
    }

    /// Counts a pod as a replica of its workload.
    pub(super) fn arrive(&mut self, workload: Workload) {
        *self.arrived.entry(workload).or_default() += 1;
    }

    /// Counts a pod no more.
    pub(super) fn depart(&mut self, workload: Workload) {
        decrease(&mut self.arrived, &workload);
    }

    /// Pods of a workload that exist and are not being deleted.
    pub(super) fn arrived(&self, workload: Workload) -> i64 {
        self.arrived.get(&workload).copied().unwrap_or(0).into()
    }

    /// Pods of a workload on nodes: the number of the node, the request, and how many.
    pub(super) fn of(&self, workload: Workload) -> impl Iterator<Item = (usize, &Units, i64)> {
        let all = self.placed.range((workload, 0, 0)..=(workload, u32::MAX, RequestNumber::MAX));
        all.map(|((_, node, request), pods)| {
            (*node as usize, &*self.requests.all[*request as usize].0, i64::from(*pods))
        })
    }
}

fn number(node: usize) -> u32 {
    // No cluster has 2^32 nodes.
    u32::try_from(node).unwrap_or(u32::MAX)
}

fn decrease<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_pods_are_one_entry_and_requests_are_stored_once() {
        let (web, db) = (Workload::new("Deployment", "shop", "web"), Workload::new("StatefulSet", "shop", "db"));
        assert_ne!(web, Workload::new("Deployment", "shop", "db"));
        let (small, large) = (Units::from([("cpu", 100)]), Units::from([("cpu", 900)]));
        let mut pods = Pods::default();
        for node in [0, 0, 1] {
            pods.place(web, node, &small);
        }
        pods.place(db, 1, &small);
        pods.place(web, 1, &large);
        let of = |pods: &Pods, workload| -> Vec<_> {
            pods.of(workload).map(|(node, request, count)| (node, *request.get("cpu").unwrap(), count)).collect()
        };
        assert_eq!(of(&pods, web), [(0, 100, 2), (1, 100, 1), (1, 900, 1)]);
        assert_eq!(of(&pods, db), [(1, 100, 1)]);
        assert_eq!(pods.requests.all.len(), 2);
        pods.remove(web, 1, &large);
        pods.place(db, 0, &Units::from([("cpu", 5)]));
        assert_eq!(of(&pods, db), [(0, 5, 1), (1, 100, 1)], "the number of a request is used again");
        pods.arrive(web);
        pods.arrive(web);
        pods.depart(web);
        assert_eq!((pods.arrived(web), pods.arrived(db)), (1, 0));
        pods.depart(web);
        pods.depart(web);
        assert_eq!(pods.arrived.len(), 0);
    }
}
