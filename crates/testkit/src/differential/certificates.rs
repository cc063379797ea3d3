//! Generated values of scenarios: certificate signing requests, certificates, and claims of tokens.

use std::{fs, path::Path, sync::OnceLock};

use anyhow::Context as _;
use k8s_openapi::ByteString;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

/// The variables `csr`, `mastercsr` and `certificate`, the same for both servers.
pub(super) fn variables() -> &'static [(&'static str, String)] {
    static VARIABLES: OnceLock<Vec<(&'static str, String)>> = OnceLock::new();
    VARIABLES.get_or_init(|| {
        let made = [("csr", "devs"), ("mastercsr", "system:masters")].map(|(name, group)| (name, request(group)));
        let request = made.into_iter().filter_map(|(name, text)| Some((name, text?)));
        request.chain(certificate().map(|text| ("certificate", text))).collect()
    })
}

fn base64(text: &str) -> Option<String> {
    let bytes = serde_json::to_value(ByteString(text.as_bytes().to_vec())).ok()?;
    bytes.as_str().map(str::to_owned)
}

fn params(group: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, "dora");
    name.push(DnType::OrganizationName, group);
    params.distinguished_name = name;
    params
}

fn request(group: &str) -> Option<String> {
    let key = KeyPair::generate().ok()?;
    base64(&params(group).serialize_request(&key).ok()?.pem().ok()?)
}

fn certificate() -> Option<String> {
    let key = KeyPair::generate().ok()?;
    base64(&params("devs").self_signed(&key).ok()?.pem())
}

/// Writes files for kubectl into a directory: `tls.crt` with its `tls.key`, and an unrelated `other.key`.
pub(super) fn write_files(directory: &Path) -> anyhow::Result<()> {
    let (key, other) = (KeyPair::generate()?, KeyPair::generate()?);
    let certificate = params("devs").self_signed(&key)?.pem();
    for (name, text) in
        [("tls.crt", certificate), ("tls.key", key.serialize_pem()), ("other.key", other.serialize_pem())]
    {
        let path = directory.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Claims of a token, its times relative to the time at which it was issued.
pub(super) fn claims(token: &str) -> anyhow::Result<Value> {
    let mut parts = token.split('.');
    let mut part = || -> anyhow::Result<Value> {
        let text = parts.next().context("a token has three parts")?.replace('-', "+").replace('_', "/");
        let padded = format!("{text}{}", "=".repeat((4 - text.len() % 4) % 4));
        let bytes: ByteString = serde_json::from_value(json!(padded))?;
        Ok(serde_json::from_slice(&bytes.0)?)
    };
    let (header, mut claims) = (part()?, part()?);
    let issued = claims["iat"].as_i64().unwrap_or_default();
    for key in ["exp", "nbf", "iat"] {
        if let Some(at) = claims[key].as_i64() {
            claims[key] = json!(at - issued);
        }
    }
    if let Some(map) = claims["kubernetes.io"].as_object_mut()
        && let Some(after) = map.get_mut("warnafter")
    {
        *after = json!(after.as_i64().unwrap_or_default() - issued);
    }
    Ok(json!({"alg": header["alg"], "claims": claims}))
}
