//! Namespaces: emptied on deletion; a default ServiceAccount and the root certificate while active.

mod contents;
mod decide;
mod life;

pub(crate) use contents::{DEFAULT_SERVICE_ACCOUNT, ROOT_CA, start_root_ca, start_service_account};
pub(crate) use life::start;
