//! Serves an empty server in memory on a loopback port until it is interrupted, for trying clients by hand:
//!
//! ```sh
//! cargo run -p ironclad-apiserver --example serve_memory -- /tmp/plane 6443
//! kubectl --kubeconfig /tmp/plane/kubeconfig get namespaces
//! ```

use std::path::PathBuf;

use ironclad_apiserver::{Options, Server, pki};
use ironclad_seam::Seam;
use ironclad_store::{Commit, Engine, MemoryBackend};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(dir), Some(port)) = (arguments.next().map(PathBuf::from), arguments.next()) else {
        return Err("usage: serve_memory <directory> <port>".into());
    };
    let seam = Seam::system("plane");
    let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Thread, seam.clock.clone())?;
    let server = Server::open(Options::default(), engine.store("plane"), seam.clone()).await?;
    let pki = pki::Pki::load_or_create(&dir.join("pki"), &seam, "plane")?;
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let url = format!("https://{}", listener.local_addr()?);
    pki::write_private(&dir.join("kubeconfig"), pki::kubeconfig(&[pki.admin_context("plane", &url)]).as_bytes())?;
    println!("ready {url}");
    server.serve(listener, pki.server_config()?).await?;
    Ok(())
}
