//! Bindings of pods to nodes, which are carried out and not stored.

use crate::kinds::kind::{Hooks, Kind};

pub(in crate::kinds) const KIND: Kind =
    Kind { hooks: Hooks { binds_pod: true, ..Hooks::NONE }, ..Kind::new("v1 bindings Binding N verbs=create") };
