//! Validation of Jobs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use ironclad_patch::selector::LabelSelector;

use crate::{
    kinds::shared::{
        fields::{at, immutable, list, quoted, quoted_selector, text},
        formats::{self, supported, wrong},
        pod,
    },
    object,
    status::Cause,
};

const INDEXES_MAX: i64 = 100_000;
/// The bound for a Job with more completions than that.
const INDEXES_AT_ONCE_MAX: i64 = 10_000;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const RULES_MAX: usize = 20;

pub(super) fn job(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    if old.is_some_and(|old| old["spec"] == object["spec"]) {
        return;
    }
    let own = at(object, "/spec/manualSelector") == &json!(true);
    generated(object, own, out);
    let mut causes = Vec::new();
    spec(at(object, "/spec"), "spec", &mut causes);
    if selects_others(object) {
        let labels = at(object, "/spec/template/metadata/labels");
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.template.metadata.labels", labels, why));
    }
    pod_template(at(object, "/spec"), "spec", &mut causes);
    if old.is_some() {
        // A kube-apiserver validates a changed one twice.
        out.extend(causes.clone());
    }
    out.append(&mut causes);
    if let Some(old) = old {
        changed(object, old, out);
    }
}

/// Validates the selector and labels that the server generates.
fn generated(object: &Value, own: bool, out: &mut Vec<Cause>) {
    let selector = at(object, "/spec/selector");
    if own {
        if !selector.is_object() {
            out.push(Cause::required("spec.selector", ""));
        }
        return;
    }
    let (uid, name) = (object::meta_str(object, "uid"), object::meta_str(object, "name"));
    let labels = at(object, "/spec/template/metadata/labels");
    for (key, want) in [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ] {
        let field = format!("spec.template.metadata.labels[{key}]");
        match labels.get(key).and_then(Value::as_str) {
            Some(given) if given == want => {}
            Some(_) => out.push(Cause::invalid(field, labels, format!("must be '{want}'"))),
            None => out.push(Cause::required(field, &format!("must be '{want}'"))),
        }
    }
    if *selector != json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}) {
        let quote = quoted_selector(selector);
        out.push(Cause::invalid_quoted("spec.selector", &quote, "`selector` not auto-generated"));
    }
}

fn selects_others(object: &Value) -> bool {
    let template = at(object, "/spec/template");
    match LabelSelector::from_object(at(object, "/spec/selector")) {
        Ok(selector) => selector.is_none_or(|selector| !selector.matches_object(template)),
        Err(_) => false,
    }
}

fn is_indexed(spec: &Value) -> bool {
    spec["completionMode"] == "Indexed"
}

/// All but the template.
pub(in crate::kinds::batch) fn spec(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    let field = |name: &str| format!("{path}.{name}");
    for key in [
        "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
        "backoffLimitPerIndex", "maxFailedIndexes",
    ] {
        if spec[key].as_i64().is_some_and(|n| n < 0) {
            out.push(Cause::invalid(field(key), &spec[key], "must be greater than or equal to 0"));
        }
    }
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        out.push(Cause::required(field("backoffLimitPerIndex"), "when maxFailedIndexes is specified"));
    }
    if let Some(manager) = spec["managedBy"].as_str() {
        formats::domain_prefixed_path(manager, &field("managedBy"), out);
    }
    if let Some(mode) = spec["completionMode"].as_str() {
        supported(mode, &field("completionMode"), &["NonIndexed", "Indexed"], out);
    }
    if is_indexed(spec) {
        indexes(spec, path, out);
    } else {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if !spec[key].is_null() {
                out.push(Cause::invalid(field(key), &spec[key], "requires indexed completion mode"));
            }
        }
    }
    if spec["podFailurePolicy"].is_object() {
        failure_policy(spec, &field("podFailurePolicy"), out);
    }
    if spec["successPolicy"].is_object() {
        success_policy(spec, &field("successPolicy"), out);
    }
    if let Some(policy) = spec["podReplacementPolicy"].as_str() {
        let known: &[&str] =
            if spec["podFailurePolicy"].is_object() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        supported(policy, &field("podReplacementPolicy"), known, out);
    }
}

