//! Identity of agents in the control plane: certificates that are approved, and rights (specification/operations.md
//! 10.3, 10.4).
//!
//! | module | decision |
//! | --- | --- |
//! | [`request`] | recognises CertificateSigningRequests of agents |
//! | [`approval`] | approves them, or leaves them to a person |
//! | [`rights`] | roles, bindings and namespaces of an agent |

pub mod approval;
pub mod request;
pub mod rights;
#[cfg(test)]
pub(crate) mod testkit;
