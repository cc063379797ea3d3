//! Secrets of bootstrap tokens: what `create` writes, and the rows of `list`.

use std::collections::BTreeMap;

use ironclad_api::{
    agents::{BOOTSTRAP_GROUP, TOKEN_CLUSTER_NAME, TOKEN_SECRET_PREFIX, TOKEN_SECRET_TYPE},
    namespaces::KUBE_SYSTEM,
};
use ironclad_planning::evicted::span;
use jiff::{Timestamp, Unit};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::api::ObjectMeta;

use super::BootstrapToken;
use crate::report::Misused;

/// Usages of a token, each with the key that allows it.
const USAGES: [(&str, &str); 2] =
    [("authentication", "usage-bootstrap-authentication"), ("signing", "usage-bootstrap-signing")];
/// Beginning of the groups that a token may have.
const GROUP_PREFIX: &str = "system:bootstrappers:";
/// Longest group behind that beginning, in characters.
const GROUP_LENGTH_MAX: usize = 256;
const ID: &str = "token-id";
const SECRET: &str = "token-secret";
const EXPIRATION: &str = "expiration";
const GROUPS: &str = "auth-extra-groups";
const DESCRIPTION: &str = "description";

/// A token to create (specification/operations.md 2.6).
#[derive(Debug, Clone)]
pub struct NewToken {
    /// The token.
    pub token: BootstrapToken,
    /// End of its life; `None` if it has none.
    pub expires: Option<Timestamp>,
    /// Its usages: `signing`, `authentication`.
    pub usages: Vec<String>,
    /// Groups of those who authenticate with it, besides `system:bootstrappers`.
    pub groups: Vec<String>,
    /// Text for people, empty if there is none.
    pub description: String,
    /// The only cluster that it registers; `None` for any.
    pub cluster: Option<String>,
}

impl NewToken {
    /// A token with the defaults of the command line.
    #[must_use]
    pub fn new(token: BootstrapToken, expires: Option<Timestamp>) -> Self {
        Self {
            token,
            expires,
            usages: USAGES.map(|(usage, _)| usage.to_owned()).to_vec(),
            groups: vec![BOOTSTRAP_GROUP.to_owned()],
            description: String::new(),
            cluster: None,
        }
    }
}

/// Name of the Secret of a token.
pub(super) fn name(id: &str) -> String {
    format!("{TOKEN_SECRET_PREFIX}{id}")
}

/// The Secret of a token.
///
/// # Errors
/// If a usage or a group is none that a token can have.
pub fn secret(new: &NewToken) -> Result<Secret, Misused> {
    let mut data = BTreeMap::from([
        (ID.to_owned(), new.token.id().to_owned()),
        (SECRET.to_owned(), new.token.secret().to_owned()),
    ]);
    if let Some(expires) = new.expires {
        data.insert(EXPIRATION.to_owned(), seconds(expires));
    }
    for usage in &new.usages {
        let known = USAGES.iter().find(|(name, _)| name == usage);
        let (_, key) = known.ok_or_else(|| {
            Misused(format!(
                "usage {usage:?} can't be used\n  because there is no such usage\n  try: signing,authentication"
            ))
        })?;
        data.insert((*key).to_owned(), "true".to_owned());
    }
    if let Some(group) = new.groups.iter().find(|group| !is_group(group)) {
        return Err(Misused(format!(
            "group {group:?} can't be used\n  because a token has only groups {GROUP_PREFIX}NAME, with a-z, 0-9, ':' and '-'\n  \
             try: --groups {BOOTSTRAP_GROUP}"
        )));
    }
    let authenticates = new.usages.iter().any(|usage| usage == "authentication");
    if !new.groups.is_empty() && authenticates {
        data.insert(GROUPS.to_owned(), new.groups.join(","));
    }
    if !new.description.is_empty() {
        data.insert(DESCRIPTION.to_owned(), new.description.clone());
    }
    data.extend(new.cluster.iter().map(|cluster| (TOKEN_CLUSTER_NAME.to_owned(), cluster.clone())));
    let metadata = ObjectMeta {
        name: Some(name(new.token.id())),
        namespace: Some(KUBE_SYSTEM.to_owned()),
        ..ObjectMeta::default()
    };
    let data = data.into_iter().map(|(key, text)| (key, ByteString(text.into_bytes()))).collect();
    Ok(Secret { metadata, type_: Some(TOKEN_SECRET_TYPE.to_owned()), data: Some(data), ..Secret::default() })
}

/// A time as the Secret has it: RFC 3339 in UTC, whole seconds.
fn seconds(at: Timestamp) -> String {
    at.round(Unit::Second).unwrap_or(at).to_string()
}

fn is_group(group: &str) -> bool {
    let Some(name) = group.strip_prefix(GROUP_PREFIX) else { return false };
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b':' || byte == b'-';
    let last = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= GROUP_LENGTH_MAX && name.bytes().all(inner) && name.as_bytes().last().is_some_and(last)
}

/// Columns of the list of tokens: those of kubeadm, and the only cluster that a token registers.
pub(super) const COLUMNS: [&str; 7] = ["TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS", "CLUSTER"];

/// Display of secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrets {
    Show,
    Hide,
}

