//! Index of the fleet: which clusters a placement can select, without a look at the others.
//!
//! Each cluster has a number. For each label, zone, region, provider, served kind and taint the index has the numbers
//! of the clusters with it. A changed cluster costs its own properties; a question costs the requirements of the
//! placement, and one word for 64 clusters. The index decides nothing: it says which clusters the filters must still
//! test, and [`decide`](crate::decide) gives the same result without it.

mod numbers;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{
    Taint,
    cluster::Cluster,
    policy::ClusterAffinity,
    selector::{self, Operator},
    taints::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_EXECUTE},
};
use ironclad_fleet::{ClusterName, Clusters, affinity};

pub use numbers::Numbers;

use self::numbers::Members;
use crate::topology::{GroupNames, Topology};

/// Clusters of the fleet by what placements select.
#[derive(Debug, Clone, Default)]
pub struct Index {
    numbers: BTreeMap<Arc<str>, usize>,
    entries: Vec<Option<Entry>>,
    /// Numbers of removed clusters, for the next ones.
    unused: Vec<usize>,
    all: Numbers,
    leaving: Numbers,
    labels: BTreeMap<Arc<str>, Values>,
    providers: Values,
    regions: Values,
    zones: Values,
    /// By group and version, then by kind.
    kinds: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Members>>,
    taints: BTreeMap<TaintKey, Tainted>,
    /// Clusters with a taint that keeps some workload away.
    tainted: Numbers,
}

/// A cluster of the index.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: ClusterName,
    pub(crate) cluster: Arc<Cluster>,
    provider: Option<Arc<str>>,
    region: Option<Arc<str>>,
    zones: Vec<Arc<str>>,
}

/// Clusters by the value of one property.
#[derive(Debug, Clone, Default)]
struct Values {
    by_value: BTreeMap<Arc<str>, Members>,
    /// Clusters that have the property.
    any: Members,
}

impl Values {
    /// Records a cluster with these values. Returns the values as the index holds them.
    fn add(&mut self, number: usize, values: &[&str]) -> Vec<Arc<str>> {
        let mut shared = Vec::with_capacity(values.len());
        for value in values {
            let key = self.by_value.get_key_value(*value).map_or_else(|| Arc::from(*value), |(key, _)| key.clone());
            self.by_value.entry(key.clone()).or_default().insert(number);
            shared.push(key);
        }
        if !values.is_empty() {
            self.any.insert(number);
        }
        shared
    }

    fn remove(&mut self, number: usize, values: &[&str]) {
        for value in values {
            if let Some(members) = self.by_value.get_mut(*value) {
                members.remove(number);
                if members.is_empty() {
                    self.by_value.remove(*value);
                }
            }
        }
        self.any.remove(number);
    }

    /// Keeps in `all` the clusters that satisfy a requirement on this property; none for operators of node selectors.
    fn narrow(&self, operator: Option<Operator>, values: &[String], all: &mut Numbers) {
        let listed = || values.iter().filter_map(|value| self.by_value.get(value.as_str()));
        match operator {
            Some(Operator::Equals | Operator::In) => {
                let mut with = Numbers::default();
                listed().for_each(|members| members.add_to(&mut with));
                all.intersect(&with);
            }
            Some(Operator::NotEquals | Operator::NotIn) => listed().for_each(|members| members.take_from(all)),
            Some(Operator::Exists) => self.any.narrow(all),
            Some(Operator::DoesNotExist) => self.any.take_from(all),
            None | Some(Operator::GreaterThan | Operator::LessThan) => all.clear(),
        }
    }
}

/// The fields that tolerations match.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TaintKey {
    key: String,
    value: String,
    effect: String,
}

/// Clusters with equal taints.
#[derive(Debug, Clone)]
struct Tainted {
    /// The taint without the time at which it was added.
    taint: Taint,
    members: Members,
}

impl Index {
    /// Index of these clusters.
    #[must_use]
    pub fn of(clusters: &Clusters) -> Self {
        let mut index = Self::default();
        for (name, cluster) in clusters {
            index.update(name, Some(cluster));
        }
        index
    }

    /// Records a cluster that was added, changed or (`None`) removed.
    pub fn update(&mut self, name: &ClusterName, cluster: Option<&Arc<Cluster>>) {
        let known = self.numbers.get(&*name.0).copied();
        if let Some(number) = known
            && let Some(entry) = self.entries.get_mut(number).and_then(Option::as_mut)
        {
            if let Some(new) = cluster.filter(|new| is_alike(&entry.cluster, new)) {
                entry.cluster = Arc::clone(new);
                return;
            }
            let old = entry.cluster.clone();
            self.withdraw(number, &old);
        }
        let Some(cluster) = cluster else {
            if let Some(number) = known {
                self.numbers.remove(&*name.0);
                self.entries[number] = None;
                self.all.remove(number);
                self.unused.push(number);
            }
            return;
        };
        let number = known.unwrap_or_else(|| self.unused.pop().unwrap_or(self.entries.len()));
        if known.is_none() {
            self.numbers.insert(name.0.clone(), number);
            self.all.insert(number);
            if number == self.entries.len() {
                self.entries.push(None);
            }
        }
        self.entries[number] = Some(self.record(number, name, cluster));
    }

