//! Occupied resources of each node, updated per pod, so that the cost of a placement does not grow with
//! the number of pods.

use std::collections::BTreeMap;

use ironclad_kubecontrollers::quantity::{Amounts, add, subtract};

use super::host_ports::HostPort;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Booking {
    pub(crate) node: String,
    pub(crate) demand: Amounts,
    pub(crate) host_ports: Vec<HostPort>,
    /// The uid of its controller, empty if it has none.
    pub(crate) controller: String,
    /// The binding was requested and is not in the cache yet.
    pub(crate) assumed: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) taken: Amounts,
    /// Host ports with the number of pods that have them: pods that were bound by hand may share one.
    pub(crate) host_ports: BTreeMap<HostPort, usize>,
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
            && known.host_ports == booking.host_ports
        {
            known.assumed = booking.assumed;
            return;
        }
        self.free(uid);
        let load = self.nodes.entry(booking.node.clone()).or_default();
        add(&mut load.taken, &booking.demand);
        for port in &booking.host_ports {
            *load.host_ports.entry(port.clone()).or_insert(0) += 1;
        }
        *load.of.entry(booking.controller.clone()).or_insert(0) += 1;
        self.pods.insert(uid.to_owned(), booking);
    }

    /// Frees the resources of a pod. Returns `true` if it had any.
    pub(crate) fn free(&mut self, uid: &str) -> bool {
        let Some(booking) = self.pods.remove(uid) else { return false };
        if let Some(load) = self.nodes.get_mut(&booking.node) {
            subtract(&mut load.taken, &booking.demand);
            for port in &booking.host_ports {
                if let Some(pods) = load.host_ports.get_mut(port) {
                    *pods -= 1;
                    if *pods == 0 {
                        load.host_ports.remove(port);
                    }
                }
            }
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
            host_ports: vec![HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port: 80 }],
            controller: "c".into(),
            assumed,
        };
        let ports = |ledger: &Ledger, node: &str| {
            ledger.load(node).map(|l| l.host_ports.values().copied().collect::<Vec<_>>()).unwrap_or_default()
        };
        let cpu = |ledger: &Ledger, node: &str| ledger.load(node).map(|l| (l.taken["cpu"], l.siblings("c")));
        ledger.book("a", booking("n", 100, true));
        assert!(ledger.is_assumed("a"));
        ledger.book("a", booking("n", 100, false));
        assert!(!ledger.is_assumed("a"));
        ledger.book("b", booking("n", 50, false));
        assert_eq!(cpu(&ledger, "n"), Some((150, 2)), "the same pod counts once");
        assert_eq!(ports(&ledger, "n"), [2]);
        ledger.book("b", booking("m", 60, false));
        assert_eq!(
            (cpu(&ledger, "n"), cpu(&ledger, "m")),
            (Some((100, 1)), Some((60, 1))),
            "a pod that moves frees its former node"
        );
        assert_eq!(ports(&ledger, "n"), [1]);
        assert!(ledger.free("a") && ledger.free("b") && !ledger.free("b"));
        assert_eq!((cpu(&ledger, "n"), cpu(&ledger, "m")), (None, None));
    }
}
