//! Resources that are never templates (specification/propagation.md 2; specification/propagation.md 31 row 18).

use ironclad_api::namespaces;
use ironclad_fleet::Gvk;
use regex::Regex;

/// Groups whose objects are never templates.
const SKIPPED_GROUPS: [&str; 13] = [
    "cluster.karmada.io", "policy.karmada.io", "work.karmada.io", "config.karmada.io", "networking.karmada.io",
    "autoscaling.karmada.io", "remedy.karmada.io", "apps.karmada.io", "cluster.ironclad.io", "sim.ironclad.io",
    "explain.ironclad.io", "events.k8s.io", "coordination.k8s.io",
];
/// Namespaces that are skipped whatever `--skipped-propagating-namespaces` says.
pub const ALWAYS_SKIPPED: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];
/// Longest value of either flag.
const FLAG_BYTES_MAX: usize = 16 * 1024;

/// Invalid value of a flag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipError {
    /// A token of `--skipped-propagating-apis`.
    #[error(
        "--skipped-propagating-apis: {token:?} is none of group, group/version, v1/Kind,Kind or group/version/Kind,Kind"
    )]
    Api {
        /// The invalid token.
        token: String,
    },
    /// An expression of `--skipped-propagating-namespaces`.
    #[error("--skipped-propagating-namespaces: {token:?} is not a regular expression")]
    Namespace {
        /// The invalid expression.
        token: String,
    },
    /// The value is too long.
    #[error("the flag's value is longer than {FLAG_BYTES_MAX} bytes")]
    TooLong,
}

/// Resources that are not propagated. The default is that of the flags.
#[derive(Debug, Clone)]
pub struct Skipped {
    apis: Vec<SkippedApi>,
    namespaces: Vec<Regex>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SkippedApi {
    group: String,
    version: Option<String>,
    kinds: Vec<String>,
}

impl Default for Skipped {
    fn default() -> Self {
        Self::parse("", "kube-.*").expect("the defaults of the flags can be read")
    }
}

impl Skipped {
    /// Parses `--skipped-propagating-apis` and `--skipped-propagating-namespaces`.
    ///
    /// # Errors
    /// If either is invalid: a start-up error that names the token.
    pub fn parse(apis: &str, namespaces: &str) -> Result<Self, SkipError> {
        if apis.len().max(namespaces.len()) > FLAG_BYTES_MAX {
            return Err(SkipError::TooLong);
        }
        let apis = apis.split(';').map(str::trim).filter(|token| !token.is_empty()).map(skipped_api);
        let namespaces = namespaces.split(',').map(str::trim).filter(|token| !token.is_empty()).map(|token| {
            Regex::new(&format!("^(?:{token})$")).map_err(|_| SkipError::Namespace { token: token.to_owned() })
        });
        Ok(Self { apis: apis.collect::<Result<_, _>>()?, namespaces: namespaces.collect::<Result<_, _>>()? })
    }

    /// Returns true if objects of this kind are not templates.
    #[must_use]
    pub fn skips_kind(&self, gvk: &Gvk) -> bool {
        SKIPPED_GROUPS.contains(&&*gvk.group)
            || (gvk.group.is_empty() && &*gvk.kind == "Event")
            || self.apis.iter().any(|api| {
                api.group == *gvk.group
                    && api.version.as_ref().is_none_or(|version| *version == *gvk.version)
                    && (api.kinds.is_empty() || api.kinds.iter().any(|kind| *kind == *gvk.kind))
            })
    }

    /// Returns true if this object is not a template because of its namespace or name.
    #[must_use]
    pub fn skips_object(&self, gvk: &Gvk, namespace: &str, name: &str) -> bool {
        (!namespace.is_empty() && self.skips_namespace(namespace)) || is_of_each_cluster(gvk, namespace, name)
    }

