//! `cargo xtask size`: what the product's machine code is made of, against limits that are committed.
//!
//! Most of it is generic code of other crates, made again for each type and in each crate that uses it. So copies are
//! counted: of drop glue, and of decoders.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::Path,
    process::Command,
};

use anyhow::{Context as _, bail, ensure};

use crate::cargo;

/// The limits; see the file.
const LIMITS: &str = include_str!("../size-limits.txt");

/// Arguments of the measurement.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask size                          the product of profile `sim`, which is built if it has to be
  cargo xtask size --built                  the one that the tests have built, as it is
  cargo xtask size --profile release        that of profile `release`, which is built if it has to be
  cargo xtask size --types 20               and the types with the most copies of drop glue and decoders")]
pub(crate) struct Args {
    /// Profile of the product.
    #[arg(long, default_value = "sim")]
    profile: String,
    /// Build nothing: cargo builds everything anew that the tests have built by clippy's compiler.
    #[arg(long)]
    built: bool,
    /// Types with the most copies to name.
    #[arg(long, default_value_t = 0, value_name = "N")]
    types: usize,
}

/// Builds the product, prints what it is made of, and compares it with the limits of its profile.
///
/// # Errors
/// If it can't be built or read, or exceeds a limit.
pub(crate) fn run(root: &Path, args: &Args) -> anyhow::Result<()> {
    match args.built {
        true => check(root, &args.profile, args.types),
        false => measure(root, &args.profile, args.types),
    }
}

/// The same for a profile, naming so many types.
///
/// # Errors
/// As [`run`].
pub(crate) fn measure(root: &Path, profile: &str, types: usize) -> anyhow::Result<()> {
    cargo::run(cargo::cargo(root).args(["build", "--locked", "--package", "ironclad", "--profile", profile]))?;
    check(root, profile, types)
}

/// The same for a product that is built.
///
/// # Errors
/// As [`run`].
pub(crate) fn check(root: &Path, profile: &str, types: usize) -> anyhow::Result<()> {
    let product = cargo::target_directory(root).join(profile).join("ironclad");
    let measured = Measured::of(&product)?;
    print!("{measured}");
    for (name, copies) in measured.most(types) {
        println!("{copies:>6} copies of {name}");
    }
    let exceeded = exceeded(&measured, profile, LIMITS)?;
    if exceeded.is_empty() {
        return Ok(());
    }
    bail!("{} is larger than xtask/size-limits.txt allows: {}", product.display(), exceeded.join("; "));
}

/// Figures of a product.
#[derive(Debug, Default, PartialEq)]
struct Measured {
    /// Bytes of the file, without its symbols if it has none.
    file: u64,
    /// Addresses of the functions.
    addresses: BTreeSet<String>,
    /// Bytes and number of functions, by family.
    families: BTreeMap<&'static str, (u64, u64)>,
    /// Copies of drop glue, by type.
    drops: BTreeMap<String, u64>,
    /// Copies of decoders, by function.
    decoders: BTreeMap<String, u64>,
}

impl Measured {
    fn of(product: &Path) -> anyhow::Result<Self> {
        let file = fs::metadata(product).with_context(|| format!("{} can't be read", product.display()))?.len();
        let mut nm = Command::new("nm");
        nm.args(["--demangle", "--print-size", "--defined-only"]).arg(product);
        let symbols = cargo::output(&mut nm).context("nm comes with the C compiler that the build needs")?;
        let mut measured = Self { file, ..Self::default() };
        for line in String::from_utf8_lossy(&symbols).lines() {
            measured.add(line);
        }
        ensure!(measured.functions() > 0, "{} has no symbols: `dist` can't be measured", product.display());
        Ok(measured)
    }

    /// Takes in a line of `nm`: address, size, type and name. Functions that the linker made one have one address, and
    /// count once.
    fn add(&mut self, line: &str) {
        let mut words = line.splitn(4, ' ');
        let (Some(address), Some(size), Some("t" | "T"), Some(name)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return;
        };
        if !self.addresses.insert(address.to_owned()) {
            return;
        }
        let Ok(size) = u64::from_str_radix(size, 16) else { return };
        let name = without_hash(name);
        let (bytes, functions) = self.families.entry(family(name)).or_default();
        *bytes += size;
        *functions += 1;
        if name.starts_with(DROP_GLUE) {
            *self.drops.entry(name.to_owned()).or_default() += 1;
        } else if is_decoder(name) {
            *self.decoders.entry(name.to_owned()).or_default() += 1;
        }
    }

    fn bytes(&self) -> u64 {
        self.families.values().map(|(bytes, _)| bytes).sum()
    }

    fn functions(&self) -> u64 {
        self.families.values().map(|(_, functions)| functions).sum()
    }

