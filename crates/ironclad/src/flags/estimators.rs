//! Flags of estimators over gRPC and of the descheduler (specification/operations.md 8.3).

use std::path::PathBuf;

use ironclad_cli::report::Misused;
use ironclad_controllers::EstimatorSettings;
use ironclad_estimator::ClientTls;
use ironclad_scheduling::{deschedule, estimator::Discovery};
use jiff::SignedDuration;

use ironclad_cli::Period;

/// Flags of estimators.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Estimators and descheduler")]
pub(crate) struct EstimatorArgs {
    /// Ask estimators over gRPC, too; their least answer limits schedule results
    #[arg(long, env = "IRONCLAD_ENABLE_SCHEDULER_ESTIMATOR", default_value_t = EstimatorSettings::default().enabled, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    enable_scheduler_estimator: bool,
    /// Ask no estimators of members in Pull mode
    #[arg(long, env = "IRONCLAD_DISABLE_SCHEDULER_ESTIMATOR_IN_PULL_MODE", default_value_t = Discovery::default().skip_pull, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    disable_scheduler_estimator_in_pull_mode: bool,
    /// Deadline of a call over gRPC; an estimator that does not answer limits nothing
    #[arg(long, env = "IRONCLAD_SCHEDULER_ESTIMATOR_TIMEOUT", default_value_t = Period(EstimatorSettings::default().timeout), value_name = "DURATION")]
    scheduler_estimator_timeout: Period,
    /// Port of estimators over gRPC
    #[arg(long, env = "IRONCLAD_SCHEDULER_ESTIMATOR_PORT", default_value_t = Discovery::default().port, value_name = "PORT")]
    scheduler_estimator_port: u16,
    /// Namespace of the Services of estimators
    #[arg(long, env = "IRONCLAD_SCHEDULER_ESTIMATOR_SERVICE_NAMESPACE", default_value_t = Discovery::default().service_namespace, value_name = "NAME")]
    scheduler_estimator_service_namespace: String,
    /// Beginning of their names: PREFIX-CLUSTER
    #[arg(long, env = "IRONCLAD_SCHEDULER_ESTIMATOR_SERVICE_PREFIX", default_value_t = Discovery::default().service_prefix, value_name = "PREFIX")]
    scheduler_estimator_service_prefix: String,
    /// Authorities that sign certificates of estimators, PEM; without it, connections are plain
    #[arg(long, env = "IRONCLAD_SCHEDULER_ESTIMATOR_CA_FILE", value_name = "FILE")]
    scheduler_estimator_ca_file: Option<PathBuf>,
    /// Certificate that is presented to estimators, PEM
    #[arg(long, env = "IRONCLAD_SCHEDULER_ESTIMATOR_CERT_FILE", value_name = "FILE")]
    scheduler_estimator_cert_file: Option<PathBuf>,
    /// Key of that certificate, PEM
    #[arg(long, env = "IRONCLAD_SCHEDULER_ESTIMATOR_KEY_FILE", value_name = "FILE")]
    scheduler_estimator_key_file: Option<PathBuf>,
    /// Accept any certificate of an estimator
    #[arg(long, env = "IRONCLAD_INSECURE_SKIP_ESTIMATOR_VERIFY", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    insecure_skip_estimator_verify: bool,
    /// Interval of the descheduler, which --controllers=*,descheduler switches on
    #[arg(long, env = "IRONCLAD_DESCHEDULING_INTERVAL", default_value_t = Period(deschedule::Options::default().interval.unsigned_abs()), value_name = "DURATION")]
    descheduling_interval: Period,
    /// Time after which a replica that waits for a node is taken back
    #[arg(long, env = "IRONCLAD_UNSCHEDULABLE_THRESHOLD", default_value_t = Period(deschedule::Options::default().threshold.unsigned_abs()), value_name = "DURATION")]
    unschedulable_threshold: Period,
}

impl EstimatorArgs {
    /// Returns the settings.
    ///
    /// # Errors
    /// A value is invalid, or a file cannot be read.
    pub(crate) fn settings(&self) -> anyhow::Result<(EstimatorSettings, deschedule::Options)> {
        for (flag, period) in [
            ("scheduler-estimator-timeout", self.scheduler_estimator_timeout),
            ("descheduling-interval", self.descheduling_interval),
        ] {
            if period.0.is_zero() {
                return Err(Misused(format!("--{flag} must be longer than 0\n  try: 3s")).into());
            }
        }
        let tls = ClientTls::from_files(
            self.scheduler_estimator_ca_file.as_ref(),
            self.scheduler_estimator_cert_file.as_ref(),
            self.scheduler_estimator_key_file.as_ref(),
            self.insecure_skip_estimator_verify,
        )?;
        let estimators = EstimatorSettings {
            enabled: self.enable_scheduler_estimator,
            timeout: self.scheduler_estimator_timeout.0,
            discovery: Discovery {
                skip_pull: self.disable_scheduler_estimator_in_pull_mode,
                service_namespace: self.scheduler_estimator_service_namespace.clone(),
                service_prefix: self.scheduler_estimator_service_prefix.clone(),
                port: self.scheduler_estimator_port,
            },
            tls,
        };
        let descheduler = deschedule::Options {
            interval: SignedDuration::try_from(self.descheduling_interval.0)?,
            threshold: SignedDuration::try_from(self.unschedulable_threshold.0)?,
        };
        Ok((estimators, descheduler))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: EstimatorArgs,
    }

    fn settings(line: &[&str]) -> Result<(EstimatorSettings, deschedule::Options), String> {
        let line = Line::try_parse_from(std::iter::once("x").chain(line.iter().copied()));
        line.map_err(|error| error.to_string())?.args.settings().map_err(|error| error.to_string())
    }

    #[test]
    fn flags_set_what_they_name() {
        let (estimators, descheduler) = settings(&[]).unwrap();
        assert!(!estimators.enabled);
        assert_eq!((estimators.discovery, descheduler), (Discovery::default(), deschedule::Options::default()));
        let line = [
            "--enable-scheduler-estimator",
            "--scheduler-estimator-timeout=1s",
            "--scheduler-estimator-port=443",
            "--disable-scheduler-estimator-in-pull-mode=true",
            "--unschedulable-threshold=1m",
        ];
        let (estimators, descheduler) = settings(&line).unwrap();
        assert!(estimators.enabled && estimators.discovery.skip_pull);
        assert_eq!((estimators.timeout.as_secs(), estimators.discovery.port), (1, 443));
        assert_eq!(descheduler.threshold, SignedDuration::from_mins(1));
    }

    #[test]
    fn invalid_values_name_flag_and_remedy() {
        for (line, want) in [
            ("--scheduler-estimator-timeout=0s", "--scheduler-estimator-timeout must be longer than 0"),
            ("--descheduling-interval=0s", "--descheduling-interval must be longer than 0"),
            ("--scheduler-estimator-port=99999", "--scheduler-estimator-port"),
            (
                "--scheduler-estimator-ca-file=/nonexistent/ca",
                "--scheduler-estimator-ca-file: /nonexistent/ca cannot be read",
            ),
        ] {
            let error = settings(&[line]).unwrap_err();
            assert!(error.contains(want), "{line}: {error}");
        }
    }
}
