//! Discovery of a control plane by a bootstrap token, in kubeadm's way: the certificate that it is to be recognized by
//! is read without verification, and believed because the token's secret signed it (specification/operations.md 2.5).

use std::{str::FromStr as _, time::Duration};

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use ironclad_api::agents::{CLUSTER_INFO, CLUSTER_INFO_KUBECONFIG, CLUSTER_INFO_SIGNATURE_PREFIX, KUBE_PUBLIC};
use ironclad_runtime::Api;
use ironclad_seam::{Clock, Rng};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, Config, config::Cluster};
use ring::hmac;
use serde::Deserialize;
use serde_json::Value;

use super::{Bootstrap, RegisterError, pins};
use crate::{connect, report::answer, token::BootstrapToken};

/// Interval between attempts, to which up to [`JITTER`] of it is added.
const RETRY: Duration = Duration::from_secs(5);
/// The largest addition to the interval, in percent.
const JITTER: u64 = 30;
/// Timeout of one answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// One attempt that failed.
enum Miss {
    /// Another attempt may succeed, such as when the server is started; with the reason.
    Wait(String),
    /// It can't.
    Never(RegisterError),
}

/// The certificates (PEM) by which the control plane is recognized, proven by the token and, unless that is turned
/// off, by a hash of a public key.
///
/// # Errors
/// If the control plane does not answer in time, does not know the token, or is another one.
pub(super) async fn certificates(
    bootstrap: &Bootstrap,
    clock: &Clock,
    mut report: impl FnMut(&str),
) -> Result<String, RegisterError> {
    let server = bootstrap.server.as_str();
    let insecure = client(server, None).await?;
    let deadline = clock.mono() + bootstrap.timeout;
    let jitter = Rng::from_system().stream("discovery");
    let mut reported = String::new();
    loop {
        let why = match attempt(&insecure, bootstrap).await {
            Ok(certificates) => return Ok(certificates),
            Err(Miss::Never(error)) => return Err(error),
            Err(Miss::Wait(why)) => why,
        };
        if reported != why {
            report(&format!("waiting for {server}: {why}"));
            reported.clone_from(&why);
        }
        let pause = RETRY + RETRY * jitter.below(JITTER) as u32 / 100;
        if clock.mono() + pause > deadline {
            let seconds = bootstrap.timeout.as_secs();
            return Err(RegisterError::NotDiscovered { server: server.to_owned(), seconds, why });
        }
        clock.sleep(pause).await;
    }
}

async fn attempt(insecure: &Client, bootstrap: &Bootstrap) -> Result<String, Miss> {
    let seen = info(insecure).await?;
    let certificates = verified(&seen, &bootstrap.token, &bootstrap.ca_hashes)?;
    let secure = client(&bootstrap.server, Some(&certificates)).await.map_err(Miss::Never)?;
    let again = info(&secure).await?;
    if kubeconfig(&again) != kubeconfig(&seen) {
        return Err(Miss::Wait("the second answer differs from the first".to_owned()));
    }
    Ok(certificates)
}

/// A client without credentials, which verifies the server by these certificates (PEM); `None` does not verify it.
async fn client(server: &str, certificates: Option<&str>) -> Result<Client, RegisterError> {
    let cluster = match certificates {
        Some(pem) => serde_json::json!({"server": server, "certificate-authority-data": BASE64_STANDARD.encode(pem)}),
        None => serde_json::json!({"server": server, "insecure-skip-tls-verify": true}),
    };
    let mut config = super::credentials::config(cluster, serde_json::json!({})).await?;
    limit(&mut config);
    connect::client(config)
        .map_err(|error| RegisterError::Client { server: server.to_owned(), why: format!("{error:#}") })
}

fn limit(config: &mut Config) {
    (config.connect_timeout, config.read_timeout) = (Some(ANSWER_MAX), Some(ANSWER_MAX));
}

async fn info(client: &Client) -> Result<ConfigMap, Miss> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), KUBE_PUBLIC);
    match maps.get_opt(CLUSTER_INFO).await {
        Ok(Some(map)) => Ok(map),
        Ok(None) => Err(Miss::Wait(format!("it has no ConfigMap {KUBE_PUBLIC}/{CLUSTER_INFO}"))),
        Err(error) => Err(Miss::Wait(answer(&error))),
    }
}

fn kubeconfig(map: &ConfigMap) -> Option<&String> {
    map.data.as_ref()?.get(CLUSTER_INFO_KUBECONFIG)
}

