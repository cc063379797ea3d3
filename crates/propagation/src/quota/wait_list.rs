//! Bindings whose scheduling results a quota refused: freed quota goes to the highest priority first
//! (specification/scheduling.md 16.28).

use std::{borrow::Borrow, cmp::Reverse, collections::BTreeMap};

use ironclad_api::{policy::FederatedResourceQuota, quantity::Amount};

use super::usage::{self, Amounts};

/// Largest number of bindings of a namespace that a change of its quotas is compared with. The others follow with the
/// next change, or by their own retry.
const COMPARED_MAX: usize = 1_000;

/// The refused bindings of each namespace, the highest priority first, then in the order in which they began to wait.
/// `K` is the name of a binding.
#[derive(Debug, Clone)]
pub struct WaitList<K> {
    namespaces: BTreeMap<String, BTreeMap<Position, (K, Amounts)>>,
    places: BTreeMap<K, (String, Position)>,
    next: u64,
}

type Position = (Reverse<i32>, u64);

impl<K> Default for WaitList<K> {
    fn default() -> Self {
        Self { namespaces: BTreeMap::new(), places: BTreeMap::new(), next: 0 }
    }
}

impl<K: Ord + Clone> WaitList<K> {
    /// Puts a binding behind those of its priority. `lacking` is the usage that its result would add.
    pub fn enter(&mut self, key: &K, namespace: &str, priority: i32, lacking: Amounts) {
        self.leave(key);
        let position = (Reverse(priority), self.next);
        self.next += 1;
        self.namespaces.entry(namespace.to_owned()).or_default().insert(position, (key.clone(), lacking));
        self.places.insert(key.clone(), (namespace.to_owned(), position));
    }

    /// Removes a binding.
    pub fn leave(&mut self, key: &K) {
        let Some((namespace, position)) = self.places.remove(key) else { return };
        let Some(waiting) = self.namespaces.get_mut(&namespace) else { return };
        waiting.remove(&position);
        if waiting.is_empty() {
            self.namespaces.remove(&namespace);
        }
    }

    /// Number of bindings that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True if no binding waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The bindings of the namespace that fit together into what its quotas leave, in their order. One that does not
    /// fit does not hold up those behind it: they use what it cannot use yet. A quota that cannot be read admits all;
    /// the server says what is wrong with it.
    #[must_use]
    pub fn fitting<Q: Borrow<FederatedResourceQuota>>(&self, namespace: &str, quotas: &[Q]) -> Vec<K> {
        let Some(waiting) = self.namespaces.get(namespace) else { return Vec::new() };
        let is_refused =
            |usage: &Amounts| quotas.iter().any(|quota| matches!(usage::refusal(quota.borrow(), usage), Ok(Some(_))));
        let mut taken = Amounts::new();
        let mut found = Vec::new();
        for (key, lacking) in waiting.values().take(COMPARED_MAX) {
            let mut sum = taken.clone();
            for (resource, amount) in lacking {
                *sum.entry(resource.clone()).or_insert(Amount::ZERO) += *amount;
            }
            if !is_refused(&sum) {
                taken = sum;
                found.push(key.clone());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn quota(name: &str, overall: serde_json::Value, used: serde_json::Value) -> FederatedResourceQuota {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"overall": overall}, "status": {"overall": overall, "overallUsed": used},
        }))
        .unwrap()
    }

    fn cpu(amount: i64) -> Amounts {
        [("cpu".to_owned(), Amount::parse(&amount.to_string()).unwrap())].into()
    }

    fn list(rows: &[(&'static str, i32, i64)]) -> WaitList<&'static str> {
        let mut list = WaitList::default();
        for (key, priority, lacking) in rows {
            list.enter(key, "shop", *priority, cpu(*lacking));
        }
        list
    }

    #[test]
    fn freed_quota_goes_to_the_highest_priority() {
        type Waiting<'a> = (&'a str, i32, i64);
        let rows: &[(&str, &[Waiting<'_>], i64, &[&str])] = &[
            ("the highest priority first", &[("low", 0, 4), ("high", 9, 4)], 4, &["high"]),
            ("equal ones in the order of their waiting", &[("a", 1, 2), ("b", 1, 2), ("c", 1, 2)], 4, &["a", "b"]),
            ("what is too large holds nobody up", &[("high", 9, 6), ("low", 0, 2)], 4, &["low"]),
            (
                "together they stay within what is left",
                &[("high", 9, 3), ("mid", 5, 2), ("low", 0, 1)],
                4,
                &["high", "low"],
            ),
            ("nothing is left", &[("high", 9, 1)], 0, &[]),
            ("nothing is lacking any more", &[("high", 9, 0)], 0, &["high"]),
        ];
        for (name, waiting, left, want) in rows {
            let used = (10 - left).to_string();
            let quotas = [quota("q", json!({"cpu": "10"}), json!({"cpu": used}))];
            assert_eq!(list(waiting).fitting("shop", &quotas), *want, "{name}");
        }
    }

    #[test]
    fn every_quota_of_the_namespace_counts() {
        let waiting = list(&[("a", 0, 2), ("b", 0, 2)]);
        let wide = quota("wide", json!({"cpu": "10"}), json!({}));
        let narrow = quota("narrow", json!({"cpu": "3"}), json!({"cpu": "1"}));
        assert_eq!(waiting.fitting("shop", &[wide.clone(), narrow]), ["a"]);
        assert_eq!(waiting.fitting("shop", &[&wide]), ["a", "b"]);
        assert_eq!(waiting.fitting::<FederatedResourceQuota>("shop", &[]), ["a", "b"], "the quota was deleted");
        assert!(waiting.fitting("other", &[&wide]).is_empty());
        let unreadable = quota("bad", json!({"cpu": "many"}), json!({}));
        assert_eq!(waiting.fitting("shop", &[unreadable]), ["a", "b"]);
    }

    #[test]
    fn who_enters_again_waits_behind_its_equals() {
        let mut waiting = list(&[("a", 0, 1), ("b", 0, 1)]);
        let none: [FederatedResourceQuota; 0] = [];
        waiting.enter(&"a", "shop", 0, cpu(1));
        assert_eq!(waiting.fitting("shop", &none), ["b", "a"]);
        waiting.enter(&"a", "shop", 3, cpu(1));
        assert_eq!((waiting.fitting("shop", &none), waiting.len()), (vec!["a", "b"], 2));
        for key in ["a", "b", "b"] {
            waiting.leave(&key);
        }
        assert!(waiting.is_empty() && waiting.namespaces.is_empty());
    }
}
