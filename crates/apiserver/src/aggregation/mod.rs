//! API aggregation: groups that routes of this process answer, and groups that requests are forwarded for, as their
//! APIServices say (specification/apiserver.md 22).
//!
//! Their resources are known from discovery alone; nothing of them is stored.

pub(crate) mod apis;
mod availability;
pub(crate) mod documents;
mod endpoint;
mod forward;
pub(crate) mod forwarder;

pub use apis::{ApiResource, ServedApi};
pub(crate) use availability::follow;
pub(crate) use forward::forward;
pub use forward::{extra_key, passed_on};
pub use forwarder::{ForwardAnswer, ForwardBody, ForwardTarget, Forwarder};
