//! Printing of results: tables for people, objects for scripts (specification/operations.md 3).
//!
//! Everything that a verb prints goes through this module. Most of the text comes from servers, and a member is trusted
//! less than the operator's terminal, so control characters never reach it.

use std::{
    borrow::Cow,
    cell::RefCell,
    env,
    fmt::Write as _,
    io::{self, IsTerminal as _, Write},
};

use anyhow::Context as _;
use clap::{
    ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use serde_json::{Value, json};

use crate::report::{BROKEN_PIPE, Exit};

/// Output format of a result.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Columns for people.
    #[default]
    Table,
    /// More columns.
    Wide,
    /// The objects as JSON.
    Json,
    /// The objects as YAML.
    Yaml,
    /// `kind.group/name`.
    Name,
}

impl Output {
    /// True if whole objects are printed.
    #[must_use]
    pub fn is_objects(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }

    /// Parser of the formats but these, which a verb does not have.
    pub(crate) fn without(these: &'static [Self]) -> impl TypedValueParser<Value = Self> {
        let formats = Self::value_variants().iter().filter(|format| !these.contains(format));
        let formats = PossibleValuesParser::new(formats.filter_map(ValueEnum::to_possible_value));
        formats.try_map(|name| <Self as ValueEnum>::from_str(&name, false))
    }
}

/// Rows under a heading, in columns as wide as their widest cell. Cells are printed as [`line`] shows them.
#[must_use]
pub fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let heading: Vec<Cow<'_, str>> = heading.iter().map(|cell| line(cell)).collect();
    let rows = rows.iter().map(|row| row.iter().map(|cell| line(cell)).collect::<Vec<_>>());
    let all: Vec<Vec<Cow<'_, str>>> = std::iter::once(heading).chain(rows).collect();
    let width = |column: usize| {
        all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..all.first().map_or(0, Vec::len)).map(width).collect();
    let padded = |row: &Vec<Cow<'_, str>>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("   ").trim_end().to_owned() + "\n"
    };
    all.iter().map(padded).collect()
}

/// The text without control characters, except line breaks and tabs: a terminal would execute them.
///
/// Within JSON and quoted YAML the result has the same meaning, as those contain no raw control character below U+007F.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_except(text, |_| 0)
}

/// The first line of a text of somebody else, for a cell or a line: the rest is replaced by `...`, as kubectl does.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    match text.split_once(['\n', '\r', '\x0c']) {
        None => escape(text),
        Some((first, _)) => Cow::Owned(escape(first).into_owned() + "..."),
    }
}

/// Replaces control characters; `kept` returns the length of a sequence that is kept at the start of its argument.
fn escape_except(text: &str, kept: impl Fn(&str) -> usize) -> Cow<'_, str> {
    let harmful = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(at) = rest.find(harmful) {
        let (before, from) = rest.split_at(at);
        escaped.push_str(before);
        let keep = kept(from);
        let c = from.chars().next().unwrap_or_default();
        let length = if keep > 0 { keep } else { c.len_utf8() };
        match c {
            _ if keep > 0 => escaped.push_str(&from[..keep]),
            '\r' => escaped.push_str("\\r"),
            '\0'..='\x1f' => escaped.extend(['^', char::from(c as u8 + b'@')]),
            other => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(other));
            }
        }
        rest = &from[length..];
    }
    escaped.push_str(rest);
    Cow::Owned(escaped)
}

/// The length of an escape sequence that sets colours, at the start of this text; 0 if there is none.
fn colour(text: &str) -> usize {
    let Some(parameters) = text.strip_prefix("\x1b[") else { return 0 };
    let length = parameters.bytes().take_while(|b| b.is_ascii_digit() || *b == b';').count();
    if parameters.as_bytes().get(length) == Some(&b'm') { "\x1b[".len() + length + 1 } else { 0 }
}

/// A text with marks and branches that this program drew, in ASCII if the locale of the environment has no others.
pub(crate) fn drawn(text: String) -> String {
    let named = ["LC_ALL", "LC_CTYPE", "LANG"].map(|name| env::var(name).unwrap_or_default());
    if is_ascii(named.iter().map(String::as_str)) { in_ascii(&text) } else { text }
}

/// True if the first of these names of locales that is set is one without UTF-8. If none is set, terminals have it.
fn is_ascii<'a>(mut named: impl Iterator<Item = &'a str>) -> bool {
    let name = named.find(|name| !name.is_empty()).unwrap_or_default().to_ascii_lowercase();
    ["c", "posix"].contains(&&*name) || name.split_once('.').is_some_and(|(_, set)| !set.starts_with("utf"))
}

fn in_ascii(text: &str) -> String {
    let pairs = [('✓', "+"), ('✗', "x"), ('…', "..."), ('–', "-"), ('│', "|"), ('├', "|"), ('└', "`"), ('─', "-")];
    pairs.iter().fold(text.to_owned(), |text, (mark, plain)| text.replace(*mark, plain))
}

/// A List of objects of any kind. It has the empty resourceVersion that kubectl's Lists have.
#[must_use]
pub fn list(items: Vec<Value>) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": "" }, "items": items })
}

