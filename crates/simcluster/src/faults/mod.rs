//! Simulated network between the control plane and a member.

mod body;
mod service;

use std::{sync::Arc, time::Duration};

use ironclad_seam::Clock;
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use self::service::{FaultError, Faulted};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// Requests succeed, and each response is delayed by this.
    Open { latency: Duration },
    /// Connections are refused immediately.
    Refused,
    /// No response and no error.
    Silent,
}

impl Network {
    fn is_open(self) -> bool {
        matches!(self, Self::Open { .. })
    }
}

/// The network to one member. Cheap to clone; all clones are the same network.
#[derive(Clone)]
pub(crate) struct Link(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Notify,
    clock: Clock,
}

#[derive(Clone, Copy)]
struct State {
    network: Network,
    /// Number of breaks: an exchange that began before a break fails.
    breaks: u64,
}

impl Link {
    pub(crate) fn new(clock: Clock) -> Self {
        let state = State { network: Network::Open { latency: Duration::ZERO }, breaks: 0 };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Notify::new(), clock }))
    }

    pub(crate) fn set(&self, network: Network) {
        {
            let mut state = self.0.state.lock();
            if state.network == network {
                return;
            }
            state.breaks += u64::from(state.network.is_open() && !network.is_open());
            state.network = network;
        }
        self.0.changed.notify_waiters();
    }

    pub(crate) fn network(&self) -> Network {
        self.0.state.lock().network
    }

    fn breaks(&self) -> u64 {
        self.0.state.lock().breaks
    }

    /// Resolves when exchanges that began at this count of breaks fail: immediately if the network refuses, when it
    /// recovers if it is silent (before that, nobody can detect it).
    async fn lost(&self, breaks: u64) -> FaultError {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let state = *self.0.state.lock();
            match state.network {
                Network::Refused => return FaultError::Refused,
                Network::Open { .. } if state.breaks != breaks => return FaultError::Reset,
                Network::Open { .. } | Network::Silent => {}
            }
            changed.await;
        }
    }
}
