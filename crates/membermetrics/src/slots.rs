//! Answers that are being waited for or may be used again, by request.

use std::{collections::BTreeMap, future::Future, sync::Arc};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The most requests of one member that are remembered.
const SLOTS_MAX: usize = 1_024;

type Pending<T> = Shared<BoxFuture<'static, Kept<T>>>;

/// An answer with the time until which it may be used again; `None` if it may not.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    pub(crate) answer: Result<Arc<T>, String>,
    pub(crate) until: Option<Instant>,
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self { answer: self.answer.clone(), until: self.until }
    }
}

enum Slot<T> {
    Pending(Pending<T>),
    Kept(Kept<T>),
}

/// Origin of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// It was kept.
    Cache,
    /// The same request was under way.
    Pending,
    /// The member was asked.
    Member,
}

/// The answers of one kind from one member.
pub(crate) struct Slots<T>(Mutex<BTreeMap<String, Slot<T>>>);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Send + Sync + 'static> Slots<T> {
    /// Returns the answer to a request: a kept one, that of the same request under way, or that of a new one.
    pub(crate) async fn get<F>(
        &self,
        request: &str,
        now: Instant,
        ask: impl FnOnce() -> F,
    ) -> (Result<Arc<T>, String>, Origin)
    where
        F: Future<Output = Kept<T>> + Send + 'static,
    {
        let (pending, origin) = {
            let mut slots = self.0.lock();
            match slots.get(request) {
                Some(Slot::Kept(kept)) if kept.until.is_some_and(|until| now < until) => {
                    return (kept.answer.clone(), Origin::Cache);
                }
                Some(Slot::Pending(pending)) => (pending.clone(), Origin::Pending),
                _ => {
                    if slots.len() >= SLOTS_MAX {
                        let valid = |slot: &Slot<T>| match slot {
                            Slot::Pending(_) => true,
                            Slot::Kept(kept) => kept.until.is_some_and(|until| now < until),
                        };
                        slots.retain(|_, slot| valid(slot));
                    }
                    if slots.len() >= SLOTS_MAX {
                        slots.clear();
                    }
                    let pending = ask().boxed().shared();
                    slots.insert(request.to_owned(), Slot::Pending(pending.clone()));
                    (pending, Origin::Member)
                }
            }
        };
        let kept = pending.clone().await;
        let mut slots = self.0.lock();
        if matches!(slots.get(request), Some(Slot::Pending(other)) if other.ptr_eq(&pending)) {
            match kept.until {
                Some(_) => slots.insert(request.to_owned(), Slot::Kept(kept.clone())),
                None => slots.remove(request),
            };
        }
        (kept.answer, origin)
    }
}
