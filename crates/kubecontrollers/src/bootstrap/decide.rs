//! Bootstrap tokens that may sign, the signatures that ConfigMap `cluster-info` lacks, and the end of a token.

use std::{borrow::Borrow, collections::BTreeMap};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ironclad_patch::decode::time;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use ring::hmac;
use serde_json::{Value, json};

use super::names::SECRET_TYPE;

const SECRET_PREFIX: &str = "bootstrap-token-";
const ID_LENGTH: usize = 6;
/// Key of the ConfigMap whose text is signed.
const KUBECONFIG: &str = "kubeconfig";
/// Prefix of the keys of signatures; the id of the token follows.
const SIGNATURE_PREFIX: &str = "jws-kubeconfig-";

/// Changes of the signatures.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Merge patch of the ConfigMap; `None` if its signatures are as they should be.
    pub(super) patch: Option<Value>,
    /// Earliest end of a token that signs.
    pub(super) again: Option<Timestamp>,
}

fn data<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    secret.data.as_ref()?.get(key).map(|bytes| bytes.0.as_slice()).filter(|bytes| !bytes.is_empty())
}

/// End of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expiration {
    Never,
    At(Timestamp),
    /// It is not RFC 3339: the token is as invalid as an expired one.
    Unreadable,
}

/// The end of the token in this Secret.
pub(super) fn expiration(secret: &Secret) -> Expiration {
    let Some(bytes) = data(secret, "expiration") else { return Expiration::Never };
    let at = std::str::from_utf8(bytes).ok().and_then(|text| time(text).ok()?.parse().ok());
    at.map_or(Expiration::Unreadable, Expiration::At)
}

/// The time at which the Secret is to be deleted; `None` for one that never ends, has an unreadable end, or is being
/// deleted.
pub(super) fn ends_at(secret: &Secret) -> Option<Timestamp> {
    match expiration(secret) {
        Expiration::At(at) if secret.metadata.deletion_timestamp.is_none() => Some(at),
        _ => None,
    }
}

/// Id and secret of a token that is valid for signing now.
fn signing(secret: &Secret, now: Timestamp) -> Option<(&str, &[u8])> {
    let id = secret.metadata.name.as_deref()?.strip_prefix(SECRET_PREFIX)?;
    let has_form = id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let lives = secret.metadata.deletion_timestamp.is_none()
        && match expiration(secret) {
            Expiration::Never => true,
            Expiration::At(at) => now < at,
            Expiration::Unreadable => false,
        };
    let is_valid = has_form
        && lives
        && secret.type_.as_deref() == Some(SECRET_TYPE)
        && data(secret, "token-id") == Some(id.as_bytes())
        && data(secret, "usage-bootstrap-signing") == Some(b"true");
    is_valid.then_some((id, data(secret, "token-secret")?))
}

/// The signature of a text by a token: a JWS in compact form with detached payload (RFC 7515, appendix F).
fn signature(text: &str, id: &str, secret: &[u8]) -> String {
    let header = URL_SAFE_NO_PAD.encode(format!("{{\"alg\":\"HS256\",\"kid\":\"{id}\"}}"));
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(text));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
}

