//! Certificates and tokens that expire soon (specification/operations.md 10.5): of the kubeconfig that is used, and
//! those in Secrets that the control plane holds for its webhooks and its members.

use std::{fs, sync::Arc};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ironclad_api::{
    cluster::Cluster,
    namespaces::{self, SECRET_TOKEN},
};
use ironclad_runtime::Api;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt as _, config::Kubeconfig};
use x509_parser::pem::Pem;

use ironclad_fleet::count::count;
use ironclad_planning::doctor::{Finding, Grade};

/// Remaining time below which a certificate is reported: automatic renewal happens earlier.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);
/// The Secret of the webhooks of `run`.
const WEBHOOKS: &str = "ironclad-webhook-certificates";

/// Content of a PEM text, which decides when it expires.
#[derive(Debug, Clone, Copy)]
enum PemContent {
    /// A certificate, perhaps with those that signed it behind: when the first ends.
    Leaf,
    /// Trusted authorities: the last expiry counts, since a new authority is trusted beside the old one for a while.
    Authorities,
}

/// The certificates of the context that is used.
pub(super) fn of_kubeconfig(kubeconfig: &Kubeconfig, context: Option<&str>, now: Timestamp) -> Vec<Finding> {
    let name = context.or(kubeconfig.current_context.as_deref()).unwrap_or_default();
    let used = kubeconfig.contexts.iter().find(|c| c.name == name).and_then(|c| c.context.as_ref());
    let Some(used) = used else { return Vec::new() };
    let user = kubeconfig.auth_infos.iter().find(|u| Some(&u.name) == used.user.as_ref());
    let user = user.and_then(|user| user.auth_info.as_ref());
    let client = user.and_then(|u| pem(u.client_certificate_data.as_deref(), u.client_certificate.as_deref()));
    let server = kubeconfig.clusters.iter().find(|c| c.name == used.cluster).and_then(|c| c.cluster.as_ref());
    let server = server.and_then(|c| pem(c.certificate_authority_data.as_deref(), c.certificate_authority.as_deref()));
    let whose = |what: &str| format!("the {what} of context {name} in the kubeconfig");
    let remedy = "a new kubeconfig (`ironclad up` renews its own when it starts)";
    let client = client.and_then(|pem| finding(&whose("client certificate"), &pem, PemContent::Leaf, remedy, now));
    let server =
        server.and_then(|pem| finding(&whose("certificate authority"), &pem, PemContent::Authorities, remedy, now));
    client.into_iter().chain(server).collect()
}

fn pem(data: Option<&str>, file: Option<&str>) -> Option<Vec<u8>> {
    match (data, file) {
        (Some(data), _) => STANDARD.decode(data).ok(),
        (None, Some(file)) => fs::read(file).ok(),
        (None, None) => None,
    }
}

/// Checks the certificates in Secrets. Without permission to read them nothing is reported.
pub(super) async fn of_secrets(
    plane: &Client,
    clusters: impl Iterator<Item = &Arc<Cluster>>,
    now: Timestamp,
) -> Vec<Finding> {
    let webhooks =
        (namespaces::SYSTEM.to_owned(), WEBHOOKS.to_owned(), "the webhooks".to_owned(), "restart `ironclad run`");
    let members = clusters.filter_map(|cluster| {
        let (name, reference) = (cluster.name_any(), cluster.spec.secret_ref.as_ref()?);
        let whose = format!("cluster {name}");
        Some((reference.namespace.clone(), reference.name.clone(), whose, "ironclad join it anew"))
    });
    let mut found = Vec::new();
    for (namespace, name, whose, remedy) in std::iter::once(webhooks).chain(members) {
        let secrets: Api<Secret> = Api::namespaced(plane.clone(), &namespace);
        if let Ok(Some(secret)) = secrets.get_opt(&name).await {
            found.extend(of_secret(&secret, &whose, remedy, now));
        }
    }
    found
}

fn of_secret(secret: &Secret, whose: &str, remedy: &str, now: Timestamp) -> Vec<Finding> {
    let data = secret.data.as_ref();
    let one = |key: &str, what: &str, content: PemContent| {
        finding(&format!("the {what} of {whose}"), &data?.get(key)?.0, content, remedy, now)
    };
    let all = [
        one("tls.crt", "certificate", PemContent::Leaf),
        one("ca-bundle.crt", "certificate authority", PemContent::Authorities),
        one("caBundle", "certificate authority", PemContent::Authorities),
    ];
    let token = data.and_then(|data| data.get(SECRET_TOKEN)).and_then(|token| token_expiry(&token.0));
    let token = token.and_then(|ends| expiring(&format!("the token of {whose}"), ends, remedy, now));
    all.into_iter().flatten().chain(token).collect()
}

/// Expiry of a ServiceAccount token, a JWT; `None` if it does not expire.
fn token_expiry(token: &[u8]) -> Option<Timestamp> {
    let claims = token.split(|byte| *byte == b'.').nth(1)?;
    let claims: serde_json::Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    Timestamp::from_second(claims.get("exp")?.as_i64()?).ok()
}

fn finding(whose: &str, pem: &[u8], content: PemContent, remedy: &str, now: Timestamp) -> Option<Finding> {
    expiring(whose, ends(pem, content)?, remedy, now)
}

