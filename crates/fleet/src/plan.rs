//! The answer of every decision: effects, and the reasons for them.

use crate::Because;

/// All writes of a decision, in order, and the reasons for every write and every omission.
///
/// `apply` makes no choices: if it needs an `if` about the domain, that `if` belongs into the decision.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a plan that nobody applies changes nothing"]
pub struct Plan<E> {
    /// Writes, in this order.
    pub effects: Vec<E>,
    /// The reasons, in the order in which the decision came to them.
    pub because: Vec<Because>,
}

impl<E> Default for Plan<E> {
    fn default() -> Self {
        Self { effects: Vec::new(), because: Vec::new() }
    }
}

impl<E> Plan<E> {
    /// A plan that writes nothing, for one reason.
    pub fn nothing(because: Because) -> Self {
        Self { effects: Vec::new(), because: vec![because] }
    }

    /// A plan of one effect for one reason.
    pub fn one(effect: E, because: Because) -> Self {
        Self { effects: vec![effect], because: vec![because] }
    }

    /// Adds an effect and its reason.
    pub fn push(&mut self, effect: E, because: Because) {
        self.effects.push(effect);
        self.because.push(because);
    }

    /// Adds a reason for something that is left as it is.
    pub fn note(&mut self, because: Because) {
        self.because.push(because);
    }

    /// Returns whether the plan writes nothing.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.effects.is_empty()
    }
}
