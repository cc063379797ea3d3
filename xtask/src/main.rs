//! The project's own tasks. `cargo xtask --help` lists them.

use clap::{Parser, Subcommand};

mod cargo;
mod codegen;
mod kubernetes;

/// The project's own tasks.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build kube-apiserver, kubectl, etcd and the others, unless they are in the cache, and print their folder.
    Kubernetes,
    /// Make data in the tree again that comes from a real kube-apiserver, or compare it.
    Codegen(codegen::Args),
}

fn main() -> anyhow::Result<()> {
    let root = cargo::workspace_root();
    match Arguments::parse().task {
        Task::Kubernetes => println!("{}", kubernetes::ensure(&root)?.display()),
        Task::Codegen(arguments) => codegen::run(&arguments, &root, || kubernetes::ensure(&root))?,
    }
    Ok(())
}
