//! ServiceAccounts.

use crate::{
    kinds::{
        kind::Kind,
        shared::columns::{AGE, NAME, created, name},
    },
    registry::strategy::Strategy,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy { columns: &[NAME, AGE], cells: |o, now| vec![name(o), created(o, now)], ..Strategy::NONE },
    ..Kind::new("v1 serviceaccounts ServiceAccount N short=sa +token")
};
