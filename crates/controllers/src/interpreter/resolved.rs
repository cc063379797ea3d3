//! The result of a decision that may have needed answers of webhooks.

use ironclad_runtime::Next;

/// A plan, and whether a call that it needed failed.
pub(crate) struct Resolved<T> {
    pub(crate) plan: T,
    pub(crate) retry: Retry,
}

/// Retry, because a webhook that failed may answer then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retry(pub(super) bool);

impl Retry {
    /// The next step of a reconciler that otherwise would take `next`.
    pub(crate) fn next(self, next: Next) -> Next {
        match next {
            Next::Forget if self.0 => Next::Retry,
            next => next,
        }
    }
}
