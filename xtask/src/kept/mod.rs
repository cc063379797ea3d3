//! Compiled dependencies of third parties, kept across builds in the user's cache, beside the Kubernetes programs.
//!
//! cargo takes a unit as fresh if its folder in `.fingerprint`, its outputs in `deps` and its script's output in
//! `build` are there with the times of modification that they had: cargo compares outputs with those of their
//! dependencies, and nothing of a registry's package with its sources. Paths of the target directory are stored
//! relative to it, or replaced by cargo when it reads a script's output. So these files are copied into an empty target
//! directory before a build, and those that the build used are copied back if some were missing.
//!
//! A target directory in the cache would be less code, but it would hold what is compiled of the workspace itself, tens
//! of gigabytes after some days and to be removed after each run; and two checkouts that are tested at once would
//! overwrite each other's programs there, since cargo names units of members by their path in the workspace. Copies
//! rather than hard links: scripts write into files that exist.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context as _, bail, ensure};

mod files;
mod key;

use files::{Entry, List};

use crate::{cargo, kubernetes::location};

/// Sets of dependencies that are kept, the newest ones.
const SETS_MAX: usize = 2;
/// Bytes of all sets.
const BYTES_MAX: u64 = 3 << 30;

const PREFIX: &str = "dependencies-";
/// Names the files of a set; written last.
const LIST: &str = "list";
/// Its time of modification is that of the last use.
const USED: &str = "used";
const LOCK: &str = "dependencies.lock";

/// The kept dependencies of one profile and lock file.
pub(crate) struct Kept {
    cache: PathBuf,
    key: String,
    /// The folder of the profile in the target directory.
    target: PathBuf,
}

impl Kept {
    pub(crate) fn open(root: &Path, profile: &str) -> anyhow::Result<Self> {
        let cache = location::cache()?;
        fs::create_dir_all(&cache).with_context(|| format!("{} can't be made", cache.display()))?;
        let key = key::Inputs::read(root, profile)?.key();
        Ok(Self { cache, key, target: cargo::target_directory(root).join(profile) })
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.cache.join(format!("{PREFIX}{}", self.key))
    }

    /// Copies units that are not there into the target directory and returns their number. A set that is broken is
    /// dropped with a message.
    pub(crate) fn restore(&self) -> anyhow::Result<usize> {
        let _target = self.lock_target()?;
        let lock = self.lock_file()?;
        lock.lock_shared()?;
        let folder = self.folder();
        if !folder.exists() {
            return Ok(0);
        }
        match copy_missing(&folder, &self.target)? {
            Copied::Units(units) => {
                // The time of writing counts; a cache that can't be written is still read.
                fs::write(folder.join(USED), "").ok();
                Ok(units)
            }
            Copied::Broken(error) => {
                lock.unlock()?;
                lock.lock()?;
                eprintln!("{} is broken and dropped: {error:#}", folder.display());
                remove(&folder)?;
                Ok(0)
            }
        }
    }

    /// Keeps the units with these hashes, unless all of them are kept. Returns the bytes that were copied.
    pub(crate) fn save(&self, used: &BTreeSet<String>) -> anyhow::Result<Option<u64>> {
        let _target = self.lock_target()?;
        let lock = self.lock_file()?;
        lock.lock()?;
        let folder = self.folder();
        let kept = List::read(&folder.join(LIST)).map(|list| list.units()).unwrap_or_default();
        if used.is_subset(&kept) {
            return Ok(None);
        }
        let unfinished = folder.with_extension("unfinished");
        remove(&unfinished)?;
        let copied = copy_used(&self.target, &unfinished, used);
        let bytes = match copied {
            Ok(bytes) => bytes,
            Err(error) => {
                remove(&unfinished)?;
                return Err(error);
            }
        };
        remove(&folder)?;
        fs::rename(&unfinished, &folder).with_context(|| format!("{} can't be moved into place", folder.display()))?;
        self.prune()?;
        Ok(Some(bytes))
    }

