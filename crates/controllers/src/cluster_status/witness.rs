//! Check of the control plane's own network, before a member counts as unreachable (specification/failover.md 14.2).

use std::time::Duration;

use futures::future::join_all;
use ironclad_failover::flags::witness_address;
use ironclad_seam::Clock;
use parking_lot::Mutex;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout},
};

/// Time limit of a connection attempt.
const DEADLINE: Duration = Duration::from_secs(3);
/// Time for which a result is reused, for all members together.
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

    /// False if there are witnesses and none of them can be reached: then an unreachable member proves nothing.
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
            tracing::warn!("no connectivity witness can be reached: unreachable members keep their condition Ready");
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
    async fn one_reachable_witness_is_enough_and_none_is_needed() {
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
