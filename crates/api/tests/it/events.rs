//! Types of events: every event that any crate records has the type in specification/api.md 18 and
//! specification/operations.md 11.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use ironclad_reference::Reference;

/// Reasons in the text below the table of specification/api.md 18 and reasons of Ironclad alone, with the section that
/// requires them.
const BESIDE_THE_TABLE: [(&str, &str); 43] = [
    // specification/failover.md 14.4.
    ("ClusterNotReady", "W"),
    ("ClusterReady", "N"),
    ("BindingPreempted", "W"),
    ("PreemptBindingSucceed", "N"),
    ("PreemptBindingFailed", "W"),
    ("PodsUnschedulable", "W"),
    ("PriorityClassNotFound", "W"),
    ("EvictionQueued", "N"),
    ("EvictionAbandoned", "N"),
    ("EvictionPaused", "W"),
    ("EvictionResumed", "N"),
    ("FailoverEpisodeStarted", "W"),
    ("FailoverEpisodeEnded", "N"),
    ("WouldEvict", "N"),
    ("PlacementUnreadable", "W"),
    ("WaitingForSourceCleanup", "W"),
    ("ApplicationFailoverSkipped", "W"),
    ("TaintConflict", "W"),
    ("TaintOrphaned", "N"),
    ("InsufficientCapacity", "W"),
    ("CredentialsRotated", "N"),
    // specification/operations.md 10.4.
    ("AgentNameTaken", "W"),
    ("AgentNameRefused", "W"),
    // specification/operations.md 10.6.
    ("SeveralAgents", "N"),
    // specification/admission.md 1.5.
    ("NoEffect", "W"),
    // specification/propagation.md 20.3, 31.4 row 34.
    ("CustomizationInvalid", "W"),
    ("CustomizationConflict", "W"),
    ("CustomizationSkipped", "W"),
    ("InterpreterWebhookFailed", "W"),
    // specification/propagation.md 4: a policy that selects nothing.
    ("NoTemplateMatched", "N"),
    // specification/failover.md 8.4.
    ("DependenciesNotPropagated", "W"),
    // specification/autoscaling.md 4.
    ("ConflictsWithFederatedHPA", "W"),
    // specification/autoscaling.md 2.2, 2.8.
    ("NoReachableCluster", "W"),
    ("FailedGetExternalMetric", "W"),
    // No section yet: writes that something else undoes again and again.
    ("HotLoop", "W"),
    // specification/autoscaling.md 6.7, 6.9, 6.10.
    ("AmbiguousTarget", "W"),
    ("BehaviorNotSupported", "W"),
    ("ConflictingAutoscaler", "W"),
    ("ReplicasOverriddenByUserPolicy", "W"),
    // specification/autoscaling.md 1.3, 5.
    ("ReplicasNotRetained", "W"),
    ("ReplicasLent", "N"),
    ("ReplicasCut", "N"),
    // specification/remedy.md.
    ("RemedyActionsChanged", "N"),
];

/// Sources of the constants: this crate's, and those of rounds of autoscalers.
pub(crate) const CONSTANTS: &str =
    concat!(include_str!("../../src/events.rs"), include_str!("../../../hpa/src/events.rs"));

/// Calls whose reason is none of these constants: file, name in that file, and possible reasons.
const OTHER_NAMES: [(&str, &str, &[&str]); 9] = [
    ("cron_federated_hpa/apply.rs", "reason", &["ScaleFailed", "UpdateCronFederatedHPAFailed"]),
    (
        "distributed_hpa/mod.rs",
        "reason",
        &[
            "AmbiguousTarget", "BehaviorNotSupported", "ConflictingAutoscaler", "NoEffect", "ReplicasNotRetained",
            "ReplicasOverriddenByUserPolicy",
        ],
    ),
    ("taint_manager/notice.rs", "reason", &["EvictionQueued", "EvictionAbandoned", "WouldEvict"]),
    ("propagation/src/success.rs", "reason", &["SyncWorkSucceed", "SyncSucceed", "AggregateStatusSucceed"]),
    ("propagation/src/detector/mod.rs", "reason", &["ApplyPolicyFailed", "GetReplicasFailed", "GetComponentsFailed"]),
    ("propagation/src/policy.rs", "NO_TEMPLATE_MATCHED", &["NoTemplateMatched"]),
    ("propagation/src/services/claim.rs", "reason", &["ClusterNotFound", "APIIncompatible"]),
    ("propagation/src/services/mod.rs", "0", &["SyncServiceSucceed", "DispatchEndpointSliceSucceed"]),
    ("propagation/src/services/mod.rs", "1", &["SyncServiceFailed", "DispatchEndpointSliceFailed"]),
];

