//! Admission: validation, defaults and warnings when objects are written (specification/admission.md).
//!
//! [`mutate`] and [`validate`] review one write of the embedded server by every rule that applies; [`review::Review`]
//! answers one webhook call of a kube-apiserver. All are pure. Objects that they need besides the request are named
//! beforehand ([`needs`]); writes of other objects are returned. Nothing here stores, sends requests or waits.
//!
//! | module | content |
//! | --- | --- |
//! | [`table`] | which rules apply to which writes; all registrations come from it |
//! | `kinds` | the rules, one file per kind |
//! | [`review`] | AdmissionReview and ConversionReview on the wire |
//! | [`registration`] | webhook configurations for a kube-apiserver |
//! | [`convert`] | v1alpha1 of the bindings |
//! | [`agents`] | certificates and rights of agents |
//! | [`wakes`] | changes that enqueue agents in their controllers |
//! | [`without_effect`] | fields and kinds on which no code acts |

pub mod agents;
mod cluster_names;
pub mod convert;
mod diff;
pub mod field;
mod kinds;
pub mod registration;
mod request;
pub mod review;
mod rules;
pub mod stored;
pub mod table;
pub mod wakes;
pub mod without_effect;

pub use request::{Config, Denial, Effect, Lookups, Need, Operation, QUOTA_EXCEEDED, Request, Resource, Verdict};
pub use rules::{BYPASS_GROUP, mutate, needs, validate};

#[cfg(test)]
mod tests;
