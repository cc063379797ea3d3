//! Which requests an agent passes on to its member (specification/operations.md 10.3).

use std::{collections::BTreeSet, fmt, str::FromStr};

use percent_encoding::percent_decode_str;

/// Kind of a request that comes over a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Passed {
    /// Objects, discovery and health: whatever is none of the others.
    Api,
    /// Ways into containers and the member's network: exec, attach, port-forward, ephemeral containers, and the proxy
    /// to Pods, Services and nodes.
    Exec,
    /// Logs of Pods.
    Logs,
    /// Metrics, over their APIs.
    Metrics,
}

impl Passed {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Api, Self::Exec, Self::Logs, Self::Metrics];

    /// The kind of a request to this path, as a kube-apiserver reads it: without its escapes.
    #[must_use]
    pub fn of_path(path: &str) -> Self {
        let path = percent_decode_str(path).decode_utf8_lossy();
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let resource = match parts.as_slice() {
            ["apis", "metrics.k8s.io" | "custom.metrics.k8s.io" | "external.metrics.k8s.io", ..] => {
                return Self::Metrics;
            }
            ["api", _, "namespaces", _, resource @ ..] | ["api", _, resource @ ..] => resource,
            _ => return Self::Api,
        };
        match resource {
            ["pods", _, "exec" | "attach" | "portforward" | "ephemeralcontainers", ..]
            | ["pods" | "services" | "nodes", _, "proxy", ..] => Self::Exec,
            ["pods", _, "log", ..] => Self::Logs,
            _ => Self::Api,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Exec => "exec",
            Self::Logs => "logs",
            Self::Metrics => "metrics",
        }
    }

    /// The refusal of a request of a kind that the agent does not pass on.
    #[must_use]
    pub fn refusal(self, allowed: &BTreeSet<Self>) -> String {
        let with = Self::ALL.into_iter().filter(|kind| *kind == self || allowed.contains(kind));
        let with: Vec<&str> = with.map(Self::name).collect();
        format!(
            "the agent of the cluster does not pass on requests for {self}\n  try: ironclad agent --tunnel-allow={}, in the member",
            with.join(",")
        )
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Passed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("{text:?} is none of api, exec, logs, metrics"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_say_which_kind_a_request_is_of() {
        use Passed::{Api, Exec, Logs, Metrics};
        for (path, want) in [
            ("/api/v1/namespaces/shop/pods", Api),
            ("/api/v1/namespaces/shop/pods/web", Api),
            ("/api/v1/nodes", Api),
            ("/apis/apps/v1/namespaces/shop/deployments/log", Api),
            ("/readyz", Api),
            ("/", Api),
            ("", Api),
            ("/api/v1/namespaces/shop/pods/web/log", Logs),
            ("/api/v1/namespaces/shop/pods/web/exec", Exec),
            ("/api/v1/namespaces/shop/pods/web/attach", Exec),
            ("/api/v1/namespaces/shop/pods/web/portforward", Exec),
            ("/api/v1/namespaces/shop/pods/web/ephemeralcontainers", Exec),
            ("/api/v1/namespaces/shop/services/https:web:443/proxy/metrics", Exec),
            ("/api/v1/nodes/n1/proxy/run/shop/web/c", Exec),
            ("/api/v1/namespaces/shop/pods/web/e%78ec", Exec),
            ("/api/v1/namespaces/shop/pods/web%2Fexec", Exec),
            ("//api/v1/namespaces/shop/pods/web/exec/", Exec),
            ("/apis/metrics.k8s.io/v1beta1/nodes", Metrics),
            ("/apis/custom.metrics.k8s.io/v1beta2", Metrics),
            ("/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue", Metrics),
            ("/api/v1/namespaces/log/pods/exec", Api),
            ("/api/v1/namespaces/exec", Api),
        ] {
            assert_eq!(Passed::of_path(path), want, "{path}");
        }
    }

    #[test]
    fn refusals_name_the_flag() {
        let refusal = Passed::Exec.refusal(&[Passed::Logs, Passed::Api].into());
        assert!(
            refusal.contains("requests for exec") && refusal.contains("--tunnel-allow=api,exec,logs,"),
            "{refusal}"
        );
        assert_eq!("logs".parse(), Ok(Passed::Logs));
        assert!("all".parse::<Passed>().is_err());
    }
}
