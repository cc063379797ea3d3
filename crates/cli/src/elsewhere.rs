//! Verbs of karmadactl that this program does not have, each with what to use instead.

/// Verbs, with advice for each. The page about migration has the same table.
pub const ELSEWHERE: [(&[&str], &str); 3] = [
    (
        &["init"],
        "ironclad up, or ironclad manifests and kubectl apply, or ironclad run with a kube-apiserver of your own",
    ),
    (
        &["deinit"],
        "ironclad unjoin of each cluster; then delete what ironclad manifests printed, or stop ironclad up and delete its \
         data directory, or stop ironclad run and delete the CRDs",
    ),
    (&["addons"], "--controllers and --feature-gates of ironclad up and ironclad run; search is not built yet"),
];

/// Advice on a verb of karmadactl that this program does not have; `None` for any other word.
#[must_use]
pub fn instead(verb: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(verbs, _)| verbs.contains(&verb)).map(|(_, what)| *what)
}

/// The rows of a table of verbs.
#[must_use]
pub fn rows() -> String {
    let row = |(verbs, what): &(&[&str], &str)| {
        let verbs: Vec<String> = verbs.iter().map(|verb| format!("`{verb}`")).collect();
        format!("| {} | {what} |\n", verbs.join(", "))
    };
    ELSEWHERE.iter().map(row).collect()
}
