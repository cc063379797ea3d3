//! TLS settings of the dashboard of `ironclad run`: certificates that are made and kept in the control plane, or given
//! ones, which are read again as they change.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ironclad_apiserver::pki::Pair;
use ironclad_seam::Seam;
use ironclad_serving::Settings;
use kube::Client;

use crate::{
    CertificateExpiry,
    admission::{Purpose, WebhookError, certificates},
    tls::{InUse, server_config},
};

const NAME: &str = "ironclad-dashboard";
/// Time between two looks whether the managed certificate ends.
const CHECK_EVERY: Duration = Duration::from_secs(3_600);
/// Time between two looks whether the files have changed.
const READ_EVERY: Duration = Duration::from_secs(30);

/// TLS settings with a managed certificate for these names and addresses, signed by an authority of its own, in a
/// Secret that all replicas share.
///
/// # Errors
/// The control plane rejects the Secret.
pub async fn managed(
    client: Client,
    hosts: Vec<String>,
    expiry: &CertificateExpiry,
    seam: &Seam,
) -> Result<Settings, WebhookError> {
    let purpose = Purpose {
        secret: "ironclad-dashboard-certificates",
        authority: "ironclad-dashboard-ca",
        name: NAME,
        hosts: Some(hosts),
    };
    let in_use = expiry.in_use(NAME);
    let found = certificates(&client, &purpose, seam).await?;
    in_use.set(&found.serving).map_err(WebhookError::Certificate)?;
    let (kept, of_keeper) = (in_use.clone(), seam.clone());
    seam.tasks.supervise(&seam.clock, "dashboard-certificate", move || {
        let (client, purpose, in_use, seam) = (client.clone(), purpose.clone(), kept.clone(), of_keeper.clone());
        async move {
            loop {
                seam.clock.sleep(CHECK_EVERY).await;
                let checked = match certificates(&client, &purpose, &seam).await {
                    Ok(found) => in_use.set(&found.serving).map_err(WebhookError::Certificate),
                    Err(error) => Err(error),
                };
                if let Err(error) = checked {
                    tracing::warn!(%error, "checking the certificate of the dashboard failed");
                }
            }
        }
    });
    settings(in_use).map_err(WebhookError::Certificate)
}

/// TLS settings with the certificate and key of these files. While they can't be read, or do not belong together, those
/// that were read before are used.
///
/// # Errors
/// They can't be used at the start.
pub fn from_files(
    certificate: PathBuf,
    key: PathBuf,
    expiry: &CertificateExpiry,
    seam: &Seam,
) -> Result<Settings, String> {
    let mut files = Files { certificate, key, last: None, in_use: expiry.in_use(NAME) };
    files.read()?;
    let (in_use, clock) = (files.in_use.clone(), seam.clock.clone());
    seam.tasks.spawn("dashboard-certificate", async move {
        loop {
            clock.sleep(READ_EVERY).await;
            match files.read() {
                Ok(true) => tracing::info!("the certificate of the dashboard was read again"),
                Ok(false) => {}
                Err(error) => tracing::warn!(error, "the certificate of the dashboard was not read again"),
            }
        }
    });
    settings(in_use)
}

/// A certificate and its key in files.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    /// Content that is in use.
    last: Option<(String, String)>,
    in_use: Arc<InUse>,
}

impl Files {
    /// Uses what is in the files; false if it is in use.
    fn read(&mut self) -> Result<bool, String> {
        let (certificate, key) = (text(&self.certificate)?, text(&self.key)?);
        if self.last.as_ref().is_some_and(|(of_certificate, of_key)| (of_certificate, of_key) == (&certificate, &key)) {
            return Ok(false);
        }
        let pair = Pair { certificate, key };
        self.in_use.set_matching(&pair).map_err(|why| {
            let names = (self.certificate.display(), self.key.display());
            format!("certificate {} and key {} can't be used: {why}", names.0, names.1)
        })?;
        self.last = Some((pair.certificate, pair.key));
        Ok(true)
    }
}

fn text(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("reading {}: {error}", path.display()))
}

/// Settings that ask clients for no certificates: users have tokens.
fn settings(in_use: Arc<InUse>) -> Result<Settings, String> {
    let config = Arc::new(server_config(in_use, None).map_err(|error| error.to_string())?);
    Ok(Arc::new(move || config.clone()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ironclad_apiserver::pki;
    use ironclad_seam::{Clock, Rng, Tasks};
    use jiff::Timestamp;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn files_are_read_again_and_a_pair_that_does_not_match_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let now = Timestamp::from_second(1_790_000_000).unwrap();
        let seam = Seam { clock: Clock::simulated(now), rng: Rng::from_seed(7), tasks: Tasks::new("test") };
        let authority = pki::authority("ca", 10, &seam).unwrap();
        let pair = || pki::serving(&authority, "leaf", &["fleet.example".to_owned()], 5, &seam).unwrap();
        let (first, second) = (pair(), pair());
        let mut files =
            Files { certificate: certificate.clone(), key: key.clone(), last: None, in_use: Arc::default() };
        for (name, of_certificate, of_key, want, used) in [
            ("no files", None, None, Err("reading "), None),
            ("no certificate", Some("none"), Some(&*first.key), Err("no certificate"), None),
            ("another key", Some(&first.certificate), Some(&second.key), Err("not the key of"), None),
            ("a pair", Some(&first.certificate), Some(&first.key), Ok(true), Some(&first)),
            ("the same", Some(&first.certificate), Some(&first.key), Ok(false), Some(&first)),
            ("half of the next", Some(&second.certificate), Some(&first.key), Err("not the key of"), Some(&first)),
            ("the next", Some(&second.certificate), Some(&second.key), Ok(true), Some(&second)),
            ("no key", Some(&first.certificate), Some("none"), Err("can't be used"), Some(&second)),
        ] {
            for (path, text) in [(&certificate, of_certificate), (&key, of_key)] {
                text.into_iter().for_each(|text| fs::write(path, text).unwrap());
            }
            match (files.read(), want) {
                (Ok(is_new), Ok(want)) => assert_eq!(is_new, want, "{name}"),
                (Err(error), Err(want)) => assert!(error.contains(want), "{name}: {error}"),
                (read, _) => panic!("{name}: {read:?}"),
            }
            let wanted = InUse::default();
            used.into_iter().for_each(|pair| wanted.set(pair).unwrap());
            assert_eq!(files.in_use.chain(), wanted.chain(), "{name}");
        }
    }
}
