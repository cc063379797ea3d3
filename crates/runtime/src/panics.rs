//! The metric of panics of supervised tasks.

use std::fmt;

use ironclad_seam::Panics;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter},
};

/// `ironclad_task_panics_total`, by the name of the task.
#[derive(Debug)]
pub struct PanicMetrics(pub Panics);

impl Collector for PanicMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let help = "Panics of long-lived tasks, which were restarted";
        let mut family = encoder.encode_descriptor("ironclad_task_panics", help, None, MetricType::Counter)?;
        for (task, total) in self.0.totals() {
            ConstCounter::new(total).encode(family.encode_family(&[("task", task.as_str())])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ironclad_seam::{Clock, Tasks};
    use prometheus_client::registry::Registry;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn panics_are_shown_by_task() {
        let tasks = Tasks::new("p");
        tasks.supervise(&Clock::system(), "loop", || async { panic!("on purpose") });
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let mut registry = Registry::default();
        registry.register_collector(Box::new(PanicMetrics(tasks.panics().clone())));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("ironclad_task_panics_total{task=\"loop\"} 2"), "{text}");
    }
}
