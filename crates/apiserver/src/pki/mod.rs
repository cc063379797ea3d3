//! The certificates of an embedded plane: a CA, a server certificate, an administrator's; made once, kept in files
//! that only their owner reads, renewed before they end. And kubeconfig files.

mod authority;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ironclad_seam::Seam;
use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, SerialNumber,
};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
};
use serde_json::Value;

use crate::{MASTERS, TokenKey};

pub use authority::{Authority, Order};

/// Validity of a CA.
const CA_DAYS: i64 = 3_650;
/// Validity of the certificates that it signs.
const LEAF_DAYS: i64 = 365;
/// Certificates that end sooner than this are made anew, at the start and while the server runs.
const RENEW_DAYS: i64 = 90;
/// Names that a server's certificate always has, besides loopback addresses.
const SERVER_NAMES: [&str; 4] = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
/// User of the administrator's certificate.
pub const ADMIN: &str = "ironclad-admin";
/// Loopback addresses that a server's certificate always has.
pub const LOOPBACK: [&str; 2] = ["127.0.0.1", "::1"];

/// An error of certificates and their files.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file can't be read or written.
    #[error("reading or writing {path}: check that the directory exists and belongs to you")]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The CA of earlier starts is damaged: a new one would void every kubeconfig that was handed out.
    #[error(
        "the CA in {path} can't be used ({detail})\n  try: both files of it from a backup; or remove both: then a new CA \
         is made, and kubeconfigs that were handed out no longer work"
    )]
    Authority {
        /// Its files.
        path: PathBuf,
        /// The fault.
        detail: String,
    },
    /// A certificate can't be made or read.
    #[error("the certificate in {path} can't be used ({detail}): remove the file to have a new one made")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The fault.
        detail: String,
    },
}

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Pair {
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").finish_non_exhaustive()
    }
}

/// The certificates of one server.
#[derive(Debug, Clone)]
pub struct Pki {
    dir: PathBuf,
    authority: Authority,
    ca: Pair,
    server: Pair,
    admin: Pair,
    token_key: TokenKey,
    hosts: Vec<String>,
    served: Arc<Served>,
}

/// The certificate that new connections get.
#[derive(Debug, Default)]
struct Served(RwLock<Option<Arc<CertifiedKey>>>);

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().clone()
    }
}

impl Pki {
    /// Reads the certificates in a directory, or makes what is missing or about to end. What the CA signed is made anew
    /// if it can't be read; a damaged CA is an error.
    ///
    /// `name` goes into the CA's name. Files: `ca.crt`, `ca.key`, `server.crt`, `server.key`, `admin.crt`, `admin.key`,
    /// and `sa.key`, which signs the tokens of ServiceAccounts; all 0600. A CA that ends is replaced with everything
    /// that it signed.
    ///
    /// # Errors
    /// A directory that can't be written to, or a damaged CA.
    pub fn load_or_create(dir: &Path, seam: &Seam, name: &str) -> Result<Self, PkiError> {
        Self::load_or_create_for(dir, seam, name, &[])
    }

