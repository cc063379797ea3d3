//! Estimators of clusters that are asked over gRPC, and their addresses (specification/scheduling.md 10.5).

use ironclad_api::{
    cluster::{ClusterSpec, SyncMode},
    names,
};

/// Flags of the scheduler about estimators over gRPC (specification/operations.md 8.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    /// `--disable-scheduler-estimator-in-pull-mode`.
    pub skip_pull: bool,
    /// `--scheduler-estimator-service-namespace`.
    pub service_namespace: String,
    /// `--scheduler-estimator-service-prefix`.
    pub service_prefix: String,
    /// `--scheduler-estimator-port`.
    pub port: u16,
}

impl Default for Discovery {
    fn default() -> Self {
        Self {
            skip_pull: false,
            service_namespace: "karmada-system".to_owned(),
            service_prefix: "karmada-scheduler-estimator".to_owned(),
            port: 10_352,
        }
    }
}

/// Service of an estimator in the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EstimatorService {
    /// `spec.type`.
    pub type_: String,
    /// `spec.externalName`.
    pub external_name: String,
    /// `port` and `targetPort` of each port; `None` if the latter is a name.
    pub ports: Vec<(i32, Option<i32>)>,
}

/// Reason why the Service of a cluster leads to no estimator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undiscovered {
    /// It has another type.
    #[error("unsupported service type {0:?}")]
    Type(String),
    /// It does not have the port, or not with a number as its target.
    #[error("the Service has no port {0} with a number as targetPort")]
    Port(u16),
}

impl Discovery {
    /// Name of the Service of a cluster's estimator.
    #[must_use]
    pub fn service(&self, cluster: &str) -> String {
        names::estimator(&self.service_prefix, cluster)
    }
}

/// Addresses (`host:port`) of a cluster's estimator, the first one preferred; none if the cluster has no estimator over
/// gRPC.
///
/// A Service in the control plane leads to one. Without it, an estimator beside the control plane is looked up by DNS,
/// unless this process watches the member's nodes and pods itself.
///
/// # Errors
/// The Service leads nowhere.
pub fn addresses(
    discovery: &Discovery,
    cluster: &str,
    spec: &ClusterSpec,
    service: Option<&EstimatorService>,
) -> Result<Vec<String>, Undiscovered> {
    if discovery.skip_pull && spec.sync_mode == SyncMode::Pull {
        return Ok(Vec::new());
    }
    let Some(service) = service else {
        if spec.sync_mode == SyncMode::Push {
            return Ok(Vec::new());
        }
        let (name, namespace) = (discovery.service(cluster), &discovery.service_namespace);
        let hosts = [format!("{name}.{namespace}.svc.cluster.local"), format!("{name}.{namespace}.svc")];
        return Ok(hosts.iter().map(|host| format!("{host}:{}", discovery.port)).collect());
    };
    if service.type_ != "ExternalName" {
        return Err(Undiscovered::Type(service.type_.clone()));
    }
    let target = service.ports.iter().find(|(port, _)| *port == i32::from(discovery.port)).and_then(|(_, to)| *to);
    let target = target.ok_or(Undiscovered::Port(discovery.port))?;
    Ok(vec![format!("{}:{target}", service.external_name)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_and_modes_decide_on_addresses() {
        let external = |ports: &[(i32, Option<i32>)]| EstimatorService {
            type_: "ExternalName".to_owned(),
            external_name: "estimator.example.com".to_owned(),
            ports: ports.to_vec(),
        };
        let cluster_ip = EstimatorService { type_: "ClusterIP".to_owned(), ..external(&[]) };
        let by_dns = [
            "karmada-scheduler-estimator-m1.karmada-system.svc.cluster.local:10352",
            "karmada-scheduler-estimator-m1.karmada-system.svc:10352",
        ];
        let found = Some(external(&[(80, Some(8080)), (10_352, Some(30_352))]));
        for (name, pull, skip, service, want) in [
            ("push: this process watches the member", false, false, None, Ok(vec![])),
            ("push, with a Service", false, false, found.clone(), Ok(vec!["estimator.example.com:30352"])),
            ("pull: by DNS", true, false, None, Ok(by_dns.to_vec())),
            ("pull, with a Service", true, false, found.clone(), Ok(vec!["estimator.example.com:30352"])),
            ("pull is disabled", true, true, found.clone(), Ok(vec![])),
            ("that does not concern push", false, true, found, Ok(vec!["estimator.example.com:30352"])),
            ("another type", true, false, Some(cluster_ip), Err("unsupported service type \"ClusterIP\"")),
            (
                "another port",
                true,
                false,
                Some(external(&[(80, Some(8080))])),
                Err("the Service has no port 10352 with a number as targetPort"),
            ),
            (
                "a named target",
                true,
                false,
                Some(external(&[(10_352, None)])),
                Err("the Service has no port 10352 with a number as targetPort"),
            ),
        ] {
            let discovery = Discovery { skip_pull: skip, ..Discovery::default() };
            let sync_mode = if pull { SyncMode::Pull } else { SyncMode::Push };
            let spec = ClusterSpec { sync_mode, ..ClusterSpec::default() };
            let got = addresses(&discovery, "m1", &spec, service.as_ref()).map_err(|error| error.to_string());
            let want = want.map(|all| all.into_iter().map(str::to_owned).collect()).map_err(str::to_owned);
            assert_eq!(got, want, "{name}");
        }
    }
}
