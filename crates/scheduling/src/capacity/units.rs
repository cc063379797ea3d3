//! Amounts by resource, in little memory: there are as many as bindings and pods, and each has few resources.

use std::sync::{Arc, LazyLock};

/// Names that nearly all lists have. They are stored once.
static KNOWN: LazyLock<[Arc<str>; 4]> = LazyLock::new(|| ["cpu", "memory", "pods", "ephemeral-storage"].map(Arc::from));

/// Amounts by resource: millicores of `cpu`, whole units of everything else, independent of the quantity's notation
/// (specification/scheduling.md 16.20).
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Units(Vec<(Arc<str>, i64)>);

fn shared(name: impl AsRef<str> + Into<Arc<str>>) -> Arc<str> {
    let known = KNOWN.iter().find(|known| ***known == *name.as_ref()).cloned();
    known.unwrap_or_else(|| name.into())
}

impl Units {
    /// No amounts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(name))
    }

    /// Amount of a resource.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&i64> {
        // Names that are stored once are the same place in memory, which is compared faster than their letters.
        let same = self.0.iter().position(|(other, _)| std::ptr::eq::<str>(&**other, name));
        let at = same.or_else(|| self.place(name).ok())?;
        Some(&self.0[at].1)
    }

    /// Sets the amount of a resource.
    pub fn insert(&mut self, name: impl AsRef<str> + Into<Arc<str>>, amount: i64) {
        *self.entry(name).or_default() = amount;
    }

    /// The place of a resource.
    pub fn entry(&mut self, name: impl AsRef<str> + Into<Arc<str>>) -> Entry<'_> {
        let place = self.place(name.as_ref());
        let name = place.is_err().then(|| shared(name));
        Entry { all: &mut self.0, place, name }
    }

    /// Keeps the amounts for which this is true.
    pub fn retain(&mut self, mut keeps: impl FnMut(&str, &mut i64) -> bool) {
        self.0.retain_mut(|(name, amount)| keeps(name, amount));
    }

    /// True if there are no amounts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Resources and amounts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &i64)> {
        self.into_iter()
    }

    /// The resources, by name.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    /// The amounts, by the names of their resources.
    pub fn values(&self) -> impl Iterator<Item = &i64> {
        self.0.iter().map(|(_, amount)| amount)
    }

    /// The amounts that can be changed, by the names of their resources.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut i64> {
        self.0.iter_mut().map(|(_, amount)| amount)
    }
}

/// The place of a resource in a list.
#[derive(Debug)]
pub struct Entry<'a> {
    all: &'a mut Vec<(Arc<str>, i64)>,
    place: Result<usize, usize>,
    /// `None` if the list has the resource.
    name: Option<Arc<str>>,
}

impl<'a> Entry<'a> {
    /// The amount; 0 if the list did not have the resource.
    pub fn or_default(self) -> &'a mut i64 {
        self.or_insert(0)
    }

    /// The amount; this one if the list did not have the resource.
    pub fn or_insert(self, amount: i64) -> &'a mut i64 {
        let (Ok(at) | Err(at)) = self.place;
        if let Some(name) = self.name {
            self.all.insert(at, (name, amount));
        }
        &mut self.all[at].1
    }

    /// Changes the amount if the list has the resource.
    #[must_use]
    pub fn and_modify(self, change: impl FnOnce(&mut i64)) -> Self {
        if let Ok(at) = self.place {
            change(&mut self.all[at].1);
        }
        self
    }
}

type Stored = (Arc<str>, i64);
type Read<'a> = fn(&'a Stored) -> (&'a str, &'a i64);
type Change<'a> = fn(&'a mut Stored) -> (&'a str, &'a mut i64);
/// Resources and amounts.
type Iter<'a> = std::iter::Map<std::slice::Iter<'a, Stored>, Read<'a>>;
/// Resources and amounts that can be changed.
type IterMut<'a> = std::iter::Map<std::slice::IterMut<'a, Stored>, Change<'a>>;

impl<'a> IntoIterator for &'a Units {
    type Item = (&'a str, &'a i64);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        let read: Read<'a> = |(name, amount)| (&**name, amount);
        self.0.iter().map(read)
    }
}

impl<'a> IntoIterator for &'a mut Units {
    type Item = (&'a str, &'a mut i64);
    type IntoIter = IterMut<'a>;

    fn into_iter(self) -> IterMut<'a> {
        let read: Change<'a> = |(name, amount)| (&**name, amount);
        self.0.iter_mut().map(read)
    }
}

impl IntoIterator for Units {
    type Item = (Arc<str>, i64);
    type IntoIter = std::vec::IntoIter<(Arc<str>, i64)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<K: AsRef<str> + Into<Arc<str>>> FromIterator<(K, i64)> for Units {
    fn from_iter<I: IntoIterator<Item = (K, i64)>>(all: I) -> Self {
        let mut units = Self::new();
        all.into_iter().for_each(|(name, amount)| units.insert(name, amount));
        units.0.shrink_to_fit();
        units
    }
}

impl<K: AsRef<str> + Into<Arc<str>>, const N: usize> From<[(K, i64); N]> for Units {
    fn from(all: [(K, i64); N]) -> Self {
        all.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn well_known_names_are_stored_once() {
        let (a, b) = (Units::from([("cpu", 1), ("a/b", 2)]), Units::from([("cpu".to_owned(), 3)]));
        assert!(Arc::ptr_eq(&a.0[1].0, &b.0[0].0));
    }

    proptest! {
        /// Reference: an ordered map.
        #[test]
        fn a_list_behaves_as_an_ordered_map(
            steps in prop::collection::vec(("[a-c]|cpu|memory", 0_i64..4, 0_u8..4), 0..20), other in prop::collection::vec(("[a-c]|cpu", 0_i64..3), 0..4),
        ) {
            let (mut units, mut map) = (Units::new(), BTreeMap::<String, i64>::new());
            for (name, amount, step) in steps {
                match step {
                    0 => {
                        units.insert(name.as_str(), amount);
                        map.insert(name, amount);
                    }
                    1 => {
                        *units.entry(name.as_str()).or_default() += amount;
                        *map.entry(name).or_default() += amount;
                    }
                    2 => {
                        units.entry(name.as_str()).and_modify(|least| *least = amount.min(*least)).or_insert(amount);
                        map.entry(name).and_modify(|least| *least = amount.min(*least)).or_insert(amount);
                    }
                    _ => {
                        units.retain(|other, held| *other != *name && *held != amount);
                        map.retain(|other, held| *other != name && *held != amount);
                    }
                }
                let all: Vec<_> = map.iter().map(|(name, amount)| (name.as_str(), amount)).collect();
                prop_assert_eq!(units.iter().collect::<Vec<_>>(), all);
                prop_assert_eq!(units.keys().collect::<Vec<_>>(), map.keys().collect::<Vec<_>>());
                prop_assert_eq!(units.is_empty(), map.is_empty());
            }
            prop_assert!(["a", "cpu", "memory"].iter().all(|name| units.get(name) == map.get(*name)));
            let (more, more_map): (Units, BTreeMap<String, i64>) = (other.iter().cloned().collect(), other.into_iter().collect());
            prop_assert_eq!(units.cmp(&more), map.cmp(&more_map));
        }
    }
}
