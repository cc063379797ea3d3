//! Leader election by a Lease (specification/operations.md 9): one of several processes works, the others stand by.
//!
//! Only monotonic time decides: the clocks of two processes need not agree. A leader that cannot renew stops all its
//! work at the renew deadline, before another process may take over. After that its [`Fence`] drops every write,
//! whether a stalled process sends it late or it is under way.

mod decide;
mod fence;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ironclad_seam::Seam;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ObjectMeta, PostParams},
};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::Failure;
use decide::{Observed, Step, judge};

pub use fence::{Fence, fenced};

/// The field manager of the Lease.
const MANAGER: &str = "ironclad-leader-election";
/// Time limit for the release of the Lease.
const RELEASE: Duration = Duration::from_secs(2);

/// The Lease, and the times of the election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderOptions {
    /// `--leader-elect-resource-namespace`.
    pub namespace: String,
    /// `--leader-elect-resource-name`.
    pub name: String,
    /// Identity of this process, different for every process that ever competes.
    pub identity: String,
    /// `--leader-elect-lease-duration`: others take over when the Lease was not renewed for this time.
    pub lease_duration: Duration,
    /// `--leader-elect-renew-deadline`: a leader that could not renew for this time stops.
    pub renew_deadline: Duration,
    /// `--leader-elect-retry-period`: time from one attempt to the next.
    pub retry_period: Duration,
    /// Annotations of the Lease while this process holds it; `None` removes what an earlier holder wrote.
    pub annotations: BTreeMap<&'static str, Option<String>>,
}

impl LeaderOptions {
    /// The reference's names and times for this process.
    #[must_use]
    pub fn new(identity: &str) -> Self {
        Self {
            namespace: "karmada-system".to_owned(),
            name: "ironclad".to_owned(),
            identity: identity.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            annotations: BTreeMap::new(),
        }
    }

    /// Checks that a leader stops before another begins, and tries more than once.
    ///
    /// # Errors
    /// The problem, with the names of the flags.
    pub fn check(&self) -> Result<(), String> {
        let (lease, renew, retry) = (self.lease_duration, self.renew_deadline, self.retry_period);
        if lease < Duration::from_secs(1) {
            return Err(format!("--leader-elect-lease-duration {lease:?} must be at least 1s"));
        }
        if lease <= renew {
            return Err(format!(
                "--leader-elect-lease-duration {lease:?} must be longer than --leader-elect-renew-deadline {renew:?}"
            ));
        }
        if retry.is_zero() || renew <= retry {
            return Err(format!(
                "--leader-elect-renew-deadline {renew:?} must be longer than --leader-elect-retry-period {retry:?}, and \
                 that longer than nothing"
            ));
        }
        Ok(())
    }
}

/// One candidate. Cheap to clone.
#[derive(Clone)]
pub struct Elector(Arc<Shared>);

struct Shared {
    api: Api<Lease>,
    seam: Seam,
    options: LeaderOptions,
    fence: Fence,
    /// The Lease as last written by this process, while it holds it.
    held: Mutex<Option<Lease>>,
    /// The last known holder.
    holder: Mutex<String>,
    /// The annotations of the Lease as this process last read it.
    annotations: Mutex<BTreeMap<String, String>>,
    terms: AtomicU64,
}

/// Work of a leader. Ends with the term, also if the election panics: two terms must not work beside each other.
struct Term<'e> {
    elector: &'e Elector,
    seam: Seam,
}

impl Drop for Term<'_> {
    fn drop(&mut self) {
        self.elector.0.fence.close();
        self.seam.tasks.kill();
    }
}

impl Elector {
    /// Competes through this client, which must not be a fenced one.
    #[must_use]
    pub fn new(client: Client, seam: Seam, options: LeaderOptions) -> Self {
        let api = Api::namespaced(client, &options.namespace);
        let fence = Fence::closed(seam.clock.clone());
        let (held, holder, annotations) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self(Arc::new(Shared { api, seam, options, fence, held, holder, annotations, terms: AtomicU64::new(0) }))
    }

