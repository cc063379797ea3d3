//! The software bill of materials, as CycloneDX 1.6: the product's own packages and all that they are built with.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};

/// The graph of packages, as `cargo metadata` prints it.
#[derive(Debug, Deserialize)]
pub(super) struct Graph {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for packages of the workspace.
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    /// `None` is what the program contains; otherwise `dev` or `build`.
    kind: Option<String>,
}

/// The bill of a package of the workspace. `lock` is Cargo.lock, whose checksums it repeats.
///
/// # Errors
/// If the graph lacks the package.
pub(super) fn bill(graph: &Graph, product: &str, lock: &str, created: &str) -> anyhow::Result<Value> {
    let packages: BTreeMap<&str, &Package> = graph.packages.iter().map(|one| (one.id.as_str(), one)).collect();
    let edges: BTreeMap<&str, Vec<&str>> =
        graph.resolve.nodes.iter().map(|node| (node.id.as_str(), contained(node))).collect();
    let own = graph.packages.iter().find(|one| one.name == product && one.source.is_none());
    let own = own.with_context(|| format!("cargo knows no package {product}"))?;
    let checksums = checksums(lock);
    let (mut seen, mut open) = (BTreeSet::from([own.id.as_str()]), vec![own.id.as_str()]);
    while let Some(id) = open.pop() {
        let below = edges.get(id).into_iter().flatten();
        open.extend(below.filter(|below| seen.insert(**below)));
    }
    let seen: Vec<&Package> = seen.iter().filter_map(|id| packages.get(id).copied()).collect();
    let mut components: Vec<(&str, Value)> = seen.iter().map(|one| (&*one.name, component(one, &checksums))).collect();
    components.sort_by(|one, other| (one.0, one.1["version"].as_str()).cmp(&(other.0, other.1["version"].as_str())));
    let depends = |one: &&Package| {
        let below = edges.get(one.id.as_str()).into_iter().flatten();
        let below: BTreeSet<String> = below.filter_map(|id| packages.get(id).map(|below| purl(below))).collect();
        json!({"ref": purl(one), "dependsOn": below})
    };
    let mut dependencies: Vec<Value> = seen.iter().map(depends).collect();
    dependencies.sort_by_key(|one| one["ref"].as_str().map(str::to_owned));
    let mut main = component(own, &checksums);
    main["type"] = "application".into();
    let components: Vec<Value> =
        components.into_iter().filter(|(name, _)| *name != product).map(|(_, one)| one).collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": created, "component": main},
        "components": components,
        "dependencies": dependencies,
    }))
}

/// Packages that end up in the program by this one.
fn contained(node: &Node) -> Vec<&str> {
    let is_contained = |edge: &&Edge| edge.dep_kinds.iter().any(|one| one.kind.is_none());
    node.deps.iter().filter(is_contained).map(|edge| edge.pkg.as_str()).collect()
}

fn purl(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

fn component(package: &Package, checksums: &BTreeMap<(&str, &str), &str>) -> Value {
    let Package { name, version, license, .. } = package;
    let mut component = json!({
        "type": "library", "bom-ref": purl(package), "name": name, "version": version, "purl": purl(package),
    });
    if let Some(licence) = license {
        component["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
    }
    if let Some(checksum) = checksums.get(&(name.as_str(), version.as_str())) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component
}

/// Checksums of a Cargo.lock, by name and version.
fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    let field = |block: &'_ str, name: &str| -> Option<(usize, usize)> {
        let start = block.find(&format!("\n{name} = \""))? + name.len() + 5;
        Some((start, start + block[start..].find('"')?))
    };
    let of_block = |block: &'_ str| {
        let places = ["name", "version", "checksum"].map(|name| field(block, name));
        let [Some(name), Some(version), Some(checksum)] = places else { return None };
        Some((name, version, checksum))
    };
    let blocks = lock.split("[[package]]").skip(1);
    blocks
        .filter_map(|block| {
            let (name, version, checksum) = of_block(block)?;
            Some(((&block[name.0..name.1], &block[version.0..version.1]), &block[checksum.0..checksum.1]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry\"\n\
                        checksum = \"aa\"\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n";

    fn graph() -> Graph {
        let package = |name: &str, version: &str, licence: &str, source: Option<&str>| json!({"id": format!("{name}@{version}"), "name": name, "version": version, "license": licence, "source": source});
        let edge = |id: &str, kind: Option<&str>| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        serde_json::from_value(json!({
            "packages": [
                package("own", "0.1.0", "Apache-2.0", None), package("a", "1.0.0", "MIT/Apache-2.0", Some("r")),
                package("b", "2.0.0", "MIT", Some("r")), package("for-tests", "1.0.0", "MIT", Some("r")),
                package("for-build", "1.0.0", "MIT", Some("r")), package("elsewhere", "1.0.0", "MIT", Some("r")),
            ],
            "resolve": {"nodes": [
                {"id": "own@0.1.0", "deps": [edge("a@1.0.0", None), edge("for-tests@1.0.0", Some("dev"))]},
                {"id": "a@1.0.0", "deps": [edge("b@2.0.0", None), edge("for-build@1.0.0", Some("build"))]},
                {"id": "b@2.0.0", "deps": []},
                {"id": "elsewhere@1.0.0", "deps": [edge("own@0.1.0", None)]},
            ]},
        }))
        .unwrap()
    }

    #[test]
    fn a_bill_has_what_the_program_contains() {
        let bill = bill(&graph(), "own", LOCK, "2023-11-14T22:13:20Z").unwrap();
        let names: Vec<&str> =
            bill["components"].as_array().unwrap().iter().filter_map(|c| c["name"].as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let a = &bill["components"][0];
        assert_eq!(a["purl"], "pkg:cargo/a@1.0.0");
        assert_eq!(a["licenses"], json!([{"expression": "MIT OR Apache-2.0"}]));
        assert_eq!(a["hashes"], json!([{"alg": "SHA-256", "content": "aa"}]));
        assert_eq!(bill["metadata"]["component"]["type"], "application");
        assert_eq!(
            bill["dependencies"],
            json!([
                {"ref": "pkg:cargo/a@1.0.0", "dependsOn": ["pkg:cargo/b@2.0.0"]},
                {"ref": "pkg:cargo/b@2.0.0", "dependsOn": []},
                {"ref": "pkg:cargo/own@0.1.0", "dependsOn": ["pkg:cargo/a@1.0.0"]},
            ])
        );
        assert!(super::bill(&graph(), "missing", LOCK, "").is_err());
    }
}
