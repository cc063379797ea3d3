//! Certificates that this program makes for itself, in a Secret, and their renewal (specification/admission.md 1, 8):
//! of the webhook server, of the metrics adapter, and of the embedded server as a client of aggregated ones.
//!
//! An authority signs the certificate; both are in a Secret that all replicas share. The other side trusts a
//! bundle: a new authority is added to it while the old one is still valid, so that no call fails on the day of the
//! change.

use std::collections::BTreeMap;

use ironclad_apiserver::pki::{self, Pair};
use ironclad_seam::Seam;
use jiff::Timestamp;

/// Keys of the Secret.
pub(crate) const CA_CERTIFICATE: &str = "ca.crt";
pub(crate) const CA_KEY: &str = "ca.key";
pub(crate) const BUNDLE: &str = "ca-bundle.crt";
pub(crate) const CERTIFICATE: &str = "tls.crt";
pub(crate) const KEY: &str = "tls.key";

const CA_DAYS: i64 = 3_650;
const LEAF_DAYS: i64 = 365;
/// Remaining validity, in days, at which a certificate is renewed.
const CA_RENEW_DAYS: i64 = 730;
const LEAF_RENEW_DAYS: i64 = 90;
const DAY_SECONDS: i64 = 86_400;

/// The purpose of certificates.
#[derive(Debug, Clone)]
pub(crate) struct Purpose {
    /// Name of the Secret.
    pub(crate) secret: &'static str,
    /// Name of the authority.
    pub(crate) authority: &'static str,
    /// Name in the certificate.
    pub(crate) name: &'static str,
    /// The names and addresses that the certificate of a server is for; `None` for that of a client.
    pub(crate) hosts: Option<Vec<String>>,
}

/// Certificates that we present, and authorities that clients trust.
#[derive(Debug, Clone)]
pub(crate) struct Certificates {
    pub(crate) authority: Pair,
    /// The authorities that are trusted, PEM.
    pub(crate) bundle: String,
    pub(crate) serving: Pair,
}

impl Certificates {
    /// Reads the Secret's data; `None` if something is missing.
    pub(crate) fn read(data: &BTreeMap<String, Vec<u8>>) -> Option<Self> {
        let text = |key: &str| data.get(key).and_then(|bytes| String::from_utf8(bytes.clone()).ok());
        Some(Self {
            authority: Pair { certificate: text(CA_CERTIFICATE)?, key: text(CA_KEY)? },
            bundle: text(BUNDLE)?,
            serving: Pair { certificate: text(CERTIFICATE)?, key: text(KEY)? },
        })
    }

    /// Returns the Secret's data.
    pub(crate) fn data(&self) -> BTreeMap<String, Vec<u8>> {
        [
            (CA_CERTIFICATE, &self.authority.certificate),
            (CA_KEY, &self.authority.key),
            (BUNDLE, &self.bundle),
            (CERTIFICATE, &self.serving.certificate),
            (KEY, &self.serving.key),
        ]
        .into_iter()
        .map(|(key, text)| (key.to_owned(), text.clone().into_bytes()))
        .collect()
    }

    /// Returns new certificates if the current ones are missing, expire soon, or are for other hosts.
    ///
    /// # Errors
    /// The error of the certificate library.
    pub(crate) fn renewed(existing: Option<&Self>, purpose: &Purpose, seam: &Seam) -> Result<Option<Self>, String> {
        let hosts = purpose.hosts.as_deref().unwrap_or_default();
        let now = seam.clock.wall_seconds();
        let lasts = |certificate: &str, days: i64| {
            pki::validity(certificate).is_some_and(|(ends, _)| seconds_left(ends, now) > days * DAY_SECONDS)
        };
        let authority = existing.filter(|s| lasts(&s.authority.certificate, CA_RENEW_DAYS)).map(|s| &s.authority);
        let serves = |existing: &&Self| {
            let names = pki::validity(&existing.serving.certificate).map(|(_, names)| names).unwrap_or_default();
            lasts(&existing.serving.certificate, LEAF_RENEW_DAYS) && hosts.iter().all(|host| names.contains(host))
        };
        if authority.is_some() && existing.is_some_and(|s| serves(&s)) {
            return Ok(None);
        }
        let (authority, bundle) = match (authority, existing) {
            (Some(authority), Some(existing)) => (authority.clone(), existing.bundle.clone()),
            _ => {
                let fresh = pki::authority(purpose.authority, CA_DAYS, seam)?;
                let old =
                    existing.map(|s| s.authority.certificate.as_str()).filter(|old| lasts(old, 0)).unwrap_or_default();
                let bundle = format!("{}{old}", fresh.certificate);
                (fresh, bundle)
            }
        };
        let serving = match &purpose.hosts {
            Some(hosts) => pki::serving(&authority, purpose.name, hosts, LEAF_DAYS, seam)?,
            None => pki::client_certificate(&authority, purpose.name, LEAF_DAYS, seam)?,
        };
        Ok(Some(Self { authority, bundle, serving }))
    }
}

