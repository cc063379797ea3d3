//! Decision of the remedy controller: the actions that Remedies ask of a cluster in its present condition
//! (specification/remedy.md).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{
    cluster::Cluster,
    conditions::{self, cluster},
    events::REMEDY_ACTIONS_CHANGED,
    remedy::{ClusterConditionOperator, DecisionMatch, Remedy, TRAFFIC_CONTROL},
};
use ironclad_fleet::{Event, Plan, StatusPart, cluster_reference};
use serde_json::{Map, json};

/// Conditions of Clusters that somebody is known to write.
const KNOWN_CONDITIONS: [&str; 4] = [
    cluster::READY,
    cluster::COMPLETE_API_ENABLEMENTS,
    cluster::NODES_READY,
    cluster::SERVICE_DOMAIN_NAME_RESOLUTION_READY,
];

/// Snapshot of one cluster.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The cluster, with status parts that wait to be written.
    pub cluster: &'a Cluster,
    /// All Remedies, in order of their names.
    pub remedies: &'a [Arc<Remedy>],
}

/// Report in the status of the cluster, or event about it.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Status(StatusPart),
    Event(Event),
}

/// Sets `status.remedyActions`. A cluster that is being deleted keeps its actions.
pub fn decide(seen: &Seen<'_>) -> Plan<Effect> {
    let mut plan = Plan::default();
    let cluster = seen.cluster;
    if cluster.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let asked = asked(cluster, seen.remedies);
    let wanted: Vec<&String> = asked.keys().collect();
    let present = cluster.status.as_ref().map(|status| status.remedy_actions.as_slice()).unwrap_or_default();
    if wanted.iter().copied().eq(present) {
        return plan;
    }
    let fields = Map::from_iter([("remedyActions".to_owned(), json!(wanted))]);
    plan.effects.push(Effect::Status(StatusPart { fields, ..StatusPart::default() }));
    if present.iter().collect::<BTreeSet<_>>() != wanted.iter().copied().collect() {
        let message =
            if asked.is_empty() { "no Remedy asks for an action any more".to_owned() } else { explained(&asked) };
        plan.effects.push(Effect::Event(Event::normal(cluster_reference(cluster), REMEDY_ACTIONS_CHANGED, message)));
    }
    plan
}

/// The actions that are asked of a cluster, each with the Remedies that ask it, and why.
#[must_use]
pub fn asked(cluster: &Cluster, remedies: &[Arc<Remedy>]) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for remedy in remedies {
        let Some(why) = matches(cluster, remedy) else { continue };
        let name = remedy.metadata.name.as_deref().unwrap_or_default();
        for action in &remedy.spec.actions {
            all.entry(action.clone()).or_default().insert(format!("Remedy {name} ({why})"));
        }
    }
    all
}

/// These actions and why, for people.
#[must_use]
pub fn explained(asked: &BTreeMap<String, BTreeSet<String>>) -> String {
    let one = |(action, by): (&String, &BTreeSet<String>)| {
        format!("{action}: asked by {}", by.iter().cloned().collect::<Vec<_>>().join(" and "))
    };
    asked.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The reason why a Remedy concerns a cluster now; `None` if it does not.
fn matches(cluster: &Cluster, remedy: &Remedy) -> Option<String> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let selects = |names: &[String]| names.iter().any(|one| one == name);
    if remedy.metadata.deletion_timestamp.is_some()
        || remedy.spec.cluster_affinity.as_ref().is_some_and(|affinity| !selects(&affinity.cluster_names))
    {
        return None;
    }
    // An empty list selects nothing, unlike an absent one.
    let Some(list) = &remedy.spec.decision_matches else { return Some("always".to_owned()) };
    list.iter().find_map(|entry| holds(cluster, entry))
}

fn holds(cluster: &Cluster, entry: &DecisionMatch) -> Option<String> {
    let wanted = entry.cluster_condition_match.as_ref()?;
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let condition = conditions::get(conditions, &wanted.condition_type)?;
    let is_equal = condition.status == wanted.condition_status;
    let holds = match wanted.operator {
        ClusterConditionOperator::Equal => is_equal,
        ClusterConditionOperator::NotEqual => !is_equal,
    };
    holds.then(|| {
        let since = condition.last_transition_time.0;
        format!("{} is {} since {since:.0}", condition.type_, condition.status)
    })
}

