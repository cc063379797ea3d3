//! The verbs against embedded servers in virtual time.

mod crds;
mod join;
mod support;
mod unjoin;
