//! Validation of security contexts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{names, status::Cause};

use super::{
    super::{
        fields::{at, list, quoted, text},
        formats::{supported, wrong},
    },
    volumes::relative,
};

const ID_MAX: i64 = i32::MAX as i64;
const SYSCTL_CHARS_MAX: usize = 253;
const GMSA_BYTES_MAX: usize = 64 * 1024;

fn id(context: &Value, key: &str, path: &str, out: &mut Vec<Cause>) {
    number(&context[key], &format!("{path}.{key}"), out);
}

fn number(value: &Value, field: &str, out: &mut Vec<Cause>) {
    if value.as_i64().is_some_and(|n| !(0..=ID_MAX).contains(&n)) {
        out.push(Cause::invalid(field, value, format!("must be between 0 and {ID_MAX}, inclusive")));
    }
}

/// Validates the security context of a pod.
pub(super) fn of_pod(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    let context = at(spec, "/securityContext");
    let path = &format!("{path}.securityContext");
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(context, key, path, out);
    }
    for (i, group) in list(context, "/supplementalGroups").iter().enumerate() {
        number(group, &format!("{path}.supplementalGroups[{i}]"), out);
    }
    if at(spec, "/shareProcessNamespace") == &json!(true) && at(spec, "/hostPID") == &json!(true) {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        out.push(Cause::invalid(format!("{path}.shareProcessNamespace"), &json!(true), why));
    }
    sysctls(spec, context, &format!("{path}.sysctls"), out);
    if let Some(policy) = context["fsGroupChangePolicy"].as_str() {
        supported(policy, &format!("{path}.fsGroupChangePolicy"), &["Always", "OnRootMismatch"], out);
    }
    seccomp(&context["seccompProfile"], &format!("{path}.seccompProfile"), out);
    windows(&context["windowsOptions"], &format!("{path}.windowsOptions"), out);
    app_armor(&context["appArmorProfile"], &format!("{path}.appArmorProfile"), out);
    if let Some(policy) = context["supplementalGroupsPolicy"].as_str() {
        supported(policy, &format!("{path}.supplementalGroupsPolicy"), &["Merge", "Strict"], out);
    }
    if let Some(policy) = context["seLinuxChangePolicy"].as_str() {
        supported(policy, &format!("{path}.seLinuxChangePolicy"), &["Recursive"], out);
    }
}

