//! `cargo xtask dist`: everything that is released, from one commit and with the same bytes on every machine: static
//! programs, archives, an image, a bill of materials, a manifest for krew, checksums.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use sha2::{Digest as _, Sha256};

use self::{archive::Entry, toolchain::Toolchain};
use crate::{cargo, metadata, stages::timed};

mod archive;
mod bom;
mod elf;
mod image;
mod krew;
mod toolchain;

const PRODUCT: &str = "ironclad";

/// Arguments of a release.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask dist                                    both architectures, into target/distribution
  cargo xtask dist --arch amd64 --profile release     one, compiled faster
  cargo xtask dist --download-url https://downloads.example/v0.1.0    and the manifest for krew

The image is an OCI layout: skopeo copy --all oci:target/distribution/image:VERSION docker://REGISTRY/ironclad:VERSION")]
pub(crate) struct Args {
    /// Architectures to build for
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["amd64", "arm64"], value_name = "ARCH")]
    arch: Vec<Architecture>,
    /// Profile of the build
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Folder of the results; what is in it is removed
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Where the archives will be downloaded: writes the manifest for krew
    #[arg(long, value_name = "URL")]
    download_url: Option<String>,
}

/// An architecture that is released, by the name that images have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Name of the compiler's target.
    fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }

    fn is_of_this_machine(self) -> bool {
        self.target().starts_with(std::env::consts::ARCH)
    }
}

/// Facts of the commit.
struct Commit {
    /// Its hash, with `-dirty` if files differ from it.
    name: String,
    /// Seconds since 1970.
    time: u64,
    /// The same, as RFC 3339 in UTC.
    created: String,
}

/// Builds and packs everything.
///
/// # Errors
/// If something can't be fetched, built or written, or a program needs a dynamic linker.
pub(crate) fn run(root: &Path, args: &Args) -> anyhow::Result<()> {
    let output = args.output.clone().unwrap_or_else(|| cargo::target_directory(root).join("distribution"));
    let commit = commit(root)?;
    let version = env!("CARGO_PKG_VERSION");
    let licence = env!("CARGO_PKG_LICENSE");
    let own = args.arch.iter().find(|one| one.is_of_this_machine());
    let own = *own
        .with_context(|| format!("--arch lacks {}, whose program writes the manual pages", std::env::consts::ARCH))?;
    let toolchain = Toolchain::ensure(root, &args.arch)?;
    if output.exists() {
        fs::remove_dir_all(&output)?;
    }
    fs::create_dir_all(&output)?;
    let facts = image::Facts { version, commit: &commit.name, time: commit.time, created: &commit.created, licence };
    let mut all = Vec::new();
    for architecture in &args.arch {
        let (built, took) = timed(|| toolchain.build(root, *architecture, &args.profile, &commit.name));
        all.push((*architecture, built?, took));
    }
    let runnable = all.iter().find(|(architecture, ..)| *architecture == own).map(|(_, built, _)| built);
    let documents = documents(runnable.context("the program of this machine was not built")?, &output)?;
    let mut layout = image::Layout::create(&output.join("image"))?;
    let mut archives = Vec::new();
    let mut table = vec!["ARCH    PROGRAM    ARCHIVE    IMAGE      SECONDS".to_owned()];
    for (architecture, built, took) in &all {
        let program = fs::read(built).with_context(|| format!("{} can't be read", built.display()))?;
        let found = elf::static_program(&program).with_context(|| built.display().to_string())?;
        ensure!(found == architecture.name(), "{} is of {found}", built.display());
        let stem = format!("{PRODUCT}-{version}-linux-{}", architecture.name());
        let packed = archive::gzip(&archive::tar(&package(root, &stem, &program, &documents)?, commit.time)?)?;
        let name = format!("{stem}.tar.gz");
        fs::write(output.join(&name), &packed)?;
        let layer = layout.add(architecture.name(), &program, &facts)?;
        table.push(format!(
            "{:<7} {:>6.1} MB  {:>6.1} MB  {:>6.1} MB  {:>6}",
            architecture.name(),
            megabytes(program.len()),
            megabytes(packed.len()),
            megabytes(layer),
            took.as_secs()
        ));
        if *architecture == own {
            let layer = archive::tar(&image::layer(&program), commit.time)?;
            match image::try_layer(&layer, &["version"], &output.join("root"))? {
                Some(text) => {
                    println!("the image's program in an empty root, as user {}: {}", image::USER, text.trim())
                }
                None => println!("the image was not tried in an empty root, which only root can do"),
            }
        }
        archives.push(krew::Archive { architecture: architecture.name(), name, sha256: sha256(&packed) });
    }
    let digest = layout.finish(&facts)?;
    write_bill(root, &output, args, &commit, version)?;
    match &args.download_url {
        Some(base) => fs::write(output.join("ironclad.krew.yaml"), krew::manifest(version, base, &archives))?,
        None => println!("no manifest for krew: --download-url says where the archives will be"),
    }
    write_checksums(&output)?;
    println!("{}\nimage   {digest}\n{}", table.join("\n"), output.display());
    Ok(())
}

