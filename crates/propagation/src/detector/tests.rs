use ironclad_api::policy::{ActivationPreference, ClusterPropagationPolicy, PropagationPolicy};

use ironclad_fleet::EventType;

use super::{claim::ClaimScope, *};
use crate::testkit::{cluster_policy, deployment, ids, merge, patched, policy};

const NAMESPACED_ID: &str = "propagationpolicy.karmada.io/permanent-id";
const CLUSTER_ID: &str = "clusterpropagationpolicy.karmada.io/permanent-id";

/// A template with its policies and binding. Applies effects as the reconciler does.
struct World {
    template: Value,
    policies: Vec<PropagationPolicy>,
    cluster_policies: Vec<ClusterPropagationPolicy>,
    binding: Option<ResourceBinding>,
    waiting: Option<Waiting>,
    overrides: BTreeSet<String>,
    version: u32,
}

impl World {
    fn new(policies: Vec<PropagationPolicy>) -> Self {
        Self {
            template: deployment(),
            policies,
            cluster_policies: Vec::new(),
            binding: None,
            waiting: None,
            overrides: BTreeSet::new(),
            version: 10,
        }
    }

    fn reconcile(&mut self) -> Plan<Effect> {
        let policies: Vec<Policy<'_>> = self
            .policies
            .iter()
            .map(Policy::Namespaced)
            .chain(self.cluster_policies.iter().map(Policy::Cluster))
            .collect();
        let binding = self.binding.as_ref().map(Binding::from);
        let plan = decide(
            &Seen {
                template: &self.template,
                policies: &policies,
                binding,
                named: binding,
                waiting: self.waiting,
                overrides: &self.overrides,
                cluster_overrides: &self.overrides,
                priority_classes: None,
                interpreter: &Interpreter::default(),
                options: &binding::Options::default(),
                now: jiff::Timestamp::UNIX_EPOCH,
            },
            ids("new"),
        );
        for effect in &plan.effects {
            self.apply(effect);
        }
        plan
    }

    fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::PatchPolicy { policy, patch } => {
                for p in self.policies.iter_mut().filter(|p| Policy::Namespaced(p).key() == *policy) {
                    *p = patched(p, patch);
                }
                for p in self.cluster_policies.iter_mut().filter(|p| Policy::Cluster(p).key() == *policy) {
                    *p = patched(p, patch);
                }
            }
            Effect::PatchTemplate { patch } => self.edit(patch.clone()),
            Effect::CreateBinding(binding) => {
                let created = json!({"metadata": {"uid": "uid-rb", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1}});
                self.binding = Some(patched(&**binding, &created));
            }
            Effect::CreateClusterBinding(_) => panic!("the template is namespaced"),
            Effect::PatchBinding { patch, .. } => self.binding = Some(patched(self.binding.as_ref().unwrap(), patch)),
            Effect::Wait(waiting) => self.waiting = Some(*waiting),
            Effect::StopWaiting => self.waiting = None,
            Effect::Retry | Effect::Event(_) => {}
        }
    }

    /// A write of the template by a user.
    fn edit(&mut self, patch: Value) {
        merge(&mut self.template, &patch);
        self.version += 1;
        self.template["metadata"]["resourceVersion"] = json!(self.version.to_string());
    }

    /// Reconciles until there are no effects, and returns the number of cycles.
    fn converge(&mut self) -> usize {
        for n in 0..6 {
            if self.reconcile().is_quiet() {
                return n;
            }
        }
        panic!("never quiet: {:?}", self.reconcile());
    }

    fn claimant(&self) -> Option<String> {
        Claim::of_template(&self.template).map(|claim| claim.name)
    }

    fn placed(&self) -> Vec<String> {
        let placement = self.binding.as_ref().and_then(|b| b.spec.placement.clone()).unwrap_or_default();
        placement.into_inner().cluster_affinity.map(|a| a.cluster_names).unwrap_or_default()
    }
}

fn lazy(name: &str) -> PropagationPolicy {
    let mut policy = policy(name, json!({}));
    policy.spec.activation_preference = Some(ActivationPreference::Lazy);
    policy
}

fn place(policy: &mut PropagationPolicy, cluster: &str) {
    policy.spec.placement.cluster_affinity.as_mut().unwrap().cluster_names = vec![cluster.into()];
    policy.metadata.generation = policy.metadata.generation.map(|g| g + 1);
}

