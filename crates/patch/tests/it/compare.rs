//! Comparison of our object with the server's.

use serde_json::Value;

/// Members that the server defaults after a write: its answer may have them and ours not.
const DEFAULTED: [&str; 26] = [
    "clusterIPs", "defaultMode", "dnsPolicy", "generation", "imagePullPolicy", "internalTrafficPolicy", "ipFamilies",
    "ipFamilyPolicy", "namespace", "paused", "progressDeadlineSeconds", "protocol", "replicas", "restartPolicy",
    "revisionHistoryLimit", "rollingUpdate", "schedulerName", "securityContext", "sessionAffinity", "strategy",
    "targetPort", "terminationGracePeriodSeconds", "terminationMessagePath", "terminationMessagePolicy", "type", "uid",
];

/// Returns `true` if both are equal, except for [`DEFAULTED`] members that only the server's has.
pub(crate) fn same(ours: &Value, theirs: &Value, path: &str) -> Result<(), String> {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            for (name, value) in a {
                let other = b.get(name).ok_or_else(|| format!("{path}.{name}: the server has none, we {value}"))?;
                let defaulted =
                    DEFAULTED.contains(&name.as_str()) && (value == "" || value == 0 || name == "generation");
                if !defaulted {
                    same(value, other, &format!("{path}.{name}"))?;
                }
            }
            match b.iter().find(|(name, _)| !a.contains_key(*name) && !DEFAULTED.contains(&name.as_str())) {
                Some((name, value)) => Err(format!("{path}.{name}: we have none, the server {value}")),
                None => Ok(()),
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().try_for_each(|(i, (a, b))| same(a, b, &format!("{path}[{i}]")))
        }
        _ if ours == theirs => Ok(()),
        _ => Err(format!("{path}: we say {ours}, the server {theirs}")),
    }
}