    /// The same with a server certificate that is also for these names and addresses.
    ///
    /// # Errors
    /// A directory that can't be written to, a damaged CA, or a host that is neither a name nor an address.
    pub fn load_or_create_for(dir: &Path, seam: &Seam, name: &str, hosts: &[String]) -> Result<Self, PkiError> {
        create_private_dir(dir)?;
        let hosts: Vec<String> =
            SERVER_NAMES.into_iter().chain(LOOPBACK).map(str::to_owned).chain(hosts.iter().cloned()).collect();
        let now = seam.clock.wall_seconds();
        let (ca, fresh) = match read_ca(dir, now)? {
            Some(ca) => (ca, false),
            None => (store(dir, "ca", make_ca(name, now, seam))?, true),
        };
        let leaf = |file: &str, profile: Profile<'_>| {
            let fits = |pair: &Pair| !fresh && profile.fits(&pair.certificate);
            match read_pair(dir, file, now).filter(fits) {
                Some(pair) => Ok(pair),
                None => store(dir, file, make_leaf(&ca, &profile, now, seam)),
            }
        };
        let server = leaf("server", Profile::Server(&hosts))?;
        let admin = leaf("admin", Profile::Client { user: ADMIN, group: MASTERS })?;
        let token_key = token_key(&dir.join("sa.key"))?;
        let authority = Authority::new(ca.clone(), seam.rng.stream("certificate-serials"));
        let served = Arc::default();
        Ok(Self { dir: dir.into(), authority, ca, server, admin, token_key, hosts, served })
    }

    /// Makes the certificates anew that end soon, and serves the new one to connections that come from now on. True if
    /// there are new ones: then kubeconfigs with the administrator's certificate are to be written again.
    ///
    /// # Errors
    /// A directory that can't be written to.
    pub fn renew(&mut self, seam: &Seam) -> Result<bool, PkiError> {
        let now = seam.clock.wall_seconds();
        let current = |file: &str| read_pair(&self.dir, file, now).is_some();
        if current("server") && current("admin") {
            return Ok(false);
        }
        let served = self.served.clone();
        *self = Self { served, ..Self::load_or_create_for(&self.dir, seam, "", &self.hosts)? };
        let key = self.certified_key()?;
        *self.served.0.write() = Some(Arc::new(key));
        Ok(true)
    }

    /// The earlier end of the server's and the administrator's certificates; `None` if they can't be read.
    #[must_use]
    pub fn ends(&self) -> Option<Timestamp> {
        [&self.server, &self.admin].into_iter().filter_map(|pair| Some(validity(&pair.certificate)?.0)).min()
    }

    fn certified_key(&self) -> Result<CertifiedKey, PkiError> {
        let bad = |file: &str, detail: String| PkiError::Certificate { path: self.dir.join(file), detail };
        let certificate = CertificateDer::from_pem_slice(self.server.certificate.as_bytes());
        let chain = vec![certificate.map_err(|e| bad("server.crt", e.to_string()))?];
        let key =
            PrivateKeyDer::from_pem_slice(self.server.key.as_bytes()).map_err(|e| bad("server.key", e.to_string()))?;
        CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider())
            .map_err(|e| bad("server.crt", e.to_string()))
    }

    /// The CA's certificate, PEM.
    #[must_use]
    pub fn ca(&self) -> &str {
        &self.ca.certificate
    }

    /// The signer of certificate requests with the CA's key.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The key that signs the tokens of ServiceAccounts.
    #[must_use]
    pub fn token_key(&self) -> &TokenKey {
        &self.token_key
    }

    /// The administrator's certificate, in `system:masters`.
    #[must_use]
    pub fn admin(&self) -> &Pair {
        &self.admin
    }

    /// A certificate for another user, in one group (or none, when empty). It isn't kept in a file.
    ///
    /// # Errors
    /// A CA key that can't sign.
    pub fn client(&self, seam: &Seam, user: &str, group: &str) -> Result<Pair, PkiError> {
        let made = make_leaf(&self.ca, &Profile::Client { user, group }, seam.clock.wall_seconds(), seam);
        made.map_err(|detail| PkiError::Certificate { path: self.dir.join("ca.key"), detail })
    }

    /// The TLS configuration for [`Server::serve`](crate::Server::serve): client certificates of this CA, HTTP/2 and
    /// HTTP/1.1.
    ///
    /// # Errors
    /// Files that hold no certificate.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, PkiError> {
        let bad = |file: &str, detail: String| PkiError::Certificate { path: self.dir.join(file), detail };
        let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|e| e.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        let ca = certificate(&self.ca.certificate).map_err(|e| bad("ca.crt", e))?;
        roots.add(ca).map_err(|e| bad("ca.crt", e.to_string()))?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(|e| bad("ca.crt", e.to_string()))?;
        *self.served.0.write() = Some(Arc::new(self.certified_key()?));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| bad("server.crt", e.to_string()))?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(self.served.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// A context of a kubeconfig with the administrator's certificate; `server` is `https://host:port`.
    #[must_use]
    pub fn admin_context(&self, name: &str, server: &str) -> Context {
        Context {
            name: name.into(),
            server: server.into(),
            ca: self.ca.certificate.clone(),
            client: self.admin.clone(),
        }
    }
}