#[test]
fn template_is_claimed_then_bound_then_unchanged() {
    let mut world = World::new(vec![policy("p", json!({}))]);
    let first = world.reconcile();
    assert_eq!(
        first.effects,
        [Effect::PatchTemplate {
            patch: json!({"metadata": {
                "labels": {"propagationpolicy.karmada.io/permanent-id": "id-p"},
                "annotations": {"propagationpolicy.karmada.io/namespace": "shop", "propagationpolicy.karmada.io/name": "p"}}})
        }]
    );
    let second = world.reconcile();
    let [Effect::CreateBinding(binding)] = second.effects.as_slice() else { panic!("{second:?}") };
    assert_eq!(binding.spec.resource.resource_version, "11", "as the claim's write returned it");
    assert!(world.reconcile().is_quiet());
}

#[test]
fn policy_gets_id_and_finalizer_before_the_claim() {
    let mut bare = policy("p", json!({}));
    bare.metadata.labels = None;
    bare.metadata.finalizers = None;
    let mut world = World::new(vec![bare]);
    let plan = world.reconcile();
    assert_eq!(
        plan.effects[0],
        Effect::PatchPolicy {
            policy: PolicyKey { namespace: "shop".into(), name: "p".into() },
            patch: json!({"metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": "new-1"}, "finalizers": ["karmada.io/propagation-policy-controller"]}}),
        }
    );
    assert_eq!(Claim::of_template(&world.template).unwrap().id, "new-1");
    assert!(world.converge() <= 2);
}

#[test]
fn template_claimed_by_another_system_is_ignored() {
    let mut world = World::new(vec![policy("p", json!({}))]);
    world.template["metadata"]["labels"]["resourcetemplate.karmada.io/claimed-by"] = json!("MultiClusterService");
    world.waiting = Some(Waiting::ForPolicy);
    assert_eq!(world.reconcile().effects, [Effect::StopWaiting]);
    assert!(world.reconcile().is_quiet());
}