    fn record(&mut self, number: usize, name: &ClusterName, cluster: &Arc<Cluster>) -> Entry {
        for (key, value) in cluster.metadata.labels.iter().flatten() {
            of_key(&mut self.labels, key).add(number, &[value]);
        }
        for (version, kind) in served(cluster) {
            of_key(of_key(&mut self.kinds, version), kind).insert(number);
        }
        for taint in &cluster.spec.taints {
            let new = || Tainted { taint: Taint { time_added: None, ..taint.clone() }, members: Members::default() };
            self.taints.entry(taint_key(taint)).or_insert_with(new).members.insert(number);
            if [NO_SCHEDULE, NO_EXECUTE, PREFER_NO_EXECUTE].contains(&taint.effect.as_str()) {
                self.tainted.insert(number);
            }
        }
        if cluster.metadata.deletion_timestamp.is_some() {
            self.leaving.insert(number);
        }
        Entry {
            name: name.clone(),
            cluster: cluster.clone(),
            provider: self.providers.add(number, &present(&cluster.spec.provider)).pop(),
            region: self.regions.add(number, &present(&cluster.spec.region)).pop(),
            zones: self.zones.add(number, &zones(cluster)),
        }
    }

    fn withdraw(&mut self, number: usize, cluster: &Cluster) {
        for (key, value) in cluster.metadata.labels.iter().flatten() {
            let Some(values) = self.labels.get_mut(key.as_str()) else { continue };
            values.remove(number, &[value]);
            if values.by_value.is_empty() {
                self.labels.remove(key.as_str());
            }
        }
        for (version, kind) in served(cluster) {
            let Some(kinds) = self.kinds.get_mut(version) else { continue };
            if let Some(members) = kinds.get_mut(kind) {
                members.remove(number);
                if members.is_empty() {
                    kinds.remove(kind);
                }
            }
            if kinds.is_empty() {
                self.kinds.remove(version);
            }
        }
        for taint in &cluster.spec.taints {
            let key = taint_key(taint);
            let Some(tainted) = self.taints.get_mut(&key) else { continue };
            tainted.members.remove(number);
            if tainted.members.is_empty() {
                self.taints.remove(&key);
            }
        }
        self.tainted.remove(number);
        self.leaving.remove(number);
        self.providers.remove(number, &present(&cluster.spec.provider));
        self.regions.remove(number, &present(&cluster.spec.region));
        self.zones.remove(number, &zones(cluster));
    }

    /// Number of a cluster.
    pub(crate) fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// The cluster with this number.
    pub(crate) fn entry(&self, number: usize) -> Option<&Entry> {
        self.entries.get(number)?.as_ref()
    }

    /// Clusters that are not being deleted.
    pub(crate) fn staying(&self) -> Numbers {
        let mut all = self.all.clone();
        all.subtract(&self.leaving);
        all
    }

    /// Adds the clusters that the affinity selects: those for which [`affinity::chooses`] is true.
    pub(crate) fn add_chosen(&self, affinity: &ClusterAffinity, to: &mut Numbers) {
        to.unite(&self.chosen(affinity));
    }

    fn chosen(&self, affinity: &ClusterAffinity) -> Numbers {
        let named = |names: &[String]| {
            let mut named = Numbers::default();
            names.iter().filter_map(|name| self.number(name)).for_each(|number| named.insert(number));
            named
        };
        let names = &affinity.cluster_names;
        let mut chosen = if names.is_empty() { self.all.clone() } else { named(names) };
        if !affinity.exclude.is_empty() {
            chosen.subtract(&named(&affinity.exclude));
        }
        if let Some(by_label) = affinity.label_selector.as_ref().filter(|by_label| !selector::is_empty(by_label)) {
            if selector::matches(by_label, &BTreeMap::new()).is_err() {
                return Numbers::default();
            }
            for (key, value) in by_label.match_labels.iter().flatten() {
                let members = self.labels.get(key.as_str()).and_then(|values| values.by_value.get(value.as_str()));
                members.unwrap_or(&Members::default()).narrow(&mut chosen);
            }
            for requirement in by_label.match_expressions.iter().flatten() {
                let operator = Operator::from_expression(&requirement.operator);
                let values = requirement.values.as_deref().unwrap_or_default();
                let nowhere = Values::default();
                self.labels.get(requirement.key.as_str()).unwrap_or(&nowhere).narrow(operator, values, &mut chosen);
            }
        }
        for requirement in affinity.field_selector.iter().flat_map(|fields| &fields.match_expressions) {
            let operator = Operator::from_expression(&requirement.operator);
            let values = requirement.values.as_deref().unwrap_or_default();
            let nowhere = Values::default();
            let property = match requirement.key.as_str() {
                "zone" => &self.zones,
                "provider" => &self.providers,
                "region" => &self.regions,
                _ => &nowhere,
            };
            property.narrow(operator, values, &mut chosen);
        }
        chosen
    }

