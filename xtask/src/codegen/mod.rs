//! `cargo xtask codegen`: regenerates or compares data from a real kube-apiserver, its sources or our types.
//!
//! | output | file | source |
//! | --- | --- | --- |
//! | `openapi` | `crates/patch/data/kubernetes-schemas.json.gz` | the documents of `/openapi/v3`, Go's struct tags |
//! | `openapi` | `crates/apiserver/data/kubernetes-descriptions.json.gz` | the same documents: descriptions |
//! | `openapi` | `crates/patch/data/kubernetes-resources.json` | the discovery documents |
//! | `goldens` | `crates/patch/data/*-goldens.json` | the answers to patches that the same file lists |
//! | `protobuf` | `crates/apiserver/data/protobuf.txt` | the published `generated.proto` files and their Go types |
//! | `crds` | `crates/api/data/crds/*.json` | the types of crate `api` |

mod go_source;
mod goldens;
mod openapi;
mod protobuf;
mod server;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use self::{go_source::Sources, server::Server};
use crate::cargo;

/// Output to generate, and its server.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Output to generate.
    #[arg(value_enum)]
    what: What,
    /// Write nothing; fail if a file in the tree differs from its source.
    #[arg(long)]
    check: bool,
    /// A running kube-apiserver; by default, one is started on loopback with etcd.
    #[arg(long, requires = "token")]
    server: Option<String>,
    /// A bearer token of an administrator of that server.
    #[arg(long)]
    token: Option<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum What {
    /// The schemas and resources of the built-in kinds.
    Openapi,
    /// The answers to the patches of crate `patch`'s golden tests.
    Goldens,
    /// The fields of protobuf messages; needs no server.
    Protobuf,
    /// The CRDs of our kinds; needs no server.
    Crds,
}

/// Runs it. `root` is the workspace, `programs` the folder of kube-apiserver and etcd.
pub(crate) fn run(args: &Args, root: &Path, programs: impl FnOnce() -> anyhow::Result<PathBuf>) -> anyhow::Result<()> {
    if matches!(args.what, What::Crds) {
        return crds(root, args.check);
    }
    let data = root.join("crates/patch/data");
    let tools = root.join("tools/kubernetes");
    if matches!(args.what, What::Protobuf) {
        let text = protobuf::derive(&tools)?;
        return put(args, &root.join("crates/apiserver/data/protobuf.txt"), text.into_bytes());
    }
    let server = match (&args.server, &args.token) {
        (Some(url), Some(token)) => Server::at(url, token),
        _ => Server::start(&programs()?)?,
    };
    let files = match args.what {
        What::Openapi => openapi::derive(&server, Sources::find(&tools)?)?,
        What::Goldens | What::Protobuf | What::Crds => goldens::record(&server, &data)?,
    };
    for (name, value) in &files {
        put(args, &data.join(name), print(value)?)?;
    }
    Ok(())
}

/// Writes or compares the CRDs. A test does it, in a build of its own: with the schemas of all types, k8s-openapi takes
/// far longer to compile, so nothing else is built with them.
pub(crate) fn crds(root: &Path, check: bool) -> anyhow::Result<()> {
    let mut command = cargo::cargo(root);
    command.args(["test", "--package", "ironclad-api", "--features", "schema", "--test", "schema"]);
    if !check {
        command.env("UPDATE_GOLDENS", "1");
    }
    cargo::run(&mut command)
}

/// Writes a file, or compares it with what is in the tree.
fn put(args: &Args, path: &Path, text: Vec<u8>) -> anyhow::Result<()> {
    let zipped = path.extension().is_some_and(|e| e == "gz");
    if !args.check {
        fs::write(path, if zipped { through("gzip", &["-9n"], text)? } else { text })
            .with_context(|| format!("{} can't be written", path.display()))?;
        eprintln!("wrote {}", path.display());
        return Ok(());
    }
    let here = fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
    let here = if zipped { through("gzip", &["-dc"], here)? } else { here };
    ensure!(here == text, "{} differs from its source: run cargo xtask codegen", path.display());
    Ok(())
}

/// Prints one member or item of the top two levels per line, so that diffs are readable and the file is small.
fn print(value: &Value) -> anyhow::Result<Vec<u8>> {
    let mut out = String::new();
    let line = |value: &Value| serde_json::to_string(value);
    match value {
        Value::Array(items) => {
            let lines = items.iter().map(line).collect::<Result<Vec<_>, _>>()?;
            out.push_str(&format!("[\n{}\n]\n", lines.join(",\n")));
        }
        Value::Object(members) => {
            let mut parts = Vec::new();
            for (name, member) in members {
                let part = match member {
                    Value::Object(inner) => {
                        let lines = inner
                            .iter()
                            .map(|(name, value)| Ok(format!("{}:{}", serde_json::to_string(name)?, line(value)?)))
                            .collect::<Result<Vec<_>, serde_json::Error>>()?;
                        format!("{{\n{}\n}}", lines.join(",\n"))
                    }
                    other => line(other)?,
                };
                parts.push(format!("{}:{part}", serde_json::to_string(name)?));
            }
            out.push_str(&format!("{{\n{}\n}}\n", parts.join(",\n")));
        }
        other => out.push_str(&line(other)?),
    }
    Ok(out.into_bytes())
}

/// Runs the program on `input`. Writing and reading are concurrent, or both would block on a full pipe.
fn through(program: &str, args: &[&str], input: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{program} can't be run"))?;
    let mut stdin = child.stdin.take().context("a pipe to the program")?;
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(&input));
        child.wait_with_output()
    })?;
    if !output.status.success() {
        bail!("{program} ended with {}", output.status);
    }
    Ok(output.stdout)
}
