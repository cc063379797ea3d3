//! `cargo xtask bench` and `cargo xtask sim`: builds a program of `testkit` and runs it with whatever arguments follow.

use std::{ffi::OsString, path::Path};

use crate::{
    cargo,
    kubernetes::{self, location},
    size,
    test::PRODUCT_VARIABLE,
};

/// Says how much of the matrices is run (`ironclad_testkit::sim::matrix`).
const MATRIX_VARIABLE: &str = "IRONCLAD_MATRIX";
/// Asks for all seeds and places (`ironclad_testkit::sim::nightly`).
const NIGHTLY_VARIABLE: &str = "IRONCLAD_NIGHTLY";
/// Parts of the names of tests of which a push runs half the seeds and places.
const HALVED: [&str; 3] = ["_matrix::", "_seeds::", "foretold::"];

/// The kubectl that the differential test runs (`ironclad_testkit::differential`).
const KUBECTL_VARIABLE: &str = "IRONCLAD_DIFFERENTIAL_KUBECTL";
/// Parts of the names of the scenarios that it plays.
const ONLY_VARIABLE: &str = "IRONCLAD_DIFFERENTIAL_ONLY";

/// Arguments of the benchmark.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask bench propagate --deployments 100 --members 3
  cargo xtask bench propagate --deployments 100 --members 3 --real      on real kube-apiservers
  cargo xtask bench evictions --bindings 200 --real                     off a tainted member, without a limit
  cargo xtask bench apiserver                                           beside kube-apiserver and etcd, both with fsync
  cargo xtask bench apiserver --seconds 3 --objects 3000 --listed 1000  the same in about a minute
  cargo xtask bench schedule                                            decisions of the scheduler on one core
  cargo xtask bench schedule --clusters 5000 --placed 10000             the same on one fleet
  cargo xtask bench schedule --real --clusters 1000,5000                whole cycles, on a real kube-apiserver
  cargo xtask bench start
  cargo xtask bench help                                                all of them, with their flags")]
pub(crate) struct Bench {
    /// The benchmark's name and its flags.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "NAME")]
    arguments: Vec<OsString>,
}

/// Arguments of the simulation.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask sim --seeds 50              fifty fresh seeds; their root is printed
  cargo xtask sim --seed 17               one seed again, with its history
  cargo xtask sim --nightly               all seeds and places that a push halves, the examples, the size of the release
  cargo xtask sim --matrix                every write and every event of the matrices' scenarios disturbed in turn: hours")]
pub(crate) struct Sim {
    /// The crash, staleness and drop matrices whole, of which `cargo xtask test` takes a sample
    #[arg(long)]
    matrix: bool,
    /// All fixed and fresh seeds and all places of the matrices' sample, of which `cargo xtask test` takes half; builds
    /// the examples; measures the product in profile `release`
    #[arg(long, conflicts_with = "matrix")]
    nightly: bool,
    /// The simulation's flags.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    arguments: Vec<OsString>,
}

/// Plays the recorded scenarios of kubectl with the kubectls of older minors, on the embedded server and on a real one.
pub(crate) fn kubectl_matrix(root: &Path) -> anyhow::Result<()> {
    let folder = kubernetes::ensure(root)?;
    for minor in kubernetes::OLDER_KUBECTLS {
        let kubectl = kubernetes::older_kubectl(root, minor)?;
        eprintln!("the scenarios of kubectl with {minor}");
        let mut command = cargo::cargo(root);
        command.args([
            "test", "--package", "ironclad-testkit", "--profile", "sim", "--test", "system",
            "differential::the_embedded",
        ]);
        command.env(location::FOLDER_VARIABLE, &folder);
        cargo::run(command.env(KUBECTL_VARIABLE, kubectl).env(ONLY_VARIABLE, "kubectl/"))?;
    }
    Ok(())
}

/// Runs the test of a member whose kube-apiserver is of the oldest Kubernetes that is supported.
pub(crate) fn oldest_kubernetes(root: &Path) -> anyhow::Result<()> {
    let (folder, oldest) = (kubernetes::ensure(root)?, kubernetes::oldest(root)?);
    cargo::run(cargo::cargo(root).args(["build", "--workspace", "--profile", "sim", "--bin", "ironclad"]))?;
    let mut command = cargo::cargo(root);
    command.args(["test", "--workspace", "--profile", "sim", "--test", "system", "old_member::"]);
    command.env(location::FOLDER_VARIABLE, folder).env(location::OLDEST_VARIABLE, oldest);
    cargo::run(command.env(PRODUCT_VARIABLE, cargo::target_directory(root).join("sim/ironclad")))
}

/// Measures the product as people run it, in profile `dist`.
pub(crate) fn bench(root: &Path, args: &Bench) -> anyhow::Result<()> {
    // A command of its own: together with the testkit, the product would be built with features that only tests want.
    cargo::run(cargo::cargo(root).args(["build", "--profile", "dist", "--package", "ironclad"]))?;
    cargo::run(cargo::cargo(root).args(["build", "--release", "--package", "ironclad-testkit", "--bin", "bench"]))?;
    let target = cargo::target_directory(root);
    let mut command = cargo::program(root, &target.join("release/bench"));
    command.args(&args.arguments).env(PRODUCT_VARIABLE, target.join("dist/ironclad"));
    let has = |wanted: &str| args.arguments.iter().any(|argument| argument == wanted);
    if has("--real") || (has("apiserver") && !has("--alone")) {
        command.env(location::FOLDER_VARIABLE, kubernetes::ensure(root)?);
    }
    cargo::run(&mut command)
}

/// Runs the simulation in profile `sim`, from the same build that the tests use.
pub(crate) fn sim(root: &Path, args: &Sim) -> anyhow::Result<()> {
    if args.matrix {
        let mut command = cargo::cargo(root);
        command.args(["test", "--workspace", "--profile", "sim", "--test", "system", "_matrix::", "--"]);
        return cargo::run(command.args(&args.arguments).env(MATRIX_VARIABLE, "full"));
    }
    if args.nightly {
        return nightly(root, args);
    }
    cargo::run(cargo::cargo(root).args(["build", "--workspace", "--profile", "sim", "--bin", "sim"]))?;
    let built = cargo::target_directory(root).join("sim/sim");
    cargo::run(cargo::program(root, &built).args(&args.arguments))
}

fn nightly(root: &Path, args: &Sim) -> anyhow::Result<()> {
    cargo::run(cargo::cargo(root).args(["build", "--workspace", "--profile", "sim", "--examples"]))?;
    let mut command = cargo::cargo(root);
    command
        .args(["test", "--workspace", "--profile", "sim", "--test", "system", "--"])
        .args(HALVED)
        .args(&args.arguments);
    cargo::run(command.env(NIGHTLY_VARIABLE, "1"))?;
    size::measure(root, "release", 0)
}
