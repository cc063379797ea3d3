//! Application of rules: own writes, ratcheting, objects being deleted, break-glass (specification/admission.md 1, 8).

use ironclad_reference::Reference;
use serde_json::{Value, json};

use super::{Write, with, with_spec};
use crate::{
    BYPASS_GROUP,
    table::{OwnWrites, Scope, WEBHOOKS},
};

const GROUP: &str = "policy.karmada.io";

fn bad() -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy", "metadata": {"namespace": "shop", "name": "o"},
        "spec": {"overriders": {"plaintext": [{"path": "spec.a", "operator": "remove"}]}},
    })
}

fn refused(write: &Write) -> bool {
    write.validated().denial.is_some()
}

#[test]
fn own_writes_are_not_reviewed() {
    let create = Write::create(GROUP, "overridepolicies", bad());
    for (name, own, user, manager, want) in [
        ("a user", Some("ironclad"), "alice", "kubectl", true),
        ("we ourselves", Some("ironclad"), "ironclad", "ironclad-detector", false),
        ("a person with our credentials", Some("ironclad"), "ironclad", "kubectl", true),
        ("another user with our field manager", Some("ironclad"), "alice", "ironclad-detector", true),
        ("no own user is configured", None, "ironclad", "ironclad-detector", true),
    ] {
        let mut write = Write { user, field_manager: manager, ..create.clone() };
        write.config.own_user = own.map(str::to_owned);
        assert_eq!(refused(&write), want, "{name}");
        write.may_be_own = false;
        assert!(refused(&write), "{name}, from another process");
    }
}

#[test]
fn errors_of_the_old_object_are_ignored() {
    let update = |old: Value, new: Value| Write::update(GROUP, "overridepolicies", old, new);
    let labelled = with(&bad(), &json!({"metadata": {"labels": {"a": "b"}}}));
    let verdict = update(bad(), labelled).validated();
    assert_eq!(verdict.denial, None);
    assert_eq!(
        verdict.warnings,
        [
            "spec.overriders.plaintext[0].path: Invalid value: \"spec.a\": JSON pointer must be empty or start with a \"/\": write /spec/a (unchanged, so it is let through)"
        ]
    );
    let worse = json!({"overriders": {"plaintext": [{"path": "spec.b", "operator": "remove"}]}});
    assert!(refused(&update(bad(), with_spec(&bad(), &worse))), "another error in the same field");
    let good = with_spec(&bad(), &json!({"overriders": null}));
    assert!(refused(&update(good, bad())), "a new mistake");
}

#[test]
fn errors_of_the_old_object_are_known_at_other_places_and_in_changed_parts() {
    let plain = |paths: &[&str]| {
        let list: Vec<Value> = paths.iter().map(|path| json!({"path": path, "operator": "remove"})).collect();
        with_spec(&bad(), &json!({"overriders": {"plaintext": list}}))
    };
    let both = |format: &str, value: i64| {
        let json = json!([{"subPath": "/a", "operator": "add", "value": value}]);
        let yaml = json!([{"subPath": "/a", "operator": "add", "value": format}]);
        with_spec(
            &bad(),
            &json!({"overriders": {"plaintext": null, "fieldOverrider": [{"fieldPath": "/data/a", "json": json, "yaml": yaml}]}}),
        )
    };
    for (name, old, new, want) in [
        ("the item before it is removed", plain(&["/a", "spec.a"]), plain(&["spec.a"]), false),
        ("an item is added before it", plain(&["spec.a"]), plain(&["/a", "spec.a"]), false),
        ("the same mistake once more", plain(&["spec.a"]), plain(&["spec.a", "spec.a"]), true),
        ("another value", plain(&["spec.a"]), plain(&["spec.b"]), true),
        ("another part of a value that has parts", both("x", 1), both("x", 2), false),
    ] {
        assert_eq!(refused(&Write::update(GROUP, "overridepolicies", old, new)), want, "{name}");
    }
}

#[test]
fn objects_being_deleted_are_validated_unless_only_their_metadata_changes() {
    let deleted = |object: &Value| with(object, &json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}));
    let good = with_spec(&bad(), &json!({"overriders": null}));
    let unlabelled = with(&deleted(&bad()), &json!({"metadata": {"finalizers": null, "labels": {"a": "b"}}}));
    let escape = json!({"overriders": {"plaintext": [
        {"path": "/metadata/namespace", "operator": "replace", "value": "kube-system"}]}});
    let foreign = json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "namespace": "other"}]});
    for (name, old, new, want) in [
        ("a finalizer of an invalid object", deleted(&bad()), unlabelled, false),
        ("its status", deleted(&bad()), with(&deleted(&bad()), &json!({"status": {"x": 1}})), false),
        ("its spec", deleted(&good), deleted(&bad()), true),
        ("a rule about tenants", deleted(&good), deleted(&with_spec(&good, &foreign)), true),
        ("the identity of copies", deleted(&good), deleted(&with_spec(&good, &escape)), true),
        ("a deletion that the body alone claims", bad(), deleted(&bad()), false),
        ("an unmarked old object with another spec", good.clone(), deleted(&bad()), true),
    ] {
        assert_eq!(refused(&Write::update(GROUP, "overridepolicies", old, new)), want, "{name}");
    }
    assert!(refused(&Write::create(GROUP, "overridepolicies", deleted(&bad()))), "a new object is not being deleted");
    let mut bypass = Write::update(GROUP, "overridepolicies", deleted(&good), deleted(&with_spec(&good, &foreign)));
    bypass.groups = vec![BYPASS_GROUP.to_owned()];
    assert!(refused(&bypass), "namespace isolation cannot be overruled");
}

