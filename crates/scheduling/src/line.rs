//! The line of bindings that wait for capacity, in groups that ask for the same, to find those that fit into a cluster
//! that grew (specification/scheduling.md 14.1, 16.3).
//!
//! Many bindings share few policies and requests, so a cluster that grew is compared with each group once, however many
//! bindings are in it. [`concerns`](crate::wakes::cluster::concerns) has the last word on each binding that is found:
//! labels may have changed since it was grouped.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    sync::Arc,
};

use ironclad_api::{
    cluster::Cluster,
    policy::ClusterAffinity,
    work::{ObjectReference, ResourceBindingSpec},
};
use ironclad_fleet::{BindingRef, ClusterName, affinity};

use crate::{
    Capacity, Options, capacity::Asker, estimator::Question, interests, options::schedules_component_sets,
    priority::priority, trigger::responsible,
};

/// Largest number of groups that are compared with a cluster, those whose first binding is in front. The others follow
/// with its next growth, or by their own recheck.
const GROUPS_MAX: usize = 1_000;

/// Bindings that wait for capacity: the highest priority first, then in the order in which they began to wait. `K` is
/// the name of a binding.
#[derive(Debug, Clone)]
pub struct Line<K> {
    all: BTreeMap<Position, K>,
    places: BTreeMap<K, Place>,
    groups: BTreeMap<Arc<Ask>, Group>,
    next: u64,
}

type Position = (Reverse<i32>, u64);

#[derive(Debug, Clone)]
struct Place {
    position: Position,
    /// `None` if no cluster can help the binding.
    group: Option<Arc<Ask>>,
}

/// Bindings that ask for the same.
#[derive(Debug, Clone, Default)]
struct Group {
    /// A cluster is asked for if one of these selects it, or if the list is absent.
    affinities: Option<Vec<ClusterAffinity>>,
    line: BTreeSet<Position>,
    /// Those that have a cluster as a target, which concerns them whatever the affinity is.
    by_target: BTreeMap<String, BTreeSet<Position>>,
    /// The targets of each that has some.
    targets: BTreeMap<Position, Vec<String>>,
}

/// Fields that decide whether a cluster has enough capacity for a binding.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ask {
    /// The affinities as text.
    affinities: String,
    question: Question,
    priority: i32,
    /// The template of a binding for which capacity is held: that capacity is its own.
    nominated: Option<Template>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Template {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
}

impl Ask {
    /// Request of a binding, with its affinities. `None` if no cluster that grows can help it: this scheduler is not
    /// responsible for it, or it requests nothing.
    fn of<'a>(
        binding: BindingRef<'a>,
        is_nominated: bool,
        options: &Options,
    ) -> Option<(Self, Option<Vec<&'a ClusterAffinity>>)> {
        let spec = binding.spec();
        let placement = spec.placement.as_ref()?;
        if responsible(binding, options).is_err() || (spec.replicas == 0 && spec.components.is_empty()) {
            return None;
        }
        let affinities = interests::affinities(binding, placement);
        let sets = schedules_component_sets(options, spec, placement);
        let ask = Self {
            affinities: interests::text(affinities.as_deref()),
            question: Question::of(spec, sets),
            priority: priority(spec),
            nominated: is_nominated.then(|| Template::of(spec)),
        };
        Some((ask, affinities))
    }

    fn fits(&self, cluster: &ClusterName, capacity: &Capacity) -> bool {
        let template = self.nominated.as_ref().map(Template::reference);
        let asker = Asker::with(template.as_ref(), self.priority);
        capacity.fits(cluster, &self.question, &asker).is_some_and(|fits| fits > 0)
    }
}

impl Template {
    fn of(spec: &ResourceBindingSpec) -> Self {
        let ObjectReference { api_version, kind, namespace, name, .. } = spec.resource.clone();
        Self { api_version, kind, namespace, name }
    }

    fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..ObjectReference::default()
        }
    }
}

