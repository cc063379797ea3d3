//! Errors of interpretation.

use std::{fmt, sync::Arc};

use ironclad_fleet::Gvk;

use crate::{Operation, Question, lens::ShapeError};

/// Failure of a question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InterpretError {
    /// The object's shape does not fit its kind.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// No source implements the operation for the kind; check [`crate::Interpreter::implements`] first.
    #[error("no interpreter implements {operation} for {gvk}: add a ResourceInterpreterCustomization")]
    NotImplemented {
        operation: Operation,
        /// The kind.
        gvk: Gvk,
    },
    /// A script failed.
    #[error("{interpreter}: {error}")]
    Script {
        /// `ResourceInterpreterCustomization NAME`, or the shipped script of a kind.
        interpreter: String,
        error: ScriptError,
    },
    /// A webhook failed, or its answer is invalid.
    #[error("interpreter webhook {webhook}: {operation}: {message}")]
    Webhook {
        /// Its configuration and name.
        webhook: String,
        operation: Operation,
        /// The failure.
        message: String,
    },
    /// A webhook has to be called first; [`crate::Interpreter::take_open`] returns the call.
    #[error("interpreter webhook {webhook} was not asked for {operation} yet")]
    Open {
        /// Its configuration and name.
        webhook: String,
        operation: Operation,
    },
}

impl InterpretError {
    /// Error of a source that was asked for an operation it does not implement.
    #[must_use]
    pub fn not_implemented(question: &Question<'_>) -> Self {
        let (api_version, kind) = question.kind();
        Self::NotImplemented { operation: question.operation(), gvk: Gvk::from_manifest(api_version, kind) }
    }
}

/// Error of a script: at compilation or at run time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ScriptError {
    /// The operation of the script.
    pub operation: Operation,
    /// The line of the script, counted from 1, if known.
    pub line: Option<u32>,
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

/// Checks that a text is a script that can answer the operation (specification/admission.md 5.6). Implemented by the
/// script engine; core crates receive it as a value.
pub type CheckScript = Arc<dyn Fn(Operation, &str) -> Result<(), ScriptError> + Send + Sync>;
