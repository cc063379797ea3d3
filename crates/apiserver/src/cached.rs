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
        let newest = |read: &Option<(u64, Arc<T>)>| {
            // A value read after this load is at least as new as the counted change.
            let at = self.changes.load(Ordering::Acquire);
            read.as_ref().filter(|(was, _)| *was == at).map(|(_, value)| value.clone()).ok_or(at)
        };
        if let Ok(value) = newest(&self.read.read()) {
            return value;
        }
        // Of many that find it old, one reads it and the others wait.
        let mut held = self.read.write();
        match newest(&held) {
            Ok(value) => value,
            Err(at) => {
                let value = Arc::new(read());
                *held = Some((at, value.clone()));
                value
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicUsize, thread, time::Duration};

    use super::*;

    #[test]
    fn one_of_many_reads_a_changed_value() {
        let (cached, reads) = (Cached::<usize>::default(), AtomicUsize::new(0));
        let get = || {
            *cached.get(|| {
                thread::sleep(Duration::from_millis(50));
                reads.fetch_add(1, Ordering::Relaxed) + 1
            })
        };
        for want in 1..=3 {
            thread::scope(|scope| {
                let all: Vec<_> = (0..8).map(|_| scope.spawn(get)).collect();
                assert!(all.into_iter().all(|one| one.join().unwrap() == want));
            });
            cached.changed();
        }
    }
}
