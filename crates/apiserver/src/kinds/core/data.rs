//! Rules about the data of ConfigMaps and Secrets.

use serde_json::{Value, json};

use crate::{kinds::shared::fields::at, names, status::Cause};

/// All keys and values together.
pub(super) const DATA_BYTES_MAX: usize = 1024 * 1024;

pub(super) fn validate_keys(object: &Value, field: &str, out: &mut Vec<Cause>) -> usize {
    let mut bytes = 0;
    for (key, value) in at(object, &format!("/{field}")).as_object().into_iter().flatten() {
        let messages = names::config_key(key);
        out.extend(messages.iter().map(|m| Cause::invalid(format!("{field}[{key}]"), &json!(key), m)));
        bytes += value.as_str().map_or(0, str::len);
    }
    bytes
}

/// `immutable` once true stays true, and so does the data.
pub(super) fn validate_immutable(object: &Value, old: Option<&Value>, fields: &[&str], out: &mut Vec<Cause>) {
    const WHY: &str = "field is immutable when `immutable` is set";
    let Some(old) = old.filter(|o| at(o, "/immutable") == &json!(true)) else { return };
    if at(object, "/immutable") != &json!(true) {
        out.push(Cause::forbidden("immutable", WHY));
    }
    for field in fields {
        let pointer = format!("/{field}");
        if at(object, &pointer) != at(old, &pointer) {
            out.push(Cause::forbidden(*field, WHY));
        }
    }
}
