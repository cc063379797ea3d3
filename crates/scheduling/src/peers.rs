//! Affinity and anti-affinity between workloads (specification/scheduling.md 5.8; gate `WorkloadAffinity`).
//!
//! Members of a group are the ResourceBindings of one namespace with the same group text. A changed binding costs its
//! own targets; a filter reads the members of one group.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::work::{ResourceBinding, ResourceBindingSpec, TargetCluster};
use ironclad_fleet::{BindingKey, BindingRef, because::schedule::Refusal};

use crate::{Seen, plugin::TargetState};

/// Groups of workloads, with the clusters of each member.
#[derive(Debug, Clone, Default)]
pub struct Peers {
    members: BTreeMap<Group, BTreeMap<BindingKey, Clusters>>,
    /// Results that are being written: newer than what is known of the binding.
    assigning: BTreeMap<BindingKey, Clusters>,
    groups: BTreeMap<BindingKey, Vec<Group>>,
}

type Clusters = BTreeSet<Arc<str>>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    namespace: Arc<str>,
    kind: Kind,
    name: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Affinity,
    AntiAffinity,
}

impl Peers {
    /// Groups of these bindings, for a single question.
    #[must_use]
    pub fn of<'a>(bindings: impl IntoIterator<Item = &'a ResourceBinding>) -> Self {
        let mut peers = Self::default();
        for binding in bindings {
            peers.update(binding);
        }
        peers
    }

    /// Records a binding that was added or changed. One that is being deleted counts until it is gone, as its copies
    /// may still run.
    pub fn update(&mut self, binding: &ResourceBinding) {
        let key = BindingRef::from(binding).key();
        self.leave(&key);
        let groups = groups(&key, &binding.spec);
        if groups.is_empty() {
            return;
        }
        for group in &groups {
            let members = self.members.entry(group.clone()).or_default();
            members.insert(key.clone(), places(binding));
        }
        self.groups.insert(key, groups);
    }

    /// Forgets a binding.
    pub fn remove(&mut self, key: &BindingKey) {
        self.leave(key);
        self.assigning.remove(key);
    }

    fn leave(&mut self, key: &BindingKey) {
        for group in self.groups.remove(key).unwrap_or_default() {
            let Some(members) = self.members.get_mut(&group) else { continue };
            members.remove(key);
            if members.is_empty() {
                self.members.remove(&group);
            }
        }
    }

    /// Records a result that is about to be written, so that the next decision need not wait for the API server.
    pub fn assign(&mut self, key: &BindingKey, targets: &[TargetCluster]) {
        if self.groups.contains_key(key) {
            self.assigning.insert(key.clone(), names(targets));
        }
    }

    /// Records that a result was written, or that its write failed.
    pub fn assigned(&mut self, key: &BindingKey) {
        self.assigning.remove(key);
    }

    /// Other members of the binding's groups: those that may fit elsewhere when its clusters change.
    #[must_use]
    pub fn fellows(&self, key: &BindingKey) -> Vec<BindingKey> {
        let groups = self.groups.get(key).into_iter().flatten();
        let members = groups.filter_map(|group| self.members.get(group)).flat_map(BTreeMap::keys);
        let fellows: BTreeSet<&BindingKey> = members.filter(|member| *member != key).collect();
        fellows.into_iter().cloned().collect()
    }

    /// Returns true if a change of a binding, or its deletion, changes the clusters in which one of its groups has
    /// members: decisions on the others depend on nothing else of it. Asked before [`Self::update`].
    #[must_use]
    pub fn moves(&self, key: &BindingKey, new: Option<&ResourceBinding>) -> bool {
        let after = new.map(|new| (groups(key, &new.spec), places(new))).unwrap_or_default();
        self.groups.get(key).into_iter().flatten().any(|group| {
            let Some(members) = self.members.get(group) else { return false };
            let nowhere = Clusters::new();
            let (then, now) =
                (members.get(key).unwrap_or(&nowhere), if after.0.contains(group) { &after.1 } else { &nowhere });
            let is_there = |cluster| members.iter().any(|(member, has)| member != key && has.contains(cluster));
            then.symmetric_difference(now).any(|cluster| !is_there(cluster))
        })
    }

    /// Groups of one binding as they are once some of their members have left clusters: `left` returns these, of a
    /// member.
    #[must_use]
    pub fn without(&self, key: &BindingKey, mut left: impl FnMut(&BindingKey) -> BTreeSet<Arc<str>>) -> Self {
        self.with(key, |member, clusters| *clusters = &*clusters - &left(member))
    }

    /// Groups of one binding as they are once other members have changed their clusters.
    pub(crate) fn with(&self, key: &BindingKey, mut change: impl FnMut(&BindingKey, &mut BTreeSet<Arc<str>>)) -> Self {
        let mut rest = Self::default();
        for group in self.groups.get(key).into_iter().flatten() {
            let members = self.members.get(group).into_iter().flatten().map(|(member, known)| {
                let mut known = self.assigning.get(member).unwrap_or(known).clone();
                if member != key {
                    change(member, &mut known);
                }
                (member.clone(), known)
            });
            rest.members.insert(group.clone(), members.collect());
        }
        rest
    }

    /// Checks whether the groups of a binding allow a cluster. One that it is in stays, whatever its groups say.
    ///
    /// # Errors
    /// The reason why a group rejects it.
    pub fn test(&self, binding: BindingRef<'_>, cluster: &str, state: TargetState) -> Result<(), Refusal> {
        if state != TargetState::New {
            return Ok(());
        }
        self.refusal(binding, cluster).map_or(Ok(()), Err)
    }

    /// Why the groups of a binding reject a cluster that is not its target yet. A peer without a result does not count,
    /// so that the first member of a group finds a place; with several, the cluster must be a target of all.
    fn refusal(&self, binding: BindingRef<'_>, cluster: &str) -> Option<Refusal> {
        let BindingRef::Namespaced(_) = binding else { return None };
        binding.spec().workload_affinity_groups.as_ref()?;
        let key = binding.key();
        groups(&key, binding.spec()).iter().find_map(|group| {
            let others = self.members.get(group)?.iter().filter(|(other, _)| **other != key);
            let mut others = others.map(|(other, known)| (other, self.assigning.get(other).unwrap_or(known)));
            match group.kind {
                Kind::Affinity => others
                    .find(|(_, clusters)| !clusters.is_empty() && !clusters.contains(cluster))
                    .map(|(other, _)| Refusal::WithoutPeer { peer: other.to_string() }),
                Kind::AntiAffinity => others
                    .find(|(_, clusters)| clusters.contains(cluster))
                    .map(|(other, _)| Refusal::BesidePeer { peer: other.to_string() }),
            }
        })
    }
}

