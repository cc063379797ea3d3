//! Nothing is visible before it is durable: blocked commits, dropped callers, failing backends.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use ironclad_store::{
    Backend, BackendError, BackendStats, Compare, Loaded, MemoryBackend, Op, Query, Record, Revision, StoreError,
    TxnResult, limits,
    testing::{FailurePoint, FaultyBackend},
};
use parking_lot::{Condvar, Mutex};

use crate::support::{chain, inline, now, poll, put, rev, threaded, txn, words};

struct Gated<B> {
    inner: B,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    /// Number of commits that reached the gate, and `true` if it is open.
    state: Mutex<(u64, bool)>,
    changed: Condvar,
}

impl Gate {
    fn open(&self) {
        self.state.lock().1 = true;
        self.changed.notify_all();
    }

    /// Waits until the backend received this many commits.
    fn arrived(&self, commits: u64) {
        let mut state = self.state.lock();
        while state.0 < commits {
            self.changed.wait(&mut state);
        }
    }
}

impl<B: Backend> Backend for Gated<B> {
    fn load(&mut self) -> Result<Loaded, BackendError> {
        self.inner.load()
    }

    fn commit(&mut self, group: &[Record]) -> Result<(), BackendError> {
        let mut state = self.gate.state.lock();
        state.0 += 1;
        self.gate.changed.notify_all();
        while !state.1 {
            self.gate.changed.wait(&mut state);
        }
        drop(state);
        self.inner.commit(group)
    }

    fn compact(&mut self, server: &str, floor: Revision) -> Result<(), BackendError> {
        self.inner.compact(server, floor)
    }

    fn stats(&self) -> BackendStats {
        self.inner.stats()
    }
}

fn gated<B: Backend>(inner: B) -> (Gated<B>, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    (Gated { inner, gate: gate.clone() }, gate)
}

fn once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn pending_writes_are_visible_to_conditions_only() {
    let (backend, gate) = gated(MemoryBackend::default());
    let engine = threaded(backend);
    let store = engine.store("plane");
    let mut watch = store.watch("", rev(1)).unwrap();
    let create = |value: &'static str| store.txn(vec![Compare::absent("/a")], vec![Op::put("/a", value)]);
    let (mut first, mut second) = (Box::pin(create("first")), Box::pin(create("second")));
    let mut nothing = Box::pin(store.txn(vec![Compare::modified("/a", rev(2))], vec![]));
    assert!(once(&mut first).is_pending());
    gate.arrived(1);
    assert!(once(&mut second).is_pending(), "its answer depends on a pending write");
    assert!(once(&mut nothing).is_pending(), "so does the answer of a transaction without changes");
    assert_eq!((store.get("/a"), store.revision()), (None, rev(1)), "readers see nothing");
    assert!(poll(&mut watch).is_none(), "watchers see nothing");
    let elsewhere = now(store.txn(vec![Compare::modified("/b", rev(1))], vec![])).unwrap();
    assert_eq!(
        elsewhere,
        TxnResult::Failed { current: vec![None], revision: rev(1) },
        "other keys are answered immediately"
    );
    gate.open();
    assert_eq!(first.await.unwrap(), TxnResult::Done { revision: rev(2) });
    let entry = store.get("/a");
    assert_eq!(entry.as_ref().unwrap().value, "first");
    assert_eq!(second.await.unwrap(), TxnResult::Failed { current: vec![entry], revision: rev(2) });
    assert_eq!(nothing.await.unwrap(), TxnResult::Done { revision: rev(2) });
    assert_eq!(store.revision(), rev(2));
}

#[tokio::test]
async fn writes_queued_during_a_commit_form_one_group() {
    let (backend, gate) = gated(MemoryBackend::default());
    let engine = threaded(backend);
    let (plane, member) = (engine.store("plane"), engine.store("member1"));
    let mut writes = vec![Box::pin(plane.txn(vec![], vec![Op::put("/first", "x")]))];
    assert!(once(&mut writes[0]).is_pending());
    gate.arrived(1);
    for i in 0..100 {
        let store = if i % 2 == 0 { &plane } else { &member };
        let mut write = Box::pin(store.txn(vec![], vec![Op::put("/a", i.to_string())]));
        assert!(once(&mut write).is_pending());
        writes.push(write);
    }
    gate.open();
    for write in writes {
        assert!(write.await.unwrap().done().is_some());
    }
    let stats = engine.stats();
    assert_eq!((stats.groups, stats.transactions, stats.largest_group), (2, 101, 100));
    assert_eq!((plane.revision(), member.revision()), (rev(52), rev(51)));
}

#[tokio::test]
async fn dropping_the_caller_does_not_cancel_its_write() {
    let (backend, gate) = gated(MemoryBackend::default());
    let engine = threaded(backend);
    let store = engine.store("plane");
    let mut watch = store.watch("", rev(1)).unwrap();
    let mut write = Box::pin(store.txn(vec![], vec![Op::put("/a", "1"), Op::put("/b", "1")]));
    assert!(once(&mut write).is_pending());
    drop(write);
    let never_polled = store.txn(vec![], vec![Op::put("/c", "1")]);
    drop(never_polled);
    gate.open();
    assert_eq!(watch.next().await.unwrap().unwrap().events().len(), 2);
    assert_eq!(words(&store, &Query::prefix("")), "/a=1 /b=1", "all of it or nothing");
    // The next write of the same keys sees it.
    assert_eq!(store.put("/a", "2").await.unwrap(), rev(3));
}

