//! Views that all answer the same, and parts of answers.

use futures::FutureExt as _;
use ironclad_dashboard::{Failed, Look, Question, Version, Views};
use serde_json::Value;

/// Views that this function answers, but for that of workloads, which is never ready.
pub(crate) struct Fake<F>(pub(crate) F);

impl<F: Fn() -> Result<Value, Failed>> Views for Fake<F> {
    fn look<'a>(&'a self, question: &'a Question) -> Look<'a> {
        match question {
            Question::Workloads => std::future::pending().boxed_local(),
            _ => async move { (self.0)() }.boxed_local(),
        }
    }

    fn version(&self, _: &Question) -> Option<Version> {
        None
    }
}

/// Status of an answer.
pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

/// Value of a header.
pub(crate) fn line<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Body of an answer as JSON.
pub(crate) fn body(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap_or_else(|_| panic!("{answer}"))
}
