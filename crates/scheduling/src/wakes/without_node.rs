//! Wake rules of the controller of preemptors whose pods have no node.

use std::time::Duration;

use ironclad_fleet::BindingRef;

use crate::{
    preempt::{Mode, may_preempt},
    without_node::{CHECKED_AGAIN, SETTLES, names, present},
};

/// Returns the time after which to decide on a changed binding; `None` if the change does not matter.
#[must_use]
pub fn binding(old: Option<BindingRef<'_>>, new: BindingRef<'_>, mode: Mode) -> Option<Duration> {
    match old {
        // Of an earlier process: the pods of all members are not listed yet.
        None => present(new).map(|_| CHECKED_AGAIN),
        Some(old) => {
            let may = may_preempt(new, mode);
            let changed = may != may_preempt(old, mode) || (may && names(old).ne(names(new)));
            changed.then_some(SETTLES)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::preemptor;

    #[test]
    fn changes_of_bindings_that_matter() {
        let moved = preemptor(&[("m2", 3)], "");
        let scaled = preemptor(&[("m1", 4)], "");
        let mut never = preemptor(&[("m1", 3)], "");
        never.spec.schedule_priority = None;
        for (name, old, new, want) in [
            ("found with the condition", None, preemptor(&[("m1", 3)], "m1: old"), Some(CHECKED_AGAIN)),
            ("found without it", None, preemptor(&[("m1", 3)], ""), None),
            ("moved", Some(preemptor(&[("m1", 3)], "")), moved, Some(SETTLES)),
            ("scaled", Some(preemptor(&[("m1", 3)], "")), scaled, None),
            ("may preempt no more", Some(preemptor(&[("m1", 3)], "")), never.clone(), Some(SETTLES)),
            ("may preempt now", Some(never.clone()), preemptor(&[("m1", 3)], ""), Some(SETTLES)),
            ("may not", Some(never.clone()), never, None),
        ] {
            let old = old.as_ref().map(BindingRef::from);
            assert_eq!(binding(old, BindingRef::from(&new), Mode::Evict), want, "{name}");
        }
    }
}
