//! The rules of crate `admission` at work.

mod certificates;
mod in_process;
mod lookup;
mod reach;
mod server;
mod webhooks;

pub(crate) use certificates::{Certificates, Purpose};
pub use in_process::InProcessAdmission;
pub use webhooks::{WebhookError, WebhookOptions, serve_webhooks};
pub(crate) use webhooks::{certificates, covers, failed};
