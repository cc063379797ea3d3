//! TokenReviews: whose a token is.

use serde_json::{Value, json};

use super::user_info;
use crate::{
    auth::{bearer, jwt::ISSUER},
    context::Cx,
    kinds::kind::{Hooks, Kind},
    status::ApiError,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    hooks: Hooks { review: Some(review), ..Hooks::NONE },
    ..Kind::new("authentication.k8s.io/v1 tokenreviews TokenReview C verbs=create")
};

fn review(cx: &Cx, review: &mut Value) -> Result<Value, ApiError> {
    let token = review.pointer("/spec/token").and_then(Value::as_str).unwrap_or_default();
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = review.pointer("/spec/audiences").and_then(Value::as_array);
    let audiences: Vec<String> =
        audiences.into_iter().flatten().filter_map(|a| a.as_str().map(str::to_owned)).collect();
    let audiences = if audiences.is_empty() { vec![ISSUER.to_owned()] } else { audiences };
    Ok(match bearer::bearer(&cx.state, token, &audiences) {
        Ok(bearer) => {
            json!({"authenticated": true, "user": user_info(&bearer.identity), "audiences": bearer.audiences})
        }
        Err(error) => json!({"user": {}, "error": error}),
    })
}
