//! Selection by groups of clusters, as regions, and of clusters in them (specification/scheduling.md 7.4 to 7.7).
//!
//! Unlike Karmada, it groups by zone, provider and label too, it prefers regions that the limit of clusters has room
//! for, and it checks the capacity inside the selected regions (specification/scheduling.md 16.12). Comments say
//! region where any kind of group is meant.

use std::{cmp::Reverse, fmt, sync::Arc};

use ironclad_api::{
    cluster::Cluster,
    policy::{SpreadByField, SpreadConstraint},
};
use ironclad_fleet::affinity;

use crate::{
    Candidate, combine,
    memberships::Memberships,
    spread::{Bounds, Grouping, Need, SelectError, exchange_for_capacity},
};

/// Property of clusters that makes groups of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// `spec.provider`.
    Provider,
    /// `spec.region`.
    Region,
    /// `spec.zones`; a cluster of several zones is in each of their groups.
    Zone,
    /// The label with this key.
    Label(String),
}

impl Topology {
    /// Property that the constraint names; `None` if it counts clusters or names nothing.
    #[must_use]
    pub fn of(constraint: &SpreadConstraint) -> Option<Self> {
        match constraint.spread_by_field {
            Some(SpreadByField::Cluster) => None,
            Some(SpreadByField::Provider) => Some(Self::Provider),
            Some(SpreadByField::Region) => Some(Self::Region),
            Some(SpreadByField::Zone) => Some(Self::Zone),
            None => Some(&constraint.spread_by_label).filter(|key| !key.is_empty()).cloned().map(Self::Label),
        }
    }

    /// Names of the groups that the cluster is in; none if it lacks the property.
    pub(crate) fn groups<'a>(&self, cluster: &'a Cluster) -> GroupNames<'a> {
        let field = |value: &'a String| Some(value.as_str()).filter(|value| !value.is_empty());
        match self {
            Self::Provider => GroupNames::one(field(&cluster.spec.provider)),
            Self::Region => GroupNames::one(field(&cluster.spec.region)),
            Self::Zone => GroupNames { zones: affinity::zones(cluster), ..GroupNames::default() },
            Self::Label(key) => {
                let labels = cluster.metadata.labels.as_ref();
                GroupNames::one(labels.and_then(|labels| labels.get(key)).map(String::as_str))
            }
        }
    }

    /// Order in which constraints decide on groups: larger areas first.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::Provider => 0,
            Self::Region => 1,
            Self::Zone => 2,
            Self::Label(_) => 3,
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Provider => f.write_str("provider"),
            Self::Region => f.write_str("region"),
            Self::Zone => f.write_str("zone"),
            Self::Label(key) => write!(f, "label {key}"),
        }
    }
}

/// Names of the groups of a cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupNames<'a> {
    one: Option<&'a str>,
    /// Zones as the index holds them.
    shared_zones: &'a [Arc<str>],
    zones: &'a [String],
}

impl<'a> GroupNames<'a> {
    pub(crate) fn one(name: Option<&'a str>) -> Self {
        Self { one: name, ..Self::default() }
    }

    pub(crate) fn shared_zones(shared_zones: &'a [Arc<str>]) -> Self {
        Self { shared_zones, ..Self::default() }
    }

    /// The names; zones without a name are none.
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a str> {
        let zones = self.shared_zones.iter().map(|zone| &**zone).chain(self.zones.iter().map(String::as_str));
        self.one.into_iter().chain(zones.filter(|zone| !zone.is_empty()))
    }
}

/// Weight of one replica that a region can run; it exceeds any score of the region's clusters.
const UNIT: i128 = 1_000;
/// Largest number of region combinations that are evaluated. Each leads to a permitted one, so the bound costs quality
/// in fleets of dozens of regions, never a result.
const PATHS_MAX: usize = 20_000;

/// Figures of a candidate that decide on its selection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    /// Sum of the scores.
    pub(crate) score: i64,
    /// Total replicas of the binding that fit there.
    pub(crate) available: i64,
}

