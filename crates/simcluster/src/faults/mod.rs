//! Network between the control plane and a member, with its faults.

mod body;
mod service;

use std::{sync::Arc, time::Duration};

use ironclad_seam::Clock;
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use self::service::{FaultError, Faulted};

/// The state of the way to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Requests succeed, and each response is delayed by this.
    Open { latency: Duration },
    /// Connections are refused immediately.
    Refused,
    /// Nothing comes back: neither a response nor a refusal.
    Silent,
}

impl Way {
    fn is_open(self) -> bool {
        matches!(self, Self::Open { .. })
    }
}

/// The way to one member. Cheap to clone; all clones are the same way.
#[derive(Clone)]
pub(crate) struct Link(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Notify,
    clock: Clock,
}

#[derive(Clone, Copy)]
struct State {
    way: Way,
    /// Number of breaks: an exchange that began before a break fails.
    breaks: u64,
}

impl Link {
    pub(crate) fn new(clock: Clock) -> Self {
        let state = State { way: Way::Open { latency: Duration::ZERO }, breaks: 0 };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Notify::new(), clock }))
    }

    pub(crate) fn set(&self, way: Way) {
        {
            let mut state = self.0.state.lock();
            if state.way == way {
                return;
            }
            state.breaks += u64::from(state.way.is_open() && !way.is_open());
            state.way = way;
        }
        self.0.changed.notify_waiters();
    }

    pub(crate) fn way(&self) -> Way {
        self.0.state.lock().way
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
            match state.way {
                Way::Refused => return FaultError::Refused,
                Way::Open { .. } if state.breaks != breaks => return FaultError::Reset,
                Way::Open { .. } | Way::Silent => {}
            }
            changed.await;
        }
    }
}
