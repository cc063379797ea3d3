//! Figures of the embedded API server and its store.

use std::{fmt, sync::Arc};

use ironclad_apiserver::Server;
use ironclad_store::Engine;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use super::Check;

/// The embedded API server of the control plane and the store of the process.
#[derive(Clone)]
pub(crate) struct Embedded {
    pub(crate) plane: Arc<Server>,
    pub(crate) engine: Engine,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").finish_non_exhaustive()
    }
}

impl Embedded {
    /// Readiness of the store, which a process without writes does not have.
    pub(crate) fn check(&self) -> Check {
        let refusal = self.engine.refuses_writes();
        ("store", refusal.map_or(Ok(()), |refusal| Err(format!("{:#}", anyhow::Error::new(refusal)))))
    }
}

impl Collector for Embedded {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let stats = self.engine.stats();
        let refuses = i64::from(self.engine.refuses_writes().is_some());
        let entries = i64::try_from(self.plane.store().len()).unwrap_or(i64::MAX);
        let bytes = stats.backend.stored_bytes.and_then(|bytes| i64::try_from(bytes).ok());
        for (name, help, value) in [
            (
                "ironclad_store_read_only",
                "1 while the store takes no writes, since its disk is full or failed",
                Some(refuses),
            ),
            ("ironclad_store_entries", "Entries of the control plane, one for each object", Some(entries)),
            ("ironclad_store_file_bytes", "Bytes of the store file that are in use", bytes),
        ] {
            let Some(value) = value else { continue };
            let encoder = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(encoder)?;
        }
        for (name, help, value) in [
            ("ironclad_store_transactions", "Transactions that are durable", stats.transactions),
            ("ironclad_store_groups", "Groups of transactions that were made durable together", stats.groups),
        ] {
            let encoder = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(encoder)?;
        }
        let help = "Requests that the API server answered, by verb (the method, or WATCH) and code";
        let mut family = encoder.encode_descriptor("ironclad_apiserver_requests", help, None, MetricType::Counter)?;
        for ((verb, code), count) in self.plane.answered() {
            let code = code.to_string();
            ConstCounter::new(count).encode(family.encode_family(&[("verb", verb), ("code", code.as_str())])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ironclad_apiserver::{Identity, Options};
    use ironclad_runtime::{Traffic, in_process_client};
    use ironclad_seam::{Clock, Rng, Seam, Tasks};
    use ironclad_store::{
        Commit, RedbBackend,
        testing::{Disk, DiskFault},
    };
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::{Api, api::PostParams};
    use prometheus_client::registry::Registry;
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_store_that_takes_no_writes_is_not_ready_and_is_a_metric() {
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH);
        let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(1), tasks: Tasks::new("test") };
        let disk = Disk::new();
        let backend = RedbBackend::on(disk.storage(), "disk").unwrap();
        let engine = Engine::open(Box::new(backend), Commit::Inline, clock).unwrap();
        let plane = Server::open(Options::default(), engine.store("plane"), seam.child("plane")).await.unwrap();
        let client = in_process_client(plane.in_process(Identity::admin("tester")), Arc::new(Traffic::default()));
        let embedded = Embedded { plane, engine };
        let shown = || {
            let (mut registry, mut text) = (Registry::default(), String::new());
            registry.register_collector(Box::new(embedded.clone()));
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        let create = async |name: &str| {
            let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            Api::all(client.clone()).create(&PostParams::default(), &namespace).await
        };
        create("one").await.unwrap();
        assert_eq!(embedded.check(), ("store", Ok(())));
        let text = shown();
        assert!(text.contains("ironclad_store_read_only 0\n"), "{text}");
        assert!(text.contains("ironclad_apiserver_requests_total{verb=\"POST\",code=\"201\"} 1\n"), "{text}");

        disk.fail_at(disk.calls() + 1, DiskFault::NoSpace);
        create("two").await.unwrap_err();
        let (name, why) = embedded.check();
        assert!(name == "store" && why.is_err(), "{why:?}");
        assert!(shown().contains("ironclad_store_read_only 1\n"), "{}", shown());
    }
}