/// The row of a token; `None` for a Secret that is none.
pub(super) fn row(secret: &Secret, now: Timestamp, secrets: Secrets) -> Option<Vec<String>> {
    let text = |key: &str| {
        let bytes = secret.data.as_ref()?.get(key)?;
        String::from_utf8(bytes.0.clone()).ok().filter(|text| !text.is_empty())
    };
    if secret.type_.as_deref() != Some(TOKEN_SECRET_TYPE) {
        return None;
    }
    let id = text(ID)?;
    let own = match secrets {
        Secrets::Show => text(SECRET)?,
        Secrets::Hide => "****".to_owned(),
    };
    let (left, expires) = match text(EXPIRATION) {
        None => ("<forever>".to_owned(), "<never>".to_owned()),
        Some(at) => match at.parse::<Timestamp>() {
            Ok(end) if end <= now => ("<expired>".to_owned(), at),
            Ok(end) => (span(now, end), at),
            Err(_) => ("<invalid>".to_owned(), at),
        },
    };
    let none = || "<none>".to_owned();
    let usages = USAGES.iter().filter(|(_, key)| text(key).as_deref() == Some("true"));
    let usages: Vec<&str> = usages.map(|(usage, _)| *usage).collect();
    let usages = if usages.is_empty() { none() } else { usages.join(",") };
    let cluster = text(TOKEN_CLUSTER_NAME).unwrap_or_else(none);
    let (description, groups) = (text(DESCRIPTION).unwrap_or_else(none), text(GROUPS).unwrap_or_else(none));
    Some(vec![format!("{id}.{own}"), left, expires, usages, description, groups, cluster])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-29T20:00:00Z".parse().unwrap()
    }

    fn token() -> NewToken {
        NewToken::new("abcdef.0123456789abcdef".parse().unwrap(), Some("2026-11-30T20:00:00.9Z".parse().unwrap()))
    }

    #[test]
    fn secrets_have_the_keys_of_kubernetes() {
        let new = NewToken { description: "for m1".into(), cluster: Some("m1".into()), ..token() };
        let made = secret(&new).unwrap();
        let data: Vec<String> = made
            .data
            .iter()
            .flatten()
            .map(|(key, bytes)| format!("{key}={}", String::from_utf8_lossy(&bytes.0)))
            .collect();
        assert_eq!(
            data,
            [
                "auth-extra-groups=system:bootstrappers:karmada:default-cluster-token",
                "description=for m1",
                "expiration=2026-11-30T20:00:01Z",
                "ironclad-cluster-name=m1",
                "token-id=abcdef",
                "token-secret=0123456789abcdef",
                "usage-bootstrap-authentication=true",
                "usage-bootstrap-signing=true",
            ]
        );
        assert_eq!(made.metadata.name.as_deref(), Some("bootstrap-token-abcdef"));
        assert_eq!(made.type_.as_deref(), Some("bootstrap.kubernetes.io/token"));
        let bare = NewToken { expires: None, usages: vec!["signing".into()], ..token() };
        let keys: Vec<String> = secret(&bare).unwrap().data.unwrap().into_keys().collect();
        assert_eq!(keys, ["token-id", "token-secret", "usage-bootstrap-signing"]);
    }

    #[test]
    fn usages_and_groups_are_checked() {
        for (usages, groups, want) in [
            (vec!["signing"], vec!["system:bootstrappers:a"], None),
            (vec!["signing", "drawing"], vec![], Some("usage \"drawing\"")),
            (vec![], vec!["system:masters"], Some("group \"system:masters\"")),
            (vec![], vec!["system:bootstrappers:"], Some("group")),
            (vec![], vec!["system:bootstrappers:a-"], Some("group")),
            (vec![], vec!["system:bootstrappers:A"], Some("group")),
        ] {
            let all = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            let made = secret(&NewToken { usages: all(&usages), groups: all(&groups), ..token() });
            let error = made.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(want.unwrap_or_default()) && error.is_empty() == want.is_none(), "{error}");
        }
    }

    #[test]
    fn rows_of_tokens() {
        let made = |new: &NewToken| secret(new).unwrap();
        let groups = "system:bootstrappers:karmada:default-cluster-token";
        let both = "authentication,signing";
        let end = "2026-11-30T20:00:01Z";
        let shown = "abcdef.0123456789abcdef";
        for (name, secret, secrets, want) in [
            ("hidden", made(&token()), Secrets::Hide, ["abcdef.****", "1d0h", end, both, "<none>", groups, "<none>"]),
            ("shown", made(&token()), Secrets::Show, [shown, "1d0h", end, both, "<none>", groups, "<none>"]),
            (
                "for ever, for one cluster",
                made(&NewToken {
                    expires: None,
                    cluster: Some("m1".into()),
                    description: "text".into(),
                    usages: vec!["signing".into()],
                    ..token()
                }),
                Secrets::Hide,
                ["abcdef.****", "<forever>", "<never>", "signing", "text", "<none>", "m1"],
            ),
            (
                "expired",
                made(&NewToken { expires: Some(now()), usages: vec![], ..token() }),
                Secrets::Hide,
                ["abcdef.****", "<expired>", "2026-11-29T20:00:00Z", "<none>", "<none>", "<none>", "<none>"],
            ),
        ] {
            assert_eq!(row(&secret, now(), secrets).unwrap(), want, "{name}");
        }
        assert_eq!(row(&Secret::default(), now(), Secrets::Hide), None);
    }
}
