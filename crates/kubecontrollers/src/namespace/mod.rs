//! Namespaces: emptied before they go, and given a default ServiceAccount and the root certificate while they live.

mod contents;
mod decide;
mod life;

pub(crate) use contents::{DEFAULT_SERVICE_ACCOUNT, ROOT_CA, start_root_ca, start_service_account};
pub(crate) use life::start;
