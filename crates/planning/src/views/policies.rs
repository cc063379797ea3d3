//! Policies: the templates that each claims, and those that others keep from it.

use std::{
    borrow::Borrow,
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use ironclad_api::{cluster::Cluster, policy::PolicyPreemption};
use ironclad_fleet::{PolicyKey, count::count, tree::LinkState};
use ironclad_propagation::{
    detector::claim::Claim,
    policy_match::{self, Policy},
    selector,
    skipped_resources::Skipped,
    template::Identity,
};
use ironclad_scheduling::groups;
use serde::Serialize;
use serde_json::Value;

use crate::why::competition;

/// Clusters that a row names at most.
const NAMED_MAX: usize = 50;

/// A PropagationPolicy or ClusterPropagationPolicy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRow {
    pub kind: &'static str,
    /// Empty for a ClusterPropagationPolicy.
    pub namespace: String,
    pub name: String,
    /// Worst of what is told here.
    pub state: LinkState,
    /// Reason of the state, if it is not Ok.
    pub reason: String,
    pub priority: i32,
    pub scheduler: String,
    /// Clusters that its affinities choose; at most fifty of them are named.
    pub clusters: Vec<String>,
    /// Number of those clusters.
    pub chosen: usize,
    /// True if they are all that there are.
    pub everywhere: bool,
    /// Templates that it has claimed.
    pub templates: usize,
    /// Templates that it would claim and that nobody has claimed yet.
    pub unclaimed: usize,
    /// Templates that it selects and that other policies have, or will have.
    pub shadowed: usize,
    /// Those policies, with what each has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shadows: Vec<Shadow>,
    /// True if nothing is dispatched to any cluster.
    pub suspended: bool,
    /// Clusters to which nothing is dispatched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suspended_on: Vec<String>,
    /// `Always` or `Never`.
    pub preemption: &'static str,
    /// True if a change of it waits for the next change of each template.
    pub lazy: bool,
}

/// A policy that has templates which another one selects, too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shadow {
    /// Its namespace; empty for a ClusterPropagationPolicy.
    pub namespace: String,
    pub name: String,
    /// Number of those templates.
    pub templates: usize,
    /// Reason why the other one does not have them.
    pub why: String,
}