/// Groups of the binding in which members count where they have just been nominated, too, before their bindings say so:
/// they will be there, and their victims leave in vain if the group goes elsewhere. `None` if there is no nomination.
pub(crate) fn with_nominated(seen: &Seen<'_>) -> Option<Peers> {
    let peers = seen.peers.filter(|_| seen.capacity.nominated_count() > 0)?;
    let nominated = |key: &BindingKey| seen.capacity.nominated_on(key).iter().map(|cluster| cluster.0.clone());
    Some(peers.with(&seen.binding.key(), |other, on| on.extend(nominated(other))))
}

/// Clusters of a member, with those where it is nominated: it will be there, as far as capacity is held for it.
fn places(binding: &ResourceBinding) -> Clusters {
    let mut places = names(&binding.spec.clusters);
    if binding.metadata.deletion_timestamp.is_none() && !binding.spec.scheduling_suspended() {
        places.extend(names(binding.status.as_ref().map_or(&[], |status| &status.nominated_clusters)));
    }
    places
}

fn names(targets: &[TargetCluster]) -> Clusters {
    targets.iter().map(|target| target.name.as_str().into()).collect()
}

fn groups(key: &BindingKey, spec: &ResourceBindingSpec) -> Vec<Group> {
    let Some(groups) = &spec.workload_affinity_groups else { return Vec::new() };
    let group = |(kind, name): (Kind, &String)| {
        let named = !name.is_empty();
        named.then(|| Group { namespace: key.namespace.clone(), kind, name: name.as_str().into() })
    };
    [(Kind::Affinity, &groups.affinity_group), (Kind::AntiAffinity, &groups.anti_affinity_group)]
        .into_iter()
        .filter_map(group)
        .collect()
}

#[cfg(test)]
mod tests {
    use ironclad_api::work::WorkloadAffinityGroups;

    use super::*;
    use crate::{
        Available, Capacity, Decision, Options, Since, decide,
        testkit::{at, binding, clusters, duplicated, targets},
    };

    fn member(name: &str, affinity: &str, anti: &str, on: &[&str]) -> ResourceBinding {
        let on: Vec<(&str, i32)> = on.iter().map(|name| (*name, 1)).collect();
        let mut member = binding(name, 1, &on);
        let text = |text: &str| text.to_owned();
        let groups = WorkloadAffinityGroups { affinity_group: text(affinity), anti_affinity_group: text(anti) };
        member.spec.workload_affinity_groups = Some(groups);
        member.spec.placement = Some(duplicated().into());
        member
    }

    fn decision(pending: &ResourceBinding, peers: Option<&Peers>) -> Decision {
        decision_beside(pending, peers, &Capacity::default())
    }

