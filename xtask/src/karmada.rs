//! `cargo xtask karmada`: builds Karmada's own end-to-end suite from a checkout and runs it against the product.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

use crate::{
    cargo,
    kubernetes::{self, location},
    stages::Stages,
    test::PRODUCT_VARIABLE,
};

/// Arguments of the run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask karmada ../karmada                                          the base run: about half an hour
  cargo xtask karmada ../karmada --focus-file /overridepolicy_test.go     one file; begin with a slash
  cargo xtask karmada ../karmada --focus 'FederatedResourceQuota'         specs by their texts
  cargo xtask karmada ../karmada --procs 2                                fewer specs at a time
  IRONCLAD_BIN=FILE cargo xtask karmada ../karmada                        a program that was built before

docs/development/karmada-suite.md says what is expected to pass.")]
pub(crate) struct Args {
    /// Checkout of Karmada, with its folder vendor
    #[arg(value_name = "PATH")]
    checkout: PathBuf,
    /// Flags of the run: --focus-file RE, --focus TEXT, --procs N
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    arguments: Vec<OsString>,
}

/// Go's module of Karmada.
const MODULE: &str = "module github.com/karmada-io/karmada";

/// Programs that are built from the checkout: name, whether it is a test program, and package.
const BUILT: [(&str, bool, &str); 3] = [
    ("ginkgo", false, "./vendor/github.com/onsi/ginkgo/v2/ginkgo"),
    ("interpreter-webhook", false, "./examples/customresourceinterpreter/webhook"),
    ("e2e.test", true, "./test/e2e/suites/base"),
];

pub(crate) fn run(root: &Path, args: &Args) -> anyhow::Result<()> {
    let checkout = checkout(&args.checkout)?;
    let target = cargo::target_directory(root);
    let built = target.join("karmada");
    let mut stages = Stages::default();
    let folder = stages.run("real Kubernetes", || kubernetes::ensure(root))?;
    stages.run("Karmada's suite", || build(&checkout, &built))?;
    let named = env::var_os(PRODUCT_VARIABLE).map(PathBuf::from);
    let (runner, product) = stages.run("ironclad", || programs(root, &target, named))?;
    let mut command = cargo::program(root, &runner);
    command.arg(&checkout).arg("--built").arg(&built).args(&args.arguments);
    command.env(location::FOLDER_VARIABLE, folder).env(PRODUCT_VARIABLE, product);
    cargo::run(&mut command)
}

/// Builds the runner, and the product unless one is named; returns both. The runner waits rather than computes, so
/// beside a product that is there it is built as fast as it can be.
fn programs(root: &Path, target: &Path, named: Option<PathBuf>) -> anyhow::Result<(PathBuf, PathBuf)> {
    let mut command = cargo::cargo(root);
    command.args(["build", "--workspace", "--bin", "karmada"]);
    let Some(named) = named else {
        cargo::run(command.args(["--bin", "ironclad", "--profile", "sim"]))?;
        return Ok((target.join("sim/karmada"), target.join("sim/ironclad")));
    };
    ensure!(named.is_file(), "{PRODUCT_VARIABLE} {}: there is no such file", named.display());
    cargo::run(command.args(["--profile", "dev"]))?;
    Ok((target.join("debug/karmada"), named))
}

/// The checkout's absolute path, if it is one of Karmada.
fn checkout(path: &Path) -> anyhow::Result<PathBuf> {
    const REMEDY: &str = "try: git clone https://github.com/karmada-io/karmada, and its path";
    let module = fs::read_to_string(path.join("go.mod"))
        .with_context(|| format!("PATH {}: its go.mod can't be read\n  {REMEDY}", path.display()))?;
    let is_karmada = module.lines().any(|line| line.trim() == MODULE);
    ensure!(is_karmada, "PATH {}: its go.mod is of another module than Karmada's\n  {REMEDY}", path.display());
    for (_, _, package) in BUILT {
        let there = path.join(package).is_dir();
        ensure!(there, "PATH {}: {package} is missing\n  try: a whole checkout, with folder vendor", path.display());
    }
    path.canonicalize().with_context(|| format!("PATH {}", path.display()))
}

