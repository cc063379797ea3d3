//! Paths and methods of requests, read as group, version, resource, name, subresource and verb
//! (specification/apiserver.md 1).

use std::collections::BTreeMap;

use http::Method;
use percent_encoding::percent_decode_str;

/// The verb of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// The verb's name in discovery and RBAC.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }
}

/// The address of a resource, an object or a subresource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ResourcePath {
    /// Empty for core.
    pub(crate) group: String,
    pub(crate) version: String,
    /// Absent for cluster-scoped resources and for all namespaces.
    pub(crate) namespace: Option<String>,
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// The path after a subresource (proxy).
    pub(crate) tail: Option<String>,
    /// The legacy prefix `watch/` was there.
    pub(crate) legacy_watch: bool,
}

/// Reads `/api/…` and `/apis/…` paths that name a resource; `None` for all others.
pub(crate) fn parse_path(path: &str) -> Option<ResourcePath> {
    let decoded = |s: &str| percent_decode_str(s).decode_utf8().map(std::borrow::Cow::into_owned).ok();
    let raw: Vec<&str> = path.trim_start_matches('/').trim_end_matches('/').split('/').collect();
    let (group, version, mut rest) = match raw.as_slice() {
        ["api", version, rest @ ..] => (String::new(), decoded(version)?, rest),
        ["apis", group, version, rest @ ..] => (decoded(group)?, decoded(version)?, rest),
        _ => return None,
    };
    let mut out = ResourcePath { group, version, ..ResourcePath::default() };
    if let ["watch", more @ ..] = rest
        && !more.is_empty()
    {
        out.legacy_watch = true;
        rest = more;
    }
    let rest: Vec<String> = rest.iter().map(|s| decoded(s)).collect::<Option<_>>()?;
    let mut rest = rest.as_slice();
    // `namespaces/x/status` and `/finalize` are subresources of the namespace; everything else below is in it.
    if rest.len() >= 3 && rest[0] == "namespaces" && rest[2] != "status" && rest[2] != "finalize" {
        if !rest[1].is_empty() {
            out.namespace = Some(rest[1].clone());
        }
        rest = &rest[2..];
    }
    let (resource, rest) = rest.split_first()?;
    out.resource = resource.clone();
    let mut rest = rest.iter();
    out.name = rest.next().cloned().filter(|n| !n.is_empty());
    out.subresource = rest.next().cloned();
    let tail: Vec<&str> = rest.map(String::as_str).collect();
    out.tail = (!tail.is_empty()).then(|| tail.join("/"));
    Some(out)
}

/// The verb of a method on this address; `None` is answered 405.
pub(crate) fn verb(method: &Method, path: &ResourcePath, query: &Query) -> Option<Verb> {
    let named = path.name.is_some();
    Some(match *method {
        Method::GET if path.legacy_watch => Verb::Watch,
        _ if path.legacy_watch => return None,
        Method::GET if named => Verb::Get,
        Method::GET if query.flag("watch") => Verb::Watch,
        Method::GET => Verb::List,
        Method::POST if !named || path.subresource.is_some() => Verb::Create,
        Method::PUT if named => Verb::Update,
        Method::PATCH if named => Verb::Patch,
        Method::DELETE if named => Verb::Delete,
        Method::DELETE => Verb::DeleteCollection,
        _ => return None,
    })
}

/// The verb that authorization sees; it has one for requests that are answered 405, too.
pub(crate) fn authorized_verb(method: &Method, path: &ResourcePath, query: &Query) -> &'static str {
    let named = path.name.is_some();
    match *method {
        _ if path.legacy_watch => "watch",
        Method::GET | Method::HEAD => match verb(&Method::GET, path, query) {
            Some(verb) => verb.as_str(),
            None => "get",
        },
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if named => "delete",
        Method::DELETE => "deletecollection",
        // A kube-apiserver has no verb for it, which `*` alone grants.
        Method::OPTIONS if path.subresource.as_deref() == Some("proxy") => "get",
        _ => "",
    }
}

/// The decoded query.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(BTreeMap<String, Vec<String>>);

impl Query {
    /// Reads `a=b&c`; undecodable parts are taken literally.
    pub(crate) fn parse(text: Option<&str>) -> Self {
        let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in text.unwrap_or_default().split('&').filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            out.entry(form_decode(key)).or_default().push(form_decode(value));
        }
        Self(out)
    }

    /// The first value of a key, also when empty.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|v| v.first()).map(String::as_str)
    }

    /// All values of a key.
    pub(crate) fn all(&self, key: &str) -> &[String] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    /// The first value of a key, or nothing when absent or empty.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|v| !v.is_empty())
    }

    /// A switch: on for anything but `false` and `0`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        matches!(self.get(key), Some(v) if v != "false" && v != "0")
    }
}

fn form_decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        type Want<'a> = Option<(&'a str, &'a str, Option<&'a str>, &'a str, Option<&'a str>, Option<&'a str>)>;
        for (path, want) in [
            ("/api/v1/pods", Some(("", "v1", None, "pods", None, None))),
            ("/api/v1/namespaces", Some(("", "v1", None, "namespaces", None, None))),
            ("/api/v1/namespaces/a", Some(("", "v1", None, "namespaces", Some("a"), None))),
            ("/api/v1/namespaces/a/status", Some(("", "v1", None, "namespaces", Some("a"), Some("status")))),
            ("/api/v1/namespaces/a/finalize", Some(("", "v1", None, "namespaces", Some("a"), Some("finalize")))),
            ("/api/v1/namespaces/a/pods/", Some(("", "v1", Some("a"), "pods", None, None))),
            ("/api/v1/namespaces//configmaps/", Some(("", "v1", None, "configmaps", None, None))),
            (
                "/apis/apps/v1/namespaces/a/deployments/d/scale",
                Some(("apps", "v1", Some("a"), "deployments", Some("d"), Some("scale"))),
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab",
                Some(("rbac.authorization.k8s.io", "v1", None, "clusterroles", Some("a:b"), None)),
            ),
            ("/apis/apps", None),
            ("/version", None),
        ] as [(&str, Want<'_>); 11]
        {
            let got = parse_path(path);
            let got = got.as_ref().map(|p| {
                (
                    p.group.as_str(),
                    p.version.as_str(),
                    p.namespace.as_deref(),
                    p.resource.as_str(),
                    p.name.as_deref(),
                    p.subresource.as_deref(),
                )
            });
            assert_eq!(got, want, "{path}");
        }
    }

    #[test]
    fn verbs() {
        for (method, path, query, want) in [
            (Method::GET, "/api/v1/pods", "", Some(Verb::List)),
            (Method::GET, "/api/v1/pods", "watch", Some(Verb::Watch)),
            (Method::GET, "/api/v1/pods", "watch=false", Some(Verb::List)),
            (Method::GET, "/api/v1/namespaces/a/pods/x", "watch=1", Some(Verb::Get)),
            (Method::POST, "/api/v1/namespaces/a/pods/x", "", None),
            (Method::POST, "/api/v1/namespaces/a/pods/x/binding", "", Some(Verb::Create)),
            (Method::PUT, "/api/v1/namespaces/a/pods", "", None),
            (Method::DELETE, "/api/v1/namespaces/a/pods", "", Some(Verb::DeleteCollection)),
            (Method::HEAD, "/api/v1/namespaces/a/pods", "", None),
        ] {
            let parsed = parse_path(path).unwrap();
            assert_eq!(verb(&method, &parsed, &Query::parse(Some(query))), want, "{method} {path}?{query}");
        }
    }
}
