//! Authentication and authorization of requests: an API server behind a kube-apiserver leaves both to that one.
//!
//! A kube-apiserver that forwards a request shows a certificate of its proxy, and says in headers who the user is. Its
//! ConfigMap names the authority of that certificate. Others show a certificate or a token of their own.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::HeaderMap;
use ironclad_runtime::{Api, Informer, WatchScope};
use ironclad_seam::{Clock, Seam};
use ironclad_serving::Peer;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    core::v1::ConfigMap,
};
use kube::{Client, api::PostParams};
use parking_lot::{Mutex, RwLock};
use percent_encoding::percent_decode_str;
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::time::Instant;
use x509_parser::prelude::FromDer as _;

use super::attributes::Attributes;
use crate::{
    forward::{AUTHENTICATION, KUBE_SYSTEM},
    tls::{self, InUse},
};

/// Time for which an answer about a token or a right is used again, where nobody says otherwise.
pub(crate) const ANSWERS_KEPT: Duration = Duration::from_secs(10);
/// Time to read whom the control plane trusts.
const READ_DEADLINE: Duration = Duration::from_secs(30);
/// The most answers that are kept.
const ANSWERS_MAX: usize = 1_024;
/// Members of this group may do everything.
const MASTERS: &str = "system:masters";
/// Groups of all users, by whether somebody vouches for them.
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";
/// Name in the certificates that replicas of a server show each other.
pub(super) const REPLICA: &str = "ironclad-replica";

/// A user, as the control plane knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    fn anonymous() -> Self {
        Self { name: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()], ..Self::default() }
    }

    /// Adds the group of authenticated users. A kube-apiserver leaves it out where it asks for itself, as user
    /// `system:kube-aggregator` without groups: that user reads discovery by this group alone.
    fn authenticated(mut self) -> Self {
        let is_known = self.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
        if self.name != ANONYMOUS && !is_known {
            self.groups.push(AUTHENTICATED.into());
        }
        self
    }
}

/// The authorities and headers that the control plane's ConfigMap names.
#[derive(Default)]
struct Trust {
    /// Verifies certificates of clients.
    clients: Option<Arc<dyn ClientCertVerifier>>,
    /// Verifies certificates of the proxy.
    proxies: Option<Arc<dyn ClientCertVerifier>>,
    /// Verifies certificates of other replicas of this server.
    replicas: Option<Arc<dyn ClientCertVerifier>>,
    /// Names that a proxy may have; empty for any.
    allowed_names: Vec<String>,
    user_headers: Vec<String>,
    uid_headers: Vec<String>,
    group_headers: Vec<String>,
    extra_prefixes: Vec<String>,
    /// TLS settings that ask for any of these certificates.
    tls: Option<Arc<ServerConfig>>,
}

type Answers<K, V> = Mutex<BTreeMap<K, (V, Instant)>>;

/// Authentication and authorization by a control plane.
pub(crate) struct Delegated {
    client: Client,
    clock: Clock,
    /// Time for which answers are used again.
    kept: Duration,
    certificate: Arc<InUse>,
    /// The ConfigMap's data, and the authority of this server's replicas.
    authorities: Mutex<(BTreeMap<String, String>, String)>,
    trust: RwLock<Arc<Trust>>,
    tokens: Answers<String, Option<User>>,
    rights: Answers<(User, Attributes, String), Result<(), String>>,
}

impl Delegated {
    /// Follows the ConfigMap of the control plane as a task of this seam. Returns once it was read.
    pub(crate) async fn start(
        client: Client,
        certificate: Arc<InUse>,
        kept: Duration,
        seam: &Seam,
    ) -> Result<Arc<Self>, String> {
        let delegated = Arc::new(Self {
            client: client.clone(),
            clock: seam.clock.clone(),
            kept,
            certificate,
            authorities: Mutex::default(),
            trust: RwLock::default(),
            tokens: Mutex::default(),
            rights: Mutex::default(),
        });
        delegated.update(|_| {})?;
        let maps: Informer<ConfigMap> = Informer::new(&[]);
        let weak = Arc::downgrade(&delegated);
        maps.on_change(move |change| {
            let data = change.new.as_ref().and_then(|map| map.data.clone()).unwrap_or_default();
            if let Some(Err(why)) = weak.upgrade().map(|delegated| delegated.update(|(map, _)| *map = data)) {
                tracing::warn!(why, "ConfigMap {KUBE_SYSTEM}/{AUTHENTICATION} can't be used");
            }
        });
        let scope = WatchScope { labels: None, fields: Some(format!("metadata.name={AUTHENTICATION}")) };
        maps.start("authentication", seam, &seam.tasks, Api::namespaced(client, KUBE_SYSTEM), &scope);
        if tokio::time::timeout(READ_DEADLINE, maps.synced()).await.is_err() {
            let why = maps.last_error().unwrap_or_else(|| "no answer yet".to_owned());
            return Err(format!("ConfigMap {KUBE_SYSTEM}/{AUTHENTICATION} can't be read: {why}"));
        }
        if delegated.trust.read().proxies.is_none() {
            tracing::warn!(
                "ConfigMap {KUBE_SYSTEM}/{AUTHENTICATION} names no authority of a proxy: start the kube-apiserver with its flags \
                 --requestheader-* and --proxy-client-*, or it can't say who asks"
            );
        }
        Ok(delegated)
    }

