//! The image, as an OCI layout: one layer with the program, certificate authorities and a user, and nothing else.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    archive::{self, Entry},
    sha256,
};
use crate::cargo;

/// User and group of the process, as `charts/ironclad` sets them, too.
pub(super) const USER: u32 = 65532;
/// Where the program is.
const PROGRAM: &str = "ironclad";

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Facts that labels and the configuration tell.
pub(super) struct Facts<'a> {
    pub(super) version: &'a str,
    pub(super) commit: &'a str,
    /// Time of the commit, in seconds since 1970: that of the image and of all its files.
    pub(super) time: u64,
    /// The same, as RFC 3339.
    pub(super) created: &'a str,
    pub(super) licence: &'a str,
}

/// Entries of the layer.
pub(super) fn layer(program: &[u8]) -> Vec<Entry> {
    let users = format!("ironclad:x:{USER}:{USER}::/:/nologin\n");
    vec![
        Entry::folder("etc/", 0o755),
        Entry::file("etc/group", 0o644, format!("ironclad:x:{USER}:\n")),
        Entry::file("etc/passwd", 0o644, users),
        Entry::folder("etc/ssl/", 0o755),
        Entry::folder("etc/ssl/certs/", 0o755),
        Entry::file("etc/ssl/certs/ca-certificates.crt", 0o644, authorities()),
        Entry::file(PROGRAM, 0o755, program),
        Entry::folder("tmp/", 0o1777),
    ]
}

/// Mozilla's certificate authorities, as PEM: those of the version in Cargo.lock, not those of this machine.
fn authorities() -> String {
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        let encoded = STANDARD.encode(certificate);
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in encoded.as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

/// An image layout that is being made.
pub(super) struct Layout {
    folder: PathBuf,
    manifests: Vec<Value>,
}

impl Layout {
    /// An empty one in place of what was there.
    pub(super) fn create(folder: &Path) -> anyhow::Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder.join("blobs/sha256"))?;
        Ok(Self { folder: folder.to_owned(), manifests: Vec::new() })
    }

    /// Adds the image of an architecture. Returns the bytes of its layer, compressed.
    pub(super) fn add(&mut self, architecture: &str, program: &[u8], facts: &Facts<'_>) -> anyhow::Result<usize> {
        let layer = archive::tar(&layer(program), facts.time)?;
        let compressed = archive::gzip(&layer)?;
        let annotations = annotations(facts);
        let config = json!({
            "created": facts.created,
            "architecture": architecture,
            "os": "linux",
            "config": {
                "User": format!("{USER}:{USER}"),
                "Env": ["SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
                "Entrypoint": [format!("/{PROGRAM}")],
                "WorkingDir": "/",
                "Labels": annotations,
            },
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))]},
            "history": [{"created": facts.created, "created_by": "cargo xtask dist"}],
        });
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.blob("application/vnd.oci.image.config.v1+json", &serde_json::to_vec(&config)?)?,
            "layers": [self.blob("application/vnd.oci.image.layer.v1.tar+gzip", &compressed)?],
            "annotations": annotations,
        });
        let mut descriptor = self.blob(MANIFEST, &serde_json::to_vec(&manifest)?)?;
        descriptor["platform"] = json!({"architecture": architecture, "os": "linux"});
        self.manifests.push(descriptor);
        Ok(compressed.len())
    }

    /// Writes the index, named by the version. Returns its digest.
    pub(super) fn finish(self, facts: &Facts<'_>) -> anyhow::Result<String> {
        const INDEX: &str = "application/vnd.oci.image.index.v1+json";
        let images = json!({
            "schemaVersion": 2, "mediaType": INDEX, "manifests": self.manifests, "annotations": annotations(facts),
        });
        let mut descriptor = self.blob(INDEX, &serde_json::to_vec(&images)?)?;
        descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": facts.version});
        let digest = descriptor["digest"].as_str().unwrap_or_default().to_owned();
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor]});
        fs::write(self.folder.join("index.json"), serde_json::to_vec(&index)?)?;
        fs::write(self.folder.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        Ok(digest)
    }

    /// Stores bytes; returns their descriptor.
    fn blob(&self, media_type: &str, bytes: &[u8]) -> anyhow::Result<Value> {
        let digest = sha256(bytes);
        fs::write(self.folder.join("blobs/sha256").join(&digest), bytes)?;
        Ok(json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len()}))
    }
}

fn annotations(facts: &Facts<'_>) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("org.opencontainers.image.created", facts.created.to_owned()),
        ("org.opencontainers.image.description", "An orchestrator for many Kubernetes clusters".to_owned()),
        ("org.opencontainers.image.licenses", facts.licence.to_owned()),
        ("org.opencontainers.image.revision", facts.commit.to_owned()),
        ("org.opencontainers.image.title", "ironclad".to_owned()),
        ("org.opencontainers.image.version", facts.version.to_owned()),
    ])
}

