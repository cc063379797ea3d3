//! `ironclad manifests`: the objects that run this program in a cluster, as YAML (specification/operations.md 13). The
//! chart `charts/ironclad` has the same values and renders the same objects.

mod agent;
mod embedded;
mod external;
mod monitoring;
#[cfg(test)]
mod monitoring_tests;
mod objects;
mod rights;
#[cfg(test)]
mod tests;
mod values;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use serde_json::Value;

pub use self::{
    objects::{Mode, Release, objects},
    values::Values,
};
use crate::{input, print, report::Misused};

/// Longest file of values, bytes.
const VALUES_MAX: u64 = 1 << 20;

/// Print the objects that run this program in a cluster, as YAML for kubectl apply.
///
/// The values are those of the chart charts/ironclad, which renders the same objects. No cluster is asked.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad manifests --set embedded.publicAddresses='[fleet.example]' | kubectl apply -f -
  ironclad manifests --mode external -f values.yaml -o manifests/
  ironclad manifests --mode external --name second --set external.kubeconfigSecret.name=plane | kubectl apply -f -
  ironclad manifests --mode agent --set agent.clusterName=member1 | kubectl --context member1 apply -f -")]
pub struct Command {
    /// Shape of the installation [default: the value mode, which is embedded]
    #[arg(long, value_enum, value_name = "MODE")]
    pub mode: Option<Mode>,
    /// Namespace of the objects
    #[arg(short, long, value_name = "NAME", default_value = "ironclad-system")]
    pub namespace: String,
    /// Name of the release, with which names of objects begin: several may be in one cluster
    #[arg(long, value_name = "NAME", default_value = "ironclad")]
    pub name: String,
    /// File of values, YAML; - for stdin. May repeat: later ones take precedence
    #[arg(short = 'f', long, value_name = "FILE")]
    pub values: Vec<String>,
    /// One value, such as image.tag=v1; lists and maps are YAML. May repeat
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Directory for a file of each object, in the order in which they are applied; - for stdout
    #[arg(short, long, value_name = "DIR", default_value = "-")]
    pub output: String,
    /// With the CustomResourceDefinitions: of mode external, where --set external.install='[]' leaves them to you
    #[arg(long)]
    pub include_crds: bool,
}

/// Runs the command.
///
/// # Errors
/// The values make no installation, or the directory is not empty.
pub fn run(command: &Command) -> anyhow::Result<()> {
    let files = command.values.iter().map(|file| Ok((file.clone(), input::read(file, VALUES_MAX)?)));
    let mut values = Values::new(&files.collect::<anyhow::Result<Vec<_>>>()?, &command.set)?;
    if let Some(mode) = command.mode {
        values.set_mode(mode.name());
    }
    let (name, namespace) = (command.name.clone(), command.namespace.clone());
    let release = Release { name, namespace, values };
    let mut objects = objects(&release).map_err(Misused)?;
    if command.include_crds {
        add_definitions(&release, &mut objects)?;
    }
    match command.output.as_str() {
        "-" => print::out(&print::documents(&objects)?),
        folder => write(Path::new(folder), &objects),
    }
}

/// Puts the definitions behind the Namespace.
fn add_definitions(release: &Release, objects: &mut Vec<Value>) -> anyhow::Result<()> {
    if release.values.text("mode") != "external" {
        let text = "--include-crds has no effect but in mode external\n  because `ironclad up` has the definitions, and a \
                    member needs none\n  try: leave it out";
        return Err(Misused(text.to_owned()).into());
    }
    let crds = ironclad_api::crds::crds();
    let crds: Vec<Value> = crds.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    objects.splice(1..1, crds);
    Ok(())
}

/// Name of the file of an object; files are applied by their names.
fn file_name(number: usize, object: &Value) -> String {
    let kind = print::text(object, "/kind").to_ascii_lowercase();
    let name = print::text(object, "/metadata/name").replace(':', "-");
    format!("{number:02}-{kind}-{name}.yaml")
}

fn write(folder: &Path, objects: &[Value]) -> anyhow::Result<()> {
    let failed = |path: &PathBuf| format!("writing {}\n  try: another --output", path.display());
    let at = folder.to_path_buf();
    fs::create_dir_all(folder).with_context(|| failed(&at))?;
    // Files of other values beside these would be applied, too.
    if fs::read_dir(folder).with_context(|| failed(&at))?.next().is_some() {
        bail!(
            "{} is not empty, and nothing was written\n  try: another --output, or remove what is in it",
            at.display()
        );
    }
    for (number, object) in objects.iter().enumerate() {
        let path = folder.join(file_name(number, object));
        fs::write(&path, print::documents(std::slice::from_ref(object))?).with_context(|| failed(&path))?;
    }
    print::note(&format!("{} files: kubectl apply -f {}", objects.len(), at.display()));
    Ok(())
}