/// `A / B` with `N / W`, `A, B` with one letter for all.
fn of_row(reasons: &str, types: &str) -> Vec<(String, String)> {
    let reasons: Vec<&str> = reasons.split([',', '/']).map(str::trim).collect();
    let types: Vec<&str> = types.split('/').map(str::trim).collect();
    let of = |at: usize| if types.len() == reasons.len() { types[at] } else { types[0] };
    reasons.iter().enumerate().map(|(at, reason)| ((*reason).to_owned(), of(at).to_owned())).collect()
}

/// Reasons with their type and the kinds that they may be about.
fn wanted() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut all: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    for row in &Reference::Api.table("## 18.").rows {
        for (reason, letter) in of_row(&row[0], &row[1]) {
            let one = all.entry(reason.clone()).or_insert_with(|| (letter.clone(), BTreeSet::new()));
            assert_eq!(one.0, letter, "{reason} is one or the other");
            one.1.extend(about(&row[2], ';'));
        }
    }
    for (reason, letter) in BESIDE_THE_TABLE {
        let before = all.insert(reason.to_owned(), (letter.to_owned(), BTreeSet::new()));
        assert_eq!(before, None, "{reason} is in the table");
    }
    all
}

/// `attached ResourceBinding` and `Binding` are bindings, `the member object's template` is a template.
fn about(cell: &str, separator: char) -> BTreeSet<String> {
    let one = |word: &str| {
        let word = word.trim();
        let last = word.rsplit(' ').next().unwrap_or(word);
        match last {
            "ResourceBinding" | "Binding" | "binding" => "binding".to_owned(),
            other => other.to_owned(),
        }
    };
    cell.split(separator).map(one).collect()
}

/// The constants: name and reason.
fn constants() -> BTreeMap<&'static str, &'static str> {
    let lines = CONSTANTS.lines().filter_map(|line| line.strip_prefix("pub const "));
    lines.filter_map(|line| Some((line.split_once(':')?.0, line.split('"').nth(1)?))).collect()
}

/// Every source file of every crate without tests.
fn sources(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if path.is_dir() && !matches!(name.as_str(), "tests" | "target") {
            sources(&path, into);
        } else if name.ends_with(".rs") && name != "tests.rs" && name != "testkit.rs" {
            let text = fs::read_to_string(&path).unwrap();
            into.push((path, text));
        }
    }
}

/// Events that the program records: reason, whether it is a Warning, and the doc comment of its constant.
pub(crate) fn recorded() -> Vec<(&'static str, bool, String)> {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut files);
    // Reasons of conditions have the same names, and simulated members record events of kinds that are not ours.
    files.retain(|(path, _)| {
        !["api/src/events.rs", "api/src/reasons.rs", "hpa/src/events.rs"].iter().any(|file| path.ends_with(file))
            && !path.to_string_lossy().contains("kubecontrollers")
    });
    let wanted = wanted();
    let (mut all, mut comment) = (Vec::new(), String::new());
    for line in CONSTANTS.lines() {
        if let Some(text) = line.strip_prefix("/// ") {
            comment = if comment.is_empty() { text.to_owned() } else { format!("{comment} {text}") };
            continue;
        }
        let comment = std::mem::take(&mut comment);
        let Some((name, rest)) = line.strip_prefix("pub const ").and_then(|line| line.split_once(':')) else {
            continue;
        };
        let is_used = files.iter().any(|(_, text)| {
            text.match_indices(name).any(|(at, _)| {
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part)
            })
        });
        let reason = rest.split('"').nth(1).expect("the reason is a string");
        if let (true, Some((letter, _))) = (is_used, wanted.get(reason)) {
            all.push((reason, letter == "W", comment));
        }
    }
    all.sort();
    all
}

