//! Feature gates (specification/operations.md 8.6): features that are off, or on, until somebody says otherwise.

use std::collections::BTreeMap;

pub use ironclad_api::gates::{Gate, Stage};

/// Which gates are on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gates(BTreeMap<Gate, bool>);

impl Default for Gates {
    fn default() -> Self {
        Self(Gate::ALL.iter().map(|gate| (*gate, gate.default_on())).collect())
    }
}

/// Errors of `--feature-gates`.
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
        /// Name of the gate.
        name: String,
        /// The value given.
        value: String,
    },
}

impl Gates {
    /// Returns whether a feature is enabled.
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
            let known = Gate::ALL.iter().find(|gate| gate.name() == name);
            let gate = *known.ok_or_else(|| GateError::Unknown { nearest: nearest(&name), name })?;
            gates.0.insert(gate, on);
            let name = gate.name();
            if gate.is_without_meaning() {
                warnings.push(format!("feature gate {name} has no effect: it is accepted for existing command lines"));
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
        let (_, warnings) = Gates::parse("MultiClusterService=true,WorkloadAffinity=true").unwrap();
        assert_eq!(warnings, [""; 0]);
        let error = Gates::parse("Failovr=true").unwrap_err().to_string();
        assert!(error.starts_with("unknown feature gate \"Failovr\"\n  try: Failover, "), "{error}");
        let error = Gates::parse("Failover=yes").unwrap_err().to_string();
        assert!(error.contains("neither true nor false"), "{error}");
        assert!(Gates::parse("Failover").is_err(), "a gate without a value");
        let (_, warnings) = Gates::parse("GracefulEviction=false").unwrap();
        assert_eq!(
            warnings,
            ["feature gate GracefulEviction has no effect: it is accepted for existing command lines"]
        );
    }
}
