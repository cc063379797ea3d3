//! Input files, read whole or not at all.

use std::{fs::File, io::Read};

use anyhow::{Context as _, bail};

/// Reads a file, or stdin for `-`.
///
/// # Errors
/// If it can't be read, is not UTF-8, or is longer than `bytes_max`: a part of it could pass for a whole.
pub(crate) fn read(path: &str, bytes_max: u64) -> anyhow::Result<String> {
    let source: Box<dyn Read> = match path {
        "-" => Box::new(std::io::stdin()),
        path => Box::new(File::open(path).with_context(|| format!("{path} can't be read"))?),
    };
    let name = if path == "-" { "stdin" } else { path };
    bounded(source, bytes_max, name)
}

fn bounded(source: impl Read, bytes_max: u64, name: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    source.take(bytes_max.saturating_add(1)).read_to_string(&mut text).with_context(|| format!("reading {name}"))?;
    if text.len() as u64 > bytes_max {
        bail!("{name} has more than {} MiB", bytes_max >> 20);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_that_is_too_long_is_refused_and_not_cut() {
        assert_eq!(bounded(&b"abcd"[..], 4, "f").unwrap(), "abcd");
        let document = "a: 1\n---\n".repeat(1 << 18);
        let refused = bounded(document.as_bytes(), 2 << 20, "f.yaml").unwrap_err();
        assert_eq!(refused.to_string(), "f.yaml has more than 2 MiB");
    }
}