#[test]
fn dropping_an_inline_caller_writes_all_or_nothing() {
    let engine = inline(MemoryBackend::default());
    let store = engine.store("plane");
    drop(store.txn(vec![], vec![Op::put("/a", "1")]));
    assert_eq!(store.revision(), rev(1));
    let mut write = Box::pin(store.txn(vec![], vec![Op::put("/a", "1"), Op::put("/b", "1")]));
    assert!(once(&mut write).is_ready(), "one poll completes the write");
    drop(write);
    assert_eq!(words(&store, &Query::prefix("")), "/a=1 /b=1");
}

#[tokio::test]
async fn a_full_queue_makes_writers_wait_in_order() {
    let (backend, gate) = gated(MemoryBackend::default());
    let engine = threaded(backend);
    let store = engine.store("plane");
    let value = bytes::Bytes::from(vec![0; limits::VALUE_BYTES_MAX]);
    let heavy = |name: u64| {
        let ops = (0..10).map(|i| Op::put(format!("/{name}/{i}"), value.clone())).collect();
        Box::pin(store.txn(vec![], ops))
    };
    let mut accepted: Vec<_> = (0..4).map(heavy).collect();
    for write in &mut accepted {
        assert!(once(write).is_pending());
    }
    let (mut leaves, mut stays) = (heavy(8), heavy(9));
    assert!(once(&mut leaves).is_pending() && once(&mut stays).is_pending());
    drop(leaves);
    gate.open();
    for write in accepted {
        assert!(write.await.unwrap().done().is_some());
    }
    assert_eq!(stays.await.unwrap(), TxnResult::Done { revision: rev(6) });
    assert_eq!(store.get("/8/0"), None, "a writer that stopped waiting wrote nothing");
}

#[tokio::test]
async fn closing_finishes_what_was_accepted() {
    let (backend, gate) = gated(MemoryBackend::default());
    let kept = backend.inner.clone();
    let engine = threaded(backend);
    let store = engine.store("plane");
    let mut writes: Vec<_> =
        (0..10).map(|i| Box::pin(store.txn(vec![], vec![Op::put(format!("/{i}"), "x")]))).collect();
    for write in &mut writes {
        assert!(once(write).is_pending());
    }
    gate.open();
    engine.close();
    for write in &mut writes {
        assert!(matches!(once(write), Poll::Ready(Ok(_))));
    }
    assert!(matches!(store.put("/late", "x").await, Err(StoreError::Closed)));
    assert_eq!(inline(kept).store("plane").len(), 10);
}

#[tokio::test]
async fn a_failed_backend_stops_writes_and_publishes_nothing_of_the_group() {
    let (backend, gate) = gated(FaultyBackend::new(MemoryBackend::default(), 0, FailurePoint::After));
    let engine = threaded(backend);
    let store = engine.store("plane");
    let mut watch = store.watch("", rev(1)).unwrap();
    let mut first = Box::pin(store.txn(vec![], vec![Op::put("/a", "1")]));
    assert!(once(&mut first).is_pending());
    gate.arrived(1);
    let mut queued = Box::pin(store.txn(vec![Compare::modified("/a", rev(2))], vec![Op::put("/a", "2")]));
    assert!(once(&mut queued).is_pending());
    gate.open();
    for error in [first.await.unwrap_err(), queued.await.unwrap_err(), store.put("/b", "1").await.unwrap_err()] {
        assert_eq!(
            chain(&error),
            "the store no longer takes writes since its backend failed; reads go on; remove the cause and start the \
             process again: reading or writing data directory (faulty): check its disk, then start the process again: \
             Input/output error (os error 5)"
        );
    }
    assert_eq!((store.revision(), store.len()), (rev(1), 0), "reads go on, as before the group");
    assert!(poll(&mut watch).is_none());
    assert!(matches!(engine.refuses_writes(), Some(StoreError::ReadOnly { .. })));
}

#[test]
fn a_write_with_a_lost_answer_is_complete_after_the_restart() {
    for (moment, want) in [(FailurePoint::Before, "/a=1"), (FailurePoint::After, "/a=2 /b=2")] {
        let kept = MemoryBackend::default();
        put(&inline(kept.clone()).store("plane"), "/a", "1");
        let engine = inline(FaultyBackend::new(kept.clone(), 0, moment));
        let store = engine.store("plane");
        assert!(txn(&store, vec![], vec![Op::put("/a", "2"), Op::put("/b", "2")]).is_err());
        assert_eq!(words(&store, &Query::prefix("")), "/a=1", "{moment:?}");
        assert_eq!(words(&inline(kept).store("plane"), &Query::prefix("")), want, "{moment:?}");
    }
}

struct Panicking(MemoryBackend);

impl Backend for Panicking {
    fn load(&mut self) -> Result<Loaded, BackendError> {
        self.0.load()
    }

    fn commit(&mut self, _group: &[Record]) -> Result<(), BackendError> {
        panic!("on purpose")
    }

    fn compact(&mut self, server: &str, floor: Revision) -> Result<(), BackendError> {
        self.0.compact(server, floor)
    }

    fn stats(&self) -> BackendStats {
        self.0.stats()
    }
}

#[tokio::test]
async fn a_panic_of_the_backend_is_treated_as_a_failure() {
    let engine = threaded(Panicking(MemoryBackend::default()));
    let store = engine.store("plane");
    for _ in 0..2 {
        let error = store.put("/a", "1").await.unwrap_err();
        assert!(chain(&error).ends_with("on purpose"), "{}", chain(&error));
    }
    assert_eq!(store.len(), 0);
}
