//! Sets of cluster numbers.

/// Bits of one word.
const WORD: usize = u64::BITS as usize;
/// Largest number of members of a set that is kept as a list: most values of labels belong to few clusters.
const FEW_MAX: usize = 64;

/// Set of cluster numbers, one bit for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers(Vec<u64>);

impl Numbers {
    pub(crate) fn insert(&mut self, number: usize) {
        let (word, bit) = (number / WORD, number % WORD);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << bit;
    }

    pub(super) fn remove(&mut self, number: usize) {
        if let Some(word) = self.0.get_mut(number / WORD) {
            *word &= !(1 << (number % WORD));
        }
    }

    /// Returns whether the set has this number.
    #[must_use]
    pub fn contains(&self, number: usize) -> bool {
        self.0.get(number / WORD).is_some_and(|word| word & (1 << (number % WORD)) != 0)
    }

    /// Returns whether the set has no number.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Count of the numbers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        let in_word = |(at, word): (usize, &u64)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                let next = (rest != 0).then_some(at * WORD + bit);
                rest &= rest.wrapping_sub(1);
                next
            })
        };
        self.0.iter().enumerate().flat_map(in_word)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Keeps what the other set has, too.
    pub(crate) fn intersect(&mut self, other: &Self) {
        self.0.truncate(other.0.len());
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
    }

    /// Adds what the other set has.
    pub(crate) fn unite(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    /// Removes what the other set has.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= !other);
    }

    /// Returns whether the two sets share a number.
    pub(super) fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(word, other)| word & other != 0)
    }
}

/// Clusters with one property. A short list while they are few, so that labels with a value of their own for each
/// cluster cost little memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Members {
    Few(Vec<usize>),
    Many(Numbers),
}

impl Default for Members {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Members {
    pub(super) fn insert(&mut self, number: usize) {
        match self {
            Self::Few(list) if list.contains(&number) => {}
            Self::Few(list) if list.len() < FEW_MAX => list.push(number),
            Self::Few(_) => {
                let mut many = self.to_numbers();
                many.insert(number);
                *self = Self::Many(many);
            }
            Self::Many(numbers) => numbers.insert(number),
        }
    }

    pub(super) fn remove(&mut self, number: usize) {
        match self {
            Self::Few(list) => list.retain(|other| *other != number),
            Self::Many(numbers) => {
                numbers.remove(number);
                // Half of the limit, so that a set of that size does not change its form with every cluster.
                if numbers.len() <= FEW_MAX / 2 {
                    *self = Self::Few(numbers.iter().collect());
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Few(list) => list.is_empty(),
            Self::Many(numbers) => numbers.is_empty(),
        }
    }

    pub(super) fn to_numbers(&self) -> Numbers {
        let mut all = Numbers::default();
        self.add_to(&mut all);
        all
    }

    pub(super) fn add_to(&self, all: &mut Numbers) {
        match self {
            Self::Few(list) => list.iter().for_each(|number| all.insert(*number)),
            Self::Many(numbers) => all.unite(numbers),
        }
    }

    pub(super) fn take_from(&self, all: &mut Numbers) {
        match self {
            Self::Few(list) => list.iter().for_each(|number| all.remove(*number)),
            Self::Many(numbers) => all.subtract(numbers),
        }
    }

    /// Keeps in `all` the clusters with the property.
    pub(super) fn narrow(&self, all: &mut Numbers) {
        match self {
            Self::Few(list) => {
                let kept: smallvec::SmallVec<[usize; FEW_MAX]> =
                    list.iter().copied().filter(|number| all.contains(*number)).collect();
                all.clear();
                kept.into_iter().for_each(|number| all.insert(number));
            }
            Self::Many(numbers) => all.intersect(numbers),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(numbers: &BTreeSet<usize>) -> Numbers {
        let mut all = Numbers::default();
        numbers.iter().for_each(|number| all.insert(*number));
        all
    }

    fn few_or_many() -> impl Strategy<Value = BTreeSet<usize>> {
        prop_oneof![prop::collection::btree_set(0_usize..200, 0..8), prop::collection::btree_set(0_usize..900, 50..200)]
    }

    proptest! {
        #[test]
        fn sets_agree_with_trees(a in few_or_many(), b in few_or_many(), removed in few_or_many()) {
            let (mut members, mut tree) = (Members::default(), BTreeSet::new());
            for number in &b {
                members.insert(*number);
                members.insert(*number);
                tree.insert(*number);
            }
            for number in &removed {
                members.remove(*number);
                tree.remove(number);
            }
            let of = |numbers: &Numbers| numbers.iter().collect::<BTreeSet<_>>();
            prop_assert_eq!(of(&members.to_numbers()), tree.clone());
            prop_assert_eq!(members.is_empty(), tree.is_empty());
            prop_assert_eq!(set(&a).len(), a.len());
            let ops: [(fn(&Members, &mut Numbers), BTreeSet<usize>); 3] = [
                (Members::narrow, a.intersection(&tree).copied().collect()),
                (Members::add_to, a.union(&tree).copied().collect()),
                (Members::take_from, a.difference(&tree).copied().collect()),
            ];
            for (op, want) in ops {
                let mut all = set(&a);
                op(&members, &mut all);
                prop_assert_eq!(of(&all), want.clone());
                prop_assert_eq!(all.is_empty(), want.is_empty());
                prop_assert!((0..1_000).all(|number| all.contains(number) == want.contains(&number)));
            }
            prop_assert_eq!(set(&a).meets(&set(&tree)), !a.is_disjoint(&tree));
        }
    }
}
