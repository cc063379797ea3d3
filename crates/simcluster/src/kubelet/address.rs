//! Addresses of simulated nodes and pods: distinct within a member, and the same on every run.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

/// Pod addresses per node.
const PER_NODE: u32 = 1_024;
/// 10.64.0.0, the first pod address.
const PODS_FROM: u32 = 0x0a40_0000;
/// 172.18.0.0, the first node address.
const NODES_FROM: u32 = 0xac12_0000;

fn text(address: u32) -> String {
    std::net::Ipv4Addr::from(address).to_string()
}

pub(crate) fn host_ip(node: u32) -> String {
    text(NODES_FROM.wrapping_add(node.wrapping_add(1)))
}

#[derive(Debug, Default)]
pub(crate) struct Addresses {
    taken: BTreeMap<u32, BTreeSet<u32>>,
    of: BTreeMap<String, (u32, u32)>,
    /// Addresses of pods that are being created, oldest first.
    assumed: VecDeque<(Instant, String)>,
    /// Allocated addresses of pods that are not in the cache yet.
    unseen: BTreeSet<String>,
}

impl Addresses {
    /// Returns the address of the pod with this uid on this node: the one it has, or the lowest free one. `None` if the
    /// node has no more.
    pub(crate) fn take(&mut self, uid: &str, node: u32) -> Option<String> {
        if let Some((_, place)) = self.of.get(uid).filter(|(n, _)| *n == node) {
            return Some(address(node, *place));
        }
        self.free(uid);
        let taken = self.taken.entry(node).or_default();
        let place = (2..PER_NODE - 1).find(|place| !taken.contains(place))?;
        self.keep(uid, node, place);
        Some(address(node, place))
    }

    /// Allocates the address of a pod that is being created. It is freed if the pod does not appear within this time.
    pub(crate) fn assume(&mut self, uid: &str, node: u32, now: Instant, kept: Duration) -> Option<String> {
        while let Some((_, uid)) = self.assumed.pop_front_if(|(since, _)| now.duration_since(*since) >= kept) {
            if self.unseen.remove(&uid) {
                self.free(&uid);
            }
        }
        let address = self.take(uid, node)?;
        self.assumed.push_back((now, uid.to_owned()));
        self.unseen.insert(uid.to_owned());
        Some(address)
    }

    pub(crate) fn seen(&mut self, uid: &str, node: u32, ip: &str) {
        self.unseen.remove(uid);
        let Ok(ip) = ip.parse::<std::net::Ipv4Addr>() else { return };
        let place = u32::from(ip).wrapping_sub(base(node));
        if place < PER_NODE && self.of.get(uid) != Some(&(node, place)) {
            self.free(uid);
            self.keep(uid, node, place);
        }
    }

    pub(crate) fn free(&mut self, uid: &str) {
        self.unseen.remove(uid);
        if let Some((node, place)) = self.of.remove(uid)
            && let Some(taken) = self.taken.get_mut(&node)
        {
            taken.remove(&place);
            if taken.is_empty() {
                self.taken.remove(&node);
            }
        }
    }

    fn keep(&mut self, uid: &str, node: u32, place: u32) {
        self.taken.entry(node).or_default().insert(place);
        self.of.insert(uid.to_owned(), (node, place));
    }
}

fn base(node: u32) -> u32 {
    PODS_FROM.wrapping_add(node.wrapping_mul(PER_NODE))
}

fn address(node: u32, place: u32) -> String {
    text(base(node).wrapping_add(place))
}

#[cfg(test)]
mod tests {
    use ironclad_seam::Clock;

    use super::*;

    #[test]
    fn the_lowest_free_address_of_the_node() {
        let mut addresses = Addresses::default();
        assert_eq!(addresses.take("a", 0).as_deref(), Some("10.64.0.2"));
        assert_eq!(addresses.take("a", 0).as_deref(), Some("10.64.0.2"), "the same pod keeps its address");
        assert_eq!(addresses.take("b", 0).as_deref(), Some("10.64.0.3"));
        assert_eq!(addresses.take("c", 1).as_deref(), Some("10.64.4.2"));
        addresses.free("a");
        assert_eq!(addresses.take("d", 0).as_deref(), Some("10.64.0.2"));
        addresses.seen("e", 0, "10.64.0.4");
        assert_eq!(addresses.take("f", 0).as_deref(), Some("10.64.0.5"));
        assert_eq!(host_ip(1), "172.18.0.2");
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_of_pods_that_are_never_created_are_freed() {
        let (mut addresses, began, kept) = (Addresses::default(), Clock::system().mono(), Duration::from_secs(30));
        assert_eq!(addresses.assume("a", 0, began, kept).as_deref(), Some("10.64.0.2"));
        assert_eq!(addresses.assume("b", 0, began, kept).as_deref(), Some("10.64.0.3"));
        addresses.seen("b", 0, "10.64.0.3");
        assert_eq!(addresses.assume("c", 0, began + kept / 2, kept).as_deref(), Some("10.64.0.4"));
        let later = began + kept;
        assert_eq!(addresses.assume("d", 0, later, kept).as_deref(), Some("10.64.0.2"), "pod a was never created");
        assert_eq!(
            addresses.assume("e", 0, later, kept).as_deref(),
            Some("10.64.0.5"),
            "pod b was created, that of c has not expired"
        );
    }

    #[test]
    fn a_full_node_has_no_address() {
        let mut addresses = Addresses::default();
        assert!((2..PER_NODE - 1).all(|i| addresses.take(&i.to_string(), 0).is_some()));
        assert_eq!(addresses.take("one more", 0), None);
    }
}