/// A context of a kubeconfig, with everything in it.
#[derive(Debug, Clone)]
pub struct Context {
    /// The name of the context, cluster and user.
    pub name: String,
    /// `https://host:port`
    pub server: String,
    /// The CA's certificate, PEM.
    pub ca: String,
    /// The client's certificate and key.
    pub client: Pair,
}

/// The text of a kubeconfig; the first context is the current one.
#[must_use]
pub fn kubeconfig(contexts: &[Context]) -> String {
    let mut clusters = String::new();
    let mut users = String::new();
    let mut list = String::new();
    for context in contexts {
        // Quoted: a name such as `123` or `true` is no text otherwise.
        let name = &Value::from(context.name.as_str()).to_string();
        let b64 = |text: &str| STANDARD.encode(text);
        clusters += &format!(
            "- name: {name}\n  cluster:\n    server: {}\n    certificate-authority-data: {}\n",
            context.server,
            b64(&context.ca)
        );
        users += &format!(
            "- name: {name}\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n",
            b64(&context.client.certificate),
            b64(&context.client.key)
        );
        list += &format!("- name: {name}\n  context:\n    cluster: {name}\n    user: {name}\n");
    }
    let current = Value::from(contexts.first().map_or("", |c| c.name.as_str())).to_string();
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n{clusters}users:\n{users}contexts:\n{list}current-context: {current}\n"
    )
}

/// Writes a file that only its owner may read, replacing what was there in one step.
///
/// # Errors
/// A directory that can't be written to.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), PkiError> {
    use std::io::Write as _;
    let failed = |source| PkiError::File { path: path.into(), source };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let temporary = path.with_file_name(name);
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&temporary).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)?;
    // The new name, too, is to be there after a power cut.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// Makes a directory that only its owner may read; one that is there becomes that.
fn create_private_dir(dir: &Path) -> Result<(), PkiError> {
    let failed = |source| PkiError::File { path: dir.into(), source };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(failed)?;
    #[cfg(unix)]
    fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o700)).map_err(failed)?;
    Ok(())
}

/// The key in this file, made if there is none. One that can't be read is not replaced: tokens that it signed are in
/// use.
fn token_key(path: &Path) -> Result<TokenKey, PkiError> {
    let unusable = |detail: String| PkiError::Certificate { path: path.into(), detail };
    let pem = match fs::read_to_string(path) {
        Ok(pem) => pem,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let pem = KeyPair::generate().map_err(|e| unusable(e.to_string()))?.serialize_pem();
            write_private(path, pem.as_bytes())?;
            pem
        }
        Err(source) => return Err(PkiError::File { path: path.into(), source }),
    };
    TokenKey::from_pem(&pem).map_err(unusable)
}

/// The CA in a directory; `None` if there is none, it is about to end, or making it was cut off: the certificate is
/// written last.
fn read_ca(dir: &Path, now: Timestamp) -> Result<Option<Pair>, PkiError> {
    let path = dir.join("ca.crt");
    if !path.exists() {
        return Ok(None);
    }
    let read = |file: &str| {
        let path = dir.join(file);
        fs::read_to_string(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::InvalidData => damaged(dir, &format!("{file}: {source}")),
            _ => PkiError::File { path, source },
        })
    };
    let (certificate, key) = (read("ca.crt")?, read("ca.key")?);
    let key = KeyPair::from_pem(&key).map_err(|error| damaged(dir, &format!("ca.key: {error}")))?;
    let der = CertificateDer::from_pem_slice(certificate.as_bytes());
    let der = der.map_err(|error| damaged(dir, &format!("ca.crt: {error}")))?;
    let (_, parsed) =
        x509_parser::parse_x509_certificate(der.as_ref()).map_err(|error| damaged(dir, &format!("ca.crt: {error}")))?;
    if *parsed.public_key().subject_public_key.data != *key.public_key_raw() {
        return Err(damaged(dir, "ca.key is not the key of ca.crt"));
    }
    Ok(read_pair(dir, "ca", now))
}

