//! Kubeconfig of `up`: a context for the control plane and one for each simulated member, beside those that others have
//! in the file.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{MetadataExt as _, chown},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use ironclad_apiserver::pki::{self, Context};
use parking_lot::Mutex;
use serde_json::Value;

use super::one::SimulatedMember;

const CURRENT: &str = "current-context: ";

/// The file.
pub(crate) struct KubeconfigFile {
    path: PathBuf,
    plane: Mutex<Context>,
    /// Content of the last write, and all contexts that were written: equal content is not written again.
    written: Mutex<(String, BTreeSet<String>)>,
}

impl KubeconfigFile {
    /// A file that is not written yet.
    pub(crate) fn new(path: PathBuf, plane: Context) -> Self {
        Self { path, plane: Mutex::new(plane), written: Mutex::default() }
    }

    /// The context of the control plane from the next write on.
    pub(super) fn set_plane(&self, plane: Context) {
        *self.plane.lock() = plane;
    }

    /// Writes the contexts of the control plane and of these members. Which of them is the current one stays.
    pub(super) fn write(&self, members: &[Arc<SimulatedMember>]) -> anyhow::Result<()> {
        let mut contexts = vec![self.plane.lock().clone()];
        contexts.extend(members.iter().map(|m| m.pki.admin_context(&m.name, &m.endpoint)));
        let (written, ours) = &mut *self.written.lock();
        ours.extend(contexts.iter().map(|context| context.name.clone()));
        // A link stays one.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let before = fs::read_to_string(&path).unwrap_or_default();
        let others = Others::of(&before, ours);
        let names: Vec<&str> =
            contexts.iter().map(|c| c.name.as_str()).chain(others.contexts.iter().filter_map(name_of)).collect();
        let text = keep_current(others.beside(&pki::kubeconfig(&contexts)), &before, &names);
        if *written == text {
            return Ok(());
        }
        let owner = fs::metadata(&path).ok();
        pki::write_private(&path, text.as_bytes()).with_context(|| {
            format!("writing the kubeconfig {}\n  try: another --kubeconfig FILE", self.path.display())
        })?;
        if let Some(owner) = owner {
            keep_owner(&path, &owner);
        }
        *written = text;
        Ok(())
    }
}

/// A file of somebody else stays theirs, if this process may give it to them.
fn keep_owner(path: &Path, owner: &fs::Metadata) {
    let is_other = |now: fs::Metadata| (now.uid(), now.gid()) != (owner.uid(), owner.gid());
    if fs::metadata(path).is_ok_and(is_other)
        && let Err(error) = chown(path, Some(owner.uid()), Some(owner.gid()))
    {
        tracing::warn!(file = %path.display(), %error, "the kubeconfig belongs to the user of this process now");
    }
}

/// Clusters, users and contexts that others have in the file.
#[derive(Debug, Default)]
struct Others {
    clusters: Vec<Value>,
    users: Vec<Value>,
    contexts: Vec<Value>,
}

fn name_of(entry: &Value) -> Option<&str> {
    entry["name"].as_str()
}

impl Others {
    /// Those of a file whose names are not ours. A file that is no kubeconfig has none.
    fn of(before: &str, ours: &BTreeSet<String>) -> Self {
        let before: Value = serde_saphyr::from_str(before).unwrap_or_default();
        let others = |list: &str| -> Vec<Value> {
            let entries = before[list].as_array().into_iter().flatten();
            entries.filter(|entry| name_of(entry).is_some_and(|name| !ours.contains(name))).cloned().collect()
        };
        Self { clusters: others("clusters"), users: others("users"), contexts: others("contexts") }
    }

    /// Our kubeconfig with them at the ends of its lists.
    fn beside(&self, text: &str) -> String {
        let mut all = String::with_capacity(text.len());
        let lines = |entries: &[Value]| entries.iter().map(|entry| format!("- {entry}\n")).collect::<String>();
        for line in text.lines() {
            match line {
                "users:" => all.push_str(&lines(&self.clusters)),
                "contexts:" => all.push_str(&lines(&self.users)),
                line if line.starts_with(CURRENT) => all.push_str(&lines(&self.contexts)),
                _ => {}
            }
            all.push_str(line);
            all.push('\n');
        }
        all
    }
}

