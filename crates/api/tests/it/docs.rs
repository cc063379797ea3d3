//! The page about the API for users has all kinds, as the CRDs are.
//!
//! `UPDATE_GOLDENS=1 cargo test -p ironclad-api docs` writes its table.

use std::{fmt::Write as _, fs, path::PathBuf};

use ironclad_api::crds;

const BEGIN: &str = "<!-- kinds: written by UPDATE_GOLDENS=1 cargo test -p ironclad-api docs -->\n";
const END: &str = "<!-- end of kinds -->\n";

fn kinds() -> String {
    let mut all = crds::crds();
    all.push(crds::simulated_cluster_crd());
    all.sort_by_key(|crd| (crd.spec.group.clone(), crd.spec.names.kind.clone()));
    let mut text =
        "\n| group | kind | short | scope | versions | what it is |\n| --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    for crd in all {
        let versions = crd.spec.versions.iter().map(|version| {
            let marks = match (version.storage, version.served) {
                (true, _) => "",
                (false, true) => " (not stored)",
                (false, false) => " (not served)",
            };
            format!("{}{marks}", version.name)
        });
        let stored = crd.spec.versions.iter().find(|version| version.storage).expect("one version is stored");
        let schema = stored.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
        let what = schema.and_then(|schema| schema.description.as_deref()).unwrap_or_default();
        let what = what.split("\n\n").next().unwrap_or_default().replace('\n', " ");
        let names = &crd.spec.names;
        let short = names.short_names.clone().unwrap_or_default().join(", ");
        let versions = versions.collect::<Vec<_>>().join(", ");
        writeln!(
            text,
            "| `{}` | {} | {short} | {} | {versions} | {what} |",
            crd.spec.group, names.kind, crd.spec.scope
        )
        .expect("a text takes all");
    }
    text + "\n"
}

#[test]
fn every_kind_is_on_the_page() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/api.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the mark where kinds begin");
    let (written, after) = rest.split_once(END).expect("the mark where they end");
    let want = kinds();
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{want}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(written, want, "UPDATE_GOLDENS=1 writes it");
}