    /// Removes older sets, and what killed processes left.
    fn prune(&self) -> anyhow::Result<()> {
        let mut sets = Vec::new();
        for entry in fs::read_dir(&self.cache)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !name.starts_with(PREFIX) || !path.is_dir() {
                continue;
            }
            match (List::read(&path.join(LIST)), fs::metadata(path.join(USED)).and_then(|used| used.modified())) {
                (Ok(list), Ok(used)) if path.extension().is_none() => {
                    sets.push(Set { path, bytes: list.bytes(), used })
                }
                _ => remove(&path)?,
            }
        }
        for set in surplus(sets) {
            remove(&set)?;
        }
        Ok(())
    }

    /// cargo's own lock of the folder, so that no build changes files while they are copied.
    fn lock_target(&self) -> anyhow::Result<fs::File> {
        fs::create_dir_all(&self.target).with_context(|| format!("{} can't be made", self.target.display()))?;
        let lock = open_lock(&self.target.join(".cargo-lock"))?;
        if lock.try_lock().is_err() {
            eprintln!("waiting for another build in {}", self.target.display());
            lock.lock()?;
        }
        Ok(lock)
    }

    fn lock_file(&self) -> anyhow::Result<fs::File> {
        open_lock(&self.cache.join(LOCK))
    }
}

fn open_lock(path: &Path) -> anyhow::Result<fs::File> {
    let mut options = fs::File::options();
    options.create(true).truncate(false).write(true);
    options.open(path).with_context(|| format!("{} can't be written", path.display()))
}

/// The hash at the end of a unit's name such as `ring-2ccd43fb69fb3086`.
pub(crate) fn hash_of(name: &str) -> Option<&str> {
    let (_, hash) = name.rsplit_once('-')?;
    let is_hash = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    is_hash.then_some(hash)
}

/// Where cargo says that a unit is complete. Copied last.
const FINGERPRINTS: &str = ".fingerprint";
/// The folders of a profile that hold units.
const FOLDERS: [&str; 3] = ["build", "deps", FINGERPRINTS];

/// Outcome of copying from a set.
enum Copied {
    /// So many units.
    Units(usize),
    /// The set is not what its list says; units that were copied so far do not count as complete.
    Broken(anyhow::Error),
}

fn copy_missing(set: &Path, target: &Path) -> anyhow::Result<Copied> {
    let list = match List::read(&set.join(LIST)).and_then(|list| list.check_sizes(set).map(|()| list)) {
        Ok(list) => list,
        Err(error) => return Ok(Copied::Broken(error)),
    };
    let present = units_in(&target.join(FINGERPRINTS))?;
    let missing: Vec<&Entry> = list.entries.iter().filter(|entry| !present.contains(&entry.unit)).collect();
    let (last, first): (Vec<&Entry>, Vec<&Entry>) =
        missing.iter().partition(|entry| entry.path.starts_with(FINGERPRINTS));
    for entry in first.into_iter().chain(last) {
        match entry.read(set) {
            Ok(file) => entry.write(target, file)?,
            Err(error) => return Ok(Copied::Broken(error)),
        }
    }
    Ok(Copied::Units(missing.iter().map(|entry| &entry.unit).collect::<BTreeSet<_>>().len()))
}

fn units_in(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    let mut units = BTreeSet::new();
    for entry in entries {
        units.extend(hash_of(&entry?.file_name().to_string_lossy()).map(str::to_owned));
    }
    Ok(units)
}

fn copy_used(target: &Path, set: &Path, used: &BTreeSet<String>) -> anyhow::Result<u64> {
    let mut entries = Vec::new();
    for folder in FOLDERS {
        for entry in fs::read_dir(target.join(folder))? {
            let name = entry?.file_name();
            let (path, name) = (Path::new(folder).join(&name), name.to_string_lossy());
            let stem = name.split_once('.').map_or(&*name, |(stem, _)| stem);
            // The lists of sources for make name paths of this target directory; cargo does not read them.
            if let Some(unit) = hash_of(stem).filter(|unit| used.contains(*unit) && !name.ends_with(".d")) {
                files::find(target, &path, unit, &mut entries)?;
            }
        }
    }
    let bytes = entries.iter().map(|entry| entry.bytes).sum::<u64>();
    ensure!(bytes <= BYTES_MAX, "they have {} MiB, of which at most {} are kept", bytes >> 20, BYTES_MAX >> 20);
    let incomplete = used.iter().find(|unit| entries.iter().all(|entry| entry.unit != **unit));
    if let Some(unit) = incomplete {
        bail!("{} has no files of unit {unit}", target.display());
    }
    fs::create_dir_all(set)?;
    for entry in &entries {
        entry.write(set, entry.read(target)?)?;
        files::flush(&set.join(&entry.path))?;
    }
    fs::write(set.join(USED), "")?;
    List { entries }.write(&set.join(LIST))?;
    Ok(bytes)
}

