//! Syntax of names, label keys and label values, with Kubernetes' messages (specification/apiserver.md 7).
//!
//! Each function returns the mistakes of a text; an empty list means that it is valid.

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// Maximum bytes of a name.
pub const SUBDOMAIN_BYTES_MAX: usize = 253;

/// Maximum bytes of a label value, of the name part of a label key, and of a DNS label.
pub const LABEL_BYTES_MAX: usize = 63;

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn form(message: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

fn is_label(text: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}

fn is_qualified(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// Mistakes of a DNS-1123 label: namespaces, containers, ports.
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_BYTES_MAX {
        errors.push(format!("must be no more than {LABEL_BYTES_MAX} characters"));
    }
    if !is_label(text) {
        if is_subdomain(text) {
            errors.push("must not contain dots".to_owned());
        } else {
            let message = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
            errors.push(form(message, LABEL, &["my-name", "123-abc"]));
        }
    }
    errors
}

/// Mistakes of a DNS-1123 subdomain: most names.
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_BYTES_MAX {
        errors.push(format!("must be no more than {SUBDOMAIN_BYTES_MAX} characters"));
    }
    if !is_subdomain(text) {
        let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
        errors.push(form(message, &format!("{LABEL}(\\.{LABEL})*"), &["example.com"]));
    }
    errors
}

/// Mistakes of a DNS-1035 label: kinds in lower case.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_BYTES_MAX {
        errors.push(too_long(LABEL_BYTES_MAX));
    }
    if !is_label(text) || text.starts_with(|c: char| c.is_ascii_digit()) {
        let message = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
        errors.push(form(message, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    errors
}

/// Mistakes of a label or annotation key, `[prefix/]name`.
pub fn label_key(text: &str) -> Vec<String> {
    let message = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let name_form = || form(message, QUALIFIED, &["MyName", "my.name", "123-abc"]);
    let mut errors = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(dns1123_subdomain(prefix).into_iter().map(|error| format!("prefix part {error}")));
            }
            *name
        }
        _ => {
            let with = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {} {with}", name_form())];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_BYTES_MAX {
        errors.push(format!("name part {}", too_long(LABEL_BYTES_MAX)));
    }
    if !is_qualified(name) {
        errors.push(format!("name part {}", name_form()));
    }
    errors
}

/// Mistakes of a label value.
pub fn label_value(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_BYTES_MAX {
        errors.push(too_long(LABEL_BYTES_MAX));
    }
    if !text.is_empty() && !is_qualified(text) {
        let message = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
        errors.push(form(message, &format!("({QUALIFIED})?"), &["MyValue", "my_value", "12345"]));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_and_bad_names() {
        let long = "a".repeat(64);
        type Case<'t> = (&'t str, fn(&str) -> Vec<String>, &'t [&'t str], &'t [&'t str]);
        let checks: [Case<'_>; 5] = [
            ("label", dns1123_label, &["a", "1-a"], &["", "a.b", "A", "-a", "a-", &long]),
            ("subdomain", dns1123_subdomain, &["a", "a.b-c", "1"], &["", "a..b", ".a", "A", "a_b"]),
            ("1035", dns1035_label, &["a", "a1"], &["", "1a", "a."]),
            ("key", label_key, &["a", "A.b_c", "x.io/a"], &["", "/a", "x/", "X/a", "a/b/c", "-a", &long]),
            ("value", label_value, &["", "a", "A.b_c-1"], &["-", "a/b", "a b", &long]),
        ];
        for (name, check, good, bad) in checks {
            for text in good {
                assert_eq!(check(text), [""; 0], "{name} {text:?}");
            }
            for text in bad {
                assert!(!check(text).is_empty(), "{name} {text:?}");
            }
        }
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(
            label_value("a b"),
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
              and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation \
              is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        );
    }
}
