//! JSON, merge and strategic merge patches and structural schemas, as Kubernetes applies them.
//!
//! Everything here is a pure function of JSON values: no IO, no clock, no `async`. What an API server does around it
//! (reading, admission, conflict checks, storing) is not here.
//!
//! | module | what it answers |
//! | --- | --- |
//! | [`merge`], [`json`], [`strategic`] | what does this patch make of that object (apiserver.md 12) |
//! | [`schema`], [`builtin`] | which fields has a kind, and how do its lists merge (28) |
//! | [`decode`] | is this body an object of that kind: unknown and duplicate fields, wrong types (2, 14) |
//! | [`managed`] | who owns which field, and server-side apply (13) |
//! | [`structural`] | the same for custom resources: pruning, defaults, validation (18) |
//! | `cel` (with the feature) | what users' expressions come to: in schemas, in policies (18, 21) |
//! | [`selector`], [`names`] | label and field selectors (10); which texts are names and labels (7) |

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
pub mod schema;
pub mod selector;
pub mod strategic;
pub mod structural;

pub use error::{FieldError, PatchError, Reason};
pub use json::{JsonPatch, json_patch};
pub use merge::merge_patch;
