//! Table of the values in use, by which an equal one is found.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hasher},
    io,
    sync::{Arc, Weak},
};

use serde::Serialize;

use super::Shared;

/// Number of entries up to which a pool does not look for values that are no longer in use.
const PRUNED_FROM: usize = 64;

/// Values of one type that are in use. It keeps none of them alive, and has at most twice as many entries as there were
/// values in use when it last looked, and [`PRUNED_FROM`].
#[derive(Debug)]
pub struct Pool<T> {
    /// By a hash of the serialized value. Of two values with one hash, the later is found: the other is not shared.
    values: BTreeMap<u64, Weak<T>>,
    /// Number of entries at which those without a value are removed.
    prune_at: usize,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), prune_at: PRUNED_FROM }
    }
}

impl<T: PartialEq + Serialize> Pool<T> {
    /// Replaces the value by an equal one: that of the object's version `before`, else one that another object has.
    pub fn share(&mut self, value: &mut Shared<T>, before: Option<&Shared<T>>) {
        if let Some(before) = before.filter(|before| *before == value) {
            *value = before.clone();
            return;
        }
        let Some(hash) = hash(&**value) else { return };
        let known = self.values.get(&hash).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| **known == **value) {
            *value = Shared(known);
            return;
        }
        self.values.insert(hash, Arc::downgrade(&value.0));
        if self.values.len() > self.prune_at {
            self.values.retain(|_, value| value.strong_count() > 0);
            self.prune_at = PRUNED_FROM.max(2 * self.values.len());
        }
    }

    /// [`Pool::share`] for a field that may be absent.
    pub fn share_some(&mut self, value: &mut Option<Shared<T>>, before: Option<&Option<Shared<T>>>) {
        if let Some(value) = value {
            self.share(value, before.and_then(Option::as_ref));
        }
    }
}

/// Hash of a value as it is serialized. `None` for what is no JSON; API objects are.
fn hash(value: &impl Serialize) -> Option<u64> {
    let mut hashed = Hashed(DefaultHasher::new());
    serde_json::to_writer(&mut hashed, value).ok()?;
    Some(hashed.0.finish())
}

/// Hash of the bytes that are written.
struct Hashed(DefaultHasher);

impl io::Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_become_one_and_different_ones_stay_apart() {
        let mut pool = Pool::default();
        let mut shared = |text: &str, before| {
            let mut value = Shared::from(text.to_owned());
            pool.share(&mut value, before);
            value
        };
        let (a, other, b) = (shared("a", None), shared("a", None), shared("b", None));
        assert!(a.is_same(&other) && !a.is_same(&b));
        let before = Shared::from("a".to_owned());
        assert!(shared("a", Some(&before)).is_same(&before), "an unchanged field stays what it was");
        assert!(shared("b", Some(&before)).is_same(&b), "a changed one is looked up");
    }

    #[test]
    fn values_that_no_object_has_any_more_are_forgotten() {
        let mut pool = Pool::default();
        let mut kept = Vec::new();
        for n in 0..10_000 {
            let mut value = Shared::from(n);
            pool.share(&mut value, None);
            if n % 1_000 == 0 {
                kept.push(value);
            }
            assert!(pool.values.len() <= PRUNED_FROM + 1, "{n}: {} entries", pool.values.len());
        }
        for value in &kept {
            let mut equal = Shared::from(**value);
            pool.share(&mut equal, None);
            assert!(equal.is_same(value), "{value:?} is in use");
        }
    }

    #[test]
    fn of_two_values_with_one_hash_the_later_is_found() {
        let mut pool = Pool::default();
        let (one, mut other) = (Shared::from(1), Shared::from(2));
        pool.values.insert(hash(&2).unwrap(), Arc::downgrade(&one.0));
        pool.share(&mut other, None);
        assert_eq!(*other, 2, "a value is never replaced by another one");
        let mut equal = Shared::from(2);
        pool.share(&mut equal, None);
        assert!(equal.is_same(&other));
    }
}
