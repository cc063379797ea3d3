//! Output formats of `get` beyond tables and objects: JSONPath templates and custom columns.

use std::fs;

use anyhow::Context as _;
use ironclad_jsonpath::{Missing, Path, Rules, Template};
use serde_json::Value;

use crate::{
    kyaml,
    print::{self, Output},
    report::Misused,
};

/// Rules of kubectl. The number of results is practically unlimited, because servers bound their answers.
pub(super) const RULES: Rules = Rules { missing: Missing::Nothing, found_max: 10_000_000 };

/// Formats without an argument.
const PLAIN: [(&str, Output); 5] = [
    ("table", Output::Table),
    ("wide", Output::Wide),
    ("json", Output::Json),
    ("yaml", Output::Yaml),
    ("name", Output::Name),
];

/// Output format of objects.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Format {
    /// A format that all verbs have.
    As(Output),
    /// KYAML.
    Kyaml,
    /// A template that is filled with the object, or with a List of several.
    Template(Template),
    /// Values that the paths of a template select, as a JSON array.
    Selected(Template),
    /// A row for each object.
    Columns(Vec<Column>),
}

/// A column that the user defines.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column {
    heading: String,
    path: Path,
}

impl Format {
    /// Parses the values of `-o` and `--template`, and reads the file that they name.
    pub(super) fn given(output: &str, template: Option<&str>) -> anyhow::Result<Self> {
        match template {
            None => Self::read(output),
            Some(template) if WITH_ARGUMENT.contains(&output) => Self::read(&format!("{output}={template}")),
            // As with kubectl it is a Go template then.
            Some(_) if matches!(output, "table" | "go-template" | "go-template-file") => Self::read("go-template"),
            Some(_) => Err(misused(format!(
                "--template is for formats with a template, and -o {output} has none\n  try: -o jsonpath --template='{{.metadata.name}}'"
            ))),
        }
    }

    /// Parses the value of `-o`, and reads the file that it names.
    fn read(text: &str) -> anyhow::Result<Self> {
        if let Some((_, output)) = PLAIN.into_iter().find(|(name, _)| *name == text) {
            return Ok(Self::As(output));
        }
        if text == "kyaml" {
            return Ok(Self::Kyaml);
        }
        let (kind, argument) = text.split_once('=').unwrap_or((text, ""));
        let file = || fs::read_to_string(argument).with_context(|| format!("reading {argument}"));
        let template = |text: &str| {
            Template::parse(text).map_err(|error| {
                misused(format!("the template can't be read: {error}\n  try: -o {kind}='{{.metadata.name}}'"))
            })
        };
        if argument.is_empty() && WITH_ARGUMENT.contains(&kind) {
            return Err(misused(format!("-o {kind} needs what is printed\n  try: {}", example(kind))));
        }
        match kind {
            "jsonpath" => template(argument).map(Self::Template),
            "jsonpath-file" => template(&file()?).map(Self::Template),
            "jsonpath-as-json" => template(argument).map(Self::Selected),
            "custom-columns" => columns(argument).map(Self::Columns),
            "custom-columns-file" => columns_of(&file()?).map(Self::Columns),
            "go-template" | "go-template-file" => Err(misused(
                "Go templates are not supported\n  try: -o jsonpath='{range .items[*]}{.metadata.name}{\"\\n\"}{end}', or kubectl"
                    .to_owned(),
            )),
            _ => Err(misused(format!(
                "there is no output format {text:?}\n  try: table, wide, json, yaml, kyaml, name, jsonpath=…, custom-columns=…"
            ))),
        }
    }

    /// The common output format; `None` for templates and columns.
    pub(super) fn plain(&self) -> Option<Output> {
        if let Self::As(output) = self { Some(*output) } else { None }
    }

    /// True if templates and columns choose what is printed: they see objects with all that they have.
    pub(super) fn is_chosen(&self) -> bool {
        matches!(self, Self::Template(_) | Self::Selected(_) | Self::Columns(_))
    }

    /// True if whole objects are printed instead of a table made by the server.
    pub(super) fn is_objects(&self) -> bool {
        self.plain().is_none_or(Output::is_objects)
    }

    /// Prints the text of [`text`](Self::text) without escaping: output of templates is for scripts.
    pub(super) fn print(&self, text: &str) -> anyhow::Result<()> {
        if matches!(self, Self::Template(_)) { print::data(text) } else { print::out(text) }
    }