    /// Trusts this authority for the certificates of other replicas.
    pub(super) fn trust_replicas(&self, bundle: &str) -> Result<(), String> {
        self.update(|(_, replicas)| bundle.clone_into(replicas))
    }

    fn update(&self, change: impl FnOnce(&mut (BTreeMap<String, String>, String))) -> Result<(), String> {
        let mut authorities = self.authorities.lock();
        let mut changed = authorities.clone();
        change(&mut changed);
        *self.trust.write() = Arc::new(Trust::read(&changed.0, &changed.1, &self.certificate)?);
        *authorities = changed;
        Ok(())
    }

    /// True if the client is another replica of this server, which has checked who asks.
    pub(super) fn is_replica(&self, peer: &Peer) -> bool {
        let trust = self.trust.read().clone();
        trust.name_of(&trust.replicas, peer, unix_time(&self.clock)).is_some_and(|(name, _)| name == REPLICA)
    }

    /// The present TLS settings.
    pub(crate) fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.trust.read().tls.clone()
    }

    /// Returns the user of a request; the error is why its credentials are not accepted.
    pub(crate) async fn authenticate(&self, headers: &HeaderMap, peer: &Peer) -> Result<User, String> {
        let trust = self.trust.read().clone();
        let now = unix_time(&self.clock);
        if let Some(name) = trust.name_of(&trust.proxies, peer, now).map(|(name, _)| name)
            && (trust.allowed_names.is_empty() || trust.allowed_names.contains(&name))
            && let Some(user) = trust.user_in(headers)
        {
            return Ok(user.authenticated());
        }
        if let Some((name, groups)) = trust.name_of(&trust.clients, peer, now) {
            return Ok(User { name, groups, ..User::default() }.authenticated());
        }
        let bearer = headers.get(http::header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        match bearer.and_then(|value| value.strip_prefix("Bearer ")) {
            Some(token) => self.of_token(token.trim()).await?.ok_or_else(|| "the token is not accepted".to_owned()),
            None => Ok(User::anonymous()),
        }
    }

    async fn of_token(&self, token: &str) -> Result<Option<User>, String> {
        let now = self.clock.mono();
        if let Some(known) = kept(&self.tokens, &token.to_owned(), now) {
            return Ok(known);
        }
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let review = api.create(&PostParams::default(), &review).await.map_err(|e| e.to_string())?;
        let status = review.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true)).map(|user| User {
            name: user.username.unwrap_or_default(),
            uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        });
        let user = user.map(User::authenticated);
        keep(&self.tokens, token.to_owned(), user.clone(), now + self.kept, now);
        Ok(user)
    }

    /// Asks whether the user may do this; `path` is authorized where there are no attributes of a resource.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub(crate) async fn authorize(
        &self,
        user: &User,
        verb: &str,
        path: &str,
        attributes: Option<&Attributes>,
    ) -> Result<(), String> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        let now = self.clock.mono();
        let about =
            attributes.cloned().unwrap_or_else(|| Attributes { name: path.to_owned(), ..Attributes::default() });
        let key = (user.clone(), about, verb.to_owned());
        if let Some(known) = kept(&self.rights, &key, now) {
            return known;
        }
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let resource_attributes = attributes.map(|of| ResourceAttributes {
            group: some(&of.group),
            version: some(&of.version),
            namespace: some(&of.namespace),
            resource: some(&of.resource),
            subresource: some(&of.subresource),
            name: some(&of.name),
            verb: some(verb),
            ..ResourceAttributes::default()
        });
        let non_resource_attributes =
            attributes.is_none().then(|| NonResourceAttributes { path: Some(path.to_owned()), verb: some(verb) });
        let spec = SubjectAccessReviewSpec {
            user: some(&user.name),
            uid: some(&user.uid),
            groups: Some(user.groups.clone()),
            extra: Some(user.extra.clone()),
            resource_attributes,
            non_resource_attributes,
        };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let review = api.create(&PostParams::default(), &review).await.map_err(|e| e.to_string())?;
        let status = review.status.unwrap_or_default();
        let verdict = match (status.allowed, status.reason) {
            (true, _) => Ok(()),
            (false, reason) => Err(reason.unwrap_or_default()),
        };
        keep(&self.rights, key, verdict.clone(), now + self.kept, now);
        verdict
    }
}

