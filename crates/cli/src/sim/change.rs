//! Changes that each verb makes to the spec of a SimulatedCluster (specification/api.md 11.8).

use ironclad_api::{
    LabelSelector, LabelSelectorRequirement, Quantity, ResourceList, StringMap,
    sim::{Faults, Flap, SimulatedClusterSpec, Slow, UsageRule},
};
use ironclad_patch::selector::{LabelSelector as Text, Operator};

/// Change of a member.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Stop it: its server does not answer, and its controllers do not run.
    Down,
    /// Remove all its faults.
    Up,
    /// Stop and start it in turns.
    Flap(Flap),
    /// Delay every answer.
    Slow(Slow),
    /// Cut it off from the control plane; it keeps running.
    Partition,
    /// Set the usage that its metrics API reports for these pods. It replaces a rule for exactly the same pods.
    Load(UsageRule),
    /// Remove all usage that was set.
    Unload,
    /// Set number, capacity and labels of its nodes; values that are not given stay.
    Nodes {
        /// Number of nodes, if it changes.
        count: Option<i32>,
        /// Capacity of each that changes.
        capacity: ResourceList,
        /// Labels of each that change.
        labels: StringMap,
    },
}

impl Action {
    /// The confirmation, such as `is down`.
    #[must_use]
    pub fn said(&self) -> String {
        match self {
            Self::Down => "is down".to_owned(),
            Self::Up => "is up".to_owned(),
            Self::Flap(flap) => format!("flaps: {} up, {} down", flap.up, flap.down),
            Self::Slow(slow) => format!("answers {} later", slow.latency),
            Self::Partition => "is cut off from the control plane".to_owned(),
            Self::Load(rule) => {
                let amount = |name: &str, q: &Option<Quantity>| q.as_ref().map(|q| format!("{name} {}", q.0));
                let amounts: Vec<_> =
                    [amount("cpu", &rule.cpu), amount("memory", &rule.memory)].into_iter().flatten().collect();
                format!("reports {} for each pod{}", amounts.join(" and "), whose(rule))
            }
            Self::Unload => "reports idle pods".to_owned(),
            Self::Nodes { .. } => "has the nodes asked for".to_owned(),
        }
    }

    /// The spec after the change.
    #[must_use]
    pub fn on(&self, spec: &SimulatedClusterSpec) -> SimulatedClusterSpec {
        let mut spec = spec.clone();
        match self {
            Self::Down => spec.faults.down = true,
            Self::Up => spec.faults = Faults::default(),
            Self::Flap(flap) => spec.faults.flap = Some(flap.clone()),
            Self::Slow(slow) => spec.faults.slow = Some(slow.clone()),
            Self::Partition => spec.faults.partition = true,
            Self::Load(rule) => {
                // The last rule that matches wins: the new one goes to the end.
                spec.usage.retain(|r| r.namespace != rule.namespace || r.selector != rule.selector);
                spec.usage.push(rule.clone());
            }
            Self::Unload => spec.usage.clear(),
            Self::Nodes { count, capacity, labels } => {
                spec.nodes = count.unwrap_or(spec.nodes);
                spec.capacity.extend(capacity.clone());
                spec.node_labels.extend(labels.clone());
            }
        }
        spec
    }
}

fn whose(rule: &UsageRule) -> String {
    let mut text = String::new();
    if !rule.namespace.is_empty() {
        text += &format!(" of namespace {}", rule.namespace);
    }
    if rule.selector.is_some() {
        text += " with these labels";
    }
    text
}

/// Summary of a member's faults; `-` if there are none.
#[must_use]
pub fn faults(faults: &Faults) -> String {
    let mut said = Vec::new();
    if faults.down {
        said.push("down".to_owned());
    }
    if faults.partition {
        said.push("partition".to_owned());
    }
    if let Some(slow) = &faults.slow {
        said.push(format!("slow {}", slow.latency));
    }
    if let Some(flap) = &faults.flap {
        said.push(format!("flap {}/{}", flap.up, flap.down));
    }
    if said.is_empty() { "-".to_owned() } else { said.join(", ") }
}

