//! HorizontalPodAutoscalers of the control plane that do not do what their author expects
//! (specification/autoscaling.md 1.3, 5).

use std::fmt;

use ironclad_api::{StringMap, labels};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use crate::distributed_hpa::{decides_in_members, state, target_key};

/// Time that an author has for applying the other objects.
pub const IDLE_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Answer about one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Fine,
    /// Nothing yet: look again after this time.
    Later(SignedDuration),
    /// It runs nowhere.
    NotRun,
    /// Members run it, and the copies of its target get the template's replicas again and again.
    Undone {
        /// The target.
        target: String,
    },
}

/// Snapshot of one object.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub hpa: &'a HorizontalPodAutoscaler,
    /// True if it has a binding: a policy, or what depends on it, brings it to members.
    pub is_propagated: bool,
    /// Labels of its target, if that is a template.
    pub target: Option<&'a StringMap>,
    pub now: Timestamp,
}

/// Decides what is to be said.
#[must_use]
pub fn verdict(seen: Seen<'_>) -> Verdict {
    let metadata = &seen.hpa.metadata;
    if decides_in_members(seen.hpa) || metadata.deletion_timestamp.is_some() {
        return Verdict::Fine;
    }
    let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
    if let Some(left) = created.and_then(|created| state::left(created, IDLE_AFTER, seen.now)) {
        return Verdict::Later(left);
    }
    let retains = |labels: &StringMap| labels.get(labels::RETAIN_REPLICAS).is_some_and(|value| value == labels::TRUE);
    match (seen.is_propagated, seen.target) {
        (false, _) => Verdict::NotRun,
        (true, Some(target)) if !retains(target) => Verdict::Undone { target: target_key(seen.hpa).to_string() },
        (true, _) => Verdict::Fine,
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fine | Self::Later(_) => f.write_str("nothing to say"),
            Self::NotRun => write!(
                f,
                "nobody runs it: the control plane has no pods, and no policy propagates it. Label it {}=true, and members run \
                 it with shares of its bounds; or select it in a PropagationPolicy, and each member runs it as it is",
                labels::FEDERATED_HPA_ENABLED
            ),
            Self::Undone { target } => write!(
                f,
                "members run it, but {target} lacks the label {}=true: its copies get the template's replicas again whenever \
                 they are written. Set the label on the template, or switch controller hpaScaleTargetMarker on",
                labels::RETAIN_REPLICAS
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_said_about_autoscalers() {
        let hpa = |metadata: serde_json::Value| -> HorizontalPodAutoscaler {
            let mut all = json!({"name": "web", "namespace": "shop", "creationTimestamp": "1970-01-01T00:00:00Z"});
            all.as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
            let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
            serde_json::from_value(json!({"metadata": all, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}))
                .unwrap()
        };
        let labels = |text: &str| StringMap::from([(labels::RETAIN_REPLICAS.to_owned(), text.to_owned())]);
        let undone = || Verdict::Undone { target: "Deployment shop/web".to_owned() };
        let enabled = || json!({"labels": {"federatedhpa.karmada.io/enabled": "true"}});
        let off = || json!({"labels": {"federatedhpa.karmada.io/enabled": "yes"}});
        for (name, metadata, is_propagated, target, second, want) in [
            ("neither labelled nor propagated", json!({}), false, None, 60, Verdict::NotRun),
            ("its policy may still come", json!({}), false, None, 50, Verdict::Later(SignedDuration::from_secs(10))),
            ("labelled", enabled(), false, None, 600, Verdict::Fine),
            ("labelled wrongly", off(), false, None, 600, Verdict::NotRun),
            ("it goes", json!({"deletionTimestamp": "1970-01-01T00:00:00Z"}), false, None, 600, Verdict::Fine),
            ("propagated, and so is what it scales", json!({}), true, Some(labels("true")), 600, Verdict::Fine),
            ("propagated, and its replicas are undone", json!({}), true, Some(StringMap::new()), 600, undone()),
            ("the label says no", json!({}), true, Some(labels("false")), 600, undone()),
            ("the target is no template", json!({}), true, None, 600, Verdict::Fine),
        ] {
            let now = Timestamp::from_second(second).unwrap();
            let hpa = hpa(metadata);
            assert_eq!(verdict(Seen { hpa: &hpa, is_propagated, target: target.as_ref(), now }), want, "{name}");
        }
        assert!(Verdict::NotRun.to_string().contains("federatedhpa.karmada.io/enabled=true"));
        assert!(
            undone()
                .to_string()
                .contains("Deployment shop/web lacks the label resourcetemplate.karmada.io/retain-replicas")
        );
    }
}
