//! Bootstrap tokens: `<id>.<secret>`, kept in Secrets `kube-system/bootstrap-token-<id>`, with which members are
//! registered (specification/operations.md 10.4).

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ironclad_patch::decode::time;
use jiff::Timestamp;
use serde_json::Value;

use crate::{AUTHENTICATED, Identity, object, state::State};

use super::bearer::same;

const NAMESPACE: &str = "kube-system";
const SECRET_PREFIX: &str = "bootstrap-token-";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const USER_PREFIX: &str = "system:bootstrap:";
const GROUP: &str = "system:bootstrappers";
const EXTRA_GROUP_PREFIX: &str = "system:bootstrappers:";
/// Maximum length of an extra group after its prefix.
const EXTRA_GROUP_MAX: usize = 256;
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;

/// Id and secret of a bearer token of the form of bootstrap tokens.
#[derive(Clone, Copy)]
pub(super) struct BootstrapToken<'a> {
    id: &'a str,
    secret: &'a str,
}

impl<'a> BootstrapToken<'a> {
    /// `None` for a token of another form.
    pub(super) fn parse(token: &'a str) -> Option<Self> {
        let (id, secret) = token.split_once('.')?;
        let is = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        (is(id, ID_LENGTH) && is(secret, SECRET_LENGTH)).then_some(Self { id, secret })
    }

    /// The user of the token; `None` if it is not valid now. Each use is logged with the id, refusals for debugging
    /// only, since anybody knows ids.
    pub(super) fn identity(self, state: &State) -> Option<Identity> {
        let secret = state.builtin_object("", "secrets", NAMESPACE, &format!("{SECRET_PREFIX}{}", self.id))?;
        match groups(&secret, self, state.seam.clock.wall()) {
            Ok(groups) => {
                tracing::info!(id = self.id, "a bootstrap token was used");
                let user = format!("{USER_PREFIX}{}", self.id);
                Some(Identity::known(user, String::new(), groups, BTreeMap::new()))
            }
            Err(why) => {
                tracing::debug!(id = self.id, why, "a bootstrap token was refused");
                None
            }
        }
    }
}