/// Numbers of templates of one policy.
#[derive(Debug, Clone, Default)]
struct Account {
    templates: usize,
    unclaimed: usize,
    shadows: BTreeMap<(PolicyKey, &'static str), usize>,
}

/// A list of templates: `apiVersion`, kind, and a namespace or nothing for all of them.
pub type Listed = (String, String, String);

/// The lists that hold all templates that these policies may select, without those that are part of another one.
#[must_use]
pub fn selected_lists(policies: &[Policy<'_>]) -> BTreeSet<Listed> {
    let mut all = BTreeSet::new();
    for policy in policies {
        let own = policy.key().namespace;
        for selector in &policy.spec().resource_selectors {
            let of = if own.is_empty() { selector.namespace.as_str() } else { &own };
            all.insert((selector.api_version.clone(), selector.kind.clone(), of.to_owned()));
        }
    }
    let is_part = |(api_version, kind, namespace): &Listed| {
        !namespace.is_empty() && all.contains(&(api_version.clone(), kind.clone(), String::new()))
    };
    all.iter().filter(|listed| !is_part(listed)).cloned().collect()
}

/// The rows of these policies, with what is bad first. Of the templates only metadata is read.
#[must_use]
pub fn policies(all: &[Policy<'_>], templates: &[Value], clusters: &[impl Borrow<Cluster>]) -> Vec<PolicyRow> {
    let accounts = accounts(all, templates);
    let nothing = Account::default();
    let mut rows: Vec<PolicyRow> =
        all.iter().map(|policy| row(*policy, accounts.get(&policy.key()).unwrap_or(&nothing), clusters)).collect();
    rows.sort_by(|a, b| {
        (Reverse(a.state), &a.namespace, Reverse(a.priority), &a.name).cmp(&(
            Reverse(b.state),
            &b.namespace,
            Reverse(b.priority),
            &b.name,
        ))
    });
    rows
}

fn accounts(all: &[Policy<'_>], templates: &[Value]) -> BTreeMap<PolicyKey, Account> {
    // Each template is compared with the policies that may select it only: there are thousands of both.
    let mut under: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, policy) in all.iter().enumerate() {
        for value in selector::index(&policy.key().namespace, &policy.spec().resource_selectors) {
            under.entry(value).or_default().push(at);
        }
    }
    let (mut accounts, skipped) = (BTreeMap::<PolicyKey, Account>::new(), Skipped::default());
    for template in templates {
        let identity = Identity::of(template);
        let gvk = identity.gvk();
        if skipped.skips_kind(&gvk) || skipped.skips_object(&gvk, identity.namespace, identity.name) {
            continue;
        }
        // A policy of an empty namespace is a ClusterPropagationPolicy, and a template without one has only those.
        let scopes: BTreeSet<&str> = [identity.namespace, ""].into();
        let values = scopes.into_iter().flat_map(|scope| selector::found_under(scope, &identity));
        let found: BTreeSet<usize> = values.filter_map(|value| under.get(&value)).flatten().copied().collect();
        let candidates = || found.iter().filter_map(|at| all.get(*at).copied());
        let (holder, others) = if let Some(claim) = Claim::of_template(template) {
            accounts.entry(claim.policy()).or_default().templates += 1;
            let Some(competition) = competition(candidates(), template) else { continue };
            (competition.holder, competition.others)
        } else {
            let Some(choice) = policy_match::choose(candidates(), &identity) else { continue };
            accounts.entry(choice.policy.key()).or_default().unclaimed += 1;
            let losers = choice.losers.iter().map(|(policy, why)| (policy.key(), *why));
            (choice.policy.key(), losers.collect())
        };
        for (loser, why) in others {
            let shadows = &mut accounts.entry(loser).or_default().shadows;
            *shadows.entry((holder.clone(), why)).or_default() += 1;
        }
    }
    accounts
}

fn row(policy: Policy<'_>, account: &Account, clusters: &[impl Borrow<Cluster>]) -> PolicyRow {
    let (key, spec) = (policy.key(), policy.spec());
    let chosen = clusters.iter().map(Borrow::borrow).filter(|cluster| groups::may_choose(&spec.placement, cluster));
    let mut names: Vec<&str> = chosen.filter_map(|cluster| cluster.metadata.name.as_deref()).collect();
    names.sort_unstable();
    let suspension = spec.suspension.as_ref();
    let on = suspension.and_then(|one| one.dispatching_on_clusters.as_ref());
    let mut row = PolicyRow {
        kind: match policy {
            Policy::Namespaced(_) => "PropagationPolicy",
            Policy::Cluster(_) => "ClusterPropagationPolicy",
        },
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        state: LinkState::Ok,
        reason: String::new(),
        priority: spec.priority(),
        scheduler: spec.scheduler_name().to_owned(),
        chosen: names.len(),
        everywhere: names.len() == clusters.len(),
        clusters: names.into_iter().take(NAMED_MAX).map(str::to_owned).collect(),
        templates: account.templates,
        unclaimed: account.unclaimed,
        shadowed: account.shadows.values().sum(),
        shadows: account.shadows.iter().map(shadow).collect(),
        suspended: suspension.and_then(|one| one.dispatching) == Some(true),
        suspended_on: on.map(|on| on.cluster_names.clone()).unwrap_or_default(),
        preemption: match spec.preemption {
            Some(PolicyPreemption::Always) => "Always",
            Some(PolicyPreemption::Never) | None => "Never",
        },
        lazy: policy.is_lazy(),
    };
    (row.state, row.reason) = state(&row, policy.is_deleting(), clusters.len());
    row
}

fn shadow(((key, why), templates): (&(PolicyKey, &'static str), &usize)) -> Shadow {
    let (namespace, name) = (key.namespace.to_string(), key.name.to_string());
    Shadow { namespace, name, templates: *templates, why: (*why).to_owned() }
}

/// The worst that there is to say.
fn state(row: &PolicyRow, is_deleting: bool, clusters: usize) -> (LinkState, String) {
    let templates = |number| count(number, "template");
    let told = |state, reason: &str| (state, reason.to_owned());
    if is_deleting {
        return told(LinkState::Waiting, "is being deleted");
    }
    if row.chosen == 0 && clusters > 0 {
        return told(LinkState::Broken, "its affinities choose no cluster of the fleet");
    }
    if row.unclaimed > 0 {
        return (LinkState::Waiting, format!("{} not claimed yet", templates(row.unclaimed)));
    }
    if row.suspended {
        return told(LinkState::Waiting, "dispatching is suspended");
    }
    if !row.suspended_on.is_empty() {
        return (LinkState::Waiting, format!("dispatching is suspended to {}", row.suspended_on.join(", ")));
    }
    match (row.templates, row.shadowed) {
        (0, 0) => told(LinkState::Waiting, "selects no template"),
        (0, shadowed) => (LinkState::Waiting, format!("other policies have {} that it selects", templates(shadowed))),
        _ => (LinkState::Ok, String::new()),
    }
}

#[cfg(test)]
mod tests {
    use ironclad_api::policy::{ClusterPropagationPolicy, PropagationPolicy};
    use serde_json::json;

    use super::*;

    fn spec(priority: i32, selector: &Value, more: &Value) -> Value {
        let mut selector = selector.clone();
        selector["apiVersion"] = "apps/v1".into();
        selector["kind"] = "Deployment".into();
        let mut spec = json!({"priority": priority, "resourceSelectors": [selector]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    }

    fn pp(name: &str, priority: i32, selector: &Value, more: &Value) -> PropagationPolicy {
        let spec = spec(priority, selector, more);
        serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec})).unwrap()
    }

    fn cpp(name: &str, priority: i32, selector: &Value, more: &Value) -> ClusterPropagationPolicy {
        let spec = spec(priority, selector, more);
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    /// Deployments, each with the policy that has claimed it, as `namespace/name` or `/name`; nobody without one.
    fn deployments(all: &[(&str, &str, &str)]) -> Vec<Value> {
        let deployment = |(namespace, name, holder): &(&str, &str, &str)| {
            let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"namespace": namespace, "name": name}});
            match holder.split_once('/') {
                Some(("", policy)) => {
                    object["metadata"]["labels"] = json!({"clusterpropagationpolicy.karmada.io/permanent-id": "i"});
                    object["metadata"]["annotations"] = json!({"clusterpropagationpolicy.karmada.io/name": policy});
                }
                Some((at, policy)) => {
                    object["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "i"});
                    object["metadata"]["annotations"] = json!({"propagationpolicy.karmada.io/name": policy,
                        "propagationpolicy.karmada.io/namespace": at});
                }
                None => {}
            }
            object
        };
        all.iter().map(deployment).collect()
    }

    fn fleet(names: &[&str]) -> Vec<Cluster> {
        let cluster = |name: &&str| Cluster::new(name, ironclad_api::cluster::ClusterSpec::default());
        names.iter().map(cluster).collect()
    }

    fn told(row: &PolicyRow) -> String {
        let shadows: Vec<String> = row
            .shadows
            .iter()
            .map(|one| format!("{} of {}/{}: {}", one.templates, one.namespace, one.name, one.why))
            .collect();
        format!(
            "{} {:?} {} has {} ({}) [{}]",
            row.name,
            row.state,
            row.clusters.join("+"),
            row.templates,
            row.reason,
            shadows.join("; ")
        )
    }

    #[test]
    fn claims_and_shadows_are_those_of_the_detector() {
        let none = json!({});
        let (low, high) = (pp("low", 0, &none, &none), pp("high", 5, &json!({"name": "web"}), &none));
        let wide = cpp("wide", 9, &none, &none);
        let all = [Policy::Namespaced(&low), Policy::Namespaced(&high), Policy::Cluster(&wide)];
        let fleet = fleet(&["m2", "m1"]);
        for (name, templates, want) in [
            (
                "each has what it won",
                vec![("shop", "web", "shop/high"), ("shop", "db", "shop/low"), ("bank", "api", "/wide")],
                [
                    "wide Ok m1+m2 has 1 () [1 of shop/high: a PropagationPolicy takes precedence over a \
                     ClusterPropagationPolicy; 1 of shop/low: a PropagationPolicy takes precedence over a \
                     ClusterPropagationPolicy]",
                    "high Ok m1+m2 has 1 () []",
                    "low Ok m1+m2 has 1 () [1 of shop/high: its priority is lower]",
                ],
            ),
            (
                "a claim is kept, whatever would win now",
                vec![("shop", "web", "shop/low")],
                [
                    "wide Waiting m1+m2 has 0 (other policies have 1 template that it selects) [1 of shop/low: the \
                     template is claimed already]",
                    "high Waiting m1+m2 has 0 (other policies have 1 template that it selects) [1 of shop/low: the \
                     template is claimed already]",
                    "low Ok m1+m2 has 1 () []",
                ],
            ),
            (
                "not claimed yet, and never in a reserved namespace",
                vec![("shop", "web", ""), ("shop", "db", ""), ("kube-system", "dns", "")],
                [
                    "wide Waiting m1+m2 has 0 (other policies have 2 templates that it selects) [1 of shop/high: a \
                     PropagationPolicy takes precedence over a ClusterPropagationPolicy; 1 of shop/low: a \
                     PropagationPolicy takes precedence over a ClusterPropagationPolicy]",
                    "high Waiting m1+m2 has 0 (1 template not claimed yet) []",
                    "low Waiting m1+m2 has 0 (1 template not claimed yet) [1 of shop/high: its priority is lower]",
                ],
            ),
            (
                "a claim of a policy that is gone",
                vec![("shop", "web", "shop/gone"), ("bank", "api", "/wide"), ("shop", "db", "shop/low")],
                [
                    "high Waiting m1+m2 has 0 (other policies have 1 template that it selects) [1 of shop/gone: the \
                     template is claimed already]",
                    "wide Ok m1+m2 has 1 () [1 of shop/gone: the template is claimed already; 1 of shop/low: a \
                     PropagationPolicy takes precedence over a ClusterPropagationPolicy]",
                    "low Ok m1+m2 has 1 () [1 of shop/gone: the template is claimed already]",
                ],
            ),
        ] {
            let rows = policies(&all, &deployments(&templates), &fleet);
            assert_eq!(rows.iter().map(told).collect::<Vec<_>>(), want, "{name}");
        }
    }

    #[test]
    fn states_and_settings() {
        let placed = |names: &[&str]| json!({"placement": {"clusterAffinity": {"clusterNames": names}}});
        let suspended = json!({"suspension": {"dispatching": true}});
        let partly = json!({"suspension": {"dispatchingOnClusters": {"clusterNames": ["m2"]}}});
        let lazy = json!({"activationPreference": "Lazy", "preemption": "Always", "schedulerName": "mine"});
        for (more, clusters, want) in [
            (placed(&["m2"]), vec!["m1", "m2"], "Ok \"\" m2 1 default-scheduler Never"),
            (
                placed(&["m9"]),
                vec!["m1"],
                "Broken \"its affinities choose no cluster of the fleet\"  0 default-scheduler Never",
            ),
            (placed(&["m9"]), vec![], "Ok \"\"  0 everywhere default-scheduler Never"),
            (
                suspended,
                vec!["m1"],
                "Waiting \"dispatching is suspended\" m1 1 everywhere suspended default-scheduler Never",
            ),
            (
                partly,
                vec!["m1"],
                "Waiting \"dispatching is suspended to m2\" m1 1 everywhere on m2 default-scheduler Never",
            ),
            (lazy, vec!["m1"], "Ok \"\" m1 1 everywhere mine Always lazy"),
        ] {
            let policy = pp("p", 3, &json!({}), &more);
            let rows =
                policies(&[Policy::Namespaced(&policy)], &deployments(&[("shop", "web", "shop/p")]), &fleet(&clusters));
            let [row] = rows.as_slice() else { panic!("one row") };
            let word = |is: bool, word: &str| if is { format!(" {word}") } else { String::new() };
            let told = format!(
                "{:?} {:?} {} {}{}{}{} {} {}{}",
                row.state,
                row.reason,
                row.clusters.join("+"),
                row.chosen,
                word(row.everywhere, "everywhere"),
                word(row.suspended, "suspended"),
                word(!row.suspended_on.is_empty(), &format!("on {}", row.suspended_on.join("+"))),
                row.scheduler,
                row.preemption,
                word(row.lazy, "lazy"),
            );
            assert_eq!((told.as_str(), row.priority), (want, 3));
        }
    }

    #[test]
    fn a_page_names_few_of_many_clusters() {
        let names: Vec<String> = (100..200).map(|number| format!("m{number}")).collect();
        let fleet = fleet(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let policy = pp("p", 0, &json!({}), &json!({}));
        let rows = policies(&[Policy::Namespaced(&policy)], &[], &fleet);
        assert_eq!((rows[0].clusters.len(), rows[0].chosen, rows[0].everywhere), (50, 100, true));
    }

    #[test]
    fn lists_of_templates_are_read_once() {
        let here = pp("here", 0, &json!({}), &json!({}));
        let bank = cpp("bank", 0, &json!({"namespace": "bank"}), &json!({}));
        let wide = cpp("wide", 0, &json!({}), &json!({}));
        let of = |all: &[Policy<'_>]| {
            let lists = selected_lists(all).into_iter();
            lists.map(|(api_version, kind, at)| format!("{api_version} {kind} {at:?}")).collect::<Vec<_>>()
        };
        let narrow = [Policy::Namespaced(&here), Policy::Cluster(&bank)];
        assert_eq!(of(&narrow), ["apps/v1 Deployment \"bank\"", "apps/v1 Deployment \"shop\""]);
        let all = [Policy::Namespaced(&here), Policy::Cluster(&bank), Policy::Cluster(&wide)];
        assert_eq!(of(&all), ["apps/v1 Deployment \"\""]);
    }
}
