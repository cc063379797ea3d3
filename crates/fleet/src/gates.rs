//! Feature gates (operations.md 8.6): what is off until somebody asks for it.

use std::collections::BTreeMap;

macro_rules! gates {
    ($($name:ident $stage:ident $default:literal $doc:literal;)+) => {
        /// A feature that can be switched on or off with `--feature-gates`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Gate {
            $(#[doc = $doc] $name,)+
        }

        impl Gate {
            /// All gates, in the order of the reference.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// As it is written in `--feature-gates`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// Whether it is on if nobody says anything.
            #[must_use]
            pub fn default_on(self) -> bool {
                match self { $(Self::$name => $default,)+ }
            }

            /// How far it is.
            #[must_use]
            pub fn stage(self) -> Stage {
                match self { $(Self::$name => Stage::$stage,)+ }
            }
        }
    };
}

gates! {
    Failover Beta false "Cluster failover: taints by policy, the eviction queue (failover.md).";
    PropagateDeps Beta true "Dependencies follow their workload (propagation.md 8).";
    CustomizedClusterResourceModeling Beta true "Resource models of clusters.";
    PropagationPolicyPreemption Alpha false "A policy of higher priority takes over templates (propagation.md 6.3).";
    MultiClusterService Alpha false "MultiClusterService (propagation.md 24).";
    ResourceQuotaEstimate Alpha false "Estimates heed quotas.";
    StatefulFailoverInjection Alpha false "State is preserved over a failover (failover.md 5.4).";
    PriorityBasedScheduling Beta true "Bindings are scheduled by priority (scheduling.md 14).";
    FederatedQuotaEnforcement Alpha false "FederatedResourceQuota limits what is scheduled.";
    MultiplePodTemplatesScheduling Alpha false "Workloads of several pod templates are scheduled by component.";
    ControllerPriorityQueue Beta true "Changes by users go before what a restart replays.";
    WorkloadAffinity Alpha false "Affinity and anti-affinity between workloads.";
    SchedulingOvercommitProtection Alpha false "What was assigned and is not seen yet is reserved.";
    PriorityBasedPreemptiveScheduling Alpha false "Bindings of high priority evict those of low priority (scheduling.md 15).";
    FederatedHPAExternalMetrics Beta true "External metrics for FederatedHPA.";
    HPAScaleToZero Alpha false "FederatedHPA may scale to zero.";
}

/// How far a feature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// `AllAlpha` switches it.
    Alpha,
    /// `AllBeta` switches it.
    Beta,
}

/// Names that mean nothing here any more, and why: accepted with a warning, so that existing command lines work.
const WITHOUT_MEANING: [(&str, &str); 4] = [
    ("GracefulEviction", "it is always on"),
    ("ContextualLogging", "it is always on"),
    ("LoggingAlphaOptions", "--log-format and --log-filter always work"),
    ("LoggingBetaOptions", "--log-format and --log-filter always work"),
];

/// Which gates are on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gates(BTreeMap<Gate, bool>);

impl Default for Gates {
    fn default() -> Self {
        Self(Gate::ALL.iter().map(|gate| (*gate, gate.default_on())).collect())
    }
}

/// What `--feature-gates` can't mean.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// No gate has this name.
    #[error("unknown feature gate {name:?}\n  try: {}", nearest.join(", "))]
    Unknown {
        /// As it was given.
        name: String,
        /// The known names that come nearest.
        nearest: Vec<&'static str>,
    },
    /// Neither true nor false.
    #[error("feature gate {name:?} is to be \"{value}\", which is neither true nor false\n  try: {name}=true")]
    Value {
        /// Of which gate.
        name: String,
        /// What was given.
        value: String,
    },
}

impl Gates {
    /// Whether a feature is on.
    #[must_use]
    pub fn enabled(&self, gate: Gate) -> bool {
        self.0.get(&gate).copied().unwrap_or_else(|| gate.default_on())
    }

    /// The same with one gate switched.
    #[must_use]
    pub fn with(mut self, gate: Gate, on: bool) -> Self {
        self.0.insert(gate, on);
        self
    }

    /// Reads `A=true,B=false`; `AllAlpha` and `AllBeta` go first, whatever their place. Also gives the warnings.
    ///
    /// # Errors
    /// If a name is unknown or a value neither true nor false.
    pub fn parse(text: &str) -> Result<(Self, Vec<String>), GateError> {
        let (mut gates, mut warnings, mut single) = (Self::default(), Vec::new(), Vec::new());
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, value) = item.split_once('=').unwrap_or((item, ""));
            let on = match value.trim().to_ascii_lowercase().as_str() {
                "true" | "1" | "t" => true,
                "false" | "0" | "f" => false,
                _ => return Err(GateError::Value { name: name.to_owned(), value: value.to_owned() }),
            };
            match name.trim() {
                "AllAlpha" => gates.set_stage(Stage::Alpha, on),
                "AllBeta" => gates.set_stage(Stage::Beta, on),
                name => single.push((name.to_owned(), on)),
            }
        }
        for (name, on) in single {
            if let Some(gate) = Gate::ALL.iter().find(|gate| gate.name() == name) {
                gates.0.insert(*gate, on);
            } else if let Some((_, why)) = WITHOUT_MEANING.iter().find(|(known, _)| *known == name) {
                warnings.push(format!("feature gate {name} has no effect: {why}"));
            } else {
                return Err(GateError::Unknown { nearest: nearest(&name), name });
            }
        }
        Ok((gates, warnings))
    }

    fn set_stage(&mut self, stage: Stage, on: bool) {
        self.0.iter_mut().filter(|(gate, _)| gate.stage() == stage).for_each(|(_, value)| *value = on);
    }
}

/// The three gates whose names are most like this one.
fn nearest(name: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Gate::ALL.iter().map(|gate| gate.name()).collect();
    let distance = |known: &str| strsim::damerau_levenshtein(&known.to_lowercase(), &name.to_lowercase());
    names.sort_by_key(|known| (distance(known), *known));
    names.truncate(3);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_as_kubernetes_reads_them() {
        let on = |text: &str, gate| Gates::parse(text).unwrap().0.enabled(gate);
        let rows = [
            ("", Gate::Failover, false),
            ("Failover=true", Gate::Failover, true),
            (" Failover = TRUE , PropagateDeps=0", Gate::Failover, true),
            ("Failover=true,PropagateDeps=0", Gate::PropagateDeps, false),
            ("AllAlpha=true", Gate::MultiClusterService, true),
            ("AllAlpha=true", Gate::Failover, false),
            ("MultiClusterService=false,AllAlpha=true", Gate::MultiClusterService, false),
            ("AllBeta=false", Gate::PriorityBasedScheduling, false),
        ];
        for (text, gate, expected) in rows {
            assert_eq!(on(text, gate), expected, "{text}: {}", gate.name());
        }
    }

    #[test]
    fn what_can_not_be_meant_is_refused_and_what_means_nothing_warns() {
        let error = Gates::parse("Failovr=true").unwrap_err().to_string();
        assert!(error.starts_with("unknown feature gate \"Failovr\"\n  try: Failover, "), "{error}");
        let error = Gates::parse("Failover=yes").unwrap_err().to_string();
        assert!(error.contains("neither true nor false"), "{error}");
        assert!(Gates::parse("Failover").is_err(), "a gate without a value");
        let (_, warnings) = Gates::parse("GracefulEviction=false").unwrap();
        assert_eq!(warnings, ["feature gate GracefulEviction has no effect: it is always on"]);
    }
}
