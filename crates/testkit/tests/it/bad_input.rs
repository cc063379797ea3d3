//! Bad input at the edges of `ironclad up`, each with the message that a user sees.

use std::{fs, path::Path};

use anyhow::ensure;
use ironclad_testkit::binary::{Daemon, free_port, ironclad};

fn up_args(data: &Path, listen: &str) -> Vec<String> {
    [
        "up",
        "--data-dir",
        &data.display().to_string(),
        "--listen",
        listen,
        "--clusters",
        "1",
        "--metrics-bind-address",
        "0",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn listen() -> anyhow::Result<String> {
    Ok(format!("127.0.0.1:{}", free_port()?))
}

/// Runs `up`, which must fail with code 1, and checks that its output contains each of these texts.
async fn fails(data: &Path, listen: &str, says: &[&str]) -> anyhow::Result<()> {
    fails_with(1, data, listen, says).await
}

async fn fails_with(code: i32, data: &Path, listen: &str, says: &[&str]) -> anyhow::Result<()> {
    let output = ironclad(up_args(data, listen)).await?;
    ensure!(output.code == Some(code), "it must fail with code {code}: {output:?}");
    for part in says {
        ensure!(output.stderr.contains(part), "{part:?} is missing in: {}", output.stderr);
    }
    ensure!(!output.stderr.contains("panicked"), "it panicked: {}", output.stderr);
    Ok(())
}

#[tokio::test]
async fn a_port_in_use_is_named_with_the_remedy() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let holder = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    let address = holder.local_addr()?.to_string();
    fails(&dir.path().join("data"), &address, &[&address, "in use", "--listen"]).await
}

#[tokio::test]
async fn a_data_directory_that_is_in_use_is_named() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    let daemon = Daemon::start(up_args(&data, &listen()?)).await?;
    fails(&data, &listen()?, &[&data.display().to_string(), "in use", "--data-dir"]).await?;
    daemon.stop().await
}

#[tokio::test]
async fn a_data_directory_that_cannot_be_written_is_named() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    // A file in place of the directory: refused for root, too, for whom permissions do not count.
    let file = dir.path().join("file");
    fs::write(&file, "not a directory")?;
    let data = file.join("data");
    fails(&data, &listen()?, &[&data.display().to_string(), "--data-dir"]).await
}

#[tokio::test]
async fn an_invalid_address_is_refused() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    fails_with(2, &dir.path().join("data"), "nowhere", &["nowhere", "127.0.0.1:6443"]).await
}

#[tokio::test]
async fn a_flag_that_does_not_exist_is_misuse() -> anyhow::Result<()> {
    let output = ironclad(["up", "--cluster", "3"]).await?;
    ensure!(output.code == Some(2), "{output:?}");
    ensure!(output.stderr.contains("--clusters"), "the right flag is not suggested: {}", output.stderr);
    Ok(())
}

#[tokio::test]
async fn a_kubeconfig_that_is_missing_is_named() -> anyhow::Result<()> {
    let output = ironclad(["run", "--kubeconfig", "/nonexistent/kubeconfig"]).await?;
    ensure!(output.code == Some(1), "{output:?}");
    ensure!(output.stderr.contains("/nonexistent/kubeconfig"), "{}", output.stderr);
    Ok(())
}

#[tokio::test]
async fn invalid_rates_and_thresholds_are_misuse() -> anyhow::Result<()> {
    for (flag, says) in [
        ("--resource-eviction-rate=-1", "--resource-eviction-rate: Invalid value: -1.0: must be non-negative"),
        ("--resource-eviction-rate=NaN", "--resource-eviction-rate: Invalid value: \"NaN\": must be a finite number"),
        (
            "--secondary-resource-eviction-rate=inf",
            "--secondary-resource-eviction-rate: Invalid value: \"inf\": must be a finite",
        ),
        (
            "--unhealthy-cluster-threshold=1.5",
            "--unhealthy-cluster-threshold: Invalid value: 1.5: must be between 0 and 1",
        ),
        ("--large-cluster-num-threshold=-1", "--large-cluster-num-threshold: Invalid value: -1: must be non-negative"),
    ] {
        let output = ironclad(["up", flag, "--data-dir", "/nonexistent/data"]).await?;
        ensure!(output.code == Some(2), "{flag}: {output:?}");
        ensure!(output.stderr.contains(says), "{flag}: {says:?} is missing in {}", output.stderr);
    }
    Ok(())
}