fn damaged(dir: &Path, detail: &str) -> PkiError {
    PkiError::Authority { path: dir.into(), detail: detail.to_owned() }
}

fn read_pair(dir: &Path, file: &str, now: Timestamp) -> Option<Pair> {
    let read = |suffix: &str| fs::read_to_string(dir.join(format!("{file}.{suffix}"))).ok();
    let pair = Pair { certificate: read("crt")?, key: read("key")? };
    let der = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).ok()?;
    PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).ok()?;
    let (_, parsed) = x509_parser::parse_x509_certificate(der.as_ref()).ok()?;
    let left = parsed.validity().not_after.timestamp() - now.as_second();
    (left > RENEW_DAYS * 86_400).then_some(pair)
}

fn store(dir: &Path, file: &str, made: Result<Pair, String>) -> Result<Pair, PkiError> {
    let path = |suffix: &str| dir.join(format!("{file}.{suffix}"));
    let pair = made.map_err(|detail| PkiError::Certificate { path: path("crt"), detail })?;
    write_private(&path("key"), pair.key.as_bytes())?;
    write_private(&path("crt"), pair.certificate.as_bytes())?;
    Ok(pair)
}

/// A new authority of this name, good for so many days. It isn't kept anywhere.
///
/// # Errors
/// Converts an error of the certificate library.
pub fn authority(name: &str, days: i64, seam: &Seam) -> Result<Pair, String> {
    make_authority(name, seam.clock.wall_seconds(), days, seam)
}

/// A new certificate of a server at these names and addresses, signed by an authority. It isn't kept anywhere.
///
/// # Errors
/// A name that is none, or an authority that can't sign.
pub fn serving(authority: &Pair, name: &str, hosts: &[String], days: i64, seam: &Seam) -> Result<Pair, String> {
    let mut params = params(name, "", seam.clock.wall_seconds(), days, seam);
    params.subject_alt_names = alternative_names(hosts)?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    sign(authority, params)
}

/// A new certificate of a client, signed by an authority. It isn't kept anywhere.
///
/// # Errors
/// An authority that can't sign.
pub fn client_certificate(authority: &Pair, user: &str, days: i64, seam: &Seam) -> Result<Pair, String> {
    let mut params = params(user, "", seam.clock.wall_seconds(), days, seam);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    sign(authority, params)
}

fn alternative_names(hosts: &[String]) -> Result<Vec<SanType>, String> {
    let name = |host: &String| {
        if let Ok(address) = host.parse() {
            return Ok(SanType::IpAddress(address));
        }
        let wrong = |error: &dyn std::fmt::Display| format!("{host:?} is neither a DNS name nor an address: {error}");
        ServerName::try_from(host.strip_prefix("*.").unwrap_or(host)).map_err(|e| wrong(&e))?;
        Ok(SanType::DnsName(host.as_str().try_into().map_err(|e: rcgen::Error| wrong(&e))?))
    };
    hosts.iter().map(name).collect()
}

/// End of a certificate's validity, and its names and addresses; `None` if it can't be read.
#[must_use]
pub fn validity(certificate: &str) -> Option<(Timestamp, Vec<String>)> {
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
    let (_, parsed) = x509_parser::parse_x509_certificate(der.as_ref()).ok()?;
    let ends = Timestamp::from_second(parsed.validity().not_after.timestamp()).ok()?;
    let alternatives = parsed.subject_alternative_name().ok().flatten();
    let names = alternatives.into_iter().flat_map(|all| &all.value.general_names).filter_map(|name| match name {
        x509_parser::extensions::GeneralName::DNSName(name) => Some((*name).to_owned()),
        x509_parser::extensions::GeneralName::IPAddress(bytes) => address(bytes),
        _ => None,
    });
    Some((ends, names.collect()))
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|b| std::net::IpAddr::from(b).to_string());
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|b| std::net::IpAddr::from(b).to_string())).ok()
}

/// The purpose of a certificate.
enum Profile<'a> {
    /// A server at these names and addresses.
    Server(&'a [String]),
    Client {
        user: &'a str,
        group: &'a str,
    },
}

