use ironclad_api::{
    policy::{ClusterPropagationPolicy, PropagationPolicy},
    work::ResourceBinding,
};

use super::*;
use crate::testkit::{self, cluster_policy, deployment, ids, merge, patched, policy};

fn claim_of(policy: Policy<'_>) -> Claim {
    Claim::new(policy, policy.permanent_id().unwrap().to_owned())
}

fn claimed_template(by: Policy<'_>) -> Value {
    let mut template = deployment();
    let patch = claim_of(by).patch_of_template(&template).unwrap();
    merge(&mut template, &patch);
    template
}

fn claimed_binding(by: Policy<'_>) -> ResourceBinding {
    let mut binding = testkit::binding(&[("m1", 1)]);
    let (labels, annotations) =
        (binding.metadata.labels.get_or_insert_default(), binding.metadata.annotations.get_or_insert_default());
    claim_of(by).put_on(labels, annotations);
    binding
}

fn seen<'a>(
    policy: Policy<'a>,
    claimed: &'a [Claimed<'a>],
    templates: &'a [Template<'a>],
    waiting: &'a [&'a Value],
) -> Seen<'a> {
    Seen { policy, claimed, templates, waiting, preemption: None, now: Timestamp::UNIX_EPOCH }
}

fn key() -> ObjectKey {
    Identity::of(&deployment()).key()
}

fn kinds(plan: &Plan<Effect>) -> Vec<&'static str> {
    plan.effects
        .iter()
        .map(|effect| match effect {
            Effect::PatchPolicy { .. } => "policy",
            Effect::PatchTemplate { .. } => "template",
            Effect::PatchBinding { .. } => "binding",
            Effect::Enqueue { .. } => "enqueue",
            Effect::RequeueAfter(_) => "requeue",
            Effect::Event(_) => "event",
        })
        .collect()
}

#[test]
fn unselected_templates_are_released_and_selected_ones_enqueued() {
    let p = policy("p", json!({"name": "web"}));
    let (template, binding) = (claimed_template(Policy::Namespaced(&p)), claimed_binding(Policy::Namespaced(&p)));
    let claimed = [Claimed { binding: Binding::from(&binding), template: Some(&template) }];
    let plan = decide(&seen(Policy::Namespaced(&p), &claimed, &[], &[]), ids("x"));
    assert_eq!(plan.effects, [Effect::Enqueue { template: key() }]);

    let left = policy("p", json!({"name": "other"}));
    let plan = decide(&seen(Policy::Namespaced(&left), &claimed, &[], &[]), ids("x"));
    let [Effect::PatchTemplate { patch: of_template, .. }, Effect::PatchBinding { patch: of_binding, .. }] =
        plan.effects.as_slice()
    else {
        panic!("template first, then binding: {plan:?}")
    };
    let (mut freed, unbound) = (template.clone(), patched(&binding, of_binding));
    merge(&mut freed, of_template);
    assert_eq!(Claim::of_template(&freed), None);
    assert_eq!(Claim::of_metadata(&unbound.metadata), None);
    assert_eq!(unbound.spec, binding.spec, "the binding stays as it is");

    let other = claimed_template(Policy::Namespaced(&policy("q", json!({}))));
    let claimed = [Claimed { binding: Binding::from(&binding), template: Some(&other) }];
    let plan = decide(&seen(Policy::Namespaced(&left), &claimed, &[], &[]), ids("x"));
    assert_eq!(kinds(&plan), ["binding"], "another policy's claim on the template is not ours to clear");

    let claimed = [Claimed { binding: Binding::from(&binding), template: None }];
    assert!(
        decide(&seen(Policy::Namespaced(&left), &claimed, &[], &[]), ids("x")).is_quiet(),
        "a template that is deleted"
    );
}

#[test]
fn waiting_templates_that_it_selects_are_enqueued() {
    let template = deployment();
    let mut p = policy("p", json!({}));
    let waiting = [&template];
    for overrides in [vec![], vec!["o".to_owned()]] {
        // The template says that it waits for them.
        p.spec.dependent_overrides = overrides;
        let plan = decide(&seen(Policy::Namespaced(&p), &[], &[], &waiting), ids("x"));
        assert_eq!(plan.effects, [Effect::Enqueue { template: key() }]);
    }
    let other = policy("p", json!({"name": "other"}));
    assert_eq!(kinds(&decide(&seen(Policy::Namespaced(&other), &[], &[], &waiting), ids("x"))), ["event"]);
}

