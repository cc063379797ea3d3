//! OverridePolicy that records what members decided (specification/autoscaling.md 6.6).

use std::collections::BTreeMap;

use ironclad_api::{
    ObjectMeta, OwnerReference, StringMap, annotations, events, labels,
    policy::{
        ClusterAffinity, OverridePolicy, OverrideSpec, OverriderOperator, Overriders, PlaintextOverrider,
        ResourceSelector, RuleWithCluster,
    },
};
use ironclad_fleet::{
    ClusterName, Plan,
    because::distributed_hpa::{Ignored, Reason},
    merge_patch_between,
};
use ironclad_propagation::overrides;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    Context, Effect, Placed, Seen,
    members::{Fleet, Reports, within},
    policy_name,
    report::Report,
    split::Bounds,
    state, target_key, text,
};

/// Interval at which smaller numbers are recorded.
const BATCH_EVERY: SignedDuration = SignedDuration::from_secs(5);
/// Time after which a policy that says what the binding says is deleted.
const NOT_NEEDED_AFTER: SignedDuration = SignedDuration::from_mins(5);
/// Time after the start of the controller for which it waits for the reports of all members.
const START_WAIT: SignedDuration = SignedDuration::from_secs(60);

/// Numbers by cluster.
type Numbers = BTreeMap<ClusterName, i32>;

/// The policy, if it is ours.
pub(super) fn own<'a>(seen: &Seen<'a>) -> Option<&'a OverridePolicy> {
    seen.policy.filter(|policy| overrides::is_of_autoscaler(policy))
}

/// Decides what the policy has to say. Updates the state.
pub(super) fn decide(
    cx: &mut Context<'_>,
    target: &Placed<'_>,
    fleet: &Fleet<'_>,
    reports: &Reports<'_>,
    plan: &mut Plan<Effect>,
) -> Vec<Effect> {
    let (seen, now) = (cx.seen, cx.seen.now);
    let present = own(seen).map(overrides::recorded);
    if fleet.outdated {
        cx.state.overridden_at = None;
        cx.state.equal_since = None;
        return present.map(|_| Effect::DeletePolicy).into_iter().collect();
    }
    let wanted = wanted(cx, fleet, reports, present.as_ref(), plan);
    let given = |cluster: &ClusterName| i32::try_from(target.given(cluster)).unwrap_or(i32::MAX);
    let equal = wanted.iter().all(|(cluster, number)| *number == given(cluster));
    cx.state.equal_since = match (&present, equal) {
        (Some(_), true) => Some(cx.state.equal_since.unwrap_or(now)),
        _ => None,
    };
    if seen.policy.is_some() && present.is_none() {
        // A user's policy under this name; the message of condition AbleToScale says so.
        return Vec::new();
    }
    if let Some(since) = cx.state.equal_since {
        match state::left(since, NOT_NEEDED_AFTER, now) {
            None => {
                plan.note(Reason::OverrideNotNeeded.into());
                cx.state.equal_since = None;
                cx.state.overridden_at = None;
                return vec![Effect::DeletePolicy];
            }
            Some(left) => cx.again_in(left),
        }
    } else if present.is_none() && equal {
        return Vec::new();
    }
    let desired = policy(seen, target, &wanted);
    let patch = match own(seen) {
        None => None,
        Some(present) => match merge_patch_between(&written(present), &written(&desired)) {
            None => return Vec::new(),
            Some(patch) => Some(patch),
        },
    };
    let missing = fleet.members.keys().any(|cluster| !seen.reported.contains(cluster));
    if let Some(left) = state::left(seen.started, START_WAIT, now).filter(|_| missing) {
        plan.note(Reason::Starting.into());
        cx.again_in(left);
        return Vec::new();
    }
    let before = |cluster: &ClusterName| present.as_ref().and_then(|rules| rules.get(cluster).copied());
    let grows = wanted.iter().any(|(cluster, number)| *number > before(cluster).unwrap_or_else(|| given(cluster)));
    let only_numbers = present.as_ref().is_some_and(|rules| *rules != wanted);
    if let Some(left) =
        cx.state.overridden_at.and_then(|at| state::left(at, BATCH_EVERY, now)).filter(|_| only_numbers && !grows)
    {
        plan.note(Reason::Batched.into());
        cx.again_in(left);
        return Vec::new();
    }
    cx.state.overridden_at = Some(now);
    match patch {
        Some(patch) => vec![Effect::PatchPolicy { patch }],
        None => {
            warn_of_users_policies(cx, target, plan);
            vec![Effect::CreatePolicy(Box::new(desired))]
        }
    }
}

