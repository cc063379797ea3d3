//! The project's own tasks. `cargo xtask --help` lists them.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod built;
mod cargo;
mod codegen;
mod dist;
mod fuzz;
#[cfg(test)]
mod guard;
mod karmada;
mod kept;
mod kubernetes;
mod licences;
mod metadata;
mod programs;
mod size;
mod stages;
mod test;

/// The project's own tasks.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    after_help = "Examples:
  cargo xtask test                          all tests, with all their set-up
  cargo xtask test --changed                unit tests of the crates that a branch changes, and of their users
  cargo xtask bench start                   how fast the product starts, and how much memory it takes
  cargo xtask sim --seeds 2000              the simulation, over many seeds
  cargo xtask codegen openapi --check       whether the built-in kinds are still those of the pinned Kubernetes"
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build and run every test, with all its own set-up.
    Test(test::Args),
    /// Measure the product, built in profile `release`.
    Bench(programs::Bench),
    /// Run the simulation.
    Sim(programs::Sim),
    /// Build Karmada's own end-to-end suite from a checkout, and run it against the product on real kube-apiservers.
    Karmada(karmada::Args),
    /// Build kube-apiserver, kubectl, etcd and the others, unless they are in the cache, and print their folder.
    Kubernetes,
    /// Build the programs of tools/clients, unless they are in the cache, and print the path.
    Clients,
    /// Run the scenarios of kubectl with kubectl of two older minors, built from the Go module proxy.
    KubectlMatrix,
    /// Run the test of a member with the oldest Kubernetes, built from the Go module proxy. `test` runs it once it is
    /// built.
    OldestKubernetes,
    /// Regenerate data from a real kube-apiserver or from our types, or compare it.
    Codegen(codegen::Args),
    /// Run a part that takes input from outside under AddressSanitizer.
    Fuzz(fuzz::Args),
    /// Build what is released: static programs, archives, an image, a bill of materials, checksums.
    Dist(dist::Args),
    /// Check the licences and sources of all dependencies.
    Licences,
    /// Print what the product's machine code is made of, and compare it with limits.
    Size(size::Args),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // Printed rather than returned: a backtrace does not help with a failed test.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let root = cargo::workspace_root();
    match Arguments::parse().task {
        Task::Test(arguments) => test::run(&root, &arguments),
        Task::Bench(arguments) => programs::bench(&root, &arguments),
        Task::Sim(arguments) => programs::sim(&root, &arguments),
        Task::Karmada(arguments) => karmada::run(&root, &arguments),
        Task::Kubernetes => kubernetes::ensure(&root).map(|folder| println!("{}", folder.display())),
        Task::Clients => {
            let program = kubernetes::clients(&root)?.ok_or_else(|| anyhow::anyhow!(kubernetes::GO_IS_MISSING))?;
            println!("{}", program.display());
            Ok(())
        }
        Task::KubectlMatrix => programs::kubectl_matrix(&root),
        Task::OldestKubernetes => programs::oldest_kubernetes(&root),
        Task::Codegen(arguments) => codegen::run(&arguments, &root, || kubernetes::ensure(&root)),
        Task::Fuzz(arguments) => fuzz::run(&root, &arguments),
        Task::Dist(arguments) => dist::run(&root, &arguments),
        Task::Licences => licences::check(&root),
        Task::Size(arguments) => size::run(&root, &arguments),
    }
}
