//! A generic, embedded, Kubernetes-compatible API server over the store.
//!
//! It serves the built-in kinds and whatever CRDs define, over TLS ([`Server::serve`]) and in-process
//! ([`Server::in_process`]), as `specification/apiserver.md` says. It runs no controllers: garbage collection, the life
//! cycle of namespaces and default ServiceAccounts are the work of others, and it knows nothing of this product's
//! kinds.

mod admission;
mod aggregation;
mod answer_budget;
mod api_services;
mod auth;
mod bootstrap;
mod cached;
mod connections;
mod context;
mod conversion;
mod convert;
mod crd;
mod discovery;
mod feature_gates;
mod health;
mod identity;
mod inprocess;
mod kinds;
mod meta;
mod names;
mod negotiate;
mod object;
mod openapi;
mod options;
pub mod pki;
mod policies;
mod protobuf;
mod quota;
mod registry;
mod request;
mod respond;
mod route;
mod schema;
mod select;
mod serve;
mod served;
mod server;
mod state;
mod status;
mod strategy;
mod table;
mod verbs;
mod webhooks;

pub use admission::{Admission, Admitted, Objects, Operation, Review, SideWrite};
pub use aggregation::{
    ApiResource, ForwardAnswer, ForwardBody, ForwardTarget, Forwarder, ServedApi, extra_key, passed_on,
};
pub use auth::{Impersonation, NeededRight, TokenKey};
pub use convert::Converter;
pub use discovery::served_groups;
pub use feature_gates::FeatureGates;
pub use identity::{AUTHENTICATED, Identity, MASTERS, UNAUTHENTICATED};
pub use inprocess::{InProcess, Unreachable};
pub use openapi::{OpenApi, OpenApiVersion};
pub use options::{Bounds, OpenError, Options, ServiceAccountAdmission, Token};
pub use registry::Connects;
pub use respond::ResponseBody;
pub use route::{RequestBody, Route, RouteFuture, Upgrade};
pub use served::{Served, ServedResource};
pub use server::{Server, read_body};
pub use status::{ApiError, Cause, Details};
pub use webhooks::{WebhookAnswer, WebhookCall, WebhookCaller};
