//! TokenRequest: a token of a ServiceAccount with an end, for audiences, bound to an object
//! (specification/apiserver.md 17).

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    admission::{self, Operation},
    auth::jwt::{About, Claims, ISSUER, Object},
    context::Cx,
    identity, negotiate, object,
    respond::{self, Reply},
    status::{ApiError, Cause},
};

use super::{body, options::WriteOptions, subresource};

const GROUP: &str = "authentication.k8s.io";
/// Default and minimum lifetime of a token, in seconds.
const SECONDS: i64 = 3_600;
const SECONDS_MIN: i64 = 600;
/// The most: what thirty-two bits hold.
const SECONDS_MAX: i64 = 1 << 32;

/// POST on a ServiceAccount's `token`.
pub(crate) async fn request(cx: &Cx, bytes: &[u8]) -> Result<Reply, ApiError> {
    let dry_run = WriteOptions::parse(&cx.query, "CreateOptions")?.dry_run;
    let format = negotiate::body_format(cx.header(http::header::CONTENT_TYPE))?;
    let mut given = body::parse("TokenRequest", bytes, format)?;
    if given["spec"]["expirationSeconds"].is_null() {
        given["spec"]["expirationSeconds"] = json!(SECONDS);
    }
    let version = "authentication.k8s.io/v1";
    let named = object::meta_str(&given, "name").to_owned();
    if admission::is_asked(cx) {
        subresource::identify_as(cx, &mut given, version, "TokenRequest", &named);
        subresource::track_subresource(cx, &mut given, (GROUP, "v1", "TokenRequest"));
        admission::mutate_subresource(cx, Operation::Create, None, &mut given, dry_run).await?;
    }
    let account = subresource::found(cx).await?;
    let named = object::meta_str(&given, "name").to_owned();
    if !named.is_empty() && named != cx.name() {
        let why = "must match the service account name if specified";
        let cause = Cause::invalid("metadata.name", &json!(named), why);
        return Err(ApiError::invalid("TokenRequest", GROUP, cx.name(), vec![cause]));
    }
    let seconds = match &given["spec"]["expirationSeconds"] {
        Value::Null => SECONDS,
        value => value.as_i64().ok_or_else(|| {
            ApiError::bad_request(format!("spec.expirationSeconds must be a whole number, not {value}"))
        })?,
    };
    let wrong = match seconds {
        ..SECONDS_MIN => "may not specify a duration less than 10 minutes",
        SECONDS_MIN..=SECONDS_MAX => "",
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    if !wrong.is_empty() {
        let cause = Cause::invalid("spec.expirationSeconds", &json!(seconds), wrong);
        return Err(ApiError::invalid("TokenRequest", GROUP, "", vec![cause]));
    }
    let audiences = given["spec"]["audiences"].as_array().into_iter().flatten();
    let audiences: Vec<String> = audiences.filter_map(|a| a.as_str().map(str::to_owned)).collect();
    let audiences = if audiences.is_empty() { vec![ISSUER.to_owned()] } else { audiences };
    given["spec"]["audiences"] = json!(audiences);
    if admission::is_asked(cx) {
        subresource::identify_as(cx, &mut given, version, "TokenRequest", cx.name());
        let metadata = object::metadata_mut(&mut given);
        metadata.insert("uid".into(), json!(object::meta_str(&account, "uid")));
        metadata.insert("creationTimestamp".into(), json!(cx.state.now()));
        given["status"] = json!({"token": "", "expirationTimestamp": null});
        if given["spec"]["boundObjectRef"].is_null() {
            given["spec"]["boundObjectRef"] = Value::Null;
        }
        admission::validate_subresource(cx, Operation::Create, None, &given, dry_run).await?;
    }
    let spec = &given["spec"];
    let namespace = cx.namespace().unwrap_or_default();
    let uid = |value: &Value| object::meta_str(value, "uid").to_owned();
    let mut about = About {
        namespace: namespace.to_owned(),
        serviceaccount: Object { name: cx.name().to_owned(), uid: uid(&account) },
        pod: None,
        node: None,
        secret: None,
    };
    bind(cx, &mut about, &spec["boundObjectRef"])?;
    let now = cx.state.seam.clock.wall().as_second();
    let claims = Claims {
        aud: audiences.clone(),
        exp: now.saturating_add(seconds),
        iat: now,
        iss: ISSUER.to_owned(),
        jti: cx.state.seam.rng.stream("token-ids").uuid(),
        about,
        nbf: now,
        sub: identity::service_account_user(namespace, cx.name()),
    };
    let ends = Timestamp::from_second(claims.exp).map_err(ApiError::internal)?;
    let mut answer = json!({
        "kind": "TokenRequest", "apiVersion": version,
        "metadata": {"name": cx.name(), "namespace": namespace, "uid": uid(&account), "creationTimestamp": cx.state.now()},
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": spec["boundObjectRef"]},
        "status": {"token": "", "expirationTimestamp": ends.to_string()},
    });
    // Nothing is stored, so a dry run is like any other, as with a kube-apiserver.
    let token = cx.state.token_key.sign(&claims);
    let token = token.ok_or_else(|| ApiError::internal("the system has no randomness to sign a token with"))?;
    answer["status"]["token"] = json!(token);
    Ok(respond::formatted(cx, 201, &answer))
}

/// Binds a token to the object that a request names: it dies with it.
fn bind(cx: &Cx, about: &mut About, reference: &Value) -> Result<(), ApiError> {
    if reference.is_null() {
        return Ok(());
    }
    let text = |key: &str| reference[key].as_str().unwrap_or_default();
    let (plural, namespace) = match (text("apiVersion"), text("kind")) {
        ("v1" | "", "Pod") => ("pods", about.namespace.as_str()),
        ("v1" | "", "Secret") => ("secrets", about.namespace.as_str()),
        ("v1" | "", "Node") => ("nodes", ""),
        (version, kind) => {
            // Go prints an empty group for the core group.
            let version = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
            return Err(ApiError::bad_request(format!("cannot bind token to object of type {version}, Kind={kind}")));
        }
    };

    let Some(bound) = cx.state.builtin_object("", plural, namespace, text("name")) else {
        return Err(ApiError::not_found(plural, "", text("name")));
    };
    let uid = object::meta_str(&bound, "uid");
    if !text("uid").is_empty() && text("uid") != uid {
        let why = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. \
                     The object might have been deleted and then recreated",
            text("uid")
        );
        // Here a kube-apiserver names the kind where it elsewhere names the resource.
        return Err(ApiError::conflict(text("kind"), "", text("name"), &why));
    }
    let object = Object { name: text("name").to_owned(), uid: uid.to_owned() };
    match plural {
        "pods" => {
            let account = bound.pointer("/spec/serviceAccountName").and_then(Value::as_str).unwrap_or_default();
            if account != cx.name() {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    cx.name()
                )));
            }
            let node = bound.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
            about.node = cx
                .state
                .builtin_object("", "nodes", "", node)
                .map(|value| Object { name: node.to_owned(), uid: object::meta_str(&value, "uid").to_owned() });
            about.pod = Some(object);
        }
        "secrets" => about.secret = Some(object),
        _ => about.node = Some(object),
    }
    Ok(())
}
