//! Which filters and scores run: `--plugins` (specification/scheduling.md 5).

/// Names that the flag takes, in the order in which the filters run.
const KNOWN: [&str; 5] = ["ClusterAffinity", "TaintToleration", "APIEnablement", "SpreadConstraint", "ClusterLocality"];
/// A name of yesterday: what is left of it is built in and can't be switched off (specification/failover.md 8.3).
const CLUSTER_EVICTION: &str = "ClusterEviction";

/// One plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plugin {
    /// Filters by the affinity.
    ClusterAffinity,
    /// Filters by taints.
    TaintToleration,
    /// Filters by the APIs that clusters serve.
    ApiEnablement,
    /// Filters by the properties that the workload is spread by.
    SpreadConstraint,
    /// Scores clusters that have a copy already.
    ClusterLocality,
}

impl Plugin {
    /// As `--plugins` and metrics name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let [affinity, taints, apis, spread, locality] = KNOWN;
        match self {
            Self::ClusterAffinity => affinity,
            Self::TaintToleration => taints,
            Self::ApiEnablement => apis,
            Self::SpreadConstraint => spread,
            Self::ClusterLocality => locality,
        }
    }

    /// The extension point at which it is asked, as metrics name it.
    #[must_use]
    pub fn extension_point(self) -> &'static str {
        match self {
            Self::ClusterAffinity | Self::TaintToleration | Self::ApiEnablement | Self::SpreadConstraint => "Filter",
            Self::ClusterLocality => "Score",
        }
    }
}

/// Which plugins run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plugins {
    /// Clusters that the affinity does not choose are refused.
    pub cluster_affinity: bool,
    /// Clusters with a taint that is not tolerated are refused.
    pub taint_toleration: bool,
    /// Clusters that don't serve the template's API are refused.
    pub api_enablement: bool,
    /// Clusters that lack a property that the workload is spread by are refused.
    pub spread_constraint: bool,
    /// Clusters that have a copy already are preferred.
    pub cluster_locality: bool,
}

impl Default for Plugins {
    fn default() -> Self {
        Self::of([true; KNOWN.len()])
    }
}

/// A name in `--plugins` that no plugin has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown scheduler plugin {name:?}\n  try: one of {}", KNOWN.join(", "))]
pub struct UnknownPlugin {
    /// As it was given.
    pub name: String,
}

impl Plugins {
    fn of(on: [bool; KNOWN.len()]) -> Self {
        let [cluster_affinity, taint_toleration, api_enablement, spread_constraint, cluster_locality] = on;
        Self { cluster_affinity, taint_toleration, api_enablement, spread_constraint, cluster_locality }
    }

    /// Reads the list: `*` enables all and is applied first, `foo` adds one, `-foo` removes one of those enabled so far.
    /// With it come warnings about names that say nothing any more.
    ///
    /// # Errors
    /// If a name is of no plugin.
    pub fn parse<'a>(list: impl IntoIterator<Item = &'a str>) -> Result<(Self, Vec<String>), UnknownPlugin> {
        let list: Vec<&str> = list.into_iter().map(str::trim).filter(|entry| !entry.is_empty()).collect();
        let mut on = [list.contains(&"*"); KNOWN.len()];
        let mut warnings = Vec::new();
        for entry in list.into_iter().filter(|entry| *entry != "*") {
            let (name, wanted) = entry.strip_prefix('-').map_or((entry, true), |name| (name, false));
            if name == CLUSTER_EVICTION {
                warnings.push(format!(
                    "--plugins names {CLUSTER_EVICTION}, which is no plugin any more: workloads that failed in a cluster, \
                     were drained or preempted there don't return while their eviction lasts; taints keep away the rest"
                ));
                continue;
            }
            let place =
                KNOWN.iter().position(|known| *known == name).ok_or_else(|| UnknownPlugin { name: name.to_owned() })?;
            on[place] = wanted;
        }
        Ok((Self::of(on), warnings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let all = Plugins::default();
        let none = Plugins::of([false; KNOWN.len()]);
        for (list, want, warnings) in [
            ("*", Some(all), 0),
            ("*,-TaintToleration", Some(Plugins { taint_toleration: false, ..all }), 0),
            ("-TaintToleration,*", Some(Plugins { taint_toleration: false, ..all }), 0),
            (
                "ClusterAffinity, APIEnablement",
                Some(Plugins { cluster_affinity: true, api_enablement: true, ..none }),
                0,
            ),
            ("ClusterAffinity,-ClusterAffinity", Some(none), 0),
            ("-ClusterAffinity,ClusterAffinity", Some(Plugins { cluster_affinity: true, ..none }), 0),
            ("", Some(none), 0),
            ("*,ClusterEviction", Some(all), 1),
            ("*,-ClusterEviction", Some(all), 1),
            ("*,Mine", None, 0),
        ] {
            let got = Plugins::parse(list.split(','));
            assert_eq!(got.as_ref().ok().map(|(plugins, _)| *plugins), want, "{list}");
            assert_eq!(got.map_or(0, |(_, told)| told.len()), warnings, "{list}");
        }
        let error = Plugins::parse(["Mine"]).unwrap_err().to_string();
        assert!(error.starts_with("unknown scheduler plugin \"Mine\"\n  try: one of ClusterAffinity, "), "{error}");
    }
}
