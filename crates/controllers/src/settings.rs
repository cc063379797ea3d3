//! What the flags of `up` and `run` say to the controllers (operations.md 8).

use std::collections::BTreeSet;

use ironclad_failover as failover;
use ironclad_fleet::gates::Gates;
use ironclad_scheduling as scheduling;

/// All settings; the default is the reference's.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `--feature-gates`.
    pub gates: Gates,
    /// `--controllers`.
    pub controllers: ControllerList,
    /// What is propagated.
    pub propagation: ironclad_propagation::flags::Flags,
    /// The scheduler.
    pub scheduler: scheduling::Options,
    /// Health of clusters, taints and failover.
    pub failover: failover::Flags,
}

/// Every controller that `--controllers` may name (operations.md 8.1).
pub const CONTROLLERS: [&str; 28] = [
    "agentcsrapproving",
    "applicationFailover",
    "binding",
    "bindingStatus",
    "cluster",
    "clusterStatus",
    "clustertaintpolicy",
    "cronFederatedHorizontalPodAutoscaler",
    "deploymentReplicasSyncer",
    "endpointSlice",
    "endpointsliceCollect",
    "endpointsliceDispatch",
    "execution",
    "federatedHorizontalPodAutoscaler",
    "federatedResourceQuotaEnforcement",
    "federatedResourceQuotaStatus",
    "federatedResourceQuotaSync",
    "gracefulEviction",
    "hpaScaleTargetMarker",
    "multiclusterservice",
    "namespace",
    "remedy",
    "serviceExport",
    "serviceImport",
    "taint-manager",
    "unifiedAuth",
    "workStatus",
    "workloadRebalancer",
];
/// Those that `*` does not mean.
const OFF_BY_DEFAULT: [&str; 2] = ["deploymentReplicasSyncer", "hpaScaleTargetMarker"];

/// Which controllers run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerList(BTreeSet<&'static str>);

impl Default for ControllerList {
    fn default() -> Self {
        Self(CONTROLLERS.into_iter().filter(|name| !OFF_BY_DEFAULT.contains(name)).collect())
    }
}

/// A name that `--controllers` does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--controllers names {name:?}, which is none\n  try: one of {}", CONTROLLERS.join(", "))]
pub struct UnknownController {
    /// As it was given.
    pub name: String,
}

impl ControllerList {
    /// Reads `*,-foo,bar`: `foo` enables, `-foo` disables, `*` means all that are on by default.
    ///
    /// # Errors
    /// If a name is unknown.
    pub fn parse(text: &str) -> Result<Self, UnknownController> {
        let items: Vec<&str> = text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
        let mut on = if items.contains(&"*") { Self::default().0 } else { BTreeSet::new() };
        for item in items.into_iter().filter(|item| *item != "*") {
            let (name, wanted) = match item.strip_prefix('-') {
                Some(name) => (name, false),
                None => (item, true),
            };
            let known = CONTROLLERS.into_iter().find(|known| *known == name);
            let name = known.ok_or_else(|| UnknownController { name: name.to_owned() })?;
            if wanted {
                on.insert(name)
            } else {
                on.remove(name)
            };
        }
        Ok(Self(on))
    }

    /// Switches a controller off.
    pub fn disable(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// What the list says that does not happen, for a person.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.enabled("cluster") {
            warnings.push("controller cluster runs all the same: it connects the members".to_owned());
        }
        let [sync, status] = ["federatedResourceQuotaSync", "federatedResourceQuotaStatus"];
        if self.enabled(sync) != self.enabled(status) {
            let does = if self.enabled(sync) { "runs" } else { "does not run" };
            warnings.push(format!("controller {status} {does}: it is one with {sync}"));
        }
        warnings
    }

    /// Whether a controller runs. A name that is not in [`CONTROLLERS`] does not.
    #[must_use]
    pub fn enabled(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_controllers_are_read_as_upstream_reads_them() {
        let on = |text: &str, name: &str| ControllerList::parse(text).unwrap().enabled(name);
        let rows = [
            ("*", "namespace", true),
            ("*", "hpaScaleTargetMarker", false),
            ("*,hpaScaleTargetMarker", "hpaScaleTargetMarker", true),
            ("*,-namespace", "namespace", false),
            ("-namespace,*", "namespace", false),
            ("binding", "namespace", false),
            ("binding", "binding", true),
            ("", "binding", false),
        ];
        for (text, name, expected) in rows {
            assert_eq!(on(text, name), expected, "{text}: {name}");
        }
        for (text, want) in [
            ("*", &[][..]),
            ("*,-binding", &[]),
            ("*,-cluster", &["controller cluster runs all the same: it connects the members"]),
            ("*,-federatedResourceQuotaSync,-federatedResourceQuotaStatus", &[]),
            (
                "*,-federatedResourceQuotaSync",
                &["controller federatedResourceQuotaStatus does not run: it is one with federatedResourceQuotaSync"],
            ),
            (
                "*,-federatedResourceQuotaStatus",
                &["controller federatedResourceQuotaStatus runs: it is one with federatedResourceQuotaSync"],
            ),
        ] {
            assert_eq!(ControllerList::parse(text).unwrap().warnings(), want, "{text}");
        }
        let error = ControllerList::parse("*,-nmespace").unwrap_err().to_string();
        assert!(error.starts_with("--controllers names \"nmespace\", which is none\n  try: one of "), "{error}");
    }
}
