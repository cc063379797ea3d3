//! JSON, merge and strategic merge patches and structural schemas, as Kubernetes applies them.