/// A set of dependencies in the cache.
struct Set {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// Those that are not kept: all but the newest ones.
fn surplus(mut sets: Vec<Set>) -> Vec<PathBuf> {
    sets.sort_by_key(|set| std::cmp::Reverse(set.used));
    let mut bytes = 0;
    let mut surplus = Vec::new();
    for (index, set) in sets.into_iter().enumerate() {
        bytes += set.bytes;
        if index >= SETS_MAX || bytes > BYTES_MAX {
            surplus.push(set.path);
        }
    }
    surplus
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} can't be removed", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RING: &str = "00000000000000aa";
    const SCRIPT: &str = "00000000000000bb";
    const OWN: &str = "00000000000000cc";

    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap() }
        }

        fn kept(&self, target: &str, key: &str) -> Kept {
            let cache = self.folder.path().join("cache");
            fs::create_dir_all(&cache).unwrap();
            Kept { cache, key: key.to_owned(), target: self.folder.path().join(target) }
        }

        /// Writes what a build leaves, all with a time long ago.
        fn build(&self, target: &str) {
            let target = self.folder.path().join(target);
            for (path, text) in [
                (format!("deps/libring-{RING}.rlib"), "compiled"),
                (format!("deps/libring-{RING}.rmeta"), "types"),
                (format!("deps/ring-{RING}.d"), "for make"),
                (format!(".fingerprint/ring-{RING}/lib-ring"), "fingerprint"),
                (format!(".fingerprint/ring-{SCRIPT}/run-build-script"), "fingerprint"),
                (format!("build/ring-{SCRIPT}/output"), "output"),
                (format!("build/ring-{SCRIPT}/out/a/b.o"), "object"),
                (format!("deps/libironclad-{OWN}.rlib"), "own"),
                (format!(".fingerprint/ironclad-{OWN}/lib"), "own"),
            ] {
                let path = target.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, text).unwrap();
                fs::File::options().write(true).open(path).unwrap().set_modified(long_ago()).unwrap();
            }
            fs::create_dir_all(target.join(format!("build/ring-{SCRIPT}/out/empty"))).unwrap();
        }
    }

    fn long_ago() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::new(1_000_000, 5_000)
    }

    fn used() -> BTreeSet<String> {
        [RING, SCRIPT].map(str::to_owned).into()
    }

    #[test]
    fn used_units_of_third_parties_come_back_with_their_times() {
        let place = Place::new();
        place.build("first");
        let first = place.kept("first", "1");
        assert_eq!(first.restore().unwrap(), 0, "nothing is kept yet");
        assert!(first.save(&used()).unwrap().is_some());
        assert_eq!(first.save(&used()).unwrap(), None, "nothing is new");
        let second = place.kept("second", "1");
        assert_eq!(second.restore().unwrap(), 2);
        let target = place.folder.path().join("second");
        for path in [format!("deps/libring-{RING}.rlib"), format!("build/ring-{SCRIPT}/out/a/b.o")] {
            assert_eq!(fs::metadata(target.join(&path)).unwrap().modified().unwrap(), long_ago(), "{path}");
        }
        assert!(target.join(format!("build/ring-{SCRIPT}/out/empty")).is_dir());
        assert!(!target.join(format!("deps/ring-{RING}.d")).exists(), "it names paths of the first");
        assert!(!target.join(format!("deps/libironclad-{OWN}.rlib")).exists(), "own crates are built as usual");
        assert_eq!(second.restore().unwrap(), 0, "what is there stays");
        assert_eq!(place.kept("third", "2").restore().unwrap(), 0, "another key");
    }

    #[test]
    fn a_unit_that_is_there_is_not_overwritten() {
        let place = Place::new();
        place.build("first");
        place.kept("first", "1").save(&used()).unwrap();
        place.build("second");
        let target = place.folder.path().join("second");
        fs::write(target.join(format!("deps/libring-{RING}.rlib")), "built here").unwrap();
        fs::remove_dir_all(target.join(format!(".fingerprint/ring-{SCRIPT}"))).unwrap();
        assert_eq!(place.kept("second", "1").restore().unwrap(), 1, "the script, which is incomplete");
        assert_eq!(fs::read_to_string(target.join(format!("deps/libring-{RING}.rlib"))).unwrap(), "built here");
    }

    #[test]
    fn runs_at_once_share_a_cache() {
        let place = Place::new();
        let run = |index: usize| {
            let target = format!("target-{index}");
            let kept = place.kept(&target, "1");
            let restored = kept.restore().unwrap();
            place.build(&target);
            kept.save(&used()).unwrap();
            // That of a branch with another lock file.
            place.kept(&target, "2").save(&used()).unwrap();
            restored
        };
        let restored: Vec<usize> = std::thread::scope(|scope| {
            let run = &run;
            let threads: Vec<_> = (0..8).map(|index| scope.spawn(move || run(index))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(restored.iter().all(|units| matches!(units, 0 | 2)), "all or nothing: {restored:?}");
        for key in ["1", "2"] {
            assert_eq!(place.kept(&format!("after-{key}"), key).restore().unwrap(), 2, "{key}");
        }
    }

    #[test]
    fn a_broken_set_is_dropped_and_the_next_build_makes_another() {
        let place = Place::new();
        place.build("first");
        let first = place.kept("first", "1");
        let rlib = format!("deps/libring-{RING}.rlib");
        for (name, damage) in [
            (
                "a file is missing",
                (|set: &Path, rlib: &str| fs::remove_file(set.join(rlib)).unwrap()) as fn(&Path, &str),
            ),
            ("a file is short", |set, rlib| fs::write(set.join(rlib), "comp").unwrap()),
            ("another content", |set, rlib| fs::write(set.join(rlib), "COMPILED").unwrap()),
            ("no list", |set, _| fs::remove_file(set.join(LIST)).unwrap()),
            ("half a list", |set, _| fs::write(set.join(LIST), "12 00").unwrap()),
        ] {
            assert!(first.save(&used()).unwrap().is_some(), "{name}: it is kept");
            damage(&first.folder(), &rlib);
            let second = place.kept(name, "1");
            assert_eq!(second.restore().unwrap(), 0, "{name}");
            assert!(!first.folder().exists(), "{name}: it is dropped");
            let fingerprints = place.folder.path().join(name).join(FINGERPRINTS);
            assert!(units_in(&fingerprints).unwrap().is_empty(), "{name}: no unit counts as complete");
        }
    }

    #[test]
    fn a_unit_without_files_is_not_kept() {
        let place = Place::new();
        place.build("first");
        let first = place.kept("first", "1");
        let unknown = [RING, "00000000000000dd"].map(str::to_owned).into();
        let error = first.save(&unknown).unwrap_err().to_string();
        assert!(error.contains("00000000000000dd"), "{error}");
        assert!(fs::read_dir(&first.cache).unwrap().all(|entry| entry.unwrap().file_name() == LOCK));
    }

    #[test]
    fn two_newest_sets_are_kept() {
        let place = Place::new();
        place.build("first");
        fs::create_dir_all(place.folder.path().join("cache/dependencies-0.unfinished")).unwrap();
        for key in ["1", "2", "3"] {
            let kept = place.kept("first", key);
            kept.save(&used()).unwrap();
            // Two in the same tick of the file system's clock have no order.
            let time = long_ago() + Duration::from_secs(key.parse().unwrap());
            fs::File::options().write(true).open(kept.folder().join(USED)).unwrap().set_modified(time).unwrap();
        }
        let names = |place: &Place| -> BTreeSet<String> {
            let cache = fs::read_dir(place.folder.path().join("cache")).unwrap();
            cache.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(&place), ["dependencies-2", "dependencies-3", LOCK].map(str::to_owned).into());
        place.kept("second", "2").restore().unwrap();
        place.kept("first", "4").save(&used()).unwrap();
        assert_eq!(names(&place), ["dependencies-2", "dependencies-4", LOCK].map(str::to_owned).into());
    }

    #[test]
    fn sets_have_a_bound_of_bytes() {
        let set = |name: &str, gib: u64, age: u64| Set {
            path: name.into(),
            bytes: gib << 30,
            used: long_ago() - Duration::from_secs(age),
        };
        for (name, sets, gone) in [
            ("both fit", vec![set("old", 1, 9), set("new", 2, 1)], vec![]),
            ("together too large", vec![set("old", 2, 9), set("new", 2, 1)], vec!["old"]),
            ("a third", vec![set("middle", 1, 5), set("old", 1, 9), set("new", 1, 1)], vec!["old"]),
        ] {
            let gone: Vec<PathBuf> = gone.into_iter().map(PathBuf::from).collect();
            assert_eq!(surplus(sets), gone, "{name}");
        }
    }

    #[test]
    fn hashes_end_names_of_units() {
        for (name, want) in [
            ("ring-2ccd43fb69fb3086", Some("2ccd43fb69fb3086")),
            ("libserde_json-496f5d54f59c2b71", Some("496f5d54f59c2b71")),
            ("build-script-build", None),
            ("ironclad", None),
            ("ring-2CCD43FB69FB3086", None),
        ] {
            assert_eq!(hash_of(name), want, "{name}");
        }
    }
}
