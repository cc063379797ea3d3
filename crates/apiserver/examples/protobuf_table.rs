//! Makes `data/protobuf.txt`, the table by which protobuf bodies are read, from the published `generated.proto` files
//! and their Go types:
//!
//! ```sh
//! cargo run -p ironclad-apiserver --example protobuf_table -- "$(go env GOMODCACHE)/k8s.io" v0.36.3 > crates/apiserver/data/protobuf.txt
//! ```
//!
//! A line `message NAME`, then one per field: `NUMBER NAME TYPE`, where TYPE is a scalar, a message's name, `[TYPE]`
//! for a list,
//! `{TYPE}` for a map from strings; `=` before the name marks a field whose members are the parent's in JSON.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Message, field number, name and type.
type Messages = BTreeMap<String, BTreeMap<u32, (String, String)>>;

const SOURCES: &[(&str, &[&str])] = &[
    (
        "api",
        &[
            "admissionregistration/v1",
            "apps/v1",
            "authentication/v1",
            "authorization/v1",
            "autoscaling/v1",
            "autoscaling/v2",
            "batch/v1",
            "certificates/v1",
            "coordination/v1",
            "core/v1",
            "discovery/v1",
            "events/v1",
            "flowcontrol/v1",
            "networking/v1",
            "node/v1",
            "policy/v1",
            "rbac/v1",
            "resource/v1",
            "scheduling/v1",
            "storage/v1",
        ],
    ),
    ("apimachinery", &["pkg/util/intstr", "pkg/runtime", "pkg/api/resource", "pkg/apis/meta/v1"]),
    ("apiextensions-apiserver", &["pkg/apis/apiextensions/v1"]),
    ("kube-aggregator", &["pkg/apis/apiregistration/v1"]),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(root), Some(version)) = (arguments.next(), arguments.next()) else {
        return Err("usage: protobuf_table <module cache>/k8s.io <version of the staging modules>".into());
    };
    let mut messages = Messages::new();
    let mut inlined = BTreeSet::new();
    for (module, packages) in SOURCES {
        for package in *packages {
            let dir = Path::new(&root).join(format!("{module}@{version}")).join(package);
            let name = format!("k8s.io.{}.{}", module.replace('-', "_"), package.replace('/', "."));
            read_proto(&name, &fs::read_to_string(dir.join("generated.proto"))?, &mut messages);
            for entry in fs::read_dir(&dir)? {
                let path = entry?.path();
                if path.extension().is_some_and(|e| e == "go") {
                    read_go(&name, &fs::read_to_string(path)?, &mut inlined);
                }
            }
        }
    }
    println!("# Made by examples/protobuf_table.rs from the generated.proto files of {version}.");
    for (message, fields) in &messages {
        println!("message {message}");
        for (number, (name, kind)) in fields {
            let mark = if inlined.contains(&(message.clone(), name.clone())) { "=" } else { "" };
            println!("{number} {mark}{name} {kind}");
        }
    }
    Ok(())
}

fn read_proto(package: &str, text: &str, out: &mut Messages) {
    let mut message = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("message ").and_then(|l| l.strip_suffix(" {")) {
            message = format!("{package}.{name}");
            out.entry(message.clone()).or_default();
        } else if line == "}" {
            message.clear();
        } else if let Some((left, number)) = line.strip_suffix(';').and_then(|l| l.rsplit_once(" = "))
            && !message.is_empty()
            && !line.starts_with("//")
        {
            let Ok(number) = number.parse() else { continue };
            let (kind, name) = left.rsplit_once(' ').expect("a field has a type and a name");
            let kind = match (kind.strip_prefix("optional "), kind.strip_prefix("repeated ")) {
                (Some(one), _) => qualify(package, one),
                (_, Some(many)) => format!("[{}]", qualify(package, many)),
                _ => match kind.strip_prefix("map<string, ").and_then(|k| k.strip_suffix('>')) {
                    Some(value) => format!("{{{}}}", qualify(package, value)),
                    None => continue,
                },
            };
            out.entry(message.clone()).or_default().insert(number, (name.to_owned(), kind));
        }
    }
}

fn qualify(package: &str, kind: &str) -> String {
    match kind {
        "string" | "bytes" | "bool" | "int32" | "int64" | "uint32" | "uint64" | "double" | "float" => kind.to_owned(),
        _ if kind.starts_with('.') => kind.trim_start_matches('.').to_owned(),
        _ if kind.contains('.') => kind.to_owned(),
        _ => format!("{package}.{kind}"),
    }
}

/// Fields that Go inlines in JSON although protobuf has a message for them.
fn read_go(package: &str, text: &str, out: &mut BTreeSet<(String, String)>) {
    let mut kind = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("type ").and_then(|l| l.strip_suffix(" struct {")) {
            kind = name;
        } else if line == "}" {
            kind = "";
        } else if !kind.is_empty() && line.contains("json:\",inline\"") && line.contains("protobuf:") {
            let name: String = match line.split_once("name=") {
                Some((_, rest)) => rest.chars().take_while(char::is_ascii_alphanumeric).collect(),
                // An embedded type: the field has its name, with a small letter.
                None => {
                    let mut letters = line.split_whitespace().next().unwrap_or_default().chars();
                    letters.next().map(|c| c.to_ascii_lowercase()).into_iter().chain(letters).collect()
                }
            };
            out.insert((format!("{package}.{kind}"), name));
        }
    }
}
