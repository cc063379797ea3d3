//! Metrics of members over their metrics APIs (specification/autoscaling.md 3).
//!
//! [`MemberMetrics`] asks; [`Fleet`] knows which members there are, and in which of them an object is. How answers are
//! read and merged is decided in `ironclad_hpa::metrics`.

mod ask;
mod bucket;
mod fleet;
mod observed;
mod slots;
#[cfg(test)]
mod tests;

pub use ask::{CustomQuery, ExternalQuery, Member, MemberMetrics, MetricResource, MetricResources, Options};
pub use fleet::Fleet;
pub use observed::Observed;
