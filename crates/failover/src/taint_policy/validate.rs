//! Validation of a ClusterTaintPolicy (specification/failover.md 2.8, specification/admission.md 5.5).

use std::collections::BTreeSet;

use ironclad_api::{
    conditions::{FALSE, TRUE, UNKNOWN},
    policy::{ClusterTaintPolicy, ClusterTaintPolicySpec, MatchCondition},
    taints::NO_EXECUTE,
};
use ironclad_patch::FieldError;
use serde_json::json;

use super::rule::{Rule, Spelling};
use crate::{
    flags::NoExecutePolicy,
    taints::{TaintId, validate_parts},
};

/// One taint of either list: its field path and its value.
struct Entry<'a> {
    path: String,
    key: &'a str,
    value: &'a str,
    effect: &'a str,
    windows: [(&'static str, Option<i32>); 2],
    window_min: i32,
}

/// Errors of a policy. Affinities are validated elsewhere.
#[must_use]
pub fn validate(spec: &ClusterTaintPolicySpec, no_execute: NoExecutePolicy) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spelling = Spelling::of(spec);
    if let Err(mixed) = spelling {
        errors.push(FieldError::forbidden("spec", &mixed.to_string()));
    }
    let entries = entries(spec);
    if entries.is_empty() {
        let list = if spelling == Ok(Spelling::AddRemove) { "spec.taints" } else { "spec.taintsToAdd" };
        errors.push(FieldError::required(list, ""));
    }
    for (list, conditions) in [
        ("matchConditions", &spec.match_conditions),
        ("addOnConditions", &spec.add_on_conditions),
        ("removeOnConditions", &spec.remove_on_conditions),
    ] {
        for (i, condition) in conditions.iter().enumerate() {
            errors.extend(condition_errors(condition, &format!("spec.{list}[{i}]")));
        }
    }
    for (i, entry) in entries.iter().enumerate() {
        let id = TaintId::new(entry.key, entry.effect);
        errors.extend(validate_parts(entry.key, entry.value, entry.effect, &entry.path));
        for (field, seconds) in entry.windows {
            if let Some(seconds) = seconds.filter(|seconds| *seconds < entry.window_min) {
                let detail = format!("should be greater than or equal to {}", entry.window_min);
                errors.push(FieldError::invalid(format!("{}.{field}", entry.path), &json!(seconds), &detail));
            }
        }
        if entries[i + 1..].iter().any(|later| id == TaintId::new(later.key, later.effect)) {
            let text =
                format!("Duplicate taint with the same key({}) and effect({}) is not allowed", id.key, id.effect);
            errors.push(FieldError::duplicate(&entry.path, &json!(text)));
        }
        if entry.effect == NO_EXECUTE && no_execute == NoExecutePolicy::Forbidden {
            let detail = "Configuring taint with NoExecute effect is not allowed, this capability must be explicitly \
                          enabled by administrators through command-line flags";
            errors.push(FieldError::forbidden(&entry.path, detail));
        }
    }
    errors
}

/// Warnings about a valid policy.
#[must_use]
pub fn warnings(spec: &ClusterTaintPolicySpec) -> Vec<String> {
    let mut warnings = Vec::new();
    if Spelling::of(spec) == Ok(Spelling::AddRemove)
        && spec.add_on_conditions.is_empty()
        && spec.remove_on_conditions.is_empty()
    {
        warnings.push(
            "the policy does nothing: spec.addOnConditions and spec.removeOnConditions are empty; with \
             spec.matchConditions an empty list means always"
                .to_owned(),
        );
    }
    let reserved: BTreeSet<&str> =
        entries(spec).iter().map(|entry| entry.key).filter(|key| key.starts_with("cluster.karmada.io/")).collect();
    for key in reserved {
        warnings.push(format!(
            "taint key {key} is reserved: the control plane adds and removes its NoSchedule taint itself"
        ));
    }
    warnings
}

/// Taints that another policy sets too, unless both name their clusters and share none. For a warning on writing.
#[must_use]
pub fn overlaps<'a>(
    policy: &ClusterTaintPolicy,
    others: impl IntoIterator<Item = &'a ClusterTaintPolicy>,
) -> Vec<String> {
    let Ok(mine) = Rule::of(policy) else { return Vec::new() };
    let mut warnings = Vec::new();
    for other in others {
        let Ok(theirs) = Rule::of(other) else { continue };
        if mine.name == theirs.name || are_apart(&mine, &theirs) {
            continue;
        }
        for item in mine.items.iter().filter(|item| theirs.item(&item.id).is_some()) {
            warnings.push(format!(
                "policy {} sets taint {} too: on a cluster that both select it is removed when neither matches any more",
                theirs.name, item.id
            ));
        }
    }
    warnings
}

