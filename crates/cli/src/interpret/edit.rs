//! `--edit`: opens a customization in the user's editor until its scripts are valid (specification/operations.md
//! 2.14).

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};
use ironclad_interpreter::Operation;

use super::{check, files};
use crate::print;

/// Prefix of the lines that are added for the user and removed after editing.
const OURS: &str = "#!";
/// Initial content of a new file.
const SKELETON: &str = "apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata:
  name: example
spec:
  target:
    apiVersion: example.com/v1
    kind: Example
  customizations:
    healthInterpretation:
      luaScript: |
        function InterpretHealth(observedObj)
          return true
        end
";

pub(super) fn run(path: &str, show_doc: bool) -> anyhow::Result<()> {
    if path == "-" || Path::new(path).is_dir() {
        bail!("--edit needs a file to write to\n  try: -f customization.yaml");
    }
    let before = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => SKELETON.to_owned(),
        Err(error) => return Err(error).with_context(|| format!("reading {path}")),
    };
    // A copy that exists is what the user wrote before, when it could not be used.
    let copies = (1..).map(|number| PathBuf::from(format!("{path}.edit{number}.yaml")));
    let copy = copies.into_iter().find(|copy| !copy.exists()).context("naming the copy")?;
    let edited = session(&before, show_doc, |text| in_editor(&copy, text));
    let edited = edited.with_context(|| format!("editing {path}; what you wrote is in {}", copy.display()))?;
    let said = match edited {
        Some(text) => {
            fs::write(path, text).with_context(|| format!("writing {path}"))?;
            format!("{path} changed\n")
        }
        None => format!("{path} unchanged\n"),
    };
    // A copy that could not be removed is harmless.
    let _ = fs::remove_file(&copy);
    print::out(&said)
}

