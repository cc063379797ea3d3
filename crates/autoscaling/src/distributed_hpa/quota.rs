//! Maxima within the FederatedResourceQuotas of a namespace (specification/autoscaling.md 6.4.5).
//!
//! Members scale without asking anybody, so the control plane hands out no more than the quotas leave. Usage counts as
//! admission counts it: in each cluster the larger one of the binding's replicas and the recorded ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{
    annotations,
    policy::{FederatedResourceQuota, OverridePolicy},
    quantity::Amount,
    work::{ResourceBinding, ResourceBindingSpec, TargetCluster},
};
use ironclad_fleet::{ClusterName, Gvk};
use ironclad_propagation::quota::usage::{self, Amounts, PODS, Records};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use super::{is_enabled, lend::proportional, split::Mode, state::State, target_key, text};
use crate::rivals::Rival;

/// Quotas that are enforced, and all that uses them: the objects of one namespace. Without quotas nothing is limited.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quotas<'a> {
    pub quotas: &'a [Arc<FederatedResourceQuota>],
    pub bindings: &'a [Arc<ResourceBinding>],
    /// The override policies, among them the records of what members decided.
    pub overrides: &'a [Arc<OverridePolicy>],
    pub autoscalers: &'a [Arc<HorizontalPodAutoscaler>],
}

/// The most that quotas leave for one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// Replicas in all clusters together.
    pub replicas: i64,
    /// Replicas that count for the quotas now, by cluster.
    pub charged: BTreeMap<ClusterName, i32>,
    /// Namespace and name of the quota that leaves the least.
    pub quota: String,
    /// The key that it limits.
    pub key: String,
}

/// Demand of one autoscaler.
struct Claim<'a> {
    name: &'a str,
    /// Amounts that one more replica takes.
    request: Amounts,
    /// Replicas that count now, by cluster.
    charged: BTreeMap<ClusterName, i32>,
    /// Replicas that it may still add by its spec.
    wanted: i64,
    /// Replicas that its members may still add by the maxima that they have.
    granted: i64,
    /// Members have maxima.
    is_begun: bool,
}

/// One key of one quota.
struct Limit {
    quota: String,
    key: String,
    /// Amount that no replica uses.
    left: Amount,
}

/// Returns the replicas that an autoscaler may have; `None` if the quotas leave as many as it wants.
///
/// The autoscalers of the namespace share the rest in proportion to the replicas that each of them may still add. One
/// that may have more than its members have now gets only replicas that the members of the others do not have: they
/// have to give up their part first.
#[must_use]
pub fn room(quotas: &Quotas<'_>, hpa: &HorizontalPodAutoscaler) -> Option<Room> {
    if quotas.quotas.is_empty() {
        return None;
    }
    let records = Records::of(quotas.overrides.iter().map(|policy| &**policy));
    let claims = claims(quotas, &records);
    let own = claims.iter().position(|claim| claim.name == text(&hpa.metadata.name))?;
    let limits = limits(quotas, &records);
    let claim = &claims[own];
    let (fair, by_fairness) = fair(&claims, &limits, own);
    let (free, by_others) = not_granted(&claims, &limits, own);
    let (more, bound) = if free < fair && !(claim.is_begun && fair <= claim.granted) {
        (free.max(claim.granted), by_others)
    } else {
        (fair, by_fairness)
    };
    let tightest = bound.filter(|_| more < claim.wanted)?;
    let counted: i64 = claim.charged.values().map(|replicas| i64::from(*replicas)).sum();
    Some(Room {
        replicas: counted + more,
        charged: claim.charged.clone(),
        quota: tightest.quota.clone(),
        key: tightest.key.clone(),
    })
}