/// True if both name their clusters, and no cluster is named by both.
fn are_apart(a: &Rule<'_>, b: &Rule<'_>) -> bool {
    let named = |rule: &Rule<'_>| -> BTreeSet<String> {
        rule.targets.map(|targets| targets.cluster_names.iter().cloned().collect()).unwrap_or_default()
    };
    let (a, b) = (named(a), named(b));
    !a.is_empty() && !b.is_empty() && a.is_disjoint(&b)
}

fn entries(spec: &ClusterTaintPolicySpec) -> Vec<Entry<'_>> {
    let matching = spec.taints_to_add.iter().enumerate().map(|(i, taint)| Entry {
        path: format!("spec.taintsToAdd[{i}]"),
        key: &taint.key,
        value: &taint.value,
        effect: &taint.effect,
        windows: [
            ("addOnMatchSeconds", taint.add_on_match_seconds),
            ("removeOnMismatchSeconds", taint.remove_on_mismatch_seconds),
        ],
        window_min: 1,
    });
    let add_remove = spec.taints.iter().enumerate().map(|(i, taint)| Entry {
        path: format!("spec.taints[{i}]"),
        key: &taint.key,
        value: &taint.value,
        effect: &taint.effect,
        windows: [
            ("addOnMatchSeconds", taint.add_on_match_seconds),
            ("removeOnMismatchSeconds", taint.remove_on_mismatch_seconds),
        ],
        window_min: 0,
    });
    matching.chain(add_remove).collect()
}