/// The arguments of a call, after its opening bracket.
fn arguments(text: &str) -> &str {
    let mut depth = 1;
    for (at, character) in text.char_indices() {
        depth += match character {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth == 0 {
            return &text[..at];
        }
    }
    text
}

#[test]
fn events_have_the_type_of_the_table() {
    let (wanted, constants) = (wanted(), constants());
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut files);
    let mut reported: BTreeSet<&str> = BTreeSet::new();
    let mut wrong = Vec::new();
    for (path, text) in &files {
        for (call, letter) in [("Event::warning(", "W"), ("Event::normal(", "N")] {
            for (at, _) in text.match_indices(call) {
                let inside = arguments(&text[at + call.len()..]);
                let words = || inside.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                let mut reasons: Vec<&str> = words().filter_map(|word| constants.get(word).copied()).collect();
                if reasons.is_empty() {
                    let other = OTHER_NAMES
                        .iter()
                        .find(|(file, name, _)| path.ends_with(file) && words().any(|word| word == *name));
                    let Some((.., may_be)) = other else {
                        wrong.push(format!("{}: no reason in {inside}", path.display()));
                        continue;
                    };
                    reasons.extend(may_be.iter().copied());
                }
                for reason in reasons {
                    reported.insert(reason);
                    match wanted.get(reason) {
                        Some((want, _)) if want == letter => {}
                        Some((want, _)) => wrong.push(format!("{}: {reason} is {letter}, not {want}", path.display())),
                        None => wrong.push(format!("{}: {reason} is not in the table", path.display())),
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(reported.len() > 35, "only {} reasons were found: {reported:?}", reported.len());
}

/// specification/operations.md 11 lists the same events by the kind that they are about.
#[test]
fn both_chapters_agree_about_events() {
    let wanted = wanted();
    let mut compared = 0;
    for row in &Reference::Operations.table("## 11.").rows {
        let objects = about(&row[0], '+');
        let mut stem = String::new();
        let reasons = row[1].split_once("HPA: ").map_or(row[1].as_str(), |(_, reasons)| reasons);
        for part in reasons.split(['·', ',']).flat_map(|part| part.split('/')) {
            let mut words = part.split_whitespace();
            let Some(word) = words.next().filter(|word| *word != "…") else { continue };
            // `…Failed` and `Failed` belong to the reason before; `GetReplicas…` is the first half of a reason.
            let reason = match word.trim_matches('…') {
                "Failed" => format!("{stem}Failed"),
                "Succeed" => format!("{stem}Succeed"),
                whole => whole.to_owned(),
            };
            stem = reason.trim_end_matches("Succeed").trim_end_matches("Failed").to_owned();
            let Some((letter, about)) = wanted.get(&reason) else {
                assert!(wanted.contains_key(&format!("{reason}Failed")), "api.md does not list {reason}");
                continue;
            };
            // The only difference: the event is on the Work alone, as specification/api.md says.
            if reason != "WorkDispatching" {
                assert!(objects.is_subset(about), "{reason}: {objects:?}, by api.md {about:?}");
            }
            if let Some(said) = words.next().filter(|word| word.len() == 1) {
                assert_eq!(said, letter, "{reason}");
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "only {compared} letters were compared");
}

/// Columns "On" and "Source component" of specification/api.md 18.
#[test]
fn events_come_from_the_component_of_the_table() {
    use ironclad_api::events::source;
    let (mut compared, mut components) = (0, "");
    for row in &Reference::Api.table("## 18.").rows {
        // `same` and `the same and …` are those of the row above.
        if !row[3].contains("same") {
            components = &row[3];
        }
        let objects: &[(&str, &str)] = match row[2].as_str() {
            "FederatedResourceQuota" => &[("FederatedResourceQuota", "shop")],
            "Cluster" => &[("Cluster", "")],
            "FederatedHPA" => &[("FederatedHPA", "shop")],
            "CronFederatedHPA" => &[("CronFederatedHPA", "shop")],
            _ => &[
                ("ResourceBinding", "shop"),
                ("Deployment", "shop"),
                ("ClusterResourceBinding", ""),
                ("ClusterRole", ""),
            ],
        };
        for (reason, _) in of_row(&row[0], &row[1]) {
            for (kind, namespace) in objects {
                let from = source(&reason, kind, namespace);
                if from == "ironclad" {
                    let ours = ["Deschedule", "EvictWorkload", "Service", "EndpointSlice", "Rescale", "FailedGet"];
                    let others =
                        ["ScaleFailed", "RuleFailed", "Cron", "Coredns", "Selector", "NotFound", "APIIncompatible"];
                    let more = ["FailedCompute", "FailedUpdate", "UpdateStatus", "InvalidMetric"];
                    let is_unbuilt = ours.iter().chain(&others).chain(&more).any(|part| reason.contains(part));
                    assert!(is_unbuilt, "{reason} has no component");
                    continue;
                }
                compared += 1;
                assert!(components.contains(from), "{reason} on {kind}: {from}, not {components}");
                let is_binding = components.contains("cluster-resource-binding");
                assert!(
                    !is_binding || from.starts_with("cluster") == namespace.is_empty(),
                    "{reason} on {kind}: {from}"
                );
            }
        }
    }
    assert!(compared > 60, "only {compared} were compared");
}
