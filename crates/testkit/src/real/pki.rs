//! The certificates, keys and kubeconfigs of one real API server.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;

/// The names under which an API server is reached, also from inside its cluster.
const SERVER_NAMES: [&str; 5] =
    ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// The user by which aggregated API servers know the API server.
pub(super) const FRONT_PROXY: &str = "front-proxy-client";

const ADMINS: &str = "system:masters";

/// Certificate authority of one server, so that no client of one cluster is accepted by another.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    directory: PathBuf,
}

/// Subject of a client certificate.
pub(super) struct ClientName {
    /// The user, and the stem of the kubeconfig's file name.
    pub(super) user: &'static str,
    pub(super) group: Option<&'static str>,
}

pub(super) const ADMIN: ClientName = ClientName { user: "admin", group: Some(ADMINS) };
/// The API server grants roles to each controller's service account. One administrator spares a
/// test the round trip over tokens of those accounts.
pub(super) const CONTROLLER_MANAGER: ClientName =
    ClientName { user: "system:kube-controller-manager", group: Some(ADMINS) };
/// Every API server grants it the roles that it needs.
pub(super) const SCHEDULER: ClientName = ClientName { user: "system:kube-scheduler", group: None };
/// Name of the program that simulates the kubelets.
pub(super) const KWOK: ClientName = ClientName { user: "kwok", group: Some(ADMINS) };

impl Authority {
    /// Creates the authority, the server's certificate, and the keys that sign service account tokens, as files.
    pub(super) fn make(directory: &Path) -> anyhow::Result<Self> {
        let key = KeyPair::generate().context("the authority's key")?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named("ironclad-test-ca", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).context("the authority's certificate")?.pem();
        write(directory, "ca.crt", &certificate)?;
        write(directory, "ca.key", &key.serialize_pem())?;
        let authority = Self { issuer: Issuer::new(params, key), certificate, directory: directory.to_owned() };
        authority.make_server()?;
        make_front_proxy(directory)?;
        // An elliptic key works like the RSA key of most clusters. The public half must be a file of its
        // own: the server doesn't read it out of a PKCS#8 private key.
        let accounts = KeyPair::generate().context("the key of service accounts")?;
        write(directory, "service-accounts.key", &accounts.serialize_pem())?;
        write(directory, "service-accounts.pub", &accounts.public_key_pem())?;
        Ok(authority)
    }

    fn make_server(&self) -> anyhow::Result<()> {
        let names = SERVER_NAMES.map(str::to_owned);
        let mut params = CertificateParams::new(names).context("the server's names")?;
        params.distinguished_name = named("kube-apiserver", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let (certificate, key) = self.sign(&mut params)?;
        write(&self.directory, "server.crt", &certificate)?;
        write(&self.directory, "server.key", &key)
    }

    /// Writes a self-contained kubeconfig for a client of the server at `port`; its only context is `cluster`.
    pub(super) fn kubeconfig(&self, client: &ClientName, cluster: &str, port: u16) -> anyhow::Result<PathBuf> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(client.user, client.group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let (certificate, key) = self.sign(&mut params)?;
        let data = |pem: &str| ByteString(pem.as_bytes().to_vec());
        let text = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": cluster, "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority-data": data(&self.certificate),
            }}],
            "users": [{"name": client.user, "user": {
                "client-certificate-data": data(&certificate),
                "client-key-data": data(&key),
            }}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": client.user}}],
            "current-context": cluster,
        });
        let file = format!("{}.kubeconfig", client.user.trim_start_matches("system:"));
        write(&self.directory, &file, &serde_json::to_string_pretty(&text)?)?;
        Ok(self.directory.join(file))
    }

    fn sign(&self, params: &mut CertificateParams) -> anyhow::Result<(String, String)> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().context("a key")?;
        let certificate = params.signed_by(&key, &self.issuer).context("a certificate")?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}

/// Creates the authority and certificate by which aggregated API servers know the API server, as files.
fn make_front_proxy(directory: &Path) -> anyhow::Result<()> {
    let key = KeyPair::generate().context("the key of the proxy's authority")?;
    let mut params = CertificateParams::default();
    params.distinguished_name = named("ironclad-test-front-proxy-ca", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    write(directory, "front-proxy-ca.crt", &params.self_signed(&key).context("the proxy's authority")?.pem())?;
    let issuer = Issuer::new(params, key);
    let mut params = CertificateParams::default();
    params.distinguished_name = named(FRONT_PROXY, None);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate().context("the proxy's key")?;
    let certificate = params.signed_by(&key, &issuer).context("the proxy's certificate")?;
    write(directory, "front-proxy.crt", &certificate.pem())?;
    write(directory, "front-proxy.key", &key.serialize_pem())
}

fn named(user: &str, group: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, user);
    if let Some(group) = group {
        name.push(DnType::OrganizationName, group);
    }
    name
}

fn write(directory: &Path, file: &str, text: &str) -> anyhow::Result<()> {
    let path = directory.join(file);
    fs::write(&path, text).with_context(|| path.display().to_string())
}
