//! A generic, embedded, Kubernetes-compatible API server over the store.
