//! `ironclad version`.

use serde::Serialize;
use serde_json::Value;

use crate::{
    print::{self, Output},
    program,
};

/// Show the version of this program.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad version
  ironclad version --short
  ironclad version -o json")]
pub struct Command {
    /// Only the number
    #[arg(long)]
    pub short: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}

/// Facts about this build.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// The version of the package.
    pub version: &'static str,
    /// The commit, from `IRONCLAD_COMMIT` at build time.
    pub commit: &'static str,
    /// Operating system and architecture.
    pub platform: String,
    /// The Kubernetes minor versions that it is made for.
    pub kubernetes: &'static str,
}

/// This program's version.
#[must_use]
pub fn version() -> Version {
    Version {
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("IRONCLAD_COMMIT").unwrap_or("unknown"),
        platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        kubernetes: "1.36, with members from 1.26",
    }
}

/// The line of karmadactl: Go's names of the fields, which scripts look for. There is no Go in this program.
fn as_karmadactl(version: &Version) -> String {
    format!(
        "karmadactl version: version.Info{{GitVersion:\"v{}\", GitCommit:\"{}\", GoVersion:\"\", Compiler:\"rustc\", \
         Platform:\"{}\"}}\n",
        version.version, version.commit, version.platform
    )
}

/// Prints it.
///
/// # Errors
/// If stdout can't be written to.
pub fn run(command: &Command) -> anyhow::Result<()> {
    let version = version();
    let text = if command.short {
        format!("{}\n", version.version)
    } else if command.output.is_objects() {
        let value: Value = serde_json::to_value(&version)?;
        print::objects(command.output, &[value])?
    } else if program::runs_as_karmadactl() {
        as_karmadactl(&version)
    } else {
        format!(
            "ironclad {} (commit {}, {}, for Kubernetes {})\n",
            version.version, version.commit, version.platform, version.kubernetes
        )
    };
    print::out(&text)
}