/// The text with the current context of the text before, if it is still there.
fn keep_current(text: String, before: &str, names: &[&str]) -> String {
    let of = |text: &str| {
        let current = text.lines().find_map(|l| l.strip_prefix(CURRENT))?;
        Some(current.trim().trim_matches(['"', '\'']).to_owned())
    };
    match (of(&text), of(before)) {
        (Some(now), Some(kept)) if names.contains(&kept.as_str()) => {
            text.replace(&format!("{CURRENT}{now:?}"), &format!("{CURRENT}{kept:?}"))
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_of_others_stay_as_they_are() {
        let pair = pki::Pair { certificate: "c".into(), key: "k".into() };
        let context = |name: &str| Context {
            name: name.to_owned(),
            server: "https://127.0.0.1:1".to_owned(),
            ca: "ca".to_owned(),
            client: pair.clone(),
        };
        let ours = ["ironclad", "member1", "member2"].map(str::to_owned).into();
        let kind = "apiVersion: v1\nkind: Config\nclusters:\n- name: kind\n  cluster: {server: https://kind:6443}\n- name: member2\n  \
                    cluster: {server: https://gone}\nusers:\n- name: kind\n  user: {exec: {command: login, args: [a, b]}}\ncontexts:\n\
                    - name: kind\n  context: {cluster: kind, user: kind, namespace: shop}\ncurrent-context: kind\n";
        for (name, before, want) in [
            (
                "a file of our own",
                pki::kubeconfig(&[context("ironclad"), context("member1")]),
                "ironclad member1 | ironclad",
            ),
            ("no file", String::new(), "ironclad member1 | ironclad"),
            ("no kubeconfig", "{".to_owned(), "ironclad member1 | ironclad"),
            ("another cluster's", kind.to_owned(), "ironclad member1 kind | kind"),
        ] {
            let others = Others::of(&before, &ours);
            let names: Vec<&str> =
                ["ironclad", "member1"].into_iter().chain(others.contexts.iter().filter_map(name_of)).collect();
            let written = pki::kubeconfig(&[context("ironclad"), context("member1")]);
            let text = keep_current(others.beside(&written), &before, &names);
            let read: Value = serde_saphyr::from_str(&text).unwrap();
            let listed = |list: &str| {
                let names = read[list].as_array().unwrap().iter().map(|entry| name_of(entry).unwrap().to_owned());
                names.collect::<Vec<_>>().join(" ")
            };
            assert_eq!(
                format!("{} | {}", listed("contexts"), read["current-context"].as_str().unwrap()),
                want,
                "{name}"
            );
            assert_eq!((listed("clusters"), listed("users")), (listed("contexts"), listed("contexts")), "{name}");
            let again = keep_current(Others::of(&text, &ours).beside(&written), &text, &names);
            assert_eq!(again, text, "{name}: a second write changes nothing");
        }
        let text = Others::of(kind, &ours).beside(&pki::kubeconfig(&[context("ironclad")]));
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read["users"][1]["user"]["exec"]["args"][1], "b");
    }

    #[test]
    fn the_current_context_is_kept_while_it_exists() {
        let text = |current: &str| format!("kind: Config\ncurrent-context: {current:?}\n");
        let by_hand = |current: &str| format!("kind: Config\ncurrent-context: {current}\n");
        for (name, before, want) in [
            ("the first time it is the control plane's", String::new(), "ironclad"),
            ("a choice stays", text("member1"), "member1"),
            ("without quotes as well", by_hand("member1"), "member1"),
            ("one that is deleted does not", text("member9"), "ironclad"),
        ] {
            assert_eq!(keep_current(text("ironclad"), &before, &["ironclad", "member1"]), text(want), "{name}");
        }
    }
}
