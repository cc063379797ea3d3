//! Makers for the tests: engines without a thread, and futures that must not wait.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

use ironclad_seam::Clock;
use ironclad_store::{
    Backend, Batch, Commit, Compare, Engine, Lagged, MemoryBackend, Op, Query, Revision, Store, StoreError, TxnResult,
    Watch,
};

pub(crate) fn rev(number: u64) -> Revision {
    Revision::new(number).unwrap()
}

pub(crate) fn inline(backend: impl Backend + 'static) -> Engine {
    Engine::open(Box::new(backend), Commit::Inline, Clock::system()).unwrap()
}

pub(crate) fn threaded(backend: impl Backend + 'static) -> Engine {
    Engine::open(Box::new(backend), Commit::Thread, Clock::system()).unwrap()
}

pub(crate) fn memory() -> Store {
    inline(MemoryBackend::default()).store("plane")
}

/// The answer of a future that must not have to wait.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it waits"),
    }
}

/// Polls a watch once; `None` if it has nothing yet.
pub(crate) fn poll(watch: &mut Watch) -> Option<Option<Result<Batch, Lagged>>> {
    match watch.poll_next(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// Revisions that a watch delivers without waiting.
pub(crate) fn drain(watch: &mut Watch) -> Vec<u64> {
    let mut revisions = Vec::new();
    while let Some(Some(Ok(batch))) = poll(watch) {
        revisions.push(batch.revision().get());
    }
    revisions
}

pub(crate) fn txn(store: &Store, compares: Vec<Compare>, ops: Vec<Op>) -> Result<TxnResult, StoreError> {
    now(store.txn(compares, ops))
}

pub(crate) fn put(store: &Store, key: &str, value: &str) -> Revision {
    now(store.put(key, value.to_owned())).unwrap()
}

pub(crate) fn delete(store: &Store, key: &str) -> Revision {
    txn(store, vec![], vec![Op::delete(key)]).unwrap().done().unwrap()
}

/// Keys and values of a range, as `key=value` words.
pub(crate) fn words(store: &Store, query: &Query<'_>) -> String {
    let range = store.range(query).unwrap();
    let word = |(key, entry): &(ironclad_store::Key, ironclad_store::Entry)| {
        format!("{key}={}", String::from_utf8_lossy(&entry.value))
    };
    range.entries.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// An error with all its causes, as a person sees it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
