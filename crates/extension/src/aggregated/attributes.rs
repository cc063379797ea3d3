//! The parts of a request that are authorized.

use percent_encoding::percent_decode_str;

/// The verb of a method on a path.
pub(crate) fn verb(method: &str, attributes: Option<&Attributes>) -> String {
    match (attributes, method) {
        (Some(of), "GET" | "HEAD") if of.name.is_empty() => "list".to_owned(),
        // `.../pods/*/metric`, too: it names an object `*`, as a kube-apiserver reads it.
        (_, "GET" | "HEAD") => "get".to_owned(),
        (Some(of), "OPTIONS") if of.subresource == "proxy" => "get".to_owned(),
        (Some(of), "DELETE") if of.name.is_empty() => "deletecollection".to_owned(),
        (_, "POST") => "create".to_owned(),
        (_, "PUT") => "update".to_owned(),
        (_, method) => method.to_lowercase(),
    }
}

/// Group, resource and name that a path means.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Attributes {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
}

impl Attributes {
    /// Reads a path as an API server does; `None` for discovery.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let decoded = |s: &str| percent_decode_str(s).decode_utf8_lossy().into_owned();
        let parts: Vec<String> = path.trim_matches('/').split('/').map(decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let ["apis", group, version, rest @ ..] = parts.as_slice() else { return None };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (resource, rest) = rest.split_first()?;
        let at = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        Some(Self {
            group: (*group).to_owned(),
            version: (*version).to_owned(),
            namespace: namespace.to_owned(),
            resource: (*resource).to_owned(),
            name: at(0),
            subresource: at(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs() {
        const ALL: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
        for (method, below, want) in [
            ("GET", "", "list"),
            ("HEAD", "", "list"),
            ("GET", "/m1", "get"),
            ("HEAD", "/m1", "get"),
            ("GET", "/m1/status", "get"),
            ("POST", "", "create"),
            ("PUT", "/m1", "update"),
            ("PATCH", "/m1", "patch"),
            ("DELETE", "/m1", "delete"),
            ("DELETE", "", "deletecollection"),
            ("GET", "/m1/proxy/api/v1/pods", "get"),
            ("POST", "/m1/proxy/api/v1/pods", "create"),
            ("DELETE", "/m1/proxy/api/v1/pods", "delete"),
            ("OPTIONS", "/m1/proxy", "get"),
            ("OPTIONS", "/m1", "options"),
        ] {
            assert_eq!(verb(method, Attributes::of(&format!("{ALL}{below}")).as_ref()), want, "{method} {below}");
        }
        assert_eq!(verb("GET", Attributes::of("/apis/metrics.k8s.io/v1beta1").as_ref()), "get", "discovery");
    }

    #[test]
    fn attributes() {
        let of = |path: &str| {
            Attributes::of(path).map(|a| [a.group, a.namespace, a.resource, a.name, a.subresource].join(" "))
        };
        for (path, want) in [
            ("/apis/metrics.k8s.io/v1beta1/namespaces/a/pods", Some("metrics.k8s.io a pods  ")),
            ("/apis/metrics.k8s.io/v1beta1/nodes/n", Some("metrics.k8s.io  nodes n ")),
            ("/apis/custom.metrics.k8s.io/v1beta2/namespaces/a/pods/*/qps", Some("custom.metrics.k8s.io a pods * qps")),
            (
                "/apis/custom.metrics.k8s.io/v1beta2/namespaces/a/metrics/bytes",
                Some("custom.metrics.k8s.io a metrics bytes "),
            ),
            ("/apis/external.metrics.k8s.io/v1beta1/namespaces/a/depth", Some("external.metrics.k8s.io a depth  ")),
            ("/apis/metrics.k8s.io/v1beta1", None),
            ("/apis", None),
        ] {
            assert_eq!(of(path).as_deref(), want, "{path}");
        }
    }
}
