//! What is refused, filled in and warned of when objects are written (admission.md).
//!
//! [`mutate`] and [`validate`] review one write of the embedded server by every rule that applies;
//! [`review::Review`] answers one webhook of a kube-apiserver. All are pure: what they must know besides the request they name beforehand ([`needs`]), and
//! what is to be written beside it they return. Nothing here stores, asks or waits.
//!
//! | where | what |
//! | --- | --- |
//! | [`table`] | which rules apply to which writes, the one source of all registrations |
//! | `kinds` | the rules, a file for each kind |
//! | [`review`] | AdmissionReview and ConversionReview on the wire |
//! | [`registration`] | the objects that make a kube-apiserver ask |
//! | [`convert`] | v1alpha1 of the bindings |

pub mod convert;
mod diff;
pub mod field;
mod kinds;
pub mod registration;
mod request;
pub mod review;
mod rules;
pub mod table;

pub use request::{Config, Denial, Effect, Lookups, Need, Operation, QUOTA_EXCEEDED, Request, Resource, Verdict};
pub use rules::{BYPASS_GROUP, mutate, needs, validate};

#[cfg(test)]
mod tests;
