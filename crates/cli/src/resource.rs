//! Resolution of resource names on the command line: plural, singular, kind or short name, as in kubectl.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use ironclad_runtime::aggregated_groups;
use kube::{
    Client,
    core::{ApiResource, discovery::v2::APIGroupDiscovery},
};

/// A kind that the server serves, as a word named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Group, version, kind and plural.
    pub api: ApiResource,
    /// True if its objects are namespaced.
    pub namespaced: bool,
}

/// All that a server serves, in its order of preference.
#[derive(Debug, Default)]
pub struct Resources(Vec<Served>);

/// A kind with the words and categories that mean it.
#[derive(Debug)]
struct Served {
    resource: Resource,
    words: Vec<String>,
    categories: Vec<String>,
}

impl Resources {
    /// Asks a server.
    ///
    /// # Errors
    /// If it does not answer, or knows no aggregated discovery (Kubernetes before 1.27).
    pub async fn of(client: &Client) -> anyhow::Result<Self> {
        Ok(Self::read(aggregated_groups(client).await?.iter()))
    }

    fn read<'a>(groups: impl Iterator<Item = &'a APIGroupDiscovery>) -> Self {
        let mut all = Vec::new();
        for group in groups {
            let name = group.metadata.as_ref().and_then(|metadata| metadata.name.clone()).unwrap_or_default();
            for version in &group.versions {
                let number = version.version.clone().unwrap_or_default();
                for served in version.resources.iter().filter(|served| served.verbs.iter().any(|verb| verb == "list")) {
                    let plural = served.resource.clone().unwrap_or_default();
                    let kind = served.response_kind.as_ref().and_then(|kind| kind.kind.clone()).unwrap_or_default();
                    let mut words = vec![plural.to_lowercase(), kind.to_lowercase()];
                    words.extend(served.singular_resource.iter().map(|word| word.to_lowercase()));
                    words.extend(served.short_names.iter().map(|word| word.to_lowercase()));
                    let api_version = if name.is_empty() { number.clone() } else { format!("{name}/{number}") };
                    let api = ApiResource { group: name.clone(), version: number.clone(), api_version, kind, plural };
                    let namespaced = served.scope.as_deref() == Some("Namespaced");
                    let categories = served.categories.clone();
                    all.push(Served { resource: Resource { api, namespaced }, words, categories });
                }
            }
        }
        Self(all)
    }

    /// The resource of a kind as manifests name it.
    #[must_use]
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Resource> {
        let fits = |resource: &&Resource| resource.api.api_version == api_version && resource.api.kind == kind;
        self.0.iter().map(|served| &served.resource).find(fits)
    }

    /// The types of a category, such as `all`, by their full names; empty if there is no such category.
    #[must_use]
    pub fn category(&self, name: &str) -> Vec<String> {
        let name = name.to_lowercase();
        let mut types: Vec<String> = Vec::new();
        for api in self.0.iter().filter(|served| served.categories.contains(&name)).map(|served| &served.resource.api) {
            let full = if api.group.is_empty() { api.plural.clone() } else { format!("{}.{}", api.plural, api.group) };
            if !types.contains(&full) {
                types.push(full);
            }
        }
        types
    }

    /// The types as they are written: plurals, with the group where two groups have the same.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for api in self.0.iter().map(|served| &served.resource.api) {
            groups.entry(&api.plural).or_default().insert(&api.group);
        }
        let written = |plural: &str, groups: BTreeSet<&str>| -> Vec<String> {
            let is_one = groups.len() == 1;
            let full =
                |group: &str| if is_one || group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
            groups.into_iter().map(full).collect()
        };
        groups.into_iter().flat_map(|(plural, groups)| written(plural, groups)).collect()
    }

    /// The kinds as manifests write them.
    #[must_use]
    pub fn kinds(&self) -> Vec<String> {
        let kinds: BTreeSet<&String> = self.0.iter().map(|served| &served.resource.api.kind).collect();
        kinds.into_iter().cloned().collect()
    }

    /// Resolves a word: `deploy`, `deployments`, `deployments.apps`, `deployments.v1.apps`.
    ///
    /// # Errors
    /// If the server has no such type; the message names the nearest words that it has.
    pub fn find(&self, word: &str) -> anyhow::Result<Resource> {
        let lower = word.to_lowercase();
        let (first, group) = lower.split_once('.').unwrap_or((&lower, ""));
        let fits = |resource: &Resource| {
            let api = &resource.api;
            group.is_empty() || api.group == group || format!("{}.{}", api.version, api.group) == group
        };
        let found = self.0.iter().find(|served| served.words.iter().any(|w| w == first) && fits(&served.resource));
        if let Some(served) = found {
            return Ok(served.resource.clone());
        }
        let distance = |words: &[String]| {
            let far = |known: &String| match known.starts_with(first) || first.starts_with(known.as_str()) {
                true => 0,
                false => strsim::damerau_levenshtein(known, first),
            };
            words.iter().map(far).min().unwrap_or(usize::MAX)
        };
        let mut near: Vec<(usize, &str)> =
            self.0.iter().map(|served| (distance(&served.words), served.resource.api.plural.as_str())).collect();
        near.sort_unstable();
        near.dedup();
        let mut near: Vec<&str> = near.into_iter().map(|(_, plural)| plural).collect();
        near.truncate(3);
        bail!("the server doesn't have a resource type {word:?}\n  try: {}", near.join(", "))
    }
}

