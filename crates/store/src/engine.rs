//! Engine of a process: its servers, the queue of accepted transactions, and the committer.

use std::{
    collections::BTreeMap,
    fmt, io,
    sync::Arc,
    thread::{self, JoinHandle},
};

use ironclad_seam::Clock;
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot},
    time::Instant,
};

use crate::{
    Backend, BackendStats, Commit, Compare, Loaded, LoadedServer, Op, OpenError, Options, Snapshot, Store, StoreError,
    TxnResult,
    backup::ServerState,
    group::{Committer, Item, Queue},
    limits,
    overlay::{Outcome, Overlay},
    space::Space,
    store::Server,
};

/// Owner of the backend, the committer and all servers of a process. Cheap to clone.
///
/// When the last clone and the last [`Store`] are dropped, or at [`Engine::close`], accepted transactions are finished
/// and the backend is released.
#[derive(Clone)]
pub struct Engine(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    mode: Commit,
    thread: Mutex<Option<JoinHandle<()>>>,
}

pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) committer: Mutex<Committer>,
    /// Free capacity of the queue, in KiB.
    queue_capacity: Arc<Semaphore>,
    servers: Mutex<Servers>,
    pub(crate) clock: Clock,
}

#[derive(Default)]
struct Servers {
    open: BTreeMap<String, Arc<Server>>,
    /// Servers that were loaded and not opened yet.
    loaded: Loaded,
}

/// Figures of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Groups committed.
    pub groups: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// Transactions in the largest group.
    pub largest_group: u64,
    /// The backend's own figures.
    pub backend: BackendStats,
}

impl Engine {
    /// Loads the backend's state and starts the committer.
    ///
    /// # Errors
    /// The backend cannot be read, or the thread cannot be started.
    pub fn open(mut backend: Box<dyn Backend>, mode: Commit, clock: Clock) -> Result<Self, OpenError> {
        let loaded = backend.load()?;
        let shared = Arc::new(Shared {
            queue: Queue::default(),
            committer: Mutex::new(Committer::new(backend, &loaded)),
            queue_capacity: Arc::new(Semaphore::new(kib(limits::QUEUE_BYTES_MAX) as usize)),
            servers: Mutex::new(Servers { open: BTreeMap::new(), loaded }),
            clock,
        });
        let thread = match mode {
            Commit::Inline => None,
            Commit::Thread => Some(start_committer(shared.clone()).map_err(OpenError::Thread)?),
        };
        Ok(Self(Arc::new(Handle { shared, mode, thread: Mutex::new(thread) })))
    }

    /// The server of this name, with the default [`Options`]. A new one begins empty, at [`Revision::FIRST`].
    ///
    /// [`Revision::FIRST`]: crate::Revision::FIRST
    pub fn store(&self, server: &str) -> Store {
        Store::new(self.clone(), self.0.shared.server(server, None))
    }

    /// Opens a server with these options, which apply to everyone who has it open.
    pub fn store_with(&self, server: &str, options: Options) -> Store {
        Store::new(self.clone(), self.0.shared.server(server, Some(options)))
    }

    /// Names of all servers, including those that were not opened yet.
    pub fn servers(&self) -> Vec<String> {
        let servers = self.0.shared.servers.lock();
        let mut names: Vec<_> = servers.open.keys().chain(servers.loaded.keys()).cloned().collect();
        names.sort();
        names
    }

    /// Captures all servers at one moment between two groups: it contains every write that was acknowledged before, and
    /// no partial transaction. Waits while a group is committed. Values are shared, not copied.
    pub fn snapshot(&self) -> Snapshot {
        let shared = &self.0.shared;
        // Transactions are published only under this lock.
        let _committer = shared.committer.lock();
        let servers = shared.servers.lock();
        let open = servers.open.iter().map(|(name, server)| {
            let space = server.space.read();
            ServerState { name: name.clone(), revision: space.revision(), entries: space.entries() }
        });
        let loaded = servers.loaded.iter().map(|(name, server)| ServerState {
            name: name.clone(),
            revision: server.revision,
            entries: server.head.clone(),
        });
        Snapshot::new(open.chain(loaded).collect())
    }

    /// Figures for metrics and benches. Waits while a group is committed.
    pub fn stats(&self) -> EngineStats {
        self.0.shared.committer.lock().stats()
    }

    /// Reason why writes are refused, if they are: [`StoreError::ReadOnly`] or [`StoreError::Closed`].
    pub fn refuses_writes(&self) -> Option<StoreError> {
        self.0.shared.queue.refusal()
    }

