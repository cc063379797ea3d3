//! Wake rules of the dependencies distributor.

use ironclad_api::finalizers;

use crate::detector::binding::Binding;

/// Returns true if this change of a binding may change its attached bindings.
#[must_use]
pub fn binding(old: Option<Binding<'_>>, new: Binding<'_>) -> bool {
    let concerned = |binding: Binding<'_>| {
        let list = binding.metadata().finalizers.iter().flatten();
        binding.spec().propagate_deps || list.into_iter().any(|f| f == finalizers::BINDING_DEPENDENCIES_DISTRIBUTOR)
    };
    let moved = old.is_none_or(|old| {
        old.metadata().generation != new.metadata().generation || old.is_deleting() != new.is_deleting()
    });
    moved && (concerned(new) || old.is_some_and(concerned))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testkit::{self, patched};

    #[test]
    fn binding_changes_that_count() {
        let with = |generation: i64, deps: bool, finalizer: bool| {
            let list = if finalizer { vec![finalizers::BINDING_DEPENDENCIES_DISTRIBUTOR] } else { vec![] };
            patched(
                &testkit::binding(&[]),
                &json!({"metadata": {"generation": generation, "finalizers": list}, "spec": {"propagateDeps": deps}}),
            )
        };
        for (name, old, new, want) in [
            ("a new one that takes dependencies along", None, with(1, true, false), true),
            ("a new one that does not", None, with(1, false, false), false),
            ("a status", Some(with(1, true, false)), with(1, true, false), false),
            ("an edit", Some(with(1, true, false)), with(2, true, false), true),
            ("switched off", Some(with(1, true, false)), with(2, false, false), true),
            ("one that has something to release, after a restart", None, with(2, false, true), true),
        ] {
            let old = old.as_ref().map(Binding::from);
            assert_eq!(binding(old, Binding::from(&new)), want, "{name}");
        }
        let going = patched(&with(1, true, true), &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        assert!(binding(Some(Binding::from(&with(1, true, true))), Binding::from(&going)), "one being deleted");
    }
}