/// The types and names that `TYPE NAME…`, `TYPE/NAME…` and `TYPE,TYPE` say; a type without names has an empty list.
///
/// # Errors
/// If both forms are mixed.
pub fn arguments(words: &[String]) -> Result<Vec<(String, Vec<String>)>, crate::report::Misused> {
    let misused = |text: String| crate::report::Misused(text);
    let Some(first) = words.first() else {
        return Err(misused("no resource type was given\n  try: ironclad get clusters".to_owned()));
    };
    if first.contains('/') {
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        for word in words {
            let Some((kind, name)) = word.split_once('/').filter(|(kind, name)| !kind.is_empty() && !name.is_empty())
            else {
                return Err(misused(format!(
                    "{word:?} is not TYPE/NAME, as the first argument is\n  try: {first} TYPE/{word}"
                )));
            };
            match all.iter_mut().find(|(known, _)| known == kind) {
                Some((_, names)) => names.push(name.to_owned()),
                None => all.push((kind.to_owned(), vec![name.to_owned()])),
            }
        }
        return Ok(all);
    }
    let names = words.get(1..).unwrap_or_default();
    if let Some(word) = names.iter().find(|word| word.contains('/')) {
        return Err(misused(format!(
            "{word:?} is TYPE/NAME, and the first argument is a TYPE alone\n  try: one of both forms"
        )));
    }
    let kinds: Vec<&str> = first.split(',').filter(|kind| !kind.is_empty()).collect();
    Ok(kinds.into_iter().map(|kind| (kind.to_owned(), names.to_vec())).collect())
}