    /// The fence of this process: every client for writes goes through it.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.0.fence.clone()
    }

    /// True while this process leads.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.0.fence.is_open()
    }

    /// The last known leader, empty if there was none.
    #[must_use]
    pub fn holder(&self) -> String {
        self.0.holder.lock().clone()
    }

    /// An annotation of the Lease, as this process last read it while it stood by.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<String> {
        self.0.annotations.lock().get(key).cloned()
    }

    /// Namespace and name of the Lease.
    #[must_use]
    pub fn lease(&self) -> (&str, &str) {
        (&self.0.options.namespace, &self.0.options.name)
    }

    /// Identity of this process in the Lease.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.0.options.identity
    }

    /// Number of times that this process became the leader.
    #[must_use]
    pub fn terms(&self) -> u64 {
        self.0.terms.load(Ordering::Relaxed)
    }

    /// Competes, works while it leads, and competes again. `begin` is called at the start of a term and starts tasks of
    /// the seam that it gets. At the end of the term they are killed, then its return value is dropped.
    pub async fn run<T: Send>(&self, mut begin: impl FnMut(Seam) -> T + Send) {
        let mut observed = Observed::default();
        loop {
            let until = self.acquire(&mut observed).await;
            let term = self.0.terms.fetch_add(1, Ordering::Relaxed) + 1;
            let seam = self.0.seam.child(&format!("term{term}"));
            tracing::info!(identity = %self.0.options.identity, lease = %self.0.options.name, term, "became the leader");
            let term = Term { elector: self, seam };
            let work = begin(term.seam.clone());
            let lost = self.keep(until).await;
            drop(term);
            *self.0.held.lock() = None;
            tracing::warn!(identity = %self.0.options.identity, lease = %self.0.options.name, %lost, "no longer the leader: all work is stopped");
            drop(work);
        }
    }

    /// Releases the Lease, so that another process takes over at once. All writers must have ended: the fence closes.
    pub async fn release(&self) {
        self.0.fence.close();
        let Some(mut lease) = self.0.held.lock().take() else { return };
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(self.0.seam.clock.wall()));
        let deadline = self.0.seam.clock.mono() + RELEASE;
        match timeout_at(deadline, self.replace(&lease)).await {
            Ok(Ok(_)) => tracing::info!(lease = %self.0.options.name, "gave the lease back"),
            Ok(Err(failure)) => tracing::warn!(%failure, "the lease was not given back: others wait until it expires"),
            Err(_) => tracing::warn!("the lease was not given back in time: others wait until it expires"),
        }
    }

    /// Competes until this process holds the Lease; returns the time until which it may work.
    async fn acquire(&self, observed: &mut Observed) -> Instant {
        let (clock, options) = (&self.0.seam.clock, &self.0.options);
        let jitter = self.0.seam.rng.stream("leader");
        loop {
            let began = clock.mono();
            let attempt = timeout_at(began + options.renew_deadline, self.attempt(observed)).await;
            match attempt {
                Ok(Ok(true)) => {
                    let until = began + options.renew_deadline;
                    self.0.fence.open_until(until);
                    return until;
                }
                Ok(Ok(false)) => {}
                Ok(Err(failure)) => tracing::debug!(%failure, "the lease was not acquired"),
                Err(_) => tracing::debug!("the lease was not acquired in time"),
            }
            clock.sleep(options.retry_period + jitter.duration_up_to(options.retry_period / 5)).await;
        }
    }

    /// Attempts to acquire the Lease once.
    async fn attempt(&self, observed: &mut Observed) -> Result<bool, Failure> {
        let options = &self.0.options;
        let lease = self.0.api.get_opt(&options.name).await.map_err(Failure::from)?;
        let held_by = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
        *self.0.holder.lock() = lease.as_ref().and_then(held_by).unwrap_or_default();
        *self.0.annotations.lock() =
            lease.as_ref().and_then(|lease| lease.metadata.annotations.clone()).unwrap_or_default();
        let step = judge(lease.as_ref(), &options.identity, observed, self.0.seam.clock.mono());
        let written = match (step, lease) {
            (Step::Wait, _) => return Ok(false),
            (Step::Create, _) => self.create().await?,
            (Step::Take | Step::Renew, Some(lease)) => self.replace(&self.renewed(lease)).await?,
            (Step::Take | Step::Renew, None) => return Ok(false),
        };
        options.identity.clone_into(&mut self.0.holder.lock());
        *self.0.held.lock() = Some(written);
        Ok(true)
    }

    /// Renews until that failed for too long or another process holds the Lease. Returns the reason.
    async fn keep(&self, mut until: Instant) -> Lost {
        let (clock, options) = (&self.0.seam.clock, &self.0.options);
        loop {
            let next = (clock.mono() + options.retry_period).min(until);
            clock.sleep_until(next).await;
            let began = clock.mono();
            if began >= until {
                return Lost::NotRenewed(options.renew_deadline);
            }
            match timeout_at(until, self.renew()).await {
                Err(_) => return Lost::NotRenewed(options.renew_deadline),
                Ok(Err(Renewal::Taken(by))) => return Lost::Taken(by),
                Ok(Err(Renewal::Failed(failure))) => tracing::warn!(%failure, "the lease was not renewed"),
                // The time counts from the request: the server may have written at once although the answer was late.
                Ok(Ok(())) => {
                    until = began + options.renew_deadline;
                    self.0.fence.open_until(until);
                }
            }
        }
    }

    async fn renew(&self) -> Result<(), Renewal> {
        let held = self.0.held.lock().clone();
        let Some(held) = held else { return Err(Renewal::Taken(String::new())) };
        let written = match self.replace(&self.renewed(held)).await {
            Ok(written) => written,
            Err(Failure::Conflict(_)) => {
                // Another process wrote it, or this one did and the answer was lost.
                let lease = self.0.api.get(&self.0.options.name).await.map_err(|e| Renewal::Failed(e.into()))?;
                let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
                if holder != self.0.options.identity {
                    self.0.holder.lock().clone_from(&holder);
                    return Err(Renewal::Taken(holder));
                }
                self.replace(&self.renewed(lease)).await.map_err(Renewal::Failed)?
            }
            Err(Failure::NotFound(_)) => self.create().await.map_err(Renewal::Failed)?,
            Err(failure) => return Err(Renewal::Failed(failure)),
        };
        *self.0.held.lock() = Some(written);
        Ok(())
    }

    /// The Lease with this process as its holder.
    fn renewed(&self, mut lease: Lease) -> Lease {
        let (now, options) = (MicroTime(self.0.seam.clock.wall()), &self.0.options);
        self.annotate(&mut lease.metadata);
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&options.identity) {
            spec.holder_identity = Some(options.identity.clone());
            spec.acquire_time = Some(now.clone());
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or_default().saturating_add(1));
        }
        spec.renew_time = Some(now);
        spec.lease_duration_seconds = Some(seconds(options.lease_duration));
        lease
    }

    fn annotate(&self, metadata: &mut ObjectMeta) {
        for (key, value) in &self.0.options.annotations {
            match value {
                Some(value) => {
                    drop(metadata.annotations.get_or_insert_default().insert((*key).to_owned(), value.clone()))
                }
                None => drop(metadata.annotations.as_mut().and_then(|all| all.remove(*key))),
            }
        }
    }

    async fn create(&self) -> Result<Lease, Failure> {
        let (now, options) = (MicroTime(self.0.seam.clock.wall()), &self.0.options);
        let mut metadata = ObjectMeta { name: Some(options.name.clone()), ..ObjectMeta::default() };
        self.annotate(&mut metadata);
        let lease = Lease {
            metadata,
            spec: Some(LeaseSpec {
                holder_identity: Some(options.identity.clone()),
                lease_duration_seconds: Some(seconds(options.lease_duration)),
                acquire_time: Some(now.clone()),
                renew_time: Some(now),
                lease_transitions: Some(0),
                ..LeaseSpec::default()
            }),
        };
        Ok(self.0.api.create(&params(), &lease).await?)
    }

    /// Writes it, provided that it is still the version from which it was made.
    async fn replace(&self, lease: &Lease) -> Result<Lease, Failure> {
        Ok(self.0.api.replace(&lease.name_any(), &params(), lease).await?)
    }
}

