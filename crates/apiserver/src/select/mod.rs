//! Selectors of lists and watches: by labels and by fields (apiserver.md 10).

mod field;
mod label;

use serde_json::Value;

pub(crate) use field::FieldSelector;
pub(crate) use label::LabelSelector;

use crate::{registry::Resource, request::Query, status::ApiError};

/// Both selectors of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Selector {
    /// Reads both from the query.
    pub(crate) fn of(resource: &Resource, query: &Query) -> Result<Self, ApiError> {
        Ok(Self {
            labels: LabelSelector::parse(query.get("labelSelector").unwrap_or_default())?,
            fields: FieldSelector::parse(resource, query.get("fieldSelector").unwrap_or_default())?,
        })
    }

    /// True when nothing is selected away.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// True for an object that both select.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }
}
