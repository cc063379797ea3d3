//! ResourceQuotas: what an object uses, which quotas count it, and whether it fits (specification/apiserver.md 21).
//!
//! Pure functions over objects as JSON, for the API server, which charges quotas when objects are written, and for the
//! controller, which counts what is there. Neither the validation of quotas nor FederatedResourceQuotas are here.

mod amounts;
mod check;
mod claim;
mod counted;
mod pod;
mod scope;
mod service;

pub use amounts::{Amounts, to_json};
pub use check::{Charge, Refusal, Write, check};
pub use counted::Counted;