/// The certificates (PEM) in the ConfigMap, if the token signed it and one of them has one of the hashes, where there
/// are any.
fn verified(map: &ConfigMap, token: &BootstrapToken, hashes: &[String]) -> Result<String, Miss> {
    let key = format!("{CLUSTER_INFO_SIGNATURE_PREFIX}{}", token.id());
    let signature = map.data.as_ref().and_then(|data| data.get(&key));
    let Some(signature) = signature else {
        return Err(Miss::Wait(format!(
            "it does not know the token {}, or the token is expired or may not sign",
            token.id()
        )));
    };
    let Some(kubeconfig) = kubeconfig(map) else {
        return Err(Miss::Wait(format!("its ConfigMap {KUBE_PUBLIC}/{CLUSTER_INFO} has no kubeconfig")));
    };
    if !is_signed(kubeconfig, signature, token) {
        return Err(Miss::Never(RegisterError::Signature { id: token.id().to_owned() }));
    }
    let Some(certificates) = authority(kubeconfig) else {
        return Err(Miss::Never(RegisterError::NoAuthority));
    };
    let found = pins::of(certificates.as_bytes());
    if !hashes.is_empty() && !found.iter().any(|hash| hashes.contains(hash)) {
        return Err(Miss::Never(RegisterError::Pins { found: found.join(", ") }));
    }
    Ok(certificates)
}

/// Header of a signature.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: String,
}

/// True if the signature, a JWS in compact form without its payload, is of this text and made with the token's secret.
/// The comparison takes the same time whatever it finds.
fn is_signed(payload: &str, signature: &str, token: &BootstrapToken) -> bool {
    let parts: Vec<&str> = signature.trim().split('.').collect();
    let [header, "", tag] = parts.as_slice() else { return false };
    let read = BASE64_URL_SAFE_NO_PAD.decode(header).ok().and_then(|json| serde_json::from_slice::<Header>(&json).ok());
    if !read.is_some_and(|read| read.alg == "HS256" && read.kid == token.id()) {
        return false;
    }
    let Ok(tag) = BASE64_URL_SAFE_NO_PAD.decode(tag) else { return false };
    let signed = format!("{header}.{}", BASE64_URL_SAFE_NO_PAD.encode(payload));
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.secret().as_bytes());
    hmac::verify(&key, signed.as_bytes(), &tag).is_ok()
}

/// The certificates (PEM) of the first cluster in a kubeconfig (YAML); `None` if there are none.
#[must_use]
pub fn authority(kubeconfig: &str) -> Option<String> {
    let pem = BASE64_STANDARD.decode(first_cluster(kubeconfig)?.certificate_authority_data?).ok()?;
    let pem = String::from_utf8(pem).ok()?;
    (!pins::of(pem.as_bytes()).is_empty()).then_some(pem)
}

/// The first cluster in a kubeconfig (YAML). That of Karmada's ConfigMap `cluster-info` has no name, so that it is no
/// whole kubeconfig.
pub(crate) fn first_cluster(kubeconfig: &str) -> Option<Cluster> {
    let kubeconfig: Value = serde_saphyr::from_str(kubeconfig).ok()?;
    serde_json::from_value(kubeconfig.pointer("/clusters/0/cluster")?.clone()).ok()
}

/// The address of a server from `HOST:PORT`, with or without `https://`.
///
/// # Errors
/// If the text is no such address.
pub fn address(text: &str) -> Result<String, RegisterError> {
    let bare = text.strip_prefix("https://").unwrap_or(text).trim_end_matches('/');
    let fits = http::uri::Authority::from_str(bare)
        .is_ok_and(|authority| authority.port_u16().is_some() && !authority.host().is_empty() && !bare.contains('@'));
    if fits { Ok(format!("https://{bare}")) } else { Err(RegisterError::Address { text: text.to_owned() }) }
}

#[cfg(test)]
pub(super) fn sign(payload: &str, id: &str, secret: &str) -> String {
    let header = BASE64_URL_SAFE_NO_PAD.encode(serde_json::json!({"alg": "HS256", "kid": id}).to_string());
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("{header}.{}", BASE64_URL_SAFE_NO_PAD.encode(payload)).as_bytes());
    format!("{header}..{}", BASE64_URL_SAFE_NO_PAD.encode(tag.as_ref()))
}

#[cfg(test)]
mod tests {
    use ironclad_api::agents::cluster_info;

    use super::*;

    const TOKEN: &str = "abcdef.0123456789abcdef";