/// The signatures that the ConfigMap lacks or has too many. One without a kubeconfig, or that is being deleted, stays
/// as it is.
pub(super) fn signatures(info: &ConfigMap, secrets: &[impl Borrow<Secret>], now: Timestamp) -> Plan {
    let present = info.data.clone().unwrap_or_default();
    let Some(text) = present.get(KUBECONFIG).filter(|_| info.metadata.deletion_timestamp.is_none()) else {
        return Plan { patch: None, again: None };
    };
    let (mut wanted, mut again) = (BTreeMap::new(), None::<Timestamp>);
    for secret in secrets.iter().map(Borrow::borrow) {
        let Some((id, key)) = signing(secret, now) else { continue };
        wanted.insert(format!("{SIGNATURE_PREFIX}{id}"), signature(text, id, key));
        again = again.into_iter().chain(ends_at(secret)).min();
    }
    let surplus = present.keys().filter(|key| key.starts_with(SIGNATURE_PREFIX) && !wanted.contains_key(*key));
    let removed = surplus.map(|key| (key.clone(), Value::Null));
    let lacking = wanted.iter().filter(|(key, signature)| present.get(*key) != Some(*signature));
    let lacking = lacking.map(|(key, signature)| (key.clone(), json!(signature)));
    let changes: serde_json::Map<String, Value> = removed.chain(lacking).collect();
    Plan { patch: (!changes.is_empty()).then(|| json!({ "data": changes })), again }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use kube::api::ObjectMeta;

    use super::*;
    use crate::testkit::at;

    /// The Secret of token `abcdef` with some keys changed, or left out if empty.
    fn secret(changes: &[(&str, &str)]) -> Secret {
        named("bootstrap-token-abcdef", changes)
    }

    fn named(name: &str, changes: &[(&str, &str)]) -> Secret {
        let whole = [
            ("token-id", name.trim_start_matches(SECRET_PREFIX)),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-signing", "true"),
        ];
        let data: BTreeMap<String, ByteString> = whole
            .iter()
            .chain(changes)
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
            .collect();
        Secret {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            type_: Some(SECRET_TYPE.to_owned()),
            data: Some(data),
            ..Secret::default()
        }
    }

    fn info(data: &[(&str, &str)]) -> ConfigMap {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        ConfigMap { data: Some(data), ..ConfigMap::default() }
    }

    const SIGNED: &str = "jws-kubeconfig-abcdef";
    /// Made with openssl: HMAC-SHA256 of `<header>.aGVsbG8`.
    const OF_HELLO: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..MxsnbCjBaYzcbNIFa06F-wuF9LX26rhMlrL4zA1511s";

    #[test]
    fn signature_is_a_jws_with_detached_payload() {
        let signed = signature("hello", "abcdef", b"0123456789abcdef");
        assert_eq!(signed, OF_HELLO);
        let (header, _) = signed.split_once("..").unwrap();
        assert_eq!(URL_SAFE_NO_PAD.decode(header).unwrap(), br#"{"alg":"HS256","kid":"abcdef"}"#);
    }

    #[test]
    fn tokens_that_sign() {
        let mut deleted = secret(&[]);
        deleted.metadata.deletion_timestamp = Some(serde_json::from_value(json!("1970-01-01T00:00:01Z")).unwrap());
        let mut opaque = secret(&[]);
        opaque.type_ = Some("Opaque".to_owned());
        for (name, secret, is_signed, again) in [
            ("forever", secret(&[]), true, None),
            ("before its end", secret(&[("expiration", "1970-01-01T00:01:41Z")]), true, Some(101)),
            ("at its end", secret(&[("expiration", "1970-01-01T00:01:40Z")]), false, None),
            ("an unreadable end", secret(&[("expiration", "tomorrow")]), false, None),
            ("not for signing", secret(&[("usage-bootstrap-signing", "yes")]), false, None),
            ("another id", secret(&[("token-id", "abcdee")]), false, None),
            ("without secret", secret(&[("token-secret", "")]), false, None),
            ("a name of another form", named("bootstrap-token-ABCDEF", &[]), false, None),
            ("another name", named("token-abcdef", &[("token-id", "abcdef")]), false, None),
            ("being deleted", deleted, false, None),
            ("another type", opaque, false, None),
        ] {
            let plan = signatures(&info(&[("kubeconfig", "hello")]), &[secret], at(100));
            let patch = is_signed.then(|| json!({"data": {SIGNED: OF_HELLO}}));
            assert_eq!(plan, Plan { patch, again: again.map(at) }, "{name}");
        }
    }

    #[test]
    fn signatures_are_of_the_present_tokens_and_text() {
        let of_other = signature("other", "abcdef", b"0123456789abcdef");
        let (one, none): (&[Secret], &[Secret]) = (&[secret(&[])], &[]);
        for (name, present, secrets, want) in [
            ("as it should be", vec![("kubeconfig", "hello"), (SIGNED, OF_HELLO)], one, None),
            (
                "a changed text",
                vec![("kubeconfig", "other"), (SIGNED, OF_HELLO)],
                one,
                Some(json!({"data": {SIGNED: of_other}})),
            ),
            (
                "a removed token",
                vec![("kubeconfig", "hello"), (SIGNED, OF_HELLO), ("note", "mine")],
                none,
                Some(json!({"data": {SIGNED: null}})),
            ),
            (
                "a removed and a new one",
                vec![("kubeconfig", "hello"), ("jws-kubeconfig-gone00", "x")],
                one,
                Some(json!({"data": {SIGNED: OF_HELLO, "jws-kubeconfig-gone00": null}})),
            ),
            ("nothing to sign", vec![(SIGNED, "x")], one, None),
            ("nothing at all", vec![], none, None),
        ] {
            assert_eq!(signatures(&info(&present), secrets, at(100)).patch, want, "{name}");
        }
    }

    #[test]
    fn ends_of_secrets() {
        let mut deleted = secret(&[("expiration", "1970-01-01T00:01:40Z")]);
        deleted.metadata.deletion_timestamp = Some(serde_json::from_value(json!("1970-01-01T00:00:01Z")).unwrap());
        for (name, secret, want) in [
            ("forever", secret(&[]), None),
            ("an empty end", secret(&[("expiration", "")]), None),
            ("an end", secret(&[("expiration", "1970-01-01T00:01:40Z")]), Some(100)),
            ("elsewhere", secret(&[("expiration", "1970-01-01T01:01:40+01:00")]), Some(100)),
            ("an unreadable end", secret(&[("expiration", "1970-01-01")]), None),
            ("of another use", secret(&[("expiration", "1970-01-01T00:01:40Z"), ("token-id", "x")]), Some(100)),
            ("being deleted", deleted, None),
        ] {
            assert_eq!(ends_at(&secret), want.map(at), "{name}");
        }
    }
}
