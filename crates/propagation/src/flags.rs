//! The flags of the road (operations.md 8.1, propagation.md 30).

use crate::detect::Skipped;

/// What the flags say; the default is the reference's.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--skipped-propagating-apis` and `--skipped-propagating-namespaces`.
    pub skipped: Skipped,
}
