//! The verbs, from a decoded request to an answer.

pub(crate) mod apply;
pub(crate) mod body;
pub(crate) mod connect;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod follow_up;
pub(crate) mod modify;
pub(crate) mod options;
pub(crate) mod patch;
pub(crate) mod read;
pub(crate) mod review;
pub(crate) mod subresource;
pub(crate) mod token;
pub(crate) mod update;
pub(crate) mod watch;