    #[test]
    fn addresses_name_a_host_and_a_port() {
        for (text, want) in [
            ("plane.example.com:6443", Some("https://plane.example.com:6443")),
            ("https://plane:6443/", Some("https://plane:6443")),
            ("[::1]:6443", Some("https://[::1]:6443")),
            ("plane.example.com", None),
            ("http://plane:6443", None),
            ("user@plane:6443", None),
            ("plane:99999", None),
            (":6443", None),
            ("plane:6443/path", None),
            ("", None),
        ] {
            assert_eq!(address(text).ok().as_deref(), want, "{text}");
        }
    }

    #[test]
    fn only_the_secret_of_the_token_signs() {
        let token = TOKEN.parse().unwrap();
        let good = sign("payload", "abcdef", "0123456789abcdef");
        let (header, tag) = good.split_once("..").unwrap();
        let none = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none","kid":"abcdef"}"#);
        for (name, payload, signature, want) in [
            ("good", "payload", good.clone(), true),
            ("another payload", "payloae", good.clone(), false),
            ("another secret", "payload", sign("payload", "abcdef", "0123456789abcdeg"), false),
            ("another id", "payload", sign("payload", "abcdeg", "0123456789abcdef"), false),
            ("without algorithm", "payload", format!("{none}..{tag}"), false),
            ("without signature", "payload", format!("{header}.."), false),
            ("with payload", "payload", format!("{header}.{}.{tag}", BASE64_URL_SAFE_NO_PAD.encode("payload")), false),
            ("nothing", "payload", String::new(), false),
        ] {
            assert_eq!(is_signed(payload, &signature, &token), want, "{name}");
        }
    }

    /// The signature of Kubernetes' own test of its signer (cluster-bootstrap/token/jws).
    #[test]
    fn signatures_of_kubernetes_are_understood() {
        let token = "joshua.0123456789abcdef".parse::<BootstrapToken>().unwrap();
        let signature =
            sign("Hello from the other side!  I must have called a thousand times.", "joshua", token.secret());
        assert!(signature.starts_with("eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9.."), "{signature}");
    }

    #[test]
    fn control_planes_are_recognized_by_token_and_hash() {
        let pem = rcgen::generate_simple_self_signed(vec!["plane".to_owned()]).unwrap().cert.pem();
        let info = cluster_info("https://plane:6443", &BASE64_STANDARD.encode(&pem));
        let without = cluster_info("https://plane:6443", "");
        let encoded = BASE64_STANDARD.encode(&pem);
        let of_karmada =
            format!("apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {encoded}\nkind: Config\n");
        let hash = pins::of(pem.as_bytes()).concat();
        let map = |kubeconfig: &str, signature: Option<String>| {
            let mut data = std::collections::BTreeMap::from([("kubeconfig".to_owned(), kubeconfig.to_owned())]);
            data.extend(signature.map(|signature| ("jws-kubeconfig-abcdef".to_owned(), signature)));
            ConfigMap { data: Some(data), ..ConfigMap::default() }
        };
        let signed = |text: &str| Some(sign(text, "abcdef", "0123456789abcdef"));
        let other = format!("sha256:{}", "0".repeat(64));
        for (name, map, hashes, want) in [
            ("with its hash", map(&info, signed(&info)), vec![hash.clone()], ""),
            ("with one of its hashes", map(&info, signed(&info)), vec![other.clone(), hash.clone()], ""),
            ("hashes are not wanted", map(&info, signed(&info)), vec![], ""),
            ("as Karmada publishes it", map(&of_karmada, signed(&of_karmada)), vec![hash.clone()], ""),
            ("another hash", map(&info, signed(&info)), vec![other], "public key"),
            ("not signed", map(&info, None), vec![hash.clone()], "wait: it does not know the token abcdef"),
            ("signed wrongly", map(&info, Some(sign(&info, "abcdef", "another"))), vec![hash.clone()], "signature"),
            ("without certificates", map(&without, signed(&without)), vec![hash], "no certificate"),
        ] {
            let got = match verified(&map, &TOKEN.parse().unwrap(), &hashes) {
                Ok(found) => {
                    assert_eq!(found, pem, "{name}");
                    String::new()
                }
                Err(Miss::Wait(why)) => format!("wait: {why}"),
                Err(Miss::Never(error)) => error.to_string(),
            };
            assert!(got.contains(want) && got.is_empty() == want.is_empty(), "{name}: {got}");
        }
    }
}
