//! Scheduler plugins: filters and scores, and the flag `--plugins` that enables them (specification/scheduling.md 5,
//! 6).
//!
//! A new plugin is a file beside this one and an entry in [`ALL`].

mod api_enablement;
mod cluster_affinity;
mod cluster_locality;
mod spread_constraint;
mod taint_toleration;

pub use self::{
    api_enablement::API_ENABLEMENT, cluster_affinity::CLUSTER_AFFINITY, cluster_locality::CLUSTER_LOCALITY,
    spread_constraint::SPREAD_CONSTRAINT, taint_toleration::TAINT_TOLERATION,
};
use crate::plugin::Plugin;

/// All plugins. Filters run in this order until the first rejection, so that its reason is always the same.
pub static ALL: [&Plugin; 5] =
    [&CLUSTER_AFFINITY, &TAINT_TOLERATION, &API_ENABLEMENT, &SPREAD_CONSTRAINT, &CLUSTER_LOCALITY];
/// A former plugin that the flag still accepts; its rules are built in (specification/failover.md 8.3).
const CLUSTER_EVICTION: &str = "ClusterEviction";

/// The enabled plugins: for each entry of [`ALL`], whether it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plugins([bool; ALL.len()]);

impl Default for Plugins {
    fn default() -> Self {
        Self([true; ALL.len()])
    }
}

/// A name in `--plugins` that is not a plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown scheduler plugin {name:?}\n  try: one of {}", ALL.map(|plugin| plugin.name).join(", "))]
pub struct UnknownPlugin {
    /// The name as it was given.
    pub name: String,
}

impl Plugins {
    /// The enabled plugins, in the order of [`ALL`].
    pub fn enabled(&self) -> impl Iterator<Item = &'static Plugin> {
        ALL.into_iter().zip(self.0).filter(|(_, enabled)| *enabled).map(|(plugin, _)| plugin)
    }

    /// Entries of the flag that enables these: `*` if all are.
    pub(crate) fn names(&self) -> Vec<String> {
        let names: Vec<_> = self.enabled().map(|plugin| plugin.name.to_owned()).collect();
        if names.len() == ALL.len() { vec!["*".to_owned()] } else { names }
    }

    /// Parses the flag: `*` enables all and is applied first, `foo` enables one, `-foo` disables one.
    ///
    /// # Errors
    /// If a name is not a plugin.
    pub fn parse<'a>(list: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownPlugin> {
        let list: Vec<&str> = list.into_iter().map(str::trim).filter(|entry| !entry.is_empty()).collect();
        let mut enabled = [list.contains(&"*"); ALL.len()];
        for entry in list.into_iter().filter(|entry| *entry != "*") {
            let (name, enable) = entry.strip_prefix('-').map_or((entry, true), |name| (name, false));
            if name == CLUSTER_EVICTION {
                continue;
            }
            let index = ALL.iter().position(|plugin| plugin.name == name);
            enabled[index.ok_or_else(|| UnknownPlugin { name: name.to_owned() })?] = enable;
        }
        Ok(Self(enabled))
    }

    /// Warnings about entries of the flag that have no effect any more.
    pub fn warnings(list: &[String]) -> Vec<String> {
        let is_former = |entry: &str| entry.trim().trim_start_matches('-') == CLUSTER_EVICTION;
        let warning = format!(
            "--plugins names {CLUSTER_EVICTION}, which is not a plugin any more: a workload does not return to a cluster \
             where it failed, from which it was drained or in which it was preempted while its eviction task exists; \
             taints keep away the others"
        );
        list.iter().any(|entry| is_former(entry)).then_some(warning).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_enables_and_disables_plugins() {
        let all = ["ClusterAffinity", "TaintToleration", "APIEnablement", "SpreadConstraint", "ClusterLocality"];
        let without_taints = ["ClusterAffinity", "APIEnablement", "SpreadConstraint", "ClusterLocality"];
        for (list, want, warnings) in [
            ("*", Some(all.as_slice()), 0),
            ("*,-TaintToleration", Some(&without_taints), 0),
            ("-TaintToleration,*", Some(&without_taints), 0),
            ("ClusterAffinity, APIEnablement", Some(&["ClusterAffinity", "APIEnablement"]), 0),
            ("ClusterAffinity,-ClusterAffinity", Some(&[]), 0),
            ("-ClusterAffinity,ClusterAffinity", Some(&["ClusterAffinity"]), 0),
            ("", Some(&[]), 0),
            ("*,ClusterEviction", Some(&all), 1),
            ("*,-ClusterEviction", Some(&all), 1),
            ("*,Mine", None, 0),
        ] {
            let got = Plugins::parse(list.split(','));
            let names = got.as_ref().ok().map(|plugins| plugins.enabled().map(|one| one.name).collect::<Vec<_>>());
            assert_eq!(names.as_deref(), want, "{list}");
            let entries: Vec<String> = list.split(',').map(str::to_owned).collect();
            assert_eq!(Plugins::warnings(&entries).len(), warnings, "{list}");
            if let Ok(plugins) = got {
                assert_eq!(Plugins::parse(plugins.names().iter().map(String::as_str)), Ok(plugins), "{list}");
            }
        }
        let error = Plugins::parse(["Mine"]).unwrap_err().to_string();
        assert!(error.starts_with("unknown scheduler plugin \"Mine\"\n  try: one of ClusterAffinity, "), "{error}");
        assert_eq!(Plugins::default().enabled().map(|one| one.name).collect::<Vec<_>>(), all);
    }
}