#[test]
fn template_being_deleted_is_not_bound() {
    let mut world = World::new(vec![policy("p", json!({}))]);
    world.template["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(world.reconcile().is_quiet());
}

#[test]
fn template_without_policy_waits_and_retries_once() {
    let mut world = World::new(vec![policy("p", json!({"name": "other"}))]);
    assert_eq!(world.reconcile().effects, [Effect::Wait(Waiting::ForPolicy), Effect::Retry]);
    assert!(world.reconcile().is_quiet(), "silently from then on");
    world.policies.push(policy("q", json!({})));
    world.converge();
    assert_eq!((world.claimant().as_deref(), world.waiting), (Some("q"), None));
}

#[test]
fn claim_is_sticky() {
    let mut world = World::new(vec![policy("p", json!({}))]);
    world.converge();
    let mut better = policy("a", json!({"name": "web"}));
    better.spec.priority = Some(9);
    world.policies.push(better);
    assert!(world.reconcile().is_quiet());
    assert_eq!(world.claimant().as_deref(), Some("p"));
}

#[test]
fn claims_are_released_or_kept() {
    for (name, change, want_claim, want_effects) in [
        (
            "the policy was deleted: the claim goes, binding first",
            (|world: &mut World| world.policies.clear()) as fn(&mut World),
            None,
            2,
        ),
        (
            "the policy is being deleted: later",
            |world| {
                world.policies[0].metadata.deletion_timestamp =
                    serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap()
            },
            Some("p"),
            1,
        ),
        (
            "its selectors left: the claim goes, binding first",
            |world| world.policies[0].spec.resource_selectors[0].name = "x".into(),
            None,
            2,
        ),
        (
            "seen in another API in which its policy does not select it: nothing, without error",
            |world| world.policies[0].spec.resource_selectors[0].api_version = "extensions/v1beta1".into(),
            Some("p"),
            0,
        ),
    ] {
        let mut world = World::new(vec![policy("p", json!({}))]);
        world.converge();
        change(&mut world);
        let plan = world.reconcile();
        assert_eq!(plan.effects.len(), want_effects, "{name}: {plan:?}");
        assert_eq!(world.claimant().as_deref(), want_claim, "{name}");
        match want_effects {
            2 => {
                assert!(matches!(plan.effects[0], Effect::PatchBinding { .. }), "{name}");
                assert!(world.binding.is_some(), "{name}: the binding stays");
                assert_eq!(Claim::of_metadata(&world.binding.as_ref().unwrap().metadata), None, "{name}");
            }
            1 => assert_eq!(plan.effects, [Effect::Retry], "{name}"),
            _ => {}
        }
    }
}

/// A copy of a template carries its claim, too.
#[test]
fn claim_that_names_another_object_is_released() {
    let holder = policy("holder", json!({"name": "web"}));
    let cluster_holder = cluster_policy("cluster-holder", json!({"name": "web", "namespace": "shop"}));
    let by_label = policy("by-label", json!({"labelSelector": {"matchLabels": {"tier": "front"}}}));
    let mut own = policy("own", json!({"name": "copy"}));
    let elsewhere = json!({"metadata": {"namespace": "staging"}});
    let mut own_elsewhere: PropagationPolicy = patched(&own, &elsewhere);
    for (policy, namespace, name) in [(&mut own, "shop", "copy"), (&mut own_elsewhere, "staging", "web")] {
        policy.spec.resource_selectors[0].namespace = namespace.into();
        policy.spec.resource_selectors[0].name = name.into();
    }
    let named = json!({"metadata": {"name": "copy"}});
    let with = |extra: Value| {
        let mut all = named.clone();
        merge(&mut all, &extra);
        all
    };
    let (of_policy, of_cluster) = (Policy::Namespaced(&holder), Policy::Cluster(&cluster_holder));
    let both = json!({"metadata": {
        "labels": {CLUSTER_ID: "id-cluster-holder"},
        "annotations": {"clusterpropagationpolicy.karmada.io/name": "cluster-holder"},
    }});
    for (name, claimed_by, change, own) in [
        ("another name", of_policy, named.clone(), Some(&own)),
        ("another namespace", of_policy, elsewhere.clone(), Some(&own_elsewhere)),
        ("a cluster policy's, another name", of_cluster, named.clone(), Some(&own)),
        ("a cluster policy's, another namespace", of_cluster, elsewhere, Some(&own_elsewhere)),
        (
            "of another control plane",
            of_policy,
            with(json!({"metadata": {"labels": {NAMESPACED_ID: "x"}}})),
            Some(&own),
        ),
        ("two claims", of_policy, with(both), Some(&own)),
        ("a lazy policy's", of_policy, with(json!({"metadata": {"annotations": {AWAITS_EDIT: "x"}}})), Some(&own)),
        ("other labels", Policy::Namespaced(&by_label), json!({"metadata": {"labels": {"tier": "back"}}}), None),
    ] {
        for own in [own, None] {
            let mut world = World::new(vec![holder.clone(), by_label.clone()]);
            world.cluster_policies.push(cluster_holder.clone());
            let claim = Claim::new(claimed_by, claimed_by.permanent_id().unwrap().to_owned());
            let patch = claim.patch_of_template(&world.template).unwrap();
            world.edit(patch);
            world.edit(change.clone());
            if name == "other labels" {
                // The template is no copy: the holder's name would select it.
                world.policies.remove(0);
                world.cluster_policies.clear();
            }
            world.policies.extend(own.cloned());
            world.converge();
            assert_eq!(world.claimant().as_deref(), own.map(|_| "own"), "{name}");
            assert_eq!(world.binding.is_some(), own.is_some(), "{name}");
            assert_eq!(template::annotation(&world.template, AWAITS_EDIT), "", "{name}");
            let labels = template::map(&world.template, "/metadata/labels");
            assert!(labels.contains_key(NAMESPACED_ID) == own.is_some() && !labels.contains_key(CLUSTER_ID), "{name}");
        }
    }
}

#[test]
fn missing_override_policies_are_reported_on_the_template() {
    for settled in [false, true] {
        let mut world = World::new(vec![policy("p", json!({}))]);
        if settled {
            world.converge();
        }
        world.policies[0].spec.dependent_overrides = vec!["o".into()];
        let plan = world.reconcile();
        let [Effect::Event(event), Effect::Retry, waits @ ..] = plan.effects.as_slice() else {
            panic!("{settled}: {plan:?}")
        };
        let want: &[Effect] = if settled { &[] } else { &[Effect::Wait(Waiting::ForOverrides)] };
        assert_eq!(waits, want, "{settled}: the policy finds an unclaimed template among those that wait");
        assert_eq!((event.about.kind.as_str(), event.reason), ("Deployment", "ApplyPolicyFailed"), "{settled}");
        let want = "waiting for dependent overrides of PropagationPolicy shop/p: o";
        assert_eq!(event.message, want, "{settled}");
        assert_eq!(world.claimant().is_some(), settled, "it takes no template meanwhile, and lets none go");
    }
}

#[test]
fn uninterpretable_template_is_reported_and_not_bound() {
    let mut world = World::new(vec![policy("p", json!({}))]);
    world.template["spec"]["replicas"] = json!("many");
    let mut reasons = Vec::new();
    for _ in 0..3 {
        for effect in world.reconcile().effects {
            if let Effect::Event(event) = effect {
                reasons.push(event.reason);
            }
        }
    }
    reasons.dedup();
    assert_eq!(reasons[..2], ["GetReplicasFailed", "ApplyPolicyFailed"]);
    assert!(world.binding.is_none());
}

#[test]
fn recreated_policy_renews_the_claim() {
    let mut world = World::new(vec![policy("p", json!({}))]);
    world.converge();
    world.policies[0]
        .metadata
        .labels
        .as_mut()
        .unwrap()
        .insert("propagationpolicy.karmada.io/permanent-id".into(), "id-2".into());
    world.converge();
    assert_eq!(Claim::of_template(&world.template).unwrap().id, "id-2");
    assert_eq!(Claim::of_metadata(&world.binding.unwrap().metadata).unwrap().id, "id-2");
}

#[test]
fn namespaced_claim_replaces_a_cluster_claim() {
    let mut world = World::new(vec![]);
    world.cluster_policies.push(cluster_policy("c", json!({})));
    world.converge();
    assert_eq!(Claim::of_metadata(&world.binding.as_ref().unwrap().metadata).unwrap().scope, ClaimScope::Cluster);
    let claim = Claim { scope: ClaimScope::Namespaced, namespace: "shop".into(), name: "p".into(), id: "id-p".into() };
    world.policies.push(policy("p", json!({})));
    let patch = claim.patch_of_template(&world.template).unwrap();
    world.edit(patch);
    world.converge();
    let metadata = world.binding.unwrap().metadata;
    assert_eq!(Claim::of_metadata(&metadata), Some(claim));
    assert!(!metadata.labels.unwrap().contains_key("clusterpropagationpolicy.karmada.io/permanent-id"));
    assert!(!metadata.annotations.unwrap().contains_key("clusterpropagationpolicy.karmada.io/name"));
}

#[test]
fn incomplete_claim_is_ignored() {
    let keys = [
        ("labels", "propagationpolicy.karmada.io/permanent-id"),
        ("annotations", "propagationpolicy.karmada.io/namespace"),
        ("annotations", "propagationpolicy.karmada.io/name"),
    ];
    for missing in 0..keys.len() {
        let mut template = deployment();
        for (i, (map, key)) in keys.iter().enumerate().filter(|(i, _)| *i != missing) {
            template["metadata"][*map][*key] = json!(format!("v{i}"));
        }
        assert_eq!(Claim::of_template(&template), None, "without {}", keys[missing].1);
    }
    let mut template = deployment();
    template["metadata"]["labels"]["clusterpropagationpolicy.karmada.io/permanent-id"] = json!("i");
    assert_eq!(Claim::of_template(&template), None);
    template["metadata"]["annotations"] = json!({"clusterpropagationpolicy.karmada.io/name": "c"});
    assert_eq!(Claim::of_template(&template).unwrap().scope, ClaimScope::Cluster);
}

#[test]
fn policies_not_chosen_are_listed_in_one_event() {
    let mut world = World::new(vec![policy("b", json!({})), policy("a", json!({}))]);
    let plan = world.reconcile();
    let Effect::Event(event) = &plan.effects[0] else { panic!("{plan:?}") };
    assert_eq!(
        event.message,
        "PropagationPolicy shop/a selects the template by kind. PropagationPolicy shop/b selects it too: its name comes later"
    );
    let mut world = World::new(vec![policy("a", json!({}))]);
    assert!(!world.reconcile().effects.iter().any(|e| matches!(e, Effect::Event(_))), "no event where nobody lost");
}

#[test]
fn lazy_policy_waits_for_an_edit() {
    // The template is older than its policy: claimed at once, bound at the next edit.
    let mut world = World::new(vec![]);
    world.converge();
    world.policies.push(lazy("p"));
    world.converge();
    assert_eq!((world.claimant().as_deref(), world.binding.is_none()), (Some("p"), true), "claimed, not bound");
    assert_eq!(world.waiting, None, "nothing of it is in memory: a restart changes nothing");
    assert!(world.reconcile().is_quiet());
    world.edit(json!({"metadata": {"labels": {"propagationpolicy.karmada.io/other": "x"}}}));
    assert!(world.reconcile().is_quiet(), "our own labels are no edit");
    world.edit(json!({"spec": {"replicas": 4}}));
    world.converge();
    assert_eq!((world.placed(), world.waiting), (vec!["m1".to_owned()], None), "the user's edit binds");
    assert_eq!(template::annotation(&world.template, AWAITS_EDIT), "", "and nothing is left of the wait");

    // A new placement waits for the next edit, across a restart as well: the binding records the template's hash.
    place(&mut world.policies[0], "m2");
    assert!(world.reconcile().is_quiet());
    assert_eq!(world.placed(), ["m1"]);
    world.edit(json!({"status": {"replicas": 4}}));
    assert!(world.reconcile().is_quiet(), "a status write is no edit");
    world.edit(json!({"metadata": {"labels": {"tier": "front"}}}));
    world.converge();
    assert_eq!(world.placed(), ["m2"], "the user's label is one");

    // No longer lazy: the placement applies at once.
    place(&mut world.policies[0], "m3");
    world.policies[0].spec.activation_preference = None;
    world.converge();
    assert_eq!(world.placed(), ["m3"]);
}

#[test]
fn template_older_than_its_lazy_policy_waits() {
    for (name, template, want) in [
        ("older", "2026-01-01T00:00:00Z", vec![]),
        ("of the same second", "2026-01-01T00:00:05Z", vec!["m1".to_owned()]),
        ("younger", "2026-01-01T00:00:06Z", vec!["m1".to_owned()]),
    ] {
        let made = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:05Z"}});
        let mut world = World::new(vec![patched(&lazy("p"), &made)]);
        world.template["metadata"]["creationTimestamp"] = json!(template);
        world.converge();
        let placed = if world.binding.is_some() { world.placed() } else { vec![] };
        assert_eq!((world.claimant().as_deref(), placed), (Some("p"), want), "{name}");
    }
}

#[test]
fn refused_binding_is_reported_on_the_template() {
    for (class, reasons) in
        [("Invalid", true), ("Denied", true), ("Conflict", false), ("AlreadyExists", false), ("Unknown", false)]
    {
        let event = binding_failed_event(&deployment(), class, "metadata.name: too long");
        assert_eq!(event.is_some(), reasons, "{class}");
        if let Some(event) = event {
            let said = (event.type_, event.reason, event.about.name.as_str(), event.message.as_str());
            assert_eq!(said, (EventType::Warning, "ApplyPolicyFailed", "web", "metadata.name: too long"));
        }
    }
}

#[test]
fn wait_for_an_edit_ends_with_its_lazy_policy() {
    let waiting = || {
        let mut world = World::new(vec![]);
        world.converge();
        world.policies.push(lazy("p"));
        world.converge();
        assert_ne!(template::annotation(&world.template, AWAITS_EDIT), "");
        world
    };
    let mut world = waiting();
    world.policies[0].spec.activation_preference = None;
    world.converge();
    assert_eq!((world.placed(), template::annotation(&world.template, AWAITS_EDIT)), (vec!["m1".to_owned()], ""));
    let mut world = waiting();
    world.policies.clear();
    world.converge();
    assert_eq!(
        (world.claimant(), template::annotation(&world.template, AWAITS_EDIT)),
        (None, ""),
        "its policy was deleted"
    );
}

#[test]
fn template_younger_than_its_lazy_policy_is_bound_at_once() {
    let mut world = World::new(vec![lazy("p")]);
    world.converge();
    assert_eq!(world.placed(), ["m1"]);
    let annotations = world.binding.unwrap().metadata.annotations.unwrap();
    assert_eq!(annotations["policy.ironclad.io/applied-generation"], "1");
}

#[test]
fn lazy_preemption_keeps_the_old_placement() {
    let mut world = World::new(vec![policy("p", json!({}))]);
    world.converge();
    let mut other = lazy("q");
    place(&mut other, "m2");
    world.policies.push(other);
    let claim = Claim { scope: ClaimScope::Namespaced, namespace: "shop".into(), name: "q".into(), id: "id-q".into() };
    let patch = claim.patch_of_template(&world.template).unwrap();
    world.edit(patch);
    assert!(world.reconcile().is_quiet());
    assert_eq!(world.placed(), ["m1"]);
    world.edit(json!({"spec": {"replicas": 1}}));
    world.converge();
    assert_eq!(world.placed(), ["m2"]);
}
