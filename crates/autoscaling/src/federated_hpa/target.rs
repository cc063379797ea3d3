//! Reasons why a round ends before it decides (specification/autoscaling.md 2.2).

use ironclad_api::{events, labels};
use ironclad_hpa::Plan;
use jiff::{SignedDuration, Timestamp};

use crate::distributed_hpa::{PLACED_WITHIN, state};

/// Reason why the target could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// `scaleTargetRef.apiVersion` is none.
    ApiVersion(String),
    /// A distributed HorizontalPodAutoscaler of this name has the same target, and works instead.
    Rival(String),
    /// The template does not exist, or was not read.
    Template(String),
    /// The template has no scale that could be read.
    Scale(String),
    /// There is no binding of the template.
    Binding(String),
    /// The binding names no clusters.
    Clusters,
    /// None of the clusters can be asked. Each has its reason.
    Reachable(Vec<(String, String)>),
}

impl Unread {
    /// Time for which a target without a place is no problem: the object was applied together with it and its policy.
    pub fn patience(&self, created: Option<Timestamp>, now: Timestamp) -> Option<SignedDuration> {
        let has_no_place = matches!(self, Self::Binding(_) | Self::Clusters);
        created.filter(|_| has_no_place).and_then(|created| state::left(created, PLACED_WITHIN, now))
    }

    /// Returns the plan: a condition and an event, and nothing is scaled. `current` are the replicas, if they are
    /// known.
    pub fn plan(&self, current: Option<i32>) -> Plan {
        let (condition, event, message) = match self {
            Self::ApiVersion(why) | Self::Scale(why) => return Plan::without_scale(current, why),
            Self::Rival(name) => {
                let message = format!(
                    "HorizontalPodAutoscaler {name} is older and has the members scale the same target: delete one of \
                     them, or take the label {} off it",
                    labels::FEDERATED_HPA_ENABLED
                );
                (events::CONFLICTING_AUTOSCALER, events::CONFLICTING_AUTOSCALER, message)
            }
            Self::Template(why) => {
                let message = format!("the HPA controller was unable to get the target: {why}");
                (events::FAILED_GET_SCALE_TARGET_REF, events::FAILED_GET_SCALE_TARGET_REF, message)
            }
            Self::Binding(why) => {
                let message = format!("the HPA controller was unable to get the binding of the target: {why}");
                ("FailedGetBinding", events::FAILED_GET_BINDINGS, message)
            }
            Self::Clusters => {
                let message = "the binding of the target names no clusters: it has not been scheduled".to_owned();
                (events::FAILED_GET_TARGET_CLUSTERS, events::FAILED_GET_TARGET_CLUSTERS, message)
            }
            Self::Reachable(clusters) => {
                let each: Vec<String> = clusters.iter().map(|(name, why)| format!("{name}: {why}")).collect();
                let message = format!("none of the target's clusters can be asked: {}", each.join("; "));
                (events::NO_REACHABLE_CLUSTER, events::NO_REACHABLE_CLUSTER, message)
            }
        };
        Plan::ended(current, condition, event, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_may_come_later() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (name, unread, second, want) in [
            ("no binding yet", Unread::Binding(String::new()), 3, Some(7)),
            ("not scheduled yet", Unread::Clusters, 3, Some(7)),
            ("it lasts", Unread::Clusters, 10, None),
            ("a problem that does not pass", Unread::Scale(String::new()), 3, None),
        ] {
            assert_eq!(unread.patience(Some(at(0)), at(second)), want.map(SignedDuration::from_secs), "{name}");
        }
    }

    #[test]
    fn reasons() {
        let why = || "it is gone".to_owned();
        for (unread, condition, event) in [
            (Unread::ApiVersion(why()), "FailedGetScale", "FailedGetScale"),
            (Unread::Rival("web".to_owned()), "ConflictingAutoscaler", "ConflictingAutoscaler"),
            (Unread::Template(why()), "FailedGetScaleTargetRef", "FailedGetScaleTargetRef"),
            (Unread::Scale(why()), "FailedGetScale", "FailedGetScale"),
            (Unread::Binding(why()), "FailedGetBinding", "FailedGetBindings"),
            (Unread::Clusters, "FailedGetTargetClusters", "FailedGetTargetClusters"),
            (Unread::Reachable(vec![("m1".into(), why())]), "NoReachableCluster", "NoReachableCluster"),
        ] {
            let plan = unread.plan(Some(3));
            let able = plan.conditions.able.clone().unwrap();
            assert_eq!((able.holds, able.reason, plan.events[0].reason), (false, condition, event));
            assert!(!plan.rescales() && !plan.is_complete && plan.error.is_some(), "{unread:?}");
        }
        let plan = Unread::Reachable(vec![("m1".into(), "not ready".into()), ("m2".into(), why())]).plan(None);
        assert_eq!(plan.error.unwrap(), "none of the target's clusters can be asked: m1: not ready; m2: it is gone");
    }
}
