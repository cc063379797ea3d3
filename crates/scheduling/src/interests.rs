//! Bindings by the affinities that select their clusters, to find those that a changed cluster concerns.
//!
//! Many bindings share few policies, so that an affinity is evaluated once for all of them. A changed binding costs its
//! own entry. [`concerns`](crate::wakes::cluster::concerns) has the last word on each binding that is found.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{
    cluster::Cluster,
    policy::{ClusterAffinity, Placement},
};
use ironclad_fleet::{BindingKey, BindingRef, affinity};

use crate::groups;

/// Bindings by their affinities.
#[derive(Debug, Clone, Default)]
pub struct Interests {
    /// By the affinities as text.
    shared: BTreeMap<Arc<str>, Shared>,
    bindings: BTreeMap<BindingKey, Arc<str>>,
}

/// Bindings with the same affinities.
#[derive(Debug, Clone)]
struct Shared {
    /// A cluster concerns the bindings if one of these selects it; `None` if every cluster does.
    affinities: Option<Vec<ClusterAffinity>>,
    bindings: BTreeSet<BindingKey>,
}

impl Interests {
    /// Returns whether a change of a binding is none for its interests: reports of clusters change a status often.
    #[must_use]
    pub fn is_unchanged(old: BindingRef<'_>, new: BindingRef<'_>) -> bool {
        let read =
            |binding: BindingRef<'_>| (binding.generation(), binding.observed_generation() == binding.generation());
        read(old) == read(new)
            && old.observed_group() == new.observed_group()
            && old.metadata().uid == new.metadata().uid
    }

    /// Records a binding that was added or changed.
    pub fn update(&mut self, binding: BindingRef<'_>) {
        let key = binding.key();
        let Some(placement) = &binding.spec().placement else { return self.remove(&key) };
        let affinities = affinities(binding, placement);
        let text = text(affinities.as_deref());
        if self.bindings.get(&key).is_some_and(|known| **known == *text) {
            return;
        }
        self.remove(&key);
        let text = self.shared.get_key_value(&*text).map_or_else(|| text.into(), |(text, _)| text.clone());
        let owned = || affinities.map(|all| all.into_iter().cloned().collect());
        let new = || Shared { affinities: owned(), bindings: BTreeSet::new() };
        self.shared.entry(text.clone()).or_insert_with(new).bindings.insert(key.clone());
        self.bindings.insert(key, text);
    }

    /// Forgets a binding.
    pub fn remove(&mut self, key: &BindingKey) {
        let Some(text) = self.bindings.remove(key) else { return };
        let Some(shared) = self.shared.get_mut(&text) else { return };
        shared.bindings.remove(key);
        if shared.bindings.is_empty() {
            self.shared.remove(&text);
        }
    }

    /// Bindings whose affinities select the cluster before or after a change. Others may have it as a target.
    pub fn selecting<'a>(
        &'a self,
        old: Option<&'a Cluster>,
        new: Option<&'a Cluster>,
    ) -> impl Iterator<Item = &'a BindingKey> {
        let selects = move |affinity: &ClusterAffinity| {
            old.into_iter().chain(new).any(|cluster| affinity::chooses(affinity, cluster))
        };
        let concerned = move |shared: &&Shared| shared.affinities.as_ref().is_none_or(|all| all.iter().any(selects));
        self.shared.values().filter(concerned).flat_map(|shared| &shared.bindings)
    }
}

/// Affinities of which one must select a cluster that concerns the binding; `None` if every cluster does: without an
/// affinity, or while the status with the group in use lags behind the spec.
pub(crate) fn affinities<'a>(binding: BindingRef<'a>, placement: &'a Placement) -> Option<Vec<&'a ClusterAffinity>> {
    let all = &placement.cluster_affinities;
    if !all.is_empty() && binding.observed_generation() != binding.generation() {
        return None;
    }
    if let Some(own) = &placement.cluster_affinity {
        return Some(vec![own]);
    }
    let group = all.get(groups::observed(all, binding.observed_group()))?;
    let tiers = group.overflow_affinities.iter().map(|tier| &tier.affinity);
    Some(std::iter::once(&group.affinity).chain(tiers).collect())
}