fn seconds_left(ends: Timestamp, now: Timestamp) -> i64 {
    ends.as_second() - now.as_second()
}

#[cfg(test)]
mod tests {
    use ironclad_seam::{Clock, Rng, Tasks};

    use super::*;

    fn seam_at(day: i64) -> Seam {
        let now = Timestamp::from_second(1_790_000_000 + day * DAY_SECONDS).unwrap();
        Seam { clock: Clock::simulated(now), rng: Rng::from_seed(7), tasks: Tasks::new("test") }
    }

    fn renewed(existing: Option<&Certificates>, hosts: &[String], seam: &Seam) -> Result<Option<Certificates>, String> {
        let purpose = Purpose { secret: "s", authority: "ca", name: "leaf", hosts: Some(hosts.to_vec()) };
        Certificates::renewed(existing, &purpose, seam)
    }

    #[tokio::test(start_paused = true)]
    async fn renewal_times() {
        let hosts = ["127.0.0.1".to_owned(), "ironclad.example".to_owned()];
        let first = renewed(None, &hosts, &seam_at(0)).unwrap().unwrap();
        let (_, names) = pki::validity(&first.serving.certificate).unwrap();
        assert_eq!(names, hosts);
        assert_eq!(first.bundle, first.authority.certificate);
        let read = Certificates::read(&first.data()).unwrap();
        assert_eq!(
            (read.serving.key.as_str(), read.bundle.as_str()),
            (first.serving.key.as_str(), first.bundle.as_str())
        );
        assert!(Certificates::read(&BTreeMap::new()).is_none());

        let more = ["other.example".to_owned()];
        for (name, day, hosts, leaf, authority) in [
            ("fresh ones stay", 1, &hosts[..], false, false),
            ("fewer hosts are no reason", 1, &hosts[..1], false, false),
            ("another host is", 1, &more[..], true, false),
            ("90 days and some before the end", 365 - 91, &hosts, false, false),
            ("90 days before the end", 365 - 90, &hosts, true, false),
            ("an authority two years before its end", 3_650 - 730, &hosts, true, true),
        ] {
            let seam = seam_at(day);
            // By then the server's own certificate was renewed; only the rows about it keep the old one.
            let existing = if day > 365 {
                Certificates {
                    serving: pki::serving(&first.authority, "x", hosts, 365, &seam).unwrap(),
                    ..first.clone()
                }
            } else {
                first.clone()
            };
            let renewed = renewed(Some(&existing), hosts, &seam).unwrap();
            assert_eq!(renewed.is_some(), leaf, "{name}");
            let Some(renewed) = renewed else { continue };
            assert_eq!(renewed.authority.certificate != first.authority.certificate, authority, "{name}");
            assert!(
                renewed.bundle.contains(&first.authority.certificate),
                "{name}: what signed before is still trusted"
            );
            assert!(renewed.bundle.starts_with(&renewed.authority.certificate), "{name}");
        }
        let ended = renewed(Some(&first), &hosts, &seam_at(4_000)).unwrap().unwrap();
        assert!(!ended.bundle.contains(&first.authority.certificate), "what has ended is trusted no more");
    }
}
