//! The embedded files. They are in the program as they are in the repository: there is no build step.

/// A file that browsers load.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) name: &'static str,
    pub(crate) media: &'static str,
    pub(crate) bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! files {
    ($(($name:literal, $media:expr)),* $(,)?) => {
        [$(File { name: $name, media: $media, bytes: include_bytes!(concat!("../files/", $name)) }),*]
    };
}

/// The document that every page has.
pub(crate) static DOCUMENT: File =
    File { name: "index.html", media: HTML, bytes: include_bytes!("../files/index.html") };

/// The page at which a user logs in.
pub(crate) static LOGIN: &str = include_str!("../files/login.html");

static FILES: [File; 24] = files![
    ("style.css", CSS),
    ("icon.svg", SVG),
    ("app.js", SCRIPT),
    ("actions.js", SCRIPT),
    ("autoscalers.js", SCRIPT),
    ("chart.js", SCRIPT),
    ("dom.js", SCRIPT),
    ("format.js", SCRIPT),
    ("keys.js", SCRIPT),
    ("parts.js", SCRIPT),
    ("fleet.js", SCRIPT),
    ("cluster.js", SCRIPT),
    ("workloads.js", SCRIPT),
    ("workload.js", SCRIPT),
    ("policies.js", SCRIPT),
    ("services.js", SCRIPT),
    ("quotas.js", SCRIPT),
    ("evictions.js", SCRIPT),
    ("events.js", SCRIPT),
    ("system.js", SCRIPT),
    ("scheduling.js", SCRIPT),
    ("session.js", SCRIPT),
    ("plan.js", SCRIPT),
    ("usage.js", SCRIPT),
];

/// The file of this name.
pub(crate) fn file(name: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.name == name)
}

impl File {
    /// Names the content: two versions of a file have different ones.
    pub(crate) fn tag(&self) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, self.bytes);
        let short: String = digest.as_ref().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        format!("\"{short}\"")
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    fn all() -> impl Iterator<Item = (&'static str, String)> {
        let files = FILES.iter().chain([&DOCUMENT]);
        let files = files.map(|file| (file.name, String::from_utf8(file.bytes.to_vec()).unwrap()));
        files.chain([("login.html", LOGIN.to_owned())])
    }

    #[test]
    fn files_are_small_and_all_of_them_are_served() {
        let size: usize = all().map(|(_, text)| text.len()).sum();
        assert!(size < 150_000, "{size} bytes");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("files");
        let there: BTreeSet<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(there, all().map(|(name, _)| name.to_owned()).collect());
        let tags: BTreeSet<String> = FILES.iter().map(File::tag).collect();
        assert_eq!(tags.len(), FILES.len());
    }

    /// No page lacks a part.
    #[test]
    fn what_files_name_is_served() {
        for (name, text) in all() {
            let named = text.split(['"', '\'', '(', ')']).filter_map(|word| match word.strip_prefix("./") {
                Some(module) if name.ends_with(".js") => Some(module),
                _ => word.strip_prefix("/files/"),
            });
            for other in named.filter(|other| !other.is_empty()) {
                assert!(file(other).is_some(), "{name} names {other}");
            }
        }
    }

    /// The policy of the answers forbids it as well; here it is found before a browser does.
    #[test]
    fn nothing_is_inline_and_text_is_never_markup() {
        for (name, text) in all() {
            for no in [
                "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(", "new Function",
                "srcdoc", "javascript:", "http://", "https://", "<style", " style=\"", " onclick=", ".style.cssText",
            ] {
                let is_namespace = no == "http://" && text.contains("http://www.w3.org/2000/svg");
                assert!(is_namespace || !text.contains(no), "{name} has {no}");
            }
            let scripts = text.match_indices("<script").filter(|(at, _)| !text[*at..].starts_with("<script src="));
            assert_eq!(scripts.count(), 0, "{name} has a script inside");
        }
    }
}
