//! Location of programs built from Go: one folder per set of inputs in the user's cache. These are real Kubernetes, the
//! clients of `tools/clients`, and kubectl of older minors.
//!
//! Shared by path with `ironclad-testkit`, so that `cargo test -p ironclad-testkit` finds what `cargo xtask kubernetes`
//! built without either of them depending on the other. It only looks up, and builds nothing.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// Variable with the folder, set by `cargo xtask test`.
pub(crate) const FOLDER_VARIABLE: &str = "IRONCLAD_KUBERNETES_BIN";

/// Every program that the folder holds.
pub(crate) const PROGRAMS: [&str; 6] =
    ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "etcd", "kwok"];

/// The files under `tools/kubernetes` that determine the programs.
const PINS: [&str; 9] = [
    "go.mod", "go.sum", "tools.go", "etcd/go.mod", "etcd/go.sum", "etcd/main.go", "kwok/go.mod", "kwok/go.sum",
    "kwok/tools.go",
];

/// The linker's flags for the Kubernetes programs, with `{version}`, `{major}` and `{minor}` to be filled in. Without
/// the version a server calls itself `v0.0.0-master` and clients that parse versions stumble.
pub(crate) const LINKER_FLAGS: &str = "-s -w -X k8s.io/component-base/version.gitVersion={version} \
     -X k8s.io/component-base/version.gitMajor={major} -X k8s.io/component-base/version.gitMinor={minor}";

/// Variable with the path of the kube-apiserver of the oldest Kubernetes that members are tested with.
pub(crate) const OLDEST_VARIABLE: &str = "IRONCLAD_OLDEST_API_SERVER";

/// Flags for that server besides [`LINKER_FLAGS`]: up to 1.30 the aggregator answers `/version` from client-go's copy.
pub(crate) const OLDEST_LINKER_FLAGS: &str = " -X k8s.io/client-go/pkg/version.gitVersion={version} \
     -X k8s.io/client-go/pkg/version.gitMajor={major} -X k8s.io/client-go/pkg/version.gitMinor={minor}";

/// Variable with the path of the program of `tools/clients`, set by `cargo xtask test`.
pub(crate) const CLIENTS_VARIABLE: &str = "IRONCLAD_CLIENTS_BIN";

pub(crate) const CLIENTS: &str = "clients";

pub(crate) const CLIENTS_LINKER_FLAGS: &str = "-s -w";

/// The folder for the pins of the checkout at `root`, built or not.
pub(crate) fn folder(root: &Path) -> io::Result<PathBuf> {
    let pins = PINS.map(|pin| pin.to_owned());
    Ok(cache()?.join(format!("kubernetes-{}", fingerprint(&root.join("tools/kubernetes"), &pins, LINKER_FLAGS)?)))
}

/// The folder of the clients for the sources of the checkout at `root`, built or not.
pub(crate) fn clients_folder(root: &Path) -> io::Result<PathBuf> {
    let tools = root.join("tools/clients");
    Ok(cache()?.join(format!("clients-{}", fingerprint(&tools, &files(&tools)?, CLIENTS_LINKER_FLAGS)?)))
}

/// The kube-apiserver of the oldest Kubernetes for the pins of the checkout at `root`, built or not.
pub(crate) fn oldest(root: &Path) -> io::Result<PathBuf> {
    let module = root.join("tools/kubernetes/oldest");
    let flags = format!("{LINKER_FLAGS}{OLDEST_LINKER_FLAGS}");
    let inputs = fingerprint(&module, &files(&module)?, &flags)?;
    Ok(cache()?.join(format!("kube-apiserver-oldest-{inputs}/kube-apiserver")))
}

/// All files below a folder by their paths in it, sorted.
pub(crate) fn files(folder: &Path) -> io::Result<Vec<String>> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(current) = open.pop() {
        for entry in fs::read_dir(&current)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(folder).map_err(io::Error::other)?.display().to_string());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns `true` if the folder has every program. Folders are moved into place when they are complete.
pub(crate) fn is_complete(folder: &Path) -> bool {
    PROGRAMS.iter().all(|program| folder.join(program).is_file())
}

pub(crate) fn cache() -> io::Result<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // The XDG rules: a relative path there is to be ignored.
    set("XDG_CACHE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .map(|base| base.join("ironclad"))
        .ok_or_else(|| io::Error::other("no cache directory: set HOME or XDG_CACHE_HOME"))
}

/// Hash of these files of a folder by name and content, of the build flags, and of the platform.
pub(crate) fn fingerprint(folder: &Path, pins: &[String], flags: &str) -> io::Result<String> {
    let mut hash = Sha256::new();
    for pin in pins {
        let path = folder.join(pin);
        let content =
            fs::read(&path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        hash.update(pin);
        hash.update((content.len() as u64).to_be_bytes());
        hash.update(content);
    }
    hash.update(flags);
    hash.update(env::consts::OS);
    hash.update(env::consts::ARCH);
    Ok(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}
