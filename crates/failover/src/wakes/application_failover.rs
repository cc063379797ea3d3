//! Wake rules of the application failover controller: the spec of a binding, and the reports about its copies.

use ironclad_api::work::{AggregatedStatusItem, ResourceBindingSpec, ResourceBindingStatus};

/// Spec and status of a binding.
pub type Parts<'a> = (&'a ResourceBindingSpec, Option<&'a ResourceBindingStatus>);

/// Consequence of a change of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// True if it asks for application failover now, and did before.
    pub asking: Asking,
    /// True if it has to be reconciled.
    pub look: bool,
}

/// True if a binding asks for application failover, compared to before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// It did not before: earlier failures do not count.
    Begins,
    /// It does, as before; or it was so when it was seen first.
    Goes,
    /// It does not, or was deleted.
    Not,
}

/// Classifies the change of a binding from `old` to `new`; `remembered`: state about its copies exists and can be
/// dropped.
#[must_use]
pub fn turn(old: Option<Parts<'_>>, new: Option<Parts<'_>>, remembered: bool) -> Turn {
    let asks = |(spec, _): Parts<'_>| spec.failover.as_ref().is_some_and(|failover| failover.application.is_some());
    let Some(new) = new.filter(|new| asks(*new)) else { return Turn { asking: Asking::Not, look: remembered } };
    match old {
        None => Turn { asking: Asking::Goes, look: true },
        Some(old) if !asks(old) => Turn { asking: Asking::Begins, look: true },
        Some(old) => Turn { asking: Asking::Goes, look: old.0 != new.0 || reported(old) != reported(new) },
    }
}

fn reported<'a>((_, status): Parts<'a>) -> &'a [AggregatedStatusItem] {
    status.map(|status| status.aggregated_status.as_slice()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use ironclad_api::{
        policy::{ApplicationFailoverBehavior, FailoverBehavior},
        work::ResourceHealth,
    };

    use super::*;
    use crate::testkit::{line, spec};

    #[test]
    fn relevant_changes_of_bindings_are_detected() {
        use Asking::{Begins, Goes, Not};
        let plain = spec(&[("m1", 2)], vec![]);
        let mut asks = plain.clone();
        asks.failover =
            Some(FailoverBehavior { application: Some(ApplicationFailoverBehavior::default()), cluster: None }.into());
        let mut moved = asks.clone();
        moved.clusters.clear();
        let lines = |health| ResourceBindingStatus {
            aggregated_status: vec![line("m1", health, 1)],
            ..ResourceBindingStatus::default()
        };
        let (well, ill) = (lines(ResourceHealth::Healthy), lines(ResourceHealth::Unhealthy));
        let scheduled = ResourceBindingStatus { scheduler_observed_generation: 2, ..well.clone() };
        for (name, old, new, remembered, asking, look) in [
            (
                "application failover was never configured",
                Some((&plain, Some(&well))),
                Some((&plain, Some(&ill))),
                false,
                Not,
                false,
            ),
            ("created without application failover", None, Some((&plain, None)), false, Not, false),
            (
                "created with application failover: configured at an unknown time",
                None,
                Some((&asks, Some(&ill))),
                false,
                Goes,
                true,
            ),
            (
                "application failover is added",
                Some((&plain, Some(&ill))),
                Some((&asks, Some(&ill))),
                false,
                Begins,
                true,
            ),
            (
                "no relevant field changes",
                Some((&asks, Some(&well))),
                Some((&asks, Some(&scheduled))),
                true,
                Goes,
                false,
            ),
            ("a copy becomes unhealthy", Some((&asks, Some(&well))), Some((&asks, Some(&ill))), false, Goes, true),
            ("the status is removed", Some((&asks, Some(&ill))), Some((&asks, None)), true, Goes, true),
            ("the spec changes", Some((&asks, Some(&ill))), Some((&moved, Some(&ill))), true, Goes, true),
            ("application failover is removed", Some((&asks, Some(&ill))), Some((&plain, Some(&ill))), true, Not, true),
            (
                "application failover is removed and nothing is remembered",
                Some((&asks, None)),
                Some((&plain, None)),
                false,
                Not,
                false,
            ),
            ("deleted", Some((&asks, Some(&ill))), None, true, Not, true),
            ("deleted and nothing is remembered", Some((&asks, Some(&well))), None, false, Not, false),
        ] {
            assert_eq!(turn(old, new, remembered), Turn { asking, look }, "{name}");
        }
    }
}
