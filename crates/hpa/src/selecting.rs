//! Selection of the pods that belong to an autoscaler, and to no other (specification/autoscaling.md 2.2, 2.5).

use std::collections::BTreeMap;

use ironclad_patch::selector::LabelSelector;

use crate::{conditions::Condition, events, notice::Notice, pods::Pod};

/// The selector of a workload's pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Pods were found by this selector.
    By(String),
    /// No metric asks for pods, and no selector is needed.
    NotNeeded,
    /// The scale of the workload has no selector.
    Missing,
    /// It cannot be read.
    Invalid { why: String },
    /// Other autoscalers select some of the pods.
    Ambiguous {
        selector: String,
        /// The others, by namespace and name.
        others: Vec<String>,
    },
}

impl Selection {
    /// Returns the event and the condition that say why the pods are not to be used.
    pub(crate) fn usable(&self) -> Result<(), (Notice, Condition)> {
        let (reason, condition, message, shown) = match self {
            Self::By(_) | Self::NotNeeded => return Ok(()),
            Self::Missing => (
                events::SELECTOR_REQUIRED,
                events::INVALID_SELECTOR,
                "selector is required".to_owned(),
                "the HPA target's scale is missing a selector".to_owned(),
            ),
            Self::Invalid { why } => {
                let message = format!("couldn't convert selector into a corresponding internal selector object: {why}");
                (events::INVALID_SELECTOR, events::INVALID_SELECTOR, message.clone(), message)
            }
            Self::Ambiguous { selector, others } => {
                let others = others.join(" ");
                let message = format!("pods by selector {selector} are controlled by multiple HPAs: [{others}]");
                (events::AMBIGUOUS_SELECTOR, events::AMBIGUOUS_SELECTOR, message.clone(), message)
            }
        };
        Err((Notice::warning(reason, message), Condition::fails(condition, shown)))
    }
}

/// Reads the selector of a scale.
///
/// # Errors
/// The selection that says that there is none.
pub fn parse(selector: &str) -> Result<LabelSelector, Selection> {
    if selector.is_empty() {
        return Err(Selection::Missing);
    }
    LabelSelector::parse(selector).map_err(|error| Selection::Invalid { why: error.0 })
}

/// Returns true if the selector matches the labels.
#[must_use]
pub fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    selector.matches(|name| labels.get(name).map(String::as_str))
}

/// Returns the autoscalers of the namespace that select some of the pods, by name, `own` included; none if no other
/// does. `selectors` are the selectors of the autoscalers that have been evaluated.
pub fn others<'a>(
    own: &str,
    pods: impl IntoIterator<Item = &'a Pod> + Clone,
    selectors: impl IntoIterator<Item = (&'a str, &'a LabelSelector)>,
) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for (name, selector) in selectors {
        if name != own && pods.clone().into_iter().any(|pod| selects(selector, &pod.labels)) {
            all.push(name.to_owned());
        }
    }
    if !all.is_empty() {
        all.push(own.to_owned());
        all.sort();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::running;

    #[test]
    fn autoscalers_on_the_same_pods_are_found() {
        let pod = Pod { labels: [("app".into(), "web".into()), ("tier".into(), "front".into())].into(), ..running() };
        for (name, selectors, want) in [
            ("alone", vec![("own", "app=web")], vec![]),
            ("another on other pods", vec![("own", "app=web"), ("b", "app=db")], vec![]),
            ("another on the same pods", vec![("own", "app=web"), ("b", "tier in (front)")], vec!["b", "own"]),
        ] {
            let parsed: Vec<(&str, LabelSelector)> =
                selectors.iter().map(|(name, selector)| (*name, parse(selector).unwrap())).collect();
            let found = others("own", [&pod], parsed.iter().map(|(name, selector)| (*name, selector)));
            assert_eq!(found, want, "{name}");
        }
    }

    #[test]
    fn selectors_are_required() {
        for (name, selector, reason, condition) in [
            ("none", "", "SelectorRequired", "InvalidSelector"),
            ("no selector", "a in", "InvalidSelector", "InvalidSelector"),
        ] {
            let (notice, found) = parse(selector).unwrap_err().usable().unwrap_err();
            assert_eq!((notice.reason, found.reason), (reason, condition), "{name}");
        }
        assert_eq!(Selection::By("a=b".into()).usable(), Ok(()));
    }
}