impl Profile<'_> {
    /// True for a certificate that is for all hosts of this profile.
    fn fits(&self, certificate: &str) -> bool {
        let Profile::Server(hosts) = self else { return true };
        validity(certificate).is_some_and(|(_, names)| hosts.iter().all(|host| names.contains(host)))
    }
}

fn params(common_name: &str, organization: &str, now: Timestamp, days: i64, seam: &Seam) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    if !organization.is_empty() {
        name.push(DnType::OrganizationName, organization);
    }
    name.push(DnType::CommonName, common_name);
    params.distinguished_name = name;
    let day = |at: Timestamp| {
        let date = at.to_zoned(jiff::tz::TimeZone::UTC).date();
        let part = |value: i8| u8::try_from(value).unwrap_or(1);
        rcgen::date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day()))
    };
    // A day back, for clocks that are behind.
    params.not_before = day(now.saturating_sub(SignedDuration::from_hours(24)).unwrap_or(now));
    params.not_after = day(now.saturating_add(SignedDuration::from_hours(24 * days)).unwrap_or(now));
    let mut serial = [0u8; 16];
    seam.rng.stream("certificate-serials").fill(&mut serial);
    serial[0] &= 0x7f;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params
}

fn make_ca(name: &str, now: Timestamp, seam: &Seam) -> Result<Pair, String> {
    make_authority(&format!("{name}-ca"), now, CA_DAYS, seam)
}

