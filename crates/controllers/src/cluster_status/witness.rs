//! Whether the control plane itself has a network: before a member is blamed, somebody else is asked (failover.md 14.2).

use std::time::Duration;

use futures::future::join_all;
use ironclad_failover::flags::witness_address;
use ironclad_seam::Clock;
use parking_lot::Mutex;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout},
};

/// One connection attempt takes no longer than this.
const DEADLINE: Duration = Duration::from_secs(3);
/// An answer holds for this long, for all members together.
const HOLDS: Duration = Duration::from_secs(5);

/// The witnesses of `--connectivity-witnesses`.
pub(crate) struct Witnesses {
    addresses: Vec<(String, u16)>,
    last: Mutex<Option<(Instant, bool)>>,
}

impl Witnesses {
    pub(crate) fn new(urls: &[String]) -> Self {
        Self { addresses: urls.iter().filter_map(|url| witness_address(url)).collect(), last: Mutex::default() }
    }

    /// False if there are witnesses and none of them can be reached: what could not be reached besides says nothing.
    pub(super) async fn see_a_network(&self, clock: &Clock) -> bool {
        if self.addresses.is_empty() {
            return true;
        }
        let last = *self.last.lock();
        if let Some((_, seen)) = last.filter(|(at, _)| clock.mono() - *at < HOLDS) {
            return seen;
        }
        let connect = |(host, port): &(String, u16)| {
            let address = (host.clone(), *port);
            async move { matches!(timeout(DEADLINE, TcpStream::connect(address)).await, Ok(Ok(_))) }
        };
        let seen = join_all(self.addresses.iter().map(connect)).await.contains(&true);
        if !seen && last.is_none_or(|(_, before)| before) {
            tracing::warn!("no connectivity witness can be reached: members that can't be reached are not blamed");
        }
        *self.last.lock() = Some((clock.mono(), seen));
        seen
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn one_witness_is_enough_and_without_any_nobody_is_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = format!("http://{}", listener.local_addr().unwrap());
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let not_there = format!("http://{}", closed.local_addr().unwrap());
        drop(closed);
        let clock = Clock::system();
        for (name, urls, want) in [
            ("none", vec![], true),
            ("one that is there", vec![there.clone()], true),
            ("one that is not", vec![not_there.clone()], false),
            ("one of two", vec![not_there, there], true),
        ] {
            assert_eq!(Witnesses::new(&urls).see_a_network(&clock).await, want, "{name}");
        }
    }
}