/// Every kind with rules: what is refused of a living object is refused of one that is being deleted.
#[test]
fn no_rule_of_any_kind_is_skipped_for_objects_being_deleted() {
    let deletion = json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}});
    for webhook in WEBHOOKS.iter().filter(|webhook| matches!(webhook.act, crate::table::Act::Validate { .. })) {
        let object =
            json!({"apiVersion": "v1", "kind": "X", "metadata": {"namespace": "shop", "name": "x"}, "spec": {}});
        let broken = with(&object, &json!({"spec": "no object", "value": "none"}));
        let update = |old: &Value, new: &Value| {
            Write::update(webhook.group, webhook.resource, old.clone(), new.clone()).validated().denial
        };
        let living = update(&object, &broken);
        let deleting = update(&with(&object, &deletion), &with(&broken, &deletion));
        assert_eq!(living.is_some(), deleting.is_some(), "{}: {living:?}", webhook.path);
    }
}

#[test]
fn break_glass_group_gets_warnings() {
    let mut write = Write::create(GROUP, "overridepolicies", bad());
    write.groups = vec![BYPASS_GROUP.to_owned()];
    let verdict = write.validated();
    let error = "spec.overriders.plaintext[0].path: Invalid value: \"spec.a\": JSON pointer must be empty or start with a \"/\": write /spec/a";
    assert_eq!(verdict.denial, None);
    assert_eq!(verdict.warnings, [format!("{error} (let through for group karmada:admission-bypass)")]);
    assert_eq!(verdict.audit.get("bypass").map(String::as_str), Some(error));
    let foreign = json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "namespace": "other"}]});
    write.object = Some(with_spec(&bad(), &foreign));
    let verdict = write.validated();
    assert_eq!(
        verdict.denial.map(|d| d.message).unwrap_or_default(),
        "spec.resourceSelectors[0].namespace: Invalid value: \"other\": must be the policy's own namespace \"shop\"; a cluster policy reaches others",
        "namespace isolation cannot be overruled"
    );
}

#[test]
fn refusal_message_names_the_webhook() {
    let denial = Write::create(GROUP, "overridepolicies", bad()).validated().denial.unwrap();
    assert_eq!(
        denial.client_message(),
        "admission webhook \"overridepolicy.karmada.io\" denied the request: spec.overriders.plaintext[0].path: Invalid value: \"spec.a\": JSON pointer must be empty or start with a \"/\": write /spec/a"
    );
    assert_eq!((denial.code, denial.reason), (403, "Forbidden"));
}

#[test]
fn subresources_and_other_kinds_are_admitted() {
    let write = Write::create(GROUP, "overridepolicies", bad());
    let verdict = write.with_request(|request| {
        let status = crate::Request { subresource: "status", ..*request };
        crate::validate(&status, &write.lookups, &write.config)
    });
    assert_eq!(verdict, crate::Verdict::default());
    assert!(!refused(&Write::create("example.com", "overridepolicies", bad())));
}

#[test]
fn table_entries_are_consistent() {
    for (i, webhook) in WEBHOOKS.iter().enumerate() {
        let phase = if webhook.path.starts_with("/mutate-") {
            crate::table::Phase::Mutating
        } else {
            crate::table::Phase::Validating
        };
        assert_eq!(webhook.phase(), phase, "{}", webhook.path);
        assert!(webhook.name.ends_with(".karmada.io") && webhook.name.split('.').count() >= 3, "{}", webhook.name);
        let same = |other: &&crate::table::Webhook| {
            other.path == webhook.path || (other.name == webhook.name && other.phase() == phase)
        };
        assert_eq!(WEBHOOKS[i + 1..].iter().find(same).map(|w| w.path), None, "{}", webhook.path);
    }
}

/// Webhooks that the reference does not list, with the reason.
const BESIDE_THE_TABLE: [(&str, &str); 1] = [(
    "/validate-namespacedeletionprotection",
    "a namespace with protected contents is protected, too (admission.md 5.4)",
)];

