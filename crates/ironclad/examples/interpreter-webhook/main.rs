//! Interpreter webhook: a server that interprets replicas, status, health and dependencies of a Farm for the control
//! plane.
//!
//! `farms.rs` is about farms; this file serves: TLS, one path, one request body and one response. See
//! docs/tasks/interpret-custom-kinds.md for the protocol, and samples/interpreter-webhook for the kind, a farm, and the
//! configuration.

mod farms;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::{
    Router,
    body::Bytes,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use clap::Parser;
use ironclad_api::config::{ResourceInterpreterContext, ResourceInterpreterWebhookConfiguration};
use k8s_openapi::ByteString;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// The configuration, but for the certificate.
const CONFIGURATION: &str = include_str!("../../../../samples/interpreter-webhook/webhook.yaml");
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// An interpreter webhook for farms.
#[derive(Parser)]
struct Args {
    /// Address to listen on; port 0 is any free one
    #[arg(long, default_value = "127.0.0.1:9443", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// The name or address by which the control plane finds it
    #[arg(long, default_value = "127.0.0.1", value_name = "HOST")]
    host: String,
    /// File to write the configuration to
    #[arg(long, default_value = "farms-webhook.yaml", value_name = "FILE")]
    manifest: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    // A self-signed certificate, which the configuration tells the control plane to trust. In a cluster your issuer
    // would provide one that outlives the process.
    let own = rcgen::generate_simple_self_signed(vec![args.host.clone()])?;
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key.into())?;
    let tcp = TcpListener::bind(args.listen).await.with_context(|| format!("listening on {}", args.listen))?;
    let port = tcp.local_addr()?.port();

    let mut configuration: ResourceInterpreterWebhookConfiguration = serde_saphyr::from_str(CONFIGURATION)?;
    for webhook in &mut configuration.webhooks {
        webhook.client_config.url = Some(format!("https://{}:{port}/interpret", args.host));
        webhook.client_config.ca_bundle = Some(ByteString(own.cert.pem().into_bytes()));
    }
    std::fs::write(&args.manifest, serde_json::to_string_pretty(&configuration)?)
        .with_context(|| format!("writing {}", args.manifest.display()))?;
    println!("ready: kubectl apply -f {}", args.manifest.display());

    let router = Router::new().route("/interpret", post(interpret)).route("/readyz", get(|| async { "ok" }));
    axum::serve(Tls { tcp, tls: TlsAcceptor::from(Arc::new(tls)) }, router).await?;
    Ok(())
}

/// Reads the question, answers it in the same kind of body.
async fn interpret(body: Bytes) -> Response {
    let context: ResourceInterpreterContext = match serde_json::from_slice(&body) {
        Ok(context) => context,
        Err(error) => {
            return (StatusCode::BAD_REQUEST, format!("no ResourceInterpreterContext: {error}")).into_response();
        }
    };
    let Some(request) = &context.request else { return (StatusCode::BAD_REQUEST, "no question").into_response() };
    let response = farms::answer(request);
    eprintln!("{} {}/{}: {}", request.operation, request.namespace, request.name, response.successful);
    let answer = ResourceInterpreterContext { response: Some(response), ..ResourceInterpreterContext::default() };
    match serde_json::to_vec(&answer) {
        Ok(body) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// A listener that speaks TLS.
struct Tls {
    tcp: TcpListener,
    tls: TlsAcceptor,
}

impl axum::serve::Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = axum::serve::Listener::accept(&mut self.tcp).await;
            // A client that does not finish the handshake must not delay the others for long.
            if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_MAX, self.tls.accept(stream)).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}