/// Runs the program of a layer as a container would: in a root that has the layer alone and can't be written to, as its
/// user, without privileges. Returns what it prints; `None` where this machine does not let us (not root).
pub(super) fn try_layer(layer: &[u8], arguments: &[&str], folder: &Path) -> anyhow::Result<Option<String>> {
    let id = cargo::output(Command::new("id").arg("-u"))?;
    if String::from_utf8_lossy(&id).trim() != "0" {
        return Ok(None);
    }
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let mut archive = tar::Archive::new(layer);
    archive.set_mask(0);
    archive.unpack(folder).with_context(|| format!("unpacking the layer to {}", folder.display()))?;
    // The mounts end with the process.
    let script = format!(
        "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && \
         exec setpriv --no-new-privs --inh-caps=-all chroot --userspec={USER}:{USER} \"$0\" /{PROGRAM} \"$@\""
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--", "sh", "-c", &script]).arg(folder).args(arguments).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let output = cargo::output(&mut command).context("the image was tried in an empty root")?;
    fs::remove_dir_all(folder)?;
    let text = String::from_utf8(output).context("the program of the image prints no text")?;
    ensure!(!text.is_empty(), "the program of the image prints nothing");
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts<'_> = Facts {
        version: "1.2.3",
        commit: "abc",
        time: 1_700_000_000,
        created: "2023-11-14T22:13:20Z",
        licence: "Apache-2.0",
    };

    fn read(folder: &Path, descriptor: &Value) -> Vec<u8> {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let bytes = fs::read(folder.join("blobs/sha256").join(digest)).unwrap();
        assert_eq!(sha256(&bytes), digest);
        assert_eq!(descriptor["size"], bytes.len());
        bytes
    }

    fn parse(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    #[test]
    fn a_layout_leads_from_its_index_to_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let mut layout = Layout::create(folder.path()).unwrap();
        layout.add("amd64", b"one", &FACTS).unwrap();
        layout.add("arm64", b"another", &FACTS).unwrap();
        let digest = layout.finish(&FACTS).unwrap();
        let index = parse(&fs::read(folder.path().join("index.json")).unwrap());
        let named = &index["manifests"][0];
        assert_eq!(named["annotations"]["org.opencontainers.image.ref.name"], "1.2.3");
        assert_eq!(named["digest"], digest.as_str());
        let images = parse(&read(folder.path(), named));
        for (at, architecture, program) in [(0, "amd64", "one"), (1, "arm64", "another")] {
            let descriptor = &images["manifests"][at];
            assert_eq!(descriptor["platform"]["architecture"], architecture);
            let manifest = parse(&read(folder.path(), descriptor));
            let config = parse(&read(folder.path(), &manifest["config"]));
            assert_eq!(config["config"]["User"], "65532:65532");
            assert_eq!(config["config"]["Entrypoint"], json!(["/ironclad"]));
            let mut layer = Vec::new();
            let compressed = read(folder.path(), &manifest["layers"][0]);
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(compressed.as_slice()), &mut layer).unwrap();
            assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{}", sha256(&layer))]));
            let mut archive = tar::Archive::new(layer.as_slice());
            let mut found = BTreeMap::new();
            for entry in archive.entries().unwrap() {
                let mut entry = entry.unwrap();
                let header = entry.header();
                assert_eq!((header.uid().unwrap(), header.mtime().unwrap()), (0, FACTS.time));
                assert_eq!(header.mode().unwrap() & 0o6000, 0, "nothing changes who it runs as");
                let path = entry.path().unwrap().display().to_string();
                let mut content = Vec::new();
                std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
                found.insert(path, content);
            }
            let names: Vec<&str> = found.keys().map(String::as_str).collect();
            let certificates = "etc/ssl/certs/ca-certificates.crt";
            let all = ["etc/", "etc/group", "etc/passwd", "etc/ssl/", "etc/ssl/certs/", certificates, PROGRAM, "tmp/"];
            assert_eq!(names, all);
            assert_eq!(found[PROGRAM], program.as_bytes());
            assert!(String::from_utf8_lossy(&found[certificates]).matches("BEGIN CERTIFICATE").count() > 50);
        }
    }

    #[test]
    fn the_same_program_makes_the_same_image() {
        let digest = || {
            let folder = tempfile::tempdir().unwrap();
            let mut layout = Layout::create(folder.path()).unwrap();
            layout.add("amd64", b"program", &FACTS).unwrap();
            layout.finish(&FACTS).unwrap()
        };
        assert_eq!(digest(), digest());
    }

    /// A static program that tells who it is, what it finds, and what it may write.
    const PROBE: &str = r#"
        #include <dirent.h>
        #include <errno.h>
        #include <fcntl.h>
        #include <stdio.h>
        #include <unistd.h>
        int main(int count, char **words) {
            int found = 0;
            DIR *root = opendir("/");
            while (root && readdir(root)) found++;
            int refused = open("/tmp/x", O_CREAT | O_WRONLY, 0600) < 0 && errno == EROFS;
            printf("%s: uid %d gid %d, %d entries, %s, %s\n", words[count - 1], getuid(), getgid(), found,
                refused ? "read-only" : "writable", access("/bin/sh", F_OK) ? "no shell" : "a shell");
        }
    "#;

    #[test]
    fn a_layer_runs_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (source, built) = (folder.path().join("probe.c"), folder.path().join("probe"));
        fs::write(&source, PROBE).unwrap();
        cargo::run(Command::new("cc").args(["-static", "-o"]).args([&built, &source])).unwrap();
        let program = fs::read(&built).unwrap();
        assert!(super::super::elf::static_program(&program).is_ok());
        let layer = archive::tar(&layer(&program), FACTS.time).unwrap();
        match try_layer(&layer, &["hello"], &folder.path().join("root")).unwrap() {
            // `.` and `..`, etc, ironclad, tmp.
            Some(text) => assert_eq!(text, "hello: uid 65532 gid 65532, 5 entries, read-only, no shell\n"),
            None => eprintln!("not root: the layer was not run"),
        }
    }
}