/// Candidates of a selection by groups, in the order of preference.
pub(crate) struct Fleet {
    /// Figures of each candidate.
    pub(crate) figures: Vec<Figures>,
    /// Groups of each candidate, for the constraints in the order in which they decide.
    pub(crate) memberships: Memberships,
}

impl Fleet {
    /// The fleet of these candidates.
    pub(crate) fn of(candidates: &[Candidate], constraints: usize) -> Self {
        let figures = |c: &Candidate| Figures { score: c.score, available: c.available() };
        let groups = |at: usize, constraint: usize| candidates[at].groups[constraint].iter().map(|name| &**name);
        Self {
            figures: candidates.iter().map(figures).collect(),
            memberships: Memberships::of(candidates.len(), constraints, groups),
        }
    }

    pub(crate) fn available(&self, candidate: usize) -> i64 {
        self.figures[candidate].available
    }
}

/// Region with its candidates in the order of preference. Regions are in the order of their names.
struct Region {
    score: i128,
    clusters: Vec<usize>,
}

/// Selects candidates, in order, by the constraints `by`, of which there is at least one. Those without a group are
/// ignored.
pub(crate) fn select(
    fleet: &Fleet,
    by: &[Grouping],
    clusters: Bounds,
    replicas: i64,
    need: Need,
) -> Result<Vec<usize>, SelectError> {
    let Some(first) = by.first() else { return Err(SelectError::Unsupported) };
    let memberships = &fleet.memberships;
    let all = 0..fleet.figures.len();
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); memberships.count(0)];
    for candidate in all.clone() {
        memberships.groups(candidate, 0).iter().for_each(|group| members[*group].push(candidate));
    }
    let region = |clusters_of: Vec<usize>| Region {
        score: score(fleet, &clusters_of, first.bounds, clusters, replicas, need),
        clusters: clusters_of,
    };
    let groups: Vec<Region> = members.into_iter().map(region).collect();
    if by.len() == 1 && all.clone().all(|candidate| memberships.groups(candidate, 0).len() <= 1) {
        // Sets of groups are not extended once they hold enough clusters, so more capacity is searched among all.
        return match choose(fleet, &groups, first, clusters, need) {
            Err(SelectError::InsufficientCapacity { .. }) => combine::select(fleet, by, clusters, need, &[]),
            chosen => chosen,
        };
    }
    let paths = paths(&groups, first.bounds, clusters.min);
    combine::select(fleet, by, clusters, need, &paths)
}

/// Group score (specification/scheduling.md 7.5): the part of its replicas that a region can run, then the preference
/// of its clusters.
fn score(fleet: &Fleet, members: &[usize], regions: Bounds, clusters: Bounds, replicas: i64, need: Need) -> i128 {
    let mean = |scores: i128, n: usize| scores.div_euclid(n.max(1) as i128);
    let members = || members.iter().map(|member| fleet.figures[*member]);
    if need == Need::DontCare {
        let (mut scores, mut whole) = (0_i128, 0_usize);
        for member in members().filter(|member| member.available >= replicas) {
            scores += i128::from(member.score);
            whole += 1;
        }
        return if whole == 0 { 0 } else { whole as i128 * UNIT + mean(scores, whole) };
    }
    let part = (i128::from(replicas) + regions.min as i128 - 1) / regions.min as i128;
    let enough = clusters.min.max(regions.min);
    let (mut available, mut scores, mut n) = (0_i128, 0_i128, 0);
    for member in members() {
        available += i128::from(member.available);
        scores += i128::from(member.score);
        n += 1;
        if n >= enough && available >= part {
            break;
        }
    }
    if available < part { available * UNIT + mean(scores, members().len()) } else { part * UNIT + mean(scores, n) }
}

