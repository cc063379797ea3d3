//! The time zone of the process, as C libraries find it: variable `TZ`, then `/etc/localtime`. Zones come from the
//! database in the program, so that an image without one works.

use std::{ffi::OsString, fs, io, path::Path};

use ironclad_cron::time_zone;
use jiff::tz::TimeZone;

/// The zone of this process; UTC, with a warning, if what names it cannot be understood.
pub(super) fn of_process() -> TimeZone {
    zone(std::env::var_os("TZ"), Path::new("/etc/localtime")).unwrap_or_else(|why| {
        tracing::warn!("the time zone of the process is not known, UTC is used: {why}");
        TimeZone::UTC
    })
}

fn zone(variable: Option<OsString>, localtime: &Path) -> Result<TimeZone, String> {
    let Some(variable) = variable else { return of_file(localtime) };
    let text = variable.to_str().ok_or("TZ is not UTF-8")?;
    let name = text.strip_prefix(':').unwrap_or(text);
    match time_zone(name) {
        Some(zone) => Ok(zone),
        None if name.is_empty() => Ok(TimeZone::UTC),
        None if name.starts_with('/') => of_file(Path::new(name)),
        None => TimeZone::posix(name).map_err(|_| format!("TZ={text} names no time zone")),
    }
}

/// The zone of a file of a zone database. A link into one names it.
fn of_file(file: &Path) -> Result<TimeZone, String> {
    let linked = fs::read_link(file).ok();
    let named = linked.as_deref().unwrap_or(file).to_str().and_then(|path| path.split_once("zoneinfo/"));
    if let Some(zone) = named.and_then(|(_, name)| time_zone(name)) {
        return Ok(zone);
    }
    match fs::read(file) {
        Ok(data) => TimeZone::tzif("", &data).map_err(|error| format!("{}: {error}", file.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(TimeZone::UTC),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn zones_of_processes() {
        let folder = tempfile::tempdir().unwrap();
        let tokyo = folder.path().join("tokyo");
        std::os::unix::fs::symlink("/usr/share/zoneinfo/Asia/Tokyo", &tokyo).unwrap();
        let garbage = folder.path().join("garbage");
        fs::write(&garbage, "x").unwrap();
        let missing = folder.path().join("missing");
        for (name, variable, localtime, want) in [
            ("a name", Some("Asia/Tokyo"), &missing, Some(9)),
            ("with a colon", Some(":Asia/Tokyo"), &missing, Some(9)),
            ("rules", Some("JST-9"), &missing, Some(9)),
            ("a path", Some("/usr/share/zoneinfo/Asia/Tokyo"), &missing, Some(9)),
            ("empty", Some(""), &tokyo, Some(0)),
            ("a name that nobody has", Some("Mars/Olympus"), &tokyo, None),
            ("a link", None, &tokyo, Some(9)),
            ("nothing", None, &missing, Some(0)),
            ("a file of something else", None, &garbage, None),
        ] {
            let found = zone(variable.map(OsString::from), localtime);
            let hours = found.ok().map(|zone| zone.to_offset(Timestamp::UNIX_EPOCH).seconds() / 3600);
            assert_eq!(hours, want, "{name}");
        }
    }
}
