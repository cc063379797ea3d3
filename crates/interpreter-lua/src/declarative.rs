//! Customizations of a control plane as one source of interpretation (specification/propagation.md 20.3).

use std::{collections::BTreeMap, sync::Arc};

use ironclad_interpreter::{Answer, Dependency, InterpretError, Operation, Question, Reply, Source};

use crate::Customization;

/// All customizations. For each kind and operation the first by name that has a script answers; dependency scripts all
/// answer.
#[derive(Debug, Default)]
pub struct Declarative {
    /// By kind, then apiVersion; in the order of their names.
    by_kind: BTreeMap<String, BTreeMap<String, Named>>,
}

/// Customizations of one kind in one apiVersion, with their names.
type Named = Vec<(String, Arc<Customization>)>;

/// Script that never runs, because a customization before it has one for the same operation on the same kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Customization whose script never runs.
    pub loser: String,
    /// Customization whose script runs.
    pub winner: String,
    pub operation: Operation,
}

impl Declarative {
    /// Builds the source from customizations with their names, in any order.
    #[must_use]
    pub fn new(all: impl IntoIterator<Item = (String, Arc<Customization>)>) -> Self {
        let mut by_kind: BTreeMap<String, BTreeMap<String, Named>> = BTreeMap::new();
        for (name, customization) in all {
            let (api_version, kind) = customization.target();
            let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
            by_kind.entry(kind).or_default().entry(api_version).or_default().push((name, customization));
        }
        for list in by_kind.values_mut().flat_map(BTreeMap::values_mut) {
            list.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        Self { by_kind }
    }

    fn of(&self, api_version: &str, kind: &str, operation: Operation) -> impl Iterator<Item = &Arc<Customization>> {
        let list = self.by_kind.get(kind).and_then(|versions| versions.get(api_version)).map_or(&[][..], Vec::as_slice);
        list.iter().map(|(_, customization)| customization).filter(move |c| c.has(operation))
    }

    /// The scripts that never run.
    #[must_use]
    pub fn conflicts(&self) -> Vec<Conflict> {
        let mut found = Vec::new();
        for list in self.by_kind.values().flat_map(BTreeMap::values) {
            for (i, (loser, customization)) in list.iter().enumerate() {
                for operation in customization.operations().filter(|o| *o != Operation::InterpretDependency) {
                    if let Some((winner, _)) = list[..i].iter().find(|(_, before)| before.has(operation)) {
                        found.push(Conflict { loser: loser.clone(), winner: winner.clone(), operation });
                    }
                }
            }
        }
        found
    }
}

impl Source for Declarative {
    fn implements(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        self.of(api_version, kind, operation).next().is_some()
    }

    fn answer(&self, question: &Question<'_>) -> Result<Answer, InterpretError> {
        let ((api_version, kind), operation) = (question.kind(), question.operation());
        let mut all = self.of(api_version, kind, operation);
        if operation != Operation::InterpretDependency {
            return match all.next() {
                Some(customization) => customization.answer(question).map(Answer::Is),
                None => Err(InterpretError::not_implemented(question)),
            };
        }
        let mut union = Vec::new();
        for customization in all {
            if let Reply::Dependencies(found) = customization.answer(question)? {
                union.extend(found);
            }
        }
        Dependency::sort(&mut union);
        Ok(Answer::Is(Reply::Dependencies(union)))
    }
}
