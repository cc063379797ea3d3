//! Protobuf request bodies (apiserver.md 2).

use serde_json::Value;

use crate::status::ApiError;

/// The object in a protobuf body.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ApiError> {
    let _ = body;
    Err(ApiError::unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml",
    ))
}
