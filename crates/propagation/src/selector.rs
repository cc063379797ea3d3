//! Whether a selector takes a template, and how specifically (propagation.md 4.1).

use ironclad_api::{policy::ResourceSelector, selector};

use crate::template::Identity;

/// How a selector matches; a later one is more specific and wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Implicit {
    /// All of the kind: 1.
    All,
    /// By its label selector: 2.
    Label,
    /// By name: 3.
    Name,
}

impl Implicit {
    /// For people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "kind",
            Self::Label => "label",
            Self::Name => "name",
        }
    }
}

/// How this selector matches the template; `None` if it does not.
#[must_use]
pub fn matches(selector: &ResourceSelector, template: &Identity<'_>) -> Option<Implicit> {
    if selector.api_version != template.api_version
        || selector.kind != template.kind
        || (!selector.namespace.is_empty() && selector.namespace != template.namespace)
    {
        return None;
    }
    if !selector.name.is_empty() {
        return (selector.name == template.name).then_some(Implicit::Name);
    }
    match &selector.label_selector {
        None => Some(Implicit::All),
        Some(labels) => selector::matches(labels, &template.labels).unwrap_or(false).then_some(Implicit::Label),
    }
}

/// The best match among selectors; `None` if none matches.
#[must_use]
pub fn best(selectors: &[ResourceSelector], template: &Identity<'_>) -> Option<Implicit> {
    selectors.iter().filter_map(|selector| matches(selector, template)).max()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn template() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "prod", "name": "web", "labels": {"app": "web"}}})
    }

    #[test]
    fn one_selector() {
        let template = template();
        for (name, selector, want) in [
            ("name set and equal", json!({"name": "web"}), Some(Implicit::Name)),
            (
                "name equal, labels ignored",
                json!({"name": "web", "labelSelector": {"matchLabels": {"app": "db"}}}),
                Some(Implicit::Name),
            ),
            ("name different", json!({"name": "db"}), None),
            (
                "name different, labels not consulted",
                json!({"name": "db", "labelSelector": {"matchLabels": {"app": "web"}}}),
                None,
            ),
            ("no name, no labels", json!({}), Some(Implicit::All)),
            ("labels match", json!({"labelSelector": {"matchLabels": {"app": "web"}}}), Some(Implicit::Label)),
            ("labels don't match", json!({"labelSelector": {"matchLabels": {"app": "db"}}}), None),
            (
                "labels can't be parsed",
                json!({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}}),
                None,
            ),
            ("an empty label selector takes all, as one by label", json!({"labelSelector": {}}), Some(Implicit::Label)),
            ("another version of the group", json!({"apiVersion": "apps/v1beta1"}), None),
            ("another kind", json!({"kind": "StatefulSet"}), None),
            ("the namespace equal", json!({"namespace": "prod"}), Some(Implicit::All)),
            ("another namespace", json!({"namespace": "test"}), None),
        ] {
            let mut full = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
            full.as_object_mut().unwrap().extend(selector.as_object().unwrap().clone());
            let selector: ResourceSelector = serde_json::from_value(full).unwrap();
            assert_eq!(matches(&selector, &Identity::of(&template)), want, "{name}");
        }
    }

    #[test]
    fn the_best_selector_counts() {
        let template = template();
        let of = |rest: Value| -> ResourceSelector {
            let mut full = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
            full.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            serde_json::from_value(full).unwrap()
        };
        let template = Identity::of(&template);
        assert_eq!(
            best(&[of(json!({})), of(json!({"name": "web"})), of(json!({"name": "db"}))], &template),
            Some(Implicit::Name)
        );
        assert_eq!(best(&[of(json!({"name": "db"}))], &template), None);
        assert_eq!(best(&[], &template), None);
    }
}
