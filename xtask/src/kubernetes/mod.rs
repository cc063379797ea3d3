//! Builds the programs of real Kubernetes, and the clients of `tools/clients`, from the Go module proxy, once per set
//! of inputs, into the user's cache.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, bail, ensure};

pub(crate) mod location;

pub(crate) enum Programs {
    /// They are in this folder.
    At(PathBuf),
    /// They are not built, and there is no Go to build them with.
    GoIsMissing,
}

/// Message when Go is missing.
pub(crate) const GO_IS_MISSING: &str = "Go is missing, so kube-apiserver and the other programs of real Kubernetes can't be built; \
     install Go 1.26 or newer and put `go` on the PATH";

/// Returns the folder with all programs; builds them if they are missing. Concurrent calls wait for one build.
pub(crate) fn ensure(root: &Path) -> anyhow::Result<PathBuf> {
    match find_or_build(root)? {
        Programs::At(folder) => Ok(folder),
        Programs::GoIsMissing => bail!(GO_IS_MISSING),
    }
}

/// Like [`ensure`], without an error if Go is missing.
pub(crate) fn find_or_build(root: &Path) -> anyhow::Result<Programs> {
    let folder = location::folder(root)?;
    if !location::is_complete(&folder) {
        if !go_is_there() {
            return Ok(Programs::GoIsMissing);
        }
        build(root, &folder)?;
    }
    link(root, &folder)?;
    Ok(Programs::At(folder))
}

/// Fails with the remedy if Go is missing.
pub(crate) fn ensure_go() -> anyhow::Result<()> {
    ensure!(go_is_there(), GO_IS_MISSING);
    Ok(())
}

