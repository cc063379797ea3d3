//! Flags of what is refused and filled in (admission.md 1).

use ironclad_admission::Config;
use ironclad_controllers::Settings;

/// What admission lets through.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Admission")]
pub(crate) struct AdmissionFlags {
    /// Whether a namespace that holds deletion-protected objects is protected itself
    #[arg(
        long,
        env = "IRONCLAD_PROTECT_NAMESPACE_CONTENTS",
        default_value_t = true,
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    protect_namespace_contents: bool,
}

impl AdmissionFlags {
    /// What the rules are told; `own_user` is the user that our controllers are.
    pub(crate) fn config(&self, settings: &Settings, own_user: Option<String>) -> Config {
        Config {
            gates: settings.gates.clone(),
            no_execute_policy: settings.failover.no_execute_policy,
            protect_namespace_contents: self.protect_namespace_contents,
            own_user,
            check_script: Some(ironclad_interpreter_lua::check_script),
        }
    }
}
