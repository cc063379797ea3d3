//! Reviews: questions about access, answered and never stored (specification/apiserver.md 20).

use serde_json::{Value, json};

use super::{body, options::WriteOptions};
use crate::{
    context::Cx,
    respond::{self, Reply},
    status::ApiError,
};

/// POST of a review; `answer` makes its status.
pub(crate) fn create(
    cx: &Cx,
    bytes: &[u8],
    answer: fn(&Cx, &mut Value) -> Result<Value, ApiError>,
) -> Result<Reply, ApiError> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions")?;
    let mut review = body::object(cx, bytes, options.field_validation)?;
    let status = answer(cx, &mut review)?;
    if review["metadata"].is_null() {
        review["metadata"] = json!({});
    }
    review["status"] = status;
    Ok(respond::formatted(cx, 201, &review))
}