fn go_is_there() -> bool {
    Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// Returns the program of `tools/clients`; builds it if it is missing; `None` without Go.
pub(crate) fn clients(root: &Path) -> anyhow::Result<Option<PathBuf>> {
    let folder = location::clients_folder(root)?;
    if !folder.join(location::CLIENTS).is_file() {
        if !go_is_there() {
            return Ok(None);
        }
        once(&folder, &[location::CLIENTS], |unfinished| {
            eprintln!("building the programs of tools/clients into {}", folder.display());
            go_build(&root.join("tools/clients"), unfinished, location::CLIENTS_LINKER_FLAGS, &["."])
        })?;
    }
    Ok(Some(folder.join(location::CLIENTS)))
}

/// The minors of kubectl besides the pinned one, each a folder of `tools/kubectl`.
pub(crate) const OLDER_KUBECTLS: [&str; 2] = ["1.35", "1.34"];

/// Returns the kubectl of an older minor; builds it if it is missing.
pub(crate) fn older_kubectl(root: &Path, minor: &str) -> anyhow::Result<PathBuf> {
    const PROGRAM: &str = "kubectl";
    const FLAGS: &str = "-s -w";
    let module = root.join("tools/kubectl").join(minor);
    let inputs = location::fingerprint(&module, &location::files(&module)?, FLAGS)?;
    let folder = location::cache()?.join(format!("kubectl-{minor}-{inputs}"));
    if !folder.join(PROGRAM).is_file() {
        ensure_go()?;
        once(&folder, &[PROGRAM], |unfinished| {
            eprintln!("building kubectl of {minor} into {}", folder.display());
            // Named after its folder by default.
            let destination = unfinished.join(PROGRAM);
            go_build_to(&module, &destination, FLAGS, &["."])
        })?;
    }
    Ok(folder.join(PROGRAM))
}

/// Returns the kube-apiserver of the oldest Kubernetes that members are tested with; builds it if it is missing.
pub(crate) fn oldest(root: &Path) -> anyhow::Result<PathBuf> {
    let program = location::oldest(root)?;
    if !program.is_file() {
        ensure_go()?;
        let module = root.join("tools/kubernetes/oldest");
        let version = Version::of(&fs::read_to_string(module.join("go.mod"))?)?;
        let folder = program.parent().context("the program is in a folder")?;
        once(folder, &["kube-apiserver"], |unfinished| {
            eprintln!("building kube-apiserver of Kubernetes {version} into {}", folder.display());
            let flags = version.fill(&format!("{}{}", location::LINKER_FLAGS, location::OLDEST_LINKER_FLAGS));
            go_build(&module, unfinished, &flags, &["k8s.io/kubernetes/cmd/kube-apiserver"])
        })?;
    }
    Ok(program)
}

fn build(root: &Path, folder: &Path) -> anyhow::Result<()> {
    let tools = root.join("tools/kubernetes");
    let version = Version::of(&fs::read_to_string(tools.join("go.mod"))?)?;
    once(folder, &location::PROGRAMS, |unfinished| {
        eprintln!("building Kubernetes {version}, etcd and kwok into {}", folder.display());
        eprintln!("the first time this takes ten minutes and more on two cores; the result is kept");
        go_build(
            &tools,
            unfinished,
            &version.linker_flags(),
            &[
                "k8s.io/kubernetes/cmd/kube-apiserver",
                "k8s.io/kubernetes/cmd/kube-controller-manager",
                "k8s.io/kubernetes/cmd/kube-scheduler",
                "k8s.io/kubernetes/cmd/kubectl",
            ],
        )?;
        go_build(&tools.join("etcd"), unfinished, "-s -w", &["."])?;
        go_build(&tools.join("kwok"), unfinished, "-s -w", &["sigs.k8s.io/kwok/cmd/kwok"])
    })
}

/// Builds into a folder of the cache and moves it into place when it is complete. Concurrent calls wait.
fn once(folder: &Path, programs: &[&str], build: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let complete = |folder: &Path| programs.iter().all(|program| folder.join(program).is_file());
    let cache = folder.parent().context("the folder of the programs has a parent")?;
    fs::create_dir_all(cache).with_context(|| format!("{} can't be made", cache.display()))?;
    let lock_path = cache.join("kubernetes.lock");
    let lock = fs::File::create(&lock_path).with_context(|| format!("{} can't be written", lock_path.display()))?;
    if lock.try_lock().is_err() {
        eprintln!("waiting for another build, which has locked {}", lock_path.display());
        lock.lock().with_context(|| format!("{} can't be locked", lock_path.display()))?;
    }
    if complete(folder) {
        return Ok(());
    }
    // Locked until the end of this function; an existing folder of this name is from a killed build.
    let unfinished = folder.with_extension("building");
    remove_folder(&unfinished)?;
    fs::create_dir_all(&unfinished)?;
    build(&unfinished)?;
    ensure!(complete(&unfinished), "the build left {} without one of {}", unfinished.display(), programs.join(", "));
    remove_folder(folder)?;
    fs::rename(&unfinished, folder).with_context(|| format!("{} can't be moved into place", folder.display()))
}

fn go_build(module: &Path, into: &Path, linker_flags: &str, packages: &[&str]) -> anyhow::Result<()> {
    let mut destination = into.as_os_str().to_owned();
    destination.push("/");
    go_build_to(module, Path::new(&destination), linker_flags, packages)
}

fn go_build_to(module: &Path, destination: &Path, linker_flags: &str, packages: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("go")
        .args(["build", "-buildvcs=false", "-ldflags", linker_flags, "-o"])
        .arg(destination)
        .args(packages)
        .current_dir(module)
        .env("GOWORK", "off")
        .stdin(Stdio::null())
        .status()
        .context("`go build` can't be run")?;
    ensure!(status.success(), "`go build {}` in {} ended with {status}", packages.join(" "), module.display());
    Ok(())
}

/// Links `target/kubernetes` to the folder, for manual use.
fn link(root: &Path, folder: &Path) -> anyhow::Result<()> {
    let target = crate::cargo::target_directory(root);
    fs::create_dir_all(&target)?;
    let link = target.join("kubernetes");
    if fs::read_link(&link).is_ok_and(|to| to == folder) {
        return Ok(());
    }
    match fs::remove_file(&link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("{} can't be replaced", link.display()));
        }
        _ => {}
    }
    match std::os::unix::fs::symlink(folder, &link) {
        // Another process created the same link.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("{} can't be made", link.display()))
        }
        _ => Ok(()),
    }
}

fn remove_folder(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} can't be removed", folder.display()))
        }
        _ => Ok(()),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Version {
    full: String,
    major: String,
    minor: String,
}