/// Validates the bounds of an indexed Job.
fn indexes(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    let field = |name: &str| format!("{path}.{name}");
    let completions = &spec["completions"];
    if completions.is_null() {
        out.push(Cause::required(field("completions"), "when completion mode is Indexed"));
    }
    let (parallelism, failed) = (&spec["parallelism"], &spec["maxFailedIndexes"]);
    if parallelism.as_i64().is_some_and(|n| n > INDEXES_MAX) {
        let why = format!("must be less than or equal to {INDEXES_MAX} when completion mode is Indexed");
        out.push(Cause::invalid(field("parallelism"), parallelism, why));
    }
    if failed.as_i64().zip(completions.as_i64()).is_some_and(|(failed, all)| failed > all) {
        out.push(Cause::invalid(field("maxFailedIndexes"), failed, "must be less than or equal to completions"));
    }
    if failed.as_i64().is_some_and(|n| n > INDEXES_MAX) {
        let why = format!("must be less than or equal to {INDEXES_MAX}");
        out.push(Cause::invalid(field("maxFailedIndexes"), failed, why));
    }
    if spec["backoffLimitPerIndex"].is_null() || completions.as_i64().is_none_or(|n| n <= INDEXES_MAX) {
        return;
    }
    if failed.is_null() {
        let why = format!("must be specified when completions is above {INDEXES_MAX}");
        out.push(Cause::required(field("maxFailedIndexes"), &why));
    }
    for (key, value) in [("parallelism", parallelism), ("maxFailedIndexes", failed)] {
        if value.as_i64().is_some_and(|n| n > INDEXES_AT_ONCE_MAX) {
            let why = format!(
                "must be less than or equal to {INDEXES_AT_ONCE_MAX} when completions are above {INDEXES_MAX} and used with backoff limit per index"
            );
            out.push(Cause::invalid(field(key), value, why));
        }
    }
}

/// Validates `podFailurePolicy`.
fn failure_policy(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    let rules = list(spec, "/podFailurePolicy/rules");
    if rules.len() > RULES_MAX {
        out.push(formats::too_many(&format!("{path}.rules"), rules.len(), RULES_MAX));
    }
    let template = at(spec, "/template/spec");
    let containers: BTreeSet<&str> = ["/containers", "/initContainers"]
        .into_iter()
        .flat_map(|kind| list(template, kind))
        .map(|container| text(container, "/name"))
        .collect();
    for (i, rule) in rules.iter().enumerate() {
        failure_rule(rule, &format!("{path}.rules[{i}]"), &containers, !spec["backoffLimitPerIndex"].is_null(), out);
    }
}

fn failure_rule(rule: &Value, path: &str, containers: &BTreeSet<&str>, per_index: bool, out: &mut Vec<Cause>) {
    let field = format!("{path}.action");
    match text(rule, "/action") {
        "" => {
            let known: Vec<String> = ACTIONS.iter().map(|a| format!("{a:?}")).collect();
            out.push(Cause::required(field, &format!("valid values: [{}]", known.join(" "))));
        }
        "FailIndex" if !per_index => {
            wrong(&field, "FailIndex", ["requires the backoffLimitPerIndex to be set"], out);
        }
        action => supported(action, &field, &ACTIONS, out),
    }
    let codes = &rule["onExitCodes"];
    if codes.is_object() {
        exit_codes(codes, &format!("{path}.onExitCodes"), containers, out);
    }
    let conditions = list(rule, "/onPodConditions");
    for (i, condition) in conditions.iter().enumerate() {
        let field = format!("{path}.onPodConditions[{i}]");
        formats::qualified(text(condition, "/type"), &format!("{field}.type"), out);
        let status = text(condition, "/status");
        if !status.is_empty() {
            supported(status, &format!("{field}.status"), &["False", "True", "Unknown"], out);
        }
    }
    // The real one quotes no value of these.
    let whole = |why: &str| Cause {
        reason: "FieldValueInvalid".into(),
        message: format!("Invalid value: {why}"),
        field: path.to_owned(),
    };
    match (codes.is_object(), conditions.is_empty()) {
        (true, false) => out.push(whole("specifying both OnExitCodes and OnPodConditions is not supported")),
        (false, true) => out.push(whole("specifying one of OnExitCodes and OnPodConditions is required")),
        _ => {}
    }
}

fn exit_codes(codes: &Value, path: &str, containers: &BTreeSet<&str>, out: &mut Vec<Cause>) {
    let operator = text(codes, "/operator");
    match operator {
        "" => {
            out.push(Cause::required(format!("{path}.operator"), "valid values: [\"In\" \"NotIn\"]"));
        }
        operator => supported(operator, &format!("{path}.operator"), &["In", "NotIn"], out),
    }
    if let Some(name) = codes["containerName"].as_str()
        && !containers.contains(name)
    {
        let why = "must be one of the container or initContainer names in the pod template";
        wrong(&format!("{path}.containerName"), name, [why], out);
    }
    let values = list(codes, "/values");
    let field = format!("{path}.values");
    if values.is_empty() {
        return out.push(Cause::invalid(field, &json!([]), "at least one value is required"));
    }
    let mut seen = BTreeSet::new();
    let mut ordered = true;
    let mut last = None;
    for (i, value) in values.iter().enumerate() {
        let number = value.as_i64().unwrap_or(0);
        if operator == "In" && number == 0 {
            out.push(Cause::invalid(format!("{field}[{i}]"), value, "must not be 0 for the In operator"));
        }
        if !seen.insert(number) {
            out.push(Cause::duplicate(format!("{field}[{i}]"), value));
        }
        ordered &= last.is_none_or(|last| last <= number);
        last = Some(number);
    }
    if !ordered {
        out.push(Cause::invalid(field, &json!(values), "must be ordered"));
    }
}