    /// The types and decoders with the most copies.
    fn most(&self, count: usize) -> Vec<(&str, u64)> {
        let all = self.drops.iter().chain(&self.decoders).map(|(name, copies)| (name.as_str(), *copies));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(name, copies)| (std::cmp::Reverse(*copies), *name));
        all.truncate(count);
        all
    }

    /// The figures that have limits.
    fn figures(&self) -> [(&'static str, f64); 5] {
        let copies = |of: &BTreeMap<String, u64>| of.values().sum::<u64>() as f64 / of.len().max(1) as f64;
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        [
            ("code-mib", mebibytes(self.bytes())),
            ("file-mib", mebibytes(self.file)),
            ("thousand-functions", self.functions() as f64 / 1000.0),
            ("drop-glue-copies", copies(&self.drops)),
            ("decoder-copies", copies(&self.decoders)),
        ]
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut families: Vec<_> = self.families.iter().collect();
        families.sort_by_key(|(_, (bytes, _))| std::cmp::Reverse(*bytes));
        writeln!(f, "{:>12} {:>9}  family", "bytes", "functions")?;
        for (family, (bytes, functions)) in families {
            writeln!(f, "{bytes:>12} {functions:>9}  {family}")?;
        }
        for (name, value) in self.figures() {
            writeln!(f, "{name}: {value:.2}")?;
        }
        Ok(())
    }
}

const DROP_GLUE: &str = "core::ptr::drop_in_place";

/// The name without the hash that tells copies apart.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((rest, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => rest,
        _ => name,
    }
}

/// Origin of a function, by its name. The first that fits counts.
fn family(name: &str) -> &'static str {
    let is_of = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    match () {
        () if name.starts_with(DROP_GLUE) => "drop glue",
        () if is_of(&["::btree::"]) => "BTreeMap",
        () if is_of(&["serde"]) => "serde",
        () if is_of(&["::sort::"]) => "sorting",
        () if is_of(&["tokio::"]) => "tokio",
        () if is_of(&["kube_client::", "kube_core::", "kube_runtime::"]) => "kube",
        () if is_of(&["ironclad"]) => "our crates",
        () if is_of(&["k8s_openapi::"]) => "k8s-openapi",
        () if ["alloc::", "core::", "std::", "<alloc::", "<core::", "<std::"].iter().any(|of| name.starts_with(of)) => {
            "std"
        }
        () => "other",
    }
}

fn is_decoder(name: &str) -> bool {
    name.contains("Deserialize>::deserialize") || name.contains("Deserialize for ")
}

/// The limits of a profile that a product exceeds, each with its figure. A line of the limits is a profile, a figure's
/// name and its limit.
fn exceeded(measured: &Measured, profile: &str, limits: &str) -> anyhow::Result<Vec<String>> {
    let (figures, mut exceeded, mut known) = (measured.figures(), Vec::new(), BTreeSet::new());
    for line in limits.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [of, name, limit] = words[..] else { bail!("{line:?} is no limit: PROFILE FIGURE LIMIT") };
        let limit: f64 = limit.parse().with_context(|| format!("{line:?} has no number"))?;
        let figure = figures.iter().find(|(figure, _)| *figure == name);
        let (_, value) = figure.with_context(|| format!("{line:?} names no figure"))?;
        if of == profile {
            known.insert(name);
            if *value > limit {
                exceeded.push(format!("{name} is {value:.2}, and may be {limit}"));
            }
        }
    }
    ensure!(!known.is_empty(), "profile {profile} has no limits");
    Ok(exceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measured {
        let mut measured = Measured { file: 3 << 20, ..Measured::default() };
        for line in [
            "0000000000001000 0000000000000010 t core::ptr::drop_in_place<alloc::string::String>::h0123456789abcdef",
            "0000000000001010 0000000000000010 t core::ptr::drop_in_place<alloc::string::String>::hfedcba9876543210",
            "0000000000001020 0000000000000020 T <a::B as serde_core::de::Deserialize>::deserialize::h0123456789abcdef",
            "0000000000001040 0000000000000030 t ironclad_store::open",
            "0000000000001040 0000000000000030 t ironclad_store::folded_onto_open",
            "0000000000001070 0000000000000100 b ironclad_store::STATIC",
            "                 U malloc",
        ] {
            measured.add(line);
        }
        measured
    }

    #[test]
    fn functions_are_counted_by_family() {
        let measured = measured();
        assert_eq!(
            measured.families,
            BTreeMap::from([("drop glue", (32, 2)), ("serde", (32, 1)), ("our crates", (48, 1))])
        );
        assert_eq!(measured.most(1), [("core::ptr::drop_in_place<alloc::string::String>", 2)]);
        assert_eq!(measured.decoders.len(), 1);
    }

    #[test]
    fn limits_are_of_one_profile() {
        let of = |limits: &str| exceeded(&measured(), "sim", limits).map_err(|error| error.to_string());
        assert_eq!(of("# why\nsim drop-glue-copies 2\nrelease drop-glue-copies 1\n"), Ok(vec![]));
        assert_eq!(
            of("sim drop-glue-copies 1.5\nsim file-mib 3"),
            Ok(vec!["drop-glue-copies is 2.00, and may be 1.5".to_owned()])
        );
        assert!(of("release file-mib 1").is_err_and(|error| error.contains("no limits")));
        assert!(of("sim colour 1").is_err_and(|error| error.contains("no figure")));
        assert!(of("sim file-mib many").is_err_and(|error| error.contains("no number")));
    }

    #[test]
    fn the_committed_limits_are_read() {
        for profile in ["sim", "release"] {
            exceeded(&Measured::default(), profile, LIMITS).unwrap();
        }
    }
}