    /// Returns true if objects in this namespace are not propagated.
    #[must_use]
    pub fn skips_namespace(&self, namespace: &str) -> bool {
        namespaces::is_reserved(namespace)
            || ALWAYS_SKIPPED.contains(&namespace)
            || self.namespaces.iter().any(|expression| expression.is_match(namespace))
    }
}

/// Returns true if every cluster makes its own object of this name. A copy would replace the member's, whose
/// controllers would write theirs back.
#[must_use]
pub fn is_of_each_cluster(gvk: &Gvk, namespace: &str, name: &str) -> bool {
    gvk.group.is_empty()
        && match &*gvk.kind {
            "ConfigMap" => {
                name == "kube-root-ca.crt" || (namespace, name) == ("kube-system", "extension-apiserver-authentication")
            }
            "ServiceAccount" => name == "default",
            _ => false,
        }
}

fn skipped_api(token: &str) -> Result<SkippedApi, SkipError> {
    let bad = || SkipError::Api { token: token.chars().take(80).collect() };
    let kinds = |text: &str| -> Vec<String> {
        text.split(',').map(str::trim).filter(|kind| !kind.is_empty()).map(str::to_owned).collect()
    };
    let parts: Vec<&str> = token.split('/').map(str::trim).collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(bad());
    }
    match parts.as_slice() {
        [group] => Ok(SkippedApi { group: (*group).to_owned(), version: None, kinds: Vec::new() }),
        ["v1", names] => Ok(SkippedApi { group: String::new(), version: Some("v1".into()), kinds: kinds(names) }),
        [group, version] => {
            Ok(SkippedApi { group: (*group).to_owned(), version: Some((*version).to_owned()), kinds: Vec::new() })
        }
        [group, version, names] => {
            Ok(SkippedApi { group: (*group).to_owned(), version: Some((*version).to_owned()), kinds: kinds(names) })
        }
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gvk(text: &str) -> Gvk {
        let (api_version, kind) = text.rsplit_once('/').unwrap_or(("v1", text));
        Gvk::from_manifest(api_version, kind)
    }

    #[test]
    fn skipped_kinds() {
        let default = Skipped::default();
        for (kind, want) in [
            ("apps/v1/Deployment", false),
            ("v1/ConfigMap", false),
            ("v1/Event", true),
            ("events.k8s.io/v1/Event", true),
            ("coordination.k8s.io/v1/Lease", true),
            ("work.karmada.io/v1alpha2/ResourceBinding", true),
            ("policy.karmada.io/v1alpha1/PropagationPolicy", true),
            ("sim.ironclad.io/v1alpha1/SimulatedCluster", true),
            ("policy/v1/PodDisruptionBudget", false),
            ("multicluster.x-k8s.io/v1alpha1/ServiceImport", false),
        ] {
            assert_eq!(default.skips_kind(&gvk(kind)), want, "{kind}");
        }
        for (flag, kind, want) in [
            ("networking.k8s.io", "networking.k8s.io/v1/Ingress", true),
            ("networking.k8s.io", "apps/v1/Deployment", false),
            ("networking.k8s.io/v1beta1", "networking.k8s.io/v1beta1/Ingress", true),
            ("networking.k8s.io/v1beta1", "networking.k8s.io/v1/Ingress", false),
            ("v1/Secret,Pod", "v1/Pod", true),
            ("v1/Secret,Pod", "v1/ConfigMap", false),
            ("apps/v1/Deployment,ReplicaSet", "apps/v1/ReplicaSet", true),
            ("apps/v1/Deployment,ReplicaSet", "apps/v1/StatefulSet", false),
            ("a.io; apps/v1/Deployment", "apps/v1/Deployment", true),
        ] {
            assert_eq!(Skipped::parse(flag, "").unwrap().skips_kind(&gvk(kind)), want, "{flag} on {kind}");
        }
    }

    #[test]
    fn invalid_flags_are_refused() {
        assert_eq!(
            Skipped::parse("a/b/c/d", "").unwrap_err().to_string(),
            "--skipped-propagating-apis: \"a/b/c/d\" is none of group, group/version, v1/Kind,Kind or group/version/Kind,Kind"
        );
        assert!(Skipped::parse("a//b", "").is_err());
        assert_eq!(
            Skipped::parse("", "kube-[").unwrap_err().to_string(),
            "--skipped-propagating-namespaces: \"kube-[\" is not a regular expression"
        );
        assert!(Skipped::parse("", &"a".repeat(FLAG_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn skipped_objects_and_namespaces() {
        let config = gvk("v1/ConfigMap");
        for (flag, namespace, name, want) in [
            ("kube-.*", "default", "c", false),
            ("kube-.*", "", "c", false),
            ("kube-.*", "karmada-system", "c", true),
            ("kube-.*", "karmada-cluster", "c", true),
            ("kube-.*", "karmada-es-member1", "c", true),
            ("kube-.*", "kube-flannel", "c", true),
            ("kube-.*", "my-kube-x", "c", false),
            ("team-a,team-b.*", "team-b2", "c", true),
            ("team-a,team-b.*", "kube-flannel", "c", false),
            ("team-a", "kube-system", "c", true),
            ("", "kube-public", "c", true),
            ("", "kube-node-lease", "c", true),
        ] {
            let skipped = Skipped::parse("", flag).unwrap();
            assert_eq!(skipped.skips_object(&config, namespace, name), want, "{flag:?} on {namespace:?}");
        }
        let none = Skipped::parse("", "").unwrap();
        for (kind, namespace, name, want) in [
            ("v1/ConfigMap", "kube-system", "extension-apiserver-authentication", true),
            ("v1/ConfigMap", "shop", "kube-root-ca.crt", true),
            ("v1/ConfigMap", "shop", "c", false),
            ("v1/Secret", "shop", "kube-root-ca.crt", false),
            ("v1/ServiceAccount", "shop", "default", true),
            ("v1/ServiceAccount", "shop", "web", false),
            ("v1/ConfigMap", "shop", "default", false),
            ("x.io/v1/ServiceAccount", "shop", "default", false),
        ] {
            assert_eq!(none.skips_object(&gvk(kind), namespace, name), want, "{kind} {namespace}/{name}");
        }
    }
}
