//! `podFailurePolicy` of a Job: consequence of a failed pod.

use k8s_openapi::api::{
    batch::v1::{JobSpec, PodFailurePolicyOnExitCodesRequirement},
    core::v1::{ContainerStatus, Pod},
};

use crate::pods::condition;

/// Consequence of a failed pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// It counts as a failure.
    Count,
    /// It does not count, and is replaced.
    Ignore,
    /// Its index has failed.
    FailIndex,
    /// The Job has failed, with this message.
    FailJob(String),
}

/// Returns the action of the first rule that matches a failed pod.
pub(super) fn action(spec: &JobSpec, pod: &Pod) -> Action {
    let rules = spec.pod_failure_policy.as_ref().map(|policy| policy.rules.as_slice()).unwrap_or_default();
    for (n, rule) in rules.iter().enumerate() {
        let by_code = rule.on_exit_codes.as_ref().and_then(|codes| exit(codes, pod));
        let by_condition = rule.on_pod_conditions.iter().flatten().find(|pattern| {
            let wanted = pattern.status.as_deref().unwrap_or("True");
            condition(pod, &pattern.type_).is_some_and(|c| c.status == wanted)
        });
        let (namespace, name) = (pod.metadata.namespace.as_deref(), pod.metadata.name.as_deref());
        let of = format!("{}/{}", namespace.unwrap_or(""), name.unwrap_or(""));
        let because = match (by_code, by_condition) {
            (Some((container, code)), _) => {
                format!("Container {container} for pod {of} failed with exit code {code}")
            }
            (None, Some(pattern)) => format!("Pod {of} has condition {}", pattern.type_),
            (None, None) => continue,
        };
        return match rule.action.as_str() {
            "FailJob" => Action::FailJob(format!("{because} matching FailJob rule at index {n}")),
            "Ignore" => Action::Ignore,
            "FailIndex" => Action::FailIndex,
            _ => Action::Count,
        };
    }
    Action::Count
}

/// Returns the first container whose exit code matches, and the code. Success is no failure of a container.
fn exit<'a>(wanted: &PodFailurePolicyOnExitCodesRequirement, pod: &'a Pod) -> Option<(&'a str, i32)> {
    let status = pod.status.as_ref()?;
    let all = status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten());
    let code = |c: &ContainerStatus| c.state.as_ref()?.terminated.as_ref().map(|t| t.exit_code);
    let matches = |code: i32| match wanted.operator.as_str() {
        "In" => wanted.values.contains(&code),
        "NotIn" => !wanted.values.contains(&code),
        _ => false,
    };
    let of_container = |c: &&ContainerStatus| wanted.container_name.as_ref().is_none_or(|name| *name == c.name);
    all.filter(of_container)
        .filter_map(|c| Some((c.name.as_str(), code(c)?)))
        .find(|(_, code)| *code != 0 && matches(*code))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, PodCondition};
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit::pod;

    fn failed(code: i32) -> Pod {
        let mut maker = pod("p").phase("Failed");
        let terminated = ContainerStateTerminated { exit_code: code, ..ContainerStateTerminated::default() };
        maker.status().container_statuses = Some(vec![ContainerStatus {
            name: "c".into(),
            state: Some(ContainerState { terminated: Some(terminated), ..ContainerState::default() }),
            ..ContainerStatus::default()
        }]);
        maker.status().conditions = Some(vec![PodCondition {
            type_: "DisruptionTarget".into(),
            status: "True".into(),
            ..PodCondition::default()
        }]);
        maker.build()
    }

    #[test]
    fn the_first_matching_rule_decides() {
        let codes = |action: &str, operator: &str, values: &[i32]| json!({"action": action, "onExitCodes": {"operator": operator, "values": values}});
        let disrupted =
            json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
        let elsewhere =
            json!({"action": "FailJob", "onExitCodes": {"containerName": "other", "operator": "In", "values": [42]}});
        let fail =
            Action::FailJob("Container c for pod d/p failed with exit code 42 matching FailJob rule at index 0".into());
        for (name, rules, code, want) in [
            ("no rule", vec![], 42, Action::Count),
            ("In", vec![codes("FailJob", "In", &[41, 42])], 42, fail),
            ("another code", vec![codes("FailJob", "In", &[41])], 42, Action::Count),
            ("NotIn", vec![codes("FailIndex", "NotIn", &[41])], 42, Action::FailIndex),
            ("exit code 0 is no failure", vec![codes("Ignore", "NotIn", &[41])], 0, Action::Count),
            ("another container", vec![elsewhere], 42, Action::Count),
            ("a condition", vec![disrupted.clone(), codes("FailJob", "In", &[42])], 42, Action::Ignore),
            ("Count ends the search", vec![codes("Count", "In", &[42]), disrupted], 42, Action::Count),
        ] {
            let spec: Value = json!({"template": {}, "podFailurePolicy": {"rules": rules}});
            let spec: JobSpec = serde_json::from_value(spec).unwrap();
            assert_eq!(action(&spec, &failed(code)), want, "{name}");
        }
    }
}
