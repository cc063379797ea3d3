//! The runtime against the embedded server, in virtual time.

mod leader;
