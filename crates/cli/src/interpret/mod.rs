//! `ironclad interpret`: checks customizations, and runs the interpreter on manifests (specification/operations.md
//! 2.14). No server is asked.

mod check;
mod edit;
mod files;

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context as _, bail};
use ironclad_api::{config::ResourceInterpreterCustomization, work::AggregatedStatusItem};
use ironclad_interpreter::{Interpreter, Item, Operation, Question};
use ironclad_interpreter_lua::{Customization, Declarative, Host, Shipped, Trace};
use ironclad_seam::Clock;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::{
    print::{self, Output},
    report::Misused,
};

/// Check interpreter customizations, or run an interpreter on manifests.
#[derive(clap::Args, Debug, Default)]
#[command(after_help = "Examples:
  ironclad interpret -f customization.yaml --check
  ironclad interpret -f customization.yaml --edit --show-doc
  ironclad interpret -f customization.yaml --operation InterpretReplica --desired-file template.yaml
  ironclad interpret -f customization.yaml --operation InterpretReplica --desired-file template.yaml --trace
  ironclad interpret -f customization.yaml --operation Retain --desired-file template.yaml --observed-file member.yaml
  ironclad interpret -f customization.yaml --operation AggregateStatus --desired-file template.yaml --status-file reports.yaml
  ironclad interpret --operation InterpretHealth --observed-file deployment.yaml      (what is built in)")]
pub struct Command {
    /// Customizations: files, directories with -R, or - for stdin [default: the built-in interpreters only]
    #[arg(short = 'f', long = "filename", value_name = "FILE", value_delimiter = ',')]
    pub files: Vec<String>,
    /// Read directories recursively
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Only validate the scripts
    #[arg(long, conflicts_with = "operation", requires = "files")]
    pub check: bool,
    /// Edit the customization in $KUBE_EDITOR, $VISUAL or $EDITOR until its scripts are valid; a missing file is
    /// created
    #[arg(long, conflicts_with_all = ["operation", "check"], requires = "files")]
    pub edit: bool,
    /// Document parameters and results of each script in the editor
    #[arg(long, requires = "edit")]
    pub show_doc: bool,
    /// Operation: Retain, InterpretReplica, InterpretComponent, ReviseReplica, InterpretStatus, AggregateStatus,
    /// InterpretHealth or InterpretDependency
    #[arg(long, value_name = "OPERATION")]
    pub operation: Option<String>,
    /// The object as it is in a member
    #[arg(long, value_name = "FILE")]
    pub observed_file: Option<String>,
    /// The object as it should be
    #[arg(long, value_name = "FILE")]
    pub desired_file: Option<String>,
    /// The members' reports: items of aggregatedStatus, as a list or as documents
    #[arg(long, value_name = "FILE")]
    pub status_file: Option<String>,
    /// Number of replicas to write into the object
    #[arg(long, value_name = "N")]
    pub desired_replica: Option<i32>,
    /// Print on stderr the output of the scripts, how often each line ran, the line that failed, and the used part of
    /// the budget
    #[arg(long)]
    pub trace: bool,
    /// Output format of the results [default: a YAML document each]
    #[arg(short, long, value_parser = Output::without(&[Output::Wide, Output::Name]), value_name = "FORMAT")]
    pub output: Option<Output>,
}

/// Runs the command.
///
/// # Errors
/// If a file can't be read, a script is invalid, or no interpreter implements the operation.
pub fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    if command.edit {
        return match command.files.as_slice() {
            [file] => edit::run(file, command.show_doc),
            _ => Err(Misused("--edit takes one file".into()).into()),
        };
    }
    if command.check {
        let customizations = files::customizations(&command.files, command.recursive)?;
        return check::run(&customizations, command.output.unwrap_or_default());
    }
    print::out(&answer(command, clock)?)
}

/// Runs an operation and returns its output.
///
/// # Errors
/// As [`run`].
pub fn answer(command: &Command, clock: &Clock) -> anyhow::Result<String> {
    let customizations = files::customizations(&command.files, command.recursive)?;
    let Some(operation) = &command.operation else {
        return Err(Misused(
            "there is nothing to do\n  try: --check, or --operation with the files that it needs".into(),
        )
        .into());
    };
    let Some(operation) = Operation::parse(operation) else {
        let all: Vec<&str> = Operation::ALL.iter().map(|operation| operation.name()).collect();
        let message = format!("--operation {operation} is not known\n  try: one of {}", all.join(", "));
        return Err(Misused(message).into());
    };
    let (wall, mono, start) = (clock.clone(), clock.clone(), clock.mono());
    let host = Host {
        wall_seconds: Arc::new(move || wall.wall().as_second()),
        elapsed: Arc::new(move || mono.mono() - start),
        running: None,
    };
    let now = clock.wall_seconds().to_string();
    let mut traced = None;
    let results = execute(command, operation, &customizations, &host, &now, &mut traced);
    // Print the trace of a failed script, too.
    if let Some((text, trace)) = traced {
        print::note(listing(&text, &trace).trim_end());
        let max = ironclad_interpreter_lua::STEPS_MAX;
        print::note(&format!("{} of {max} steps, {} ms", trace.steps, (clock.mono() - start).as_millis()));
    }
    rendered(command.output, &results?)
}

/// A script's output, and its text with the number of runs of each line; the failing line is marked.
fn listing(text: &str, trace: &Trace) -> String {
    let mut all: String = trace.printed.iter().map(|line| format!("{line}\n")).collect();
    for (number, line) in (1..).zip(text.lines()) {
        let ran = trace.lines.get(&number).map(|times| format!("{times} x")).unwrap_or_default();
        let mark = if trace.failed == Some(number) { ">" } else { " " };
        all += format!("{mark}{ran:>8} {number:>4}  {line}").trim_end();
        all.push('\n');
    }
    all
}

