//! Fence that lets writes pass only while the process leads.

use std::{future::Future, pin::pin, sync::Arc};

use http::{Method, Request};
use ironclad_seam::Clock;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tower::{BoxError, service_fn};

/// Fence that is open until a monotonic time, which a leader moves with each renewal. Cheap to clone.
#[derive(Clone)]
pub struct Fence(Arc<State>);

struct State {
    clock: Clock,
    until: Mutex<Option<Instant>>,
    closed: Notify,
}

/// The write was not sent, or its answer was not awaited: this process no longer leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this process does not lead any more")]
pub(super) struct NotLeading;

impl Fence {
    /// A closed fence.
    #[must_use]
    pub fn closed(clock: Clock) -> Self {
        Self(Arc::new(State { clock, until: Mutex::default(), closed: Notify::new() }))
    }

    /// Opens it, or keeps it open, until this time.
    pub fn open_until(&self, until: Instant) {
        *self.0.until.lock() = Some(until);
    }

    /// Closes it. Writes under way are dropped.
    pub fn close(&self) {
        *self.0.until.lock() = None;
        self.0.closed.notify_waiters();
    }

    /// True while writes pass. A process that stalled past the time finds out by its own clock.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.until().is_some()
    }

    fn until(&self) -> Option<Instant> {
        let until = *self.0.until.lock();
        until.filter(|until| self.0.clock.mono() < *until)
    }

    /// Runs a write as long as the fence is open.
    async fn guard<T>(&self, write: impl Future<Output = T>) -> Result<T, NotLeading> {
        let mut write = pin!(write);
        loop {
            let closed = self.0.closed.notified();
            tokio::pin!(closed);
            closed.as_mut().enable();
            let Some(until) = self.until() else { return Err(NotLeading) };
            tokio::select! {
                biased;
                () = closed => {}
                () = self.0.clock.sleep_until(until) => {}
                done = &mut write => return Ok(done),
            }
        }
    }
}

/// A client whose writes go through the fence; reads and watches do not.
#[must_use]
pub fn fenced(client: Client, fence: Fence) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let (client, fence) = (client.clone(), fence.clone());
        async move {
            if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
                return client.send(request).await.map_err(BoxError::from);
            }
            fence.guard(client.send(request)).await?.map_err(BoxError::from)
        }
    });
    Client::new(service, namespace)
}
