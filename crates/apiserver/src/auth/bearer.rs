//! Bearer tokens.

use crate::{Identity, Server, status::ApiError};

/// The user of the Authorization header; anonymous without one. A token that nobody knows is refused everywhere.
pub(crate) fn authenticate_token(server: &Server, header: Option<&str>) -> Result<Identity, ApiError> {
    let Some(header) = header else { return Ok(Identity::anonymous()) };
    let Some(given) = header.strip_prefix("Bearer ").map(str::trim).filter(|t| !t.is_empty()) else {
        return Ok(Identity::anonymous());
    };
    let known = server.options.tokens.iter().find(|t| same(t.token.as_bytes(), given.as_bytes()));
    known.map(|t| t.identity.clone()).ok_or_else(ApiError::unauthorized)
}

/// Compares without telling by its time where the first difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |diff, (x, y)| diff | (x ^ y)) == 0
}