fn unix_time(clock: &Clock) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(clock.wall().as_second()).unwrap_or_default()))
}

fn kept<K: Ord, V: Clone>(answers: &Answers<K, V>, key: &K, now: Instant) -> Option<V> {
    answers.lock().get(key).filter(|(_, until)| now < *until).map(|(value, _)| value.clone())
}

fn keep<K: Ord, V>(answers: &Answers<K, V>, key: K, value: V, until: Instant, now: Instant) {
    let mut answers = answers.lock();
    if answers.len() >= ANSWERS_MAX {
        answers.retain(|_, (_, until)| now < *until);
    }
    if answers.len() >= ANSWERS_MAX {
        answers.clear();
    }
    answers.insert(key, (value, until));
}

impl Trust {
    /// Reads the data of the ConfigMap, and the authority of replicas. Authorities that are missing verify nothing.
    fn read(data: &BTreeMap<String, String>, replicas: &str, certificate: &Arc<InUse>) -> Result<Self, String> {
        let list = |key: &str| -> Vec<String> {
            data.get(key).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
        };
        let of_pem = |name: &str, pem: &str| -> Result<Vec<CertificateDer<'static>>, String> {
            let all = CertificateDer::pem_slice_iter(pem.as_bytes());
            all.collect::<Result<_, _>>().map_err(|e| format!("key {name}: {e}"))
        };
        let authorities = |key: &str| of_pem(key, data.get(key).map(String::as_str).unwrap_or_default());
        let (clients, proxies) = (authorities("client-ca-file")?, authorities("requestheader-client-ca-file")?);
        let replicas = of_pem("ca-bundle.crt", replicas)?;
        let any: Vec<_> = clients.iter().chain(&proxies).chain(&replicas).cloned().collect();
        Ok(Self {
            tls: Some(Arc::new(tls::server_config(certificate.clone(), verifier(any)?).map_err(|e| e.to_string())?)),
            clients: verifier(clients)?,
            proxies: verifier(proxies)?,
            replicas: verifier(replicas)?,
            allowed_names: list("requestheader-allowed-names"),
            user_headers: list("requestheader-username-headers"),
            uid_headers: list("requestheader-uid-headers"),
            group_headers: list("requestheader-group-headers"),
            extra_prefixes: list("requestheader-extra-headers-prefix"),
        })
    }

    /// Name and organizations in the client's certificate, if one of these authorities signed it.
    fn name_of(
        &self,
        verifier: &Option<Arc<dyn ClientCertVerifier>>,
        peer: &Peer,
        now: UnixTime,
    ) -> Option<(String, Vec<String>)> {
        let ((leaf, chain), verifier) = (peer.split_first()?, verifier.as_ref()?);
        verifier.verify_client_cert(leaf, chain, now).ok()?;
        let (_, parsed) = x509_parser::certificate::X509Certificate::from_der(leaf).ok()?;
        let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().map(str::to_owned).ok();
        let name = parsed.subject().iter_common_name().find_map(text)?;
        Some((name, parsed.subject().iter_organization().filter_map(text).collect()))
    }

    /// The user that a proxy names in headers.
    fn user_in(&self, headers: &HeaderMap) -> Option<User> {
        let all = |names: &[String]| -> Vec<String> {
            let values = names.iter().flat_map(|name| headers.get_all(name.to_lowercase()));
            values.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned)).collect()
        };
        let name = all(&self.user_headers).into_iter().find(|name| !name.is_empty())?;
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.extra_prefixes {
            for (header, value) in headers {
                let key = header.as_str().strip_prefix(prefix.to_lowercase().as_str());
                if let (Some(key), Ok(value)) = (key, std::str::from_utf8(value.as_bytes())) {
                    let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
                    extra.entry(key).or_default().push(value.to_owned());
                }
            }
        }
        let uid = all(&self.uid_headers).into_iter().next().unwrap_or_default();
        Some(User { name, uid, groups: all(&self.group_headers), extra })
    }
}

