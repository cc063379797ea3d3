//! Occupied resources of each node, updated per pod, so that the cost of a placement does not grow with
//! the number of pods.

use std::collections::BTreeMap;

use ironclad_kubecontrollers::quantity::{Amounts, add, subtract};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Booking {
    pub(crate) node: String,
    pub(crate) demand: Amounts,
    /// The uid of its controller, empty if it has none.
    pub(crate) controller: String,
    /// The binding was requested and is not in the cache yet.
    pub(crate) assumed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) taken: Amounts,
    of: BTreeMap<String, usize>,
}

impl Load {
    pub(crate) fn siblings(&self, controller: &str) -> usize {
        if controller.is_empty() { 0 } else { self.of.get(controller).copied().unwrap_or(0) }
    }
}

/// Bookings of all pods by uid, and the sums per node.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pods: BTreeMap<String, Booking>,
    nodes: BTreeMap<String, Load>,
}

impl Ledger {
    pub(crate) fn load(&self, node: &str) -> Option<&Load> {
        self.nodes.get(node)
    }

    pub(crate) fn book(&mut self, uid: &str, booking: Booking) {
        if let Some(known) = self.pods.get_mut(uid)
            && known.node == booking.node
            && known.demand == booking.demand
        {
            known.assumed = booking.assumed;
            return;
        }
        self.free(uid);
        let load = self.nodes.entry(booking.node.clone()).or_default();
        add(&mut load.taken, &booking.demand);
        *load.of.entry(booking.controller.clone()).or_insert(0) += 1;
        self.pods.insert(uid.to_owned(), booking);
    }

    /// Frees the resources of a pod. Returns `true` if it had any.
    pub(crate) fn free(&mut self, uid: &str) -> bool {
        let Some(booking) = self.pods.remove(uid) else { return false };
        if let Some(load) = self.nodes.get_mut(&booking.node) {
            subtract(&mut load.taken, &booking.demand);
            if let Some(of) = load.of.get_mut(&booking.controller) {
                *of -= 1;
                if *of == 0 {
                    load.of.remove(&booking.controller);
                }
            }
            if load.of.is_empty() {
                self.nodes.remove(&booking.node);
            }
        }
        true
    }

    /// Returns `true` if the pod was placed and the cache does not have it yet.
    pub(crate) fn is_assumed(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|b| b.assumed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_follow_booked_and_freed_pods() {
        let mut ledger = Ledger::default();
        let booking = |node: &str, cpu: i64, assumed: bool| Booking {
            node: node.into(),
            demand: [("cpu".to_owned(), cpu)].into(),
            controller: "c".into(),
            assumed,
        };
        let cpu = |ledger: &Ledger, node: &str| ledger.load(node).map(|l| (l.taken["cpu"], l.siblings("c")));
        ledger.book("a", booking("n", 100, true));
        assert!(ledger.is_assumed("a"));
        ledger.book("a", booking("n", 100, false));
        assert!(!ledger.is_assumed("a"));
        ledger.book("b", booking("n", 50, false));
        assert_eq!(cpu(&ledger, "n"), Some((150, 2)), "the same pod counts once");
        ledger.book("b", booking("m", 60, false));
        assert_eq!(
            (cpu(&ledger, "n"), cpu(&ledger, "m")),
            (Some((100, 1)), Some((60, 1))),
            "a pod that moves frees its former node"
        );
        assert!(ledger.free("a") && ledger.free("b") && !ledger.free("b"));
        assert_eq!((cpu(&ledger, "n"), cpu(&ledger, "m")), (None, None));
    }
}
