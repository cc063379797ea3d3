//! Headers on the way to a member and back.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use ironclad_apiserver::{Identity, extra_key, passed_on};
use ironclad_propagation::unified_auth::Impersonable;

/// Prefix of headers that proxies add.
const FORWARDED: &str = "x-forwarded-";
/// The most characters of a warning.
const WARNING_CHARS_MAX: usize = 256;

/// The headers of a request for a member, and the user's groups that are left out of them. The client's own words about
/// who it is are never passed on.
pub(super) fn outbound<'a>(
    headers: &HeaderMap,
    identity: &'a Identity,
    may: &Impersonable,
    prefix: &str,
) -> (HeaderMap, Vec<&'a str>) {
    let mut out = passed_on(headers);
    let forwarded: Vec<HeaderName> = out.keys().filter(|name| name.as_str().starts_with(FORWARDED)).cloned().collect();
    forwarded.iter().for_each(|name| drop(out.remove(name)));
    let mut add = |name: &str, value: &str| {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes())) {
            out.append(name, value);
        }
    };
    add("x-forwarded-proto", "https");
    add("x-forwarded-uri", prefix);
    if let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) {
        add("x-forwarded-host", host);
    }
    add("impersonate-user", &identity.user);
    let (groups, left_out) = may.groups(&identity.groups);
    groups.iter().for_each(|group| add("impersonate-group", group));
    if may.uid() && !identity.uid.is_empty() {
        add("impersonate-uid", &identity.uid);
    }
    for (key, values) in &identity.extra {
        let name = format!("impersonate-extra-{}", extra_key(key));
        if may.extra(&key.to_lowercase()) {
            values.iter().for_each(|value| add(&name, value));
        }
    }
    (out, left_out)
}

/// A warning as Kubernetes' clients print it; `None` if it can't be sent.
pub(super) fn warning(text: &str) -> Option<HeaderValue> {
    let text: String = text.chars().take(WARNING_CHARS_MAX).collect();
    HeaderValue::try_from(format!("299 - \"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))).ok()
}

/// The warning that groups were left out.
pub(super) fn left_out(groups: &[&str], cluster: &str) -> Option<HeaderValue> {
    let names = groups.join(", ");
    let text =
        format!("groups {names} were not passed on to {cluster}: no ClusterRoleBinding to clusters/proxy names them");
    if groups.is_empty() { None } else { warning(&text) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_member_hears_who_asks_and_nothing_else_about_it() {
        let mut sent = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("impersonate-user", "root"),
            ("impersonate-group", "system:masters"),
            ("x-remote-user", "root"),
            ("x-forwarded-for", "10.0.0.1"),
            ("connection", "keep-alive"),
            ("host", "plane:6443"),
            ("accept", "application/json"),
            ("cookie", "a=b"),
        ] {
            sent.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_static(value));
        }
        let mut identity = Identity::user("ann", &["devs", "ops"]);
        identity.uid = "7".into();
        identity.extra.insert("authentication.kubernetes.io/Pod-Name".into(), vec!["p".into()]);
        identity.extra.insert("example.com/team".into(), vec!["t".into()]);
        let role = json!({"kind": "ClusterRole", "rules": [
            {"resources": ["groups"], "resourceNames": ["devs"]},
            {"resources": ["uids", "userextras/authentication.kubernetes.io/pod-name"]},
        ]});
        let work = json!({"metadata": {}, "spec": {"workload": {"manifests": [role]}}});
        let may = Impersonable::of(&serde_json::from_value(work).unwrap());
        let (got, left) = outbound(&sent, &identity, &may, "/p");
        let lines: Vec<String> =
            got.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "accept: application/json",
                "cookie: a=b",
                "impersonate-extra-authentication.kubernetes.io%2fpod-name: p",
                "impersonate-group: devs",
                "impersonate-uid: 7",
                "impersonate-user: ann",
                "x-forwarded-host: plane:6443",
                "x-forwarded-proto: https",
                "x-forwarded-uri: /p",
            ]
        );
        assert_eq!(left, ["ops"]);
        let nothing = Impersonable::default();
        let (got, left) = outbound(&HeaderMap::new(), &identity, &nothing, "/p");
        assert!(got.get("impersonate-uid").is_none() && got.get("impersonate-group").is_none());
        assert_eq!(
            left_out(&left, "m1").unwrap(),
            "299 - \"groups devs, ops were not passed on to m1: no ClusterRoleBinding to clusters/proxy names them\""
        );
        assert_eq!(left_out(&[], "m1"), None);
    }
}
