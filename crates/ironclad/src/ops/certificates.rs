//! `ironclad_certificate_expiry_seconds`: time that is left of the certificates of this process.

use std::{fmt, sync::Arc};

use ironclad_seam::Clock;
use jiff::Timestamp;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};

/// Collector of the time that is left of one certificate.
pub(crate) struct Certificate {
    /// Label `name`.
    pub(crate) name: &'static str,
    /// Its end; `None` while there is none.
    pub(crate) until: Arc<dyn Fn() -> Option<Timestamp> + Send + Sync>,
    pub(crate) clock: Clock,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Certificate").field(&self.name).finish()
    }
}

impl Collector for Certificate {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let Some(until) = (self.until)() else { return Ok(()) };
        let help = "Seconds until the certificate ends; negative once it has";
        let mut family =
            encoder.encode_descriptor("ironclad_certificate_expiry_seconds", help, None, MetricType::Gauge)?;
        let labels = [("name", self.name)];
        let left = until.duration_since(self.clock.wall()).as_secs();
        ConstGauge::new(left).encode(family.encode_family(&labels)?)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text::encode, registry::Registry};

    use super::*;

    #[test]
    fn time_that_is_left_is_shown_with_a_name() {
        let clock = Clock::system();
        let end = clock.wall_seconds().saturating_add(jiff::SignedDuration::from_hours(24)).unwrap();
        for (until, want) in [(None, false), (Some(end), true)] {
            let mut registry = Registry::default();
            let until: Arc<dyn Fn() -> Option<Timestamp> + Send + Sync> = Arc::new(move || until);
            registry.register_collector(Box::new(Certificate { name: "agent", until, clock: clock.clone() }));
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            let shown = text.contains("ironclad_certificate_expiry_seconds{name=\"agent\"} 86");
            assert_eq!(shown, want, "{text}");
        }
    }
}
