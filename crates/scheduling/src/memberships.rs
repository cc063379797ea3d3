//! Groups of clusters as numbers: selection by groups compares numbers instead of names
//! (specification/scheduling.md 7.4).

use std::collections::HashMap;

/// Groups of each cluster for each spread constraint. The groups of a constraint are numbered in the order of their
/// names.
#[derive(Debug)]
pub(crate) struct Memberships {
    /// Number of groups for each constraint.
    counts: Vec<usize>,
    /// End of the numbers of each cluster and constraint, cluster after cluster.
    ends: Vec<usize>,
    numbers: Vec<usize>,
}

impl Memberships {
    /// Memberships of as many clusters. `groups` returns the names of a cluster's groups for a constraint.
    pub(crate) fn of<'a, G: Iterator<Item = &'a str>>(
        clusters: usize,
        constraints: usize,
        groups: impl Fn(usize, usize) -> G,
    ) -> Self {
        // The maps are never walked in their own order.
        let mut known: Vec<HashMap<&'a str, usize>> = vec![HashMap::new(); constraints];
        let mut ends = Vec::with_capacity(clusters * constraints);
        let mut numbers: Vec<usize> = Vec::with_capacity(clusters * constraints);
        for cluster in 0..clusters {
            for (constraint, known) in known.iter_mut().enumerate() {
                let begin = numbers.len();
                for name in groups(cluster, constraint) {
                    let next = known.len();
                    let number = *known.entry(name).or_insert(next);
                    if !numbers[begin..].contains(&number) {
                        numbers.push(number);
                    }
                }
                ends.push(numbers.len());
            }
        }
        let ranks: Vec<Vec<usize>> = known.iter().map(ranks).collect();
        let mut begin = 0;
        for (at, end) in ends.iter().enumerate() {
            let of_one = &mut numbers[begin..*end];
            of_one.iter_mut().for_each(|number| *number = ranks[at % constraints][*number]);
            of_one.sort_unstable();
            begin = *end;
        }
        Self { counts: known.iter().map(HashMap::len).collect(), ends, numbers }
    }

    /// Number of groups of the constraint.
    pub(crate) fn count(&self, constraint: usize) -> usize {
        self.counts[constraint]
    }

    /// Groups of the cluster for the constraint, in their order.
    pub(crate) fn groups(&self, cluster: usize, constraint: usize) -> &[usize] {
        let at = cluster * self.counts.len() + constraint;
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.numbers[begin..self.ends[at]]
    }

    /// Returns whether both clusters are in the same groups of every constraint.
    pub(crate) fn are_alike(&self, a: usize, b: usize) -> bool {
        (0..self.counts.len()).all(|constraint| self.groups(a, constraint) == self.groups(b, constraint))
    }
}

/// Place of each name in the order of names, by its number.
fn ranks(known: &HashMap<&str, usize>) -> Vec<usize> {
    let mut by_name: Vec<(&str, usize)> = known.iter().map(|(name, number)| (*name, *number)).collect();
    by_name.sort_unstable();
    let mut ranks = vec![0; by_name.len()];
    for (rank, (_, number)) in by_name.into_iter().enumerate() {
        ranks[number] = rank;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_numbered_by_name_and_counted_once() {
        let clusters: &[[&[&str]; 2]] =
            &[[&["south"], &["z2", "z1", "z2"]], [&["north"], &["z1"]], [&[], &["z3"]], [&["south"], &["z1", "z2"]]];
        let all =
            Memberships::of(clusters.len(), 2, |cluster, constraint| clusters[cluster][constraint].iter().copied());
        assert_eq!((all.count(0), all.count(1)), (2, 3));
        let groups = |cluster| (all.groups(cluster, 0), all.groups(cluster, 1));
        assert_eq!(groups(0), (&[1][..], &[0, 1][..]));
        assert_eq!(groups(1), (&[0][..], &[0][..]));
        assert_eq!(groups(2), (&[][..], &[2][..]));
        assert!(all.are_alike(0, 3) && !all.are_alike(0, 1));
    }
}
