//! The lines of a script.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, bail};
use serde_json::Value;

/// An object as a script names it.
#[derive(Debug, Clone)]
pub(super) struct Named {
    /// `plane`, or a member.
    pub(super) server: String,
    /// Kind or plural, in lower case.
    pub(super) kind: String,
    /// Empty for cluster-scoped objects.
    pub(super) namespace: String,
    pub(super) name: String,
}

#[derive(Debug)]
pub(super) enum Step {
    Apply {
        server: String,
        documents: Vec<Value>,
    },
    Patch {
        object: Named,
        subresource: Option<String>,
        patch: Value,
    },
    Delete(Named),
    /// Another step, which must fail.
    Refused(Box<Step>),
    Settle,
    Advance(Duration),
    Down(String),
    Up(String),
    /// Restarts the controller process with these flags; without any, with its former ones.
    Restart(Vec<(String, String)>),
    Get {
        object: Named,
        pointers: Vec<String>,
    },
    List {
        server: String,
        kind: String,
    },
    Events,
    Writes,
    Reads,
}

#[derive(Debug)]
pub(super) struct Script {
    pub(super) members: usize,
    pub(super) gates: String,
    /// Steps with their original lines; a remark has no step.
    pub(super) steps: Vec<(String, Option<Step>)>,
}

pub(super) fn parse(text: &str) -> anyhow::Result<Script> {
    let mut script = Script { members: 1, gates: String::new(), steps: Vec::new() };
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let mut block = String::new();
        while let Some((_, more)) = lines.next_if(|(_, more)| more.starts_with("  ")) {
            block.push_str(&more[2..]);
            block.push('\n');
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            [first, ..] if first.starts_with('#') => script.steps.push((line.to_owned(), None)),
            ["members", n] => script.members = n.parse()?,
            ["gates", gates] => script.gates = (*gates).to_owned(),
            words => {
                let step = step(words, line, &block).with_context(|| format!("line {}: {line}", number + 1))?;
                script.steps.push((line.to_owned(), Some(step)));
            }
        }
    }
    Ok(script)
}

fn step(words: &[&str], line: &str, block: &str) -> anyhow::Result<Step> {
    Ok(match words {
        ["apply"] => Step::Apply { server: "plane".into(), documents: documents(block)? },
        ["apply", server] => Step::Apply { server: (*server).into(), documents: documents(block)? },
        ["sample", name] => {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/karmada").join(format!("{name}.yaml"));
            let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            Step::Apply { server: "plane".into(), documents: documents(&text)? }
        }
        ["patch", server, kind, name, ..] => {
            let (_, patch) = line.split_once('{').context("a patch is a JSON object")?;
            let patch = serde_json::from_str(&format!("{{{patch}")).context("the patch")?;
            let (kind, subresource) = match kind.split_once('/') {
                Some((kind, subresource)) => (kind, Some(subresource.to_owned())),
                None => (*kind, None),
            };
            Step::Patch { object: named(server, kind, name), subresource, patch }
        }
        ["delete", server, kind, name] => Step::Delete(named(server, kind, name)),
        ["refused", rest @ ..] if !rest.is_empty() => Step::Refused(Box::new(step(rest, line, block)?)),
        ["settle"] => Step::Settle,
        ["advance", time] => {
            let seconds = time.strip_suffix('s').context("seconds, as 30s")?;
            Step::Advance(Duration::from_secs(seconds.parse()?))
        }
        ["down", member] => Step::Down((*member).into()),
        ["up", member] => Step::Up((*member).into()),
        ["restart", flags @ ..] => {
            let flag = |word: &&str| {
                let (name, value) = word.strip_prefix("--").and_then(|word| word.split_once('='))?;
                Some((name.to_owned(), value.to_owned()))
            };
            let flags = flags.iter().map(|word| flag(word).with_context(|| format!("{word} is no --flag=value")));
            Step::Restart(flags.collect::<Result<_, _>>()?)
        }
        ["get", server, kind, name, pointers @ ..] => Step::Get {
            object: named(server, kind, name),
            pointers: pointers.iter().map(|p| (*p).to_owned()).collect(),
        },
        ["list", server, kind] => Step::List { server: (*server).into(), kind: (*kind).into() },
        ["events"] => Step::Events,
        ["writes"] => Step::Writes,
        ["reads"] => Step::Reads,
        _ => bail!("no such step"),
    })
}

fn named(server: &str, kind: &str, name: &str) -> Named {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    Named { server: server.into(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
}

fn documents(block: &str) -> anyhow::Result<Vec<Value>> {
    let parts = block.split("---\n").filter(|part| !part.trim().is_empty());
    parts.map(|part| serde_saphyr::from_str(part).with_context(|| format!("in\n{part}"))).collect()
}