/// Parses a selector in the format of kubectl (`app=web,tier in (a,b)`).
///
/// # Errors
/// The problem.
pub fn selector(text: &str) -> Result<LabelSelector, String> {
    let parsed = Text::parse(text).map_err(|e| e.to_string())?;
    let mut out = LabelSelector::default();
    for requirement in parsed.requirements {
        let mut values: Vec<String> = requirement.values.into_iter().collect();
        let operator = match requirement.operator {
            Operator::Equals | Operator::In if values.len() == 1 => {
                out.match_labels.get_or_insert_default().insert(requirement.key, values.remove(0));
                continue;
            }
            Operator::Equals | Operator::In => "In",
            Operator::NotEquals | Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::GreaterThan | Operator::LessThan => return Err("labels can't be compared by size".to_owned()),
        };
        out.match_expressions.get_or_insert_default().push(LabelSelectorRequirement {
            key: requirement.key,
            operator: operator.to_owned(),
            values: (!values.is_empty()).then_some(values),
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(namespace: &str, app: Option<&str>, cpu: &str) -> UsageRule {
        UsageRule {
            namespace: namespace.into(),
            selector: app.map(|app| selector(&format!("app={app}")).unwrap()),
            cpu: Some(Quantity(cpu.into())),
            memory: None,
        }
    }

    #[test]
    fn faults_are_combined_until_cleared() {
        let mut spec = SimulatedClusterSpec { nodes: 3, ..SimulatedClusterSpec::default() };
        for (action, want) in [
            (Action::Slow(Slow { latency: "250ms".into() }), "slow 250ms"),
            (Action::Partition, "partition, slow 250ms"),
            (Action::Flap(Flap { up: "2m".into(), down: "30s".into() }), "partition, slow 250ms, flap 2m/30s"),
            (Action::Down, "down, partition, slow 250ms, flap 2m/30s"),
            (Action::Up, "-"),
        ] {
            spec = action.on(&spec);
            assert_eq!(faults(&spec.faults), want, "{action:?}");
        }
        assert_eq!(spec.nodes, 3);
    }

    #[test]
    fn load_rules_are_replaced_or_appended() {
        let mut spec = SimulatedClusterSpec::default();
        for (name, action, want) in [
            ("the first", Action::Load(rule("", None, "1")), vec!["1"]),
            ("a rule for the same pods replaces the old one", Action::Load(rule("", None, "2")), vec!["2"]),
            ("a rule for other pods is appended", Action::Load(rule("shop", Some("web"), "3")), vec!["2", "3"]),
            ("the newest rule is last because the last one applies", Action::Load(rule("", None, "4")), vec!["3", "4"]),
            ("none", Action::Unload, vec![]),
        ] {
            spec = action.on(&spec);
            let cpus: Vec<_> = spec.usage.iter().map(|r| r.cpu.clone().unwrap().0).collect();
            assert_eq!(cpus, want, "{name}");
        }
    }

    #[test]
    fn only_given_fields_of_nodes_change() {
        let quantity = |text: &str| Quantity(text.to_owned());
        let spec = SimulatedClusterSpec {
            nodes: 3,
            capacity: [("cpu".to_owned(), quantity("8")), ("pods".to_owned(), quantity("110"))].into(),
            ..SimulatedClusterSpec::default()
        };
        let capacity = [("cpu".to_owned(), quantity("2"))].into();
        let after = Action::Nodes { count: None, capacity, labels: StringMap::new() }.on(&spec);
        assert_eq!(
            (after.nodes, &after.capacity["cpu"], &after.capacity["pods"]),
            (3, &quantity("2"), &quantity("110"))
        );
        let after = Action::Nodes { count: Some(5), capacity: ResourceList::new(), labels: StringMap::new() }.on(&spec);
        assert_eq!((after.nodes, after.capacity), (5, spec.capacity));
    }

    #[test]
    fn selectors() {
        let labels = |text| selector(text).unwrap().match_labels.unwrap_or_default();
        assert_eq!(labels("app=web,tier==a").len(), 2);
        let expressions = selector("tier in (a,b),!old").unwrap().match_expressions.unwrap();
        let operators: Vec<_> = expressions.iter().map(|e| e.operator.as_str()).collect();
        assert_eq!(operators, ["DoesNotExist", "In"]);
        assert!(selector("a>3").is_err() && selector("=").is_err());
    }

    #[test]
    fn descriptions_of_changes() {
        for (action, want) in [
            (Action::Down, "is down"),
            (Action::Slow(Slow { latency: "2s".into() }), "answers 2s later"),
            (
                Action::Load(rule("shop", Some("web"), "800m")),
                "reports cpu 800m for each pod of namespace shop with these labels",
            ),
        ] {
            assert_eq!(action.said(), want);
        }
    }
}