impl fmt::Debug for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector")
            .field("options", &self.0.options)
            .field("leads", &self.leads())
            .finish_non_exhaustive()
    }
}

fn params() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

/// Whole seconds, rounded up, so that no process takes over early.
fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis().div_ceil(1_000)).unwrap_or(i32::MAX)
}

/// Reason of a failed renewal.
enum Renewal {
    /// Another process holds the Lease.
    Taken(String),
    /// A retry may succeed.
    Failed(Failure),
}

/// Reason of the end of a term.
enum Lost {
    Taken(String),
    NotRenewed(Duration),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(by) if by.is_empty() => f.write_str("the lease was taken away"),
            Self::Taken(by) => write!(f, "{by} holds the lease"),
            Self::NotRenewed(deadline) => write!(f, "the lease could not be renewed for {deadline:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradicting_times_are_refused() {
        let options = |lease: u64, renew: u64, retry: u64| LeaderOptions {
            lease_duration: Duration::from_secs(lease),
            renew_deadline: Duration::from_secs(renew),
            retry_period: Duration::from_secs(retry),
            ..LeaderOptions::new("me")
        };
        for (name, options, sound) in [
            ("as it comes", LeaderOptions::new("me"), true),
            ("the lease as long as the deadline", options(10, 10, 2), false),
            ("the deadline as long as the period", options(15, 2, 2), false),
            ("no period", options(15, 10, 0), false),
            ("just so", options(3, 2, 1), true),
            ("no lease at all", options(0, 0, 0), false),
        ] {
            assert_eq!(options.check().is_ok(), sound, "{name}: {:?}", options.check());
        }
        assert_eq!(seconds(Duration::from_millis(1_001)), 2);
    }
}