fn condition_errors(condition: &MatchCondition, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if condition.condition_type.is_empty() {
        errors.push(FieldError::required(format!("{path}.conditionType"), ""));
    }
    let operator = condition.operator.as_str();
    if operator.is_empty() {
        errors.push(FieldError::required(format!("{path}.operator"), ""));
    } else if !["In", "NotIn"].contains(&operator) {
        errors.push(FieldError::not_supported(format!("{path}.operator"), &json!(operator), &["In", "NotIn"]));
    }
    if condition.status_values.is_empty() {
        errors.push(FieldError::required(format!("{path}.statusValues"), ""));
    }
    let statuses = [FALSE, TRUE, UNKNOWN];
    for (i, value) in condition.status_values.iter().enumerate() {
        if !statuses.contains(&value.as_str()) {
            errors.push(FieldError::not_supported(format!("{path}.statusValues[{i}]"), &json!(value), &statuses));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use ironclad_api::policy::{ClusterAffinity, PolicyTaint, TaintToAdd};

    use super::*;
    use crate::testkit::when;

    fn to_add(key: &str, effect: &str) -> TaintToAdd {
        TaintToAdd { key: key.into(), effect: effect.into(), ..TaintToAdd::default() }
    }

    fn taint(key: &str, effect: &str) -> PolicyTaint {
        PolicyTaint { key: key.into(), effect: effect.into(), ..PolicyTaint::default() }
    }

    fn spec(edit: impl FnOnce(&mut ClusterTaintPolicySpec)) -> ClusterTaintPolicySpec {
        let mut spec = ClusterTaintPolicySpec::default();
        edit(&mut spec);
        spec
    }

    #[test]
    fn invalid_policies_are_rejected() {
        let seed = || spec(|s| s.taints_to_add = vec![to_add("k", "PreferNoExecute")]);
        let upstream = || spec(|s| s.taints = vec![taint("k", "NoSchedule")]);
        let mixed = "spec: Forbidden: targetCluster/matchConditions/taintsToAdd can not co-exist with \
                     targetClusters/addOnConditions/removeOnConditions/taints";
        let duplicate =
            r#"Duplicate value: "Duplicate taint with the same key(k) and effect(NoSchedule) is not allowed""#;
        for (name, spec, want) in [
            ("the documented example", spec(|s| *s = seed()), vec![]),
            ("upstream's", upstream(), vec![]),
            ("both", spec(|s| (s.taints_to_add, s.taints) = (seed().taints_to_add, upstream().taints)), vec![mixed.to_owned()]),
            (
                "one field of the other kind is rejected",
                spec(|s| (s.taints_to_add, s.target_clusters) = (seed().taints_to_add, Some(ClusterAffinity::default()))),
                vec![mixed.to_owned()],
            ),
            ("nothing", spec(|_| ()), vec!["spec.taintsToAdd: Required value".to_owned()]),
            (
                "conditions without taints",
                spec(|s| s.add_on_conditions = vec![when("Ready", "In", &["False"])]),
                vec!["spec.taints: Required value".to_owned()],
            ),
            (
                "windows of taintsToAdd below 1 s",
                spec(|s| {
                    s.taints_to_add = vec![TaintToAdd {
                        add_on_match_seconds: Some(0),
                        remove_on_mismatch_seconds: Some(-1),
                        ..to_add("k", "NoSchedule")
                    }];
                }),
                vec![
                    "spec.taintsToAdd[0].addOnMatchSeconds: Invalid value: 0: should be greater than or equal to 1".to_owned(),
                    "spec.taintsToAdd[0].removeOnMismatchSeconds: Invalid value: -1: should be greater than or equal to 1"
                        .to_owned(),
                ],
            ),
            (
                "windows of 1 s are valid",
                spec(|s| {
                    s.taints_to_add = vec![TaintToAdd { add_on_match_seconds: Some(1), ..to_add("k", "NoSchedule") }];
                }),
                vec![],
            ),
            (
                "windows of taints may be 0 s",
                spec(|s| s.taints = vec![PolicyTaint { add_on_match_seconds: Some(0), ..taint("k", "NoSchedule") }]),
                vec![],
            ),
            (
                "negative windows",
                spec(|s| s.taints = vec![PolicyTaint { remove_on_mismatch_seconds: Some(-1), ..taint("k", "NoSchedule") }]),
                vec![
                    "spec.taints[0].removeOnMismatchSeconds: Invalid value: -1: should be greater than or equal to 0"
                        .to_owned(),
                ],
            ),
            (
                "unknown operator",
                spec(|s| (s.match_conditions, s.taints_to_add) = (vec![when("Ready", "Is", &["False"])], seed().taints_to_add)),
                vec![
                    r#"spec.matchConditions[0].operator: Unsupported value: "Is": supported values: "In", "NotIn""#.to_owned(),
                ],
            ),
            (
                "unknown status",
                spec(|s| {
                    (s.match_conditions, s.taints_to_add) = (vec![when("Ready", "In", &["False", "no"])], seed().taints_to_add);
                }),
                vec![
                    r#"spec.matchConditions[0].statusValues[1]: Unsupported value: "no": supported values: "False", "True", "Unknown""#
                        .to_owned(),
                ],
            ),
            (
                "required fields",
                spec(|s| (s.match_conditions, s.taints_to_add) = (vec![when("", "", &[])], seed().taints_to_add)),
                ["conditionType", "operator", "statusValues"]
                    .map(|field| format!("spec.matchConditions[0].{field}: Required value"))
                    .to_vec(),
            ),
            (
                "reserved effect",
                spec(|s| s.taints_to_add = vec![to_add("k", "PreferNoSchedule")]),
                vec![
                    r#"spec.taintsToAdd[0].effect: Unsupported value: "PreferNoSchedule": supported values: "NoExecute", "NoSchedule", "PreferNoExecute""#
                        .to_owned(),
                ],
            ),
            (
                "duplicate taint, reported on the first",
                spec(|s| s.taints = vec![taint("k", "NoSchedule"), taint("k", "NoExecute"), taint("k", "NoSchedule")]),
                vec![format!("spec.taints[0]: {duplicate}")],
            ),
        ] {
            let got: Vec<String> = validate(&spec, NoExecutePolicy::Allowed).iter().map(ToString::to_string).collect();
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn no_execute_can_be_forbidden() {
        for (i, spec) in [
            spec(|s| s.taints = vec![taint("k", NO_EXECUTE)]),
            spec(|s| s.taints_to_add = vec![to_add("k", NO_EXECUTE)]),
        ]
        .iter()
        .enumerate()
        {
            assert_eq!(validate(spec, NoExecutePolicy::Allowed), vec![]);
            let list = ["taints", "taintsToAdd"][i];
            let want = format!(
                "spec.{list}[0]: Forbidden: Configuring taint with NoExecute effect is not allowed, this capability must \
                 be explicitly enabled by administrators through command-line flags"
            );
            assert_eq!(validate(spec, NoExecutePolicy::Forbidden)[0].to_string(), want);
        }
    }

    #[test]
    fn warnings_of_valid_policies() {
        let idle = spec(|s| s.taints = vec![taint("k", "NoSchedule")]);
        assert!(warnings(&idle)[0].starts_with("the policy does nothing"));
        let always = spec(|s| s.taints_to_add = vec![to_add("k", "NoSchedule")]);
        assert_eq!(warnings(&always), Vec::<String>::new());
        let reserved = spec(|s| s.taints_to_add = vec![to_add("cluster.karmada.io/not-ready", "PreferNoExecute")]);
        assert!(warnings(&reserved)[0].starts_with("taint key cluster.karmada.io/not-ready is reserved"));
        let on = |name: &str, clusters: &[&str]| {
            let names = clusters.iter().map(|name| (*name).to_owned()).collect();
            let targets = ClusterAffinity { cluster_names: names, ..ClusterAffinity::default() };
            ClusterTaintPolicy::new(name, ClusterTaintPolicySpec { target_cluster: Some(targets), ..always.clone() })
        };
        for (name, others, want) in [
            ("itself", on("p", &[]), 0),
            ("all clusters", on("q", &[]), 1),
            ("the same", on("q", &["m1"]), 1),
            ("others", on("q", &["m2"]), 0),
        ] {
            assert_eq!(overlaps(&on("p", &["m1"]), [&others]).len(), want, "{name}");
        }
    }
}