/// Numbers of the policy: of members what they report, or what it said before; of clusters that are being left what it
/// said before, as long as they have the target.
fn wanted(
    cx: &Context<'_>,
    fleet: &Fleet<'_>,
    reports: &Reports<'_>,
    present: Option<&Numbers>,
    plan: &mut Plan<Effect>,
) -> Numbers {
    let before = |cluster: &ClusterName| present.and_then(|rules| rules.get(cluster).copied());
    let mut wanted = Numbers::new();
    for cluster in fleet.members.keys() {
        let state = cx.state.clusters.get(cluster);
        let report = reports.all.get(cluster);
        let decided = report.and_then(Report::decided);
        let why = match (report, decided) {
            (None, _) => Some(Ignored::Missing),
            _ if state.is_some_and(|state| state.hold.is_some()) => Some(Ignored::Held),
            (_, None) => Some(Ignored::NotAble),
            _ => None,
        };
        let number = match why {
            None => {
                let bounds = state.map_or(Bounds { min: 0, max: 0 }, |state| Bounds { min: state.min, max: state.max });
                decided.map(|decided| within(decided, bounds))
            }
            Some(why) => {
                plan.note(Reason::Ignored { cluster: cluster.clone(), why }.into());
                before(cluster)
            }
        };
        if let Some(number) = number {
            if why.is_none() && before(cluster) != Some(number) {
                plan.note(Reason::Decided { cluster: cluster.clone(), replicas: number }.into());
            }
            wanted.insert(cluster.clone(), number);
        }
    }
    for (cluster, number) in present.into_iter().flatten() {
        if !fleet.members.contains_key(cluster) && reports.has_target(cluster) {
            wanted.insert(cluster.clone(), *number);
        }
    }
    wanted
}

/// The policy that says these numbers.
fn policy(seen: &Seen<'_>, target: &Placed<'_>, numbers: &Numbers) -> OverridePolicy {
    let hpa = &*seen.scaler.hpa;
    let operator = match target.template.pointer(target.pointer) {
        Some(_) => OverriderOperator::Replace,
        None => OverriderOperator::Add,
    };
    let rule = |(cluster, number): (&ClusterName, &i32)| RuleWithCluster {
        target_cluster: Some(ClusterAffinity {
            cluster_names: vec![cluster.to_string()],
            ..ClusterAffinity::default()
        }),
        overriders: Overriders {
            plaintext: vec![PlaintextOverrider {
                path: target.pointer.to_owned(),
                operator,
                value: Some(json!(number)),
            }],
            ..Overriders::default()
        },
    };
    let key = target_key(hpa);
    let selector = ResourceSelector {
        api_version: key.gvk.api_version(),
        kind: key.gvk.kind.to_string(),
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        label_selector: None,
    };
    let spec = OverrideSpec {
        resource_selectors: vec![selector],
        override_rules: numbers.iter().map(rule).collect(),
        ..OverrideSpec::default()
    };
    let mut policy = OverridePolicy::new(&policy_name(seen.scaler), spec);
    policy.metadata = ObjectMeta {
        namespace: hpa.metadata.namespace.clone(),
        labels: Some(StringMap::from([
            (labels::FEDERATED_HPA_MANAGED.to_owned(), labels::TRUE.to_owned()),
            (labels::FEDERATED_HPA_UID.to_owned(), text(&hpa.metadata.uid).to_owned()),
        ])),
        annotations: Some(StringMap::from([(
            annotations::FEDERATED_HPA_OBSERVED_REPLICAS.to_owned(),
            target.replicas().to_string(),
        )])),
        owner_references: Some(vec![OwnerReference {
            api_version: seen.scaler.api_version(),
            kind: seen.scaler.kind.gvk.kind.to_string(),
            name: text(&hpa.metadata.name).to_owned(),
            uid: text(&hpa.metadata.uid).to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]),
        ..policy.metadata
    };
    policy
}

/// The fields of the policy that belong to the controller. Labels and annotations of others stay.
fn written(policy: &OverridePolicy) -> Value {
    let pick = |map: &Option<StringMap>, keys: &[&str]| -> StringMap {
        let of = |key: &&str| Some(((*key).to_owned(), map.as_ref()?.get(*key)?.clone()));
        keys.iter().filter_map(of).collect()
    };
    json!({
        "metadata": {
            "labels": pick(&policy.metadata.labels, &[labels::FEDERATED_HPA_MANAGED, labels::FEDERATED_HPA_UID]),
            "annotations": pick(&policy.metadata.annotations, &[annotations::FEDERATED_HPA_OBSERVED_REPLICAS]),
            "ownerReferences": policy.metadata.owner_references,
        },
        "spec": policy.spec,
    })
}

/// Tells of policies of users that change the same field: they have no effect any more.
fn warn_of_users_policies(cx: &Context<'_>, target: &Placed<'_>, plan: &mut Plan<Effect>) {
    let of_target = &target.binding.spec.resource;
    let changes = |overriders: &Overriders| overriders.plaintext.iter().any(|one| one.path == target.pointer);
    for policy in cx.seen.overrides.iter().filter(|policy| !overrides::is_of_autoscaler(policy)) {
        let spec = &policy.spec;
        let touches = changes(&spec.overriders) || spec.override_rules.iter().any(|rule| changes(&rule.overriders));
        if touches && overrides::may_take(spec, of_target) {
            let message = format!(
                "OverridePolicy {} sets {} of {} {}, which the autoscalers of the members decide: it has no effect \
                 there; take this field out of it",
                text(&policy.metadata.name),
                target.pointer,
                of_target.kind,
                of_target.name
            );
            cx.event(plan, events::REPLICAS_OVERRIDDEN_BY_USER_POLICY, message);
        }
    }
}