/// Settings of the kernel; those of a namespace that is the host's are the host's.
fn sysctls(spec: &Value, context: &Value, path: &str, out: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (i, sysctl) in list(context, "/sysctls").iter().enumerate() {
        let (name, field) = (text(sysctl, "/name"), format!("{path}[{i}].name"));
        if name.is_empty() {
            out.push(Cause::required(&field, ""));
        } else if !is_sysctl(name) {
            let why = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            wrong(&field, name, [why], out);
        } else if !seen.insert(name) {
            out.push(Cause::duplicate(&field, &json!(name)));
        }
        let dotted = name.replace('/', ".");
        let host = |key: &str| spec[key] == json!(true);
        if host("hostNetwork") && dotted.starts_with("net.") {
            wrong(&field, name, ["may not be specified when 'hostNetwork' is set to true"], out);
        }
        if host("hostIPC")
            && ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."].iter().any(|p| dotted.starts_with(p))
        {
            wrong(&field, name, ["may not be specified when 'hostIPC' is set to true"], out);
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.len() <= SYSCTL_CHARS_MAX
        && name.split(['.', '/']).all(|part| {
            let part = part.as_bytes();
            let ends = part.first().zip(part.last());
            ends.is_some_and(|(a, b)| alphanumeric(*a) && alphanumeric(*b))
                && part.iter().all(|b| alphanumeric(*b) || matches!(b, b'-' | b'_'))
        })
}

/// A file with a profile is named when, and only when, the profile is in one.
fn seccomp(profile: &Value, path: &str, out: &mut Vec<Cause>) {
    if !profile.is_object() {
        return;
    }
    let (kind, file) = (text(profile, "/type"), &profile["localhostProfile"]);
    let field = format!("{path}.localhostProfile");
    if kind == "Localhost" {
        match file.as_str() {
            None => out.push(Cause::required(field, "must be set when seccomp type is Localhost")),
            Some(file) => relative(file, &field, out),
        }
    } else if !file.is_null() {
        let quote = quoted(&[("Type", json!(kind)), ("LocalhostProfile", file.clone())]);
        out.push(Cause::invalid_quoted(field, &quote, "can only be set when seccomp type is Localhost"));
    }
    match kind {
        "" => out.push(Cause::required(format!("{path}.type"), "type is required when seccompProfile is set")),
        kind => supported(kind, &format!("{path}.type"), &["Localhost", "RuntimeDefault", "Unconfined"], out),
    }
}

fn app_armor(profile: &Value, path: &str, out: &mut Vec<Cause>) {
    if !profile.is_object() {
        return;
    }
    let (kind, name) = (text(profile, "/type"), &profile["localhostProfile"]);
    let field = format!("{path}.localhostProfile");
    match (kind, name.as_str()) {
        ("Localhost", None) => out.push(Cause::required(field, "must be set when AppArmor type is Localhost")),
        ("Localhost", Some(name)) if name.trim() != name => {
            wrong(&field, name, ["must not be padded with whitespace"], out);
        }
        ("Localhost", Some("")) => out.push(Cause::required(field, "must be set when AppArmor type is Localhost")),
        ("Localhost", _) => {}
        (_, Some(_)) => {
            out.push(Cause::invalid(field, name, "can only be set when AppArmor type is Localhost"));
        }
        _ => {}
    }
    match kind {
        "" => out.push(Cause::required(format!("{path}.type"), "type is required when appArmorProfile is set")),
        kind => supported(kind, &format!("{path}.type"), &["Localhost", "RuntimeDefault", "Unconfined"], out),
    }
}

fn windows(options: &Value, path: &str, out: &mut Vec<Cause>) {
    if let Some(name) = options["gmsaCredentialSpecName"].as_str() {
        wrong(&format!("{path}.gmsaCredentialSpecName"), name, names::dns_subdomain(name), out);
    }
    match options["gmsaCredentialSpec"].as_str() {
        Some("") => {
            wrong(&format!("{path}.gmsaCredentialSpec"), "", ["gmsaCredentialSpec cannot be an empty string"], out);
        }
        Some(text) if text.len() > GMSA_BYTES_MAX => {
            let why = format!("gmsaCredentialSpec size must be under {} KiB", GMSA_BYTES_MAX / 1024);
            wrong(&format!("{path}.gmsaCredentialSpec"), text, [why], out);
        }
        _ => {}
    }
    if options["runAsUserName"] == json!("") {
        wrong(&format!("{path}.runAsUserName"), "", ["runAsUserName cannot be an empty string"], out);
    }
}

/// Validates the security context of a container.
pub(super) fn of_container(spec: &Value, context: &Value, path: &str, out: &mut Vec<Cause>) {
    if !context.is_object() {
        return;
    }
    id(context, "runAsUser", path, out);
    id(context, "runAsGroup", path, out);
    if let Some(mount) = context["procMount"].as_str() {
        let field = format!("{path}.procMount");
        supported(mount, &field, &["Default", "Unmasked"], out);
        if mount == "Unmasked" && at(spec, "/hostUsers") != &json!(false) {
            wrong(&field, mount, ["`hostUsers` must be false to use `Unmasked`"], out);
        }
    }
    seccomp(&context["seccompProfile"], &format!("{path}.seccompProfile"), out);
    if context["allowPrivilegeEscalation"] == json!(false) {
        if context["privileged"] == json!(true) {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            out.push(Cause::invalid_quoted(path, &quote(context), why));
        }
        if list(context, "/capabilities/add").iter().any(|c| c == "CAP_SYS_ADMIN") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            out.push(Cause::invalid_quoted(path, &quote(context), why));
        }
    }
    windows(&context["windowsOptions"], &format!("{path}.windowsOptions"), out);
    app_armor(&context["appArmorProfile"], &format!("{path}.appArmorProfile"), out);
}

/// A context with the names and in the order of Go's structure.
fn quote(context: &Value) -> String {
    let inner = |key: &str, members: &[(&str, &str)]| match &context[key] {
        Value::Object(map) => {
            let value = |key: &&str| map.get(*key).cloned().unwrap_or_default();
            quoted(&members.iter().map(|(name, key)| (*name, value(key))).collect::<Vec<_>>())
        }
        _ => "null".to_owned(),
    };
    let plain = |key: &str| context[key].to_string();
    let members = [
        ("Capabilities", inner("capabilities", &[("Add", "add"), ("Drop", "drop")])),
        ("Privileged", plain("privileged")),
        (
            "SELinuxOptions",
            inner("seLinuxOptions", &[("User", "user"), ("Role", "role"), ("Type", "type"), ("Level", "level")]),
        ),
        (
            "WindowsOptions",
            inner(
                "windowsOptions",
                &[
                    ("GMSACredentialSpecName", "gmsaCredentialSpecName"),
                    ("GMSACredentialSpec", "gmsaCredentialSpec"),
                    ("RunAsUserName", "runAsUserName"),
                    ("HostProcess", "hostProcess"),
                ],
            ),
        ),
        ("RunAsUser", plain("runAsUser")),
        ("RunAsGroup", plain("runAsGroup")),
        ("RunAsNonRoot", plain("runAsNonRoot")),
        ("ReadOnlyRootFilesystem", plain("readOnlyRootFilesystem")),
        ("AllowPrivilegeEscalation", plain("allowPrivilegeEscalation")),
        ("ProcMount", plain("procMount")),
        ("SeccompProfile", inner("seccompProfile", &[("Type", "type"), ("LocalhostProfile", "localhostProfile")])),
        ("AppArmorProfile", inner("appArmorProfile", &[("Type", "type"), ("LocalhostProfile", "localhostProfile")])),
    ];
    let members: Vec<String> = members.iter().map(|(name, text)| format!("{name:?}:{text}")).collect();
    format!("{{{}}}", members.join(","))
}

/// A Windows pod runs as processes of its host with all its containers, and in the host's network.
pub(super) fn host_processes(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    let is_host = |context: &Value| at(context, "/windowsOptions/hostProcess").as_bool();
    let of_pod = is_host(at(spec, "/securityContext"));
    let (mut all, mut host) = (0_usize, 0_usize);
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for (i, container) in list(spec, &format!("/{kind}")).iter().enumerate() {
            let own = is_host(at(container, "/securityContext"));
            if let (Some(of_pod), Some(own)) = (of_pod, own)
                && of_pod != own
            {
                let field = format!("{path}.{kind}[{i}].securityContext.windowsOptions.hostProcess");
                let why = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
                out.push(Cause::invalid(field, &json!(own), why));
            }
            all += 1;
            host += usize::from(own.or(of_pod) == Some(true));
        }
    }
    if host == 0 {
        return;
    }
    if host != all {
        let why = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        wrong(path, "", [why], out);
    }
    if spec["hostNetwork"] != json!(true) {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        out.push(Cause::invalid(format!("{path}.hostNetwork"), &json!(false), why));
    }
}