/// The claims, the oldest autoscaler first. Of several with one target the first counts.
fn claims<'a>(quotas: &Quotas<'a>, records: &Records) -> Vec<Claim<'a>> {
    let mut all: Vec<&HorizontalPodAutoscaler> = quotas
        .autoscalers
        .iter()
        .map(|hpa| &**hpa)
        .filter(|hpa| is_enabled(&hpa.metadata) && hpa.metadata.deletion_timestamp.is_none())
        .collect();
    all.sort_by(|a, b| match (Rival::from(*a), Rival::from(*b)) {
        (a, b) if a.precedes(&b) => std::cmp::Ordering::Less,
        (a, b) if b.precedes(&a) => std::cmp::Ordering::Greater,
        _ => std::cmp::Ordering::Equal,
    });
    let mut targets = BTreeSet::new();
    all.retain(|hpa| targets.insert(target_key(hpa)));
    all.into_iter().filter_map(|hpa| claim(hpa, quotas, records)).collect()
}

fn claim<'a>(hpa: &'a HorizontalPodAutoscaler, quotas: &Quotas<'_>, records: &Records) -> Option<Claim<'a>> {
    let target = target_key(hpa);
    let is_its_own = |binding: &&Arc<ResourceBinding>| {
        let of = &binding.spec.resource;
        *of.name == *target.name && Gvk::from_manifest(&of.api_version, &of.kind) == target.gvk
    };
    let spec = &quotas.bindings.iter().find(is_its_own)?.spec;
    // The replicas of a workload with components are not those of its scale.
    if spec.clusters.is_empty() || !spec.components.is_empty() {
        return None;
    }
    let charged: BTreeMap<ClusterName, i32> = records
        .applied(spec)
        .clusters
        .iter()
        .map(|target| (ClusterName::from(target.name.as_str()), target.replicas.max(0)))
        .collect();
    let all_annotations = hpa.metadata.annotations.as_ref();
    let annotation = |key: &str| all_annotations?.get(key).map(String::as_str);
    let mode = Mode::parse(annotation(annotations::FEDERATED_HPA_SPLIT)).unwrap_or_default();
    let (max, count) = (i64::from(hpa.spec.max_replicas.max(1)), i64::try_from(charged.len()).unwrap_or(i64::MAX));
    let max = if mode == Mode::PerCluster { max.saturating_mul(count) } else { max.max(count) };
    let counted: i64 = charged.values().map(|replicas| i64::from(*replicas)).sum();
    let states = State::of(all_annotations).clusters;
    let granted = states
        .iter()
        .map(|(cluster, state)| i64::from(state.max.saturating_sub(charged.get(cluster).copied().unwrap_or(0)).max(0)));
    Some(Claim {
        name: text(&hpa.metadata.name),
        request: request(spec),
        wanted: (max - counted).max(0),
        granted: granted.sum(),
        is_begun: states.values().any(|state| state.max > 0),
        charged,
    })
}

/// Amounts that one replica takes. What cannot be read is not limited, as admission refuses it anyway.
fn request(spec: &ResourceBindingSpec) -> Amounts {
    let one = ResourceBindingSpec {
        clusters: vec![TargetCluster { replicas: 1, ..TargetCluster::default() }],
        ..spec.clone()
    };
    let mut request = usage::of_binding(&one).unwrap_or_default();
    request.retain(|key, amount| key == PODS || !amount.is_zero());
    request
}

/// Rest that the limits of all quotas leave. A limit that cannot be read limits nothing.
fn limits(quotas: &Quotas<'_>, records: &Records) -> Vec<Limit> {
    let mut used = Amounts::new();
    for binding in quotas.bindings {
        for (resource, amount) in usage::of_binding(&records.applied(&binding.spec)).unwrap_or_default() {
            *used.entry(resource).or_insert(Amount::ZERO) += amount;
        }
    }
    let live = quotas.quotas.iter().filter(|quota| quota.metadata.deletion_timestamp.is_none());
    let mut limits = Vec::new();
    for quota in live {
        let name = format!("{}/{}", text(&quota.metadata.namespace), text(&quota.metadata.name));
        for (key, limit) in &quota.spec.overall {
            let Ok(limit) = Amount::try_from(limit) else { continue };
            let used = used.get(&*usage::limited(key)).copied().unwrap_or(Amount::ZERO);
            let left = (limit - used).max(Amount::ZERO);
            limits.push(Limit { quota: name.clone(), key: key.clone(), left });
        }
    }
    limits
}

