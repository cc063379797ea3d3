//! Autoscalers with the same target: the first one works (specification/autoscaling.md 6.10).

use std::{fmt, sync::Arc};

use ironclad_api::{ObjectMeta, Time, autoscaling::FederatedHPA};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use crate::distributed_hpa::scaler::Scaler;

/// Autoscaler with a target that another one has, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rival {
    /// True for one that members run, false for a FederatedHPA.
    pub distributed: bool,
    /// Its kind, if it is neither a FederatedHPA nor a HorizontalPodAutoscaler.
    pub other_kind: Option<Arc<str>>,
    pub name: String,
    /// Its creation.
    pub created: Option<Time>,
}

impl From<&HorizontalPodAutoscaler> for Rival {
    fn from(hpa: &HorizontalPodAutoscaler) -> Self {
        Self::of(true, &hpa.metadata)
    }
}

impl From<&Scaler> for Rival {
    fn from(scaler: &Scaler) -> Self {
        let other_kind = (!scaler.kind.is_hpa()).then(|| scaler.kind.gvk.kind.clone());
        Self { other_kind, ..Self::of(true, &scaler.hpa.metadata) }
    }
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.distributed { "HorizontalPodAutoscaler" } else { "FederatedHPA" };
        write!(f, "{} {}", self.other_kind.as_deref().unwrap_or(kind), self.name)
    }
}

impl From<&FederatedHPA> for Rival {
    fn from(hpa: &FederatedHPA) -> Self {
        Self::of(false, &hpa.metadata)
    }
}

impl Rival {
    fn of(distributed: bool, metadata: &ObjectMeta) -> Self {
        let name = metadata.name.clone().unwrap_or_default();
        Self { distributed, other_kind: None, name, created: metadata.creation_timestamp.clone() }
    }

    /// Order among autoscalers of one target: by creation, then by name; of two with one name the FederatedHPA first.
    /// Those of other kinds come last, since the others do not look at them.
    fn rank(&self) -> (Option<&str>, Option<&Time>, &str, bool) {
        (self.other_kind.as_deref(), self.created.as_ref(), &self.name, self.distributed)
    }

    /// Returns true if this one works and the other one does not.
    #[must_use]
    pub fn precedes(&self, other: &Self) -> bool {
        self.rank() < other.rank()
    }

    /// Returns the one that works instead of this one, if there is any.
    #[must_use]
    pub fn superior<'a>(&self, others: &'a [Self]) -> Option<&'a Self> {
        others.iter().filter(|other| other.precedes(self)).min_by_key(|other| other.rank())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn rival(distributed: bool, name: &str, second: i64) -> Rival {
        let created = Some(Time(Timestamp::from_second(second).unwrap()));
        Rival { distributed, other_kind: None, name: name.to_owned(), created }
    }

    #[test]
    fn of_two_autoscalers_exactly_one_works() {
        for (name, central, distributed, central_works) in [
            ("the FederatedHPA is older", ("b", 1), ("a", 2), true),
            ("the HorizontalPodAutoscaler is older", ("a", 2), ("b", 1), false),
            ("of one second: the first by name is a FederatedHPA", ("a", 1), ("b", 1), true),
            ("of one second: the first by name is a HorizontalPodAutoscaler", ("b", 1), ("a", 1), false),
            ("of one second and name: the FederatedHPA", ("a", 1), ("a", 1), true),
        ] {
            let (central, distributed) =
                (rival(false, central.0, central.1), rival(true, distributed.0, distributed.1));
            let works = (
                central.superior(std::slice::from_ref(&distributed)).is_none(),
                distributed.superior(std::slice::from_ref(&central)).is_none(),
            );
            assert_eq!(works, (central_works, !central_works), "{name}");
        }
        let keda = Rival { other_kind: Some("ScaledObject".into()), ..rival(true, "a", 0) };
        for first in [rival(true, "z", 9), rival(false, "z", 9)] {
            assert!(first.precedes(&keda) && !keda.precedes(&first), "other kinds come last");
        }
        assert_eq!(keda.to_string(), "ScaledObject a");
        let own = rival(true, "own", 5);
        assert_eq!(own.superior(&[]), None);
        let others = [rival(true, "b", 3), rival(false, "c", 2), rival(true, "later", 9)];
        assert_eq!(own.superior(&others), Some(&others[1]), "the first of all");
    }
}