fn choose(
    fleet: &Fleet,
    groups: &[Region],
    by: &Grouping,
    clusters: Bounds,
    need: Need,
) -> Result<Vec<usize>, SelectError> {
    if groups.len() < by.bounds.min {
        return Err(SelectError::TooFewGroups(by.topology.clone()));
    }
    let available = |candidate: &usize| fleet.available(*candidate);
    let paths = paths(groups, by.bounds, clusters.min);
    let mut short = None;
    // Regions that the limit of clusters has no room for are the last choice: each gets one cluster nevertheless.
    let (fitting, larger): (Vec<_>, Vec<_>) = paths.iter().partition(|path| path.len() <= clusters.max);
    for path in fitting.into_iter().chain(larger) {
        let mut first: Vec<usize> = path.iter().map(|i| groups[*i].clusters[0]).collect();
        let mut rest: Vec<usize> = path.iter().flat_map(|i| &groups[*i].clusters[1..]).copied().collect();
        rest.sort_unstable();
        let k = (first.len() + rest.len()).min(clusters.max.max(first.len()));
        if let Need::Replicas(need) = need {
            let of_first = first.iter().map(available).fold(0, i64::saturating_add);
            if !exchange_for_capacity(&mut rest, k - first.len(), need.saturating_sub(of_first), available)
                && !exchange_in_regions(fleet, &mut first, &mut rest, k, need)
            {
                short.get_or_insert(k);
                continue;
            }
        }
        rest.truncate(k - first.len());
        first.extend(rest);
        return Ok(first);
    }
    Err(short.map_or(SelectError::TooFewClustersInGroups, |clusters| SelectError::InsufficientCapacity { clusters }))
}

/// Replaces the preferred clusters of regions, the last region first, by clusters of the same region with more capacity
/// that are not among the first `k` of all. Returns whether the `k` clusters meet `need`.
fn exchange_in_regions(fleet: &Fleet, first: &mut [usize], rest: &mut [usize], k: usize, need: i64) -> bool {
    let (more, others) = rest.split_at_mut(k - first.len());
    let mut sum: i128 = first.iter().chain(more.iter()).map(|c| i128::from(fleet.available(*c))).sum();
    for place in first.iter_mut().rev() {
        if sum >= i128::from(need) {
            break;
        }
        let of_region = others.iter_mut().rev().filter(|other| fleet.memberships.are_alike(**other, *place));
        // Takes the first of several equal ones; `max_by_key` alone takes the last.
        let Some(other) = of_region.max_by_key(|other| fleet.available(**other)) else { continue };
        let gain = i128::from(fleet.available(*other)) - i128::from(fleet.available(*place));
        if gain > 0 {
            sum += gain;
            std::mem::swap(place, other);
        }
    }
    sum >= i128::from(need)
}

/// Permitted sets of regions, the best first, each in the order in which its regions are used
/// (specification/scheduling.md 7.6).
fn paths(groups: &[Region], regions: Bounds, target: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    // The sort is stable: ties keep the order of names.
    order.sort_by_key(|&i| (groups[i].clusters.len(), Reverse(groups[i].score)));
    let mut search = Search { groups, order: &order, regions, target, found: Vec::new(), visited: 0 };
    if groups.len() == regions.min {
        search.record(&order);
    } else {
        search.extend(0, &mut Vec::new(), 0);
    }
    let mut found = search.found;
    let weight = |path: &[usize]| path.iter().map(|i| groups[*i].score).sum::<i128>();
    let value = |path: &[usize]| path.iter().map(|i| groups[*i].clusters.len()).sum::<usize>();
    // The sort is stable: ties keep the order of discovery.
    found.sort_by_key(|path| (Reverse(weight(path)), Reverse(value(path))));
    let mut best = 0;
    for (i, path) in found.iter().enumerate() {
        if path.len() < found[best].len() && found[best].starts_with(path) {
            best = i;
        }
    }
    if !found.is_empty() {
        found[..=best].rotate_right(1);
    }
    found
}

struct Search<'a> {
    groups: &'a [Region],
    order: &'a [usize],
    regions: Bounds,
    target: usize,
    found: Vec<Vec<usize>>,
    visited: usize,
}

