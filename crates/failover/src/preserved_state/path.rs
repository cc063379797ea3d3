//! Template of a preserved value: text with paths in braces, all of which must be found.

pub use ironclad_jsonpath::PathError;
use ironclad_jsonpath::{Missing, Rules, Template};
use serde_json::Value;

/// Bytes of a template that are read.
const TEMPLATE_MAX: usize = 1_024;
/// A missing value is an error: a label without it would mislead the new copy.
const RULES: Rules = Rules { missing: Missing::Refused, found_max: 10_000 };

/// A template that was read. It repeats nothing: that makes no sense in the value of a label.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath(Template);

impl JsonPath {
    /// Reads a template.
    ///
    /// # Errors
    /// If it has no braces, or their content is invalid.
    pub fn parse(template: &str) -> Result<Self, PathError> {
        if template.len() > TEMPLATE_MAX {
            return Err(PathError::TooLong(TEMPLATE_MAX));
        }
        if !template.contains('{') {
            return Err(PathError::NoBraces);
        }
        if let Some(empty) = ["{}", "{ }"].into_iter().find(|empty| template.contains(empty)) {
            return Err(PathError::Syntax(empty.to_owned()));
        }
        let read = Template::parse(template)?;
        if read.has_ranges() {
            return Err(PathError::Syntax("range".to_owned()));
        }
        Ok(Self(read))
    }

    /// The text of the template with what its paths select; several values are parted by blanks.
    ///
    /// # Errors
    /// If a path selects nothing.
    pub fn render(&self, value: &Value) -> Result<String, PathError> {
        self.0.render(value, RULES)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_select_one_value() {
        let status = json!({
            "a": {"b": "c", "x.y": 1}, "list": [{"n": "p", "v": 1}, {"n": "q", "v": 2}, {"n": "r", "v": 3}], "t": true,
            "deep": {"id": "d1", "more": {"id": "d2"}}, "object": {"k": 1},
        });
        for (template, want) in [
            ("{.a.b}", Ok("c")),
            ("{ .a.b }", Ok("c")),
            ("{$.a.b}", Ok("c")),
            ("{@.a.b}", Ok("c")),
            ("{.a['b']}", Ok("c")),
            ("{.a[\"x.y\"]}", Ok("1")),
            ("{.a.x\\.y}", Ok("1")),
            ("{['a']['b']}", Ok("c")),
            ("v-{.a.b}-{.t}", Ok("v-c-true")),
            ("{\"text\"}", Ok("text")),
            ("{.list[0].n}", Ok("p")),
            ("{.list[-1].n}", Ok("r")),
            ("{.list[0:2].n}", Ok("p q")),
            ("{.list[::2].n}", Ok("p r")),
            ("{.list[0,2].n}", Ok("p r")),
            ("{.list[*].v}", Ok("1 2 3")),
            ("{.list.*.v}", Ok("1 2 3")),
            ("{.list[?(@.n==\"q\")].v}", Ok("2")),
            ("{.list[?(@.v>=2)].n}", Ok("q r")),
            ("{.list[?(@.v<2)].n}", Ok("p")),
            ("{.list[?(@.n!='q')].v}", Ok("1 3")),
            ("{.list[?(@.w)].n}", Err("n is not found")),
            ("{..id}", Ok("d1 d2")),
            ("{.object}", Ok("{\"k\":1}")),
            ("{.nope}", Err("nope is not found")),
            ("{.a.b.c}", Err("c is not found")),
            ("{.list[7].n}", Err("[7] is not found")),
            (".a.b", Err("a path is written in braces, as {.field}")),
            ("", Err("a path is written in braces, as {.field}")),
            ("{.a", Err("unclosed action")),
            ("{}", Err("\"{}\" can't be read")),
            ("{a.b}", Err("\"a.b\" can't be read")),
            ("{.a[}", Err("unclosed action")),
            ("{.a..}", Err("\".a..\" can't be read")),
            ("{range .list[*]}", Err("\"range\" can't be read")),
            ("{.list[1:0:0]}", Err("\".list[1:0:0]\" can't be read")),
        ] {
            let got = JsonPath::parse(template).and_then(|path| path.render(&status));
            let got = got.map_err(|error| error.to_string());
            assert_eq!(got, want.map(ToOwned::to_owned).map_err(ToOwned::to_owned), "{template}");
        }
        let long = format!("{{.{}}}", "x".repeat(TEMPLATE_MAX));
        assert_eq!(JsonPath::parse(&long), Err(PathError::TooLong(TEMPLATE_MAX)));
    }
}
