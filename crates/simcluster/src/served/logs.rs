//! Logs of a simulated pod: its image and node, its start, and its end.

use http::Response;
use ironclad_apiserver::{ApiError, ResponseBody};
use ironclad_kubecontrollers::{
    Cluster, PODS,
    pods::{node_of, phase, ready_since},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::{Query, reply};

/// Answers a request for the log of one container of a pod.
pub(super) fn log(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    query: &Query,
) -> Result<Response<ResponseBody>, ApiError> {
    let pod = cluster.caches.take(&PODS).get(namespace, name).ok_or_else(|| ApiError::not_found("pods", "", name))?;
    let container = container(&pod, query.get("container"))?;
    if node_of(&pod).is_empty() {
        return Ok(reply(204, "text/plain", String::new()));
    }
    if phase(&pod) == "Pending" || phase(&pod).is_empty() {
        return Err(ApiError::bad_request(format!(
            "container {:?} in pod {name:?} is waiting to start: ContainerCreating",
            container.name
        )));
    }
    if query.flag("previous") {
        return Err(ApiError::bad_request(format!(
            "previous terminated container {:?} in pod {name:?} not found",
            container.name
        )));
    }
    let since = query.number("sinceSeconds").map(|s| cluster.seam.clock.wall().as_second().saturating_sub(s));
    let mut lines = lines(&pod, container);
    lines.retain(|(at, _)| since.is_none_or(|since| at.as_second() >= since));
    if let Some(tail) = query.number("tailLines").and_then(|n| usize::try_from(n).ok()) {
        lines.drain(..lines.len().saturating_sub(tail));
    }
    let stamped = query.flag("timestamps");
    let text = lines.into_iter().map(|(at, line)| if stamped { format!("{at} {line}\n") } else { line + "\n" });
    Ok(reply(200, "text/plain", text.collect()))
}

/// Returns the container of this name, or the only one.
pub(super) fn container<'a>(pod: &'a Pod, wanted: Option<&str>) -> Result<&'a Container, ApiError> {
    let name = pod.metadata.name.as_deref().unwrap_or("");
    let spec = pod.spec.as_ref();
    let main = spec.map(|s| s.containers.as_slice()).unwrap_or_default();
    let init = spec.and_then(|s| s.init_containers.as_deref()).unwrap_or_default();
    match (wanted, main) {
        (Some(wanted), _) => main
            .iter()
            .chain(init)
            .find(|c| c.name == wanted)
            .ok_or_else(|| ApiError::bad_request(format!("container {wanted} is not valid for pod {name}"))),
        (None, [only]) => Ok(only),
        (None, _) => {
            let names: Vec<_> = main.iter().map(|c| c.name.as_str()).collect();
            Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                names.join(" ")
            )))
        }
    }
}

/// Log lines of the container, with their times.
pub(super) fn lines(pod: &Pod, container: &Container) -> Vec<(Timestamp, String)> {
    let status = pod.status.as_ref();
    let started = status.and_then(|s| s.start_time.as_ref()).map_or(Timestamp::UNIX_EPOCH, |t| t.0);
    let image = container.image.as_deref().unwrap_or("");
    let mut lines = vec![(
        started,
        format!("{}: simulated container of image {image} started on node {}", container.name, node_of(pod)),
    )];
    let command: Vec<_> = container.command.iter().chain(&container.args).flatten().map(String::as_str).collect();
    if !command.is_empty() {
        lines.push((started, format!("{}: would run {}", container.name, command.join(" "))));
    }
    if let Some(ready) = ready_since(pod) {
        lines.push((ready, format!("{}: ready", container.name)));
    }
    let ended = status.iter().flat_map(|s| s.container_statuses.iter().flatten());
    let ended = ended.filter(|s| s.name == container.name).filter_map(|s| s.state.as_ref()?.terminated.as_ref());
    for end in ended {
        let at = end.finished_at.as_ref().map_or(started, |t| t.0);
        lines.push((at, format!("{}: ended with code {}", container.name, end.exit_code)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::core::v1::{PodSpec, PodStatus},
        apimachinery::pkg::apis::meta::v1::Time,
    };

    use super::*;

    fn pod(containers: &[&str]) -> Pod {
        let container = |name: &&str| Container {
            name: (*name).to_owned(),
            image: Some("i:1".into()),
            command: Some(vec!["serve".into(), "--all".into()]),
            ..Container::default()
        };
        Pod {
            spec: Some(PodSpec {
                containers: containers.iter().map(container).collect(),
                node_name: Some("n1".into()),
                ..PodSpec::default()
            }),
            status: Some(PodStatus {
                start_time: Some(Time(Timestamp::from_second(100).unwrap())),
                ..PodStatus::default()
            }),
            ..Pod::default()
        }
    }

    #[test]
    fn the_container_is_named_or_the_only_one() {
        assert_eq!(container(&pod(&["a"]), None).unwrap().name, "a");
        assert_eq!(container(&pod(&["a", "b"]), Some("b")).unwrap().name, "b");
        let error = container(&pod(&["a", "b"]), None).unwrap_err();
        assert!(error.message.ends_with("choose one of: [a b]"), "{error}");
        assert!(container(&pod(&["a"]), Some("x")).is_err());
    }

    #[test]
    fn a_log_describes_the_container() {
        let pod = pod(&["a"]);
        let lines = lines(&pod, &pod.spec.as_ref().unwrap().containers[0]);
        let texts: Vec<_> = lines.iter().map(|(_, line)| line.as_str()).collect();
        assert_eq!(texts, ["a: simulated container of image i:1 started on node n1", "a: would run serve --all"]);
    }
}
