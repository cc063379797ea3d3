//! Deprecated flags and plugin names (specification/proposals/004.md): still accepted, so that old manifests start;
//! each gets a warning that names its replacement (specification/failover.md 10).

/// Such flags as they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deprecated {
    /// `--graceful-eviction-timeout`.
    pub graceful_eviction_timeout: Option<String>,
    /// `--enable-taint-manager`; `false` is `--controllers=-taint-manager`.
    pub enable_taint_manager: Option<bool>,
    /// `--default-not-ready-toleration-seconds`.
    pub default_not_ready_toleration_seconds: Option<i64>,
    /// `--default-unreachable-toleration-seconds`.
    pub default_unreachable_toleration_seconds: Option<i64>,
}

impl Deprecated {
    /// True if they switch the taint manager off.
    #[must_use]
    pub fn disables_taint_manager(&self) -> bool {
        self.enable_taint_manager == Some(false)
    }

    /// One warning for each that was given.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut warn = |given: bool, flag: &str, instead: &str| {
            if given {
                warnings.push(format!("--{flag} is deprecated and ignored: {instead}"));
            }
        };
        warn(
            self.graceful_eviction_timeout.is_some(),
            "graceful-eviction-timeout",
            "no copy is removed because time passed; spec.failover.application.gracePeriodSeconds bounds one workload's",
        );
        for (given, flag) in [
            (self.default_not_ready_toleration_seconds, "default-not-ready-toleration-seconds"),
            (self.default_unreachable_toleration_seconds, "default-unreachable-toleration-seconds"),
        ] {
            warn(given.is_some(), flag, "policies get no default tolerations; set spec.placement.clusterTolerations");
        }
        match self.enable_taint_manager {
            Some(true) => {
                warn(true, "enable-taint-manager", "the taint manager runs unless --controllers=-taint-manager")
            }
            Some(false) => warnings.push(
                "--enable-taint-manager is deprecated: false is taken as --controllers=-taint-manager".to_owned(),
            ),
            None => {}
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_deprecated_flag_names_its_replacement() {
        let none = Deprecated::default;
        for (name, flags, want) in [
            ("none given", none(), None),
            (
                "the timeout",
                Deprecated { graceful_eviction_timeout: Some("10m".into()), ..none() },
                Some("--graceful-eviction-timeout is deprecated and ignored: no copy is removed because time passed"),
            ),
            (
                "tolerations for not-ready",
                Deprecated { default_not_ready_toleration_seconds: Some(300), ..none() },
                Some(
                    "--default-not-ready-toleration-seconds is deprecated and ignored: policies get no default tolerations",
                ),
            ),
            (
                "tolerations for unreachable, also 0",
                Deprecated { default_unreachable_toleration_seconds: Some(0), ..none() },
                Some("--default-unreachable-toleration-seconds is deprecated and ignored"),
            ),
            (
                "the taint manager, on",
                Deprecated { enable_taint_manager: Some(true), ..none() },
                Some("--enable-taint-manager is deprecated and ignored: the taint manager runs unless"),
            ),
            (
                "the taint manager, off",
                Deprecated { enable_taint_manager: Some(false), ..none() },
                Some("--enable-taint-manager is deprecated: false is taken as --controllers=-taint-manager"),
            ),
        ] {
            let warnings = flags.warnings();
            assert_eq!(warnings.len(), usize::from(want.is_some()), "{name}: {warnings:?}");
            assert!(warnings.iter().zip(want).all(|(warning, want)| warning.starts_with(want)), "{name}: {warnings:?}");
            assert_eq!(flags.disables_taint_manager(), flags.enable_taint_manager == Some(false), "{name}");
        }
    }
}