impl Search<'_> {
    /// Evaluates every set that begins with `path` and continues at `from`; a sufficient one is not extended.
    fn extend(&mut self, from: usize, path: &mut Vec<usize>, clusters: usize) {
        if path.len() >= self.regions.min && clusters >= self.target {
            self.record(path);
            return;
        }
        for next in from..self.order.len() {
            self.visited += 1;
            if self.visited > PATHS_MAX || path.len() == self.regions.max {
                return;
            }
            let group = self.order[next];
            path.push(group);
            let clusters = clusters + self.groups[group].clusters.len();
            if self.can_suffice(next + 1, path.len(), clusters) {
                self.extend(next + 1, path, clusters);
            }
            path.pop();
        }
    }

    /// Returns whether some extension is permitted: the largest regions are last in the order.
    fn can_suffice(&self, from: usize, len: usize, clusters: usize) -> bool {
        let rest = &self.order[from..];
        let most = rest.len().min(self.regions.max - len);
        let largest: usize = rest[rest.len() - most..].iter().map(|i| self.groups[*i].clusters.len()).sum();
        len + most >= self.regions.min && clusters + largest >= self.target
    }

    fn record(&mut self, path: &[usize]) {
        if path.iter().map(|i| self.groups[*i].clusters.len()).sum::<usize>() < self.target {
            return;
        }
        let mut path = path.to_vec();
        path.sort_unstable_by_key(|&i| (Reverse(self.groups[i].score), i));
        self.found.push(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::candidate;

    fn by_region(bounds: Bounds) -> Grouping {
        Grouping { topology: Topology::Region, bounds }
    }

    #[test]
    fn group_scores() {
        let rows: &[(Need, i64, usize, &[(i64, i64)], i128)] = &[
            (Need::DontCare, 50, 1, &[(100, 60), (100, 70), (100, 40), (100, 30), (100, 10)], 2_100),
            (Need::DontCare, 50, 1, &[(0, 60), (0, 60), (0, 60), (0, 60)], 4_000),
            (Need::DontCare, 50, 1, &[(0, 49)], 0),
            (Need::Replicas(100), 100, 2, &[(100, 10), (100, 10), (100, 10), (100, 10), (100, 5)], 45_100),
            (Need::Replicas(100), 100, 2, &[(0, 40), (0, 30), (0, 10), (0, 10)], 50_000),
            (Need::Replicas(100), 100, 2, &[(100, 40), (100, 40), (100, 10), (100, 10), (100, 5)], 50_100),
        ];
        for (need, replicas, min, clusters, want) in rows {
            let all: Vec<_> = clusters
                .iter()
                .enumerate()
                .map(|(i, (score, capacity))| candidate(&format!("m{i}"), *score, *capacity))
                .collect();
            let members: Vec<_> = (0..all.len()).collect();
            let bounds = Bounds { min: *min, max: usize::MAX };
            let got = score(&Fleet::of(&all, 0), &members, bounds, Bounds::new(1, 0), *replicas, *need);
            assert_eq!(got, *want, "{clusters:?}");
        }
    }

    /// Selected regions, from rows of name, number of clusters and weight (specification/scheduling.md 7.6).
    fn picked(regions: &[(&str, usize, i128)], bounds: (usize, usize), target: usize) -> Option<Vec<String>> {
        let mut regions = regions.to_vec();
        regions.sort_unstable();
        let region =
            |(_, value, weight): &(&str, usize, i128)| Region { score: *weight, clusters: (0..*value).collect() };
        let groups: Vec<_> = regions.iter().map(region).collect();
        if groups.len() < bounds.0 {
            return None;
        }
        let found = paths(&groups, Bounds { min: bounds.0, max: bounds.1 }, target);
        found.first().map(|path| path.iter().map(|i| regions[*i].0.to_owned()).collect())
    }

    #[test]
    fn picks_of_regions() {
        let small = [("R1", 1, 60), ("R2", 2, 50), ("R3", 3, 40), ("R4", 4, 30)];
        let rows: &[(&[(&str, usize, i128)], (usize, usize), usize, &[&str])] = &[
            (
                &[("R1", 1, 60), ("R2", 1, 50), ("R3", 1, 40), ("R4", 3, 30), ("R5", 3, 20), ("R6", 3, 10)],
                (1, 3),
                6,
                &["R1", "R4", "R5"],
            ),
            (
                &[("R1", 1, 80), ("R2", 4, 40), ("R3", 1, 30), ("R4", 3, 30), ("R5", 3, 20), ("R6", 5, 10)],
                (2, 6),
                5,
                &["R1", "R2"],
            ),
            (&small, (1, 2), 5, &["R1", "R4"]),
            (&[("R4", 1, 60), ("R3", 3, 50), ("R1", 3, 40), ("R2", 4, 30)], (1, 2), 5, &["R3", "R1"]),
            (
                &[("R1", 1, 80), ("R3", 1, 80), ("R2", 1, 60), ("R5", 2, 60), ("R4", 5, 50), ("R6", 3, 50)],
                (1, 3),
                10,
                &["R5", "R4", "R6"],
            ),
        ];
        for (regions, bounds, target, want) in rows {
            let want: Vec<String> = want.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(picked(regions, *bounds, *target), Some(want), "{regions:?}");
        }
        assert_eq!(picked(&[("R1", 1, 80)], (2, 3), 1), None, "fewer regions than asked for");
        assert_eq!(picked(&small, (1, 2), 8), None, "no two regions hold eight clusters");
    }

    fn chosen(
        regions: &[(&str, i128, &[(&str, i64)])],
        bounds: (usize, usize),
        clusters: (usize, usize),
    ) -> Result<Vec<String>, SelectError> {
        let in_region = |(name, _, members): &(&str, i128, &[(&str, i64)])| {
            let one = |(n, s): &(&str, i64)| Candidate { groups: vec![vec![(*name).into()]], ..candidate(n, *s, 0) };
            members.iter().map(one).collect::<Vec<_>>()
        };
        let mut all: Vec<Candidate> = regions.iter().flat_map(in_region).collect();
        Candidate::sort(&mut all);
        let fleet = Fleet::of(&all, 1);
        let members = |number| (0..all.len()).filter(|c| fleet.memberships.groups(*c, 0) == [number]).collect();
        let groups: Vec<_> = regions
            .iter()
            .enumerate()
            .map(|(number, (_, score, _))| Region { score: *score, clusters: members(number) })
            .collect();
        let (regions, clusters) =
            (Bounds { min: bounds.0, max: bounds.1 }, Bounds { min: clusters.0, max: clusters.1 });
        choose(&fleet, &groups, &by_region(regions), clusters, Need::DontCare)
            .map(|chosen| chosen.iter().map(|at| all[*at].name.to_string()).collect())
    }

    #[test]
    fn worked_examples() {
        let two: &[(&str, i128, &[(&str, i64)])] =
            &[("R1", 100, &[("m1", 100), ("m2", 80)]), ("R2", 80, &[("m3", 80), ("m4", 80), ("m5", 60)])];
        let four: &[(&str, i128, &[(&str, i64)])] = &[
            ("R1", 90, &[("m1", 90)]),
            ("R2", 70, &[("m2", 70), ("m3", 60), ("m4", 30)]),
            ("R3", 80, &[("m5", 80), ("m6", 80)]),
            ("R4", 50, &[("m7", 50), ("m8", 50), ("m9", 50), ("m10", 50)]),
        ];
        let five: &[(&str, i128, &[(&str, i64)])] = &[
            ("R1", 70, &[("m1", 70)]),
            ("R2", 40, &[("m2", 40), ("m3", 40), ("m4", 40)]),
            ("R3", 60, &[("m5", 60), ("m6", 50)]),
            ("R4", 70, &[("m7", 70)]),
            ("R5", 50, &[("m8", 50)]),
        ];
        let ok = |names: &[&str]| Ok(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        for (name, regions, bounds, clusters, want) in [
            ("the best region suffices", two, (1, 1), (2, 2), ok(&["m1", "m2"])),
            ("only the other has three", two, (1, 1), (3, 3), ok(&["m3", "m4", "m5"])),
            ("two of four", four, (2, 2), (4, 5), ok(&["m1", "m2", "m3", "m4"])),
            ("three of five", five, (1, 3), (6, 8), ok(&["m1", "m5", "m2", "m6", "m3", "m4"])),
            ("too few regions", two, (3, 3), (3, 3), Err(SelectError::TooFewGroups(Topology::Region))),
            ("no region has four", two, (1, 1), (4, 4), Err(SelectError::TooFewClustersInGroups)),
            ("more regions than clusters: one cluster in each", two, (2, 2), (1, 1), ok(&["m1", "m3"])),
        ] {
            assert_eq!(chosen(regions, bounds, clusters), want, "{name}");
        }
    }

    /// Names of the candidates that [`select`] selects by region.
    fn selected(
        all: &[Candidate],
        regions: Bounds,
        clusters: Bounds,
        replicas: i64,
        need: Need,
    ) -> Result<Vec<String>, SelectError> {
        let chosen = select(&Fleet::of(all, 1), &[by_region(regions)], clusters, replicas, need)?;
        Ok(chosen.iter().map(|at| all[*at].name.to_string()).collect())
    }

    #[test]
    fn capacity_is_searched_inside_selected_regions_first() {
        let region = |name: &str, region: &str, score, capacity| Candidate {
            groups: vec![vec![region.into()]],
            ..candidate(name, score, capacity)
        };
        let mut all = vec![
            region("a1", "A", 100, 4),
            region("a2", "A", 100, 1),
            region("a3", "A", 0, 5),
            region("b1", "B", 0, 20),
            region("b2", "B", 0, 20),
        ];
        Candidate::sort(&mut all);
        let names = |need| selected(&all, Bounds::new(1, 1), Bounds::new(1, 2), need, Need::Replicas(need));
        assert_eq!(names(9), Ok(vec!["a1".to_owned(), "a3".to_owned()]), "a3 has the capacity that a2 lacks");
        assert_eq!(names(30), Ok(vec!["b1".to_owned(), "b2".to_owned()]), "region A has no capacity for 30");
        assert_eq!(names(50), Err(SelectError::InsufficientCapacity { clusters: 2 }));
    }

    #[test]
    fn preferred_clusters_with_too_little_capacity_give_way_inside_their_region() {
        let region = |name: &str, region: &str, score, capacity| Candidate {
            groups: vec![vec![region.into()]],
            ..candidate(name, score, capacity)
        };
        // Region A is better by its score, but its preferred cluster is almost full.
        let rows = |b: i64| {
            let mut all = vec![region("a1", "A", 100, 2), region("a2", "A", 0, 10), region("b1", "B", 0, b)];
            Candidate::sort(&mut all);
            all
        };
        let names =
            |all: &[Candidate], regions, clusters, need| selected(all, regions, clusters, need, Need::Replicas(need));
        let one = Bounds::new(1, 1);
        assert_eq!(names(&rows(10), one, one, 2), Ok(vec!["a1".to_owned()]), "it suffices");
        assert_eq!(names(&rows(10), one, one, 10), Ok(vec!["a2".to_owned()]), "region A is kept");
        let two = Bounds::new(2, 2);
        assert_eq!(names(&rows(3), two, two, 13), Ok(vec!["a2".to_owned(), "b1".to_owned()]), "one in each region");
        assert_eq!(names(&rows(3), two, two, 14), Err(SelectError::InsufficientCapacity { clusters: 2 }));
    }

    #[test]
    fn sixty_regions_stay_within_the_budget() {
        let all: Vec<_> = (0..60)
            .map(|i| Candidate {
                groups: vec![vec![format!("r{i:02}").as_str().into()]],
                ..candidate(&format!("m{i:02}"), 0, 1)
            })
            .collect();
        let got = selected(&all, Bounds::new(30, 40), Bounds::new(35, 0), 10, Need::DontCare).unwrap();
        assert_eq!(got.len(), 35);
    }
}
