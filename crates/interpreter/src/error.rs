//! Why a question has no answer.

use std::fmt;

use ironclad_fleet::Gvk;

use crate::{Operation, Question, lens::ShapeError};

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InterpretError {
    /// The object is not shaped as its kind demands.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Nothing implements the operation for the kind; ask [`crate::Interpreter::implements`] first.
    #[error("no interpreter implements {operation} for {gvk}: add a ResourceInterpreterCustomization")]
    NotImplemented {
        /// What was asked.
        operation: Operation,
        /// Of which kind.
        gvk: Gvk,
    },
    /// A script failed.
    #[error("{interpreter}: {error}")]
    Script {
        /// Whose script: `ResourceInterpreterCustomization NAME`, or the one shipped for a kind.
        interpreter: String,
        /// How.
        error: ScriptError,
    },
    /// A webhook failed, or answered what can't be used.
    #[error("interpreter webhook {webhook}: {operation}: {message}")]
    Webhook {
        /// Its configuration and name.
        webhook: String,
        /// What was asked.
        operation: Operation,
        /// What went wrong.
        message: String,
    },
    /// A webhook has to be asked first; whoever runs the decision sees it in [`crate::Interpreter::take_open`].
    #[error("interpreter webhook {webhook} was not asked for {operation} yet")]
    Open {
        /// Its configuration and name.
        webhook: String,
        /// What was asked.
        operation: Operation,
    },
}

impl InterpretError {
    /// That a source was asked what it does not implement.
    #[must_use]
    pub fn not_implemented(question: &Question<'_>) -> Self {
        let (api_version, kind) = question.kind();
        Self::NotImplemented { operation: question.operation(), gvk: Gvk::from_manifest(api_version, kind) }
    }
}

/// Why a script has no answer, or can't be one of an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ScriptError {
    /// Which of the scripts.
    pub operation: Operation,
    /// The line of the script, counted from 1, where one is known.
    pub line: Option<u32>,
    /// What happened.
    pub message: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "script {}, line {line}: {}", self.operation, self.message),
            None => write!(f, "script {}: {}", self.operation, self.message),
        }
    }
}

/// Tells whether a text is a script that can answer the operation (admission.md 5.6). The engine has one; whoever is of the
/// core is given it.
pub type CheckScript = fn(Operation, &str) -> Result<(), ScriptError>;
