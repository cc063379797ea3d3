//! The kinds of batch.

pub(in crate::kinds) mod cron_job;
pub(in crate::kinds) mod job;
