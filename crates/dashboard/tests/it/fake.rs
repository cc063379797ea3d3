//! Views that all answer the same, and parts of answers.

use futures::FutureExt as _;
use ironclad_dashboard::{Account, Change, Failed, Look, Reference, Views};
use serde_json::Value;

/// Views that this function answers, but for that of workloads, which is never ready.
pub(crate) struct Fake<F>(pub(crate) F);

impl<F: Fn() -> Result<Value, Failed>> Fake<F> {
    fn view(&self) -> Look<'_> {
        async move { (self.0)() }.boxed_local()
    }
}

impl<F: Fn() -> Result<Value, Failed>> Views for Fake<F> {
    fn fleet(&self) -> Look<'_> {
        self.view()
    }

    fn cluster<'a>(&'a self, _: &'a str) -> Look<'a> {
        self.view()
    }

    fn workloads(&self) -> Look<'_> {
        std::future::pending().boxed_local()
    }

    fn workload<'a>(&'a self, _: &'a Reference) -> Look<'a> {
        self.view()
    }

    fn why<'a>(&'a self, _: &'a Reference) -> Look<'a> {
        self.view()
    }

    fn manifests<'a>(&'a self, _: &'a Reference, _: Option<&'a str>) -> Look<'a> {
        self.view()
    }

    fn logs<'a>(&'a self, _: &'a Reference) -> Look<'a> {
        self.view()
    }

    fn timeline<'a>(&'a self, _: &'a Reference) -> Look<'a> {
        self.view()
    }

    fn policies(&self) -> Look<'_> {
        self.view()
    }

    fn services(&self) -> Look<'_> {
        self.view()
    }

    fn quotas(&self) -> Look<'_> {
        self.view()
    }

    fn evictions(&self) -> Look<'_> {
        self.view()
    }

    fn events(&self) -> Look<'_> {
        self.view()
    }

    fn system(&self) -> Look<'_> {
        self.view()
    }

    fn doctor(&self) -> Look<'_> {
        self.view()
    }

    fn scheduling(&self) -> Look<'_> {
        self.view()
    }

    fn preemptions(&self) -> Look<'_> {
        self.view()
    }

    fn accounts(&self, _: Account) -> Look<'_> {
        self.view()
    }

    fn autoscalers(&self) -> Look<'_> {
        self.view()
    }

    fn autoscaler<'a>(&'a self, _: &'a str, _: &'a str) -> Look<'a> {
        self.view()
    }

    fn plan<'a>(&'a self, _: &'a Change) -> Look<'a> {
        self.view()
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