impl Limit {
    /// Amount that one replica of the claim takes of it.
    fn of(&self, claim: &Claim<'_>) -> Amount {
        claim.request.get(&*usage::limited(&self.key)).copied().unwrap_or(Amount::ZERO)
    }
}

/// Replicas that each claim may add, if all shared fairly: those of one of them, and the limit that bounds it.
fn fair<'l>(claims: &[Claim<'_>], limits: &'l [Limit], own: usize) -> (i64, Option<&'l Limit>) {
    let demands: Vec<Amount> = limits
        .iter()
        .map(|limit| claims.iter().fold(Amount::ZERO, |sum, claim| sum + limit.of(claim) * claim.wanted))
        .collect();
    let mut shares = Vec::new();
    let mut tightest = None;
    for (index, claim) in claims.iter().enumerate() {
        let mut share = claim.wanted;
        for (limit, demand) in limits.iter().zip(&demands).filter(|(limit, _)| !limit.of(claim).is_zero()) {
            let part = (limit.left * claim.wanted).times(*demand).unwrap_or(i64::MAX).max(0);
            if part < share {
                share = part;
                if index == own {
                    tightest = Some(limit);
                }
            }
        }
        shares.push(share);
    }
    // The oldest gets the rest of the rounding.
    let mut left: Vec<Amount> = limits
        .iter()
        .map(|limit| {
            claims.iter().zip(&shares).fold(limit.left, |left, (claim, share)| left - limit.of(claim) * *share)
        })
        .collect();
    for (claim, share) in claims.iter().zip(&mut shares) {
        let fits = limits.iter().zip(&left).all(|(limit, left)| limit.of(claim).is_zero() || limit.of(claim) <= *left);
        if *share < claim.wanted && fits {
            *share += 1;
            limits.iter().zip(&mut left).for_each(|(limit, left)| *left -= limit.of(claim));
        }
    }
    (shares[own], tightest)
}

/// Replicas that a claim may add while the members of the others use all that they may, and the limit that bounds it.
fn not_granted<'l>(claims: &[Claim<'_>], limits: &'l [Limit], own: usize) -> (i64, Option<&'l Limit>) {
    let others = || claims.iter().enumerate().filter(|(index, _)| *index != own).map(|(_, claim)| claim);
    let of = |limit: &'l Limit| {
        let granted = others().fold(Amount::ZERO, |sum, claim| sum + limit.of(claim) * claim.granted);
        let free = (limit.left - granted).max(Amount::ZERO).times(limit.of(&claims[own]))?;
        Some((free, Some(limit)))
    };
    limits.iter().filter_map(of).min_by_key(|(free, _)| *free).unwrap_or((i64::MAX, None))
}

