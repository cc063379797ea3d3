//! Preview of a policy's effects for a request with `dryRun=All` (specification/failover.md 14.3).

use std::{sync::Arc, time::Duration};

use ironclad_api::{
    cluster::Cluster,
    policy::{ClusterTaintPolicy, TaintState},
};
use ironclad_fleet::count::count;
use jiff::Timestamp;

use super::{Effect, Rule, Seen, decide};
use crate::taints::TaintId;

/// Maximum number of clusters listed by name; the others are counted.
const NAMED_MAX: usize = 10;
/// Bytes of one text: an API server may cut what is longer than 256.
const TEXT_MAX: usize = 240;

/// Effect of the policy on each cluster that it selects, beside the other policies: at most ten clusters by name, in
/// texts of at most 240 bytes. The decision itself is asked, as a controller would that sees the policy for the first
/// time.
#[must_use]
pub fn foresee(
    policy: &ClusterTaintPolicy,
    others: &[ClusterTaintPolicy],
    clusters: &[Cluster],
    now: Timestamp,
) -> Vec<String> {
    let mut policy = policy.clone();
    let (name, created) = (policy.metadata.name.get_or_insert_default().clone(), ironclad_api::Time(now));
    // What is only tried has no birthday yet.
    policy.metadata.creation_timestamp.get_or_insert(created);
    let Ok(rule) = Rule::of(&policy) else { return Vec::new() };
    let selected: Vec<&Cluster> = clusters
        .iter()
        .filter(|cluster| cluster.metadata.deletion_timestamp.is_none() && rule.selects(cluster))
        .collect();
    let mut policies: Vec<Arc<ClusterTaintPolicy>> =
        others.iter().filter(|other| other.metadata.name.as_deref() != Some(&name)).cloned().map(Arc::new).collect();
    policies.push(Arc::new(policy.clone()));
    let reported: Vec<(&Cluster, Outlook)> =
        selected.iter().map(|cluster| (*cluster, outlook(cluster, &policies, &name, now))).collect();
    let matched = reported.iter().filter(|(_, outlook)| outlook.matched).count();
    let mut texts = vec![format!(
        "dry run: {} of {} clusters are selected, and the conditions of {matched} of them match",
        selected.len(),
        clusters.len(),
    )];
    let changes: Vec<String> = reported
        .iter()
        .filter(|(_, outlook)| !outlook.what.is_empty())
        .map(|(cluster, outlook)| {
            let cluster = cluster.metadata.name.as_deref().unwrap_or_default();
            cut(&format!("dry run: cluster {cluster} {}", outlook.what.join(", ")))
        })
        .collect();
    let more = changes.len().saturating_sub(NAMED_MAX);
    texts.extend(changes.into_iter().take(NAMED_MAX));
    if more > 0 {
        texts.push(format!("dry run: the same applies to {}", count(more, "more cluster")));
    }
    texts
}

/// Effect on one cluster.
struct Outlook {
    matched: bool,
    what: Vec<String>,
}

fn outlook(cluster: &Cluster, policies: &[Arc<ClusterTaintPolicy>], name: &str, now: Timestamp) -> Outlook {
    let decision = decide(&Seen { cluster, policies, memory: None }, now, Duration::ZERO);
    let Some(status) = decision.status.get(name) else { return Outlook { matched: false, what: Vec::new() } };
    let changed = decision
        .plan
        .effects
        .iter()
        .any(|effect| matches!(effect, Effect::Patch(patch) if patch.pointer("/spec/taints").is_some()));
    let what = status.taints.iter().filter_map(|taint| {
        let id = TaintId::new(&taint.key, &taint.effect);
        let exists = cluster.spec.taints.iter().any(|taint| id.is(taint));
        let seconds = taint.at.as_ref().map_or(0, |at| at.0.duration_since(now).as_secs().max(0));
        Some(match taint.state? {
            TaintState::Added if exists => format!("has {id} already"),
            TaintState::Added => format!("would get {id} at once"),
            TaintState::Pending => format!("would get {id} in {seconds} s"),
            TaintState::Removing => format!("would lose {id} in {seconds} s"),
            TaintState::NotAdded if exists && changed => format!("would lose {id} at once"),
            TaintState::NotAdded => return None,
        })
    });
    Outlook { matched: status.matched, what: what.collect() }
}