    /// Returns the text for these objects: one object by itself, several as a List.
    pub(super) fn text(&self, objects: Vec<Value>, single: bool, headings: bool) -> anyhow::Result<String> {
        if let Self::Columns(columns) = self {
            return Ok(rows(columns, &objects, headings));
        }
        let whole = if single && objects.len() == 1 { objects } else { vec![print::list(objects)] };
        let filled = |template: &Template| {
            let value = whole.first().unwrap_or(&Value::Null);
            template.render(value, RULES).context("filling the template")
        };
        match self {
            Self::Template(template) => filled(template),
            Self::Selected(template) => {
                let values = template.values(whole.first().unwrap_or(&Value::Null), RULES)?;
                Ok(serde_json::to_string_pretty(&values).context("writing JSON")? + "\n")
            }
            Self::As(output) => print::objects(*output, &whole),
            Self::Kyaml => Ok(whole.iter().map(kyaml::document).collect()),
            Self::Columns(_) => Ok(String::new()),
        }
    }
}

const WITH_ARGUMENT: [&str; 5] =
    ["jsonpath", "jsonpath-file", "jsonpath-as-json", "custom-columns", "custom-columns-file"];

fn example(kind: &str) -> &'static str {
    match kind {
        "custom-columns" => "-o custom-columns=NAME:.metadata.name,PHASE:.status.phase",
        "jsonpath-file" | "custom-columns-file" => "a file that holds the template",
        _ => "-o jsonpath='{.metadata.name}'",
    }
}

fn misused(text: String) -> anyhow::Error {
    Misused(text).into()
}

/// Parses `HEADING:path,HEADING:path`.
fn columns(text: &str) -> anyhow::Result<Vec<Column>> {
    text.split(',')
        .map(|part| match part.split_once(':') {
            Some((heading, path)) if !heading.is_empty() && !path.is_empty() => column(heading, path),
            _ => Err(misused(format!(
                "{part:?} is not a column: write HEADING:PATH\n  try: {}",
                example("custom-columns")
            ))),
        })
        .collect()
}

/// Parses a file with a line of headings and a line of paths.
fn columns_of(text: &str) -> anyhow::Result<Vec<Column>> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let (headings, paths) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let (headings, paths): (Vec<&str>, Vec<&str>) =
        (headings.split_whitespace().collect(), paths.split_whitespace().collect());
    if headings.is_empty() || headings.len() != paths.len() {
        return Err(misused(format!(
            "the file has {} headings in its first line and {} paths in its second",
            headings.len(),
            paths.len()
        )));
    }
    headings.into_iter().zip(paths).map(|(heading, path)| column(heading, path)).collect()
}

fn column(heading: &str, path: &str) -> anyhow::Result<Column> {
    let path = Path::relaxed(path).map_err(|error| misused(format!("the path of column {heading}: {error}")))?;
    Ok(Column { heading: heading.to_owned(), path })
}

fn rows(columns: &[Column], objects: &[Value], headings: bool) -> String {
    let cell = |column: &Column, object: &Value| {
        let found = column.path.select(object, RULES).unwrap_or_default();
        let texts: Vec<String> = found.into_iter().map(as_go).collect();
        if texts.is_empty() { "<none>".to_owned() } else { texts.join(",") }
    };
    let names: Vec<&str> = columns.iter().map(|column| column.heading.as_str()).collect();
    let rows: Vec<Vec<String>> =
        objects.iter().map(|object| columns.iter().map(|column| cell(column, object)).collect()).collect();
    let text = print::table(&names, &rows);
    if headings { text } else { text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or_default() }
}

