//! Taints of a Cluster: identity, `timeAdded` and validation
//! (specification/failover.md 1.6, 1.7).
//!
//! [`by_condition`] decides on the automatic ones, [`owners`] says which are a policy's. Which workloads a taint moves
//! is not here.

pub mod by_condition;
pub mod owners;
mod validate;

use std::fmt;

use ironclad_api::{
    Taint, Time,
    cluster::Cluster,
    taints::{NO_EXECUTE, PREFER_NO_EXECUTE},
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use by_condition::{ByCondition, wanted};
pub use owners::Owners;
pub(crate) use validate::validate_parts;
pub use validate::{EFFECTS, validate};

/// Identity of a taint in a cluster: there is at most one of each (specification/failover.md 2.5).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaintId {
    pub key: String,
    pub effect: String,
}

impl TaintId {
    /// From its parts.
    #[must_use]
    pub fn new(key: &str, effect: &str) -> Self {
        Self { key: key.to_owned(), effect: effect.to_owned() }
    }

    /// Key and effect of this taint.
    #[must_use]
    pub fn of(taint: &Taint) -> Self {
        Self::new(&taint.key, &taint.effect)
    }

    /// True if the taint is this one, whatever its value.
    #[must_use]
    pub fn is(&self, taint: &Taint) -> bool {
        taint.key == self.key && taint.effect == self.effect
    }
}

impl fmt::Display for TaintId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.key, self.effect)
    }
}

/// True if a taint can move what runs already: NoExecute and PreferNoExecute can.
#[must_use]
pub fn evicts(taint: &Taint) -> bool {
    matches!(taint.effect.as_str(), NO_EXECUTE | PREFER_NO_EXECUTE)
}

/// True if a cluster is faulty in the sense of failover: it has a taint that [`evicts`].
#[must_use]
pub fn is_faulty(cluster: &Cluster) -> bool {
    cluster.spec.taints.iter().any(evicts)
}

/// Taints to store: each that [`evicts`] has a `timeAdded`, since tolerations count from it. One that
/// existed before keeps its time, also if the writer omitted it; a new one gets `now` (whole seconds). `None` if
/// nothing is missing. For every writer and for admission.
#[must_use]
pub fn stamped(taints: &[Taint], existing: &[Taint], now: Timestamp) -> Option<Vec<Taint>> {
    let missing = |taint: &Taint| evicts(taint) && taint.time_added.is_none();
    if !taints.iter().any(missing) {
        return None;
    }
    let stamp = |taint: &Taint| {
        if !missing(taint) {
            return taint.clone();
        }
        let before = existing.iter().find(|old| TaintId::of(taint).is(old));
        let since = before.and_then(|old| old.time_added.clone()).unwrap_or(Time(now));
        Taint { time_added: Some(since), ..taint.clone() }
    };
    Some(taints.iter().map(stamp).collect())
}

