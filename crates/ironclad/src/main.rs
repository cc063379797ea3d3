//! The one binary: flags, wiring and signals; it decides nothing.
fn main() {}
