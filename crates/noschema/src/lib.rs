//! A derive macro `JsonSchema` that derives nothing.
//!
//! The types of `ironclad-api` derive `JsonSchema`. With its feature `schema` that macro is the one of schemars,
//! otherwise this one, so that neither their `derive` nor their `#[schemars(…)]` attributes depend on the feature.

use proc_macro::TokenStream;

/// Accepts the attributes of the macro of that name in schemars, and ignores them.
#[proc_macro_derive(JsonSchema, attributes(schemars))]
pub fn nothing(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
