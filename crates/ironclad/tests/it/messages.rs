use crate::verb::ironclad;

#[tokio::test]
async fn errors_have_three_lines() {
    for (args, code, want) in [
        (
            &["join", "member1", "--cluster-kubeconfig", "/nonexistent/kubeconfig"][..],
            1,
            "error: kubeconfig /nonexistent/kubeconfig can't be read\n  because failed to read kubeconfig",
        ),
        (&["unjoin", "member1"], 1, "error: no kubeconfig was found\n  because "),
        (&["join", "Member_1"], 1, "error: cluster name \"Member_1\" can't be used\n  because it has a character"),
        (&["unjoin", "member1", "--wait", "0"], 2, "error: --wait must be longer than 0"),
        (
            &["unjoin", "member1", "--wait", "soon"],
            2,
            "error: invalid value 'soon' for '--wait <DURATION>': \"soon\" is not a duration",
        ),
        (&["jion"], 2, "error: unrecognized subcommand 'jion'"),
        (&["version", "--log-filter", "=="], 2, "error: --log-filter \"==\" can't be used\n  because "),
    ] {
        let run = ironclad(args).await.unwrap();
        assert_eq!(run.code, Some(code), "{args:?}: {}", run.stderr);
        assert!(run.stderr.starts_with(want), "{args:?}: {}", run.stderr);
        assert_eq!(run.stdout, "", "{args:?}: nothing but results on stdout");
    }
}

#[tokio::test]
async fn definitions_and_versions_are_machine_readable() {
    let list = ironclad(["crds", "-o", "json"]).await.unwrap().done().unwrap();
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["kind"], "List");
    let documents = ironclad(["crds"]).await.unwrap().done().unwrap();
    assert_eq!(documents.matches("\n---\n").count() + 1, list["items"].as_array().unwrap().len());
    let version = ironclad(["version", "-o", "json"]).await.unwrap().done().unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&version).unwrap()["version"].is_string());
    assert!(ironclad(["completion", "bash"]).await.unwrap().done().unwrap().contains("_ironclad"));
}

#[tokio::test]
async fn a_mistake_in_the_flags_of_up_leaves_no_data_directory() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = folder.path().join("fleet.yaml");
    std::fs::write(&fleet, "kind: Cluster\nmetadata: {name: a}\n").unwrap();
    let (data, fleet) = (folder.path().join("data"), fleet.display().to_string());
    for (flags, want) in [
        (["--cpu", "8x"], "\"8x\" is not a quantity above 0"),
        (["--memory", "0"], "\"0\" is not a quantity above 0"),
        (["--fleet", &fleet], "it contains a \"Cluster\""),
        (["--fleet", "/nonexistent/fleet.yaml"], "reading /nonexistent/fleet.yaml"),
    ] {
        let args =
            ["up", "--listen", "127.0.0.1:0", "--metrics-bind-address", "0", "--data-dir", &data.display().to_string()];
        let run = ironclad([&args[..], &flags].concat()).await.unwrap();
        assert_ne!(run.code, Some(0), "{flags:?}");
        assert!(run.stderr.contains(want), "{flags:?}: {}", run.stderr);
        assert!(!data.exists(), "{flags:?}: the next start is a first one");
    }
}