/// Results by their names, in order.
type Results = Vec<(&'static str, Value)>;

/// Executes the operation of the command. The trace of the script and its text are written to `traced`, even if it
/// fails.
///
/// # Errors
/// If a file is missing, or no interpreter implements the operation.
fn execute(
    command: &Command,
    operation: Operation,
    customizations: &[ResourceInterpreterCustomization],
    host: &Host,
    now: &str,
    traced: &mut Option<(String, Trace)>,
) -> anyhow::Result<Results> {
    let compiled: Vec<(String, Arc<Customization>)> = customizations
        .iter()
        .map(|c| (c.name_any(), Arc::new(Customization::compile(&c.name_any(), &c.spec, host))))
        .collect();
    let declarative = Arc::new(Declarative::new(compiled.iter().cloned()));
    let interpreter = Interpreter::new(vec![declarative, Arc::new(Shipped::new(host.clone()))]);
    let object = |path: &Option<String>, flag: &str| match path {
        Some(path) => files::object(path),
        None => Err(Misused(format!("--operation {operation} needs --{flag}")).into()),
    };
    let desired = || object(&command.desired_file, "desired-file");
    let observed = || object(&command.observed_file, "observed-file");
    // Operations on one object take it from either flag, as in Karmada.
    let template =
        || if command.desired_file.is_none() && command.observed_file.is_some() { observed() } else { desired() };
    let copy =
        || if command.observed_file.is_none() && command.desired_file.is_some() { desired() } else { observed() };
    let mut note = |question: Question<'_>| {
        let (api_version, kind) = question.kind();
        let asked = compiled.iter().filter(|_| command.trace);
        let mut asked = asked.filter(|(_, c)| c.target() == (api_version, kind) && c.has(operation));
        let Some((name, customization)) = asked.next() else { return };
        let spec = customizations.iter().find(|c| c.name_any() == *name).map(|c| &c.spec.customizations);
        let text = spec.and_then(|spec| operation.script(spec)).unwrap_or_default();
        *traced = Some((text.to_owned(), customization.trace(&question).1));
    };
    let results: Results = match operation {
        Operation::InterpretReplica => {
            let template = template()?;
            note(Question::Replicas { template: &template });
            let found = interpreter.replicas(&template)?;
            vec![("replica", json!(found.replicas)), ("requires", json!(found.requirements))]
        }
        Operation::InterpretComponent => {
            let template = template()?;
            note(Question::Components { template: &template });
            vec![("components", json!(interpreter.components(&template)?))]
        }
        Operation::ReviseReplica => {
            let manifest = template()?;
            let Some(replicas) = command.desired_replica else {
                bail!(Misused("--operation ReviseReplica needs --desired-replica".into()));
            };
            note(Question::Revise { manifest: &manifest, replicas });
            vec![("revised", interpreter.revise_replica(&manifest, replicas)?)]
        }
        Operation::Retain => {
            let (desired, observed) = (desired()?, observed()?);
            note(Question::Retain { desired: &desired, observed: &observed });
            vec![("retained", interpreter.retain(&desired, &observed)?)]
        }
        Operation::InterpretStatus => {
            let object = copy()?;
            note(Question::Status { object: &object });
            vec![("status", json!(interpreter.reflect_status(&object)?))]
        }
        Operation::InterpretHealth => {
            let object = copy()?;
            note(Question::Health { object: &object });
            let health = interpreter.health(&object)?;
            vec![("healthy", json!(health.is_none_or(|health| health == ironclad_interpreter::Health::Healthy)))]
        }
        Operation::AggregateStatus => {
            let mut template = desired()?;
            let reports: Vec<AggregatedStatusItem> = match &command.status_file {
                Some(path) => files::reports(path)?,
                None => Vec::new(),
            };
            let items: Vec<Item<'_>> = reports.iter().map(Item::from).collect();
            note(Question::Aggregate { template: &template, items: &items });
            let expected = items.iter().map(|item| item.cluster.into()).collect::<BTreeSet<_>>();
            let status = interpreter.aggregate_status(&template, &items, &expected, now)?;
            template["status"] = status;
            vec![("aggregatedStatus", template)]
        }
        Operation::InterpretDependency => {
            let template = template()?;
            note(Question::Dependencies { template: &template });
            vec![("dependencies", json!(interpreter.dependencies(&template)?))]
        }
    };
    Ok(results)
}

/// The results as documents of one YAML stream, each under its name; or as one object.
fn rendered(output: Option<Output>, results: &Results) -> anyhow::Result<String> {
    if let Some(output) = output.filter(|output| output.is_objects()) {
        let object: serde_json::Map<String, Value> =
            results.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        return print::objects(output, &[Value::Object(object)]);
    }
    let mut text = String::new();
    for (i, (name, value)) in results.iter().enumerate() {
        let document = print::documents(std::slice::from_ref(value)).context("printing a result")?;
        text += &format!("---\n# [{}/{}] {name}:\n{document}", i + 1, results.len());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_counts_the_steps_of_each_line() {
        let text =
            "function InterpretHealth(o)\n  for i = 1, 3 do\n    print(i)\n  end\n  return o.status.ready\nend\n";
        let trace = Trace {
            steps: 40,
            printed: vec!["1".into(), "2".into()],
            lines: [(1, 1), (2, 4), (3, 3), (5, 1)].into(),
            failed: Some(5),
        };
        let want = "\
1
2
      1 x    1  function InterpretHealth(o)
      4 x    2    for i = 1, 3 do
      3 x    3      print(i)
             4    end
>     1 x    5    return o.status.ready
             6  end
";
        assert_eq!(listing(text, &trace), want);
    }
}
