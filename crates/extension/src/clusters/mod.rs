//! Group `cluster.karmada.io` as an aggregated API behind a kube-apiserver, with `clusters/proxy`
//! (specification/operations.md 4.1).
//!
//! The kube-apiserver stores Clusters in a group of their own, so that it does all that it does for objects of a CRD:
//! storage, watches, tables, validation, defaults. Here only the group is changed on the way there and back
//! ([`ironclad_admission::stored`]), by every replica alike, which keep nothing. Processes of ours that read Clusters
//! do so by [`of_stored`], without the aggregated API.

mod backed;
mod carry_over;
mod serve;

pub use backed::of_stored;
pub use carry_over::carry_over;
pub use ironclad_admission::stored::carry_over::Form;
pub use serve::{ClusterServer, serve_clusters};
