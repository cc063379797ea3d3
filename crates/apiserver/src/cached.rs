//! A value that is read from the store once, and again after its source changed.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::RwLock;

/// A value with the number of the change that it was read after.
#[derive(Debug)]
pub(crate) struct Cached<T> {
    changes: AtomicU64,
    read: RwLock<Option<(u64, Arc<T>)>>,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self { changes: AtomicU64::new(0), read: RwLock::new(None) }
    }
}

impl<T> Cached<T> {
    /// The source of the value was written.
    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// The value; `read` makes it if it is older than the last change.
    pub(crate) fn get(&self, read: impl FnOnce() -> T) -> Arc<T> {
        // A value read after this load is at least as new as the counted change.
        let at = self.changes.load(Ordering::Acquire);
        if let Some((was, value)) = &*self.read.read()
            && *was == at
        {
            return value.clone();
        }
        let value = Arc::new(read());
        *self.read.write() = Some((at, value.clone()));
        value
    }
}
