//! Deprecated health of components.

use crate::{kinds::kind::Kind, registry::strategy::Strategy};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy { deprecated: "v1 ComponentStatus is deprecated in v1.19+", ..Strategy::NONE },
    ..Kind::new("v1 componentstatuses ComponentStatus C short=cs verbs=get,list")
};
