//! `ironclad plan apply`: what would happen if a manifest were applied.

mod foresee;
mod print;
mod read;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use ironclad_interpreter::webhook::Webhooks;
use ironclad_seam::Clock;

pub use self::foresee::{Copy, Fate, Fleet, Foreseen, Question, foresee};
use super::command::Format;
use crate::{
    connect::Plane,
    print::out,
    report::{Exit, WOULD_MOVE},
    why,
};

/// What is applied, and how the answer is printed.
#[derive(clap::Args, Clone, Debug)]
pub struct How {
    /// The objects: YAML or JSON, - for stdin
    #[arg(short, long, required = true, value_name = "FILE")]
    pub filename: PathBuf,
    /// Namespace of objects that name none [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Read the fleet from this dump instead of a control plane; admission is not asked then
    #[arg(long, value_name = "FILE")]
    pub dump: Option<PathBuf>,
    /// Plan as if gate PropagationPolicyPreemption were on
    #[arg(long)]
    pub with_preemption: bool,
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub output: Format,
    #[command(flatten)]
    #[allow(missing_docs, reason = "described where it is defined")]
    pub plane: Plane,
}

/// Runs the verb.
///
/// # Errors
/// If the file or the fleet can't be read, or an object would be refused; and [`Exit`] with 3 if a copy would be made, changed or
/// taken away.
pub async fn run(how: &How, clock: &Clock) -> anyhow::Result<()> {
    let documents = super::read::dumped(&how.filename)?;
    let seen = match &how.dump {
        Some(dump) => {
            eprintln!("not known without a control plane: what admission would refuse or fill in");
            let objects = super::read::dumped(Path::new(dump))?;
            read::dump(objects, documents, how.namespace.as_deref().unwrap_or("default"))?
        }
        None => read::live(&how.plane.client().await?, documents, how.namespace.as_deref()).await?,
    };
    let interpreter = why::read::interpreter(clock, &seen.customizations, Webhooks::default());
    let found = foresee(&Question {
        before: &seen.before,
        after: &seen.after,
        policies: &seen.policies,
        templates: &seen.templates,
        preemption: how.with_preemption,
        interpreter: &interpreter,
        now: clock.wall_seconds(),
    });
    let text = match how.output {
        Format::Table => print::table(&seen.objects, &found),
        Format::Json => {
            serde_json::to_string_pretty(&serde_json::json!({"objects": seen.objects, "foreseen": found}))? + "\n"
        }
    };
    out(&text)?;
    if found.is_quiet() { Ok(()) } else { Err(Exit(WOULD_MOVE).into()) }
}
