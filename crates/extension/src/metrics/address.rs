//! Paths of the metrics APIs.

use ironclad_hpa::metrics::{custom, external, resource};
use percent_encoding::percent_decode_str;

/// A group that the adapter serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    Resource,
    Custom,
    External,
}

impl Group {
    pub(crate) const ALL: [Self; 3] = [Self::Resource, Self::Custom, Self::External];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Resource => resource::GROUP,
            Self::Custom => custom::GROUP,
            Self::External => external::GROUP,
        }
    }

    /// Its versions, the preferred one first.
    pub(crate) fn versions(self) -> &'static [&'static str] {
        match self {
            Self::Resource | Self::External => &["v1beta1"],
            Self::Custom => &["v1beta2", "v1beta1"],
        }
    }

    /// Priorities of the group and its versions in APIServices (specification/autoscaling.md 3.1).
    pub(crate) fn priority(self) -> (u32, u32) {
        match self {
            Self::Resource => (2_000, 10),
            Self::Custom | Self::External => (100, 200),
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }
}

/// The target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// `/apis`.
    Groups,
    /// `/apis/GROUP`.
    Group(Group),
    /// `/apis/GROUP/VERSION`.
    Resources(Group, &'static str),
    Pods {
        namespace: Option<String>,
    },
    Pod {
        namespace: String,
        name: String,
    },
    Nodes,
    Node {
        name: String,
    },
    Custom {
        version: custom::Version,
        /// Absent for cluster-scoped objects, and for namespaces themselves.
        namespace: Option<String>,
        resource: String,
        /// Name of the object; absent for those that a selector selects.
        name: Option<String>,
        metric: String,
    },
    External {
        namespace: String,
        metric: String,
    },
}

impl Address {
    /// Reads a path; `None` for those that are not the adapter's.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let decoded = |s: &str| percent_decode_str(s).decode_utf8().map(std::borrow::Cow::into_owned).ok();
        let parts: Vec<String> = path.trim_matches('/').split('/').map(decoded).collect::<Option<_>>()?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        if parts.iter().any(|part| part.is_empty()) {
            return None;
        }
        let (group, rest) = match parts.as_slice() {
            ["apis"] => return Some(Self::Groups),
            ["apis", group] => return Some(Self::Group(Group::parse(group)?)),
            ["apis", group, rest @ ..] => (Group::parse(group)?, rest),
            _ => return None,
        };
        let (version, rest) = rest.split_first()?;
        let version = *group.versions().iter().find(|known| *known == version)?;
        if rest.is_empty() {
            return Some(Self::Resources(group, version));
        }
        let own = |s: &str| s.to_owned();
        match group {
            Group::Resource => match rest {
                ["nodes"] => Some(Self::Nodes),
                ["nodes", name] => Some(Self::Node { name: own(name) }),
                ["pods"] => Some(Self::Pods { namespace: None }),
                ["namespaces", namespace, "pods"] => Some(Self::Pods { namespace: Some(own(namespace)) }),
                ["namespaces", namespace, "pods", name] => {
                    Some(Self::Pod { namespace: own(namespace), name: own(name) })
                }
                _ => None,
            },
            Group::Custom => {
                let version = custom::Version::parse(version)?;
                let name_of = |name: &str| (name != "*").then(|| own(name));
                let (namespace, resource, name, metric) = match rest {
                    ["namespaces", name, "metrics", metric] => (None, "namespaces", *name, *metric),
                    ["namespaces", namespace, resource, name, metric] => {
                        (Some(own(namespace)), *resource, *name, *metric)
                    }
                    [resource, name, metric] => (None, *resource, *name, *metric),
                    _ => return None,
                };
                let (resource, metric) = (own(resource), own(metric));
                Some(Self::Custom { version, namespace, resource, name: name_of(name), metric })
            }
            Group::External => match rest {
                ["namespaces", namespace, metric] => {
                    Some(Self::External { namespace: own(namespace), metric: own(metric) })
                }
                _ => None,
            },
        }
    }

    /// The group of the address; `None` for the list of groups.
    pub(crate) fn group(&self) -> Option<Group> {
        match self {
            Self::Groups => None,
            Self::Group(group) | Self::Resources(group, _) => Some(*group),
            Self::Pods { .. } | Self::Pod { .. } | Self::Nodes | Self::Node { .. } => Some(Group::Resource),
            Self::Custom { .. } => Some(Group::Custom),
            Self::External { .. } => Some(Group::External),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let some = |text: &str| Some(text.to_owned());
        let custom = |version, namespace, resource: &str, name, metric: &str| {
            Some(Address::Custom { version, namespace, resource: resource.into(), name, metric: metric.into() })
        };
        let (old, new) = (custom::Version::V1Beta1, custom::Version::V1Beta2);
        for (path, want) in [
            ("/apis", Some(Address::Groups)),
            ("/apis/metrics.k8s.io", Some(Address::Group(Group::Resource))),
            ("/apis/custom.metrics.k8s.io/v1beta2/", Some(Address::Resources(Group::Custom, "v1beta2"))),
            ("/apis/metrics.k8s.io/v1beta1/pods", Some(Address::Pods { namespace: None })),
            ("/apis/metrics.k8s.io/v1beta1/namespaces/a/pods", Some(Address::Pods { namespace: some("a") })),
            (
                "/apis/metrics.k8s.io/v1beta1/namespaces/a/pods/b",
                Some(Address::Pod { namespace: "a".into(), name: "b".into() }),
            ),
            ("/apis/metrics.k8s.io/v1beta1/nodes", Some(Address::Nodes)),
            ("/apis/metrics.k8s.io/v1beta1/nodes/n%201", Some(Address::Node { name: "n 1".into() })),
            (
                "/apis/custom.metrics.k8s.io/v1beta1/namespaces/a/pods/*/qps",
                custom(old, some("a"), "pods", None, "qps"),
            ),
            (
                "/apis/custom.metrics.k8s.io/v1beta2/namespaces/a/ingresses.networking.k8s.io/web/hits",
                custom(new, some("a"), "ingresses.networking.k8s.io", some("web"), "hits"),
            ),
            (
                "/apis/custom.metrics.k8s.io/v1beta2/namespaces/a/metrics/bytes",
                custom(new, None, "namespaces", some("a"), "bytes"),
            ),
            ("/apis/custom.metrics.k8s.io/v1beta2/nodes/n1/watts", custom(new, None, "nodes", some("n1"), "watts")),
            (
                "/apis/external.metrics.k8s.io/v1beta1/namespaces/a/depth",
                Some(Address::External { namespace: "a".into(), metric: "depth".into() }),
            ),
            ("/apis/external.metrics.k8s.io/v1beta1/depth", None),
            ("/apis/external.metrics.k8s.io/v1beta2/namespaces/a/depth", None),
            ("/apis/metrics.k8s.io/v1beta1/namespaces/a/nodes", None),
            ("/apis/apps/v1/deployments", None),
            ("/api/v1/pods", None),
            ("/apis/metrics.k8s.io//pods", None),
        ] {
            assert_eq!(Address::of(path), want, "{path}");
        }
    }
}