impl Group {
    fn selects(&self, cluster: &Cluster) -> bool {
        self.affinities.as_ref().is_none_or(|all| all.iter().any(|one| affinity::chooses(one, cluster)))
    }

    fn insert(&mut self, position: Position, spec: &ResourceBindingSpec) {
        self.line.insert(position);
        let targets: Vec<String> = spec.clusters.iter().map(|target| target.name.clone()).collect();
        for target in &targets {
            self.by_target.entry(target.clone()).or_default().insert(position);
        }
        if !targets.is_empty() {
            self.targets.insert(position, targets);
        }
    }

    fn remove(&mut self, position: &Position) {
        self.line.remove(position);
        for target in self.targets.remove(position).into_iter().flatten() {
            if let Some(all) = self.by_target.get_mut(&target) {
                all.remove(position);
                if all.is_empty() {
                    self.by_target.remove(&target);
                }
            }
        }
    }
}

impl<K> Default for Line<K> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), places: BTreeMap::new(), groups: BTreeMap::new(), next: 0 }
    }
}

impl<K: Ord + Clone> Line<K> {
    /// Puts a binding at the end of those with its priority. `is_nominated`: capacity is held for it.
    pub fn enter(&mut self, key: &K, binding: BindingRef<'_>, is_nominated: bool, options: &Options) {
        self.leave(key);
        let position = (Reverse(priority(binding.spec())), self.next);
        self.next += 1;
        self.all.insert(position, key.clone());
        let group = self.join(position, binding, is_nominated, options);
        self.places.insert(key.clone(), Place { position, group });
    }

    /// Notes that a binding changed; it keeps its place. One that does not wait stays away.
    pub fn changed(&mut self, key: &K, binding: BindingRef<'_>, is_nominated: bool, options: &Options) {
        let Some(position) = self.places.get(key).map(|place| place.position) else { return };
        self.part(key);
        let group = self.join(position, binding, is_nominated, options);
        self.places.insert(key.clone(), Place { position, group });
    }

    /// Removes a binding.
    pub fn leave(&mut self, key: &K) {
        self.part(key);
        if let Some(place) = self.places.remove(key) {
            self.all.remove(&place.position);
        }
    }

    fn join(
        &mut self,
        position: Position,
        binding: BindingRef<'_>,
        is_nominated: bool,
        options: &Options,
    ) -> Option<Arc<Ask>> {
        let (ask, affinities) = Ask::of(binding, is_nominated, options)?;
        let ask = self.groups.get_key_value(&ask).map_or_else(|| Arc::new(ask), |(ask, _)| ask.clone());
        let owned = || affinities.map(|all| all.into_iter().cloned().collect());
        let new = || Group { affinities: owned(), ..Group::default() };
        self.groups.entry(ask.clone()).or_insert_with(new).insert(position, binding.spec());
        Some(ask)
    }

    /// Takes a binding out of its group.
    fn part(&mut self, key: &K) {
        let Some(place) = self.places.get(key) else { return };
        let Some(ask) = &place.group else { return };
        let Some(group) = self.groups.get_mut(ask) else { return };
        group.remove(&place.position);
        if group.line.is_empty() {
            self.groups.remove(ask);
        }
    }

    /// Number of bindings that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True if no binding waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The first bindings, at most `at_most`, that have a higher priority than this one.
    pub fn above(&self, priority: i32, at_most: usize) -> impl Iterator<Item = &K> {
        self.all.range(..(Reverse(priority), 0)).map(|(_, key)| key).take(at_most)
    }

