//! Masks for values of a transcript that differ from run to run.

use serde_json::Value;

use crate::numbers::{Numbers, replace_uids, without_times};

/// Masks of one transcript: the same uid is masked by the same text, so that links between objects show.
#[derive(Debug)]
pub(super) enum Masks {
    /// `<uid-1>`, `<uid-2>`, … in order of appearance.
    Numbered(Numbers),
    /// `<uid>` for all: a disturbed run may draw other ids and reach the same final state.
    Same,
}

impl Masks {
    /// The text without its uids and times.
    pub(super) fn text(&mut self, text: &str) -> String {
        let text = replace_uids(text, |uid| match self {
            Self::Numbered(numbers) => format!("<uid-{}>", numbers.of(uid)),
            Self::Same => "<uid>".to_owned(),
        });
        without_times(&text)
    }

    pub(super) fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(fields) => {
                // The first of its two fingerprints covers the template with its ids; the second covers the user's
                // fields.
                if let Some(Value::String(text)) = fields.get_mut("policy.ironclad.io/applied-template")
                    && let Some((_, users)) = text.split_once('.')
                {
                    *text = format!("<whole>.{users}");
                }
                if let Some(revision) = fields.get_mut("resourceVersion") {
                    *revision = "<resourceVersion>".into();
                }
                fields.values_mut().for_each(|field| self.value(field));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn uids_are_numbered_in_order_of_appearance_so_that_links_show() {
        let uid = |n: u8| format!("{n}0000000-0000-0000-0000-000000000000");
        let mut masks = Masks::Numbered(Numbers::default());
        let mut value = json!({
            "owner": {"uid": uid(1), "resourceVersion": "7"},
            "labels": [uid(2), uid(1), format!("{{\"id\":\"{}\"}}", uid(2))],
            "at": "2026-01-01T00:00:00Z",
        });
        masks.value(&mut value);
        let want = json!({
            "at": "<time>",
            "labels": ["<uid-1>", "<uid-2>", "{\"id\":\"<uid-1>\"}"],
            "owner": {"uid": "<uid-2>", "resourceVersion": "<resourceVersion>"},
        });
        assert_eq!(value, want);
        assert_eq!(masks.text(&format!("id {}, again", uid(3))), "id <uid-3>, again");
        assert_eq!(Masks::Same.text(&uid(3)), "<uid>");
    }
}