/// specification/admission.md 1.3, each cell, both ways round.
#[test]
fn the_table_is_that_of_the_reference() {
    let table = Reference::Admission.table("### 1.3");
    let mut listed: Vec<&str> = BESIDE_THE_TABLE.iter().map(|(path, _)| *path).collect();
    for row in &table.rows {
        let path = table.cell(row, "Path").trim_matches('`');
        if path.is_empty() || row[0].contains("Conversion") {
            continue;
        }
        listed.push(path);
        let webhook = WEBHOOKS.iter().find(|webhook| webhook.path == path).unwrap_or_else(|| panic!("no {path}"));
        assert_eq!(row[0].split(' ').next(), Some(webhook.name), "{path}");
        let resource = table.cell(row, "Group").replace('`', "");
        let (group, resource) = resource.split_once('/').unwrap_or((webhook.group, &resource));
        match group.strip_suffix('…') {
            Some(start) => assert!(webhook.group.starts_with(start), "{path}: {}", webhook.group),
            None => assert_eq!(webhook.group, group, "{path}"),
        }
        assert_eq!(webhook.resource, resource, "{path}");
        let operations: Vec<&str> = webhook.operations.iter().map(|operation| operation.as_str()).collect();
        assert_eq!(operations.join(", "), table.cell(row, "Operations"), "{path}");
        let scope = table.cell(row, "Scope");
        let want = match scope.trim_matches('`').split([';', ' ', ',']).next().unwrap().trim_matches('`') {
            "Namespaced" => Scope::Namespaced,
            "Cluster" => Scope::Cluster,
            _ => Scope::Any,
        };
        assert_eq!(webhook.scope, want, "{path}");
        assert_eq!(webhook.timeout_seconds, if scope.contains("timeout 10 s") { 10 } else { 3 }, "{path}");
        assert_eq!(webhook.has_side_effects, scope.contains("NoneOnDryRun"), "{path}");
        let label = webhook.labelled.map(|labelled| labelled.key);
        let want = scope.split_once("label `").and_then(|(_, rest)| rest.split('`').next());
        // The specification names the label of horizontal autoscalers in another section.
        assert_eq!(label.filter(|_| resource != "horizontalpodautoscalers"), want, "{path}");
        let only = scope
            .split_once("only ")
            .map(|(_, rest)| format!("only-{}", rest.split(',').next().unwrap().replace(' ', "-")));
        assert_eq!(webhook.users.condition().map(|(name, _)| name.to_owned()), only, "{path}");
        let own = table.cell(row, "Own").replace('*', "");
        let want = match own.split(' ').next() {
            Some("no") => OwnWrites::Reviewed,
            _ if own.contains("FederatedQuotaEnforcement") => OwnWrites::ReviewedForQuota,
            _ => OwnWrites::Exempt,
        };
        assert_eq!(webhook.own_writes, want, "{path}");
    }
    // Kinds without rules are reviewed for a warning alone.
    let warned = ["/validate-remedy", "/validate-resourceregistry"];
    let missing: Vec<_> = WEBHOOKS.iter().map(|webhook| webhook.path).filter(|path| !listed.contains(path)).collect();
    assert_eq!(missing, warned, "not in the reference");
}

/// specification/api.md 15: the same table by kind.
#[test]
fn paths_are_for_the_kinds_of_the_reference() {
    let table = Reference::Api.table("## 15.");
    for row in &table.rows {
        let paths: Vec<&str> =
            row[0].split(" (").next().unwrap().split(", ").filter(|path| *path != "/convert").collect();
        for path in paths {
            let webhook = WEBHOOKS.iter().find(|webhook| webhook.path == path).unwrap_or_else(|| panic!("no {path}"));
            let operations: Vec<&str> = webhook.operations.iter().map(|operation| operation.as_str()).collect();
            assert_eq!(operations.join(", "), row[2].trim_end_matches(" only"), "{path}");
            let kind = row[1].split([' ', ',']).find(|word| word.starts_with(char::is_uppercase)).unwrap_or_default();
            let kind = kind.trim_end_matches('s').to_lowercase();
            let of_kind =
                webhook.resource == "*" || kind == "hpa" || webhook.resource.starts_with(kind.trim_end_matches('y'));
            assert!(of_kind, "{path} is for {}, not for {kind}", webhook.resource);
        }
    }
}

#[test]
fn kinds_that_no_controller_acts_on_are_answered_with_a_warning() {
    for (group, resource) in
        [("networking.karmada.io", "multiclusteringresses"), ("search.karmada.io", "resourceregistries")]
    {
        let object = json!({"apiVersion": "v1", "kind": "X", "metadata": {"namespace": "shop", "name": "x"}});
        let verdict = Write::create(group, resource, object).validated();
        let warned = verdict.warnings.iter().any(|warning| warning.contains("has no effect: this version"));
        assert!(warned, "{resource}: {:?}", verdict.warnings);
    }
    assert_eq!(Write::create(GROUP, "overridepolicies", bad()).validated().warnings, Vec::<String>::new());
}
