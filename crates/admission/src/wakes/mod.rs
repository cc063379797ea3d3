//! Wake rules: which change of an object enqueues which key of a controller. A module per controller.

pub mod agent_csr_approving;
pub mod agent_rights;