/// A value in a cell, in the format of Go, which kubectl prints.
fn as_go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => format!("[{}]", list.iter().map(as_go).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let mut all: Vec<(&String, &Value)> = map.iter().collect();
            all.sort_unstable_by_key(|(name, _)| *name);
            let all: Vec<String> = all.into_iter().map(|(name, value)| format!("{name}:{}", as_go(value))).collect();
            format!("map[{}]", all.join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::exit_code;

    fn objects() -> Vec<Value> {
        vec![
            json!({"metadata": {"name": "web", "labels": {"b": "2", "a": "1"}}, "spec": {"args": ["x", "y"], "n": 3}}),
            json!({"metadata": {"name": "db"}}),
        ]
    }

    fn error_of(format: &str, objects: Vec<Value>, single: bool) -> String {
        Format::read(format).and_then(|format| format.text(objects, single, true)).unwrap()
    }

    #[test]
    fn jsonpath_templates_get_one_object_or_a_list() {
        let names = "jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{end}";
        assert_eq!(error_of(names, objects(), false), "web\ndb\n");
        assert_eq!(error_of("jsonpath={.metadata.name}", objects()[..1].to_vec(), true), "web");
        assert_eq!(error_of("jsonpath={.items[0].metadata.name}", objects()[..1].to_vec(), false), "web");
        assert_eq!(error_of("jsonpath={.kind}={.items[*].metadata.name}", objects(), false), "List=web db");
        let json: Value = serde_json::from_str(&error_of("jsonpath-as-json={..args}", objects(), false)).unwrap();
        assert_eq!(json, json!([["x", "y"]]));
        let error = Format::read("jsonpath={.items[5]}").unwrap().text(objects(), false, true).unwrap_err();
        assert_eq!(format!("{error:#}"), "filling the template: [5] is not found");
    }

    #[test]
    fn custom_columns() {
        let text = "custom-columns=NAME:.metadata.name,L:metadata.labels,ARGS:{.spec.args},ALL:.spec.args[*],N:.spec.n";
        let want = "\
NAME   L              ARGS     ALL      N
web    map[a:1 b:2]   [x y]    x,y      3
db     <none>         <none>   <none>   <none>
";
        assert_eq!(error_of(text, objects(), false), want);
        let bare = Format::read("custom-columns=N:.metadata.name").unwrap().text(objects(), false, false).unwrap();
        assert_eq!(bare, "web\ndb\n");
    }

    #[test]
    fn templates_may_have_a_flag_of_their_own() {
        let given = |output: &str| {
            let format = Format::given(output, Some("{.metadata.name}"));
            format
                .and_then(|format| format.text(objects()[..1].to_vec(), true, true))
                .map_err(|error| error.to_string())
        };
        assert_eq!(given("jsonpath"), Ok("web".to_owned()));
        for (output, want) in [
            ("table", "Go templates are not supported"),
            ("go-template", "Go templates are not supported"),
            ("yaml", "--template is for formats with a template, and -o yaml has none"),
            ("jsonpath={.a}", "--template is for formats with a template, and -o jsonpath={.a} has none"),
        ] {
            assert!(given(output).unwrap_err().starts_with(want), "{output}");
        }
        assert_eq!(error_of("kyaml", vec![json!({"kind": "K"})], true), "---\n{\n  kind: \"K\",\n}\n");
    }

    #[test]
    fn templates_are_read_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let path = file("t", "{.items[1].metadata.name}!");
        assert_eq!(error_of(&format!("jsonpath-file={path}"), objects(), false), "db!");
        let path = file("c", "NAME   N\nmetadata.name   .spec.n\n");
        assert_eq!(
            error_of(&format!("custom-columns-file={path}"), objects(), false),
            "NAME   N\nweb    3\ndb     <none>\n"
        );
        let uneven = file("u", "NAME N\nmetadata.name\n");
        let error = Format::read(&format!("custom-columns-file={uneven}")).unwrap_err();
        assert_eq!(error.to_string(), "the file has 2 headings in its first line and 1 paths in its second");
        assert!(Format::read("jsonpath-file=none/there").unwrap_err().to_string().starts_with("reading none/there"));
    }

    #[test]
    fn invalid_output_formats_are_rejected() {
        for (text, want) in [
            ("tabel", "there is no output format \"tabel\""),
            ("jsonpath", "-o jsonpath needs what is printed"),
            ("jsonpath=", "-o jsonpath needs what is printed"),
            ("jsonpath={.a", "the template can't be read: unclosed action"),
            ("custom-columns=NAME", "\"NAME\" is not a column: write HEADING:PATH"),
            ("custom-columns=A:.a,:b", "\":b\" is not a column: write HEADING:PATH"),
            ("custom-columns=A:.a[", "the path of column A: unclosed action"),
            ("go-template={{.kind}}", "Go templates are not supported"),
        ] {
            let error = Format::read(text).unwrap_err();
            assert_eq!(error.to_string().lines().next().unwrap_or_default(), want, "{text}");
            assert_eq!(exit_code(&error), 2, "{text}");
        }
        assert_eq!(Format::read("wide").unwrap().plain(), Some(Output::Wide));
    }
}
