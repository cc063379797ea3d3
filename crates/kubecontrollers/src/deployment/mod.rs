//! Deployments: ReplicaSets for their templates, rolled, scaled and forgotten.

mod decide;
mod revision;
mod rolling;
mod status;
mod strategy;
#[cfg(test)]
mod testkit;
