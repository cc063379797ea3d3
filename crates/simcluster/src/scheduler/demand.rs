//! Resource requests of a pod.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use ironclad_kubecontrollers::quantity::{Amounts, PODS, add, amounts, raise};

/// Returns the resources that a running pod occupies on its node, including one pod.
pub(crate) fn demand(pod: &Pod) -> Amounts {
    let mut total = pod.spec.as_ref().map(of_spec).unwrap_or_default();
    total.insert(PODS.to_owned(), 1);
    total.retain(|_, amount| *amount != 0);
    total
}

/// Sum of the containers, or the maximum during initialization if that is more, and the overhead. A restartable init
/// container keeps running: it counts with those that start after it.
fn of_spec(spec: &PodSpec) -> Amounts {
    let mut running = Amounts::new();
    let mut starting = Amounts::new();
    for container in spec.init_containers.iter().flatten() {
        let own = requests(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut running, &own);
            raise(&mut starting, &running);
        } else {
            let mut with_sidecars = running.clone();
            add(&mut with_sidecars, &own);
            raise(&mut starting, &with_sidecars);
        }
    }
    for container in &spec.containers {
        add(&mut running, &requests(container));
    }
    raise(&mut running, &starting);
    add(&mut running, &amounts(spec.overhead.as_ref()));
    running
}

fn requests(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|r| r.requests.as_ref()))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{api::core::v1::ResourceRequirements, apimachinery::pkg::api::resource::Quantity};

    use super::*;

    fn container(cpu: &str, sidecar: bool) -> Container {
        Container {
            resources: Some(ResourceRequirements {
                requests: Some([("cpu".to_owned(), Quantity(cpu.to_owned()))].into()),
                ..ResourceRequirements::default()
            }),
            restart_policy: sidecar.then(|| "Always".to_owned()),
            ..Container::default()
        }
    }

    #[test]
    fn demand_of_containers_init_containers_and_overhead() {
        for (name, init, containers, overhead, want) in [
            ("no requests", vec![], vec![], None, 0),
            ("sum of the containers", vec![], vec!["100m", "200m"], None, 300),
            ("an init container that requests more decides", vec![("1", false)], vec!["100m"], None, 1_000),
            ("an init container that requests less does not count", vec![("50m", false)], vec!["100m"], None, 100),
            ("the maximum of the init containers counts", vec![("60m", false), ("70m", false)], vec!["10m"], None, 70),
            ("a sidecar is added to the containers", vec![("50m", true)], vec!["100m"], None, 150),
            (
                "a sidecar is added to later init containers",
                vec![("50m", true), ("200m", false)],
                vec!["100m"],
                None,
                250,
            ),
            ("overhead is added", vec![], vec!["100m"], Some("10m"), 110),
        ] {
            let pod = Pod {
                spec: Some(PodSpec {
                    init_containers: Some(init.into_iter().map(|(c, s)| container(c, s)).collect()),
                    containers: containers.into_iter().map(|c| container(c, false)).collect(),
                    overhead: overhead.map(|o| [("cpu".to_owned(), Quantity(o.to_owned()))].into()),
                    ..PodSpec::default()
                }),
                ..Pod::default()
            };
            let demand = demand(&pod);
            assert_eq!(demand.get("cpu").copied().unwrap_or(0), want, "{name}");
            assert_eq!(demand["pods"], 1);
        }
    }
}
