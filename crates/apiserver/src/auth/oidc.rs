//! The documents by which others verify tokens of ServiceAccounts: `/.well-known/openid-configuration`,
//! `/openid/v1/jwks`.

use http::{HeaderValue, header};
use serde_json::json;

use crate::{
    respond::{self, Reply},
    state::State,
};

use super::jwt::ISSUER;

/// GET of one of the two documents.
pub(crate) fn openid(state: &State, parts: &http::request::Parts) -> Reply {
    let key = &state.token_key;
    let (content_type, value) = if parts.uri.path() == "/openid/v1/jwks" {
        ("application/jwk-set+json", key.public())
    } else {
        // Not the Host header: anybody can send one, and the answer may be kept by a cache for all.
        let base = state.options.external_url.as_deref().unwrap_or(ISSUER).trim_end_matches('/');
        let configuration = json!({
            "issuer": ISSUER, "jwks_uri": format!("{base}/openid/v1/jwks"),
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": key.public_algorithms(),
        });
        ("application/json", configuration)
    };
    let mut reply = respond::reply(200, content_type, value.to_string().into_bytes());
    reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    reply
}