fn make_authority(name: &str, now: Timestamp, days: i64, seam: &Seam) -> Result<Pair, String> {
    let key = KeyPair::generate().map_err(|e| e.to_string())?;
    let mut params = params(name, "", now, days, seam);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let certificate = params.self_signed(&key).map_err(|e| e.to_string())?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn make_leaf(ca: &Pair, profile: &Profile<'_>, now: Timestamp, seam: &Seam) -> Result<Pair, String> {
    let params = match profile {
        Profile::Server(hosts) => {
            let mut params = params("kube-apiserver", "", now, LEAF_DAYS, seam);
            params.subject_alt_names = alternative_names(hosts)?;
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params
        }
        Profile::Client { user, group } => {
            let mut params = params(user, group, now, LEAF_DAYS, seam);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            params
        }
    };
    sign(ca, params)
}

fn sign(ca: &Pair, mut params: CertificateParams) -> Result<Pair, String> {
    let ca_key = KeyPair::from_pem(&ca.key).map_err(|e| e.to_string())?;
    let issuer = Issuer::from_ca_cert_pem(&ca.certificate, ca_key).map_err(|e| e.to_string())?;
    let key = KeyPair::generate().map_err(|e| e.to_string())?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    let certificate = params.signed_by(&key, &issuer).map_err(|e| e.to_string())?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

#[cfg(test)]
mod tests {
    use ironclad_seam::{Clock, Rng, Tasks};

    use super::*;

    fn seam(days: i64) -> Seam {
        let at = Timestamp::from_second(1_767_225_600 + days * 86_400).unwrap();
        Seam { clock: Clock::simulated(at), rng: Rng::from_seed(1), tasks: Tasks::new("test") }
    }

    fn certificates(pki: &Pki) -> [String; 3] {
        [&pki.ca, &pki.server, &pki.admin].map(|pair| pair.certificate.clone())
    }

    #[test]
    fn the_server_certificate_follows_its_hosts() {
        let dir = tempfile::tempdir().unwrap();
        let open = |hosts: &[&str]| {
            let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
            Pki::load_or_create_for(dir.path(), &seam(0), "test", &hosts)
        };
        let first = open(&[]).unwrap();
        let (_, names) = validity(&first.server.certificate).unwrap();
        assert_eq!(
            names,
            ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "::1"]
        );
        assert_eq!(certificates(&open(&[]).unwrap()), certificates(&first), "nothing changed");
        let more = open(&["10.0.0.5", "fd00::5", "fleet.example"]).unwrap();
        let (_, names) = validity(&more.server.certificate).unwrap();
        assert!(
            ["10.0.0.5", "fd00::5", "fleet.example", "localhost"].iter().all(|n| names.iter().any(|m| m == n)),
            "{names:?}"
        );
        assert_eq!((&more.ca.certificate, &more.admin.certificate), (&first.ca.certificate, &first.admin.certificate));
        assert_eq!(certificates(&open(&["10.0.0.5"]).unwrap()), certificates(&more), "one with more names fits");
        assert!(open(&["no name"]).is_err());
    }

    #[test]
    fn certificates_are_renewed_while_they_are_served() {
        let dir = tempfile::tempdir().unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut pki = Pki::load_or_create_for(dir.path(), &seam(0), "test", &["10.0.0.5".to_owned()]).unwrap();
        let config = pki.server_config().unwrap();
        let before = certificates(&pki);
        let of_served = |pki: &Pki| pki.served.0.read().as_ref().unwrap().cert[0].to_vec();
        let served = of_served(&pki);
        assert!(!pki.renew(&seam(200)).unwrap());
        assert_eq!(certificates(&pki), before);
        assert!(pki.renew(&seam(300)).unwrap());
        let after = certificates(&pki);
        assert_eq!(after[0], before[0], "the authority stays");
        assert!(after[1] != before[1] && after[2] != before[2]);
        assert!(of_served(&pki) != served, "new connections get the new certificate");
        let (ends, names) = validity(&pki.server.certificate).unwrap();
        assert!(ends.as_second() > 1_767_225_600 + 600 * 86_400 && names.iter().any(|n| n == "10.0.0.5"));
        assert!(config.alpn_protocols.len() == 2);
    }

    #[test]
    fn damaged_authority_is_not_replaced() {
        for (name, file, text, want) in [
            ("a key that is none", "ca.key", Some("-----BEGIN PRIVATE KEY-----"), Err("ca.key")),
            ("an empty key", "ca.key", Some(""), Err("ca.key")),
            ("no key", "ca.key", None, Err("ca.key")),
            ("the key of another", "ca.key", Some("other"), Err("is not the key of ca.crt")),
            ("a certificate that is none", "ca.crt", Some("damaged"), Err("ca.crt")),
            ("making it was cut off before the certificate", "ca.crt", None, Ok(false)),
            ("a damaged certificate that it signed", "server.crt", Some("damaged"), Ok(true)),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let first = Pki::load_or_create(dir.path(), &seam(0), "test").unwrap();
            let other = make_ca("other", seam(0).clock.wall_seconds(), &seam(0)).unwrap();
            match text {
                Some("other") => fs::write(dir.path().join(file), other.key).unwrap(),
                Some(text) => fs::write(dir.path().join(file), text).unwrap(),
                None => fs::remove_file(dir.path().join(file)).unwrap(),
            }
            match (Pki::load_or_create(dir.path(), &seam(0), "test"), want) {
                (Ok(again), Ok(same)) => assert_eq!(again.ca() == first.ca(), same, "{name}"),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{name}: {error}"),
                (found, _) => panic!("{name}: {:?}", found.map(drop)),
            }
        }
    }

    #[test]
    fn any_name_of_a_context_is_a_text() {
        let pair = Pair { certificate: "c".to_owned(), key: "k".to_owned() };
        for name in ["member1", "123", "true", "null", "1e3", "a: b", "\"", "~"] {
            let server = "https://127.0.0.1:1".to_owned();
            let text =
                kubeconfig(&[Context { name: name.to_owned(), server, ca: "c".to_owned(), client: pair.clone() }]);
            let read: Value = serde_saphyr::from_str(&text).unwrap();
            for pointer in [
                "/clusters/0/name", "/users/0/name", "/contexts/0/name", "/contexts/0/context/cluster",
                "/contexts/0/context/user", "/current-context",
            ] {
                assert_eq!(read.pointer(pointer), Some(&Value::from(name)), "{pointer}");
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn keys_are_in_a_directory_of_their_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join("old");
        fs::create_dir(&old).unwrap();
        fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).unwrap();
        let (parent, new) = (dir.path().join("pki"), dir.path().join("pki/members"));
        for dir in [&old, &new] {
            Pki::load_or_create(dir, &seam(0), "test").unwrap();
        }
        for dir in [&old, &parent, &new] {
            assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700, "{}", dir.display());
        }
    }
}
