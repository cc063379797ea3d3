//! Quantities of resources: `250m`, `1.5`, `64Mi`, `1e3`.
//!
//! [`Amount`] is the number: exact, `Copy`, ordered, with arithmetic and the canonical form. [`Quantity`] adds the text
//! that a kube-apiserver keeps where it does not canonicalize (specification/apiserver.md 2, 15).
//!
//! Parsing accepts what a kube-apiserver accepts, within three bounds that it does not have: [`TEXT_BYTES_MAX`],
//! [`DIGITS_MAX`] and [`EXPONENT_MAX`]. Nothing here panics on any text, and sums saturate.

#![warn(missing_docs)]

mod amount;
mod parse;
mod quantity;
#[cfg(test)]
mod tests;

pub use self::{
    amount::{Amount, Format},
    parse::{DIGITS_MAX, EXPONENT_MAX, Malformed, QuantityError, TEXT_BYTES_MAX},
    quantity::Quantity,
};
