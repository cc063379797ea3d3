//! Masks values that always differ: uids, times, revisions, ports, the scenario's namespace.

use std::{collections::BTreeMap, sync::LazyLock};

use anyhow::Context as _;
use regex::{Captures, Regex};
use serde_json::Value;

use crate::numbers::{Numbers, replace_uids, without_times};

/// Values that one server has shown in one scenario: the same uid or revision is always masked by the same text.
#[derive(Debug, Clone)]
pub struct Masks {
    namespace: String,
    own: Vec<(Regex, String)>,
    uids: Numbers,
    addresses: Numbers,
    ports: Numbers,
    /// Revisions in order of appearance, by masked uid.
    revisions: BTreeMap<String, Vec<String>>,
}

struct Common {
    address: Regex,
    rest: Vec<(Regex, &'static str)>,
}

static COMMON: LazyLock<Common> = LazyLock::new(|| {
    let regex = |text: &str| Regex::new(text).expect("the pattern is constant and a test runs it");
    Common {
        address: regex(r"\b10\.96\.\d+\.\d+\b"),
        rest: vec![
            (regex(r"127\.0\.0\.1:\d+"), "<host>"),
            (regex(r"current: \d+"), "current: <revision>"),
            (regex(r"in record \(\d+\)"), "in record (<revision>)"),
            (regex(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----\n?"), "<certificate>"),
            (regex(r"hash=[0-9A-Fa-f]{32,}"), "hash=<hash>"),
        ],
    }
});
static AGE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\d+(ms|s|m|h))+$").expect("the pattern is constant and a test runs it"));

impl Masks {
    /// Creates the masks of a scenario in this namespace, with its own patterns.
    pub fn new(namespace: &str, own: &[(String, String)]) -> anyhow::Result<Self> {
        let own = own
            .iter()
            .map(|(pattern, with)| Ok((Regex::new(pattern).with_context(|| pattern.clone())?, with.clone())))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            namespace: namespace.to_owned(),
            own,
            uids: Numbers::default(),
            addresses: Numbers::default(),
            ports: Numbers::default(),
            revisions: BTreeMap::new(),
        })
    }

    pub fn text(&mut self, text: &str) -> String {
        let mut text = text.replace(&self.namespace, "$ns");
        text = replace_uids(&text, |uid| format!("<uid {}>", self.uids.of(uid)));
        let address = |ip: &Captures<'_>| format!("<ip {}>", self.addresses.of(&ip[0]));
        text = without_times(&COMMON.address.replace_all(&text, address));
        for (pattern, with) in &COMMON.rest {
            text = pattern.replace_all(&text, *with).into_owned();
        }
        for (pattern, with) in &self.own {
            text = pattern.replace_all(&text, with.as_str()).into_owned();
        }
        text
    }

    pub fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let uid = map.get("uid").and_then(Value::as_str).map(|u| self.text(u));
                let mut out = serde_json::Map::new();
                for (key, value) in map {
                    let masked = match (key.as_str(), value) {
                        ("resourceVersion", Value::String(revision)) => {
                            Value::String(self.revision(revision, uid.as_deref()))
                        }
                        ("continue", Value::String(token)) if !token.is_empty() => "<continue>".into(),
                        ("nodePort" | "healthCheckNodePort", Value::Number(port)) => {
                            format!("<port {}>", self.ports.of(&port.to_string())).into()
                        }
                        // Entries are sorted by seconds, which differ between servers.
                        ("managedFields", Value::Array(entries)) => {
                            let mut entries: Vec<Value> = entries.iter().map(|e| self.value(e)).collect();
                            entries.sort_by_key(Value::to_string);
                            Value::Array(entries)
                        }
                        ("cells", Value::Array(cells)) => cells.iter().map(|c| self.cell(c)).collect(),
                        _ => self.value(value),
                    };
                    let key = self.text(key);
                    out.insert(key, masked);
                }
                Value::Object(out)
            }
            Value::Array(list) => list.iter().map(|v| self.value(v)).collect(),
            Value::String(text) => Value::String(self.text(text)),
            other => other.clone(),
        }
    }

    fn cell(&mut self, cell: &Value) -> Value {
        match cell {
            Value::String(text) if AGE.is_match(text) => "<age>".into(),
            other => self.value(other),
        }
    }

    /// Masks the revision of an object by its number of appearance, and that of a list by a constant.
    fn revision(&mut self, revision: &str, uid: Option<&str>) -> String {
        if matches!(revision, "" | "0") {
            return revision.to_owned();
        }
        let Some(uid) = uid.filter(|u| !u.is_empty()) else { return "<revision>".to_owned() };
        let seen = self.revisions.entry(uid.to_owned()).or_default();
        if let Some(at) = seen.iter().position(|r| r == revision) {
            return format!("<revision {at}>");
        }
        let number = |text: &str| text.parse::<u64>().unwrap_or_default();
        let back = seen.iter().any(|r| number(r) > number(revision));
        seen.push(revision.to_owned());
        format!("<revision {}{}>", seen.len() - 1, if back { " going back" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn uids_times_revisions_and_ports_are_masked() {
        let mut masks = Masks::new("create-x1", &[("gen-[a-z]+".into(), "gen-X".into())]).unwrap();
        let uid = |n| format!("{n}0000000-0000-0000-0000-000000000000");
        let object = |n, revision| json!({"metadata": {"uid": uid(n), "resourceVersion": revision}});
        for (value, want) in [
            (json!("in create-x1"), json!("in $ns")),
            (json!({"create-x1": "gen-abc"}), json!({"$ns": "gen-X"})),
            (object(1, "10"), json!({"metadata": {"uid": "<uid 1>", "resourceVersion": "<revision 0>"}})),
            (object(2, "11"), json!({"metadata": {"uid": "<uid 2>", "resourceVersion": "<revision 0>"}})),
            (object(1, "12"), json!({"metadata": {"uid": "<uid 1>", "resourceVersion": "<revision 1>"}})),
            (object(1, "10"), json!({"metadata": {"uid": "<uid 1>", "resourceVersion": "<revision 0>"}})),
            (object(1, "9"), json!({"metadata": {"uid": "<uid 1>", "resourceVersion": "<revision 2 going back>"}})),
            (
                json!({"resourceVersion": "5", "continue": "abc"}),
                json!({"resourceVersion": "<revision>", "continue": "<continue>"}),
            ),
            (json!({"resourceVersion": "0", "continue": ""}), json!({"resourceVersion": "0", "continue": ""})),
            (json!("2026-01-01T00:00:00Z at 127.0.0.1:42 and 10.96.3.4"), json!("<time> at <host> and <ip 1>")),
            (json!(["10.96.0.9", "10.96.3.4"]), json!(["<ip 2>", "<ip 1>"])),
            (json!("2026-01-01T00:00:00.123456Z"), json!("<time.6>")),
            (json!({"cells": ["a", "12s", "3m12s", 4]}), json!({"cells": ["a", "<age>", "<age>", 4]})),
            (
                json!([{"nodePort": 30123}, {"nodePort": 30200}]),
                json!([{"nodePort": "<port 1>"}, {"nodePort": "<port 2>"}]),
            ),
            (json!({"healthCheckNodePort": 30123}), json!({"healthCheckNodePort": "<port 1>"})),
        ] {
            assert_eq!(masks.value(&value), want, "{value}");
        }
    }
}