/// The merge patch that gives a cluster these taints and owners, as far as they differ; `None` if they don't. To be
/// sent on condition that the cluster is still the one seen, or another writer's taint is lost.
#[must_use]
pub fn patch(cluster: &Cluster, taints: &[Taint], owners: &Owners) -> Option<Value> {
    let mut patch = Map::new();
    if taints != cluster.spec.taints {
        let list = if taints.is_empty() { Value::Null } else { json!(taints) };
        patch.insert("spec".to_owned(), json!({ "taints": list }));
    }
    if let Some(annotation) = owners.change_for(cluster) {
        patch.insert("metadata".to_owned(), json!({ "annotations": annotation }));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Event message after a change of taints: upstream's text.
#[must_use]
pub fn message(taints: &[Taint]) -> String {
    let one = |taint: &Taint| match taint.value.as_deref().filter(|value| !value.is_empty()) {
        Some(value) => format!("{{Key:{},Value:{value},Effect:{}}}", taint.key, taint.effect),
        None => format!("{{Key:{},Effect:{}}}", taint.key, taint.effect),
    };
    let all: Vec<String> = taints.iter().map(one).collect();
    if all.is_empty() {
        "Taint cluster succeed: cluster now does not have taints.".to_owned()
    } else {
        format!("Taint cluster succeed: cluster now has taints([{}]).", all.join(","))
    }
}

/// Event message after a failed change of taints.
#[must_use]
pub fn failure_message(error: &impl fmt::Display) -> String {
    format!("Taint cluster failed: {error}")
}

#[cfg(test)]
mod tests {
    use ironclad_api::taints::NO_SCHEDULE;

    use super::*;
    use crate::testkit::{at, cluster, taint};

    #[test]
    fn time_added_is_set_once() {
        let (old, new) = (Some(Time(at(5))), Some(Time(at(9))));
        let none = |key: &str, effect: &str| taint(key, effect, None);
        for (name, written, existing, want) in [
            ("NoSchedule has no time", none("a", NO_SCHEDULE), none("b", NO_EXECUTE), None),
            ("NoExecute gets one", none("a", NO_EXECUTE), none("b", NO_EXECUTE), Some(new.clone())),
            ("and PreferNoExecute", none("a", PREFER_NO_EXECUTE), none("b", NO_EXECUTE), Some(new.clone())),
            ("a given time is kept", taint("a", NO_EXECUTE, Some(3)), taint("a", NO_EXECUTE, Some(5)), None),
            ("an existing taint keeps its time", none("a", NO_EXECUTE), taint("a", NO_EXECUTE, Some(5)), Some(old)),
            (
                "another effect is another taint",
                none("a", NO_EXECUTE),
                taint("a", PREFER_NO_EXECUTE, Some(5)),
                Some(new),
            ),
        ] {
            let got = stamped(&[written], &[existing], at(9)).map(|taints| taints[0].time_added.clone());
            assert_eq!(got, want, "{name}");
        }
        let value = Taint { value: Some("v".into()), ..none("a", NO_EXECUTE) };
        let kept = stamped(&[value], &[taint("a", NO_EXECUTE, Some(5))], at(9)).unwrap();
        assert_eq!(kept[0].time_added, Some(Time(at(5))), "another value does not restart the clock");
    }

    #[test]
    fn evicting_taints_make_a_cluster_faulty() {
        for (effect, want) in [(NO_SCHEDULE, false), (NO_EXECUTE, true), (PREFER_NO_EXECUTE, true)] {
            let mut cluster = cluster("m1");
            assert!(!is_faulty(&cluster));
            cluster.spec.taints = vec![taint("a", effect, None)];
            assert_eq!(is_faulty(&cluster), want, "{effect}");
        }
    }

    #[test]
    fn messages_list_key_value_and_effect() {
        let valued = Taint { value: Some("v".to_owned()), ..taint("k", NO_SCHEDULE, None) };
        assert_eq!(message(&[]), "Taint cluster succeed: cluster now does not have taints.");
        let text = "Taint cluster succeed: cluster now has taints([{Key:k,Effect:NoSchedule},{Key:k,Value:v,Effect:NoSchedule}]).";
        assert_eq!(message(&[taint("k", NO_SCHEDULE, None), valued]), text);
        assert_eq!(failure_message(&"no"), "Taint cluster failed: no");
        assert_eq!(TaintId::new("k", NO_EXECUTE).to_string(), "k:NoExecute");
    }

    #[test]
    fn patches_contain_only_changes() {
        let mut cluster = cluster("m1");
        let mut owners = Owners::of(&cluster);
        assert_eq!(patch(&cluster, &[], &owners), None);
        owners.add(&TaintId::new("a", NO_EXECUTE), "p");
        let both = patch(&cluster, &[taint("a", NO_EXECUTE, Some(1))], &owners).unwrap();
        let want = json!({
            "spec": { "taints": [{ "key": "a", "effect": "NoExecute", "timeAdded": "1970-01-01T00:00:01Z" }] },
            "metadata": { "annotations": { "policy.karmada.io/taint-owners": "{\"a:NoExecute\":[\"p\"]}" } },
        });
        assert_eq!(both, want);
        cluster.spec.taints = vec![taint("a", NO_EXECUTE, Some(1))];
        let removed = json!({ "spec": { "taints": null } });
        assert_eq!(patch(&cluster, &[], &Owners::default()), Some(removed));
    }
}
