//! Reviewers that are asked once more after later ones changed the object (specification/apiserver.md 21).

use std::collections::BTreeSet;

use serde_json::Value;

/// First or second round of the mutating reviewers of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// All reviewers.
    First,
    /// Those with reinvocationPolicy `IfNeeded` that were asked before a change.
    Second,
}

/// Reviewers of one kind with reinvocationPolicy `IfNeeded`, by their keys.
#[derive(Debug)]
pub(crate) struct Reinvocation<K> {
    invoked: BTreeSet<K>,
    again: BTreeSet<K>,
    /// The object as the last round left it; kept only where somebody may be asked again.
    output: Option<Value>,
}

impl<K> Default for Reinvocation<K> {
    fn default() -> Self {
        Self { invoked: BTreeSet::new(), again: BTreeSet::new(), output: None }
    }
}

impl<K: Ord> Reinvocation<K> {
    /// Begins a round: others may have changed the object since the last one.
    pub(crate) fn begin(&mut self, round: Round, object: Option<&Value>) {
        if round == Round::Second && self.output.as_ref() != object {
            self.require();
        }
    }

    /// Returns true if the reviewer is asked in this round.
    pub(crate) fn asks(&self, round: Round, key: &K) -> bool {
        round == Round::First || self.again.contains(key)
    }

    /// Asks those again that were asked before a change.
    pub(crate) fn require(&mut self) {
        self.again.append(&mut self.invoked);
    }

    /// Records that a reviewer with `IfNeeded` was asked.
    pub(crate) fn record(&mut self, key: K) {
        self.invoked.insert(key);
    }

    /// Ends a round.
    pub(crate) fn end(&mut self, object: Option<&Value>) {
        self.output = object.filter(|_| !self.invoked.is_empty()).cloned();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_those_asked_before_a_change_are_asked_again() {
        let mut hooks = Reinvocation::default();
        let (old, new) = (json!(1), json!(2));
        hooks.begin(Round::First, Some(&old));
        assert!(hooks.asks(Round::First, &"a"));
        hooks.record("a");
        hooks.require();
        hooks.record("b");
        hooks.end(Some(&new));
        let mut elsewhere = Reinvocation { invoked: ["c"].into(), again: BTreeSet::new(), output: Some(old) };
        hooks.begin(Round::Second, Some(&new));
        assert_eq!(["a", "b"].map(|key| hooks.asks(Round::Second, &key)), [true, false]);
        elsewhere.begin(Round::Second, Some(&new));
        assert!(elsewhere.asks(Round::Second, &"c"), "others changed the object in between");
    }
}
