//! JSON, merge and strategic merge patches and structural schemas, as Kubernetes applies them.
//!
//! Everything here is a pure function of JSON values: no IO, no clock, no `async`. Reading, admission, conflict checks
//! and storage belong to the API server.
//!
//! | module | purpose | chapter of specification/apiserver.md |
//! | --- | --- | --- |
//! | [`merge`], [`json`], [`strategic`] | patches | 12 |
//! | [`schema`], [`builtin`] | fields of kinds, and merging of their lists | 28 |
//! | [`decode`] | decoding of bodies: unknown and duplicate fields, wrong types | 2, 14 |
//! | [`managed`] | field ownership and server-side apply | 13 |
//! | [`structural`] | custom resources: pruning, defaults, validation | 18 |
//! | `cel` (feature) | expressions in schemas and policies | 18, 21 |
//! | [`selector`] | label and field selectors | 10 |
//! | [`names`] | syntax of names and labels | 7 |

#![warn(missing_docs)]

#[cfg(test)]
mod arbitrary;
pub mod builtin;
#[cfg(feature = "cel")]
pub mod cel;
pub mod decode;
pub mod error;
pub mod json;
pub mod managed;
pub mod merge;
pub mod names;
pub mod pointer;
pub mod schema;
pub mod selector;
pub mod strategic;
pub mod structural;

pub use error::{FieldError, PatchError, Reason};
pub use json::{JsonPatch, json_patch};
pub use merge::merge_patch;
pub use pointer::text_at;
