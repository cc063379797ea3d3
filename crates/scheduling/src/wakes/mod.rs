//! Wake rules: which change of an object enqueues which key of a controller. A module per controller; the scheduler has
//! one for changes of clusters and one for changes of bindings.

pub mod binding;
pub mod cluster;
pub mod without_node;