#[test]
fn new_policy_gets_id_and_finalizer() {
    let mut p = policy("p", json!({}));
    (p.metadata.labels, p.metadata.finalizers) = (None, None);
    let plan = decide(&seen(Policy::Namespaced(&p), &[], &[], &[]), ids("new"));
    assert_eq!(
        plan.effects[0],
        Effect::PatchPolicy {
            patch: json!({"metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": "new-1"}, "finalizers": ["karmada.io/propagation-policy-controller"]}})
        }
    );
    let c: ClusterPropagationPolicy =
        patched(&cluster_policy("c", json!({})), &json!({"metadata": {"labels": null, "finalizers": ["theirs"]}}));
    let plan = decide(&seen(Policy::Cluster(&c), &[], &[], &[]), ids("new"));
    assert_eq!(
        plan.effects[0],
        Effect::PatchPolicy {
            patch: json!({"metadata": {"labels": {"clusterpropagationpolicy.karmada.io/permanent-id": "new-1"}, "finalizers": ["theirs", "karmada.io/cluster-propagation-policy-controller"]}})
        }
    );
}

#[test]
fn policy_without_templates_is_reported() {
    let p = policy("p", json!({"name": "wbe", "namespace": "shop"}));
    let plan = decide(&seen(Policy::Namespaced(&p), &[], &[], &[]), ids("x"));
    let [Effect::Event(event)] = plan.effects.as_slice() else { panic!("{plan:?}") };
    assert_eq!((event.reason, event.about.kind.as_str()), ("NoTemplateMatched", "PropagationPolicy"));
    assert_eq!(
        event.message,
        "no template matches the resource selectors yet; the policy is applied as soon as one does: check apiVersion, kind, name and namespace of apps/v1 Deployment shop/wbe"
    );
}

#[test]
fn deleted_policy_releases_claims_and_keeps_workloads() {
    let mut p = policy("p", json!({}));
    let (template, binding) = (claimed_template(Policy::Namespaced(&p)), claimed_binding(Policy::Namespaced(&p)));
    p.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let claimed = [Claimed { binding: Binding::from(&binding), template: Some(&template) }];
    let templates = [Template { template: &template, binding: Some(Binding::from(&binding)) }];
    let plan = decide(&seen(Policy::Namespaced(&p), &claimed, &templates, &[&template]), ids("x"));
    assert_eq!(kinds(&plan), ["binding", "template", "event", "policy"], "binding, template, then the finalizer");
    assert_eq!(plan.effects[3], Effect::PatchPolicy { patch: json!({"metadata": {"finalizers": []}}) });
    let Effect::Event(event) = &plan.effects[2] else { panic!("{plan:?}") };
    assert_eq!(event.message, "policy removed, propagated copies are kept: PropagationPolicy shop/p");

    // The selectors were edited: the kind of the template is not among them, so only its binding names it.
    let plan = decide(&seen(Policy::Namespaced(&p), &claimed, &[], &[]), ids("x"));
    assert_eq!(kinds(&plan), ["binding", "template", "event", "policy"], "of a kind that is no longer selected");

    // Claimed by another policy since: the object no longer has this policy's id.
    let other = claimed_template(Policy::Namespaced(&policy("q", json!({}))));
    let templates = [Template { template: &other, binding: None }];
    let plan = decide(&seen(Policy::Namespaced(&p), &[], &templates, &[]), ids("x"));
    assert_eq!(kinds(&plan), ["policy"]);

    p.metadata.finalizers = None;
    assert!(decide(&seen(Policy::Namespaced(&p), &[], &[], &[]), ids("x")).is_quiet());
}