/// The affinities as text, by which equal ones are found.
pub(crate) fn text(affinities: Option<&[&ClusterAffinity]>) -> String {
    serde_json::to_string(&affinities).expect("an affinity is plain data")
}

#[cfg(test)]
mod tests {
    use ironclad_api::work::{ResourceBinding, ResourceBindingStatus};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Options,
        testkit::{affinity, binding, cluster, duplicated, group, overflow, targets},
        wakes::cluster::concerns,
    };

    fn placement(kind: usize, name: usize) -> Option<Placement> {
        let name = format!("m{name}");
        let mut placement = duplicated();
        match kind {
            0 => return None,
            1 => {}
            2 => placement.cluster_affinity = Some(affinity(&[&name])),
            3 => placement.cluster_affinities = vec![group("a", &[&name]), group("b", &["m1"])],
            _ => {
                let mut tiered = group("a", &["m0"]);
                tiered.overflow_affinities = vec![overflow("t", &[&name])];
                placement.cluster_affinities = vec![tiered, group("b", &["m2"])];
            }
        }
        Some(placement)
    }

    proptest! {
        /// With the bindings that have the cluster as a target, the index finds those that the cluster concerns.
        #[test]
        fn the_bindings_found_are_those_that_the_cluster_concerns(
            steps in prop::collection::vec(
                (0_usize..4, prop::option::weighted(0.9, (0_usize..5, 0_usize..4, 0_i64..3, 0_usize..3, prop::option::of(0_usize..4)))),
                1..20,
            ),
        ) {
            let options = Options::default();
            let mut interests = Interests::default();
            let mut all: BTreeMap<BindingKey, ResourceBinding> = BTreeMap::new();
            for (name, row) in steps {
                let mut one = binding(&format!("b{name}"), 1, &[]);
                let key = BindingRef::from(&one).key();
                let Some((kind, on, observed, group, target)) = row else {
                    all.remove(&key);
                    interests.remove(&key);
                    continue;
                };
                one.metadata.generation = Some(observed.min(1) + 1);
                one.spec.placement = placement(kind, on).map(Into::into);
                one.spec.clusters = target.map(|at| targets(&[(&format!("m{at}"), 1)])).unwrap_or_default();
                one.status = Some(ResourceBindingStatus {
                    scheduler_observed_generation: observed,
                    scheduler_observed_affinity_name: ["", "a", "b"][group].into(),
                    ..ResourceBindingStatus::default()
                });
                let unchanged = all.get(&key).is_some_and(|old| Interests::is_unchanged(old.into(), (&one).into()));
                let same = all.get(&key).is_some_and(|old| old.spec.placement == one.spec.placement);
                // The API server raises the generation with a changed spec.
                if !unchanged || !same {
                    interests.update((&one).into());
                }
                all.insert(key, one);
                for at in 0..4 {
                    let cluster = cluster(&format!("m{at}"));
                    let concerned = |binding: &ResourceBinding| concerns(binding.into(), &cluster, &options);
                    let want: BTreeSet<&BindingKey> = all.iter().filter(|(_, b)| concerned(b)).map(|(key, _)| key).collect();
                    let targeted = all.iter().filter(|(_, b)| b.spec.target(&format!("m{at}")).is_some());
                    let found = interests.selecting(None, Some(&cluster)).chain(targeted.map(|(key, _)| key));
                    let found: BTreeSet<&BindingKey> = found.filter(|key| concerned(&all[*key])).collect();
                    prop_assert_eq!(found, want);
                }
            }
        }
    }

    #[test]
    fn bindings_of_one_policy_share_their_affinity() {
        let mut interests = Interests::default();
        for n in 0..100 {
            let mut one = binding(&format!("b{n}"), 1, &[]);
            one.spec.placement = placement(2, n % 3).map(Into::into);
            interests.update((&one).into());
        }
        assert_eq!((interests.shared.len(), interests.bindings.len()), (3, 100));
        let m1 = cluster("m1");
        assert_eq!(interests.selecting(Some(&m1), None).count(), 33);
        let keys: Vec<BindingKey> = interests.bindings.keys().cloned().collect();
        keys.iter().for_each(|key| interests.remove(key));
        assert!(interests.shared.is_empty(), "nothing is left of removed bindings");
    }
}
