//! How rules are applied: own writes, what was wrong before, what is going, who may overrule (admission.md 1, 8).

use serde_json::{Value, json};

use super::{Write, with, with_spec};
use crate::{BYPASS_GROUP, table::WEBHOOKS};

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
fn our_own_writes_pass() {
    let create = Write::create(GROUP, "overridepolicies", bad());
    for (name, own, user, manager, want) in [
        ("a user", Some("ironclad"), "alice", "kubectl", true),
        ("we ourselves", Some("ironclad"), "ironclad", "ironclad-detector", false),
        ("a person with our credentials", Some("ironclad"), "ironclad", "kubectl", true),
        ("a stranger who says it is us", Some("ironclad"), "alice", "ironclad-detector", true),
        ("nobody is us", None, "ironclad", "ironclad-detector", true),
    ] {
        let mut write = Write { user, field_manager: manager, ..create.clone() };
        write.config.own_user = own.map(str::to_owned);
        assert_eq!(refused(&write), want, "{name}");
    }
}

#[test]
fn what_was_wrong_before_is_let_through() {
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
    assert!(refused(&update(bad(), with_spec(&bad(), &worse))), "another mistake in the same place");
    let good = with_spec(&bad(), &json!({"overriders": null}));
    assert!(refused(&update(good, bad())), "a new mistake");
}

#[test]
fn what_is_going_is_let_go() {
    let going = with(&bad(), &json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}));
    let good = with_spec(&bad(), &json!({"overriders": null}));
    assert!(!refused(&Write::update(GROUP, "overridepolicies", good, going)));
}

#[test]
fn who_may_overrule() {
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
        "namespaces stay apart, whoever asks"
    );
}

#[test]
fn what_a_client_reads() {
    let denial = Write::create(GROUP, "overridepolicies", bad()).validated().denial.unwrap();
    assert_eq!(
        denial.told(),
        "admission webhook \"overridepolicy.karmada.io\" denied the request: spec.overriders.plaintext[0].path: Invalid value: \"spec.a\": JSON pointer must be empty or start with a \"/\": write /spec/a"
    );
    assert_eq!((denial.code, denial.reason), (403, "Forbidden"));
}

#[test]
fn subresources_and_other_kinds_pass() {
    let write = Write::create(GROUP, "overridepolicies", bad());
    let verdict = write.with_request(|request| {
        let status = crate::Request { subresource: "status", ..*request };
        crate::validate(&status, &write.lookups, &write.config)
    });
    assert_eq!(verdict, crate::Verdict::default());
    assert!(!refused(&Write::create("example.com", "overridepolicies", bad())));
}

#[test]
fn the_table_is_sound() {
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