/// Writes the text to this file, runs the user's editor on it, and returns the edited text.
fn in_editor(copy: &Path, text: &str) -> anyhow::Result<String> {
    let chosen = ["KUBE_EDITOR", "VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok());
    let editor = chosen.filter(|editor| !editor.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    fs::write(copy, text).with_context(|| format!("writing {}", copy.display()))?;
    // The variable may contain arguments, which the shell splits.
    let ended = Command::new("sh").args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(copy).status();
    let ended = ended.with_context(|| format!("starting the editor {editor:?}\n  try: EDITOR=… in the environment"))?;
    if !ended.success() {
        bail!("the editor {editor:?} ended with {ended}");
    }
    fs::read_to_string(copy).with_context(|| format!("reading {}", copy.display()))
}

/// Runs the editor until the scripts are valid; `None` if the text was not changed.
///
/// # Errors
/// If the user saves the same invalid text twice, or the editor fails.
fn session(
    before: &str,
    show_doc: bool,
    mut edit: impl FnMut(&str) -> anyhow::Result<String>,
) -> anyhow::Result<Option<String>> {
    let (mut text, mut problems) = (before.to_owned(), Vec::new());
    loop {
        let edited = stripped(&edit(&prepared(&text, &problems, show_doc))?);
        if edited == before || edited.trim().is_empty() {
            return Ok(None);
        }
        if edited == text && !problems.is_empty() {
            bail!("its scripts can't be used:\n  {}", problems.join("\n  "));
        }
        problems = problems_of(&edited);
        if problems.is_empty() {
            return Ok(Some(edited));
        }
        text = edited;
    }
}

fn problems_of(text: &str) -> Vec<String> {
    match files::parsed(text, "the file") {
        Err(error) => vec![format!("{error:#}").replace('\n', " ")],
        Ok(customizations) if customizations.is_empty() => vec!["there is no customization".into()],
        Ok(customizations) => check::problems(&customizations),
    }
}

/// The text below the lines that are added for the user.
fn prepared(text: &str, problems: &[String], show_doc: bool) -> String {
    let mut lines: Vec<String> =
        vec!["Save your changes, or leave the file unchanged to change nothing. Lines like these are removed.".into()];
    if show_doc {
        lines.extend(Operation::ALL.into_iter().map(doc));
    }
    lines.extend(problems.iter().map(|problem| format!("wrong: {problem}")));
    let comment: String = lines.iter().map(|line| format!("{OURS} {line}\n")).collect();
    format!("{comment}{text}")
}

fn stripped(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with(OURS)).collect()
}

/// Fields of rules with their functions and return values (specification/propagation.md 20.3).
fn doc(operation: Operation) -> String {
    let (arguments, returns) = match operation {
        Operation::InterpretReplica => ("desiredObj", "replicas, and the requirements of one replica or nil"),
        Operation::InterpretComponent => ("desiredObj", "a list of {name, replicas, replicaRequirements}"),
        Operation::ReviseReplica => ("desiredObj, desiredReplica", "the object with these replicas"),
        Operation::Retain => ("desiredObj, observedObj", "the object with the fields that the member owns"),
        Operation::InterpretStatus => ("observedObj", "the status to report"),
        Operation::InterpretHealth => ("observedObj", "true or false"),
        Operation::AggregateStatus => ("desiredObj, statusItems", "the object with the aggregated status"),
        Operation::InterpretDependency => ("desiredObj", "a list of {apiVersion, kind, namespace, name}"),
    };
    format!("{}: function {}({arguments}) returns {returns}", operation.rule(), operation.function())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(script: &str) -> String {
        SKELETON.replace("return true", script)
    }

    /// Runs a session whose editor writes these texts in order; returns the result and the texts that were shown.
    fn edited(texts: &[String]) -> (Result<Option<String>, String>, Vec<String>) {
        let (mut shown, mut left) = (Vec::new(), texts.iter());
        let came = session(SKELETON, true, |text| {
            shown.push(text.to_owned());
            // The editor keeps the added lines: the session has to remove them.
            let ours: String = text.split_inclusive('\n').filter(|line| line.starts_with(OURS)).collect();
            Ok(format!("{ours}{}", left.next().expect("the editor was started more often than expected")))
        });
        (came.map_err(|error| error.to_string()), shown)
    }

    #[test]
    fn editing_repeats_until_the_scripts_are_valid_or_unchanged() {
        let (good, bad) = (with("return false"), with("return ("));
        let refused = "its scripts can't be used:\n  example InterpretHealth: ";
        for (name, texts, want) in [
            ("changed", vec![good.clone()], Ok(Some(good.clone()))),
            ("left alone", vec![SKELETON.to_owned()], Ok(None)),
            ("emptied", vec![String::new()], Ok(None)),
            ("invalid, then valid", vec![bad.clone(), good.clone()], Ok(Some(good.clone()))),
            ("invalid, then unchanged from the start", vec![bad.clone(), SKELETON.to_owned()], Ok(None)),
            ("invalid, and not corrected", vec![bad.clone(), bad.clone()], Err(refused)),
            ("no YAML", vec!["a: [".to_owned(), good.clone()], Ok(Some(good))),
        ] {
            let (came, shown) = edited(&texts);
            assert_eq!(shown.len(), texts.len(), "{name}");
            match want {
                Ok(want) => assert_eq!(came, Ok(want), "{name}"),
                Err(refused) => assert!(came.clone().unwrap_err().starts_with(refused), "{name}: {came:?}"),
            }
        }
        let (_, shown) = edited(&[bad.clone(), SKELETON.to_owned()]);
        assert!(
            !shown[0].contains("#! wrong") && shown[1].contains("#! wrong: example InterpretHealth: line "),
            "{shown:?}"
        );
        assert!(shown[1].ends_with(&bad), "the next edit starts with the written text");
    }

    #[test]
    fn comments_list_every_rule() {
        let shown = prepared("", &[], true);
        for operation in Operation::ALL {
            let line = shown.lines().find(|line| line.starts_with(&format!("#! {}:", operation.rule()))).unwrap();
            let (_, arguments) = line.split_once('(').unwrap();
            let arguments = arguments.split_once(')').unwrap().0;
            assert_eq!(arguments.split(", ").count(), usize::from(operation.parameters()), "{line}");
        }
        assert_eq!(prepared("a: b\n", &[], false).lines().count(), 2);
        assert_eq!(stripped(&prepared("a: b\n", &["x".into()], true)), "a: b\n");
    }
}
