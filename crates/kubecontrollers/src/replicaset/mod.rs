//! ReplicaSets: pods by number.

mod decide;

pub(crate) use decide::{Counts, wanted};