    /// Finishes accepted transactions, refuses later ones, ends all watches and releases the backend. Blocks until the
    /// last groups are committed. Reads continue to work.
    pub fn close(&self) {
        self.0.close();
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.shared.clock
    }

    /// Runs a checked transaction whose changes are in key order.
    pub(crate) async fn txn(
        &self,
        server: &Arc<Server>,
        compares: &[Compare],
        ops: Vec<Op>,
        bytes: usize,
    ) -> Result<TxnResult, StoreError> {
        let shared = &self.0.shared;
        let permit = match self.0.mode {
            // The queue stays empty in this mode.
            Commit::Inline => None,
            // The semaphore is closed: the queue knows why.
            Commit::Thread => shared.queue_capacity.clone().acquire_many_owned(kib(bytes)).await.ok(),
        };
        let mut answer = match shared.submit(server, compares, ops, bytes, permit)? {
            Submitted::Known(result) => return Ok(result),
            Submitted::Queued(answer) => answer,
        };
        match self.0.mode {
            Commit::Inline => {
                // Afterwards the transaction was committed, by this caller or on another thread.
                shared.commit_all();
                answer.try_recv().unwrap_or(Err(StoreError::Closed))
            }
            Commit::Thread => answer.await.unwrap_or(Err(StoreError::Closed)),
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("mode", &self.0.mode).finish_non_exhaustive()
    }
}

impl Handle {
    fn close(&self) {
        self.shared.queue.close();
        self.shared.queue_capacity.close();
        match self.thread.lock().take() {
            // The last handle can be dropped by a task that the committer itself woke.
            Some(thread) if thread.thread().id() == thread::current().id() => {}
            Some(thread) => {
                // A panic of the backend was already reported as a failure.
                let _ = thread.join();
            }
            None => self.shared.commit_all(),
        }
        let mut wake = Vec::new();
        for server in self.shared.servers.lock().open.values() {
            server.space.write().hub.close(&mut wake);
        }
        self.shared.committer.lock().release();
        for waker in wake {
            waker.wake();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

enum Submitted {
    Known(TxnResult),
    Queued(oneshot::Receiver<Result<TxnResult, StoreError>>),
}

impl Shared {
    fn server(&self, name: &str, options: Option<Options>) -> Arc<Server> {
        let mut servers = self.servers.lock();
        if let Some(server) = servers.open.get(name) {
            if let Some(options) = options {
                server.space.write().set_options(options);
            }
            return server.clone();
        }
        let loaded = servers.loaded.remove(name);
        let server = Arc::new(Server::new(name, loaded, options.unwrap_or_default(), self.clock.mono()));
        servers.open.insert(name.to_owned(), server.clone());
        server
    }

    /// Checks the conditions and takes revision and queue position under one lock.
    fn submit(
        &self,
        server: &Arc<Server>,
        compares: &[Compare],
        ops: Vec<Op>,
        bytes: usize,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Submitted, StoreError> {
        let mut overlay = server.overlay.lock();
        if let Some(refusal) = self.queue.refusal() {
            return Err(refusal);
        }
        let outcome = overlay.evaluate(&server.space.read(), compares, ops);
        let (answer, answered) = oneshot::channel();
        let (transaction, result) = match outcome {
            Outcome::Known(result) => return Ok(Submitted::Known(result)),
            Outcome::AfterPending(result) => (None, result),
            Outcome::Change(transaction) => {
                let result = TxnResult::Done { revision: transaction.revision };
                (Some(Arc::new(transaction)), result)
            }
        };
        let item = Item { server: server.clone(), transaction: transaction.clone(), bytes, result, answer, permit };
        self.queue.push(item)?;
        if let Some(transaction) = transaction {
            overlay.accept(&transaction);
        }
        Ok(Submitted::Queued(answered))
    }
}

impl Server {
    fn new(name: &str, loaded: Option<LoadedServer>, options: Options, now: Instant) -> Self {
        let space = Space::new(loaded, options, now);
        Self {
            name: name.into(),
            overlay: Mutex::new(Overlay::new(space.revision())),
            space: RwLock::new(space),
            published: Notify::new(),
        }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the committer: an fsync blocks, and tokio's threads must not; the simulation commits inline"
)]
fn start_committer(shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("store-committer".into()).spawn(move || shared.run_committer())
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024).max(1)).unwrap_or(u32::MAX)
}
