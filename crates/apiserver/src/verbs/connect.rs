//! Subresources that lead to a kubelet or a pod, which a server without a cluster network can't reach
//! (specification/apiserver.md 17).

use serde_json::{Map, Value, json};

use crate::{
    admission::{self, Operation},
    context::Cx,
    respond::{self, Reply},
    status::ApiError,
};

use super::subresource::found;

const NO_ADDRESSES: &str = "no preferred addresses found; known addresses: []";

/// Answers a request for logs: the kubelet can't be reached.
pub(crate) async fn log(cx: &Cx) -> Result<Reply, ApiError> {
    let pod = found(cx).await?;
    let of = |list: &str| {
        let containers = pod.pointer(&format!("/spec/{list}")).and_then(Value::as_array).into_iter().flatten();
        containers.filter_map(|c| c["name"].as_str()).collect::<Vec<_>>()
    };
    let containers = of("containers");
    let all: Vec<&str> = [of("initContainers"), containers.clone(), of("ephemeralContainers")].concat();
    match cx.query.text("container") {
        Some(name) if !all.contains(&name) => {
            return Err(ApiError::bad_request(format!("container {name} is not valid for pod {}", cx.name())));
        }
        None if containers.len() > 1 => {
            return Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {}, choose one of: [{}]",
                cx.name(),
                containers.join(" ")
            )));
        }
        _ => {}
    }
    match pod.pointer("/spec/nodeName").and_then(Value::as_str) {
        None | Some("") => {
            let mut reply = respond::text(204, "");
            reply.headers_mut().remove(http::header::CONTENT_TYPE);
            Ok(reply)
        }
        Some(node) => Err(unreachable_node(cx, node)),
    }
}

/// Answers `exec`, `attach`, `portforward` and `proxy`: admission may refuse the request before it fails.
pub(crate) async fn connect(cx: &Cx) -> Result<Reply, ApiError> {
    let mut options = options(cx);
    admission::mutate_subresource(cx, Operation::Connect, None, &mut options, false).await?;
    admission::validate_subresource(cx, Operation::Connect, None, &options, false).await?;
    let object = found(cx).await?;
    if cx.subresource() == Some("proxy") {
        return Err(ApiError::bad_request("address not allowed"));
    }
    match object.pointer("/spec/nodeName").and_then(Value::as_str) {
        None | Some("") => Err(ApiError::bad_request(format!("pod {} does not have a host assigned", cx.name()))),
        Some(node) => Err(unreachable_node(cx, node)),
    }
}

/// A node's kubelet is never reached; a node that isn't there is named.
fn unreachable_node(cx: &Cx, node: &str) -> ApiError {
    match cx.state.builtin_object("", "nodes", "", node) {
        Some(_) => ApiError::unclassified(NO_ADDRESSES),
        // Here a kube-apiserver names the pods where it means the nodes.
        None => ApiError::not_found("pods", "", node),
    }
}

/// The options in the query as the object that webhooks see.
fn options(cx: &Cx) -> Value {
    let subresource = cx.subresource().unwrap_or_default();
    let kind = cx.resource.subresource(subresource).map_or("", |s| s.kind.as_str());
    let mut out = Map::new();
    out.insert("kind".into(), json!(kind));
    out.insert("apiVersion".into(), json!(cx.resource.api_version()));
    let (flags, texts): (&[&str], &[&str]) = match subresource {
        "exec" | "attach" => (&["stdin", "stdout", "stderr", "tty"], &["container"]),
        "proxy" => (&[], &["path"]),
        _ => (&[], &[]),
    };
    for flag in flags.iter().filter(|flag| cx.query.flag(flag)) {
        out.insert((*flag).to_owned(), json!(true));
    }
    for (name, text) in texts.iter().filter_map(|name| Some((name, cx.query.text(name)?))) {
        out.insert((*name).to_owned(), json!(text));
    }
    match subresource {
        "exec" => {
            out.insert("command".into(), json!(cx.query.all("command")));
        }
        "portforward" => {
            let ports: Vec<u16> = cx.query.all("ports").iter().filter_map(|port| port.parse().ok()).collect();
            out.insert("ports".into(), json!(ports));
        }
        _ => {}
    }
    Value::Object(out)
}