/// Entries of an archive: the program, the names that kubectl looks for, completions, manual pages, units.
fn package(root: &Path, stem: &str, program: &[u8], documents: &[Entry]) -> anyhow::Result<Vec<Entry>> {
    let mut entries = vec![
        Entry::folder(format!("{stem}/"), 0o755),
        Entry::file(format!("{stem}/{PRODUCT}"), 0o755, program),
        Entry::link(format!("{stem}/kubectl-{PRODUCT}"), PRODUCT),
        Entry::link(format!("{stem}/kubectl_complete-{PRODUCT}"), PRODUCT),
    ];
    for name in ["LICENSE", "README.md"] {
        entries.push(Entry::file(format!("{stem}/{name}"), 0o644, fs::read(root.join(name))?));
    }
    entries.push(Entry::folder(format!("{stem}/systemd/"), 0o755));
    for (name, content) in files(&root.join("tools/dist/systemd"))? {
        entries.push(Entry::file(format!("{stem}/systemd/{name}"), 0o644, content));
    }
    entries.extend(documents.iter().cloned().map(|entry| Entry { path: format!("{stem}/{}", entry.path), ..entry }));
    Ok(entries)
}

/// Completion scripts and manual pages, which the program itself writes.
fn documents(program: &Path, output: &Path) -> anyhow::Result<Vec<Entry>> {
    let mut entries = vec![Entry::folder("completions/", 0o755)];
    for (shell, name) in [("bash", "ironclad.bash"), ("zsh", "_ironclad"), ("fish", "ironclad.fish")] {
        let script = cargo::output(Command::new(program).args(["completion", shell]))?;
        entries.push(Entry::file(format!("completions/{name}"), 0o644, script));
    }
    let folder = output.join("man");
    cargo::run(Command::new(program).args(["completion", "--man"]).arg(&folder))?;
    entries.push(Entry::folder("man/", 0o755));
    for (name, content) in files(&folder)? {
        entries.push(Entry::file(format!("man/{name}"), 0o644, content));
    }
    fs::remove_dir_all(&folder)?;
    Ok(entries)
}

/// Files of a folder, by name.
fn files(folder: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{} can't be read", folder.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            found.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
        }
    }
    found.sort();
    Ok(found)
}

fn write_bill(root: &Path, output: &Path, args: &Args, commit: &Commit, version: &str) -> anyhow::Result<()> {
    let lock = fs::read_to_string(root.join("Cargo.lock"))?;
    let architecture = args.arch.first().context("--arch names no architecture")?;
    let graph: bom::Graph = metadata::read_for(root, architecture.target())?;
    let bill = bom::bill(&graph, PRODUCT, &lock, &commit.created)?;
    fs::write(output.join(format!("{PRODUCT}-{version}.cdx.json")), serde_json::to_vec_pretty(&bill)?)?;
    Ok(())
}

/// Writes checksums of the files, as `sha256sum -c` reads them.
fn write_checksums(output: &Path) -> anyhow::Result<()> {
    let lines = files(output)?.into_iter().map(|(name, content)| format!("{}  {name}\n", sha256(&content)));
    fs::write(output.join("SHA256SUMS"), lines.collect::<String>())?;
    Ok(())
}

fn commit(root: &Path) -> anyhow::Result<Commit> {
    let git = |arguments: &[&str]| -> anyhow::Result<String> {
        let output = cargo::output(Command::new("git").current_dir(root).env("TZ", "UTC").args(arguments))?;
        Ok(String::from_utf8(output)?.trim().to_owned())
    };
    let shown =
        |format: &str| git(&["log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", &format!("--format={format}")]);
    let changed = git(&["status", "--porcelain"])?;
    let name = shown("%H")?;
    let name = if changed.is_empty() { name } else { format!("{name}-dirty") };
    Ok(Commit { name, time: shown("%ct")?.parse().context("the time of the commit")?, created: shown("%cd")? })
}

fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Millions of bytes, for the table.
fn megabytes(bytes: usize) -> f64 {
    // Programs are smaller than what a f64 counts exactly.
    #[allow(clippy::cast_precision_loss)]
    let bytes = bytes as f64;
    bytes / 1e6
}