/// A verifier of certificates by these authorities; clients may come without one.
fn verifier(authorities: Vec<CertificateDer<'static>>) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities);
    if roots.is_empty() {
        return Ok(None);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).allow_unauthenticated();
    Ok(Some(builder.build().map_err(|e| e.to_string())?))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use ironclad_apiserver::pki;
    use ironclad_seam::{Rng, Tasks};
    use serde_json::json;

    use super::*;

    fn headers(all: &[(&str, &str)]) -> HeaderMap {
        let mut out = HeaderMap::new();
        for (name, value) in all {
            out.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        out
    }

    #[test]
    fn users_are_in_the_headers_that_the_config_map_names() {
        let data = [
            ("requestheader-username-headers", json!(["X-Remote-User"])),
            ("requestheader-group-headers", json!(["X-Remote-Group"])),
            ("requestheader-extra-headers-prefix", json!(["X-Remote-Extra-"])),
        ];
        let data = data.into_iter().map(|(key, value)| (key.to_owned(), value.to_string())).collect();
        let trust = Trust::read(&data, "", &Arc::default()).unwrap();
        let user = trust.user_in(&headers(&[
            ("x-remote-user", "ann"),
            ("x-remote-group", "devs"),
            ("x-remote-group", "ops"),
            ("x-remote-extra-example.com%2fid", "7"),
        ]));
        let user = user.unwrap();
        assert_eq!((user.name.as_str(), user.groups.join(",").as_str()), ("ann", "devs,ops"));
        assert_eq!(user.extra["example.com/id"], ["7"]);
        assert_eq!(trust.user_in(&headers(&[("x-remote-group", "devs")])), None, "without a user there is none");
    }

    #[test]
    fn users_that_somebody_vouches_for_are_authenticated() {
        let user = |name: &str, groups: &[&str]| User {
            name: name.into(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..User::default()
        };
        for (name, groups, want) in [
            ("system:kube-aggregator", &[][..], &["system:authenticated"][..]),
            ("ann", &["devs"], &["devs", "system:authenticated"]),
            ("ann", &["system:authenticated", "devs"], &["system:authenticated", "devs"]),
            ("system:anonymous", &["system:unauthenticated"], &["system:unauthenticated"]),
            ("system:anonymous", &[], &[]),
        ] {
            assert_eq!(user(name, groups).authenticated().groups, want, "{name} {groups:?}");
        }
    }

    #[test]
    fn only_the_authority_of_the_proxy_lets_speak_for_others() {
        let seam = Seam { clock: Clock::system(), rng: Rng::from_seed(1), tasks: Tasks::new("test") };
        let (clients, proxies) = (pki::authority("a", 10, &seam).unwrap(), pki::authority("b", 10, &seam).unwrap());
        let data = [
            ("client-ca-file", clients.certificate.clone()),
            ("requestheader-client-ca-file", proxies.certificate.clone()),
        ];
        let data = data.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let trust = Trust::read(&data, "", &Arc::default()).unwrap();
        let peer = |authority: &pki::Pair, name| -> Peer {
            let made = pki::client_certificate(authority, name, 10, &seam).unwrap();
            Arc::new(vec![CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap()])
        };
        let name = |verifier, peer: &Peer| trust.name_of(verifier, peer, unix_time(&seam.clock)).map(|(name, _)| name);
        let (ann, proxy) = (peer(&clients, "ann"), peer(&proxies, "proxy"));
        assert_eq!(name(&trust.clients, &ann).as_deref(), Some("ann"));
        assert_eq!(name(&trust.proxies, &ann), None, "a client's certificate is not the proxy's");
        assert_eq!(name(&trust.proxies, &proxy).as_deref(), Some("proxy"));
        assert_eq!(name(&trust.clients, &proxy), None);
        assert_eq!(name(&trust.clients, &Arc::new(vec![])), None, "no certificate");
        let wrong = [("client-ca-file".to_owned(), "-----BEGIN CERTIFICATE-----\n!".to_owned())].into();
        assert!(Trust::read(&wrong, "", &Arc::default()).is_err());
    }
}