    /// Keeps in `all` the clusters that serve the kind.
    pub(crate) fn keep_serving(&self, api_version: &str, kind: &str, all: &mut Numbers) {
        match self.kinds.get(api_version).and_then(|kinds| kinds.get(kind)) {
            Some(members) => members.narrow(all),
            None => all.clear(),
        }
    }

    /// Keeps in `all` the clusters that have the property.
    pub(crate) fn keep_grouped(&self, topology: &Topology, all: &mut Numbers) {
        let property = match topology {
            Topology::Provider => Some(&self.providers),
            Topology::Region => Some(&self.regions),
            Topology::Zone => Some(&self.zones),
            Topology::Label(key) => self.labels.get(key.as_str()),
        };
        match property {
            Some(values) => values.any.narrow(all),
            None => all.clear(),
        }
    }

    /// Removes from `all` the clusters with a taint that `repels` whenever it was added.
    pub(crate) fn drop_tainted(&self, repels: impl Fn(&Taint) -> bool, all: &mut Numbers) {
        let repelling = self.taints.values().filter(|tainted| repels(&tainted.taint));
        repelling.for_each(|tainted| tainted.members.take_from(all));
    }

    /// Returns whether the cluster has a taint that keeps some workload away.
    pub(crate) fn is_tainted(&self, number: usize) -> bool {
        self.tainted.contains(number)
    }

    /// Returns whether one of these clusters has a taint that keeps some workload away.
    pub(crate) fn has_tainted(&self, all: &Numbers) -> bool {
        self.tainted.meets(all)
    }
}

impl Entry {
    /// Names of the cluster's groups, as [`Topology::groups`], without a look at the cluster where its entry has them.
    pub(crate) fn groups<'a>(&'a self, topology: &Topology) -> GroupNames<'a> {
        match topology {
            Topology::Provider => GroupNames::one(self.provider.as_deref()),
            Topology::Region => GroupNames::one(self.region.as_deref()),
            Topology::Zone => GroupNames::shared_zones(&self.zones),
            Topology::Label(_) => topology.groups(&self.cluster),
        }
    }
}

/// Returns whether two versions of a cluster have the same properties; heartbeats change none.
fn is_alike(old: &Cluster, new: &Cluster) -> bool {
    let fields = |cluster: &Cluster| cluster.metadata.deletion_timestamp.is_some();
    let (a, b) = (&old.spec, &new.spec);
    fields(old) == fields(new)
        && old.metadata.labels == new.metadata.labels
        && (&a.provider, &a.region, &a.zone, &a.zones) == (&b.provider, &b.region, &b.zone, &b.zones)
        && a.taints == b.taints
        && old.status.as_ref().map(|status| &status.api_enablements)
            == new.status.as_ref().map(|status| &status.api_enablements)
}

fn of_key<'m, T: Default>(map: &'m mut BTreeMap<Arc<str>, T>, key: &str) -> &'m mut T {
    let shared = map.get_key_value(key).map_or_else(|| Arc::from(key), |(key, _)| key.clone());
    map.entry(shared).or_default()
}

fn served(cluster: &Cluster) -> impl Iterator<Item = (&str, &str)> {
    let enablements = cluster.status.iter().flat_map(|status| &status.api_enablements);
    enablements.flat_map(|enablement| {
        enablement.resources.iter().map(|resource| (enablement.group_version.as_str(), resource.kind.as_str()))
    })
}

fn present(value: &str) -> Vec<&str> {
    if value.is_empty() { Vec::new() } else { vec![value] }
}

fn zones(cluster: &Cluster) -> Vec<&str> {
    affinity::zones(cluster).iter().map(String::as_str).collect()
}

fn taint_key(taint: &Taint) -> TaintKey {
    let value = taint.value.clone().unwrap_or_default();
    TaintKey { key: taint.key.clone(), value, effect: taint.effect.clone() }
}