/// Lowers maxima until their sum is the total: what each has above its floor in proportion. A floor is never undercut.
#[must_use]
pub fn lowered(
    maxima: &BTreeMap<ClusterName, i32>,
    floors: &BTreeMap<ClusterName, i32>,
    total: i64,
) -> BTreeMap<ClusterName, i32> {
    let floor = |cluster: &ClusterName, max: i32| floors.get(cluster).copied().unwrap_or(0).min(max);
    let above: BTreeMap<ClusterName, u64> = maxima
        .iter()
        .map(|(cluster, max)| (cluster.clone(), u64::from(max.saturating_sub(floor(cluster, *max)).unsigned_abs())))
        .collect();
    let kept: i64 = maxima.iter().map(|(cluster, max)| i64::from(floor(cluster, *max))).sum();
    let room = u64::try_from(total.saturating_sub(kept)).unwrap_or(0);
    if above.values().sum::<u64>() <= room {
        return maxima.clone();
    }
    let parts: BTreeMap<ClusterName, i32> = proportional(room, &above).into_iter().collect();
    let of = |(cluster, max): (&ClusterName, &i32)| {
        let part = parts.get(cluster).copied().unwrap_or(0);
        (cluster.clone(), floor(cluster, *max).saturating_add(part))
    };
    maxima.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// An autoscaler with its target.
    #[derive(Debug, Clone)]
    struct App {
        name: &'static str,
        max: i32,
        cpu: i64,
        /// Replicas of the binding, the recorded number if there is one, and the maximum of the member.
        clusters: Vec<(&'static str, i32, Option<i32>, i32)>,
    }

    fn app(name: &'static str, max: i32, cpu: i64, clusters: &[(&'static str, i32, Option<i32>, i32)]) -> App {
        App { name, max, cpu, clusters: clusters.to_vec() }
    }

    /// Objects of a namespace.
    #[derive(Default)]
    struct Space {
        quotas: Vec<Arc<FederatedResourceQuota>>,
        bindings: Vec<Arc<ResourceBinding>>,
        overrides: Vec<Arc<OverridePolicy>>,
        autoscalers: Vec<Arc<HorizontalPodAutoscaler>>,
    }

    fn made<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    impl Space {
        fn new(overall: &Value, apps: &[App]) -> Self {
            let mut space = Self::default();
            space
                .quotas
                .push(made(json!({"metadata": {"namespace": "shop", "name": "q"}, "spec": {"overall": overall}})));
            for (age, app) in apps.iter().enumerate() {
                let resource = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": app.name});
                let clusters: Vec<Value> =
                    app.clusters.iter().map(|(name, given, ..)| json!({"name": name, "replicas": given})).collect();
                space.bindings.push(made(json!({"metadata": {"namespace": "shop", "name": app.name},
                    "spec": {"resource": resource, "clusters": clusters,
                        "replicaRequirements": {"resourceRequest": {"cpu": format!("{}m", app.cpu)}}}})));
                let rules: Vec<Value> = app
                    .clusters
                    .iter()
                    .filter_map(|(name, _, decided, _)| {
                        let plaintext =
                            json!([{"path": "/spec/replicas", "operator": "replace", "value": (*decided)?}]);
                        Some(json!({"targetCluster": {"clusterNames": [name]}, "overriders": {"plaintext": plaintext}}))
                    })
                    .collect();
                if !rules.is_empty() {
                    space.overrides.push(made(json!({
                        "metadata": {"name": app.name, "labels": {"federatedhpa.karmada.io/managed": "true"}},
                        "spec": {"resourceSelectors": [resource], "overrideRules": rules}})));
                }
                if app.max > 0 {
                    let maxima: BTreeMap<&str, Value> = app
                        .clusters
                        .iter()
                        .filter(|(.., max)| *max > 0)
                        .map(|(name, .., max)| (*name, json!({"max": max})))
                        .collect();
                    let state = json!({"clusters": maxima}).to_string();
                    space.autoscalers.push(made(json!({
                        "metadata": {"namespace": "shop", "name": app.name,
                            "creationTimestamp": format!("2026-01-01T00:00:{age:02}Z"),
                            "labels": {"federatedhpa.karmada.io/enabled": "true"},
                            "annotations": {"federatedhpa.karmada.io/status": state}},
                        "spec": {"maxReplicas": app.max, "scaleTargetRef": resource}})));
                }
            }
            space
        }

        fn room(&self, name: &str) -> Option<Room> {
            let hpa = self.autoscalers.iter().find(|hpa| hpa.metadata.name.as_deref() == Some(name)).unwrap();
            room(&self.seen(), hpa)
        }

        fn seen(&self) -> Quotas<'_> {
            let Self { quotas, bindings, overrides, autoscalers } = self;
            Quotas { quotas, bindings, overrides, autoscalers }
        }
    }

    #[test]
    fn what_quotas_leave() {
        let web = |max, clusters: &[(&'static str, i32, Option<i32>, i32)]| app("web", max, 100, clusters);
        let other = |replicas| app("db", 0, 500, &[("A", replicas, None, 0)]);
        let cpu = |limit: &str| json!({"cpu": limit});
        for (name, overall, apps, want) in [
            ("enough for all", cpu("2"), vec![web(20, &[("A", 3, None, 0)])], None),
            ("too little", cpu("1"), vec![web(20, &[("A", 3, None, 0)])], Some((10, "cpu"))),
            (
                "another key of the same resource",
                json!({"requests.cpu": "1"}),
                vec![web(20, &[("A", 3, None, 0)])],
                Some((10, "requests.cpu")),
            ),
            ("pods", json!({"cpu": "1", "pods": "7"}), vec![web(20, &[("A", 3, None, 0)])], Some((7, "pods"))),
            ("a resource that it does not ask for", json!({"memory": "0"}), vec![web(20, &[("A", 3, None, 0)])], None),
            ("others use some", cpu("2"), vec![web(20, &[("A", 3, None, 0)]), other(2)], Some((10, "cpu"))),
            (
                "recorded replicas count",
                cpu("2"),
                vec![web(30, &[("A", 1, Some(8), 9), ("B", 1, None, 9)])],
                Some((20, "cpu")),
            ),
            (
                "the quota was lowered below what runs",
                cpu("500m"),
                vec![web(30, &[("A", 8, None, 9)])],
                Some((8, "cpu")),
            ),
            (
                "two in proportion to what each may add",
                cpu("6"),
                vec![web(30, &[("A", 10, None, 30)]), app("api", 80, 100, &[("A", 20, None, 80)])],
                // 30 of the 80 replicas that are wanted: 20 * 30 / 80, and the half that is left.
                Some((18, "cpu")),
            ),
            (
                "as long as the other has its maximum, no more than is left",
                cpu("6"),
                vec![web(30, &[("A", 10, None, 10)]), app("api", 80, 100, &[("A", 20, None, 45)])],
                Some((15, "cpu")),
            ),
            (
                "nothing is left, and what it has stays",
                cpu("6"),
                vec![web(30, &[("A", 10, None, 12)]), app("api", 80, 100, &[("A", 20, None, 80)])],
                Some((12, "cpu")),
            ),
            (
                "by amounts, not by replicas",
                cpu("6"),
                vec![web(30, &[("A", 10, None, 30)]), app("api", 10, 1_000, &[("A", 2, None, 10)])],
                // 3 of the 2 + 8 cores that are wanted: 20 * 3 / 10, and one more that fits.
                Some((17, "cpu")),
            ),
        ] {
            let room = Space::new(&overall, &apps).room("web");
            let found = room.as_ref().map(|room| (room.replicas, room.key.as_str()));
            assert_eq!(found, want, "{name}");
            assert!(room.is_none_or(|room| room.quota == "shop/q"), "{name}");
        }
        assert_eq!(room(&Quotas::default(), &HorizontalPodAutoscaler::default()), None);
    }

    #[test]
    fn maxima_are_lowered_in_proportion() {
        let of = |all: &[(&str, i32)]| -> BTreeMap<ClusterName, i32> {
            all.iter().map(|(name, number)| (ClusterName::from(*name), *number)).collect()
        };
        for (name, maxima, floors, total, want) in [
            ("enough", &[("A", 10), ("B", 20)][..], &[("A", 1), ("B", 1)][..], 30, &[("A", 10), ("B", 20)][..]),
            ("half", &[("A", 10), ("B", 20)], &[("A", 0), ("B", 0)], 15, &[("A", 5), ("B", 10)]),
            ("above what runs", &[("A", 10), ("B", 20)], &[("A", 8), ("B", 2)], 20, &[("A", 9), ("B", 11)]),
            ("less than runs", &[("A", 10), ("B", 20)], &[("A", 8), ("B", 2)], 4, &[("A", 8), ("B", 2)]),
            ("more runs than the maximum", &[("A", 10), ("B", 20)], &[("A", 15), ("B", 2)], 16, &[("A", 10), ("B", 6)]),
            (
                "the largest remainder, then the first",
                &[("A", 4), ("B", 4), ("C", 4)],
                &[],
                4,
                &[("A", 2), ("B", 1), ("C", 1)],
            ),
        ] {
            assert_eq!(lowered(&of(maxima), &of(floors), total), of(want), "{name}");
        }
    }

    const NAMES: [&str; 4] = ["a", "b", "c", "d"];

    fn any_app() -> impl Strategy<Value = App> {
        let cluster = (0..10_i32, prop::option::of(0..15_i32), 0..30_i32);
        (1..60_i32, 1..700_i64, prop::collection::vec(cluster, 1..4)).prop_map(|(max, cpu, clusters)| {
            let clusters =
                NAMES.into_iter().zip(clusters).map(|(name, (given, decided, max))| (name, given, decided, max));
            App { name: "", max, cpu, clusters: clusters.collect() }
        })
    }

    proptest! {
        /// The maxima fit together, unless more counts already, or more was handed out before.
        #[test]
        fn quotas_are_not_exceeded(mut apps in prop::collection::vec(any_app(), 1..4), limit in 0..20_000_i64, turns in prop::collection::vec(0..4_usize, 24)) {
            for (app, name) in apps.iter_mut().zip(NAMES) {
                app.name = name;
                let count = i32::try_from(app.clusters.len()).unwrap();
                app.max = app.max.max(count);
            }
            let overall = json!({"cpu": format!("{limit}m")});
            let charged = |app: &App| -> i64 { app.clusters.iter().map(|(_, given, decided, _)| i64::from((*given).max(decided.unwrap_or(0)))).sum() };
            let granted = |app: &App| -> i64 { app.clusters.iter().map(|(_, given, decided, max)| i64::from((*max).max(*given).max(decided.unwrap_or(0)))).sum() };
            let sum = |apps: &[App], of: &dyn Fn(&App) -> i64| -> i64 { apps.iter().map(|app| of(app) * app.cpu).sum() };
            let mut before = sum(&apps, &granted);
            // Whoever decides next: the sum falls to the limit, and never rises beyond it.
            for turn in turns.into_iter().chain(0..apps.len()).chain(0..apps.len()) {
                let at = turn % apps.len();
                let room = Space::new(&overall, &apps).room(apps[at].name);
                let most = charged(&apps[at]).max(i64::from(apps[at].max));
                let total = room.map_or(most, |room| room.replicas);
                prop_assert!(total >= charged(&apps[at]), "{total} of {:?}", apps[at]);
                let shares: BTreeMap<ClusterName, i32> = apps[at].clusters.iter()
                    .map(|(name, given, decided, _)| (ClusterName::from(*name), (*given).max(decided.unwrap_or(0)))).collect();
                let above = i32::try_from(total - charged(&apps[at])).unwrap();
                for (index, (name, _, _, max)) in apps[at].clusters.iter_mut().enumerate() {
                    *max = shares[&ClusterName::from(*name)] + if index == 0 { above } else { 0 };
                }
                let now = sum(&apps, &granted);
                prop_assert!(now <= before.max(limit), "{now} m of {limit} m, {before} m before: {apps:?}");
                before = now;
            }
            prop_assert!(before <= limit.max(sum(&apps, &charged)), "{before} m of {limit} m: {apps:?}");
            // Nothing changes any more.
            for app in &apps {
                let most = charged(app).max(i64::from(app.max));
                let again = Space::new(&overall, &apps).room(app.name).map_or(most, |room| room.replicas);
                prop_assert_eq!(again, granted(app), "{:?}", apps);
            }
        }

        #[test]
        fn the_sum_is_the_total_unless_more_runs(
            all in prop::collection::vec((0..50_i32, 0..60_i32), 1..8), total in 0..300_i64,
        ) {
            let names = || (0..all.len()).map(|i| ClusterName::from(format!("m{i}").as_str()));
            let maxima: BTreeMap<ClusterName, i32> = names().zip(all.iter().map(|(max, _)| *max)).collect();
            let floors: BTreeMap<ClusterName, i32> = names().zip(all.iter().map(|(_, floor)| *floor)).collect();
            let after = lowered(&maxima, &floors, total);
            let sum: i64 = after.values().map(|max| i64::from(*max)).sum();
            let runs: i64 = maxima.iter().map(|(name, max)| i64::from((*max).min(floors[name]))).sum();
            let most: i64 = maxima.values().map(|max| i64::from(*max)).sum();
            prop_assert_eq!(sum, total.max(runs).min(most));
            for (name, max) in &after {
                prop_assert!(*max <= maxima[name] && *max >= maxima[name].min(floors[name]), "{name}");
            }
            prop_assert_eq!(lowered(&after, &floors, total), after);
        }
    }
}