fn cut(text: &str) -> String {
    if text.len() <= TEXT_MAX {
        return text.to_owned();
    }
    let end = (0..=TEXT_MAX - 3).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use ironclad_api::policy::{ClusterAffinity, ClusterTaintPolicySpec, PolicyTaint, TaintToAdd};

    use super::*;
    use crate::testkit::{at, cluster, ready, taint, when};

    fn seed(name: &str, targets: &[&str], effects: &[&str]) -> ClusterTaintPolicy {
        let to_add = |effect: &&str| TaintToAdd { key: "k".into(), effect: (*effect).into(), ..TaintToAdd::default() };
        let names = targets.iter().map(|name| (*name).to_owned()).collect();
        let target = ClusterAffinity { cluster_names: names, ..ClusterAffinity::default() };
        let spec = ClusterTaintPolicySpec {
            target_cluster: (!targets.is_empty()).then_some(target),
            match_conditions: vec![when("Ready", "In", &["False", "Unknown"])],
            taints_to_add: effects.iter().map(to_add).collect(),
            ..ClusterTaintPolicySpec::default()
        };
        ClusterTaintPolicy::new(name, spec)
    }

    fn upstream(remove: &[&str]) -> ClusterTaintPolicy {
        let one = PolicyTaint { key: "k".into(), effect: "NoSchedule".into(), ..PolicyTaint::default() };
        let spec = ClusterTaintPolicySpec {
            add_on_conditions: vec![when("Ready", "In", &["False"])],
            remove_on_conditions: vec![when("Ready", "In", remove)],
            taints: vec![one],
            ..ClusterTaintPolicySpec::default()
        };
        ClusterTaintPolicy::new("p", spec)
    }

    fn one(name: &str, status: &str, since: i64) -> Cluster {
        let mut cluster = cluster(name);
        ready(&mut cluster, status, since);
        cluster
    }

    #[test]
    fn dry_run_predicts_the_taints_of_each_cluster() {
        let summary = |selected: usize, matched: usize| {
            format!("dry run: {selected} of 3 clusters are selected, and the conditions of {matched} of them match")
        };
        let fleet = || vec![one("m1", "False", 100), one("m2", "True", 0), one("m3", "Unknown", 900)];
        let mut tainted = fleet();
        tainted[0].spec.taints = vec![taint("k", "NoSchedule", Some(5))];
        tainted[1].spec.taints = vec![taint("k", "NoSchedule", Some(5))];
        let mut leaving = fleet();
        leaving[0].metadata.deletion_timestamp = Some(ironclad_api::Time(at(1)));
        let later = |text: &str| format!("dry run: cluster {text}");
        for (name, policy, clusters, want) in [
            (
                "not ready for long: at once; for 100 s: after the rest of the window; ready: no taint",
                seed("p", &[], &["NoSchedule"]),
                fleet(),
                vec![
                    summary(3, 2),
                    later("m1 would get k:NoSchedule at once"),
                    later("m3 would get k:NoSchedule in 200 s"),
                ],
            ),
            (
                "every taint is named",
                seed("p", &["m1"], &["NoSchedule", "PreferNoExecute"]),
                fleet(),
                vec![summary(1, 1), later("m1 would get k:NoSchedule at once, would get k:PreferNoExecute at once")],
            ),
            (
                "existing taints are reported",
                seed("p", &["m1", "m2"], &["NoSchedule"]),
                tainted.clone(),
                vec![summary(2, 1), later("m1 has k:NoSchedule already"), later("m2 has k:NoSchedule already")],
            ),
            (
                "removeOnConditions removes taints of other owners",
                upstream(&["True"]),
                tainted,
                vec![summary(3, 1), later("m1 has k:NoSchedule already"), later("m2 would lose k:NoSchedule at once")],
            ),
            ("no cluster is selected", seed("p", &["m9"], &["NoSchedule"]), fleet(), vec![summary(0, 0)]),
            (
                "a cluster that is being deleted gets no taints",
                seed("p", &["m1"], &["NoSchedule"]),
                leaving,
                vec![summary(0, 0)],
            ),
        ] {
            assert_eq!(foresee(&policy, &[], &clusters, at(1_000)), want, "{name}");
        }
    }

    #[test]
    fn window_of_a_policy_without_conditions_starts_with_its_creation() {
        let mut always = seed("", &["m1"], &["NoSchedule"]);
        always.spec.match_conditions.clear();
        let reported = foresee(&always, &[], &[one("m1", "True", 0)], at(1_000));
        assert_eq!(
            reported[1], "dry run: cluster m1 would get k:NoSchedule in 300 s",
            "a policy with generateName has no name yet"
        );
    }

    #[test]
    fn changed_policy_replaces_the_stored_one_in_a_dry_run() {
        let (before, after) = (seed("p", &[], &["NoExecute"]), seed("p", &["m1"], &["NoSchedule"]));
        let reported = foresee(&after, &[before], &[one("m1", "False", 0), one("m2", "False", 0)], at(1_000));
        assert_eq!(reported[1..], ["dry run: cluster m1 would get k:NoSchedule at once"]);
    }

    #[test]
    fn warnings_are_limited_in_number_and_length() {
        let clusters: Vec<Cluster> = (0..500).map(|i| one(&format!("m{i:03}"), "False", 0)).collect();
        let reported = foresee(&seed("p", &[], &["NoSchedule"]), &[], &clusters, at(1_000));
        assert_eq!(reported.len(), 12);
        assert_eq!(reported[11], "dry run: the same applies to 490 more clusters");
        let mut long = seed("p", &[], &["NoSchedule"]);
        long.spec.taints_to_add[0].key = format!("{}/k", "x".repeat(250));
        let reported = foresee(&long, &[], &clusters[..1], at(1_000));
        assert!(reported[1].len() <= TEXT_MAX && reported[1].ends_with("..."), "{}", reported[1]);
    }
}