impl Version {
    /// Parses `tools/kubernetes/go.mod`.
    fn of(go_mod: &str) -> anyhow::Result<Self> {
        let full = go_mod
            .lines()
            .filter_map(|line| line.trim().strip_prefix("require ").or(Some(line.trim())))
            .find_map(|line| line.strip_prefix("k8s.io/kubernetes "))
            .and_then(|rest| rest.split_whitespace().next())
            .context("tools/kubernetes/go.mod requires no k8s.io/kubernetes")?;
        let mut parts = full.strip_prefix('v').unwrap_or(full).split('.');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(major), Some(minor), Some(_)) => {
                Ok(Self { full: full.to_owned(), major: major.to_owned(), minor: minor.to_owned() })
            }
            _ => bail!("tools/kubernetes/go.mod: `{full}` is not a version of k8s.io/kubernetes"),
        }
    }

    fn linker_flags(&self) -> String {
        self.fill(location::LINKER_FLAGS)
    }

    fn fill(&self, flags: &str) -> String {
        flags.replace("{version}", &self.full).replace("{major}", &self.major).replace("{minor}", &self.minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_pins() {
        for (name, text, want) in [
            ("a line of its own", "module x\n\nrequire k8s.io/kubernetes v1.36.3\n", Some(("v1.36.3", "1", "36"))),
            ("in a block", "require (\n\tk8s.io/kubernetes v1.37.0 // pinned\n)\n", Some(("v1.37.0", "1", "37"))),
            ("not there", "module x\n", None),
            ("no version", "require k8s.io/kubernetes latest\n", None),
        ] {
            let got = Version::of(text).ok();
            assert_eq!(got.as_ref().map(|v| (&*v.full, &*v.major, &*v.minor)), want, "{name}");
        }
    }

    #[test]
    fn the_linker_writes_the_pinned_version() {
        let version = Version::of("require k8s.io/kubernetes v1.36.3").unwrap();
        assert_eq!(
            version.linker_flags(),
            "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
             -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
        );
        let old = Version::of("require k8s.io/kubernetes v1.26.15").unwrap().fill(location::OLDEST_LINKER_FLAGS);
        assert!(old.starts_with(" -X k8s.io/client-go/pkg/version.gitVersion=v1.26.15 -X "), "{old}");
    }

    #[test]
    fn the_folder_of_the_clients_follows_every_file() {
        let root = tempfile::tempdir().unwrap();
        let chart = root.path().join("tools/clients/chart");
        fs::create_dir_all(&chart).unwrap();
        fs::write(chart.join("Chart.yaml"), "version: 0.1.0").unwrap();
        let before = location::clients_folder(root.path()).unwrap();
        assert_eq!(before, location::clients_folder(root.path()).unwrap(), "the same files, the same folder");
        fs::write(chart.join("Chart.yaml"), "version: 0.2.0").unwrap();
        let changed = location::clients_folder(root.path()).unwrap();
        assert_ne!(before, changed, "another content");
        fs::rename(chart.join("Chart.yaml"), chart.join("chart.yaml")).unwrap();
        assert_ne!(changed, location::clients_folder(root.path()).unwrap(), "another name");
    }

    #[test]
    fn built_programs_are_moved_into_place_complete_and_once() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("tools-1");
        let half = once(&folder, &["a", "b"], |into| Ok(fs::write(into.join("a"), "")?)).unwrap_err().to_string();
        assert!(half.contains("without one of a, b") && !folder.exists(), "{half}");
        once(&folder, &["a"], |into| Ok(fs::write(into.join("a"), "first")?)).unwrap();
        once(&folder, &["a"], |_| panic!("it is there")).unwrap();
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "first");
    }

    #[test]
    fn the_folder_follows_every_pin() {
        let root = tempfile::tempdir().unwrap();
        let tools = root.path().join("tools/kubernetes");
        for part in ["etcd", "kwok"] {
            fs::create_dir_all(tools.join(part)).unwrap();
        }
        let pins = ["go.mod", "go.sum", "tools.go", "etcd/go.mod", "etcd/go.sum", "etcd/main.go"];
        for pin in pins.iter().chain(&["kwok/go.mod", "kwok/go.sum", "kwok/tools.go"]) {
            fs::write(tools.join(pin), pin).unwrap();
        }
        let before = location::folder(root.path()).unwrap();
        assert_eq!(before, location::folder(root.path()).unwrap(), "the same pins, the same folder");
        fs::write(tools.join("etcd/go.sum"), "changed").unwrap();
        assert_ne!(before, location::folder(root.path()).unwrap(), "another pin, another folder");
        fs::remove_file(tools.join("kwok/go.sum")).unwrap();
        let error = location::folder(root.path()).unwrap_err().to_string();
        assert!(error.contains("kwok/go.sum"), "the message names the file: {error}");
    }
}