/// One object as it is, several as a List, as JSON or YAML.
///
/// # Errors
/// If an object can't be written as YAML.
pub fn objects(output: Output, objects: &[Value]) -> anyhow::Result<String> {
    let whole = match objects {
        [one] => one.clone(),
        several => list(several.to_vec()),
    };
    match output {
        Output::Yaml => yaml(&whole),
        _ => Ok(serde_json::to_string_pretty(&whole).context("writing JSON")? + "\n"),
    }
}

/// Documents of one YAML stream.
///
/// # Errors
/// If an object can't be written as YAML.
pub fn documents(objects: &[Value]) -> anyhow::Result<String> {
    let documents: Vec<String> = objects.iter().map(yaml).collect::<anyhow::Result<_>>()?;
    Ok(documents.join("---\n"))
}

/// One object as YAML.
///
/// # Errors
/// If it can't be written as YAML.
pub(crate) fn yaml(value: &Value) -> anyhow::Result<String> {
    let mut text = serde_saphyr::to_string(value).context("writing YAML")?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// The string at a JSON pointer of an object; empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// `kind.group/name` of an object.
#[must_use]
pub fn name(object: &Value) -> String {
    let kind = text(object, "/kind").to_ascii_lowercase();
    let group = text(object, "/apiVersion").split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
    format!("{kind}{group}/{}", text(object, "/metadata/name"))
}

/// Bytes of what a verb prints that are captured.
const CAPTURED_MAX: usize = 256 * 1024;

tokio::task_local! {
    /// Results and notes of a verb that runs for a page, and not for a terminal.
    static CAPTURED: RefCell<String>;
}

/// Runs a verb, and returns what it prints as results and notes with its result. What the verb spawns is not captured.
pub(crate) async fn captured<T>(verb: impl Future<Output = T>) -> (T, String) {
    let both = async {
        let done = verb.await;
        (done, CAPTURED.with(RefCell::take))
    };
    CAPTURED.scope(RefCell::default(), both).await
}

/// True if the text is captured, as far as there is room.
fn capture(text: &str) -> bool {
    let taken = CAPTURED.try_with(|captured| {
        let mut captured = captured.borrow_mut();
        let left = CAPTURED_MAX.saturating_sub(captured.len());
        let text = escape(text);
        captured.push_str(&text[..text.floor_char_boundary(left)]);
    });
    taken.is_ok()
}

/// Puts a result for people on stdout, or objects, without control characters.
///
/// # Errors
/// If stdout can't be written to. If nobody reads it any more, [`Exit`] ends the verb silently, as SIGPIPE would.
pub fn out(text: &str) -> anyhow::Result<()> {
    if capture(text) {
        return Ok(());
    }
    put(escape(text).as_bytes(), &mut io::stdout().lock())
}

/// Puts text on stdout that a script may need as it is, such as one that a template selected. On a terminal it is
/// escaped.
///
/// # Errors
/// As [`out`].
pub fn data(text: &str) -> anyhow::Result<()> {
    let stdout = io::stdout();
    let text = if stdout.is_terminal() { escape(text) } else { Cow::Borrowed(text) };
    put(text.as_bytes(), &mut stdout.lock())
}

/// Puts lines of a log on stdout, byte by byte. On a terminal all that remains of their control characters are colours.
///
/// # Errors
/// As [`out`].
pub fn log(lines: &[u8]) -> anyhow::Result<()> {
    let stdout = io::stdout();
    if stdout.is_terminal() {
        return put(escape_except(&String::from_utf8_lossy(lines), colour).as_bytes(), &mut stdout.lock());
    }
    put(lines, &mut stdout.lock())
}

/// Puts a line for people on stderr. There is nobody to report a failure to.
pub fn note(text: &str) {
    if capture(&format!("{text}\n")) {
        return;
    }
    let _ = writeln!(io::stderr().lock(), "{}", escape(text));
}

/// Puts a warning of a server on stderr, its first word yellow `in_colour`.
pub fn warning(text: &str, in_colour: bool) {
    let (begin, end) = if in_colour { ("\x1b[33;1m", "\x1b[0m") } else { ("", "") };
    let _ = writeln!(io::stderr().lock(), "{begin}Warning:{end} {}", escape(text));
}

/// Asks a question on stderr; true if the answer on stdin is yes.
///
/// # Errors
/// If it can't be asked, or the answer not be read.
pub fn confirm(question: &str) -> anyhow::Result<bool> {
    let mut stderr = io::stderr().lock();
    write!(stderr, "{} [y/N] ", escape(question)).and_then(|()| stderr.flush()).context("asking")?;
    let mut reply = String::new();
    io::stdin().read_line(&mut reply).context("reading the reply")?;
    Ok(matches!(reply.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

fn put(text: &[u8], stream: &mut impl Write) -> anyhow::Result<()> {
    match stream.write_all(text).and_then(|()| stream.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Exit(BROKEN_PIPE).into()),
        written => written.context("writing to stdout"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_verb_prints_is_captured_for_its_page_alone() {
        let verb = |name: &'static str| async move {
            out(&format!("{name} 1\n")).unwrap();
            tokio::task::yield_now().await;
            note(&format!("{name} 2\u{1b}[2J"));
            name.len()
        };
        let (one, other) = futures::join!(captured(verb("one")), captured(verb("other")));
        assert_eq!(one, (3, "one 1\none 2^[[2J\n".to_owned()));
        assert_eq!(other, (5, "other 1\nother 2^[[2J\n".to_owned()));
        let (_, long) = captured(async { out(&"ä".repeat(CAPTURED_MAX)).unwrap() }).await;
        assert_eq!(long.len(), CAPTURED_MAX);
        assert!(!capture("nobody captures it here"));
    }

    #[test]
    fn a_reader_that_ended_ends_the_verb_without_a_word() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = put(b"text", &mut Closed).unwrap_err();
        assert_eq!(error.downcast_ref::<Exit>().map(|exit| exit.0), Some(141));
    }

    #[test]
    fn columns() {
        let rows = [vec!["member1".to_owned(), "True".to_owned()], vec!["m2".to_owned(), String::new()]];
        assert_eq!(table(&["NAME", "READY"], &rows), "NAME      READY\nmember1   True\nm2\n");
        assert_eq!(table(&["NAME"], &[]), "NAME\n");
    }

    #[test]
    fn control_characters_are_escaped() {
        for (text, want) in [
            ("plain äöü 😀\tand\nbreaks", "plain äöü 😀\tand\nbreaks"),
            ("\x1b]0;pwned\x07", "^[]0;pwned^G"),
            ("\x1b[2J\x1b[31mred", "^[[2J^[[31mred"),
            ("over\rwritten\x08", "over\\rwritten^H"),
            ("\u{9b}2J\u{7f}\0", "\\u009b2J\\u007f^@"),
        ] {
            assert_eq!(escape(text), want, "{text:?}");
        }
        assert_eq!(line("first\x1b\nsecond"), "first^[...");
        assert_eq!((line("a\rb"), line("a\x0cb"), line("a\tb")), ("a...".into(), "a...".into(), "a\tb".into()));
        let rows = [vec!["web\x1b[1m".to_owned(), "one\ntwo".to_owned()]];
        assert_eq!(
            table(&["NAME", "MESSAGE"], &rows),
            "NAME        MESSAGE\nweb^[[1m   one...\n".replace("NAME     ", "NAME    ")
        );
    }

    #[test]
    fn logs_keep_colours_and_escape_other_control_characters() {
        for (text, want) in [
            ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
            ("\x1b[1;38;5;9mred", "\x1b[1;38;5;9mred"),
            ("\x1b[2J\x1b]0;t\x07", "^[[2J^[]0;t^G"),
            ("\x1b[31", "^[[31"),
            ("\x1b[31\x1b[mx", "^[[31\x1b[mx"),
        ] {
            assert_eq!(escape_except(text, colour), want, "{text:?}");
        }
    }

    #[test]
    fn escaped_objects_have_the_same_meaning() {
        let harmful: String = (0..=0x9f).filter_map(char::from_u32).collect();
        let object = json!({ "data": { "all": harmful, "lines": "a\nb\r\nc", "bell": "x\u{7}", "c1": "\u{9b}2J", "nel": "a\u{85}b" } });
        for output in [Output::Json, Output::Yaml] {
            let text = objects(output, std::slice::from_ref(&object)).unwrap();
            let read: Value = serde_saphyr::from_str(&escape(&text)).unwrap();
            assert_eq!(read, object, "{output:?}: {text}");
        }
    }

    #[test]
    fn marks_and_branches_follow_the_locale() {
        for (named, want) in [
            (["", "", ""], false),
            (["C", "", "en_GB.UTF-8"], true),
            (["", "POSIX", ""], true),
            (["", "", "C.UTF-8"], false),
            (["", "de_DE.utf8", "C"], false),
            (["de_DE.ISO-8859-1", "", ""], true),
            (["de_DE", "", ""], false),
        ] {
            assert_eq!(is_ascii(named.into_iter()), want, "{named:?}");
        }
        let text = "✓ a\n├─ ✗ b – why\n│  └─ … ä\n";
        assert_eq!(in_ascii(text), "+ a\n|- x b - why\n|  `- ... ä\n");
    }

    #[test]
    fn names_and_lists() {
        let cluster =
            json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"}});
        assert_eq!(name(&cluster), "cluster.cluster.karmada.io/m1");
        assert_eq!(name(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})), "secret/s");
        let list: Value =
            serde_json::from_str(&objects(Output::Json, &[cluster.clone(), cluster.clone()]).unwrap()).unwrap();
        assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&json!("List"), 2));
        assert!(objects(Output::Yaml, std::slice::from_ref(&cluster)).unwrap().contains("kind: Cluster\n"));
        assert_eq!(documents(&[cluster.clone(), cluster]).unwrap().matches("---\n").count(), 1);
    }
}