    fn decision_beside(pending: &ResourceBinding, peers: Option<&Peers>, capacity: &Capacity) -> Decision {
        let (fleet, available) = (clusters(&["m1", "m2", "m3"]), Available::new());
        let options = Options { workload_affinity: peers.is_some(), ..Options::default() };
        let seen = Seen {
            binding: pending.into(),
            clusters: &fleet,
            available: &available,
            capacity,
            options: &options,
            since: Since::default(),
            preempting: None,
            peers,
            index: None,
        };
        decide(&seen, at(100))
    }

    fn placed(pending: &ResourceBinding, peers: &Peers) -> Vec<String> {
        let decision = decision(pending, Some(peers));
        decision.result().unwrap_or_default().iter().map(|target| target.name.clone()).collect()
    }

    #[test]
    fn clusters_that_groups_allow() {
        let all: &[&str] = &["m1", "m2", "m3"];
        let rows: &[(&str, Vec<ResourceBinding>, ResourceBinding, &[&str])] = &[
            ("no group", vec![member("a", "g=1", "", &["m1"])], binding_without_groups(), all),
            ("affinity", vec![member("a", "g=1", "", &["m1"])], member("p", "g=1", "", &[]), &["m1"]),
            ("another group", vec![member("a", "g=2", "", &["m1"])], member("p", "g=1", "", &[]), all),
            ("the first member finds a place", vec![member("a", "g=1", "", &[])], member("p", "g=1", "", &[]), all),
            (
                "several peers: the clusters of all",
                vec![member("a", "g=1", "", &["m1", "m2"]), member("b", "g=1", "", &["m2", "m3"])],
                member("p", "g=1", "", &[]),
                &["m2"],
            ),
            ("anti-affinity", vec![member("a", "", "g=1", &["m1"])], member("p", "", "g=1", &[]), &["m2", "m3"]),
            (
                "both",
                vec![member("a", "g=1", "", &["m1", "m2"]), member("b", "", "h=1", &["m2"])],
                member("p", "g=1", "h=1", &[]),
                &["m1"],
            ),
            (
                "a cluster that it has stays",
                vec![member("a", "", "g=1", &["m1"])],
                member("p", "", "g=1", &["m1"]),
                all,
            ),
            ("itself is no peer", vec![member("p", "", "g=1", &["m1"])], member("p", "", "g=1", &[]), all),
        ];
        for (name, others, pending, want) in rows {
            let mut pending = pending.clone();
            if *name == "a cluster that it has stays" {
                // Everything is full of peers except the one it has.
                pending.spec.clusters = targets(&[("m1", 1)]);
            }
            let got = placed(&pending, &Peers::of(others));
            assert_eq!(got, *want, "{name}");
        }
    }

    fn binding_without_groups() -> ResourceBinding {
        let mut plain = binding("plain", 1, &[]);
        plain.spec.placement = Some(duplicated().into());
        plain
    }

    #[test]
    fn members_count_where_they_are_nominated() {
        let rows: [(&str, [&str; 2], [&str; 2], &[&str]); 4] = [
            ("affinity", ["g=1", ""], ["g=1", ""], &["m2"]),
            ("another affinity group", ["g=1", ""], ["g=2", ""], &["m1", "m2", "m3"]),
            ("anti-affinity", ["", "g=1"], ["", "g=1"], &["m1", "m3"]),
            ("another anti-affinity group", ["", "g=1"], ["", "g=2"], &["m1", "m2", "m3"]),
        ];
        for (name, first, second, want) in rows {
            let (first, pending) = (member("a", first[0], first[1], &[]), member("p", second[0], second[1], &[]));
            let (mut capacity, peers) = (Capacity::default(), Peers::of([&first, &pending]));
            capacity.nominate(&first, &targets(&[("m2", 1)]), &Options::default());
            let placed = |pending: &ResourceBinding, capacity: &Capacity| -> Vec<String> {
                let decision = decision_beside(pending, Some(&peers), capacity);
                decision.result().unwrap_or_default().iter().map(|target| target.name.clone()).collect()
            };
            assert_eq!(placed(&pending, &capacity), want, "{name}");
            assert_eq!(placed(&first, &capacity).len(), 3, "{name}: its own nomination");
            capacity.withdraw_nomination(&BindingRef::from(&first).key());
            assert_eq!(placed(&pending, &capacity).len(), 3, "{name}: after the nomination");
            let mut told = first;
            told.status.get_or_insert_default().nominated_clusters = targets(&[("m2", 1)]);
            assert_eq!(super::tests::placed(&pending, &Peers::of([&told])), want, "{name}: its binding says so");
            assert!(Peers::of([&told]).moves(&BindingRef::from(&told).key(), None), "{name}: it ends with the binding");
            told.spec.suspension = Some(serde_json::from_value(serde_json::json!({"scheduling": true})).unwrap());
            assert_eq!(super::tests::placed(&pending, &Peers::of([&told])).len(), 3, "{name}: nothing is held for it");
        }
    }

