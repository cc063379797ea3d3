//! Local environment: the data directory, and the process that holds a port.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::bail;

/// `$XDG_DATA_HOME/ironclad`, else `~/.local/share/ironclad`.
///
/// # Errors
/// If neither variable is set.
pub(crate) fn default_data_dir() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(data) = set("XDG_DATA_HOME") {
        return Ok(data.join("ironclad"));
    }
    match set("HOME") {
        Some(home) => Ok(home.join(".local/share/ironclad")),
        None => {
            bail!("neither XDG_DATA_HOME nor HOME is set, so there is no default data directory\n  try: --data-dir DIR")
        }
    }
}

/// ` by NAME (pid N)` of the process that listens on a port of this machine, if the system reveals it.
pub(crate) fn held_by(address: SocketAddr) -> String {
    holder_of(address).map(|who| format!(" by {who}")).unwrap_or_default()
}

/// Returns the process that listens on a port of this machine, as `name (pid N)`, if the system reveals it.
fn holder_of(address: SocketAddr) -> Option<String> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|table| listening_inode(table, address.port()))?;
    let wanted = PathBuf::from(format!("socket:[{inode}]"));
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let path = process.path();
        // `self` and `thread-self` name processes that have a number of their own.
        if !process.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        if holds(&path, &wanted) {
            let name = fs::read_to_string(path.join("comm")).ok()?;
            return Some(format!("{} (pid {})", name.trim(), process.file_name().to_string_lossy()));
        }
    }
    None
}

fn listening_inode(table: &str, port: u16) -> Option<String> {
    /// The kernel's number of state LISTEN.
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    fs::read_to_string(table).ok()?.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let listens = fields.get(1)?.ends_with(&suffix) && fields.get(3) == Some(&LISTEN);
        listens.then(|| fields.get(9).map(|inode| (*inode).to_owned()))?
    })
}

fn holds(process: &Path, socket: &Path) -> bool {
    let Ok(files) = fs::read_dir(process.join("fd")) else { return false };
    files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|target| target == socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_holds_a_port_is_found() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let holder = held_by(listener.local_addr().unwrap());
        assert!(holder.starts_with(" by ") && holder.contains(&format!("pid {}", std::process::id())), "{holder}");
    }
}