#[test]
fn preemption_table() {
    let make = |name: &str, priority: i32| -> PropagationPolicy {
        patched(&policy(name, json!({"name": "web"})), &json!({"spec": {"priority": priority, "preemption": "Always"}}))
    };
    let make_cluster = |name: &str, priority: i32| -> ClusterPropagationPolicy {
        patched(
            &cluster_policy(name, json!({"name": "web"})),
            &json!({"spec": {"priority": priority, "preemption": "Always"}}),
        )
    };
    let (high, low, equal) = (make("high", 5), make("low", 1), make("equal", 5));
    let (cluster_high, cluster_low) = (make_cluster("c-high", 5), make_cluster("c-low", 1));
    let never: PropagationPolicy = patched(&high, &json!({"spec": {"preemption": "Never"}}));
    for (name, preemptor, holder, want) in [
        ("a stronger one takes it", Policy::Namespaced(&high), Policy::Namespaced(&low), true),
        ("an equal one does not", Policy::Namespaced(&high), Policy::Namespaced(&equal), false),
        ("nor a weaker one", Policy::Namespaced(&low), Policy::Namespaced(&high), false),
        ("from the cluster's always", Policy::Namespaced(&low), Policy::Cluster(&cluster_high), true),
        ("among the cluster's the stronger", Policy::Cluster(&cluster_high), Policy::Cluster(&cluster_low), true),
        ("not the weaker", Policy::Cluster(&cluster_low), Policy::Cluster(&cluster_high), false),
        ("the cluster's never from the namespace's", Policy::Cluster(&cluster_high), Policy::Namespaced(&low), false),
        ("not one that never does", Policy::Namespaced(&never), Policy::Namespaced(&low), false),
    ] {
        let template = claimed_template(holder);
        let candidates = [Candidate { template: &template, holder: Some(holder) }];
        let plan = decide(&Seen { preemption: Some(&candidates), ..seen(preemptor, &[], &[], &[]) }, ids("x"));
        let patch = plan
            .effects
            .iter()
            .find_map(|e| if let Effect::PatchTemplate { patch, .. } = e { Some(patch) } else { None });
        assert_eq!(patch.is_some(), want, "{name}: {plan:?}");
        if let Some(patch) = patch {
            let mut taken = template.clone();
            merge(&mut taken, patch);
            assert_eq!(Claim::of_template(&taken).unwrap().policy(), preemptor.key(), "{name}");
        }
        let off = decide(&seen(preemptor, &[], &[], &[]), ids("x"));
        assert!(!kinds(&off).contains(&"template"), "{name}: the gate is off");
    }
    let claimed = claimed_template(Policy::Namespaced(&low));
    let candidates = [Candidate { template: &claimed, holder: None }];
    let plan =
        decide(&Seen { preemption: Some(&candidates), ..seen(Policy::Namespaced(&equal), &[], &[], &[]) }, ids("x"));
    assert!(kinds(&plan).contains(&"template"), "a holder that is deleted holds nothing");
    let unclaimed = deployment();
    let candidates = [Candidate { template: &unclaimed, holder: None }];
    let plan =
        decide(&Seen { preemption: Some(&candidates), ..seen(Policy::Namespaced(&high), &[], &[], &[]) }, ids("x"));
    assert!(!kinds(&plan).contains(&"template"), "an unclaimed template is the waiting list's matter");
}

#[test]
fn failed_preemption_is_reported_on_the_template() {
    let (low, high) = (policy("low", json!({"name": "web"})), policy("high", json!({"name": "web"})));
    let candidates = claimed_template(Policy::Namespaced(&low));
    let event = preemption_failed_event(Policy::Namespaced(&high), &candidates, "Denied", "no").unwrap();
    assert_eq!((event.about.kind.as_str(), event.reason), ("Deployment", "PreemptPolicyFailed"));
    assert!(event.message.ends_with(": no") && event.message.contains("shop/low"), "{}", event.message);
    for (name, policy, template, class, event) in [
        ("refused", &high, &candidates, "Denied", true),
        ("invalid", &high, &candidates, "Invalid", true),
        ("not answered", &high, &candidates, "Unavailable", true),
        ("it changed meanwhile: the next look decides", &high, &candidates, "Conflict", false),
        ("it is deleted", &high, &candidates, "NotFound", false),
        ("its own", &low, &candidates, "Denied", false),
        ("nobody's", &low, &deployment(), "Denied", false),
    ] {
        assert_eq!(
            preemption_failed_event(Policy::Namespaced(policy), template, class, "no").is_some(),
            event,
            "{name}"
        );
    }
}

#[test]
fn preemption_candidates() {
    let always = policy("mid", json!({"name": "web"}));
    let always: PropagationPolicy = patched(&always, &json!({"spec": {"preemption": "Always"}}));
    let never = policy("never", json!({"name": "web"}));
    let named: Vec<String> = candidates(Policy::Namespaced(&always)).iter().map(ToString::to_string).collect();
    assert_eq!(named.len(), 1, "{named:?}");
    assert!(named[0].contains("shop") && named[0].contains("web"), "{named:?}");
    assert!(candidates(Policy::Namespaced(&never)).is_empty());
}

#[test]
fn young_policy_is_not_reported_as_idle() {
    let made = |at: &str| -> PropagationPolicy {
        patched(&policy("p", json!({})), &json!({"metadata": {"creationTimestamp": at}}))
    };
    for (name, created, want) in [
        ("four seconds old", "2026-01-01T00:00:06Z", "look again"),
        ("five seconds old", "2026-01-01T00:00:05Z", "event"),
    ] {
        let policy = made(created);
        let now = "2026-01-01T00:00:10Z".parse().unwrap();
        let plan = decide(&Seen { now, ..seen(Policy::Namespaced(&policy), &[], &[], &[]) }, ids("x"));
        let got = match plan.effects.as_slice() {
            [Effect::RequeueAfter(_)] => "look again",
            [Effect::Event(_)] => "event",
            other => panic!("{other:?}"),
        };
        assert_eq!(got, want, "{name}");
    }
}
