//! The grammar of names, label keys and values, with the messages of apimachinery (apiserver.md 7).

fn regex_error(message: &str, expression: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{expression}')", examples.join(" or "))
}

fn max_len(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn is_label(text: &str) -> bool {
    let edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(a), Some(z)) if edge(*a) && edge(*z))
        && bytes.iter().all(|b| edge(*b) || *b == b'-')
}

/// What is wrong with a DNS-1123 label.
pub(crate) fn dns_label(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 63 {
        out.push(max_len(63));
    }
    if !is_label(text) {
        if text.contains('.') && text.split('.').all(is_label) {
            out.push("must not contain dots".into());
        } else {
            out.push(regex_error(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
                &["my-name", "123-abc"],
            ));
        }
    }
    out
}

/// What is wrong with a DNS-1123 subdomain.
pub(crate) fn dns_subdomain(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 253 {
        out.push(max_len(253));
    }
    if !text.split('.').all(is_label) {
        out.push(regex_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    out
}

/// What is wrong with a segment of a path, as RBAC names are.
pub(crate) fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ['/', '%'].iter().filter(|c| text.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

fn is_qualified_part(text: &str) -> bool {
    let edge = |b: u8| b.is_ascii_alphanumeric();
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(a), Some(z)) if edge(*a) && edge(*z))
        && bytes.iter().all(|b| edge(*b) || matches!(b, b'-' | b'_' | b'.'))
}

/// What is wrong with a label key, annotation key or finalizer.
pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    const RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    const EXPRESSION: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
    let rule = || regex_error(RULE, EXPRESSION, &["MyName", "my.name", "123-abc"]);
    let mut out = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                out.push("prefix part must be non-empty".into());
            } else {
                out.extend(dns_subdomain(prefix).into_iter().map(|m| format!("prefix part {m}")));
            }
            *name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                rule()
            )];
        }
    };
    if name.is_empty() {
        out.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        out.push(format!("name part {}", max_len(63)));
    }
    if !is_qualified_part(name) {
        out.push(format!("name part {}", rule()));
    }
    out
}

/// What is wrong with a label value.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 63 {
        out.push(max_len(63));
    }
    if !text.is_empty() && !is_qualified_part(text) {
        out.push(regex_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    out
}

/// What is wrong with a key of a ConfigMap or Secret.
pub(crate) fn config_key(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 253 {
        out.push(max_len(253));
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        out.push(regex_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    } else if text == "." || text == ".." {
        out.push(format!("must not be '{text}'"));
    } else if text.starts_with("..") {
        out.push("must not start with '..'".into());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammar() {
        for (check, text, good) in [
            (dns_label as fn(&str) -> Vec<String>, "a-b", true),
            (dns_label, "-a", false),
            (dns_label, "a.b", false),
            (dns_subdomain, "a.b-c", true),
            (dns_subdomain, "a..b", false),
            (dns_subdomain, "A", false),
            (path_segment, "a:b", true),
            (path_segment, "a/b", false),
            (qualified_name, "x.io/a_B", true),
            (qualified_name, "/a", false),
            (qualified_name, "a/b/c", false),
            (label_value, "", true),
            (label_value, "a b", false),
            (config_key, "a.b_c-1", true),
            (config_key, "..a", false),
        ] {
            assert_eq!(check(text).is_empty(), good, "{text}");
        }
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
    }
}
