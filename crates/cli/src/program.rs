//! The program's name on command lines. Links to it may have the names of karmadactl, so that scripts live on.

use std::ffi::OsStr;

/// The name without such a link.
pub const NAME: &str = "ironclad";

/// The name that people type, by the file that runs: kubectl finds plugins by the names of their files.
#[must_use]
pub fn called(file: &OsStr) -> String {
    let file = std::path::Path::new(file).file_name().unwrap_or_default().to_string_lossy();
    match file.strip_prefix("kubectl-") {
        Some(plugin) if !plugin.is_empty() => format!("kubectl {}", plugin.replace('_', "-")),
        _ if file == "karmadactl" => file.into_owned(),
        _ => NAME.to_owned(),
    }
}

/// True under the names of karmadactl: what scripts read from its output is printed as karmadactl prints it
/// (docs/decisions/0257).
#[must_use]
pub fn is_karmadactl(called: &str) -> bool {
    ["karmadactl", "kubectl karmada"].contains(&called)
}

/// [`is_karmadactl`] of this process.
#[must_use]
pub fn runs_as_karmadactl() -> bool {
    is_karmadactl(&called(&std::env::args_os().next().unwrap_or_default()))
}

/// The text with command lines under this name: in examples, and behind `try:`.
#[must_use]
pub fn in_lines(text: &str, called: &str) -> String {
    if called == NAME {
        return text.to_owned();
    }
    let line = |line: &str| {
        let at = line.find("try: ").map_or(line.len() - line.trim_start().len(), |at| at + "try: ".len());
        match line[at..].strip_prefix("ironclad ") {
            Some(rest) => format!("{}{called} {rest}", &line[..at]),
            None => line.to_owned(),
        }
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_names_of_programs() {
        for (file, want) in [
            ("ironclad", "ironclad"),
            ("/usr/bin/ironclad", "ironclad"),
            ("ironclad-1.2", "ironclad"),
            ("/opt/kubectl-ironclad", "kubectl ironclad"),
            ("kubectl-karmada", "kubectl karmada"),
            ("kubectl-of_teams", "kubectl of-teams"),
            ("kubectl-", "ironclad"),
            ("./karmadactl", "karmadactl"),
            ("", "ironclad"),
        ] {
            assert_eq!(called(OsStr::new(file)), want, "{file}");
            assert_eq!(is_karmadactl(want), want.contains("karmada"), "{file}");
        }
    }

    #[test]
    fn command_lines_have_the_name() {
        let text = "Examples:\n  ironclad get ironclad -o wide\nerror: ironclad\n  try: ironclad why a, or b";
        let want = "Examples:\n  karmadactl get ironclad -o wide\nerror: ironclad\n  try: karmadactl why a, or b";
        assert_eq!(in_lines(text, "karmadactl"), want);
        assert_eq!(in_lines(text, NAME), text);
    }
}
