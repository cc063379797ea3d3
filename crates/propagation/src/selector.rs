//! Match of a resource selector and its specificity (specification/propagation.md 4.1).

use ironclad_api::{policy::ResourceSelector, selector};

use crate::template::Identity;

/// Specificity of a match; a later variant is more specific.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Implicit {
    /// Matches every object of the kind: 1.
    All,
    /// Matches by label selector: 2.
    Label,
    /// Matches by name: 3.
    Name,
}

impl Implicit {
    /// Text for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "kind",
            Self::Label => "label",
            Self::Name => "name",
        }
    }
}

/// Group and version of the Kubernetes project's multi-cluster kinds in manifests of Karmada, which does not know newer
/// versions: their objects are templates in this one, whatever the server prefers.
const PINNED: (&str, &str) = ("multicluster.x-k8s.io", "v1alpha1");

/// The version of a group in which its objects are templates: the one that the server prefers, unless Karmada's
/// manifests name another one (specification/propagation.md 2).
#[must_use]
pub fn template_version<'a>(group: &str, preferred: &'a str, versions: &[&'a str]) -> &'a str {
    let (pinned, version) = PINNED;
    let found = versions.iter().find(|one| group == pinned && **one == version);
    found.copied().unwrap_or(preferred)
}

/// Reason why a selector of this version matches nothing; `None` if it may match.
#[must_use]
pub fn never_matches(api_version: &str) -> Option<String> {
    let (group, version) = PINNED;
    let other = api_version.strip_prefix(group)?.strip_prefix('/').filter(|found| *found != version)?;
    Some(format!(
        "objects of {group} are propagated in version {version}, so {other} selects nothing: use {group}/{version}"
    ))
}

/// Returns true if the selector may match an object of this kind and name, whatever its labels are.
#[must_use]
pub fn may_take(selector: &ResourceSelector, (api_version, kind): (&str, &str), namespace: &str, name: &str) -> bool {
    (&*selector.api_version, &*selector.kind) == (api_version, kind)
        && (selector.namespace.is_empty() || selector.namespace == namespace)
        && (selector.name.is_empty() || selector.name == name)
}

/// Specificity of the match; `None` if the selector does not match.
#[must_use]
pub fn matches(selector: &ResourceSelector, template: &Identity<'_>) -> Option<Implicit> {
    if !may_take(selector, (template.api_version, template.kind), template.namespace, template.name) {
        return None;
    }
    if !selector.name.is_empty() {
        return Some(Implicit::Name);
    }
    match &selector.label_selector {
        None => Some(Implicit::All),
        Some(labels) => selector::matches(labels, &template.labels).unwrap_or(false).then_some(Implicit::Label),
    }
}

/// Index values of a policy with these selectors, which [`found_under`] looks up. `scope` is the policy's namespace,
/// empty for a cluster-scoped policy.
#[must_use]
pub fn index(scope: &str, selectors: &[ResourceSelector]) -> Vec<String> {
    if selectors.is_empty() {
        return vec![scope.to_owned()];
    }
    selectors.iter().map(|s| indexed(scope, &s.api_version, &s.kind, &s.name)).collect()
}

/// Index values of the policies of a scope that may match the template: those that name it, those that name its kind,
/// and those without a name. They include all policies that match, and some that do not.
#[must_use]
pub fn found_under(scope: &str, template: &Identity<'_>) -> [String; 3] {
    let of = |name: &str| indexed(scope, template.api_version, template.kind, name);
    [of(template.name), of(""), scope.to_owned()]
}

fn indexed(scope: &str, api_version: &str, kind: &str, name: &str) -> String {
    format!("{scope} {api_version} {kind} {name}")
}

/// The most specific match among selectors; `None` if none matches.
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
    fn templates_have_the_preferred_version_unless_karmada_names_another() {
        for (group, preferred, versions, want) in [
            ("apps", "v1", &["v1", "v1beta1"][..], "v1"),
            ("multicluster.x-k8s.io", "v1beta1", &["v1beta1", "v1alpha1"], "v1alpha1"),
            ("multicluster.x-k8s.io", "v1beta1", &["v1beta1"], "v1beta1"),
        ] {
            assert_eq!(template_version(group, preferred, versions), want, "{group} {versions:?}");
        }
        assert_eq!(never_matches("apps/v1beta1"), None);
        assert_eq!(never_matches("multicluster.x-k8s.io/v1alpha1"), None);
        assert!(
            never_matches("multicluster.x-k8s.io/v1beta1").is_some_and(|why| why.contains("v1beta1 selects nothing"))
        );
    }

    #[test]
    fn selector_specificity() {
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
    fn index_finds_all_that_may_match() {
        let template = template();
        let identity = Identity::of(&template);
        let of = |rest: Value| -> ResourceSelector {
            let mut full = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
            full.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            serde_json::from_value(full).unwrap()
        };
        let (web, db) = (of(json!({"name": "web"})), of(json!({"name": "db"})));
        let labelled = of(json!({"labelSelector": {"matchLabels": {"app": "db"}}}));
        let elsewhere = of(json!({"namespace": "test"}));
        let other = of(json!({"kind": "StatefulSet", "name": "web"}));
        for (name, scope, selectors, found, taken) in [
            ("by name", "prod", vec![&web], true, true),
            ("another name", "prod", vec![&db], false, false),
            ("labels are looked at later", "prod", vec![&labelled], true, true),
            ("so is the selector's namespace in a cluster-wide policy", "", vec![&elsewhere], true, false),
            ("another kind", "prod", vec![&other], false, false),
            ("one of several", "", vec![&db, &web], true, true),
            ("a policy of another namespace", "test", vec![&web], false, true),
            ("no selectors at all", "prod", vec![], true, false),
        ] {
            let all: Vec<ResourceSelector> = selectors.into_iter().cloned().collect();
            let under = index(scope, &all);
            let asked = found_under(if scope.is_empty() { "" } else { "prod" }, &identity);
            assert_eq!(asked.iter().any(|text| under.contains(text)), found, "{name}");
            let kind = (identity.api_version, identity.kind);
            assert_eq!(all.iter().any(|s| may_take(s, kind, "prod", "web")), taken, "{name}: by name");
        }
    }

    #[test]
    fn most_specific_selector_counts() {
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
