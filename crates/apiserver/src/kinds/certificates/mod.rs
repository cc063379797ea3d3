//! The kinds of certificates.k8s.io.

pub(in crate::kinds) mod certificate_signing_request;
