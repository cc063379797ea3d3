//! Bootstrap tokens, with which members are registered in pull mode (specification/operations.md 2.6).

mod bearer;
pub mod command;
mod line;
mod secret;

pub use bearer::{BootstrapToken, ID_LENGTH, NoRandomness, NoToken, SECRET_LENGTH, id_of};
pub use line::{is_internal, register_line};
pub use secret::{NewToken, secret};
