//! Command lines in the documentation and in help texts are ones that this program takes.

use std::{fs, path::Path};

use clap::{Command, CommandFactory as _, Parser as _};

use crate::Ironclad;

/// Folders of documentation for users.
const FOLDERS: [&str; 4] = ["concepts", "tasks", "operations", "reference"];
/// Marks of lines that leave something out.
const LEFT_OUT: [&str; 3] = ["…", "...", "["];
/// Begins of what follows a command line: other programs, files, comments.
const ENDS: [&str; 5] = ["|", ">", "#", "&&", "&"];

/// The command lines of this program in a page: those in indented or fenced lines.
fn lines(text: &str) -> Vec<String> {
    let (mut found, mut is_fenced) = (Vec::new(), false);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        if !is_fenced && !line.starts_with("    ") {
            continue;
        }
        let mut whole = line.trim().trim_start_matches("$ ").to_owned();
        while let Some(begun) = whole.strip_suffix('\\') {
            whole = format!("{}{}", begun, lines.next().unwrap_or_default().trim());
        }
        if whole.starts_with("ironclad ") {
            found.push(whole);
        }
    }
    found
}

/// The words of a command line; `None` if something is left out of it. A remark stands behind two spaces.
fn words(line: &str) -> Option<Vec<String>> {
    let line = line.split_once("  ").map_or(line, |(line, _)| line);
    let mut words = shlex::split(line)?;
    if let Some(end) = words.iter().position(|word| ENDS.contains(&word.as_str())) {
        words.truncate(end);
    }
    let is_whole = |word: &String| LEFT_OUT.iter().all(|mark| !word.starts_with(mark));
    words.iter().all(is_whole).then_some(words)
}

/// The examples of a verb and those below it, with its name.
fn examples(verb: &Command, found: &mut Vec<(String, String)>) {
    let text = [verb.get_after_help(), verb.get_after_long_help()].into_iter().flatten().map(ToString::to_string);
    // They are indented by two.
    let indented = text.collect::<Vec<_>>().join("\n").replace("\n  ", "\n    ");
    found.push((verb.get_name().to_owned(), indented));
    verb.get_subcommands().for_each(|below| examples(below, found));
}

#[test]
fn documented_command_lines_are_taken() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut files = vec![docs.join("../README.md"), docs.join("getting-started.md")];
    for folder in FOLDERS {
        files.extend(fs::read_dir(docs.join(folder)).unwrap().map(|page| page.unwrap().path()));
    }
    // The page of all help texts has their examples cut into lines.
    files.retain(|page| page.extension().is_some_and(|extension| extension == "md") && !page.ends_with("cli.md"));
    let pages = files.iter().map(|page| (page.display().to_string(), fs::read_to_string(page).unwrap()));
    let mut texts: Vec<(String, String)> = pages.collect();
    examples(&Ironclad::command(), &mut texts);
    let (mut seen, mut refused) = (0, Vec::new());
    for (place, text) in &texts {
        for line in lines(text) {
            let Some(words) = words(&line) else { continue };
            seen += 1;
            if let Err(error) = Ironclad::try_parse_from(words)
                && error.use_stderr()
            {
                let error = error.to_string();
                refused.push(format!("{place}: {line}\n  {}", error.lines().next().unwrap_or_default()));
            }
        }
    }
    assert!(seen > 200, "{seen} command lines");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn words_end_where_the_command_does() {
    for (line, want) in [
        ("ironclad get rb -o jsonpath='{.items}'   what", Some("ironclad get rb -o jsonpath={.items}")),
        ("ironclad manifests | kubectl apply -f -", Some("ironclad manifests")),
        ("ironclad crds > crds.yaml", Some("ironclad crds")),
        ("ironclad plan rate 5 # slower", Some("ironclad plan rate 5")),
        ("ironclad register --token …", None),
        ("ironclad get evictions [-w]", None),
    ] {
        assert_eq!(words(line).map(|words| words.join(" ")).as_deref(), want, "{line}");
    }
    let page =
        "text ironclad up\n\n    $ ironclad run \\\n      --x\n    other\n```\nironclad get rb\n```\nironclad no\n";
    assert_eq!(lines(page), ["ironclad run --x", "ironclad get rb"]);
}
