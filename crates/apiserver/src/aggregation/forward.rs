//! Requests to aggregated API servers (specification/apiserver.md 22).

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::apis::{Api, Origin};
use crate::{Identity, ResponseBody, respond::Reply, state::State, status::ApiError};

/// Headers of one connection, which are not passed on, and those that the client that sends the request sets.
const OF_A_CONNECTION: [HeaderName; 8] = [
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::PROXY_AUTHORIZATION,
    header::HOST,
    header::CONTENT_LENGTH,
];
/// Prefixes of headers that say who the user is.
const OF_THE_USER: [&str; 2] = ["x-remote-", "impersonate-"];
/// Characters that the key of an extra attribute need not escape.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Sends a request that was authorized on, as this user, and passes the answer back.
pub(crate) async fn forward(
    state: &State,
    api: &Api,
    request: Request<Bytes>,
    identity: &Identity,
) -> Result<Reply, ApiError> {
    let unavailable = |why: &str| {
        let path = request.uri().path();
        ApiError::new(503, "ServiceUnavailable", format!("the server that serves {path} can't be asked: {why}"))
    };
    let target = match &api.origin {
        Origin::Remote(Ok(target)) => target.clone(),
        Origin::Remote(Err(why)) => return Err(unavailable(why)),
        Origin::Route { .. } => return Err(ApiError::no_resource()),
    };
    let Some(forwarder) = &state.options.forwarder else {
        return Err(unavailable("this server forwards no requests"));
    };
    let uri = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let mut sent = Request::new(request.body().clone());
    *sent.method_mut() = request.method().clone();
    *sent.uri_mut() = uri.parse().map_err(|_| ApiError::bad_request("the path can't be forwarded"))?;
    *sent.headers_mut() = of_user(request.headers(), identity);
    if let Ok(uri) = HeaderValue::from_str(&uri) {
        sent.headers_mut().insert("x-forwarded-uri", uri);
    }
    match forwarder.forward(target, sent).await {
        Ok(reply) => {
            let mut reply = reply.map(ResponseBody::boxed);
            for name in &OF_A_CONNECTION {
                reply.headers_mut().remove(name);
            }
            Ok(reply)
        }
        Err(why) => Err(unavailable(&why)),
    }
}

/// Headers of a request or an answer that are passed on to another server or client: all but those of the connection
/// and those that say who the user is.
#[must_use]
pub fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let mut out = HeaderMap::new();
    for (name, value) in headers {
        let is_about_the_user =
            *name == header::AUTHORIZATION || OF_THE_USER.iter().any(|prefix| name.as_str().starts_with(prefix));
        if !is_about_the_user && !OF_A_CONNECTION.contains(name) {
            out.append(name, value.clone());
        }
    }
    out
}

/// The key of an extra attribute of a user, as the end of a header's name.
#[must_use]
pub fn extra_key(key: &str) -> String {
    utf8_percent_encode(&key.to_lowercase(), PLAIN).to_string()
}

/// The headers of the forwarded request: those of the client but for its credentials, and who it is.
pub(super) fn of_user(headers: &HeaderMap, identity: &Identity) -> HeaderMap {
    let mut out = passed_on(headers);
    let mut add = |name: &str, value: &str| {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes())) {
            out.append(name, value);
        }
    };
    add("x-remote-user", &identity.user);
    if !identity.uid.is_empty() {
        add("x-remote-uid", &identity.uid);
    }
    identity.groups.iter().for_each(|group| add("x-remote-group", group));
    for (key, values) in &identity.extra {
        let name = format!("x-remote-extra-{}", extra_key(key));
        values.iter().for_each(|value| add(&name, value));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_who_was_authenticated_whatever_the_client_says() {
        let mut sent = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scopes", "all"),
            ("impersonate-user", "root"),
            ("connection", "upgrade"),
            ("accept", "application/json"),
        ] {
            sent.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_static(value));
        }
        let mut identity = Identity::user("ann", &["devs"]);
        identity.uid = "7".into();
        identity.extra.insert("example.com/Id".into(), vec!["a".into(), "b".into()]);
        let got = of_user(&sent, &identity);
        let all = |name: &str| got.get_all(name).iter().map(|v| v.to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(all("x-remote-user"), ["ann"]);
        assert_eq!(all("x-remote-uid"), ["7"]);
        assert_eq!(all("x-remote-group"), ["devs", "system:authenticated"]);
        assert_eq!(all("x-remote-extra-example.com%2fid"), ["a", "b"]);
        assert_eq!(all("accept"), ["application/json"]);
        for gone in ["authorization", "x-remote-extra-scopes", "impersonate-user", "connection"] {
            assert!(got.get(gone).is_none(), "{gone}");
        }
    }
}