/// The groups of a token with this Secret, sorted, `system:authenticated` last; or the reason why it is not valid,
/// which only the log says.
fn groups(secret: &Value, token: BootstrapToken<'_>, now: Timestamp) -> Result<Vec<String>, &'static str> {
    let data = |key: &str| -> Option<Vec<u8>> {
        let encoded = secret.get("data")?.get(key)?.as_str()?;
        STANDARD.decode(encoded).ok().filter(|bytes| !bytes.is_empty())
    };
    let text = |key: &str| data(key).map(String::from_utf8).transpose();
    if !object::meta_str(secret, "deletionTimestamp").is_empty() {
        return Err("its Secret is being deleted");
    }
    if secret["type"] != SECRET_TYPE {
        return Err("its Secret has another type");
    }
    if !same(&data("token-secret").unwrap_or_default(), token.secret.as_bytes()) {
        return Err("the secret is wrong");
    }
    if data("token-id").as_deref() != Some(token.id.as_bytes()) {
        return Err("its Secret has another token-id");
    }
    let expiration = text("expiration").map_err(|_| "its expiration is not RFC 3339")?;
    if let Some(expiration) = expiration {
        let whole = time(&expiration).map_err(|_| "its expiration is not RFC 3339")?;
        let end: Timestamp = whole.parse().map_err(|_| "its expiration is not RFC 3339")?;
        if end <= now {
            return Err("it has expired");
        }
    }
    if data("usage-bootstrap-authentication").as_deref() != Some(b"true") {
        return Err("usage-bootstrap-authentication is not \"true\"");
    }
    let mut groups = BTreeSet::from([GROUP.to_owned()]);
    let extra = text("auth-extra-groups").map_err(|_| "auth-extra-groups is not text")?;
    for group in extra.iter().flat_map(|extra| extra.split(',')) {
        if !is_extra_group(group) {
            return Err("auth-extra-groups has a group that is not allowed");
        }
        groups.insert(group.to_owned());
    }
    Ok(groups.into_iter().chain([AUTHENTICATED.to_owned()]).collect())
}

/// True for `system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]`.
fn is_extra_group(group: &str) -> bool {
    let Some(name) = group.strip_prefix(EXTRA_GROUP_PREFIX) else { return false };
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=EXTRA_GROUP_MAX).contains(&name.len())
        && name.bytes().all(|byte| is_end(byte) || matches!(byte, b':' | b'-'))
        && name.bytes().last().is_some_and(is_end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TOKEN: &str = "abcdef.0123456789abcdef";

    #[test]
    fn only_tokens_of_the_form_are_bootstrap_tokens() {
        for (token, is) in [
            (TOKEN, true),
            ("abcdef.0123456789abcde", false),
            ("abcdef.0123456789abcdefg", false),
            ("abcde.0123456789abcdef", false),
            ("Abcdef.0123456789abcdef", false),
            ("abcdef.0123456789abcde-", false),
            ("abcdef.0123456789abcdef.x", false),
            ("abcdef-0123456789abcdef", false),
            (".", false),
            ("", false),
        ] {
            assert_eq!(BootstrapToken::parse(token).is_some(), is, "{token}");
        }
    }

    /// The Secret of [`TOKEN`] with some keys changed, or left out if `null`.
    fn secret(changes: &[(&str, Value)]) -> Value {
        let mut data = serde_json::Map::new();
        let whole = [
            ("token-id", json!("abcdef")),
            ("token-secret", json!("0123456789abcdef")),
            ("usage-bootstrap-authentication", json!("true")),
        ];
        for (key, value) in whole.into_iter().chain(changes.iter().cloned()) {
            match value.as_str() {
                Some(text) => data.insert(key.to_owned(), json!(STANDARD.encode(text))),
                None => data.remove(key),
            };
        }
        json!({"metadata": {"name": "bootstrap-token-abcdef"}, "type": SECRET_TYPE, "data": data})
    }

    #[test]
    fn groups_of_valid_tokens() {
        let token = BootstrapToken::parse(TOKEN).unwrap();
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let of = |key: &'static str, value: Value| secret(&[(key, value)]);
        let known = |extra: &[&str]| {
            let groups = [&["system:bootstrappers"], extra, &["system:authenticated"]].concat();
            Ok(groups.into_iter().map(str::to_owned).collect::<Vec<_>>())
        };
        let mut deleted = secret(&[]);
        deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut opaque = secret(&[]);
        opaque["type"] = json!("Opaque");
        let mut unreadable = secret(&[]);
        unreadable["data"]["token-secret"] = json!("***");
        let long = |length: usize| json!(format!("system:bootstrappers:{}", "a".repeat(length)));
        let (expiration, extra) = ("expiration", "auth-extra-groups");
        let (no_time, no_group) =
            ("its expiration is not RFC 3339", "auth-extra-groups has a group that is not allowed");
        for (name, secret, want) in [
            ("a token that never expires", secret(&[]), known(&[])),
            ("before its end", of(expiration, json!("2026-01-01T00:00:01Z")), known(&[])),
            ("before its end, elsewhere", of(expiration, json!("2026-01-01T02:00:01+02:00")), known(&[])),
            ("an empty expiration", of(expiration, json!("")), known(&[])),
            ("at its end", of(expiration, json!("2026-01-01T00:00:00Z")), Err("it has expired")),
            ("after its end", of(expiration, json!("2025-12-31T23:59:59Z")), Err("it has expired")),
            ("a day", of(expiration, json!("2027-01-01")), Err(no_time)),
            ("no time", of(expiration, json!("tomorrow")), Err(no_time)),
            ("being deleted", deleted, Err("its Secret is being deleted")),
            ("another type", opaque, Err("its Secret has another type")),
            ("another secret", of("token-secret", json!("0123456789abcdee")), Err("the secret is wrong")),
            ("a longer secret", of("token-secret", json!("0123456789abcdef0")), Err("the secret is wrong")),
            ("no secret", of("token-secret", Value::Null), Err("the secret is wrong")),
            ("an unreadable secret", unreadable, Err("the secret is wrong")),
            ("another id", of("token-id", json!("abcdee")), Err("its Secret has another token-id")),
            ("no id", of("token-id", Value::Null), Err("its Secret has another token-id")),
            (
                "only for signing",
                of("usage-bootstrap-authentication", Value::Null),
                Err("usage-bootstrap-authentication is not \"true\""),
            ),
            (
                "a usage that is not exactly true",
                of("usage-bootstrap-authentication", json!("True")),
                Err("usage-bootstrap-authentication is not \"true\""),
            ),
            (
                "extra groups",
                of(extra, json!("system:bootstrappers:z,system:bootstrappers:a:b-1,system:bootstrappers:z")),
                known(&["system:bootstrappers:a:b-1", "system:bootstrappers:z"]),
            ),
            ("no extra groups", of(extra, json!("")), known(&[])),
            ("a long group", of(extra, long(256)), known(&[long(256).as_str().unwrap()])),
            ("too long a group", of(extra, long(257)), Err(no_group)),
            ("a group of others", of(extra, json!("system:bootstrappers:a,system:masters")), Err(no_group)),
            ("a group without a name", of(extra, json!("system:bootstrappers:")), Err(no_group)),
            ("a group with a bad end", of(extra, json!("system:bootstrappers:a-")), Err(no_group)),
            ("a group with a space", of(extra, json!("system:bootstrappers:a, system:bootstrappers:b")), Err(no_group)),
            ("an empty group", of(extra, json!("system:bootstrappers:a,")), Err(no_group)),
        ] {
            assert_eq!(groups(&secret, token, now), want, "{name}");
        }
    }
}