/// The suite's file whose functions create and delete clusters with docker.
const SUITE: &str = "test/e2e/suites/base/suite_test.go";
/// Those functions.
const WITH_DOCKER: [&str; 2] = ["func createCluster(", "func deleteCluster("];
/// File that is added to the suite in their place.
const HOOK: &str = "test/e2e/suites/base/ironclad_hook_test.go";
/// Its content: a program that the runner names gives a member of the test bed, and takes it back.
const HOOK_SOURCE: &str = r#"package base

import (
	"fmt"
	"os"
	"os/exec"
)

func createCluster(clusterName, kubeConfigPath, _, clusterContext string) error {
	return clusterHook("create", clusterName, kubeConfigPath, clusterContext)
}

func deleteCluster(clusterName, kubeConfigPath string) error {
	return clusterHook("delete", clusterName, kubeConfigPath)
}

func clusterHook(words ...string) error {
	output, err := exec.Command(os.Getenv("IRONCLAD_CLUSTER_HOOK"), words...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %w: %s", words, err, output)
	}
	return nil
}
"#;

fn build(checkout: &Path, built: &Path) -> anyhow::Result<()> {
    kubernetes::ensure_go()?;
    fs::create_dir_all(built).with_context(|| built.display().to_string())?;
    let overlay = overlay(checkout, built)?;
    for (name, is_test, package) in BUILT {
        eprintln!("building {name} of {package}");
        let mut command = Command::new("go");
        command.current_dir(checkout).args(if is_test { &["test", "-c"][..] } else { &["build"] });
        if is_test {
            command.arg("-overlay").arg(&overlay);
        }
        cargo::run(command.arg("-mod=vendor").arg("-o").arg(built.join(name)).arg(package))?;
    }
    Ok(())
}

/// Writes what Go's compiler takes in place of the checkout's files, which stay as they are. Returns the path of the
/// list.
fn overlay(checkout: &Path, built: &Path) -> anyhow::Result<PathBuf> {
    let source = checkout.join(SUITE);
    let text = fs::read_to_string(&source).with_context(|| source.display().to_string())?;
    let files = [(SUITE, "suite_test.go", without_docker(&text)?), (HOOK, "hook_test.go", HOOK_SOURCE.to_owned())];
    let mut replaced = serde_json::Map::new();
    for (of, name, text) in files {
        let path = built.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        replaced.insert(checkout.join(of).display().to_string(), path.display().to_string().into());
    }
    let list = built.join("overlay.json");
    fs::write(&list, serde_json::json!({ "Replace": replaced }).to_string())?;
    Ok(list)
}

/// The suite's file with its functions for docker under other names, which nothing calls.
fn without_docker(source: &str) -> anyhow::Result<String> {
    let mut text = source.to_owned();
    for function in WITH_DOCKER {
        ensure!(text.matches(function).count() == 1, "{SUITE}: `{function}` is not there once");
        text = text.replace(function, &function.replace("Cluster(", "ClusterInDocker("));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_come_from_the_bed() {
        let source =
            "package base\n\nfunc createCluster(a string) error {\n}\n\nfunc deleteCluster(a string) error {\n}\n";
        let without = without_docker(source).unwrap();
        assert_eq!(
            without,
            "package base\n\nfunc createClusterInDocker(a string) error {\n}\n\nfunc deleteClusterInDocker(a string) error {\n}\n"
        );
        assert!(without_docker(&without).is_err());
        for function in WITH_DOCKER {
            assert_eq!(HOOK_SOURCE.matches(function).count(), 1);
        }
    }

    #[test]
    fn only_a_whole_checkout_of_karmada_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let (path, shown) = (folder.path(), folder.path().display().to_string());
        let refused = || format!("{:#}", checkout(path).unwrap_err());
        assert!(refused().starts_with(&format!("PATH {shown}: its go.mod can't be read")), "{}", refused());
        fs::write(path.join("go.mod"), "module example.com/other\n").unwrap();
        assert!(refused().contains("of another module than Karmada's"), "{}", refused());
        fs::write(path.join("go.mod"), format!("{MODULE}\n\ngo 1.26\n")).unwrap();
        assert!(refused().contains("./vendor/github.com/onsi/ginkgo/v2/ginkgo is missing"), "{}", refused());
        for (_, _, package) in BUILT {
            fs::create_dir_all(path.join(package)).unwrap();
        }
        assert_eq!(checkout(path).unwrap(), path.canonicalize().unwrap());
    }
}
