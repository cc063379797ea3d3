//! `cargo xtask licences`: checks dependencies of the product. Every licence is on the list, every dependency
//! comes from the registry, and banned ones are absent.

use std::path::Path;

use anyhow::bail;
use serde::Deserialize;

use crate::metadata;

/// CDLA-Permissive-2.0 is the licence of the certificate authorities in the image: data, not code.
const ALLOWED: [&str; 10] = [
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CDLA-Permissive-2.0", "ISC", "MIT", "Unicode-3.0",
    "Unlicense", "Zlib",
];

/// Allowed together with a licence of the list.
const ALLOWED_EXCEPTIONS: [&str; 1] = ["LLVM-exception"];

/// Banned crates, also as indirect dependencies.
const BANNED: [(&str, &str); 5] = [
    ("openssl-sys", "TLS is rustls, so that a bare machine can build it"),
    ("native-tls", "TLS is rustls, so that a bare machine can build it"),
    ("aws-lc-sys", "rustls's provider is ring: it builds without cmake"),
    ("governor", "its quotas are fixed: rates that change while running are our own"),
    ("serde_yaml", "it is archived: YAML is serde-saphyr"),
];

/// The registry that cargo has by default.
const REGISTRY: &str = concat!("registry+https://github.com/rust-lang/crates.io", "-index");

#[derive(Deserialize)]
struct All {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for packages of the workspace.
    source: Option<String>,
}

pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let all: All = metadata::read(root)?;
    let complaints: Vec<String> = all.packages.iter().flat_map(complaints_about).collect();
    if !complaints.is_empty() {
        bail!("{}", complaints.join("\n"));
    }
    eprintln!("{} packages, all of them with allowed licences and sources", all.packages.len());
    Ok(())
}

fn complaints_about(package: &Package) -> Vec<String> {
    let Package { name, version, .. } = package;
    let mut complaints = Vec::new();
    match &package.license {
        None => complaints.push(format!("{name} {version} has no licence")),
        Some(licence) if !allows(licence) => {
            complaints.push(format!("{name} {version} has the licence {licence}, which is not on the list"));
        }
        Some(_) => {}
    }
    if let Some(source) = package.source.as_ref().filter(|source| *source != REGISTRY) {
        complaints.push(format!("{name} {version} comes from {source}: only the registry is allowed"));
    }
    if let Some((_, why)) = BANNED.iter().find(|(banned, _)| banned == name) {
        complaints.push(format!("{name} {version} is banned: {why}"));
    }
    complaints
}

/// Returns `true` if licences of the list satisfy an SPDX expression, also with the old `/` for `OR`.
fn allows(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let met = any(&mut words);
    met && words.peek().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>) -> bool {
    let mut met = all(words);
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words);
    }
    met
}

fn all(words: &mut Words<'_>) -> bool {
    let mut met = one(words);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words);
    }
    met
}

fn one(words: &mut Words<'_>) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let met = any(words);
        return words.next_if_eq(&")").is_some() && met;
    }
    let licence = words.next().is_some_and(|word| ALLOWED.contains(&word));
    match words.next_if_eq(&"WITH") {
        Some(_) => words.next().is_some_and(|word| ALLOWED_EXCEPTIONS.contains(&word)) && licence,
        None => licence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        for (name, expression, want) in [
            ("one of the list", "MIT", true),
            ("one that is not", "MPL-2.0", false),
            ("either is enough", "MPL-2.0 OR MIT", true),
            ("the old way to write it", "GPL-3.0/Apache-2.0", true),
            ("both are needed", "MIT AND MPL-2.0", false),
            ("brackets bind", "(MIT OR MPL-2.0) AND Unicode-3.0", true),
            ("AND binds closer than OR", "MIT OR MPL-2.0 AND GPL-3.0", true),
            ("an allowed exception", "Apache-2.0 WITH LLVM-exception", true),
            ("another exception", "Apache-2.0 WITH Classpath-exception-2.0", false),
            ("nothing", "", false),
            ("a bracket too few", "(MIT", false),
            ("words left over", "MIT Apache-2.0", false),
        ] {
            assert_eq!(allows(expression), want, "{name}: {expression}");
        }
    }

    #[test]
    fn checker_finds_every_violation() {
        let package: Package = serde_json::from_value(serde_json::json!({
            "name": "openssl-sys", "version": "1.0.0", "license": null, "source": "git+https://git.example/x",
        }))
        .unwrap();
        assert_eq!(
            complaints_about(&package),
            [
                "openssl-sys 1.0.0 has no licence",
                "openssl-sys 1.0.0 comes from git+https://git.example/x: only the registry is allowed",
                "openssl-sys 1.0.0 is banned: TLS is rustls, so that a bare machine can build it",
            ]
        );
    }
}
