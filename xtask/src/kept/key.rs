//! The key of kept dependencies: a hash of all that decides what their compiled form is.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use sha2::{Digest, Sha256};

use crate::cargo;

/// Variables that change what compilers make. cargo compares some of them itself; C compilers' ones it does not.
const VARIABLES: [&str; 10] = [
    "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "RUSTC_WRAPPER", "CC", "CXX", "AR", "CFLAGS",
    "CXXFLAGS", "HOST_CFLAGS",
];

/// Parts of the key. Names of features are not: a unit with other features has another name.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    /// `Cargo.lock`.
    pub(super) lock: String,
    /// Versions of the compilers.
    pub(super) toolchain: String,
    /// Name of the profile, and the tables of `Cargo.toml` that describe profiles.
    pub(super) profile: String,
    /// `.cargo/config.toml`, and variables of the environment.
    pub(super) flags: String,
    /// cargo's home: build scripts name files in it.
    pub(super) home: PathBuf,
}

impl Inputs {
    pub(super) fn read(root: &Path, profile: &str) -> anyhow::Result<Self> {
        let read = |name: &str| fs::read_to_string(root.join(name));
        let toolchain = cargo::output(cargo::cargo(root).args(["version", "--verbose"]))?;
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let rustc = cargo::output(Command::new(rustc).arg("-vV").current_dir(root))?;
        // Without a C compiler, the build says so itself.
        let cc = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into())).arg("--version").output();
        let cc = cc.map(|output| output.stdout).unwrap_or_default();
        let settings =
            env::vars().filter(|(name, _)| is_setting(name)).map(|(name, value)| format!("{name}={value}\n"));
        let mut settings: Vec<String> = settings.collect();
        settings.sort();
        Ok(Self {
            lock: read("Cargo.lock")?,
            toolchain: [toolchain, rustc, cc].map(|part| String::from_utf8_lossy(&part).into_owned()).join("\n"),
            profile: format!("{profile}\n{}", profiles(&read("Cargo.toml")?)),
            flags: format!("{}\n{}", read(".cargo/config.toml").unwrap_or_default(), settings.concat()),
            home: match env::var_os("CARGO_HOME") {
                Some(home) => home.into(),
                None => Path::new(&env::var_os("HOME").unwrap_or_default()).join(".cargo"),
            },
        })
    }

    pub(super) fn key(&self) -> String {
        let Self { lock, toolchain, profile, flags, home } = self;
        let mut hash = Sha256::new();
        for part in [lock, toolchain, profile, flags, &*home.to_string_lossy()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.update(FORMAT.to_be_bytes());
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Raised when the folder's layout changes.
const FORMAT: u32 = 1;

/// Returns whether dependencies are compiled otherwise with the variable. Incremental compilation concerns own crates
/// only.
fn is_setting(name: &str) -> bool {
    VARIABLES.contains(&name) || (name.starts_with("CARGO_PROFILE_") && !name.ends_with("_INCREMENTAL"))
}

/// The tables of a manifest whose names begin with `profile`.
fn profiles(manifest: &str) -> String {
    let mut inside = false;
    let mut found = String::new();
    for line in manifest.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            inside = name.starts_with("profile.");
        }
        if inside {
            found.push_str(line);
            found.push('\n');
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_follows_each_input() {
        let inputs = || Inputs {
            lock: "ring 0.17.8".to_owned(),
            toolchain: "rustc 1.95.0".to_owned(),
            profile: "sim".to_owned(),
            flags: "CFLAGS=-fwrapv".to_owned(),
            home: "/first".into(),
        };
        let first = inputs().key();
        assert_eq!(first, inputs().key(), "the same inputs, the same key");
        for (name, other) in [
            ("lock", Inputs { lock: "ring 0.17.9".to_owned(), ..inputs() }),
            ("toolchain", Inputs { toolchain: "rustc 1.96.0".to_owned(), ..inputs() }),
            ("profile", Inputs { profile: "dist".to_owned(), ..inputs() }),
            ("flags", Inputs { flags: String::new(), ..inputs() }),
            ("home", Inputs { home: "/second".into(), ..inputs() }),
            (
                "the same text in another place",
                Inputs { lock: "ring 0.17.8rustc 1.95.0".to_owned(), toolchain: String::new(), ..inputs() },
            ),
        ] {
            assert_ne!(first, other.key(), "{name}");
        }
    }

    #[test]
    fn profiles_are_read_without_the_rest_of_the_manifest() {
        let manifest = "[workspace.dependencies]\nring = \"1\"\n\n# Text.\n[profile.sim]\nopt-level = 3\n\n\
             [profile.sim.package.\"*\"]\ndebug = false\n[workspace.lints.rust]\nunsafe_code = \"deny\"\n";
        assert_eq!(profiles(manifest), "[profile.sim]\nopt-level = 3\n[profile.sim.package.\"*\"]\ndebug = false\n");
        for (name, is) in [
            ("RUSTFLAGS", true),
            ("CARGO_PROFILE_SIM_OPT_LEVEL", true),
            ("CARGO_PROFILE_SIM_INCREMENTAL", false),
            ("CARGO_INCREMENTAL", false),
            ("HOME", false),
        ] {
            assert_eq!(is_setting(name), is, "{name}");
        }
    }
}
