//! `ironclad_certificate_expiry_seconds`: time that is left of the certificates of this process
//! (specification/operations.md 10.5).

use std::{fmt, sync::Arc};

use ironclad_seam::Clock;
use jiff::Timestamp;
use parking_lot::RwLock;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};

use crate::tls::InUse;

/// End of a certificate; `None` while there is none.
type Until = Box<dyn Fn() -> Option<Timestamp> + Send + Sync>;

/// Collector of the time that is left of each certificate that a process presents. Cheap to clone.
#[derive(Clone)]
pub struct CertificateExpiry {
    clock: Clock,
    all: Arc<RwLock<Vec<(&'static str, Until)>>>,
}

impl CertificateExpiry {
    /// Of no certificate yet.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, all: Arc::default() }
    }

    /// Shows the time until this end, with label `name`.
    pub fn show(&self, name: &'static str, until: impl Fn() -> Option<Timestamp> + Send + Sync + 'static) {
        self.all.write().push((name, Box::new(until)));
    }

    /// The certificate of a listener, which is shown with this name.
    pub(crate) fn in_use(&self, name: &'static str) -> Arc<InUse> {
        let in_use = Arc::new(InUse::default());
        let shown = in_use.clone();
        self.show(name, move || shown.until());
        in_use
    }
}

impl fmt::Debug for CertificateExpiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.read().iter().map(|(name, _)| name)).finish()
    }
}

impl Collector for CertificateExpiry {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let all = self.all.read();
        let mut ends = all.iter().filter_map(|(name, until)| Some((*name, until()?))).peekable();
        if ends.peek().is_none() {
            return Ok(());
        }
        let help = "Seconds until the certificate ends; negative once it has";
        let mut family =
            encoder.encode_descriptor("ironclad_certificate_expiry_seconds", help, None, MetricType::Gauge)?;
        for (name, until) in ends {
            let left = until.duration_since(self.clock.wall()).as_secs();
            ConstGauge::new(left).encode(family.encode_family(&[("name", name)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ironclad_apiserver::pki;
    use ironclad_seam::{Rng, Seam, Tasks};
    use prometheus_client::{encoding::text::encode, registry::Registry};

    use super::*;

    #[test]
    fn time_that_is_left_is_shown_with_a_name() {
        let now = Timestamp::from_second(1_790_000_000).unwrap();
        let seam = Seam { clock: Clock::simulated(now), rng: Rng::from_seed(7), tasks: Tasks::new("test") };
        let expiry = CertificateExpiry::new(seam.clock.clone());
        let mut registry = Registry::default();
        registry.register_collector(Box::new(expiry.clone()));
        let shown = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
        };
        expiry.show("agent", || None);
        let in_use = expiry.in_use("webhooks");
        assert_eq!(shown(), [""; 0], "none is there yet");

        expiry.show("server", move || now.checked_sub(jiff::SignedDuration::from_secs(5)).ok());
        let authority = pki::authority("ca", 30, &seam).unwrap();
        let pair = pki::serving(&authority, "s", &["localhost".to_owned()], 2, &seam).unwrap();
        in_use.set(&pair).unwrap();
        let left = pki::validity(&pair.certificate).unwrap().0.duration_since(now).as_secs();
        let shown = shown();
        let seconds = |line: &str, name: &str| {
            let rest = line.strip_prefix(&format!("ironclad_certificate_expiry_seconds{{name=\"{name}\"}} "))?;
            rest.parse::<i64>().ok()
        };
        let [webhooks, server] = &*shown else { panic!("{shown:?}") };
        // The clock goes on meanwhile.
        assert!(seconds(webhooks, "webhooks").is_some_and(|got| (left - 60..=left).contains(&got)), "{webhooks}");
        assert!(seconds(server, "server").is_some_and(|got| (-65..=-5).contains(&got)), "{server}");
    }
}
