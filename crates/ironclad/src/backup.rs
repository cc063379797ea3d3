//! `ironclad backup`: everything that `up` keeps, in one file, while it runs or after it was stopped.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use futures::AsyncReadExt as _;
use http::Request;
use ironclad_cli::{
    connect::Plane,
    print,
    report::{self, Exit, INTERRUPTED},
};
use ironclad_store::{BackendError, Snapshot, Summary, inspect};

use crate::{
    announce::announce,
    signals::Stop,
    up::backup::{KEYS, PATH},
};

/// Bytes per read from the server.
const READ_BYTES: usize = 64 * 1024;

/// Save everything that `ironclad up` keeps in one file: all objects of the control plane and of the simulated members
/// with their uids and resourceVersions, the keys and certificates.
///
/// A running `up` is read through its API and keeps running; a stopped one is read from its --data-dir. The file is a
/// tar archive with mode 0600: it contains every Secret, and the key that signs certificates. An older file of that
/// name is replaced once the new one is complete. `ironclad up --data-dir NEW --restore FILE` starts from it.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad backup fleet.backup --kubeconfig ~/.local/share/ironclad/kubeconfig
  ironclad backup fleet.backup --data-dir ~/.local/share/ironclad       while `up` is stopped
  ironclad backup - | age -r KEY > fleet.backup.age
  ironclad up --data-dir /var/lib/ironclad --restore fleet.backup")]
pub(crate) struct Command {
    /// The file to write; - is stdout
    file: PathBuf,
    /// Data directory of a stopped `ironclad up`
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kubeconfig", "context"])]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    plane: Plane,
}

/// Writes the file.
///
/// # Errors
/// If the server or the directory can't be read, or the file not written; then an older one is still there. [`Exit`] if
/// a signal ends it: nothing of the backup is left.
pub(crate) async fn run(command: &Command) -> anyhow::Result<()> {
    let mut stop = Stop::install_with_hangup()?;
    tokio::select! {
        biased;
        () = stop.received() => Err(Exit(INTERRUPTED).into()),
        taken = take(command) => taken,
    }
}

async fn take(command: &Command) -> anyhow::Result<()> {
    let is_stdout = command.file == Path::new("-");
    if command.file.is_dir() {
        let example = command.file.join("fleet.backup");
        bail!("{} is a directory\n  try: ironclad backup {}", command.file.display(), example.display());
    }
    let target = if is_stdout { std::env::temp_dir().join("ironclad.backup") } else { command.file.clone() };
    let partial = Partial::beside(&target)?;
    match &command.data_dir {
        Some(data_dir) => of_directory(data_dir, &partial).await?,
        None => of_server(&command.plane, &partial).await?,
    }
    partial.file.sync_all().with_context(|| partial.unwritable())?;
    // Detect a truncated backup now, not when it is needed.
    let summary = inspect(&partial.path).context("no backup was taken")?;
    let bytes = partial.file.metadata()?.len();
    if is_stdout {
        let mut whole = File::open(&partial.path).with_context(|| partial.unwritable())?;
        io::copy(&mut whole, &mut io::stdout().lock()).context("writing to stdout")?;
    } else {
        partial.put_in_place(&target)?;
    }
    let name = command.file.display();
    let say: fn(&str) = if is_stdout { print::note } else { announce };
    say(&format!("{} in {name} ({:.1} MiB)", counted(&summary), bytes as f64 / 1_048_576.0));
    say(&format!("to start from it: ironclad up --data-dir NEW-DIRECTORY --restore {name}"));
    Ok(())
}

/// Describes the contents of a backup.
pub(crate) fn counted(summary: &Summary) -> String {
    let objects: u64 = summary.servers.iter().map(|(_, _, keys)| keys).sum();
    let plane = summary.servers.iter().find(|(name, ..)| name == "plane");
    let revision = plane.map_or_else(String::new, |(_, revision, _)| format!(" at resourceVersion {revision}"));
    format!("{objects} objects of {} servers{revision}", summary.servers.len())
}

async fn of_directory(data_dir: &Path, into: &Partial) -> anyhow::Result<()> {
    let mut snapshot = match Snapshot::of_directory(data_dir) {
        Err(error @ BackendError::InUse { .. }) => {
            let kubeconfig = data_dir.join("kubeconfig");
            let remedy = format!("while it runs: ironclad backup FILE --kubeconfig {}", kubeconfig.display());
            return Err(anyhow::Error::new(error).context(format!("no backup was taken\n  try: {remedy}")));
        }
        taken => taken.context("no backup was taken")?,
    };
    snapshot.add_folder(data_dir, KEYS).context("reading the keys beside the store")?;
    for chunk in snapshot.chunks() {
        (&into.file).write_all(&chunk).with_context(|| into.unwritable())?;
        // A signal ends it between two chunks.
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn of_server(plane: &Plane, into: &Partial) -> anyhow::Result<()> {
    let client = plane.client().await?;
    let request = Request::get(PATH).body(Vec::new())?;
    let stream = match client.request_stream(request).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            bail!(
                "no backup was taken\n  because this control plane is not an `ironclad up`, which keeps its own data\n  \
                 try: for a kube-apiserver, a snapshot of its etcd"
            )
        }
        Err(error) => {
            bail!("no backup was taken\n  because {}", report::answer(&error))
        }
        Ok(stream) => stream,
    };
    let mut stream = std::pin::pin!(stream);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read = stream.read(&mut buffer).await.context("no backup was taken: the connection broke")?;
        if read == 0 {
            return Ok(());
        }
        (&into.file).write_all(&buffer[..read]).with_context(|| into.unwritable())?;
    }
}

/// The file while it isn't complete; removed unless it is put in place.
struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    fn beside(target: &Path) -> anyhow::Result<Self> {
        let Some(name) = target.file_name() else {
            bail!("{} is not a file name\n  try: fleet.backup", target.display())
        };
        let mut name = name.to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let path = target.with_file_name(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).with_context(|| format!("{} can't be written", target.display()))?;
        Ok(Self { path, file })
    }

    fn unwritable(&self) -> String {
        format!("no backup was taken: {} can't be written", self.path.display())
    }

    fn put_in_place(self, target: &Path) -> anyhow::Result<()> {
        let place = || -> io::Result<()> {
            fs::rename(&self.path, target)?;
            let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(folder)?.sync_all()
        };
        place().with_context(|| format!("{} can't be written", target.display()))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // No longer exists after `put_in_place`.
        let _ = fs::remove_file(&self.path);
    }
}
