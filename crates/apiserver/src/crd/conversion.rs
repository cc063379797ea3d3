//! The conversion webhook that a CRD names (specification/apiserver.md 18).

use serde_json::Value;

use crate::object;

/// Versions of the review that can be sent, the best first.
pub(crate) const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// The conversion webhook of a CRD.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConversionWebhook {
    /// The CRD's name.
    pub(crate) name: String,
    /// `clientConfig`.
    pub(crate) client: Value,
    /// The version of the review.
    pub(crate) review: &'static str,
}

impl ConversionWebhook {
    /// The webhook of a CRD, if its strategy is to have one.
    pub(crate) fn of(crd: &Value) -> Option<Self> {
        let conversion = crd.pointer("/spec/conversion").filter(|c| c["strategy"] == "Webhook")?;
        let versions = conversion.pointer("/webhook/conversionReviewVersions").and_then(Value::as_array);
        let review = versions.into_iter().flatten().find_map(|v| REVIEWS.into_iter().find(|known| *v == **known))?;
        let client = conversion.pointer("/webhook/clientConfig")?.clone();
        Some(Self { name: object::meta_str(crd, "name").to_owned(), client, review })
    }
}
