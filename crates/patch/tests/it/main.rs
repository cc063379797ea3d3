//! Replays recorded answers of a real kube-apiserver (recorded by `cargo xtask codegen goldens`).

mod apply;
mod compare;
#[cfg(feature = "cel")]
mod rules;
mod strategic;
mod structural;