/// Which indexes are enough.
fn success_policy(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    let rules = list(spec, "/successPolicy/rules");
    if !is_indexed(spec) {
        let rule = |rule: &Value| {
            let count = rule["succeededCount"].clone();
            quoted(&[("SucceededIndexes", rule["succeededIndexes"].clone()), ("SucceededCount", count)])
        };
        let quote = format!("{{\"Rules\":[{}]}}", rules.iter().map(rule).collect::<Vec<_>>().join(","));
        return out.push(Cause::invalid_quoted(path, &quote, "requires indexed completion mode"));
    }
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        out.push(Cause::required(format!("{path}.rules"), why));
    }
    if rules.len() > RULES_MAX {
        out.push(formats::too_many(&format!("{path}.rules"), rules.len(), RULES_MAX));
    }
    let completions = spec["completions"].as_i64().unwrap_or(0);
    for (i, rule) in rules.iter().enumerate() {
        let field = format!("{path}.rules[{i}]");
        let (indexes, count) = (&rule["succeededIndexes"], &rule["succeededCount"]);
        if indexes.is_null() && count.is_null() {
            let why = "at least one of succeededCount or succeededIndexes must be specified";
            out.push(Cause::required(&field, why));
        }
        let mut most = (completions, "the number of specified completions");
        if let Some(text) = indexes.as_str() {
            match count_indexes(text, completions) {
                Ok(count) => most = (count, "the number of indexes in the specified succeededIndexes field"),
                Err(why) => {
                    let why = format!("error parsing succeededIndexes: {why}");
                    wrong(&format!("{field}.succeededIndexes"), text, [why], out);
                }
            }
        }
        let at_count = format!("{field}.succeededCount");
        match count.as_i64() {
            Some(n) if n < 0 => out.push(Cause::invalid(at_count, count, "must be greater than or equal to 0")),
            Some(n) if n > most.0 => {
                out.push(Cause::invalid(
                    at_count,
                    count,
                    format!("must be less than or equal to {} ({})", most.0, most.1),
                ));
            }
            _ => {}
        }
    }
}

/// Counts the indexes in `0,2-4`, which are in rising order and below the number of completions.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let number = |text: &str| {
        let parsed = text.parse::<i64>();
        let number = parsed.map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
        if number >= completions { Err(format!("too large index: {text:?}")) } else { Ok(number) }
    };
    let (mut count, mut last) = (0, None::<i64>);
    for interval in text.split(',') {
        let ends: Vec<&str> = interval.split('-').collect();
        let (first, end) = match ends.as_slice() {
            [one] => (number(one)?, None),
            [first, end] => (number(first)?, Some(number(end)?)),
            _ => {
                return Err(format!(
                    "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
                ));
            }
        };
        let order = |before: i64, now: i64| {
            if before < now { Ok(()) } else { Err(format!("non-increasing order, previous: {before}, current: {now}")) }
        };
        if let Some(last) = last {
            order(last, first)?;
        }
        if let Some(end) = end {
            order(first, end)?;
        }
        let end = end.unwrap_or(first);
        count += end - first + 1;
        last = Some(end);
    }
    Ok(count)
}