/// Warnings about a Remedy that is written, for people.
#[must_use]
pub fn warnings(remedy: &Remedy) -> Vec<String> {
    let mut all = Vec::new();
    let matches = remedy.spec.decision_matches.as_deref();
    if matches.is_some_and(<[DecisionMatch]>::is_empty) {
        all.push("spec.decisionMatches is an empty list, which never matches: leave it out to act always".to_owned());
    }
    for (i, entry) in matches.unwrap_or_default().iter().enumerate() {
        let at = format!("spec.decisionMatches[{i}].clusterConditionMatch");
        match &entry.cluster_condition_match {
            None => all.push(format!("{at} is absent, so this entry never matches: name a condition")),
            Some(wanted) if !KNOWN_CONDITIONS.contains(&wanted.condition_type.as_str()) => all.push(format!(
                "{at}.conditionType names {:?}, which this control plane does not write: it matches once somebody does",
                wanted.condition_type
            )),
            Some(_) => {}
        }
    }
    for (i, action) in remedy.spec.actions.iter().enumerate().filter(|(_, action)| *action != TRAFFIC_CONTROL) {
        all.push(format!(
            "spec.actions[{i}] is {action:?}, on which nothing acts: the known action is {TRAFFIC_CONTROL}"
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn cluster(conditions: &[(&str, &str)], actions: &[&str]) -> Cluster {
        let list: Vec<Value> = conditions
            .iter()
            .map(|(type_, status)| {
                json!({"type": type_, "status": status, "reason": "", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": "m1", "uid": "u"}, "spec": {"syncMode": "Push"},
            "status": {"conditions": list, "remedyActions": actions},
        }))
        .unwrap()
    }

    fn remedy(name: &str, spec: Value) -> Arc<Remedy> {
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap())
    }

    #[test]
    fn actions_are_the_union_of_what_matching_remedies_ask() {
        let when = |type_: &str, operator: &str, status: &str| json!({"clusterConditionMatch": {"conditionType": type_, "operator": operator, "conditionStatus": status}});
        let dns = "ServiceDomainNameResolutionReady";
        let act = json!(["TrafficControl"]);
        for (name, spec, want) in [
            ("without matches: always", json!({"actions": act}), true),
            ("an empty list of matches: never", json!({"actions": act, "decisionMatches": []}), false),
            ("the condition", json!({"actions": act, "decisionMatches": [when(dns, "Equal", "False")]}), true),
            ("another status", json!({"actions": act, "decisionMatches": [when(dns, "Equal", "True")]}), false),
            ("not equal", json!({"actions": act, "decisionMatches": [when(dns, "NotEqual", "True")]}), true),
            ("not equal, equal", json!({"actions": act, "decisionMatches": [when(dns, "NotEqual", "False")]}), false),
            (
                "an absent condition",
                json!({"actions": act, "decisionMatches": [when("Other", "NotEqual", "True")]}),
                false,
            ),
            ("an entry without condition", json!({"actions": act, "decisionMatches": [{}]}), false),
            ("any of them", json!({"actions": act, "decisionMatches": [{}, when(dns, "Equal", "False")]}), true),
            ("its cluster", json!({"actions": act, "clusterAffinity": {"clusterNames": ["m0", "m1"]}}), true),
            ("other clusters", json!({"actions": act, "clusterAffinity": {"clusterNames": ["m2"]}}), false),
            ("no clusters", json!({"actions": act, "clusterAffinity": {}}), false),
            ("no action", json!({}), false),
        ] {
            let cluster = cluster(&[(dns, "False"), ("Ready", "True")], &[]);
            let found = asked(&cluster, &[remedy("r", spec)]);
            assert_eq!(found.contains_key("TrafficControl"), want, "{name}");
        }
    }

    #[test]
    fn the_status_is_written_when_the_set_changes_and_told_once() {
        let remedies = [
            remedy("b", json!({"actions": ["TrafficControl", "Other"]})),
            remedy("a", json!({"actions": ["TrafficControl"]})),
        ];
        let run = |cluster: &Cluster, remedies: &[Arc<Remedy>]| decide(&Seen { cluster, remedies }).effects;
        let effects = run(&cluster(&[], &[]), &remedies);
        let [Effect::Status(part), Effect::Event(event)] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!(json!(part.fields), json!({"remedyActions": ["Other", "TrafficControl"]}));
        assert_eq!(
            event.message,
            "Other: asked by Remedy b (always); TrafficControl: asked by Remedy a (always) and Remedy b (always)"
        );
        assert_eq!(run(&cluster(&[], &["Other", "TrafficControl"]), &remedies), []);
        let effects = run(&cluster(&[], &["TrafficControl", "Other"]), &remedies);
        assert!(matches!(effects.as_slice(), [Effect::Status(_)]), "another order: {effects:?}");
        let effects = run(&cluster(&[], &["TrafficControl"]), &[]);
        let [Effect::Status(part), Effect::Event(event)] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!(
            (json!(part.fields), event.message.as_str()),
            (json!({"remedyActions": []}), "no Remedy asks for an action any more")
        );
        let mut leaving = cluster(&[], &["TrafficControl"]);
        leaving.metadata.deletion_timestamp = Some(ironclad_api::Time("2026-01-01T00:00:00Z".parse().unwrap()));
        assert_eq!(run(&leaving, &[]), [], "its actions stay");
    }

    #[test]
    fn what_can_not_be_meant_is_warned_of() {
        let when = |type_: &str| json!({"clusterConditionMatch": {"conditionType": type_, "operator": "Equal", "conditionStatus": "False"}});
        let act = json!(["TrafficControl"]);
        for (name, spec, want) in [
            ("nothing", json!({"actions": act, "decisionMatches": [when("Ready")]}), None),
            ("an empty list", json!({"decisionMatches": []}), Some("spec.decisionMatches is an empty list")),
            ("an empty entry", json!({"decisionMatches": [{}]}), Some("[0].clusterConditionMatch is absent")),
            ("its own condition", json!({"decisionMatches": [when("Rainy")]}), Some("conditionType names \"Rainy\"")),
            ("its own action", json!({"actions": ["Dance"]}), Some("spec.actions[0] is \"Dance\"")),
        ] {
            let found = warnings(&remedy("r", spec));
            assert_eq!(found.len(), usize::from(want.is_some()), "{name}: {found:?}");
            assert!(want.is_none_or(|want| found[0].contains(want)), "{name}: {found:?}");
        }
    }
}