/// True if a word of the command line names this kind, without asking a server: the kind, its plural, or the short name
/// that kubectl knows.
#[must_use]
pub fn is_word_for(word: &str, kind: &str) -> bool {
    let short = match kind {
        "ConfigMap" => "cm",
        "CronJob" => "cj",
        "CustomResourceDefinition" => "crd",
        "DaemonSet" => "ds",
        "Deployment" => "deploy",
        "HorizontalPodAutoscaler" => "hpa",
        "Ingress" => "ing",
        "Namespace" => "ns",
        "PersistentVolumeClaim" => "pvc",
        "PodDisruptionBudget" => "pdb",
        "Service" => "svc",
        "ServiceAccount" => "sa",
        "StatefulSet" => "sts",
        _ => "",
    };
    let plurals = [format!("{kind}s"), format!("{kind}es"), format!("{}ies", kind.strip_suffix('y').unwrap_or(kind))];
    let known = plurals.iter().map(String::as_str).chain([kind, short]);
    !word.is_empty() && known.into_iter().any(|known| known.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resources() -> Resources {
        let groups: Vec<APIGroupDiscovery> = serde_json::from_value(json!([
            {"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": [
                {"resource": "pods", "responseKind": {"group": "", "version": "v1", "kind": "Pod"}, "scope": "Namespaced",
                 "singularResource": "pod", "verbs": ["get", "list"], "shortNames": ["po"]}]}]},
            {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [
                {"resource": "deployments", "responseKind": {"group": "", "version": "", "kind": "Deployment"}, "scope": "Namespaced",
                 "singularResource": "deployment", "verbs": ["get", "list"], "shortNames": ["deploy"]}]}]},
            {"metadata": {"name": "cluster.karmada.io"}, "versions": [{"version": "v1alpha1", "resources": [
                {"resource": "clusters", "responseKind": {"group": "", "version": "", "kind": "Cluster"}, "scope": "Cluster",
                 "singularResource": "cluster", "verbs": ["get", "list"]}]}]},
        ]))
        .unwrap();
        Resources::read(groups.iter())
    }

    #[test]
    fn types_of_two_groups_are_written_with_their_group() {
        let served = |group: &str, plural: &str| {
            json!({"metadata": {"name": group}, "versions": [{"version": "v1", "resources": [
                {"resource": plural, "responseKind": {"kind": "K"}, "scope": "Namespaced", "singularResource": "k", "verbs": ["list"]}]}]})
        };
        let groups = json!([served("", "events"), served("events.k8s.io", "events"), served("apps", "deployments")]);
        let groups: Vec<APIGroupDiscovery> = serde_json::from_value(groups).unwrap();
        let resources = Resources::read(groups.iter());
        assert_eq!(resources.words(), ["deployments", "events", "events.events.k8s.io"]);
        assert_eq!(resources.kinds(), ["K"]);
    }

    #[test]
    fn resource_types_are_resolved_like_kubectl() {
        let rows = [
            ("deploy", "apps/v1 Deployment"),
            ("Deployments", "apps/v1 Deployment"),
            ("deployment.apps", "apps/v1 Deployment"),
            ("deployments.v1.apps", "apps/v1 Deployment"),
            ("po", "v1 Pod"),
            ("cluster", "cluster.karmada.io/v1alpha1 Cluster"),
        ];
        for (word, expected) in rows {
            let found = resources().find(word).unwrap();
            assert_eq!(format!("{} {}", found.api.api_version, found.api.kind), expected, "{word}");
        }
        assert!(!resources().find("clusters").unwrap().namespaced);
        let error = resources().find("deployment.batch").unwrap_err().to_string();
        assert!(
            error.starts_with("the server doesn't have a resource type \"deployment.batch\"\n  try: deployments, "),
            "{error}"
        );
    }

    #[test]
    fn resource_types_are_resolved_without_a_server() {
        for (word, kind, want) in [
            ("deploy", "Deployment", true),
            ("Deployments", "Deployment", true),
            ("deployment", "Deployment", true),
            ("ing", "Ingress", true),
            ("ingresses", "Ingress", true),
            ("networkpolicies", "NetworkPolicy", true),
            ("sts", "Deployment", false),
            ("", "Widget", false),
            ("widget", "Widget", true),
        ] {
            assert_eq!(is_word_for(word, kind), want, "{word} for {kind}");
        }
    }

    #[test]
    fn both_argument_forms_are_parsed() {
        let read = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            arguments(&words).map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
        };
        let of =
            |kind: &str, names: &[&str]| (kind.to_owned(), names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        assert_eq!(read("deploy"), Ok(vec![of("deploy", &[])]));
        assert_eq!(read("deploy web db"), Ok(vec![of("deploy", &["web", "db"])]));
        assert_eq!(read("deploy,svc"), Ok(vec![of("deploy", &[]), of("svc", &[])]));
        assert_eq!(read("deploy/web svc/web deploy/db"), Ok(vec![of("deploy", &["web", "db"]), of("svc", &["web"])]));
        assert_eq!(read("deploy/web db"), Err("\"db\" is not TYPE/NAME, as the first argument is".to_owned()));
        assert_eq!(
            read("deploy svc/web"),
            Err("\"svc/web\" is TYPE/NAME, and the first argument is a TYPE alone".to_owned())
        );
        assert_eq!(read("deploy,svc web"), Ok(vec![of("deploy", &["web"]), of("svc", &["web"])]));
        assert!(arguments(&[]).is_err());
    }
}
