//! The manifest of the kubectl plugin for krew, kubectl's manager of plugins.

use std::fmt::Write as _;

/// An archive of an architecture, for krew.
pub(super) struct Archive {
    pub(super) architecture: &'static str,
    /// Name of the file.
    pub(super) name: String,
    pub(super) sha256: String,
}

/// The manifest. `base` is where the archives can be downloaded.
pub(super) fn manifest(version: &str, base: &str, archives: &[Archive]) -> String {
    let mut text = format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2\n\
         kind: Plugin\n\
         metadata:\n  \
           name: ironclad\n\
         spec:\n  \
           version: v{version}\n  \
           shortDescription: Operate many Kubernetes clusters as one\n  \
           description: |\n    \
             Shows where workloads run over many clusters and why, plans and drains, and reaches members, of control\n    \
             planes that serve Karmada's API.\n  \
           platforms:\n"
    );
    let base = base.trim_end_matches('/');
    for Archive { architecture, name, sha256 } in archives {
        // A String takes all that is written.
        let _ = write!(
            text,
            "  - selector:\n      matchLabels:\n        os: linux\n        arch: {architecture}\n    \
               uri: {base}/{name}\n    sha256: {sha256}\n    files:\n    \
               - from: '*/ironclad'\n      to: kubectl-ironclad\n    - from: '*/LICENSE'\n      to: .\n    \
               bin: kubectl-ironclad\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_for_each_archive() {
        let archive = |architecture| Archive {
            architecture,
            name: format!("ironclad-1.0.0-linux-{architecture}.tar.gz"),
            sha256: format!("digest-of-{architecture}"),
        };
        let text = manifest("1.0.0", "https://downloads.example/v1/", &[archive("amd64"), archive("arm64")]);
        for line in [
            "    uri: https://downloads.example/v1/ironclad-1.0.0-linux-amd64.tar.gz",
            "    sha256: digest-of-amd64",
            "    uri: https://downloads.example/v1/ironclad-1.0.0-linux-arm64.tar.gz",
            "  version: v1.0.0",
            "        arch: arm64",
            "    - from: '*/ironclad'",
            "    bin: kubectl-ironclad",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is missing in\n{text}");
        }
    }
}