/// The template; pods of a Job come to an end.
pub(in crate::kinds::batch) fn pod_template(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    let template = at(spec, "/template");
    pod::template(template, &format!("{path}.template"), out);
    let (policy, field) = (text(template, "/spec/restartPolicy"), format!("{path}.template.spec.restartPolicy"));
    match policy {
        "" | "Always" => out.push(Cause::required(field, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if spec["podFailurePolicy"].is_object() => {
            wrong(&field, policy, ["only \"Never\" is supported when podFailurePolicy is specified"], out);
        }
        policy => supported(policy, &field, &["OnFailure", "Never"], out),
    }
}

fn changed(object: &Value, old: &Value, out: &mut Vec<Cause>) {
    let (is, was) = (at(object, "/spec"), at(old, "/spec"));
    let completions = &is["completions"];
    if !is_indexed(is) {
        immutable(object, Some(old), "/spec/completions", out);
    } else if completions != &was["completions"] && completions != &is["parallelism"] {
        let why = "can only be modified in tandem with spec.parallelism";
        out.push(Cause::invalid("spec.completions", completions, why));
    }
    if is["selector"] != was["selector"] {
        out.push(Cause::invalid_quoted("spec.selector", &quoted_selector(&is["selector"]), "field is immutable"));
    }
    let suspended = was["suspend"] == json!(true) && is["suspend"] == json!(true);
    let starting = was["suspend"] == json!(true) && is["suspend"] != json!(true);
    if suspended || starting {
        if placeless(&is["template"]) != placeless(&was["template"]) {
            out.push(Cause::invalid("spec.template", &is["template"], "field is immutable"));
        }
    } else {
        immutable(object, Some(old), "/spec/template", out);
    }
    immutable(object, Some(old), "/spec/completionMode", out);
    if is["podFailurePolicy"] != was["podFailurePolicy"] {
        let rules = &is["podFailurePolicy"]["rules"];
        let quote =
            if is["podFailurePolicy"].is_object() { quoted(&[("Rules", rules.clone())]) } else { "null".into() };
        out.push(Cause::invalid_quoted("spec.podFailurePolicy", &quote, "field is immutable"));
    }
    for field in ["backoffLimitPerIndex", "managedBy", "successPolicy"] {
        immutable(object, Some(old), &format!("/spec/{field}"), out);
    }
}

/// A template without scheduling directives and labels, which a suspended Job may still change.
fn placeless(template: &Value) -> Value {
    let mut out = template.clone();
    if let Some(metadata) = out.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("labels");
        metadata.remove("annotations");
        if metadata.values().all(Value::is_null) {
            out.as_object_mut().map(|map| map.remove("metadata"));
        }
    }
    let Some(spec) = out.get_mut("spec").and_then(Value::as_object_mut) else { return out };
    for key in ["nodeSelector", "tolerations", "schedulingGates"] {
        spec.remove(key);
    }
    if let Some(affinity) = spec.get_mut("affinity").and_then(Value::as_object_mut) {
        affinity.remove("nodeAffinity");
        if affinity.is_empty() {
            spec.remove("affinity");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted() {
        for (text, want) in [
            ("0", Ok(1)),
            ("0,2-4", Ok(4)),
            ("x", Err("cannot convert string to integer for index: \"x\"")),
            ("0-9", Err("too large index: \"9\"")),
            ("3-1", Err("non-increasing order, previous: 3, current: 1")),
            ("2,1", Err("non-increasing order, previous: 2, current: 1")),
        ] {
            assert_eq!(count_indexes(text, 5), want.map_err(str::to_owned), "{text}");
        }
    }
    #[test]
    fn mistakes() {
        let indexed = |patch: Value| {
            let mut spec = json!({"completionMode": "Indexed", "completions": 5});
            ironclad_patch::merge_patch(&mut spec, &patch);
            spec
        };
        for (wish, want) in [
            (indexed(json!({"backoffLimitPerIndex": 1, "maxFailedIndexes": 5})), ""),
            (indexed(json!({"backoffLimitPerIndex": 1, "maxFailedIndexes": 6})), "s.maxFailedIndexes"),
            (indexed(json!({"maxFailedIndexes": 5})), "s.backoffLimitPerIndex"),
            (json!({"backoffLimitPerIndex": 1}), "s.backoffLimitPerIndex"),
            (indexed(json!({"parallelism": 100_001})), "s.parallelism"),
            (indexed(json!({"successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 2}]}})), ""),
            (
                indexed(json!({"successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 3}]}})),
                "s.successPolicy.rules[0].succeededCount",
            ),
            (json!({"managedBy": "a.io/b", "podReplacementPolicy": "Failed"}), ""),
            (
                json!({"podFailurePolicy": {"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1, 2]}}]}}),
                "s.podFailurePolicy.rules[0].action",
            ),
            (
                json!({"podFailurePolicy": {"rules": [{"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [0]}}]}}),
                "",
            ),
        ] {
            let mut out = Vec::new();
            spec(&wish, "s", &mut out);
            let fields: Vec<String> = out.into_iter().map(|c| c.field).collect();
            assert_eq!(fields.join(" "), want, "{wish}");
        }
    }

    #[test]
    fn suspended_job_may_change_scheduling_directives() {
        let job = |suspend: bool, spec: Value| json!({"spec": {"suspend": suspend, "completions": 1, "template": {"spec": spec}}});
        let old = json!({"containers": []});
        for (name, suspended, new, want) in [
            ("where its pods go", true, json!({"containers": [], "nodeSelector": {"a": "b"}}), ""),
            ("not what they are", true, json!({"containers": [1]}), "spec.template"),
            ("and nothing once it runs", false, json!({"containers": [], "nodeSelector": {"a": "b"}}), "spec.template"),
        ] {
            let mut out = Vec::new();
            changed(&job(suspended, new), &job(suspended, old.clone()), &mut out);
            let fields: Vec<String> = out.into_iter().map(|c| c.field).collect();
            assert_eq!(fields.join(" "), want, "{name}");
        }
    }
}
