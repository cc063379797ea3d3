//! Faults of the requests and watches of one process: by number, for a time, or immediately.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc, time::Duration};

use ironclad_seam::Clock;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The server never receives it; the client gets a conflict (409).
    Conflict,
    /// It is handled and answered, then the client's process is killed.
    KillAfterAnswer,
    /// It is handled, and the client's process is killed before the answer arrives.
    KillBeforeAnswer,
    /// It is handled, but the answer is lost: the client gets a broken connection.
    LoseAnswer,
}

impl Fault {
    pub const ALL: [Self; 4] = [Self::Conflict, Self::KillAfterAnswer, Self::KillBeforeAnswer, Self::LoseAnswer];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Conflict => "conflict",
            Self::KillAfterAnswer => "kill-after",
            Self::KillBeforeAnswer => "kill-before",
            Self::LoseAnswer => "lose-answer",
        })
    }
}

impl FromStr for Fault {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|fault| fault.to_string() == text);
        found.ok_or_else(|| anyhow::anyhow!("{text} is none of conflict, kill-after, kill-before, lose-answer"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventFault {
    /// It is not delivered; the watch ends with 410, so that a list replaces it.
    Expire,
    /// It and all later events of its watch are delayed by this.
    Hold(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The connection breaks: they can be resumed.
    Reset,
    /// With 410: they must be listed anew.
    Expired,
}

/// The faults of one process, over its restarts. Writes and events are counted from 1. Cheap to clone.
#[derive(Clone, Default)]
pub struct FaultPlan(Arc<Shared>);

#[derive(Default)]
struct Shared {
    planned: Mutex<Planned>,
    cut: Notify,
}

#[derive(Default)]
struct Planned {
    faults: BTreeMap<u64, Fault>,
    writes: u64,
    /// Writes of anything but Events.
    changes: u64,
    struck: Vec<(u64, Fault)>,
    event_faults: BTreeMap<u64, EventFault>,
    events: u64,
    events_struck: u64,
    frozen_until: Option<Instant>,
    stalled_until: Option<Instant>,
    cuts: u64,
    cut_as: Option<Cut>,
}

impl FaultPlan {
    pub fn on_write(&self, number: u64, fault: Fault) {
        self.0.planned.lock().faults.insert(number, fault);
    }

    /// Injects the fault at the n-th write from now on; 1 is the next.
    pub fn on_coming_write(&self, number: u64, fault: Fault) {
        let mut planned = self.0.planned.lock();
        let number = planned.writes + number;
        planned.faults.insert(number, fault);
    }

    pub fn on_event(&self, number: u64, fault: EventFault) {
        self.0.planned.lock().event_faults.insert(number, fault);
    }

    /// Injects the fault at the n-th event from now on; 1 is the next.
    pub fn on_coming_event(&self, number: u64, fault: EventFault) {
        let mut planned = self.0.planned.lock();
        let number = planned.events + number;
        planned.event_faults.insert(number, fault);
    }

    /// Freezes all watches until then, so that caches are stale.
    pub fn freeze_watches(&self, until: Instant) {
        self.0.planned.lock().frozen_until = Some(until);
    }

    /// Holds all requests of the process until then: it may have been the leader when it decided, and not when it
    /// writes.
    pub fn stall(&self, until: Instant) {
        self.0.planned.lock().stalled_until = Some(until);
    }

    pub fn cut_watches(&self, cut: Cut) {
        {
            let mut planned = self.0.planned.lock();
            planned.cuts += 1;
            planned.cut_as = Some(cut);
        }
        self.0.cut.notify_waiters();
    }

    /// Removes faults that have not happened yet.
    pub fn heal(&self) {
        let mut planned = self.0.planned.lock();
        planned.faults.clear();
        planned.event_faults.clear();
        planned.frozen_until = None;
        planned.stalled_until = None;
    }

    pub fn writes(&self) -> u64 {
        self.0.planned.lock().writes
    }

    pub fn events(&self) -> u64 {
        self.0.planned.lock().events
    }

    /// Faults of writes that happened.
    pub fn struck(&self) -> Vec<(u64, Fault)> {
        self.0.planned.lock().struck.clone()
    }

    /// Number of faults of events that happened.
    pub fn events_struck(&self) -> u64 {
        self.0.planned.lock().events_struck
    }

    /// Number of writes of anything but Events, which only count what goes on unchanged.
    pub fn changes(&self) -> u64 {
        self.0.planned.lock().changes
    }

    pub(super) fn next_write(&self, is_event: bool) -> (u64, Option<Fault>) {
        let mut planned = self.0.planned.lock();
        planned.writes += 1;
        planned.changes += u64::from(!is_event);
        let number = planned.writes;
        let fault = planned.faults.remove(&number);
        if let Some(fault) = fault {
            planned.struck.push((number, fault));
        }
        (number, fault)
    }

    pub(super) fn next_event(&self) -> (u64, Option<EventFault>) {
        let mut planned = self.0.planned.lock();
        planned.events += 1;
        let number = planned.events;
        let fault = planned.event_faults.remove(&number);
        planned.events_struck += u64::from(fault.is_some());
        (number, fault)
    }

    /// Waits while the process is stalled; polls for [`FaultPlan::heal`].
    pub(super) async fn stalled(&self, clock: &Clock) {
        self.hold(clock, |planned| planned.stalled_until).await;
    }

    /// Waits while watches are frozen.
    pub(super) async fn frozen(&self, clock: &Clock) {
        self.hold(clock, |planned| planned.frozen_until).await;
    }

    async fn hold(&self, clock: &Clock, until: impl Fn(&Planned) -> Option<Instant>) {
        const LOOK: Duration = Duration::from_millis(500);
        loop {
            let now = clock.mono();
            let Some(end) = until(&self.0.planned.lock()).filter(|end| *end > now) else { return };
            clock.sleep_until(end.min(now + LOOK)).await;
        }
    }

    pub(super) fn cuts(&self) -> u64 {
        self.0.planned.lock().cuts
    }

    /// Resolves when watches that began at this count of cuts are cut.
    pub(super) async fn is_cut(&self, begun: u64) -> Cut {
        loop {
            let cut = self.0.cut.notified();
            tokio::pin!(cut);
            cut.as_mut().enable();
            {
                let planned = self.0.planned.lock();
                if let Some(kind) = planned.cut_as.filter(|_| planned.cuts > begun) {
                    return kind;
                }
            }
            cut.await;
        }
    }
}