    #[test]
    fn groups_end_at_the_namespace_and_with_the_gate() {
        let mut elsewhere = member("a", "", "g=1", &["m1"]);
        elsewhere.metadata.namespace = Some("other".into());
        let pending = member("p", "", "g=1", &[]);
        assert_eq!(placed(&pending, &Peers::of([&elsewhere])).len(), 3);
        assert_eq!(decision(&pending, None).result().map(<[_]>::len), Some(3), "the gate is off");
    }

    #[test]
    fn results_that_are_being_written_count_and_failed_ones_do_not() {
        let (first, pending) = (member("a", "", "g=1", &[]), member("p", "", "g=1", &[]));
        let key = BindingRef::from(&first).key();
        let mut peers = Peers::of([&first]);
        peers.assign(&key, &targets(&[("m1", 1), ("m2", 1)]));
        assert_eq!(placed(&pending, &peers), ["m3"]);
        peers.update(&first);
        assert_eq!(placed(&pending, &peers), ["m3"], "another change of it does not hide the result");
        peers.assigned(&key);
        assert_eq!(placed(&pending, &peers).len(), 3, "the write failed");
        peers.update(&member("a", "", "g=1", &["m1"]));
        assert_eq!(placed(&pending, &peers), ["m2", "m3"]);
        assert_eq!(peers.fellows(&key), []);
        peers.update(&pending);
        assert_eq!(peers.fellows(&key), [BindingRef::from(&pending).key()]);
        peers.remove(&key);
        assert_eq!(placed(&pending, &peers).len(), 3);
    }

    #[test]
    fn group_moves_with_the_first_member_in_a_cluster_and_the_last_one() {
        let members = [member("a", "", "g=1", &["m1"]), member("b", "", "g=1", &["m1"])];
        for (name, clusters, want) in [
            ("it stays", &["m1"][..], false),
            ("it comes", &["m1", "m2"], true),
            ("another is still there", &[], false),
        ] {
            let peers = Peers::of(&members);
            let key = BindingRef::from(&members[0]).key();
            assert_eq!(peers.moves(&key, Some(&member("a", "", "g=1", clusters))), want, "{name}");
        }
        let peers = Peers::of(&members[..1]);
        let key = BindingRef::from(&members[0]).key();
        assert!(peers.moves(&key, None), "the last one is deleted");
        assert!(peers.moves(&key, Some(&member("a", "g=1", "", &["m1"]))), "it joins another group");
        assert!(!peers.moves(&BindingRef::from(&members[1]).key(), None), "one that was in no group");
    }

    #[test]
    fn members_that_leave_do_not_count_where_they_were() {
        let members = [member("a", "g=1", "", &["m1", "m2"]), member("b", "g=1", "", &["m1"])];
        let pending = member("p", "g=1", "", &["m1"]);
        let mut peers = Peers::of(members.iter().chain([&pending]));
        let key = BindingRef::from(&pending).key();
        let refused = |peers: &Peers| -> Vec<&str> {
            ["m1", "m2", "m3"].into_iter().filter(|name| peers.refusal((&pending).into(), name).is_some()).collect()
        };
        assert_eq!(refused(&peers), ["m2", "m3"]);
        let m1 = || BTreeSet::from(["m1".into()]);
        assert_eq!(refused(&peers.without(&key, |_| m1())), ["m1", "m3"], "a stays in m2, and b has no place yet");
        let only_a = |other: &BindingKey| if *other.name == *"a-deployment" { m1() } else { BTreeSet::new() };
        assert_eq!(refused(&peers.without(&key, only_a)), ["m1", "m2", "m3"], "b stays in m1 alone, a in m2");
        peers.assign(&BindingRef::from(&members[1]).key(), &targets(&[("m3", 1)]));
        assert_eq!(refused(&peers.without(&key, |_| m1())), ["m1", "m2", "m3"], "results being written count");
    }

    #[test]
    fn the_failure_names_the_other_workload() {
        let everywhere = member("a", "", "g=1", &["m1", "m2", "m3"]);
        let failure = decision(&member("p", "", "g=1", &[]), Some(&Peers::of([&everywhere]))).failure.unwrap();
        assert_eq!(
            failure.to_string(),
            "0/3 clusters are available: 3 cluster already has workload with the same anti-affinity group \
             (default/a-deployment)."
        );
        let on_one = member("a", "g=1", "", &["m9"]);
        let failure = decision(&member("p", "g=1", "", &[]), Some(&Peers::of([&on_one]))).failure.unwrap();
        assert_eq!(
            failure.to_string(),
            "0/3 clusters are available: 3 ResourceBinding with the same affinity group does not target this cluster \
             (default/a-deployment)."
        );
    }
}