    /// The bindings in the order in which they wait.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        self.all.values()
    }

    /// The first bindings, at most `at_most`, that the cluster concerns and into which one more replica or component
    /// set of them fits: those for which [`may_fit`](crate::wakes::cluster::may_fit) is true.
    #[must_use]
    pub fn fitting(&self, cluster: &Cluster, capacity: &Capacity, at_most: usize) -> Vec<K> {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let known = ClusterName::from(name);
        let mut groups: Vec<(&Arc<Ask>, &Group)> = self.groups.iter().collect();
        if groups.len() > GROUPS_MAX {
            groups.sort_by_key(|(_, group)| group.line.first().copied());
            groups.truncate(GROUPS_MAX);
        }
        let lines = groups.into_iter().filter_map(|(ask, group)| {
            let line = if group.selects(cluster) { Some(&group.line) } else { group.by_target.get(name) };
            line.filter(|_| ask.fits(&known, capacity))
        });
        let mut lines: Vec<_> = lines.map(BTreeSet::iter).collect();
        let mut heads: BinaryHeap<Reverse<(Position, usize)>> =
            lines.iter_mut().enumerate().filter_map(|(at, line)| Some(Reverse((*line.next()?, at)))).collect();
        let mut found = Vec::new();
        while found.len() < at_most
            && let Some(Reverse((position, at))) = heads.pop()
        {
            found.extend(self.all.get(&position).cloned());
            heads.extend(lines[at].next().map(|next| Reverse((*next, at))));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use ironclad_api::work::{ResourceBinding, ResourceBindingStatus};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{
        capacity::Modelling,
        testkit::{affinity, binding, cluster, duplicated, group},
        wakes::cluster::may_fit,
    };

    /// Cluster with room for pods of this much cpu.
    fn grown(name: &str, cpu: i64) -> Cluster {
        let mut cluster = cluster(name);
        let summary = json!({"allocatable": {"cpu": cpu.to_string(), "pods": "10"}});
        cluster.status.as_mut().unwrap().resource_summary = Some(serde_json::from_value(summary).unwrap());
        cluster
    }

    /// A binding that requests `cpu`, of one of some policies.
    fn waiting(name: usize, cpu: i64, on: usize, priority: i32) -> ResourceBinding {
        let mut one = binding(&format!("b{name}"), 2, &[]);
        one.spec.replica_requirements =
            Some(serde_json::from_value(json!({"resourceRequest": {"cpu": cpu.to_string()}})).unwrap());
        let mut placement = duplicated();
        match on {
            0 => {}
            1 | 2 => placement.cluster_affinity = Some(affinity(&[&format!("m{on}")])),
            _ => placement.cluster_affinities = vec![group("a", &["m0"]), group("b", &["m1", "m2"])],
        }
        one.spec.placement = Some(placement.into());
        one.spec.schedule_priority = Some(serde_json::from_value(json!({"priority": priority})).unwrap());
        one.status = Some(ResourceBindingStatus { scheduler_observed_generation: 1, ..Default::default() });
        one
    }

    fn line(all: &[ResourceBinding]) -> Line<usize> {
        let mut line = Line::default();
        for (key, one) in all.iter().enumerate() {
            line.enter(&key, one.into(), false, &Options::default());
        }
        line
    }

    fn fitting(line: &Line<usize>, cluster: &Cluster, at_most: usize) -> Vec<usize> {
        let name = ClusterName::from(cluster.metadata.name.as_deref().unwrap());
        let fleet = [(name, Arc::new(cluster.clone()))].into_iter().collect();
        line.fitting(cluster, &Capacity::of(&fleet, Modelling::On), at_most)
    }

    #[test]
    fn bindings_that_ask_for_the_same_are_one_group() {
        let all: Vec<_> = (0..300).map(|n| waiting(n, 1 + (n % 3) as i64, n % 2, 0)).collect();
        let mut line = line(&all);
        assert_eq!((line.len(), line.groups.len()), (300, 6), "three requests, two policies");
        assert_eq!(
            fitting(&line, &grown("m2", 2), 4),
            [0, 4, 6, 10],
            "even ones may go anywhere, and 3 cpu do not fit"
        );
        (0..300).for_each(|key| line.leave(&key));
        assert!(line.is_empty() && line.groups.is_empty() && line.places.is_empty(), "nothing is left");
    }

    #[test]
    fn a_target_concerns_its_binding_whatever_the_affinity_is() {
        let mut all = vec![waiting(0, 1, 1, 0), waiting(1, 1, 1, 0)];
        all[1].spec.clusters = crate::testkit::targets(&[("m2", 1)]);
        assert_eq!(fitting(&line(&all), &grown("m2", 4), 9), [1]);
    }

    #[test]
    fn a_changed_binding_keeps_its_place() {
        let mut all = vec![waiting(0, 9, 0, 0), waiting(1, 1, 0, 0), waiting(2, 1, 0, 7)];
        let mut line = line(&all);
        assert_eq!(fitting(&line, &grown("m1", 4), 9), [2, 1], "by priority, and the first is too large");
        all[0] = waiting(0, 1, 0, 0);
        line.changed(&0, (&all[0]).into(), false, &Options::default());
        line.changed(&5, (&all[0]).into(), false, &Options::default());
        assert_eq!(fitting(&line, &grown("m1", 4), 9), [2, 0, 1]);
        assert_eq!((line.len(), line.iter().copied().collect::<Vec<_>>()), (3, vec![2, 0, 1]));
        line.enter(&2, (&all[2]).into(), false, &Options::default());
        line.enter(&0, (&all[0]).into(), false, &Options::default());
        assert_eq!(fitting(&line, &grown("m1", 4), 2), [2, 1], "who failed again goes to the end of its priority");
    }

    #[test]
    fn capacity_held_for_a_binding_is_room_for_itself_only() {
        let options = Options::default();
        let all = [waiting(0, 4, 0, 0), waiting(1, 4, 0, 0)];
        let cluster = Arc::new(grown("m1", 4));
        let fleet = [("m1".into(), cluster.clone())].into_iter().collect();
        let mut capacity = Capacity::of(&fleet, Modelling::On);
        capacity.nominate(&all[1], &crate::testkit::targets(&[("m1", 1)]), &options);
        let mut line = line(&all);
        assert_eq!(line.fitting(&cluster, &capacity, 9), Vec::<usize>::new(), "not grouped as nominated");
        line.changed(&1, (&all[1]).into(), true, &options);
        assert_eq!(line.fitting(&cluster, &capacity, 9), [1]);
    }

    proptest! {
        /// Reference: each binding is examined by itself.
        #[test]
        fn those_found_are_those_that_may_fit(
            rows in prop::collection::vec(
                (0_i64..4, 0_usize..4, 0_i32..2, prop::option::of(0_usize..4), (0_usize..3, 0_i64..2, any::<bool>())), 0..20,
            ),
            cpu in 0_i64..4, at in 0_usize..4, at_most in 0_usize..20, left in prop::collection::vec(0_usize..20, 0..4),
        ) {
            let options = Options::default();
            let mut all: Vec<ResourceBinding> = Vec::new();
            for (n, (cpu, on, priority, target, (observed_group, observed, is_ours))) in rows.into_iter().enumerate() {
                let mut one = waiting(n, cpu, on, priority);
                one.spec.clusters = target.map(|at| crate::testkit::targets(&[(&format!("m{at}"), 1)])).unwrap_or_default();
                one.spec.replicas = i32::from(n % 7 != 6);
                let status = one.status.as_mut().unwrap();
                status.scheduler_observed_generation = observed;
                status.scheduler_observed_affinity_name = ["", "a", "b"][observed_group].into();
                if !is_ours {
                    one.spec.scheduler_name = "other".into();
                }
                all.push(one);
            }
            let mut line = line(&all);
            left.iter().for_each(|key| line.leave(key));
            let cluster = grown(&format!("m{at}"), cpu);
            let fleet = [(ClusterName::from(format!("m{at}").as_str()), Arc::new(cluster.clone()))].into_iter().collect();
            let capacity = Capacity::of(&fleet, Modelling::On);
            let mut want: Vec<usize> = (0..all.len()).filter(|key| !left.contains(key)).collect();
            want.sort_by_key(|key| Reverse(priority(&all[*key].spec)));
            want.retain(|key| may_fit((&all[*key]).into(), &cluster, &capacity, &options));
            want.truncate(at_most);
            prop_assert_eq!(line.fitting(&cluster, &capacity, at_most), want);
        }
    }
}