fn expiring(whose: &str, ends: Timestamp, remedy: &str, now: Timestamp) -> Option<Finding> {
    let left = ends.duration_since(now);
    if left >= SOON {
        return None;
    }
    let at = ends.strftime("%Y-%m-%d");
    let found = if left.is_positive() {
        let left = match left.as_hours() {
            hours @ ..48 => count(hours, "hour"),
            hours => format!("{} days", hours / 24),
        };
        Finding::new(Grade::Warning, format!("{whose} ends in {left}, on {at}"))
    } else {
        Finding::new(Grade::Broken, format!("{whose} expired on {at}"))
    };
    Some(found.remedy(remedy))
}

fn ends(pem: &[u8], content: PemContent) -> Option<Timestamp> {
    let mut all = Pem::iter_from_buffer(pem).filter_map(|one| {
        let one = one.ok()?;
        let ends = one.parse_x509().ok()?.validity().not_after.timestamp();
        Timestamp::from_second(ends).ok()
    });
    match content {
        PemContent::Leaf => all.next(),
        PemContent::Authorities => all.max(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use kube::config::{AuthInfo, Context, NamedAuthInfo, NamedContext};

    use super::*;

    /// A certificate that ends in the first hour of this day of 2026.
    fn ending(month: u8, day: u8) -> String {
        let mut params = rcgen::CertificateParams::new(vec!["x".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2025, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, month, day);
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem()
    }

    fn now() -> Timestamp {
        "2026-02-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn certificates_that_expire_within_two_weeks_are_found() {
        let (old, soon, late) = (ending(1, 31), ending(2, 14), ending(2, 15));
        let both = |first: &str, second: &str| format!("{first}{second}");
        for (name, pem, content, want) in [
            ("two weeks left", late.clone(), PemContent::Leaf, None),
            ("less than two weeks left", soon.clone(), PemContent::Leaf, Some("x ends in 13 days, on 2026-02-14")),
            ("expired", old.clone(), PemContent::Leaf, Some("x expired on 2026-01-31")),
            ("the first certificate of a chain counts", both(&late, &old), PemContent::Leaf, None),
            ("an expiring authority has a successor", both(&old, &late), PemContent::Authorities, None),
            (
                "the successor expires too",
                both(&old, &soon),
                PemContent::Authorities,
                Some("x ends in 13 days, on 2026-02-14"),
            ),
            ("no certificate", "nothing".to_owned(), PemContent::Leaf, None),
        ] {
            let found = finding("x", pem.as_bytes(), content, "try", now());
            assert_eq!(found.as_ref().map(|finding| finding.what.as_str()), want, "{name}");
            let over = want.is_some_and(|want| want.contains("expired"));
            assert_eq!(found.is_some_and(|finding| finding.grade == Grade::Broken), over, "{name}");
        }
    }

    #[test]
    fn certificates_of_the_current_context_and_of_secrets_are_checked() {
        let user = |name: &str, pem: &str| NamedAuthInfo {
            name: name.to_owned(),
            auth_info: Some(AuthInfo { client_certificate_data: Some(STANDARD.encode(pem)), ..AuthInfo::default() }),
            ..NamedAuthInfo::default()
        };
        let context = |name: &str| NamedContext {
            name: name.to_owned(),
            context: Some(Context { user: Some(name.to_owned()), ..Context::default() }),
            ..NamedContext::default()
        };
        let file = Kubeconfig {
            contexts: vec![context("a"), context("b")],
            auth_infos: vec![user("a", &ending(2, 3)), user("b", &ending(12, 1))],
            current_context: Some("b".to_owned()),
            ..Kubeconfig::default()
        };
        let found = |context| of_kubeconfig(&file, context, now()).into_iter().map(|f| f.what).collect::<Vec<_>>();
        assert_eq!(found(None), Vec::<String>::new());
        let want = "the client certificate of context a in the kubeconfig ends in 2 days, on 2026-02-03";
        assert_eq!(found(Some("a")), [want]);
        let data = [("tls.crt", ending(2, 3)), ("caBundle", ending(12, 1)), ("token", "t".to_owned())];
        let data = data.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes()))).collect();
        let secret = Secret { data: Some(data), ..Secret::default() };
        let found = of_secret(&secret, "cluster m1", "try", now());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].what, "the certificate of cluster m1 ends in 2 days, on 2026-02-03");
    }

    #[test]
    fn expiring_tokens_are_found() {
        let token = |claims: &str| format!("header.{}.signature", URL_SAFE_NO_PAD.encode(claims));
        let at = |time: &str| time.parse::<Timestamp>().unwrap().as_second();
        for (name, token, want) in [
            (
                "hours",
                token(&format!(r#"{{"exp": {}}}"#, at("2026-02-01T10:00:00Z"))),
                Some("ends in 10 hours, on 2026-02-01"),
            ),
            (
                "days",
                token(&format!(r#"{{"exp": {}}}"#, at("2026-02-02T01:00:00Z"))),
                Some("ends in 25 hours, on 2026-02-02"),
            ),
            ("over", token(&format!(r#"{{"exp": {}}}"#, at("2026-01-31T00:00:00Z"))), Some("expired on 2026-01-31")),
            ("far away", token(&format!(r#"{{"exp": {}}}"#, at("2027-01-31T00:00:00Z"))), None),
            ("without an expiry", token(r#"{"sub": "system:serviceaccount:a:b"}"#), None),
            ("no JWT", "opaque".to_owned(), None),
            ("broken", "a.!!.c".to_owned(), None),
        ] {
            let data = [("token".to_owned(), ByteString(token.into_bytes()))].into_iter().collect();
            let found = of_secret(&Secret { data: Some(data), ..Secret::default() }, "cluster m1", "try", now());
            let want = want.map(|want| format!("the token of cluster m1 {want}"));
            assert_eq!(found.first().map(|found| found.what.clone()), want, "{name}");
        }
    }
}