/// A pod with users of its own shares no namespace of its host.
pub(super) fn host_users(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    if at(spec, "/hostUsers") != &json!(false) {
        return;
    }
    // Two of the three are named as Go names them.
    for (key, name) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec[key] == json!(true) {
            out.push(Cause::forbidden(format!("{path}.{name}"), "when `hostUsers` is false"));
        }
    }
}

/// Refuses fields that Windows does not support.
pub(super) fn on_windows(spec: &Value, path: &str, out: &mut Vec<Cause>) {
    const OF_POD: [&str; 9] = [
        "seLinuxOptions", "seccompProfile", "appArmorProfile", "fsGroup", "fsGroupChangePolicy", "sysctls",
        "runAsUser", "runAsGroup", "supplementalGroups",
    ];
    const OF_CONTAINER: [&str; 10] = [
        "seLinuxOptions", "seccompProfile", "appArmorProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
        "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
    ];
    let mut forbid = |field: String| out.push(Cause::forbidden(field, "cannot be set for a windows pod"));
    for key in ["hostPID", "hostIPC"].iter().filter(|key| spec[**key] == json!(true)) {
        forbid(format!("{path}.{key}"));
    }
    for key in OF_POD.iter().filter(|key| !at(spec, "/securityContext")[**key].is_null()) {
        forbid(format!("{path}.securityContext.{key}"));
    }
    for kind in ["containers", "initContainers"] {
        for (i, container) in list(spec, &format!("/{kind}")).iter().enumerate() {
            let context = at(container, "/securityContext");
            for key in OF_CONTAINER.iter().filter(|key| !context[**key].is_null()) {
                forbid(format!("{path}.{kind}[{i}].securityContext.{key}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctl_names() {
        for (name, good) in
            [("kernel.shm", true), ("net/ipv4/a_b", true), ("Bad_", false), ("a..b", false), ("-a", false)]
        {
            assert_eq!(is_sysctl(name), good, "{name}");
        }
    }

    #[test]
    fn exclusive_settings_are_refused() {
        let messages = |spec: Value| {
            let mut out = Vec::new();
            of_pod(&spec, "spec", &mut out);
            host_users(&spec, "spec", &mut out);
            out.into_iter().map(|c| c.field).collect::<Vec<_>>()
        };
        let sysctl = json!({"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]});
        for (spec, want) in [
            (json!({"securityContext": sysctl}), vec![]),
            (json!({"securityContext": sysctl, "hostNetwork": true}), vec!["spec.securityContext.sysctls[0].name"]),
            (json!({"hostUsers": false, "hostPID": true}), vec!["spec.HostPID"]),
            (json!({"hostUsers": true, "hostPID": true}), vec![]),
        ] {
            assert_eq!(messages(spec.clone()), want, "{spec}");
        }
    }
}
