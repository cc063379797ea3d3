//! The grammar of names, label keys and values, with the messages of apimachinery (specification/apiserver.md 7).

pub(crate) use ironclad_patch::names::{
    dns1035_label as dns_1035_label, dns1123_label as dns_label, dns1123_subdomain as dns_subdomain,
    label_key as qualified_name, label_value,
};

/// Validates a path segment, as names of RBAC objects are.
pub(crate) fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ['/', '%'].iter().filter(|c| text.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// Validates a key of a ConfigMap or Secret.
pub(crate) fn config_key(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 253 {
        out.push("must be no more than 253 bytes".into());
    }
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        out.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .into(),
        );
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
