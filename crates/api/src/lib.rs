//! Our kinds, well-known names and naming functions: the wire contract.
